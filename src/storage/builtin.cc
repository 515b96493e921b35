// The drivers there are. To add one: its constant here and in the table, its file in
// CMakeLists.txt.
#include "storage/store.h"

namespace forebay::storage {

extern const Driver kDirect;
extern const Driver kFaulty;
extern const Driver kLocal;
extern const Driver kMemory;
extern const Driver kNull;
extern const Driver kS3;
extern const Driver kSlow;
extern const Driver kUring;

std::span<const Driver* const> builtin_drivers() {
  static constexpr const Driver* kDrivers[] = {&kDirect, &kFaulty, &kLocal, &kMemory,
                                               &kNull,   &kS3,     &kSlow,  &kUring};
  return kDrivers;
}

}  // namespace forebay::storage

// libFuzzer entry for example; see targets.h.
#include <cstdint>

#include "targets.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  forebay::fuzz::fuzz_example(std::as_bytes(std::span(data, size)));
  return 0;
}

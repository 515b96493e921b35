#include "emulate/state_payload.h"

#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/random.h"

namespace forebay::emulate {
namespace {

constexpr uint64_t kBlockBytes = 4096;

}  // namespace

StatePayload::StatePayload(uint64_t seed, bool is_random, uint64_t bytes_max)
    : is_random_(is_random),
      bytes_max_(bytes_max),
      memory_(sys::allocate_large(bytes_max + kBlockBytes)) {
  void* front = memory_.get();
  size_t room = bytes_max + kBlockBytes;
  begin_ = static_cast<std::byte*>(std::align(kBlockBytes, bytes_max, front, room));
  if (is_random)
    base::Random(seed).fill({begin_, bytes_max});
  else
    std::memset(begin_, 1, bytes_max);
}

std::span<const std::byte> StatePayload::piece(uint64_t identity, uint64_t begin, uint64_t bytes) {
  FB_CHECK(bytes <= bytes_max_ && begin % kBlockBytes == 0);
  for (uint64_t at = 0; is_random_ && at + sizeof(uint64_t) <= bytes; at += kBlockBytes) {
    const uint64_t stamp = base::derive_seed(identity, begin + at);
    std::memcpy(begin_ + at, &stamp, sizeof stamp);
  }
  return {begin_, bytes};
}

}  // namespace forebay::emulate

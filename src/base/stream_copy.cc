#include "base/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace forebay::base {

#ifdef __SSE2__

void stream_copy(std::byte* to, std::span<const std::byte> from) {
  constexpr size_t kLine = 64;
  const size_t inside = reinterpret_cast<uintptr_t>(to) % kLine;
  const size_t head = std::min(from.size(), (kLine - inside) % kLine);
  std::memcpy(to, from.data(), head);
  const std::byte* source = from.data() + head;
  std::byte* target = to + head;
  const std::byte* const end = from.data() + from.size();
  for (; end - source >= static_cast<ptrdiff_t>(kLine); source += kLine, target += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(source);
    auto* out = reinterpret_cast<__m128i*>(target);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();  // such stores are not ordered by locks
  std::memcpy(target, source, static_cast<size_t>(end - source));
}

#else

void stream_copy(std::byte* to, std::span<const std::byte> from) {
  std::memcpy(to, from.data(), from.size());
}

#endif

}  // namespace forebay::base

#include "ops/resample.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace forebay::ops {
namespace {

struct FilterInfo {
  std::string_view name;
  double support;  // half width at a scale of one
};
constexpr std::array<FilterInfo, 5> kFilters{
    {{"nearest", 0}, {"bilinear", 1}, {"area", 0.5}, {"bicubic", 2}, {"lanczos", 3}}};

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double weight_at(Filter filter, double x) {
  const double distance = std::abs(x);
  switch (filter) {
    case Filter::kNearest:
      return 1;
    case Filter::kBilinear:
      return distance < 1 ? 1 - distance : 0;
    case Filter::kArea:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Filter::kBicubic: {  // Keys' cubic with a = -0.5
      constexpr double kA = -0.5;
      if (distance < 1) return ((kA + 2) * distance - (kA + 3)) * distance * distance + 1;
      if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * kA;
      return 0;
    }
    case Filter::kLanczos:
      return distance < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

uint8_t clip(int32_t sum, int shift) {
  return static_cast<uint8_t>(std::clamp(sum >> shift, 0, 255));
}

template <uint32_t kStep>
void row_plain(const Taps& taps, const std::byte* row, uint32_t origin, std::byte* out) {
  const int shift = taps.shift();
  for (uint32_t x = 0; x < taps.outputs(); ++x) {
    const int16_t* weights = taps.weights(x);
    const std::byte* from = row + size_t{taps.first(x) - origin} * kStep;
    std::array<int32_t, kStep> sums;
    sums.fill(1 << (shift - 1));
    for (uint32_t k = 0; k < taps.count(x); ++k)
      for (uint32_t c = 0; c < kStep; ++c)
        sums[c] += static_cast<int32_t>(from[k * kStep + c]) * weights[k];
    for (uint32_t c = 0; c < kStep; ++c) out[x * kStep + c] = std::byte{clip(sums[c], shift)};
  }
}

void column_plain(const Taps& taps, uint32_t output, const std::byte* rows, size_t row_bytes,
                  size_t from, size_t to, std::byte* out) {
  const int32_t* weights = taps.fine(output);
  for (size_t i = from; i < to; ++i) {
    int32_t sum = 1 << (Taps::kFineShift - 1);
    for (uint32_t k = 0; k < taps.count(output); ++k)
      sum += static_cast<int32_t>(rows[k * row_bytes + i]) * weights[k];
    out[i] = std::byte{clip(sum, Taps::kFineShift)};
  }
}

#if defined(__x86_64__)
// Four taps of a four-byte pixel at a time: bytes of two neighbours are put side by side as 16 bits
// so that one multiply-add takes both. Four pixels share their rounding.
class RowAvx2 {
 public:
  __attribute__((target("avx2"))) static void run(const Taps& taps, const std::byte* row,
                                                  uint32_t origin, std::byte* out) {
    if (taps.width() == 4)
      run_all<true>(taps, row, origin, out);
    else
      run_all<false>(taps, row, origin, out);
  }

 private:
  // Products of an output's pixels: taps 0 and 1 in one half, 2 and 3 in the other.
  template <bool kIsOneGroup>
  __attribute__((target("avx2"), always_inline)) static __m256i products(const Taps& taps,
                                                                         const std::byte* row,
                                                                         uint32_t output) {
    const __m256i pairs =
        _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,  //
                         8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    const std::byte* from = row + size_t{taps.first(output)} * 4;
    const int16_t* weights = taps.spread(output);
    const auto four = [&](uint32_t k) __attribute__((target("avx2"), always_inline)) {
      const __m256i pixels = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + size_t{k} * 4)));
      return _mm256_madd_epi16(
          _mm256_shuffle_epi8(pixels, pairs),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + size_t{k} * 4)));
    };
    __m256i sums = four(0);
    if constexpr (!kIsOneGroup)
      for (uint32_t k = 4; k < taps.count(output); k += 4) sums = _mm256_add_epi32(sums, four(k));
    return sums;
  }

  template <bool kIsOneGroup>
  __attribute__((target("avx2"))) static void run_all(const Taps& taps, const std::byte* row,
                                                      uint32_t origin, std::byte* out) {
    const __m256i half = _mm256_set1_epi32(1 << (taps.shift() - 1));
    const __m128i shift = _mm_cvtsi32_si128(taps.shift());
    const uint32_t outputs = taps.outputs();
    row -= size_t{origin} * 4;
    for (uint32_t x = 0; x < outputs; x += 4) {
      const uint32_t left = outputs - x;
      const auto two = [&](uint32_t i) __attribute__((target("avx2"), always_inline)) {
        const __m256i a = products<kIsOneGroup>(taps, row, x + std::min(i, left - 1));
        const __m256i b = products<kIsOneGroup>(taps, row, x + std::min(i + 1, left - 1));
        const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                              _mm256_permute2x128_si256(a, b, 0x31));
        return _mm256_sra_epi32(_mm256_add_epi32(sums, half), shift);
      };
      const __m256i words = _mm256_packs_epi32(two(0), two(2));
      const __m256i bytes = _mm256_packus_epi16(words, words);
      const __m128i pixels =
          _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
      if (left >= 4) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + size_t{x} * 4), pixels);
      } else {
        std::byte last[16];
        _mm_storeu_si128(reinterpret_cast<__m128i*>(last), pixels);
        std::memcpy(out + size_t{x} * 4, last, size_t{left} * 4);
      }
    }
  }
};

// Two rows at a time, sixteen bytes of each. Weights are in two parts, as one has more bits than a
// multiply-add takes; sums may wrap, for the whole does not.
__attribute__((target("avx2"))) size_t column_avx2(const Taps& taps, uint32_t output,
                                                   const std::byte* rows, size_t row_bytes,
                                                   size_t bytes, std::byte* out) {
  const int16_t* weights = taps.fine_parts(output);
  const uint32_t count = taps.count(output);
  const __m256i half = _mm256_set1_epi32(1 << (Taps::kFineShift - 1));
  const auto both = [&](const int16_t* from) __attribute__((target("avx2"), always_inline)) {
    int two;
    std::memcpy(&two, from, sizeof two);
    return _mm256_set1_epi32(two);
  };
  size_t i = 0;
  for (; i + 16 <= bytes; i += 16) {
    __m256i fine[2]{half, half}, coarse[2]{};
    for (uint32_t k = 0; k < count; k += 2) {
      const std::byte* at = rows + k * row_bytes + i;
      const __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
      // An odd last row stands in for the one behind it, whose weight is zero.
      const std::byte* next = k + 1 < count ? at + row_bytes : at;
      const __m256i b =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
      const __m256i pairs[2]{_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)};
      const __m256i low = both(weights + size_t{k} * 2), high = both(weights + size_t{k} * 2 + 2);
      for (int side = 0; side < 2; ++side) {
        fine[side] = _mm256_add_epi32(fine[side], _mm256_madd_epi16(pairs[side], low));
        coarse[side] = _mm256_add_epi32(coarse[side], _mm256_madd_epi16(pairs[side], high));
      }
    }
    for (int side = 0; side < 2; ++side)
      fine[side] = _mm256_srai_epi32(
          _mm256_add_epi32(fine[side], _mm256_slli_epi32(coarse[side], Taps::kPartBits)),
          Taps::kFineShift);
    const __m256i words = _mm256_packs_epi32(fine[0], fine[1]);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0b00001000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_castsi256_si128(packed));
  }
  return i;
}

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}
#else
bool cpu_has_avx2() {
  return false;
}
#endif

// Relaxed: a test sets it before it starts anything.
std::atomic<bool>& fast_is_wanted() {
  static std::atomic<bool> is_wanted{cpu_has_avx2()};
  return is_wanted;
}

template <class T>
T from_sum(float sum) {
  if constexpr (std::is_floating_point_v<T>)
    return sum;
  else
    return static_cast<T>(std::clamp(std::nearbyint(sum), 0.0f, 65535.0f));
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void wide_passes(const ImageView& image, const Taps& horizontal, const Taps& vertical,
                 std::byte* rows, std::byte* out) {
  const size_t channels = image.channels, outputs = horizontal.outputs();
  const size_t row_values = outputs * channels;
  for (uint32_t y = vertical.begin(); y < vertical.end(); ++y) {
    const std::byte* row = image.data + y * image.row_bytes;
    std::byte* to = rows + (y - vertical.begin()) * row_values * sizeof(T);
    for (uint32_t x = 0; x < outputs; ++x)
      for (size_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (uint32_t k = 0; k < horizontal.count(x); ++k)
          sum += horizontal.reals(x)[k] *
                 static_cast<float>(load<T>(
                     row + ((horizontal.first(x) + k) * size_t{image.step} + c) * sizeof(T)));
        const T value = from_sum<T>(sum);
        std::memcpy(to + (x * channels + c) * sizeof(T), &value, sizeof value);
      }
  }
  for (uint32_t y = 0; y < vertical.outputs(); ++y) {
    const std::byte* from = rows + (vertical.first(y) - vertical.begin()) * row_values * sizeof(T);
    for (size_t i = 0; i < row_values; ++i) {
      float sum = 0;
      for (uint32_t k = 0; k < vertical.count(y); ++k)
        sum += vertical.reals(y)[k] *
               static_cast<float>(load<T>(from + (k * row_values + i) * sizeof(T)));
      const T value = from_sum<T>(sum);
      std::memcpy(out + (y * row_values + i) * sizeof(T), &value, sizeof value);
    }
  }
}

}  // namespace

std::optional<Filter> filter_from_name(std::string_view name) {
  for (size_t i = 0; i < kFilters.size(); ++i)
    if (kFilters[i].name == name) return static_cast<Filter>(i);
  return std::nullopt;
}

void Taps::make(const Axis& axis, Filter filter, bool antialias) {
  const auto low = static_cast<int64_t>(std::floor(axis.from));
  const auto high = std::max(low + 1, static_cast<int64_t>(std::ceil(axis.to)));
  const double scale = (axis.to - axis.from) / axis.size;
  const double stretch = antialias ? std::max(scale, 1.0) : 1.0;
  const double support = kFilters[static_cast<size_t>(filter)].support * stretch;
  first_.resize(axis.count);
  counts_.resize(axis.count);
  std::vector<double> centers(axis.count);
  begin_ = UINT32_MAX;
  end_ = 0;
  uint32_t count_max = 1;
  // Pillow's nearest adds up its way along the axis: what falls between two pixels rounds as there.
  double nearest = axis.from + 0.5 * scale;
  for (uint32_t i = 0; i < axis.first; ++i) nearest += scale;
  for (uint32_t i = 0; i < axis.count; ++i, nearest += scale) {
    const double center =
        filter == Filter::kNearest ? nearest : axis.from + (axis.first + i + 0.5) * scale;
    // Pillow's rounding: lround() differs right between two pixels.
    const double left = center - support + 0.5, right = center + support + 0.5;
    int64_t from = std::max(low, static_cast<int64_t>(left));
    int64_t to = std::min(high, static_cast<int64_t>(right));
    if (filter == Filter::kNearest || to <= from) {
      from = std::clamp(static_cast<int64_t>(std::floor(center)), low, high - 1);
      to = from + 1;
    }
    centers[i] = center;
    first_[i] = static_cast<uint32_t>(from);
    counts_[i] = static_cast<uint32_t>(to - from);
    begin_ = std::min(begin_, first_[i]);
    end_ = std::max(end_, static_cast<uint32_t>(to));
    count_max = std::max(count_max, counts_[i]);
  }
  width_ = (count_max + 3) / 4 * 4;
  reals_.assign(size_t{axis.count} * width_, 0);
  fine_.assign(reals_.size(), 0);
  std::vector<double> weights(width_);
  for (uint32_t i = 0; i < axis.count; ++i) {
    double total = 0;
    for (uint32_t k = 0; k < counts_[i]; ++k) {
      weights[k] =
          weight_at(filter, (static_cast<double>(first_[i]) + k - centers[i] + 0.5) / stretch);
      total += weights[k];
    }
    // A single pixel at the rim, or one right between two of them, may have no weight at all.
    if (total == 0) {
      std::fill_n(weights.begin(), counts_[i], 1.0);
      total = counts_[i];
    }
    for (uint32_t k = 0; k < counts_[i]; ++k) {
      const double share = weights[k] / total;
      reals_[size_t{i} * width_ + k] = static_cast<float>(share);
      fine_[size_t{i} * width_ + k] =
          static_cast<int32_t>(share * (1 << kFineShift) + (share < 0 ? -0.5 : 0.5));
    }
  }
  quantise();
}

// As many bits as 16-bit weights hold. The rounding error of an output goes to its largest weight:
// the sum is exact, and so are even surfaces.
void Taps::quantise() {
  float largest = 0;
  for (const float weight : reals_) largest = std::max(largest, std::abs(weight));
  shift_ = 8;
  while (shift_ < 22 &&
         std::ldexp(largest, shift_ + 1) < std::max(16384, 32767 - static_cast<int>(width_)))
    ++shift_;
  weights_.assign(reals_.size(), 0);
  for (size_t i = 0; i < counts_.size(); ++i) {
    int32_t rest = 1 << shift_;
    size_t top = i * width_;
    for (size_t k = i * width_; k < i * width_ + counts_[i]; ++k) {
      weights_[k] = static_cast<int16_t>(std::lround(std::ldexp(reals_[k], shift_)));
      rest -= weights_[k];
      if (weights_[k] > weights_[top]) top = k;
    }
    weights_[top] = static_cast<int16_t>(weights_[top] + rest);
  }
  spread_.resize(weights_.size() * 4);
  for (size_t i = 0; i < spread_.size(); ++i) spread_[i] = weights_[i / 8 * 2 + i % 2];
  fine_parts_.resize(fine_.size() * 2);
  for (size_t i = 0; i < fine_.size(); ++i) {
    const size_t at = i / 2 * 4 + i % 2;
    fine_parts_[at] = static_cast<int16_t>(fine_[i] & ((1 << kPartBits) - 1));
    fine_parts_[at + 2] = static_cast<int16_t>(fine_[i] >> kPartBits);
  }
}

void resample_row(const Taps& taps, const std::byte* row, uint32_t origin, uint32_t step,
                  std::byte* out) {
  switch (step) {
    case 1:
      return row_plain<1>(taps, row, origin, out);
    case 2:
      return row_plain<2>(taps, row, origin, out);
    case 3:
      return row_plain<3>(taps, row, origin, out);
    default:
      break;
  }
  FB_DCHECK(step == 4);
#if defined(__x86_64__)
  if (fast_is_wanted().load(std::memory_order_relaxed)) return RowAvx2::run(taps, row, origin, out);
#endif
  row_plain<4>(taps, row, origin, out);
}

void resample_column(const Taps& taps, uint32_t output, const std::byte* rows, size_t row_bytes,
                     uint32_t origin, size_t bytes, std::byte* out) {
  const std::byte* from = rows + size_t{taps.first(output) - origin} * row_bytes;
  size_t done = 0;
#if defined(__x86_64__)
  if (fast_is_wanted().load(std::memory_order_relaxed))
    done = column_avx2(taps, output, from, row_bytes, bytes, out);
#endif
  column_plain(taps, output, from, row_bytes, done, bytes, out);
}

void resample_wide(const ImageView& image, const Taps& horizontal, const Taps& vertical,
                   std::span<std::byte> rows, std::span<std::byte> out) {
  if (image.type == formats::ElementType::kU16)
    wide_passes<uint16_t>(image, horizontal, vertical, rows.data(), out.data());
  else
    wide_passes<float>(image, horizontal, vertical, rows.data(), out.data());
}

bool has_fast_resample() {
  return cpu_has_avx2();
}
void use_fast_resample(bool is_wanted) {
  fast_is_wanted().store(is_wanted && cpu_has_avx2(), std::memory_order_relaxed);
}

}  // namespace forebay::ops

#include "trace/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace forebay::trace {

namespace {

// Each power of two is cut into 64 equal buckets; values below 64 have one each.
constexpr int kSubBits = 6;
constexpr uint64_t kSubCount = uint64_t{1} << kSubBits;
constexpr size_t kBucketCount = kSubCount + (64 - kSubBits) * kSubCount;

__extension__ using Uint128 = unsigned __int128;

size_t bucket_index(uint64_t value) {
  if (value < kSubCount) return value;
  const int shift = 63 - std::countl_zero(value) - kSubBits;
  return kSubCount * static_cast<size_t>(shift + 1) + ((value >> shift) - kSubCount);
}

uint64_t bucket_low(size_t index) {
  if (index < kSubCount) return index;
  const size_t shift = index / kSubCount - 1;
  return (kSubCount + index % kSubCount) << shift;
}

uint64_t bucket_high(size_t index) {
  return index + 1 == kBucketCount ? UINT64_MAX : bucket_low(index + 1) - 1;
}

}  // namespace

Histogram::Histogram() : counts_(kBucketCount) {}

void Histogram::record_many(uint64_t value, uint64_t count) {
  if (count == 0) return;
  counts_[bucket_index(value)] += count;
  count_ += count;
  const Uint128 product = static_cast<Uint128>(value) * count;
  const auto product_low = static_cast<uint64_t>(product);
  sum_low_ += product_low;
  sum_high_ += static_cast<uint64_t>(product >> 64) + (sum_low_ < product_low ? 1 : 0);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  for (size_t index = 0; index < kBucketCount; ++index) counts_[index] += other.counts_[index];
  count_ += other.count_;
  const uint64_t other_low = other.sum_low_;  // `other` may be *this
  sum_high_ += other.sum_high_;
  sum_low_ += other_low;
  if (sum_low_ < other_low) ++sum_high_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::sum() const {
  return std::ldexp(static_cast<double>(sum_high_), 64) + static_cast<double>(sum_low_);
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : sum() / static_cast<double>(count_);
}

uint64_t Histogram::percentile(double p) const {
  if (count_ == 0) return 0;
  if (!(p > 0)) return min_;
  if (p >= 100) return max_;
  const double wanted = std::ceil(p / 100 * static_cast<double>(count_));
  const auto rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (size_t index = 0; index < kBucketCount; ++index) {
    seen += counts_[index];
    if (seen < rank) continue;
    const uint64_t low = bucket_low(index);
    return std::clamp(low + (bucket_high(index) - low) / 2, min_, max_);
  }
  return max_;
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> filled;
  for (size_t index = 0; index < kBucketCount; ++index) {
    if (counts_[index] == 0) continue;
    filled.push_back({bucket_low(index), bucket_high(index), counts_[index]});
  }
  return filled;
}

std::vector<uint64_t> Histogram::to_words() const {
  std::vector<uint64_t> words{sum_low_, sum_high_, min_, max_};
  for (size_t index = 0; index < kBucketCount; ++index)
    if (counts_[index] != 0) words.insert(words.end(), {index, counts_[index]});
  return words;
}

std::optional<Histogram> Histogram::from_words(std::span<const uint64_t> words) {
  if (words.size() < 4 || words.size() % 2 != 0) return std::nullopt;
  Histogram histogram;
  for (size_t i = 4; i < words.size(); i += 2) {
    if (words[i] >= kBucketCount) return std::nullopt;
    histogram.counts_[words[i]] += words[i + 1];
    histogram.count_ += words[i + 1];
  }
  histogram.sum_low_ = words[0];
  histogram.sum_high_ = words[1];
  histogram.min_ = words[2];
  histogram.max_ = words[3];
  return histogram;
}

}  // namespace forebay::trace

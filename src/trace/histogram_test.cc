#include "trace/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/random.h"

namespace forebay::trace {
namespace {

TEST(Histogram, IsAllZeroWhenEmpty) {
  const Histogram empty;
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.mean(), 0);
  EXPECT_EQ(empty.min(), 0u);
  EXPECT_EQ(empty.max(), 0u);
  EXPECT_EQ(empty.percentile(50), 0u);
  EXPECT_TRUE(empty.buckets().empty());
}

TEST(Histogram, CountsSmallValuesExactly) {
  Histogram histogram;
  for (uint64_t value = 0; value < 128; ++value) histogram.record(value);
  const auto buckets = histogram.buckets();
  ASSERT_EQ(buckets.size(), 128u);
  for (uint64_t value = 0; value < 128; ++value) {
    EXPECT_EQ(buckets[value].low, value);
    EXPECT_EQ(buckets[value].high, value);
    EXPECT_EQ(buckets[value].count, 1u);
  }
  EXPECT_EQ(histogram.percentile(50), 63u);
  EXPECT_EQ(histogram.percentile(0), 0u);
  EXPECT_EQ(histogram.percentile(100), 127u);
}

TEST(Histogram, BucketsCoverEveryValueWithoutOverlap) {
  Histogram histogram;
  // The edges of every power of two.
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    histogram.record(power - 1);
    histogram.record(power);
  }
  histogram.record(UINT64_MAX);
  uint64_t next = 0;
  uint64_t total = 0;
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    EXPECT_GE(bucket.low, next);
    EXPECT_GE(bucket.high, bucket.low);
    EXPECT_LE(static_cast<double>(bucket.high - bucket.low),
              0.016 * static_cast<double>(bucket.low));
    next = bucket.high == UINT64_MAX ? bucket.high : bucket.high + 1;
    total += bucket.count;
  }
  EXPECT_EQ(next, UINT64_MAX);
  EXPECT_EQ(total, 129u);
  EXPECT_EQ(histogram.max(), UINT64_MAX);
  EXPECT_EQ(histogram.percentile(100), UINT64_MAX);
}

TEST(Histogram, PercentilesAreWithinTwoPercentOfTheSortedValues) {
  const char* text = std::getenv("FOREBAY_SEED");
  const uint64_t seed = text == nullptr ? 7 : std::strtoull(text, nullptr, 10);
  SCOPED_TRACE(seed);
  base::Random random(seed);
  for (const double scale : {10.0, 1e4, 1e9, 1e15}) {
    Histogram histogram;
    std::vector<uint64_t> values;
    for (int i = 0; i < 20000; ++i) {
      values.push_back(static_cast<uint64_t>(random.exponential() * scale));
      histogram.record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double p : {0.1, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
      const auto rank = static_cast<size_t>(std::ceil(p / 100 * 20000));
      const auto truth = static_cast<double>(values[rank - 1]);
      EXPECT_NEAR(static_cast<double>(histogram.percentile(p)), truth, truth * 0.008 + 1e-9)
          << "p" << p << " scale " << scale;
    }
    EXPECT_EQ(histogram.min(), values.front());
    EXPECT_EQ(histogram.max(), values.back());
  }
}

TEST(Histogram, MergeEqualsRecordingEverythingInOne) {
  base::Random random(11);
  Histogram all, first, second;
  for (int i = 0; i < 5000; ++i) {
    const uint64_t value = random.next() >> random.below(64);
    all.record(value);
    (i % 3 == 0 ? first : second).record(value);
  }
  first.merge(second);
  first.merge(Histogram());
  EXPECT_EQ(first.count(), all.count());
  EXPECT_DOUBLE_EQ(first.sum(), all.sum());
  EXPECT_EQ(first.min(), all.min());
  EXPECT_EQ(first.max(), all.max());
  EXPECT_EQ(first.percentile(99), all.percentile(99));
}

TEST(Histogram, MergeWithItselfDoubles) {
  Histogram histogram;
  histogram.record_many(UINT64_MAX, 3);
  histogram.merge(histogram);
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_DOUBLE_EQ(histogram.mean(), static_cast<double>(UINT64_MAX));
}

TEST(Histogram, SumsPastSixtyFourBits) {
  Histogram histogram;
  histogram.record_many(uint64_t{1} << 62, 16);
  histogram.record_many(0, 0);
  EXPECT_DOUBLE_EQ(histogram.sum(), std::ldexp(1.0, 66));
  EXPECT_DOUBLE_EQ(histogram.mean(), std::ldexp(1.0, 62));
}

TEST(Histogram, WordsCarryAllOfIt) {
  Histogram histogram;
  histogram.record(3);
  histogram.record_many(1'000'003, 7);
  histogram.record(UINT64_MAX);
  const auto words = histogram.to_words();
  const auto back = Histogram::from_words(words);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->to_words(), words);
  EXPECT_EQ(back->count(), 9u);
  EXPECT_EQ(back->sum(), histogram.sum());
  EXPECT_EQ(back->percentile(50), histogram.percentile(50));
  EXPECT_EQ(Histogram::from_words(Histogram().to_words())->count(), 0u);
  EXPECT_FALSE(Histogram::from_words(std::vector<uint64_t>{1, 2, 3}));
  EXPECT_FALSE(Histogram::from_words(std::vector<uint64_t>{0, 0, 0, 0, 1 << 20, 1}));
}

}  // namespace
}  // namespace forebay::trace

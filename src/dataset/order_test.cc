// Orders against a naive model: every one must be a permutation with an exact inverse, shuffle
// well, and give the same values on every run. FOREBAY_SEED replays a failing property.
#include "dataset/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"

namespace forebay::dataset {
namespace {

uint64_t property_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("FOREBAY_SEED");
    const uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 10) : 20240607;
    ::testing::Test::RecordProperty("seed", std::to_string(value));
    return value;
  }();
  return seed;
}

Order full(uint64_t count, uint64_t seed) {
  return Order::make({.kind = OrderKind::kFull, .sample_count = count, .seed = seed}).take();
}

Order windowed(uint64_t count, uint64_t seed, uint64_t shard, uint64_t window) {
  return Order::make({.kind = OrderKind::kWindowed,
                      .sample_count = count,
                      .seed = seed,
                      .shard_samples = shard,
                      .window_shards = window})
      .take();
}

std::vector<uint64_t> all_of(const Order& order, uint64_t epoch) {
  std::vector<uint64_t> samples(order.sample_count());
  for (uint64_t p = 0; p < samples.size(); ++p) samples[p] = order.sample_at(epoch, p);
  return samples;
}

// True when every sample below the count comes exactly once; `seen` is scratch.
bool is_permutation_of_all(const Order& order, uint64_t epoch, std::vector<uint8_t>& seen) {
  const uint64_t count = order.sample_count();
  seen.assign(count, 0);
  for (uint64_t p = 0; p < count; ++p) {
    const uint64_t sample = order.sample_at(epoch, p);
    if (sample >= count || seen[sample] != 0) return false;
    seen[sample] = 1;
  }
  return true;
}

bool inverse_is_exact(const Order& order, uint64_t epoch, uint64_t position) {
  return order.position_of(epoch, order.sample_at(epoch, position)) == position;
}

TEST(Order, SequentialCountsUp) {
  const Order order = Order::make({.sample_count = 5}).take();
  EXPECT_THAT(all_of(order, 3), ::testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(order.position_of(3, 4), 4u);
}

TEST(Order, RefusesEmptyShardsAndWindowsAndTooManySamples) {
  const auto code = [](OrderOptions options) { return Order::make(options).error().code; };
  EXPECT_EQ(code({.kind = OrderKind::kWindowed, .sample_count = 9, .shard_samples = 0}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = OrderKind::kWindowed, .sample_count = 9, .window_shards = 0}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = OrderKind::kFull, .sample_count = UINT64_MAX}),
            ErrorCode::kInvalidArgument);
}

TEST(OrderProperty, FullIsAPermutationForEverySizeUpTo10000) {
  std::vector<uint8_t> seen;
  base::Random random(property_seed());
  for (uint64_t count = 0; count <= 10000; ++count) {
    const Order order = full(count, property_seed() + count);
    ASSERT_TRUE(is_permutation_of_all(order, count % 7, seen))
        << "size " << count << ", FOREBAY_SEED=" << property_seed();
    for (int i = 0; i < 20 && count > 0; ++i)
      ASSERT_TRUE(inverse_is_exact(order, 1, random.below(count)))
          << "size " << count << ", FOREBAY_SEED=" << property_seed();
  }
}

TEST(OrderProperty, FullInverseIsExactForEverySampleOfSmallSizes) {
  for (uint64_t count = 0; count <= 600; ++count) {
    const Order order = full(count, property_seed() ^ count);
    for (uint64_t p = 0; p < count; ++p)
      ASSERT_TRUE(inverse_is_exact(order, 2, p)) << "size " << count << " position " << p;
  }
}

TEST(OrderProperty, FullInverseIsExactNearPowersOfTwo) {
  base::Random random(property_seed());
  for (int k = 1; k <= 62; ++k) {
    for (int delta = -1; delta <= 1; ++delta) {
      const uint64_t count = (uint64_t{1} << k) + static_cast<uint64_t>(delta);
      if (count > Permutation::kCountMax) continue;
      const Order order = full(count, property_seed());
      for (int i = 0; i < 300; ++i) {
        const uint64_t position = i == 0 ? 0 : i == 1 ? count - 1 : random.below(count);
        ASSERT_LT(order.sample_at(5, position), count);
        ASSERT_TRUE(inverse_is_exact(order, 5, position))
            << "size " << count << ", FOREBAY_SEED=" << property_seed();
      }
    }
  }
}

TEST(OrderProperty, WindowedIsAPermutationWithExactInverseForOddShardsAndWindows) {
  std::vector<uint8_t> seen;
  base::Random random(property_seed());
  const auto check = [&](uint64_t count, uint64_t shard, uint64_t window) {
    const Order order = windowed(count, random.next(), shard, window);
    ASSERT_TRUE(is_permutation_of_all(order, 1, seen))
        << count << "/" << shard << "/" << window << ", FOREBAY_SEED=" << property_seed();
    for (uint64_t p = 0; p < count; p += 1 + count / 64)
      ASSERT_TRUE(inverse_is_exact(order, 1, p))
          << count << "/" << shard << "/" << window << ", FOREBAY_SEED=" << property_seed();
  };
  for (uint64_t count = 0; count <= 24; ++count)
    for (uint64_t shard = 1; shard <= 9; ++shard)
      for (uint64_t window = 1; window <= 7; ++window) check(count, shard, window);
  for (uint64_t count = 25; count <= 10000; count += 1 + random.below(40))
    check(count, 1 + random.below(90), 1 + random.below(20));
  check(1000, UINT64_MAX, UINT64_MAX);
}

TEST(OrderProperty, WindowedInverseIsExactForHugeCounts) {
  base::Random random(property_seed());
  for (int k = 10; k <= 62; ++k) {
    const uint64_t count = (uint64_t{1} << k) - random.below(9);
    const Order order = windowed(count, 9, 1 + random.below(5000), 1 + random.below(100));
    for (int i = 0; i < 200; ++i) {
      const uint64_t position = random.below(count);
      ASSERT_LT(order.sample_at(0, position), count);
      ASSERT_TRUE(inverse_is_exact(order, 0, position))
          << "size " << count << ", FOREBAY_SEED=" << property_seed();
    }
  }
}

// Positions are canonical, so any number of ranks that stripe them reads each sample once.
TEST(OrderProperty, ManyAtOnceAreTheSamplesOneByOne) {
  for (const OrderKind kind :
       {OrderKind::kSequential, OrderKind::kFull, OrderKind::kWindowed, OrderKind::kResident})
    for (const uint64_t count : {1, 2, 97, 250})
      for (const uint64_t shard : {1, 3, 10, 200})
        for (const uint64_t window : {1, 2, 7, 400}) {
          const Order order = *Order::make({.kind = kind,
                                            .sample_count = count,
                                            .seed = 9,
                                            .shard_samples = shard,
                                            .window_shards = window,
                                            .resident_samples = shard * window});
          for (const uint64_t length : {uint64_t{0}, uint64_t{1}, count / 2, count})
            for (uint64_t first = 0; first + length <= count; first += 1 + count / 5) {
              std::vector<uint64_t> many(length);
              order.samples_at(3, first, many);
              for (uint64_t i = 0; i < length; ++i)
                ASSERT_EQ(many[i], order.sample_at(3, first + i))
                    << count << " " << shard << " " << window << " from " << first;
            }
        }
}

TEST(OrderProperty, RanksThatStripePositionsCoverEachSampleOnce) {
  const Order order = windowed(1009, property_seed(), 17, 4);
  for (uint64_t ranks = 1; ranks <= 16; ++ranks) {
    std::vector<int> uses(1009, 0);
    for (uint64_t rank = 0; rank < ranks; ++rank)
      for (uint64_t p = rank; p < 1009; p += ranks) ++uses[order.sample_at(4, p)];
    EXPECT_THAT(uses, ::testing::Each(1)) << ranks << " ranks";
  }
}

TEST(Order, WindowedReadsEachWindowFromItsOwnShardsOnly) {
  const Order order = windowed(95, 3, 10, 3);  // 10 shards, the last holds 5; windows of 3, 3, 3, 1
  std::set<uint64_t> shards_used;
  uint64_t position = 0;
  for (const size_t shards_here : {3, 3, 3, 1}) {
    std::map<uint64_t, uint64_t> samples_of;
    uint64_t expected = 0;
    do {
      const uint64_t shard = order.sample_at(0, position++) / 10;
      if (samples_of[shard]++ == 0) expected += shard == 9 ? 5 : 10;
    } while (position < 95 && (samples_of.size() < shards_here ||
                               std::accumulate(samples_of.begin(), samples_of.end(), uint64_t{0},
                                               [](uint64_t sum, const auto& entry) {
                                                 return sum + entry.second;
                                               }) < expected));
    EXPECT_EQ(samples_of.size(), shards_here);
    for (const auto& entry : samples_of)
      EXPECT_TRUE(shards_used.insert(entry.first).second) << "shard " << entry.first << " twice";
  }
  EXPECT_EQ(shards_used.size(), 10u);
}

TEST(Order, EpochsDifferUnlessToldNotTo) {
  for (const OrderKind kind : {OrderKind::kFull, OrderKind::kWindowed}) {
    OrderOptions options{
        .kind = kind, .sample_count = 500, .seed = 1, .shard_samples = 20, .window_shards = 5};
    const Order changing = Order::make(options).take();
    EXPECT_NE(all_of(changing, 0), all_of(changing, 1));
    options.change_each_epoch = false;
    const Order fixed = Order::make(options).take();
    EXPECT_EQ(all_of(fixed, 7), all_of(changing, 0));
    EXPECT_EQ(fixed.position_of(7, 123), changing.position_of(0, 123));
  }
}

// The values are part of the promise: a seed recorded with a result replays the same order later.
TEST(Order, SeedGivesTheSameOrderOnEveryRun) {
  EXPECT_THAT(all_of(full(10, 42), 0), ::testing::ElementsAre(4, 2, 3, 7, 0, 9, 8, 5, 1, 6));
  EXPECT_THAT(all_of(windowed(11, 42, 3, 2), 1),
              ::testing::ElementsAre(8, 9, 10, 6, 7, 0, 3, 2, 4, 1, 5));
  const Order large = full(1'000'000'007, 42);
  EXPECT_THAT((std::vector{large.sample_at(0, 0), large.sample_at(0, 1), large.sample_at(9, 0)}),
              ::testing::ElementsAre(894845412, 200267789, 90019999));
}

// 99.9 % quantile of chi-square by Wilson and Hilferty.
double chi_square_limit(double degrees) {
  const double c = 2 / (9 * degrees);
  return degrees * std::pow(1 - c + 3.09 * std::sqrt(c), 3);
}

TEST(OrderStatistics, EveryOrderOfAFewSamplesIsEquallyLikely) {
  for (const uint64_t count : {2, 3, 4, 5, 6}) {
    const auto orders = static_cast<size_t>(std::lround(std::tgamma(count + 1)));
    const double expected = 200;
    std::map<std::vector<uint64_t>, double> uses;
    for (uint64_t seed = 0; seed < orders * 200; ++seed) ++uses[all_of(full(count, seed), 0)];
    ASSERT_EQ(uses.size(), orders);
    double chi_square = 0;
    for (const auto& entry : uses)
      chi_square += (entry.second - expected) * (entry.second - expected) / expected;
    EXPECT_LT(chi_square, chi_square_limit(static_cast<double>(orders - 1))) << count;
  }
}

TEST(OrderStatistics, EverySampleIsEquallyLikelyAtEveryPosition) {
  const int seeds = 10000;
  std::vector<std::vector<double>> uses(10, std::vector<double>(10, 0));
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Order order = full(10, seed);
    for (uint64_t p = 0; p < 10; ++p) ++uses[p][order.sample_at(0, p)];
  }
  for (uint64_t p = 0; p < 10; ++p) {
    double chi_square = 0;
    for (const double n : uses[p]) chi_square += (n - 1000) * (n - 1000) / 1000;
    EXPECT_LT(chi_square, chi_square_limit(9)) << "position " << p;
  }
}

TEST(OrderStatistics, NeighboursAreUncorrelated) {
  for (const uint64_t count : {300, 10000, 200000}) {
    const Order order = full(count, 11);
    const double mean = (static_cast<double>(count) - 1) / 2;
    double product = 0, square = 0;
    double last = static_cast<double>(order.sample_at(0, 0)) - mean;
    for (uint64_t p = 1; p < count; ++p) {
      const double here = static_cast<double>(order.sample_at(0, p)) - mean;
      product += last * here;
      square += here * here;
      last = here;
    }
    // Four standard deviations of the correlation of independent values.
    EXPECT_LT(std::abs(product / square), 4 / std::sqrt(static_cast<double>(count))) << count;
  }
}

TEST(OrderStatistics, EpochsSharePlacesOnlyByChance) {
  const uint64_t count = 20000;
  const Order order = full(count, 7);
  double same = 0, fixed_points = 0, epochs = 200;
  for (uint64_t epoch = 0; epoch < static_cast<uint64_t>(epochs); ++epoch)
    for (uint64_t p = 0; p < count; p += 10) {
      const uint64_t sample = order.sample_at(epoch, p);
      same += sample == order.sample_at(epoch + 1, p) ? 1 : 0;
      fixed_points += sample == p ? 1 : 0;
    }
  // A tenth of the positions was looked at: Poisson with mean 1/10 per epoch.
  const double mean = epochs / 10;
  EXPECT_NEAR(same, mean, 5 * std::sqrt(mean));
  EXPECT_NEAR(fixed_points, mean, 5 * std::sqrt(mean));
}

TEST(OrderStatistics, NextSeedOrEpochMovesSamplesAsFarAsRandomOnes) {
  const uint64_t count = 4096;
  const auto mean_distance = [&](const Order& a, uint64_t epoch_a, const Order& b,
                                 uint64_t epoch_b) {
    double sum = 0;
    for (uint64_t p = 0; p < count; ++p)
      sum += std::abs(static_cast<double>(a.sample_at(epoch_a, p)) -
                      static_cast<double>(b.sample_at(epoch_b, p)));
    return sum / static_cast<double>(count) / static_cast<double>(count);
  };
  const Order a = full(count, 1), b = full(count, 2);
  EXPECT_NEAR(mean_distance(a, 0, a, 1), 1.0 / 3, 0.02);
  EXPECT_NEAR(mean_distance(a, 0, b, 0), 1.0 / 3, 0.02);
}

double log2_factorial(uint64_t n) {
  double sum = 0;
  for (uint64_t i = 2; i <= n; ++i) sum += std::log2(static_cast<double>(i));
  return sum;
}

TEST(OrderEntropy, IsZeroForSequentialAndOneForFull) {
  EXPECT_EQ(Order::make({.sample_count = 1000}).take().entropy(), 0);
  EXPECT_EQ(full(1000, 0).entropy(), 1);
  EXPECT_EQ(full(1, 0).entropy(), 0);
  EXPECT_EQ(full(0, 0).entropy_of_seed(), 0);
  EXPECT_NEAR(full(1000, 0).entropy_of_seed(), 64 / log2_factorial(1000), 1e-12);
  EXPECT_NEAR(full(5, 0).entropy_of_seed(), 1, 1e-12);
}

TEST(OrderEntropy, OfOneWindowOrOfShardsOfOneSampleIsThatOfFull) {
  EXPECT_NEAR(windowed(100, 0, 7, 1000).entropy(), 1, 1e-12);
  EXPECT_NEAR(windowed(100, 0, 1, 1).entropy(), 1, 1e-12);
}

// Counts the orders that many seeds reach; the formula must name exactly that number.
TEST(OrderEntropy, CountsTheOrdersThatSeedsReach) {
  struct Case {
    uint64_t count, shard, window;
  };
  for (const Case c : {Case{5, 2, 1}, Case{5, 2, 2}, Case{6, 2, 1}, Case{5, 3, 1}, Case{6, 4, 1},
                       Case{5, 1, 2}, Case{7, 3, 1}, Case{6, 1, 4}}) {
    std::set<std::vector<uint64_t>> reached;
    for (uint64_t seed = 0; seed < 15000; ++seed)
      reached.insert(all_of(windowed(c.count, seed, c.shard, c.window), 0));
    const double bits = windowed(c.count, 0, c.shard, c.window).entropy() * log2_factorial(c.count);
    EXPECT_NEAR(static_cast<double>(reached.size()), std::exp2(bits), 1e-6 * std::exp2(bits))
        << c.count << "/" << c.shard << "/" << c.window;
  }
}

TEST(OrderWindowed, WithoutMixingInsideKeepsEachShardInOrder) {
  OrderOptions options;
  options.kind = OrderKind::kWindowed;
  options.sample_count = 47;
  options.shard_samples = 5;
  options.window_shards = 3;
  options.shuffle_within = false;
  options.seed = 3;
  const Order order = *Order::make(options);
  std::vector<uint64_t> firsts;
  for (uint64_t position = 0; position < 47;) {
    const uint64_t first = order.sample_at(0, position);
    ASSERT_EQ(first % 5, 0u);
    firsts.push_back(first / 5);
    for (uint64_t i = 0; i < 5 && first + i < 47; ++i, ++position) {
      EXPECT_EQ(order.sample_at(0, position), first + i);
      EXPECT_EQ(order.position_of(0, first + i), position);
    }
  }
  EXPECT_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
  EXPECT_NEAR(order.entropy(), std::lgamma(11) / std::lgamma(48), 1e-9);
}

TEST(OrderWindowed, WithShardsInOrderMixesInsideWindowsOnly) {
  OrderOptions options;
  options.kind = OrderKind::kWindowed;
  options.sample_count = 47;
  options.shard_samples = 5;
  options.window_shards = 2;
  options.shuffle_shards = false;
  const Order order = *Order::make(options);
  std::vector<uint64_t> seen;
  for (uint64_t position = 0; position < 47; ++position) {
    const uint64_t sample = order.sample_at(4, position);
    EXPECT_EQ(sample / 10, position / 10);
    EXPECT_EQ(order.position_of(4, sample), position);
    seen.push_back(sample);
  }
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end()));
  const double reachable = 4 * std::lgamma(11) + std::lgamma(8);
  EXPECT_NEAR(order.entropy(), reachable / std::lgamma(48), 1e-9);
}

TEST(OrderResident, DrawsFromWhatMemoryHolds) {
  OrderOptions resident;
  resident.kind = OrderKind::kResident;
  resident.sample_count = 100;
  resident.shard_samples = 10;
  resident.resident_samples = 39;  // three whole shards
  OrderOptions windowed = resident;
  windowed.kind = OrderKind::kWindowed;
  windowed.window_shards = 3;
  const Order a = *Order::make(resident), b = *Order::make(windowed);
  for (uint64_t position = 0; position < 100; ++position)
    EXPECT_EQ(a.sample_at(2, position), b.sample_at(2, position));
  EXPECT_EQ(a.entropy(), b.entropy());
}

}  // namespace
}  // namespace forebay::dataset

// Goal: a mixture keeps its proportions exactly, spreads its sources, loses and repeats nothing
// over epochs, and agrees with its own inverse and with a naive model of the draws.
#include "dataset/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace forebay::dataset {
namespace {

Order make_order(uint64_t count, OrderKind kind = OrderKind::kFull, uint64_t seed = 3) {
  return Order::make({.kind = kind, .sample_count = count, .seed = seed, .window_shards = 4})
      .take();
}

Mixture make_mixture(const std::vector<std::pair<uint64_t, double>>& sources,
                     uint64_t epoch_samples = 0, OrderKind kind = OrderKind::kFull) {
  MixtureOptions options{.sources = {}, .epoch_samples = epoch_samples, .seed = 11};
  for (const auto& [count, weight] : sources)
    options.sources.push_back({make_order(count, kind, 3 + options.sources.size()), weight});
  auto made = Mixture::make(std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(made).take();
}

std::vector<uint64_t> epoch_of(const Mixture& mixture, uint64_t epoch) {
  std::vector<uint64_t> samples(mixture.sample_count());
  mixture.samples_at(epoch, 0, samples);
  return samples;
}

std::string message_of(MixtureOptions options) {
  const auto made = Mixture::make(std::move(options));
  return made.ok() ? "accepted" : made.error().message;
}

TEST(Mixture, BySizeVisitsEverySampleOncePerEpoch) {
  const Mixture mixture = make_mixture({{100, 0}, {7, 0}, {1, 0}, {333, 0}});
  EXPECT_EQ(mixture.sample_count(), 441u);
  for (const uint64_t epoch : {0u, 1u, 9u}) {
    const auto samples = epoch_of(mixture, epoch);
    EXPECT_EQ(std::set<uint64_t>(samples.begin(), samples.end()).size(), 441u);
    EXPECT_EQ(*std::max_element(samples.begin(), samples.end()), 440u);
  }
}

TEST(Mixture, SharesAreExactInEveryEpoch) {
  const Mixture mixture = make_mixture({{1000, 0.7}, {500, 0.2}, {50, 0.1}}, 1001);
  // 700.7, 200.2, 100.1: the sample left over goes to the largest remainder.
  EXPECT_EQ(mixture.quota(0), 701u);
  EXPECT_EQ(mixture.quota(1), 200u);
  EXPECT_EQ(mixture.quota(2), 100u);
  for (const uint64_t epoch : {0u, 1u, 2u}) {
    std::map<int, uint64_t> count;
    for (const uint64_t sample : epoch_of(mixture, epoch))
      ++count[sample < 1000 ? 0 : sample < 1500 ? 1 : 2];
    EXPECT_EQ(count[0], 701u);
    EXPECT_EQ(count[1], 200u);
    EXPECT_EQ(count[2], 100u);
  }
}

// Whatever stretch is looked at, each source has its share of it within a few samples.
TEST(Mixture, SourcesAreSpreadEvenly) {
  const Mixture mixture = make_mixture({{9000, 0.5}, {900, 0.3}, {90, 0.15}, {70, 0.05}}, 4000);
  const double shares[] = {0.5, 0.3, 0.15, 0.05};
  for (const uint64_t epoch : {0u, 5u}) {
    const auto samples = epoch_of(mixture, epoch);
    double before[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < samples.size(); ++i) {
      const size_t source = samples[i] < 9000   ? 0
                            : samples[i] < 9900 ? 1
                            : samples[i] < 9990 ? 2
                                                : 3;
      ++before[source];
      for (size_t s = 0; s < 4; ++s)
        ASSERT_LT(std::abs(before[s] - shares[s] * static_cast<double>(i + 1)), 2.5) << i;
    }
  }
}

// A small source goes round several times an epoch, a large one once in several epochs: every
// sample of a permutation comes before any of the next one.
TEST(Mixture, EachSourceHasItsOwnEpochs) {
  const Mixture mixture = make_mixture({{30, 1}, {1000, 1}}, 200);
  std::vector<uint64_t> small, large;
  for (uint64_t epoch = 0; epoch < 30; ++epoch)
    for (const uint64_t sample : epoch_of(mixture, epoch))
      (sample < 30 ? small : large).push_back(sample);
  ASSERT_EQ(small.size(), 3000u);
  ASSERT_EQ(large.size(), 3000u);
  for (size_t round = 0; round < 100; ++round) {
    const std::set<uint64_t> seen(small.begin() + static_cast<ptrdiff_t>(round * 30),
                                  small.begin() + static_cast<ptrdiff_t>(round * 30 + 30));
    EXPECT_EQ(seen.size(), 30u) << round;
  }
  for (size_t round = 0; round < 3; ++round) {
    const std::set<uint64_t> seen(large.begin() + static_cast<ptrdiff_t>(round * 1000),
                                  large.begin() + static_cast<ptrdiff_t>(round * 1000 + 1000));
    EXPECT_EQ(seen.size(), 1000u) << round;
  }
  EXPECT_FALSE(std::equal(small.begin(), small.begin() + 30, small.begin() + 30));
}

TEST(Mixture, AnyStretchIsTheSameAsTheWhole) {
  const Mixture mixture = make_mixture({{40, 3}, {700, 2}, {11, 1}}, 500);
  const auto whole = epoch_of(mixture, 3);
  for (uint64_t first = 0; first < 500; first += 37)
    for (const uint64_t count : {1u, 2u, 40u}) {
      std::vector<uint64_t> part(std::min<uint64_t>(count, 500 - first));
      mixture.samples_at(3, first, part);
      EXPECT_TRUE(
          std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(first)));
    }
}

TEST(Mixture, PositionIsTheInverse) {
  const Mixture mixture = make_mixture({{40, 3}, {700, 2}, {11, 1}, {5, 0.001}}, 500);
  for (const uint64_t epoch : {0u, 1u, 7u}) {
    std::map<uint64_t, uint64_t> first_place;
    const auto samples = epoch_of(mixture, epoch);
    for (uint64_t i = 0; i < samples.size(); ++i) first_place.emplace(samples[i], i);
    for (uint64_t sample = 0; sample < 756; ++sample) {
      const auto position = mixture.position_of(epoch, sample);
      const auto found = first_place.find(sample);
      ASSERT_EQ(position.has_value(), found != first_place.end()) << sample;
      if (position) {
        EXPECT_EQ(*position, found->second) << sample;
      }
    }
  }
}

TEST(Mixture, OneSourceIsItsOrder) {
  const Order order = make_order(1000, OrderKind::kWindowed);
  const Mixture mixture = Mixture::make({.sources = {{order, 0}}}).take();
  std::vector<uint64_t> plain(1000);
  order.samples_at(4, 0, plain);
  EXPECT_EQ(epoch_of(mixture, 4), plain);
  EXPECT_NEAR(mixture.entropy(), order.entropy(), 1e-12);
  EXPECT_EQ(mixture.is_mixed(), order.is_mixed());
}

TEST(Mixture, EntropyKnowsSequentialFromFull) {
  EXPECT_EQ(make_mixture({{100, 0}, {200, 0}}, 0, OrderKind::kSequential).entropy(), 0);
  EXPECT_FALSE(make_mixture({{100, 0}, {200, 0}}, 0, OrderKind::kSequential).is_mixed());
  const double full = make_mixture({{1000, 0}, {1000, 0}}).entropy();
  EXPECT_GT(full, 0.85);
  EXPECT_LT(full, 1);
}

TEST(Mixture, LargeSourcesDoNotOverflow) {
  const uint64_t large = uint64_t{1} << 60;
  const Mixture mixture = make_mixture({{large, 0}, {large, 0}, {3, 0}});
  EXPECT_EQ(mixture.sample_count(), 2 * large + 3);
  std::vector<uint64_t> part(64);
  mixture.samples_at(1'000'000, mixture.sample_count() - 64, part);
  for (const uint64_t sample : part) {
    ASSERT_LT(sample, mixture.sample_count());
    const auto position = mixture.position_of(1'000'000, sample);
    ASSERT_TRUE(position.has_value());
    uint64_t again = 0;
    mixture.samples_at(1'000'000, *position, std::span(&again, 1));
    EXPECT_EQ(again, sample);
  }
}

TEST(Mixture, FingerprintTellsWeightsSeedsAndCountsApart) {
  const uint64_t base = make_mixture({{40, 3}, {700, 2}}, 500).fingerprint();
  EXPECT_EQ(base, make_mixture({{40, 3}, {700, 2}}, 500).fingerprint());
  EXPECT_NE(base, make_mixture({{40, 2}, {700, 2}}, 500).fingerprint());
  EXPECT_NE(base, make_mixture({{40, 3}, {701, 2}}, 500).fingerprint());
  EXPECT_NE(base, make_mixture({{40, 3}, {700, 2}}, 501).fingerprint());
  EXPECT_NE(base, make_mixture({{40, 3}, {700, 2}}, 500, OrderKind::kWindowed).fingerprint());
}

TEST(Mixture, WrongWeightsAreRefused) {
  EXPECT_NE(message_of({}).find("no sources"), std::string::npos);
  const Order order = make_order(5);
  EXPECT_NE(message_of({.sources = {{order, 1}, {order, 0}}}).find("source 1 has no weight"),
            std::string::npos);
  EXPECT_NE(message_of({.sources = {{order, 1}, {order, -1}}}).find("source 1 has weight -1"),
            std::string::npos);
  EXPECT_NE(message_of({.sources = {{order, 1}, {order, NAN}}}).find("source 1 has weight"),
            std::string::npos);
  EXPECT_NE(message_of({.sources = {{make_order(0), 1}}}).find("source 0 has no samples"),
            std::string::npos);
}

}  // namespace
}  // namespace forebay::dataset

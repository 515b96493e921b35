// Goal: stalls from times that are known, by hand-made tables: signs, missing runs, one repeat.
#include "trace/differential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace forebay::trace {
namespace {

using testing::HasSubstr;

DifferentialTimes times_of(std::vector<double> one, std::vector<double> all,
                           std::vector<double> cold, std::vector<double> warm,
                           std::vector<double> hosts = {}) {
  DifferentialTimes times;
  times[RunKind::kOne].seconds = std::move(one);
  times[RunKind::kAll].seconds = std::move(all);
  times[RunKind::kCold].seconds = std::move(cold);
  times[RunKind::kWarm].seconds = std::move(warm);
  times[RunKind::kHosts].seconds = std::move(hosts);
  for (RunTimes& run : times.runs)
    if (!run.is_measured()) run.reason = "not here";
  return times;
}

TEST(DifferentialStalls, AreTheDifferencesOfTheRuns) {
  struct Case {
    double one, all, cold, warm, hosts;
    double interconnect, network, prep, fetch;
  };
  static constexpr Case kCases[] = {
      {0.10, 0.10, 0.10, 0.10, 0.10, 0, 0, 0, 0},
      {0.10, 0.12, 0.30, 0.15, 0.20, 0.02, 0.08, 0.03, 0.15},
      {0.10, 0.19, 0.19, 0.19, 0.95, 0.09, 0.76, 0, 0},
      {0.10, 0.10, 1.00, 0.10, 0.10, 0, 0, 0, 0.90},
  };
  for (const Case& c : kCases) {
    const DifferentialStalls found = differential_stalls(times_of(
        {c.one, c.one}, {c.all, c.all}, {c.cold, c.cold}, {c.warm, c.warm}, {c.hosts, c.hosts}));
    EXPECT_NEAR(*found[StallKind::kInterconnect].stall.value, c.interconnect, 1e-12);
    EXPECT_NEAR(*found[StallKind::kNetwork].stall.value, c.network, 1e-12);
    EXPECT_NEAR(*found[StallKind::kPrep].stall.value, c.prep, 1e-12);
    EXPECT_NEAR(*found[StallKind::kFetch].stall.value, c.fetch, 1e-12);
    EXPECT_NEAR(*found[StallKind::kNetwork].share_of_baseline, c.network / c.all, 1e-9);
    EXPECT_NEAR(*found[StallKind::kFetch].share_of_baseline, c.fetch / c.warm, 1e-9);
    EXPECT_NEAR(*found[StallKind::kFetch].share_of_step, c.fetch / c.cold, 1e-9);
    EXPECT_NEAR(*found.additivity.error_share, 0, 1e-9);
  }
}

TEST(DifferentialStalls, NegativeOnesAreClampedAndFlagged) {
  // Prep -0.02 in both repeats; fetch -0.01 and +0.03.
  const DifferentialStalls found =
      differential_stalls(times_of({0.1, 0.1}, {0.12, 0.12}, {0.09, 0.13}, {0.10, 0.10}));
  const DifferentialStall& prep = found[StallKind::kPrep];
  EXPECT_EQ(*prep.stall.value, 0);
  EXPECT_NEAR(*prep.difference.value, -0.02, 1e-12);
  EXPECT_TRUE(prep.is_clamped);
  EXPECT_TRUE(prep.is_negative_beyond_noise);
  EXPECT_EQ(prep.stall.interval->high, 0);
  EXPECT_NEAR(prep.difference.interval->high, -0.02, 1e-12);

  const DifferentialStall& fetch = found[StallKind::kFetch];
  EXPECT_NEAR(*fetch.stall.value, 0.01, 1e-12);
  EXPECT_FALSE(fetch.is_clamped);
  EXPECT_EQ(fetch.stall.interval->low, 0);
  EXPECT_NEAR(fetch.stall.interval->high, 0.03, 1e-12);
  // T1 + 0.02 + 0 + 0.01 = 0.13 where T3 is 0.11: clamping shows as an error.
  EXPECT_NEAR(*found.additivity.sum, 0.13, 1e-12);
  EXPECT_NEAR(*found.additivity.error_share, 0.02 / 0.11, 1e-9);
}

TEST(DifferentialStalls, NoiseAroundZeroIsNotBeyondNoise) {
  const DifferentialStalls found = differential_stalls(
      times_of({0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}, {0.098, 0.101, 0.099}));
  EXPECT_TRUE(found[StallKind::kPrep].is_clamped);
  EXPECT_FALSE(found[StallKind::kPrep].is_negative_beyond_noise);
}

TEST(DifferentialStalls, OneRepeatHasNoInterval) {
  const DifferentialStalls found = differential_stalls(times_of({0.1}, {0.2}, {0.4}, {0.3}));
  EXPECT_NEAR(*found[StallKind::kPrep].stall.value, 0.1, 1e-12);
  EXPECT_FALSE(found[StallKind::kPrep].stall.interval);
  EXPECT_FALSE(found[RunKind::kOne].interval);
}

TEST(DifferentialStalls, MissingRunsLeaveTheirStallsOutWithTheReason) {
  const DifferentialStalls found = differential_stalls(times_of({0.1}, {0.2}, {}, {0.3}));
  EXPECT_FALSE(found[StallKind::kNetwork].stall.value);
  EXPECT_THAT(found[StallKind::kNetwork].stall.reason, HasSubstr("T5 was not run: not here"));
  EXPECT_FALSE(found[StallKind::kFetch].stall.value);
  EXPECT_TRUE(found[StallKind::kPrep].stall.value);
  EXPECT_FALSE(found[StallKind::kPrep].share_of_step);  // T3 is not known
  EXPECT_FALSE(found.additivity.sum);
  EXPECT_THAT(found.additivity.reason, HasSubstr("T3 was not run"));
}

TEST(DifferentialStalls, WithoutT1TheSumBeginsAtT2) {
  const DifferentialStalls found = differential_stalls(times_of({}, {0.2}, {0.5}, {0.3}));
  EXPECT_FALSE(found[StallKind::kInterconnect].stall.value);
  EXPECT_EQ(found.additivity.from, RunKind::kAll);
  EXPECT_NEAR(*found.additivity.sum, 0.5, 1e-12);
}

TEST(DifferentialStalls, PrepStandsOnT5WhereSeveralHostsReadTheData) {
  const DifferentialStalls found =
      differential_stalls(times_of({0.1}, {0.12}, {0.35}, {0.25}, {0.2}), true);
  EXPECT_NEAR(*found[StallKind::kNetwork].stall.value, 0.08, 1e-12);
  EXPECT_NEAR(*found[StallKind::kPrep].stall.value, 0.05, 1e-12);
  EXPECT_NEAR(*found.additivity.sum, 0.35, 1e-12);
}

TEST(DifferentialStalls, IntervalsPairTheRepeats) {
  // A slow drift that both runs see cancels: their difference is 0.1 in every repeat.
  const DifferentialStalls found =
      differential_stalls(times_of({1, 2, 3}, {1.1, 2.1, 3.1}, {2, 3, 4}, {1.5, 2.5, 3.5}));
  const auto& interval = found[StallKind::kInterconnect].stall.interval;
  EXPECT_NEAR(interval->low, 0.1, 1e-9);
  EXPECT_NEAR(interval->high, 0.1, 1e-9);
  EXPECT_GT(found[RunKind::kOne].interval->high - found[RunKind::kOne].interval->low, 0.5);
}

MeasuredRates rates_of(double compute, double prep, double memory, double cold) {
  MeasuredRates rates;
  rates.compute = {compute, compute};
  rates.prep = {prep, prep};
  rates.fetch_memory = {memory, memory};
  rates.fetch_cold = {cold, cold};
  return rates;
}

TEST(CacheShare, IsTheSmallestThatKeepsUp) {
  // Needs 200/s; cold 100/s, memory 10000/s: x = (1/100 - 1/200) / (1/100 - 1/10000) = 0.50505.
  const CacheShare found = cache_share(rates_of(200, 500, 10'000, 100));
  EXPECT_NEAR(*found.share.value, 0.005 / 0.0099, 1e-9);
  EXPECT_EQ(found.needed_by, "compute");
  const double x = *found.share.value;
  EXPECT_NEAR(1 / (x / 10'000 + (1 - x) / 100), 200, 1e-6);

  EXPECT_EQ(*cache_share(rates_of(200, 500, 10'000, 300)).share.value, 0);  // cold keeps up
  EXPECT_EQ(cache_share(rates_of(500, 200, 10'000, 100)).needed_by, "prep");
}

TEST(CacheShare, SaysThatAllInMemoryIsNotEnough) {
  const CacheShare found = cache_share(rates_of(200, 500, 150, 100));
  EXPECT_EQ(*found.share.value, 1);
  EXPECT_FALSE(found.is_enough);
  EXPECT_FALSE(cache_share(rates_of(200, 500, 90, 100)).is_enough);  // slower than cold
}

TEST(CacheShare, MissingRatesAreNotGuessed) {
  MeasuredRates rates = rates_of(200, 500, 1000, 100);
  rates.fetch_cold.clear();
  rates.reason = "tmpfs";
  const CacheShare found = cache_share(rates);
  EXPECT_FALSE(found.share.value);
  EXPECT_EQ(found.share.reason, "tmpfs");
  EXPECT_TRUE(found.prep.value);
  EXPECT_EQ(pace_model(found, 8, {}).reason, "tmpfs");
}

TEST(PaceModel, TheSlowestPartSetsThePace) {
  const CacheShare rates = cache_share(rates_of(200, 500, 10'000, 100));
  const PaceModel model = pace_model(rates, 8, Estimate{0.1, "", {}});
  EXPECT_EQ(model.slowest, "fetch");
  EXPECT_NEAR(*model.predicted, 0.08, 1e-12);
  EXPECT_NEAR(*model.error_share, 0.2, 1e-9);
}

}  // namespace
}  // namespace forebay::trace

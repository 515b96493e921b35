// The tuner against stages that are formulas: what it settles on is known beforehand.
#include "loader/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace forebay::loader {
namespace {

// A loader as arithmetic: each stage allows so many samples a second, the smallest counts.
struct Model {
  double read_seconds = 0.05;
  double reads_per_second_max = 1e9;  // bandwidth of the store
  double decode_seconds = 0.001;      // CPU time of a sample
  double cpus = 8;                    // that other programs leave
  double consumer_per_second = 1e9;
  double lost_per_thread = 0;  // share of throughput that each thread after the first costs
  double lost_per_depth = 0;   // share of throughput that each read in flight costs
  double noise = 0;

  TunerWindow run(const TunerSettings& at, int64_t ns, base::Random* random = nullptr) const {
    const double fetch = std::min(at.fetch_depth / read_seconds, reads_per_second_max) *
                         std::max(0.1, 1 - lost_per_depth * at.fetch_depth);
    const double threads = std::min<double>(at.decode_threads, cpus);
    const double decode = threads / decode_seconds;
    double rate = std::min({fetch, decode, consumer_per_second}) *
                  (1 - lost_per_thread * (at.decode_threads - 1));
    const bool waits = rate < consumer_per_second;
    if (random != nullptr) rate *= 1 + noise * (2 * random->uniform() - 1);
    const double seconds = static_cast<double>(ns) * 1e-9;
    TunerWindow window;
    window.ns = ns;
    window.samples = window.reads = static_cast<uint64_t>(rate * seconds);
    window.consumer_wait_ns = waits ? ns * 9 / 10 : 0;
    // Queues before the limiting stage are full, those after it empty.
    const double busy_reads = fetch <= rate * 1.01 ? at.fetch_depth : rate * read_seconds;
    const double busy_threads = decode <= rate * 1.01 ? at.decode_threads : rate * decode_seconds;
    window.fetch_busy_ns = static_cast<int64_t>(busy_reads * static_cast<double>(ns));
    window.decode_busy_ns = static_cast<int64_t>(busy_threads * static_cast<double>(ns));
    return window;
  }
};

TunerSettings settle(Tuner& tuner, const Model& model, int windows,
                     base::Random* random = nullptr) {
  TunerSettings at = tuner.settings();
  for (int i = 0; i < windows; ++i) at = tuner.next(model.run(at, tuner.window_ns(), random));
  return at;
}

TEST(Tuner, GoesToHundredsOfReadsOnAFarStoreInAFewSeconds) {
  Tuner tuner({32, 2}, {512, 8});
  const Model far{.read_seconds = 0.05, .decode_seconds = 0.0001};
  TunerSettings at = tuner.settings();
  int64_t ns = 0;
  while (at.fetch_depth < 512 && ns < 60'000'000'000) {
    const int64_t window = tuner.window_ns();
    at = tuner.next(far.run(at, window));
    ns += window;
  }
  EXPECT_EQ(at.fetch_depth, 512);
  EXPECT_LT(ns, 3'000'000'000);
}

TEST(Tuner, TakesTheThreadsThatDecodingNeedsAndNoReadsBeyond) {
  Tuner tuner({4, 2}, {32, 8});
  const Model heavy{.read_seconds = 0.0002, .decode_seconds = 0.002};
  const TunerSettings at = settle(tuner, heavy, 40);
  EXPECT_EQ(at.decode_threads, 8);
  EXPECT_EQ(at.fetch_depth, 4);
}

TEST(Tuner, FallsBackWhereMoreDoesNotHelp) {
  // Two CPUs are left and the disk is full at a depth of 4.
  const Model full{.read_seconds = 0.004, .reads_per_second_max = 1000, .decode_seconds = 0.0001};
  Tuner tuner({4, 2}, {32, 8});
  int most = 0;
  TunerSettings at = tuner.settings();
  int at_start = 0;
  for (int i = 0; i < 200; ++i) {
    at = tuner.next(full.run(at, tuner.window_ns()));
    most = std::max(most, at.fetch_depth);
    at_start += at.fetch_depth == 4;
  }
  EXPECT_EQ(most, 8) << "one step was tried";
  EXPECT_GT(at_start, 170) << "and seldom again";
  const Model shared{.read_seconds = 0.0002, .decode_seconds = 0.002, .cpus = 2};
  Tuner threads({4, 2}, {32, 8});
  int with_two = 0;
  for (int i = 0; i < 200; ++i)
    with_two +=
        threads.next(shared.run(threads.settings(), threads.window_ns())).decode_threads == 2;
  EXPECT_GT(with_two, 170);
}

TEST(Tuner, FallsBackWhereMoreIsWorse) {
  const Model seeking{.read_seconds = 0.01, .decode_seconds = 0.0001, .lost_per_depth = 0.02};
  Tuner tuner({4, 2}, {64, 4});
  TunerSettings at = tuner.settings();
  double rate = 0, best = 0;
  for (int depth = 4; depth <= 64; depth *= 2)
    best = std::max(best, std::min(depth / 0.01, 1e9) * std::max(0.1, 1 - 0.02 * depth));
  int64_t ns = 0;
  for (int i = 0; i < 300; ++i) {
    const TunerWindow window = seeking.run(at, tuner.window_ns());
    if (i >= 100) {
      rate += static_cast<double>(window.samples);
      ns += window.ns;
    }
    at = tuner.next(window);
  }
  EXPECT_GT(rate / (static_cast<double>(ns) * 1e-9), 0.9 * best);
}

TEST(Tuner, DoesNotGrowForAConsumerThatIsTheBottleneck) {
  const Model slow_consumer{
      .read_seconds = 0.05, .decode_seconds = 0.01, .consumer_per_second = 50};
  Tuner tuner({32, 2}, {512, 8});
  EXPECT_EQ(settle(tuner, slow_consumer, 100), (TunerSettings{32, 2}));
}

TEST(Tuner, RisesAgainWhenConditionsChange) {
  Tuner tuner({32, 2}, {512, 8});
  const Model slow_consumer{.decode_seconds = 0.0001, .consumer_per_second = 100};
  settle(tuner, slow_consumer, 50);
  const Model fast_consumer{.decode_seconds = 0.0001};
  EXPECT_EQ(settle(tuner, fast_consumer, 40).fetch_depth, 512);
}

TEST(Tuner, ComesWithinATenthOfTheBestFixedSettingInNoise) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    base::Random random(seed);
    const Model noisy{.read_seconds = 0.05, .decode_seconds = 0.0005, .noise = 0.04};
    Tuner tuner({32, 2}, {512, 8});
    settle(tuner, noisy, 100, &random);
    const TunerSettings at = tuner.settings();
    const double rate =
        std::min(at.fetch_depth / noisy.read_seconds, at.decode_threads / noisy.decode_seconds);
    EXPECT_GT(rate, 0.9 * std::min(512 / 0.05, 8 / 0.0005)) << "seed " << seed;
  }
}

TEST(Tuner, TakesFewerThreadsThanAtItsStartWhereTheyAreInEachOthersWay) {
  // A fast disk and arrays that are only copied: two threads were kept though one was faster.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    base::Random random(seed);
    const Model copying{.read_seconds = 0.0001,
                        .reads_per_second_max = 3000,
                        .decode_seconds = 0.0001,
                        .lost_per_thread = 0.25,
                        .noise = 0.04};
    Tuner tuner({4, 2}, {32, 2});
    TunerSettings at = tuner.settings();
    int with_one = 0;
    for (int i = 0; i < 200; ++i) {
      at = tuner.next(copying.run(at, tuner.window_ns(), &random));
      with_one += i >= 40 && at.decode_threads == 1;
    }
    EXPECT_GT(with_one, 140) << "of 160, seed " << seed;
  }
}

TEST(Tuner, TakesFewerReadsThanAtItsStartWhereTheyAreInEachOthersWay) {
  const Model seeking{.read_seconds = 0.001,
                      .reads_per_second_max = 500,
                      .decode_seconds = 0.0001,
                      .lost_per_depth = 0.04};
  Tuner tuner({16, 1}, {32, 1});
  TunerSettings at = tuner.settings();
  int low = 0;
  for (int i = 0; i < 200; ++i) {
    TunerWindow window = seeking.run(at, tuner.window_ns());
    window.fetch_busy_ns = window.ns;  // one at a time, whatever is asked for
    at = tuner.next(window);
    low += i >= 60 && at.fetch_depth <= 2;
  }
  EXPECT_GT(low, 120) << "of 140";
}

TEST(Tuner, LosesNextToNothingByTryingFewerThreadsThanAreNeeded) {
  const Model heavy{.read_seconds = 0.0002, .decode_seconds = 0.002, .cpus = 2};
  Tuner tuner({4, 2}, {32, 2});
  TunerSettings at = tuner.settings();
  int with_one = 0;
  for (int i = 0; i < 300; ++i) {
    at = tuner.next(heavy.run(at, tuner.window_ns()));
    with_one += at.decode_threads == 1;
  }
  EXPECT_GE(with_one, 2) << "it was tried";
  EXPECT_LE(with_one, 6);
}

TEST(Tuner, LeavesAloneWhatIsGiven) {
  Tuner tuner({7, 3}, {7, 3}, {7, 3});
  EXPECT_EQ(settle(tuner, Model{}, 50), (TunerSettings{7, 3}));
}

}  // namespace
}  // namespace forebay::loader

// The small pieces everything stands on: results, queue, random numbers, checksums, units, text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/queue.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"

namespace forebay::base {
namespace {

using testing::HasSubstr;

Result<int> half(int x) {
  if (x % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", x);
  return x / 2;
}

Result<int> quarter(int x) {
  const int h = FB_TRY(half(x));
  return FB_TRY(half(h));
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).context("shard 7").error().message, "shard 7: 3 is odd");
}

TEST(Queue, PopDrainsAfterClose) {
  BoundedQueue<int> queue(4);
  std::stop_source stop;
  EXPECT_TRUE(queue.push(1, 0, stop.get_token()));
  EXPECT_TRUE(queue.push(2, 0, stop.get_token()));
  queue.close();
  EXPECT_FALSE(queue.push(3, 0, stop.get_token()));
  EXPECT_EQ(queue.pop(stop.get_token()), 1);
  EXPECT_EQ(queue.pop(stop.get_token()), 2);
  EXPECT_EQ(queue.pop(stop.get_token()), std::nullopt);
}

TEST(Queue, StopReleasesABlockedPush) {
  BoundedQueue<int> queue(1);
  std::stop_source stop;
  ASSERT_TRUE(queue.push(1, 0, stop.get_token()));
  std::jthread pusher([&] { EXPECT_FALSE(queue.push(2, 0, stop.get_token())); });
  stop.request_stop();
}

TEST(Queue, BytesAreBoundedButOneLargeItemPasses) {
  BoundedQueue<int> queue(10, 100);
  std::stop_source stop;
  EXPECT_TRUE(queue.push(1, 1000, stop.get_token()));
  std::jthread pusher([&] { EXPECT_TRUE(queue.push(2, 60, stop.get_token())); });
  EXPECT_EQ(queue.pop(stop.get_token()), 1);
  pusher.join();
  EXPECT_EQ(queue.stats().bytes, 1060u);
}

TEST(Queue, EveryItemArrivesOnceWithFourConsumers) {
  BoundedQueue<int> queue(16);
  std::stop_source stop;
  std::atomic<int64_t> sum = 0, count = 0;
  {
    std::vector<std::jthread> consumers;
    for (int i = 0; i < 4; ++i)
      consumers.emplace_back([&] {
        while (auto item = queue.pop(stop.get_token())) {
          sum += *item;
          ++count;
        }
      });
    for (int i = 0; i < 5000; ++i) ASSERT_TRUE(queue.push(i, 1, stop.get_token()));
    queue.close();
  }
  EXPECT_EQ(count, 5000);
  EXPECT_EQ(sum, 5000ll * 4999 / 2);
}

TEST(Clock, SleepEndsAtAStopRequest) {
  std::stop_source stop;
  std::jthread sleeper([&] {
    const int64_t forever = monotonic_clock().now_ns() + 3'600'000'000'000;
    EXPECT_FALSE(monotonic_clock().sleep_until_ns(forever, stop.get_token()));
  });
  stop.request_stop();
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc, CheckValuesOfTheCatalogue) {
  EXPECT_EQ(crc32(0, bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32c(0, bytes_of("123456789")), 0xe3069283u);
}

TEST(Crc, PiecesGiveTheSameAsTheWhole) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const auto a = bytes_of(text).first(cut), b = bytes_of(text).subspan(cut);
    EXPECT_EQ(crc32(crc32(0, a), b), crc32(0, bytes_of(text)));
    EXPECT_EQ(crc32c(crc32c(0, a), b), crc32c(0, bytes_of(text)));
  }
}

TEST(Random, SameSeedSameNumbers) {
  Random a(7), b(7), c(8);
  std::vector<std::byte> x(1000), y(1000), z(1000);
  a.fill(x);
  b.fill(y);
  c.fill(z);
  EXPECT_EQ(x, y);
  EXPECT_NE(x, z);
}

TEST(Random, MomentsOfTheDistributions) {
  Random random(1);
  constexpr int n = 200000;
  double normal = 0, square = 0, gamma = 0, exponential = 0, poisson = 0, small = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    normal += x;
    square += x * x;
    gamma += random.gamma(2.5);
    small += random.gamma(0.5);
    exponential += random.exponential();
    poisson += static_cast<double>(random.poisson(3.5));
  }
  EXPECT_NEAR(normal / n, 0, 0.01);
  EXPECT_NEAR(square / n, 1, 0.02);
  EXPECT_NEAR(gamma / n, 2.5, 0.03);
  EXPECT_NEAR(small / n, 0.5, 0.02);
  EXPECT_NEAR(exponential / n, 1, 0.02);
  EXPECT_NEAR(poisson / n, 3.5, 0.03);
}

// Values printed by numpy 1.24: numpy.random.RandomState(10).normal(12107, 2822.2, 4).
TEST(NumpyLegacyRandom, DrawsWhatNumpyDraws) {
  NumpyLegacyRandom random(10);
  EXPECT_NEAR(random.normal(12107, 2822.2), 15865.003431954327, 1e-6);
  EXPECT_NEAR(random.normal(12107, 2822.2), 14125.66032154718, 1e-6);
  EXPECT_NEAR(random.normal(12107, 2822.2), 7745.5712956035795, 1e-6);
  EXPECT_NEAR(random.normal(12107, 2822.2), 12083.339098731725, 1e-6);
}

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(24.6e9), "24.6 GB");
  EXPECT_EQ(format_bytes(999.6e6), "1000 MB");
  EXPECT_EQ(format_seconds(0.031), "31.0 ms");
  EXPECT_EQ(format_seconds(125), "2 min 05 s");
  EXPECT_EQ(format_count(1234567), "1 234 567");
  EXPECT_EQ(format_memory(181.0 * 1048576), "181 MiB");
}

TEST(Units, ParsesWhatPeopleWriteAndRefusesTheRest) {
  EXPECT_EQ(*parse_bytes("64KiB"), 65536u);
  EXPECT_EQ(*parse_bytes("1.5 GB"), 1500000000u);
  EXPECT_EQ(*parse_duration_ns("20ms"), 20'000'000);
  EXPECT_EQ(*parse_duration_ns("2"), 2'000'000'000);
  EXPECT_EQ(*parse_fraction("50%"), 0.5);
  EXPECT_THAT(parse_bytes("-1").error().message, HasSubstr("negative"));
  EXPECT_THAT(parse_bytes("5 furlongs").error().message, HasSubstr("furlongs"));
  EXPECT_FALSE(parse_bytes("").ok());
  EXPECT_FALSE(parse_bytes("nan").ok());
  EXPECT_FALSE(parse_bytes("1e30").ok());
  EXPECT_FALSE(parse_int("12x").ok());
}

TEST(Text, SuggestsTheNearestName) {
  const std::string_view known[] = {"uring", "local", "direct"};
  EXPECT_EQ(nearest_name("urng", known), "uring");
  EXPECT_EQ(nearest_name("zzzzzz", known), "");
  EXPECT_EQ(unknown_name_message("storage", "urng", known),
            "no storage named 'urng'; did you mean 'uring'? (known: direct, local, uring)");
}

TEST(Text, OfManyKnownNamesOnlyThoseThatAreAlikeAreListed) {
  std::vector<std::string> names = {"unet3d_a100", "unet3d_h100"};
  for (int i = 0; i < 20; ++i) names.push_back("zzzzzzzzzzzz" + std::to_string(i));
  const std::vector<std::string_view> known(names.begin(), names.end());
  EXPECT_EQ(unknown_name_message("workload", "unet3d", known),
            "no workload named 'unet3d'; those that begin so: unet3d_a100, unet3d_h100");
  EXPECT_EQ(unknown_name_message("workload", "unet3d_h10", known),
            "no workload named 'unet3d_h10'; did you mean 'unet3d_h100'?");
  EXPECT_EQ(unknown_name_message("workload", "umet3d_h100", known),
            "no workload named 'umet3d_h100'; did you mean 'unet3d_h100'?");
}

TEST(Text, GlobMatches) {
  EXPECT_TRUE(glob_matches("*.jp*g", "a/b.jpeg"));
  EXPECT_TRUE(glob_matches("img_[0-9]?.npz", "img_42.npz"));
  EXPECT_FALSE(glob_matches("img_[0-9]?.npz", "img_4x.npy"));
  EXPECT_TRUE(glob_matches("**", ""));
}

}  // namespace
}  // namespace forebay::base

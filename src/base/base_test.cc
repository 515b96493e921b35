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
#include "base/median.h"
#include "base/queue.h"
#include "base/random.h"
#include "base/resample.h"
#include "base/stream_copy.h"
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

TEST(Median, OfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle) {
  EXPECT_EQ(median_of(std::vector<int64_t>{}), 0);
  EXPECT_EQ(median_of(std::vector<int64_t>{7}), 7);
  EXPECT_EQ(median_of(std::vector<int64_t>{9, 1, 5}), 5);
  EXPECT_EQ(median_of(std::vector<int64_t>{40, 10, 20, 1000}), 30);
  EXPECT_EQ(median_of(std::vector<int64_t>{INT64_MAX, INT64_MAX - 2}), INT64_MAX - 1);
  EXPECT_DOUBLE_EQ(median_of(std::vector<double>{4, 1, 3, 2}), 2.5);
}

TEST(StreamCopy, CopiesAnyLengthFromAndToAnyAddress) {
  std::vector<std::byte> from(1000), to(1000);
  Random(1).fill(from);
  for (size_t offset = 0; offset < 70; ++offset) {
    for (const size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 129, 800}) {
      std::fill(to.begin(), to.end(), std::byte{0x55});
      stream_copy(&to[offset], std::span(from).subspan(70 - offset, bytes));
      EXPECT_EQ(std::memcmp(&to[offset], &from[70 - offset], bytes), 0) << offset << " " << bytes;
      EXPECT_EQ(to[offset + bytes], std::byte{0x55}) << offset << " " << bytes;
    }
  }
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_EQ(quarter(6).context("shard 7").error().message, "shard 7: 3 is odd");
}

// A store names the path that failed, and so does every layer above it.
TEST(Result, AskedForWhatItDoesNotHoldItAborts) {
  const Result<int> seven = 7;
  const Result<int> none = fail(ErrorCode::kIo, "no seven");
  const Status fine;
  EXPECT_DEATH((void)seven.error(), "forebay: bug: a result that holds a value");
  EXPECT_DEATH((void)fine.error(), "forebay: bug: a result that holds a value");
  EXPECT_DEATH((void)*none, "forebay: bug: a result that holds an error.*no seven");
}

TEST(Result, ContextNamesAPlaceOnce) {
  const auto in = [](const char* message, const char* what) {
    return Status(Error{ErrorCode::kIo, message}).context(what).error().message;
  };
  EXPECT_EQ(in("img_0: 503", "img_0"), "img_0: 503");
  EXPECT_EQ(in("data set x: img_0: 503", "img_0"), "img_0: data set x: 503");
  EXPECT_EQ(in("/d/train/img_0: no space", "train/img_0"), "/d/train/img_0: no space");
  EXPECT_EQ(in("/d/train/img_0: no space", "/d"), "/d/train/img_0: no space");
  EXPECT_EQ(in("/d/train/img_0: no space", "/d/"), "/d/train/img_0: no space");
  EXPECT_EQ(in("s3://b/k at http://h:1: denied", "s3://b/k"), "s3://b/k at http://h:1: denied");
  EXPECT_EQ(in("local:/d: 3 missing files", "/d"), "local:/d: 3 missing files");
  EXPECT_EQ(in("img_01: 503", "img_0"), "img_0: img_01: 503");
  EXPECT_EQ(in("my_img_0: 503", "img_0"), "img_0: my_img_0: 503");
  EXPECT_EQ(in("img_0", "img_0"), "img_0: img_0");
  EXPECT_EQ(in("3 is odd", "shard"), "shard: 3 is odd");
  EXPECT_EQ(in("", "shard"), "shard: ");
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
  constexpr int kDraws = 200000;
  double normal = 0, square = 0, gamma = 0, exponential = 0, poisson = 0, small = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    normal += x;
    square += x * x;
    gamma += random.gamma(2.5);
    small += random.gamma(0.5);
    exponential += random.exponential();
    poisson += static_cast<double>(random.poisson(3.5));
  }
  EXPECT_NEAR(normal / kDraws, 0, 0.01);
  EXPECT_NEAR(square / kDraws, 1, 0.02);
  EXPECT_NEAR(gamma / kDraws, 2.5, 0.03);
  EXPECT_NEAR(small / kDraws, 0.5, 0.02);
  EXPECT_NEAR(exponential / kDraws, 1, 0.02);
  EXPECT_NEAR(poisson / kDraws, 3.5, 0.03);
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
  EXPECT_EQ(format_counted(0, "reads"), "0 reads");
  EXPECT_EQ(format_counted(1, "epoch starts"), "1 epoch start");
  EXPECT_EQ(format_counted(1, "worker processes"), "1 worker process");
  EXPECT_EQ(format_counted(1, "batches"), "1 batch");
  EXPECT_EQ(format_counted(1, "caches"), "1 cache");
  EXPECT_EQ(format_counted(1, "entries"), "1 entry");
  EXPECT_EQ(format_counted(1234, "reads"), "1 234 reads");
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
  EXPECT_EQ(*parse_bytes_per_second("200 MB/s"), 200000000u);
  EXPECT_EQ(*parse_bytes_per_second("1GiB"), 1u << 30);
  EXPECT_THAT(parse_bytes_per_second("5 furlongs/s").error().message, HasSubstr("furlongs"));
  EXPECT_FALSE(parse_bytes_per_second("/s").ok());
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

TEST(Bootstrap, CoversTheMeanOfFewRepeatsAboutAsOftenAsItSays) {
  Random random(7);
  int covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(5);
    for (double& value : values) value = 3 + random.normal();
    const auto interval = bootstrap_interval(values.size(), [&](std::span<const size_t> chosen) {
      double sum = 0;
      for (const size_t i : chosen) sum += values[i];
      return sum / 5;
    });
    ASSERT_TRUE(interval);
    covered += interval->low <= 3 && 3 <= interval->high ? 1 : 0;
  }
  // Plain percentiles cover 84 % with 5 repeats. 95 % of 200 is 190 with a deviation of 3.
  EXPECT_GE(covered, 0.90 * kTrials);
}

TEST(Bootstrap, NeedsTwoRepeatsAndRepeatsItself) {
  const std::vector<double> values{1, 2, 4, 8};
  const auto first = [&](std::span<const size_t> chosen) { return values[chosen[0]]; };
  EXPECT_FALSE(bootstrap_interval(1, first));
  EXPECT_FALSE(bootstrap_interval(0, first));
  const auto interval = bootstrap_interval(4, first);
  EXPECT_EQ(interval->low, 1);
  EXPECT_EQ(interval->high, 8);
  EXPECT_EQ(bootstrap_interval(4, first)->high, interval->high);
  EXPECT_EQ(mean_of({}), 0);
  EXPECT_EQ(mean_of(values), 3.75);
}

}  // namespace
}  // namespace forebay::base

// No option that makes no sense is taken in silence: each is refused by its name.
#include "checkpoint/option_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "base/test_folder.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {
namespace {

using testing::HasSubstr;

class GroupForTest final : public RankGroup {
 public:
  GroupForTest(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::vector<std::string>> gather(std::string_view, std::stop_token) override {
    return std::vector<std::string>();
  }

 private:
  const int rank_, size_;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kMinusOne = UINT64_MAX;

struct Case {
  const char* named;
  std::function<void(CheckpointOptions&)> change;
};

TEST(CheckOptions, EachSenselessOneIsRefusedByName) {
  const auto rate = [](double value) {
    return Case{"bytes_per_second_max", [value](CheckpointOptions& options) {
                  options.tiers[1].drain_bytes_per_second_max = value;
                }};
  };
  const auto group = [](const char* named, int rank, int size) {
    return Case{named, [rank, size](CheckpointOptions& options) {
                  options.group = std::make_shared<GroupForTest>(rank, size);
                }};
  };
  const std::vector<Case> cases = {
      rate(-1),
      rate(kNan),
      rate(kInfinity),
      rate(-kInfinity),
      {"bytes_per_second_max", [](auto& o) { o.tiers[0].drain_bytes_per_second_max = 1; }},
      {"a place to save to", [](auto& o) { o.tiers.clear(); }},
      {"tiers[1]", [](auto& o) { o.tiers[1].place.clear(); }},
      {"tiers[0] keep", [](auto& o) { o.tiers[0].keep_last = kMinusOne; }},
      {"tiers[1] (/b): keep = 2", [](auto& o) { o.tiers[1].keep_last = 2; }},
      {"keep_last = -1", [](auto& o) { o.keep_last = kMinusOne; }},
      {"keep_every = -1",
       [](auto& o) {
         o.keep_last = 1;
         o.keep_every = kMinusOne;
       }},
      {"keep_every", [](auto& o) { o.keep_every = 5; }},
      {"keep_best = -2",
       [](auto& o) {
         o.keep_last = 1;
         o.keep_best = kMinusOne - 1;
       }},
      {"best_metric",
       [](auto& o) {
         o.keep_last = 1;
         o.keep_best = 1;
       }},
      {"keep_best", [](auto& o) { o.best_metric = "loss"; }},
      {"threads = -1", [](auto& o) { o.threads = -1; }},
      {"threads = 100000", [](auto& o) { o.threads = 100000; }},
      {"chunk_bytes = 0", [](auto& o) { o.chunk_bytes = 0; }},
      {"chunk_bytes = 5000", [](auto& o) { o.chunk_bytes = 5000; }},
      {"shard_bytes_max = 0", [](auto& o) { o.shard_bytes_max = 0; }},
      {"when_busy", [](auto& o) { o.when_busy = static_cast<WhenBusy>(7); }},
      {"compress", [](auto& o) { o.compress = o.share_unchanged = true; }},
      group("rank = 1", 1, 1),
      group("rank = -1", -1, 2),
      group("world_size = 0", 0, 0),
      group("world_size = -3", 0, -3),
  };
  CheckpointOptions sound;
  sound.tiers = {{"/a"}, {"/b"}};
  ASSERT_TRUE(check_options(sound).ok()) << check_options(sound).error().message;
  for (const Case& one : cases) {
    CheckpointOptions options = sound;
    one.change(options);
    const Status checked = check_options(options);
    ASSERT_FALSE(checked.ok()) << one.named;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(checked.error().message, HasSubstr(one.named));
    EXPECT_EQ(Checkpointer::open(options).error().message, checked.error().message);
  }
}

TEST(CheckOptions, WhereRanksMeetIsCheckedToo) {
  const RankAddress sound{
      .rank = 1, .size = 2, .host = "localhost", .port = 9000, .ports = 16, .job = "test"};
  ASSERT_TRUE(check_address(sound).ok());
  const auto refused = [&](const char* named, const std::function<void(RankAddress&)>& change) {
    RankAddress address = sound;
    change(address);
    const auto joined = join_ranks(address);
    ASSERT_FALSE(joined.ok()) << named;
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(joined.error().message, HasSubstr(named));
  };
  refused("rank = 2", [](auto& a) { a.rank = 2; });
  refused("world_size = 0", [](auto& a) { a.size = 0; });
  refused("host", [](auto& a) { a.host.clear(); });
  refused("port = 0", [](auto& a) { a.port = 0; });
  refused("port = 70000", [](auto& a) { a.port = 70000; });
  refused("ports = 0", [](auto& a) { a.ports = 0; });
  refused("join_seconds = nan", [](auto& a) { a.join_seconds = kNan; });
  refused("wait_seconds = -1", [](auto& a) { a.wait_seconds = -1; });
}

TEST(CheckOptions, OnePlaceTwiceIsRefusedHoweverItIsWritten) {
  const base::TestFolder folder("places");
  std::filesystem::create_directories(folder / "run");
  std::filesystem::create_directory_symlink(folder / "run", folder / "link");
  for (const char* same : {"run", "run/", "run/../run", "link", "link/../run", "./run//"}) {
    CheckpointOptions options;
    options.tiers = {{folder / "run"}, {folder / "far"}, {folder / same}};
    const Status checked = check_options(options);
    ASSERT_FALSE(checked.ok()) << same;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(checked.error().message.find("the same place") != std::string::npos ||
                checked.error().message.find("twice") != std::string::npos)
        << checked.error().message;
  }
  CheckpointOptions options;
  options.tiers = {
      {folder / "run"}, {folder / "run/inside"}, {"s3://bucket/run"}, {"s3://other/run"}};
  EXPECT_TRUE(check_options(options).ok()) << check_options(options).error().message;
  options.tiers[3].place = "s3://bucket//run/";
  EXPECT_THAT(check_options(options).error().message, HasSubstr("the same place"));
}

}  // namespace
}  // namespace forebay::checkpoint

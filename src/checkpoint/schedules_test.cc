// Random schedules of saves, power cuts, damage and returns: whatever happens, what is restored is
// a state that was saved, bit for bit, and never older than the newest that was called durable and
// has not been damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "checkpoint/open_on_tiers.h"
#include "checkpoint/power_loss_for_test.h"
#include "checkpoint/state_for_test.h"

namespace forebay::checkpoint {
namespace {

constexpr int kSchedules = 1000, kTurns = 12, kParts = 8;

uint64_t base_seed() {
  const char* const given = std::getenv("FOREBAY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed), disks_(2) {}

  void run() {
    for (int turn = 0; turn < kTurns && !testing::Test::HasFailure(); ++turn) {
      SCOPED_TRACE("turn " + std::to_string(turn));
      job();
      for (DiskForTest& disk : disks_) {
        if (disk.is_off()) disk.lose_power(random_);
        disk.cut_power_at(0);
      }
      const uint64_t chance = random_.below(8);
      if (chance == 0 && disks_[random_.below(2)].damage(random_)) is_damaged_ = true;
      check();
    }
  }

 private:
  std::unique_ptr<Checkpointer> open() {
    CheckpointOptions options;
    std::vector<std::unique_ptr<Tier>> tiers;
    for (DiskForTest& disk : disks_) {
      options.tiers.push_back({"disk " + std::to_string(tiers.size())});
      tiers.push_back(
          Tier::on(std::make_unique<DiskStoreForTest>(disk), options.tiers.back().place));
    }
    options.tiers[0].keep_last = 1 + random_.below(2);
    options.keep_last = 1 + random_.below(3);
    options.keep_every = random_.below(3);
    options.shard_bytes_max = 16 << 10;
    options.chunk_bytes = 4096;
    options.threads = 1;
    options.compress = random_.below(4) == 0;
    options.when_busy = static_cast<WhenBusy>(random_.below(3));
    auto opened = open_on_tiers(std::move(tiers), options);
    return opened.ok() ? std::move(opened).take() : nullptr;
  }

  // A process: saves some steps; the power of one disk may go meanwhile.
  void job() {
    if (random_.below(2) == 0) disks_[random_.below(2)].cut_power_at(1 + random_.below(120));
    const auto saver = open();
    if (!saver) return;
    for (uint64_t i = random_.below(4); i > 0; --i) {
      // Back to an earlier step, from time to time.
      step_ = random_.below(5) == 0 ? random_.below(step_ + 1) : step_ + 1 + random_.below(3);
      StateForTest& state = *states_.emplace_back(std::make_unique<StateForTest>(random_.next()));
      state.add_some();
      state.state.tree = std::to_string(states_.size() - 1);
      const auto saved = saver->save(step_, state.state);
      if (!saved.ok() || saved->was_skipped()) continue;
      if (random_.below(3) > 0 && saved->wait_durable().ok())
        durable_ = std::max(durable_, states_.size());
    }
    if (random_.below(2) == 0) saver->wait().ignore("a disk may be off");
  }

  void check() {
    const auto saver = open();
    ASSERT_NE(saver, nullptr);
    const auto restored = saver->restore();
    if (!restored.ok()) {
      EXPECT_TRUE(durable_ == 0 || is_damaged_) << restored.error().message;
      EXPECT_TRUE(restored.error().code == ErrorCode::kNotFound ||
                  restored.error().code == ErrorCode::kCorruption)
          << restored.error().message;
      return;
    }
    const size_t index = std::stoul(restored->tree);
    ASSERT_LT(index, states_.size());
    EXPECT_TRUE(is_same(*restored, states_[index]->state));
    if (!is_damaged_) {
      EXPECT_GE(index + 1, durable_) << "older than what was called durable";
      EXPECT_TRUE(restored->notes.empty()) << restored->notes.front();
    }
  }

  base::Random random_;
  std::vector<DiskForTest> disks_;
  std::vector<std::unique_ptr<StateForTest>> states_;
  uint64_t step_ = 0;
  size_t durable_ = 0;  // 1 + index of the newest state that was called durable
  bool is_damaged_ = false;
};

class Schedules : public testing::TestWithParam<int> {};  // which part of them

TEST_P(Schedules, NothingTornIsEverRestored) {
  const uint64_t seed = base_seed();
  for (auto i = static_cast<uint64_t>(GetParam()); i < kSchedules && !HasFailure(); i += kParts) {
    SCOPED_TRACE("FOREBAY_SEED=" + std::to_string(seed + i));
    Schedule(seed + i).run();
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, Schedules, testing::Range(0, kParts));

}  // namespace
}  // namespace forebay::checkpoint

// Goal: emulated checkpoints are real ones: every file holds what the arithmetic says, restores
// read and check every byte, of the right rank, and whatever goes wrong leaves the newest whole
// one. Method: small transformers on local folders, in one process or several (threads here), and
// stores that fail at each operation in turn.
#include "emulate/checkpointing.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "cluster/channel_for_test.h"
#include "emulate/metrics.h"
#include "emulate/runner.h"
#include "forebay/checkpoint.h"
#include "sys/page_cache.h"
#include "trace/recorder.h"
#include "trace/testing_memory.h"

namespace forebay::emulate {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two pipeline stages, so that ranks differ in size: the second has no embedding, but a norm more.
const std::vector<std::string> kSmall{"model.num_layers=3",
                                      "model.parallelism.pipeline=2",
                                      "model.parallelism.zero_stage=1",
                                      "model.transformer.hidden_size=64",
                                      "model.transformer.vocab_size=1000",
                                      "model.transformer.num_attention_heads=8",
                                      "model.transformer.num_kv_heads=2",
                                      "model.transformer.ffn_hidden_size=96",
                                      "checkpoint.time_between_checkpoints=0"};

class EmulatedCheckpoints : public testing::Test {
 protected:
  RunRequest request(const std::vector<std::string>& more, int accelerators = 2,
                     cluster::World* world = nullptr) const {
    std::vector<std::string> overrides = kSmall;
    overrides.push_back("checkpoint.checkpoint_folder=" + folder_);
    overrides.insert(overrides.end(), more.begin(), more.end());
    RunRequest made;
    auto resolved = workload::resolve("llama_8b_zero3", overrides);
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    made.resolved = std::move(resolved).value();
    made.options.data = folder_;
    made.options.accelerators = accelerators;
    made.version = "test";
    made.world = world;
    return made;
  }

  static std::vector<std::string> counts(int writes, int reads) {
    return {fmt::format("checkpoint.num_checkpoints_write={}", writes),
            fmt::format("checkpoint.num_checkpoints_read={}", reads)};
  }

  static RunResult run_ok(const RunRequest& asked) {
    Observer observer;
    Result<RunResult> result = run(asked, observer, {});
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->error, "");
    return std::move(result).value();
  }

  static Error error_before(const RunRequest& asked) {
    Observer observer;
    const Result<RunResult> result = run(asked, observer, {});
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }

  // By rank of the process.
  std::vector<RunResult> run_processes(int count, const std::vector<std::string>& more,
                                       int accelerators = 1) const {
    std::vector<RunResult> results(static_cast<size_t>(count));
    std::vector<cluster::TestProcess> processes;
    for (int rank = 0; rank < count; ++rank)
      processes.push_back({fmt::format("host{}", rank / 2), 0});
    cluster::run_processes(processes, [&](cluster::World& world, base::Clock&) {
      Observer observer;
      auto result = run(request(more, accelerators, &world), observer, {});
      ASSERT_TRUE(result.ok()) << result.error().message;
      results[static_cast<size_t>(world.rank())] = std::move(result).value();
      world.close(5);
    });
    return results;
  }

  static checkpoint::Inventory inventory_of(const std::string& place) {
    const auto tier = std::move(checkpoint::Tier::open({place, "local"})).value();
    auto made = checkpoint::take_inventory(*tier);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }

  // All that are there are whole, byte for byte.
  static void expect_whole(const std::string& place) {
    const auto tier = std::move(checkpoint::Tier::open({place, "local"})).value();
    for (const checkpoint::CheckpointEntry& entry : inventory_of(place).checkpoints) {
      EXPECT_EQ(entry.problem, "");
      const auto verified = checkpoint::verify_checkpoint(*tier, entry.name, 1, {}, {});
      ASSERT_TRUE(verified.ok()) << verified.error().message;
      EXPECT_THAT(verified->damage, IsEmpty()) << entry.folder;
    }
  }

  static std::vector<uint64_t> steps_in(const std::string& place) {
    std::vector<uint64_t> steps;  // newest first
    for (const auto& entry : inventory_of(place).checkpoints) steps.push_back(entry.name.step);
    return steps;
  }

  const base::TestFolder own_{"checkpointing"};
  const std::string folder_ = own_ / "saves";
};

std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_F(EmulatedCheckpoints, FilesHoldExactlyWhatTheArithmeticSays) {
  const RunRequest asked = request(counts(2, 0), 4);
  const RunResult result = run_ok(asked);
  const auto states = workload::ModelStates::make(asked.resolved.workload, 4);
  ASSERT_EQ(result.checkpoints.size(), 2u);
  for (const CheckpointRecord& save : result.checkpoints) {
    EXPECT_EQ(save.bytes, states->bytes());
    std::set<std::string> expected{"manifest.json"}, there;
    for (uint64_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(save.ranks.at(rank).bytes, states->bytes_of(rank));
      for (const workload::StateFile& file : states->files_of(rank)) {
        const std::string name = shard_name(file);
        expected.insert(name);
        const auto loaded = load_safetensors(fmt::format("{}/{}/{}", folder_, save.path, name));
        ASSERT_TRUE(loaded.ok()) << loaded.error().message;
        uint64_t bytes = 0;
        for (const RestoredTensor& tensor : loaded->tensors) bytes += tensor.bytes.size();
        EXPECT_EQ(bytes, file.bytes()) << name;
        EXPECT_EQ(loaded->tensors.size(), file.tensors.size()) << name;
        EXPECT_EQ(loaded->tensors[0].element_type,
                  name.find("optim") == name.npos ? "float16" : "float32");
      }
    }
    for (const auto& entry : fs::directory_iterator(folder_ + "/" + save.path))
      there.insert(entry.path().filename());
    EXPECT_EQ(there, expected);
  }
  EXPECT_EQ(result.state.parameters, states->parameters());
  EXPECT_EQ(result.state.files, 4u + 3 + 3);  // 4 optimizers; layers 0..2 and 3..5 of one copy
  expect_whole(folder_);
}

TEST_F(EmulatedCheckpoints, MemoryDoesNotDependOnTheState) {
  const uint64_t small = run_ok(request(counts(1, 0))).state.memory_bytes;
  const RunResult large =
      run_ok(request(joined(counts(1, 0), {"model.transformer.vocab_size=20000"})));
  EXPECT_EQ(large.state.memory_bytes, small);
  EXPECT_EQ(small, 2 * kCheckpointChunkBytes);
}

TEST_F(EmulatedCheckpoints, ProcessesSaveAndRestoreTogether) {
  const std::vector<RunResult> results = run_processes(4, counts(2, 2));
  const RunResult& first = results[0];
  ASSERT_EQ(first.checkpoints.size(), 2u);
  ASSERT_EQ(first.restores.size(), 2u);
  for (const RunResult& result : results) {  // all know the same
    ASSERT_EQ(result.checkpoints.size(), 2u);
    ASSERT_EQ(result.checkpoints[1].ranks.size(), 4u);
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(result.checkpoints[1].ranks[rank].seconds,
                first.checkpoints[1].ranks[rank].seconds);
      EXPECT_EQ(result.restores[1].ranks[rank].bytes, first.restores[1].ranks[rank].bytes);
    }
  }
  expect_whole(folder_);
  const checkpoint::Inventory inventory = inventory_of(folder_);
  ASSERT_EQ(inventory.checkpoints.size(), 2u);
  EXPECT_EQ(inventory.checkpoints[0].world_size, 4u);
  uint64_t read = 0;
  for (const RankCheckpoint& rank : first.restores[0].ranks) read += rank.bytes;
  EXPECT_EQ(read, inventory.checkpoints[0].bytes);  // every stored byte, headers included
}

TEST_F(EmulatedCheckpoints, RankShiftReadsWhatAnotherHostSaved) {
  const std::vector<std::string> shift{"checkpoint.recovery_rank_shift=true"};
  const RunResult plain = run_processes(4, counts(1, 1))[0];
  const RunResult shifted = run_processes(4, joined(counts(1, 1), shift))[0];
  EXPECT_EQ(plain.restores[0].rank_shift, 0u);
  EXPECT_EQ(shifted.restores[0].rank_shift, 2u);  // two ranks a host
  std::set<uint64_t> sizes;
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(shifted.restores[0].ranks[rank].bytes, plain.restores[0].ranks[(rank + 2) % 4].bytes);
    sizes.insert(plain.restores[0].ranks[rank].bytes);
  }
  EXPECT_EQ(sizes.size(), 3u);  // or the shift would not show
  // On one host it is the next rank.
  const RunResult alone = run_ok(request(joined(counts(1, 1), shift), 4));
  EXPECT_EQ(alone.restores[0].rank_shift, 1u);
  EXPECT_EQ(alone.restores[0].ranks[0].bytes, plain.restores[0].ranks[1].bytes);
}

TEST_F(EmulatedCheckpoints, ADamagedByteEndsTheRestoreByName) {
  const RunResult saved = run_ok(request(counts(1, 0)));
  const std::string shard = "zero_pp_rank_0_mp_rank_1_optim_states.safetensors";
  const std::string path = fmt::format("{}/{}/{}", folder_, saved.checkpoints[0].path, shard);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(9000);
  const char was = static_cast<char>(file.get());
  file.seekp(9000);
  file.put(static_cast<char>(was ^ 4));
  file.close();
  Observer observer;
  const Result<RunResult> result = run(request(counts(0, 1)), observer, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_THAT(result->error, AllOf(HasSubstr(shard), HasSubstr("are damaged")));
  EXPECT_THAT(result->restores, IsEmpty());
  EXPECT_EQ(result->verdict.outcome, Verdict::Outcome::kIncomplete);
}

TEST_F(EmulatedCheckpoints, WhatCannotBeRestoredIsNamedBeforeAnythingIsSaved) {
  const Error none = error_before(request(counts(1, 2)));
  EXPECT_EQ(none.code, ErrorCode::kNotFound);
  EXPECT_THAT(none.message,
              AllOf(HasSubstr("checkpoint.num_checkpoints_read = 2"), HasSubstr("none of step 2")));
  EXPECT_FALSE(fs::exists(folder_));
  run_ok(request(counts(2, 0)));
  EXPECT_EQ(run_ok(request(counts(0, 2))).restores.size(), 2u);  // of the earlier run
  Observer observer;
  const auto other = run(request(counts(0, 1), 4), observer, {});
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(other->error, HasSubstr("it was saved by other ranks, or of another model"));
}

TEST_F(EmulatedCheckpoints, WhatWillNotFitIsRefusedAtOnce) {
  const Error error =
      error_before(request(joined(counts(1, 0), {"model.transformer.hidden_size=10000000",
                                                 "model.transformer.ffn_hidden_size=10000000"})));
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted) << error.message;
  EXPECT_THAT(error.message, HasSubstr("will not fit"));
  EXPECT_THAT(error_before(request(counts(1, 0), 3)).message,
              HasSubstr("Set --accelerators to a multiple of 2"));
}

TEST_F(EmulatedCheckpoints, ASubsetSavesItsOwnPart) {
  const std::vector<std::string> subset{"checkpoint.mode=subset", "model.parallelism.data=4"};
  const RunResult result = run_ok(request(joined(counts(1, 1), subset), 3));
  EXPECT_EQ(result.state.ranks_of_all, 8u);
  const auto whole = workload::ModelStates::make(request({}).resolved.workload, 8);
  uint64_t expected = 0;
  for (uint64_t rank = 0; rank < 3; ++rank) expected += whole->bytes_of(rank);
  EXPECT_EQ(result.checkpoints[0].bytes, expected);
  expect_whole(folder_);
}

TEST_F(EmulatedCheckpoints, ANewRunTakesThePlaceOfAnEarlierOneAndOfNothingElse) {
  const std::vector<float> weights{1, 2, 3, 4};
  {  // a real checkpoint of the same step
    CheckpointOptions options;
    options.tiers.push_back({.place = folder_});
    const auto real = std::move(Checkpointer::open(options)).value();
    CheckpointState state;
    state.tensors.push_back({.name = "w",
                             .element_type = "float32",
                             .shape = {4},
                             .bytes = std::as_bytes(std::span(weights))});
    ASSERT_TRUE(real->save(1, state).ok());
    ASSERT_TRUE(real->wait().ok());
  }
  run_ok(request(counts(2, 0)));
  run_ok(request(counts(2, 0)));
  EXPECT_THAT(steps_in(folder_), ElementsAre(2, 1, 1));
  EXPECT_EQ(inventory_of(folder_).checkpoints[2].metadata.count("emulated"), 0u);
}

TEST_F(EmulatedCheckpoints, SavesGoOnToTheOtherTiersAndFreeTheFirst) {
  const std::string fast = own_ / "fast", slow = own_ / "slow";
  const std::string tiers = fmt::format(
      "checkpoint.tiers=[{{place: {}, keep: 1}}, {{place: {}, bytes_per_second_max: 100MB}}]", fast,
      slow);
  const RunResult result = run_processes(2, joined(counts(3, 3), {tiers}))[0];
  EXPECT_THAT(steps_in(fast), ElementsAre(3));
  EXPECT_THAT(steps_in(slow), ElementsAre(3, 2, 1));
  expect_whole(fast);
  expect_whole(slow);
  EXPECT_EQ(result.restores[0].place, slow);
  EXPECT_EQ(result.restores[2].place, fast);
  for (const CheckpointRecord& save : result.checkpoints) {
    for (const RankCheckpoint& rank : save.ranks) {
      ASSERT_TRUE(rank.durable && rank.drained);
      EXPECT_GE(rank.stalled, rank.seconds);
      EXPECT_GE(*rank.drained, *rank.durable);
    }
  }
  EXPECT_EQ(result.save_drain_seconds.n, 6u);
  EXPECT_GE(*result.save_drain_seconds.max, *result.save_drain_seconds.median);
}

// By track and name: how many spans of category checkpoint, and their bytes.
struct Counted {
  int count = 0;
  int64_t bytes = 0;
};

TEST_F(EmulatedCheckpoints, TheTraceHasEachSaveRestoreAndDrainWithItsCalls) {
  const base::TestFolder last("forebay-drained");
  std::vector<std::string> more = counts(2, 1);
  more.push_back(fmt::format("checkpoint.tiers=[{}, {}]", folder_, last.path()));
  RunRequest asked = request(more);
  trace::MemoryFile file;
  trace::Recorder recorder(file.writer(), {.host = "alpha", .process = "test"});
  asked.recorder = &recorder;
  const RunResult result = run_ok(asked);
  ASSERT_TRUE(recorder.finish().ok());
  const trace::Recording recording = file.load();
  const auto key = recording.find_key(trace::key::kBytes, trace::ArgumentType::kInteger);
  ASSERT_TRUE(key.has_value());
  std::map<std::string, Counted> found;
  for (trace::TrackId id = 0; id < recording.dictionary().tracks.size(); ++id) {
    const trace::Track& track = recording.dictionary().tracks[id];
    const auto rows = recording.rows(id);
    const auto bytes = recording.column(*key, id);
    std::vector<int64_t> open;  // ends of the spans around the present one
    for (size_t row = rows.first; row < rows.last; ++row) {
      EXPECT_EQ(recording.name(row).category, trace::Category::kCheckpoint);
      Counted& one =
          found[fmt::format("{} {}", recording.dictionary().text(track), recording.text(row))];
      ++one.count;
      one.bytes += std::max<int64_t>(0, bytes.empty() ? 0 : bytes[row - rows.first]);
      if (track.kind != trace::TrackKind::kDevice) continue;
      while (!open.empty() && open.back() <= recording.start(row)) open.pop_back();
      EXPECT_TRUE(open.empty() || recording.end(row) <= open.back()) << recording.text(row);
      open.push_back(recording.end(row));
    }
  }
  const auto state = static_cast<int64_t>(result.state.bytes);
  const auto files = static_cast<int>(result.state.files);
  EXPECT_EQ(found["accelerator save"].count, 2 * 2);
  EXPECT_EQ(found["accelerator save"].bytes, 2 * state);
  EXPECT_EQ(found["accelerator commit"].count, 2 * 2);
  EXPECT_EQ(found["accelerator fsync"].count, 2 * files);
  EXPECT_EQ(found["accelerator rename"].count, 2 * files);
  EXPECT_GE(found["accelerator write"].bytes, 2 * state);
  EXPECT_EQ(found["accelerator restore"].count, 2);
  EXPECT_EQ(found["accelerator 0 reads read"].bytes + found["accelerator 1 reads read"].bytes,
            found["accelerator restore"].bytes);
  EXPECT_GE(found["accelerator restore"].bytes, state);
  const std::string drain = "drain to " + last.path();
  EXPECT_EQ(found[drain + " drain"].count, 2);
  EXPECT_GE(found[drain + " write"].bytes, 2 * state);
}

TEST_F(EmulatedCheckpoints, OneTierHasNoDrainAndUnsyncedSavesAreNotDurable) {
  const RunResult result = run_ok(
      request(joined(counts(1, 0), {"checkpoint.fsync=false", "checkpoint.rank_sync=true"})));
  EXPECT_FALSE(result.save_drain_seconds.median.has_value());
  EXPECT_FALSE(result.save_durable_seconds.median.has_value());
  EXPECT_TRUE(result.save_stall_seconds.median.has_value());
  for (const RankCheckpoint& rank : result.checkpoints[0].ranks)
    EXPECT_EQ(rank.seconds, rank.stalled);  // rank_sync
}

TEST_F(EmulatedCheckpoints, WhatIsCachedBeforeARestoreIsCounted) {
  RunRequest asked = request(counts(1, 1));
  asked.options.cache = "warm";
  const CheckpointRecord warm = run_ok(asked).restores[0];
  if (!warm.cached_bytes) GTEST_SKIP() << warm.cached_unknown;
  EXPECT_GT(*warm.cached_bytes, 0u);
  if (sys::is_memory_file_system(folder_)) GTEST_SKIP() << "a file system in memory";
  asked.options.cache = "cold";
  const CheckpointRecord cold = run_ok(asked).restores[0];
  ASSERT_TRUE(cold.cached_bytes.has_value());
  EXPECT_LT(*cold.cached_bytes, *warm.cached_bytes);
}

// Whatever fails, and wherever: an error that says so, the checkpoint before whole, nothing torn.
class FailingStores : public EmulatedCheckpoints,
                      public testing::WithParamInterface<const char*> {};

TEST_P(FailingStores, LeaveTheCheckpointBeforeWhole) {
  const std::vector<std::string> unsynced{"checkpoint.fsync=false"};
  int failed = 0, unharmed = 0;  // in a row: the run has fewer operations, or can do without
  for (int k = 1; unharmed < 25; ++k) {
    SCOPED_TRACE(fmt::format("{} at operation {}", GetParam(), k));
    // What runs before have left would be more to look through each time.
    std::filesystem::remove_all(std::string(folder_));
    run_ok(request(joined(counts(1, 0), unsynced)));
    const checkpoint::SaveName before = inventory_of(folder_).checkpoints[0].name;
    RunRequest asked = request(joined(counts(1, 0), unsynced));
    asked.options.storage = fmt::format("faulty:kind={},fail_at={}", GetParam(), k);
    Observer observer;
    const Result<RunResult> result = run(asked, observer, {});
    const std::string error = result.ok() ? result->error : result.error().message;
    expect_whole(folder_);
    const checkpoint::Inventory left = inventory_of(folder_);
    ASSERT_FALSE(left.checkpoints.empty());
    unharmed = error.empty() ? unharmed + 1 : 0;
    if (error.empty()) {
      EXPECT_TRUE(checkpoint::is_older(before, left.checkpoints[0].name));
      continue;
    }
    ++failed;
    EXPECT_THAT(error, HasSubstr(folder_));
    EXPECT_FALSE(checkpoint::is_older(left.checkpoints[0].name, before));
  }
  EXPECT_GT(failed, 5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingStores, testing::Values("enospc", "error"));

TEST_F(EmulatedCheckpoints, FailingRanksEndTheRunOfAllByName) {
  run_processes(2, counts(1, 0));
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<cluster::TestProcess> processes{{"host0", 0}, {"host1", 0}};
  cluster::run_processes(processes, [&](cluster::World& world, base::Clock&) {
    RunRequest asked = request(counts(2, 0), 1, &world);
    asked.options.storage = "faulty:kind=enospc,fail_at=12";
    Observer observer;
    const auto result = run(asked, observer, {});
    const std::lock_guard lock(mutex);
    errors.push_back(result.ok() ? result->error : result.error().message);
  });
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(errors, Each(HasSubstr("rank ")));
  expect_whole(folder_);
  EXPECT_THAT(steps_in(folder_), testing::Contains(1u));
}

TEST_F(EmulatedCheckpoints, AStopEndsARunBetweenChunks) {
  std::stop_source stop;
  class StopAfterOne final : public Observer {
   public:
    explicit StopAfterOne(std::stop_source& stop) : stop_(stop) {}
    void on_checkpoint(const RunResult&, const CheckpointRecord&) override { stop_.request_stop(); }

   private:
    std::stop_source& stop_;
  } observer(stop);
  const auto result = run(request(counts(5, 0)), observer, stop.get_token());
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->is_interrupted);
  EXPECT_EQ(result->checkpoints.size(), 1u);
  EXPECT_THAT(steps_in(folder_), ElementsAre(1));
}

// --- Payload ---

TEST(StatePayload, NoTwoBlocksAreEqual) {
  StatePayload payload(1, true, 64 << 10);
  std::set<std::string> blocks;
  for (const uint64_t identity : {1, 2}) {
    for (uint64_t begin = 0; begin < 256 << 10; begin += 64 << 10) {
      const auto piece = payload.piece(identity, begin, 64 << 10);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % 4096, 0u);
      for (size_t at = 0; at < piece.size(); at += 4096)
        blocks.emplace(reinterpret_cast<const char*>(piece.data()) + at, 4096);
    }
  }
  EXPECT_EQ(blocks.size(), 2u * 64);
}

TEST(StatePayload, TheSamePlaceHasTheSameBytes) {
  StatePayload first(1, true, 8192), second(1, true, 8192);
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  first.piece(5, 0, 8192);
  EXPECT_EQ(text(first.piece(7, 8192, 5000)), text(second.piece(7, 8192, 5000)));
  StatePayload ones(1, false, 8192);
  EXPECT_EQ(text(ones.piece(7, 8192, 5000)), std::string(5000, '\1'));
}

// --- Figures over ranks ---

TEST(OverRanks, TakesTheMedianAndTheLargestOfThoseThatHaveTheFigure) {
  std::vector<CheckpointRecord> records(2);
  records[0].ranks.resize(2);
  records[1].ranks.resize(2);
  records[0].ranks[0].drained = 3;
  records[0].ranks[1].drained = 1;
  records[1].ranks[0].drained = 2;
  const RankQuantiles drained =
      over_ranks(records, [](const RankCheckpoint& rank) { return rank.drained; });
  EXPECT_EQ(drained.median, 2);
  EXPECT_EQ(drained.max, 3);
  EXPECT_EQ(drained.n, 3u);
  const RankQuantiles none =
      over_ranks(records, [](const RankCheckpoint& rank) { return rank.durable; });
  EXPECT_FALSE(none.median || none.max);
}

}  // namespace
}  // namespace forebay::emulate

// Tiers that are object stores: the manifest comes last, whatever the server does no torn
// checkpoint is offered, a drain that was cut goes on, and what is left over is found and removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/test_folder.h"
#include "checkpoint/inventory.h"
#include "checkpoint/open_on_tiers.h"
#include "checkpoint/state_for_test.h"
#include "storage/s3_test_support.h"

namespace forebay::checkpoint {
namespace {

using storage::FakeS3;
using storage::OptionValues;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kKilled = 137;

// What is refused is given up soon.
const OptionValues kImpatient = {{"max_attempts", "2"}, {"backoff", "1ms"}};

std::unique_ptr<Tier> far_tier(const FakeS3& server, const std::string& place,
                               const OptionValues& further = {}, const std::string& spec = "s3") {
  return Tier::on(server.open(place, further, spec), "s3://" + place);
}

Result<std::unique_ptr<Checkpointer>> try_open(std::vector<std::unique_ptr<Tier>> tiers) {
  CheckpointOptions options;
  for (const auto& tier : tiers) options.tiers.push_back({tier->place()});
  options.shard_bytes_max = 16 << 10;
  options.chunk_bytes = 4096;
  options.threads = 1;
  return open_on_tiers(std::move(tiers), options);
}

Result<std::unique_ptr<Checkpointer>> try_open(std::unique_ptr<Tier> tier) {
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::move(tier));
  return try_open(std::move(tiers));
}

// "PUT data/root/step-.../manifest.json" of each request since the faults were set.
std::vector<std::string> objects_put(const FakeS3& server) {
  std::vector<std::string> out;
  for (const std::string& line : server.requests()) {
    if (!line.starts_with("PUT /")) continue;
    out.push_back(line.substr(5, line.find_first_of("? ", 5) - 5));
  }
  return out;
}

void expect_no_leftovers_after_prune(const FakeS3& server, const std::string& place) {
  const auto tier = far_tier(server, place);
  // A later save makes what is left over a thing of the past.
  StateForTest state(9);
  state.add_some();
  {
    const auto saver = try_open(far_tier(server, place));
    ASSERT_TRUE(saver.ok());
    ASSERT_TRUE((*saver)->save(9, state.state).ok() && (*saver)->wait().ok());
  }
  // Nobody can tell here that its writer is gone, but this test.
  const PruneOptions how{
      .rules = {.keep_last = 1}, .removes_leftovers = true, .quiet_seconds = -3600};
  const auto pruned = prune(*tier, how, {});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  const auto left = tier->store().list("");
  ASSERT_TRUE(left.ok());
  for (const storage::FileInfo& file : left->files)
    EXPECT_TRUE(file.path == "latest" || file.path.starts_with("step-000000000009")) << file.path;
}

TEST(S3Tier, TheManifestComesBehindAllShards) {
  const FakeS3 server;
  StateForTest state(1);
  state.add_some();
  const auto saver = std::move(try_open(far_tier(server, "data/root"))).take();
  server.set_faults("[]");
  ASSERT_TRUE(saver->save(1, state.state).ok());
  const Status done = saver->wait();
  ASSERT_TRUE(done.ok()) << done.error().message;
  const auto puts = objects_put(server);
  ASSERT_GT(puts.size(), 3u);
  EXPECT_THAT(puts.back(), HasSubstr("/latest"));
  EXPECT_THAT(puts[puts.size() - 2], HasSubstr("/manifest.json"));
  for (size_t i = 0; i + 2 < puts.size(); ++i) EXPECT_THAT(puts[i], HasSubstr(".safetensors"));
  const auto restored = saver->restore();
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_TRUE(is_same(*restored, state.state));
}

// Nobody makes a bucket: "no checkpoint" would let a job begin anew that has some elsewhere.
TEST(S3Tier, ABucketThatIsNotThereIsNoPlaceWithoutCheckpoints) {
  const FakeS3 server;
  const auto alone = try_open(far_tier(server, "nobody/root"));
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().message,
              AllOf(HasSubstr("s3://nobody/root"), HasSubstr("there is no bucket")));
  // A further tier does not keep a job from starting, and a restore says what it could not see.
  const base::TestFolder folder("bucket");
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::move(Tier::open({folder / "fast"})).take());
  tiers.push_back(far_tier(server, "nobody/root"));
  const auto saver = try_open(std::move(tiers));
  ASSERT_TRUE(saver.ok()) << saver.error().message;
  const auto restored = (*saver)->restore();
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(restored.error().message, HasSubstr("there is no bucket"));
}

class MisbehavingServer : public testing::TestWithParam<const char*> {};  // the fault, as JSON

TEST_P(MisbehavingServer, AtAnyObjectLeavesTheCheckpointBefore) {
  const FakeS3 server;
  StateForTest first(1), second(2);
  first.add_some();
  second.add_some();
  int told = 0;
  const bool stalls = std::string_view(GetParam()).find("stall") != std::string_view::npos;
  const bool refuses = std::string_view(GetParam()).find("status") != std::string_view::npos;
  // As many saves as there are objects in one; each meets the fault at another.
  for (size_t at = 0;; ++at) {
    SCOPED_TRACE("object " + std::to_string(at));
    const std::string place = "data/at" + std::to_string(at);
    {
      const auto saver = std::move(try_open(far_tier(server, place))).take();
      server.set_faults("[]");
      ASSERT_TRUE(saver->save(1, first.state).ok() && saver->wait().ok());
    }
    const auto puts = objects_put(server);
    if (at >= puts.size()) break;
    // The next save's objects have the same names below a folder of their own.
    const std::string key = puts[at].substr(puts[at].rfind('/') + 1);
    bool was_told = true;
    OptionValues how = kImpatient;
    if (stalls) how.emplace_back("stall_timeout", "500ms");
    // With so little patience a busy machine alone can be too slow, which is an error as well.
    if (auto saver = try_open(far_tier(server, place, how)); saver.ok()) {
      server.set_faults(R"([{"query": "/)" + key + R"(", "times": 1000, )" + GetParam() + "}]");
      const auto saved = (*saver)->save(2, second.state);
      was_told = !saved.ok() || !saved->wait_durable().ok();
      (*saver)->wait().ignore("it was told above");
    } else {
      ASSERT_TRUE(stalls) << saver.error().message;
    }
    server.set_faults("[]");
    const auto reader = std::move(try_open(far_tier(server, place))).take();
    const auto restored = reader->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_TRUE(restored->notes.empty());
    // A server that refuses has nothing; one that does not answer may have taken what it was sent.
    EXPECT_TRUE(!refuses || was_told == (key != "latest"));
    EXPECT_TRUE(restored->step == (was_told ? 1u : 2u) || (was_told && !refuses));
    EXPECT_TRUE(is_same(*restored, restored->step == 1 ? first.state : second.state));
    told += was_told ? 1 : 0;
    expect_no_leftovers_after_prune(server, place);
  }
  EXPECT_TRUE(!refuses || told > 1) << "saves that failed";
}

std::string name_of_fault(const testing::TestParamInfo<const char*>& told) {
  constexpr const char* kNames[] = {"refused", "busy", "reset", "stalled"};
  return kNames[told.index];
}

INSTANTIATE_TEST_SUITE_P(Faults, MisbehavingServer,
                         testing::Values(R"("kind": "status", "status": 403, "code": "No")",
                                         R"("kind": "status", "status": 503, "code": "SlowDown")",
                                         R"("kind": "reset", "bytes": 0)",
                                         R"("kind": "stall", "bytes": 0, "seconds": 1)"),
                         name_of_fault);

// A process that drains to S3 is killed at operation k, for every k; the next one goes on.
class KilledDrain : public testing::TestWithParam<int> {};  // which part of them
constexpr int kParts = 4;

TEST_P(KilledDrain, GoesOnWithTheShardsThatAreMissing) {
  const FakeS3 server;
  StateForTest state(1);
  state.add_some();
  int killed = 0;
  for (int at = 1 + GetParam();; at += kParts) {
    SCOPED_TRACE("killed at " + std::to_string(at));
    const auto folder = base::TestFolder::in_memory("s3-drain");
    const std::string place = "data/at" + std::to_string(at);
    const auto open_both = [&](const std::string& spec) {
      std::vector<std::unique_ptr<Tier>> tiers;
      tiers.push_back(std::move(Tier::open({folder / "near"})).take());
      tiers.push_back(far_tier(server, place, {}, spec));
      return try_open(std::move(tiers));
    };
    const pid_t child = fork();
    if (child == 0) {
      const auto saver = open_both("faulty:kind=kill,fail_at=" + std::to_string(at) + ",over=s3");
      if (!saver.ok()) _exit(1);
      const auto saved = (*saver)->save(1, state.state);
      _exit(saved.ok() && (*saver)->wait().ok() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    const bool was_killed = WEXITSTATUS(status) == kKilled;
    ASSERT_TRUE(was_killed || WEXITSTATUS(status) == 0);
    {
      const auto far_away = far_tier(server, place)->list();
      ASSERT_TRUE(far_away.ok());
      // Whole, or not there.
      for (const SaveName& name : far_away->saves)
        EXPECT_TRUE(far_tier(server, place)->check(name).ok());
    }
    {
      const auto saver = std::move(open_both("s3")).take();
      const Status done = saver->wait();
      ASSERT_TRUE(done.ok()) << done.error().message;
    }
    // Killed before the near one was durable: then there is nothing to go on with.
    const auto near = std::move(Tier::open({folder / "near"})).take();
    if (near->list()->saves.empty()) {
      ++killed;
      continue;
    }
    const auto reader = std::move(try_open(far_tier(server, place))).take();
    const auto restored = reader->restore();
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_TRUE(is_same(*restored, state.state));
    std::vector<std::string> notes;
    EXPECT_TRUE(far_tier(server, place)->list_leftovers(notes)->empty());
    if (!was_killed) break;
    ++killed;
  }
  EXPECT_GT(killed, 2) << "operations at which it was killed";
}

INSTANTIATE_TEST_SUITE_P(Parts, KilledDrain, testing::Range(0, kParts));

}  // namespace
}  // namespace forebay::checkpoint

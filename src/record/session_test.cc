// Goal: what a session records of real programs is what they did, whatever they are and however
// they or the recorder end. Method: observed_for_test does a known number of things.
#include "record/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/test_folder.h"
#include "record/live_folder.h"
#include "sys/child_process.h"
#include "sys/process_tree.h"
#include "trace/facts.h"
#include "trace/recording.h"

namespace forebay::record {
namespace {

using testing::HasSubstr;

const std::string kProgram = FOREBAY_OBSERVED_PROGRAM;
const std::string kStaticProgram = kProgram + "_static";

class SessionTest : public testing::Test {
 protected:
  SessionTest() : folder_("record") {
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / (std::to_string(i) + ".bin")) << std::string(8192, 'x');
  }

  SessionOptions options(std::vector<std::string> command, std::vector<std::string> collectors) {
    SessionOptions options;
    options.command = std::move(command);
    options.folder = folder_ / "out";
    options.collectors = std::move(collectors);
    options.version = "test";
    return options;
  }
  SessionReport record(std::vector<std::string> command,
                       std::vector<std::string> collectors = {"io/interposer", "marks"}) {
    auto report = run_session(options(std::move(command), std::move(collectors)));
    EXPECT_TRUE(report.ok()) << report.error().message;
    return report.ok() ? *report : SessionReport{};
  }
  trace::Recording load() {
    const std::vector<std::string> paths{folder_ / "out/trace.fbt"};
    auto recording = trace::Recording::load(paths);
    EXPECT_TRUE(recording.ok()) << recording.error().message;
    return std::move(*recording);
  }

  struct Seen {
    int count = 0;
    int64_t bytes = 0;
    int64_t longest_ns = 0;
    std::set<int64_t> processes, threads;
  };
  // Events of this name on files of the test's folder, or on none when the name is of a wait or
  // mark.
  Seen seen(const trace::Recording& recording, std::string_view text, bool on_our_files = true) {
    Seen seen;
    const auto file_key = recording.find_key(trace::key::kFile, trace::ArgumentType::kText);
    const auto bytes_key = recording.find_key(trace::key::kBytes, trace::ArgumentType::kInteger);
    const auto& dictionary = recording.dictionary();
    for (trace::TrackId track = 0; track < dictionary.tracks.size(); ++track) {
      const auto rows = recording.rows(track);
      for (size_t row = rows.first; row < rows.last; ++row) {
        if (recording.text(row) != text) continue;
        if (on_our_files) {
          if (!file_key) continue;
          const auto files = recording.column(*file_key, track);
          if (files.empty() || files[row - rows.first] == trace::kNoValue) continue;
          const auto& path = dictionary.texts[static_cast<size_t>(files[row - rows.first])];
          if (!path.starts_with(folder_.path())) continue;
        }
        ++seen.count;
        seen.longest_ns = std::max(seen.longest_ns, recording.duration(row));
        seen.threads.insert(dictionary.tracks[track].number);
        const auto process = recording.ancestor(track, trace::TrackKind::kProcess);
        if (process != trace::kNoId) seen.processes.insert(dictionary.tracks[process].number);
        if (!bytes_key) continue;
        const auto bytes = recording.column(*bytes_key, track);
        if (!bytes.empty() && bytes[row - rows.first] != trace::kNoValue)
          seen.bytes += bytes[row - rows.first];
      }
    }
    return seen;
  }

  base::TestFolder folder_;
};

// Of one that has two ways to see, the second may say what can be done here.
TEST_F(SessionTest, TheSummarySaysOfEachBackendWhyItSeesNothing) {
  const SessionReport report = record({kProgram, "calls", folder_.path(), "1"}, {"gpu", "proc"});
  const auto line = std::find_if(report.lines.begin(), report.lines.end(),
                                 [](const auto& one) { return one.first == "not seen"; });
  if (line == report.lines.end()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(line->second, HasSubstr("nvml: "));
  EXPECT_THAT(line->second, HasSubstr("; nvidia-smi: "));
}

TEST_F(SessionTest, SeesCalls) {
  EXPECT_EQ(record({kProgram, "calls", folder_.path(), "100"}).exit_code, 0);
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "open").count, 100);
  EXPECT_EQ(seen(recording, "read").count, 200);
  EXPECT_EQ(seen(recording, "read").bytes, 200 * 4096);
  EXPECT_EQ(seen(recording, "close").count, 100);
  EXPECT_EQ(recording.fact(trace::fact::kDropped), "0");
  EXPECT_EQ(recording.fact(trace::fact::kExit), "exit 0");
  EXPECT_EQ(recording.fact("collector.io"), "interposer");
  EXPECT_TRUE(recording.files()[0].is_finished);
}

// "interposer" alone is clear enough; "proc" is a collector and not the backend of another.
// The summary, the trace and what explain reads in it are of one time.
TEST_F(SessionTest, TheTraceHasTheDurationOfTheSummary) {
  const SessionReport report = record({kProgram, "exit", folder_.path(), "0"}, {});
  EXPECT_EQ(load().fact(trace::fact::kRecorded), std::to_string(report.duration_ns));
}

TEST_F(SessionTest, ABackendOfItsOwnNameStandsForItsCollector) {
  record({kProgram, "calls", folder_.path(), "10"}, {"interposer", "proc"});
  const trace::Recording recording = load();
  EXPECT_EQ(recording.fact("collector.io"), "interposer");
  EXPECT_EQ(recording.fact("collector.proc"), "proc");
  EXPECT_EQ(recording.fact("collector.system"), std::nullopt);
  const auto refused = run_session(options({kProgram}, {"interposers"}));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("io/interposer"));
}

// system() and pclose() wait inside libc.
TEST_F(SessionTest, SeesEachWayToWaitForAChild) {
  EXPECT_EQ(record({kProgram, "children", folder_.path()}).exit_code, 0);
  const trace::Recording recording = load();
  int waits = 0;
  const auto& dictionary = recording.dictionary();
  for (trace::TrackId track = 0; track < dictionary.tracks.size(); ++track) {
    const auto rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording.text(row) != "wait4" || recording.duration(row) < 40'000'000) continue;
      EXPECT_EQ(recording.name(row).category, trace::Category::kSleep);
      waits +=
          dictionary.texts[dictionary.tracks[track].text].find("observed") != std::string::npos;
    }
  }
  EXPECT_EQ(waits, 6);
}

TEST_F(SessionTest, SeesStdioOnceEach) {
  record({kProgram, "stdio", folder_.path(), "100"});
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "fopen").count, 100);
  EXPECT_EQ(seen(recording, "fread").count, 200);
  EXPECT_EQ(seen(recording, "fread").bytes, 200 * 4096);
  EXPECT_EQ(seen(recording, "fclose").count, 100);
  EXPECT_EQ(seen(recording, "read").count, 0);  // they are inside the freads
}

// Shells wait with wait3, others with wait, waitpid, wait4 or waitid.
TEST_F(SessionTest, SeesAShellWaitForItsChildren) {
  record({"/bin/sh", "-c", "sleep 0.05; true"});
  EXPECT_GE(seen(load(), "wait4", false).count, 1);
}

TEST_F(SessionTest, SaysThatStaticProgramsCannotBeSeen) {
  const SessionReport report = record({kStaticProgram, "calls", folder_.path(), "10"});
  EXPECT_EQ(report.exit_code, 0);
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "read").count, 0);
  EXPECT_THAT(std::string(recording.fact("collector.io").value_or("")),
              HasSubstr("statically linked"));
}

TEST_F(SessionTest, SaysThatStaticChildrenCannotBeSeen) {
  record({"/bin/sh", "-c", kStaticProgram + " calls " + folder_.path() + " 10; true"});
  EXPECT_THAT(std::string(load().fact("missing.io").value_or("")),
              HasSubstr(kStaticProgram + ": it is statically linked"));
}

TEST_F(SessionTest, SeesPythonAndCat) {
  if (!sys::find_program("python3").ok()) GTEST_SKIP() << "no python3";
  const std::string code =
      "import sys\nfor i in range(100):\n  open(sys.argv[1] + '/%d.bin' % (i % 20), 'rb').read()";
  EXPECT_EQ(record({"python3", "-c", code, folder_.path()}).exit_code, 0);
  {
    const trace::Recording recording = load();
    EXPECT_EQ(seen(recording, "open").count + seen(recording, "openat").count, 100);
    EXPECT_GE(seen(recording, "read").count, 200);  // the last finds the end
    EXPECT_EQ(seen(recording, "read").bytes, 100 * 8192);
  }
  std::filesystem::remove_all(folder_ / "out");
  record({"/bin/sh", "-c", "cat " + folder_.path() + "/*.bin | tail -c 1 > /dev/null"});
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "open").count + seen(recording, "openat").count, 20);
  EXPECT_EQ(seen(recording, "read").bytes, 20 * 8192);
}

TEST_F(SessionTest, FollowsThreads) {
  record({kProgram, "threads", folder_.path(), "5"});
  const Seen reads = seen(load(), "read");
  EXPECT_EQ(reads.count, 5 * 20);
  EXPECT_EQ(reads.threads.size(), 5);
}

TEST_F(SessionTest, FollowsSixteenForkedProcesses) {
  record({kProgram, "forks", folder_.path(), "16"});
  const trace::Recording recording = load();
  const Seen reads = seen(recording, "read");
  EXPECT_EQ(reads.count, 16 * 20);
  EXPECT_EQ(reads.bytes, 16 * 20 * 4096);
  EXPECT_EQ(reads.processes.size(), 16);
  EXPECT_EQ(seen(recording, "fork", false).count, 16);
}

TEST_F(SessionTest, VforkLeavesTheParentsDescriptorsKnown) {
  EXPECT_EQ(record({kProgram, "vfork", folder_.path()}).exit_code, 0);
  const Seen reads = seen(load(), "read");
  EXPECT_EQ(reads.bytes, 3 * 8192 + 100);
  EXPECT_EQ(reads.processes.size(), 2);
}

TEST_F(SessionTest, FollowsProgramsWithAnEmptyEnvironment) {
  EXPECT_EQ(record({kProgram, "spawn", folder_.path()}).exit_code, 0);
  EXPECT_EQ(seen(load(), "read").count, 10);
}

TEST_F(SessionTest, KeepsAPreloadedLibraryOfTheProgram) {
  record({"/usr/bin/env", "LD_PRELOAD=libm.so.6", kProgram, "calls", folder_.path(), "10"});
  EXPECT_EQ(seen(load(), "read").count, 20);
}

TEST_F(SessionTest, DescriptorNumbersStayTheProgramsOwn) {
  EXPECT_EQ(record({kProgram, "nofds", folder_.path()}).exit_code, 0);
  EXPECT_EQ(seen(load(), "open").count, 5);
}

TEST_F(SessionTest, SeesWaitsForALock) {
  record({kProgram, "contend"});
  const Seen waits = seen(load(), "pthread_mutex_lock", false);
  EXPECT_EQ(waits.count, 1);
  EXPECT_GT(waits.longest_ns, 30'000'000);
}

TEST_F(SessionTest, MarksBecomeStepsWithNumbers) {
  record({kProgram, "marks", folder_.path(), "12"});
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "step", false).count, 12);
  EXPECT_EQ(seen(recording, "load", false).count, 12);
  EXPECT_EQ(seen(recording, "epoch 1", false).count, 1);
  EXPECT_TRUE(recording.find_key(trace::key::kStep, trace::ArgumentType::kInteger).has_value());
}

TEST_F(SessionTest, PassesTheExitCode) {
  EXPECT_EQ(record({kProgram, "exit", "x", "7"}).exit_code, 7);
}

TEST_F(SessionTest, ProgramsThatCannotRunLeaveNoRecording) {
  EXPECT_EQ(record({"/nowhere/at-all"}).exit_code, 127);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const SessionReport report = record({folder_ / "0.bin"});
  EXPECT_EQ(report.exit_code, 126);
  EXPECT_THAT(report.failure, HasSubstr("Permission denied"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(SessionTest, AProgramThatIsKilledLeavesAWholeRecording) {
  EXPECT_EQ(record({kProgram, "die", folder_.path()}).exit_code, 137);
  const trace::Recording recording = load();
  EXPECT_EQ(seen(recording, "read").count, 20);
  EXPECT_EQ(recording.fact(trace::fact::kExit), "signal 9");
  EXPECT_TRUE(recording.files()[0].is_finished);
}

// Waits for a condition that another process will bring about; false when it does not.
bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 500; ++tries) {
    if (condition()) return true;
    const timespec time{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&time, nullptr);
  }
  return false;
}

TEST_F(SessionTest, ARecorderThatIsKilledLeavesAReadableTraceAndTheProgramAlone) {
  const pid_t recorder = fork();
  if (recorder == 0) {
    const auto report =
        run_session(options({kProgram, "forever", folder_.path()}, {"io/interposer"}));
    _exit(report.ok() ? 0 : 1);
  }
  const std::string path = folder_ / "out/trace.fbt";
  EXPECT_TRUE(comes_true([&] {
    std::error_code error;
    return std::filesystem::file_size(path, error) > 1500 && !error;
  }));
  const auto program = sys::descendants_of(recorder);
  ASSERT_EQ(program.size(), 1);
  kill(recorder, SIGKILL);
  waitpid(recorder, nullptr, 0);
  EXPECT_TRUE(sys::is_running(program.begin()->first));
  kill(program.begin()->first, SIGKILL);
  const trace::Recording recording = load();
  EXPECT_FALSE(recording.files()[0].is_finished);
  EXPECT_GT(seen(recording, "read").count, 20);
  EXPECT_EQ(recording.fact(trace::fact::kExit), "running");
}

// Each flush notes the clocks, so the trace tells when they were.
TEST_F(SessionTest, WhatIsSeenIsOnDiskLongBeforeTheFirstSecond) {
  record({"/bin/sleep", "0.8"}, {"marks"});
  const trace::Recording recording = load();
  const auto& clock = recording.files()[0].clock;
  ASSERT_GE(clock.size(), 3);
  EXPECT_LT(clock[1].time_ns - clock[0].time_ns, 700'000'000);
}

TEST_F(SessionTest, WhatAKilledRecorderLeftIsRemovedByTheNextInTheSamePlace) {
  const pid_t recorder = fork();
  if (recorder == 0) {
    const auto report =
        run_session(options({kProgram, "forever", folder_.path()}, {"io/interposer", "marks"}));
    _exit(report.ok() ? 0 : 1);
  }
  ASSERT_TRUE(comes_true([&] {
    return std::filesystem::exists(folder_ / "out/trace.fbt") &&
           sys::descendants_of(recorder).size() == 1;
  }));
  const auto program = sys::descendants_of(recorder);
  kill(recorder, SIGKILL);
  waitpid(recorder, nullptr, 0);
  kill(program.begin()->first, SIGKILL);
  const auto leftovers = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out"))
      count += entry.is_directory() ? 1 : 0;
    return count;
  };
  EXPECT_EQ(leftovers(), 2);  // of io and of marks
  const auto working = LiveFolder::make(folder_ / "out", "io");
  ASSERT_TRUE(working.ok());
  // A killed program that has not begun its work holds what it has of its parent until it is gone.
  EXPECT_TRUE(comes_true([&] {
    EXPECT_FALSE(run_session(options({kProgram, "exit"}, {})).ok());  // there is a recording
    return leftovers() == 1;                                          // of one that still records
  }));
  EXPECT_TRUE(std::filesystem::exists(working->path()));
}

// Process ids come again, and other hosts have the same.
TEST_F(SessionTest, LogsOfAnotherRecorderOfOurNumberAreNotRead) {
  const std::string theirs = LiveFolder::make(folder_ / "out", "marks")->path();
  std::filesystem::create_directories(theirs);
  std::ofstream(theirs + "/1.marks") << "I 5 1 step\n";
  record({kProgram, "marks", folder_.path(), "3"});
  EXPECT_EQ(seen(load(), "step", false).count, 3);
  EXPECT_TRUE(std::filesystem::exists(theirs + "/1.marks"));
}

// Its loader takes no library from another user.
TEST_F(SessionTest, SetUserIdProgramsAreNamedAsNotSeen) {
  const std::string elevated = folder_ / "elevated";
  std::filesystem::copy_file(kProgram, elevated);
  if (chown(elevated.c_str(), static_cast<uid_t>(-1), 65534) != 0 ||
      chmod(elevated.c_str(), 02755) != 0)
    GTEST_SKIP() << "needs the right to give a file away";
  record({"/bin/sh", "-c", elevated + " calls " + folder_.path() + " 10; true"});
  EXPECT_THAT(std::string(load().fact("missing.io").value_or("")),
              HasSubstr(elevated + ": it is set-user-id"));
  EXPECT_EQ(seen(load(), "read").count, 0);
  std::filesystem::remove_all(folder_ / "out");
  EXPECT_EQ(record({elevated, "exit", "x", "3"}).exit_code, 3);
  EXPECT_THAT(std::string(load().fact("collector.io").value_or("")), HasSubstr("set-user-id"));
}

TEST_F(SessionTest, ASignalForTheRecorderReachesTheProgram) {
  const pid_t recorder = fork();
  if (recorder == 0) {
    const auto report =
        run_session(options({kProgram, "forever", folder_.path()}, {"io/interposer"}));
    _exit(report.ok() ? report->exit_code : 1);
  }
  EXPECT_TRUE(comes_true([&] {
    return std::filesystem::exists(folder_ / "out/trace.fbt") &&
           sys::descendants_of(recorder).size() == 1;
  }));
  kill(recorder, SIGTERM);
  int status = 0;
  waitpid(recorder, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_EQ(load().fact(trace::fact::kExit), "signal 15");
}

TEST_F(SessionTest, AttachesToAProcess) {
  const pid_t program = fork();
  if (program == 0) {
    execl(kProgram.c_str(), kProgram.c_str(), "forever", folder_.path().c_str(), nullptr);
    _exit(1);
  }
  SessionOptions attached = options({}, {"proc", "io/interposer"});
  attached.pid = program;
  attached.duration_ns = 600'000'000;
  const auto report = run_session(attached);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->exit_code, 0);
  EXPECT_TRUE(sys::is_running(program));
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  const trace::Recording recording = load();
  EXPECT_THAT(std::string(recording.fact("collector.io").value_or("")), HasSubstr("cannot be"));
  EXPECT_GT(seen(recording, "cpu_cores", false).count, 2);
}

TEST_F(SessionTest, FloodsAreCountedNotLost) {
  SessionOptions few = options({kProgram, "calls", folder_.path(), "500"}, {"io/interposer"});
  few.collector.events_per_second_max = 1000;
  ASSERT_TRUE(run_session(few).ok());
  const trace::Recording recording = load();
  int64_t counted = 0;
  const auto count_key = recording.find_key(trace::key::kCount, trace::ArgumentType::kInteger);
  ASSERT_TRUE(count_key.has_value());
  for (trace::TrackId track = 0; track < recording.dictionary().tracks.size(); ++track)
    for (const int64_t count : recording.column(*count_key, track))
      counted += count == trace::kNoValue ? 0 : count;
  const Seen reads = seen(recording, "read"), opens = seen(recording, "open"),
             closes = seen(recording, "close");
  EXPECT_LT(reads.count + opens.count + closes.count, 1000);
  EXPECT_EQ(counted + reads.count + opens.count + closes.count, 500 * 4);
  EXPECT_EQ(recording.fact(trace::fact::kEventsSeen), "2000");
}

TEST_F(SessionTest, UnknownCollectorsAreNamed) {
  const auto report = run_session(options({kProgram, "exit"}, {"ioo"}));
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("did you mean 'io'?"));
}

TEST_F(SessionTest, AFolderIsNotUsedTwice) {
  record({kProgram, "exit"});
  const auto again = run_session(options({kProgram, "exit"}, {}));
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message, HasSubstr("holds a recording already"));
}

}  // namespace
}  // namespace forebay::record

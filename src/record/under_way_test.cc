// Goal: a program that hangs is told where. Method: observed_for_test goes into a call that does
// not return; when the kernel says that it waits there, the recording ends, or the program is
// killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <fstream>

#include "record/builtin.h"
#include "record/io_ebpf.h"
#include "record/watch_for_test.h"
#include "sys/other_process.h"

namespace forebay::record {
namespace {

using testing::HasSubstr;

// A program that was started under a collector, or is attached to, and hangs.
class Hung {
 public:
  Hung(const Backend& backend, const std::string& mode, bool is_attached = false)
      : folder_("under-way"),
        writer_(trace::TraceWriter::create(path()).take()),
        tracks_(*writer_, "test"),
        sink_{*writer_, tracks_},
        collector_(backend.make({})) {
    EXPECT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
    // What lies in the recording's own folder is not observed.
    EXPECT_EQ(mkdir((folder_ / "out").c_str(), 0700), 0);
    target_.folder = folder_ / "out";
    target_.is_attached = is_attached;
    target_.command = {FOREBAY_OBSERVED_PROGRAM, mode, folder_.path()};
    EXPECT_TRUE(collector_->prepare(target_).ok());
    for (const auto& [name, value] : target_.environment) setenv(name.c_str(), value.c_str(), 1);
    child_.emplace(program(target_.command));
    for (const auto& [name, value] : target_.environment) unsetenv(name.c_str());
    target_.pid = child_->pid();
    if (is_attached) {
      child_->release();
      wait_in(mode);
    }
    const Status begun = collector_->begin(target_, sink_);
    EXPECT_TRUE(begun.ok()) << (begun.ok() ? "" : begun.error().message);
    child_->release();
    wait_in(mode);
  }

  void kill_it() {
    kill(child_->pid(), SIGKILL);
    while (!child_->has_ended()) poll(nullptr, 0, 1);
  }

  // What was recorded, and then the end of the program.
  std::vector<SeenEvent> end() {
    EXPECT_TRUE(collector_->poll(sink_).ok());
    EXPECT_TRUE(collector_->end(sink_).ok());
    EXPECT_TRUE(writer_->finish().ok());
    if (!child_->has_ended()) kill_it();
    auto loaded = trace::Recording::load(std::vector<std::string>{path()});
    EXPECT_TRUE(loaded.ok());
    return loaded.ok() ? all_events(*loaded) : std::vector<SeenEvent>();
  }

  std::string in_folder(const std::string& name) const { return folder_ / name; }

 private:
  std::string path() const { return folder_ / "trace.fbt"; }

  // Until the thread that hangs waits in its call.
  void wait_in(const std::string& mode) {
    const long call = mode == "hang-open"     ? SYS_openat
                      : mode == "hang-sleep"  ? SYS_clock_nanosleep
                      : mode == "hang-signal" ? SYS_rt_sigsuspend
                      : mode == "hang-flock"  ? SYS_flock
                                              : SYS_read;
    const std::string wanted = std::to_string(call) + " ";
    const std::string join = std::to_string(SYS_futex) + " ";
    const std::string marker = folder_ / "hangs";
    for (bool waits = false; !waits;) {
      poll(nullptr, 0, 5);
      EXPECT_TRUE(collector_->poll(sink_).ok());
      if (!std::ifstream(marker).good()) continue;  // the next call is the one
      const size_t threads = mode == "hang-thread" ? 2 : 1;
      size_t waiting = 0;
      for (const int tid : sys::threads_of(child_->pid())) {
        std::ifstream in("/proc/" + std::to_string(child_->pid()) + "/task/" + std::to_string(tid) +
                         "/syscall");
        std::string line;
        std::getline(in, line);
        if (line.starts_with(wanted) || line.starts_with(join)) ++waiting;
      }
      waits = waiting == threads;
    }
  }

  base::TestFolder folder_;
  std::unique_ptr<trace::TraceWriter> writer_;
  Tracks tracks_;
  Sink sink_;
  Target target_;
  std::unique_ptr<Collector> collector_;
  std::optional<WaitingChild> child_;
};

std::vector<SeenEvent> unfinished(const std::vector<SeenEvent>& events) {
  std::vector<SeenEvent> found;
  for (const SeenEvent& e : events)
    if (e.unfinished == 1 && e.category != trace::Category::kOffCpu) found.push_back(e);
  return found;
}

class UnderWay : public testing::TestWithParam<const Backend*> {
 protected:
  void SetUp() override {
    if (const Availability here = GetParam()->probe(); !here.is_available)
      GTEST_SKIP() << here.detail;
  }
  bool is_in_kernel() const { return GetParam() == &kIoEbpf; }
};

TEST_P(UnderWay, AReadThatDoesNotReturnIsToldWithItsFile) {
  const auto all = unfinished(Hung(*GetParam(), "hang-read").end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "read");
  EXPECT_THAT(all[0].file, HasSubstr("pipe"));
  EXPECT_GT(all[0].duration_ns, 0);
  EXPECT_EQ(all[0].bytes, trace::kNoValue);
}

TEST_P(UnderWay, AnOpenThatDoesNotReturnIsToldWithItsPath) {
  Hung hung(*GetParam(), "hang-open");
  const auto all = unfinished(hung.end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].name, HasSubstr("open"));
  EXPECT_EQ(all[0].file, hung.in_folder("fifo"));
}

TEST_P(UnderWay, ASleepIsTold) {
  const auto all = unfinished(Hung(*GetParam(), "hang-sleep").end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].name, HasSubstr("nanosleep"));
}

// As `timeout` waits for its child.
TEST_P(UnderWay, AWaitForASignalIsTold) {
  const auto all = unfinished(Hung(*GetParam(), "hang-signal").end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "rt_sigsuspend");
}

TEST_P(UnderWay, AWaitForAFilesLockIsToldWithTheFile) {
  Hung hung(*GetParam(), "hang-flock");
  const auto all = unfinished(hung.end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "flock");
  EXPECT_EQ(all[0].category, trace::Category::kLock);
  EXPECT_EQ(all[0].file, hung.in_folder("lock"));
}

TEST_P(UnderWay, EachThreadsCallIsTold) {
  const auto all = unfinished(Hung(*GetParam(), "hang-thread").end());
  ASSERT_EQ(all.size(), 2u);
  for (const SeenEvent& e : all) {
    const bool is_read = e.name == "read";
    EXPECT_EQ(e.name, is_read ? "read" : is_in_kernel() ? "futex" : "pthread_join");
    EXPECT_NE(all[0].track_id, all[1].track_id);
  }
}

// The kernel sees the call return, with an error of its own; inside the program nobody does.
TEST_P(UnderWay, ACallThatTheProgramWasKilledInIsTold) {
  Hung hung(*GetParam(), "hang-read");
  hung.kill_it();
  const auto events = hung.end();
  int told = 0;
  for (const SeenEvent& e : events) {
    if (e.name != "read" || e.file.find("pipe") == std::string::npos) continue;
    if (e.unfinished == 1 || e.error == 512) ++told;
  }
  EXPECT_EQ(told, 1);
}

TEST_P(UnderWay, CallsThatReturnedAreNoLongerUnderWay) {
  Hung hung(*GetParam(), "hang-sleep");  // after calls of other kinds
  const auto events = hung.end();
  int opened = 0;
  for (const SeenEvent& e : events) {
    if (e.file != hung.in_folder("hangs")) continue;
    EXPECT_EQ(e.unfinished, trace::kNoValue) << e.name;
    ++opened;
  }
  EXPECT_GE(opened, 2);  // and written, and closed
}

INSTANTIATE_TEST_SUITE_P(Io, UnderWay, testing::Values(&kIoEbpf, &kIoInterposer),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(IoEbpf, AttachedToAProcessThatHangsItTellsWhere) {
  if (const Availability here = kIoEbpf.probe(); !here.is_available) GTEST_SKIP() << here.detail;
  const auto all = unfinished(Hung(kIoEbpf, "hang-read", true).end());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "read");
  EXPECT_THAT(all[0].file, HasSubstr("pipe"));
}

}  // namespace
}  // namespace forebay::record

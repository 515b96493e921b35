// Samples name the function that burns the time, in C++, in the kernel, and in Python of each
// version that is installed. Skipped where perf_event_open is refused.
#include "record/cpu_perf.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <time.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "record/elf_symbols.h"
#include "record/sampled_stacks.h"
#include "record/watch_for_test.h"
#include "sys/other_process.h"

namespace forebay::record {

// Outside the unnamed namespace: the symbol table must have them.
__attribute__((noinline)) int burn_in_a_cxx_function(int64_t for_ns) {
  volatile unsigned sum = 0;
  timespec now{};
  for (int64_t end_ns = 0;;) {
    for (unsigned i = 0; i < 10'000; ++i) sum = sum + i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    const int64_t at_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    if (end_ns == 0) end_ns = at_ns + for_ns;
    if (at_ns >= end_ns) return static_cast<int>(sum & 1);
  }
}

namespace {

using testing::HasSubstr;

#define FB_SKIP_WITHOUT_PERF()                                              \
  if (const Availability here = kCpuPerf.probe(); !here.is_available) {     \
    GTEST_SKIP() << "perf: " << here.detail << "; remedy: " << here.remedy; \
  }                                                                         \
  static_assert(true)

struct SeenFrame {
  trace::FrameKind kind = trace::FrameKind::kUnknown;
  std::string symbol, module, build_id;
  uint32_t line = 0;
};

// The frames of a sample, innermost first.
std::vector<SeenFrame> frames_of(const trace::Recording& recording, const SeenEvent& sample) {
  const trace::Dictionary& words = recording.dictionary();
  std::vector<SeenFrame> out;
  for (auto id = static_cast<trace::StackId>(sample.stack); id != trace::kNoId;
       id = words.stacks[id].caller) {
    const trace::Frame& frame = words.frames[words.stacks[id].frame];
    out.push_back({frame.kind, words.texts[frame.symbol], words.texts[frame.module],
                   words.texts[frame.build_id], frame.line});
  }
  return out;
}

std::vector<SeenEvent> samples_of(const trace::Recording& recording) {
  std::vector<SeenEvent> out;
  for (SeenEvent& e : all_events(recording)) {
    if (e.kind == trace::EventKind::kSample) out.push_back(std::move(e));
  }
  return out;
}

TEST(CpuPerf, NamesTheFunctionThatRunsInEveryThreadAndChild) {
  FB_SKIP_WITHOUT_PERF();
  if (kHasForeignThread) GTEST_SKIP() << "the thread sanitizer's own functions would be seen";
  const Watched seen = watch(kCpuPerf, [] {
    const int child = fork();
    if (child == 0) _exit(burn_in_a_cxx_function(400'000'000));
    std::jthread other([] { burn_in_a_cxx_function(400'000'000); });
    other.join();
    waitpid(child, nullptr, 0);
    return 0;
  });
  ASSERT_TRUE(seen.recording);
  std::map<std::string, int> hits;
  int all = 0;
  std::string others;
  for (const SeenEvent& sample : samples_of(*seen.recording)) {
    ++all;
    const auto frames = frames_of(*seen.recording, sample);
    ASSERT_FALSE(frames.empty());
    others += sample.track + ":";
    for (const SeenFrame& frame : frames) others += " " + frame.symbol;
    others += "\n";
    EXPECT_NEAR(static_cast<double>(sample.duration_ns), 1e9 / 99, 1);
    for (const SeenFrame& frame : frames) {
      if (frame.symbol.find("burn_in_a_cxx_function(long)") == std::string::npos) continue;
      ++hits[sample.track];
      EXPECT_THAT(frame.module, HasSubstr("record_test"));
      EXPECT_FALSE(frame.build_id.empty());
      break;
    }
  }
  // 80 samples are due of 0.8 s of CPU time.
  EXPECT_EQ(hits.size(), 2u) << "the thread and the child";
  EXPECT_GE(all, 55);
  EXPECT_LE(all, 110);
  int named = 0;
  for (const auto& [track, count] : hits) named += count;
  EXPECT_GE(named, all * 6 / 10) << others;
}

TEST(CpuPerf, NamesTheKernelsFunctions) {
  FB_SKIP_WITHOUT_PERF();
  if (kCpuPerf.probe().detail.find("and kernel") == std::string::npos) {
    GTEST_SKIP() << "the kernel may not be sampled";
  }
  const Watched seen = watch(kCpuPerf, [] {
    const int fd = open("/dev/zero", O_RDONLY);
    static std::array<char, 1 << 20> buffer;
    for (int i = 0; i < 3'000; ++i) {
      if (read(fd, buffer.data(), buffer.size()) <= 0) return 1;
    }
    return 0;
  });
  ASSERT_TRUE(seen.recording);
  int kernel = 0, named = 0;
  for (const SeenEvent& sample : samples_of(*seen.recording)) {
    const auto frames = frames_of(*seen.recording, sample);
    kernel += frames[0].kind == trace::FrameKind::kKernel;
    for (const SeenFrame& frame : frames) named += frame.symbol == "read_zero";
  }
  EXPECT_GE(kernel, 5);
  std::ifstream symbols("/proc/kallsyms");
  std::string address;
  symbols >> address;
  const bool is_readable = address.find_first_not_of('0') != std::string::npos;
  if (is_readable) {
    EXPECT_GE(named, kernel / 2);
  }
}

std::vector<std::string> pythons() {
  std::vector<std::string> found;
  const char* const home = std::getenv("HOME");
  const std::vector<std::string> folders{
      "/usr/bin", "/usr/local/bin", std::string(home == nullptr ? "" : home) + "/.pyenv/versions"};
  for (const std::string version : {"3.11", "3.12", "3.13"}) {
    for (const std::string& folder : folders) {
      const std::string name = "python" + version;
      std::error_code error;
      if (std::filesystem::exists(folder + "/" + name, error)) found.push_back(folder + "/" + name);
      for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; ++at) {
        const std::string inside = at->path().string() + "/bin/" + name;
        if (std::filesystem::exists(inside, error)) found.push_back(inside);
      }
    }
  }
  return found;
}

TEST(CpuPerf, NamesThePythonFunctionOfEachThread) {
  FB_SKIP_WITHOUT_PERF();
  const std::vector<std::string> interpreters = pythons();
  if (interpreters.empty()) GTEST_SKIP() << "no Python 3.11, 3.12 or 3.13 here";
  const base::TestFolder folder("cpu");
  const std::string script = folder / "burn.py";
  std::ofstream(script) << "import threading, time\n"
                           "class Loader:\n"
                           "    def decode(self, seconds):\n"
                           "        end = time.thread_time() + seconds\n"
                           "        while time.thread_time() < end:\n"
                           "            sum(i * i for i in range(2000))\n"
                           "def über():\n"
                           "    Loader().decode(0.5)\n"
                           "t = threading.Thread(target=über)\n"
                           "t.start()\n"
                           "t.join()\n";
  std::vector<std::vector<std::string>> commands;
  for (const std::string& python : interpreters) {
    commands.push_back({python, script});
    // Native frames of Python functions, named in a map of the interpreter's: told once all the
    // same.
    if (!python.ends_with("3.11")) commands.push_back({python, "-X", "perf", script});
  }
  for (const std::vector<std::string>& command : commands) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    const Watched seen = watch(kCpuPerf, program(command));
    std::filesystem::remove("/tmp/perf-" + std::to_string(seen.pid) + ".map");
    ASSERT_TRUE(seen.recording);
    ASSERT_EQ(seen.exit_code, 0);
    int all = 0, named = 0;
    for (const SeenEvent& sample : samples_of(*seen.recording)) {
      ++all;
      std::string path;
      for (const SeenFrame& frame : frames_of(*seen.recording, sample)) {
        if (frame.kind != trace::FrameKind::kPython) continue;
        if (frame.module == script) path += frame.symbol + ":" + std::to_string(frame.line) + " ";
      }
      named += path.ends_with("Loader.decode:3 über:7 ");
    }
    EXPECT_GE(named, 25) << "of " << all << ", about 50 are due";
  }
}

TEST(CodeMap, FindsTheLatestMapping) {
  CodeMap map;
  map.add(100, {200, 0, 1});
  map.add(150, {180, 0, 2});
  EXPECT_EQ(map.find(99), nullptr);
  EXPECT_EQ(map.find(120)->second.module, 1u);
  EXPECT_EQ(map.find(150)->second.module, 2u);
  EXPECT_EQ(map.find(180), nullptr);
  map.add(90, {300, 0, 3});
  EXPECT_EQ(map.find(120)->second.module, 3u);
  EXPECT_EQ(map.find(299)->first, 90u);
}

TEST(ElfSymbols, ReadsAProgramAndRefusesOtherFiles) {
  const auto own = ElfSymbols::open("/proc/self/exe");
  ASSERT_NE(own, nullptr);
  const auto address = own->address_of("_ZN7forebay6record22burn_in_a_cxx_functionEl");
  ASSERT_TRUE(address);
  const auto found = own->find(*address + 5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "forebay::record::burn_in_a_cxx_function(long)");
  EXPECT_EQ(found->address, *address);
  EXPECT_EQ(ElfSymbols::open("/etc/passwd"), nullptr);
  EXPECT_EQ(ElfSymbols::open("/nonexistent"), nullptr);
}

}  // namespace
}  // namespace forebay::record

// What the kernel's view of a program must hold: every call of whatever program, the right file and
// offset, cache or device, why a thread waited, disks and io_uring; and exact totals in a flood.
// Skipped where the kernel refuses programs.
#include "record/io_ebpf.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/test_folder.h"
#include "record/io_files.h"
#include "record/watch_for_test.h"
#include "sys/ring.h"
#include "trace/facts.h"

namespace forebay::record {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using trace::Category;
using trace::EventKind;

#define FB_SKIP_WITHOUT_EBPF()                                              \
  if (const Availability here = kIoEbpf.probe(); !here.is_available) {      \
    GTEST_SKIP() << "eBPF: " << here.detail << "; remedy: " << here.remedy; \
  }                                                                         \
  static_assert(true)

void rest_ms(int64_t ms) {
  const timespec time{0, ms * 1'000'000};
  nanosleep(&time, nullptr);
}

void write_file(const std::string& path, size_t bytes) {
  std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
}

struct Total {
  int64_t count = 0, bytes = 0, cache_bytes = 0;
};

// Kept and counted ones together.
Total total_of(const std::vector<SeenEvent>& events, std::string_view name,
               std::string_view file_part = "") {
  Total total;
  for (const SeenEvent& e : events) {
    if (e.name != name) continue;
    if (e.kind == EventKind::kSpan && e.error == trace::kNoValue) {
      if (e.file.find(file_part) == std::string::npos) continue;
      ++total.count;
      total.bytes += e.bytes == trace::kNoValue ? 0 : e.bytes;
      total.cache_bytes += e.cache_bytes == trace::kNoValue ? 0 : e.cache_bytes;
    } else if (e.kind == EventKind::kInstant && e.count != trace::kNoValue && file_part.empty()) {
      total.count += e.count;
      total.bytes += e.bytes == trace::kNoValue ? 0 : e.bytes;
    }
  }
  return total;
}

std::string folder_on_disk() {
  return base::source_folder() + "/build";  // not tmpfs, which /tmp may be
}

TEST(IoEbpf, SeesTheCallsOfAnyProgramWithFileAndOffset) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  constexpr int kFiles = 50;
  std::vector<std::string> cat{"cat"};
  for (int i = 0; i < kFiles; ++i) {
    cat.push_back(folder / ("file-" + std::to_string(i)));
    write_file(cat.back(), 10'000);
  }
  const std::string python = "import sys\nfor p in sys.argv[1:]: open(p,'rb').read()";
  std::vector<std::string> script{"python3", "-c", python};
  script.insert(script.end(), cat.begin() + 1, cat.end());
  for (const std::vector<std::string>& command : {cat, script}) {
    SCOPED_TRACE(command[0]);
    const Watched seen = watch(kIoEbpf, [&] {
      dup2(open("/dev/null", O_WRONLY), 1);
      return program(command)();
    });
    ASSERT_TRUE(seen.recording);
    ASSERT_EQ(seen.exit_code, 0);
    const auto events = all_events(*seen.recording);
    EXPECT_EQ(total_of(events, "openat", folder.path()).count, kFiles);
    EXPECT_EQ(total_of(events, "read", folder.path()).bytes, kFiles * 10'000);
    EXPECT_EQ(total_of(events, "close", folder.path()).count, kFiles);
    EXPECT_EQ(seen.recording->fact(trace::fact::kDropped), "0");
    for (const SeenEvent& e : events) {
      if (e.name != "read" || e.file != cat[7] || e.bytes <= 0) continue;
      EXPECT_EQ(e.offset, 0);
      EXPECT_EQ(e.category, Category::kRead);
      EXPECT_THAT(e.track, HasSubstr(command[0]));
    }
  }
}

TEST(IoEbpf, TellsCacheFromDevice) {
  FB_SKIP_WITHOUT_EBPF();
  const std::string path = folder_on_disk() + "/ebpf-cold-" + std::to_string(getpid());
  constexpr int64_t kBytes = 8 << 20;
  write_file(path, kBytes);
  const auto read_all = [](const std::string& name, int flags) {
    const int fd = open(name.c_str(), O_RDONLY | flags);
    alignas(4096) static std::array<char, 65536> buffer;
    while (read(fd, buffer.data(), buffer.size()) > 0) {
    }
    close(fd);
  };
  const Watched seen = watch(kIoEbpf, [&] {
    const int fd = open(path.c_str(), O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    read_all(path, 0);
    fsync(-1);  // between the two, as a mark
    read_all(path, 0);
    fsync(-1);
    read_all(path, O_DIRECT);
    return 0;
  });
  std::filesystem::remove(path);
  ASSERT_TRUE(seen.recording);
  const auto events = all_events(*seen.recording);
  std::vector<int64_t> marks;
  for (const SeenEvent& e : events) {
    if (e.name == "fsync" && e.error == EBADF) marks.push_back(e.start_ns);
  }
  ASSERT_EQ(marks.size(), 2u);
  std::array<Total, 3> rounds;
  int64_t device_bytes = 0;
  for (const SeenEvent& e : events) {
    if (e.category == Category::kBlockIo && e.name == "read") device_bytes += e.bytes;
    if (e.name != "read" || e.file != path || e.bytes <= 0) continue;
    Total& total = rounds[(e.start_ns > marks[0]) + (e.start_ns > marks[1])];
    total.bytes += e.bytes;
    total.cache_bytes += e.cache_bytes;
  }
  for (const Total& total : rounds) EXPECT_EQ(total.bytes, kBytes);
  EXPECT_LE(rounds[0].cache_bytes, kBytes / 20) << "cold";
  EXPECT_EQ(rounds[1].cache_bytes, kBytes) << "cached";
  EXPECT_EQ(rounds[2].cache_bytes, 0) << "direct";
  EXPECT_GE(device_bytes, 2 * kBytes) << "cold and direct";
}

TEST(IoEbpf, FollowsForksExecsAndThreads) {
  FB_SKIP_WITHOUT_EBPF();
  if (kHasForeignThread) GTEST_SKIP() << "the thread sanitizer's own thread would be counted";
  const base::TestFolder folder("ebpf");
  write_file(folder / "data", 5'000);
  const std::string shell =
      "cat " + (folder / "data") + " | cat >/dev/null; cat " + (folder / "data") + " >/dev/null";
  const Watched seen = watch(kIoEbpf, program({"sh", "-c", shell}));
  ASSERT_TRUE(seen.recording);
  const auto events = all_events(*seen.recording);
  EXPECT_EQ(total_of(events, "read", folder / "data").bytes, 10'000);
  const auto count = [&](std::string_view name) {
    return std::count_if(events.begin(), events.end(), [&](const SeenEvent& e) {
      return e.name == name && e.category == Category::kProcess;
    });
  };
  EXPECT_EQ(count("fork"), 3);
  EXPECT_EQ(count("exec"), 4);
  EXPECT_EQ(count("exit"), 4);
  const bool has_pipe = std::any_of(events.begin(), events.end(), [](const SeenEvent& e) {
    return e.name == "read" && e.file == "pipe" && e.category == Category::kNetwork;
  });
  EXPECT_TRUE(has_pipe);
}

// Of this process: only what it sleeps from then on is known to be long.
void wait_until_asleep(int tid) {
  std::string stat;
  while (stat.find(") S ") == std::string::npos) {
    rest_ms(1);
    std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::getline(file, stat);
  }
}

TEST(IoEbpf, SaysWhyAThreadWasOffTheCpu) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  const std::string path = folder_on_disk() + "/ebpf-fault-" + std::to_string(getpid());
  write_file(path, 4 << 20);
  const Watched seen = watch(kIoEbpf, [&] {
    rest_ms(20);
    std::atomic<int> gate = 0;
    std::jthread opener([&gate, waiting = getpid()] {
      wait_until_asleep(waiting);
      rest_ms(30);
      gate = 1;
      gate.notify_all();
      rest_ms(1);
    });
    gate.wait(0);
    opener.join();
    const int fd = open(path.c_str(), O_RDWR);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    auto* const bytes =
        static_cast<volatile char*>(mmap(nullptr, 4 << 20, PROT_READ, MAP_SHARED, fd, 0));
    madvise(const_cast<char*>(bytes), 4 << 20, MADV_RANDOM);
    int sum = 0;
    for (size_t at = 0; at < (4 << 20); at += 1 << 20) sum += bytes[at];
    return sum == 0 ? 1 : 0;
  });
  std::filesystem::remove(path);
  ASSERT_TRUE(seen.recording);
  ASSERT_EQ(seen.exit_code, 0);
  std::map<std::string, int64_t> off_ns;
  int64_t faults = 0, woken_by_thread = 0;
  for (const SeenEvent& e : all_events(*seen.recording)) {
    if (e.category == Category::kOffCpu) off_ns[e.reason] += e.duration_ns;
    if (e.category == Category::kOffCpu && e.reason == "futex" && e.waker != trace::kNoValue) {
      ++woken_by_thread;
    }
    faults += e.category == Category::kFault && e.file == path;
  }
  EXPECT_GE(off_ns["clock_nanosleep"], 20'000'000);
  EXPECT_GE(off_ns["futex"], 20'000'000);
  EXPECT_GE(woken_by_thread, 1);
  EXPECT_EQ(faults, 4);
  EXPECT_GT(off_ns["page fault"], 0);
}

TEST(IoEbpf, MatchesRequestsOfIoUring) {
  FB_SKIP_WITHOUT_EBPF();
  auto here = sys::Ring::open(4);
  if (!here.ok()) GTEST_SKIP() << here.error().message;
  const base::TestFolder folder("ebpf");
  const std::string path = folder / "data";
  constexpr uint64_t kReads = 64;
  write_file(path, kReads * 4096);
  const Watched seen = watch(kIoEbpf, [&] {
    auto ring = sys::Ring::open(8);
    if (!ring.ok()) return 1;
    const int fd = open(path.c_str(), O_RDONLY);
    std::array<std::byte, 4096> buffer;
    for (uint64_t i = 0; i < kReads; ++i) {
      (*ring)->prepare({.fd = fd, .out = buffer, .offset = i * 4096, .tag = i});
      std::array<sys::RingEvent, 8> done;
      if ((*ring)->enter(done, 1).value_or(0) != 1) return 2;
    }
    return 0;
  });
  ASSERT_TRUE(seen.recording);
  ASSERT_EQ(seen.exit_code, 0);
  uint64_t reads = 0, offsets = 0;
  for (const SeenEvent& e : all_events(*seen.recording)) {
    // The ring also reads the descriptor that wakes it.
    if (e.name != "read" || e.file != path || e.track.find("io_uring") == std::string::npos)
      continue;
    ++reads;
    offsets += static_cast<uint64_t>(e.offset) / 4096;
    EXPECT_EQ(e.bytes, 4096);
  }
  EXPECT_EQ(reads, kReads);
  EXPECT_EQ(offsets, kReads * (kReads - 1) / 2);
}

TEST(IoEbpf, CountsExactlyWhatItDoesNotKeep) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  write_file(folder / "data", 1 << 20);
  constexpr int64_t kReads = 400'000;
  const Watched seen =
      watch(kIoEbpf,
            [&] {
              const int fd = open((folder / "data").c_str(), O_RDONLY);
              std::array<char, 4096> buffer;
              for (int64_t i = 0; i < kReads; ++i) {
                if (pread(fd, buffer.data(), buffer.size(), i % 256 * 4096) != 4096) return 1;
              }
              return 0;
            },
            {.events_per_second_max = 20'000});
  ASSERT_TRUE(seen.recording);
  ASSERT_EQ(seen.exit_code, 0);
  const auto events = all_events(*seen.recording);
  const Total total = total_of(events, "pread64");
  EXPECT_EQ(total.count, kReads);
  EXPECT_EQ(total.bytes, kReads * 4096);
  EXPECT_LT(total_of(events, "pread64", folder.path()).count, kReads / 2) << "kept one by one";
  EXPECT_TRUE(seen.recording->fact("warning.io_thinned"));
  // In line a call takes between 0.05 and 5 microseconds longer.
  const std::string inside(seen.recording->fact(trace::fact::kOverheadInside).value_or(""));
  EXPECT_GE(std::atof(inside.c_str()), kReads * 50.0);
  EXPECT_LE(std::atof(inside.c_str()), kReads * 5000.0);
  const std::string all(seen.recording->fact(trace::fact::kEventsSeen).value_or(""));
  EXPECT_GE(std::atoll(all.c_str()), kReads);
}

// Calls that are not kept are not timed either: those that wait among them must be.
TEST(IoEbpf, KeepsWhatWaitsInAFlood) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  write_file(folder / "data", 4096);
  constexpr int kWaits = 20, kBetween = 10'000;
  const Watched seen = watch(kIoEbpf,
                             [&] {
                               const int fd = open((folder / "data").c_str(), O_RDONLY);
                               const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
                               char byte = 0;
                               for (int i = 0; i < kWaits * kBetween; ++i) {
                                 if (pread(fd, &byte, 1, 0) != 1) return 1;
                                 if (i % kBetween != kBetween / 2) {
                                   lseek(fd, 0, SEEK_SET);
                                   if (read(fd, &byte, 1) != 1) return 2;
                                   continue;
                                 }
                                 itimerspec in{};
                                 in.it_value.tv_nsec = 3'000'000;
                                 timerfd_settime(timer, 0, &in, nullptr);
                                 uint64_t times = 0;
                                 if (read(timer, &times, sizeof times) != sizeof times) return 3;
                               }
                               return 0;
                             },
                             {.events_per_second_max = 20'000});
  ASSERT_TRUE(seen.recording);
  ASSERT_EQ(seen.exit_code, 0);
  // Where the scheduler says that a thread waited in a read, that read is there.
  std::vector<SeenEvent> reads, waits;
  for (const SeenEvent& e : all_events(*seen.recording)) {
    if (e.kind != EventKind::kSpan) continue;
    if (e.name == "read") reads.push_back(e);
    if (e.reason == "read" && e.duration_ns > 1'000'000) waits.push_back(e);
  }
  EXPECT_GE(waits.size(), 1u);
  for (const SeenEvent& wait : waits) {
    EXPECT_TRUE(std::any_of(reads.begin(), reads.end(), [&](const SeenEvent& e) {
      return e.file == "anonymous" && e.start_ns <= wait.start_ns &&
             e.start_ns + e.duration_ns >= wait.start_ns + wait.duration_ns;
    })) << wait.duration_ns;
  }
  EXPECT_LT(reads.size(), size_t{kWaits} * kBetween / 4) << "it was no flood";
}

TEST(IoBucket, IsThePowerOfTwo) {
  EXPECT_EQ(io_bucket(0), 0u);
  for (unsigned power = 0; power < 63; ++power) {
    EXPECT_EQ(io_bucket(uint64_t{1} << power), power);
    EXPECT_EQ(io_bucket((uint64_t{2} << power) - 1), power);
  }
}

TEST(IoEbpf, NamesRelativePathsAndFailures) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  const Watched seen = watch(kIoEbpf, [&] {
    if (chdir(folder.path().c_str()) != 0) return 1;
    struct stat status {};
    mkdir("sub", 0755);
    stat("./sub/../missing", &status);
    const int sub = open("sub", O_RDONLY | O_DIRECTORY);
    close(openat(sub, "new", O_CREAT | O_WRONLY, 0644));
    renameat(sub, "new", sub, "renamed");
    close(openat(sub, "renamed", O_RDONLY));
    unlinkat(sub, "renamed", 0);
    return 0;
  });
  ASSERT_TRUE(seen.recording);
  std::vector<std::string> lines;
  for (const SeenEvent& e : all_events(*seen.recording)) {
    if (e.category != Category::kMetadata || e.file.find(folder.path()) != 0) continue;
    lines.push_back(e.name + " " + e.file.substr(folder.path().size()) +
                    (e.error == trace::kNoValue ? "" : " " + std::to_string(e.error)));
  }
  EXPECT_THAT(lines, testing::IsSupersetOf({"mkdir /sub", "newfstatat /missing 2", "openat /sub",
                                            "openat /sub/new", "renameat /sub/new",
                                            "openat /sub/renamed", "unlinkat /sub/renamed"}));
}

// A collector that has begun, and the trace that it writes.
struct Begun {
  Begun(const std::string& path, int pid, bool is_attached)
      : writer(trace::TraceWriter::create(path).take()), tracks(*writer, "test") {
    Target target;
    target.pid = pid;
    target.is_attached = is_attached;
    EXPECT_TRUE(collector->prepare(target).ok());
    EXPECT_TRUE(collector->begin(target, sink).ok());
  }

  const std::unique_ptr<Collector> collector = kIoEbpf.make({});
  const std::unique_ptr<trace::TraceWriter> writer;
  Tracks tracks;
  Sink sink{*writer, tracks};
};

TEST(IoEbpf, AttachesToARunningTree) {
  FB_SKIP_WITHOUT_EBPF();
  const base::TestFolder folder("ebpf");
  write_file(folder / "data", 4096);
  // Reads so far, of each reader; in memory that all share, so that nobody waits a fixed time.
  using Counts = std::array<std::atomic<int>, 3>;
  void* const shared =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& counts = *new (shared) Counts{};
  const auto all_reach = [&](int least) {
    return std::all_of(counts.begin(), counts.end(), [&](const auto& c) { return c >= least; });
  };
  WaitingChild child([&] {
    const int fd = open((folder / "data").c_str(), O_RDONLY);
    const auto read_for_a_while = [&](size_t reader) {
      std::array<char, 4096> buffer;
      for (int i = 0; i < 10'000 && access((folder / "over").c_str(), F_OK) != 0; ++i) {
        if (pread(fd, buffer.data(), buffer.size(), 0) != 4096) return 1;
        ++counts[reader];
        rest_ms(5);
      }
      return 0;
    };
    const int below = fork();
    if (below == 0) _exit(read_for_a_while(0));
    std::jthread other([&] { read_for_a_while(1); });
    read_for_a_while(2);
    other.join();
    waitpid(below, nullptr, 0);
    return 0;
  });
  child.release();
  for (int i = 0; i < 3'000 && !all_reach(1); ++i) rest_ms(10);
  const std::string path = folder / "trace.fbt";
  {
    Begun io(path, child.pid(), true);
    const int enough = 2 + std::max({counts[0].load(), counts[1].load(), counts[2].load()});
    for (int i = 0; i < 3'000 && !all_reach(enough); ++i) {
      EXPECT_TRUE(io.collector->poll(io.sink).ok());
      rest_ms(10);
    }
    ASSERT_TRUE(io.collector->end(io.sink).ok());
    ASSERT_TRUE(io.writer->finish().ok());
    write_file(folder / "over", 0);
  }
  munmap(shared, sizeof(Counts));
  const auto recording = trace::Recording::load(std::vector<std::string>{path}).take();
  std::map<std::string, int> reads;
  for (const SeenEvent& e : all_events(recording)) {
    if (e.name == "pread64" && e.file == folder / "data") ++reads[e.track];
  }
  EXPECT_EQ(reads.size(), 3u) << "two threads and a child";
}

// A recorder that is killed after a flush has told what was counted until then.
TEST(IoEbpf, CountsAreInTheTraceBeforeTheEnd) {
  FB_SKIP_WITHOUT_EBPF();
  constexpr int kReads = 200'000;
  const base::TestFolder folder("ebpf");
  write_file(folder / "data", 4096);
  WaitingChild child([&] {
    const int fd = open((folder / "data").c_str(), O_RDONLY);
    std::array<char, 64> buffer;
    for (int i = 0; i < kReads; ++i)
      if (pread(fd, buffer.data(), buffer.size(), 0) != 64) return 1;
    close(open((folder / "flooded").c_str(), O_CREAT | O_WRONLY, 0600));
    while (access((folder / "over").c_str(), F_OK) != 0) rest_ms(5);
    return 0;
  });
  const std::string path = folder / "trace.fbt";
  Begun io(path, child.pid(), false);
  child.release();
  while (!child.has_ended() && access((folder / "flooded").c_str(), F_OK) != 0) {
    EXPECT_TRUE(io.collector->poll(io.sink).ok());
    rest_ms(10);
  }
  rest_ms(20);  // it leaves the CPU
  EXPECT_TRUE(io.collector->poll(io.sink).ok());
  EXPECT_TRUE(io.collector->tell_so_far(io.sink).ok());
  ASSERT_TRUE(io.writer->flush().ok());
  std::filesystem::copy_file(path, folder / "killed.fbt");
  write_file(folder / "over", 0);
  EXPECT_TRUE(io.collector->end(io.sink).ok());
  EXPECT_TRUE(io.writer->finish().ok());
  const auto killed = trace::Recording::load(std::vector{folder / "killed.fbt"}).take();
  const auto events = all_events(killed);
  EXPECT_EQ(total_of(events, "pread64").count, kReads);
  EXPECT_EQ(total_of(events, "pread64").bytes, int64_t{kReads} * 64);
  EXPECT_LT(events.size(), size_t{kReads} / 2) << "it was no flood";
}

TEST(IoFiles, PutsPathsTogether) {
  using namespace std::string_view_literals;
  EXPECT_EQ(path_of_names("c\0b\0a\0"sv, false), "/a/b/c");
  EXPECT_EQ(path_of_names("c\0b"sv, true), ".../b/c");
  EXPECT_EQ(path_of_names("", false), "/");
  EXPECT_EQ(path_from("/a/b", "../c//d/./e"), "/a/c/d/e");
  EXPECT_EQ(path_from("", "c/d"), "c/d");
  EXPECT_EQ(path_from("/a", "b/"), "/a/b");
  IoNameEvent event{};
  EXPECT_EQ(peer_of(event), "socket");
  event.family = 2;
  event.port = 0x5000;
  event.address[0] = 10;
  event.address[3] = 1;
  EXPECT_EQ(peer_of(event), "socket:10.0.0.1:80");
  event = {};
  event.family = 1;  // AF_UNIX: between processes, no network
  EXPECT_EQ(peer_of(event), "unix:");
}

}  // namespace
}  // namespace forebay::record

#include "record/io_ebpf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "record/io_calls.h"
#include "record/io_files.h"
#include "record/kernel_program.h"
#include "record/thinning.h"
#include "sys/file.h"
#include "sys/host.h"
#include "sys/other_process.h"
#include "sys/process.h"
#include "sys/system_call.h"
#include "trace/facts.h"

namespace forebay::record {

namespace {

using trace::Argument;
using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::KeyId;
using trace::kNoId;
using trace::NameId;
using trace::TextId;
using trace::TrackId;
using trace::TrackKind;

// Making and mapping the ring is a good part of what starting costs.
constexpr size_t kRingBytesPerCore = 4 << 20, kRingBytesMin = 8 << 20, kRingBytesMax = 64 << 20;
constexpr uint64_t kEventsPerLook = 1024;
// Threads that ended since the counts were last taken out of the kernel's map, which holds 65536.
constexpr size_t kEndsPerHarvest = 512;

// Keys of arguments, made once.
struct Keys {
  explicit Keys(trace::TraceWriter& writer)
      : file(writer.key(trace::key::kFile, ArgumentType::kText)),
        reason(writer.key(trace::key::kReason, ArgumentType::kText)),
        bytes(writer.key(trace::key::kBytes)),
        offset(writer.key(trace::key::kOffset)),
        error(writer.key(trace::key::kError)),
        unfinished(writer.key(trace::key::kUnfinished)),
        cache_bytes(writer.key(trace::key::kCacheBytes)),
        waker(writer.key("waker")),
        queue_ns(writer.key("queue_ns")),
        tid(writer.key("tid")),
        child(writer.key("child")),
        count(writer.key(trace::key::kCount)),
        total_ns(writer.key("total_ns")),
        bucket_ns(writer.key("bucket_ns")) {}
  KeyId file, reason, bytes, offset, error, unfinished, cache_bytes, waker, queue_ns, tid, child,
      count, total_ns, bucket_ns;
};

// Up to this many arguments of one event.
class Arguments {
 public:
  void add(KeyId key, int64_t value) { all_[size_++] = {key, value}; }
  void add_text(KeyId key, TextId text) {
    if (text != kNoId) add(key, text);
  }
  std::span<const Argument> all() const { return {all_, size_}; }

 private:
  Argument all_[6];
  size_t size_ = 0;
};

int64_t duration_of(const IoEvent& event) {
  return static_cast<int64_t>(event.duration_high) << 32 | event.duration_low;
}

// What a call on this kind of file means: reading from a pipe is waiting for another process.
Category category_of(const IoCallKind& kind, uint32_t file_kind) {
  if (kind.category != Category::kRead && kind.category != Category::kWrite) return kind.category;
  switch (file_kind) {
    case kIoSocket:
    case kIoPipe:
      return Category::kNetwork;
    case kIoAnonymous:
      return Category::kSleep;  // event and timer descriptors
    case kIoCharacter:
      return Category::kOther;  // a terminal
    default:
      return kind.category;
  }
}

class EbpfIo : public Collector {
 public:
  explicit EbpfIo(const CollectorOptions& options) : thinning_(options.events_per_second_max) {}

  Status prepare(Target& target) override;
  Status begin(const Target& target, Sink& sink) override;
  Status poll(Sink& sink) override;
  Status tell_so_far(Sink& sink) override;
  Status end(Sink& sink) override;
  CollectorTotals totals() const override;
  int64_t poll_within_ns() const override { return 50'000'000; }

 private:
  struct Thread {
    int pid = 0;
    TrackId track = kNoId;
  };

  void take(std::span<const std::byte> bytes, Sink& sink);
  void take_call(const IoEvent& event, TextId path, Sink& sink);
  void take_call_under_way(const IoEvent& event, Sink& sink);
  void take_off_cpu(const IoEvent& event, Sink& sink);
  void take_fault(const IoEvent& event, Sink& sink);
  void take_block(const IoEvent& event, Sink& sink);
  void take_request(const IoEvent& event, Sink& sink);
  void take_task(const IoTaskEvent& event, Sink& sink);
  Thread& thread(uint32_t tid, Sink& sink, std::string_view name = {});
  NameId call_name(uint32_t call, Category category, Sink& sink);
  TextId reason_text(int reason, Sink& sink);
  TrackId block_track(uint64_t device, Sink& sink);
  void add_file(Arguments& arguments, const IoEvent& event, bool has_offset);
  void thin(int64_t now_ns);
  void allow();
  Status calibrate(double untraced_ns);
  void harvest();
  void write_counts(Sink& sink);
  void say_thinned(Sink& sink);
  void write_facts(Sink& sink);
  uint64_t lost() const { return program_->dropped() + program_->uncounted(); }

  Thinning thinning_;
  std::unique_ptr<KernelProgram> program_;
  std::optional<Keys> keys_;
  std::optional<IoFiles> files_;
  std::unordered_map<uint32_t, Thread> threads_;  // by tid; those that ended stay for their counts
  std::unordered_map<uint64_t, NameId> call_names_;
  std::unordered_map<int, TextId> reasons_;
  std::unordered_map<uint64_t, TrackId> disks_;
  // Of one key: taken out of the kernel's map, last seen in it, and told in the trace.
  struct Counted {
    IoCount taken{}, there{}, told{};
  };
  std::unordered_map<uint64_t, Counted> counts_;
  std::unordered_set<uint32_t> ended_;  // threads whose counts are still in the kernel's map
  uint64_t kept_ = 0, kept_before_ = 0;
  uint64_t seen_ = 0;  // kept or counted; known at the end
  int64_t thinned_at_ns_ = 0;
  uint64_t told_lost_ = 0;
  bool is_thinned_ = false;
  double call_ns_ = 0;  // that a recorded call takes longer
};

Status EbpfIo::prepare(Target& /*target*/) {
  const auto cores = static_cast<size_t>(std::max(sys::usable_cpu_count(), 1));
  const size_t wanted = std::bit_ceil(cores * kRingBytesPerCore);
  program_ =
      FB_TRY(KernelProgram::load(io_settings(), std::clamp(wanted, kRingBytesMin, kRingBytesMax)));
  return {};
}

// CPU time of one short call in this thread: the median of a few rounds.
double short_call_ns() {
  constexpr int kRounds = 7, kCalls = 150;
  const auto file = sys::open_file(sys::kCurrentFolder, "/proc/self/exe", sys::OpenMode::kRead);
  if (!file.ok()) return 0;
  std::array<double, kRounds> rounds{};
  for (double& round : rounds) {
    std::byte byte{};
    const int64_t begin_ns = sys::thread_cpu_ns();
    for (int i = 0; i < kCalls; ++i) sys::read_once(file->get(), {&byte, 1}, 0);
    round = static_cast<double>(sys::thread_cpu_ns() - begin_ns) / kCalls;
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

// How much longer a call takes that is recorded: the recorder follows itself for a moment.
Status EbpfIo::calibrate(double untraced_ns) {
  const std::array<int, 1> self{sys::process_id()};
  FB_TRY(program_->follow(self));
  call_ns_ = std::max(short_call_ns() - untraced_ns, 0.0);
  FB_TRY(program_->forget(self));
  program_->consume([&](std::span<const std::byte> event) {
    if (static_cast<unsigned>(event[0]) == kIoName) files_->take(event);
  });
  FB_TRY(program_->write_back_counts());
  program_->take_counts();
  program_->take_seen();
  return {};
}

Status EbpfIo::begin(const Target& target, Sink& sink) {
  FB_CHECK(program_ != nullptr);  // prepare() came first
  keys_.emplace(sink.writer);
  files_.emplace(sink.writer);
  allow();
  const double untraced_ns = short_call_ns();
  FB_TRY(program_->attach());
  FB_TRY(calibrate(untraced_ns));
  const std::vector<int> pids =
      target.is_attached ? sys::process_tree(target.pid) : std::vector<int>{target.pid};
  FB_TRY(program_->follow(pids, target.is_attached));
  thinned_at_ns_ = base::monotonic_clock().now_ns();
  return {};
}

EbpfIo::Thread& EbpfIo::thread(uint32_t tid, Sink& sink, std::string_view name) {
  Thread& found = threads_[tid];
  if (found.pid == 0) found.pid = static_cast<int>(tid);  // its beginning was lost
  if (found.track == kNoId) {
    const int number = static_cast<int>(tid);
    // What was short-lived is gone from /proc: the kernel's own name serves then.
    const bool has_program = !sys::program_of(found.pid).empty();
    sink.tracks.process(found.pid, has_program ? std::string_view() : name);
    const bool has_name = !sys::thread_name(found.pid, number).empty();
    found.track = sink.tracks.thread(found.pid, number, has_name ? std::string_view() : name);
  }
  return found;
}

NameId EbpfIo::call_name(uint32_t call, Category category, Sink& sink) {
  const uint64_t key = uint64_t{call} << 8 | static_cast<uint64_t>(category);
  const auto [found, is_new] = call_names_.emplace(key, kNoId);
  if (is_new) {
    found->second = sink.writer.name(sys::system_call_name(static_cast<int>(call)), category);
  }
  return found->second;
}

void EbpfIo::add_file(Arguments& arguments, const IoEvent& event, bool has_offset) {
  if (event.file != 0) arguments.add_text(keys_->file, files_->text(event.file));
  if (has_offset && (event.extra & kIoHasOffset) != 0) arguments.add(keys_->offset, event.offset);
}

void EbpfIo::take_call(const IoEvent& event, TextId path, Sink& sink) {
  const IoCallKind* const kind = io_call_kind(event.call);
  if (kind == nullptr) return;
  const uint32_t file_kind = event.extra & kIoFileMask;
  const Category category = category_of(*kind, file_kind);
  Arguments arguments;
  if (path != kNoId) {
    arguments.add(keys_->file, path);
  } else {
    add_file(arguments, event, event.result >= 0 && file_kind != kIoSocket && file_kind != kIoPipe);
  }
  if (event.result < 0) {
    arguments.add(keys_->error, -int64_t{event.result});
  } else if ((kind->flags & kIoBytes) != 0) {
    arguments.add(keys_->bytes, event.result);
    if ((kind->flags & kIoReads) != 0 && file_kind == kIoRegular) {
      const int64_t fetched = event.pages == 0xffff ? event.result : int64_t{event.pages} * 4096;
      const bool is_direct = (event.extra & kIoDirect) != 0;
      arguments.add(keys_->cache_bytes,
                    is_direct ? 0 : std::max<int64_t>(event.result - fetched, 0));
    }
  }
  sink.writer.add({.track = thread(event.tid, sink).track,
                   .name = call_name(event.call, category, sink),
                   .start_ns = static_cast<int64_t>(event.start_ns),
                   .duration_ns = duration_of(event)},
                  arguments.all());
}

// A text in the memory of another process, as far as it can be read.
std::string text_at(int pid, uint64_t address) {
  constexpr uint64_t kPageBytes = 4096;
  std::string text;
  while (text.size() < kIoPathBytesMax) {
    std::array<std::byte, kPageBytes> bytes{};
    const size_t size = kPageBytes - address % kPageBytes;  // the next page may not be there
    if (!sys::read_memory(pid, address, std::span(bytes).first(size))) break;
    const auto* const words = reinterpret_cast<const char*>(bytes.data());
    const size_t length = strnlen(words, size);
    text.append(words, length);
    if (length < size) break;
    address += size;
  }
  return text;
}

// It has no result yet.
void EbpfIo::take_call_under_way(const IoEvent& event, Sink& sink) {
  const IoCallKind* const kind = io_call_kind(event.call);
  if (kind == nullptr) return;
  const Thread& in = thread(event.tid, sink);
  Arguments arguments;
  arguments.add(keys_->unfinished, 1);
  if ((event.extra & kIoHasAddress) != 0) {
    const auto address = static_cast<uint64_t>(event.offset);
    arguments.add_text(keys_->file, files_->path(event.file, text_at(in.pid, address)));
  } else {
    add_file(arguments, event, true);
  }
  const Category category = category_of(*kind, event.extra & kIoFileMask);
  sink.writer.add({.track = in.track,
                   .name = call_name(event.call, category, sink),
                   .start_ns = static_cast<int64_t>(event.start_ns),
                   .duration_ns = duration_of(event)},
                  arguments.all());
}

TextId EbpfIo::reason_text(int reason, Sink& sink) {
  const auto [found, is_new] = reasons_.emplace(reason, kNoId);
  if (!is_new) return found->second;
  std::string text;
  switch (reason) {
    case kIoPreempted:
      text = "preempted";
      break;
    case kIoInFault:
      text = "page fault";
      break;
    case kIoExiting:
      text = "exit";
      break;
    case kIoStopped:
      text = "stopped";
      break;
    case kIoUnknown:
      text = "unknown";
      break;
    default:
      text = sys::system_call_name(reason);
  }
  return found->second = sink.writer.text(text);
}

// An interrupt wakes who waits for a device, on the stack of whoever ran: no waker worth telling.
bool is_woken_by_threads(int reason) {
  const IoCallKind* const kind = io_call_kind(reason);
  return kind != nullptr && kind->category != Category::kRead &&
         kind->category != Category::kWrite && kind->category != Category::kSync &&
         kind->category != Category::kMetadata && kind->name != "nanosleep" &&
         kind->name != "clock_nanosleep" && kind->name != "io_uring_enter";
}

void EbpfIo::take_off_cpu(const IoEvent& event, Sink& sink) {
  Arguments arguments;
  arguments.add(keys_->reason, reason_text(event.result, sink));
  if (event.extra != 0 && is_woken_by_threads(event.result)) {
    arguments.add(keys_->waker, event.extra);
  }
  if (event.opcode == kIoUnderWay) arguments.add(keys_->unfinished, 1);
  sink.writer.add({.track = thread(event.tid, sink).track,
                   .name = sink.writer.name("off cpu", Category::kOffCpu),
                   .start_ns = static_cast<int64_t>(event.start_ns),
                   .duration_ns = duration_of(event)},
                  arguments.all());
}

void EbpfIo::take_fault(const IoEvent& event, Sink& sink) {
  const Thread& in = thread(event.tid, sink);
  Arguments arguments;
  arguments.add_text(keys_->file, files_->mapped_text(event.file, in.pid));
  arguments.add(keys_->offset, event.offset);
  if (event.opcode == kIoUnderWay) arguments.add(keys_->unfinished, 1);
  sink.writer.add({.track = in.track,
                   .name = sink.writer.name("page fault", Category::kFault),
                   .start_ns = static_cast<int64_t>(event.start_ns),
                   .duration_ns = duration_of(event)},
                  arguments.all());
}

TrackId EbpfIo::block_track(uint64_t device, Sink& sink) {
  const auto [found, is_new] = disks_.emplace(device, kNoId);
  if (is_new) {
    const auto major = static_cast<uint32_t>(device >> 20);
    const auto minor = static_cast<uint32_t>(device & 0xfffff);
    std::error_code error;
    const auto link =
        std::filesystem::read_symlink(fmt::format("/sys/dev/block/{}:{}", major, minor), error);
    const std::string name = error ? fmt::format("{}:{}", major, minor) : link.filename().string();
    found->second = sink.tracks.block_device(major, minor, name);
  }
  return found->second;
}

void EbpfIo::take_block(const IoEvent& event, Sink& sink) {
  Arguments arguments;
  arguments.add(keys_->bytes, static_cast<uint32_t>(event.result));
  arguments.add(keys_->offset, event.offset);
  arguments.add(keys_->queue_ns, event.extra);
  if (event.tid != 0) arguments.add(keys_->tid, event.tid);
  sink.writer.add({.track = block_track(event.file, sink),
                   .name = sink.writer.name(block_operation(event.opcode), Category::kBlockIo),
                   .start_ns = static_cast<int64_t>(event.start_ns),
                   .duration_ns = duration_of(event)},
                  arguments.all());
}

void EbpfIo::take_request(const IoEvent& event, Sink& sink) {
  const IoRequestKind kind = io_request_kind(event.opcode);
  const uint32_t file_kind = event.extra & kIoFileMask;
  const bool is_network = file_kind == kIoSocket || file_kind == kIoPipe;
  Arguments arguments;
  add_file(arguments, event, kind.has_offset && !is_network && event.offset >= 0);
  if (event.result < 0) {
    arguments.add(keys_->error, -int64_t{event.result});
  } else if (kind.has_bytes) {
    arguments.add(keys_->bytes, event.result);
    if (kind.category == Category::kRead && (event.extra & kIoDirect) != 0) {
      arguments.add(keys_->cache_bytes, 0);
    }
  }
  const Thread& by = thread(event.tid, sink);
  const TrackId process = sink.tracks.process(by.pid);
  sink.writer.add(
      {.track = sink.tracks.below(process, TrackKind::kStream, "io_uring"),
       .name = sink.writer.name(kind.name,
                                is_network && kind.has_offset ? Category::kNetwork : kind.category),
       .start_ns = static_cast<int64_t>(event.start_ns),
       .duration_ns = duration_of(event)},
      arguments.all());
}

void EbpfIo::take_task(const IoTaskEvent& event, Sink& sink) {
  const size_t length = strnlen(event.name, sizeof(event.name));
  const std::string_view name(event.name, length);
  const int pid = static_cast<int>(event.pid);
  Thread& about = threads_[event.tid];
  if (event.what == kIoTaskFork || event.what == kIoTaskThread || event.what == kIoTaskFollowed ||
      about.pid == 0) {
    about = {.pid = pid, .track = kNoId};
  }
  const auto at = static_cast<int64_t>(event.at_ns);
  const auto say = [&](TrackId track, std::string_view what, std::span<const Argument> arguments) {
    sink.writer.add({.track = track,
                     .name = sink.writer.name(what, Category::kProcess, EventKind::kInstant),
                     .start_ns = at,
                     .duration_ns = 0},
                    arguments);
  };
  if (event.what == kIoTaskFork) {
    const Argument child{keys_->child, event.pid};
    say(thread(event.parent, sink).track, "fork", {&child, 1});
  }
  const TrackId track = thread(event.tid, sink, name).track;
  if (event.what == kIoTaskExec) {
    const bool is_here = !sys::program_of(pid).empty();
    sink.tracks.rename(pid, pid, is_here ? std::string_view() : name);
    say(track, "exec", {});
  } else if (event.what == kIoTaskExit) {
    // Threads name themselves after they began.
    if (event.tid != event.pid && !name.empty()) {
      sink.tracks.rename(pid, static_cast<int>(event.tid), name);
    }
    say(track, "exit", {});
    ended_.insert(event.tid);
  }
}

void EbpfIo::take(std::span<const std::byte> bytes, Sink& sink) {
  if (bytes.size() < sizeof(IoTaskEvent)) return;
  const auto kind = static_cast<unsigned>(bytes[0]);
  if (kind == kIoTask) {
    IoTaskEvent task;
    std::memcpy(&task, bytes.data(), sizeof(task));
    return take_task(task, sink);
  }
  if (kind == kIoName) return files_->take(bytes);
  IoEvent event;
  if (bytes.size() < sizeof(event)) return;
  std::memcpy(&event, bytes.data(), sizeof(event));
  // In a flood the ring is not empty for long: what is thinned must be decided on the way. By the
  // events' own time: what piled up while the recorder waited for a CPU is read at once, but came
  // one by one.
  const uint64_t duration_ns = uint64_t{event.duration_high} << 32 | event.duration_low;
  if (++kept_ % kEventsPerLook == 0) thin(static_cast<int64_t>(event.start_ns + duration_ns));
  switch (kind) {
    case kIoCall:
      if (event.opcode == kIoUnderWay) return take_call_under_way(event, sink);
      return take_call(event, kNoId, sink);
    case kIoPathCall: {
      const auto* const text = reinterpret_cast<const char*>(bytes.data() + sizeof(event));
      const size_t length = strnlen(text, bytes.size() - sizeof(event));
      return take_call(event, files_->path(event.file, {text, length}), sink);
    }
    case kIoOffCpu:
      return take_off_cpu(event, sink);
    case kIoFault:
      return take_fault(event, sink);
    case kIoBlock:
      return take_block(event, sink);
    case kIoRequest:
      return take_request(event, sink);
    default:
      return;
  }
}

void EbpfIo::thin(int64_t now_ns) {
  if (now_ns - thinned_at_ns_ < kThinWindowNs) return;
  thinning_.update(kept_ - kept_before_, now_ns - thinned_at_ns_);
  kept_before_ = kept_;
  thinned_at_ns_ = now_ns;
  allow();
}

void EbpfIo::allow() {
  IoControl& control = program_->control();
  control.thin_below_ns = thinning_.below_ns();
  control.window_budget = thinning_.window_budget();
}

Status EbpfIo::poll(Sink& sink) {
  program_->consume([&](std::span<const std::byte> event) { take(event, sink); });
  thin(base::monotonic_clock().now_ns());
  if (ended_.size() >= kEndsPerHarvest) harvest();
  return {};
}

void add(IoCount& sum, const IoCount& more) {
  sum.count += more.count;
  sum.bytes += more.bytes;
  sum.total_ns += more.total_ns;
}

// Only what nobody adds to any more is taken out: a count that is added to at the same moment
// would be lost.
void EbpfIo::harvest() {
  for (const auto& [key, count] : program_->read_counts()) {
    Counted& counted = counts_[key];
    counted.there = count;
    if (ended_.count(static_cast<uint32_t>(key >> 32)) == 0) continue;
    add(counted.taken, program_->take_count(key));
    counted.there = {};
  }
  ended_.clear();
}

// While programs run: a recorder that is killed shall not have kept the counts for itself.
Status EbpfIo::tell_so_far(Sink& sink) {
  program_->collect_counts();
  harvest();
  write_counts(sink);
  if (const uint64_t lost_now = lost(); lost_now != told_lost_) {
    sink.writer.fact(trace::fact::kDropped, fmt::format("{}", lost_now));
    told_lost_ = lost_now;
  }
  return {};
}

void EbpfIo::say_thinned(Sink& sink) {
  if (std::exchange(is_thinned_, true)) return;
  sink.writer.fact(
      "warning.io_thinned",
      "more calls came than are kept one by one: short ones were thinned; counts and bytes are "
      "exact, times are those of the calls that were timed, in power-of-two buckets of duration");
}

void EbpfIo::write_counts(Sink& sink) {
  const int64_t now_ns = base::monotonic_clock().now_ns();
  for (auto at = counts_.begin(); at != counts_.end();) {
    const uint64_t key = at->first;
    Counted& counted = at->second;
    IoCount all = counted.taken;
    add(all, counted.there);
    const IoCount count{all.count - counted.told.count, all.bytes - counted.told.bytes,
                        all.total_ns - counted.told.total_ns};
    counted.told = all;
    at = counted.there.count == 0 ? counts_.erase(at) : std::next(at);
    // Of one that is being added to, the number may come a moment before the bytes.
    if (count.count == 0 && count.bytes == 0 && count.total_ns == 0) continue;
    const auto tid = static_cast<uint32_t>(key >> 32);
    const auto call = static_cast<uint32_t>(key >> 8 & ((1U << kIoCountKindShift) - 1));
    const auto file_kind = static_cast<uint32_t>(key >> (8 + kIoCountKindShift)) & kIoFileMask;
    const IoCallKind* const kind = io_call_kind(static_cast<int>(call));
    const NameId name =
        kind == nullptr
            ? sink.writer.name("off cpu", Category::kOffCpu, EventKind::kInstant)
            : sink.writer.name(kind->name, category_of(*kind, file_kind), EventKind::kInstant);
    // Those that wake others on a futex are never kept.
    if (kind == nullptr || (kind->flags & kIoFutex) == 0) say_thinned(sink);
    Arguments arguments;
    arguments.add(keys_->count, static_cast<int64_t>(count.count));
    if (kind != nullptr && (kind->flags & kIoBytes) != 0) {
      arguments.add(keys_->bytes, static_cast<int64_t>(count.bytes));
    }
    arguments.add(keys_->total_ns, static_cast<int64_t>(count.total_ns));
    arguments.add(keys_->bucket_ns, int64_t{1} << (key & 0xff));
    sink.writer.add(
        {.track = thread(tid, sink).track, .name = name, .start_ns = now_ns, .duration_ns = 0},
        arguments.all());
  }
}

// Why events found no place, and what to do about it; empty when none was lost.
std::string losses_of(const KernelProgram& program) {
  std::string text;
  if (program.dropped() > 0) {
    text = fmt::format(
        "the ring of {} between kernel and recorder was full, the recorder had too little of the "
        "CPU; calls among them are counted, not kept: leave it a core, or keep fewer "
        "(--events-max, --collect io)",
        base::format_memory(static_cast<double>(program.ring_bytes())));
  }
  if (program.uncounted() > 0) {
    text += fmt::format(
        "{}the table of counts was full and {} calls are in no total: record fewer threads at once "
        "(--pid), or keep more (--events-max)",
        text.empty() ? "" : "; ", program.uncounted());
  }
  return text;
}

void EbpfIo::write_facts(Sink& sink) {
  namespace fact = trace::fact;
  const IoControl& control = program_->control();
  sink.writer.fact(fact::kDropped, fmt::format("{}", lost()));
  seen_ = std::max(program_->take_seen(), kept_);
  if (const std::string losses = losses_of(*program_); !losses.empty()) {
    sink.writer.fact("warning.io_lost",
                     fmt::format("{} lost: {}", base::format_counted(lost(), "calls"), losses));
  }
  sink.writer.fact(fact::kEventsSeen, fmt::format("{}", seen_));
  sink.writer.fact(fact::kOverheadInside,
                   fmt::format("{:.0f}", call_ns_ * static_cast<double>(seen_)));
  sink.writer.fact("io.ring_bytes", fmt::format("{}", program_->ring_bytes()));
  if (control.uncounted != 0) {
    sink.writer.fact("io.uncounted", fmt::format("{}", control.uncounted));
  }
  if (!program_->left_out().empty()) {
    sink.writer.fact("io.left_out", fmt::format("{}", fmt::join(program_->left_out(), " ")));
  }
}

Status EbpfIo::end(Sink& sink) {
  if (!program_) return {};
  program_->control().is_over = 1;
  const Status told_waits = program_->tell_under_way();
  program_->detach();
  program_->consume([&](std::span<const std::byte> event) { take(event, sink); });
  // The CPUs hold counts back; without them the rest is as good.
  const Status counted = program_->write_back_counts();
  for (auto& [key, told] : counts_) told.there = {};
  for (const auto& [key, count] : program_->take_counts()) add(counts_[key].taken, count);
  write_counts(sink);
  write_facts(sink);
  if (!counted.ok()) sink.writer.fact("warning.io_counts", counted.error().message);
  if (!told_waits.ok()) sink.writer.fact("warning.io_under_way", told_waits.error().message);
  return {};
}

CollectorTotals EbpfIo::totals() const {
  if (!program_) return {};
  const uint64_t seen = std::max(seen_, kept_);
  return {.calls = seen,
          .lost = lost(),
          .inside_ns = static_cast<int64_t>(call_ns_ * static_cast<double>(seen)),
          .unit = "calls",
          .lost_because = losses_of(*program_),
          .is_for_want_of_space = false};
}

Availability probe() {
  const Status loaded = KernelProgram::try_load();
  if (loaded.ok())
    return {.is_available = true, .detail = "eBPF, BTF of this kernel", .remedy = {}};
  Availability none{.is_available = false, .detail = loaded.error().message, .remedy = {}};
  if (io_program_bytes().empty()) {
    none.remedy = "install clang-14 and build again";
  } else {
    none.remedy = "run as root, or: setcap cap_bpf,cap_perfmon+ep forebay";
  }
  return none;
}

std::unique_ptr<Collector> make(const CollectorOptions& options) {
  return std::make_unique<EbpfIo>(options);
}

}  // namespace

const Backend kIoEbpf{
    .collector = "io",
    .name = "ebpf",
    .gives = "calls on files, sockets and locks, why threads wait, page faults, disks, io_uring",
    .needs = "root or CAP_BPF and CAP_PERFMON; Linux 5.18 or newer with BTF",
    .misses = "32-bit system calls; whether buffered io_uring reads came from the page cache",
    .probe = probe,
    .make = make,
    .sees_off_cpu = true,
};

}  // namespace forebay::record

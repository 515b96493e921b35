#include "record/cpu_perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include "record/python_stack.h"
#include "record/sampled_stacks.h"
#include "sys/other_process.h"
#include "sys/perf_events.h"
#include "sys/process.h"
#include "trace/facts.h"

namespace forebay::record {

namespace {

using trace::Category;
using trace::EventKind;
using trace::TrackId;

// Samples that wait for their names; then they are written at once, which takes a moment.
constexpr size_t kWaitingMax = 4 << 20;

uint64_t thread_key(const sys::PerfRecord& record) {
  return uint64_t{static_cast<uint32_t>(record.pid)} << 32 | static_cast<uint32_t>(record.tid);
}

class CpuPerf : public Collector {
 public:
  explicit CpuPerf(const CollectorOptions& options)
      : hertz_(std::max(options.sample_hertz, 1)), with_switches_(!options.off_cpu_is_seen) {}

  Status begin(const Target& target, Sink& sink) override;
  Status poll(Sink& sink) override;
  Status end(Sink& sink) override;
  // The frames of Python are read after the sample was taken: at most this long after. To wake up
  // so often is what most costs in a recorder of a program that only computes.
  int64_t poll_within_ns() const override { return has_python_ ? 10'000'000 : 50'000'000; }

 private:
  struct Process {
    CodeMap code;
    bool is_listed = false;  // what was mapped before the recording
    uint64_t samples = 0;
    std::unique_ptr<PythonStacks> python;
  };
  struct Waiting {
    int64_t time_ns = 0;
    TrackId track = 0;
    uint32_t stack = 0;
  };

  void take(const sys::PerfRecord& record, Sink& sink);
  void take_sample(const sys::PerfRecord& record, Sink& sink);
  void take_mapping(const sys::PerfRecord& record);
  void take_switch(const sys::PerfRecord& record, Sink& sink);
  void take_child(const sys::PerfRecord& record, Sink& sink);
  Process& process(int pid);
  void list_code(int pid, Process& process);
  bool add_frame(const sys::PerfRecord& record, uint64_t address, Process& process);
  void look_for_python(int pid, Process& process);
  bool read_python(int pid, int tid, Process& process);
  void write(Sink& sink);
  TrackId track_of(const sys::PerfRecord& record, Sink& sink);

  const int hertz_;
  const bool with_switches_;
  std::unique_ptr<sys::PerfSampler> sampler_;
  SampledStacks stacks_;
  std::unordered_map<int, Process> processes_;
  std::unordered_map<uint64_t, TrackId> tracks_;  // by pid and tid
  struct OffCpu {
    int64_t since_ns = 0;
    bool is_preempted = false;
  };
  std::unordered_map<uint64_t, OffCpu> off_cpu_;  // by pid and tid: those that do not run now
  std::vector<Waiting> waiting_;
  bool has_python_ = false;       // some process has an interpreter, or had
  std::vector<uint32_t> frames_;  // of the sample at hand, innermost first
  std::vector<const PythonFunction*> python_frames_;
  uint64_t lost_ = 0, samples_ = 0, python_samples_ = 0, python_missed_ = 0;
};

Status CpuPerf::begin(const Target& target, Sink& /*sink*/) {
  std::vector<int> tids{target.pid};
  if (target.is_attached) {
    tids.clear();
    for (const int pid : sys::process_tree(target.pid)) {
      const std::vector<int> threads = sys::threads_of(pid);
      tids.insert(tids.end(), threads.begin(), threads.end());
    }
  }
  sampler_ =
      FB_TRY(sys::PerfSampler::open(tids, {.hertz = hertz_, .with_switches = with_switches_}));
  return {};
}

CpuPerf::Process& CpuPerf::process(int pid) {
  return processes_[pid];
}

void CpuPerf::list_code(int pid, Process& process) {
  process.is_listed = true;
  for (const sys::Mapping& m : sys::mappings_of(pid)) {
    if (!m.is_code) continue;
    process.code.add(m.begin, {m.end, m.file_offset, stacks_.module(m.path)});
  }
}

void CpuPerf::take_mapping(const sys::PerfRecord& record) {
  if (record.pid < 0) return;  // the kernel's
  const bool is_file = record.path.starts_with('/') && !record.path.starts_with("//");
  if (!is_file && record.path != "[vdso]") return;
  process(record.pid)
      .code.add(record.begin,
                {record.begin + record.size, record.file_offset, stacks_.module(record.path)});
}

// Puts the frame of one address behind frames_; false for an address that is no code.
bool CpuPerf::add_frame(const sys::PerfRecord& record, uint64_t address, Process& process) {
  const auto* range = process.code.find(address);
  if (range == nullptr && !process.is_listed) {
    list_code(record.pid, process);
    range = process.code.find(address);
  }
  if (range == nullptr) {
    // Code made at run time, or what a stack without frame pointers was taken for.
    if (address < 4096 || frames_.size() > record.kernel_frames) return false;
    frames_.push_back(stacks_.memory_frame(record.pid, address));
    return true;
  }
  const uint64_t offset = address - range->first + range->second.file_offset;
  frames_.push_back(stacks_.native_frame(range->second.module, offset));
  return true;
}

// An interpreter may be there from the start, or loaded later: looks at each doubling of samples.
void CpuPerf::look_for_python(int pid, Process& process) {
  const uint64_t n = ++process.samples;
  if (process.python == nullptr && (n & (n - 1)) == 0) process.python = PythonStacks::find(pid);
  if (process.python != nullptr) has_python_ = true;
}

bool CpuPerf::read_python(int pid, int tid, Process& process) {
  if (process.python == nullptr) return false;
  // A thread that has gone to wait since is somewhere else by now.
  if (sys::is_runnable(pid, tid) && process.python->read(tid, python_frames_)) {
    ++python_samples_;
    return true;
  }
  ++python_missed_;
  return false;
}

void CpuPerf::take_sample(const sys::PerfRecord& record, Sink& sink) {
  Process& in = process(record.pid);
  look_for_python(record.pid, in);
  const bool has_python = read_python(record.pid, record.tid, in);
  ++samples_;
  frames_.clear();
  for (size_t i = 0; i < record.stack.size(); ++i) {
    // A caller's address is where it goes on: the call itself stands before.
    const bool is_caller = i > 0 && i != record.kernel_frames;
    const uint64_t address = record.stack[i] - (is_caller ? 1 : 0);
    if (i < record.kernel_frames) {
      frames_.push_back(stacks_.kernel_frame(address));
      continue;
    }
    const bool is_evaluator = has_python && address >= in.python->evaluator_begin() &&
                              address < in.python->evaluator_end();
    if (is_evaluator || !add_frame(record, address, in)) break;
  }
  if (has_python) {
    for (const PythonFunction* function : python_frames_) {
      frames_.push_back(stacks_.python_frame(*function));
    }
  }
  uint32_t stack = SampledStacks::kNone;
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    stack = stacks_.stack(stack, *frame);
  }
  if (stack == SampledStacks::kNone) return;
  waiting_.push_back({record.time_ns, track_of(record, sink), stack});
}

TrackId CpuPerf::track_of(const sys::PerfRecord& record, Sink& sink) {
  const auto [track, is_new] = tracks_.emplace(thread_key(record), trace::kNoId);
  if (is_new) track->second = sink.tracks.thread(record.pid, record.tid);
  return track->second;
}

// Who began whom: also of vfork, which a library in the program cannot tell.
void CpuPerf::take_child(const sys::PerfRecord& record, Sink& sink) {
  sink.writer.add({.track = sink.tracks.thread(record.parent_pid, record.parent_pid),
                   .name = sink.writer.name("spawn", Category::kProcess, EventKind::kInstant),
                   .start_ns = record.time_ns,
                   .duration_ns = 0},
                  {{sink.writer.key("child", trace::ArgumentType::kInteger), record.pid}});
}

// What a thread waits for is not known here; whether it lost its core to others is.
void CpuPerf::take_switch(const sys::PerfRecord& record, Sink& sink) {
  if (record.kind == sys::PerfRecord::Kind::kSwitchOut) {
    off_cpu_[thread_key(record)] = {record.time_ns, record.is_preempted};
    return;
  }
  const auto off = off_cpu_.find(thread_key(record));
  if (off == off_cpu_.end()) return;
  const OffCpu was = off->second;
  off_cpu_.erase(off);
  if (record.time_ns <= was.since_ns) return;
  sink.writer.add({.track = track_of(record, sink),
                   .name = sink.writer.name("off cpu", Category::kOffCpu, EventKind::kSpan),
                   .start_ns = was.since_ns,
                   .duration_ns = record.time_ns - was.since_ns},
                  {{sink.writer.key(trace::key::kReason, trace::ArgumentType::kText),
                    sink.writer.text(was.is_preempted ? "preempted" : "blocked")}});
}

void CpuPerf::take(const sys::PerfRecord& record, Sink& sink) {
  using Kind = sys::PerfRecord::Kind;
  switch (record.kind) {
    case Kind::kSample:
      if (record.pid > 0) take_sample(record, sink);
      break;
    case Kind::kMapping:
      take_mapping(record);
      break;
    case Kind::kFork:
      if (record.pid != record.parent_pid) {
        process(record.pid).code = process(record.parent_pid).code;
        if (with_switches_) take_child(record, sink);
      }
      break;
    case Kind::kExec:
      processes_[record.pid] = {};
      break;
    case Kind::kExit:
      break;
    case Kind::kLost:
      lost_ += record.lost;
      break;
    case Kind::kSwitchOut:
    case Kind::kSwitchIn:
      if (record.pid > 0) take_switch(record, sink);
      break;
  }
}

Status CpuPerf::poll(Sink& sink) {
  sampler_->read([&](const sys::PerfRecord& record) { take(record, sink); });
  if (waiting_.size() >= kWaitingMax) write(sink);
  return {};
}

void CpuPerf::write(Sink& sink) {
  stacks_.resolve(sink.writer);
  const trace::NameId name = sink.writer.name("sample", Category::kOnCpu, EventKind::kSample);
  const trace::KeyId key = sink.writer.key(trace::key::kStack, trace::ArgumentType::kStack);
  for (const Waiting& sample : waiting_) {
    sink.writer.add({.track = sample.track,
                     .name = name,
                     .start_ns = sample.time_ns,
                     .duration_ns = 1'000'000'000 / hertz_},
                    {{key, stacks_.resolved(sample.stack)}});
  }
  waiting_.clear();
}

Status CpuPerf::end(Sink& sink) {
  if (!sampler_) return {};
  FB_TRY(poll(sink));
  write(sink);
  sink.writer.fact("cpu.samples", fmt::format("{}", samples_));
  sink.writer.fact("cpu.lost_samples", fmt::format("{}", lost_));
  sink.writer.fact("cpu.clock", sampler_->has_hardware() ? "cycles" : "cpu-clock");
  if (!sampler_->sees_kernel()) {
    sink.writer.fact("warning.cpu_kernel",
                     fmt::format("perf_event_paranoid is {}: time inside the kernel is not sampled",
                                 sys::perf_event_paranoid()));
  }
  if (python_samples_ + python_missed_ != 0) {
    sink.writer.fact("cpu.python_samples", fmt::format("{}", python_samples_));
    sink.writer.fact("cpu.python_samples_missed", fmt::format("{}", python_missed_));
  }
  return {};
}

Availability probe() {
  const std::array<int, 1> self{sys::process_id()};
  const auto sampler = sys::PerfSampler::open(self, {.hertz = 1, .ring_bytes = 32 << 10});
  if (!sampler.ok()) {
    return {.is_available = false,
            .detail = fmt::format("{} (perf_event_paranoid is {})", sampler.error().message,
                                  sys::perf_event_paranoid()),
            .remedy = "run as root, or: setcap cap_perfmon+ep forebay"};
  }
  return {.is_available = true,
          .detail = fmt::format(
              "{}, {}", (*sampler)->has_hardware() ? "cycles" : "cpu-clock",
              (*sampler)->sees_kernel() ? "program and kernel" : "the program without the kernel"),
          .remedy = (*sampler)->sees_kernel()
                        ? ""
                        : "to see the kernel too: run as root, or: setcap cap_perfmon+ep forebay"};
}

std::unique_ptr<Collector> make(const CollectorOptions& options) {
  return std::make_unique<CpuPerf>(options);
}

}  // namespace

const Backend kCpuPerf{
    .collector = "cpu",
    .name = "perf",
    .gives = "which functions run, of the program, its libraries, Python and the kernel",
    .needs = "perf_event_open; for the kernel's part root, CAP_PERFMON or perf_event_paranoid <= 1",
    .misses =
        "callers in code built without frame pointers; Python frames are read up to 10 ms "
        "after the sample, and only while the thread still runs",
    .probe = probe,
    .make = make,
};

}  // namespace forebay::record

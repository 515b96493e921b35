// Collector proc: what each process of the observed tree uses, from /proc.
#include <map>
#include <memory>

#include "record/builtin.h"
#include "record/pace.h"
#include "record/usage_counter.h"
#include "sys/clocks.h"
#include "sys/host.h"
#include "sys/process.h"
#include "sys/process_tree.h"

namespace forebay::record {
namespace {

struct ThreadCounters {
  UsageCounter cpu, runnable;
};

struct ProcessCounters {
  explicit ProcessCounters(int pid) : watch(pid) {}
  sys::ProcessWatch watch;
  UsageCounter cpu, resident, threads, read, written;
  std::map<int, ThreadCounters> by_thread;
  std::map<int, int64_t> thread_cpu_ns;  // of threads that live
  int64_t ended_cpu_ns = 0;              // of those that ended, as last seen
  bool is_listed = false;
};

class ProcCollector : public Collector {
 public:
  explicit ProcCollector(const CollectorOptions& options)
      : pace_(options.poll_hertz), tree_pace_(2) {}

  Status begin(const Target& target, Sink& /*sink*/) override {
    pid_ = target.pid;
    root_ = target.is_attached ? target.pid : sys::process_id();
    cores_ = sys::host().cpu_count_online;
    return {};
  }
  Status poll(Sink& sink) override;
  Status end(Sink& /*sink*/) override { return {}; }

 private:
  void look_for_processes();
  void read_process(Sink& sink, int pid, ProcessCounters& process);

  Pace pace_, tree_pace_;
  int pid_ = 0, root_ = 0;
  double cores_ = 1;
  std::map<int, std::unique_ptr<ProcessCounters>> processes_;
  sys::ProcessWatch::Use use_;
};

void ProcCollector::look_for_processes() {
  for (auto& [pid, process] : processes_) process->is_listed = false;
  const auto list = [&](int pid) {
    auto& process = processes_[pid];
    if (!process) process = std::make_unique<ProcessCounters>(pid);
    process->is_listed = true;
  };
  list(pid_);
  for (const auto& [pid, parent] : sys::descendants_of(root_)) list(pid);
  std::erase_if(processes_, [](const auto& entry) { return !entry.second->is_listed; });
}

void ProcCollector::read_process(Sink& sink, int pid, ProcessCounters& process) {
  const int64_t now = sys::monotonic_ns();
  if (!process.watch.read(use_)) return;
  trace::TraceWriter& writer = sink.writer;
  if (process.thread_cpu_ns.empty()) {
    const trace::TrackId track = sink.tracks.process(pid);
    process.cpu = UsageCounter(writer, track, "cpu_cores", cores_);
    process.resident = UsageCounter(writer, track, "resident_bytes");
    process.threads = UsageCounter(writer, track, "threads");
    process.read = UsageCounter(writer, track, "device_read_bytes_per_second");
    process.written = UsageCounter(writer, track, "device_written_bytes_per_second");
  }
  std::map<int, int64_t> alive;
  int64_t cpu_ns = 0;
  for (const auto& thread : use_.threads) {
    auto [counters, is_new] = process.by_thread.try_emplace(thread.tid);
    if (is_new) {
      const trace::TrackId track = sink.tracks.thread(pid, thread.tid);
      counters->second.cpu = UsageCounter(writer, track, "cpu_cores", 1);
      counters->second.runnable = UsageCounter(writer, track, "runnable_cores", 1);
    }
    counters->second.cpu.total(writer, now, static_cast<uint64_t>(thread.cpu_ns), 1e-9);
    counters->second.runnable.total(writer, now, static_cast<uint64_t>(thread.runnable_ns), 1e-9);
    alive[thread.tid] = thread.cpu_ns;
    cpu_ns += thread.cpu_ns;
  }
  for (const auto& [tid, used_ns] : process.thread_cpu_ns) {
    if (alive.count(tid) != 0) continue;
    process.ended_cpu_ns += used_ns;
    process.by_thread.erase(tid);
  }
  process.thread_cpu_ns = std::move(alive);
  process.cpu.total(writer, now, static_cast<uint64_t>(cpu_ns + process.ended_cpu_ns), 1e-9);
  process.resident.value(writer, now, static_cast<double>(use_.resident_bytes));
  process.threads.value(writer, now, static_cast<double>(use_.threads.size()));
  if (use_.device_read_bytes) process.read.total(writer, now, *use_.device_read_bytes);
  if (use_.device_written_bytes) process.written.total(writer, now, *use_.device_written_bytes);
}

Status ProcCollector::poll(Sink& sink) {
  const int64_t now = sys::monotonic_ns();
  if (tree_pace_.is_due(now)) {
    tree_pace_.begin(now);
    look_for_processes();
    tree_pace_.end();
  }
  if (!pace_.is_due(now)) return {};
  pace_.begin(sys::monotonic_ns());
  for (auto& [pid, process] : processes_) read_process(sink, pid, *process);
  pace_.end();
  return {};
}

Availability probe() {
  if (sys::small_file("/proc/self/schedstat").empty())
    return {.is_available = false,
            .detail = "/proc has no schedstat",
            .remedy = "mount /proc, in a kernel with CONFIG_SCHED_INFO"};
  return {.is_available = true, .detail = "/proc", .remedy = {}};
}

}  // namespace

const Backend kProc{.collector = "proc",
                    .name = "proc",
                    .gives = "CPU, memory, threads and device I/O of each process and thread",
                    .needs = "/proc",
                    .misses = "processes that live shorter than half a second",
                    .probe = probe,
                    .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
                      return std::make_unique<ProcCollector>(options);
                    }};

}  // namespace forebay::record

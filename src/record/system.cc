// Collector system: what the whole machine does, from /proc: cores, disks, interfaces, memory,
// pressure; and the limits of this cgroup.
#include <fmt/core.h>

#include <map>
#include <memory>
#include <string>

#include "record/builtin.h"
#include "record/pace.h"
#include "record/usage_counter.h"
#include "sys/clocks.h"
#include "sys/directory.h"
#include "sys/host.h"
#include "sys/proc_file.h"

namespace forebay::record {
namespace {

struct Disk {
  UsageCounter read, written, busy, in_flight;
};
struct Interface {
  UsageCounter received, sent;
};

class SystemCollector : public Collector {
 public:
  explicit SystemCollector(const CollectorOptions& options) : pace_(options.poll_hertz) {}

  Status begin(const Target& target, Sink& sink) override;
  Status poll(Sink& sink) override;
  Status end(Sink& /*sink*/) override { return {}; }

 private:
  void read_cores(Sink& sink, int64_t now);
  void read_disks(Sink& sink, int64_t now);
  void read_network(Sink& sink, int64_t now);
  void read_memory(Sink& sink, int64_t now);
  void read_pressure(Sink& sink, int64_t now);

  Pace pace_;
  sys::ProcFile stat_{"/proc/stat"}, disks_file_{"/proc/diskstats"}, network_file_{"/proc/net/dev"};
  sys::ProcFile memory_{"/proc/meminfo"};
  std::map<uint64_t, UsageCounter> cores_;
  std::map<std::string, Disk, std::less<>> disks_;
  std::map<std::string, Interface, std::less<>> interfaces_;
  UsageCounter available_, cached_, dirty_;
  struct Pressure {
    sys::ProcFile file;
    UsageCounter share;
  };
  std::vector<Pressure> pressures_;
};

Status SystemCollector::begin(const Target& /*target*/, Sink& sink) {
  const trace::TrackId host = sink.tracks.host();
  available_ = UsageCounter(sink.writer, host, "available_bytes");
  cached_ = UsageCounter(sink.writer, host, "cached_bytes");
  dirty_ = UsageCounter(sink.writer, host, "dirty_bytes");
  for (const std::string name : {"cpu", "io", "memory"}) {
    sys::ProcFile file("/proc/pressure/" + name);
    if (!file.read()) continue;
    pressures_.push_back(
        {.file = std::move(file),
         .share = UsageCounter(sink.writer, host, "pressure_" + name + "_share", 1)});
  }
  const sys::Host machine = sys::host();
  sink.writer.fact("host.cpu", machine.cpu_model);
  sink.writer.fact("host.kernel", machine.kernel);
  sink.writer.fact("host.cores", fmt::format("{}", machine.cpu_count_online));
  sink.writer.fact("host.memory_bytes", fmt::format("{}", machine.memory_bytes));
  sink.writer.fact("cgroup.cores", fmt::format("{}", machine.cpu_count));
  sink.writer.fact("cgroup.memory_bytes", fmt::format("{}", machine.memory_limit_bytes));
  if (pressures_.empty())
    sink.writer.fact("missing.system", "pressure: this kernel has no /proc/pressure");
  return poll(sink);
}

void SystemCollector::read_cores(Sink& sink, int64_t now) {
  auto text = stat_.read();
  if (!text) return;
  while (auto line = sys::take_line(*text)) {
    if (!line->starts_with("cpu")) break;  // interrupts follow, a long line
    line->remove_prefix(3);
    if (line->starts_with(' ')) continue;  // all cores together
    const uint64_t index = sys::take_number(*line);
    uint64_t ticks[8] = {};
    for (uint64_t& tick : ticks) tick = sys::take_number(*line);
    auto [core, is_new] = cores_.try_emplace(index);
    if (is_new)
      core->second =
          UsageCounter(sink.writer, sink.tracks.core(static_cast<int>(index)), "busy_share", 1);
    // user, nice, system, irq, softirq, steal; not idle and iowait. USER_HZ is 100.
    core->second.total(sink.writer, now,
                       ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7], 0.01);
  }
}

// Loop devices and memory disks carry what other disks carry too, or nothing.
bool counts_as_disk(std::string_view name) {
  return !name.starts_with("loop") && !name.starts_with("ram") && !name.starts_with("zram");
}

void SystemCollector::read_disks(Sink& sink, int64_t now) {
  auto text = disks_file_.read();
  if (!text) return;
  while (auto line = sys::take_line(*text)) {
    const auto major = static_cast<uint32_t>(sys::take_number(*line));
    const auto minor = static_cast<uint32_t>(sys::take_number(*line));
    line->remove_prefix(std::min<size_t>(1, line->size()));
    const std::string_view name = line->substr(0, line->find(' '));
    line->remove_prefix(name.size());
    if (!counts_as_disk(name)) continue;
    uint64_t fields[10] = {};
    for (uint64_t& field : fields) field = sys::take_number(*line);
    auto found = disks_.find(name);
    if (found == disks_.end()) {
      // A partition's traffic is its disk's too.
      if (sys::path_exists("/sys/class/block/" + std::string(name) + "/partition")) continue;
      const trace::TrackId track = sink.tracks.block_device(major, minor, name);
      Disk disk{.read = UsageCounter(sink.writer, track, "read_bytes_per_second"),
                .written = UsageCounter(sink.writer, track, "written_bytes_per_second"),
                .busy = UsageCounter(sink.writer, track, "busy_share", 1),
                .in_flight = UsageCounter(sink.writer, track, "requests_in_flight")};
      found = disks_.emplace(std::string(name), disk).first;
    }
    Disk& disk = found->second;
    constexpr double kSectorBytes = 512;
    disk.read.total(sink.writer, now, fields[2], kSectorBytes);
    disk.written.total(sink.writer, now, fields[6], kSectorBytes);
    disk.in_flight.value(sink.writer, now, static_cast<double>(fields[8]));
    disk.busy.total(sink.writer, now, fields[9], 1e-3);
  }
}

void SystemCollector::read_network(Sink& sink, int64_t now) {
  auto text = network_file_.read();
  if (!text) return;
  while (auto line = sys::take_line(*text)) {
    const size_t colon = line->find(':');
    if (colon == std::string_view::npos) continue;  // the two lines of headings
    std::string_view name = line->substr(0, colon);
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    line->remove_prefix(colon + 1);
    uint64_t fields[9] = {};
    for (uint64_t& field : fields) field = sys::take_number(*line);
    auto found = interfaces_.find(name);
    if (found == interfaces_.end()) {
      const trace::TrackId track = sink.tracks.network(name);
      Interface one{.received = UsageCounter(sink.writer, track, "received_bytes_per_second"),
                    .sent = UsageCounter(sink.writer, track, "sent_bytes_per_second")};
      found = interfaces_.emplace(std::string(name), one).first;
    }
    found->second.received.total(sink.writer, now, fields[0]);
    found->second.sent.total(sink.writer, now, fields[8]);
  }
}

void SystemCollector::read_memory(Sink& sink, int64_t now) {
  const auto text = memory_.read();
  if (!text) return;
  const auto write = [&](UsageCounter& counter, std::string_view key) {
    if (const auto kib = sys::number_after(*text, key))
      counter.value(sink.writer, now, static_cast<double>(*kib * 1024));
  };
  write(available_, "MemAvailable:");
  write(cached_, "Cached:");
  write(dirty_, "Dirty:");
}

void SystemCollector::read_pressure(Sink& sink, int64_t now) {
  for (Pressure& pressure : pressures_) {
    auto text = pressure.file.read();
    if (!text) continue;
    const auto line = sys::take_line(*text);  // "some avg10=... total=MICROSECONDS"
    const size_t at = line ? line->find("total=") : std::string_view::npos;
    if (at == std::string_view::npos) continue;
    std::string_view rest = line->substr(at + 6);
    pressure.share.total(sink.writer, now, sys::take_number(rest), 1e-6);
  }
}

Status SystemCollector::poll(Sink& sink) {
  const int64_t began = sys::monotonic_ns();
  if (!pace_.is_due(began)) return {};
  pace_.begin(began);
  read_cores(sink, began);
  read_disks(sink, began);
  read_network(sink, began);
  read_memory(sink, began);
  read_pressure(sink, began);
  pace_.end();
  return {};
}

Availability probe() {
  if (sys::ProcFile("/proc/stat").is_open())
    return {.is_available = true, .detail = "/proc", .remedy = {}};
  return {.is_available = false, .detail = "/proc/stat cannot be read", .remedy = "mount /proc"};
}

}  // namespace

const Backend kSystem{.collector = "system",
                      .name = "proc",
                      .gives = "cores, disks, network, memory, pressure; limits of the cgroup",
                      .needs = "/proc",
                      .misses = {},
                      .probe = probe,
                      .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
                        return std::make_unique<SystemCollector>(options);
                      }};

}  // namespace forebay::record

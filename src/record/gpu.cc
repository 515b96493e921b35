// Collector gpu: what the accelerators do, by NVIDIA's library or, without it, by nvidia-smi.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "record/builtin.h"
#include "record/gpu_counters.h"
#include "record/pace.h"
#include "record/smi_text.h"
#include "sys/child_process.h"
#include "sys/clocks.h"
#include "sys/environment.h"
#include "sys/gpu_library.h"

namespace forebay::record {

GpuCounters::GpuCounters(Sink& sink, int index, std::string_view name) {
  const trace::TrackId track = sink.tracks.device(index, name);
  trace::TraceWriter& writer = sink.writer;
  busy_ = UsageCounter(writer, track, "busy_share");
  memory_busy_ = UsageCounter(writer, track, "memory_busy_share");
  used_ = UsageCounter(writer, track, "used_bytes");
  power_ = UsageCounter(writer, track, "power_watts");
  energy_ = UsageCounter(writer, track, "energy_joules");
  received_ = UsageCounter(writer, track, "pcie_received_bytes_per_second");
  sent_ = UsageCounter(writer, track, "pcie_sent_bytes_per_second");
}

void GpuCounters::write(trace::TraceWriter& writer, int64_t at_ns, const sys::GpuReading& reading) {
  const auto put = [&](UsageCounter& counter, const auto& value) {
    if (value) counter.value(writer, at_ns, static_cast<double>(*value));
  };
  put(busy_, reading.busy_share);
  put(memory_busy_, reading.memory_busy_share);
  put(used_, reading.used_bytes);
  put(power_, reading.power_watts);
  put(energy_, reading.energy_joules);
  put(received_, reading.pcie_received_bytes_per_second);
  put(sent_, reading.pcie_sent_bytes_per_second);
}

namespace {

// Another file than the driver's, for tests and unusual installations.
std::string library_file() {
  return sys::environment("FOREBAY_NVML").value_or(std::string());
}

class NvmlCollector : public Collector {
 public:
  explicit NvmlCollector(const CollectorOptions& options) : pace_(options.poll_hertz) {}

  Status begin(const Target& /*target*/, Sink& sink) override {
    library_ = FB_TRY(sys::GpuLibrary::open(library_file()));
    for (size_t i = 0; i < library_->devices().size(); ++i) {
      const auto& device = library_->devices()[i];
      counters_.emplace_back(sink, static_cast<int>(i), device.name);
      sink.writer.fact(fmt::format("gpu.{}", i),
                       fmt::format("{}, {} bytes", device.name, device.memory_bytes));
    }
    return poll(sink);
  }
  Status poll(Sink& sink) override {
    const int64_t now = sys::monotonic_ns();
    if (!pace_.is_due(now)) return {};
    pace_.begin(now);
    for (size_t i = 0; i < counters_.size(); ++i)
      counters_[i].write(sink.writer, sys::monotonic_ns(), library_->read(i));
    pace_.end();
    return {};
  }
  Status end(Sink& /*sink*/) override { return {}; }

 private:
  Pace pace_;
  std::unique_ptr<sys::GpuLibrary> library_;
  std::vector<GpuCounters> counters_;
};

Availability probe_nvml() {
  const auto library = sys::GpuLibrary::open(library_file());
  if (library.ok())
    return {.is_available = true,
            .detail = base::format_counted((*library)->devices().size(), "accelerators"),
            .remedy = {}};
  return {.is_available = false,
          .detail = library.error().message,
          .remedy = "install NVIDIA's driver; in a container: --gpus all"};
}

class SmiCollector : public Collector {
 public:
  explicit SmiCollector(const CollectorOptions& options) : hertz_(options.poll_hertz) {}

  Status begin(const Target& /*target*/, Sink& /*sink*/) override {
    helper_.emplace(FB_TRY(sys::Helper::start(
        {"nvidia-smi", "--query-gpu=" + std::string(kSmiQuery), "--format=csv,noheader,nounits",
         "-lms", fmt::format("{}", 1000 / std::max(hertz_, 1))})));
    return {};
  }
  Status poll(Sink& sink) override {
    // Each line is taken to be as new as this poll: at most a tenth of a second late.
    const int64_t now = sys::monotonic_ns();
    text_ += helper_->read_more();
    size_t begin = 0;
    for (size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto line = parse_smi_line(std::string_view(text_).substr(begin, end - begin));
      if (!line) continue;
      auto [counters, is_new] = counters_.try_emplace(line->index, std::nullopt);
      if (is_new) counters->second.emplace(sink, line->index, line->name);
      counters->second->write(sink.writer, now, line->reading);
    }
    text_.erase(0, begin);
    return {};
  }
  Status end(Sink& /*sink*/) override {
    helper_.reset();
    return {};
  }

 private:
  const int hertz_;
  std::optional<sys::Helper> helper_;
  std::string text_;
  std::map<int, std::optional<GpuCounters>> counters_;
};

Availability probe_smi() {
  if (!sys::find_program("nvidia-smi").ok())
    return {.is_available = false,
            .detail = "no nvidia-smi: no GPU",
            .remedy = "install NVIDIA's driver; in a container: --gpus all"};
  return {.is_available = true, .detail = "nvidia-smi -lms", .remedy = {}};
}

}  // namespace

const Backend kGpuNvml{
    .collector = "gpu",
    .name = "nvml",
    .gives = "use, memory, power, energy and PCIe traffic of NVIDIA GPUs, MIG too",
    .needs = "NVIDIA's driver (libnvidia-ml.so.1)",
    .misses = "single kernels; PCIe traffic is of the last 20 ms",
    .probe = probe_nvml,
    .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
      return std::make_unique<NvmlCollector>(options);
    }};

const Backend kGpuSmi{.collector = "gpu",
                      .name = "nvidia-smi",
                      .gives = "use, memory and power of NVIDIA GPUs",
                      .needs = "the program nvidia-smi",
                      .misses = "energy, PCIe traffic, MIG slices, single kernels",
                      .probe = probe_smi,
                      .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
                        return std::make_unique<SmiCollector>(options);
                      }};

}  // namespace forebay::record

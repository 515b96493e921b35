// Collector energy: what the processors take, from RAPL where it may be read and really counts.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "record/builtin.h"
#include "record/energy_domain.h"
#include "record/pace.h"
#include "record/usage_counter.h"
#include "sys/clocks.h"
#include "sys/directory.h"
#include "sys/environment.h"
#include "sys/file.h"

namespace forebay::record {

EnergyDomain::EnergyDomain(const std::string& folder)
    : name_(sys::small_file(folder + "/name")), file_(folder + "/energy_uj") {
  const auto range = base::parse_int(sys::small_file(folder + "/max_energy_range_uj"));
  if (range.ok() && *range > 0) range_microjoules_ = static_cast<uint64_t>(*range);
}

std::optional<double> EnergyDomain::joules() {
  auto text = file_.read();
  if (!text) return std::nullopt;
  const uint64_t now = sys::take_number(*text);
  if (last_ && now < *last_) {
    // The counter began anew; without its range what it had counted up to then is unknown.
    if (range_microjoules_ == 0) {
      last_ = now;
      return std::nullopt;
    }
    sum_microjoules_ += range_microjoules_ - *last_ + now;
  } else if (last_) {
    sum_microjoules_ += now - *last_;
  }
  last_ = now;
  return static_cast<double>(sum_microjoules_) * 1e-6;
}

namespace {

std::string rapl_folder() {
  return sys::environment("FOREBAY_POWERCAP").value_or("/sys/class/powercap");
}

// Packages and memory; the cores' own domains are parts of a package.
std::vector<std::string> domain_folders() {
  std::vector<std::string> folders;
  const std::string folder = rapl_folder();
  for (const std::string& name : sys::names_in(sys::kCurrentFolder, folder).value_or({})) {
    if (!name.starts_with("intel-rapl:") && !name.starts_with("amd-rapl:")) continue;
    const std::string label = sys::small_file(folder + "/" + name + "/name");
    if (label.starts_with("package") || label == "dram" || label.starts_with("psys"))
      folders.push_back(folder + "/" + name);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

class RaplCollector : public Collector {
 public:
  explicit RaplCollector(const CollectorOptions& options) : pace_(options.poll_hertz) {}

  Status begin(const Target& /*target*/, Sink& sink) override {
    for (const std::string& folder : domain_folders()) {
      EnergyDomain domain(folder);
      const trace::TrackId track =
          sink.tracks.below(sink.tracks.host(), trace::TrackKind::kOther, domain.name(),
                            static_cast<int64_t>(domains_.size()));
      domains_.push_back({.energy = std::move(domain),
                          .joules = UsageCounter(sink.writer, track, "energy_joules"),
                          .watts = UsageCounter(sink.writer, track, "power_watts")});
    }
    return poll(sink);
  }
  Status poll(Sink& sink) override {
    const int64_t now = sys::monotonic_ns();
    if (!pace_.is_due(now)) return {};
    pace_.begin(now);
    for (Domain& domain : domains_) {
      const auto joules = domain.energy.joules();
      if (!joules) continue;
      domain.joules.value(sink.writer, now, *joules);
      domain.watts.total(sink.writer, now, static_cast<uint64_t>(*joules * 1e6), 1e-6);
    }
    pace_.end();
    return {};
  }
  Status end(Sink& /*sink*/) override { return {}; }

 private:
  struct Domain {
    EnergyDomain energy;
    UsageCounter joules, watts;
  };
  Pace pace_;
  std::vector<Domain> domains_;
};

// Virtual machines may show a counter that stands still.
bool really_counts(const std::string& folder) {
  EnergyDomain domain(folder);
  if (!domain.joules()) return false;
  const int64_t until = sys::monotonic_ns() + 20'000'000;
  while (sys::monotonic_ns() < until)
    if (domain.joules().value_or(0) > 0) return true;
  return false;
}

Availability probe() {
  const std::vector<std::string> folders = domain_folders();
  if (folders.empty())
    return {.is_available = false,
            .detail = "no RAPL in " + rapl_folder(),
            .remedy = "a machine of one's own: virtual machines do not show it"};
  if (!sys::ProcFile(folders[0] + "/energy_uj").is_open())
    return {.is_available = false,
            .detail = folders[0] + "/energy_uj may not be read",
            .remedy = "run as root, or: chmod a+r " + rapl_folder() + "/*/energy_uj"};
  if (!really_counts(folders[0]))
    return {.is_available = false,
            .detail = folders[0] + "/energy_uj stands still",
            .remedy = "a machine of one's own: this one only shows the file"};
  return {.is_available = true,
          .detail = base::format_counted(folders.size(), "domains"),
          .remedy = {}};
}

}  // namespace

const Backend kEnergyRapl{
    .collector = "energy",
    .name = "rapl",
    .gives = "energy and power of processors and memory",
    .needs = "RAPL counters that may be read (root, since 2020)",
    .misses = "disks, fans, network; accelerators are in gpu",
    .probe = probe,
    .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
      return std::make_unique<RaplCollector>(options);
    }};

}  // namespace forebay::record

#include "explain/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "explain/concurrency.h"
#include "explain/device_time.h"
#include "explain/driver_time.h"
#include "explain/io_use.h"
#include "explain/iterations.h"
#include "explain/judging.h"
#include "explain/ranks.h"
#include "explain/rules.h"
#include "explain/slowdown.h"
#include "explain/under_way.h"
#include "explain/unseen.h"
#include "sys/thread.h"
#include "trace/facts.h"

namespace forebay::explain {
namespace {

using trace::TrackKind;

// Above this share of lost events stalls may be where the losses were.
constexpr double kDroppedShare = 0.001;

std::optional<int64_t> whole_number(const trace::Recording& recording, std::string_view key) {
  const auto text = recording.fact(key);
  if (!text) return std::nullopt;
  const auto number = base::parse_int(*text);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

// What the recorder says of itself, of several ranks the longest; else what the events span.
int64_t duration_of(const trace::Recording& recording) {
  int64_t longest = 0;
  for (const trace::RecordingFile& file : recording.files()) {
    const auto fact = file.facts.find(std::string(trace::fact::kRecorded));
    const auto ns = fact == file.facts.end() ? Result<int64_t>(0) : base::parse_int(fact->second);
    longest = std::max(longest, ns.ok() ? *ns : 0);
  }
  return longest > 0 ? longest : recording.end_ns() - recording.begin_ns();
}

RecordingInfo info_of(const trace::Recording& recording) {
  RecordingInfo info;
  for (const trace::RecordingFile& file : recording.files()) {
    info.paths.push_back(file.path);
    info.is_whole = info.is_whole && file.is_finished && !file.damage;
    const auto dropped = file.facts.find(std::string(trace::fact::kDropped));
    if (dropped != file.facts.end()) {
      const auto number = base::parse_int(dropped->second);
      if (number.ok()) info.dropped += static_cast<uint64_t>(std::max<int64_t>(0, *number));
    }
  }
  const auto text = [&](std::string_view key) {
    return std::string(recording.fact(key).value_or(""));
  };
  info.source = text(trace::fact::kSource);
  info.command = text(trace::fact::kCommand);
  info.host = text(trace::fact::kHost);
  info.exit = text(trace::fact::kExit);
  info.duration_ns = duration_of(recording);
  info.events = recording.size();
  info.tracks = recording.dictionary().tracks.size();
  info.overhead_outside_ns = whole_number(recording, trace::fact::kOverheadOutside);
  info.overhead_inside_ns = whole_number(recording, trace::fact::kOverheadInside);
  if (recording.files().empty()) return info;
  const trace::RecordingFile& first = recording.files().front();
  for (const auto& [key, value] : first.facts) info.facts.emplace(key, value);
  if (!first.clock.empty()) {
    const trace::ClockPair& pair = first.clock.front();
    info.begin_unix_ns = recording.begin_ns() - pair.time_ns + pair.unix_ns;
  }
  return info;
}

void add_warnings(const trace::Recording& recording, Explanation& out) {
  std::vector<std::string>& warnings = out.warnings;
  for (const trace::RecordingFile& file : recording.files()) {
    if (file.damage) {
      warnings.push_back(file.damage->message);  // with the path, and what is done about it
    } else if (!file.is_finished) {
      warnings.push_back(fmt::format("{} was not finished: its writer ended early", file.path));
    }
    for (const auto& [key, value] : file.facts) {
      if (key.rfind(trace::fact::kWarningPrefix, 0) == 0) warnings.push_back(value);
      if (key.rfind(trace::fact::kMissingPrefix, 0) == 0) {
        warnings.push_back("not seen: " + value);
      }
    }
  }
  const double seen = static_cast<double>(recording.size() + out.recording.dropped);
  if (seen > 0 && static_cast<double>(out.recording.dropped) > kDroppedShare * seen) {
    warnings.push_back(fmt::format("{} dropped: stalls may be larger than shown",
                                   base::format_counted(out.recording.dropped, "events")));
  }
  if (out.io.counted_only > 0) {
    warnings.push_back(
        fmt::format("{} counted, not kept: in the totals of files, not in the "
                    "breakdown; those whose file was not kept are shared out among folders and "
                    "formats as the kept ones are",
                    base::format_counted(out.io.counted_only, "calls")));
  }
  if (out.iterations.is_found && *out.iterations.confidence < 0.7) {
    warnings.push_back(fmt::format("iterations are uncertain (confidence {:.2f}): {}",
                                   *out.iterations.confidence, how_to_mark(out)));
  }
  if (!out.iterations.is_found && !out.drivers.empty()) out.warnings.push_back(how_to_mark(out));
  for (const Cause& cause : out.causes) {
    if (cause.what.find("was not recorded") != std::string::npos &&
        static_cast<double>(cause.ns) > 0.05 * static_cast<double>(out.shown().total_ns())) {
      warnings.push_back(
          "the loader's workers are not in the recording: fetching and decoding "
          "cannot be told apart, all of it is shown as fetch stall");
    }
  }
}

// Computing that is known only by what it is not.
void add_basis_warning(const View& view, const Job& job, Explanation& out) {
  if (out.recording.source != "record" || out.shown().share(Part::kCompute) < kWorthShare) return;
  for (const DriverPlan& plan : job.drivers) {
    if (plan.kind != DriverKind::kThread || view.basis_of(plan.track) != Basis::kCalls) continue;
    out.warnings.push_back(
        "compute is what lies between calls: nobody watched the CPU, and a wait that is no call "
        "(page faults, io_uring, a device) counts as compute; add --collect io,cpu,proc");
    return;
  }
}

}  // namespace

Result<Explained> explain(trace::Recording& recording, const Selection& selection) {
  Explained out;
  Explanation& found = out.explanation;
  found.alignment = align(recording, selection);
  const View view(recording, selection);
  if (view.threads().empty() && view.devices().empty() && !recording.empty()) {
    const bool is_selected = !selection.rank.empty() || !selection.process.empty();
    if (is_selected) {
      return fail(ErrorCode::kNotFound, "no thread or device matches{}{}",
                  selection.rank.empty() ? "" : " --rank " + selection.rank,
                  selection.process.empty() ? "" : " --process " + selection.process);
    }
  }
  found.recording = info_of(recording);
  const Job job = find_job(view);
  const JobTime time = FB_TRY(own_time(view, job));
  {
    // Neither needs what the other finds.
    const std::jthread files = FB_TRY(sys::start_thread("explain", [&](const std::stop_token&) {
      found.io = io_of(view);
      found.read_latency = read_latency_of(view);
    }));
    find_iterations(view, time, found);
    found.concurrency = concurrency_of(view);
    found.swarms = swarms_of(view, found.swarms_reason);
  }
  if (!selection.marks.empty() && found.iterations.method.rfind("marks", 0) != 0) {
    return fail(ErrorCode::kNotFound, "fewer than two events are named '{}' on a training thread",
                selection.marks);
  }
  if (found.iterations.is_found) {
    found.pace = pace_of(time.drivers.front(), found.drivers.front(), recording.begin_ns());
    if (found.pace && waits_for_crowded_threads(time, found.pace->part)) found.pace.reset();
    found.phases =
        phases_of(time.drivers.front(), found.drivers.front(), recording.begin_ns(), found.pace);
    std::erase_if(found.phases, [&](const SlowPhase& phase) {
      return waits_for_crowded_threads(time, phase.part);
    });
  }
  found.under_way = under_way_of(view, job, found);
  found.disks = disks_of(view, time);
  found.accelerators = accelerators_of(view, job);
  find_stragglers(view, found, found.alignment);
  found.advice = advise(look(view, time, found));
  add_basis_warning(view, job, found);
  add_warnings(recording, found);
  found.headline = headline_of(found);
  out.measured = measure(view, time, found);
  return out;
}

}  // namespace forebay::explain

#include "explain/unseen.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "explain/driver_time.h"
#include "explain/judging.h"

namespace forebay::explain {

int64_t cause_ns(const Explanation& found, Part part, std::string_view what) {
  for (const Cause& cause : found.causes) {
    if (cause.part == part && cause.what == what) return cause.ns;
  }
  return 0;
}

namespace {

// Time ready without a core, where others than the job keep the cores: a note about the machine.
int64_t crowded_ns(const Explanation& found) {
  for (const Advice& one : found.advice) {
    if (one.id == "few-cores" && one.state == Advice::State::kApplies && one.is_warning) {
      return cause_ns(found, Part::kOther, kReadyCause);
    }
  }
  return 0;
}

// The largest part but compute; `left_out_ns` of "other" is told apart.
struct Worst {
  Part part = Part::kFetchStall;
  int64_t ns = 0;
};
Worst worst_of(const Explanation& found, int64_t left_out_ns) {
  const Breakdown& shown = found.shown();
  Worst worst{Part::kFetchStall, shown[Part::kFetchStall]};
  for (size_t i = 1; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    const int64_t ns = shown[part] - (part == Part::kOther ? left_out_ns : 0);
    if (ns > worst.ns) worst = {part, ns};
  }
  return worst;
}

// "idle" and "other" say little: their largest cause says more.
std::string name_of(const Explanation& found, Part part, bool is_ready_apart) {
  std::string name(part_name(part));
  if (part != Part::kIdle && part != Part::kOther) return name;
  for (const Cause& cause : found.causes) {  // the largest first
    if (cause.part != part || cause.what == kUnseenCause || cause.what.empty()) continue;
    if (is_ready_apart && cause.what == kReadyCause) continue;
    if (cause.what.starts_with(name)) return cause.what;
    return fmt::format("{} ({})", name, cause.what);
  }
  return name;
}

bool is_of_strace(const Explanation& found) {
  return found.recording.source == "import strace";
}

// Calls on files, and nothing that says when the program computed.
bool has_io_only(const Explanation& found) {
  return found.io.is_measured && found.shown()[Part::kCompute] == 0;
}

}  // namespace

std::string headline_of(const Explanation& found) {
  if (!found.under_way.hang.empty()) return found.under_way.hang;
  if (found.drivers.empty()) {
    return "nobody who trains was found in the recording: it shows no thread and no device at work";
  }
  const Breakdown& shown = found.shown();
  const int64_t total = shown.total_ns();
  if (total == 0) return "the recording holds no time of a training thread or device";
  const auto percent = [&](int64_t ns) {
    return 100 * static_cast<double>(ns) / static_cast<double>(total);
  };
  if (total < kJudgedNs) {
    return fmt::format("nothing to judge: {} of a training thread or device were recorded",
                       base::format_seconds(static_cast<double>(total) * 1e-9));
  }
  const double compute = percent(shown[Part::kCompute]);
  if (compute >= 90) return fmt::format("healthy: compute {:.0f} % of the time", compute);
  const int64_t unseen = cause_ns(found, Part::kOther, kUnseenCause);
  const bool is_unseen = percent(unseen) > 100 * kUnseenShare;
  int64_t crowded = crowded_ns(found);
  // What is not worth a change does not limit.
  if (percent(worst_of(found, unseen + crowded).ns) < 100 * kWorthShare) crowded = 0;
  const Worst worst = worst_of(found, unseen + crowded);
  if (is_unseen && has_io_only(found)) {
    return fmt::format(
        "only I/O was recorded: it takes {:.1f} % of the time; whether the program computes or "
        "waits in the other {:.1f} % was not seen",
        100 - percent(unseen), percent(unseen));
  }
  if (is_unseen && unseen > worst.ns && is_of_strace(found)) {
    return fmt::format(
        "system calls take {:.1f} % of the time; strace does not show whether the program computes "
        "or waits in the other {:.1f} %",
        100 - percent(unseen), percent(unseen));
  }
  const int64_t outside = cause_ns(found, Part::kOther, kOutsideCause);
  if (percent(outside) > 50) {
    return fmt::format(
        "the device's work spans {} of the {} recorded, compute {:.0f} % of that span: most of "
        "this is start or end, not training",
        base::format_seconds(static_cast<double>(total - outside) * 1e-9),
        base::format_seconds(static_cast<double>(total) * 1e-9),
        100 * static_cast<double>(shown[Part::kCompute]) /
            static_cast<double>(std::max<int64_t>(1, total - outside)));
  }
  // What is smaller than what nobody saw may not be what limits.
  if (is_unseen && unseen > worst.ns) {
    std::string text = fmt::format(
        "what limits is not known: {:.0f} % of the time was not seen by the recording, compute "
        "{:.0f} %",
        percent(unseen), compute);
    if (percent(worst.ns) >= 5) {
      text +=
          fmt::format(", {} {:.0f} %", name_of(found, worst.part, crowded > 0), percent(worst.ns));
    }
    return text;
  }
  std::string text =
      fmt::format("limited by {}: {:.0f} % of the time, compute {:.0f} %",
                  name_of(found, worst.part, crowded > 0), percent(worst.ns), compute);
  if (crowded > 0) {
    text += fmt::format(", {:.0f} % {}: others have the cores", percent(crowded), kReadyCause);
  }
  if (is_unseen) text += fmt::format(", {:.0f} % not seen", percent(unseen));
  if (!found.advice.empty() && found.advice.front().state == Advice::State::kApplies) {
    text += "; " + found.advice.front().title;
  }
  return text;
}

namespace {

bool is_import(const Explanation& found) {
  return found.recording.source.starts_with("import ");
}

}  // namespace

std::string how_to_see(const Explanation& found) {
  if (!is_import(found)) {
    return "record with all collectors (cpu samples running code, proc counts CPU time); as root "
           "eBPF also sees why threads wait";
  }
  return "record the same program with forebay record: it sees calls, waits and running code of "
         "all threads";
}

std::string how_to_mark(const Explanation& found) {
  if (!is_import(found)) {
    return "mark your steps, then they need not be found: for batch in "
           "forebay.mark.steps(loader), or forebay_mark_begin(\"step\") in C";
  }
  return "mark steps in what makes the trace: prof.step() of torch.profiler, an NVTX range "
         "'step'; or record with forebay and forebay.mark.steps(loader)";
}

}  // namespace forebay::explain

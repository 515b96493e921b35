#include "report/explanation_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "base/wrapped_text.h"
#include "explain/swarms.h"

namespace forebay::report {

using base::format_bytes;
using base::format_bytes_per_second;
using base::format_count;
using base::format_counted;
using base::width_of;
using base::wrapped;
using explain::Advice;
using explain::Explanation;
using explain::Part;

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

namespace {

std::string time_text(double ns) {
  return (ns < 0 ? "-" : "") + base::format_seconds(std::abs(ns) * 1e-9);
}
std::string time_text(int64_t ns) {
  return time_text(static_cast<double>(ns));
}

// Keeps the end of long paths and the start of long names visible.
std::string shortened(std::string_view raw, size_t columns, bool keep_end = false) {
  std::string text = printable(raw);
  if (width_of(text) <= columns) return text;
  if (keep_end) {
    size_t at = text.size() - (columns - 2);
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
    return ".." + text.substr(at);
  }
  size_t at = columns - 2;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return text.substr(0, at) + "..";
}

class Text {
 public:
  Text(const Explanation& found, const ExplanationTextOptions& options)
      : found_(found), options_(options), columns_(static_cast<size_t>(options.style.columns)) {}

  std::string write() {
    head();
    breakdown();
    slow();
    under_way();
    advice();
    comparison();
    files();
    functions();
    devices();
    ranks();
    foot();
    return std::move(out_);
  }

 private:
  void line(const std::string& label, std::string_view text) {
    out_ += wrapped(printable(text), fmt::format("{:<12}", label), std::string(12, ' '), columns_);
  }

  // A row of a table: it is short enough, and its columns stay where they are.
  void row(const std::string& label, std::string_view text) {
    out_ += fmt::format("{:<12}{}\n", label, shortened(text, columns_ - 12));
  }

  std::string bold(const std::string& text) const {
    return options_.style.colour ? "\033[1m" + text + "\033[0m" : text;
  }

  void head() {
    const explain::Iterations& all = found_.iterations;
    if (all.is_found) {
      std::string text =
          fmt::format("{}: median {}, mean {}, p99 {}", iterations_text(), time_text(all.p50_ns),
                      time_text(all.mean_ns), time_text(all.p99_ns));
      text += fmt::format("; found from {}, confidence {:.2f}", printable(all.method),
                          all.confidence.value_or(0));
      out_ += wrapped(text, "", "  ", columns_);
      if (all.partial > 0)
        line("", fmt::format("{} cut off by an end of the recording", all.partial));
    } else if (!found_.drivers.empty()) {
      out_ += wrapped(fmt::format("no iterations found: {}", all.reason), "", "  ", columns_);
    }
    out_ += bold(wrapped(printable(found_.headline), "", "  ", columns_));
  }

  // "412 iterations"; of several ranks how many each has, for nobody counts their sum.
  std::string iterations_text() const {
    const uint64_t all = found_.iterations.count;
    const size_t drivers = found_.drivers.size();
    if (drivers <= 1) return format_counted(all, "iterations");
    uint64_t least = UINT64_MAX, most = 0;
    for (const explain::Driver& driver : found_.drivers) {
      uint64_t whole = 0;
      for (const explain::Iteration& step : driver.iterations) whole += step.is_partial ? 0 : 1;
      least = std::min(least, whole);
      most = std::max(most, whole);
    }
    const std::string each =
        least == most ? format_counted(most, "iterations")
                      : fmt::format("{} to {} iterations", format_count(least), format_count(most));
    return fmt::format("{} in each of {} ranks, {} together", each, format_count(drivers),
                       format_count(all));
  }

  void breakdown() {
    const explain::Breakdown& shown = found_.shown();
    if (shown.total_ns() == 0) return;
    std::string text;
    for (size_t i = 0; i < explain::kParts; ++i) {
      const auto part = static_cast<Part>(i);
      const double share = 100 * shown.share(part);
      if (share < 0.05 && part != Part::kCompute) continue;
      if (!text.empty()) text += "   ";
      text += fmt::format("{} {:.1f} %", explain::part_name(part), share);
    }
    // Parts stay whole: a break inside "fetch stall" reads badly.
    std::string row = fmt::format("{:<12}", "the time");
    size_t start = 0;
    while (start < text.size()) {
      const size_t end = std::min(text.find("   ", start), text.size());
      const std::string piece = text.substr(start, end - start);
      if (row.size() > 12 && row.size() + 3 + piece.size() > columns_) {
        out_ += row + "\n";
        row = std::string(12, ' ');
      }
      if (row.size() > 12) row += "   ";
      row += piece;
      start = end + 3;
    }
    out_ += row + "\n";
    size_t rows = 0;
    for (const explain::Cause& cause : found_.causes) {
      const double share = static_cast<double>(cause.ns) / static_cast<double>(shown.total_ns());
      if (share < 0.02 || ++rows > (options_.all ? 20u : 4u)) break;
      line(rows == 1 ? "because" : "", fmt::format("{:>4.1f} % {}: {}", 100 * share,
                                                   explain::part_name(cause.part), cause.what));
    }
  }

  void slow() {
    for (const explain::SlowKind& kind : found_.slow) {
      std::string text = fmt::format("{} of {} {}", format_count(kind.count),
                                     format_count(found_.iterations.count),
                                     kind.kind == "p99" ? "beyond p99" : "with " + kind.kind);
      if (kind.every) text += fmt::format(", every {}", *kind.every);
      line("slow steps", text + ": " + kind.explanation);
    }
    for (const explain::SlowPhase& phase : found_.phases) line("slow phase", phase_text(phase));
    if (found_.pace) line("pace", pace_text(*found_.pace));
  }

  static std::string phase_text(const explain::SlowPhase& phase) {
    return fmt::format(
        "steps {} to {} ({} to {} into the recording) take {:.1f} x as long: median {} with a "
        "core, others {}; {} grows by {} a step; p {:.1g}",
        format_count(phase.first_step), format_count(phase.last_step), time_text(phase.begin_ns),
        time_text(phase.end_ns), phase.factor(), time_text(phase.ns), time_text(phase.ordinary_ns),
        explain::part_name(phase.part), time_text(phase.part_ns), phase.p);
  }

  // Where the program ended by itself, its helpers may well have waited for more to do.
  void under_way() {
    const explain::UnderWay& all = found_.under_way;
    const std::string& exit = found_.recording.exit;
    if (all.hang.empty() && exit != "running" && !exit.starts_with("signal")) return;
    constexpr int64_t kShown = 10'000'000;
    std::string text;
    size_t shown = 0;
    for (const explain::OpenCall& call : all.calls) {
      if (call.ns < kShown || ++shown > (options_.all ? 20u : 3u)) break;
      text += fmt::format("{}{} in {}, {}", text.empty() ? ": " : "; ",
                          shortened(call.what, 60, true), call.thread, time_text(call.ns));
    }
    if (shown == 0) return;
    line("unfinished", fmt::format("{} still running when the recording ended{}",
                                   format_counted(all.count, "calls"), text));
  }

  static std::string pace_text(const explain::PaceChange& pace) {
    const bool is_slower = pace.after_ns > pace.before_ns;
    const auto before = static_cast<double>(std::max<int64_t>(1, pace.before_ns));
    return fmt::format(
        "from step {} on ({} into the recording) steps are {}: median {} with a core, before {} "
        "({:+.0f} %); {} {} by {} a step; p {:.1g}",
        format_count(pace.first_step), time_text(pace.at_ns), is_slower ? "slower" : "faster",
        time_text(pace.after_ns), time_text(pace.before_ns),
        100 * (static_cast<double>(pace.after_ns) / before - 1), explain::part_name(pace.part),
        is_slower ? "grows" : "shrinks", time_text(std::abs(pace.part_ns)), pace.p);
  }

  // What shares of a recording without iterations are shares of.
  std::string whole_text() const {
    const int64_t total = found_.shown().total_ns();
    const auto drivers = static_cast<int64_t>(std::max<size_t>(1, found_.drivers.size()));
    if (total * 2 >= found_.recording.duration_ns * drivers) return "the run";
    return fmt::format("the {} broken down above", time_text(total));
  }

  void advice() {
    size_t number = 0;
    out_ += "\n";
    for (const Advice& one : found_.advice) {
      if (one.state != Advice::State::kApplies) continue;
      if (++number > 3 && !options_.all) break;
      std::string gain;
      if (one.gain_ns_per_step > 0) {
        gain = fmt::format("saves about {} of the mean step's {} ({:.0f} %)",
                           time_text(one.gain_ns_per_step), time_text(found_.iterations.mean_ns),
                           100 * one.gain_share);
      } else if (one.gain_share >= 0.005) {
        gain = fmt::format("saves about {:.0f} % of {}", 100 * one.gain_share, whole_text());
      }
      out_ += wrapped(printable(one.title), fmt::format("{}  ", number), "   ", columns_);
      if (!gain.empty()) out_ += wrapped(gain, "   ", "   ", columns_);
      out_ += wrapped(printable(one.evidence), "   ", "   ", columns_);
      size_t remedies = 0;
      for (const std::string& remedy : one.remedies) {
        if (++remedies > 2 && !options_.all) break;
        out_ += wrapped(remedy, "   -> ", "      ", columns_);
      }
    }
    if (number == 0) out_ += "no advice: no rule's threshold is passed (--all lists them)\n";
    if (options_.all) other_rules();
    out_ += "\n";
  }

  void other_rules() {
    for (const Advice& one : found_.advice) {
      if (one.state == Advice::State::kApplies) continue;
      const char* state = one.state == Advice::State::kNotNeeded ? "not needed" : "no evidence";
      out_ += wrapped(fmt::format("{}: {}: {} (threshold: {})", one.id, state,
                                  printable(one.evidence), one.threshold),
                      " - ", "   ", columns_);
    }
  }

  void comparison() {
    if (!found_.comparison) return;
    const explain::Comparison& both = *found_.comparison;
    out_ += wrapped(fmt::format("against {}, per {}:", printable(both.against), both.unit), "",
                    "  ", columns_);
    for (const std::string& note : both.notes) line("note", note);
    out_ += fmt::format("{:<34}{:>10} {:>10} {:>10}  {}\n", "", "before", "after", "change", "p");
    bool has_star = false;
    for (const explain::Change& one : both.rows) {
      if (one.id.empty()) has_star |= change(one);
    }
    size_t shown = 0;
    for (const explain::Change& one : both.functions) {
      if (one.before_ns == 0 && one.after_ns == 0) continue;
      if (++shown > (options_.all ? 100u : 8u)) break;
      if (shown == 1) out_ += "in functions:\n";
      has_star |= change(one);
    }
    if (!both.rows.empty()) {
      const explain::Change& first = both.rows.front();
      out_ += wrapped(fmt::format("{}: Mann-Whitney, per {}: {} before and {} after, 5 % false "
                                  "discoveries; and {:.0f} % or more of itself, {:.0f} % of the {}",
                                  has_star ? "* significant" : "none significant", both.unit,
                                  first.before_n, first.after_n, 100 * explain::kEffectShare,
                                  100 * explain::kStepShare, both.unit),
                      "", "  ", columns_);
    }
    out_ += "\n";
  }

  // Whether it is marked as significant.
  bool change(const explain::Change& one) {
    if (one.before_ns == 0 && one.after_ns == 0) return false;
    const bool has_star = one.p && one.is_significant;
    const std::string p = one.p ? fmt::format("{:.2g}{}", *one.p, has_star ? " *" : "") : "-";
    out_ += fmt::format("{:<34}{:>10} {:>10} {:>10}  {}\n", shortened(one.what, 33),
                        time_text(one.before_ns), time_text(one.after_ns),
                        (one.difference_ns > 0 ? "+" : "") + time_text(one.difference_ns), p);
    return has_star;
  }

  void files() {
    if (!found_.io.is_measured) return;
    const explain::IoUse& total = found_.io.total;
    std::string text;
    if (total.reads > 0 || total.writes == 0) {
      text = fmt::format("{} of {}", format_counted(total.reads, "reads"),
                         format_bytes(static_cast<double>(total.read_bytes)));
    }
    if (total.read_p50_ns) {
      text += fmt::format(", p50 {}, p99 {}, max {}", time_text(*total.read_p50_ns),
                          time_text(*total.read_p99_ns), time_text(*total.read_max_ns));
    }
    if (total.writes > 0) {
      text += fmt::format("{}{} of {} in {}", text.empty() ? "" : "; ",
                          format_counted(total.writes, "writes"),
                          format_bytes(static_cast<double>(total.written_bytes)),
                          time_text(total.write_ns + total.sync_ns));
    }
    text += fmt::format("; metadata {:.0f} % of the calls' time", 100 * total.metadata_share());
    if (total.cache_bytes && total.cache_known_bytes > 0) {
      text += fmt::format("; {:.0f} % from the page cache",
                          100 * static_cast<double>(*total.cache_bytes) /
                              static_cast<double>(total.cache_known_bytes));
    }
    line("files", text);
    folders();
  }

  // What was written stands beside what was read where anything was written.
  void folders() {
    const auto& all = found_.io.folders;
    const size_t count = std::min<size_t>(all.size(), options_.all ? 20 : 3);
    bool is_written = false;
    for (size_t i = 0; i < count; ++i) is_written = is_written || all[i].written_bytes > 0;
    for (size_t i = 0; i < count; ++i) {
      const explain::IoUse& use = all[i];
      std::string text = fmt::format("{:>9}  {:>9} read", time_text(use.total_ns()),
                                     format_bytes(static_cast<double>(use.read_bytes)));
      if (is_written) {
        text +=
            fmt::format("  {:>9} written", format_bytes(static_cast<double>(use.written_bytes)));
      }
      row("", text + "  " + shortened(use.name, columns_ - 16 - text.size(), true));
    }
  }

  // Swarms of one function differ in their callers; here the function counts.
  void functions() {
    if (found_.swarms.empty()) return;
    std::map<std::string, double> shares;
    for (const explain::Swarm& swarm : found_.swarms)
      shares[explain::function_of(swarm)] += swarm.share;
    std::vector<std::pair<double, std::string>> functions;
    for (const auto& [name, share] : shares) functions.emplace_back(share, name);
    std::sort(functions.begin(), functions.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    size_t rows = 0;
    for (const auto& [share, name] : functions) {
      if (share < 0.0005 || ++rows > (options_.all ? 20u : 3u)) break;
      row(rows == 1 ? "functions" : "",
          fmt::format("{:>4.1f} %  {}", 100 * share, shortened(name, columns_ - 22)));
    }
  }

  void devices() {
    for (const explain::Disk& disk : found_.disks) {
      if (!disk.busy_share) continue;
      std::string text = fmt::format("{}: busy {:.0f} %", disk.name, 100 * *disk.busy_share);
      if (disk.bytes_per_second) {
        text += fmt::format(", {} while busy", format_bytes_per_second(*disk.bytes_per_second));
      }
      if (disk.device_p99_ns) text += fmt::format(", p99 {}", time_text(*disk.device_p99_ns));
      if (*disk.busy_share >= 0.01 || options_.all) line("disk", text);
    }
    for (const explain::Accelerator& device : found_.accelerators) {
      if (device.span_ns == 0) continue;
      const auto share = [&](int64_t ns) {
        return 100 * static_cast<double>(ns) / static_cast<double>(device.span_ns);
      };
      std::string text = fmt::format(
          "{}: compute {:.1f} %, other work {:.1f} %, idle {:.1f} % of the {} between its first "
          "and its last work",
          shortened(device.name, 30, true), share(device.compute_ns), share(device.non_compute_ns),
          share(device.idle_ns), time_text(device.span_ns));
      if (device.communication_overlap) {
        text +=
            fmt::format("; {:.0f} % of communication hidden", 100 * *device.communication_overlap);
      }
      line("device", text);
    }
  }

  void ranks() {
    const explain::Alignment& all = found_.alignment;
    if (all.ranks.size() < 2) return;
    std::string text = fmt::format("{} ranks, clocks by {}", all.ranks.size(), all.method);
    if (all.residual_ns) text += fmt::format(", residual {}", time_text(*all.residual_ns));
    line("ranks", text);
    for (const explain::Rank& rank : all.ranks) {
      if (!rank.own_work_ns || (!rank.is_straggler && !options_.all)) continue;
      line("", fmt::format("rank {}: works {} of a step of {}{}", rank.rank,
                           time_text(*rank.own_work_ns), time_text(rank.mean_step_ns.value_or(0)),
                           rank.is_straggler ? ": the others wait for it" : ""));
    }
  }

  // Says whose time it is: the breakdown above is a training thread's, and may well differ from
  // what the whole host did. A trace of devices alone knows nothing of cores.
  static std::string windows_text(const explain::Concurrency& use) {
    const explain::Concurrency::Shares& s = use.by_busiest;
    if (s.user + s.system + s.io_wait == 0) {
      return fmt::format("GPU busy {:.0f} %, idle {:.0f} %; no use of cores was recorded",
                         100 * s.gpu, 100 * s.idle);
    }
    const std::string window = time_text(use.window_ns);
    const std::string whose =
        use.is_of_host
            ? fmt::format(
                  "{} of the host, used by any program: each {} by what its busiest core "
                  "did most",
                  format_counted(static_cast<uint64_t>(use.cores), "cores"), window)
            : fmt::format(
                  "all threads of this program, other programs not counted: each {} by "
                  "what the busiest one did most",
                  window);
    return fmt::format(
        "{}: user {:.0f} %, system {:.0f} %, GPU {:.0f} %, I/O {:.0f} %, idle {:.0f} % (by the "
        "mean over cores {:.0f} %)",
        whose, 100 * s.user, 100 * s.system, 100 * s.gpu, 100 * s.io_wait, 100 * s.idle,
        100 * use.by_mean.idle);
  }

  void foot() {
    const explain::RecordingInfo& info = found_.recording;
    std::string text =
        fmt::format("{} in {}", format_counted(info.events, "events"), time_text(info.duration_ns));
    const auto io = info.facts.find("collector.io");
    if (io != info.facts.end()) text += ", I/O by " + io->second;
    text += fmt::format(", {} dropped", format_count(info.dropped));
    const int64_t overhead =
        info.overhead_outside_ns.value_or(0) + info.overhead_inside_ns.value_or(0);
    if (overhead > 0 && info.duration_ns > 0) {
      text +=
          fmt::format(", overhead {:.1f} % of a core",
                      100 * static_cast<double>(overhead) / static_cast<double>(info.duration_ns));
    }
    line("recorded", text);
    const explain::Concurrency& use = found_.concurrency;
    if (use.is_measured) {
      line("windows", windows_text(use));
    }
    size_t rows = 0;
    for (const std::string& warning : found_.warnings) {
      if (++rows > 5 && !options_.all) break;
      line(rows == 1 ? "note" : "", warning);
    }
  }

  const Explanation& found_;
  const ExplanationTextOptions& options_;
  const size_t columns_;
  std::string out_;
};

}  // namespace

std::string explanation_text(const Explanation& explanation,
                             const ExplanationTextOptions& options) {
  return Text(explanation, options).write();
}

}  // namespace forebay::report

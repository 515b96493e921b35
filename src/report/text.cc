#include "report/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "report/rules.h"

namespace forebay::report {
namespace {

using base::format_bytes;
using base::format_bytes_per_second;
using base::format_count;
using base::format_counted;
using base::format_memory;
using base::format_seconds;
using emulate::Figure;
using emulate::RunResult;
using emulate::Spread;
using emulate::Verdict;

constexpr const char* kGreen = "32";
constexpr const char* kRed = "31";
constexpr const char* kYellow = "33";

std::string paint(TextStyle style, const char* colour, const std::string& text) {
  return style.colour ? fmt::format("\033[{};1m{}\033[0m", colour, text) : text;
}

std::string row(const std::string& label, const std::string& text) {
  return fmt::format("{:<12}{}\n", label, text);
}

std::string percent(const Figure& figure) {
  return figure.value ? fmt::format("{:.1f} %", 100 * *figure.value) : "-";
}

std::string percent(const Spread& spread) {
  if (!spread.mean) return "not measured";
  if (!spread.stdev) return fmt::format("{:.1f} %", 100 * *spread.mean);
  return fmt::format("{:.1f} % (+-{:.1f}, n={})", 100 * *spread.mean, 100 * *spread.stdev,
                     spread.n);
}

std::string plural(uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string rate_bytes(const Figure& figure) {
  return figure.value ? format_bytes_per_second(*figure.value) : "-";
}

double milliseconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::string verdict_word(const Verdict& verdict, TextStyle style) {
  switch (verdict.outcome) {
    case Verdict::Outcome::kPass:
      return paint(style, kGreen, "PASS");
    case Verdict::Outcome::kFail:
      return paint(style, kRed, "FAIL");
    case Verdict::Outcome::kIncomplete:
      return paint(style, kYellow, "INCOMPLETE");
    case Verdict::Outcome::kNotMeasured:
      break;
  }
  return paint(style, kYellow, "NOT MEASURED");
}

std::string fed_text(const Verdict& verdict, int accelerators) {
  if (!verdict.accelerators_fed.value) return "";
  const auto fed = static_cast<uint64_t>(*verdict.accelerators_fed.value);
  if (verdict.is_lower_bound)
    return fmt::format("   feeds at least {}", plural(fed, "accelerator"));
  return fmt::format("   feeds {}, not {}", plural(fed, "accelerator"), accelerators);
}

std::string time_text(const emulate::TimeSplit& split) {
  const double total = split.total();
  if (total <= 0) return "";
  const auto share = [&](double part) { return 100 * part / total; };
  std::string text = fmt::format(
      "compute {:.1f}   fetch stall {:.1f}   prep stall {:.1f}   "
      "sync stall {:.1f}",
      share(split.compute), share(split.fetch), share(split.decode), share(split.sync));
  if (split.checkpoint > 0) text += fmt::format("   checkpoint {:.1f}", share(split.checkpoint));
  if (share(split.other) >= 0.05)
    text += fmt::format("   late wake-ups {:.1f}", share(split.other));
  return text + " %";
}

std::string latency_text(const trace::Histogram& reads) {
  if (reads.count() == 0) return "";
  return fmt::format("p50 {}   p90 {}   p99 {}   p99.9 {}   max {}   ({})",
                     format_seconds(milliseconds(reads.percentile(50))),
                     format_seconds(milliseconds(reads.percentile(90))),
                     format_seconds(milliseconds(reads.percentile(99))),
                     format_seconds(milliseconds(reads.percentile(99.9))),
                     format_seconds(milliseconds(reads.max())), format_count(reads.count()));
}

// Up to the 30th column, as much of it as is done.
std::string bar(double share) {
  constexpr int kWidth = 22;
  const int full = std::clamp(static_cast<int>(std::lround(share * kWidth)), 0, kWidth);
  return std::string(static_cast<size_t>(full), '#') +
         std::string(static_cast<size_t>(kWidth - full), '.');
}

std::string dlio_text(const RunResult& result) {
  if (!result.dlio_au.mean) return "";
  std::string text = fmt::format("AU {:.1f} %", 100 * *result.dlio_au.mean);
  if (result.dlio_samples_per_second.mean)
    text += fmt::format("   {:.1f} samples/s", *result.dlio_samples_per_second.mean);
  return text + "   (by DLIO's definitions)";
}

std::string bytes_text(const RunResult& result) {
  std::string text;
  if (result.file_bytes_per_second.mean)
    text = fmt::format("{} of files", format_bytes_per_second(*result.file_bytes_per_second.mean));
  if (result.payload_bytes_per_second.mean)
    text += fmt::format(", {} of payload",
                        format_bytes_per_second(*result.payload_bytes_per_second.mean));
  if (result.samples_per_second.mean)
    text += fmt::format(", {:.1f} samples/s", *result.samples_per_second.mean);
  return text;
}

std::string cache_text(const RunResult& result) {
  if (!result.cached_share.value) return "not measured: " + result.cached_share.reason;
  std::string text =
      fmt::format("{:.0f} % of the bytes from the page cache", 100 * *result.cached_share.value);
  std::string each;
  for (const auto& epoch : result.epochs) {
    if (epoch.is_evaluation || !epoch.cached_share.value) continue;
    if (!each.empty()) each += ", ";
    each += fmt::format("{:.0f}", 100 * *epoch.cached_share.value);
    if (each.size() > 40) {
      each += ", ...";
      break;
    }
  }
  if (result.epochs.size() > 1) text += fmt::format(" (by epoch: {} %)", each);
  return text + ", asked for " + result.options.cache;
}

std::string client_text(const RunResult& result) {
  std::string text = fmt::format("CPU {}", format_seconds(result.cpu_seconds));
  if (result.cpu_seconds_per_gb.value)
    text += fmt::format(" = {:.3f} s/GB", *result.cpu_seconds_per_gb.value);
  const auto counted = [](auto count, std::string_view what) {
    return format_counted(static_cast<uint64_t>(count), what);
  };
  text += fmt::format("   peak memory {}",
                      format_memory(static_cast<double>(result.peak_resident_bytes)));
  if (result.threads_max == 0) return text;  // counted while steps run, and there were none
  return text + fmt::format("   {}   {}", counted(result.open_files_max, "open files"),
                            counted(result.threads_max, "threads"));
}

// One line per host; a run of one process needs none.
std::string hosts_text(const RunResult& result) {
  if (result.processes == 1) return "";
  std::string text;
  const auto bytes = [](const std::optional<uint64_t>& value) {
    return value ? format_bytes(static_cast<double>(*value)) : std::string("-");
  };
  constexpr size_t kShown = 16;
  for (size_t i = 0; i < result.hosts.size() && i < kShown; ++i) {
    const emulate::HostResult& host = result.hosts[i];
    const double capacity = result.wall_seconds * host.host.cpu_count;
    text += row(
        i == 0 ? "the hosts" : "",
        fmt::format("{}: {} in {}, CPU {:.0f} % of {}, memory {} of {}, {} % cached, "
                    "network {} in, {} out",
                    host.host.name, plural(static_cast<uint64_t>(host.accelerators), "accelerator"),
                    format_counted(host.processes.size(), "processes"),
                    capacity > 0 ? 100 * host.cpu_seconds / capacity : 0, host.host.cpu_count,
                    format_memory(static_cast<double>(host.peak_resident_bytes)),
                    format_memory(static_cast<double>(host.host.memory_bytes)),
                    host.cached_share.value ? fmt::format("{:.0f}", 100 * *host.cached_share.value)
                                            : std::string("-"),
                    bytes(host.network_received_bytes), bytes(host.network_sent_bytes)));
  }
  if (result.hosts.size() > kShown)
    text += row("", fmt::format("... and {} more in result.json", result.hosts.size() - kShown));
  return text;
}

bool is_object_store(const RunResult& result) {
  return result.options.data.starts_with("s3://");
}

std::string retries_text(const RunResult& result) {
  const std::string_view was = result.read_retries == 1 ? "was" : "were";
  if (is_object_store(result))
    return fmt::format("{} {} tried again", format_counted(result.read_retries, "S3 requests"),
                       was);
  return fmt::format("{} {} begun again after an I/O error or a stale handle",
                     format_counted(result.read_retries, "reads"), was);
}

// "104.7 GiB": as checkpoints are spoken of everywhere.
std::string gib_text(uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
  return gib >= 0.1 ? fmt::format("{:.1f} GiB", gib) : format_memory(static_cast<double>(bytes));
}

std::string gib_rate(uint64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  const double rate = static_cast<double>(bytes) / seconds;
  return fmt::format("{} = {:.3g} GiB/s", format_bytes_per_second(rate),
                     rate / (1024.0 * 1024 * 1024));
}

std::string quantiles_text(const emulate::RankQuantiles& figure) {
  if (!figure.median) return "";
  return fmt::format("p50 {}   max {}", format_seconds(*figure.median),
                     format_seconds(*figure.max));
}

std::string state_text(const RunResult& result) {
  const emulate::StateFacts& state = result.state;
  const workload::Model& model = result.resolved.workload.model;
  std::string text;
  if (state.parameters > 0)
    text = state.parameters >= 1'000'000'000
               ? fmt::format("{:.4g} billion parameters, ",
                             static_cast<double>(state.parameters) * 1e-9)
               : fmt::format("{:.4g} million parameters, ",
                             static_cast<double>(state.parameters) * 1e-6);
  text += fmt::format("{} in {} of {}", gib_text(state.bytes), format_counted(state.files, "files"),
                      plural(static_cast<uint64_t>(result.options.accelerators), "rank"));
  if (state.ranks_of_all > static_cast<uint64_t>(result.options.accelerators))
    text += fmt::format(" (a subset of {})", format_count(state.ranks_of_all));
  if (state.parameters > 0)
    text += fmt::format(", tensor {} x pipeline {}, ZeRO {}", model.tensor_parallelism,
                        model.pipeline_parallelism, model.zero_stage);
  return text;
}

std::string tiers_text(const RunResult& result) {
  std::string text;
  for (const std::string& tier : result.state.tiers) text += (text.empty() ? "" : " -> ") + tier;
  return text;
}

std::string cached_text(const emulate::CheckpointRecord& restore) {
  if (!restore.cached_bytes) return "not measured: " + restore.cached_unknown;
  const auto share = static_cast<double>(*restore.cached_bytes) /
                     static_cast<double>(std::max<uint64_t>(1, restore.bytes));
  return fmt::format("{} = {:.0f} %", gib_text(*restore.cached_bytes), 100 * std::min(1.0, share));
}

// Of all saves and restores.
std::string checkpoint_rows(const RunResult& result) {
  std::string text;
  if (result.state.bytes == 0) return text;
  text += row("the state", state_text(result));
  const auto add = [&](const char* name, const std::string& figures, const char* what) {
    if (!figures.empty()) text += row(name, figures + "   " + what);
  };
  if (!result.checkpoints.empty()) {
    const emulate::CheckpointRecord& first = result.checkpoints.front();
    text += row("saves",
                fmt::format("{} of {}, {} (mean), {}, {}", result.checkpoints.size(),
                            gib_text(first.bytes), format_seconds(*result.checkpoint_seconds.mean),
                            gib_rate(first.bytes, *result.checkpoint_seconds.mean),
                            first.is_synced ? "synced" : "not synced (checkpoint.fsync: False)"));
    add("  stall", quantiles_text(result.save_stall_seconds), "over ranks: training waits");
    add("  durable", quantiles_text(result.save_durable_seconds), "whole and synced, first tier");
    add("  drained", quantiles_text(result.save_drain_seconds), "on the last tier");
    text += row("  tiers", tiers_text(result));
  }
  if (!result.restores.empty()) {
    const emulate::CheckpointRecord& first = result.restores.front();
    text += row("restores",
                fmt::format("{} of {}, {} (mean), {}, every byte checked", result.restores.size(),
                            gib_text(first.bytes), format_seconds(*result.restore_seconds.mean),
                            gib_rate(first.bytes, *result.restore_seconds.mean)));
    add("  ranks", quantiles_text(result.restore_rank_seconds), "until a rank had its own");
    text += row("  cached", fmt::format("{} of the first in the page cache before, asked for {}",
                                        cached_text(first), result.options.cache));
    if (first.rank_shift > 0)
      text +=
          row("  shift", fmt::format("rank r restores what rank r + {} saved", first.rank_shift));
  }
  text += row("  memory", fmt::format("{} of buffers{}, whatever the state's size",
                                      format_memory(static_cast<double>(result.state.memory_bytes)),
                                      result.processes > 1 ? " in each process" : ""));
  return text;
}

std::string bad_text(const RunResult& result, TextStyle style) {
  std::string text = row("bad records", paint(style, kRed, fmt::format("{}", result.bad_count)) +
                                            (result.options.on_error == "replace" ? ", replaced"
                                             : result.options.on_error == "skip"  ? ", skipped"
                                                                                  : ""));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < result.bad_records.size() && i < kShown; ++i)
    text += row("", result.bad_records[i].cause);
  if (result.bad_count > kShown)
    text += row("", fmt::format("... and {} more in result.json", result.bad_count - kShown));
  return text;
}

bool is_decoding(const emulate::CriticalSplit& split) {
  return split.decode > 0 && split.decode >= std::max({split.fetch, split.sync, split.other});
}

// Where no step was left to measure; "" when something else is missing.
std::string next_that_measures(const RunResult& result, const std::string& command) {
  const workload::Workload& workload = result.resolved.workload;
  if (workload.train.computation_time.mean() <= 0 || result.epochs.empty()) return "";
  const bool excludes =
      workload.output.exclude_start_steps > 0 || workload.output.exclude_end_steps > 0;
  if (!excludes) return "";
  return fmt::format(
      "{} output.metric.exclude_start_steps=0 output.metric.exclude_end_steps=0   (or more files: "
      "dataset.num_files_train)",
      command);
}

// The command that answers the question this result leaves open.
std::string next_text(const RunResult& result) {
  const Verdict& verdict = result.verdict;
  if (!result.error.empty() || result.is_interrupted || result.next_base.empty()) return "";
  const std::string payload =
      result.options.payload == "bytes" ? " --payload bytes" : std::string();
  if (verdict.outcome == Verdict::Outcome::kPass)
    return result.next_base + payload + " --find-max-accelerators";
  const std::string same = fmt::format("{} --accelerators {}", result.next_base,
                                       result.options.accelerators / result.processes);
  if (!result.au.mean) return next_that_measures(result, same + payload);
  if (verdict.limited_by == "client" && payload.empty() && is_decoding(result.critical))
    return same + " --payload bytes   (is it the decoding?)";
  if (verdict.limited_by == "storage" || verdict.limited_by == "memory")
    return fmt::format("{}{} reader.read_threads={}   (more reads in flight)", same, payload,
                       2 * std::max<uint64_t>(1, result.resolved.workload.reader.read_threads));
  return "";
}

// "local", "s3 at http://127.0.0.1:9000": of an object store, where its server is too.
std::string storage_text(const RunResult& result) {
  const size_t at = result.store.rfind(" at ");
  if (!is_object_store(result) || at == std::string::npos) return result.options.storage;
  return result.options.storage + result.store.substr(at);
}

}  // namespace

std::string run_head(const RunResult& result, TextStyle style) {
  const auto& facts = result.dataset;
  const auto with_notes = [&](std::string text) {
    for (const std::string& warning : result.warnings)
      text += paint(style, kYellow, "note") + "    " + warning + "\n";
    return text;
  };
  if (result.resolved.workload.workflow.is_checkpoint_only())
    return with_notes(fmt::format(
        "{}: {}{}, cache {}, {} of buffers\n", result.resolved.workload.name, state_text(result),
        result.processes > 1 ? fmt::format(" in {} processes", result.processes) : "",
        result.options.cache, format_memory(static_cast<double>(result.state.memory_bytes))));
  return with_notes(fmt::format(
      "{}: {}, {} {}, {}, batch {}, cache {}, payload {}, storage {}\n",
      result.resolved.workload.name, plural(facts.files, "file"),
      format_bytes(static_cast<double>(facts.bytes)), facts.format,
      plural(static_cast<uint64_t>(result.options.accelerators), "accelerator") + " emulated" +
          (result.processes > 1 ? fmt::format(" by {} processes", result.processes) : ""),
      result.resolved.workload.reader.batch_size, result.options.cache, result.options.payload,
      storage_text(result)));
}

std::string checkpoint_line(const emulate::CheckpointRecord& record, TextStyle) {
  std::string text =
      fmt::format("{:<8}{:<4}{:>10} in {:>8}   {}", record.is_restore ? "restore" : "save",
                  record.step, gib_text(record.bytes), format_seconds(record.seconds),
                  gib_rate(record.bytes, record.seconds));
  if (record.is_restore) text += "   cached " + cached_text(record);
  return text + "\n";
}

std::string epoch_line(const emulate::EpochResult& epoch, const RunResult& result, TextStyle) {
  const uint64_t wanted = epoch.is_evaluation ? epoch.steps : result.steps_per_epoch;
  const double share =
      wanted == 0 ? 1 : static_cast<double>(epoch.steps) / static_cast<double>(wanted);
  const std::string read =
      epoch.read_ns.count() == 0
          ? ""
          : fmt::format("   read p99 {}",
                        format_seconds(milliseconds(epoch.read_ns.percentile(99))));
  return fmt::format("{} {:<3} {} {:>5}/{:<5} AU {:>7}   {:>10}{}{}\n",
                     epoch.is_evaluation ? "eval " : "epoch", epoch.epoch, bar(share), epoch.steps,
                     wanted, percent(epoch.au), rate_bytes(epoch.file_bytes_per_second), read,
                     epoch.is_complete ? "" : "   (incomplete)");
}

std::string progress_line(const emulate::Progress& progress, int accelerators, int64_t now_ns,
                          TextStyle style) {
  const uint64_t done = progress.steps_done.load(std::memory_order_relaxed);
  const uint64_t total = progress.steps_total.load(std::memory_order_relaxed);
  const double seconds =
      static_cast<double>(now_ns - progress.epoch_start_ns.load(std::memory_order_relaxed)) * 1e-9;
  const double share = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  const double compute =
      static_cast<double>(progress.compute_ns.load(std::memory_order_relaxed)) * 1e-9;
  const double bytes = static_cast<double>(progress.file_bytes.load(std::memory_order_relaxed));
  const bool is_evaluation = progress.is_evaluation.load(std::memory_order_relaxed);
  std::string text =
      fmt::format("{} {}/{} {} {:>3.0f} %", is_evaluation ? "eval " : "epoch",
                  progress.epoch.load(std::memory_order_relaxed),
                  progress.epochs.load(std::memory_order_relaxed), bar(share), 100 * share);
  // Rates up to the last finished step: the compute of a step counts when it ends.
  const double stepped =
      static_cast<double>(progress.last_step_ns.load(std::memory_order_relaxed) -
                          progress.epoch_start_ns.load(std::memory_order_relaxed)) *
      1e-9;
  if (seconds > 0.2 && done > 0 && stepped > 0) {
    text += fmt::format("   AU {:.1f} %   {}   {} left",
                        100 * compute / (stepped * std::max(1, accelerators)),
                        format_bytes_per_second(bytes / stepped),
                        format_seconds(std::max(0.0, stepped / share - seconds)));
  }
  if (text.size() > static_cast<size_t>(style.columns))
    text.resize(static_cast<size_t>(style.columns));
  return text;
}

std::string run_summary(const RunResult& result, TextStyle style) {
  const Verdict& verdict = result.verdict;
  std::string text;
  text += row("verdict", verdict_word(verdict, style) + "  " + verdict.reason +
                             fed_text(verdict, result.options.accelerators));
  if (!result.error.empty()) text += row("error", paint(style, kRed, result.error));
  if (!result.stopped_because.empty())
    text += row("interrupted", paint(style, kYellow, result.stopped_because));
  if (result.rules) text += rules_text(*result.rules);
  if (!verdict.limited_by.empty())
    text += row("limited by", verdict.limited_by + ": " + verdict.limit_evidence);
  if (result.au.mean) text += row("AU", percent(result.au));
  if (const std::string dlio = dlio_text(result); !dlio.empty()) text += row("DLIO", dlio);
  if (const std::string time = time_text(result.split); !time.empty())
    text += row("the time", time);
  if (const std::string bytes = bytes_text(result); !bytes.empty()) text += row("the rate", bytes);
  if (!result.epochs.empty()) text += row("the cache", cache_text(result));
  if (const std::string reads = latency_text(result.read_ns); !reads.empty())
    text += row("reads", reads);
  text += row("the client", client_text(result));
  text += hosts_text(result);
  text += checkpoint_rows(result);
  if (result.read_retries > 0) text += row("retries", retries_text(result));
  if (result.bad_count > 0) text += bad_text(result, style);
  if (!result.options.out.empty()) text += row("written to", result.options.out);
  if (const std::string next = next_text(result); !next.empty()) text += row("next", next);
  return text;
}

}  // namespace forebay::report

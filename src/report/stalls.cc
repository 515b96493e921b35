#include "report/stalls.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using trace::DifferentialStall;
using trace::Estimate;
using trace::RunKind;
using trace::StallKind;

constexpr int kSchemaVersion = 1;
constexpr size_t kColumns = 80;

// --- text ---

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  const int digits = ms >= 1000 ? 0 : ms >= 100 ? 1 : ms >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}", ms, digits);
}

std::string interval_text(const std::optional<base::Interval>& interval) {
  if (!interval) return "one repeat";
  return fmt::format("{} .. {}", milliseconds(interval->low), milliseconds(interval->high));
}

std::string share_text(const std::optional<double>& share) {
  if (!share) return "-";
  return fmt::format("{:.{}f} %", 100 * *share, *share < 10 ? 1 : 0);
}

// Breaks at spaces; further lines are indented by `indent`.
std::string wrapped(std::string_view first, std::string_view text, size_t indent) {
  std::string out, line(first);
  for (const std::string_view word : base::split(text, ' ')) {
    const bool begins = line.size() <= indent;
    if (!begins && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = std::string(indent, ' ');
    } else if (!begins) {
      line += ' ';
    }
    line += word;
  }
  return out + line + "\n";
}

std::string row(std::string_view name, std::string_view text) {
  return wrapped(fmt::format("{:<12}", name), text, 12);
}

std::string runs_table(const trace::DifferentialStalls& stalls) {
  std::string out = fmt::format("{:<35}{:>11}  {}\n", "run", "ms a step", "95 % interval");
  for (size_t i = 0; i < trace::kRunKinds; ++i) {
    const auto kind = static_cast<RunKind>(i);
    const std::string name = fmt::format("{}  {}", run_name(kind), run_meaning(kind));
    const Estimate& time = stalls[kind];
    if (!time.value)
      out += wrapped(fmt::format("{:<35}", name), "not run: " + time.reason, 35);
    else
      out += fmt::format("{:<35}{:>11}  {}\n", name, milliseconds(*time.value),
                         interval_text(time.interval));
  }
  return out;
}

std::string clamped_text(const DifferentialStall& stall) {
  const std::string taken = fmt::format("0 for -{} ms: ", milliseconds(-*stall.difference.value));
  if (!stall.difference.interval) return taken + "one repeat does not tell why";
  return taken + (stall.is_negative_beyond_noise
                      ? "more than the repeats differ, so the runs differ by something else too"
                      : "within what the repeats differ");
}

std::string stalls_table(const trace::DifferentialStalls& stalls) {
  std::string out = fmt::format("{:<24}{:>11}  {:<24}{:>9}{:>9}\n", "stall", "ms a step",
                                "95 % interval", "of base", "of T3");
  for (size_t i = 0; i < trace::kStallKinds; ++i) {
    const auto kind = static_cast<StallKind>(i);
    const DifferentialStall& stall = stalls[kind];
    const std::string name = fmt::format("{:<13}{} - {}", stall_name(kind), run_name(stall.from),
                                         run_name(stall.baseline));
    if (!stall.stall.value) {
      out += wrapped(fmt::format("{:<24}", name), "not measured: " + stall.stall.reason, 24);
      continue;
    }
    out += fmt::format("{:<24}{:>11}  {:<24}{:>9}{:>9}\n", name, milliseconds(*stall.stall.value),
                       interval_text(stall.stall.interval), share_text(stall.share_of_baseline),
                       share_text(stall.share_of_step));
    if (stall.is_clamped) out += wrapped(std::string(26, ' '), clamped_text(stall), 26);
  }
  return out;
}

std::string additivity_text(const trace::Additivity& additivity) {
  if (!additivity.sum) return row("sum", "not known: " + additivity.reason);
  return row("sum",
             fmt::format("{} + stalls = {} ms a step; T3 = {} ms: {} apart",
                         run_name(additivity.from), milliseconds(*additivity.sum),
                         milliseconds(*additivity.measured), share_text(additivity.error_share)));
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += row("note", note);
  return out;
}

std::string rate_text(const Estimate& rate) {
  return rate.value ? fmt::format("{:.4g}", *rate.value) : "-";
}

std::string cache_text(const trace::CacheShare& cache) {
  std::string out =
      row("samples/s", fmt::format("compute {}, prep {}, fetch cold {}, from memory {}",
                                   rate_text(cache.compute), rate_text(cache.prep),
                                   rate_text(cache.fetch_cold), rate_text(cache.fetch_memory)));
  if (!cache.share.value) return out + row("memory", "not known: " + cache.share.reason);
  const std::string interval =
      cache.share.interval
          ? fmt::format(" (95 % interval {:.0f} .. {:.0f} %)", 100 * cache.share.interval->low,
                        100 * cache.share.interval->high)
          : "";
  if (!cache.is_enough)
    return out + row("memory", fmt::format("all of the data in memory is not enough: fetching from "
                                           "there is slower than {}",
                                           cache.needed_by));
  return out +
         row("memory", fmt::format("{:.0f} % of the data{} must be held for fetching to keep "
                                   "up with {}",
                                   std::ceil(100 * *cache.share.value), interval, cache.needed_by));
}

std::string pace_text(const trace::PaceModel& pace) {
  if (!pace.predicted || !pace.measured || !pace.error_share)
    return row("check", "T3 is not predicted: " + pace.reason);
  return row("check", fmt::format("the slowest part, {}, predicts T3 = {} ms; measured {} ms: {} "
                                  "apart",
                                  pace.slowest, milliseconds(*pace.predicted),
                                  milliseconds(*pace.measured), share_text(pace.error_share)));
}

std::string repeats_text(int repeats, int asked, bool is_interrupted) {
  std::string text = fmt::format("{} repeat{}", repeats, repeats == 1 ? "" : "s");
  if (is_interrupted) text += fmt::format(" of {} (interrupted)", asked);
  return text;
}

// --- JSON ---

Json number(const std::optional<double>& value, double scale = 1) {
  return value && std::isfinite(*value) ? Json(*value * scale) : Json(nullptr);
}

// {unit: value, low, high}, scaled; null with its reason.
Json estimate_json(const Estimate& estimate, const char* name, double scale) {
  Json json{{name, number(estimate.value, scale)}};
  if (!estimate.value) {
    json["reason"] = estimate.reason;
    return json;
  }
  const auto& interval = estimate.interval;
  json["low"] = interval ? number(interval->low, scale) : Json(nullptr);
  json["high"] = interval ? number(interval->high, scale) : Json(nullptr);
  if (!interval) json["interval_reason"] = "one repeat says nothing of its spread";
  return json;
}

Json runs_json(const trace::DifferentialTimes& times, const trace::DifferentialStalls& stalls) {
  Json runs = Json::object();
  for (size_t i = 0; i < trace::kRunKinds; ++i) {
    const auto kind = static_cast<RunKind>(i);
    Json run = estimate_json(stalls[kind], "ms", 1e3);
    run["meaning"] = run_meaning(kind);
    Json& repeats = run["repeats_ms"] = Json::array();
    for (const double seconds : times[kind].seconds) repeats.push_back(seconds * 1e3);
    runs[std::string(run_name(kind))] = std::move(run);
  }
  return runs;
}

Json stalls_json(const trace::DifferentialStalls& stalls) {
  Json all = Json::object();
  for (size_t i = 0; i < trace::kStallKinds; ++i) {
    const auto kind = static_cast<StallKind>(i);
    const DifferentialStall& stall = stalls[kind];
    Json json = estimate_json(stall.stall, "ms", 1e3);
    json["is"] = fmt::format("{} - {}", run_name(stall.from), run_name(stall.baseline));
    json["difference_ms"] = number(stall.difference.value, 1e3);
    json["is_clamped"] = stall.is_clamped;
    json["is_negative_beyond_noise"] = stall.is_negative_beyond_noise;
    json["share_of_baseline"] = number(stall.share_of_baseline);
    json["share_of_step"] = number(stall.share_of_step);
    all[std::string(stall_name(kind))] = std::move(json);
  }
  return all;
}

Json additivity_json(const trace::Additivity& additivity) {
  Json json{{"from", run_name(additivity.from)},
            {"sum_ms", number(additivity.sum, 1e3)},
            {"measured_ms", number(additivity.measured, 1e3)},
            {"error_share", number(additivity.error_share)}};
  if (!additivity.sum) json["reason"] = additivity.reason;
  return json;
}

Json cache_json(const trace::CacheShare& cache) {
  Json json;
  json["samples_per_second"] = {{"compute", estimate_json(cache.compute, "value", 1)},
                                {"prep", estimate_json(cache.prep, "value", 1)},
                                {"fetch_cold", estimate_json(cache.fetch_cold, "value", 1)},
                                {"fetch_memory", estimate_json(cache.fetch_memory, "value", 1)}};
  json["share"] = estimate_json(cache.share, "value", 1);
  json["needed_by"] = cache.needed_by.empty() ? Json(nullptr) : Json(cache.needed_by);
  json["is_enough"] = cache.share.value ? Json(cache.is_enough) : Json(nullptr);
  return json;
}

void put_figure(Json& json, const std::string& name, const emulate::Figure& figure) {
  json[name] = number(figure.value);
  if (!figure.value) json[name + "_reason"] = figure.reason;
}

std::string dumped(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string stalls_text(const emulate::StallsFound& found) {
  std::string out = row(
      "stalls",
      fmt::format(
          "{}: {} accelerator{}, batch {}, {} of {} step{} each, {} at the start not counted",
          found.workload, found.accelerators, found.accelerators == 1 ? "" : "s", found.batch_size,
          repeats_text(found.repeats, found.repeats_asked, found.is_interrupted), found.steps,
          found.steps == 1 ? "" : "s", found.steps_excluded));
  out += "\n" + runs_table(found.stalls) + "\n" + stalls_table(found.stalls) + "\n";
  out += additivity_text(found.stalls.additivity) + pace_text(found.pace) + cache_text(found.cache);
  if (found.cold_cached_share.value && found.warm_cached_share.value)
    out += row("cache", fmt::format("{:.0f} % of T3's bytes came from a device, {:.0f} % of T4's",
                                    100 * (1 - *found.cold_cached_share.value),
                                    100 * (1 - *found.warm_cached_share.value)));
  return out + notes_text(found.notes);
}

std::string stalls_json(const emulate::StallsFound& found) {
  Json json{{"schema_version", kSchemaVersion},
            {"kind", "run"},
            {"forebay_version", found.version},
            {"command", found.command},
            {"is_interrupted", found.is_interrupted},
            {"workload", found.workload},
            {"data", found.data},
            {"storage", found.storage},
            {"accelerators", found.accelerators},
            {"hosts", found.hosts},
            {"batch_size", found.batch_size},
            {"steps", found.steps},
            {"steps_excluded", found.steps_excluded},
            {"steps_per_epoch", found.steps_per_epoch},
            {"repeats_asked", found.repeats_asked},
            {"repeats", found.repeats},
            {"is_real_data_on_hosts", found.is_real_data_on_hosts}};
  json["runs"] = runs_json(found.times, found.stalls);
  json["stalls"] = stalls_json(found.stalls);
  json["additivity"] = additivity_json(found.stalls.additivity);
  json["memory"] = cache_json(found.cache);
  Json& pace = json["pace"] = Json{{"predicted_ms", number(found.pace.predicted, 1e3)},
                                   {"measured_ms", number(found.pace.measured, 1e3)},
                                   {"error_share", number(found.pace.error_share)}};
  pace["slowest"] = found.pace.slowest.empty() ? Json(nullptr) : Json(found.pace.slowest);
  if (!found.pace.predicted) pace["reason"] = found.pace.reason;
  put_figure(json, "cold_cached_share", found.cold_cached_share);
  put_figure(json, "warm_cached_share", found.warm_cached_share);
  json["notes"] = found.notes;
  return dumped(json);
}

std::string stalls_text(const ProgramStalls& found) {
  std::string out = row(
      "stalls", fmt::format("{}; a step is {}",
                            repeats_text(found.repeats, found.repeats_asked, found.is_interrupted),
                            found.step_source));
  out += "\n" + runs_table(found.stalls) + "\n" + stalls_table(found.stalls) + "\n";
  return out + additivity_text(found.stalls.additivity) + notes_text(found.notes);
}

std::string stalls_json(const ProgramStalls& found) {
  Json json{{"schema_version", kSchemaVersion},
            {"kind", "record"},
            {"forebay_version", found.version},
            {"command", found.command},
            {"is_interrupted", found.is_interrupted},
            {"data", found.data.empty() ? Json(nullptr) : Json(found.data)},
            {"step_source", found.step_source},
            {"repeats_asked", found.repeats_asked},
            {"repeats", found.repeats}};
  json["runs"] = runs_json(found.times, found.stalls);
  for (size_t i = 0; i < found.run_commands.size(); ++i) {
    const std::string& command = found.run_commands[i];
    json["runs"][std::string(run_name(static_cast<RunKind>(i)))]["command"] =
        command.empty() ? Json(nullptr) : Json(command);
  }
  json["stalls"] = stalls_json(found.stalls);
  json["additivity"] = additivity_json(found.stalls.additivity);
  json["notes"] = found.notes;
  return dumped(json);
}

}  // namespace forebay::report

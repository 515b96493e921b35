#include "report/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "report/rules.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using emulate::EpochResult;
using emulate::Figure;
using emulate::RunResult;
using emulate::Spread;

// JSON has no infinity or NaN: such a value was not measured.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

void put(Json& object, const std::string& name, const Figure& figure) {
  object[name] = figure.value ? number(*figure.value) : Json(nullptr);
  if (!figure.value) object[name + "_reason"] = figure.reason;
}

Json spread(const Spread& values) {
  Json json;
  json["mean"] = values.mean ? number(*values.mean) : Json(nullptr);
  json["stdev"] = values.stdev ? number(*values.stdev) : Json(nullptr);
  json["n"] = values.n;
  if (!values.mean) json["reason"] = values.reason;
  return json;
}

Json split(const emulate::TimeSplit& times) {
  return Json{{"compute", times.compute},
              {"fetch_stall", times.fetch},
              {"prep_stall", times.decode},
              {"sync_stall", times.sync},
              {"checkpoint_stall", times.checkpoint},
              {"other", times.other}};
}

Json histogram(const trace::Histogram& values) {
  Json json;
  json["unit"] = "ns";
  json["count"] = values.count();
  if (values.count() == 0) return json;
  json["mean"] = values.mean();
  json["min"] = values.min();
  json["max"] = values.max();
  for (const double p : {50.0, 90.0, 99.0, 99.9})
    json[fmt::format("p{:g}", p)] = values.percentile(p);
  Json& buckets = json["buckets_low_high_count"] = Json::array();
  for (const auto& bucket : values.buckets())
    buckets.push_back({bucket.low, bucket.high, bucket.count});
  return json;
}

// One array per quantity, one value per step.
Json block_json(const emulate::Block& block) {
  Json json{{"start_seconds", block.start},
            {"end_seconds", block.end},
            {"load_seconds", block.load},
            {"compute_seconds", block.compute}};
  Json& steps = json["step_seconds"];
  for (const char* name : {"fetch_stall", "prep_stall", "sync_stall", "other"})
    steps[name] = Json::array();
  for (const emulate::TimeSplit& step : block.splits) {
    steps["fetch_stall"].push_back(step.fetch);
    steps["prep_stall"].push_back(step.decode);
    steps["sync_stall"].push_back(step.sync);
    steps["other"].push_back(step.other);
  }
  return json;
}

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json host_epoch_json(const emulate::HostEpoch& host) {
  Json json{{"name", host.name},
            {"processes", host.processes},
            {"accelerators", host.accelerators},
            {"cpu_seconds", host.cpu_seconds},
            {"file_bytes", host.file_bytes},
            {"device_bytes", nullable(host.device_bytes)}};
  put(json, "cached_share", host.cached_share);
  json["network_received_bytes"] = nullable(host.network_received_bytes);
  json["network_sent_bytes"] = nullable(host.network_sent_bytes);
  return json;
}

Json epoch_json(const EpochResult& epoch) {
  Json json;
  json["epoch"] = epoch.epoch;
  json["phase"] = epoch.is_evaluation ? "evaluation" : "training";
  json["is_complete"] = epoch.is_complete;
  json["start_seconds"] = epoch.start;
  json["end_seconds"] = epoch.end;
  json["steps"] = epoch.steps;
  json["included_steps"] = epoch.included_steps;
  json["samples"] = epoch.samples;
  json["skipped_samples"] = epoch.skipped_samples;
  json["file_bytes"] = epoch.file_bytes;
  json["payload_bytes"] = epoch.payload_bytes;
  put(json, "au", epoch.au);
  put(json, "samples_per_second", epoch.samples_per_second);
  put(json, "file_bytes_per_second", epoch.file_bytes_per_second);
  put(json, "payload_bytes_per_second", epoch.payload_bytes_per_second);
  put(json, "dlio_au", epoch.dlio_au);
  put(json, "dlio_samples_per_second", epoch.dlio_samples_per_second);
  json["time_seconds"] = split(epoch.split);
  json["critical_seconds"] = split(epoch.critical);
  json["device_bytes"] = epoch.device_bytes ? Json(*epoch.device_bytes) : Json(nullptr);
  put(json, "cached_share", epoch.cached_share);
  json["cpu_seconds"] = epoch.cpu_seconds;
  put(json, "cpu_seconds_per_gb", epoch.cpu_seconds_per_gb);
  json["read_latency"] = histogram(epoch.read_ns);
  Json& ranks = json["accelerators"] = Json::array();
  for (const emulate::RankEpoch& rank : epoch.ranks) {
    Json one;
    one["time_seconds"] = split(rank.split);
    one["included_seconds"] = rank.included_seconds;
    Json& blocks = one["blocks"] = Json::array();
    for (const emulate::Block& block : rank.blocks) blocks.push_back(block_json(block));
    ranks.push_back(std::move(one));
  }
  Json& hosts = json["hosts"] = Json::array();
  for (const emulate::HostEpoch& host : epoch.hosts) hosts.push_back(host_epoch_json(host));
  return json;
}

Json dataset_json(const emulate::DatasetFacts& facts) {
  return Json{{"format", facts.format},
              {"layout", facts.layout},
              {"file_system", facts.file_system},
              {"files", facts.files},
              {"samples", facts.samples},
              {"bytes", facts.bytes},
              {"strays", facts.strays},
              {"problems", facts.problems},
              {"problem_examples", facts.problem_examples},
              {"index_seconds", facts.index_seconds},
              {"order", facts.order},
              {"order_entropy", facts.order_entropy},
              {"order_seed", facts.order_seed},
              {"fingerprint", fmt::format("{:016x}", facts.fingerprint)}};
}

const char* outcome_name(emulate::Verdict::Outcome outcome) {
  switch (outcome) {
    case emulate::Verdict::Outcome::kPass:
      return "pass";
    case emulate::Verdict::Outcome::kFail:
      return "fail";
    case emulate::Verdict::Outcome::kIncomplete:
      return "incomplete";
    case emulate::Verdict::Outcome::kNotMeasured:
      break;
  }
  return "not measured";
}

Json verdict_json(const emulate::Verdict& verdict) {
  Json json;
  json["outcome"] = outcome_name(verdict.outcome);
  json["au_needed"] = verdict.gate;
  put(json, "au", verdict.au);
  json["reason"] = verdict.reason;
  json["limited_by"] = verdict.limited_by;
  json["limit_evidence"] = verdict.limit_evidence;
  put(json, "accelerators_fed", verdict.accelerators_fed);
  json["accelerators_fed_is_lower_bound"] = verdict.is_lower_bound;
  return json;
}

Json host_json(const sys::Host& host) {
  return Json{{"name", host.name},
              {"kernel", host.kernel},
              {"cpu_model", host.cpu_model},
              {"cpu_count", host.cpu_count},
              {"cpu_count_online", host.cpu_count_online},
              {"memory_bytes", host.memory_bytes},
              {"memory_limit_bytes", host.memory_limit_bytes}};
}

Json host_row_json(const emulate::HostResult& row) {
  Json json = host_json(row.host);
  json["processes"] = row.processes;
  json["accelerators"] = row.accelerators;
  json["cpu_seconds"] = row.cpu_seconds;
  json["peak_resident_bytes"] = row.peak_resident_bytes;
  json["file_bytes"] = row.file_bytes;
  json["device_bytes"] = nullable(row.device_bytes);
  put(json, "cached_share", row.cached_share);
  json["network_received_bytes"] = nullable(row.network_received_bytes);
  json["network_sent_bytes"] = nullable(row.network_sent_bytes);
  json["clock_offset_seconds"] = row.clock_offset_seconds;
  json["clock_uncertainty_seconds"] = row.clock_uncertainty_seconds;
  json["clock_offset_seconds_at_end"] = row.clock_offset_seconds_at_end;
  json["clock_uncertainty_seconds_at_end"] = row.clock_uncertainty_seconds_at_end;
  return json;
}

Json workload_json(const workload::Resolved& resolved) {
  Json json = Json::object();
  for (const workload::Setting& setting : resolved.settings)
    json[setting.key] =
        Json{{"value", setting.value}, {"unit", setting.unit}, {"origin", setting.origin}};
  return json;
}

Json options_json(const RunResult& result) {
  const emulate::RunOptions& options = result.options;
  return Json{{"data", options.data},
              {"storage", options.storage},
              {"store", result.store},
              {"accelerators", options.accelerators},
              {"processes", result.processes},
              {"barrier", options.barrier},
              {"payload", options.payload},
              {"cache", options.cache},
              {"compat", workload::compat_name(result.resolved.compat)},
              {"on_error", options.on_error},
              {"errors_max",
               options.errors_max == UINT64_MAX ? Json("unlimited") : Json(options.errors_max)},
              {"decode_threads", options.decode_threads}};
}

Json optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Over ranks; `why_none` is said where there are no values.
Json quantiles(const emulate::RankQuantiles& figure, const char* why_none) {
  Json json{{"p50", optional(figure.median)}, {"max", optional(figure.max)}, {"n", figure.n}};
  if (figure.n == 0) json["reason"] = why_none;
  return json;
}

Json state_json(const emulate::StateFacts& state) {
  return Json{{"parameters", state.parameters},
              {"bytes", state.bytes},
              {"files", state.files},
              {"ranks_of_all", state.ranks_of_all},
              {"buffer_bytes", state.memory_bytes},
              {"tiers", state.tiers}};
}

Json checkpoint_json(const emulate::CheckpointRecord& record) {
  Json json{{"epoch", record.epoch}, {"step", record.step}, {"bytes", record.bytes},
            {"start", record.start}, {"end", record.end},   {"seconds", record.seconds},
            {"place", record.place}, {"path", record.path}};
  if (record.is_restore) {
    json["rank_shift"] = record.rank_shift;
    if (record.cached_bytes)
      json["cached_bytes"] = *record.cached_bytes;
    else
      json["cached_bytes"] = nullptr, json["cached_bytes_reason"] = record.cached_unknown;
  } else {
    json["is_synced"] = record.is_synced;
  }
  Json& ranks = json["ranks"] = Json::array();
  for (const emulate::RankCheckpoint& rank : record.ranks) {
    Json entry{{"bytes", rank.bytes}, {"seconds", rank.seconds}};
    if (!record.is_restore) {
      entry["stall_seconds"] = rank.stalled;
      if (rank.durable) entry["durable_seconds"] = *rank.durable;
      if (rank.drained) entry["drained_seconds"] = *rank.drained;
    }
    ranks.push_back(std::move(entry));
  }
  return json;
}

Json summary_json(const RunResult& result) {
  Json json;
  json["au"] = spread(result.au);
  json["samples_per_second"] = spread(result.samples_per_second);
  json["file_bytes_per_second"] = spread(result.file_bytes_per_second);
  json["payload_bytes_per_second"] = spread(result.payload_bytes_per_second);
  json["dlio_au"] = spread(result.dlio_au);
  json["dlio_samples_per_second"] = spread(result.dlio_samples_per_second);
  json["checkpoint_seconds"] = spread(result.checkpoint_seconds);
  json["restore_seconds"] = spread(result.restore_seconds);
  json["save_stall_seconds"] = quantiles(result.save_stall_seconds, "no checkpoint was saved");
  json["save_durable_seconds"] =
      quantiles(result.save_durable_seconds, "no checkpoint was saved and synced");
  json["save_drain_seconds"] =
      quantiles(result.save_drain_seconds, "nothing was copied to a further tier");
  json["restore_rank_seconds"] =
      quantiles(result.restore_rank_seconds, "no checkpoint was restored");
  json["time_seconds"] = split(result.split);
  json["critical_seconds"] = split(result.critical);
  put(json, "cached_share", result.cached_share);
  json["wall_seconds"] = result.wall_seconds;
  json["start_to_first_batch_seconds"] = result.start_to_first_batch_seconds;
  json["cpu_seconds"] = result.cpu_seconds;
  put(json, "cpu_seconds_per_gb", result.cpu_seconds_per_gb);
  json["peak_resident_bytes"] = result.peak_resident_bytes;
  json["open_files_max"] = result.open_files_max;
  json["threads_max"] = result.threads_max;
  json["read_latency"] = histogram(result.read_ns);
  return json;
}

// --- reading back ---

const Json* find(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

void read_spread(const Json& summary, const char* name, const char* unit, bool higher,
                 std::vector<StoredFigure>& into) {
  const Json* figure = find(summary, name);
  if (figure == nullptr || !figure->is_object()) return;
  const Json* mean = find(*figure, "mean");
  if (mean == nullptr || !mean->is_number()) return;
  const Json* stdev = find(*figure, "stdev");
  const Json* n = find(*figure, "n");
  into.push_back({name, unit, mean->get<double>(),
                  stdev != nullptr && stdev->is_number() ? stdev->get<double>() : 0,
                  n != nullptr && n->is_number_unsigned() ? n->get<uint64_t>() : 1, higher});
}

void read_single(const Json& summary, const char* name, const char* unit, bool higher,
                 std::vector<StoredFigure>& into) {
  const Json* figure = find(summary, name);
  if (figure != nullptr && figure->is_number())
    into.push_back({name, unit, figure->get<double>(), 0, 1, higher});
}

}  // namespace

std::string to_json(const RunResult& result) {
  Json json;
  json["schema_version"] = emulate::kSchemaVersion;
  json["forebay_version"] = result.version;
  json["command"] = result.command;
  json["started_at"] = result.started_at;
  json["ended_at"] = result.ended_at;
  json["is_interrupted"] = result.is_interrupted;
  json["error"] = result.error.empty() ? Json(nullptr) : Json(result.error);
  if (result.is_interrupted) json["stopped_because"] = result.stopped_because;
  json["verdict"] = verdict_json(result.verdict);
  if (result.rules) json["rules"] = rules_json(*result.rules);
  json["summary"] = summary_json(result);
  json["workload_name"] = result.resolved.workload.name;
  json["seed"] = result.resolved.workload.train.seed;
  json["options"] = options_json(result);
  json["dataset"] = dataset_json(result.dataset);
  if (result.resolved.workload.workflow.evaluation)
    json["evaluation_dataset"] = dataset_json(result.evaluation_dataset);
  json["steps_per_epoch"] = result.steps_per_epoch;
  json["samples_left_out_per_epoch"] = result.samples_left_out;
  json["warnings"] = result.warnings;
  json["read_retries"] = result.read_retries;
  json["bad_record_count"] = result.bad_count;
  Json& bad = json["bad_records"] = Json::array();
  for (const auto& record : result.bad_records)
    bad.push_back(Json{{"path", record.path}, {"cause", record.cause}});
  if (result.state.bytes > 0) json["state"] = state_json(result.state);
  Json& saves = json["checkpoints"] = Json::array();
  for (const auto& save : result.checkpoints) saves.push_back(checkpoint_json(save));
  Json& restores = json["restores"] = Json::array();
  for (const auto& restore : result.restores) restores.push_back(checkpoint_json(restore));
  Json& epochs = json["epochs"] = Json::array();
  for (const EpochResult& epoch : result.epochs) epochs.push_back(epoch_json(epoch));
  json["host"] = host_json(result.host);
  Json& hosts = json["hosts"] = Json::array();
  for (const emulate::HostResult& host : result.hosts) hosts.push_back(host_row_json(host));
  json["workload"] = workload_json(result.resolved);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<StoredResult> parse_result(const std::string& path, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return fail(ErrorCode::kCorruption, "{}: not valid JSON", path);
  const Json* version = find(json, "schema_version");
  if (version == nullptr || !version->is_number_integer())
    return fail(ErrorCode::kCorruption, "{}: no schema_version: not a Forebay result", path);
  if (version->get<int64_t>() != emulate::kSchemaVersion)
    return fail(ErrorCode::kUnsupported, "{}: schema_version {}, this program reads {}", path,
                version->get<int64_t>(), emulate::kSchemaVersion);
  const Json* summary = find(json, "summary");
  const Json* options = find(json, "options");
  if (summary == nullptr || !summary->is_object() || options == nullptr || !options->is_object())
    return fail(ErrorCode::kCorruption, "{}: no summary or options", path);
  StoredResult stored;
  stored.path = path;
  stored.workload = json.value("workload_name", std::string("?"));
  const Json* verdict = find(json, "verdict");
  if (verdict != nullptr && verdict->is_object())
    stored.outcome = verdict->value("outcome", std::string("?"));
  const Json* accelerators = find(*options, "accelerators");
  if (accelerators != nullptr && accelerators->is_number_integer())
    stored.accelerators = accelerators->get<int>();
  for (const char* key : {"accelerators", "payload", "cache", "storage", "barrier", "data"})
    if (const Json* value = find(*options, key))
      stored.conditions.push_back(fmt::format(
          "{} {}", key, value->is_string() ? value->get<std::string>() : value->dump()));
  stored.conditions.push_back("workload " + stored.workload);
  if (const Json* workload = find(json, "workload"); workload != nullptr && workload->is_object())
    for (const auto& [key, setting] : workload->items())
      if (setting.is_object() && setting.contains("value") && setting["value"].is_string())
        stored.settings[key] = setting["value"].get<std::string>();
  read_spread(*summary, "au", "fraction", true, stored.figures);
  read_spread(*summary, "samples_per_second", "1/s", true, stored.figures);
  read_spread(*summary, "file_bytes_per_second", "B/s", true, stored.figures);
  read_spread(*summary, "payload_bytes_per_second", "B/s", true, stored.figures);
  read_spread(*summary, "checkpoint_seconds", "s", false, stored.figures);
  read_spread(*summary, "restore_seconds", "s", false, stored.figures);
  read_single(*summary, "cpu_seconds_per_gb", "s/GB", false, stored.figures);
  read_single(*summary, "peak_resident_bytes", "B", false, stored.figures);
  read_single(*summary, "start_to_first_batch_seconds", "s", false, stored.figures);
  return stored;
}

}  // namespace forebay::report

#include "report/explanation_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace forebay::report {
namespace {

using explain::Advice;
using explain::Breakdown;
using explain::Explanation;
using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json breakdown(const Breakdown& parts) {
  Json json;
  for (size_t i = 0; i < explain::kParts; ++i) {
    std::string name(explain::part_name(static_cast<explain::Part>(i)));
    std::replace(name.begin(), name.end(), ' ', '_');
    json[name] = parts.ns[i];
  }
  json["total"] = parts.total_ns();
  return json;
}

Json causes(const std::vector<explain::Cause>& all) {
  Json json = Json::array();
  for (const explain::Cause& cause : all) {
    json.push_back(
        {{"part", explain::part_name(cause.part)}, {"what", cause.what}, {"ns", cause.ns}});
  }
  return json;
}

Json recording(const explain::RecordingInfo& info) {
  return {{"paths", info.paths},
          {"source", info.source},
          {"command", info.command},
          {"host", info.host},
          {"exit", info.exit},
          {"duration_ns", info.duration_ns},
          {"begin_unix_ns", nullable(info.begin_unix_ns)},
          {"events", info.events},
          {"tracks", info.tracks},
          {"dropped", info.dropped},
          {"is_whole", info.is_whole},
          {"overhead_outside_ns", nullable(info.overhead_outside_ns)},
          {"overhead_inside_ns", nullable(info.overhead_inside_ns)},
          {"facts", info.facts}};
}

Json iterations(const explain::Iterations& all) {
  return {{"is_found", all.is_found},
          {"method", all.method},
          {"reason", all.reason},
          {"confidence", nullable(all.confidence)},
          {"coverage", all.coverage},
          {"regularity", all.regularity},
          {"cv", all.cv},
          {"count", all.count},
          {"partial", all.partial},
          {"mean_ns", all.mean_ns},
          {"p50_ns", all.p50_ns},
          {"p90_ns", all.p90_ns},
          {"p99_ns", all.p99_ns},
          {"max_ns", all.max_ns},
          {"error_against_marks", nullable(all.error_against_marks)},
          {"count_without_marks", nullable(all.count_without_marks)}};
}

Json driver(const explain::Driver& one) {
  Json json{{"track", one.track},
            {"name", one.name},
            {"is_device", one.is_device},
            {"rank", one.rank},
            {"begin_ns", one.begin_ns},
            {"end_ns", one.end_ns},
            {"whole", breakdown(one.whole)},
            {"steps", breakdown(one.steps)},
            {"causes", causes(one.causes)}};
  Json& steps = json["iterations"] = Json::array();
  for (const explain::Iteration& step : one.iterations) {
    steps.push_back({{"number", step.number},
                     {"begin_ns", step.begin_ns},
                     {"end_ns", step.end_ns},
                     {"parts", breakdown(step.parts)},
                     {"is_partial", step.is_partial},
                     {"is_epoch_start", step.is_epoch_start},
                     {"has_checkpoint", step.has_checkpoint},
                     {"is_slow", step.is_slow}});
  }
  return json;
}

Json slow(const explain::SlowKind& kind) {
  return {{"kind", kind.kind},
          {"count", kind.count},
          {"mean_ns", kind.mean_ns},
          {"ordinary_ns", kind.ordinary_ns},
          {"excess_ns", kind.excess_ns},
          {"excess", breakdown(kind.excess)},
          {"explanation", kind.explanation},
          {"every", nullable(kind.every)}};
}

Json shares(const explain::Concurrency::Shares& all) {
  return {{"user", all.user},
          {"system", all.system},
          {"gpu", all.gpu},
          {"io_wait", all.io_wait},
          {"idle", all.idle}};
}

Json pace(const std::optional<explain::PaceChange>& change) {
  if (!change) return nullptr;
  return {{"first_step", change->first_step},
          {"at_ns", change->at_ns},
          {"before_n", change->before_n},
          {"after_n", change->after_n},
          {"before_ns", change->before_ns},
          {"after_ns", change->after_ns},
          {"part", explain::part_name(change->part)},
          {"part_ns", change->part_ns},
          {"p", number(change->p)}};
}

Json phases(const std::vector<explain::SlowPhase>& all) {
  Json json = Json::array();
  for (const explain::SlowPhase& phase : all) {
    json.push_back({{"first_step", phase.first_step},
                    {"last_step", phase.last_step},
                    {"begin_ns", phase.begin_ns},
                    {"end_ns", phase.end_ns},
                    {"n", phase.n},
                    {"ns", phase.ns},
                    {"ordinary_ns", phase.ordinary_ns},
                    {"factor", number(phase.factor())},
                    {"part", explain::part_name(phase.part)},
                    {"part_ns", phase.part_ns},
                    {"p", number(phase.p)}});
  }
  return json;
}

Json under_way(const explain::UnderWay& all) {
  Json calls = Json::array();
  for (const explain::OpenCall& call : all.calls) {
    calls.push_back({{"what", call.what},
                     {"thread", call.thread},
                     {"begin_ns", call.begin_ns},
                     {"ns", call.ns},
                     {"is_of_driver", call.is_of_driver}});
  }
  return {{"count", all.count},
          {"calls", std::move(calls)},
          {"hang", all.hang.empty() ? Json(nullptr) : Json(all.hang)}};
}

Json concurrency(const explain::Concurrency& all) {
  return {{"is_measured", all.is_measured},
          {"reason", all.reason},
          {"window_ns", all.window_ns},
          {"windows", all.windows},
          {"cores", all.cores},
          {"is_of_host", all.is_of_host},
          {"by_busiest", all.is_measured ? shares(all.by_busiest) : Json(nullptr)},
          {"by_mean", all.is_measured ? shares(all.by_mean) : Json(nullptr)}};
}

Json swarm(const explain::Swarm& one) {
  return {{"id", one.id},
          {"kind", one.kind},
          {"symbol", one.symbol},
          {"module", one.module},
          {"path", one.path},
          {"source", one.source},
          {"samples", one.samples},
          {"self_ns", one.self_ns},
          {"share", one.share},
          {"main_track", one.main_track},
          {"over_time_ns", one.over_time_ns}};
}

Json changes(const std::vector<explain::Change>& all) {
  Json rows = Json::array();
  for (const explain::Change& row : all) {
    rows.push_back({{"what", row.what},
                    {"id", row.id},
                    {"module", row.module},
                    {"path", row.path},
                    {"before_ns", number(row.before_ns)},
                    {"after_ns", number(row.after_ns)},
                    {"difference_ns", number(row.difference_ns)},
                    {"before_n", row.before_n},
                    {"after_n", row.after_n},
                    {"p", nullable(row.p)},
                    {"is_significant", row.is_significant}});
  }
  return rows;
}

Json comparison(const std::optional<explain::Comparison>& both) {
  if (!both) return nullptr;
  return {{"against", both->against},
          {"unit", both->unit},
          {"notes", both->notes},
          {"rows", changes(both->rows)},
          {"functions", changes(both->functions)}};
}

Json use(const explain::IoUse& one) {
  return {{"name", one.name},
          {"files", one.files},
          {"opens", one.opens},
          {"reads", one.reads},
          {"writes", one.writes},
          {"metadata", one.metadata},
          {"syncs", one.syncs},
          {"faults", one.faults},
          {"errors", one.errors},
          {"read_bytes", one.read_bytes},
          {"written_bytes", one.written_bytes},
          {"cache_bytes", nullable(one.cache_bytes)},
          {"cache_known_bytes", one.cache_known_bytes},
          {"read_ns", one.read_ns},
          {"write_ns", one.write_ns},
          {"metadata_ns", one.metadata_ns},
          {"sync_ns", one.sync_ns},
          {"fault_ns", one.fault_ns},
          {"total_ns", one.total_ns()},
          {"metadata_share", one.metadata_share()},
          {"sequential_share", nullable(one.sequential_share)},
          {"read_p50_ns", nullable(one.read_p50_ns)},
          {"read_p99_ns", nullable(one.read_p99_ns)},
          {"read_max_ns", nullable(one.read_max_ns)},
          {"read_bytes_p50", nullable(one.read_bytes_p50)}};
}

template <class T, class ToJson>
Json list(const std::vector<T>& all, ToJson to_json) {
  Json json = Json::array();
  for (const T& one : all) json.push_back(to_json(one));
  return json;
}

Json io(const explain::Io& all) {
  return {{"is_measured", all.is_measured},
          {"reason", all.reason},
          {"total", use(all.total)},
          {"files", list(all.files, use)},
          {"folders", list(all.folders, use)},
          {"formats", list(all.formats, use)},
          {"files_left_out", all.files_left_out},
          {"folders_left_out", all.folders_left_out},
          {"read_sizes", all.read_sizes},
          {"counted_only", all.counted_only}};
}

Json disk(const explain::Disk& one) {
  return {{"name", one.name},
          {"requests", one.requests},
          {"bytes", one.bytes},
          {"read_share", nullable(one.read_share)},
          {"device_p50_ns", nullable(one.device_p50_ns)},
          {"device_p99_ns", nullable(one.device_p99_ns)},
          {"device_max_ns", nullable(one.device_max_ns)},
          {"queue_mean_ns", nullable(one.queue_mean_ns)},
          {"busy_share", nullable(one.busy_share)},
          {"busy_share_in_stalls", nullable(one.busy_share_in_stalls)},
          {"bytes_per_second", nullable(one.bytes_per_second)},
          {"depth", nullable(one.depth)}};
}

Json read_latency(const explain::ReadLatency& all) {
  Json json{{"is_measured", all.is_measured}, {"reason", all.reason}, {"reads", all.reads}};
  const auto put = [&](const char* name, int64_t ns) {
    json[name] = all.is_measured ? Json(ns) : Json(nullptr);
  };
  put("cpu_ns", all.cpu_ns);
  put("device_ns", all.device_ns);
  put("queue_ns", all.queue_ns);
  put("other_ns", all.other_ns);
  return json;
}

Json accelerator(const explain::Accelerator& one) {
  return {{"name", one.name},
          {"rank", one.rank},
          {"span_ns", one.span_ns},
          {"compute_ns", one.compute_ns},
          {"non_compute_ns", one.non_compute_ns},
          {"idle_ns", one.idle_ns},
          {"idle_host_wait_ns", one.idle_host_wait_ns},
          {"idle_kernel_wait_ns", one.idle_kernel_wait_ns},
          {"idle_other_ns", one.idle_other_ns},
          {"communication_ns", one.communication_ns},
          {"copy_ns", one.copy_ns},
          {"communication_overlap", nullable(one.communication_overlap)},
          {"copy_overlap", nullable(one.copy_overlap)},
          {"copied_bytes", one.copied_bytes},
          {"kernels", one.kernels},
          {"launches", one.launches},
          {"busy_share_counter", nullable(one.busy_share_counter)}};
}

Json rank(const explain::Rank& one) {
  return {{"rank", one.rank},
          {"name", one.name},
          {"clock_shift_ns", one.clock_shift_ns},
          {"clock_residual_ns", nullable(one.clock_residual_ns)},
          {"mean_step_ns", nullable(one.mean_step_ns)},
          {"own_work_ns", nullable(one.own_work_ns)},
          {"lateness_ns", nullable(one.lateness_ns)},
          {"last_share", nullable(one.last_share)},
          {"is_straggler", one.is_straggler}};
}

Json alignment(const explain::Alignment& all) {
  return {{"method", all.method},
          {"reason", all.reason},
          {"matched", all.matched},
          {"residual_ns", nullable(all.residual_ns)},
          {"ranks", list(all.ranks, rank)}};
}

const char* state_name(Advice::State state) {
  switch (state) {
    case Advice::State::kApplies:
      return "applies";
    case Advice::State::kNotNeeded:
      return "not needed";
    case Advice::State::kNoEvidence:
      break;
  }
  return "no evidence";
}

Json advice(const Advice& one) {
  return {{"id", one.id},
          {"title", one.title},
          {"state", state_name(one.state)},
          {"is_warning", one.is_warning},
          {"needs", one.needs},
          {"evidence", one.evidence},
          {"threshold", one.threshold},
          {"threshold_source", one.threshold_source},
          {"remedies", one.remedies},
          {"gain_formula", one.gain_formula},
          {"gain_ns_per_step", one.gain_ns_per_step},
          {"gain_ns", one.gain_ns},
          {"gain_share", one.gain_share}};
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
  const Json json{{"schema_version", explain::kExplanationSchemaVersion},
                  {"kind", "explanation"},
                  {"headline", explanation.headline},
                  {"recording", recording(explanation.recording)},
                  {"iterations", iterations(explanation.iterations)},
                  {"drivers", list(explanation.drivers, driver)},
                  {"whole", breakdown(explanation.whole)},
                  {"steps", breakdown(explanation.steps)},
                  {"causes", causes(explanation.causes)},
                  {"slow", list(explanation.slow, slow)},
                  {"pace", pace(explanation.pace)},
                  {"phases", phases(explanation.phases)},
                  {"under_way", under_way(explanation.under_way)},
                  {"concurrency", concurrency(explanation.concurrency)},
                  {"swarms", list(explanation.swarms, swarm)},
                  {"swarms_reason", explanation.swarms_reason},
                  {"comparison", comparison(explanation.comparison)},
                  {"io", io(explanation.io)},
                  {"disks", list(explanation.disks, disk)},
                  {"read_latency", read_latency(explanation.read_latency)},
                  {"accelerators", list(explanation.accelerators, accelerator)},
                  {"alignment", alignment(explanation.alignment)},
                  {"advice", list(explanation.advice, advice)},
                  {"warnings", explanation.warnings}};
  // Names come from recordings: bytes that are no UTF-8 are replaced.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace forebay::report

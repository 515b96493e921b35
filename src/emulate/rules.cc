#include "emulate/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "dataset/file_measure.h"
#include "emulate/checkpoint_rules.h"
#include "emulate/rule_findings.h"
#include "formats/format.h"

namespace forebay::emulate {
namespace {

using Outcome = RulesReport::Outcome;

constexpr std::string_view kPrefix = "mlperf-";
constexpr std::string_view kNames[] = {"mlperf-v2.0", "mlperf-v3.0"};

constexpr double kMemoryMultiple = 5;
// Files may be this much smaller than nominal: DLIO rounds the sides of records down, and draws
// them.
constexpr double kRoundedShareMax = 0.02;
constexpr uint64_t kStepsMin = 500;
constexpr uint64_t kFilesPerFolder = 128 << 10;
// A data set of five times the memory leaves at most this share in the page cache.
constexpr double kCachedShareMax = 1 / kMemoryMultiple;
constexpr double kSizeMax = 0x1p62;
// A file of so many bytes is made within a second or two.
constexpr double kMeasuredBytesMax = 0x1p28, kMeasuredPackedBytesMax = 0x1p26;

constexpr RuledWorkload kWorkloads[] = {
    {RuleSet::kMlperfV2, "unet3d_a100", 0.90, true},
    {RuleSet::kMlperfV2, "unet3d_h100", 0.90, true},
    {RuleSet::kMlperfV2, "resnet50_a100", 0.90, true},
    {RuleSet::kMlperfV2, "resnet50_h100", 0.90, true},
    {RuleSet::kMlperfV2, "cosmoflow_a100", 0.70, true},
    {RuleSet::kMlperfV2, "cosmoflow_h100", 0.70, true},
    {RuleSet::kMlperfV3, "unet3d_b200", 0.90, true},
    {RuleSet::kMlperfV3, "retinanet_b200", 0.85, true},
    {RuleSet::kMlperfV3, "retinanet_mi355", 0.85, true},
    {RuleSet::kMlperfV3, "flux_b200", 0.90, false},
    {RuleSet::kMlperfV3, "flux_mi355", 0.90, false},
    {RuleSet::kMlperfV3, "dlrm_b200", 0.70, false},
    {RuleSet::kMlperfV3, "dlrm_mi355", 0.70, false},
};

// What a closed run may set, and what it may set besides in the open division.
constexpr std::string_view kClosedKeys =
    "dataset.num_files_train dataset.num_subfolders_train dataset.data_folder reader.read_threads "
    "reader.computation_threads reader.transfer_size reader.odirect reader.prefetch_size "
    "checkpoint.checkpoint_folder storage.storage_type storage.storage_root train.seed";
constexpr std::string_view kOpenKeys =
    "framework dataset.format dataset.num_samples_per_file reader.data_loader";
constexpr uint64_t kPrefetchMax = 2;

std::string bytes_text(double bytes) {
  return base::format_bytes(bytes);
}

double memory_of(const RunResult& result) {
  if (result.hosts.empty()) return static_cast<double>(result.host.memory_bytes);
  double bytes = 0;
  for (const HostResult& host : result.hosts) bytes += static_cast<double>(host.host.memory_bytes);
  return bytes;
}

const RuledWorkload* check_workload(const RunResult& result, RuleSet rules,
                                    RuleFindings& findings) {
  const std::string& name = result.resolved.workload.name;
  const RuledWorkload* ruled = find_ruled_workload(rules, name);
  if (ruled == nullptr) {
    findings.invalid("workload", fmt::format("{} is none of {}'s: {}", name, rule_set_name(rules),
                                             ruled_workloads(rules)));
  } else if (!ruled->is_closed) {
    findings.add(Outcome::kOpen, "workload",
                 fmt::format("{} is not part of {}'s closed division", name, rule_set_name(rules)));
  }
  return ruled;
}

Outcome outcome_of_key(std::string_view key, RuleSet rules) {
  if (is_among(kClosedKeys, key)) return Outcome::kValid;
  // An object store has to be named; v2.0 knew none.
  if (rules == RuleSet::kMlperfV3 && key.starts_with("storage.")) return Outcome::kValid;
  return is_among(kOpenKeys, key) ? Outcome::kOpen : Outcome::kInvalid;
}

void check_workflow(const RunResult& result, RuleSet rules, RuleFindings& findings) {
  const workload::Workload& workload = result.resolved.workload;
  const bool is_unet3d = workload.name.starts_with("unet3d");
  if (is_unet3d && rules == RuleSet::kMlperfV2 && !workload.workflow.checkpoint)
    findings.invalid("workflow",
                     "workflow.checkpoint is false, but a run of unet3d has to save checkpoints");
  if (workload.reader.odirect && !is_unet3d)
    findings.invalid("workflow", "reader.odirect is true, which only unet3d may set");
  const uint64_t prefetch = workload.reader.prefetch_size;
  if (prefetch > kPrefetchMax)
    findings.invalid("parameters", fmt::format("reader.prefetch_size is {}, but may be at most {}",
                                               prefetch, kPrefetchMax));
}

std::optional<formats::FileSpec> file_of(const workload::Dataset& data);

// Files whose bytes an encoder decides: their sizes say little about their records.
bool has_encoded_sizes(const workload::Dataset& data) {
  return data.format == "jpeg" || data.format == "png" || data.compression != "none";
}

// Files of other records than the workload's are another data set.
void check_record_sizes(const RunResult& result, RuleFindings& findings) {
  const workload::Dataset& data = result.resolved.workload.dataset;
  if (result.dataset.samples == 0) return;
  const auto samples = static_cast<double>(result.dataset.samples);
  const double is_there = static_cast<double>(result.dataset.bytes) / samples;
  double wanted = data.record_length_bytes;
  const formats::Format* format = formats::find_format(data.format);
  const std::optional<formats::FileSpec> file = file_of(data);
  if (format != nullptr && format->estimate_bytes != nullptr && file && !has_encoded_sizes(data))
    wanted = static_cast<double>(format->estimate_bytes(*file)) *
             static_cast<double>(result.dataset.files) / samples;
  const double factor = has_encoded_sizes(data) ? 4 : 2;
  if (is_there >= wanted / factor && is_there <= wanted * factor) return;
  findings.invalid("record size",
                   fmt::format("the files hold {} a sample, but dataset.record_length_bytes is {}",
                               bytes_text(is_there), bytes_text(data.record_length_bytes)));
}

void check_sizes(const RunResult& result, RuleFindings& findings, RulesReport& report) {
  const workload::Dataset& data = result.resolved.workload.dataset;
  const double nominal = static_cast<double>(result.dataset.samples) * data.record_length_bytes;
  const double needed = kMemoryMultiple * memory_of(result);
  const auto disk = static_cast<double>(result.dataset.bytes);
  const bool is_short = !has_encoded_sizes(data) && disk < needed * (1 - kRoundedShareMax);
  if (nominal < needed || is_short)
    findings.invalid(
        "data set size",
        fmt::format("{} samples in files of {} together (nominally {}), but {} times the memory of "
                    "all hosts is {}",
                    result.dataset.samples, bytes_text(disk), bytes_text(nominal), kMemoryMultiple,
                    bytes_text(needed)));
  else if (disk < needed)
    report.notes.push_back(fmt::format(
        "the files hold {}, less than {} times the memory ({}): the rules count nominal sizes",
        bytes_text(disk), kMemoryMultiple, bytes_text(needed)));
  check_record_sizes(result, findings);
  if (result.steps_per_epoch < kStepsMin)
    findings.invalid("steps", fmt::format("{} steps an epoch, but {} are the least",
                                          result.steps_per_epoch, kStepsMin));
}

void check_cache(const RunResult& result, RuleFindings& findings, RulesReport& report) {
  if (result.options.cache == "warm")
    findings.invalid("cache", "--cache warm puts the data set into memory before the run");
  if (!result.cached_share.value) {
    report.not_checked.push_back("bytes from the page cache: " + result.cached_share.reason);
  } else if (*result.cached_share.value > kCachedShareMax) {
    findings.invalid(
        "cache",
        fmt::format("{:.0f} % of the bytes came from the page cache; a data set of {} "
                    "times the memory leaves at most {:.0f} %",
                    100 * *result.cached_share.value, kMemoryMultiple, 100 * kCachedShareMax));
  }
}

// What the reference program always does, and here is an option.
void check_options(const RunResult& result, RuleSet rules, RuleFindings& findings) {
  const RunOptions& options = result.options;
  check_storage(options.storage, findings);
  if (reads_past_cache(options.storage) && !result.resolved.workload.reader.odirect)
    findings.invalid("storage",
                     fmt::format("--storage {} reads past the page cache: reader.odirect says so "
                                 "in a run that counts",
                                 options.storage));
  if (!options.barrier)
    findings.invalid("barrier", "--no-barrier: accelerators have to meet after each step");
  if (options.payload == "bytes" && rules == RuleSet::kMlperfV2)
    findings.invalid("payload", "--payload bytes: that version's program also decodes the samples");
}

void check_completeness(const RunResult& result, const RuledWorkload* ruled,
                        RuleFindings& findings) {
  check_ending(result, findings);
  if (result.bad_count > 0)
    findings.invalid("whole run",
                     fmt::format("{} samples were bad and were not delivered", result.bad_count));
  const double gate = ruled != nullptr ? ruled->au : result.verdict.gate;
  if (!result.au.mean)
    findings.invalid("AU", "not measured: " + result.au.reason);
  else if (*result.au.mean < gate)
    findings.invalid("AU", fmt::format("{:.2f} %, but {:.0f} % is the least", 100 * *result.au.mean,
                                       100 * gate));
}

// The least whole number of files that hold `amount`.
double files_for(double amount, double per_file) {
  const double files = std::ceil(amount / per_file);
  return files * per_file < amount ? files + 1 : files;  // where the division was rounded
}

// One file, as far as its size depends on the workload.
std::optional<formats::FileSpec> file_of(const workload::Dataset& data) {
  const auto type = formats::element_from_name(data.record_element_type);
  const auto compression = formats::compression_from_name(data.compression);
  if (!type || !compression) return std::nullopt;
  formats::FileSpec spec;
  spec.path = "train/file";
  spec.rows = spec.columns = static_cast<uint64_t>(std::sqrt(data.record_length_bytes));
  spec.shape = data.record_dims;
  spec.type = *type;
  spec.compression = *compression;
  spec.compression_level = static_cast<int>(data.compression_level);
  spec.sample_count = data.num_samples_per_file;
  spec.row_group_rows = data.parquet_row_group_size;
  for (const workload::ParquetColumn& column : data.parquet_columns) {
    const auto of_column = formats::element_from_name(column.dtype);
    if (!of_column) return std::nullopt;
    spec.table.push_back({.name = column.name, .type = *of_column, .values = column.size});
  }
  return spec;
}

// By the size of one file; of files too large to be made for a question, the format's bound.
void set_disk_bytes(const workload::Dataset& data, RequiredSize& size) {
  const formats::Format* format = formats::find_format(data.format);
  const std::optional<formats::FileSpec> spec = file_of(data);
  if (format == nullptr || format->write == nullptr || !spec ||
      !formats::check_compression(*format, spec->compression).ok())
    return;
  auto bytes = static_cast<double>(format->estimate_bytes(*spec));
  size.is_disk_bytes_bound = true;
  const bool is_packed = spec->compression != formats::Compression::kNone;
  if (bytes <= (is_packed ? kMeasuredPackedBytesMax : kMeasuredBytesMax)) {
    const auto measure = dataset::measure_file(*format, *spec, false);
    if (!measure.ok()) return;
    bytes = static_cast<double>(measure->bytes);
    size.is_disk_bytes_bound = false;
  }
  const double total = bytes * static_cast<double>(size.files);
  if (total < kSizeMax) size.disk_bytes = static_cast<uint64_t>(total);
}

}  // namespace

std::string_view rule_set_name(RuleSet rules) {
  return kNames[static_cast<size_t>(rules)];
}

std::optional<RuleSet> rule_set_from_name(std::string_view name) {
  for (const RuleSet rules : {RuleSet::kMlperfV2, RuleSet::kMlperfV3}) {
    const std::string_view own = rule_set_name(rules);
    if (name == own || name == own.substr(kPrefix.size())) return rules;
  }
  return std::nullopt;
}

const RuledWorkload* find_ruled_workload(RuleSet rules, std::string_view name) {
  for (const RuledWorkload& one : kWorkloads) {
    if (one.rules == rules && one.name == name) return &one;
  }
  return nullptr;
}

std::string ruled_workloads(RuleSet rules) {
  std::string text;
  for (const RuledWorkload& one : kWorkloads) {
    if (one.rules != rules) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", one.name);
  }
  return text;
}

Result<RequiredSize> required_size(const workload::Workload& workload, const SizeRequest& request) {
  const workload::Dataset& data = workload.dataset;
  const auto per_file = static_cast<double>(data.num_samples_per_file);
  const double file_bytes = per_file * data.record_length_bytes;
  const double memory = kMemoryMultiple * static_cast<double>(request.total_memory_bytes);
  const double step_samples =
      static_cast<double>(request.accelerators) * static_cast<double>(workload.reader.batch_size);
  const double samples = static_cast<double>(kStepsMin) * step_samples;
  const double by_memory = files_for(memory, file_bytes);
  const double by_steps = files_for(samples, per_file);
  const double files = std::max({1.0, by_memory, by_steps});
  if (files * file_bytes >= kSizeMax || files * per_file >= kSizeMax)
    return fail(ErrorCode::kInvalidArgument, "{} files of {} are more than can be counted", files,
                bytes_text(file_bytes));
  RequiredSize size;
  size.files = static_cast<uint64_t>(files);
  size.files_for_memory = static_cast<uint64_t>(by_memory);
  size.files_for_steps = static_cast<uint64_t>(by_steps);
  size.samples = size.files * data.num_samples_per_file;
  size.bytes = static_cast<uint64_t>(files * file_bytes);
  size.subfolders =
      size.files > kFilesPerFolder ? (size.files + kFilesPerFolder - 1) / kFilesPerFolder : 0;
  size.steps_per_epoch = static_cast<uint64_t>(files * per_file / step_samples);
  size.reference_files = static_cast<uint64_t>(
      std::max(std::floor(memory / file_bytes), std::floor(samples / per_file)));
  set_disk_bytes(data, size);
  const double step = workload.train.computation_time.mean();
  if (step > 0) {
    size.samples_per_second = static_cast<double>(workload.reader.batch_size) / step;
    size.bytes_per_second = *size.samples_per_second * data.record_length_bytes;
  }
  return size;
}

RulesReport check_rules(const RunResult& result, RuleSet rules) {
  RulesReport report;
  report.rules = rule_set_name(rules);
  RuleFindings findings(report);
  if (result.resolved.workload.workflow.is_checkpoint_only()) {
    check_checkpoint_rules(result, rules, findings, report);
    return report;
  }
  const RuledWorkload* ruled = check_workload(result, rules, findings);
  if (ruled != nullptr)
    check_parameters(
        result, [&](std::string_view key) { return outcome_of_key(key, rules); }, findings);
  check_workflow(result, rules, findings);
  check_hosts(result, findings);
  check_sizes(result, findings, report);
  check_cache(result, findings, report);
  check_options(result, rules, findings);
  check_completeness(result, ruled, findings);
  report.not_checked.push_back("five such runs after a warm-up run, within 5 % of each other");
  report.not_checked.push_back("another random seed in each of them");
  return report;
}

}  // namespace forebay::emulate

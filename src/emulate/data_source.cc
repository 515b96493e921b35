#include "emulate/data_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "loader/options.h"
#include "sys/directory.h"
#include "sys/host.h"
#include "sys/page_cache.h"
#include "sys/process.h"

namespace forebay::emulate {
namespace {

using workload::Shuffle;

// Samples that come in units larger than one sample: compressed files, chunks, row groups.
bool has_units(const dataset::Index& index) {
  return index.unit_samples_max() > 1;
}

// Bytes that a loader holds for `samples` once they are decoded, as far as one can know before.
uint64_t held_bytes(const workload::Workload& workload, const dataset::Index& index,
                    uint64_t samples) {
  const double in_files = static_cast<double>(index.summary().bytes) /
                          static_cast<double>(std::max<uint64_t>(1, index.sample_count()));
  const double declared =
      index.has_blocks() ? static_cast<double>(workload.dataset.record_length_bytes) : 0;
  return static_cast<uint64_t>(std::max(in_files, declared) * static_cast<double>(samples));
}

// Files are the shards of an order. Blocks are where files hold more than a loader keeps, or where
// blocks are all of one size, so that no shard straddles two.
uint64_t choose_shard_samples(const workload::Workload& workload, const dataset::Index& index,
                              bool by_file) {
  const uint64_t file = std::max<uint64_t>(1, index.samples_per_file_max());
  if (!index.has_blocks() || by_file) return file;
  const bool fits = held_bytes(workload, index, file) <= loader::EngineOptions().shard_cache_bytes;
  const bool keeps_files = workload.reader.data_loader == "tensorflow" && fits;
  if (keeps_files || (fits && !index.has_even_blocks())) return file;
  return std::max<uint64_t>(1, index.unit_samples_max());
}

std::string describe_order(const dataset::OrderOptions& options, const dataset::Index& index) {
  switch (options.kind) {
    case dataset::OrderKind::kSequential:
      return "sequential";
    case dataset::OrderKind::kFull:
      return "full shuffle";
    default:
      break;
  }
  const bool by_file = options.shard_samples == index.samples_per_file_max();
  const char* shard = by_file ? "file" : "block";
  if (!options.shuffle_within) return fmt::format("{}s shuffled", shard);
  return fmt::format("{}samples shuffled within {} {}{}",
                     options.shuffle_shards ? fmt::format("{}s shuffled, ", shard) : "",
                     options.window_shards, shard, options.window_shards == 1 ? "" : "s");
}

Result<const formats::Format*> format_of(const workload::Workload& workload) {
  const formats::Format* format =
      formats::find_format(is_synthetic(workload) ? "synthetic" : workload.dataset.format);
  if (format == nullptr)
    return fail(ErrorCode::kUnsupported, "dataset.format = {}: this build has no such format",
                workload.dataset.format);
  return format;
}

// Without listing it where the file system can tell: listings are dear.
bool split_exists(storage::Store& store, const std::string& root, const std::string& split) {
  if (sys::path_exists(root + "/" + split)) return true;
  const Result<storage::Listing> listing = store.list(split);
  return listing.ok() && !listing->files.empty();
}

// How many files the workload wants of this folder, or nothing. A built-in's number describes the
// data set it generates; it does not bind folders that nobody generated.
std::optional<uint64_t> wanted_files(const workload::Resolved& resolved, bool is_train,
                                     bool is_generated_layout) {
  if (is_synthetic(resolved.workload))
    return is_train ? resolved.workload.dataset.num_files_train
                    : resolved.workload.dataset.num_files_eval;
  const std::string_view key = is_train ? "dataset.num_files_train" : "dataset.num_files_eval";
  const workload::Dataset& data = resolved.workload.dataset;
  for (const workload::Setting& setting : resolved.settings) {
    if (setting.key != key) continue;
    const bool binds = setting.origin != "default" &&
                       (is_generated_layout || !setting.origin.starts_with("built-in"));
    if (binds) return is_train ? data.num_files_train : data.num_files_eval;
  }
  return std::nullopt;
}

// The columns to read, or none for all. Like its file count, a built-in's table describes the data
// set it generates: unless it leaves some out, it does not bind other folders.
std::vector<std::string> wanted_columns(const workload::Resolved& resolved,
                                        const std::vector<std::string>& columns) {
  if (columns.size() < resolved.workload.dataset.parquet_columns.size()) return columns;
  for (const workload::Setting& setting : resolved.settings)
    if (setting.key == "dataset.parquet.columns" && setting.origin.starts_with("built-in"))
      return {};
  return columns;
}

// The first thing that was left out and could have been data, for a message.
std::string first_problem(const dataset::Index& index) {
  const auto& problems = index.summary().problems;
  return problems.empty()
             ? ""
             : fmt::format(" (left out: {}: {})", problems[0].path, problems[0].reason);
}

// As a shell has to be told.
std::string quoted(std::string word) {
  const bool is_plain = word.find_first_of(" \t\n'\"\\$&|;<>()*?{}[]#!`~") == std::string::npos;
  if (is_plain && !word.empty()) return word;
  for (size_t at = word.find('\''); at != std::string::npos; at = word.find('\'', at + 4))
    word.replace(at, 1, "'\\''");
  return "'" + word + "'";
}

// The command that makes the data of this workload as it was asked for: its file or built-in, and
// what was said about the data set on top.
std::string making_command(const workload::Resolved& resolved, const std::string& root) {
  if (!resolved.generate_command.empty()) return resolved.generate_command;
  std::string source = resolved.workload.name, keys;
  for (const workload::Setting& setting : resolved.settings) {
    constexpr std::string_view kFile = "file ", kBuiltin = "built-in ";
    const std::string& origin = setting.origin;
    if (origin.starts_with(kFile))
      source = origin.substr(kFile.size(), origin.rfind(':') - kFile.size());
    else if (origin.starts_with(kBuiltin))
      source = origin.substr(kBuiltin.size());
    else if (origin.starts_with("override") && setting.key.starts_with("dataset."))
      keys += " " + quoted(setting.key + "=" + setting.value);
  }
  std::string command = "forebay generate " + quoted(source) + keys + " --data " + quoted(root);
  if (resolved.compat != workload::Compat::kDlioMain)
    command += fmt::format(" --compat {}", workload::compat_name(resolved.compat));
  return command;
}

Status check_file_count(const workload::Resolved& resolved, std::optional<uint64_t> asked,
                        const dataset::Index& index, const std::string& split,
                        const std::string& root, bool skip_bad_files) {
  const bool is_train = split == "train";
  const uint64_t wanted = asked.value_or(0);
  const char* key = is_train ? "dataset.num_files_train" : "dataset.num_files_eval";
  if (index.file_count() >= wanted) return {};
  // Files that cannot be used and may be skipped are no reason to refuse the others.
  if (skip_bad_files && index.file_count() + index.summary().bad_file_count >= wanted) return {};
  return fail(ErrorCode::kNotFound,
              "{} is {}, but {} has {} {} file{} for {}{}: generate the rest ({}), or set {}={}",
              key, wanted, root, index.file_count(), index.format().name,
              index.file_count() == 1 ? "" : "s", is_train ? "training" : "evaluation",
              first_problem(index), making_command(resolved, root), key, index.file_count());
}

std::string describe_units(const dataset::Index& index) {
  if (index.is_together())
    return fmt::format("samples of one {} file lie interleaved or compressed together",
                       index.format().name);
  return fmt::format("samples of {} files come in blocks of up to {}", index.format().name,
                     base::format_count(index.unit_samples_max()));
}

// Of the machine and of the cgroup, whichever leaves less.
uint64_t available_memory_bytes() {
  const uint64_t limit = sys::host().memory_limit_bytes;
  const uint64_t used = sys::resident_bytes();
  const auto info = sys::meminfo();
  const auto found = info.find("MemAvailable");
  const uint64_t free_kib =
      found == info.end() ? UINT64_MAX / 1024 : std::strtoull(found->second.c_str(), nullptr, 10);
  return std::min(limit > used ? limit - used : 0, free_kib * 1024);
}

// The N of a name such as img_07_of_N.npz, or nothing.
std::string_view count_in_name(std::string_view path) {
  constexpr std::string_view kOf = "_of_";
  const size_t at = path.rfind(kOf);
  if (at == std::string_view::npos || path.find('/', at) != std::string_view::npos) return {};
  const std::string_view rest = path.substr(at + kOf.size());
  return rest.substr(0, rest.find('.'));
}

// What is said of files that were generated as parts of several data sets.
std::string describe_mixture(const dataset::Index& index) {
  const std::string_view count = count_in_name(index.path(0));
  for (uint32_t file = 1; file < index.file_count(); ++file)
    if (count_in_name(index.path(file)) != count)
      return fmt::format(", of several data sets: {} and {} are among them", index.path(0),
                         index.path(file));
  return "";
}

DatasetFacts facts_of(const dataset::Index& index, const dataset::Order& order,
                      const std::string& root, const std::string& folder) {
  DatasetFacts facts;
  const dataset::IndexSummary& summary = index.summary();
  facts.format = index.format().name;
  facts.layout = folder.empty() ? "folder" : folder + "/";
  facts.file_system = sys::file_system_name(root);
  facts.files = summary.file_count;
  facts.samples = summary.sample_count;
  facts.bytes = summary.bytes;
  facts.strays = summary.stray_count;
  facts.problems = summary.problem_count;
  for (const storage::Skipped& problem : summary.problems)
    facts.problem_examples.push_back(problem.path + ": " + problem.reason);
  if (!summary.cache_problem.empty()) {
    ++facts.problems;
    facts.problem_examples.push_back(summary.cache_problem);
  }
  facts.index_seconds = summary.seconds;
  facts.order_entropy = order.entropy();
  facts.order = describe_order(order.options(), index);
  facts.order_seed = order.options().seed;
  facts.fingerprint = index.fingerprint();
  return facts;
}

}  // namespace

dataset::OrderOptions choose_order(const workload::Workload& workload,
                                   const dataset::Index& index) {
  dataset::OrderOptions options;
  const bool files = workload.reader.file_shuffle != Shuffle::kOff;
  const bool samples = workload.reader.sample_shuffle != Shuffle::kOff;
  options.sample_count = index.sample_count();
  options.change_each_epoch = workload.train.seed_change_epoch;
  options.shard_samples = choose_shard_samples(workload, index, !samples);
  const bool one_sample_files = index.samples_per_file_max() <= 1;
  const bool is_windowed = has_units(index) || workload.reader.data_loader == "tensorflow";
  if (!files && !samples) {
    options.kind = dataset::OrderKind::kSequential;
  } else if (one_sample_files || (samples && !is_windowed)) {
    options.kind = dataset::OrderKind::kFull;
  } else {
    options.kind = dataset::OrderKind::kWindowed;
    options.window_shards =
        samples ? std::max<uint64_t>(1, workload.reader.shuffle_size / options.shard_samples) : 1;
    if (has_units(index)) {  // a window must fit what the loader keeps, or units are read again
      const uint64_t shard_bytes = held_bytes(workload, index, options.shard_samples);
      const uint64_t kept = loader::EngineOptions().shard_cache_bytes / (shard_bytes + 1);
      options.window_shards = std::clamp<uint64_t>(kept, 1, options.window_shards);
    }
    options.shuffle_within = samples;
    options.shuffle_shards = files;
  }
  return options;
}

bool is_synthetic(const workload::Workload& workload) {
  return workload.reader.data_loader == "synthetic";
}

formats::FormatOptions format_options(const workload::Workload& workload) {
  const workload::Dataset& data = workload.dataset;
  formats::FormatOptions options;
  options.samples_per_file = data.num_samples_per_file;
  options.record_bytes =
      is_synthetic(workload) ? 0 : static_cast<uint64_t>(data.record_length_bytes);
  for (const workload::ParquetColumn& column : data.parquet_columns)
    if (column.is_read) options.columns.push_back(column.name);
  return options;
}

std::string synthetic_store(const workload::Workload& workload) {
  const workload::Dataset& data = workload.dataset;
  return fmt::format("null:files={},size=1,deliver=nothing,name=img_{{i}}.synthetic",
                     std::max(data.num_files_train, data.num_files_eval));
}

std::string describe_repeated_reads(const DataSource& source, uint64_t accelerators,
                                    uint64_t batch_size) {
  const uint64_t unit = source.index->unit_samples_max();
  if (unit <= 1 || accelerators <= 1) return "";
  const dataset::OrderOptions& order = source.order->options();
  const bool is_mixed = order.kind != dataset::OrderKind::kSequential && order.shuffle_within;
  // In order, a batch takes neighbours: few accelerators meet in one unit.
  const uint64_t readers =
      std::min(accelerators, is_mixed ? unit : (unit - 1) / std::max<uint64_t>(1, batch_size) + 2);
  if (readers <= 1) return "";
  return fmt::format(
      "samples of one {} {} come together only, so each is read by up to {} of the "
      "{} accelerators",
      source.facts.format, source.index->is_together() ? "file" : "block", readers, accelerators);
}

Status keep_samples_in_memory(DataSource& source, uint64_t bytes_taken) {
  const uint64_t available = available_memory_bytes();
  source.samples = FB_TRY(loader::SampleCache::open(
      *source.index, available > bytes_taken ? available - bytes_taken : 0));
  return {};
}

bool is_given(const workload::Resolved& resolved, std::string_view key) {
  for (const workload::Setting& setting : resolved.settings)
    if (setting.key == key) return setting.origin != "default";
  return false;
}

uint64_t order_seed(const workload::Workload& workload, uint64_t entropy) {
  const bool is_random = workload.reader.file_shuffle == Shuffle::kRandom ||
                         workload.reader.sample_shuffle == Shuffle::kRandom;
  return is_random ? entropy : workload.train.seed;
}

Result<DataSource> open_data_source(storage::Store& store, const workload::Resolved& resolved,
                                    const std::string& root, const std::string& split,
                                    const std::string& cache_path, bool skip_bad_files,
                                    std::stop_token stop) {
  const workload::Workload& workload = resolved.workload;
  const bool is_train = split == "train";
  DataSource source;
  dataset::IndexOptions options;
  const bool reads_nothing = is_synthetic(workload);
  options.folder = !reads_nothing && split_exists(store, root, split) ? split : "";
  if (options.folder.empty() && !is_train && !reads_nothing)
    return fail(ErrorCode::kNotFound, "evaluation is on, but {} has no folder {}/ with files", root,
                split);
  const std::optional<uint64_t> wanted = wanted_files(resolved, is_train, !options.folder.empty());
  if (is_given(resolved, "dataset.format") || reads_nothing)  // otherwise what the folder holds
    options.format = FB_TRY(format_of(workload));
  const formats::FormatOptions of_files = format_options(workload);
  options.samples_per_file = of_files.samples_per_file;
  if (options.format == nullptr || options.format->name == "parquet")
    options.columns = wanted_columns(resolved, of_files.columns);
  if (options.format != nullptr && options.format->name == "raw")
    options.record_bytes = of_files.record_bytes;
  options.files_max = wanted.value_or(UINT64_MAX);
  if (!reads_nothing) options.cache_path = cache_path;
  options.skip_bad_files = skip_bad_files;
  options.stop = std::move(stop);
  options.threads = static_cast<int>(workload.dataset.listing_threads);
  Result<std::unique_ptr<dataset::Index>> index = dataset::Index::open(store, options);
  if (!index.ok() && index.error().code == ErrorCode::kNotFound) {
    const std::string& why = index.error().message;
    if (why.find("NoSuchBucket") != std::string::npos)
      return fail(ErrorCode::kNotFound, "{}; create the bucket, or name another one", why);
    return fail(ErrorCode::kNotFound, "{}; name another folder or dataset.format, or make data: {}",
                why, making_command(resolved, root));
  }
  source.index = FB_TRY(std::move(index));
  FB_TRY(check_file_count(resolved, wanted, *source.index, split, root, skip_bad_files));
  dataset::OrderOptions order = choose_order(workload, *source.index);
  order.seed = order_seed(workload, sys::fresh_seed());
  if (!is_train) order.kind = dataset::OrderKind::kSequential;
  const dataset::Order made = FB_TRY(dataset::Order::make(order));
  source.order = std::make_unique<dataset::Order>(made);
  source.facts = facts_of(*source.index, *source.order, root, options.folder);
  if (reads_nothing) source.facts.bytes = 0;  // the files exist only as a rule
  if (has_units(*source.index) && order.kind == dataset::OrderKind::kWindowed &&
      order.shuffle_within)
    source.warnings.push_back(describe_units(*source.index) + ": " +
                              describe_order(order, *source.index));
  if (const uint64_t bad = source.index->summary().bad_file_count; bad > 0)
    source.warnings.push_back(fmt::format("{} bad file{}: left out, or used as far as {} whole",
                                          bad, bad == 1 ? "" : "s",
                                          bad == 1 ? "it is" : "they are"));
  if (const auto& summary = source.index->summary();
      summary.other_count_files > 0 && is_given(resolved, "dataset.num_samples_per_file"))
    source.warnings.push_back(fmt::format(
        "dataset.num_samples_per_file is {}, but {} of {} file{} other numbers of samples: {}",
        of_files.samples_per_file, summary.other_count_files, summary.file_count,
        summary.file_count == 1 ? " has" : "s have", summary.other_count_example));
  if (const uint64_t more = source.index->summary().files_beyond_max; more > 0)
    source.warnings.push_back(
        fmt::format("{} more {} files are not used: {} names the first {} in order of name{}", more,
                    source.index->format().name,
                    is_train ? "dataset.num_files_train" : "dataset.num_files_eval", *wanted,
                    describe_mixture(*source.index)));
  if (source.facts.strays > 0)
    source.warnings.push_back(fmt::format(
        "{} file{} of other kinds left out, for example {}", source.facts.strays,
        source.facts.strays == 1 ? "" : "s",
        source.facts.problem_examples.empty() ? "?" : source.facts.problem_examples.front()));
  return source;
}

}  // namespace forebay::emulate

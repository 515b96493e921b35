#include "cli/workload_arguments.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "cli/console.h"
#include "dataset/generator.h"
#include "emulate/data_store.h"
#include "storage/store.h"

namespace forebay::cli {
namespace {

Result<dataset::GeneratorOptions> generator_options(const workload::Workload& workload) {
  const workload::Dataset& data = workload.dataset;
  dataset::GeneratorOptions options;
  options.format = formats::find_format(data.format);
  if (options.format == nullptr)
    return fail(ErrorCode::kUnsupported, "dataset.format: no format named '{}'", data.format);
  const auto type = formats::element_from_name(data.record_element_type);
  if (!type)
    return fail(ErrorCode::kInvalidArgument, "dataset.record_element_type: no type named '{}'",
                data.record_element_type);
  options.common.type = *type;
  options.file_prefix = data.file_prefix;
  options.files_train = data.num_files_train;
  options.files_valid = data.num_files_eval;
  options.subfolders_train = data.num_subfolders_train;
  options.subfolders_valid = data.num_subfolders_eval;
  options.samples_per_file = data.num_samples_per_file;
  options.record_bytes = data.record_length_bytes;
  options.record_bytes_stdev = data.record_length_bytes_stdev;
  options.record_dims = data.record_dims;
  const auto compression = formats::compression_from_name(data.compression);
  if (!compression)
    return fail(ErrorCode::kInvalidArgument, "dataset.compression: none is named '{}'",
                data.compression);
  options.common.compression = *compression;
  options.seed = workload.train.seed;
  return options;
}

std::string progress_text(const dataset::GeneratorProgress& progress) {
  const double rate =
      progress.seconds > 0 ? static_cast<double>(progress.bytes_written) / progress.seconds : 0;
  const auto left = static_cast<double>(progress.bytes_total -
                                        std::min(progress.bytes_total, progress.bytes_written));
  std::string text = fmt::format("{}/{} files   {}   {}", progress.files_done, progress.files_total,
                                 base::format_bytes(static_cast<double>(progress.bytes_written)),
                                 base::format_bytes_per_second(rate));
  if (rate > 0 && progress.seconds > 0.5)
    text += fmt::format("   {} left", base::format_seconds(left / rate));
  return text;
}

// As a shell would have to be told.
std::string quoted(const std::string& word) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

Result<workload::Resolved> resolve_arguments(const Arguments& arguments) {
  return workload::resolve(*arguments.get("WORKLOAD"), arguments.all("KEY=VALUE"));
}

Result<std::string> data_folder(const Arguments& arguments, const workload::Resolved& resolved) {
  if (const auto given = arguments.get("--data")) {
    if (given->empty()) return fail(ErrorCode::kInvalidArgument, "--data needs a folder, not ''");
    return *given;
  }
  return emulate::place_of(resolved.workload.dataset.data_folder, resolved.workload.storage);
}

std::string command_line(const Arguments& arguments, std::span<const std::string_view> without) {
  std::string text = "forebay " + std::string(arguments.command().name);
  for (const Positional& positional : arguments.command().positionals)
    for (const std::string& value : arguments.all(positional.name))
      text += " " + quoted(workload::shown_override(value));
  for (const Flag& flag : arguments.command().flags) {
    const bool left_out = std::find(without.begin(), without.end(), flag.name) != without.end();
    if (!arguments.has(flag.name) || left_out) continue;
    text += " " + std::string(flag.name);
    if (!flag.value.empty()) text += " " + quoted(*arguments.get(flag.name));
  }
  return text;
}

Status remove_data(const workload::Resolved& resolved, const std::string& folder) {
  const dataset::GeneratorOptions options = FB_TRY(generator_options(resolved.workload));
  const dataset::GeneratorPlan plan = FB_TRY(dataset::plan_generation(options));
  const auto store = FB_TRY(emulate::open_data_store("local", folder, resolved.workload.storage));
  uint64_t removed = 0;
  for (const formats::FileSpec& file : plan.files) {
    Status gone = store->remove(file.path);
    if (!gone.ok() && gone.error().code != ErrorCode::kNotFound) return gone;
    removed += gone.ok() ? 1 : 0;
    if (options.format->index_path != nullptr)
      store->remove(options.format->index_path(file.path)).ignore("only some formats have one");
  }
  talk(fmt::format("{}: {} files removed (dataset.keep_files: False)\n", folder, removed));
  return {};
}

Status generate_data(const workload::Resolved& resolved, const std::string& folder, int threads,
                     bool quiet, std::stop_token stop) {
  dataset::GeneratorOptions options = FB_TRY(generator_options(resolved.workload));
  options.threads = threads;
  const auto store = FB_TRY(emulate::open_data_store("local", folder, resolved.workload.storage));
  const auto progress = [&](const dataset::GeneratorProgress& now) {
    if (!quiet) show_progress(progress_text(now));
  };
  const dataset::GeneratorProgress done =
      FB_TRY(dataset::generate(*store, options, progress, std::move(stop)).context(folder));
  if (quiet) return {};
  std::string text = fmt::format("{}: {} files", folder, base::format_count(done.files_done));
  if (done.bytes_written > 0)
    text += fmt::format(
        ", {} written in {} ({})", base::format_bytes(static_cast<double>(done.bytes_written)),
        base::format_seconds(done.seconds),
        base::format_bytes_per_second(static_cast<double>(done.bytes_written) / done.seconds));
  talk(fmt::format("{}, {} kept from before\n", text, base::format_count(done.files_kept)));
  return {};
}

}  // namespace forebay::cli

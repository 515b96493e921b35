#include "cli/workload_arguments.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "cli/console.h"
#include "cli/version.h"
#include "cluster/world.h"
#include "dataset/generator.h"
#include "emulate/agreement.h"
#include "emulate/data_store.h"
#include "storage/place.h"
#include "storage/store.h"

namespace forebay::cli {
namespace {

formats::Dialect dialect_of(workload::Compat compat) {
  switch (compat) {
    case workload::Compat::kDlioMain:
      return formats::Dialect::kDlioMain;
    case workload::Compat::kMlpsV2:
      return formats::Dialect::kMlpsV2;
    case workload::Compat::kMlpsV3:
      return formats::Dialect::kMlpsV3;
  }
  return formats::Dialect::kDlioMain;
}

// Square chunks of one sample each, as mlps-v2.0 cuts hdf5 data.
std::vector<uint64_t> square_chunk(const workload::Dataset& data) {
  const auto side =
      static_cast<uint64_t>(std::min(std::ceil(std::sqrt(static_cast<double>(data.chunk_size))),
                                     std::floor(std::sqrt(data.record_length_bytes))));
  return {1, std::max<uint64_t>(1, side), std::max<uint64_t>(1, side)};
}

std::vector<uint64_t> chunk_dims_of(const workload::Dataset& data) {
  if (data.enable_chunking) return square_chunk(data);
  if (!data.hdf5_chunk_dims.empty() || data.hdf5_max_shape.empty()) return data.hdf5_chunk_dims;
  // Data that can grow must lie in chunks: one sample each.
  const auto side = static_cast<uint64_t>(std::sqrt(data.record_length_bytes));
  std::vector<uint64_t> chunk{1};
  if (data.record_dims.empty())
    chunk.insert(chunk.end(), {side, side});
  else
    chunk.insert(chunk.end(), data.record_dims.begin(), data.record_dims.end());
  chunk[1] = std::max<uint64_t>(1, chunk[1] / data.hdf5_datasets_per_record);
  return chunk;
}

Result<std::vector<formats::Column>> columns_of(const workload::Dataset& data) {
  std::vector<formats::Column> columns;
  for (const workload::ParquetColumn& column : data.parquet_columns) {
    const auto type = formats::element_from_name(column.dtype);
    if (!type)
      return fail(ErrorCode::kInvalidArgument, "dataset.parquet.columns: {}: no type named '{}'",
                  column.name, column.dtype);
    columns.push_back({.name = column.name, .type = *type, .values = column.size});
  }
  return columns;
}

Result<dataset::GeneratorOptions> generator_options(const workload::Resolved& resolved) {
  const workload::Workload& workload = resolved.workload;
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
  options.common.compression_level = static_cast<int>(data.compression_level);
  options.common.dialect = dialect_of(resolved.compat);
  options.common.chunk_dims = chunk_dims_of(data);
  options.common.max_shape = data.hdf5_max_shape;
  options.common.datasets_per_record = data.hdf5_datasets_per_record;
  options.common.table = FB_TRY(columns_of(data));
  options.common.row_group_rows = data.parquet_row_group_size;
  options.seed = workload.train.seed;
  return options;
}

std::string progress_text(const dataset::GeneratorProgress& progress) {
  const double rate =
      progress.seconds > 0 ? static_cast<double>(progress.bytes_written) / progress.seconds : 0;
  const auto left = static_cast<double>(progress.bytes_total -
                                        std::min(progress.bytes_total, progress.bytes_written));
  std::string text = fmt::format("{}/{}   {}   {}", progress.files_done,
                                 base::format_counted(progress.files_total, "files"),
                                 base::format_bytes(static_cast<double>(progress.bytes_written)),
                                 base::format_bytes_per_second(rate));
  if (rate > 0 && progress.seconds > 0.5)
    text += fmt::format("   {} left", base::format_seconds(left / rate));
  return text;
}

// For the other processes, which run the same version.
std::string posted_progress(const dataset::GeneratorProgress& progress) {
  return fmt::format("{} {} {} {} {} {}", progress.files_done, progress.files_total,
                     progress.files_kept, progress.bytes_written, progress.bytes_total,
                     progress.seconds);
}

// Of what posted_progress() made in each process; those that have said nothing yet count nothing.
dataset::GeneratorProgress sum_of_progress(const std::vector<std::string>& texts) {
  dataset::GeneratorProgress sum;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    dataset::GeneratorProgress one;
    in >> one.files_done >> one.files_total >> one.files_kept >> one.bytes_written >>
        one.bytes_total >> one.seconds;
    sum.files_done += one.files_done;
    sum.files_total += one.files_total;
    sum.files_kept += one.files_kept;
    sum.bytes_written += one.bytes_written;
    sum.bytes_total += one.bytes_total;
    sum.seconds = std::max(sum.seconds, one.seconds);
  }
  return sum;
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

void note_what_is_there(const std::string& folder, const dataset::GeneratorProgress& now,
                        bool speaks) {
  if (now.files_replaced > 0)
    talk(fmt::format("note    {}: {} of another size than asked for replaced\n", folder,
                     base::format_counted(now.files_replaced, "files")));
  if (now.files_strange == 0 || !speaks) return;
  const bool is_one = now.files_strange == 1;
  talk(fmt::format(
      "note    {}: {} other data file{} {} there already, {}{}: a run takes the first "
      "in order of name and mixes them; remove {}, or use another folder\n",
      folder, base::format_count(now.files_strange), is_one ? "" : "s", is_one ? "is" : "are",
      is_one ? "" : "for example ", now.strange_example, is_one ? "it" : "them"));
}

}  // namespace

Result<workload::Resolved> resolve_arguments(const Arguments& arguments) {
  workload::ResolveOptions options;
  if (const auto name = arguments.get("--compat"))
    options.compat = *workload::compat_from_name(*name);  // one of the flag's choices
  return workload::resolve(*arguments.get("WORKLOAD"), arguments.all("KEY=VALUE"), options);
}

Result<std::string> data_folder(const Arguments& arguments, const workload::Resolved& resolved) {
  if (const auto given = arguments.get("--data")) return storage::normal_place(*given);
  return data_folder(resolved.workload);
}

Result<std::string> data_folder(const workload::Workload& workload) {
  return emulate::place_of(workload.dataset.data_folder, workload.storage);
}

std::string command_line(const Arguments& arguments, std::span<const std::string_view> without) {
  std::string text = "forebay " + std::string(arguments.command().name);
  std::string program;  // whose own flags are none of ours
  for (const Positional& positional : arguments.command().positionals)
    for (const std::string& value : arguments.all(positional.name))
      (positional.verbatim ? program : text) += " " + quoted(workload::shown_override(value));
  for (const Flag& flag : arguments.command().flags) {
    const bool left_out = std::find(without.begin(), without.end(), flag.name) != without.end();
    if (!arguments.has(flag.name) || left_out) continue;
    text += " " + std::string(flag.name);
    if (!flag.value.empty()) text += " " + quoted(*arguments.get(flag.name));
  }
  if (!program.empty()) text += " --" + program;
  return text;
}

Status agree_on_command(const Arguments& arguments, std::span<const std::string_view> may_differ,
                        const emulate::Items& more, cluster::World& world, std::stop_token stop) {
  const Command& command = arguments.command();
  emulate::Items items{{"the command", "forebay " + std::string(command.name)}};
  for (const Flag& flag : command.flags) {
    const bool is_free =
        std::find(may_differ.begin(), may_differ.end(), flag.name) != may_differ.end();
    const bool is_told = std::any_of(more.begin(), more.end(), [&](const auto& item) {
      return item.first == flag.name;  // with its effect, whoever asked for it
    });
    if (is_free || is_told) continue;
    const std::string value = flag.value.empty() ? (arguments.has(flag.name) ? "on" : "off")
                                                 : arguments.get(flag.name).value_or("");
    items.emplace_back(flag.name, value);
  }
  items.insert(items.end(), more.begin(), more.end());
  return emulate::agree_on(items, world, std::move(stop));
}

Status remove_data(const workload::Resolved& resolved, const std::string& folder) {
  const dataset::GeneratorOptions options = FB_TRY(generator_options(resolved));
  const dataset::GeneratorPlan plan = FB_TRY(dataset::plan_generation(options));
  const auto store = FB_TRY(emulate::open_data_store("local", folder, resolved.workload.storage));
  uint64_t removed = 0;
  for (const formats::FileSpec& file : plan.files) {
    Status gone = store->remove(file.path);
    if (!gone.ok() && gone.error().code != ErrorCode::kNotFound) return gone;
    removed += gone.ok() ? 1 : 0;
    if (options.format->side_paths == nullptr) continue;
    for (const std::string& side : options.format->side_paths(file.path))
      store->remove(side).ignore("compressed files have none");
  }
  talk(fmt::format("{}: {} removed (dataset.keep_files: False)\n", folder,
                   base::format_counted(removed, "files")));
  return {};
}

Status generate_data(const workload::Resolved& resolved, const std::string& folder, int threads,
                     bool quiet, std::stop_token stop, cluster::World* world) {
  const std::unique_ptr<cluster::World> alone = world ? nullptr : cluster::make_alone();
  cluster::World& all = world ? *world : *alone;
  dataset::GeneratorOptions options = FB_TRY(generator_options(resolved));
  options.threads =
      threads > 0 ? threads : static_cast<int>(resolved.workload.reader.write_threads);
  options.rank = all.rank();
  options.world_size = all.size();
  std::stop_source end;  // asked for, or another process has failed
  const std::stop_callback when_asked(stop, [&] { end.request_stop(); });
  const std::stop_callback when_failed(all.failed(), [&] { end.request_stop(); });
  // Or they make files of several data sets.
  FB_TRY(emulate::agree_on(emulate::items_of(resolved, kVersion), all, end.get_token()));
  options.before_writing = [&]() -> Status {
    FB_TRY(all.meet(0, end.get_token()));
    return {};
  };
  const auto store = FB_TRY(emulate::open_data_store("local", folder, resolved.workload.storage));
  bool is_noted = false;
  const auto progress = [&](const dataset::GeneratorProgress& now) {
    if (!is_noted) note_what_is_there(folder, now, all.rank() == 0);
    is_noted = true;
    all.post(posted_progress(now));
    if (!quiet) show_progress(progress_text(sum_of_progress(all.posted())));
  };
  Result<dataset::GeneratorProgress> made =
      dataset::generate(*store, options, progress, end.get_token());
  if (!made.ok() && all.failure()) return *all.failure();
  const dataset::GeneratorProgress mine = FB_TRY(std::move(made).context(folder));
  const std::vector<std::string> everybody =
      FB_TRY(all.gather(posted_progress(mine), end.get_token()));
  if (quiet) return {};
  const dataset::GeneratorProgress done = sum_of_progress(everybody);
  std::string text = fmt::format("{}: {}", folder, base::format_counted(done.files_done, "files"));
  if (done.bytes_written > 0)
    text += fmt::format(
        ", {} written in {} ({})", base::format_bytes(static_cast<double>(done.bytes_written)),
        base::format_seconds(done.seconds),
        base::format_bytes_per_second(static_cast<double>(done.bytes_written) / done.seconds));
  if (all.size() > 1) text += fmt::format(" by {} processes", all.size());
  talk(fmt::format("{}, {} kept from before\n", text, base::format_count(done.files_kept)));
  return {};
}

}  // namespace forebay::cli

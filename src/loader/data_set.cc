#include "loader/data_set.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "dataset/index.h"
#include "dataset/labels.h"
#include "dataset/mixture.h"
#include "dataset/order.h"
#include "dataset/patterns.h"
#include "dataset/source_address.h"
#include "formats/builtin.h"

namespace forebay::loader {
namespace {

using dataset::Index;

std::vector<DataSource> sources_of(const LoaderOptions& options) {
  if (!options.sources.empty()) return options.sources;
  DataSource only;
  only.data = options.data;
  only.format = options.format;
  only.samples_per_file = options.samples_per_file;
  only.record_bytes = options.record_bytes;
  return {only};
}

Result<std::optional<formats::ArrayLayout>> record_array(const DataSource& source) {
  std::optional<formats::ArrayLayout> array;
  if (source.record_type.empty()) {
    if (source.record_shape.empty()) return array;
    return fail(ErrorCode::kInvalidArgument, "{}: record_shape without record_type", source.data);
  }
  const auto type = formats::number_from_numpy(source.record_type);
  if (!type)
    return fail(ErrorCode::kInvalidArgument,
                "{}: record_type='{}': no type of numbers has that name (uint8 or u1, float32 or "
                "f4, >i2, ...)",
                source.data, source.record_type);
  array = formats::ArrayLayout{
      .type = type->type, .is_big_endian = type->is_big_endian, .shape = source.record_shape};
  return array;
}

// Caches of several sources lie side by side.
std::string cache_path(const std::string& path, size_t source) {
  return path.empty() || source == 0 ? path : fmt::format("{}.{}", path, source);
}

Result<dataset::IndexOptions> index_options(const DataSource& source) {
  dataset::IndexOptions options;
  if (!source.format.empty()) {
    options.format = formats::find_format(source.format);
    if (options.format == nullptr) {
      std::vector<std::string_view> names;
      for (const formats::Format* format : formats::builtin_formats())
        names.push_back(format->name);
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("format", source.format, names));
    }
  }
  options.samples_per_file = source.samples_per_file;
  options.record_array = FB_TRY(record_array(source));
  options.record_bytes = source.record_bytes;
  if (options.record_bytes == 0 && !source.record_shape.empty())
    options.record_bytes = FB_TRY(formats::array_bytes(*options.record_array));
  options.tokens_per_sample = source.tokens_per_sample;
  options.columns = source.parts;
  return options;
}

dataset::OrderOptions order_options(const LoaderOptions& options, const Index& index,
                                    size_t source) {
  dataset::OrderOptions order;
  order.sample_count = index.sample_count();
  // Sources of a mixture must not be shuffled alike.
  order.seed = source == 0 ? options.seed : base::mix64(options.seed ^ base::mix64(source));
  order.change_each_epoch = options.change_each_epoch;
  order.shard_samples = std::max<uint64_t>(
      1, index.has_even_blocks() ? index.unit_samples_max() : index.samples_per_file_max());
  order.window_shards = options.window_shards;
  order.kind = options.shuffle == Shuffle::kOff        ? dataset::OrderKind::kSequential
               : options.shuffle == Shuffle::kWindowed ? dataset::OrderKind::kWindowed
                                                       : dataset::OrderKind::kFull;
  return order;
}

// Whether a file is a sample: then a folder of files without classes lacks something.
bool are_files_samples(const dataset::LabelledFiles& set) {
  return set.index->sample_count() == set.index->file_count();
}

// Classes are folders where every file lies in one.
std::shared_ptr<const dataset::ClassLabels> make_labels(
    const std::vector<dataset::LabelledFiles>& sets, std::vector<std::string>& notes) {
  Result<dataset::ClassLabels> labels = dataset::ClassLabels::make(sets);
  if (!labels.ok()) {
    if (std::all_of(sets.begin(), sets.end(), are_files_samples))
      notes.push_back("no labels: " + labels.error().message);
    return nullptr;
  }
  for (const std::string& name : labels->empty_names())
    notes.push_back(fmt::format("class {} has no samples", name));
  return std::make_shared<const dataset::ClassLabels>(std::move(labels).take());
}

// The first of them one by one: files left out, archives cut.
void note_problems(const Index& index, std::vector<std::string>& notes) {
  constexpr size_t kNotedMax = 8;
  const dataset::IndexSummary& summary = index.summary();
  const size_t noted = std::min(kNotedMax, summary.problems.size());
  for (size_t i = 0; i < noted; ++i)
    notes.push_back(with_context(summary.problems[i].reason, summary.problems[i].path));
  if (summary.problem_count > noted)
    notes.push_back(fmt::format("{} more of the kind", summary.problem_count - noted));
}

// Caches of several sources lie side by side: what is wrong with one is wrong with all.
void note_index_cache(const std::vector<std::shared_ptr<const Index>>& indexes,
                      const std::string& cache, DataSet& set) {
  if (cache.empty()) return;
  size_t more = 0;
  bool is_needed = false;
  for (const std::shared_ptr<const Index>& index : indexes) {
    const std::string& problem = index->summary().cache_problem;
    is_needed = is_needed || !index->summary().needs_no_cache;
    if (problem.empty()) continue;
    if (!set.index_cache_problem.empty())
      ++more;
    else
      set.index_cache_problem = problem;
  }
  if (more > 0) set.index_cache_problem += "; and of " + base::format_counted(more, "more sources");
  if (!set.index_cache_problem.empty())
    set.notes.insert(set.notes.begin(), set.index_cache_problem);
  if (!is_needed)
    set.notes.push_back(
        fmt::format("{}: no index cache is needed where each file is one sample", cache));
}

// A file without samples where some should be, or one that is cut, is as bad as a record that is:
// it may only be missing where bad records may.
Status count_bad_files(const Index& index, const LoaderOptions& options, DataSet& set,
                       std::optional<RecordPlace>& failed) {
  const dataset::IndexSummary& summary = index.summary();
  if (summary.damaged_count == 0) return {};
  const storage::Skipped& first = summary.damaged_files.front();
  const std::string cause = with_context(first.reason, first.path);
  if (options.on_error == OnError::kRaise) {
    failed = RecordPlace{.file = first.path, .record = {}, .offset = {}};
    return fail(
        ErrorCode::kCorruption, "{}{}", cause,
        summary.damaged_count == 1 ? "" : fmt::format(", and {} more", summary.damaged_count - 1));
  }
  set.bad_file_count += summary.damaged_count;
  if (set.bad_file_count > options.errors_max)
    return fail(ErrorCode::kResourceExhausted, "{}, {} allowed; the first: {}",
                base::format_counted(set.bad_file_count, "bad files"), options.errors_max, cause);
  for (const storage::Skipped& bad : summary.damaged_files)
    set.bad_files.push_back(with_context(bad.reason, bad.path));
  return {};
}

void describe_order(const LoaderOptions& options, const dataset::OrderOptions& order,
                    DataSet& set) {
  set.window_samples =
      options.shuffle == Shuffle::kOff
          ? 0
          : std::max(set.window_samples, options.shuffle == Shuffle::kFull
                                             ? order.sample_count
                                             : order.window_shards * order.shard_samples);
  set.order = options.shuffle == Shuffle::kOff ? "off, in the order of the files"
              : options.shuffle == Shuffle::kFull
                  ? "full"
                  : fmt::format("windowed, {} shards of {} samples", order.window_shards,
                                order.shard_samples);
}

// Sources that differ only in what they choose, below one folder: one source with several patterns,
// of which a file that is chosen twice counts once.
struct Chosen {
  DataSource source;
  std::vector<std::string> patterns;
  std::string folder;  // whose subfolders are classes
};

bool are_alike(const DataSource& a, const DataSource& b) {
  // Files of another kind would be left out where the kind is found out.
  const bool is_one_kind = formats::extension_of(a.data) == formats::extension_of(b.data);
  return is_one_kind && a.format == b.format && a.samples_per_file == b.samples_per_file &&
         a.record_bytes == b.record_bytes && a.record_type == b.record_type &&
         a.record_shape == b.record_shape && a.tokens_per_sample == b.tokens_per_sample &&
         a.parts == b.parts;
}

bool are_weighted(const std::vector<DataSource>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const DataSource& source) { return source.weight != 0; });
}

std::vector<Chosen> join_sources(const std::vector<DataSource>& sources,
                                 const dataset::SharedRoot& root) {
  const bool is_mixture = are_weighted(sources);
  std::vector<Chosen> joined;
  for (size_t i = 0; i < sources.size(); ++i) {
    Chosen next{sources[i], root.patterns[i], root.folders[i]};
    if (is_mixture || joined.empty() || joined.back().folder != next.folder ||
        !are_alike(joined.back().source, next.source)) {
      joined.push_back(std::move(next));
      continue;
    }
    Chosen& last = joined.back();
    for (std::vector<std::string>* patterns : {&last.patterns, &next.patterns})
      if (patterns->empty()) patterns->emplace_back("**");  // the whole root
    last.patterns.insert(last.patterns.end(), next.patterns.begin(), next.patterns.end());
    last.source.data += ", " + next.source.data;
  }
  return joined;
}

// Samples are numbered through: one order over all of them takes sources one after the other.
Status make_common_order(const LoaderOptions& options,
                         const std::vector<std::shared_ptr<const Index>>& indexes, DataSet& set) {
  dataset::OrderOptions order = order_options(options, *indexes.front(), 0);
  for (size_t i = 1; i < indexes.size(); ++i) {
    const dataset::OrderOptions more = order_options(options, *indexes[i], i);
    order.sample_count += more.sample_count;
    order.shard_samples = std::max(order.shard_samples, more.shard_samples);
  }
  describe_order(options, order, set);
  set.stream = std::make_unique<dataset::Order>(FB_TRY(dataset::Order::make(order)));
  return {};
}

// The order of the sources one after another, or with weights what they make of theirs.
Status make_stream(const LoaderOptions& options, const std::vector<DataSource>& sources,
                   const std::vector<std::shared_ptr<const Index>>& indexes, DataSet& set) {
  if (!are_weighted(sources)) return make_common_order(options, indexes, set);
  dataset::MixtureOptions mixture{.seed = options.seed};
  for (size_t i = 0; i < indexes.size(); ++i) {
    const dataset::OrderOptions order = order_options(options, *indexes[i], i);
    describe_order(options, order, set);
    mixture.sources.push_back({FB_TRY(dataset::Order::make(order)), sources[i].weight});
  }
  auto mixed =
      std::make_unique<dataset::Mixture>(FB_TRY(dataset::Mixture::make(std::move(mixture))));
  set.order += ", mixed:";
  for (size_t i = 0; i < indexes.size(); ++i)
    set.order +=
        fmt::format(" {} of {} samples of {}{}", mixed->quota(i), indexes[i]->sample_count(),
                    sources[i].data, i + 1 < indexes.size() ? "," : "");
  set.stream = std::move(mixed);
  return {};
}

// Others name tokens by their index, or by what both files have in common.
Error explain_tokens(const std::vector<DataSource>& sources, Error error) {
  constexpr std::string_view kIndex = ".idx";
  for (const DataSource& source : sources) {
    const bool is_tokens = source.tokens_per_sample > 0 || source.format == "tokens";
    std::string_view stem = source.data;
    if (stem.ends_with(kIndex)) {
      stem.remove_suffix(kIndex.size());
      error.message += fmt::format(
          "; tokens are named by their file, {}.bin: its index is found beside it", stem);
      break;
    }
    if (stem.ends_with(".bin") || !is_tokens) continue;
    error.message +=
        fmt::format("; tokens lie in .bin files: give {}.bin, or a folder that has some", stem);
    break;
  }
  return error;
}

// Says so where bytes of a .bin file are about to be taken for what they are, though an index tells
// that they are tokens.
void note_raw_tokens(const Chosen& chosen, const Index& index, DataSet& set) {
  const std::string_view path = index.path(0);
  if (!chosen.source.format.empty() || index.format().name != "raw" || !path.ends_with(".bin"))
    return;
  const std::vector<std::string> sides = formats::kTokens.side_paths(path);
  if (!set.store->stat(sides.front()).ok()) return;
  set.tokens_note =
      fmt::format("{} is read as bytes: tokens_per_sample, or format tokens, goes by its index {}",
                  path, sides.front());
  set.notes.push_back(set.tokens_note);
}

// What is said of records has no meaning for files that tell it themselves.
Status check_records(const DataSource& source, const Index& index) {
  const bool has_type = &index.format() != &formats::kTokens && !source.record_type.empty();
  if (&index.format() == &formats::kRaw || (source.record_bytes == 0 && !has_type)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: record_bytes, record_type and record_shape are for raw files, and these are {}; "
              "format=\"raw\" reads them as bytes",
              source.data, index.format().name);
}

// A choice among parts would be passed over by formats whose samples have only one.
Status check_parts(const DataSource& source, const Index& index) {
  constexpr std::array kOfParts{&formats::kHdf5, &formats::kNpz, &formats::kParquet,
                                &formats::kTfrecord, &formats::kWebdataset};
  if (source.parts.empty() ||
      std::find(kOfParts.begin(), kOfParts.end(), &index.format()) != kOfParts.end())
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: parts are chosen of hdf5, npz, parquet, tfrecord and webdataset files, and "
              "these are {}, whose samples have one part each",
              source.data, index.format().name);
}

// Names without a known suffix are taken for folders: those that are files become files of theirs.
// False when none is.
bool find_files(std::string_view storage, std::vector<dataset::SourceAddress>& addresses) {
  bool has_any = false;
  for (dataset::SourceAddress& address : addresses) {
    std::optional<dataset::SourceAddress> file = dataset::as_file(address);
    if (!file) continue;
    const auto store = storage::open_store(storage, file->root);
    const std::string name = dataset::unescape_pattern(file->patterns.front());
    if (!store.ok() || !(*store)->stat(name).ok()) continue;
    address = std::move(*file);
    has_any = true;
  }
  return has_any;
}

Result<DataSet> open_addresses(const LoaderOptions& options, const std::stop_token& stop,
                               const std::vector<DataSource>& sources,
                               const std::vector<dataset::SourceAddress>& addresses,
                               std::optional<RecordPlace>& failed) {
  const dataset::SharedRoot root = FB_TRY(dataset::share_root(addresses));
  DataSet set;
  auto store = storage::open_store(options.storage, root.root);
  if (!store.ok()) return explain_tokens(sources, std::move(store).error());
  set.store = std::move(store).take();
  set.store->set_stop(stop);
  std::vector<std::shared_ptr<const Index>> indexes;
  std::vector<dataset::CatalogSource> catalog;
  std::vector<dataset::LabelledFiles> labelled;
  const std::vector<Chosen> chosen = join_sources(sources, root);
  for (size_t i = 0; i < chosen.size(); ++i) {
    dataset::IndexOptions index = FB_TRY(index_options(chosen[i].source));
    index.patterns = chosen[i].patterns;
    index.cache_path = cache_path(options.index_cache, i);
    index.stop = stop;
    index.skip_bad_files = options.on_error != OnError::kRaise;
    std::optional<dataset::BadFile> bad;
    auto opened = Index::open(*set.store, index, &bad);
    if (bad) failed = RecordPlace{.file = bad->path, .record = {}, .offset = bad->offset};
    if (!opened.ok() && opened.error().code == ErrorCode::kNotFound)
      return explain_tokens(sources, std::move(opened).error());
    indexes.push_back(FB_TRY(std::move(opened)));
    FB_TRY(check_records(chosen[i].source, *indexes.back()));
    FB_TRY(check_parts(chosen[i].source, *indexes.back()));
    note_problems(*indexes.back(), set.notes);
    note_raw_tokens(chosen[i], *indexes.back(), set);
    FB_TRY(count_bad_files(*indexes.back(), options, set, failed));
    catalog.push_back({indexes.back(), index.format_options(), chosen[i].source.data});
    labelled.push_back({indexes.back().get(), chosen[i].folder});
  }
  note_index_cache(indexes, options.index_cache, set);
  FB_TRY(make_stream(options, sources, indexes, set));
  set.catalog = std::make_shared<const dataset::Catalog>(
      FB_TRY(dataset::Catalog::make(std::move(catalog), make_labels(labelled, set.notes))));
  return set;
}

}  // namespace

Result<DataSet> open_data_set(const LoaderOptions& options, const std::stop_token& stop,
                              std::optional<RecordPlace>& failed) {
  const std::vector<DataSource> sources = sources_of(options);
  std::vector<dataset::SourceAddress> addresses;
  for (const DataSource& source : sources)
    addresses.push_back(FB_TRY(dataset::split_address(source.data)));
  Result<DataSet> set = open_addresses(options, stop, sources, addresses, failed);
  const bool may_be_file = !set.ok() && (set.error().code == ErrorCode::kNotFound ||
                                         set.error().code == ErrorCode::kInvalidArgument);
  if (!may_be_file || failed || !find_files(options.storage, addresses)) return set;
  return open_addresses(options, stop, sources, addresses, failed);
}

}  // namespace forebay::loader

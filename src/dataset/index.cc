#include "dataset/index.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "dataset/discovery.h"
#include "dataset/file_table.h"
#include "dataset/index_cache.h"
#include "dataset/index_cache_file.h"
#include "dataset/layout_search.h"
#include "dataset/sample_table.h"

namespace forebay::dataset {
namespace {

constexpr uint64_t kFilesMax = UINT32_MAX - 1;

uint64_t hash_text(uint64_t hash, std::string_view text) {
  hash = base::mix64(hash ^ text.size());
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t bytes = std::min<size_t>(text.size(), sizeof word);
    std::memcpy(&word, text.data(), bytes);
    hash = base::mix64(hash ^ word);
    text.remove_prefix(bytes);
  }
  return hash;
}

uint64_t options_key(const IndexOptions& options, const formats::Format& format) {
  uint64_t key = hash_text(1, format.name);
  key = hash_text(key, options.folder);
  for (const std::string& column : options.columns) key = hash_text(key, column);
  for (const std::string& pattern : options.patterns) key = hash_text(key, pattern);
  if (options.record_array) {
    key = base::derive_seed(key, static_cast<uint64_t>(options.record_array->type),
                            options.record_array->shape.size());
    for (const uint64_t side : options.record_array->shape) key = base::mix64(key ^ side);
  }
  key = base::derive_seed(key, options.tokens_per_sample);
  return base::derive_seed(key, options.samples_per_file, options.record_bytes);
}

CachedDataSet cache_keys(storage::Store& store, const IndexOptions& options,
                         const formats::Format& format) {
  const uint64_t of_options = options_key(options, format);
  return {hash_text(of_options, store.describe()), of_options, {}};
}

struct LocalPath {
  std::string folder, name;
};
LocalPath split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

formats::FormatOptions IndexOptions::format_options() const {
  return {.samples_per_file = samples_per_file,
          .record_bytes = record_bytes,
          .columns = columns,
          .record_array = record_array,
          .tokens_per_sample = tokens_per_sample};
}

class Index::Impl {
 public:
  Status open(storage::Store& store, const IndexOptions& options, std::optional<BadFile>& bad_file);

  const formats::Format* format = nullptr;
  FileTable files;
  SampleTable samples;
  IndexSummary summary;
  uint64_t fingerprint = 0;

 private:
  Result<IndexCache> read_cache(storage::Store& store, const IndexOptions& options) const;
  void write_cache(storage::Store& store, const IndexOptions& options);
  Status find_samples(storage::Store& store, const IndexOptions& options,
                      std::optional<BadFile>& bad_file);
  Status judge_damage(const IndexOptions& options, std::optional<BadFile>& bad_file);
  void count_bad(uint64_t file, const std::string& reason);
  void drop_files(const std::vector<std::pair<uint64_t, Error>>& bad_files,
                  std::vector<uint32_t>& layout_of_file);
  void summarise();

  std::set<std::string, std::less<>> other_folders_;
  ProblemList problems_;
  ProblemList bad_;      // the files among them that nobody can use, or not all of
  ProblemList damaged_;  // those of bad_ that should hold samples
};

// kNotFound where there is none yet. That of the same files elsewhere will do: they may have been
// moved, and those that have changed are not taken from it.
Result<IndexCache> Index::Impl::read_cache(storage::Store& store,
                                           const IndexOptions& options) const {
  if (options.cache_path.empty()) return IndexCache();
  const LocalPath path = split_path(options.cache_path);
  const auto local = FB_TRY(storage::open_store("local", path.folder));
  const std::vector<std::byte> bytes = FB_TRY(storage::read_file(*local, path.name));
  const std::vector<CachedDataSet> sets = FB_TRY(split_cache_file(bytes));
  const CachedDataSet wanted = cache_keys(store, options, *format);
  const CachedDataSet* found = nullptr;
  for (const CachedDataSet& set : sets)
    if (set.options_key == wanted.options_key && (found == nullptr || set.key == wanted.key))
      found = &set;
  if (found == nullptr) return IndexCache();
  return IndexCache::decode(found->cache, wanted.options_key);
}

// Beside those of other data sets. Of two programs that write at the same moment the later one's
// stays; the other's is made anew next time.
void Index::Impl::write_cache(storage::Store& store, const IndexOptions& options) {
  const LocalPath path = split_path(options.cache_path);
  const Status written = [&]() -> Status {
    const auto local = FB_TRY(storage::open_store("local", path.folder));
    const std::vector<std::byte> old = storage::read_file(*local, path.name).value_or({});
    const std::vector<CachedDataSet> others = split_cache_file(old).value_or({});
    CachedDataSet mine = cache_keys(store, options, *format);
    const std::vector<std::byte> cache = IndexCache::encode(files, samples, mine.options_key);
    mine.cache = cache;
    return storage::write_file(*local, path.name, join_cache_file(mine, others));
  }();
  // Where it could not be read either, this is the same thing once more.
  if (!written.ok())
    summary.cache_problem = "index cache not written, so that files are opened anew each time: " +
                            with_context(written.error().message, options.cache_path);
  else if (!summary.cache_problem.empty())
    summary.cache_problem += "; made anew";
}

void Index::Impl::count_bad(uint64_t file, const std::string& reason) {
  ++summary.bad_file_count;
  for (ProblemList* list : {&problems_, &bad_, &damaged_})
    list->add(std::string(files.path(file)), reason);
}

// What a cut archive held behind the cut is lost: that is for the caller to allow.
Status Index::Impl::judge_damage(const IndexOptions& options, std::optional<BadFile>& bad_file) {
  for (uint64_t i = 0; i < files.count(); ++i) {
    const std::optional<formats::FileDamage>& damage = samples.of_file(i).damage;
    if (!damage) continue;
    if (!options.skip_bad_files) {
      bad_file = BadFile{std::string(files.path(i)), damage->offset};
      return fail(ErrorCode::kCorruption, "{}: {}", files.path(i), damage->what);
    }
    count_bad(i, damage->what + "; the samples before it are used");
  }
  return {};
}

// Leaves out the files without a layout.
void Index::Impl::drop_files(const std::vector<std::pair<uint64_t, Error>>& bad_files,
                             std::vector<uint32_t>& layout_of_file) {
  if (bad_files.empty()) return;
  for (const auto& bad : bad_files) {
    count_bad(bad.first, bad.second.message);
    const std::string_view path = files.path(bad.first);
    other_folders_.emplace(path.substr(0, path.rfind('/') + 1));
  }
  FileTable kept;
  for (uint64_t i = 0; i < files.count(); ++i)
    if (layout_of_file[i] != LayoutSearch::kNoLayout) kept.add(files.info(i), files.side_key(i));
  files = std::move(kept);
  std::erase(layout_of_file, LayoutSearch::kNoLayout);
}

Status Index::Impl::find_samples(storage::Store& store, const IndexOptions& options,
                                 std::optional<BadFile>& bad_file) {
  Result<IndexCache> read = read_cache(store, options);
  // The first run finds none; everything else is worth a word.
  if (!read.ok() && read.error().code != ErrorCode::kNotFound)
    summary.cache_problem =
        "index cache not used: " + with_context(read.error().message, options.cache_path);
  const IndexCache cache = std::move(read).value_or({});
  LayoutSearch layouts(store, options, *format, files, cache);
  const Status all_found = layouts.find_all();
  const bool has_one_to_blame = !options.skip_bad_files && !layouts.bad_files().empty();
  if (has_one_to_blame)
    bad_file = BadFile{std::string(files.path(layouts.bad_files().front().first)), {}};
  FB_TRY(all_found);
  std::vector<uint32_t> layout_of_file = layouts.layout_of_file();
  samples = std::move(layouts.samples());
  drop_files(layouts.bad_files(), layout_of_file);
  if (files.count() == 0)
    return fail(layouts.bad_files().front().second.code,
                "none of {} files can be used; the first: {}", layouts.bad_files().size(),
                layouts.bad_files().front().second.message);
  FB_TRY(samples.assign(std::move(layout_of_file)));
  summary.from_cache = layouts.files_asked() == 0 && !layouts.is_uniform();
  summary.needs_no_cache = layouts.is_uniform();
  if (summary.needs_no_cache) summary.cache_problem.clear();
  if (layouts.files_asked() > 0 && !options.cache_path.empty()) write_cache(store, options);
  FB_TRY(judge_damage(options, bad_file));

  for (uint64_t i = 0; i < files.count(); ++i) {
    for (const std::string& problem : samples.of_file(i).problems)
      problems_.add(std::string(files.path(i)), problem);
    const uint64_t count = samples.of_file(i).sample_count;
    if (options.samples_per_file == 0 || count == options.samples_per_file) continue;
    problems_.add(std::string(files.path(i)), fmt::format("holds {} samples, {} were expected",
                                                          count, options.samples_per_file));
    if (summary.other_count_files++ == 0)
      summary.other_count_example = fmt::format("{} holds {}", files.path(i), count);
  }
  return {};
}

void Index::Impl::summarise() {
  summary.file_count = files.count();
  summary.sample_count = samples.sample_count();
  uint64_t hash = hash_text(2, format->name);
  for (uint64_t i = 0; i < files.count(); ++i) {
    summary.bytes += files.bytes(i);
    hash = hash_text(hash, files.path(i));
    hash = base::derive_seed(hash ^ files.bytes(i), static_cast<uint64_t>(files.mtime_ns(i)),
                             samples.of_file(i).sample_count);
    if (files.side_key(i) != FileTable::kNoSides) hash = base::mix64(hash ^ files.side_key(i));
  }
  fingerprint = hash;
  summary.other_folders.assign(other_folders_.begin(), other_folders_.end());
  summary.problems = problems_.first();
  summary.bad_files = bad_.first();
  summary.damaged_files = damaged_.first();
  summary.damaged_count = damaged_.count();
  summary.problem_count = problems_.count();
}

Status Index::Impl::open(storage::Store& store, const IndexOptions& options,
                         std::optional<BadFile>& bad_file) {
  const int64_t start_ns = base::monotonic_clock().now_ns();
  Discovery found = FB_TRY(discover(store, options, problems_));
  if (found.files.count() > kFilesMax)
    return fail(ErrorCode::kUnsupported, "{} files: the most is {}", found.files.count(),
                kFilesMax);
  format = found.format;
  files = std::move(found.files);
  summary.bad_file_count = found.empty_count;
  for (storage::Skipped& empty : found.empties) bad_.add(empty.path, empty.reason);
  damaged_ = std::move(found.damaged);
  summary.stray_count = found.stray_count;
  other_folders_ = std::move(found.other_folders);
  summary.files_beyond_max = found.files_beyond_max;
  FB_TRY(find_samples(store, options, bad_file));
  summarise();
  summary.seconds = static_cast<double>(base::monotonic_clock().now_ns() - start_ns) * 1e-9;
  return {};
}

Result<std::unique_ptr<Index>> Index::open(storage::Store& store, const IndexOptions& options,
                                           std::optional<BadFile>* bad_file) {
  auto impl = std::make_unique<Impl>();
  std::optional<BadFile> blamed;
  const Status opened = impl->open(store, options, blamed);
  if (bad_file != nullptr) *bad_file = std::move(blamed);
  FB_TRY(opened);
  return std::unique_ptr<Index>(new Index(std::move(impl)));
}

Index::Index(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Index::~Index() = default;

const formats::Format& Index::format() const {
  return *impl_->format;
}
const IndexSummary& Index::summary() const {
  return impl_->summary;
}
uint64_t Index::file_count() const {
  return impl_->files.count();
}
uint64_t Index::sample_count() const {
  return impl_->samples.sample_count();
}
bool Index::is_together() const {
  return impl_->samples.is_together();
}
bool Index::has_blocks() const {
  return impl_->samples.has_blocks();
}
bool Index::has_even_blocks() const {
  return impl_->samples.has_even_blocks();
}
uint64_t Index::unit_samples_max() const {
  return impl_->samples.unit_samples_max();
}
uint64_t Index::block_bytes_max() const {
  return impl_->samples.block_bytes_max();
}
uint64_t Index::samples_per_file_max() const {
  return impl_->samples.samples_per_file_max();
}
std::string_view Index::path(uint32_t file) const {
  return impl_->files.path(file);
}
uint64_t Index::file_bytes(uint32_t file) const {
  return impl_->files.bytes(file);
}
const formats::FileIndex& Index::file_index(uint32_t file) const {
  return impl_->samples.of_file(file);
}
uint64_t Index::fingerprint() const {
  return impl_->fingerprint;
}

SampleLocation Index::locate(uint64_t sample) const {
  const SampleTable::Place place = impl_->samples.find(sample);
  const formats::FileIndex& layout = impl_->samples.of_file(place.file);
  SampleLocation location{.file = static_cast<uint32_t>(place.file),
                          .sample_in_file = place.sample_in_file,
                          .access = layout.access,
                          .extent = {}};
  switch (layout.access) {
    case formats::Access::kExtents:
      location.extent = layout.extents[place.sample_in_file];
      break;
    case formats::Access::kBlocks: {
      const SampleTable::BlockPlace in = impl_->samples.find_block(place);
      location.block = in.block;
      location.sample_in_block = in.sample_in_block;
      location.extent = {0, in.bytes};
      break;
    }
    case formats::Access::kWholeFile:
    case formats::Access::kTogether:
      location.extent = {0, impl_->files.bytes(place.file)};
      location.sample_in_block = place.sample_in_file;
      break;
  }
  return location;
}

}  // namespace forebay::dataset

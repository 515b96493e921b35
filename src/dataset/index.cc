#include "dataset/index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "dataset/discovery.h"
#include "dataset/file_table.h"
#include "dataset/index_cache.h"
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
  return base::derive_seed(key, options.samples_per_file, options.record_bytes);
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

class Index::Impl {
 public:
  Status open(storage::Store& store, const IndexOptions& options);

  const formats::Format* format = nullptr;
  FileTable files;
  SampleTable samples;
  IndexSummary summary;
  uint64_t fingerprint = 0;

 private:
  IndexCache read_cache(const IndexOptions& options);
  void write_cache(const IndexOptions& options);
  Status find_samples(storage::Store& store, const IndexOptions& options);
  void drop_files(const std::vector<std::pair<uint64_t, Error>>& bad_files,
                  std::vector<uint32_t>& layout_of_file);
  void summarise();

  ProblemList problems_;
  ProblemList bad_;  // the files among them that nobody can use
};

IndexCache Index::Impl::read_cache(const IndexOptions& options) {
  if (options.cache_path.empty()) return {};
  const LocalPath path = split_path(options.cache_path);
  auto cache = [&]() -> Result<IndexCache> {
    const auto store = FB_TRY(storage::open_store("local", path.folder));
    const std::vector<std::byte> bytes = FB_TRY(storage::read_file(*store, path.name));
    return IndexCache::decode(bytes, options_key(options, *format));
  }();
  if (cache.ok()) return std::move(cache).take();
  // The first run finds none; everything else is worth a word.
  if (cache.error().code != ErrorCode::kNotFound)
    problems_.add(options.cache_path, "index cache not used: " + cache.error().message);
  return {};
}

void Index::Impl::write_cache(const IndexOptions& options) {
  const LocalPath path = split_path(options.cache_path);
  const Status written = [&]() -> Status {
    const auto store = FB_TRY(storage::open_store("local", path.folder));
    return storage::write_file(*store, path.name,
                               IndexCache::encode(files, samples, options_key(options, *format)));
  }();
  if (!written.ok())
    problems_.add(options.cache_path, "index cache not written: " + written.error().message);
}

// Leaves out the files without a layout.
void Index::Impl::drop_files(const std::vector<std::pair<uint64_t, Error>>& bad_files,
                             std::vector<uint32_t>& layout_of_file) {
  if (bad_files.empty()) return;
  summary.bad_file_count += bad_files.size();
  for (const auto& bad : bad_files) {
    problems_.add(std::string(files.path(bad.first)), bad.second.message);
    bad_.add(std::string(files.path(bad.first)), bad.second.message);
  }
  FileTable kept;
  for (uint64_t i = 0; i < files.count(); ++i)
    if (layout_of_file[i] != LayoutSearch::kNoLayout) kept.add(files.info(i));
  files = std::move(kept);
  std::erase(layout_of_file, LayoutSearch::kNoLayout);
}

Status Index::Impl::find_samples(storage::Store& store, const IndexOptions& options) {
  const IndexCache cache = read_cache(options);
  LayoutSearch layouts(store, options, *format, files, cache);
  FB_TRY(layouts.find_all());
  std::vector<uint32_t> layout_of_file = layouts.layout_of_file();
  samples = std::move(layouts.samples());
  drop_files(layouts.bad_files(), layout_of_file);
  if (files.count() == 0)
    return fail(layouts.bad_files().front().second.code,
                "none of {} files can be used; the first: {}", layouts.bad_files().size(),
                layouts.bad_files().front().second.message);
  FB_TRY(samples.assign(std::move(layout_of_file)));
  summary.from_cache = layouts.files_asked() == 0 && !layouts.is_uniform();
  if (layouts.files_asked() > 0 && !options.cache_path.empty()) write_cache(options);

  for (uint64_t i = 0; i < files.count(); ++i) {
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
  }
  fingerprint = hash;
  summary.problems = problems_.first();
  summary.bad_files = bad_.first();
  summary.problem_count = problems_.count();
}

Status Index::Impl::open(storage::Store& store, const IndexOptions& options) {
  const int64_t start_ns = base::monotonic_clock().now_ns();
  Discovery found = FB_TRY(discover(store, options, problems_));
  if (found.files.count() > kFilesMax)
    return fail(ErrorCode::kUnsupported, "{} files: the most is {}", found.files.count(),
                kFilesMax);
  format = found.format;
  files = std::move(found.files);
  summary.bad_file_count = found.empty_count;
  for (storage::Skipped& empty : found.empties) bad_.add(empty.path, empty.reason);
  summary.stray_count = found.stray_count;
  summary.files_beyond_max = found.files_beyond_max;
  FB_TRY(find_samples(store, options));
  summarise();
  summary.seconds = static_cast<double>(base::monotonic_clock().now_ns() - start_ns) * 1e-9;
  return {};
}

Result<std::unique_ptr<Index>> Index::open(storage::Store& store, const IndexOptions& options) {
  auto impl = std::make_unique<Impl>();
  FB_TRY(impl->open(store, options));
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

#include "dataset/catalog.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace forebay::dataset {
namespace {

constexpr uint64_t kSamplesMax = uint64_t{1} << 62;
constexpr uint64_t kFilesMax = UINT32_MAX - 1;

// Sources are few, mostly one.
template <class T>
uint32_t find_source(const std::vector<T>& firsts, T wanted) {
  if (firsts.size() == 2) return 0;
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), wanted);
  return static_cast<uint32_t>(after - firsts.begin() - 1);
}

}  // namespace

Result<Catalog> Catalog::make(std::vector<CatalogSource> sources,
                              std::shared_ptr<const ClassLabels> labels) {
  if (sources.empty()) return fail(ErrorCode::kInvalidArgument, "no sources");
  Catalog catalog;
  for (const CatalogSource& source : sources) {
    const uint64_t samples = source.index->sample_count(), files = source.index->file_count();
    if (samples > kSamplesMax - catalog.sample_count())
      return fail(ErrorCode::kUnsupported, "more than 2^62 samples in all sources");
    if (files > kFilesMax - catalog.file_count())
      return fail(ErrorCode::kUnsupported, "more than {} files in all sources", kFilesMax);
    catalog.first_sample_.push_back(catalog.sample_count() + samples);
    catalog.first_file_.push_back(static_cast<uint32_t>(catalog.file_count() + files));
  }
  catalog.sources_ = std::move(sources);
  catalog.labels_ = std::move(labels);
  return catalog;
}

Catalog Catalog::of(const Index& index, const formats::FormatOptions& options) {
  Catalog catalog;
  catalog.first_sample_.push_back(index.sample_count());
  catalog.first_file_.push_back(static_cast<uint32_t>(index.file_count()));
  // Shares nothing: the caller keeps the index.
  catalog.sources_.push_back(
      {std::shared_ptr<const Index>(std::shared_ptr<void>(), &index), options, {}});
  return catalog;
}

uint64_t Catalog::bytes() const {
  uint64_t bytes = 0;
  for (const CatalogSource& source : sources_) bytes += source.index->summary().bytes;
  return bytes;
}

bool Catalog::is_together() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const CatalogSource& source) { return source.index->is_together(); });
}

bool Catalog::has_blocks() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const CatalogSource& source) { return source.index->has_blocks(); });
}

uint64_t Catalog::unit_samples_max() const {
  uint64_t most = 1;
  for (const CatalogSource& source : sources_)
    most = std::max(most, source.index->unit_samples_max());
  return most;
}

uint64_t Catalog::block_bytes_max() const {
  uint64_t most = 0;
  for (const CatalogSource& source : sources_)
    most = std::max(most, source.index->block_bytes_max());
  return most;
}

uint32_t Catalog::source_of_sample(uint64_t sample) const {
  return find_source(first_sample_, sample);
}

uint32_t Catalog::source_of(uint32_t file) const {
  return find_source(first_file_, file);
}

SampleLocation Catalog::locate(uint64_t sample) const {
  const uint32_t source = source_of_sample(sample);
  SampleLocation location = sources_[source].index->locate(sample - first_sample_[source]);
  location.file += first_file_[source];
  return location;
}

const formats::Format& Catalog::format(uint32_t file) const {
  return sources_[source_of(file)].index->format();
}

std::string_view Catalog::path(uint32_t file) const {
  const uint32_t source = source_of(file);
  return sources_[source].index->path(file - first_file_[source]);
}

uint64_t Catalog::file_bytes(uint32_t file) const {
  const uint32_t source = source_of(file);
  return sources_[source].index->file_bytes(file - first_file_[source]);
}

const formats::FileIndex& Catalog::file_index(uint32_t file) const {
  const uint32_t source = source_of(file);
  return sources_[source].index->file_index(file - first_file_[source]);
}

std::optional<int64_t> Catalog::label(uint32_t file) const {
  if (labels_ == nullptr) return std::nullopt;
  const uint32_t source = source_of(file);
  return labels_->label(source, file - first_file_[source]);
}

std::string Catalog::key(uint64_t sample) const {
  const SampleLocation where = locate(sample);
  std::string key(key_path(where.file));
  if (is_key_numbered(where.file)) key += fmt::format("#{}", where.sample_in_file);
  return key;
}

std::string_view Catalog::key_path(uint32_t file) const {
  const std::string_view whole = path(file);
  const size_t name = whole.rfind('/') + 1;  // 0 without a folder
  const size_t dot = whole.rfind('.');
  const bool has_extension = dot != std::string_view::npos && dot > name;
  return whole.substr(0, has_extension ? dot : whole.size());
}

uint64_t Catalog::fingerprint() const {
  // One source has its index's own, so that states outlive the way a loader was opened.
  if (sources_.size() == 1) return sources_.front().index->fingerprint();
  uint64_t hash = sources_.size();
  for (const CatalogSource& source : sources_)
    hash = base::mix64(hash ^ source.index->fingerprint());
  return hash;
}

}  // namespace forebay::dataset

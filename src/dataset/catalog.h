// One or several data sets seen as one: their samples and files numbered through, in the order of
// the sources.
//
//   source 0: samples 0 .. a-1, files 0 .. f-1;  source 1: samples a .. a+b-1, files f .. f+g-1;
//   ...
//
// Immutable; safe to use from any thread. All sources lie in the same Store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/index.h"
#include "dataset/labels.h"
#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::dataset {

struct CatalogSource {
  std::shared_ptr<const Index> index;
  formats::FormatOptions options{};  // as the index was opened with: for Format::make_reader
  std::string name{};                // for people: what the user wrote
};

class Catalog {
 public:
  // kInvalidArgument without sources; kUnsupported for more files or samples than numbers hold.
  // `labels`, by source and file, or null.
  static Result<Catalog> make(std::vector<CatalogSource> sources,
                              std::shared_ptr<const ClassLabels> labels = nullptr);
  // The data set `index`, which must outlive the catalog.
  static Catalog of(const Index& index, const formats::FormatOptions& options = {});

  uint32_t source_count() const { return static_cast<uint32_t>(sources_.size()); }
  const CatalogSource& source(uint32_t source) const { return sources_[source]; }
  uint64_t first_sample(uint32_t source) const { return first_sample_[source]; }
  uint32_t first_file(uint32_t source) const { return first_file_[source]; }

  uint64_t sample_count() const { return first_sample_.back(); }
  uint64_t file_count() const { return first_file_.back(); }
  uint64_t bytes() const;  // of all files
  // As Index has them, over all sources.
  bool is_together() const;
  bool has_blocks() const;
  uint64_t unit_samples_max() const;
  uint64_t block_bytes_max() const;

  // sample < sample_count(); `file` is numbered through.
  SampleLocation locate(uint64_t sample) const;
  uint32_t source_of_sample(uint64_t sample) const;

  // file < file_count().
  uint32_t source_of(uint32_t file) const;
  const formats::Format& format(uint32_t file) const;
  std::string_view path(uint32_t file) const;  // relative to the store's root
  uint64_t file_bytes(uint32_t file) const;
  const formats::FileIndex& file_index(uint32_t file) const;
  std::optional<int64_t> label(uint32_t file) const;  // of class folders
  const ClassLabels* labels() const { return labels_.get(); }

  // What names a sample whose file does not: the path without its extension, and for files with
  // several samples "#17", counted from 0 in the file.
  std::string key(uint64_t sample) const;
  // Its two parts: the path, and whether a number follows.
  std::string_view key_path(uint32_t file) const;
  bool is_key_numbered(uint32_t file) const { return file_index(file).sample_count > 1; }

  // Changes when any index does, or the order of the sources.
  uint64_t fingerprint() const;

 private:
  Catalog() = default;

  std::vector<CatalogSource> sources_;
  std::vector<uint64_t> first_sample_{0};  // of each source, and the total
  std::vector<uint32_t> first_file_{0};
  std::shared_ptr<const ClassLabels> labels_;
};

}  // namespace forebay::dataset

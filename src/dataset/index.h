// What a data set holds: its files, and where sample i lies. Discovered once, then cached.
//
// Immutable after open; safe to use from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"
#include "storage/store.h"

namespace forebay::dataset {

struct IndexOptions {
  std::string folder{};     // below the store's root: "train"; "" = all
  std::string only_file{};  // a data set of this one file; "" = the folder
  // In their place: patterns (dataset/patterns.h) from the store's root, in the order of their
  // files. One that means a folder stands for all below it. What is written out must exist.
  std::vector<std::string> patterns{};
  const formats::Format* format = nullptr;             // null: the format most files have
  uint64_t samples_per_file = 0;                       // as the workload says; 0 = ask each file
  uint64_t record_bytes = 0;                           // raw only
  std::vector<std::string> columns{};                  // as formats::FormatOptions has them
  std::optional<formats::ArrayLayout> record_array{};  // raw, tokens
  uint64_t tokens_per_sample = 0;                      // tokens
  uint64_t files_max = UINT64_MAX;                     // the first N in sorted order, as DLIO does
  std::string cache_path{};                            // "" = no cache; a local file
  int threads = 4;
  // Files whose samples cannot be found, or are lost behind a cut: false = the first one is an
  // error, true = they are left out, or used as far as they are whole, and named in the problems.
  // Patterns that choose nothing are bad files too.
  bool skip_bad_files = false;
  std::stop_token stop{};  // ends a long discovery with kCancelled

  // What of it formats need to know.
  formats::FormatOptions format_options() const;
};

struct SampleLocation {
  uint32_t file = 0;  // index for file()
  uint64_t sample_in_file = 0;
  formats::Access access = formats::Access::kWholeFile;
  // The bytes to read: the record's, or the whole file. With blocks, offset 0 and the sum of the
  // block's extents.
  formats::Extent extent;
  uint32_t block = 0;  // kBlocks: index into the file's blocks
  uint64_t sample_in_block = 0;
};

struct IndexSummary {
  uint64_t file_count = 0, sample_count = 0, bytes = 0;
  uint64_t stray_count = 0;  // files of other formats, not counted above
  std::vector<storage::Skipped>
      problems;  // strays, loops, unreadable folders, empty files: the first 100
  uint64_t problem_count = 0;
  uint64_t bad_file_count = 0;  // of the problems: empty files, and what skip_bad_files allows
  std::vector<storage::Skipped> bad_files;  // the first 100 of them
  // The same without the empty files whose names are no data's.
  uint64_t damaged_count = 0;
  std::vector<storage::Skipped> damaged_files;  // the first 100 of them
  uint64_t other_count_files = 0;   // that hold another number of samples than samples_per_file
  std::string other_count_example;  // "PATH holds 10": the first of them
  std::vector<std::string> other_folders;  // of files left out: their folders, sorted, each once
  uint64_t files_beyond_max = 0;           // of the right format, left out by files_max
  bool from_cache = false;                 // no file had to be opened: the cache knew them all
  bool needs_no_cache = false;             // nor would one spare it: each file is one sample
  // Why the cache could not be used, or not be written, and what follows from that; "" = no such
  // thing. Not among the problems: it is none of the data.
  std::string cache_problem;
  double seconds = 0;  // that discovery took
};

// What an error of Index::open is about, where that is one file.
struct BadFile {
  std::string path;                // relative to the store's root
  std::optional<uint64_t> offset;  // of the first byte that is lost
};

class Index {
 public:
  // kNotFound "no samples under PATH (looked for *.npz ...)" when nothing fits; messages name what
  // was there instead.
  static Result<std::unique_ptr<Index>> open(storage::Store& store, const IndexOptions& options,
                                             std::optional<BadFile>* bad_file = nullptr);
  ~Index();

  const formats::Format& format() const;
  const IndexSummary& summary() const;
  uint64_t file_count() const;
  uint64_t sample_count() const;
  // True when every file's samples must be read together: orders should keep them adjacent.
  bool is_together() const;
  // True when a file's samples come in blocks: orders should keep those of a block adjacent.
  bool has_blocks() const;
  // All blocks have the same number of samples, so that shards of that many never straddle two.
  bool has_even_blocks() const;
  // Samples of the largest file; shard size for windowed orders.
  uint64_t samples_per_file_max() const;
  // Samples of the largest block or kTogether file; 1 without either.
  uint64_t unit_samples_max() const;
  uint64_t block_bytes_max() const;  // to read for one block; 0 without blocks

  std::string_view path(uint32_t file) const;  // relative to the store's root
  uint64_t file_bytes(uint32_t file) const;
  // File index of one file, for Reader::read.
  const formats::FileIndex& file_index(uint32_t file) const;

  // sample < sample_count().
  SampleLocation locate(uint64_t sample) const;

  // Changes when files, or those beside them that say where samples are, are added, removed,
  // resized or touched.
  uint64_t fingerprint() const;

 private:
  class Impl;
  explicit Index(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::dataset

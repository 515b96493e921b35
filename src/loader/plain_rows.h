// Samples that lie in their files just as they lie in a batch: windows of tokens, records and rows
// of a fixed size that no op changes. They are read straight into their rows: no buffer, no decode
// thread, no copy; neighbours that are wanted one after the other come with one read. Private to
// the loader.
//
// The issuing thread's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataset/catalog.h"
#include "loader/batch_state.h"
#include "loader/fetch.h"
#include "loader/options.h"

namespace forebay::loader {

class PlainRows {
 public:
  PlainRows(const dataset::Catalog& catalog, const EngineOptions& options);

  // Where the bytes of `slot` are to be read to; null when a decode thread has to see them: another
  // file than the schema was taken from may have other arrays, and the first record of a file tells
  // whether it is one at all.
  std::byte* row_of(const BatchState& batch, uint32_t slot, const dataset::SampleLocation& where);
  // Reads that are as much work as one of those that a store's depth counts: small ones go by in a
  // moment.
  size_t reads_for_one() const;
  // All rows of `fetch` are there: fills what else their slots need.
  void complete(const Fetch& fetch);

 private:
  bool is_plain(uint32_t file) const;
  // As Catalog::key(); all files here have several samples.
  std::string_view key_of(uint32_t file, uint64_t sample_in_file);

  const dataset::Catalog& catalog_;
  std::optional<uint32_t> model_;  // a file with such samples; none: this loader has none
  size_t array_ = 0;               // of the schema's fields
  std::optional<size_t> key_;      // the field "__key__"
  std::optional<size_t> label_;    // the class of the file's folder
  uint64_t row_bytes_ = 0;
  // Most samples follow one of the same file.
  uint32_t last_file_ = UINT32_MAX;
  bool is_last_plain_ = false;
  uint32_t named_file_ = UINT32_MAX;
  std::string text_;       // the key that was written last
  size_t path_bytes_ = 0;  // of it: what keys of named_file_ begin with
};

}  // namespace forebay::loader

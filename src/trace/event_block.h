// A run of events as columns, and its bytes in a file.
//
// One thread at a time. Decoding takes foreign bytes: whatever they are, it ends with a block or an
// error, and allocates no more than the rows that the caller allows need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forebay/result.h"
#include "trace/model.h"

namespace forebay::trace {

// Values of one key, for the rows that have one: rows rise.
struct ArgumentColumn {
  KeyId key = 0;
  std::vector<uint32_t> rows;
  std::vector<int64_t> values;
};

struct EventBlock {
  std::vector<TrackId> tracks;
  std::vector<NameId> names;
  std::vector<int64_t> starts;
  std::vector<int64_t> durations;
  std::vector<ArgumentColumn> arguments;  // each key at most once

  size_t size() const { return tracks.size(); }
  void add(const Event& event, std::span<const Argument> arguments);
  void clear();  // keeps the memory
};

// By track, then start, then the longer first, so that a span stands before those inside it.
// Stable.
void sort(EventBlock& block);

// The block must be sorted.
std::vector<std::byte> encode(const EventBlock& block);

// Fails with kCorruption when the bytes are no block of `rows` rows. Ids are not compared with any
// dictionary.
Result<EventBlock> decode(std::span<const std::byte> bytes, size_t rows);

}  // namespace forebay::trace

// Reads a trace file block by block, as far as it is whole.
//
// One thread at a time. Foreign bytes: whatever the file holds, reading ends with what its whole
// chunks say and, where it was cut or damaged, the reason in damage().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "trace/chunk.h"
#include "trace/dictionary.h"
#include "trace/event_block.h"
#include "trace/model.h"

namespace forebay::trace {

// Fills `out` from `offset`; bytes read, fewer only at the end, or -errno.
using ByteReader = std::function<int64_t(std::span<std::byte> out, uint64_t offset)>;

class TraceReader {
 public:
  // Fails with kCorruption when this is no trace file at all, kUnsupported for a newer version.
  // `path` is for messages.
  static Result<std::unique_ptr<TraceReader>> open(ByteReader bytes, std::string path);
  static Result<std::unique_ptr<TraceReader>> open_file(const std::string& path);

  // The next events, sorted by track and start, every id of theirs in the dictionary; nothing at
  // the end. Fails only when the bytes cannot be read at all.
  Result<std::optional<EventBlock>> next();

  // As far as was read. Definitions only grow, but a track's text and rank may change.
  const Dictionary& dictionary() const { return dictionary_; }
  const Facts& facts() const { return facts_; }
  const std::vector<ClockPair>& clock() const { return clock_; }

  // The writer finished. False until the end was read.
  bool is_finished() const { return is_finished_; }
  // Why reading ended before the file did.
  const std::optional<Error>& damage() const { return damage_; }
  uint64_t bytes_read() const { return at_; }

 private:
  TraceReader(ByteReader bytes, std::string path);
  // False at the end of what can be used.
  Result<bool> read_chunk(ChunkHeader& header, std::vector<std::byte>& payload);
  Status take_definitions(const ChunkHeader& header, std::span<const std::byte> payload);
  Status check_ids(const EventBlock& block) const;
  void end(Error damage);

  ByteReader bytes_;
  std::string path_;
  uint64_t at_ = 0;
  Dictionary dictionary_;
  Facts facts_;
  std::vector<ClockPair> clock_;
  bool is_finished_ = false;
  bool has_ended_ = false;
  std::optional<Error> damage_;
};

// Whether the bytes begin as a trace file does.
bool is_trace(std::span<const std::byte> first_bytes);

}  // namespace forebay::trace

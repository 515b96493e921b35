// What is read at once and the samples that come from it. Private to the loader.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "formats/format.h"
#include "loader/batch_state.h"
#include "loader/buffer_pool.h"
#include "loader/options.h"
#include "loader/unit.h"

namespace forebay::loader {

struct Fetch {
  uint32_t id = 0;
  uint32_t file = 0;
  formats::Access access = formats::Access::kWholeFile;
  formats::Extent extent;  // what is read: one record, neighbours, the file, or a block's bytes
  std::vector<Target> targets;
  std::shared_ptr<Unit> unit;  // kBlocks and kTogether
  bool decodes = false;        // the bytes of `unit` have to be decoded first
  BufferRef buffer;            // null: bytes are dropped, or go to `rows`
  std::byte* rows = nullptr;   // of the targets' batches: the bytes are these rows as they are
  std::unique_ptr<formats::StreamCheck> check;
  bool must_keep = false;  // the check could not be done in passing: read again into a buffer
  bool is_from_memory = false;
  uint32_t reads_left = 0;       // of those that it was split into
  std::optional<Error> failure;  // of the first of them that failed
  int64_t submitted_ns = 0;
  int64_t started_ns = 0;
  int64_t landed_ns = 0;
  int64_t visit_ns = 0;
  double visited_share = 0;
  uint64_t window_bytes = 0;   // held in the window until decoded
  uint64_t payload_bytes = 0;  // of all targets, where no decoder will tell

  // A decode thread has to look at it. Ops see empty records too: they have a key at least.
  bool needs_decoding(const EngineOptions& options) const {
    return options.payload == Payload::kDecode && (buffer != nullptr || options.fields != nullptr);
  }
};

// The sample of `target` as its bytes lie in the file; without a buffer only their number is known.
void fill_undecoded(const Fetch& fetch, const Target& target);

// Target i's part of `bytes`, so that the parts of all targets make up the whole.
inline uint64_t share_of(uint64_t bytes, size_t targets, size_t i) {
  return bytes / targets + (i < bytes % targets ? 1 : 0);
}

}  // namespace forebay::loader

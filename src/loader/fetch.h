// One read and the samples that come from it. Private to the loader.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/format.h"
#include "loader/batch_state.h"
#include "loader/buffer_pool.h"

namespace forebay::loader {

struct Target {
  BatchState* batch = nullptr;
  uint32_t slot = 0;
  uint64_t sample_in_file = 0;
  formats::Extent extent;  // the record's bytes in the file
};

struct Fetch {
  uint32_t id = 0;
  uint32_t file = 0;
  formats::Access access = formats::Access::kWholeFile;
  formats::Extent extent;  // what is read: one record, neighbours, or the file
  std::vector<Target> targets;
  BufferRef buffer;  // null: bytes are dropped
  std::unique_ptr<formats::StreamCheck> check;
  bool must_keep = false;  // the check could not be done in passing: read again into a buffer
  int64_t submitted_ns = 0;
  int64_t landed_ns = 0;
  double visited_share = 0;
  uint64_t window_bytes = 0;   // held in the window until decoded
  uint64_t payload_bytes = 0;  // of each target, where no decoder will tell
};

// The sample of `target` as its bytes lie in the file; without a buffer only their number is known.
void fill_undecoded(const Fetch& fetch, const Target& target);

}  // namespace forebay::loader

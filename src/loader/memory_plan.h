// Shares out a loader's memory: batches first, then reads, then what makes it faster. Private to
// the loader.
//
// A function of its arguments.
#pragma once

#include <cstdint>

#include "forebay/result.h"

namespace forebay::loader {

struct MemoryNeeds {
  uint64_t memory_bytes = 0;  // the bound
  uint64_t batch_size = 1, prefetch_batches = 2;
  uint64_t stacked_bytes = 0, separate_bytes = 0;  // fields of one sample
  uint64_t read_bytes_max = 0;  // of the largest record, block or file that is read at once
  uint64_t unit_bytes = 0;      // of a decoded block or file of many samples; 0 without
  uint64_t read_ahead_bytes = 0, shard_cache_bytes = 0;  // wanted
  int decode_threads = 1, fetch_depth = 1;               // most of each that is wanted
  bool has_images = false;                               // whose decoding may take all that is left
};

struct MemoryPlan {
  uint64_t window_bytes = 0, shard_cache_bytes = 0;
  uint64_t extra_batches = 0;
  uint64_t value_bytes = 0;    // of fields that are not stacked, in all batches
  uint64_t buffer_bytes = 0;   // of all buffers together
  uint64_t scratch_bytes = 0;  // of decode threads, besides
  uint64_t thread_bytes = 0;   // of it, for what one thread holds of a sample
  uint64_t turn_bytes = 0;     // that one thread after the other may hold more; of images
  int decode_threads = 1;
  uint64_t bound() const { return buffer_bytes + scratch_bytes + turn_bytes; }
};

// kResourceExhausted, with what is needed and for what, when the bound is too small for the batches
// and one read.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs);

}  // namespace forebay::loader

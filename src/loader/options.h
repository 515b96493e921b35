// What an engine is asked to do, and what it says of its work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/schema.h"
#include "loader/stripe.h"
#include "ops/decode.h"
#include "ops/pipeline.h"

namespace forebay::loader {

class SampleCache;

enum class Payload {
  kBytes,   // read only
  kDecode,  // parse, check, decompress, decode
};

enum class OnError {
  kRaise,    // the first bad record ends the flow
  kSkip,     // the batch goes without it
  kReplace,  // a good sample of the same batch stands in
};

// How the parts of a sample become the fields of a batch.
struct FieldSetup {
  std::function<std::unique_ptr<ops::Runner>()> make_runner;
  Schema schema;
  uint64_t seed = 0;  // of random ops
  // No op changes anything: parts become fields as they are. A file that the schema came from.
  std::optional<uint32_t> unchanged_from{};
  uint64_t unit_bytes = 0;  // of a decoded block or file of many samples; 0 without
};

struct EngineOptions {
  uint64_t batch_size = 1;
  uint64_t prefetch_batches = 2;  // finished or in progress beyond the one the consumer holds
  int fetch_depth = 4;            // reads in flight
  int decode_threads = 1;
  // Above 0: the two fields before are where a tuner begins, and it may go from 1 up to here.
  int fetch_depth_max = 0, decode_threads_max = 0;
  // Batches that a tuned loader may have under way beyond the prefetched ones while it waits for
  // far reads.
  uint64_t extra_batches = 0;
  uint64_t buffer_bytes_max = UINT64_MAX;  // idle buffers go where all together hold more
  // Reads wait, all but one, while values of fields that are not stacked take more than this.
  uint64_t value_bytes_max = UINT64_MAX;
  uint64_t rank = 0, world_size = 1;
  Tail tail = Tail::kDrop;
  Payload payload = Payload::kDecode;
  bool keep_samples = false;  // false: samples are checked and dropped (emulation)
  // With keep_samples: samples become rows of fields. Null: each is decoded by itself.
  std::shared_ptr<const FieldSetup> fields;
  bool as_ready = false;  // batches in the order they finish instead of step order
  OnError on_error = OnError::kRaise;
  // Counts bad records of several engines against one allowance; null: this engine's own.
  std::shared_ptr<std::atomic<uint64_t>> shared_bad_count;
  uint64_t errors_max = UINT64_MAX;  // allowance for kSkip and kReplace
  // The same as a share of the samples seen so far, once kErrorShareSamples were.
  double errors_share_max = 1;
  uint64_t window_bytes = 32 << 20;   // read but not yet decoded; one larger record passes alone
  uint64_t coalesce_bytes = 1 << 20;  // neighbouring records of one file become one read up to this
  uint64_t record_bytes_max = 0;      // larger ones are refused by name; 0 = half of the memory
  // Decoded blocks, and files whose samples only come together, that are remembered for samples
  // wanted later. Where samples are only checked, that is their sizes, and where the order does not
  // mix them, window_bytes bounds them too.
  uint64_t shard_cache_bytes = 256 << 20;
  // Samples are read once and found here from then on; shared by engines over one index. Null: read
  // each time.
  std::shared_ptr<SampleCache> sample_cache;
  formats::FormatOptions format;  // as the index was opened with
  ops::DecodeOptions decode;
  // Time a decode thread spends on a sample besides decoding it (DLIO's preprocess_time), or null.
  std::function<int64_t(uint64_t epoch, uint64_t sample)> preprocess_ns;
  int64_t stall_limit_ns =
      600'000'000'000;          // a batch that takes longer is an error naming the file
  std::string name = "loader";  // prefix of thread and track names
};

// A share of fewer samples says little.
constexpr uint64_t kErrorShareSamples = 100;

struct BadRecord {
  uint64_t sample = 0;
  std::string path;
  std::string cause;  // names offset, record or member
};

struct EngineStats {
  uint64_t reads = 0;
  uint64_t retries = 0;         // reads begun again after EIO or a stale handle
  uint64_t file_bytes = 0;      // read from the store
  uint64_t payload_bytes = 0;   // decoded bytes of samples (equals file bytes for kBytes)
  uint64_t samples = 0;         // delivered good
  uint64_t memory_samples = 0;  // whose bytes the sample cache had
  uint64_t blocks_decoded = 0;  // kBlocks and kTogether: each time one was decoded
  uint64_t batches = 0;
  int64_t fetch_busy_ns = 0;   // driver time in reads, visitors excluded, all in flight together
  int64_t decode_busy_ns = 0;  // decode threads and visitors
  int64_t decode_idle_ns = 0;  // decode threads waited for bytes
  int64_t consumer_wait_ns = 0;
  int64_t wait_fetch_ns = 0, wait_decode_ns = 0;  // of it, by what the batch's last sample did
  int fetch_depth = 0, decode_threads = 0;        // in use now
  uint64_t buffer_bytes_max = 0;
  uint64_t buffer_bytes_held_max = 0;  // the same with what is kept for reuse
  uint64_t bad_count = 0;
  std::vector<BadRecord> bad_records;  // the first 100
  // That the first error of a record is about; without one, the last that was counted.
  std::optional<BadRecord> blamed;
};

}  // namespace forebay::loader

// Feeds a training loop: samples of a data set in batches, read and decoded ahead of time.
// examples/load_folder.cc shows it in thirty lines.
//
// One consumer thread per Loader. Batches must be gone before their Loader; samples live as long as
// their batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay {

enum class Shuffle { kOff, kFull, kWindowed };
enum class OnError {
  kRaise,    // next() returns the error of the first bad record
  kSkip,     // the batch goes without it
  kReplace,  // a good sample of the same batch stands in
};
enum class Tail {
  kDrop,  // only whole batches; what is left over is not visited
  kEven,  // one more, smaller batch when every rank gets at least one sample of it
  kAll,   // every sample once; ranks may differ by one batch
};

struct LoaderOptions {
  std::string data;               // folder: class/name.jpg, train/img_*.npz, any nesting
  std::string storage = "local";  // driver and its options, as `forebay list stores` shows them
  std::string format;             // "" = what most files are
  uint64_t samples_per_file = 1;  // 0 = ask each file
  uint64_t record_bytes = 0;      // raw files: size of one record; 0 = a file is one
  uint64_t batch_size = 1;
  Tail tail = Tail::kDrop;
  Shuffle shuffle = Shuffle::kOff;
  uint64_t window_shards = 1;  // kWindowed: files (or blocks of files) mixed with each other
  uint64_t seed = 0;
  bool change_each_epoch = true;  // shuffle anew in each epoch
  uint64_t rank = 0, world_size = 1;
  uint64_t prefetch_batches = 2;  // ready ahead of the consumer
  int fetch_depth = 4;            // reads in flight
  int decode_threads = 2;
  bool as_ready = false;  // batches as they finish instead of in order
  OnError on_error = OnError::kRaise;
  uint64_t errors_max = UINT64_MAX;      // bad records allowed with kSkip and kReplace
  uint64_t read_ahead_bytes = 32 << 20;  // read but not yet decoded
  bool convert_to_rgb = false;           // images: always three channels
  bool apply_orientation = true;         // images: turn as EXIF says
  std::string index_cache;               // file that remembers what the data set holds; "" = none
};

struct Sample {
  uint64_t id = 0;                   // index in the data set, the same in every epoch
  std::string_view path;             // of its file, below `data`
  std::string_view element_type;     // numpy's name: "uint8"
  std::span<const uint64_t> shape;   // images: height, width, channels
  std::span<const std::byte> bytes;  // C order, native byte order
  bool is_replaced = false;          // stands in for a bad record
};

class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();  // gives its memory back to the loader

  uint64_t epoch() const;
  uint64_t step() const;
  std::span<const Sample> samples() const;
  uint64_t skipped() const;  // bad records left out

 private:
  friend class Loader;
  struct Impl;
  explicit Batch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct LoaderStats {
  uint64_t reads = 0, file_bytes = 0, payload_bytes = 0, samples = 0, batches = 0, bad_records = 0;
  double fetch_busy_seconds = 0;   // reads in flight, all together
  double decode_busy_seconds = 0;  // decode threads, all together
  double decode_idle_seconds = 0;
  double consumer_wait_seconds = 0;  // next() waited for a batch
  uint64_t buffer_bytes_max = 0;
  std::vector<std::string> bad;  // the first 100: file, place and cause
};

// Where a loader stands. It does not depend on batch size, rank or world size: whoever restores it
// gets the rest of the epoch, exactly once over all ranks.
struct LoaderState {
  uint64_t seed = 0, epoch = 0;
  uint64_t position = 0;     // samples of the epoch that all ranks together have been given
  uint64_t fingerprint = 0;  // of the data set: restoring refuses another one
};

class Loader {
 public:
  // kNotFound when the folder has no samples, kInvalidArgument for options out of range.
  static Result<std::unique_ptr<Loader>> open(const LoaderOptions& options);
  ~Loader();

  uint64_t sample_count() const;
  uint64_t batches_per_epoch() const;  // of this rank
  double order_entropy() const;        // 0 = sequential .. 1 = any order is possible

  // The next batch; nothing at the end of an epoch, after which the next call begins the next one.
  // At most prefetch_batches + 1 batches exist: kResourceExhausted when the caller holds them all.
  Result<std::optional<Batch>> next(std::stop_token stop = {});

  // After whole steps of all ranks. kUnsupported in the middle of an epoch with as_ready, where
  // what was given is no prefix of the order.
  Result<LoaderState> state() const;
  // kInvalidArgument when the state belongs to another data set, seed or shuffle.
  Status restore(const LoaderState& state);

  LoaderStats stats() const;

 private:
  class Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

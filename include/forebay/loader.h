// Feeds a training loop: samples of a data set in batches, read and decoded ahead of time.
// examples/load_folder.cc shows it in thirty lines.
//
// One consumer thread per Loader. Batches must be gone before their Loader; what a batch shows
// lives as long as the batch, and the memory of a field for as long as somebody holds its owner.
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

#include "forebay/op.h"
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
  kPad,   // as many batches on every rank, the last filled up; Batch::valid() tells what is real
};

// Where samples come from. Several follow each other as if they were one; with weights, each more
// than 0, they make a mixture.
struct DataSource {
  // A folder, a file, or a pattern: {a,b}, {000..127}, *, ?, ** ; below a folder or s3://bucket.
  std::string data;
  std::string format;             // "" = what most files are
  double weight = 0;              // of a mixture: share of each epoch's samples; 0 = no mixture
  uint64_t samples_per_file = 0;  // 0 = ask each file
  uint64_t record_bytes = 0;      // raw files: size of one record; 0 = a file is one
  std::string record_type;        // raw files: numpy's name; "" = bytes
  std::vector<uint64_t> record_shape;  // raw files, with record_type
  uint64_t tokens_per_sample = 0;      // tokens: length of a window
  std::vector<std::string> parts;      // those to read; empty = all
};

struct LoaderOptions {
  std::string data;               // folder: class/name.jpg, train/img_*.npz, any nesting
  std::string storage = "local";  // driver and its options, as `forebay list stores` shows them
  std::string format;             // "" = what most files are
  uint64_t samples_per_file = 1;  // 0 = ask each file
  uint64_t record_bytes = 0;      // raw files: size of one record; 0 = a file is one
  // In place of the fields above: several sources. Their stores must be of one kind.
  std::vector<DataSource> sources;
  std::vector<Op> ops;  // docs/ops.md; empty = images are decoded, all else is handed on
  uint64_t batch_size = 1;
  Tail tail = Tail::kDrop;
  Shuffle shuffle = Shuffle::kOff;
  uint64_t window_shards = 1;  // kWindowed: files (or blocks of files) mixed with each other
  uint64_t seed = 0;
  bool change_each_epoch = true;  // shuffle anew in each epoch
  uint64_t rank = 0, world_size = 1;
  uint64_t prefetch_batches = 2;  // ready ahead of the consumer; at least 1
  int fetch_depth = 0;            // reads in flight; 0 = tuned while it runs
  int decode_threads = 0;         // 0 = tuned, up to the CPUs this process may use
  uint64_t memory_bytes = 0;  // bound of all its buffers; 0 = a quarter of the memory it may use
  bool as_ready = false;      // batches as they finish instead of in order
  OnError on_error = OnError::kRaise;
  // Bad records allowed with kSkip and kReplace over the loader's life: one that is bad in every
  // epoch counts in each of them. Counted as they are given, not as they are read ahead.
  uint64_t errors_max = UINT64_MAX;
  // The same, as a share of the samples given so far; it holds once those are 100.
  double errors_share_max = 1;
  uint64_t read_ahead_bytes = 32 << 20;  // read but not yet decoded
  bool convert_to_rgb = false;           // images: always three channels; without ops only
  bool apply_orientation = true;         // images: turn as EXIF says
  std::string index_cache;               // file that remembers what data sets hold; "" = none
};

struct Sample {
  uint64_t id = 0;                   // index in the data set, the same in every epoch
  std::string_view path;             // of its file, below `data`
  std::string_view element_type;     // numpy's name: "uint8"
  std::span<const uint64_t> shape;   // images: height, width, channels
  std::span<const std::byte> bytes;  // C order, native byte order
  bool is_replaced = false;          // stands in for a bad record
};

enum class FieldKind {
  kStacked,  // one array, its first dimension is the sample
  kArrays,   // one array per sample, of any shape
  kBytes,    // one string of bytes per sample
  kText,     // one UTF-8 string per sample
};

// One named field of a batch: "image", "label", "__key__".
struct BatchField {
  std::string_view name;
  FieldKind kind = FieldKind::kStacked;
  std::string_view element_type;      // numpy's name, or "bfloat16"; of kStacked and kArrays
  std::span<const uint64_t> shape;    // kStacked: samples first
  std::span<std::byte> bytes;         // kStacked: C order, 64-byte aligned; the caller's to change
  std::span<const Sample> each;       // the others: one per sample
  std::shared_ptr<const void> owner;  // keeps `bytes`, or the bytes of `each`, alive
};

class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();  // gives its memory back to the loader

  uint64_t epoch() const;
  uint64_t step() const;
  std::span<const Sample> samples() const;
  std::span<const BatchField> fields() const;  // in the order of the ops; "__key__" last
  const BatchField* find(std::string_view field) const;
  uint64_t valid() const;    // with Tail::kPad: the first so many samples are real
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
  double consumer_wait_seconds = 0;                        // next() waited for a batch
  double wait_fetch_seconds = 0, wait_decode_seconds = 0;  // what of it was for bytes, for decoding
  int fetch_depth = 0, decode_threads = 0;                 // in use now
  uint64_t memory_bytes_bound = 0;                         // buffer_bytes_max stays below it
  uint64_t buffer_bytes_max = 0;
  std::vector<std::string> bad;  // the first 100, each record once: file, place and cause
};

// A record that could not be read, or what was done to it; or a file as a whole.
struct RecordPlace {
  std::string file;                // below `data`
  std::optional<uint64_t> record;  // its number in the file, from 0; none: the file is to blame
  // Of its first byte, where records have bytes of their own; of a cut file: of what is lost.
  std::optional<uint64_t> offset;
};

// Where a loader stands. It does not depend on batch size, rank or world size: whoever restores it
// gets the rest of the epoch, exactly once over all ranks.
struct LoaderState {
  uint64_t seed = 0, epoch = 0;
  uint64_t position = 0;     // samples of the epoch that all ranks together have been given
  uint64_t fingerprint = 0;  // of the data set: restoring refuses another one
  uint64_t files = 0, samples = 0, bytes = 0;  // of the data set: they tell what has changed
  uint64_t ops = 0, order = 0;  // fingerprints of the ops, and of shuffle, windows and mixture
};

// What an open loader is about to do, for people.
struct LoaderPlan {
  uint64_t files = 0, samples = 0, batches = 0;  // of an epoch; batches of this rank
  uint64_t file_bytes_per_epoch = 0;             // read by all ranks
  double read_amplification = 1;  // bytes read / bytes of samples, from how files have to be read
  double entropy = 0;             // of the order: 0 = sequential .. 1 = any order is possible
  uint64_t memory_bytes_bound = 0;
  int threads = 0, fetch_depth_max = 0;
  std::string index_cache_problem;  // why it was not used or not written; "" = it is as it should
  std::string text;                 // all of it, a line each
};

class Loader {
 public:
  // kNotFound when the folder has no samples, kInvalidArgument for options out of range. `stop`
  // ends the listing and measuring of a large data set with kCancelled. `failed_record`: as
  // failed_record() has it, of a first sample that is no good, or of a file that is cut.
  static Result<std::unique_ptr<Loader>> open(const LoaderOptions& options,
                                              std::stop_token stop = {},
                                              std::optional<RecordPlace>* failed_record = nullptr);
  ~Loader();

  uint64_t sample_count() const;
  uint64_t batches_per_epoch() const;  // of this rank
  double order_entropy() const;        // 0 = sequential .. 1 = any order is possible

  // The next batch; nothing at the end of an epoch, after which the next call begins the next one,
  // whose first batches are read by then. Batches without a single good sample are passed over
  // where ranks may differ in their number (one rank, Tail::kAll), and an error elsewhere.
  // kResourceExhausted when the caller holds every Batch there is (at least prefetch_batches + 1);
  // what fields own may be held longer than their Batch. After kCancelled nothing is lost: the next
  // call waits on. Other errors than these two mostly end the flow: see has_failed().
  Result<std::optional<Batch>> next(std::stop_token stop = {});

  // An error has ended the flow: further calls of next() say so, with the same code.
  bool has_failed() const;

  // For whoever could not pass on what the last call of next() gave: it counts as not given, and
  // comes again with the next call, read anew. False where there is none: after an error, another
  // take_back() or restore(), and with as_ready, where a batch is lost then.
  bool take_back();

  // That the last error of next() is about; nothing when it is about no single record.
  std::optional<RecordPlace> failed_record() const;

  // After whole steps of all ranks. kUnsupported in the middle of an epoch with as_ready, where
  // what was given is no prefix of the order.
  Result<LoaderState> state() const;
  // kInvalidArgument, naming what differs (files, samples, bytes, seed, order, ops), when the state
  // belongs to another data set or way of reading it.
  Status restore(const LoaderState& state);

  LoaderStats stats() const;
  LoaderPlan explain() const;
  std::vector<std::string> class_names() const;  // of folders; label i means the i-th

 private:
  class Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay

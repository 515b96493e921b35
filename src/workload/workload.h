// What a training job asks for: one immutable value, filled from built-ins, YAML files and
// overrides.
//
// Values; safe to share between threads once resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "forebay/result.h"
#include "workload/document.h"

namespace forebay::workload {

// A time in seconds that may be drawn anew each time: a number, {mean, stdev}, or {type: ...} with
// normal (mean, stdev), uniform (min, max), gamma (shape, scale), exponential (scale), poisson
// (lam).
struct Distribution {
  enum class Kind { kConstant, kNormal, kUniform, kGamma, kExponential, kPoisson };
  Kind kind = Kind::kConstant;
  double a = 0;  // value | mean | min | shape | scale | lam
  double b = 0;  //       | stdev | max | scale

  bool is_zero() const { return kind == Kind::kConstant && a == 0; }
  double mean() const;
  // Negative draws count as 0 (DLIO folds them to positive values, which shifts the mean).
  double draw(base::Random& random) const;
  std::string text() const;  // "0.323", "normal(mean 0.3, stdev 0.01)"
  bool operator==(const Distribution&) const = default;
};

enum class Shuffle { kOff, kSeed, kRandom };

struct Model {
  std::string name = "default";
  std::string type;             // "" = none
  uint64_t size_bytes = 10240;  // model_size_bytes, or model_size where only that is given
  std::string model_datatype = "fp16", optimizer_datatype = "fp32";
  std::vector<uint64_t> optimization_groups, layer_parameters;  // bytes; empty = from the rest
  std::optional<uint64_t> num_layers;
  uint64_t tensor_parallelism = 1, pipeline_parallelism = 1;
  std::optional<uint64_t> data_parallelism;  // of mode subset; else it follows from the ranks
  uint64_t zero_stage = 0;
  uint64_t vocab_size = 32000, hidden_size = 2048, ffn_hidden_size = 8192;
  uint64_t num_attention_heads = 32, num_kv_heads = 8;

  bool is_transformer() const;
  bool operator==(const Model&) const = default;
};

struct Workflow {
  bool generate_data = false, train = true, evaluation = false, checkpoint = false;
  std::string query;  // a key whose value dlio_benchmark_query prints

  // A run that saves and restores, and does nothing else.
  bool is_checkpoint_only() const { return checkpoint && !train && !generate_data; }
  bool operator==(const Workflow&) const = default;
};

// A column of the parquet files of a workload.
struct ParquetColumn {
  std::string name;
  std::string dtype = "float32";  // numpy's name
  uint64_t size = 1;              // values per row; more than 1 = a list of fixed size
  bool is_read = true;            // false: made, but not read
  bool operator==(const ParquetColumn&) const = default;
};

struct Dataset {
  double record_length_bytes = 65536, record_length_bytes_stdev = 0;
  uint64_t num_files_train = 8, num_files_eval = 0;
  uint64_t num_samples_per_file = 1;
  std::string data_folder = "./data/";
  uint64_t num_subfolders_train = 0, num_subfolders_eval = 0;
  std::string file_prefix = "img";
  std::string format = "tfrecord";
  std::string compression = "none";  // one that the format has
  uint64_t compression_level = 4;
  bool keep_files = true;
  std::vector<uint64_t> record_dims;
  std::string record_element_type = "uint8";
  uint64_t listing_threads = 8;  // that look at the files of a data set
  bool enable_chunking = false;  // hdf5 of mlps-v2.0: square chunks of chunk_size bytes
  uint64_t chunk_size = 0;
  std::vector<uint64_t> hdf5_chunk_dims, hdf5_max_shape;  // of a whole data set, samples first
  uint64_t hdf5_datasets_per_record = 1;
  std::vector<ParquetColumn> parquet_columns;  // empty = one column of record_length_bytes
  uint64_t parquet_row_group_size = 1024;      // rows
  bool operator==(const Dataset&) const = default;
};

struct Reader {
  std::string data_loader = "tensorflow";
  uint64_t batch_size = 1, batch_size_eval = 1;  // per accelerator
  uint64_t read_threads = 1;                     // reads in flight per accelerator; 0 = 1
  uint64_t computation_threads = 1;              // decode threads per accelerator
  uint64_t prefetch_size = 2;                    // batches ready ahead, per accelerator
  Shuffle file_shuffle = Shuffle::kOff, sample_shuffle = Shuffle::kOff;
  uint64_t shuffle_size = 1024;           // samples mixed by a windowed order
  std::optional<uint64_t> transfer_size;  // bytes per read of large records
  Distribution preprocess_time;           // per sample, on a decode thread
  bool odirect = false;
  bool in_memory = false;      // read_type: memory: samples stay in memory after the first epoch
  uint64_t write_threads = 0;  // threads that make data; 0 = one per CPU
  bool operator==(const Reader&) const = default;
};

struct Train {
  uint64_t epochs = 1;
  Distribution computation_time;                 // per step
  std::optional<uint64_t> total_training_steps;  // cap of steps in each epoch, as DLIO applies it
  uint64_t seed = 123;
  bool seed_change_epoch = true;
  bool operator==(const Train&) const = default;
};

struct Evaluation {
  Distribution eval_time;  // per step
  uint64_t eval_after_epoch = 1, epochs_between_evals = 1;
  bool operator==(const Evaluation&) const = default;
};

// A place that holds checkpoints.
struct CheckpointPlace {
  std::string place;                // a folder, or s3://BUCKET/PREFIX
  std::string storage;              // as --storage; empty = that, or local
  double bytes_per_second_max = 0;  // of copying to it from the place before; 0 = no limit
  uint64_t keep = 0;                // the newest so many, once they are on the next; 0 = all
  bool operator==(const CheckpointPlace&) const = default;
};

struct Checkpoint {
  std::string checkpoint_folder = "./checkpoints/";
  uint64_t checkpoint_after_epoch = 1, epochs_between_checkpoints = 1;
  std::optional<uint64_t> steps_between_checkpoints;  // wins over the epoch keys when set
  bool fsync = true;                                  // DLIO: false
  bool randomize_tensor = true;                       // false: all bytes are 1
  bool is_subset = false;                             // mode: fewer ranks than the model has
  Distribution time_between_checkpoints = {.a = -1};  // before each save and restore
  std::optional<uint64_t> num_checkpoints_write, num_checkpoints_read;  // of a run of only these
  bool recovery_rank_shift = false;    // restore what a rank elsewhere saved
  bool rank_sync = false;              // a rank's time ends when all ranks have saved
  std::vector<CheckpointPlace> tiers;  // fast to slow; empty = checkpoint_folder
  bool operator==(const Checkpoint&) const = default;
};

struct Output {
  std::string folder;                 // "" = results/<workload>-<number>
  std::string log_file = "dlio.log";  // of the DLIO command line, inside the folder
  uint64_t exclude_start_steps = 1, exclude_end_steps = 0;
  bool operator==(const Output&) const = default;
};

struct Metric {
  double au = 0.90;  // fraction that passes
  bool operator==(const Metric&) const = default;
};

struct Storage {
  std::string storage_type = "local_fs";
  std::string storage_root = "./";
  double post_generation_settle_seconds = 0;  // pause between making data and reading it
  // storage_options, for object stores. Empty: as the environment says.
  std::string access_key_id, secret_access_key, endpoint_url, region;
  bool force_path_style = false;  // false: where the server asks for it
  uint64_t max_attempts = 5;      // of one request

  bool is_object_store() const { return storage_type == "s3" || storage_type == "aistore"; }
  bool operator==(const Storage&) const = default;
};

struct Workload {
  std::string name;  // of the built-in or file
  std::string framework = "tensorflow";
  Model model;
  Workflow workflow;
  Storage storage;
  Dataset dataset;
  Reader reader;
  Train train;
  Evaluation evaluation;
  Checkpoint checkpoint;
  Output output;
  Metric metric;
  bool operator==(const Workload&) const = default;
};

// Whose defaults and file layouts hold where three programs of the name DLIO differ. None of their
// defects comes with it.
enum class Compat { kDlioMain, kMlpsV2, kMlpsV3 };
std::string_view compat_name(Compat compat);  // "dlio-main", "mlps-v2.0", "mlps-v3.0"
std::optional<Compat> compat_from_name(std::string_view name);

struct ResolveOptions {
  Compat compat = Compat::kDlioMain;
  // The caller writes DLIO's own output files, so the keys that are about them have an effect.
  bool is_dlio_command = false;
};

// Where a value came from.
struct Setting {
  std::string key;     // "reader.batch_size"
  std::string value;   // as it would be written in YAML
  std::string unit;    // "bytes", "s", ""
  std::string origin;  // "default", "built-in unet3d_h100", "file w.yaml:12", "override 3"
};

struct Resolved {
  Workload workload;
  Compat compat = Compat::kDlioMain;
  std::vector<Setting> settings;      // every known key, in schema order
  std::vector<std::string> warnings;  // keys without effect here, keys that win over others, ...
  // The command that makes the data, from a caller that has its own; "" = forebay generate.
  std::string generate_command;
};

// `source` is a built-in's name or the path of a YAML file (a path when it contains '/' or ends in
// .yaml or .yml). Overrides are "section.key=value", optionally after "++workload." or "workload.";
// values are YAML: numbers, true, null, [a, b], {k: v}. Errors are kInvalidArgument and name file,
// line, key, value, the allowed range and the nearest known key. A value that needs what a later
// version brings is refused as kUnsupported with the key's name.
Result<Resolved> resolve(std::string_view source, const std::vector<std::string>& overrides,
                         const ResolveOptions& options = {});

// One document of several that are laid over each other, later ones winning.
struct Layer {
  Node root;
  std::string label;      // for messages: "w.yaml", "override 2 '++workload.train.epochs=2'"
  std::string origin;     // for results: "file w.yaml"
  bool has_lines = true;  // the nodes' lines are lines of that file
};

// As resolve(), from documents that somebody else has read. `name` is the workload's unless a layer
// gives it one.
Result<Resolved> resolve_layers(std::string_view name, const std::vector<Layer>& layers,
                                const ResolveOptions& options = {});

// --- What may be shown: values of secret keys are replaced by *** ---
std::string shown_override(std::string_view text);  // "storage.storage_options.access_key_id=***"
void hide_secrets(Node& node);
bool is_secret_path(std::string_view path);  // its value is not to be shown

// The resolved workload as YAML that resolve() reads back to the same value, origins as comments.
std::string to_yaml(const Resolved& resolved);

// --- Built-ins ---
struct Builtin {
  std::string_view name;
  std::string_view summary;  // "3D U-Net on H100: 168 npz files of 147 MB, batch 7, 323 ms a step"
  std::string_view yaml;
};
std::span<const Builtin> builtin_workloads();

// --- The schema: feeds parsing, `forebay help KEY` and docs/dlio-keys.md ---
struct KeyInfo {
  std::string_view key;      // "reader.prefetch_size"
  std::string_view type;     // "count", "bytes", "seconds or distribution", "off | seed | random"
  std::string_view unit;     // "batches", "bytes", "s", ""
  std::string_view range;    // "0..1000000", "> 0", ""
  std::string fallback;      // the default, as written in YAML
  std::string_view help;     // one or two sentences
  std::string_view differs;  // where DLIO does otherwise, and why; "" = nowhere
  std::string_view support;  // "" = full; else what happens: "warns: ...", "refused when ..."
  bool changes_run = false;  // false: the workload is the same whatever it says
};
std::span<const KeyInfo> schema();

// The same as a page: docs/dlio-keys.md.
std::string schema_markdown();

}  // namespace forebay::workload

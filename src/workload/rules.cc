#include "workload/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/format.h"
#include "storage/place.h"

namespace forebay::workload {

namespace {

const Value& default_value(std::string_view key) {
  const auto slots = default_slots();
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const Slot& slot) { return slot.row->key == key; });
  FB_CHECK(found != slots.end());
  return found->value;
}

bool flag(const State& state, std::string_view key) {
  return state.at(key).value.flag;
}

// Of checkpoints: a run that makes data and does not train saves none.
bool only_makes_data(const State& state) {
  return flag(state, "workflow.generate_data") && !flag(state, "workflow.train");
}

bool is_needed(const State& state, Need need) {
  switch (need) {
    case Need::kAlways:
      return true;
    case Need::kCheckpoint:
      return flag(state, "workflow.checkpoint") && !only_makes_data(state);
    case Need::kTraining:
      return flag(state, "workflow.train") || flag(state, "workflow.evaluation");
    case Need::kProfiling:
      return flag(state, "workflow.profiling");
  }
  return true;
}

std::string_view need_text(const State& state, Need need) {
  switch (need) {
    case Need::kAlways:
      return "";
    case Need::kCheckpoint:
      return flag(state, "workflow.checkpoint") ? "only data is made"
                                                : "workflow.checkpoint is false";
    case Need::kTraining:
      return "nothing is trained or evaluated";
    case Need::kProfiling:
      return "workflow.profiling is false";
  }
  return "";
}

bool asks_for_nothing(const Slot& slot, const Slot& fallback) {
  const Row& row = *slot.row;
  if (row.supported.empty())
    return row.support != Support::kNoEffect && slot.value == fallback.value;
  const auto values = base::split(row.supported, ' ');
  const std::string text = value_text(row.type, slot.value);
  return std::find(values.begin(), values.end(), text) != values.end();
}

// "X_stdev" turns a constant X into a normal distribution.
Status add_spread(const State& state, std::string_view key, Distribution& time) {
  const Slot& slot = state.at(key);
  const Slot& spread = state.at(std::string(key) + "_stdev");
  if (spread.value.number == 0) return {};
  if (time.kind != Distribution::Kind::kConstant)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} and {} ({}) both say how the time spreads; set one", spread.where,
                spread.text(), slot.text(), slot.where);
  time.kind = Distribution::Kind::kNormal;
  time.b = spread.value.number;
  return {};
}

Status check_workflow(State& state, const Workload& workload) {
  const Workflow& flow = workload.workflow;
  const Slot& checkpoint = state.at("workflow.checkpoint");
  const bool saves = flow.checkpoint && !only_makes_data(state);
  if (flow.checkpoint && !saves)
    state.warn(
        fmt::format("{}: {} has no effect: with workflow.generate_data = true and workflow.train = "
                    "false the data is made and no checkpoint is saved or restored",
                    checkpoint.where, checkpoint.text()));
  if (flow.evaluation && !flow.train)
    state.warn(
        "workflow.evaluation = true has no effect: workflow.train is false, and evaluation "
        "follows training epochs");
  if (flow.evaluation && flow.train && workload.dataset.num_files_eval == 0)
    return fail(ErrorCode::kInvalidArgument,
                "{}: evaluation is on but dataset.num_files_eval is 0; set it, or "
                "workflow.evaluation=false",
                state.at("workflow.evaluation").where);
  if (!flow.generate_data && !flow.train && !saves)
    state.warn("the workflow asks for nothing: generate_data, train and checkpoint are false");
  const Slot& settle = state.at("storage.post_generation_settle_seconds");
  if (workload.storage.post_generation_settle_seconds > 0 && !flow.generate_data)
    state.warn(fmt::format("{}: {} has no effect: workflow.generate_data is false", settle.where,
                           settle.text()));
  if (flow.train && flow.evaluation && workload.evaluation.eval_after_epoch > workload.train.epochs)
    state.warn(
        fmt::format("no evaluation will happen: evaluation.eval_after_epoch = {} is past the "
                    "last epoch, {}",
                    workload.evaluation.eval_after_epoch, workload.train.epochs));
  return {};
}

void warn_of_no_effect(State& state, std::string_view key, std::string_view why) {
  const Slot& slot = state.at(key);
  if (slot.is_set() && !(slot.value == default_value(key)))
    state.warn(fmt::format("{}: {} has no effect: {}", slot.where, slot.text(), why));
}

constexpr std::string_view kSizingKeys[] = {
    "model.optimization_groups",   "model.num_layers",           "model.layer_parameters",
    "model.parallelism.tensor",    "model.parallelism.pipeline", "model.parallelism.data",
    "model.parallelism.zero_stage"};
constexpr std::string_view kTransformerKeys[] = {"model.model_datatype",
                                                 "model.optimizer_datatype",
                                                 "model.transformer.vocab_size",
                                                 "model.transformer.hidden_size",
                                                 "model.transformer.ffn_hidden_size",
                                                 "model.transformer.num_attention_heads",
                                                 "model.transformer.num_kv_heads"};
constexpr std::string_view kSaveKeys[] = {"checkpoint.mode", "checkpoint.rank_sync",
                                          "checkpoint.tiers"};
constexpr std::string_view kCheckpointOnlyKeys[] = {
    "checkpoint.time_between_checkpoints", "checkpoint.num_checkpoints_write",
    "checkpoint.num_checkpoints_read", "checkpoint.recovery_rank_shift"};

// Dimensions that fit each other, and of which something is left to save.
Status check_sizes(State& state, const Model& model) {
  const auto refuse = [&](std::string_view key, std::string_view why) -> Status {
    const Slot& slot = state.at(key);
    return fail(ErrorCode::kInvalidArgument, "{}: {}: {}", slot.where, slot.text(), why);
  };
  const bool has_layers =
      model.num_layers && (model.is_transformer() || !model.layer_parameters.empty());
  if (model.is_transformer() && !model.num_layers)
    return refuse("model.num_layers", "a transformer has layers; set how many");
  if (model.is_transformer() && model.layer_parameters.empty()) {
    if (model.num_attention_heads > model.hidden_size)
      return refuse("model.transformer.num_attention_heads",
                    "more heads than model.transformer.hidden_size has elements");
    if (model.num_kv_heads > model.num_attention_heads)
      return refuse("model.transformer.num_kv_heads",
                    "more than model.transformer.num_attention_heads, which share them");
  }
  if (!model.is_transformer() && model.size_bytes == 0 && !has_layers &&
      model.optimization_groups.empty())
    return refuse("model.model_size_bytes", "nothing is left to save");
  if (has_layers && model.pipeline_parallelism > *model.num_layers)
    return refuse("model.parallelism.pipeline", "more stages than model.num_layers");
  return {};
}

// What a checkpoint holds.
Status check_state(State& state, const Workload& workload) {
  const bool saves = workload.workflow.checkpoint && !only_makes_data(state);
  const Model& model = workload.model;
  if (!saves || !model.is_transformer()) {
    const std::string_view why =
        saves ? "model.type is not transformer" : need_text(state, Need::kCheckpoint);
    for (const std::string_view key : kTransformerKeys) warn_of_no_effect(state, key, why);
  }
  if (!saves) {
    for (const std::string_view key : kSizingKeys)
      warn_of_no_effect(state, key, need_text(state, Need::kCheckpoint));
    return {};
  }
  if (model.is_transformer())
    warn_of_no_effect(state, "model.model_size_bytes",
                      "the dimensions of a transformer say what is saved");
  else if (model.layer_parameters.empty())
    warn_of_no_effect(state, "model.num_layers",
                      "neither model.layer_parameters nor a transformer says what a layer holds");
  if (!model.num_layers)
    warn_of_no_effect(state, "model.layer_parameters", "model.num_layers is not set");
  if (!workload.checkpoint.is_subset)
    warn_of_no_effect(state, "model.parallelism.data",
                      "the number of ranks says it unless checkpoint.mode is subset");
  else if (!model.data_parallelism)
    return fail(
        ErrorCode::kInvalidArgument,
        "{}: checkpoint.mode = subset needs model.parallelism.data, the copies of the model",
        state.at("checkpoint.mode").where);
  const Slot& stage = state.at("model.parallelism.zero_stage");
  const bool is_split = model.zero_stage == 3 && model.pipeline_parallelism > 1;
  if (is_split && model.num_layers)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} does not go with model.parallelism.pipeline = {}: it splits every layer "
                "over all ranks",
                stage.where, stage.text(), model.pipeline_parallelism);
  return check_sizes(state, model);
}

// Of a run that does not train.
Status check_checkpoint_only(State& state, const Workload& workload) {
  const Checkpoint& checkpoint = workload.checkpoint;
  const uint64_t writes = checkpoint.num_checkpoints_write.value_or(0);
  const uint64_t reads = checkpoint.num_checkpoints_read.value_or(0);
  if (writes + reads == 0)
    return fail(ErrorCode::kInvalidArgument,
                "{}: with workflow.train = false nothing is left to do: set "
                "checkpoint.num_checkpoints_write or checkpoint.num_checkpoints_read",
                state.at("workflow.checkpoint").where);
  const uint64_t keep = checkpoint.tiers.empty() ? 0 : checkpoint.tiers.back().keep;
  if (keep > 0 && reads > 0 && writes > keep)
    return fail(ErrorCode::kInvalidArgument,
                "{}: the last tier keeps {} of {} checkpoints, so the first cannot be restored; "
                "raise its `keep`, or set checkpoint.num_checkpoints_read=0",
                state.at("checkpoint.tiers").where, keep, writes);
  if (reads == 0) warn_of_no_effect(state, "checkpoint.recovery_rank_shift", "nothing is restored");
  for (const std::string_view key :
       {"checkpoint.checkpoint_after_epoch", "checkpoint.epochs_between_checkpoints",
        "checkpoint.steps_between_checkpoints"})
    warn_of_no_effect(state, key, "workflow.train is false");
  return {};
}

constexpr uint64_t kEveryEpoch = 1;  // default of both epoch keys

void check_checkpoint(State& state, const Workload& workload) {
  if (!workload.workflow.checkpoint || only_makes_data(state)) return;
  const Checkpoint& checkpoint = workload.checkpoint;
  if (!workload.workflow.train) return;
  const Slot& size = state.at("model.model_size_bytes");
  if (size.spelling == "model.model_size" || size.spelling == "checkpoint.model_size")
    state.warn(fmt::format("{}: DLIO ignores {}; here each checkpoint holds those {} bytes",
                           size.where, size.spelling, workload.model.size_bytes));
  if (checkpoint.steps_between_checkpoints) {
    for (const std::string_view key :
         {"checkpoint.checkpoint_after_epoch", "checkpoint.epochs_between_checkpoints"}) {
      const Slot& slot = state.at(key);
      if (!slot.is_set() || slot.value.count == kEveryEpoch) continue;
      state.warn(fmt::format("{}: {} has no effect: checkpoint.steps_between_checkpoints = {} wins",
                             slot.where, slot.text(), *checkpoint.steps_between_checkpoints));
    }
  } else if (checkpoint.checkpoint_after_epoch > workload.train.epochs) {
    state.warn(
        fmt::format("no checkpoint will be saved: checkpoint.checkpoint_after_epoch = {} is past "
                    "the last epoch, {}",
                    checkpoint.checkpoint_after_epoch, workload.train.epochs));
  }
}

Status check_compression(State& state, const Dataset& dataset) {
  const Slot& compression = state.at("dataset.compression");
  const Slot& level = state.at("dataset.compression_level");
  if (dataset.compression == "none") {
    if (!(level.value == default_value("dataset.compression_level")))
      state.warn(fmt::format("{}: {} has no effect: dataset.compression is none", level.where,
                             level.text()));
    return {};
  }
  const formats::Format* format = formats::find_format(dataset.format);
  // A format that is not built in is refused where it would be used, with the remedy.
  if (format == nullptr) return {};
  const auto wanted = formats::compression_from_name(dataset.compression);
  std::vector<std::string_view> names;
  for (const formats::Compression one : format->compressions) {
    if (wanted && *wanted == one) return {};
    names.push_back(formats::compression_name(one));
  }
  return fail(ErrorCode::kUnsupported, "{}: {} does not go with dataset.format = {}, which has: {}",
              compression.where, compression.text(), dataset.format, fmt::join(names, ", "));
}

// What one format alone uses.
void check_format_keys(State& state, const Dataset& dataset) {
  for (size_t i = 0; i < state.slots().size(); ++i) {
    const Slot& slot = state.slots()[i];
    const std::string_view format = slot.row->format;
    if (format.empty() || format == dataset.format || slot.value == default_slots()[i].value)
      continue;
    state.warn(fmt::format("{}: {} has no effect: only dataset.format = {} uses it", slot.where,
                           slot.text(), format));
  }
}

// Two ways of saying how hdf5 data is cut into chunks: one of the variant of v2.0, one of the
// others.
Status check_chunks(State& state, Dataset& dataset, Compat compat) {
  const Slot& dims = state.at("dataset.hdf5.chunk_dims");
  const Slot& enable = state.at("dataset.enable_chunking");
  const Slot& size = state.at("dataset.chunk_size");
  if (compat != Compat::kMlpsV2) {
    for (const Slot* slot : {&enable, &size}) {
      if (slot->value == default_value(slot->row->key)) continue;
      state.warn(fmt::format(
          "{}: {} has no effect with --compat {}: set dataset.hdf5.chunk_dims, or --compat {}",
          slot->where, slot->text(), compat_name(compat), compat_name(Compat::kMlpsV2)));
    }
    dataset.enable_chunking = false;
    dataset.chunk_size = 0;
  } else if (!dataset.enable_chunking && dataset.chunk_size > 0) {
    state.warn(fmt::format("{}: {} has no effect: dataset.enable_chunking is false", size.where,
                           size.text()));
  } else if (dataset.enable_chunking && dataset.chunk_size == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} needs dataset.chunk_size, the bytes of a chunk", enable.where,
                enable.text());
  } else if (dataset.enable_chunking && !dataset.record_dims.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} cuts square samples; with dataset.record_dims set dataset.hdf5.chunk_dims",
                enable.where, enable.text());
  } else if (dataset.enable_chunking && !dataset.hdf5_chunk_dims.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} and {} ({}) both say how data is cut into chunks; set one", enable.where,
                enable.text(), dims.text(), dims.where);
  }
  return {};
}

Status check_hdf5(State& state, const Dataset& dataset) {
  const std::vector<uint64_t>& dims = dataset.record_dims;
  const Slot& cut = state.at("dataset.hdf5.num_dset_per_record");
  if (!dims.empty() && dims.front() % dataset.hdf5_datasets_per_record != 0)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} does not divide the first of dataset.record_dims, {}", cut.where,
                cut.text(), dims.front());
  const size_t record_dims = dims.empty() ? 2 : dims.size();
  const Slot& chunks = state.at("dataset.hdf5.chunk_dims");
  if (!dataset.hdf5_chunk_dims.empty() && dataset.hdf5_chunk_dims.size() != record_dims + 1)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} must have {} numbers: one for the samples of a file, then one for each "
                "dimension of a sample",
                chunks.where, chunks.text(), record_dims + 1);
  const Slot& largest = state.at("dataset.hdf5.max_shape");
  if (!dataset.hdf5_max_shape.empty() && dataset.hdf5_max_shape.size() != record_dims)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} must have {} numbers, one for each dimension of a sample", largest.where,
                largest.text(), record_dims);
  return {};
}

Status check_columns(State& state, const Dataset& dataset) {
  const auto& columns = dataset.parquet_columns;
  const auto is_read = [](const ParquetColumn& column) { return column.is_read; };
  if (columns.empty() || std::any_of(columns.begin(), columns.end(), is_read)) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: dataset.parquet.columns: no column has read: true",
              state.at("dataset.parquet.columns").where);
}

Status check_format(State& state, Workload& workload, Compat compat) {
  Dataset& dataset = workload.dataset;
  check_format_keys(state, dataset);
  FB_TRY(check_compression(state, dataset));
  FB_TRY(check_chunks(state, dataset, compat));
  if (dataset.format == "hdf5") FB_TRY(check_hdf5(state, dataset));
  if (dataset.format == "parquet") FB_TRY(check_columns(state, dataset));
  const Slot& dims = state.at("dataset.record_dims");
  if (!dataset.record_dims.empty() && dataset.record_length_bytes_stdev > 0)
    return fail(
        ErrorCode::kInvalidArgument,
        "{}: {} fixes the size of a sample, but dataset.record_length_bytes_stdev = {} spreads "
        "it; set one",
        dims.where, dims.text(), dataset.record_length_bytes_stdev);
  const bool is_image = dataset.format == "jpeg" || dataset.format == "png";
  if (is_image && dataset.record_dims.size() > 2)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} has more than two dimensions, which {} cannot hold", dims.where,
                dims.text(), dataset.format);
  const Slot& element = state.at("dataset.record_element_type");
  if (is_image && dataset.record_element_type != "uint8")
    state.warn(fmt::format("{}: {} has no effect: {} files are made of uint8", element.where,
                           element.text(), dataset.format));
  return {};
}

// Spellings that DLIO documents and does not read.
void check_spellings(State& state) {
  for (const std::string_view key :
       {"dataset.record_length_bytes", "dataset.record_length_bytes_stdev"}) {
    const Slot& slot = state.at(key);
    if (!slot.is_set() || slot.spelling == key) continue;
    state.warn(fmt::format("{}: DLIO does not read {}, only {}; here it counts: {}", slot.where,
                           slot.spelling, key, slot.text()));
  }
}

// Sizes that are fine one by one and impossible together.
Status check_sizes(const State& state, const Workload& workload) {
  const Dataset& dataset = workload.dataset;
  double record = dataset.record_length_bytes;
  if (!dataset.record_dims.empty()) {
    record = 1;
    for (const uint64_t dim : dataset.record_dims) record *= static_cast<double>(dim);
  }
  const double files =
      static_cast<double>(dataset.num_files_train) + static_cast<double>(dataset.num_files_eval);
  const double samples = files * static_cast<double>(dataset.num_samples_per_file);
  if (samples * record < 0x1p62 && samples < 0x1p62) return {};
  return fail(ErrorCode::kInvalidArgument,
              "impossible data set: {} files x {}, {} bytes a sample, is more than 2^62 bytes",
              files, state.at("dataset.num_samples_per_file").text(), record);
}

// Its samples come from no file, so what is said of files and reads means nothing.
void check_synthetic(State& state, const Workload& workload) {
  const Slot& loader = state.at("reader.data_loader");
  if (workload.reader.in_memory)
    state.warn(fmt::format("{} has no effect: {} reads nothing",
                           state.at("reader.read_type").text(), loader.text()));
  if (workload.reader.odirect)
    state.warn(fmt::format("{} has no effect: {} reads nothing", state.at("reader.odirect").text(),
                           loader.text()));
}

void check_storage(State& state, const Workload& workload) {
  const bool is_object = workload.storage.is_object_store() ||
                         storage::is_object_place(workload.dataset.data_folder) ||
                         storage::is_object_place(workload.checkpoint.checkpoint_folder);
  for (size_t i = 0; i < state.slots().size(); ++i) {
    const Slot& slot = state.slots()[i];
    if (is_object || !slot.is_set() || !slot.row->key.starts_with("storage.storage_options."))
      continue;
    const bool says_nothing = slot.value == default_slots()[i].value;
    if (slot.row->support == Support::kFull && !says_nothing)
      state.warn(fmt::format("{}: {} is used for data at s3://... only", slot.where, slot.text()));
  }
}

void check_reader(State& state, Workload& workload) {
  Reader& reader = workload.reader;
  if (reader.read_threads == 0) {
    const Slot& slot = state.at("reader.read_threads");
    state.warn(fmt::format("{}: {} is taken as 1: one read in flight", slot.where, slot.text()));
    reader.read_threads = 1;
  }
  if (workload.storage.storage_type == "direct_fs" && !reader.odirect) {
    state.warn(fmt::format("{}: {} reads with O_DIRECT, as reader.odirect = true does",
                           state.at("storage.storage_type").where,
                           state.at("storage.storage_type").text()));
    reader.odirect = true;
  }
  if (reader.data_loader == "synthetic") check_synthetic(state, workload);
  const std::string_view stranger = workload.framework == "pytorch" ? "tensorflow" : "pytorch";
  const Slot& loader = state.at("reader.data_loader");
  if (reader.data_loader == stranger && loader.is_set() && workload.workflow.train)
    state.warn(
        fmt::format("{}: {} with framework = {} is a pair that DLIO refuses; both only label "
                    "the result here",
                    loader.where, loader.text(), workload.framework));
}

}  // namespace

Status check_support(State& state, const ResolveOptions& options) {
  for (size_t i = 0; i < state.slots().size(); ++i) {
    const Slot& slot = state.slots()[i];
    const Row& row = *slot.row;
    if (!slot.is_set() || row.support == Support::kFull) continue;
    if (asks_for_nothing(slot, default_slots()[i])) continue;
    if (row.support == Support::kDlioCommand && options.is_dlio_command) continue;
    if (row.support == Support::kNoEffect || row.support == Support::kDlioCommand) {
      state.warn(fmt::format("{}: {} has no effect: {}", slot.where, slot.text(), row.reason));
    } else if (is_needed(state, row.need)) {
      return fail(ErrorCode::kUnsupported, "{}: {} is not supported: {}", slot.where, slot.text(),
                  row.reason);
    } else {
      state.warn(fmt::format("{}: {} has no effect: {}", slot.where, slot.text(),
                             need_text(state, row.need)));
    }
  }
  return {};
}

Result<Workload> make_workload(State& state, const ResolveOptions& options) {
  Workload workload;
  for (const Slot& slot : state.slots()) {
    if (slot.row->store != nullptr) slot.row->store(workload, slot.value);
  }
  FB_TRY(add_spread(state, "train.computation_time", workload.train.computation_time));
  FB_TRY(add_spread(state, "evaluation.eval_time", workload.evaluation.eval_time));
  FB_TRY(add_spread(state, "reader.preprocess_time", workload.reader.preprocess_time));
  FB_TRY(check_workflow(state, workload));
  FB_TRY(check_state(state, workload));
  check_checkpoint(state, workload);
  if (workload.workflow.is_checkpoint_only()) {
    FB_TRY(check_checkpoint_only(state, workload));
  } else {
    const std::string_view why = workload.workflow.checkpoint && !only_makes_data(state)
                                     ? "the run trains, and its epochs and steps say when it saves"
                                     : need_text(state, Need::kCheckpoint);
    for (const std::string_view key : kCheckpointOnlyKeys) warn_of_no_effect(state, key, why);
    if (!workload.workflow.checkpoint || only_makes_data(state))
      for (const std::string_view key : kSaveKeys) warn_of_no_effect(state, key, why);
  }
  check_spellings(state);
  FB_TRY(check_format(state, workload, options.compat));
  FB_TRY(check_sizes(state, workload));
  check_storage(state, workload);
  check_reader(state, workload);
  return workload;
}

}  // namespace forebay::workload

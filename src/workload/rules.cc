#include "workload/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace forebay::workload {

namespace {

bool flag(const State& state, std::string_view key) {
  return state.at(key).value.flag;
}

bool is_needed(const State& state, Need need) {
  switch (need) {
    case Need::kAlways:
      return true;
    case Need::kCheckpoint:
      return flag(state, "workflow.checkpoint");
    case Need::kTraining:
      return flag(state, "workflow.train") || flag(state, "workflow.evaluation");
  }
  return true;
}

std::string_view need_text(Need need) {
  switch (need) {
    case Need::kAlways:
      return "";
    case Need::kCheckpoint:
      return "workflow.checkpoint is false";
    case Need::kTraining:
      return "nothing is trained or evaluated";
  }
  return "";
}

bool asks_for_nothing(const Slot& slot, const Slot& fallback) {
  const Row& row = *slot.row;
  if (row.supported.empty()) return row.support == Support::kLater && slot.value == fallback.value;
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
  if (flow.checkpoint && !flow.train)
    return fail(
        ErrorCode::kUnsupported,
        "{}: {} with workflow.train = false asks for a run that only saves and restores, which "
        "comes with a later version",
        checkpoint.where, checkpoint.text());
  const Slot& type = state.at("model.type");
  if (flow.checkpoint && base::to_lower(workload.model.type) == "transformer")
    return fail(ErrorCode::kUnsupported,
                "{}: {} with workflow.checkpoint = true: sharded model states come with a later "
                "version; leave model.type out and set model.model_size_bytes",
                type.where, type.text());
  if (flow.evaluation && !flow.train)
    state.warn(
        "workflow.evaluation = true has no effect: workflow.train is false, and evaluation "
        "follows training epochs");
  if (flow.evaluation && flow.train && workload.dataset.num_files_eval == 0)
    return fail(ErrorCode::kInvalidArgument,
                "{}: evaluation is on but dataset.num_files_eval is 0; set it, or "
                "workflow.evaluation=false",
                state.at("workflow.evaluation").where);
  if (!flow.generate_data && !flow.train)
    state.warn("the workflow asks for nothing: generate_data and train are false");
  if (flow.train && flow.evaluation && workload.evaluation.eval_after_epoch > workload.train.epochs)
    state.warn(
        fmt::format("no evaluation will happen: evaluation.eval_after_epoch = {} is past the "
                    "last epoch, {}",
                    workload.evaluation.eval_after_epoch, workload.train.epochs));
  return {};
}

constexpr uint64_t kEveryEpoch = 1;  // default of both epoch keys

void check_checkpoint(State& state, const Workload& workload) {
  if (!workload.workflow.checkpoint) return;
  const Checkpoint& checkpoint = workload.checkpoint;
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

Status check_format(State& state, const Workload& workload) {
  const Dataset& dataset = workload.dataset;
  const Slot& compression = state.at("dataset.compression");
  const bool fits = dataset.compression == "none" ||
                    (dataset.compression == "zip" && dataset.format == "npz") ||
                    (dataset.compression == "gzip" && dataset.format == "tfrecord");
  if (!fits)
    return fail(ErrorCode::kUnsupported,
                "{}: {} does not go with dataset.format = {}: npz takes zip, tfrecord takes gzip",
                compression.where, compression.text(), dataset.format);
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

void check_storage(State& state, const Workload& workload) {
  constexpr std::string_view kScheme = "s3://";
  const bool is_object = workload.storage.is_object_store() ||
                         workload.dataset.data_folder.starts_with(kScheme) ||
                         workload.checkpoint.checkpoint_folder.starts_with(kScheme);
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
  const std::string_view stranger = workload.framework == "pytorch" ? "tensorflow" : "pytorch";
  const Slot& loader = state.at("reader.data_loader");
  if (reader.data_loader == stranger && loader.is_set() && workload.workflow.train)
    state.warn(
        fmt::format("{}: {} with framework = {} is a pair that DLIO refuses; both only label "
                    "the result here",
                    loader.where, loader.text(), workload.framework));
}

}  // namespace

Status check_support(State& state) {
  for (size_t i = 0; i < state.slots().size(); ++i) {
    const Slot& slot = state.slots()[i];
    const Row& row = *slot.row;
    if (!slot.is_set() || row.support == Support::kFull) continue;
    if (asks_for_nothing(slot, default_slots()[i])) continue;
    if (row.support == Support::kNoEffect) {
      state.warn(fmt::format("{}: {} has no effect: {}", slot.where, slot.text(), row.reason));
    } else if (is_needed(state, row.need)) {
      return fail(ErrorCode::kUnsupported, "{}: {} is not supported: {}", slot.where, slot.text(),
                  row.reason);
    } else {
      state.warn(
          fmt::format("{}: {} has no effect: {}", slot.where, slot.text(), need_text(row.need)));
    }
  }
  return {};
}

Result<Workload> make_workload(State& state) {
  Workload workload;
  for (const Slot& slot : state.slots()) {
    if (slot.row->store != nullptr) slot.row->store(workload, slot.value);
  }
  FB_TRY(add_spread(state, "train.computation_time", workload.train.computation_time));
  FB_TRY(add_spread(state, "evaluation.eval_time", workload.evaluation.eval_time));
  FB_TRY(add_spread(state, "reader.preprocess_time", workload.reader.preprocess_time));
  FB_TRY(check_workflow(state, workload));
  check_checkpoint(state, workload);
  FB_TRY(check_format(state, workload));
  FB_TRY(check_sizes(state, workload));
  check_storage(state, workload);
  check_reader(state, workload);
  return workload;
}

}  // namespace forebay::workload

#include "workload/model_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace forebay::workload {

namespace {

constexpr std::string_view kByte = "int8";  // of states whose tensors are given in bytes
// Moments and master weights of the optimizer; between them what it keeps for each group.
constexpr int kOptimizerCopies = 3;
constexpr uint64_t kGroupVectors = 5;

uint64_t datatype_bytes(std::string_view name) {
  if (name == "fp64") return 8;
  if (name == "fp32") return 4;
  if (name == "fp16" || name == "bf16") return 2;
  return 1;
}

// Of a transformer with these dimensions, exactly or, where it may pass any integer, nearly.
template <class Number>
Number parameters_of(const Model& model) {
  if (!model.is_transformer() || !model.num_layers) return 0;
  const auto h = static_cast<Number>(model.hidden_size);
  const uint64_t head = model.hidden_size / model.num_attention_heads;  // rounded down, as there
  const auto kv = static_cast<Number>(head * model.num_kv_heads);
  const Number layer =
      2 * h + h * (h + 2 * kv) + h * h + 3 * h * static_cast<Number>(model.ffn_hidden_size);
  return 2 * static_cast<Number>(model.vocab_size) * h + h +
         static_cast<Number>(*model.num_layers) * layer;
}

// At least what all ranks save together.
double bytes_at_most(const Model& model, uint64_t ranks) {
  constexpr double kWidest = 8, kCopies = 4, kVectors = 15;
  double given = static_cast<double>(model.size_bytes);
  for (const uint64_t group : model.optimization_groups) given += 3 * static_cast<double>(group);
  for (const uint64_t elements : model.layer_parameters)
    given +=
        static_cast<double>(elements) * (static_cast<double>(model.num_layers.value_or(0)) + 3);
  const double vectors = kVectors * static_cast<double>(model.hidden_size);
  return kWidest *
         (kCopies * parameters_of<double>(model) + static_cast<double>(ranks) * (given + vectors));
}

uint64_t sum_of_bytes(const auto& parts) {
  return std::accumulate(parts.begin(), parts.end(), uint64_t{0},
                         [](uint64_t sum, const auto& part) { return sum + part.bytes(); });
}

}  // namespace

bool Model::is_transformer() const {
  return base::to_lower(type) == "transformer";
}

uint64_t StateTensor::bytes() const {
  return elements * datatype_bytes(datatype);
}

uint64_t StateFile::bytes() const {
  return sum_of_bytes(tensors);
}

bool ModelStates::is_transformer() const {
  return model_.is_transformer();
}

bool ModelStates::has_layers() const {
  return model_.num_layers && (is_transformer() || !model_.layer_parameters.empty());
}

Result<ModelStates> ModelStates::make(const Workload& workload, uint64_t ranks) {
  const Model& model = workload.model;
  ModelStates states(model, ranks);
  states.tensor_ = model.tensor_parallelism;
  states.pipeline_ = model.pipeline_parallelism;
  const uint64_t replica = states.tensor_ * states.pipeline_;
  if (workload.checkpoint.is_subset) {
    states.data_ = model.data_parallelism.value_or(0);
    if (ranks > states.ranks_of_all())
      return fail(
          ErrorCode::kInvalidArgument,
          "checkpoint.mode = subset: {} ranks are more than model.parallelism.data x tensor "
          "x pipeline = {} x {} x {} = {}",
          ranks, states.data_, states.tensor_, states.pipeline_, states.ranks_of_all());
  } else {
    if (ranks % replica != 0)
      return fail(ErrorCode::kInvalidArgument,
                  "{} rank{} cannot hold whole copies of the model: model.parallelism.tensor x "
                  "pipeline = {} x {} = {} ranks hold one. Set --accelerators to a multiple of {}, "
                  "or save the part of these ranks: checkpoint.mode=subset "
                  "model.parallelism.data=N",
                  ranks, ranks == 1 ? "" : "s", states.tensor_, states.pipeline_, replica, replica);
    states.data_ = ranks / replica;
  }
  if (bytes_at_most(model, ranks) >= 0x1p62)
    return fail(ErrorCode::kInvalidArgument,
                "impossible model: the state of {} ranks may pass 2^62 bytes", ranks);
  states.parameters_ = parameters_of<uint64_t>(model);
  return states;
}

std::vector<uint64_t> ModelStates::elements_of_layer(uint64_t index) const {
  std::vector<uint64_t> elements;
  if (!model_.layer_parameters.empty()) {
    for (const uint64_t given : model_.layer_parameters) elements.push_back(given / tensor_);
    return elements;
  }
  const uint64_t layers = model_.num_layers.value_or(0);
  const uint64_t h = model_.hidden_size, ffn = model_.ffn_hidden_size;
  const uint64_t kv = h / model_.num_attention_heads * model_.num_kv_heads;
  if (index == 0 || index == layers + 1)  // embedding, head
    elements = {h * model_.vocab_size / tensor_};
  else if (index == layers + 2)  // last norm
    elements = {h};
  else  // norm, attention, dense, norm, feed-forward up and gate, down
    elements = {h, h * (h + 2 * kv) / tensor_, h * h / tensor_,
                h, 2 * h * ffn / tensor_,      h * ffn / tensor_};
  if (model_.zero_stage == 3)
    for (uint64_t& count : elements) count /= data_;
  return elements;
}

std::vector<StateTensor> ModelStates::layer(uint64_t index) const {
  const std::string_view type =
      model_.layer_parameters.empty() ? std::string_view(model_.model_datatype) : kByte;
  std::vector<StateTensor> tensors;
  for (const uint64_t elements : elements_of_layer(index)) {
    if (elements > 0)
      tensors.push_back({fmt::format("layer_{}.{}", index, tensors.size()), type, elements});
  }
  return tensors;
}

std::vector<StateTensor> ModelStates::optimizer() const {
  std::vector<StateTensor> tensors;
  const auto add = [&](std::string name, std::string_view type, uint64_t elements) {
    if (elements > 0) tensors.push_back({std::move(name), type, elements});
  };
  if (!model_.optimization_groups.empty()) {
    uint64_t combined = 0;
    for (size_t i = 0; i < model_.optimization_groups.size(); ++i) {
      const uint64_t group = model_.optimization_groups[i];
      add(fmt::format("group_{}.a", i), kByte, group);
      add(fmt::format("group_{}.b", i), kByte, group);
      combined += group;
    }
    add("combined", kByte, combined);
    return tensors;
  }
  if (parameters_ == 0) return tensors;
  const uint64_t shares = tensor_ * pipeline_ * (model_.zero_stage > 0 ? data_ : 1);
  for (int i = 0; i < kOptimizerCopies; ++i) {
    add(fmt::format("optimizer.{}", 2 * i), model_.optimizer_datatype, parameters_ / shares);
    add(fmt::format("optimizer.{}", 2 * i + 1), model_.optimizer_datatype,
        kGroupVectors * model_.hidden_size);
  }
  return tensors;
}

// The layers of the rank's pipeline stage, in one file or one each.
void ModelStates::add_layers(uint64_t rank, std::vector<StateFile>& files) const {
  const uint64_t layers = model_.num_layers.value_or(0);
  const uint64_t stage = rank / tensor_ % pipeline_;
  const uint64_t each = layers / pipeline_, more = layers % pipeline_;
  uint64_t first = stage * each + std::min(stage, more) + 1;
  uint64_t end = first + each + (stage < more ? 1 : 0);
  if (stage == 0) first = 0;
  if (stage == pipeline_ - 1) end = layers + 3;
  const uint64_t replica = tensor_ * pipeline_;
  const uint64_t dp = rank / replica, mp = rank % replica;
  const bool is_sharded = model_.zero_stage == 0 || model_.zero_stage == 3;
  if (!is_sharded && dp > 0) return;
  const bool is_by_layer = !is_sharded && pipeline_ > 1;
  if (!is_by_layer)
    files.push_back({is_sharded ? fmt::format("zero_pp_rank_{}_mp_rank_{}_model_states", dp, mp)
                                : fmt::format("model_{}_model_states", mp),
                     {}});
  for (uint64_t index = first; index < end; ++index) {
    if (is_by_layer)
      files.push_back({fmt::format("layer_{}-model_{}_model_states", index, mp), {}});
    for (StateTensor& tensor : layer(index)) files.back().tensors.push_back(std::move(tensor));
  }
}

std::vector<StateFile> ModelStates::files_of(uint64_t rank) const {
  std::vector<StateFile> files;
  const uint64_t replica = tensor_ * pipeline_;
  const uint64_t dp = rank / replica, mp = rank % replica;
  if (model_.zero_stage == 0 && dp > 0) return files;  // copies of what the first ones save
  if (!is_transformer() && model_.size_bytes > 0)
    files.push_back({fmt::format("model_states-{}", rank), {{"model", kByte, model_.size_bytes}}});
  if (has_layers()) add_layers(rank, files);
  std::vector<StateTensor> state = optimizer();
  if (!state.empty())
    files.push_back(
        {fmt::format("zero_pp_rank_{}_mp_rank_{}_optim_states", dp, mp), std::move(state)});
  return files;
}

uint64_t ModelStates::bytes_of(uint64_t rank) const {
  return sum_of_bytes(files_of(rank));
}

uint64_t ModelStates::bytes() const {
  uint64_t all = 0;
  for (uint64_t rank = 0; rank < ranks_; ++rank) all += bytes_of(rank);
  return all;
}

}  // namespace forebay::workload

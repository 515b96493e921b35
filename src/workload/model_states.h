// What the ranks of a training job save: the files of one checkpoint, and the tensors in them, from
// the shape of the model and how it is split. The arithmetic is DLIO's, integer divisions included.
//
// Immutable; safe from any thread. Sizes are bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "workload/workload.h"

namespace forebay::workload {

// One-dimensional.
struct StateTensor {
  std::string name;           // within its file
  std::string_view datatype;  // as model.model_datatype: "fp16"
  uint64_t elements = 0;
  uint64_t bytes() const;
};

struct StateFile {
  std::string name;  // DLIO's, without its ending: "zero_pp_rank_0_mp_rank_3_optim_states"
  std::vector<StateTensor> tensors;
  uint64_t bytes() const;
};

class ModelStates {
 public:
  // `ranks` is how many there are. kInvalidArgument when they cannot hold the model: the message
  // names the keys and the numbers that can.
  static Result<ModelStates> make(const Workload& workload, uint64_t ranks);

  uint64_t parameters() const { return parameters_; }  // of a transformer; else 0
  uint64_t ranks() const { return ranks_; }
  uint64_t ranks_of_all() const { return data_ * tensor_ * pipeline_; }  // more in subset mode

  // Nothing for a rank that does not save.
  std::vector<StateFile> files_of(uint64_t rank) const;
  uint64_t bytes_of(uint64_t rank) const;
  uint64_t bytes() const;  // of all `ranks`

 private:
  ModelStates(const Model& model, uint64_t ranks) : model_(model), ranks_(ranks) {}
  bool is_transformer() const;
  bool has_layers() const;
  void add_layers(uint64_t rank, std::vector<StateFile>& files) const;
  std::vector<StateTensor> layer(uint64_t index) const;
  std::vector<uint64_t> elements_of_layer(uint64_t index) const;
  std::vector<StateTensor> optimizer() const;

  const Model model_;
  const uint64_t ranks_;
  uint64_t tensor_ = 1, pipeline_ = 1, data_ = 1;
  uint64_t parameters_ = 0;
};

}  // namespace forebay::workload

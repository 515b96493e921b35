// Goal: checkpoints hold exactly what DLIO's would: the number of files, their names, and the bytes
// of each. Method: the published figures of every shipped workload, sums over all ranks against
// formulas of their own, and the files of small models worked out by hand.
#include "workload/model_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace forebay::workload {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kGibi = 1024.0 * 1024 * 1024;

Workload workload_of(const std::string& name, const std::vector<std::string>& overrides = {}) {
  auto resolved = resolve(name, overrides);
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  return resolved.ok() ? resolved->workload : Workload();
}

ModelStates states_of(const Workload& workload, uint64_t ranks) {
  auto made = ModelStates::make(workload, ranks);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *made;
}

std::map<std::string, uint64_t> files_of(const ModelStates& states, uint64_t rank) {
  std::map<std::string, uint64_t> sizes;
  for (const StateFile& file : states.files_of(rank)) sizes[file.name] = file.bytes();
  return sizes;
}

struct Shipped {
  const char* name;
  uint64_t parameters;
  double model_gib, optimizer_gib, total_gib;  // 2 and 12 bytes a parameter
  uint64_t ranks;                              // of the closed division, or one copy
};

// In the order of the published table.
constexpr Shipped kShipped[] = {
    {"llama_7b", 6738415616, 12.6, 75.3, 87.9, 8},
    {"llama_7b_zero3", 6738415616, 12.6, 75.3, 87.9, 8},
    {"llama_8b_zero3", 8030261248, 15.0, 89.7, 104.7, 8},
    {"llama3_8b", 8030261248, 15.0, 89.7, 104.7, 8},
    {"llama_70b", 69882617856, 130.2, 781.0, 911.2, 64},
    {"llama_70b_zero3", 69882617856, 130.2, 781.0, 911.2, 64},
    {"llama3_70b", 69882617856, 130.2, 781.0, 911.2, 64},
    {"llama_405b", 405853388800, 756.0, 4535.8, 5291.7, 512},
    {"llama3_405b", 405853388800, 756.0, 4535.8, 5291.7, 512},
    {"llama_1t", 1183035102480, 2203.6, 13221.4, 15425.0, 1024},
    {"llama3_1t", 1183035102480, 2203.6, 13221.4, 15425.0, 1024},
};

TEST(ModelStates, ShippedWorkloadsSaveFourteenBytesAParameter) {
  for (const Shipped& shipped : kShipped) {
    SCOPED_TRACE(shipped.name);
    const ModelStates states = states_of(workload_of(shipped.name), shipped.ranks);
    EXPECT_EQ(states.parameters(), shipped.parameters);
    uint64_t model = 0, optimizer = 0;
    for (uint64_t rank = 0; rank < shipped.ranks; ++rank) {
      for (const auto& [name, bytes] : files_of(states, rank))
        (name.ends_with("optim_states") ? optimizer : model) += bytes;
    }
    const auto parameters = static_cast<double>(states.parameters());
    EXPECT_NEAR(2 * parameters / kGibi, shipped.model_gib, 0.0501);  // published with one digit
    EXPECT_NEAR(12 * parameters / kGibi, shipped.optimizer_gib, 0.0501);
    EXPECT_NEAR(14 * parameters / kGibi, shipped.total_gib, 0.0501);
    // The files hold a little more: norms on every tensor rank, and the optimizer's vectors.
    EXPECT_NEAR(static_cast<double>(model) / parameters, 2, 1e-3);
    EXPECT_NEAR(static_cast<double>(optimizer) / parameters, 12, 1e-2);
    EXPECT_EQ(states.bytes(), model + optimizer);
    // Exactly: each rank holds its share of the parameters three times, and 15 vectors.
    const Model model_keys = workload_of(shipped.name).model;
    EXPECT_EQ(optimizer,
              shipped.ranks * 4 *
                  (3 * (states.parameters() / shipped.ranks) + 15 * model_keys.hidden_size));
  }
}

TEST(ModelStates, EveryFileHasOneWriter) {
  for (const Shipped& shipped : kShipped) {
    const ModelStates states = states_of(workload_of(shipped.name), shipped.ranks);
    std::set<std::string> names;
    for (uint64_t rank = 0; rank < shipped.ranks; ++rank) {
      for (const StateFile& file : states.files_of(rank)) {
        EXPECT_TRUE(names.insert(file.name).second) << shipped.name << ": " << file.name;
        std::set<std::string> tensors;
        for (const StateTensor& tensor : file.tensors)
          EXPECT_TRUE(tensors.insert(tensor.name).second) << file.name << ": " << tensor.name;
      }
    }
  }
}

TEST(ModelStates, ZeroThreeSplitsTheModelToo) {
  const ModelStates states = states_of(workload_of("llama3_8b"), 8);
  const uint64_t share = 8030261248 / 8;
  for (const uint64_t rank : {0, 7}) {
    const std::string stem = "zero_pp_rank_" + std::to_string(rank) + "_mp_rank_0_";
    EXPECT_THAT(files_of(states, rank),
                ElementsAre(std::pair(stem + "model_states", 2 * share),
                            std::pair(stem + "optim_states", 4 * (3 * share + 15 * 4096))));
  }
}

// Per layer and rank of a 2-layer model of width 512: the sizes of a run of DLIO itself.
TEST(ModelStates, EqualAMeasuredRunOfDlio) {
  const Workload workload =
      workload_of("llama_8b_zero3",
                  {"model.num_layers=2", "model.transformer.hidden_size=512",
                   "model.transformer.vocab_size=1000", "model.transformer.num_attention_heads=8",
                   "model.transformer.num_kv_heads=8", "model.transformer.ffn_hidden_size=1024"});
  const std::map<std::string, uint64_t> files = files_of(states_of(workload, 1), 0);
  ASSERT_EQ(files.size(), 2u);
  // torch.save adds its container: an entry of some 190 bytes for each tensor.
  constexpr uint64_t kModelFile = 12542648, kOptimizerFile = 75265687;
  const uint64_t model = files.at("zero_pp_rank_0_mp_rank_0_model_states");
  const uint64_t optimizer = files.at("zero_pp_rank_0_mp_rank_0_optim_states");
  EXPECT_LT(model, kModelFile);
  EXPECT_GT(model + 6000, kModelFile);
  EXPECT_LT(optimizer, kOptimizerFile);
  EXPECT_GT(optimizer + 4000, kOptimizerFile);
}

TEST(ModelStates, PipelineStagesSaveTheirLayersOneByOne) {
  const Workload workload = workload_of(
      "llama_70b", {"model.num_layers=5", "model.parallelism.tensor=2",
                    "model.parallelism.pipeline=2", "model.transformer.hidden_size=64",
                    "model.transformer.vocab_size=100", "model.transformer.num_attention_heads=8",
                    "model.transformer.num_kv_heads=2", "model.transformer.ffn_hidden_size=96"});
  const ModelStates states = states_of(workload, 8);
  EXPECT_EQ(states.ranks_of_all(), 8u);
  // h 64, kv 64/8*2 = 16: 64 + 64*96/2 + 64*64/2 + 64 + 2*64*96/2 + 64*96/2 elements of 2 bytes.
  const uint64_t layer = 2 * (64 + 3072 + 2048 + 64 + 6144 + 3072);
  const uint64_t table = 2 * 64 * 100 / 2;
  const uint64_t parameters = 2 * 6400 + 64 + 5 * (128 + 64 * 96 + 64 * 64 + 3 * 64 * 96);
  EXPECT_EQ(states.parameters(), parameters);
  const uint64_t optimizer = 4 * (3 * (parameters / 8) + 15 * 64);
  EXPECT_THAT(files_of(states, 1),
              ElementsAre(std::pair("layer_0-model_1_model_states", table),
                          std::pair("layer_1-model_1_model_states", layer),
                          std::pair("layer_2-model_1_model_states", layer),
                          std::pair("layer_3-model_1_model_states", layer),
                          std::pair("zero_pp_rank_0_mp_rank_1_optim_states", optimizer)));
  EXPECT_THAT(files_of(states, 2),
              ElementsAre(std::pair("layer_4-model_2_model_states", layer),
                          std::pair("layer_5-model_2_model_states", layer),
                          std::pair("layer_6-model_2_model_states", table),
                          std::pair("layer_7-model_2_model_states", 2 * 64),
                          std::pair("zero_pp_rank_0_mp_rank_2_optim_states", optimizer)));
  EXPECT_THAT(files_of(states, 6),  // the second copy has only its share of the optimizer
              ElementsAre(std::pair("zero_pp_rank_1_mp_rank_2_optim_states", optimizer)));
}

TEST(ModelStates, WithoutZeroOnlyTheFirstCopySaves) {
  const Workload workload = workload_of("llama_8b_zero3", {"model.parallelism.zero_stage=0"});
  const ModelStates states = states_of(workload, 2);
  EXPECT_THAT(states.files_of(1), IsEmpty());
  EXPECT_EQ(files_of(states, 0).size(), 2u);
  EXPECT_EQ(states.bytes(), states.bytes_of(0));
}

TEST(ModelStates, ASubsetSavesThePartOfItsRanks) {
  const Workload whole = workload_of("llama3_405b");
  const Workload subset =
      workload_of("llama3_405b", {"checkpoint.mode=subset", "model.parallelism.data=2"});
  const ModelStates all = states_of(whole, 512), some = states_of(subset, 8);
  EXPECT_EQ(some.ranks_of_all(), 512u);
  for (uint64_t rank = 0; rank < 8; ++rank) EXPECT_EQ(files_of(some, rank), files_of(all, rank));
  EXPECT_THAT(ModelStates::make(subset, 513).error().message, HasSubstr("2 x 8 x 32 = 512"));
}

TEST(ModelStates, RanksHoldWholeCopies) {
  const auto error = ModelStates::make(workload_of("llama_70b"), 48).error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("Set --accelerators to a multiple of 32"));
}

TEST(ModelStates, SizesThatAreGivenCountAsBytes) {
  const ModelStates states = states_of(workload_of("megatron_deepspeed_LLNL"), 32);
  const uint64_t layer = 52583936 / 4 + 209715200 / 4;
  const uint64_t groups = 1009254400 + 865075200 + 793600;
  const auto first = files_of(states, 0);  // layers 0 to 5, the model's own bytes, the optimizer
  EXPECT_EQ(first.size(), 8u);
  EXPECT_EQ(first.at("layer_5-model_0_model_states"), layer);
  EXPECT_EQ(first.at("model_states-0"), 30102u);
  EXPECT_EQ(first.at("zero_pp_rank_0_mp_rank_0_optim_states"), 3 * groups);
  EXPECT_THAT(files_of(states_of(workload_of("unet3d_h100"), 4), 0),
              ElementsAre(std::pair("model_states-0", 499153191)));
}

TEST(ModelStates, ImpossibleModelsAreRefused) {
  const Workload workload = workload_of(
      "llama_8b_zero3", {"model.num_layers=1000000", "model.transformer.hidden_size=1000000000",
                         "model.transformer.ffn_hidden_size=1000000000"});
  EXPECT_THAT(ModelStates::make(workload, 1).error().message, HasSubstr("impossible model"));
}

}  // namespace
}  // namespace forebay::workload

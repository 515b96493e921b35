// For tests only: a state of tensors with known contents, and ranks that are threads.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/random.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {

// Owns the bytes that the parts of a state show.
class StateForTest {
 public:
  explicit StateForTest(uint64_t seed) : random_(seed) {}

  void add(const std::string& name, const std::string& type, std::vector<uint64_t> shape,
           uint64_t element_bytes) {
    uint64_t bytes = element_bytes;
    for (const uint64_t side : shape) bytes *= side;
    memory_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    random_.fill(*memory_.back());
    state.tensors.push_back({name, type, std::move(shape), *memory_.back()});
  }
  // A few of all sizes.
  void add_some() {
    add("model.weight", "float32", {37, 129}, 4);
    add("model.bias", "bfloat16", {129}, 2);
    add("optimizer.step", "int64", {}, 8);
    add("mask", "bool", {5, 3, 7}, 1);
    add("nothing", "float64", {0, 4}, 8);
    state.tree = R"({"epoch": 3, "loader": {"seed": 1}})";
    state.metadata = {{"user", "data"}};
  }
  // The whole tensor `name` as bytes.
  std::span<const std::byte> bytes_of(const std::string& name) const {
    for (const TensorPart& part : state.tensors) {
      if (part.name == name) return part.bytes;
    }
    return {};
  }

  CheckpointState state;

 private:
  base::Random random_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
};

// Whether `restored` has exactly the tensors of `state`.
inline bool is_same(const Restored& restored, const CheckpointState& state) {
  if (restored.tensors.size() != state.tensors.size() || restored.tree != state.tree) return false;
  for (const TensorPart& part : state.tensors) {
    bool is_found = false;
    for (const RestoredTensor& tensor : restored.tensors) {
      if (tensor.name != part.name) continue;
      is_found = tensor.shape == part.shape && tensor.element_type == part.element_type &&
                 tensor.bytes.size() == part.bytes.size() &&
                 (part.bytes.empty() ||
                  std::memcmp(tensor.bytes.data(), part.bytes.data(), part.bytes.size()) == 0);
    }
    if (!is_found) return false;
  }
  return true;
}

// Ranks that are threads of one program.
class RanksForTest {
 public:
  explicit RanksForTest(int size) : size_(size), said_(static_cast<size_t>(size)) {}

  std::shared_ptr<RankGroup> rank(int rank) { return std::make_shared<Rank>(*this, rank); }

 private:
  class Rank final : public RankGroup {
   public:
    Rank(RanksForTest& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) override {
      return all_.gather(rank_, mine, std::move(stop));
    }

   private:
    RanksForTest& all_;
    const int rank_;
  };

  Result<std::vector<std::string>> gather(int rank, std::string_view mine, std::stop_token stop) {
    base::MutexLock lock(mutex_);
    said_[static_cast<size_t>(rank)] = mine;
    const uint64_t round = round_;
    if (++came_ == said_.size()) {
      came_ = 0;
      heard_ = said_;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait(mutex_, std::move(stop),
                              [&]() FB_REQUIRES(mutex_) { return round_ != round; })) {
      return fail(ErrorCode::kCancelled, "stopped");
    }
    return heard_;
  }

  const int size_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> said_ FB_GUARDED_BY(mutex_), heard_ FB_GUARDED_BY(mutex_);
  size_t came_ FB_GUARDED_BY(mutex_) = 0;
  uint64_t round_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::checkpoint

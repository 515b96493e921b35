// Which positions of the canonical order make up batch `step` of rank `rank`.
//
// A value. Step s of all ranks together covers the positions [s * B * W, (s + 1) * B * W), rank by
// rank, so the stream does not depend on how many ranks consume it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace forebay::loader {

enum class Tail {
  kDrop,  // only whole steps; what is left over is not visited
  kEven,  // one more, smaller step when every rank gets at least one sample of it
  kAll,   // every sample once; ranks may differ by one batch (evaluation without barriers)
  kPad,  // every sample once, the same number of steps for all; the last may lack samples, even all
};

struct Stripe {
  uint64_t sample_count = 0;  // from first_position on
  uint64_t first_position = 0;
  uint64_t batch_size = 1;
  uint64_t world_size = 1;
  Tail tail = Tail::kDrop;

  bool operator==(const Stripe&) const = default;
  uint64_t step_samples() const { return batch_size * world_size; }
  uint64_t whole_steps() const { return sample_count / step_samples(); }
  uint64_t left_over() const { return sample_count % step_samples(); }

  uint64_t steps(uint64_t rank) const {
    const bool has_last = tail == Tail::kPad ? left_over() > 0 : tail_samples(rank) > 0;
    return whole_steps() + (has_last ? 1 : 0);
  }
  uint64_t batch_samples(uint64_t step, uint64_t rank) const {
    return step < whole_steps() ? batch_size : tail_samples(rank);
  }
  uint64_t position(uint64_t step, uint64_t rank, uint64_t slot) const {
    if (step < whole_steps())
      return first_position + step * step_samples() + rank * batch_size + slot;
    return first_position + whole_steps() * step_samples() + tail_start(rank) + slot;
  }

 private:
  bool has_tail() const {
    return tail == Tail::kAll || tail == Tail::kPad ||
           (tail == Tail::kEven && left_over() >= world_size);
  }
  uint64_t tail_samples(uint64_t rank) const {
    if (!has_tail()) return 0;
    return left_over() / world_size + (rank < left_over() % world_size ? 1 : 0);
  }
  uint64_t tail_start(uint64_t rank) const {
    return rank * (left_over() / world_size) + std::min(rank, left_over() % world_size);
  }
};

}  // namespace forebay::loader

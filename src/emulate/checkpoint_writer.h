// Writes the model's bytes while training waits: one file, synced when asked, published whole.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "emulate/result.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::emulate {

class CheckpointWriter {
 public:
  static std::unique_ptr<CheckpointWriter> open(std::unique_ptr<storage::Store> store,
                                                const workload::Checkpoint& checkpoint,
                                                uint64_t model_bytes, uint64_t seed);

  // global_epoch<E>_step<S>/model_states-0.pt, E and S from 1 as DLIO counts them. The record's
  // times are left at 0 except `seconds`.
  Result<CheckpointRecord> save(uint64_t epoch, uint64_t step, const std::stop_token& stop);

 private:
  CheckpointWriter(std::unique_ptr<storage::Store> store, const workload::Checkpoint& checkpoint,
                   uint64_t model_bytes, uint64_t seed);
  std::unique_ptr<storage::Store> store_;
  const uint64_t model_bytes_;
  const bool sync_;
  std::vector<std::byte> block_;  // incompressible, or ones
};

}  // namespace forebay::emulate

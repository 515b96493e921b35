// The files that one rank saves in a checkpoint and reads back: safetensors with the names that
// DLIO gives them, made while they are written and checked while they are read.
//
// Functions; from any thread, for different ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "emulate/state_payload.h"
#include "forebay/result.h"
#include "storage/store.h"
#include "workload/model_states.h"

namespace forebay::emulate {

// Of the bytes that have a checksum of their own, and of all buffers.
constexpr uint64_t kCheckpointChunkBytes = 4 << 20;

// As they stand in a manifest; pieces count the shards from 0.
struct RankFiles {
  std::vector<checkpoint::Shard> shards;
  std::vector<checkpoint::SavedTensor> tensors;
};

struct RankWriting {
  std::string place;      // of the store, for errors
  std::string folder;     // below it
  uint64_t identity = 0;  // of the save: other saves hold other bytes
  uint32_t process = 0;   // that owns the shards
  bool syncs = true;
};

// Writes, syncs and publishes all of a rank's files, one after the other. `done` grows by what is
// written. kCancelled on a stop; errors of the store name the file.
Result<RankFiles> write_rank_files(storage::Store& store,
                                   const std::vector<workload::StateFile>& files,
                                   const RankWriting& how, StatePayload& payload,
                                   std::atomic<uint64_t>& done, const std::stop_token& stop);

// "zero_pp_rank_0_mp_rank_0_optim_states.safetensors"
std::string shard_name(const workload::StateFile& file);

struct RankReading {
  std::string folder;
  uint64_t chunk_bytes = kCheckpointChunkBytes;  // as the manifest says
  int depth = 1;                                 // reads in flight
  // Told of each read that ended; may be null.
  std::function<void(std::string_view path, const storage::Completion& read)> on_read{};
};

// Reads these shards to the end and drops them; each chunk's checksum is checked. Bytes read.
Result<uint64_t> read_rank_files(storage::Store& store,
                                 const std::vector<const checkpoint::Shard*>& shards,
                                 const RankReading& how, std::atomic<uint64_t>& done,
                                 std::atomic<uint64_t>& retries, const std::stop_token& stop);

}  // namespace forebay::emulate

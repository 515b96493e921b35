#include "emulate/rank_files.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_io.h"
#include "checkpoint/shard_plan.h"

namespace forebay::emulate {
namespace {

using checkpoint::Shard;
using checkpoint::StoredChunk;
using checkpoint::TensorType;

TensorType type_of(std::string_view datatype) {
  static constexpr std::array<std::pair<std::string_view, TensorType>, 6> kTypes{
      {{"fp16", TensorType::kF16},
       {"bf16", TensorType::kBF16},
       {"fp32", TensorType::kF32},
       {"fp64", TensorType::kF64},
       {"int8", TensorType::kI8},
       {"uint8", TensorType::kU8}}};
  for (const auto& [name, type] : kTypes)
    if (name == datatype) return type;
  FB_CHECK(false);  // the workload has no others
  return TensorType::kU8;
}

// Adds a file's tensors to what the manifest says, and makes its header.
Result<std::string> describe(const workload::StateFile& file, uint32_t index, RankFiles& out) {
  checkpoint::SafetensorsHeader header;
  uint64_t offset = 0;
  for (const workload::StateTensor& tensor : file.tensors) {
    header.tensors.push_back({.name = file.name + "." + tensor.name,
                              .type = type_of(tensor.datatype),
                              .shape = {tensor.elements},
                              .offset = offset,
                              .bytes = tensor.bytes()});
    offset += tensor.bytes();
  }
  std::string text =
      FB_TRY(checkpoint::make_safetensors_header(header, checkpoint::kShardAlignBytes));
  for (const checkpoint::TensorEntry& entry : header.tensors)
    out.tensors.push_back({.name = entry.name,
                           .type = entry.type,
                           .shape = entry.shape,
                           .pieces = {{index, text.size() + entry.offset, {0}, entry.shape}}});
  return text;
}

// Computes the checksum of one chunk as its bytes arrive.
class ChunkCheck final : public storage::PieceVisitor {
 public:
  void begin() { crc_ = 0; }
  void visit(std::span<const std::byte> piece) override { crc_ = base::crc32c(crc_, piece); }
  uint32_t crc() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

struct Chunk {
  const std::string* path = nullptr;
  const Shard* shard = nullptr;
  size_t index = 0;
  StoredChunk place;
};

// Keeps `depth` chunks in flight.
class ChunkReads {
 public:
  ChunkReads(std::unique_ptr<storage::ReadQueue> queue, std::vector<Chunk> chunks,
             const RankReading& how)
      : how_(how),
        chunks_(std::move(chunks)),
        slots_(static_cast<size_t>(std::max(1, how.depth))),
        queue_(std::move(queue)) {}

  Status run(std::atomic<uint64_t>& done, std::atomic<uint64_t>& retries,
             const std::stop_token& stop) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) submit(slot);
    std::array<storage::Completion, 16> finished;
    while (in_flight_ > 0) {
      const size_t count = queue_->reap(finished, stop);
      if (count == 0) return fail(ErrorCode::kCancelled, "stopped");
      for (size_t i = 0; i < count; ++i) {
        const storage::Completion& read = finished[i];
        --in_flight_;
        retries += static_cast<uint64_t>(read.retries);
        FB_TRY(Status(read.status));
        if (how_.on_read) how_.on_read(*chunks_[slots_[read.tag].chunk].path, read);
        FB_TRY(check(slots_[read.tag]));
        done += read.bytes;
        submit(read.tag);
      }
    }
    return {};
  }

 private:
  struct Slot {
    ChunkCheck check;
    size_t chunk = 0;
  };

  void submit(size_t number) {
    if (next_ == chunks_.size()) return;
    Slot& slot = slots_[number];
    slot.chunk = next_++;
    slot.check.begin();
    const Chunk& chunk = chunks_[slot.chunk];
    const storage::Read read{.path = *chunk.path,
                             .offset = chunk.place.offset,
                             .length = chunk.place.bytes,
                             .visitor = &slot.check,
                             .keep_open = true,
                             .tag = number};
    ++in_flight_;
    queue_->submit({&read, 1});
  }

  Status check(const Slot& slot) const {
    const Chunk& chunk = chunks_[slot.chunk];
    if (slot.check.crc() == chunk.shard->chunk_crcs[chunk.index]) return {};
    return fail(ErrorCode::kCorruption,
                "{}: bytes {} to {} are damaged: crc32c {:08x}, saved as "
                "{:08x}",
                *chunk.path, chunk.place.offset, chunk.place.offset + chunk.place.bytes,
                slot.check.crc(), chunk.shard->chunk_crcs[chunk.index]);
  }

  const RankReading& how_;
  const std::vector<Chunk> chunks_;
  std::vector<Slot> slots_;
  size_t next_ = 0, in_flight_ = 0;
  std::unique_ptr<storage::ReadQueue> queue_;  // goes first: its reads use the slots
};

}  // namespace

std::string shard_name(const workload::StateFile& file) {
  return file.name + ".safetensors";
}

Result<RankFiles> write_rank_files(storage::Store& store,
                                   const std::vector<workload::StateFile>& files,
                                   const RankWriting& how, StatePayload& payload,
                                   std::atomic<uint64_t>& done, const std::stop_token& stop) {
  RankFiles out;
  const checkpoint::Admission admit = [&](uint64_t bytes) -> Status {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    done += bytes;
    return {};
  };
  for (const workload::StateFile& file : files) {
    const auto index = static_cast<uint32_t>(out.shards.size());
    const std::string header = FB_TRY(describe(file, index, out));
    Shard& shard = out.shards.emplace_back();
    shard.file = shard_name(file);
    shard.rank = how.process;
    uint64_t identity = how.identity;
    for (const char c : file.name) identity = base::derive_seed(identity, static_cast<uint64_t>(c));
    const checkpoint::ShardImage image{header, file.bytes(),
                                       [&payload, identity](uint64_t begin, uint64_t bytes) {
                                         return payload.piece(identity, begin, bytes);
                                       }};
    FB_TRY(checkpoint::write_shard(store, how.folder, image,
                                   {.chunk_bytes = kCheckpointChunkBytes, .syncs = how.syncs},
                                   admit, shard)
               .context(how.place));
  }
  return out;
}

Result<uint64_t> read_rank_files(storage::Store& store, const std::vector<const Shard*>& shards,
                                 const RankReading& how, std::atomic<uint64_t>& done,
                                 std::atomic<uint64_t>& retries, const std::stop_token& stop) {
  std::vector<std::string> paths;
  for (const Shard* shard : shards) paths.push_back(how.folder + "/" + shard->file);
  std::vector<Chunk> chunks;
  uint64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto places = checkpoint::stored_chunks(*shards[i], how.chunk_bytes);
    for (size_t k = 0; k < places.size(); ++k)
      chunks.push_back({&paths[i], shards[i], k, places[k]});
    bytes += checkpoint::stored_bytes(*shards[i]);
  }
  auto queue = FB_TRY(store.open_queue({.depth = how.depth, .name = "restore"}));
  FB_TRY(ChunkReads(std::move(queue), std::move(chunks), how).run(done, retries, stop));
  return bytes;
}

}  // namespace forebay::emulate

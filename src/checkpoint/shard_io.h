// The bytes of one shard on their way: from memory into a file, and from one tier to another. Each
// chunk's checksum is computed from memory before it is written, and checked whenever it is read.
//
// Pure functions of their arguments; from any thread, for different files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::checkpoint {

// Asked before each chunk is moved; waits where there is a reason to, and fails on a stop.
using Admission = std::function<Status(uint64_t bytes)>;

// Gives [begin, begin + bytes) of a shard's data, wherever it comes from; good until the next call.
using DataSource = std::function<std::span<const std::byte>(uint64_t begin, uint64_t bytes)>;

struct ShardImage {
  std::string_view header;
  uint64_t data_bytes = 0;
  DataSource data;  // asked from front to back, a chunk at a time
};

// Length of a file of a checkpoint. kCorruption when something else has its name: a folder, a pipe,
// a device, a link that may lead anywhere.
Result<uint64_t> file_bytes(storage::Store& store, const std::string& path);
// Whether FOLDER/SHARD.file is such a file, as long as it was saved. Reads nothing.
Status check_file(storage::Store& store, std::string_view folder, const Shard& shard);

struct ShardWriting {
  uint64_t chunk_bytes = 8 << 20;
  bool packs = false;
  bool syncs = true;  // false: for measuring what syncing costs; the checkpoint may tear
};

// Writes, syncs where that is asked for and the store can, and publishes FOLDER/FILE. `shard.file`
// and `shard.rank` are given, the rest is filled in.
Status write_shard(storage::Store& store, std::string_view folder, const ShardImage& image,
                   const ShardWriting& how, const Admission& admit, Shard& shard);

// The checksums of the chunks that write_shard() would write unpacked.
std::vector<uint32_t> chunk_crcs_of(const ShardImage& image, uint64_t chunk_bytes);

// Whether FOLDER/SHARD.file, unpacked, holds exactly `image`: every byte is read and compared.
bool holds_image(storage::Store& store, std::string_view folder, const Shard& shard,
                 uint64_t chunk_bytes, const ShardImage& image);

// Whether two files hold the same bytes: checksums first, then every byte. `admit` is asked for
// what is read.
bool hold_the_same(storage::Store& one, std::string_view one_folder, const Shard& shard,
                   storage::Store& other, std::string_view other_folder, const Shard& other_shard,
                   uint64_t chunk_bytes, const Admission& admit);

// A stored chunk of FOLDER/SHARD.file: `out` has its stored length. kCorruption when it is not what
// its checksum says.
Status read_chunk(storage::Store& store, std::string_view folder, const Shard& shard, size_t chunk,
                  const StoredChunk& place, std::span<std::byte> out);

// Where a chunk's bytes go as they come, before its checksum is known.
class ChunkTarget {
 public:
  virtual ~ChunkTarget() = default;
  // Memory for the bytes from `offset` of the chunk on: at least for one, at most for `bytes`.
  virtual std::span<std::byte> place(uint64_t offset, uint64_t bytes) = 0;
  virtual void arrived(uint64_t offset, std::span<const std::byte> bytes) = 0;
};
// The same as read_chunk, in pieces that stay in a core's cache until their checksum is computed
// where the store is local; else as large as `target` has room, at most the chunk.
Status stream_chunk(storage::Store& store, std::string_view folder, const Shard& shard,
                    size_t chunk, const StoredChunk& place, ChunkTarget& target);

// Reads all chunks and drops them. The first error names the chunk.
Status check_shard(storage::Store& store, std::string_view folder, const Shard& shard,
                   uint64_t chunk_bytes, const Admission& admit);

// Copies a shard from one store to another; it is published there once it is whole.
Status copy_shard(storage::Store& from, std::string_view from_folder, storage::Store& to,
                  std::string_view to_folder, const Shard& shard, uint64_t chunk_bytes,
                  const Admission& admit);

// What a stored chunk stands for. `out` has the chunk's length in the shard.
Status unpack_chunk(std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace forebay::checkpoint

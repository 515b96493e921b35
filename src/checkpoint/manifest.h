// What a checkpoint holds and where: the file manifest.json that makes a folder a checkpoint.
// Grammar: docs/formats/checkpoint.md. Files may come from anywhere: nothing in them is trusted.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_type.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 1;
inline constexpr uint64_t kManifestBytesMax = 64 << 20;
inline constexpr uint64_t kChunkBytesMax = 64 << 20;

// One file of the checkpoint's folder.
struct Shard {
  std::string file;    // its name there
  uint32_t rank = 0;   // that wrote it
  uint64_t bytes = 0;  // of the safetensors file
  // CRC32C of each chunk as it is stored: chunk_bytes of the file, the last shorter, or its frame.
  std::vector<uint32_t> chunk_crcs{};
  std::vector<uint64_t> packed_bytes{};  // with zstd: of each chunk's frame; they follow each other
  bool is_elsewhere = false;  // on other hosts, each of which has a place of this name of its own
};

// A box of a tensor, in one shard.
struct Piece {
  uint32_t shard = 0;           // index in Manifest::shards
  uint64_t offset = 0;          // of its bytes, in the safetensors file
  std::vector<uint64_t> start;  // its first element, in the whole tensor
  std::vector<uint64_t> shape;
};

struct SavedTensor {
  std::string name;
  TensorType type = TensorType::kU8;
  std::vector<uint64_t> shape;  // of the whole
  std::vector<Piece> pieces;    // that fill it exactly
};

struct Manifest {
  uint64_t step = 0;
  uint32_t id = 0;            // of this save: another one of the same step has another
  int64_t saved_unix_ns = 0;  // for people; no decision hangs on it
  std::string tool;           // "forebay 0.1.0"
  uint32_t world_size = 1;    // ranks that saved
  uint64_t chunk_bytes = 0;
  bool is_packed = false;  // shards are zstd frames, one a chunk
  std::vector<Shard> shards{};
  std::vector<SavedTensor> tensors{};  // by name
  std::string tree{};                  // JSON text: the rest of the state
  std::map<std::string, std::string> metadata{};
  std::map<std::string, double> metrics{};
};

std::string write_manifest(const Manifest& manifest);
// Puts the right checksum into a text that begins as a manifest does; others stay as they are. What
// a fuzzer changed is then looked at.
void seal_manifest(std::string& text);

// kPart: what one rank tells the others; its tensors need not be filled.
enum class Coverage { kWhole, kPart };

// kCorruption names the first rule that the text breaks: its own checksum, shards with the names of
// files elsewhere or of each other, pieces outside their shard, overlapping or leaving holes.
// kUnsupported: a newer version. Memory is bounded by a small multiple of text.size() and 16 MiB.
Result<Manifest> parse_manifest(std::string_view text, Coverage coverage = Coverage::kWhole);

// One manifest of what all ranks wrote; the tree, names and metrics are those of rank 0. A part
// that several wrote is kept once. kInvalidArgument when the parts do not fill their tensors or
// differ in what a tensor is.
//
// `is_here`, by rank, is of a place where the files of some ranks are: those come first and give
// what several wrote, the others' are elsewhere. Empty: all are here.
Result<Manifest> merge_manifests(std::vector<Manifest> parts,
                                 const std::vector<bool>& is_here = {});

// Whether some of its shards are elsewhere; and the same checkpoint where all are together.
bool is_spread(const Manifest& manifest);
Manifest gathered(Manifest manifest);

// Of a shard's file, and of all of them that are here.
uint64_t stored_bytes(const Shard& shard);
uint64_t stored_bytes(const Manifest& manifest);

// Where a chunk lies in its file, and how long it is there.
struct StoredChunk {
  uint64_t offset = 0, bytes = 0;
};
std::vector<StoredChunk> stored_chunks(const Shard& shard, uint64_t chunk_bytes);

}  // namespace forebay::checkpoint

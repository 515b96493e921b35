// The chunks of a trace file: what every one of them begins with, and the bytes of those that hold
// definitions. docs/formats/trace.md is the grammar.
//
// Pure functions. Decoding takes foreign bytes and ends with a value or an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "trace/dictionary.h"
#include "trace/model.h"

namespace forebay::trace {

inline constexpr std::array<std::byte, 8> kFileMagic = {
    std::byte{'F'}, std::byte{'B'}, std::byte{'T'}, std::byte{'R'},
    std::byte{'A'}, std::byte{'C'}, std::byte{'E'}, std::byte{1}};  // the last is the version

// The numbers are in files: append only.
enum class ChunkKind : uint8_t {
  kTexts = 1,
  kTracks = 2,
  kNames = 3,
  kKeys = 4,
  kFrames = 5,
  kStacks = 6,
  kEvents = 7,
  kClock = 8,
  kFacts = 9,
  kRenames = 10,  // tracks whose text or rank became known later
  kEnd = 11,      // the writer finished: nothing follows
};

// What a reader refuses to allocate for, however large a file says its chunk is.
inline constexpr size_t kChunkRowsMax = size_t{1} << 20;
inline constexpr size_t kChunkBytesMax = size_t{256} << 20;

inline constexpr size_t kChunkHeaderBytes = 24;

struct ChunkHeader {
  ChunkKind kind = ChunkKind::kEnd;
  bool is_compressed = false;  // by zstd
  uint32_t stored_bytes = 0;   // of the payload, behind the header
  uint32_t raw_bytes = 0;      // of the payload, decompressed
  uint32_t rows = 0;
  uint32_t crc32c = 0;  // of the header before this field, and the stored payload
};

// One whole chunk. level: zstd's; 0 stores the payload as it is.
std::vector<std::byte> make_chunk(ChunkKind kind, size_t rows, std::span<const std::byte> payload,
                                  int level);

// Fails with kCorruption when this is no header, or one larger than the limits above.
Result<ChunkHeader> parse_chunk_header(std::span<const std::byte, kChunkHeaderBytes> bytes);

// The payload of a chunk, its checksum compared and decompressed.
Result<std::vector<std::byte>> open_chunk(std::span<const std::byte, kChunkHeaderBytes> header,
                                          std::span<const std::byte> stored);

// Facts about a recording, such as "command" or "dropped"; trace/facts.h has the keys.
using Facts = std::map<std::string, std::string>;

// Definitions from number `first` on.
std::vector<std::byte> encode_texts(std::span<const std::string> texts);
std::vector<std::byte> encode_tracks(std::span<const Track> tracks);
std::vector<std::byte> encode_names(std::span<const Name> names);
std::vector<std::byte> encode_keys(std::span<const Key> keys);
std::vector<std::byte> encode_frames(std::span<const Frame> frames);
std::vector<std::byte> encode_stacks(std::span<const Stack> stacks);
std::vector<std::byte> encode_clock(std::span<const ClockPair> pairs);
std::vector<std::byte> encode_facts(const Facts& facts);
std::vector<std::byte> encode_renames(std::span<const std::pair<TrackId, Track>> renames);

// Appends to the dictionary. Fails with kCorruption when the bytes are not `rows` definitions, or
// when one refers to a number that is not defined.
Status decode_texts(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_tracks(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_names(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_keys(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_frames(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_stacks(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_renames(std::span<const std::byte> bytes, size_t rows, Dictionary& into);
Status decode_clock(std::span<const std::byte> bytes, size_t rows, std::vector<ClockPair>& into);
Status decode_facts(std::span<const std::byte> bytes, size_t rows, Facts& into);

}  // namespace forebay::trace

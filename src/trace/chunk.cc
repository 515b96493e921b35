#include "trace/chunk.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc.h"
#include "base/error.h"
#include "trace/varint.h"

namespace forebay::trace {

namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kMark = 0x4b4e4843;  // "CHNK"
constexpr size_t kCrcAt = 20;

void put_word(std::byte* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

uint32_t get_word(const std::byte* at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(at[i]) << (8 * i);
  return value;
}

Error bad(std::string_view what) {
  return fail(ErrorCode::kCorruption, "trace: {}", what);
}

void put_text(Bytes& out, std::string_view text) {
  put_varint(out, text.size());
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::string get_text(VarintReader& in) {
  const auto bytes = in.take(in.next());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads `rows` things of one kind; each must be whole and valid.
template <class Read>
Status decode_rows(std::span<const std::byte> bytes, size_t rows, const char* what, Read read) {
  VarintReader in(bytes);
  for (size_t row = 0; row < rows; ++row) {
    const bool is_valid = read(in);
    if (in.is_bad() || !is_valid) {
      return fail(ErrorCode::kCorruption, "trace: definition {} of {} {} is not valid", row, rows,
                  what);
    }
  }
  if (!in.at_end()) return fail(ErrorCode::kCorruption, "trace: more {} than said", what);
  return {};
}

// An id as it is written: 0 = none.
uint64_t or_none(uint32_t id) {
  return id == kNoId ? 0 : uint64_t{id} + 1;
}

// Reads such an id, which must be below `size`.
bool get_or_none(VarintReader& in, size_t size, uint32_t& id) {
  const uint64_t value = in.next();
  if (value > size) return false;
  id = value == 0 ? kNoId : static_cast<uint32_t>(value - 1);
  return true;
}

bool get_id(VarintReader& in, size_t size, uint32_t& id) {
  const uint64_t value = in.next();
  if (value >= size) return false;
  id = static_cast<uint32_t>(value);
  return true;
}

template <class Enum>
bool get_enum(VarintReader& in, int count, Enum& value) {
  const uint64_t number = in.next();
  if (number >= static_cast<uint64_t>(count)) return false;
  value = static_cast<Enum>(number);
  return true;
}

void put_track(Bytes& out, const Track& track) {
  put_varint(out, static_cast<uint64_t>(track.kind));
  put_varint(out, or_none(track.parent));
  put_varint(out, track.text);
  put_varint(out, zigzag(track.number));
  put_varint(out, zigzag(track.rank));
}

bool get_track(VarintReader& in, const Dictionary& known, size_t parents, Track& track) {
  const bool is_valid = get_enum(in, kTrackKinds, track.kind) &&
                        get_or_none(in, parents, track.parent) &&
                        get_id(in, known.texts.size(), track.text);
  track.number = unzigzag(in.next());
  const int64_t rank = unzigzag(in.next());
  track.rank = static_cast<int32_t>(rank);
  return is_valid && track.rank == rank;
}

template <class T, class Put>
Bytes encode_each(std::span<const T> things, Put put) {
  Bytes out;
  for (const T& thing : things) put(out, thing);
  return out;
}

}  // namespace

std::vector<std::byte> make_chunk(ChunkKind kind, size_t rows, std::span<const std::byte> payload,
                                  int level) {
  FB_CHECK(rows <= kChunkRowsMax && payload.size() <= kChunkBytesMax);
  Bytes chunk(kChunkHeaderBytes + (level > 0 ? ZSTD_compressBound(payload.size()) : 0));
  size_t stored = 0;
  if (level > 0) {
    stored = ZSTD_compress(chunk.data() + kChunkHeaderBytes, chunk.size() - kChunkHeaderBytes,
                           payload.data(), payload.size(), level);
  }
  const bool is_compressed = level > 0 && ZSTD_isError(stored) == 0 && stored < payload.size();
  if (!is_compressed) stored = payload.size();
  chunk.resize(kChunkHeaderBytes + stored);
  if (!is_compressed) std::copy(payload.begin(), payload.end(), chunk.begin() + kChunkHeaderBytes);
  put_word(chunk.data(), kMark);
  chunk[4] = static_cast<std::byte>(kind);
  chunk[5] = static_cast<std::byte>(is_compressed ? 1 : 0);
  chunk[6] = chunk[7] = std::byte{0};
  put_word(chunk.data() + 8, static_cast<uint32_t>(stored));
  put_word(chunk.data() + 12, static_cast<uint32_t>(payload.size()));
  put_word(chunk.data() + 16, static_cast<uint32_t>(rows));
  uint32_t crc = base::crc32c(0, std::span(chunk).first(kCrcAt));
  crc = base::crc32c(crc, std::span(chunk).subspan(kChunkHeaderBytes));
  put_word(chunk.data() + kCrcAt, crc);
  return chunk;
}

Result<ChunkHeader> parse_chunk_header(std::span<const std::byte, kChunkHeaderBytes> bytes) {
  if (get_word(bytes.data()) != kMark) return bad("no chunk begins here");
  const auto kind = static_cast<uint8_t>(bytes[4]), codec = static_cast<uint8_t>(bytes[5]);
  ChunkHeader header;
  header.stored_bytes = get_word(bytes.data() + 8);
  header.raw_bytes = get_word(bytes.data() + 12);
  header.rows = get_word(bytes.data() + 16);
  header.crc32c = get_word(bytes.data() + kCrcAt);
  if (kind < static_cast<uint8_t>(ChunkKind::kTexts) ||
      kind > static_cast<uint8_t>(ChunkKind::kEnd)) {
    return fail(ErrorCode::kUnsupported, "trace: a chunk of kind {} was written by a newer version",
                kind);
  }
  if (codec > 1) return fail(ErrorCode::kUnsupported, "trace: a chunk has compression {}", codec);
  if (header.rows > kChunkRowsMax || header.raw_bytes > kChunkBytesMax ||
      header.stored_bytes > kChunkBytesMax) {
    return bad("a chunk is larger than any that is written");
  }
  header.kind = static_cast<ChunkKind>(kind);
  header.is_compressed = codec == 1;
  return header;
}

Result<std::vector<std::byte>> open_chunk(std::span<const std::byte, kChunkHeaderBytes> bytes,
                                          std::span<const std::byte> stored) {
  const ChunkHeader header = FB_TRY(parse_chunk_header(bytes));
  if (stored.size() != header.stored_bytes) return bad("a chunk is cut short");
  uint32_t crc = base::crc32c(0, bytes.first<kCrcAt>());
  crc = base::crc32c(crc, stored);
  if (crc != header.crc32c) {
    return fail(ErrorCode::kCorruption, "trace: a chunk's checksum is {:#010x}, expected {:#010x}",
                crc, header.crc32c);
  }
  if (!header.is_compressed) {
    if (header.raw_bytes != header.stored_bytes) return bad("a stored chunk has two sizes");
    return Bytes(stored.begin(), stored.end());
  }
  Bytes raw(header.raw_bytes);
  const size_t size = ZSTD_decompress(raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0 || size != raw.size()) return bad("a chunk does not decompress");
  return raw;
}

std::vector<std::byte> encode_texts(std::span<const std::string> texts) {
  return encode_each(texts, put_text);
}

std::vector<std::byte> encode_tracks(std::span<const Track> tracks) {
  return encode_each(tracks, put_track);
}

std::vector<std::byte> encode_renames(std::span<const std::pair<TrackId, Track>> renames) {
  return encode_each(renames, [](Bytes& out, const std::pair<TrackId, Track>& rename) {
    put_varint(out, rename.first);
    put_track(out, rename.second);
  });
}

std::vector<std::byte> encode_names(std::span<const Name> names) {
  return encode_each(names, [](Bytes& out, const Name& name) {
    put_varint(out, name.text);
    put_varint(out, static_cast<uint64_t>(name.category));
    put_varint(out, static_cast<uint64_t>(name.kind));
  });
}

std::vector<std::byte> encode_keys(std::span<const Key> keys) {
  return encode_each(keys, [](Bytes& out, const Key& key) {
    put_varint(out, key.text);
    put_varint(out, static_cast<uint64_t>(key.type));
  });
}

std::vector<std::byte> encode_frames(std::span<const Frame> frames) {
  return encode_each(frames, [](Bytes& out, const Frame& frame) {
    put_varint(out, static_cast<uint64_t>(frame.kind));
    put_varint(out, frame.symbol);
    put_varint(out, frame.module);
    put_varint(out, frame.build_id);
    put_varint(out, frame.offset);
    put_varint(out, frame.line);
  });
}

std::vector<std::byte> encode_stacks(std::span<const Stack> stacks) {
  return encode_each(stacks, [](Bytes& out, const Stack& stack) {
    put_varint(out, or_none(stack.caller));
    put_varint(out, stack.frame);
  });
}

std::vector<std::byte> encode_clock(std::span<const ClockPair> pairs) {
  return encode_each(pairs, [](Bytes& out, const ClockPair& pair) {
    put_varint(out, zigzag(pair.time_ns));
    put_varint(out, zigzag(pair.unix_ns));
    put_varint(out, zigzag(pair.uncertainty_ns));
  });
}

std::vector<std::byte> encode_facts(const Facts& facts) {
  Bytes out;
  for (const auto& [key, value] : facts) {
    put_text(out, key);
    put_text(out, value);
  }
  return out;
}

Status decode_texts(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "texts", [&](VarintReader& in) {
    into.texts.push_back(get_text(in));
    return true;
  });
}

Status decode_tracks(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "tracks", [&](VarintReader& in) {
    Track track;
    const bool is_valid = get_track(in, into, into.tracks.size(), track);
    into.tracks.push_back(track);
    return is_valid;
  });
}

Status decode_renames(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "renamed tracks", [&](VarintReader& in) {
    TrackId id = 0;
    Track track;
    if (!get_id(in, into.tracks.size(), id) || !get_track(in, into, id, track)) return false;
    into.tracks[id] = track;
    return true;
  });
}

Status decode_names(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "names", [&](VarintReader& in) {
    Name name;
    const bool is_valid = get_id(in, into.texts.size(), name.text) &&
                          get_enum(in, kCategories, name.category) &&
                          get_enum(in, kEventKinds, name.kind);
    into.names.push_back(name);
    return is_valid;
  });
}

Status decode_keys(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "keys", [&](VarintReader& in) {
    Key key;
    const bool is_valid =
        get_id(in, into.texts.size(), key.text) && get_enum(in, kArgumentTypes, key.type);
    into.keys.push_back(key);
    return is_valid;
  });
}

Status decode_frames(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "frames", [&](VarintReader& in) {
    Frame frame;
    const size_t texts = into.texts.size();
    const bool is_valid = get_enum(in, kFrameKinds, frame.kind) &&
                          get_id(in, texts, frame.symbol) && get_id(in, texts, frame.module) &&
                          get_id(in, texts, frame.build_id);
    frame.offset = in.next();
    frame.line = static_cast<uint32_t>(in.next());
    into.frames.push_back(frame);
    return is_valid;
  });
}

Status decode_stacks(std::span<const std::byte> bytes, size_t rows, Dictionary& into) {
  return decode_rows(bytes, rows, "stacks", [&](VarintReader& in) {
    Stack stack;
    const bool is_valid = get_or_none(in, into.stacks.size(), stack.caller) &&
                          get_id(in, into.frames.size(), stack.frame);
    into.stacks.push_back(stack);
    return is_valid;
  });
}

Status decode_clock(std::span<const std::byte> bytes, size_t rows, std::vector<ClockPair>& into) {
  return decode_rows(bytes, rows, "clock pairs", [&](VarintReader& in) {
    ClockPair pair;
    pair.time_ns = unzigzag(in.next());
    pair.unix_ns = unzigzag(in.next());
    pair.uncertainty_ns = unzigzag(in.next());
    into.push_back(pair);
    return pair.uncertainty_ns >= 0;
  });
}

Status decode_facts(std::span<const std::byte> bytes, size_t rows, Facts& into) {
  return decode_rows(bytes, rows, "facts", [&](VarintReader& in) {
    std::string key = get_text(in);
    into[std::move(key)] = get_text(in);
    return true;
  });
}

}  // namespace forebay::trace

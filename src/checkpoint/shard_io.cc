#include "checkpoint/shard_io.h"

#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "base/units.h"

namespace forebay::checkpoint {
namespace {

using storage::Store;
using storage::Writer;

constexpr size_t kPieceBytes = 256 << 10;  // read at once, still in the cache when it is checked
constexpr int kPackLevel = 1;              // weights hardly pack; more effort buys little

std::string path_of(std::string_view folder, const Shard& shard) {
  return fmt::format("{}/{}", folder, shard.file);
}

Status finish(Store& store, Writer& writer, bool syncs = true) {
  if (syncs && store.capabilities().can_sync) FB_TRY(writer.sync());
  return writer.publish();
}

// The pieces of [begin, begin + bytes) of a file that is a header and then data.
struct TwoPieces {
  std::span<const std::byte> first, second;
};
TwoPieces pieces_of(const ShardImage& image, uint64_t begin, uint64_t bytes) {
  const auto header = std::as_bytes(std::span(image.header));
  TwoPieces out;
  if (begin < header.size())
    out.first = header.subspan(begin, std::min<uint64_t>(bytes, header.size() - begin));
  const uint64_t rest = bytes - out.first.size();
  if (rest > 0) out.second = image.data(begin + out.first.size() - header.size(), rest);
  return out;
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// Packs chunks into frames, each by itself, each with its own checksum.
class ChunkPacker {
 public:
  explicit ChunkPacker(uint64_t chunk_bytes)
      : context_(ZSTD_createCCtx()), out_(ZSTD_compressBound(chunk_bytes)) {
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kPackLevel);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
  }

  Result<std::span<const std::byte>> pack(const TwoPieces& chunk) {
    ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only);
    ZSTD_CCtx_setPledgedSrcSize(context_.get(), chunk.first.size() + chunk.second.size());
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    for (const bool is_last : {false, true}) {
      const auto piece = is_last ? chunk.second : chunk.first;
      ZSTD_inBuffer in{piece.data(), piece.size(), 0};
      size_t left = 1;
      while (is_last ? left != 0 : in.pos < in.size) {
        left =
            ZSTD_compressStream2(context_.get(), &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left) != 0)
          return fail(ErrorCode::kIo, "zstd: {}", ZSTD_getErrorName(left));
      }
    }
    return std::span<const std::byte>(out_).first(out.pos);
  }

 private:
  std::unique_ptr<ZSTD_CCtx, FreeContext> context_;
  std::vector<std::byte> out_;
};

uint32_t crc_of(const TwoPieces& chunk) {
  return base::crc32c(base::crc32c(0, chunk.first), chunk.second);
}

Status read_piece(storage::Reader& file, const std::string& path, const Shard& shard,
                  uint64_t offset, std::span<std::byte> out, uint32_t& crc) {
  const size_t got = FB_TRY(file.read_at(offset, out));
  if (got < out.size())
    return fail(ErrorCode::kCorruption, "{}: ends at byte {} of {}", path, offset + got,
                stored_bytes(shard));
  crc = base::crc32c(crc, out);
  return {};
}

// For bytes that are only looked at.
class Nowhere final : public ChunkTarget {
 public:
  std::span<std::byte> place(uint64_t /*offset*/, uint64_t bytes) override {
    buffer_.resize(std::max<size_t>(buffer_.size(), bytes));
    return std::span(buffer_).first(bytes);
  }
  void arrived(uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) override {}

 private:
  std::vector<std::byte> buffer_;
};

Status check_crc(std::string_view folder, const Shard& shard, size_t chunk,
                 const StoredChunk& place, uint32_t found) {
  if (found == shard.chunk_crcs[chunk]) return {};
  return fail(ErrorCode::kCorruption,
              "{}: bytes {} to {} are damaged: crc32c {:08x}, saved as {:08x}",
              path_of(folder, shard), place.offset, place.offset + place.bytes, found,
              shard.chunk_crcs[chunk]);
}

}  // namespace

Result<uint64_t> file_bytes(Store& store, const std::string& path) {
  auto file = store.stat(path);
  if (!file.ok() && file.error().code == ErrorCode::kInvalidArgument)
    return fail(ErrorCode::kCorruption, "{}", file.error().message);
  if (!file.ok()) return file.error();
  if (file->is_link) return fail(ErrorCode::kCorruption, "{}: is a symbolic link", path);
  return file->size;
}

Status check_file(Store& store, std::string_view folder, const Shard& shard) {
  const std::string path = path_of(folder, shard);
  const uint64_t bytes = FB_TRY(file_bytes(store, path));
  if (bytes == stored_bytes(shard)) return {};
  return fail(ErrorCode::kCorruption, "{}: {} bytes, saved as {}", path, bytes,
              stored_bytes(shard));
}

Status write_shard(Store& store, std::string_view folder, const ShardImage& image,
                   const ShardWriting& how, const Admission& admit, Shard& shard) {
  shard.bytes = image.header.size() + image.data_bytes;
  const std::unique_ptr<Writer> writer = FB_TRY(store.create(path_of(folder, shard)));
  std::unique_ptr<ChunkPacker> packer;
  if (how.packs) packer = std::make_unique<ChunkPacker>(how.chunk_bytes);
  for (uint64_t at = 0; at < shard.bytes; at += how.chunk_bytes) {
    const uint64_t bytes = std::min(how.chunk_bytes, shard.bytes - at);
    const TwoPieces chunk = pieces_of(image, at, bytes);
    FB_TRY(admit(bytes));
    if (packer) {
      const auto packed = FB_TRY(packer->pack(chunk));
      shard.chunk_crcs.push_back(base::crc32c(0, packed));
      shard.packed_bytes.push_back(packed.size());
      FB_TRY(writer->append(packed));
      continue;
    }
    shard.chunk_crcs.push_back(crc_of(chunk));
    if (!chunk.first.empty()) FB_TRY(writer->append(chunk.first));
    if (!chunk.second.empty()) FB_TRY(writer->append(chunk.second));
  }
  return finish(store, *writer, how.syncs);
}

Status read_chunk(Store& store, std::string_view folder, const Shard& shard, size_t chunk,
                  const StoredChunk& place, std::span<std::byte> out) {
  uint32_t crc = 0;
  const std::string path = path_of(folder, shard);
  const auto file = FB_TRY(store.open_file(path));
  FB_TRY(read_piece(*file, path, shard, place.offset, out, crc));
  return check_crc(folder, shard, chunk, place, crc);
}

Status stream_chunk(Store& store, std::string_view folder, const Shard& shard, size_t chunk,
                    const StoredChunk& place, ChunkTarget& target) {
  const std::string path = path_of(folder, shard);
  const uint64_t step = store.capabilities().is_local ? kPieceBytes : place.bytes;
  uint32_t crc = 0;
  const auto file = FB_TRY(store.open_file(path));
  for (uint64_t at = 0; at < place.bytes;) {
    const auto piece = target.place(at, std::min(step, place.bytes - at));
    FB_TRY(read_piece(*file, path, shard, place.offset + at, piece, crc));
    target.arrived(at, piece);
    at += piece.size();
  }
  return check_crc(folder, shard, chunk, place, crc);
}

std::vector<uint32_t> chunk_crcs_of(const ShardImage& image, uint64_t chunk_bytes) {
  std::vector<uint32_t> crcs;
  const uint64_t all = image.header.size() + image.data_bytes;
  for (uint64_t at = 0; at < all; at += chunk_bytes)
    crcs.push_back(crc_of(pieces_of(image, at, std::min(chunk_bytes, all - at))));
  return crcs;
}

bool holds_image(Store& store, std::string_view folder, const Shard& shard, uint64_t chunk_bytes,
                 const ShardImage& image) {
  const std::vector<StoredChunk> chunks = stored_chunks(shard, chunk_bytes);
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < chunks.size(); ++i) {
    buffer.resize(chunks[i].bytes);
    if (!read_chunk(store, folder, shard, i, chunks[i], buffer).ok()) return false;
    const TwoPieces piece = pieces_of(image, chunks[i].offset, chunks[i].bytes);
    const std::span<const std::byte> front = std::span(buffer).first(piece.first.size()),
                                     rest = std::span(buffer).subspan(piece.first.size());
    if (!std::equal(front.begin(), front.end(), piece.first.begin()) ||
        !std::equal(rest.begin(), rest.end(), piece.second.begin()))
      return false;
  }
  return true;
}

bool hold_the_same(Store& one, std::string_view one_folder, const Shard& shard, Store& other,
                   std::string_view other_folder, const Shard& other_shard, uint64_t chunk_bytes,
                   const Admission& admit) {
  if (shard.bytes != other_shard.bytes || shard.chunk_crcs != other_shard.chunk_crcs ||
      shard.packed_bytes != other_shard.packed_bytes)
    return false;
  const std::vector<StoredChunk> chunks = stored_chunks(shard, chunk_bytes);
  std::vector<std::byte> mine, theirs;
  for (size_t i = 0; i < chunks.size(); ++i) {
    mine.resize(chunks[i].bytes);
    theirs.resize(chunks[i].bytes);
    if (!admit(chunks[i].bytes).ok() ||
        !read_chunk(one, one_folder, shard, i, chunks[i], mine).ok() ||
        !read_chunk(other, other_folder, other_shard, i, chunks[i], theirs).ok() || mine != theirs)
      return false;
  }
  return true;
}

Status check_shard(Store& store, std::string_view folder, const Shard& shard, uint64_t chunk_bytes,
                   const Admission& admit) {
  FB_TRY(check_file(store, folder, shard));
  const std::vector<StoredChunk> chunks = stored_chunks(shard, chunk_bytes);
  Nowhere nowhere;
  for (size_t i = 0; i < chunks.size(); ++i) {
    FB_TRY(admit(chunks[i].bytes));
    FB_TRY(stream_chunk(store, folder, shard, i, chunks[i], nowhere));
  }
  return {};
}

Status copy_shard(Store& from, std::string_view from_folder, Store& to, std::string_view to_folder,
                  const Shard& shard, uint64_t chunk_bytes, const Admission& admit) {
  FB_TRY(check_file(from, from_folder, shard));
  const std::unique_ptr<Writer> writer = FB_TRY(to.create(path_of(to_folder, shard)));
  const std::vector<StoredChunk> chunks = stored_chunks(shard, chunk_bytes);
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < chunks.size(); ++i) {
    FB_TRY(admit(chunks[i].bytes));
    buffer.resize(chunks[i].bytes);
    FB_TRY(read_chunk(from, from_folder, shard, i, chunks[i], buffer));
    FB_TRY(writer->append(buffer));
  }
  return finish(to, *writer);
}

Status unpack_chunk(std::span<const std::byte> stored, std::span<std::byte> out) {
  const size_t got = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(got) != 0)
    return fail(ErrorCode::kCorruption, "zstd: {}", ZSTD_getErrorName(got));
  if (got != out.size())
    return fail(ErrorCode::kCorruption, "a chunk of {} bytes holds {}", out.size(), got);
  return {};
}

}  // namespace forebay::checkpoint

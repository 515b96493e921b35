#include "report/blob.h"

#include <zlib.h>

#include <bit>

#include "base/error.h"
#include "base/utf8.h"
#include "trace/varint.h"

namespace forebay::report {

void BlobColumns::put(uint64_t value) {
  trace::put_varint(bytes_, value);
}

void BlobColumns::put_signed(int64_t value) {
  put(trace::zigzag(value));
}

void BlobColumns::put_real(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8)
    bytes_.push_back(static_cast<std::byte>((bits >> shift) & 0xff));
}

size_t BlobColumns::end_column() {
  const size_t length = bytes_.size() - column_begin_;
  column_begin_ = bytes_.size();
  return length;
}

std::string make_blob(const nlohmann::ordered_json& header, const BlobColumns& columns) {
  const std::string text =
      header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string blob;
  blob.reserve(4 + text.size() + columns.bytes().size());
  for (int shift = 0; shift < 32; shift += 8)
    blob.push_back(static_cast<char>((text.size() >> shift) & 0xff));
  blob += text;
  blob.append(reinterpret_cast<const char*>(columns.bytes().data()), columns.bytes().size());
  return blob;
}

size_t BlobTexts::id(std::string_view text) {
  std::string kept(text.substr(0, bytes_max_));
  if (kept.size() < text.size()) {
    // A cut may not leave half a character behind.
    size_t end = 0;
    while (end < kept.size()) {
      const size_t length = base::utf8_length(std::string_view(kept).substr(end));
      if (length == 0 && kept.size() - end < 4) break;
      end += length == 0 ? 1 : length;
    }
    kept.resize(end);
    kept += "\u2026";
  }
  const auto [it, is_new] = ids_.try_emplace(kept, texts_.size());
  if (is_new) texts_.push_back(std::move(kept));
  return it->second;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text.push_back(at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=');
  }
  return text;
}

Result<std::string> pack_blob(std::string_view bytes) {
  constexpr size_t kPiece = 1 << 20;
  z_stream stream{};
  // Level 6 at 15 bits of window, negative: without zlib's own header.
  if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    return fail(ErrorCode::kResourceExhausted, "the page: no memory to compress its data");
  std::string packed;
  std::string piece(kPiece, '\0');
  for (size_t at = 0;;) {
    const size_t length = std::min(kPiece, bytes.size() - at);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));
    stream.avail_in = static_cast<uInt>(length);
    at += length;
    const bool is_last = at == bytes.size();
    int code = Z_OK;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      code = deflate(&stream, is_last ? Z_FINISH : Z_NO_FLUSH);
      packed.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    if (code == Z_STREAM_END) break;
  }
  deflateEnd(&stream);
  return base64(packed);
}

}  // namespace forebay::report

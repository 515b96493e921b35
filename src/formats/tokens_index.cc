#include "formats/tokens_index.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kWindowEntries = 32 * 1024;
constexpr uint64_t kVersion = 1;

struct TypeCode {
  uint8_t code;
  ElementType type;
};
constexpr TypeCode kTypes[] = {
    {1, ElementType::kU8},  {2, ElementType::kI8},  {3, ElementType::kI16}, {4, ElementType::kI32},
    {5, ElementType::kI64}, {6, ElementType::kF64}, {7, ElementType::kF32}, {8, ElementType::kU16},
};

struct Header {
  ElementType type = ElementType::kU16;
  uint64_t sequences = 0, documents = 0;
};

Result<Header> read_header(ByteSource& source) {
  const auto head = FB_TRY(source.at(0, std::min<uint64_t>(source.size(), 256)));
  FB_TRY(refuse_lfs_pointer(head));
  if (head.size() < kTokensHeaderBytes ||
      std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::kCorruption,
                "no index of tokens ({}): without a file of this name, record_type and "
                "tokens_per_sample say what the tokens are",
                content_kind(head));
  const auto version = load_le<uint64_t>(&head[9]);
  if (version != kVersion) return fail(ErrorCode::kUnsupported, "an index of version {}", version);
  const auto code = static_cast<uint8_t>(head[17]);
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [code](const TypeCode& it) { return it.code == code; });
  if (found == std::end(kTypes))
    return fail(ErrorCode::kUnsupported, "tokens of the unknown type {}", code);
  Header header{.type = found->type,
                .sequences = load_le<uint64_t>(&head[18]),
                .documents = load_le<uint64_t>(&head[26])};
  const uint64_t room = source.size() - kTokensHeaderBytes;
  const bool fits = header.sequences <= room / 12 && header.documents <= room / 8 &&
                    12 * header.sequences + 8 * header.documents <= room;
  const uint64_t rest = fits ? room - 12 * header.sequences - 8 * header.documents : 0;
  if (!fits || (rest != 0 && rest != header.sequences))
    return fail(ErrorCode::kCorruption, "{} bytes for {} sequences and {} documents", source.size(),
                header.sequences, header.documents);
  if (header.sequences == 0) return fail(ErrorCode::kCorruption, "an index of no sequences");
  return header;
}

}  // namespace

std::string tokens_index_path(std::string_view path) {
  constexpr std::string_view kBin = ".bin";
  if (path.ends_with(kBin)) path.remove_suffix(kBin.size());
  return std::string(path) + ".idx";
}

Result<TokensIndex> read_tokens_index(ByteSource& source, uint64_t data_bytes,
                                      bool wants_sequences) {
  const Header header = FB_TRY(read_header(source));
  const uint64_t item = element_bytes(header.type);
  TokensIndex index{.type = header.type, .documents = header.documents};
  std::vector<std::byte> lengths;
  for (uint64_t first = 0; first < header.sequences; first += kWindowEntries) {
    const uint64_t n = std::min(kWindowEntries, header.sequences - first);
    const auto window = FB_TRY(source.at(kTokensHeaderBytes + 4 * first, 4 * n));
    lengths.assign(window.begin(), window.end());
    const auto offsets =
        FB_TRY(source.at(kTokensHeaderBytes + 4 * header.sequences + 8 * first, 8 * n));
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t tokens = load_le<uint32_t>(&lengths[4 * i]);
      const auto offset = load_le<uint64_t>(&offsets[8 * i]);
      if (tokens > INT32_MAX)
        return fail(ErrorCode::kCorruption, "sequence {} has {} tokens", first + i,
                    static_cast<int32_t>(tokens));
      if (offset > data_bytes || tokens * item > data_bytes - offset)
        return fail(ErrorCode::kCorruption,
                    "sequence {} has {} tokens from byte {} on, but the data file has {} bytes",
                    first + i, tokens, offset, data_bytes);
      index.is_stream = index.is_stream && offset == index.end;
      index.end = offset + tokens * item;
      if (tokens == 0) ++index.empty_sequences;
      if (tokens > 0 && wants_sequences) index.sequences.push_back({offset, tokens * item});
    }
  }
  return index;
}

Result<uint8_t> tokens_type_code(ElementType type) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [type](const TypeCode& it) { return it.type == type; });
  if (found == std::end(kTypes))
    return fail(ErrorCode::kUnsupported, "tokens are not of type {}", element_name(type));
  return found->code;
}

}  // namespace forebay::formats

// Element types, compressions and array sizes of format.h.
#include <array>

#include "base/error.h"
#include "formats/format.h"

namespace forebay::formats {
namespace {

struct ElementInfo {
  ElementType type;
  size_t bytes;
  std::string_view name;
};

constexpr std::array<ElementInfo, 15> kElements{{{ElementType::kU8, 1, "uint8"},
                                                 {ElementType::kU16, 2, "uint16"},
                                                 {ElementType::kU32, 4, "uint32"},
                                                 {ElementType::kU64, 8, "uint64"},
                                                 {ElementType::kI8, 1, "int8"},
                                                 {ElementType::kI16, 2, "int16"},
                                                 {ElementType::kI32, 4, "int32"},
                                                 {ElementType::kI64, 8, "int64"},
                                                 {ElementType::kF16, 2, "float16"},
                                                 {ElementType::kF32, 4, "float32"},
                                                 {ElementType::kF64, 8, "float64"},
                                                 {ElementType::kBool, 1, "bool"},
                                                 {ElementType::kC64, 8, "complex64"},
                                                 {ElementType::kC128, 16, "complex128"},
                                                 {ElementType::kBF16, 2, "bfloat16"}}};

constexpr std::array<std::string_view, 6> kCompressionNames{"none", "gzip", "lzf",
                                                            "bz2",  "zip",  "xz"};

}  // namespace

std::string_view compression_name(Compression compression) {
  return kCompressionNames[static_cast<size_t>(compression)];
}

std::optional<Compression> compression_from_name(std::string_view name) {
  for (size_t i = 0; i < kCompressionNames.size(); ++i)
    if (kCompressionNames[i] == name) return static_cast<Compression>(i);
  return std::nullopt;
}

size_t element_bytes(ElementType type) {
  return kElements[static_cast<size_t>(type)].bytes;
}

std::string_view element_name(ElementType type) {
  return kElements[static_cast<size_t>(type)].name;
}

std::optional<ElementType> element_from_name(std::string_view name) {
  for (const ElementInfo& element : kElements)
    if (element.name == name) return element.type;
  return std::nullopt;
}

Result<uint64_t> array_bytes(const ArrayLayout& layout) {
  constexpr uint64_t kBytesMax = uint64_t{1} << 62;
  uint64_t bytes = element_bytes(layout.type);
  // A zero anywhere makes the array empty, however large the other dimensions claim to be.
  for (const uint64_t dimension : layout.shape)
    if (dimension == 0) return uint64_t{0};
  for (const uint64_t dimension : layout.shape) {
    if (dimension > kBytesMax / bytes)
      return fail(ErrorCode::kCorruption, "an array of more than 2^62 bytes cannot exist");
    bytes *= dimension;
  }
  return bytes;
}

Result<std::shared_ptr<const DecodedBlock>> Reader::decode_block(
    std::string_view path, std::span<const std::byte> /*bytes*/, const FileIndex& /*index*/,
    const Block& /*block*/) {
  return fail(ErrorCode::kUnsupported, "{}: this format has no blocks", path);
}

}  // namespace forebay::formats

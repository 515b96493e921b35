// The header of a safetensors file: eight bytes with the length n of the JSON that follows (little
// endian), n bytes of JSON, then the bytes of all tensors without holes. Grammar and rules:
// https://github.com/huggingface/safetensors#format. Files come from anywhere: each rule is
// checked.
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

struct TensorEntry {
  std::string name;
  TensorType type = TensorType::kU8;
  std::vector<uint64_t> shape;  // C order, little endian
  uint64_t offset = 0;          // of its bytes, from the end of the header
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // as they follow each other in the file
  std::map<std::string, std::string> metadata;
};

inline constexpr size_t kLengthBytes = 8;
inline constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
inline constexpr size_t kDimensionsMax = 64;              // numpy's limit

// Length of the JSON, from the first eight bytes (fewer in a shorter file). kCorruption when the
// file cannot hold it.
Result<uint64_t> read_header_length(std::span<const std::byte> first, uint64_t file_bytes);

// `json` is all of the header behind its length. kCorruption names what is wrong; kUnsupported a
// type of element that is not known. Memory is bounded by a small multiple of json.size().
Result<SafetensorsHeader> parse_safetensors(std::string_view json, uint64_t file_bytes);

// The header, its length included, padded by spaces to a multiple of `alignment`; tensors' offsets
// must follow each other without holes. kResourceExhausted beyond kHeaderBytesMax.
Result<std::string> make_safetensors_header(const SafetensorsHeader& header, uint64_t alignment);

}  // namespace forebay::checkpoint

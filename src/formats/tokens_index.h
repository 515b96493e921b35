// The .idx file beside Megatron's .bin of tokens: their type, and where sequences lie.
//
//   "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 documents
//   i32 tokens of each sequence, i64 byte offset of each sequence, i64 first sequence of each
//   document (the last entry: all), and in multimodal files u8 mode of each sequence
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/byte_source.h"
#include "formats/format.h"

namespace forebay::formats {

constexpr size_t kTokensHeaderBytes = 34;

// "a/x.bin" -> "a/x.idx"; of other names ".idx" is added.
std::string tokens_index_path(std::string_view path);

struct TokensIndex {
  ElementType type = ElementType::kU16;
  uint64_t documents = 0;
  // Each sequence begins where the one before it ends, the first at byte 0: the file is one stream.
  bool is_stream = true;
  uint64_t end = 0;              // of the last sequence, in bytes
  uint64_t empty_sequences = 0;  // without tokens
  ExtentList sequences{};        // not empty ones; only when asked for
};
// Checks all of it against a data file of `data_bytes`. kCorruption with the sequence and the
// lengths.
Result<TokensIndex> read_tokens_index(ByteSource& source, uint64_t data_bytes,
                                      bool wants_sequences);

// Megatron's number of a type; kUnsupported for those it has none for.
Result<uint8_t> tokens_type_code(ElementType type);

}  // namespace forebay::formats

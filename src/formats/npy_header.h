// The header of a .npy file: a Python dictionary that says type, order and shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "formats/format.h"

namespace forebay::formats {

struct NpyHeader {
  ArrayLayout layout;
  uint64_t data_offset = 0;  // where the array starts
  uint64_t data_bytes = 0;   // of the array
};

constexpr size_t kNpyPreambleBytes = 12;        // magic, version, longest length field
constexpr size_t kNpyHeaderBytesMax = 1 << 20;  // a longer header is refused

// Bytes from the start of the array file to its data, from the first kNpyPreambleBytes bytes (fewer
// when the file is shorter). kCorruption when they are not a .npy header, kUnsupported for versions
// after 3.0.
Result<uint64_t> npy_data_offset(std::span<const std::byte> head);

// `head` holds at least npy_data_offset() bytes. Objects, structures, strings and dates are
// kUnsupported and named.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> head);

// Version 1.0, padded with spaces so that the data starts at a multiple of 64.
std::string make_npy_header(const ArrayLayout& layout);

}  // namespace forebay::formats

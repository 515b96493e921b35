// Checks .npy bytes as they pass: the header is parsed, the array's length compared.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/format.h"
#include "formats/npy_header.h"

namespace forebay::formats {

// Collects the header of one array file from pieces; the rest is only counted.
class NpyHeaderCollector {
 public:
  void begin();
  void visit(std::span<const std::byte> piece);
  // As parse_npy() would judge the bytes seen.
  Result<NpyHeader> finish() const;

 private:
  std::vector<std::byte> head_;
  uint64_t head_bytes_ = kNpyPreambleBytes;  // still wanted: preamble, then preamble and header
  bool is_complete_ = false;                 // head_ holds all it ever will
  uint64_t bytes_seen_ = 0;
};

std::unique_ptr<StreamCheck> make_npy_check();

}  // namespace forebay::formats

// What the page carries: tables as JSON, long columns as varints, all in one run of bytes that is
// deflated and written as base64. docs/formats/page.md has the grammar.
//
// Pure values; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "forebay/result.h"

namespace forebay::report {

// The columns of a blob, one behind the other; the header names their lengths.
class BlobColumns {
 public:
  void put(uint64_t value);
  void put_signed(int64_t value);
  void put_real(double value);  // eight bytes, little-endian

  // Bytes since the last call: the length of the column that ends here.
  size_t end_column();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  size_t column_begin_ = 0;
};

// length(u32, little-endian) header columns.
std::string make_blob(const nlohmann::ordered_json& header, const BlobColumns& columns);

// Texts in the order of their first use, cut at `bytes_max` with an ellipsis.
class BlobTexts {
 public:
  explicit BlobTexts(size_t bytes_max = 2048) : bytes_max_(bytes_max) {}
  size_t id(std::string_view text);
  const std::vector<std::string>& all() const { return texts_; }

 private:
  size_t bytes_max_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, size_t> ids_;
};

// Raw deflate (RFC 1951), then base64: letters, digits, '+', '/' and '=' alone, so that nothing in
// it can end the element that holds it. Fails with kResourceExhausted without memory.
Result<std::string> pack_blob(std::string_view bytes);

std::string base64(std::string_view bytes);

}  // namespace forebay::report

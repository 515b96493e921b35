// Writes protobuf messages field by field. Perfetto's trace is one; its descriptions are not needed
// to write the dozen fields that a timeline has.
//
// One thread at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::trace {

class Message {
 public:
  void number(int field, uint64_t value) {
    tag(field, 0);
    varint(value);
  }
  void fixed64(int field, double value) {
    tag(field, 1);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(bits >> shift);
  }
  void text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(int field, const Message& value) { text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }
  bool is_empty() const { return bytes_.empty(); }

 private:
  void tag(int field, uint64_t wire) { varint(static_cast<uint64_t>(field) << 3 | wire); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace forebay::trace

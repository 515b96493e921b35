// Checksums of objects as the protocol writes them.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "storage/http_loop.h"

namespace forebay::storage {

std::string base64(std::span<const std::byte> bytes);

// The 16 bytes' worth of Content-MD5 for a body, in base64.
std::string content_md5(std::span<const std::byte> bytes);
// x-amz-checksum-crc32c for a body, in base64.
std::string content_crc32c(std::span<const std::byte> bytes);

// Compares the bytes of a whole object with the checksum in its answer, if there is one.
class ContentSum {
 public:
  ContentSum();
  ~ContentSum();
  // Chooses what to check: a CRC that the server sends, or an ETag that is an MD5 when `use_etag`.
  void begin(const HttpHead& head, bool use_etag);
  void add(std::span<const std::byte> bytes);
  bool is_right();  // also when there is nothing to compare with
  // "its crc32c is ..., the server said ...". After is_right().
  std::string problem() const;

 private:
  struct Md5;
  enum class Kind { kNone, kCrc32, kCrc32c, kMd5 };
  Kind kind_ = Kind::kNone;
  std::string expected_;
  std::string found_;
  uint32_t crc_ = 0;
  std::unique_ptr<Md5> md5_;
};

}  // namespace forebay::storage

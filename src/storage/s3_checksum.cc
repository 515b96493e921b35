#include "storage/s3_checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc.h"

namespace forebay::storage {
namespace {

constexpr size_t kMd5Bytes = 16;
using Md5Digest = std::array<std::byte, kMd5Bytes>;

std::array<std::byte, 4> big_endian(uint32_t value) {
  return {static_cast<std::byte>(value >> 24), static_cast<std::byte>(value >> 16),
          static_cast<std::byte>(value >> 8), static_cast<std::byte>(value)};
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

// Multipart uploads have an ETag with a '-', encrypted objects one of other length or letters.
std::string md5_of_etag(std::string_view etag) {
  if (etag.size() != 2 * kMd5Bytes + 2 || etag.front() != '"') return "";
  const std::string_view digits = etag.substr(1, 2 * kMd5Bytes);
  const bool is_hex = digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_hex ? std::string(digits) : "";
}

}  // namespace

struct ContentSum::Md5 {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j)
      word = (word << 8) | (j < count ? static_cast<uint32_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kLetters[(word >> (18 - 6 * j)) & 63] : '=';
  }
  return out;
}

std::string content_md5(std::span<const std::byte> bytes) {
  Md5Digest digest{};
  unsigned length = 0;
  FB_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                      &length, EVP_md5(), nullptr) == 1);
  return base64(digest);
}

std::string content_crc32c(std::span<const std::byte> bytes) {
  return base64(big_endian(base::crc32c(0, bytes)));
}

ContentSum::ContentSum() = default;
ContentSum::~ContentSum() = default;

void ContentSum::begin(const HttpHead& head, bool use_etag) {
  kind_ = Kind::kNone;
  crc_ = 0;
  const auto take = [&](Kind kind, std::string expected) {
    // A sum of the parts' sums ("...-3") is not one of the bytes.
    if (kind_ != Kind::kNone || expected.empty() || expected.find('-') != std::string::npos) return;
    kind_ = kind;
    expected_ = std::move(expected);
  };
  take(Kind::kCrc32c, std::string(head.field("x-amz-checksum-crc32c")));
  take(Kind::kCrc32, std::string(head.field("x-amz-checksum-crc32")));
  if (use_etag) take(Kind::kMd5, md5_of_etag(head.field("etag")));
  if (kind_ != Kind::kMd5) return;
  if (md5_ == nullptr) md5_ = std::make_unique<Md5>();
  FB_CHECK(EVP_DigestInit_ex(md5_->context.get(), EVP_md5(), nullptr) == 1);
}

void ContentSum::add(std::span<const std::byte> bytes) {
  if (kind_ == Kind::kCrc32c) crc_ = base::crc32c(crc_, bytes);
  if (kind_ == Kind::kCrc32) crc_ = base::crc32(crc_, bytes);
  if (kind_ == Kind::kMd5)
    FB_CHECK(EVP_DigestUpdate(md5_->context.get(), bytes.data(), bytes.size()) == 1);
}

bool ContentSum::is_right() {
  if (kind_ == Kind::kNone) return true;
  if (kind_ == Kind::kMd5) {
    Md5Digest digest{};
    unsigned length = 0;
    FB_CHECK(EVP_DigestFinal_ex(md5_->context.get(),
                                reinterpret_cast<unsigned char*>(digest.data()), &length) == 1);
    found_ = hex(digest);
  } else {
    found_ = base64(big_endian(crc_));
  }
  return found_ == expected_;
}

std::string ContentSum::problem() const {
  const std::string_view name = kind_ == Kind::kMd5     ? "MD5"
                                : kind_ == Kind::kCrc32 ? "CRC32"
                                                        : "CRC32C";
  return fmt::format("the bytes' {} is {}, the server says {}", name, found_, expected_);
}

}  // namespace forebay::storage

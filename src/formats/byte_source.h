// Random access to the bytes of one file, in memory or in a store.
//
// One thread at a time. The bytes or the store must outlive the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::formats {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;

  // Exactly `length` bytes from `offset`, valid until the next call. Ranges beyond size() are
  // kCorruption "truncated at byte N".
  virtual Result<std::span<const std::byte>> at(uint64_t offset, uint64_t length) = 0;
};

class SpanSource : public ByteSource {
 public:
  // `bytes` are those from `first_offset` to the end of a file.
  explicit SpanSource(std::span<const std::byte> bytes, uint64_t first_offset = 0)
      : bytes_(bytes), first_offset_(first_offset) {}
  uint64_t size() const override { return first_offset_ + bytes_.size(); }
  Result<std::span<const std::byte>> at(uint64_t offset, uint64_t length) override;

 private:
  std::span<const std::byte> bytes_;
  uint64_t first_offset_;
};

class StoreSource : public ByteSource {
 public:
  StoreSource(storage::Store& store, const storage::FileInfo& file)
      : store_(store), path_(file.path), size_(file.size) {}
  uint64_t size() const override { return size_; }
  Result<std::span<const std::byte>> at(uint64_t offset, uint64_t length) override;

 private:
  storage::Store& store_;
  std::string path_;
  uint64_t size_;
  std::unique_ptr<storage::Reader> file_;  // from the first read on
  std::vector<std::byte> scratch_;
};

}  // namespace forebay::formats

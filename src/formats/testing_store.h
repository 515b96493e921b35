// A store in memory for the tests of formats and ops: writes, patches, counts what is read.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "storage/store.h"

namespace forebay::formats {

class TestingStore : public storage::Store {
 public:
  using Bytes = std::vector<std::byte>;

  storage::Capabilities capabilities() const override {
    storage::Capabilities capabilities;
    capabilities.can_patch = true;
    return capabilities;
  }
  std::string describe() const override { return "testing"; }
  Result<storage::Listing> list(std::string_view /*prefix*/) override {
    return fail(ErrorCode::kUnsupported, "the testing store has no listing");
  }
  Result<storage::FileInfo> stat(std::string_view path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return fail(ErrorCode::kNotFound, "{}", path);
    return storage::FileInfo{std::string(path), found->second.size(), 0};
  }
  Result<std::unique_ptr<storage::ReadQueue>> open_queue(storage::QueueOptions) override {
    return fail(ErrorCode::kUnsupported, "the testing store has no queue");
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return fail(ErrorCode::kNotFound, "{}", path);
    const Bytes& bytes = found->second;
    const size_t n = offset < bytes.size() ? std::min(out.size(), bytes.size() - offset) : 0;
    if (n > 0) std::memcpy(out.data(), bytes.data() + offset, n);
    ++read_count_;
    bytes_read_ += n;
    return n;
  }
  Result<std::unique_ptr<storage::Writer>> create(std::string_view path) override {
    return std::unique_ptr<storage::Writer>(new MemoryWriter(*this, std::string(path)));
  }
  Status remove(std::string_view path) override {
    files_.erase(std::string(path));
    return {};
  }
  Result<uint64_t> free_bytes() override { return UINT64_MAX; }

  void put(std::string path, Bytes bytes) { files_[std::move(path)] = std::move(bytes); }
  const Bytes& get(const std::string& path) const { return files_.at(path); }
  uint64_t read_count() const { return read_count_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  class MemoryWriter : public storage::Writer {
   public:
    MemoryWriter(TestingStore& store, std::string path) : store_(store), path_(std::move(path)) {}
    Status append(std::span<const std::byte> bytes) override {
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
      return {};
    }
    Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
      if (offset + bytes.size() > bytes_.size())
        return fail(ErrorCode::kInvalidArgument, "patch beyond the end");
      std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<ptrdiff_t>(offset));
      return {};
    }
    Status sync() override { return {}; }
    Status publish() override {
      store_.files_[path_] = bytes_;
      return {};
    }

   private:
    TestingStore& store_;
    std::string path_;
    Bytes bytes_;
  };

  std::map<std::string, Bytes, std::less<>> files_;
  uint64_t read_count_ = 0;
  uint64_t bytes_read_ = 0;
};

// Writes one file, and those beside it, by the format itself.
template <class FormatType>
Status write_with(const FormatType& format, TestingStore& store, std::string_view path,
                  const auto& spec, bool can_patch = true) {
  const auto writer = FB_TRY(store.create(path));
  FB_TRY(format.write(*writer, can_patch, spec));
  FB_TRY(writer->publish());
  if (format.side_paths == nullptr) return {};
  const std::vector<std::string> sides = format.side_paths(path);
  for (size_t which = 0; which < sides.size(); ++which) {
    const auto side = FB_TRY(store.create(sides[which]));
    FB_TRY(format.write_side(*side, spec, which));
    FB_TRY(side->publish());
  }
  return {};
}

}  // namespace forebay::formats

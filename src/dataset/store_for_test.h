// A store in memory that shows what was done to it and fails on request.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "storage/store.h"

namespace forebay::dataset {

class StoreForTest : public storage::Store {
 public:
  struct File {
    std::vector<std::byte> bytes;
    int64_t mtime_ns = 0;
    bool was_synced = false;  // all its bytes, before it got its name
  };

  StoreForTest() { caps.can_sync = caps.can_patch = true; }

  storage::Capabilities caps;
  std::string name = "test:/data";
  uint64_t free = UINT64_MAX;
  std::vector<storage::Skipped> skipped;
  std::vector<std::string> folders;  // made by make_folder, in this order
  // Asked before each operation ("make folder", "create", "append", "patch", "sync", "publish",
  // "remove").
  std::function<Status(std::string_view operation, const std::string& path)> fault;
  std::map<std::string, File, std::less<>> files;
  std::atomic<int> writers_open = 0, reads = 0, syncs = 0, creates = 0;

  void put(const std::string& path, std::string_view content = "x", int64_t mtime_ns = 1) {
    const auto bytes = std::as_bytes(std::span(content));
    files[path] = {.bytes = {bytes.begin(), bytes.end()}, .mtime_ns = mtime_ns};
  }

  storage::Capabilities capabilities() const override { return caps; }
  std::string describe() const override { return name; }

  Result<storage::Listing> list(std::string_view prefix) override {
    const base::MutexLock lock(mutex_);
    storage::Listing listing;
    while (prefix.ends_with('/')) prefix.remove_suffix(1);
    const std::string start = prefix.empty() ? "" : std::string(prefix) + "/";
    for (const auto& entry : files)
      if (entry.first.starts_with(start))
        listing.files.push_back({entry.first, entry.second.bytes.size(), entry.second.mtime_ns});
    if (listing.files.empty() && !prefix.empty())
      return fail(ErrorCode::kNotFound, "{}: no such folder", prefix);
    listing.skipped = skipped;
    return listing;
  }

  Result<storage::FileInfo> stat(std::string_view path) override {
    const base::MutexLock lock(mutex_);
    const auto found = files.find(path);
    if (found == files.end()) return fail(ErrorCode::kNotFound, "{}: not there", path);
    return storage::FileInfo{found->first, found->second.bytes.size(), found->second.mtime_ns};
  }

  Result<std::unique_ptr<storage::ReadQueue>> open_queue(storage::QueueOptions) override {
    return fail(ErrorCode::kUnsupported, "no queues here");
  }

  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    ++reads;
    const base::MutexLock lock(mutex_);
    const auto found = files.find(path);
    if (found == files.end()) return fail(ErrorCode::kNotFound, "{}: not there", path);
    const std::vector<std::byte>& bytes = found->second.bytes;
    if (offset >= bytes.size()) return size_t{0};
    const size_t count = std::min(out.size(), bytes.size() - static_cast<size_t>(offset));
    std::memcpy(out.data(), bytes.data() + offset, count);
    return count;
  }

  Status make_folder(std::string_view path) override {
    FB_TRY(check("make folder", std::string(path)));
    folders.emplace_back(path);
    return {};
  }
  Result<std::unique_ptr<storage::Writer>> create(std::string_view path) override;

  Status remove(std::string_view path) override {
    FB_TRY(check("remove", std::string(path)));
    const base::MutexLock lock(mutex_);
    const auto found = files.find(path);
    if (found == files.end()) return fail(ErrorCode::kNotFound, "{}: not there", path);
    files.erase(found);
    return {};
  }

  Result<uint64_t> free_bytes() override { return free; }

  Status check(std::string_view operation, const std::string& path) {
    return fault ? fault(operation, path) : Status();
  }
  void publish(const std::string& path, File file) {
    const base::MutexLock lock(mutex_);
    file.mtime_ns = ++time_ns_;
    files[path] = std::move(file);
  }

 private:
  base::Mutex mutex_;  // around `files` and time_ns_ while threads run
  int64_t time_ns_ = 1000;
};

class WriterForTest : public storage::Writer {
 public:
  WriterForTest(StoreForTest& store, std::string path) : store_(store), path_(std::move(path)) {
    ++store_.writers_open;
  }
  ~WriterForTest() override { --store_.writers_open; }

  Status append(std::span<const std::byte> bytes) override {
    FB_TRY(store_.check("append", path_));
    file_.bytes.insert(file_.bytes.end(), bytes.begin(), bytes.end());
    file_.was_synced = false;
    return {};
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    FB_TRY(store_.check("patch", path_));
    std::copy(bytes.begin(), bytes.end(),
              file_.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    file_.was_synced = false;
    return {};
  }
  Status sync() override {
    FB_TRY(store_.check("sync", path_));
    ++store_.syncs;
    file_.was_synced = true;
    return {};
  }
  Status publish() override {
    FB_TRY(store_.check("publish", path_));
    store_.publish(path_, std::move(file_));
    return {};
  }

 private:
  StoreForTest& store_;
  const std::string path_;
  StoreForTest::File file_;
};

inline Result<std::unique_ptr<storage::Writer>> StoreForTest::create(std::string_view path) {
  FB_TRY(check("create", std::string(path)));
  ++creates;
  return std::unique_ptr<storage::Writer>(
      std::make_unique<WriterForTest>(*this, std::string(path)));
}

}  // namespace forebay::dataset

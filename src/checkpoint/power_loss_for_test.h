// For tests only: files in memory that can lose power. What was not synced is then gone, cut or
// full of zeros; a removal may be undone; from a chosen operation on everything fails, as when the
// power goes in the middle of a save.
//
// Any thread.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/random.h"
#include "storage/store.h"

namespace forebay::checkpoint {

// The disk, which outlives the stores that a job opens on it.
class DiskForTest {
 public:
  using Bytes = std::vector<std::byte>;
  struct File {
    Bytes content;
    bool is_synced = false;
  };

  // The power goes before the `operations`-th call from now; 0 = it stays.
  void cut_power_at(uint64_t operations) {
    base::MutexLock lock(mutex_);
    left_ = operations;
    is_off_ = false;
  }
  bool is_off() const {
    base::MutexLock lock(mutex_);
    return is_off_;
  }
  // After it: what the disk really has.
  void lose_power(base::Random& random) {
    base::MutexLock lock(mutex_);
    is_off_ = false;
    left_ = 0;
    for (auto at = files_.begin(); at != files_.end();) {
      File& file = at->second;
      const uint64_t fate = file.is_synced ? 3 : random.below(4);
      if (fate == 0) {
        at = files_.erase(at);
        continue;
      }
      if (fate == 1) file.content.resize(random.below(file.content.size() + 1));
      if (fate == 2) std::fill(file.content.begin(), file.content.end(), std::byte{0});
      file.is_synced = true;
      ++at;
    }
    for (auto& [path, file] : removed_) {
      if (random.below(2) == 0) files_.emplace(path, std::move(file));
    }
    removed_.clear();
  }
  // Changes one bit of a random file; false when there is none with bytes.
  bool damage(base::Random& random) {
    base::MutexLock lock(mutex_);
    std::vector<File*> all;
    for (auto& [path, file] : files_) {
      if (!file.content.empty()) all.push_back(&file);
    }
    if (all.empty()) return false;
    Bytes& content = all[random.below(all.size())]->content;
    content[random.below(content.size())] ^= std::byte{1} << random.below(8);
    return true;
  }
  // Calls `then` once, before the next read of a file that has `name` in its path.
  void on_read_of(std::string name, std::function<void()> then) {
    base::MutexLock lock(mutex_);
    watched_ = std::move(name);
    then_ = std::move(then);
  }
  std::vector<std::string> paths() const {
    base::MutexLock lock(mutex_);
    std::vector<std::string> out;
    for (const auto& [path, file] : files_) out.push_back(path);
    return out;
  }

 private:
  friend class DiskStoreForTest;
  friend class DiskWriterForTest;

  Status spend(std::string_view path) {
    base::MutexLock lock(mutex_);
    return spend_locked(path);
  }
  Status spend_locked(std::string_view path) FB_REQUIRES(mutex_) {
    if (left_ > 0 && --left_ == 0) is_off_ = true;
    if (!is_off_) return {};
    return fail(ErrorCode::kIo, "{}: Input/output error (the power is off)", path);
  }

  void note_read(std::string_view path) {
    std::function<void()> then;
    {
      base::MutexLock lock(mutex_);
      if (then_ && path.find(watched_) != path.npos) then = std::exchange(then_, nullptr);
    }
    if (then) then();
  }

  mutable base::Mutex mutex_;
  std::string watched_ FB_GUARDED_BY(mutex_);
  std::function<void()> then_ FB_GUARDED_BY(mutex_);
  std::map<std::string, File, std::less<>> files_ FB_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, File>> removed_ FB_GUARDED_BY(mutex_);
  uint64_t left_ FB_GUARDED_BY(mutex_) = 0;
  bool is_off_ FB_GUARDED_BY(mutex_) = false;
};

class DiskWriterForTest final : public storage::Writer {
 public:
  DiskWriterForTest(DiskForTest& disk, std::string_view path) : disk_(disk), path_(path) {}

  Status append(std::span<const std::byte> bytes) override {
    FB_TRY(disk_.spend(path_));
    content_.insert(content_.end(), bytes.begin(), bytes.end());
    is_synced_ = false;
    return {};
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    FB_TRY(disk_.spend(path_));
    std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset));
    is_synced_ = false;
    return {};
  }
  Status sync() override {
    FB_TRY(disk_.spend(path_));
    is_synced_ = true;
    return {};
  }
  Status publish() override {
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(path_));
    disk_.files_[path_] = {std::move(content_), is_synced_};
    return {};
  }

 private:
  DiskForTest& disk_;
  const std::string path_;
  DiskForTest::Bytes content_;
  bool is_synced_ = false;
};

class DiskStoreForTest final : public storage::Store {
 public:
  explicit DiskStoreForTest(DiskForTest& disk) : disk_(disk) {}

  storage::Capabilities capabilities() const override {
    storage::Capabilities out;
    out.can_sync = true;
    out.can_rename = true;
    return out;
  }
  std::string describe() const override { return "disk for tests"; }

  Result<storage::Listing> list(std::string_view prefix) override {
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(prefix));
    storage::Listing out;
    const std::string before = prefix.empty() ? "" : std::string(prefix) + "/";
    for (const auto& [path, file] : disk_.files_) {
      if (path.starts_with(before)) out.files.push_back({path, file.content.size(), 0});
    }
    if (out.files.empty() && !prefix.empty())
      return fail(ErrorCode::kNotFound, "{}: No such folder", prefix);
    return out;
  }
  Result<storage::FileInfo> stat(std::string_view path) override {
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(path));
    const auto found = disk_.files_.find(path);
    if (found == disk_.files_.end()) return fail(ErrorCode::kNotFound, "{}: No such file", path);
    return storage::FileInfo{found->first, found->second.content.size(), 0};
  }
  Result<std::unique_ptr<storage::ReadQueue>> open_queue(storage::QueueOptions) override {
    return fail(ErrorCode::kUnsupported, "no queues");
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    disk_.note_read(path);
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(path));
    const auto found = disk_.files_.find(path);
    if (found == disk_.files_.end()) return fail(ErrorCode::kNotFound, "{}: No such file", path);
    const auto& content = found->second.content;
    if (offset >= content.size()) return size_t{0};
    const size_t bytes = std::min<uint64_t>(out.size(), content.size() - offset);
    if (bytes > 0) std::memcpy(out.data(), content.data() + offset, bytes);
    return bytes;
  }
  Result<std::unique_ptr<storage::Writer>> create(std::string_view path) override {
    FB_TRY(disk_.spend(path));
    return std::unique_ptr<storage::Writer>(std::make_unique<DiskWriterForTest>(disk_, path));
  }
  Status remove(std::string_view path) override {
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(path));
    const auto found = disk_.files_.find(path);
    if (found == disk_.files_.end()) return fail(ErrorCode::kNotFound, "{}: No such file", path);
    disk_.removed_.emplace_back(found->first, std::move(found->second));
    disk_.files_.erase(found);
    return {};
  }
  Status rename_folder(std::string_view from, std::string_view to) override {
    base::MutexLock lock(disk_.mutex_);
    FB_TRY(disk_.spend_locked(from));
    const std::string before = std::string(from) + "/", after = std::string(to) + "/";
    std::vector<std::pair<std::string, DiskForTest::File>> moved;
    for (auto at = disk_.files_.begin(); at != disk_.files_.end();) {
      if (at->first.starts_with(after)) return fail(ErrorCode::kIo, "{}: is there already", to);
      if (!at->first.starts_with(before)) {
        ++at;
        continue;
      }
      moved.emplace_back(after + at->first.substr(before.size()), std::move(at->second));
      at = disk_.files_.erase(at);
    }
    if (moved.empty()) return fail(ErrorCode::kNotFound, "{}: No such folder", from);
    for (auto& [path, file] : moved) disk_.files_.emplace(std::move(path), std::move(file));
    return {};
  }
  Result<uint64_t> free_bytes() override {
    FB_TRY(disk_.spend(""));
    return UINT64_MAX;
  }

 private:
  DiskForTest& disk_;
};

}  // namespace forebay::checkpoint

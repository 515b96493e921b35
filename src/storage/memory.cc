// Files that live in the process: for tests, and as the fastest thing to stand behind `slow`.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "storage/changed.h"
#include "storage/options.h"
#include "storage/pool_queue.h"

namespace forebay::storage {
namespace {

constexpr int kDepthMax = 1024;
constexpr size_t kPieceBytes = 256 << 10;

using Content = std::vector<std::byte>;
using SharedContent = std::shared_ptr<const Content>;

Error not_found(std::string_view path) {
  return fail(ErrorCode::kNotFound, "{}: No such file in memory", path);
}

// The map behind the store, its queues and its writers. Safe from any thread; contents never
// change.
class MemoryFiles {
 public:
  struct File {
    SharedContent content;
    int64_t version = 0;  // stands for the time of change
  };

  std::optional<File> find(std::string_view path) const {
    base::MutexLock lock(mutex_);
    const auto found = files_.find(path);
    if (found == files_.end()) return std::nullopt;
    return found->second;
  }
  void put(const std::string& path, Content content) {
    base::MutexLock lock(mutex_);
    files_[path] = {std::make_shared<const Content>(std::move(content)), ++version_};
  }
  bool remove(std::string_view path) {
    base::MutexLock lock(mutex_);
    const auto found = files_.find(path);
    if (found == files_.end()) return false;
    files_.erase(found);
    return true;
  }
  Status rename_folder(const std::string& from, const std::string& to) {
    base::MutexLock lock(mutex_);
    const auto begin_of = [&](const std::string& folder)
                              FB_REQUIRES(mutex_) { return files_.lower_bound(folder); };
    const auto taken = begin_of(to);
    if (taken != files_.end() && taken->first.starts_with(to))
      return fail(ErrorCode::kIo, "{}: is there already", to);
    const auto first = begin_of(from);
    auto last = first;
    while (last != files_.end() && last->first.starts_with(from)) ++last;
    if (first == last) return not_found(from);
    std::vector<std::pair<std::string, File>> moved;
    for (auto at = first; at != last; ++at)
      moved.emplace_back(to + at->first.substr(from.size()), std::move(at->second));
    files_.erase(first, last);
    for (auto& [path, file] : moved) files_.emplace(std::move(path), std::move(file));
    return {};
  }
  std::vector<FileInfo> below(const std::string& before) const {
    base::MutexLock lock(mutex_);
    std::vector<FileInfo> out;
    for (auto at = files_.lower_bound(before); at != files_.end(); ++at) {
      if (!at->first.starts_with(before)) break;
      out.push_back({at->first, at->second.content->size(), at->second.version});
    }
    return out;
  }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, File, std::less<>> files_ FB_GUARDED_BY(mutex_);
  int64_t version_ FB_GUARDED_BY(mutex_) = 0;
};

class MemoryReader final : public ReadWorker {
 public:
  explicit MemoryReader(const MemoryFiles& files) : files_(files) {}

  void perform(const Read& read, Completion& out) override {
    out.bytes = 0;
    out.status = {};
    if (!is_inside(read.path)) {
      out.status = outside_error(read.path);
      return;
    }
    const std::optional<MemoryFiles::File> file = files_.find(read.path);
    if (!file) {
      out.status = not_found(read.path);
      return;
    }
    const std::span<const std::byte> content(*file->content);
    const uint64_t start = std::min<uint64_t>(read.offset, content.size());
    const uint64_t bytes = std::min<uint64_t>(read.length, content.size() - start);
    deliver(content.subspan(start, bytes), read, out);
    const uint64_t end = read.offset + read.length;
    const bool is_changed = read.to_end ? end != content.size() : bytes < read.length;
    if (is_changed) out.status = changed_error(read, content.size());
  }

 private:
  static void deliver(std::span<const std::byte> bytes, const Read& read, Completion& out) {
    while (out.bytes < bytes.size()) {
      const auto piece = bytes.subspan(out.bytes, std::min(bytes.size() - out.bytes, kPieceBytes));
      if (read.destination != nullptr) {
        std::memcpy(read.destination + out.bytes, piece.data(), piece.size());
      }
      if (read.visitor != nullptr) {
        const int64_t before = base::monotonic_clock().now_ns();
        read.visitor->visit(piece);
        out.visit_ns += base::monotonic_clock().now_ns() - before;
      }
      out.bytes += piece.size();
    }
  }

  const MemoryFiles& files_;
};

class MemoryWriter final : public Writer {
 public:
  MemoryWriter(MemoryFiles& files, std::string_view path) : files_(files), path_(path) {}

  Status append(std::span<const std::byte> bytes) override {
    FB_TRY(usable());
    content_.insert(content_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    FB_TRY(usable());
    if (offset > content_.size() || bytes.size() > content_.size() - offset) {
      return fail(ErrorCode::kInvalidArgument, "{}: patch of bytes {} to {} in {} appended", path_,
                  offset, offset + bytes.size(), content_.size());
    }
    std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<ptrdiff_t>(offset));
    return {};
  }
  Status sync() override {
    return fail(ErrorCode::kUnsupported, "{}: memory does not survive power loss", path_);
  }
  Status publish() override {
    FB_TRY(usable());
    files_.put(path_, std::move(content_));
    is_published_ = true;
    return {};
  }

 private:
  Status usable() const {
    if (!is_published_) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: already published", path_);
  }

  MemoryFiles& files_;
  const std::string path_;
  Content content_;
  bool is_published_ = false;
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::string_view label) : label_(label) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = kDepthMax;
    out.can_patch = true;
    out.can_rename = true;
    return out;
  }
  std::string describe() const override { return "memory:" + label_; }

  Result<Listing> list(std::string_view prefix) override {
    FB_TRY(check_stop());
    while (prefix.ends_with('/')) prefix.remove_suffix(1);
    Listing out;
    out.files = files_.below(prefix.empty() ? "" : std::string(prefix) + "/");
    if (out.files.empty() && !prefix.empty()) return not_found(prefix);
    return out;
  }
  Result<FileInfo> stat(std::string_view path) override {
    FB_TRY(check_stop());
    const std::optional<MemoryFiles::File> file = files_.find(path);
    if (!file) return not_found(path);
    return FileInfo{std::string(path), file->content->size(), file->version};
  }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    options.depth = std::clamp(options.depth, 1, kDepthMax);
    options.depth_max = std::clamp(options.depth_max, 0, kDepthMax);
    return PoolQueue::open(options, [this] { return std::make_unique<MemoryReader>(files_); });
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    FB_TRY(check_stop());
    const std::optional<MemoryFiles::File> file = files_.find(path);
    if (!file) return not_found(path);
    const Content& content = *file->content;
    if (offset >= content.size()) return size_t{0};
    const size_t bytes = std::min<uint64_t>(out.size(), content.size() - offset);
    if (bytes != 0) std::memcpy(out.data(), content.data() + offset, bytes);
    return bytes;
  }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    if (!is_inside(path) || path.ends_with('/')) return outside_error(path);
    return std::unique_ptr<Writer>(std::make_unique<MemoryWriter>(files_, path));
  }
  Status remove(std::string_view path) override {
    if (!files_.remove(path)) return not_found(path);
    return {};
  }
  Status rename_folder(std::string_view from, std::string_view to) override {
    if (!is_inside(from) || from.ends_with('/')) return outside_error(from);
    if (!is_inside(to) || to.ends_with('/')) return outside_error(to);
    return files_.rename_folder(std::string(from) + "/", std::string(to) + "/");
  }
  Result<uint64_t> free_bytes() override { return UINT64_MAX; }

 private:
  const std::string label_;
  MemoryFiles files_;
};

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  FB_TRY(OptionReader::open("memory", {}, values));
  return std::unique_ptr<Store>(std::make_unique<MemoryStore>(root));
}

}  // namespace

extern const Driver kMemory;
const Driver kMemory{.name = "memory",
                     .summary = "files that live in this process and end with it",
                     .options = {},
                     .open = open};

}  // namespace forebay::storage

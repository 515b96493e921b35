// Files that exist only as a rule: reads cost nothing but our own overhead, writes are dropped.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "storage/changed.h"
#include "storage/fifo.h"
#include "storage/options.h"

namespace forebay::storage {
namespace {

constexpr int kInFlightMax = 1 << 20;
constexpr std::array<std::byte, 64 << 10> kZeros{};

constexpr std::string_view kDeliver[] = {"zeros", "nothing"};
constexpr StoreOption kOptions[] = {
    {"files", "count, 0..1000000000", "0", "files that the store claims to hold"},
    {"size", "bytes", "0", "size of each"},
    {"name", "text with {i} and optionally {n}", "img_{i}_of_{n}.raw",
     "their paths: {i} is the number from 0, {n} the count; may hold folders"},
    {"deliver", "zeros or nothing", "zeros",
     "what reads bring: zeros, or success without touching memory or visitor"},
};

struct Rule {
  uint64_t files = 0;
  uint64_t size = 0;
  std::string before, after;  // around {i}
  bool delivers_zeros = true;

  std::string path(uint64_t i) const { return fmt::format("{}{}{}", before, i, after); }
  bool holds(std::string_view path) const {
    if (path.size() <= before.size() + after.size()) return false;
    if (!path.starts_with(before) || !path.ends_with(after)) return false;
    const std::string_view digits =
        path.substr(before.size(), path.size() - before.size() - after.size());
    if (digits.size() > 1 && digits.front() == '0') return false;
    uint64_t i = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || i > files) return false;
      i = i * 10 + static_cast<uint64_t>(c - '0');
    }
    return i < files;
  }
};

Error not_found(std::string_view path) {
  return fail(ErrorCode::kNotFound, "{}: not among the files that the null store claims to hold",
              path);
}

void perform(const Rule& rule, const Read& read, Completion& out) {
  out.bytes = 0;
  out.visit_ns = 0;
  out.cpu_ns = -1;
  out.status = {};
  if (!rule.holds(read.path)) {
    out.status = not_found(read.path);
    return;
  }
  const uint64_t start = std::min(read.offset, rule.size);
  const uint64_t bytes = std::min(read.length, rule.size - start);
  if (rule.delivers_zeros) {
    if (read.destination != nullptr) std::memset(read.destination, 0, bytes);
    if (read.visitor != nullptr) {
      const int64_t before = base::monotonic_clock().now_ns();
      for (uint64_t done = 0; done < bytes;) {
        const size_t piece = std::min<uint64_t>(bytes - done, kZeros.size());
        read.visitor->visit(std::span(kZeros).first(piece));
        done += piece;
      }
      out.visit_ns = base::monotonic_clock().now_ns() - before;
    }
  }
  out.bytes = bytes;
  const bool is_changed =
      read.to_end ? read.offset + read.length != rule.size : bytes < read.length;
  if (is_changed) out.status = changed_error(read, rule.size);
}

// Carries reads out when they are reaped: there is nothing to wait for.
class NullQueue final : public ReadQueue {
 public:
  explicit NullQueue(const Rule& rule) : rule_(rule) {}

  void submit(std::span<const Read> reads) override {
    for (const Read& read : reads) waiting_.push(read);
  }
  size_t reap(std::span<Completion> out, std::stop_token /*stop*/) override {
    const size_t count = std::min(out.size(), waiting_.size());
    int64_t last = base::monotonic_clock().now_ns();
    for (size_t i = 0; i < count; ++i) {
      const Read read = waiting_.pop();
      out[i].tag = read.tag;
      out[i].started_ns = last;
      perform(rule_, read, out[i]);
      out[i].ended_ns = last = base::monotonic_clock().now_ns();
    }
    return count;
  }
  void wake() override {}  // reap never waits

 private:
  const Rule& rule_;
  Fifo<Read> waiting_;
};

class NullWriter final : public Writer {
 public:
  explicit NullWriter(std::string_view path) : path_(path) {}
  Status append(std::span<const std::byte> bytes) override {
    FB_TRY(usable());
    size_ += bytes.size();
    return {};
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    FB_TRY(usable());
    if (offset > size_ || bytes.size() > size_ - offset) {
      return fail(ErrorCode::kInvalidArgument, "{}: patch of bytes {} to {} in {} appended", path_,
                  offset, offset + bytes.size(), size_);
    }
    return {};
  }
  Status sync() override { return usable(); }
  Status publish() override {
    FB_TRY(usable());
    is_published_ = true;
    return {};
  }

 private:
  Status usable() const {
    if (!is_published_) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: already published", path_);
  }

  const std::string path_;
  uint64_t size_ = 0;
  bool is_published_ = false;
};

class NullStore final : public Store {
 public:
  NullStore(std::string_view label, Rule rule) : label_(label), rule_(std::move(rule)) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = kInFlightMax;
    out.can_sync = true;  // vacuously: there is nothing that power loss could take
    out.can_patch = true;
    out.keeps_files = false;
    return out;
  }
  std::string describe() const override { return "null:" + label_; }

  Result<Listing> list(std::string_view prefix) override {
    FB_TRY(check_stop());
    while (prefix.ends_with('/')) prefix.remove_suffix(1);
    Listing out;
    for (uint64_t i = 0; i < rule_.files; ++i) {
      std::string path = rule_.path(i);
      const bool is_below =
          prefix.empty() ||
          (path.size() > prefix.size() && path.starts_with(prefix) && path[prefix.size()] == '/');
      if (is_below) out.files.push_back({std::move(path), rule_.size, 0});
    }
    if (out.files.empty() && !prefix.empty()) return not_found(prefix);
    std::sort(out.files.begin(), out.files.end(),
              [](const FileInfo& a, const FileInfo& b) { return a.path < b.path; });
    return out;
  }
  Result<FileInfo> stat(std::string_view path) override {
    FB_TRY(check_stop());
    if (!rule_.holds(path)) return not_found(path);
    return FileInfo{std::string(path), rule_.size, 0};
  }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions /*options*/) override {
    return std::unique_ptr<ReadQueue>(std::make_unique<NullQueue>(rule_));
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    FB_TRY(check_stop());
    if (!rule_.holds(path)) return not_found(path);
    if (offset >= rule_.size) return size_t{0};
    const size_t bytes = std::min<uint64_t>(out.size(), rule_.size - offset);
    if (rule_.delivers_zeros) std::fill_n(out.begin(), bytes, std::byte{0});
    return bytes;
  }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    if (!is_inside(path) || path.ends_with('/')) return outside_error(path);
    return std::unique_ptr<Writer>(std::make_unique<NullWriter>(path));
  }
  Status remove(std::string_view path) override {
    if (!rule_.holds(path)) return not_found(path);
    return fail(ErrorCode::kUnsupported, "{}: files of the null store follow a rule", path);
  }
  Result<uint64_t> free_bytes() override { return UINT64_MAX; }

 private:
  const std::string label_;
  const Rule rule_;
};

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("null", kOptions, values));
  Rule rule;
  rule.files = static_cast<uint64_t>(FB_TRY(options.integer("files", 0, 1'000'000'000)));
  rule.size = FB_TRY(options.bytes("size", 0, uint64_t{1} << 62));
  rule.delivers_zeros = FB_TRY(options.choice("deliver", kDeliver)) == 0;
  std::string name(options.text("name"));
  for (size_t at = name.find("{n}"); at != std::string::npos; at = name.find("{n}")) {
    name.replace(at, 3, std::to_string(rule.files));
  }
  const size_t number = name.find("{i}");
  if (number == std::string::npos || !is_inside(name)) {
    return fail(ErrorCode::kInvalidArgument,
                "storage 'null': name={}: must be a relative path that holds {{i}}",
                options.text("name"));
  }
  rule.before = name.substr(0, number);
  rule.after = name.substr(number + 3);
  return std::unique_ptr<Store>(std::make_unique<NullStore>(root, std::move(rule)));
}

}  // namespace

extern const Driver kNull;
const Driver kNull{.name = "null",
                   .summary = "reads cost nothing and bring zeros, writes are dropped",
                   .options = kOptions,
                   .open = open};

}  // namespace forebay::storage

#include "storage/windowed.h"

#include <algorithm>

namespace forebay::storage {
namespace {

constexpr uint64_t kAroundBytes = 64 << 10;

}  // namespace

Result<size_t> WindowedStore::read_at(std::string_view path, uint64_t offset,
                                      std::span<std::byte> out) {
  if (out.size() >= kAroundBytes) return over_.read_at(path, offset, out);
  if (path != path_) {
    path_ = path;
    windows_ = {};
  }
  const auto take_from = [&](const Window& window) {
    const uint64_t end = window.offset + window.bytes.size();
    const uint64_t start = std::min(offset, end);
    const size_t bytes = std::min<uint64_t>(out.size(), end - start);
    std::copy_n(window.bytes.begin() + static_cast<ptrdiff_t>(start - window.offset), bytes,
                out.begin());
    return bytes;
  };
  for (const Window& window : windows_) {
    const uint64_t end = window.offset + window.bytes.size();
    const bool is_there =
        offset >= window.offset && (offset + out.size() <= end || window.is_to_end);
    if (is_there && !window.bytes.empty()) return take_from(window);
  }
  Window& window = windows_[next_];
  next_ = (next_ + 1) % windows_.size();
  window.bytes.clear();
  window.offset = offset - std::min(offset, kAroundBytes);
  std::vector<std::byte> bytes(offset - window.offset + out.size() + kAroundBytes);
  const size_t got = FB_TRY(over_.read_at(path, window.offset, bytes));
  window.is_to_end = got < bytes.size();
  bytes.resize(got);
  window.bytes = std::move(bytes);
  return take_from(window);
}

}  // namespace forebay::storage

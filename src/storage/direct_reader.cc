#include "storage/direct_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "storage/changed.h"

namespace forebay::storage {
namespace {

constexpr int kTriesMax = 2;  // a device error or a stale handle gets one more chance

uint64_t align_down(uint64_t x) {
  return x & ~(kDirectAlignBytes - 1);
}
uint64_t align_up(uint64_t x) {
  return align_down(x + kDirectAlignBytes - 1);
}
bool is_aligned(const std::byte* address) {
  return (reinterpret_cast<uintptr_t>(address) & (kDirectAlignBytes - 1)) == 0;
}

void show(const Read& read, std::span<const std::byte> piece, Completion& out) {
  if (read.visitor == nullptr) return;
  const int64_t start = base::monotonic_clock().now_ns();
  read.visitor->visit(piece);
  out.visit_ns += base::monotonic_clock().now_ns() - start;
}

}  // namespace

void DirectReader::perform(const Read& read, Completion& out) {
  out.bytes = 0;
  out.retries = 0;
  out.status = {};
  if (!is_inside(read.path)) {
    out.status = outside_error(read.path);
    return;
  }
  sys::OpenMode mode = sys::OpenMode::kReadDirect;
  for (int tries = 1;;) {
    const sys::ScopedFd fd(folder_.open_at(read.path, mode));
    const int error_number = fd.is_open() ? transfer(fd.get(), read, out) : -fd.get();
    if (error_number == 0) return;
    // Some file systems refuse to open, others refuse the first read.
    if (error_number == EINVAL && mode == sys::OpenMode::kReadDirect && out.bytes == 0) {
      folder_.note_direct_refused(read.path);
      mode = sys::OpenMode::kRead;
      continue;
    }
    const bool may_retry = (error_number == EIO || error_number == ESTALE) && tries < kTriesMax &&
                           (read.visitor == nullptr || out.bytes == 0);
    if (!may_retry) {
      out.status = folder_.error(error_number, read.path,
                                 tries == 1 ? "" : fmt::format("tried {} times", tries));
      return;
    }
    out.bytes = 0;
    ++tries;
    ++out.retries;
  }
}

int DirectReader::transfer(int fd, const Read& read, Completion& out) {
  const uint64_t end = read.offset + read.length;
  bool is_short = false;
  while (out.bytes < read.length && !is_short) {
    const uint64_t at = read.offset + out.bytes;
    std::byte* const target = read.destination == nullptr ? nullptr : read.destination + out.bytes;
    const uint64_t whole = align_down(std::min<uint64_t>(end - at, piece_bytes_));
    if (target != nullptr && align_down(at) == at && is_aligned(target) && whole > 0) {
      const int64_t got = sys::read_once(fd, {target, whole}, at);
      if (got < 0) return static_cast<int>(-got);
      show(read, {target, static_cast<size_t>(got)}, out);
      out.bytes += static_cast<uint64_t>(got);
      is_short = got == 0;
      continue;
    }
    // The blocks around the wanted bytes go through aligned memory of our own.
    const uint64_t first = align_down(at);
    const uint64_t want = std::min<uint64_t>(align_up(end) - first, piece_bytes_);
    const std::span<std::byte> memory = scratch_.at_least(want);
    const int64_t got = sys::read_once(fd, memory, first);
    if (got < 0) return static_cast<int>(-got);
    const uint64_t skip = at - first;
    if (static_cast<uint64_t>(got) <= skip) {
      is_short = true;
      continue;
    }
    const uint64_t fresh = std::min<uint64_t>(static_cast<uint64_t>(got) - skip, end - at);
    const std::span<const std::byte> piece = memory.subspan(skip, fresh);
    if (target != nullptr) std::memcpy(target, piece.data(), piece.size());
    show(read, piece, out);
    out.bytes += fresh;
  }
  if (!is_short && !read.to_end) return 0;
  sys::FileStatus status;
  const int result = sys::status_of(fd, status);
  if (result < 0) return -result;
  if (is_short || (read.to_end && status.size != end)) {
    out.status = changed_error(read, status.size);
  }
  return 0;
}

}  // namespace forebay::storage

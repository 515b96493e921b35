#include "storage/file_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "storage/changed.h"

namespace forebay::storage {
namespace {

// The kernel is told of a sequential read from this size on; below it the hint costs more than it
// saves.
constexpr uint64_t kSequentialBytes = 1 << 20;
// A handle that went stale (the server replaced the file) is opened anew; a device error gets one
// more chance.
constexpr int kStaleTriesMax = 4;
constexpr int kIoTriesMax = 2;
constexpr int64_t kStalePauseNs = 10'000'000;

}  // namespace

void FileReader::perform(const Read& read, Completion& out) {
  out.bytes = 0;
  out.retries = 0;
  out.status = {};
  if (!is_inside(read.path)) {
    out.status = outside_error(read.path);
    return;
  }
  for (int tries = 1;; ++tries) {
    OpenFile kept = read.keep_open ? folder_.open_files().find(read.path) : nullptr;
    sys::ScopedFd own;
    int error_number = 0;
    if (kept == nullptr) {
      own = sys::ScopedFd(folder_.open_at(read.path, sys::OpenMode::kRead));
      if (!own.is_open()) {
        error_number = -own.get();
      } else if (read.keep_open) {
        read.in_order ? sys::advise_sequential(own.get()) : sys::advise_random(own.get());
        kept = folder_.open_files().keep(read.path, std::move(own));
      } else if (read.offset == 0 && read.length >= kSequentialBytes) {
        sys::advise_sequential(own.get());
      }
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): moved only into `kept`, which is then used
    const int fd = kept != nullptr ? kept->get() : own.get();
    if (error_number == 0) error_number = transfer(fd, read, out);
    if (error_number == 0) return;
    if (may_retry(error_number, tries, read, out)) {
      if (read.keep_open) folder_.open_files().forget(read.path);
      ++out.retries;
      continue;
    }
    out.status = folder_.error(error_number, read.path,
                               tries == 1 ? "" : fmt::format("tried {} times", tries));
    return;
  }
}

bool FileReader::may_retry(int error_number, int tries, const Read& read, Completion& out) const {
  const bool is_stale = error_number == ESTALE;
  if (!is_stale && error_number != EIO) return false;
  if (tries >= (is_stale ? kStaleTriesMax : kIoTriesMax)) return false;
  // The file under the name may be another by now: what a visitor saw cannot be continued with it.
  if (read.visitor != nullptr && out.bytes > 0) return false;
  out.bytes = 0;
  if (is_stale) {
    base::Clock& clock = base::monotonic_clock();
    clock.sleep_until_ns(clock.now_ns() + (kStalePauseNs << tries), std::stop_token());
  }
  return true;
}

int FileReader::transfer(int fd, const Read& read, Completion& out) {
  const bool in_pieces = read.destination == nullptr || read.visitor != nullptr;
  for (;;) {
    const uint64_t left = read.length - out.bytes;
    const size_t size = in_pieces ? std::min<uint64_t>(left, piece_bytes_) : left;
    const bool is_last = size == left;
    const bool asks_for_more = is_last && read.to_end;
    std::span<const std::byte> piece;
    const int64_t got = read_piece(fd, read, out.bytes, size, asks_for_more, piece);
    if (got < 0) return static_cast<int>(-got);
    const size_t fresh = std::min(static_cast<size_t>(got), size);
    if (read.visitor != nullptr && fresh > 0) {
      const int64_t start = base::monotonic_clock().now_ns();
      read.visitor->visit(piece.first(fresh));
      out.visit_ns += base::monotonic_clock().now_ns() - start;
    }
    out.bytes += fresh;
    if (static_cast<size_t>(got) != size) {
      sys::FileStatus status;
      const int result = sys::status_of(fd, status);
      if (result < 0) return -result;
      out.status = changed_error(read, status.size);
      return 0;
    }
    if (is_last) return 0;
  }
}

int64_t FileReader::read_piece(int fd, const Read& read, uint64_t done, size_t size,
                               bool asks_for_more, std::span<const std::byte>& piece) {
  const uint64_t offset = read.offset + done;
  if (read.destination == nullptr) {
    const std::span<std::byte> memory =
        scratch_.at_least(size + 1).first(size + (asks_for_more ? 1 : 0));
    piece = memory;
    return memory.empty() ? 0 : sys::read_at(fd, memory, offset, size);
  }
  const std::span<std::byte> memory{read.destination + done, size};
  piece = memory;
  if (!asks_for_more) return sys::read_at(fd, memory, offset);
  std::array<std::byte, 1> beyond;
  return sys::read_at(fd, memory, beyond, offset);
}

}  // namespace forebay::storage

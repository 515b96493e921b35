#include "storage/uring_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "storage/changed.h"
#include "storage/direct_reader.h"

namespace forebay::storage {
namespace {

constexpr size_t kEventsAtOnce = 64;
constexpr int kAgainMax = 1000;  // answers of "try again" to one piece before it is an error
constexpr int kTriesMax = 2;     // a device error or a stale handle gets one more chance

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}
uint64_t align_down(uint64_t x) {
  return x & ~(kDirectAlignBytes - 1);
}
uint64_t align_up(uint64_t x) {
  return align_down(x + kDirectAlignBytes - 1);
}

}  // namespace

// A read that was started.
struct UringQueue::Active {
  Read read;
  Completion out;
  OpenFile kept;  // or
  sys::ScopedFd own;
  Fifo<size_t> pieces;     // its slots, by offset
  uint64_t requested = 0;  // bytes of it that pieces were made for
  size_t in_flight = 0;
  int error_number = 0;  // the first; no more pieces are made or handed on then
  int tries = 1;
  bool is_direct = false;
  bool is_direct_refused = false;
  bool is_short = false;

  int fd() const { return kept != nullptr ? kept->get() : own.get(); }
  bool is_over() const { return error_number != 0 || is_short || out.bytes == read.length; }
};

// One piece on its way.
struct UringQueue::Slot {
  Active* active = nullptr;
  std::span<std::byte> memory;  // what is still to be filled
  std::span<std::byte> piece;   // the bytes wanted of it
  uint64_t offset = 0;          // in the file, of `memory`
  uint64_t filled = 0;          // bytes that arrived
  uint64_t skip = 0;            // bytes before the wanted ones (direct)
  int again = 0;
  bool is_own_memory = false;
  bool is_there = false;
};

UringQueue::UringQueue(Folder& folder, std::unique_ptr<sys::Ring> ring, const UringOptions& options)
    : folder_(folder), ring_(std::move(ring)), options_(options) {
  slots_.resize(static_cast<size_t>(options.depth));
  depth_ = slots_.size();
  for (size_t i = slots_.size(); i > 0; --i) free_slots_.push_back(i - 1);
}

UringQueue::~UringQueue() {
  is_closing_ = true;  // no piece is handed on any more
  while (in_flight_ > 0) enter(true);
}

void UringQueue::submit(std::span<const Read> reads) {
  for (const Read& read : reads) waiting_.push(read);
  fill();
  enter(false);
}

size_t UringQueue::reap(std::span<Completion> out, std::stop_token stop) {
  const bool can_wait = !out.empty();
  std::stop_callback rouse(stop, [this] { ring_->wake(); });
  for (;;) {
    fill();
    const bool is_awaited = can_wait && done_.empty() && in_flight_ > 0 &&
                            !is_woken_.load(std::memory_order_acquire) && !stop.stop_requested();
    if (!is_awaited) break;
    enter(true);
  }
  if (in_flight_ > 0) enter(false);
  is_woken_.store(false, std::memory_order_release);
  const size_t count = std::min(out.size(), done_.size());
  for (size_t i = 0; i < count; ++i) out[i] = done_.pop();
  return count;
}

void UringQueue::wake() {
  is_woken_.store(true, std::memory_order_release);
  ring_->wake();
}

int UringQueue::set_depth(int depth) {
  depth_ = std::clamp<size_t>(static_cast<size_t>(std::max(1, depth)), 1, slots_.size());
  return static_cast<int>(depth_);
}

void UringQueue::fill() {
  while (slots_.size() - free_slots_.size() < depth_) {
    if (current_ == nullptr) {
      if (!again_.empty()) {
        current_ = again_.pop();
      } else if (!waiting_.empty()) {
        if (free_reads_.empty()) {
          reads_.push_back(std::make_unique<Active>());
          free_reads_.push_back(reads_.back().get());
        }
        current_ = free_reads_.back();
        free_reads_.pop_back();
        current_->read = waiting_.pop();
        current_->out = {};
        current_->out.tag = current_->read.tag;
        current_->out.started_ns = now_ns();
        current_->tries = 1;
        current_->is_direct_refused = false;
      } else {
        return;
      }
      open_file(*current_);
      if (current_->is_over()) {
        Active& over = *current_;
        current_ = nullptr;
        advance(over);
        continue;
      }
    }
    prepare_piece(*current_);
    if (current_->requested == current_->read.length) current_ = nullptr;
  }
}

void UringQueue::open_file(Active& active) {
  const Read& read = active.read;
  active.requested = 0;
  active.error_number = 0;
  active.is_short = false;
  active.is_direct = options_.is_direct && !active.is_direct_refused;
  active.out.bytes = 0;
  active.kept = nullptr;
  active.own.reset();
  if (!is_inside(read.path)) {
    active.error_number = EINVAL;
    return;
  }
  const bool may_keep = read.keep_open && !active.is_direct;
  if (may_keep) active.kept = folder_.open_files().find(read.path);
  if (active.kept != nullptr) return;
  int fd = folder_.open_at(read.path,
                           active.is_direct ? sys::OpenMode::kReadDirect : sys::OpenMode::kRead);
  if (fd == -EINVAL && active.is_direct) {
    folder_.note_direct_refused(read.path);
    active.is_direct = false;
    fd = folder_.open_at(read.path, sys::OpenMode::kRead);
  }
  if (fd < 0) {
    active.error_number = -fd;
    return;
  }
  active.own = sys::ScopedFd(fd);
  if (may_keep) active.kept = folder_.open_files().keep(read.path, std::move(active.own));
}

std::span<std::byte> UringQueue::slot_memory(size_t slot_index) {
  const std::span<std::byte> all = memory_.at_least(slots_.size() * options_.piece_bytes);
  if (!has_memory_) {
    has_memory_ = true;
    // Locked memory is limited for ordinary users; without it reads cost a little more.
    is_registered_ = ring_->register_buffer(all).ok();
  }
  return all.subspan(slot_index * options_.piece_bytes, options_.piece_bytes);
}

void UringQueue::prepare_piece(Active& active) {
  const size_t slot_index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[slot_index];
  const Read& read = active.read;
  slot = Slot();
  slot.active = &active;
  const uint64_t at = read.offset + active.requested;
  const uint64_t left = read.length - active.requested;
  uint64_t size = 0;
  if (active.is_direct) {
    slot.is_own_memory = true;
    slot.offset = align_down(at);
    slot.skip = at - slot.offset;
    const uint64_t span =
        std::min<uint64_t>(align_up(at + left) - slot.offset, options_.piece_bytes);
    size = std::min(left, span - slot.skip);
    slot.memory = slot_memory(slot_index).first(span);
    slot.piece = slot.memory.subspan(slot.skip, size);
  } else {
    size = std::min<uint64_t>(left, options_.piece_bytes);
    slot.offset = at;
    slot.is_own_memory = read.destination == nullptr;
    slot.memory = slot.is_own_memory
                      ? slot_memory(slot_index).first(size)
                      : std::span<std::byte>(read.destination + active.requested, size);
    slot.piece = slot.memory;
  }
  active.requested += size;
  active.pieces.push(slot_index);
  ++active.in_flight;
  ++in_flight_;
  prepare(slot_index);
}

void UringQueue::prepare(size_t slot_index) {
  const Slot& slot = slots_[slot_index];
  ring_->prepare({.fd = slot.active->fd(),
                  .out = slot.memory,
                  .offset = slot.offset,
                  .tag = slot_index,
                  .is_registered = slot.is_own_memory && is_registered_});
}

void UringQueue::enter(bool wait) {
  std::array<sys::RingEvent, kEventsAtOnce> events;
  const Result<size_t> count = ring_->enter(events, wait);
  // A ring that was opened fails only by misuse.
  FB_CHECK(count.ok());
  for (size_t i = 0; i < *count; ++i) take_event(events[i]);
}

void UringQueue::take_event(const sys::RingEvent& event) {
  Slot& slot = slots_[event.tag];
  Active& active = *slot.active;
  const bool is_again = event.result == -EINTR || event.result == -EAGAIN;
  if (is_again && !is_closing_ && ++slot.again < kAgainMax) return prepare(event.tag);
  if (event.result > 0) {
    const auto got = static_cast<size_t>(event.result);
    slot.filled += got;
    slot.memory = slot.memory.subspan(got);
    slot.offset += got;
    // A direct read is short at the end of the file only; its rest would have no alignment.
    const bool has_rest = !slot.memory.empty() && (!active.is_direct || got % kPageBytes == 0);
    if (has_rest && !is_closing_) return prepare(event.tag);
  } else if (event.result < 0 && active.error_number == 0) {
    active.error_number = static_cast<int>(-event.result);
  }
  slot.is_there = true;
  --active.in_flight;
  --in_flight_;
  if (!is_closing_) advance(active);
}

bool UringQueue::hand_on(Active& active, Slot& slot) {
  const Read& read = active.read;
  const uint64_t usable = slot.filled > slot.skip ? slot.filled - slot.skip : 0;
  const std::span<const std::byte> piece =
      slot.piece.first(std::min<uint64_t>(usable, slot.piece.size()));
  if (slot.is_own_memory && read.destination != nullptr && !piece.empty()) {
    std::memcpy(read.destination + active.out.bytes, piece.data(), piece.size());
  }
  if (read.visitor != nullptr && !piece.empty()) {
    const int64_t start = now_ns();
    read.visitor->visit(piece);
    active.out.visit_ns += now_ns() - start;
  }
  active.out.bytes += piece.size();
  return piece.size() == slot.piece.size();
}

void UringQueue::advance(Active& active) {
  while (!active.pieces.empty() && slots_[active.pieces.front()].is_there) {
    const size_t slot_index = active.pieces.pop();
    if (active.error_number == 0 && !active.is_short) {
      active.is_short = !hand_on(active, slots_[slot_index]);
    }
    free_slots_.push_back(slot_index);
  }
  if (!active.is_over()) return;
  if (current_ == &active) current_ = nullptr;
  if (active.in_flight > 0) return;
  if (may_retry(active)) {
    ++active.tries;
    if (!active.is_direct_refused || active.error_number != EINVAL) ++active.out.retries;
    if (active.read.keep_open) folder_.open_files().forget(active.read.path);
    again_.push(&active);
    return;
  }
  end(active);
}

bool UringQueue::may_retry(Active& active) const {
  if (active.error_number == EINVAL && active.is_direct && active.out.bytes == 0) {
    folder_.note_direct_refused(active.read.path);
    active.is_direct_refused = true;
    return true;
  }
  if (active.error_number != EIO && active.error_number != ESTALE) return false;
  return active.tries < kTriesMax && (active.read.visitor == nullptr || active.out.bytes == 0);
}

void UringQueue::end(Active& active) {
  const Read& read = active.read;
  if (active.error_number != 0 && !is_inside(read.path)) {
    active.out.status = outside_error(read.path);
  } else if (active.error_number != 0) {
    active.out.status =
        folder_.error(active.error_number, read.path,
                      active.tries == 1 ? "" : fmt::format("tried {} times", active.tries));
  } else if (active.is_short || read.to_end) {
    sys::FileStatus status;
    const int result = sys::status_of(active.fd(), status);
    if (result < 0) {
      active.out.status = folder_.error(-result, read.path);
    } else if (active.is_short || status.size != read.offset + read.length) {
      active.out.status = changed_error(read, status.size);
    }
  }
  active.out.ended_ns = now_ns();
  active.out.cpu_ns = -1;  // the kernel's part is not this thread's alone
  active.kept = nullptr;
  active.own.reset();
  done_.push(std::move(active.out));
  free_reads_.push_back(&active);
}

}  // namespace forebay::storage

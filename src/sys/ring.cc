#include "sys/ring.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "sys/file.h"

namespace forebay::sys {
namespace {

constexpr uint64_t kWakeTag = ~uint64_t{0};

bool is_disabled() {
  const char* text = std::getenv("FOREBAY_DISABLE_IO_URING");
  return text != nullptr && *text != '\0' && std::string_view(text) != "0";
}

}  // namespace

class Ring::Impl {
 public:
  ~Impl() {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  Status open(unsigned entries) {
    if (is_disabled()) {
      return fail(ErrorCode::kUnsupported, "io_uring: disabled by FOREBAY_DISABLE_IO_URING");
    }
    // One more entry than reads: the wake read is always in flight.
    const int result = io_uring_queue_init(entries + 1, &ring_, 0);
    if (result < 0) {
      return fail(ErrorCode::kUnsupported, "io_uring: the kernel refuses: {}",
                  std::strerror(-result));
    }
    is_open_ = true;
    wake_fd_ = ScopedFd(::eventfd(0, EFD_CLOEXEC));
    if (!wake_fd_.is_open()) return error_from_errno(errno, "eventfd");
    return {};
  }

  Status register_buffer(std::span<std::byte> buffer) {
    const iovec whole{buffer.data(), buffer.size()};
    const int result = io_uring_register_buffers(&ring_, &whole, 1);
    if (result < 0) return error_from_errno(-result, "io_uring", "register buffers");
    return {};
  }

  void prepare(const RingRead& read) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    FB_CHECK(entry != nullptr);
    const auto bytes = static_cast<unsigned>(read.out.size());
    if (read.is_registered) {
      io_uring_prep_read_fixed(entry, read.fd, read.out.data(), bytes, read.offset, 0);
    } else {
      io_uring_prep_read(entry, read.fd, read.out.data(), bytes, read.offset);
    }
    io_uring_sqe_set_data64(entry, read.tag);
  }

  Result<size_t> enter(std::span<RingEvent> out, bool wait) {
    if (!is_wake_armed_) arm_wake();
    for (;;) {
      const int result = wait ? io_uring_submit_and_wait(&ring_, 1) : io_uring_submit(&ring_);
      if (result >= 0) break;
      // The kernel is short of memory or of room for completions: taking some makes room.
      if (result == -EAGAIN || result == -EBUSY) break;
      if (result != -EINTR) return error_from_errno(-result, "io_uring", "enter");
    }
    return take(out);
  }

  void wake() {
    const uint64_t one = 1;
    // Only a full counter can refuse, and then a wake is pending already.
    [[maybe_unused]] const ssize_t put = ::write(wake_fd_.get(), &one, sizeof one);
  }

 private:
  void arm_wake() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    FB_CHECK(entry != nullptr);
    io_uring_prep_read(entry, wake_fd_.get(), &wake_count_, sizeof wake_count_, 0);
    io_uring_sqe_set_data64(entry, kWakeTag);
    is_wake_armed_ = true;
  }

  size_t take(std::span<RingEvent> out) {
    size_t count = 0;
    unsigned seen = 0;
    unsigned head = 0;
    io_uring_cqe* event = nullptr;
    io_uring_for_each_cqe(&ring_, head, event) {
      if (io_uring_cqe_get_data64(event) == kWakeTag) {
        is_wake_armed_ = false;
      } else if (count == out.size()) {
        break;
      } else {
        out[count++] = {io_uring_cqe_get_data64(event), event->res};
      }
      ++seen;
    }
    io_uring_cq_advance(&ring_, seen);
    return count;
  }

  io_uring ring_{};
  bool is_open_ = false;
  ScopedFd wake_fd_;
  uint64_t wake_count_ = 0;
  bool is_wake_armed_ = false;
};

Ring::Ring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ring::~Ring() = default;

Result<std::unique_ptr<Ring>> Ring::open(unsigned entries) {
  auto impl = std::make_unique<Impl>();
  FB_TRY(impl->open(entries));
  return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Status Ring::register_buffer(std::span<std::byte> buffer) {
  return impl_->register_buffer(buffer);
}
void Ring::prepare(const RingRead& read) {
  impl_->prepare(read);
}
Result<size_t> Ring::enter(std::span<RingEvent> out, bool wait) {
  return impl_->enter(out, wait);
}
void Ring::wake() {
  impl_->wake();
}

}  // namespace forebay::sys

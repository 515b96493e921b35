#include "storage/file_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "storage/direct_reader.h"

namespace forebay::storage {
namespace {

// Formats append headers of a few bytes; system calls should move more than that.
constexpr size_t kBufferBytes = 256 << 10;

}  // namespace

FileWriter::FileWriter(Folder& folder, int root_fd, sys::ScopedFd file, std::string part,
                       std::string path, Caching caching)
    : folder_(folder),
      root_fd_(root_fd),
      file_(std::move(file)),
      part_(std::move(part)),
      path_(std::move(path)),
      is_direct_(caching == Caching::kDirect) {}

FileWriter::~FileWriter() {
  if (is_published_ || failure_) return;
  sys::remove_file(root_fd_, part_).ignore("an unpublished file is hidden and cleaned up later");
}

Status FileWriter::usable() const {
  if (failure_) return *failure_;
  if (is_published_) {
    return fail(ErrorCode::kInvalidArgument, "{}: already published", path_);
  }
  return {};
}

Error FileWriter::give_up(Error error) {
  failure_ = error;
  sys::remove_file(root_fd_, part_).ignore("the first error is the one that matters");
  file_.reset();
  return error;
}

Error FileWriter::write_error(int error_number) {
  Error error = folder_.error(error_number, path_, "write");
  if (error.code == ErrorCode::kResourceExhausted) {
    // Asked before the part is removed: what was free when the write failed.
    const Result<uint64_t> free = folder_.free_bytes();
    if (free.ok()) {
      error.message += fmt::format(" ({} free after {} of this file)",
                                   base::format_bytes(static_cast<double>(*free)),
                                   base::format_bytes(static_cast<double>(written_)));
    }
  }
  return give_up(std::move(error));
}

Result<size_t> FileWriter::write_direct(std::span<const std::byte> bytes, uint64_t offset) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const size_t whole = bytes.size() / kDirectAlignBytes * kDirectAlignBytes;
  if (!is_direct_ || whole == 0 || (address | offset) % kDirectAlignBytes != 0) return size_t{0};
  is_direct_ = sys::set_direct(file_.get(), true);
  if (!is_direct_) return size_t{0};
  const int result = sys::write_at(file_.get(), bytes.first(whole), offset);
  sys::set_direct(file_.get(), false);
  if (result == 0) return whole;
  if (result != -EINVAL) return write_error(-result);
  is_direct_ = false;  // it takes the flag and refuses the write
  return size_t{0};
}

Status FileWriter::write(std::span<const std::byte> bytes, uint64_t offset) {
  is_synced_ = false;
  const size_t done = FB_TRY(write_direct(bytes, offset));
  const int result = sys::write_at(file_.get(), bytes.subspan(done), offset + done);
  if (result == 0) return {};
  return write_error(-result);
}

Status FileWriter::flush() {
  if (buffered_ == 0) return {};
  const size_t bytes = std::exchange(buffered_, 0);
  FB_TRY(write(buffer_.at_least(bytes), written_));
  written_ += bytes;
  return {};
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  FB_TRY(usable());
  if (buffered_ + bytes.size() > kBufferBytes) FB_TRY(flush());
  if (bytes.size() >= kBufferBytes) {
    FB_TRY(write(bytes, written_));
    written_ += bytes.size();
  } else if (!bytes.empty()) {
    std::memcpy(buffer_.at_least(kBufferBytes).data() + buffered_, bytes.data(), bytes.size());
    buffered_ += bytes.size();
  }
  return {};
}

Status FileWriter::patch(uint64_t offset, std::span<const std::byte> bytes) {
  FB_TRY(usable());
  FB_TRY(flush());
  if (offset > written_ || bytes.size() > written_ - offset) {
    return fail(ErrorCode::kInvalidArgument, "{}: patch of bytes {} to {} in {} appended", path_,
                offset, offset + bytes.size(), written_);
  }
  return write(bytes, offset);
}

Status FileWriter::sync() {
  FB_TRY(usable());
  FB_TRY(flush());
  Status synced = sys::sync_file(file_.get(), part_);
  // After a failed fsync the kernel may have dropped the bytes: another try would lie.
  if (!synced.ok()) return give_up(std::move(synced).error());
  is_synced_ = true;
  return {};
}

Status FileWriter::publish() {
  FB_TRY(usable());
  const bool was_synced = is_synced_ && buffered_ == 0;
  FB_TRY(flush());
  Status renamed = sys::rename_file(root_fd_, part_, path_);
  if (!renamed.ok()) return give_up(std::move(renamed).error());
  is_published_ = true;
  folder_.open_files().forget(path_);
  file_.reset();
  if (was_synced) return sync_names_of(root_fd_, path_);
  return {};
}

}  // namespace forebay::storage

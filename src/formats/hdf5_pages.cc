#include "formats/hdf5_pages.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kPageBytes = 64 * 1024;  // what a request costs is its latency, not its bytes
constexpr uint64_t kPagesAtOnceMax = 64;
constexpr uint64_t kMetadataBytesMax = uint64_t{1} << 30;

}  // namespace

bool Hdf5Pages::copy(uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const uint64_t page = offset / kPageBytes;
    const auto found = pages_.find(page);
    if (found == pages_.end()) {
      wanted_ = page;
      return false;
    }
    const uint64_t at = offset % kPageBytes;
    const size_t n = std::min<uint64_t>(out.size(), found->second.size() - at);
    std::memcpy(out.data(), found->second.data() + at, n);
    out = out.subspan(n);
    offset += n;
  }
  return true;
}

Status Hdf5Pages::fetch(uint64_t page) {
  wanted_.reset();
  read_pages_ = page == next_page_ && page != 0 ? std::min(read_pages_ * 2, kPagesAtOnceMax) : 1;
  const uint64_t pages_in_file = (size_ + kPageBytes - 1) / kPageBytes;
  uint64_t end = std::min(page + read_pages_, pages_in_file);
  if (const auto known = pages_.lower_bound(page); known != pages_.end())
    end = std::min(end, known->first);
  const uint64_t offset = page * kPageBytes;
  const uint64_t length = std::min(end * kPageBytes, size_) - offset;
  if (bytes_ + length > kMetadataBytesMax)
    return fail(ErrorCode::kResourceExhausted, "{}: more than {} bytes of metadata", path_,
                kMetadataBytesMax);
  std::vector<std::byte> bytes(length);
  const size_t got = FB_TRY(store_.read_at(path_, offset, bytes));
  if (got != length)
    return fail(ErrorCode::kCorruption, "{}: changed while it was read: ends at byte {}, not {}",
                path_, offset + got, size_);
  for (uint64_t i = page; i < end; ++i) {
    const auto from = bytes.begin() + static_cast<ptrdiff_t>((i - page) * kPageBytes);
    const uint64_t n = std::min(kPageBytes, size_ - i * kPageBytes);
    pages_[i].assign(from, from + static_cast<ptrdiff_t>(n));
  }
  next_page_ = end;
  bytes_ += length;
  ++fetch_count_;
  return {};
}

}  // namespace forebay::formats

#include "formats/indexed_index.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kEntryBytes = sizeof(uint64_t);
constexpr uint64_t kWindowEntries = 32 * 1024;

Status check_entries(ByteSource& source) {
  const auto head = FB_TRY(source.at(0, std::min<uint64_t>(source.size(), 64)));
  FB_TRY(refuse_lfs_pointer(head));
  if (source.size() % kEntryBytes != 0)
    return fail(ErrorCode::kCorruption,
                "truncated at byte {}: not a whole number of 8-byte entries", source.size());
  if (source.size() == 0) return fail(ErrorCode::kCorruption, "empty file");
  return {};
}

// Follows the samples of a file and tells where each one starts.
class SampleFollower {
 public:
  explicit SampleFollower(uint64_t data_bytes) : data_bytes_(data_bytes) {}

  Status add(uint64_t offset, uint64_t size) {
    const uint64_t i = extents_.size();
    if (size == 0) return fail(ErrorCode::kCorruption, "sample {} has 0 bytes", i);
    if (size > data_bytes_ - end_)
      return fail(ErrorCode::kCorruption,
                  "sample {} has {} bytes from byte {} on, but the data file has {} bytes", i, size,
                  end_, data_bytes_);
    if (offset == 0) restart_ = end_;
    if (offset != end_ && offset != end_ - restart_)
      return fail(ErrorCode::kCorruption,
                  "sample {}: its offset is {}, but the samples before it end at byte {}", i,
                  offset, end_);
    extents_.push_back({end_, size});
    end_ += size;
    return {};
  }

  // The data may go on: DLIO's collective writes fill whole buffers. Only whole samples, then.
  Status finish() const {
    const uint64_t rest = data_bytes_ - end_;
    // Samples follow each other: those of one size are at equal distances.
    if (rest == 0 || (extents_.is_even() && rest % extents_.back().length == 0)) return {};
    return fail(ErrorCode::kCorruption,
                "its {} samples end at byte {}, but the data file has {} bytes", extents_.size(),
                end_, data_bytes_);
  }

  ExtentList take() { return std::move(extents_); }

 private:
  const uint64_t data_bytes_;
  ExtentList extents_;
  uint64_t end_ = 0;      // of the samples so far
  uint64_t restart_ = 0;  // where the latest offset of 0 was
};

}  // namespace

std::vector<std::string> indexed_side_paths(std::string_view path) {
  const std::string name(path);
  return {name + ".off.idx", name + ".sz.idx"};
}

Result<FileIndex> index_indexed(ByteSource& offsets, ByteSource& sizes, uint64_t data_bytes,
                                uint64_t samples) {
  FB_TRY(check_entries(offsets).context("offsets (.off.idx)"));
  FB_TRY(check_entries(sizes).context("sizes (.sz.idx)"));
  const uint64_t count = sizes.size() / kEntryBytes;
  if (offsets.size() != sizes.size())
    return fail(ErrorCode::kCorruption, "{} offsets (.off.idx), but {} sizes (.sz.idx)",
                offsets.size() / kEntryBytes, count);
  SampleFollower follower(data_bytes);
  for (uint64_t first = 0; first < count; first += kWindowEntries) {
    const uint64_t n = std::min(kWindowEntries, count - first);
    const auto offset = FB_TRY(offsets.at(first * kEntryBytes, n * kEntryBytes));
    const auto size = FB_TRY(sizes.at(first * kEntryBytes, n * kEntryBytes));
    for (uint64_t i = 0; i < n * kEntryBytes; i += kEntryBytes)
      FB_TRY(follower.add(load_le<uint64_t>(&offset[i]), load_le<uint64_t>(&size[i])));
  }
  FB_TRY(follower.finish());
  FileIndex index{.access = Access::kExtents};
  index.extents = follower.take();
  if (samples > 0) index.extents.truncate(samples);
  index.sample_count = index.extents.size();
  return index;
}

Status write_indexed_side(storage::Writer& writer, const FileSpec& spec, size_t which) {
  FB_TRY(check_spec(spec));
  const uint64_t bytes = record_bytes(spec);
  std::vector<std::byte> entries;
  for (uint64_t first = 0; first < spec.sample_count; first += kWindowEntries) {
    const uint64_t n = std::min(kWindowEntries, spec.sample_count - first);
    entries.resize(n * kEntryBytes);
    for (uint64_t i = 0; i < n; ++i)
      store_le<uint64_t>(&entries[i * kEntryBytes], which == 0 ? (first + i) * bytes : bytes);
    FB_TRY(writer.append(entries));
  }
  return {};
}

}  // namespace forebay::formats

#include "formats/tfrecord_index.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "formats/content_kind.h"
#include "formats/tfrecord_frame.h"
#include "formats/tfrecord_stream.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kWindowBytes = 256 * 1024;      // one read covers many small records
constexpr uint64_t kLargeRecordBytes = 64 * 1024;  // beyond this, headers are read one by one
constexpr uint64_t kIndexBytesMax = uint64_t{1} << 30;

// Follows frames through bytes that come in pieces, to count the records of a compressed file.
class FrameCounter {
 public:
  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (skip_ > 0) {
        const uint64_t n = std::min<uint64_t>(skip_, bytes.size());
        skip_ -= n;
        bytes = bytes.subspan(n);
        continue;
      }
      const size_t n = std::min(bytes.size(), kFrameHeaderBytes - held_.size());
      held_.insert(held_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
      bytes = bytes.subspan(n);
      if (held_.size() < kFrameHeaderBytes) break;
      const FrameHeader header = parse_frame_header(held_);
      if (!header.ok())
        return fail(ErrorCode::kCorruption, "record {}: length CRC {:#010x}, expected {:#010x}",
                    count_, header.crc, header.expected);
      if (header.length > kInflatedBytesMax)
        return fail(ErrorCode::kUnsupported, "record {}: {} bytes", count_, header.length);
      ++count_;
      skip_ = header.length + kFrameTrailerBytes;
      held_.clear();
    }
    return {};
  }
  Result<uint64_t> finish() const {
    if (skip_ > 0 || !held_.empty())
      return fail(ErrorCode::kCorruption, "its last record is truncated");
    return count_;
  }

 private:
  uint64_t count_ = 0;
  uint64_t skip_ = 0;
  std::vector<std::byte> held_;
};

Result<FileIndex> index_compressed(ByteSource& source) {
  InflatedStream stream;
  FrameCounter counter;
  for (uint64_t offset = 0; offset < source.size(); offset += kWindowBytes) {
    const auto piece = FB_TRY(source.at(offset, std::min(kWindowBytes, source.size() - offset)));
    FB_TRY(stream.append(piece,
                         [&](std::span<const std::byte> plain) { return counter.append(plain); }));
  }
  FB_TRY(stream.finish());
  FileIndex index{.access = Access::kTogether};
  index.sample_count = FB_TRY(counter.finish());
  if (index.sample_count == 0) return fail(ErrorCode::kCorruption, "no records");
  return index;
}

Result<FileIndex> index_frames(ByteSource& source) {
  const auto head = FB_TRY(source.at(0, std::min<uint64_t>(source.size(), 64)));
  if (head.empty()) return fail(ErrorCode::kCorruption, "empty file");
  const bool has_frame = head.size() >= kFrameHeaderBytes && parse_frame_header(head).ok();
  if (!has_frame) {
    FB_TRY(refuse_lfs_pointer(head));
    if (is_gzip(head) || is_zlib(head)) return index_compressed(source);
  }
  FileIndex index{.access = Access::kExtents};
  index.extents = FB_TRY(scan_frames(source));
  index.sample_count = index.extents.size();
  return index;
}

ExtentList read_side_file(storage::Store& store, const storage::FileInfo& file) {
  for (const std::string& path : {tfrecord_index_path(file.path), file.path + ".idx"}) {
    const auto text = storage::read_file(store, path, kIndexBytesMax);
    if (!text.ok()) continue;  // most data sets have none
    auto extents = parse_tfrecord_index({reinterpret_cast<const char*>(text->data()), text->size()},
                                        file.size);
    if (!extents.empty()) return extents;
  }
  return {};
}

}  // namespace

Result<ExtentList> scan_frames(ByteSource& source) {
  const uint64_t size = source.size();
  ExtentList extents;
  std::span<const std::byte> window;
  uint64_t window_offset = 0;
  uint64_t last_record = 0;
  for (uint64_t offset = 0; offset < size;) {
    if (size - offset < kFrameHeaderBytes) {
      extents.push_back({offset, size - offset});
      break;
    }
    if (offset + kFrameHeaderBytes > window_offset + window.size()) {
      const uint64_t wanted = last_record > kLargeRecordBytes ? kFrameHeaderBytes : kWindowBytes;
      window = FB_TRY(source.at(offset, std::min(wanted, size - offset)));
      window_offset = offset;
    }
    const FrameHeader header = parse_frame_header(window.subspan(offset - window_offset));
    const uint64_t room = size - offset - kFrameHeaderBytes;
    if (!header.ok()) {
      if (offset == 0)
        return fail(ErrorCode::kCorruption,
                    "not a TFRecord file ({}): record 0 at byte 0: length CRC {:#010x}, expected "
                    "{:#010x}",
                    content_kind(window.first(std::min<size_t>(window.size(), 256))), header.crc,
                    header.expected);
      extents.push_back({offset, kFrameHeaderBytes});
      break;
    }
    if (header.length > room || room - header.length < kFrameTrailerBytes) {
      extents.push_back({offset, size - offset});
      break;
    }
    extents.push_back({offset, kFrameBytes + header.length});
    last_record = header.length;
    offset += kFrameBytes + header.length;
  }
  return extents;
}

Result<FileIndex> index_tfrecord(storage::Store& store, const storage::FileInfo& file,
                                 const FormatOptions& /*options*/) {
  FileIndex index{.access = Access::kExtents};
  index.extents = read_side_file(store, file);
  index.sample_count = index.extents.size();
  if (!index.extents.empty()) return index;
  StoreSource source(store, file);
  return index_frames(source).context(file.path);
}

std::string tfrecord_index_path(std::string_view path) {
  size_t start = 0;
  while (start < path.size()) {
    const size_t slash = path.find('/', start);
    if (slash == std::string_view::npos) break;
    const std::string_view folder = path.substr(start, slash - start);
    if (folder == "train" || folder == "valid")
      return fmt::format("{}index/{}.idx", path.substr(0, start), path.substr(start));
    start = slash + 1;
  }
  return fmt::format("index/{}.idx", path);
}

ExtentList parse_tfrecord_index(std::string_view text, uint64_t file_bytes) {
  ExtentList extents;
  uint64_t offset = 0;
  while (!text.empty()) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    const std::string_view line = base::trim(text.substr(0, line_end));
    text.remove_prefix(std::min(line_end + 1, text.size()));
    if (line.empty()) continue;
    Extent extent;
    const char* end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, extent.offset);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ') return {};
    const auto second = std::from_chars(first.ptr + 1, end, extent.length);
    if (second.ec != std::errc() || second.ptr != end) return {};
    if (extent.offset != offset || extent.length < kFrameBytes ||
        extent.length > file_bytes - offset)
      return {};
    offset += extent.length;
    extents.push_back(extent);
  }
  if (offset != file_bytes) return {};
  return extents;
}

}  // namespace forebay::formats

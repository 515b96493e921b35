// tfrecord: framed records, each with CRCs of length and data; the whole file may be gzip or zlib.
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/example.h"
#include "formats/inflate.h"
#include "formats/tfrecord_check.h"
#include "formats/tfrecord_frame.h"
#include "formats/tfrecord_index.h"
#include "formats/tfrecord_stream.h"
#include "formats/tfrecord_write.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip};
constexpr std::string_view kExtensions[] = {"tfrecord", "tfrecords", "tfrecord.gz", "tfrecords.gz"};

bool recognises(std::span<const std::byte> head) {
  return head.size() >= kFrameHeaderBytes && parse_frame_header(head).ok();
}

class TfrecordReader : public Reader {
 public:
  explicit TfrecordReader(const FormatOptions& options) : example_(options.columns) {}

  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    if (index.access == Access::kTogether)
      return read_compressed(bytes, sample_in_file).context(std::string(path));
    const uint64_t offset =
        sample_in_file < index.extents.size() ? index.extents[sample_in_file].offset : 0;
    return read_frame(bytes, offset, index.sample_count, sample_in_file).context(std::string(path));
  }
  Status read_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t sample_in_file, std::vector<Part>& out) override {
    out.clear();
    const Record record = FB_TRY(read(path, bytes, index, sample_in_file));
    return example_.parse(record.bytes, out)
        .context(fmt::format("{}: record {}", path, sample_in_file));
  }
  std::unique_ptr<StreamCheck> make_stream_check() override { return make_tfrecord_check(); }

 private:
  static Result<Record> read_frame(std::span<const std::byte> bytes, uint64_t offset,
                                   uint64_t sample_count, uint64_t i) {
    if (bytes.size() < kFrameHeaderBytes)
      return fail(ErrorCode::kCorruption, "record {} at byte {}: truncated at byte {}", i, offset,
                  offset + bytes.size());
    const FrameHeader header = parse_frame_header(bytes);
    if (!header.ok())
      return fail(ErrorCode::kCorruption,
                  "record {} at byte {}: length CRC {:#010x}, expected {:#010x}; the rest of the "
                  "file is unreachable",
                  i, offset, header.crc, header.expected);
    if (header.length > bytes.size() - kFrameHeaderBytes ||
        bytes.size() - kFrameHeaderBytes - header.length < kFrameTrailerBytes)
      return fail(ErrorCode::kCorruption,
                  "record {} at byte {}: truncated at byte {}; its {} bytes would end at {}", i,
                  offset, offset + bytes.size(), header.length,
                  offset + kFrameBytes + header.length);
    if (bytes.size() != kFrameBytes + header.length)
      return fail(ErrorCode::kCorruption, "record {} of {} at byte {}: {} bytes, the index says {}",
                  i, sample_count, offset, kFrameBytes + header.length, bytes.size());
    const auto data = bytes.subspan(kFrameHeaderBytes, header.length);
    const uint32_t stored = load_le<uint32_t>(data.data() + data.size());
    const uint32_t crc = mask_crc(base::crc32c(0, data));
    if (crc != stored)
      return fail(ErrorCode::kCorruption,
                  "record {} at byte {}: data CRC {:#010x}, expected {:#010x}", i, offset, crc,
                  stored);
    return Record{.encoding = Encoding::kExample, .bytes = data};
  }

  // Inflates once for all samples; the compressed bytes are compared by length and checksum.
  Result<Record> read_compressed(std::span<const std::byte> bytes, uint64_t i) {
    const bool is_known = bytes.data() == file_.data() && bytes.size() == file_.size() &&
                          bytes.size() >= 8 &&
                          std::equal(trailer_.begin(), trailer_.end(), bytes.end() - 8) &&
                          i < extents_.size() && !served_[i];
    if (!is_known) FB_TRY(inflate(bytes));
    if (i >= extents_.size())
      return fail(ErrorCode::kCorruption, "record {}: the file holds {} records", i,
                  extents_.size());
    served_[i] = true;
    const Extent extent = extents_[i];
    const auto frame = std::span<const std::byte>(plain_).subspan(extent.offset, extent.length);
    return read_frame(frame, extent.offset, extents_.size(), i).context("inflated");
  }

  Status inflate(std::span<const std::byte> bytes) {
    file_ = {};
    plain_ = FB_TRY(inflate_tfrecord(bytes));
    SpanSource source(plain_);
    extents_ = FB_TRY(scan_frames(source));
    served_.assign(extents_.size(), false);
    trailer_.assign(bytes.end() - static_cast<ptrdiff_t>(std::min<size_t>(8, bytes.size())),
                    bytes.end());
    file_ = bytes;
    return {};
  }

  // Of the last compressed file:
  std::span<const std::byte> file_;
  std::vector<std::byte> trailer_;
  std::vector<std::byte> plain_;
  ExtentList extents_;
  std::vector<bool> served_;
  ExampleParser example_;
};

}  // namespace

const Format kTfrecord{.name = "tfrecord",
                       .summary = "framed records with checksums, as TensorFlow writes them",
                       .extensions = kExtensions,
                       .recognises = recognises,
                       .index = index_tfrecord,
                       .make_reader = [](const FormatOptions& options) -> std::unique_ptr<Reader> {
                         return std::make_unique<TfrecordReader>(options);
                       },
                       .compressions = kCompressions,
                       .write = write_tfrecord,
                       .estimate_bytes = tfrecord_bytes,
                       .side_paths = [](std::string_view path) -> std::vector<std::string> {
                         return {tfrecord_index_path(path)};
                       },
                       .write_side = write_tfrecord_index};

}  // namespace forebay::formats

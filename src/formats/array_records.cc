#include "formats/array_records.h"

#include "base/error.h"

namespace forebay::formats {

Result<NpyHeader> parse_npy(std::span<const std::byte> bytes) {
  NpyHeader header = FB_TRY(parse_npy_header(bytes));
  const uint64_t got = bytes.size() - header.data_offset;
  if (got < header.data_bytes)
    return fail(ErrorCode::kCorruption,
                "truncated at byte {}: the array needs {} bytes, {} are there", bytes.size(),
                header.data_bytes, got);
  if (got > header.data_bytes)
    return fail(ErrorCode::kCorruption, "{} bytes follow the array, which ends at byte {}",
                got - header.data_bytes, header.data_offset + header.data_bytes);
  return header;
}

Result<FileIndex> index_array(const NpyHeader& header, uint64_t file_offset,
                              uint64_t sample_count) {
  const ArrayLayout& layout = header.layout;
  FileIndex index;
  if (sample_count <= 1) return index;
  if (layout.shape.empty() || layout.shape.back() != sample_count)
    return fail(ErrorCode::kInvalidArgument,
                "{} samples per file were asked for, but the last axis of the array has {}",
                sample_count, layout.shape.empty() ? 1 : layout.shape.back());
  index.sample_count = sample_count;
  index.access = Access::kTogether;
  if (!layout.is_fortran_order && layout.shape.size() > 1) return index;
  index.access = Access::kExtents;
  index.extent_array = layout;
  index.extent_array->shape.pop_back();
  const uint64_t bytes = header.data_bytes / sample_count;
  index.extents = ExtentList::even({file_offset + header.data_offset, bytes}, bytes, sample_count);
  return index;
}

Record array_record(const ArrayLayout& layout, std::span<const std::byte> data,
                    const FileIndex& index, uint64_t sample_in_file) {
  Record record{.encoding = Encoding::kArray, .bytes = data, .array = layout};
  if (index.sample_count > 1) {
    record.sample_in_file = sample_in_file;
    record.sample_axis = static_cast<int>(layout.shape.size()) - 1;
  }
  return record;
}

Result<Record> extent_record(std::span<const std::byte> bytes, const FileIndex& index) {
  if (!index.extent_array)
    return fail(ErrorCode::kInvalidArgument, "the index lacks the layout of its extents");
  const uint64_t wanted = FB_TRY(array_bytes(*index.extent_array));
  if (bytes.size() != wanted)
    return fail(ErrorCode::kCorruption, "truncated at byte {} of a sample of {} bytes",
                bytes.size(), wanted);
  return Record{.encoding = Encoding::kArray, .bytes = bytes, .array = *index.extent_array};
}

}  // namespace forebay::formats

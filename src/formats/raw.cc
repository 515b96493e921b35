// raw: bytes without any structure: one record per file, or records of a fixed size.
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"raw", "bin"};

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // any bytes could be raw

// As given, or as much as the array of a record takes.
Result<uint64_t> record_size(const FormatOptions& options) {
  if (!options.record_array) return options.record_bytes;
  const uint64_t bytes = FB_TRY(array_bytes(*options.record_array));
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "an array of 0 bytes as the record");
  if (options.record_array->shape.empty() && options.record_bytes > bytes &&
      options.record_bytes % bytes == 0)
    return fail(ErrorCode::kInvalidArgument,
                "records of {} bytes hold {} values of {}: give their record_shape, [{}] or what "
                "has as many",
                options.record_bytes, options.record_bytes / bytes,
                element_name(options.record_array->type), options.record_bytes / bytes);
  if (options.record_bytes != 0 && options.record_bytes != bytes)
    return fail(ErrorCode::kInvalidArgument,
                "records of {} bytes cannot be arrays that take {} bytes", options.record_bytes,
                bytes);
  return bytes;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  const uint64_t record = FB_TRY(record_size(options).context(file.path));
  FileIndex result;
  if (record == 0) {
    if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
    return result;
  }
  if (file.size == 0 || file.size % record != 0) {
    StoreSource source(store, file);
    const Error partial =
        fail(ErrorCode::kCorruption,
             "{} bytes are {} records of {} bytes and {} bytes of a partial record "
             "(the record size is dataset.record_length_bytes or --record-bytes)",
             file.size, file.size / record, record, file.size % record);
    return Result<FileIndex>(explain_lfs_pointer(source, partial)).context(file.path);
  }
  result.access = Access::kExtents;
  result.sample_count = file.size / record;
  result.extents = ExtentList::even({0, record}, record, result.sample_count);
  result.extent_array = options.record_array;
  return result;
}

class RawReader : public Reader {
 public:
  explicit RawReader(const FormatOptions& options)
      : record_bytes_(record_size(options).value_or(0)), array_(options.record_array) {}

  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "{}: empty file", path);
    if (index.access == Access::kExtents && bytes.size() != record_bytes_)
      return fail(ErrorCode::kCorruption, "{}: record {}: truncated at byte {} of {}", path,
                  sample_in_file, bytes.size(), record_bytes_);
    if (sample_in_file == 0) FB_TRY(refuse_lfs_pointer(bytes).context(std::string(path)));
    if (!array_) return Record{.encoding = Encoding::kRaw, .bytes = bytes};
    return Record{.encoding = Encoding::kArray, .bytes = bytes, .array = *array_};
  }

 private:
  uint64_t record_bytes_;
  std::optional<ArrayLayout> array_;
};

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  Payload payload(spec);
  return payload.produce(payload_bytes(spec),
                         [&](std::span<const std::byte> piece) { return writer.append(piece); });
}

}  // namespace

const Format kRaw{.name = "raw",
                  .summary = "bytes without structure, whole files or records of a fixed size",
                  .extensions = kExtensions,
                  .recognises = recognises,
                  .index = index,
                  .make_reader = [](const FormatOptions& options) -> std::unique_ptr<Reader> {
                    return std::make_unique<RawReader>(options);
                  },
                  .compressions = kCompressions,
                  .write = write,
                  .estimate_bytes = payload_bytes};

}  // namespace forebay::formats

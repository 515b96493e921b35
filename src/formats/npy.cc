// npy: one numpy array per file. Several samples lie on its last axis.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "formats/array_records.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/npy_check.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"npy"};

bool recognises(std::span<const std::byte> head) {
  return std::string_view(reinterpret_cast<const char*>(head.data()), head.size()).substr(0, 6) ==
         "\x93NUMPY";
}

Result<FileIndex> index_samples(ByteSource& source, uint64_t sample_count) {
  const uint64_t size = source.size();
  const auto preamble = FB_TRY(source.at(0, std::min<uint64_t>(size, kNpyPreambleBytes)));
  const uint64_t data_offset = FB_TRY(npy_data_offset(preamble));
  const auto head = FB_TRY(source.at(0, data_offset));
  const NpyHeader header = FB_TRY(parse_npy_header(head));
  if (header.data_bytes > size - header.data_offset)
    return fail(ErrorCode::kCorruption, "truncated at byte {}: the array needs {} bytes", size,
                header.data_bytes);
  return index_array(header, 0, sample_count);
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (options.samples_per_file <= 1) return FileIndex{};  // one sample whatever the header says
  StoreSource source(store, file);
  auto result = index_samples(source, options.samples_per_file);
  if (!result.ok()) result = explain_lfs_pointer(source, result.error());
  return std::move(result).context(file.path);
}

class NpyReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    return read_array(bytes, index, sample_in_file).context(std::string(path));
  }
  std::unique_ptr<StreamCheck> make_stream_check() override { return make_npy_check(); }

 private:
  static Result<Record> read_array(std::span<const std::byte> bytes, const FileIndex& index,
                                   uint64_t sample_in_file) {
    if (index.access == Access::kExtents) return extent_record(bytes, index);
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "empty file");
    if (!recognises(bytes))
      return fail(ErrorCode::kCorruption, "not a npy array: {}", content_kind(bytes));
    const NpyHeader header = FB_TRY(parse_npy(bytes));
    if (index.sample_count > 1) FB_TRY(index_array(header, 0, index.sample_count));  // fits?
    return array_record(header.layout, bytes.subspan(header.data_offset), index, sample_in_file);
  }
};

ArrayLayout layout_of(const FileSpec& spec) {
  auto shape = record_shape(spec);
  shape.push_back(spec.sample_count);
  return {.type = spec.type, .shape = std::move(shape)};
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  const std::string header = make_npy_header(layout_of(spec));
  FB_TRY(writer.append(std::as_bytes(std::span(header))));
  Payload payload(spec);
  return payload.produce(payload_bytes(spec),
                         [&](std::span<const std::byte> piece) { return writer.append(piece); });
}

uint64_t estimate_bytes(const FileSpec& spec) {
  return make_npy_header(layout_of(spec)).size() + payload_bytes(spec);
}

}  // namespace

const Format kNpy{.name = "npy",
                  .summary = "one numpy array per file",
                  .extensions = kExtensions,
                  .recognises = recognises,
                  .index = index,
                  .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                    return std::make_unique<NpyReader>();
                  },
                  .compressions = kCompressions,
                  .write = write,
                  .estimate_bytes = estimate_bytes};

}  // namespace forebay::formats

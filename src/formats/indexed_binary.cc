// indexed_binary and mmap_indexed_binary: samples back to back, their places in two files beside.
// The bytes are the same; DLIO reads the one with reads and maps the other. Here both are read.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/content_kind.h"
#include "formats/indexed_index.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"indexed_binary"};
constexpr std::string_view kMmapExtensions[] = {"mmap_indexed_binary"};

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // any bytes could be samples

Result<storage::FileInfo> find_side(storage::Store& store, const storage::FileInfo& file,
                                    const std::string& path) {
  auto info = store.stat(path);
  if (info.ok()) return info;
  if (info.error().code == ErrorCode::kInvalidArgument)  // a folder of that name
    return fail(ErrorCode::kCorruption, "{}: its index file: {}", file.path, info.error().message);
  if (info.error().code != ErrorCode::kNotFound) return info;
  return fail(ErrorCode::kCorruption,
              "{}: its index file {} is missing; without it nobody can tell where samples start",
              file.path, path);
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
  const auto sides = indexed_side_paths(file.path);
  StoreSource offsets(store, FB_TRY(find_side(store, file, sides[0])));
  StoreSource sizes(store, FB_TRY(find_side(store, file, sides[1])));
  auto result = index_indexed(offsets, sizes, file.size, options.samples_per_file);
  if (result.ok()) return result;
  StoreSource data(store, file);
  return Result<FileIndex>(explain_lfs_pointer(data, result.error())).context(file.path);
}

class IndexedReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "{}: empty file", path);
    const bool is_known = sample_in_file < index.extents.size();
    if (is_known && bytes.size() != index.extents[sample_in_file].length)
      return fail(ErrorCode::kCorruption, "{}: sample {}: truncated at byte {} of {}", path,
                  sample_in_file, bytes.size(), index.extents[sample_in_file].length);
    if (is_known && index.extents[sample_in_file].offset == 0)
      FB_TRY(refuse_lfs_pointer(bytes).context(std::string(path)));
    return Record{.encoding = Encoding::kRaw, .bytes = bytes};
  }
};

std::unique_ptr<Reader> make_reader(const FormatOptions& /*options*/) {
  return std::make_unique<IndexedReader>();
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  Payload payload(spec);
  return payload.produce(payload_bytes(spec),
                         [&](std::span<const std::byte> piece) { return writer.append(piece); });
}

constexpr Format format_of(std::string_view name, std::string_view summary,
                           std::span<const std::string_view> extensions) {
  return {.name = name,
          .summary = summary,
          .extensions = extensions,
          .recognises = recognises,
          .index = index,
          .make_reader = make_reader,
          .compressions = kCompressions,
          .write = write,
          .estimate_bytes = payload_bytes,
          .side_paths = indexed_side_paths,
          .write_side = write_indexed_side};
}

}  // namespace

constinit const Format kIndexedBinary =
    format_of("indexed_binary", "samples back to back, their places in files beside", kExtensions);

constinit const Format kMmapIndexedBinary =
    format_of("mmap_indexed_binary", "indexed_binary under the name of DLIO's mapping reader",
              kMmapExtensions);

}  // namespace forebay::formats

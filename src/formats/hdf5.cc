// hdf5: arrays in a hierarchical file. Samples are the rows of one data set, or of several.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "formats/array_records.h"
#include "formats/builtin.h"
#include "formats/content_kind.h"
#include "formats/hdf5_block.h"
#include "formats/hdf5_metadata.h"
#include "formats/hdf5_write.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip, Compression::kLzf};
constexpr std::string_view kExtensions[] = {"hdf5", "h5"};
constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);

bool recognises(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  return text.substr(0, kSignature.size()) == kSignature;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
  Hdf5Pages pages(store, file);
  auto sources = read_hdf5_metadata(pages, options.columns);
  if (!sources.ok()) {
    StoreSource source(store, file);
    const auto head = source.at(0, std::min<uint64_t>(source.size(), 64));
    if (head.ok()) FB_TRY(refuse_lfs_pointer(*head).context(file.path));
    return std::move(sources).error();
  }
  const bool must_join = options.columns.empty();
  return index_sources(std::move(sources).take(), file.size, must_join).context(file.path);
}

class Hdf5Reader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t /*sample_in_file*/) override {
    if (index.access == Access::kExtents)
      return extent_record(bytes, index).context(std::string(path));
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "{}: empty file", path);
    return fail(ErrorCode::kInvalidArgument, "{}: samples of an HDF5 file ({}) come by its index",
                path, content_kind(bytes));
  }
  Status read_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t sample_in_file, std::vector<Part>& out) override {
    out.clear();
    const Record record = FB_TRY(read(path, bytes, index, sample_in_file));
    out.push_back({index.detail, record});
    return {};
  }
  Result<std::shared_ptr<const DecodedBlock>> decode_block(std::string_view path,
                                                           std::span<const std::byte> bytes,
                                                           const FileIndex& index,
                                                           const Block& block) override {
    return decoder_.decode(bytes, index, block).context(std::string(path));
  }

 private:
  Hdf5BlockDecoder decoder_;
};

}  // namespace

const Format kHdf5{.name = "hdf5",
                   .summary = "rows of arrays in an HDF5 file",
                   .extensions = kExtensions,
                   .recognises = recognises,
                   .index = index,
                   .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                     return std::make_unique<Hdf5Reader>();
                   },
                   .compressions = kCompressions,
                   .write = write_hdf5,
                   .estimate_bytes = hdf5_bytes};

}  // namespace forebay::formats

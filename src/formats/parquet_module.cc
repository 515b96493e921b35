// The module forebay_parquet.so: its one C function, its reader, and what Arrow's exceptions mean.
#include "formats/parquet_module.h"

#include <arrow/status.h>
#include <arrow/util/config.h>
#include <parquet/exception.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "formats/parquet_parts.h"

namespace forebay::formats {
namespace {

class ParquetReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> /*bytes*/,
                      const FileIndex& /*index*/, uint64_t /*sample_in_file*/) override {
    return fail(ErrorCode::kUnsupported, "{}: parquet is read by row groups, not as a whole file",
                path);
  }

  Result<std::shared_ptr<const DecodedBlock>> decode_block(std::string_view path,
                                                           std::span<const std::byte> bytes,
                                                           const FileIndex& index,
                                                           const Block& block) override {
    // Files that are laid out alike have the same text: it is read once for all of them.
    if (text_ != index.detail || layout_.columns.empty()) {
      layout_ = FB_TRY(parse_layout(index.detail).context(std::string(path)));
      text_ = index.detail;
    }
    const auto group = std::lower_bound(
        layout_.groups.begin(), layout_.groups.end(), block.first_sample,
        [](const ParquetGroup& it, uint64_t first) { return it.first_sample < first; });
    if (group == layout_.groups.end() || group->first_sample != block.first_sample ||
        group->sample_count != block.sample_count)
      return fail(ErrorCode::kInvalidArgument, "{}: no row group has the rows {} to {}", path,
                  block.first_sample, block.first_sample + block.sample_count);
    return decode_parquet_group(path, bytes, layout_,
                                static_cast<size_t>(group - layout_.groups.begin()));
  }

 private:
  std::string text_;
  ParquetLayout layout_;
};

class ArrowParquet : public ParquetModule {
 public:
  std::string library() const override { return "Apache Arrow " ARROW_VERSION_STRING; }
  Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                          const FormatOptions& options) const override {
    return index_parquet(store, file, options);
  }
  std::unique_ptr<Reader> make_reader() const override { return std::make_unique<ParquetReader>(); }
  Status write(storage::Writer& writer, const FileSpec& spec) const override {
    return write_parquet(writer, spec);
  }
};

ErrorCode code_of(const arrow::Status& status) {
  if (status.IsOutOfMemory()) return ErrorCode::kResourceExhausted;
  if (status.IsNotImplemented()) return ErrorCode::kUnsupported;
  return ErrorCode::kCorruption;
}

}  // namespace

Error parquet_error(std::string_view where) {
  try {
    throw;
  } catch (const parquet::ParquetStatusException& error) {
    return fail(code_of(error.status()), "{}: {}", where, error.status().message());
  } catch (const parquet::ParquetException& error) {
    const bool is_unknown = std::string_view(error.what()).starts_with("Not yet implemented");
    return fail(is_unknown ? ErrorCode::kUnsupported : ErrorCode::kCorruption, "{}: {}", where,
                error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceExhausted, "{}: out of memory", where);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorruption, "{}: {}", where, error.what());
  }
}

}  // namespace forebay::formats

extern "C" __attribute__((visibility("default"))) const forebay::formats::ParquetModule*
forebay_parquet_module(uint64_t interface_mark) {
  static const forebay::formats::ArrowParquet module;
  return interface_mark == forebay::formats::parquet_interface_mark() ? &module : nullptr;
}

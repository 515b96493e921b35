// parquet: tables in columns. The work is done by a module that links Apache Arrow; it is loaded
// when the format is first used, so that the program starts without Arrow.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/parquet_module.h"
#include "formats/payload.h"
#include "sys/module.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip};
constexpr std::string_view kExtensions[] = {"parquet"};
constexpr uint64_t kPageBytes = 1u << 20;  // parquet_write.cc's pages hold at least this

Result<const ParquetModule*> load_module() {
  const auto found = sys::find_in_module("parquet", kParquetModuleSymbol);
  if (!found.ok() && found.error().code == ErrorCode::kNotFound)
    return fail(ErrorCode::kUnsupported,
                "format parquet: {}. It is built when CMake finds Apache Arrow for C++: run "
                "./dev setup (or install Arrow, or the pyarrow wheel), then build again",
                found.error().message);
  if (!found.ok())
    return fail(ErrorCode::kUnsupported,
                "format parquet: {}. Install the Arrow that it was built with, or build again",
                found.error().message);
  const auto* module =
      reinterpret_cast<ParquetModuleFunction>(found.value())(parquet_interface_mark());
  if (module == nullptr)
    return fail(ErrorCode::kUnsupported,
                "format parquet: forebay_parquet.so is of another version; build again");
  return module;
}

// Once per process: a module that was not there is not looked for again.
const Result<const ParquetModule*>& module() {
  static const Result<const ParquetModule*> loaded = load_module();
  return loaded;
}

bool recognises(std::span<const std::byte> head) {
  return head.size() >= 4 && std::memcmp(head.data(), "PAR1", 4) == 0;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  const ParquetModule* parquet = FB_TRY(module());
  return parquet->index(store, file, options);
}

// Stands in for the module's reader and says why there is none.
class AbsentReader : public Reader {
 public:
  explicit AbsentReader(Error error) : error_(std::move(error)) {}

  Result<Record> read(std::string_view path, std::span<const std::byte> /*bytes*/,
                      const FileIndex& /*index*/, uint64_t /*sample_in_file*/) override {
    return fail(error_.code, "{}: {}", path, error_.message);
  }
  Result<std::shared_ptr<const DecodedBlock>> decode_block(std::string_view path,
                                                           std::span<const std::byte> /*bytes*/,
                                                           const FileIndex& /*index*/,
                                                           const Block& /*block*/) override {
    return fail(error_.code, "{}: {}", path, error_.message);
  }

 private:
  Error error_;
};

std::unique_ptr<Reader> make_reader(const FormatOptions& /*options*/) {
  if (!module().ok()) return std::make_unique<AbsentReader>(module().error());
  return module().value()->make_reader();
}

Status check_write() {
  if (!module().ok()) return module().error();
  return {};
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  const ParquetModule* parquet = FB_TRY(module());
  return parquet->write(writer, spec);
}

// Upper bound: values by their width, a dictionary for narrow ones, two bits of level for each
// value, and what headers, runs and deflate add.
uint64_t column_bytes_max(const FileSpec& spec, const Column& column) {
  const uint64_t groups = (spec.sample_count + spec.row_group_rows - 1) / spec.row_group_rows;
  const uint64_t values = spec.sample_count * column.values;
  const uint64_t width = element_bytes(column.type);
  uint64_t bytes = values * width + values / 4;
  if (width <= 2) bytes += std::min(groups << (8 * width + 2), 4 * values);
  return bytes + bytes / 64 + (bytes / kPageBytes + groups) * 256 +
         groups * (512 + 2 * column.name.size());
}

uint64_t estimate_bytes(const FileSpec& spec) {
  if (spec.row_group_rows == 0 || spec.sample_count == 0) return UINT64_MAX;
  if (spec.table.empty()) {
    const uint64_t record = record_bytes(spec);
    if (record == 0 || record > (uint64_t{1} << 62) / spec.sample_count) return UINT64_MAX;
    return 4096 + column_bytes_max(spec, {.name = "data", .values = record});
  }
  uint64_t bytes = 4096;
  for (const Column& column : spec.table) {
    if (column.values == 0 || column.values > (uint64_t{1} << 52) / spec.sample_count)
      return UINT64_MAX;
    bytes += 256 + 4 * column.name.size() + column_bytes_max(spec, column);
  }
  return bytes;
}

}  // namespace

const Format kParquet{.name = "parquet",
                      .summary = "tables in columns (needs Apache Arrow), one sample per row",
                      .extensions = kExtensions,
                      .recognises = recognises,
                      .index = index,
                      .make_reader = make_reader,
                      .compressions = kCompressions,
                      .check_write = check_write,
                      .write = write,
                      .estimate_bytes = estimate_bytes};

}  // namespace forebay::formats

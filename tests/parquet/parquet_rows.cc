// Prints what the format `parquet` finds in files, for check_parquet.py to compare with pyarrow:
//   parquet_rows rows FOLDER NAME [COLUMN...]   one line of hex per row, or "error CODE MESSAGE"
//   parquet_rows write FOLDER NAME              a file with a column of each type
//   parquet_rows time FOLDER NAME [COLUMN...]   CPU seconds to decode all rows, 9 passes
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "storage/store.h"

namespace forebay {
namespace {

using formats::ElementType;

void print_hex(std::span<const std::byte> bytes) {
  std::string line;
  for (const std::byte byte : bytes) line += fmt::format("{:02x}", static_cast<unsigned>(byte));
  std::puts(line.c_str());
}

Result<std::vector<std::byte>> read_block(storage::Store& store, std::string_view name,
                                          const formats::Block& block) {
  std::vector<std::byte> bytes;
  for (const formats::Extent& extent : block.extents) {
    const size_t begin = bytes.size();
    bytes.resize(begin + extent.length);
    FB_TRY(store.read_at(name, extent.offset, std::span(bytes).subspan(begin)));
  }
  return bytes;
}

Status print_rows(storage::Store& store, std::string_view name,
                  const formats::FormatOptions& options) {
  const storage::FileInfo info = FB_TRY(store.stat(name));
  const formats::FileIndex index = FB_TRY(formats::kParquet.index(store, info, options));
  const auto reader = formats::kParquet.make_reader(options);
  for (const formats::Block& block : index.blocks) {
    const std::vector<std::byte> bytes = FB_TRY(read_block(store, name, block));
    const auto decoded = FB_TRY(reader->decode_block(name, bytes, index, block));
    for (uint64_t i = 0; i < block.sample_count; ++i) {
      const formats::Record record = FB_TRY(decoded->at(i));
      print_hex(record.bytes);
    }
  }
  return {};
}

Status print_times(storage::Store& store, std::string_view name,
                   const formats::FormatOptions& options) {
  const storage::FileInfo info = FB_TRY(store.stat(name));
  const formats::FileIndex index = FB_TRY(formats::kParquet.index(store, info, options));
  const auto reader = formats::kParquet.make_reader(options);
  std::vector<std::vector<std::byte>> blocks;
  for (const formats::Block& block : index.blocks)
    blocks.push_back(FB_TRY(read_block(store, name, block)));
  for (int pass = 0; pass < 9; ++pass) {
    const std::clock_t begin = std::clock();
    uint64_t bytes = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const formats::Block& block = index.blocks[i];
      const auto decoded = FB_TRY(reader->decode_block(name, blocks[i], index, block));
      for (uint64_t row = 0; row < block.sample_count; ++row) {
        const formats::Record record = FB_TRY(decoded->at(row));
        bytes += record.bytes.size();
      }
    }
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%.6f %lu %lu\n", seconds, static_cast<unsigned long>(index.sample_count),
                static_cast<unsigned long>(bytes));
  }
  return {};
}

Status write_all_types(storage::Store& store, std::string_view name) {
  formats::FileSpec spec{.path = std::string(name), .sample_count = 100, .seed = 5};
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    spec.table.push_back({.name = std::string(element_name(type)), .type = type});
    spec.table.push_back(
        {.name = fmt::format("{}s", element_name(type)), .type = type, .values = 9});
  }
  spec.row_group_rows = 40;
  const auto writer = FB_TRY(store.create(name));
  FB_TRY(formats::kParquet.write(*writer, false, spec));
  return writer->publish();
}

Status run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3)
    return fail(ErrorCode::kInvalidArgument, "usage: parquet_rows rows|time|write FOLDER NAME");
  const auto store = FB_TRY(storage::open_store("local", arguments[1]));
  if (arguments[0] == "write") return write_all_types(*store, arguments[2]);
  formats::FormatOptions options;
  options.columns.assign(arguments.begin() + 3, arguments.end());
  if (arguments[0] == "time") return print_times(*store, arguments[2], options);
  return print_rows(*store, arguments[2], options);
}

}  // namespace
}  // namespace forebay

int main(int count, char** words) {
  const forebay::Status status = forebay::run({words + 1, words + count});
  if (status.ok()) return 0;
  std::printf("error %s: %s\n", forebay::error_code_name(status.error().code),
              status.error().message.c_str());
  return 1;
}

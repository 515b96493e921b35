// csv: lines of numbers. A sample is a line; a file read as one sample is all of them.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/csv_check.h"
#include "formats/csv_parser.h"
#include "formats/csv_rows.h"
#include "formats/csv_write.h"
#include "formats/unpack.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip, Compression::kBz2,
                                         Compression::kZip, Compression::kXz};
constexpr std::string_view kExtensions[] = {"csv", "csv.gz", "csv.bz2", "csv.zip", "csv.xz"};

std::string_view name_suffix(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return ".gz";
    case Compression::kBz2:
      return ".bz2";
    case Compression::kZip:
      return ".zip";
    case Compression::kXz:
      return ".xz";
    case Compression::kNone:
    case Compression::kLzf:
      break;
  }
  return "";
}

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // any text could be csv

// Unpacks all of it whatever the numbers are like: that the file is damaged explains them.
Status parse_packed(ByteSource& source, Compression packing, CsvParser& parser) {
  Status parsed;
  FB_TRY(unpack(source, packing, [&](std::span<const std::byte> text) -> Status {
    if (parsed.ok()) parsed = parser.append(text);
    return {};
  }));
  return parsed;
}

// How many lines of numbers a compressed file has: all of it must be unpacked to know.
Result<uint64_t> count_rows(ByteSource& source, Compression packing) {
  CsvParser parser(false);
  parser.begin();
  FB_TRY(parse_packed(source, packing, parser));
  FB_TRY(parser.finish());
  return parser.rows();
}

Result<FileIndex> index_file(ByteSource& source, const FormatOptions& options) {
  std::vector<std::byte> head(std::min<uint64_t>(source.size(), 6));
  const auto first = FB_TRY(source.at(0, head.size()));
  std::copy(first.begin(), first.end(), head.begin());
  if (head.empty()) return fail(ErrorCode::kCorruption, "empty file");
  const Compression packing = packing_of(head);
  if (packing == Compression::kNone) return index_csv_rows(source);
  FileIndex index{.access = Access::kTogether, .sample_count = options.samples_per_file};
  if (index.sample_count == 0) index.sample_count = FB_TRY(count_rows(source, packing));
  return index;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (options.samples_per_file == 1) return FileIndex{};  // one sample: nothing to look up
  StoreSource source(store, file);
  return index_file(source, options).context(file.path);
}

class CsvReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    const std::string name(path);
    if (index.access == Access::kExtents) return line(bytes, index, sample_in_file).context(name);
    if (index.access == Access::kTogether)
      return shared_line(path, bytes, index, sample_in_file).context(name);
    parsed_.path.clear();
    return whole(bytes).context(name);
  }
  std::unique_ptr<StreamCheck> make_stream_check() override { return make_csv_check(); }

 private:
  // The file that samples lately came from, for those that follow. A sample asked for again means
  // that the caller has read the file anew.
  struct ParsedFile {
    std::string path;
    std::span<const std::byte> bytes;
    std::vector<std::byte> tail;
    std::vector<bool> served;
  };

  Result<Record> line(std::span<const std::byte> bytes, const FileIndex& index, uint64_t i) {
    parsed_.path.clear();
    const CsvLayout layout = FB_TRY(csv_layout_of(index));
    parser_.begin_data(layout, 1 + (layout.has_header ? 1 : 0) + i, index.extents[i].offset);
    FB_TRY(parser_.append(bytes));
    FB_TRY(parser_.finish());
    if (parser_.rows() != 1)
      return fail(ErrorCode::kCorruption, "sample {}: {} lines where one was", i, parser_.rows());
    return record({parser_.layout().columns}, parser_.values());
  }

  Result<Record> whole(std::span<const std::byte> bytes) {
    FB_TRY(parse(bytes));
    const uint64_t columns = parser_.layout().columns;
    if (parser_.rows() == 1) return record({columns}, parser_.values());
    return record({parser_.rows(), columns}, parser_.values());
  }

  Result<Record> shared_line(std::string_view path, std::span<const std::byte> bytes,
                             const FileIndex& index, uint64_t i) {
    if (!is_parsed(path, bytes, i)) {
      parsed_.path.clear();
      FB_TRY(parse(bytes));
      if (parser_.rows() != index.sample_count)
        return fail(ErrorCode::kInvalidArgument,
                    "{} samples per file were asked for, but it has {} lines of numbers",
                    index.sample_count, parser_.rows());
      parsed_ = {.path = std::string(path),
                 .bytes = bytes,
                 .tail = {bytes.end() - static_cast<ptrdiff_t>(tail_bytes(bytes)), bytes.end()},
                 .served = std::vector<bool>(index.sample_count)};
    }
    if (i >= parser_.rows())
      return fail(ErrorCode::kCorruption, "sample {}: it has {} lines of numbers", i,
                  parser_.rows());
    parsed_.served[i] = true;
    const uint64_t row_bytes = parser_.layout().columns * sizeof(uint64_t);
    return record({parser_.layout().columns}, parser_.values().subspan(i * row_bytes, row_bytes));
  }

  bool is_parsed(std::string_view path, std::span<const std::byte> bytes, uint64_t i) const {
    return path == parsed_.path && bytes.data() == parsed_.bytes.data() &&
           bytes.size() == parsed_.bytes.size() && i < parsed_.served.size() &&
           !parsed_.served[i] &&
           std::equal(parsed_.tail.begin(), parsed_.tail.end(),
                      bytes.end() - static_cast<ptrdiff_t>(parsed_.tail.size()));
  }

  // Compressed files end with checksums, so that their tails tell them apart.
  static size_t tail_bytes(std::span<const std::byte> bytes) {
    return std::min<size_t>(bytes.size(), 64);
  }

  Status parse(std::span<const std::byte> bytes) {
    parser_.begin();
    const Compression packing = packing_of(bytes.first(std::min<size_t>(bytes.size(), 6)));
    if (packing == Compression::kNone) {
      FB_TRY(parser_.append(bytes));
    } else {
      SpanSource source(bytes);
      FB_TRY(parse_packed(source, packing, parser_));
    }
    return parser_.finish();
  }

  Record record(std::vector<uint64_t> shape, std::span<const std::byte> values) const {
    return {.encoding = Encoding::kArray,
            .bytes = values,
            .array = {.type = parser_.type(), .shape = std::move(shape)}};
  }

  CsvParser parser_{true};
  ParsedFile parsed_;
};

}  // namespace

const Format kCsv{.name = "csv",
                  .summary = "lines of numbers, plain or compressed as a whole",
                  .extensions = kExtensions,
                  .recognises = recognises,
                  .index = index,
                  .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                    return std::make_unique<CsvReader>();
                  },
                  .compressions = kCompressions,
                  .write = write_csv,
                  .estimate_bytes = csv_bytes_max,
                  .name_suffix = name_suffix};

}  // namespace forebay::formats

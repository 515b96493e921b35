#include "targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "dataset/patterns.h"
#include "dataset/source_address.h"
#include "formats/builtin.h"
#include "formats/example.h"
#include "formats/hdf5_block.h"
#include "formats/indexed_index.h"
#include "formats/npz_check.h"
#include "formats/npz_members.h"
#include "formats/parquet_layout.h"
#include "formats/testing_hdf5.h"
#include "formats/testing_store.h"
#include "formats/tfrecord_check.h"
#include "formats/tfrecord_index.h"
#include "ops/decode.h"
#include "ops/pipeline.h"
#include "storage/s3_address.h"
#include "storage/s3_client.h"
#include "storage/s3_profile.h"
#include "storage/s3_xml.h"

namespace forebay::fuzz {
namespace {

using formats::Access;
using formats::Format;

constexpr uint64_t kPixelsMax = 1 << 18;  // keeps one input below a second

// Messages name the file; nothing else is promised for bad input.
template <class T>
void expect_named(const Result<T>& result) {
  if (!result.ok()) FB_CHECK(result.error().message.find("input") != std::string::npos);
}

void decode(const formats::Record& record) {
  for (const bool plain : {true, false}) {
    const auto decoder = ops::make_decoder({.apply_orientation = plain,
                                            .convert_to_rgb = !plain,
                                            .keep_16_bit = plain,
                                            .pixels_max = kPixelsMax});
    const auto bytes = decoder->decoded_bytes("input", record);
    const auto sample = decoder->decode("input", record, {});
    expect_named(bytes);
    expect_named(sample);
    if (!sample.ok()) continue;
    FB_CHECK(bytes.ok() && *bytes == sample->bytes.size());
    uint64_t elements = 1;
    for (const uint64_t n : sample->shape) elements *= n;
    FB_CHECK(elements * formats::element_bytes(sample->type) == sample->bytes.size());
  }
}

// Parts lie where bytes are, and arrays have as many as their shape says.
void check_parts(const std::vector<formats::Part>& parts) {
  for (const formats::Part& part : parts) {
    FB_CHECK(!part.name.empty() || part.record.encoding != formats::Encoding::kText);
    uint64_t sum = 0;
    for (const std::byte byte : part.record.bytes) sum += static_cast<uint64_t>(byte);
    FB_CHECK(sum <= 255 * part.record.bytes.size());
    if (part.record.encoding != formats::Encoding::kArray) continue;
    const auto bytes = formats::array_bytes(part.record.array);
    FB_CHECK(bytes.ok() && *bytes == part.record.bytes.size());
  }
}

void read_all(const Format& format, std::span<const std::byte> bytes,
              const formats::FormatOptions& options);

// Index, then every sample, as the loader would.
void read_all(const Format& format, std::span<const std::byte> bytes, uint64_t samples_per_file) {
  read_all(format, bytes, formats::FormatOptions{.samples_per_file = samples_per_file});
}

void read_all(const Format& format, std::span<const std::byte> bytes,
              const formats::FormatOptions& options) {
  formats::TestingStore store;
  store.put("input", {bytes.begin(), bytes.end()});
  std::vector<formats::Part> parts;
  const auto index = format.index(store, {"input", bytes.size(), 0}, options);
  expect_named(index);
  if (!index.ok()) return;
  const auto reader = format.make_reader(options);
  for (uint64_t i = 0; i < std::min<uint64_t>(index->sample_count, 20); ++i) {
    std::span<const std::byte> part = bytes;
    if (index->access == Access::kExtents) {
      const formats::Extent extent = index->extents[i];
      FB_CHECK(extent.offset <= bytes.size() && extent.length <= bytes.size() - extent.offset);
      part = bytes.subspan(extent.offset, extent.length);
    }
    const auto record = reader->read("input", part, *index, i);
    expect_named(record);
    if (record.ok()) decode(*record);
    const Status read = reader->read_parts("input", part, *index, i, parts);
    expect_named(read);
    if (read.ok()) check_parts(parts);
  }
}

// Cuts that depend on the input, so that every boundary is tried some time.
Status check_in_pieces(formats::StreamCheck& check, std::span<const std::byte> bytes) {
  check.begin("input", bytes.size());
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = std::min(bytes.size() - at, 1 + static_cast<size_t>(bytes[at]) % 97);
    check.visit(bytes.subspan(at, n));
    at += n;
  }
  return check.finish();
}

}  // namespace

// The verdict in passing is that of reading the file whole, unless it declines.
void fuzz_csv(std::span<const std::byte> bytes) {
  for (const uint64_t samples : {0u, 1u, 3u}) read_all(formats::kCsv, bytes, samples);
  const auto reader = formats::kCsv.make_reader({});
  const auto check = reader->make_stream_check();
  const Status passing = check_in_pieces(*check, bytes);
  if (!passing.ok() && passing.error().code == ErrorCode::kUnsupported) return;
  const auto whole = reader->read("input", bytes, {}, 0);
  FB_CHECK(passing.ok() == whole.ok());
  if (whole.ok()) FB_CHECK(check->payload_bytes() == whole->bytes.size());
}

// Compressed files are never checked in passing, and their sample count is the caller's claim.
void fuzz_csv_packed(std::span<const std::byte> bytes) {
  for (const uint64_t samples : {0u, 1u, 2u}) read_all(formats::kCsv, bytes, samples);
}

// Half of the input are offsets, half sizes, of a data file as long as the first two bytes say.
void fuzz_indexed(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const uint64_t data_bytes =
      static_cast<uint64_t>(bytes[0]) * 256 + static_cast<uint64_t>(bytes[1]);
  bytes = bytes.subspan(2);
  formats::SpanSource offsets(bytes.first(bytes.size() / 2));
  formats::SpanSource sizes(bytes.subspan(bytes.size() / 2));
  for (const uint64_t samples : {0u, 3u}) {
    const auto index = formats::index_indexed(offsets, sizes, data_bytes, samples);
    if (!index.ok()) continue;
    FB_CHECK(index->sample_count == index->extents.size());
    uint64_t end = 0;
    for (const formats::Extent& extent : index->extents) {
      FB_CHECK(extent.offset == end && extent.length > 0 && extent.length <= data_bytes - end);
      end += extent.length;
    }
  }
}

void fuzz_npz(std::span<const std::byte> bytes) {
  for (const uint64_t samples : {0u, 1u, 3u}) read_all(formats::kNpz, bytes, samples);
}

void fuzz_npy(std::span<const std::byte> bytes) {
  for (const uint64_t samples : {1u, 3u}) read_all(formats::kNpy, bytes, samples);
  const auto reader = formats::kNpy.make_reader({});
  const auto check = reader->make_stream_check();
  const bool is_whole = reader->read("input", bytes, {}, 0).ok();
  FB_CHECK(check_in_pieces(*check, bytes).ok() == is_whole);
}

// The verdict in passing is that of reading every member, unless it declines.
void fuzz_npz_stream(std::span<const std::byte> bytes) {
  const auto check = formats::make_npz_check();
  const Status passing = check_in_pieces(*check, bytes);
  if (!passing.ok() && passing.error().code == ErrorCode::kUnsupported) return;
  const Status whole = formats::check_npz(bytes);
  if (passing.ok() == whole.ok()) return;
  std::fprintf(stderr, "in passing: %s\nwhole: %s\n",
               passing.ok() ? "accepted" : passing.error().message.c_str(),
               whole.ok() ? "accepted" : whole.error().message.c_str());
  std::abort();
}

void fuzz_tfrecord(std::span<const std::byte> bytes) {
  read_all(formats::kTfrecord, bytes, 1);
  const auto check = formats::make_tfrecord_check();
  check_in_pieces(*check, bytes).ignore("any verdict is right; crashes are not");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  formats::parse_tfrecord_index(text, bytes.size());
}

// The metadata, by the library; then the samples as far as an input should be allowed to go.
void fuzz_hdf5(std::span<const std::byte> bytes) {
  constexpr uint64_t kDecodedBytesMax = 1 << 22;
  formats::TestingStore store;
  store.put("input", {bytes.begin(), bytes.end()});
  const auto index = formats::kHdf5.index(store, {"input", bytes.size(), 0}, {});
  expect_named(index);
  if (!index.ok()) return;
  for (const formats::Extent& extent : index->extents)
    FB_CHECK(extent.offset <= bytes.size() && extent.length <= bytes.size() - extent.offset);
  if (index->access == Access::kExtents) return;
  const auto layout = formats::decode_layout(index->detail);
  FB_CHECK(layout.ok());
  const auto reader = formats::kHdf5.make_reader({});
  uint64_t chunk_bytes = 0;
  for (const auto& dataset : layout->datasets) chunk_bytes += dataset.chunk_bytes();
  for (size_t i = 0; i < std::min<size_t>(index->blocks.size(), 8); ++i) {
    const formats::Block& block = index->blocks[i];
    if (block.sample_count * layout->sample_bytes() + chunk_bytes > kDecodedBytesMax) return;
    const auto stored = formats::read_extents(store, "input", block.extents);
    FB_CHECK(stored.ok());
    const auto decoded = reader->decode_block("input", *stored, *index, block);
    expect_named(decoded);
    if (!decoded.ok()) continue;
    for (uint64_t s = 0; s < block.sample_count; ++s) {
      const auto record = (*decoded)->at(s);
      FB_CHECK(record.ok());
      FB_CHECK(record->bytes.size() == layout->sample_bytes());
    }
  }
}

namespace {

// Takes numbers off the front of an input.
class Numbers {
 public:
  explicit Numbers(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t below(uint64_t bound) {
    if (bytes_.empty()) return 0;
    const auto value = std::to_integer<uint64_t>(bytes_.front()) % bound;
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

formats::Hdf5Dataset make_dataset(Numbers& numbers, uint64_t samples) {
  formats::Hdf5Dataset dataset;
  dataset.array.type = static_cast<formats::ElementType>(numbers.below(14));
  dataset.array.shape.push_back(samples);
  dataset.chunk.push_back(1 + numbers.below(5));
  for (uint64_t i = numbers.below(4); i > 0; --i) {
    dataset.array.shape.push_back(1 + numbers.below(9));
    dataset.chunk.push_back(1 + numbers.below(9));
  }
  constexpr formats::Hdf5Filter kFilters[] = {
      formats::Hdf5Filter::kDeflate, formats::Hdf5Filter::kShuffle,
      formats::Hdf5Filter::kFletcher32, formats::Hdf5Filter::kLzf};
  for (uint64_t i = numbers.below(4); i > 0; --i)
    dataset.filters.push_back(
        {kFilters[numbers.below(4)], static_cast<uint32_t>(numbers.below(20))});
  dataset.skips_partial_chunks = numbers.below(2) == 1;
  if (numbers.below(2) == 1)
    dataset.fill.assign(formats::element_bytes(dataset.array.type), std::byte{1});
  return dataset;
}

}  // namespace

// Our own code alone: any layout that metadata can describe, any bytes in its chunks; and any bytes
// as the layout.
void fuzz_hdf5_chunks(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  formats::decode_layout(text).ignore("crashes are what is looked for");
  Numbers numbers(bytes);
  formats::Hdf5Layout layout;
  const uint64_t samples = 1 + numbers.below(6);
  layout.datasets.push_back(make_dataset(numbers, samples));
  if (numbers.below(3) == 0) layout.datasets.push_back(make_dataset(numbers, samples));
  for (uint64_t i = numbers.below(3), chunk = 0; i > 0; --i) {
    chunk += numbers.below(4);
    const uint64_t count = 1 + numbers.below(2);
    layout.exceptions.push_back({.dataset = 0,
                                 .is_missing = numbers.below(2) == 0,
                                 .skipped = static_cast<uint32_t>(numbers.below(8)),
                                 .first = chunk,
                                 .count = count});
    chunk += count;
  }
  formats::FileIndex index;
  index.access = Access::kBlocks;
  index.sample_count = samples;
  index.detail = formats::encode_layout(layout);
  formats::Block block{.first_sample = 0, .sample_count = 1 + numbers.below(samples)};
  std::vector<uint64_t> lengths;
  for (uint64_t i = numbers.below(30); i > 0; --i) lengths.push_back(numbers.below(256));
  const auto stored = numbers.rest();
  uint64_t used = 0;
  for (const uint64_t length : lengths) {
    block.extents.push_back({used, length});
    used += length;
  }
  formats::Hdf5BlockDecoder decoder;
  const auto decoded =
      decoder.decode(stored.first(std::min<uint64_t>(used, stored.size())), index, block);
  std::vector<formats::Part> parts;
  for (uint64_t s = 0; decoded.ok() && s < block.sample_count; ++s) {
    const auto record = (*decoded)->at(s);  // data sets that are unlike make no one array
    FB_CHECK(!record.ok() || record->bytes.size() == layout.sample_bytes());
    FB_CHECK((*decoded)->parts_at(s, parts).ok() && parts.size() == layout.datasets.size());
    uint64_t sum = 0;
    for (const formats::Part& part : parts) sum += part.record.bytes.size();
    FB_CHECK(sum == layout.sample_bytes());
  }
  std::vector<std::byte> out(numbers.rest().size() * 3);
  formats::unpack_lzf(numbers.rest(), out).ignore("any verdict is right");
}

void fuzz_example(std::span<const std::byte> bytes) {
  std::vector<formats::Part> parts;
  for (const auto& columns : {std::vector<std::string>{}, {"a"}, {"data"}}) {
    formats::ExampleParser parser(columns);
    if (parser.parse(bytes, parts).ok()) check_parts(parts);
  }
}

void fuzz_lines(std::span<const std::byte> bytes) {
  read_all(formats::kLines, bytes, formats::FormatOptions{});
}

void fuzz_webdataset(std::span<const std::byte> bytes) {
  read_all(formats::kWebdataset, bytes, formats::FormatOptions{});
  read_all(formats::kWebdataset, bytes, formats::FormatOptions{.columns = {"cls"}});
}

// An index file, of data as long as the first byte says.
void fuzz_tokens(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  formats::TestingStore store;
  const auto data_bytes = 1 + static_cast<size_t>(bytes.front());
  store.put("input.bin", std::vector<std::byte>(data_bytes, std::byte{7}));
  store.put("input.idx", {bytes.begin() + 1, bytes.end()});
  for (const uint64_t window : {0u, 4u}) {
    const formats::FormatOptions options{.tokens_per_sample = window};
    const auto index = formats::kTokens.index(store, {"input.bin", data_bytes, 0}, options);
    expect_named(index);
    if (!index.ok()) continue;
    FB_CHECK(index->extents.size() == index->sample_count && index->extents.is_inside(data_bytes));
    const auto reader = formats::kTokens.make_reader(options);
    std::vector<formats::Part> parts;
    for (uint64_t i = 0; i < std::min<uint64_t>(index->sample_count, 20); ++i) {
      const formats::Extent extent = index->extents[i];
      const auto data =
          std::span<const std::byte>(store.get("input.bin")).subspan(extent.offset, extent.length);
      if (reader->read_parts("input.bin", data, *index, i, parts).ok()) check_parts(parts);
    }
  }
}

// A pattern and a path, apart by a line's end.
void fuzz_patterns(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view pattern = text.substr(0, text.find('\n'));
  const std::string_view path = text.substr(std::min(text.size(), pattern.size() + 1));
  dataset::literal_folder(pattern);
  dataset::split_address(pattern).ignore("any outcome will do");
  const std::string escaped = dataset::escape_pattern(path);
  FB_CHECK(dataset::unescape_pattern(escaped) == path && dataset::path_matches(escaped, path));
  if (pattern.find("..") != std::string_view::npos && pattern.size() > 12) return;  // large ranges
  const auto all = dataset::expand_braces(pattern);
  if (!all.ok()) return;
  for (size_t i = 0; i < std::min<size_t>(all->size(), 20); ++i)
    dataset::path_matches((*all)[i], path);
}

void fuzz_jpeg(std::span<const std::byte> bytes) {
  decode({.encoding = formats::Encoding::kJpeg, .bytes = bytes});
}

// The first eight bytes choose ops, sizes and the sample; the rest is the image.
void fuzz_ops(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) return;
  const auto at = [&](size_t i) { return static_cast<int>(bytes[i]); };
  const char* modes[]{"RGB", "L", "RGBA", "as_stored"};
  const char* filters[]{"bilinear", "area", "nearest", "bicubic"};
  const std::vector<double> size{1.0 + at(0), 1.0 + at(1)};
  std::vector<Op> list{
      {"decode_image", {{"mode", modes[at(2) % 4]}, {"oversampling", at(2) / 64}}}};
  switch (at(3) % 4) {
    case 0:
      list.push_back({"random_resized_crop",
                      {{"size", size},
                       {"filter", filters[at(2) / 4 % 4]},
                       {"scale", std::vector<double>{0.001, 1}}}});
      break;
    case 1:
      list.push_back({"center_crop", {{"size", size}}});
      break;
    case 2:
      list.push_back({"resize", {{"size", size}, {"filter", filters[at(2) / 4 % 4]}}});
      list.push_back({"random_crop", {{"size", 9}, {"pad_if_needed", true}}});
      break;
    default:
      break;
  }
  if ((at(4) & 1) != 0) list.push_back({"flip", {}});
  if ((at(4) & 2) != 0) list.push_back({"colour_jitter", {{"brightness", 0.5}, {"hue", 0.5}}});
  if ((at(4) & 4) != 0) list.push_back({"normalize", {{"mean", 0.5}, {"std", 0.5}}});
  const auto pipeline = ops::Pipeline::make(list, {.pixels_max = kPixelsMax});
  FB_CHECK(pipeline.ok());
  class Nowhere : public ops::Destination {
    std::span<std::byte> place(std::string_view, formats::ElementType,
                               std::span<const uint64_t>) override {
      return {};
    }
  } nowhere;
  std::vector<ops::Field> fields;
  const formats::Part part{"image", {.bytes = bytes.subspan(8)}};
  const ops::SampleKey key{.sample = static_cast<uint64_t>(at(5))};
  const Status status = pipeline->make_runner()->run(key, "input", {&part, 1}, nowhere, fields);
  if (!status.ok()) return FB_CHECK(status.error().message.starts_with("input: "));
  FB_CHECK(fields.size() == 1);
  uint64_t expected = formats::element_bytes(fields[0].type);
  for (const uint64_t n : fields[0].shape) expected *= n;
  FB_CHECK(expected == fields[0].bytes.size());
}

// As a file (whose reading needs the module), and as what an index keeps of a file.
void fuzz_parquet(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto layout = formats::parse_layout({text, bytes.size()});
  if (layout.ok()) {
    const std::string again = formats::write_layout(*layout);
    FB_CHECK(formats::parse_layout(again).ok());
  }
  formats::TestingStore store;
  store.put("input", {bytes.begin(), bytes.end()});
  const auto index = formats::kParquet.index(store, {"input", bytes.size(), 0}, {});
  if (!index.ok()) return FB_CHECK(!index.error().message.empty());
  const auto reader = formats::kParquet.make_reader({});
  for (size_t i = 0; i < std::min<size_t>(index->blocks.size(), 8); ++i) {
    const formats::Block& block = index->blocks[i];
    std::vector<std::byte> joined;
    for (const formats::Extent& extent : block.extents) {
      const auto part = bytes.subspan(extent.offset, extent.length);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    const auto decoded = reader->decode_block("input", joined, *index, block);
    expect_named(decoded);
    if (!decoded.ok()) continue;
    uint64_t total = 0;
    for (uint64_t row = 0; row < block.sample_count; ++row) {
      const auto record = decoded.value()->at(row);
      FB_CHECK(record.ok());
      total += record->bytes.size();
    }
    FB_CHECK(total == decoded.value()->bytes());
  }
}

void fuzz_png(std::span<const std::byte> bytes) {
  decode({.encoding = formats::Encoding::kPng, .bytes = bytes});
}

void fuzz_s3(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto page = storage::parse_list_page(text);
  FB_CHECK(!page.ok() || !page->is_truncated || !page->next_token.empty());
  const auto upload = storage::parse_upload_id(text);
  FB_CHECK(!upload.ok() || !upload->empty());
  const auto uploads = storage::parse_upload_page(text);
  FB_CHECK(!uploads.ok() || !uploads->is_truncated || !uploads->next_key.empty());
  const auto parts = storage::parse_part_page(text);
  FB_CHECK(!parts.ok() || !parts->is_truncated || !parts->next_number.empty());
  const auto error = storage::parse_server_error(text);
  FB_CHECK(!error || !error->code.empty());
  storage::HttpHead head;
  head.status = 206;
  head.fields = {{"content-range", std::string(text)}};
  const auto range = storage::content_range(head);
  FB_CHECK(!range || (range->count > 0 && range->first < range->total &&
                      range->count <= range->total - range->first));
  const std::string target = storage::redirect_target("https://host/x", text);
  FB_CHECK(target.empty() || target.starts_with("https://"));
  FB_CHECK(storage::percent_decode(storage::percent_encode(text, true), false) == text);
  storage::parse_http_time_ns(text);
  storage::parse_endpoint(text).ignore("any outcome will do");
  storage::parse_profiles("input", text).ignore("any outcome will do");
}

}  // namespace forebay::fuzz

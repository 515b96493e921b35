#include "targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "formats/builtin.h"
#include "formats/npz_check.h"
#include "formats/npz_members.h"
#include "formats/testing_store.h"
#include "formats/tfrecord_check.h"
#include "formats/tfrecord_index.h"
#include "ops/decode.h"
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

// Index, then every sample, as the loader would.
void read_all(const Format& format, std::span<const std::byte> bytes, uint64_t samples_per_file) {
  formats::TestingStore store;
  store.put("input", {bytes.begin(), bytes.end()});
  const formats::FormatOptions options{.samples_per_file = samples_per_file};
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

void fuzz_jpeg(std::span<const std::byte> bytes) {
  decode({.encoding = formats::Encoding::kJpeg, .bytes = bytes});
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

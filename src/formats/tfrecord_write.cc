#include "formats/tfrecord_write.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <optional>
#include <string>

#include "base/crc.h"
#include "formats/deflate.h"
#include "formats/payload.h"
#include "formats/tfrecord_frame.h"

namespace forebay::formats {
namespace {

// Field numbers of the Example message, each as a protobuf tag of wire type 2 (length, bytes).
constexpr char kFeatures = 0x0a;   // Example.features = 1
constexpr char kEntry = 0x0a;      // Features.feature = 1, a map
constexpr char kKey = 0x0a;        // map key = 1
constexpr char kValue = 0x12;      // map value = 2
constexpr char kBytesList = 0x0a;  // Feature.bytes_list = 1
constexpr char kInt64List = 0x1a;  // Feature.int64_list = 3
constexpr char kElements = 0x0a;   // BytesList.value = 1, Int64List.value = 1 (packed)

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

// Tag and length in front of `bytes` bytes.
std::string prefix(char tag, uint64_t bytes) {
  return tag + varint(bytes);
}

std::string field(char tag, const std::string& content) {
  return prefix(tag, content.size()) + content;
}

// What the feature "size" says: bytes, or in MLPerf Storage v2.0's files the side.
uint64_t size_feature(const FileSpec& spec) {
  if (spec.dialect != Dialect::kMlpsV2) return record_bytes(spec);
  return spec.shape.empty() ? spec.rows : spec.shape.front();
}

// An Example around an image of `image_bytes`: what precedes the image, and what follows it.
struct ExampleShell {
  std::string head;
  std::string tail;
  uint64_t bytes = 0;  // of the whole message
};

// Built from the inside out: each layer's length counts the image, which is not there yet.
ExampleShell make_shell(const FileSpec& spec) {
  const uint64_t image_bytes = record_bytes(spec);
  std::string head = prefix(kElements, image_bytes);
  for (const char tag : {kBytesList, kValue}) head = prefix(tag, head.size() + image_bytes) + head;
  head = field(kKey, "image") + head;
  head = prefix(kEntry, head.size() + image_bytes) + head;
  const std::string list = field(kInt64List, field(kElements, varint(size_feature(spec))));
  std::string tail = field(kEntry, field(kKey, "size") + field(kValue, list));
  head = prefix(kFeatures, head.size() + image_bytes + tail.size()) + head;
  const uint64_t bytes = head.size() + image_bytes + tail.size();
  return {std::move(head), std::move(tail), bytes};
}

// Every record of a file has the same size.
uint64_t frame_bytes(const FileSpec& spec) {
  return kFrameBytes + make_shell(spec).bytes;
}

}  // namespace

Status write_tfrecord(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  const ByteSink append = [&](std::span<const std::byte> piece) { return writer.append(piece); };
  std::optional<Deflater> deflater;
  if (spec.compression != Compression::kNone) deflater.emplace(DeflateWrapper::kGzip);
  const ByteSink out = [&](std::span<const std::byte> piece) {
    return deflater ? deflater->run(piece, false, append) : append(piece);
  };
  const uint64_t image_bytes = record_bytes(spec);
  const ExampleShell shell = make_shell(spec);
  std::array<std::byte, kFrameHeaderBytes> header;
  store_le<uint64_t>(header.data(), shell.bytes);
  store_le<uint32_t>(header.data() + 8, mask_crc(base::crc32c(0, std::span(header).first(8))));
  Payload payload(spec);
  for (uint64_t i = 0; i < spec.sample_count; ++i) {
    uint32_t crc = 0;
    const ByteSink data = [&](std::span<const std::byte> piece) {
      crc = base::crc32c(crc, piece);
      return out(piece);
    };
    FB_TRY(out(header));
    FB_TRY(data(std::as_bytes(std::span(shell.head))));
    FB_TRY(payload.produce(image_bytes, data));
    FB_TRY(data(std::as_bytes(std::span(shell.tail))));
    std::array<std::byte, kFrameTrailerBytes> trailer;
    store_le<uint32_t>(trailer.data(), mask_crc(crc));
    FB_TRY(out(trailer));
  }
  return deflater ? deflater->run({}, true, append) : Status();
}

Status write_tfrecord_index(storage::Writer& writer, const FileSpec& spec, size_t /*which*/) {
  FB_TRY(check_spec(spec));
  constexpr size_t kPieceBytes = 256 * 1024;
  const uint64_t frame = frame_bytes(spec);
  std::string text;
  for (uint64_t i = 0; i < spec.sample_count; ++i) {
    fmt::format_to(std::back_inserter(text), "{} {}\n", i * frame, frame);
    if (text.size() < kPieceBytes && i + 1 < spec.sample_count) continue;
    FB_TRY(writer.append(std::as_bytes(std::span(text))));
    text.clear();
  }
  return {};
}

uint64_t tfrecord_bytes(const FileSpec& spec) {
  if (!check_spec(spec).ok()) return UINT64_MAX;
  const uint64_t frame = frame_bytes(spec);
  const uint64_t bytes = frame * spec.sample_count;
  return spec.compression != Compression::kNone ? Deflater::bytes_max(bytes) : bytes;
}

}  // namespace forebay::formats

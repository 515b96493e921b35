#include "formats/csv_write.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "base/crc.h"
#include "base/error.h"
#include "formats/pack.h"
#include "formats/payload.h"
#include "formats/zip_write.h"

namespace forebay::formats {
namespace {

constexpr size_t kFieldBytesMax = 32;
constexpr size_t kTextBytes = 256 * 1024;

// Text in pieces of cache size.
class TextOut {
 public:
  explicit TextOut(const ByteSink& sink) : sink_(sink), text_(kTextBytes) {}

  // Room for kFieldBytesMax characters and a delimiter; tell how many were written by advance().
  Result<char*> room() {
    if (text_.size() - used_ <= kFieldBytesMax) FB_TRY(flush());
    return text_.data() + used_;
  }
  void advance(size_t count) { used_ += count; }
  Status put(char c) {
    *FB_TRY(room()) = c;
    advance(1);
    return {};
  }
  void replace_last(char c) { text_[used_ - 1] = c; }
  Status flush() {
    FB_TRY(sink_(std::as_bytes(std::span(text_).first(used_))));
    used_ = 0;
    return {};
  }

 private:
  const ByteSink& sink_;
  std::vector<char> text_;
  size_t used_ = 0;
};

// "0," to "255,": a byte becomes text by one copy of four characters.
struct ByteText {
  std::array<char, 4> text{};
  uint8_t length = 0;
};
constexpr std::array<ByteText, 256> kByteTexts = [] {
  std::array<ByteText, 256> texts{};
  for (unsigned value = 0; value < 256; ++value) {
    ByteText& entry = texts[value];
    if (value >= 100) entry.text[entry.length++] = static_cast<char>('0' + value / 100);
    if (value >= 10) entry.text[entry.length++] = static_cast<char>('0' + value / 10 % 10);
    entry.text[entry.length++] = static_cast<char>('0' + value % 10);
    entry.text[entry.length++] = ',';
  }
  return texts;
}();

Status put_bytes(std::span<const std::byte> values, TextOut& out) {
  constexpr size_t kAtOnce = kFieldBytesMax / 4;
  for (size_t i = 0; i < values.size(); i += kAtOnce) {
    char* const start = FB_TRY(out.room());
    char* at = start;
    for (const std::byte value : values.subspan(i, std::min(kAtOnce, values.size() - i))) {
      const ByteText& entry = kByteTexts[static_cast<size_t>(value)];
      std::memcpy(at, entry.text.data(), entry.text.size());
      at += entry.length;
    }
    out.advance(static_cast<size_t>(at - start));
  }
  return {};
}

template <class T>
Status put_number(T value, TextOut& out) {
  char* const start = FB_TRY(out.room());
  char* end = std::to_chars(start, start + kFieldBytesMax, value).ptr;
  *end++ = ',';
  out.advance(static_cast<size_t>(end - start));
  return {};
}

template <class T>
Status put_numbers(std::span<const std::byte> values, TextOut& out) {
  for (size_t i = 0; i + sizeof(T) <= values.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, &values[i], sizeof value);
    FB_TRY(put_number(value, out));
  }
  return {};
}

// Half precision, finite: a float of the same value.
float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    const float tiny = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

Status put_halves(std::span<const std::byte> values, TextOut& out) {
  for (size_t i = 0; i + 2 <= values.size(); i += 2) {
    uint16_t half;
    std::memcpy(&half, &values[i], sizeof half);
    FB_TRY(put_number(float_of_half(half), out));
  }
  return {};
}

Status put_booleans(std::span<const std::byte> values, TextOut& out) {
  for (const std::byte value : values) {
    const std::string_view word = value == std::byte{0} ? "False," : "True,";
    std::memcpy(FB_TRY(out.room()), word.data(), word.size());
    out.advance(word.size());
  }
  return {};
}

using PutValues = Status (*)(std::span<const std::byte>, TextOut&);
struct Spelling {
  PutValues put = nullptr;
  uint64_t characters_max = 0;  // of one number
};

// By element type; what has no spelling cannot be written.
Spelling spelling_of(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return {put_bytes, 3};
    case ElementType::kU16:
      return {put_numbers<uint16_t>, 5};
    case ElementType::kU32:
      return {put_numbers<uint32_t>, 10};
    case ElementType::kU64:
      return {put_numbers<uint64_t>, 20};
    case ElementType::kI8:
      return {put_numbers<int8_t>, 4};
    case ElementType::kI16:
      return {put_numbers<int16_t>, 6};
    case ElementType::kI32:
      return {put_numbers<int32_t>, 11};
    case ElementType::kI64:
      return {put_numbers<int64_t>, 20};
    case ElementType::kF16:
      return {put_halves, 16};
    case ElementType::kF32:
      return {put_numbers<float>, 16};
    case ElementType::kF64:
      return {put_numbers<double>, 24};
    case ElementType::kBool:
      return {put_booleans, 5};
    case ElementType::kC64:
    case ElementType::kC128:
    case ElementType::kBF16:
      break;
  }
  return {};
}

bool has_row_numbers(const FileSpec& spec) {
  return spec.dialect == Dialect::kMlpsV2;
}

uint64_t values_of_row(const FileSpec& spec) {
  return record_bytes(spec) / element_bytes(spec.type);
}

Status write_text(const FileSpec& spec, const ByteSink& sink) {
  TextOut out(sink);
  if (has_row_numbers(spec)) {
    FB_TRY(out.put(','));
    for (uint64_t i = 0; i < values_of_row(spec); ++i) FB_TRY(put_number(i, out));
    out.replace_last('\n');
  }
  const PutValues put = spelling_of(spec.type).put;
  Payload payload(spec);
  for (uint64_t row = 0; row < spec.sample_count; ++row) {
    if (has_row_numbers(spec)) FB_TRY(put_number(row, out));
    FB_TRY(payload.produce(record_bytes(spec),
                           [&](std::span<const std::byte> values) { return put(values, out); }));
    out.replace_last('\n');
  }
  return out.flush();
}

// The name of the file without ".zip", as pandas calls its member.
std::string member_name(const FileSpec& spec) {
  std::string name = spec.path.substr(spec.path.rfind('/') + 1);
  if (name.ends_with(".zip")) name.resize(name.size() - 4);
  return name;
}

// The text, deflated; fills crc and sizes.
Status write_member(const FileSpec& spec, ZipMember& member, const ByteSink& sink) {
  const auto packer = make_packer(Compression::kZip);
  member.crc = 0;
  member.bytes = member.compressed_bytes = 0;
  const ByteSink counted = [&](std::span<const std::byte> piece) {
    member.compressed_bytes += piece.size();
    return sink(piece);
  };
  FB_TRY(write_text(spec, [&](std::span<const std::byte> text) {
    member.crc = base::crc32(member.crc, text);
    member.bytes += text.size();
    return packer->run(text, false, counted);
  }));
  return packer->run({}, true, counted);
}

Status write_zip(storage::Writer& writer, bool can_patch, const FileSpec& spec) {
  ZipMember member{.name = member_name(spec), .method = kZipDeflated};
  if (!can_patch)  // the header in front holds what is only known behind
    FB_TRY(write_member(spec, member, [](std::span<const std::byte>) { return Status(); }));
  FB_TRY(writer.append(zip_local_header(member)));
  FB_TRY(write_member(spec, member,
                      [&](std::span<const std::byte> piece) { return writer.append(piece); }));
  if (can_patch) FB_TRY(writer.patch(0, zip_local_header(member)));
  const uint64_t offset = zip_local_bytes(member) + member.compressed_bytes;
  return writer.append(zip_directory({&member, 1}, offset));
}

}  // namespace

Status write_csv(storage::Writer& writer, bool can_patch, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  if (spelling_of(spec.type).put == nullptr)
    return fail(ErrorCode::kUnsupported, "{}: csv files hold no {} numbers", spec.path,
                element_name(spec.type));
  if (spec.compression == Compression::kZip) return write_zip(writer, can_patch, spec);
  return write_packed(writer, spec.compression,
                      [&](const ByteSink& out) { return write_text(spec, out); });
}

uint64_t csv_bytes_max(const FileSpec& spec) {
  if (!check_spec(spec).ok()) return UINT64_MAX;
  const uint64_t field = spelling_of(spec.type).characters_max + 1;
  const uint64_t row_number =
      has_row_numbers(spec) ? std::to_string(spec.sample_count).size() + 1 : 0;
  uint64_t bytes = spec.sample_count * (values_of_row(spec) * field + row_number);
  if (has_row_numbers(spec))
    bytes += 1 + values_of_row(spec) * (std::to_string(values_of_row(spec)).size() + 1);
  bytes = packed_bytes_max(spec.compression, bytes);
  if (spec.compression == Compression::kZip) {
    const ZipMember member{.name = member_name(spec), .compressed_bytes = bytes, .bytes = bytes};
    bytes += zip_local_bytes(member) + zip_directory({&member, 1}, bytes).size();
  }
  return bytes;
}

}  // namespace forebay::formats

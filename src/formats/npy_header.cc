#include "formats/npy_header.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

// Reads the literal that numpy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool at_end() { return peek() == '\0'; }
  size_t position() const { return at_; }

  std::optional<std::string_view> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t start = ++at_;
    const size_t end = text_.find(quote, start);
    if (end == std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return text_.substr(start, end - start);
  }

  std::optional<bool> boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    return std::nullopt;
  }

  // "(3, 4)", "(3,)", "()"; Python 2 wrote long integers as 3L.
  std::optional<std::vector<uint64_t>> tuple() {
    if (!take('(')) return std::nullopt;
    std::vector<uint64_t> values;
    while (!take(')')) {
      skip_space();
      uint64_t value = 0;
      const char* end = text_.data() + text_.size();
      const auto [next, code] = std::from_chars(text_.data() + at_, end, value);
      if (code != std::errc()) return std::nullopt;
      at_ = static_cast<size_t>(next - text_.data());
      take('L');
      values.push_back(value);
      if (values.size() > kDimensionsMax) return std::nullopt;
      if (!take(',') && peek() != ')') return std::nullopt;
    }
    return values;
  }

 private:
  static constexpr size_t kDimensionsMax = 64;  // numpy allows 32, version 2 of it 64

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<ElementType> element_of(char kind, std::string_view size) {
  const auto pick = [&](std::initializer_list<std::pair<std::string_view, ElementType>> known)
      -> std::optional<ElementType> {
    for (const auto& [text, type] : known)
      if (text == size) return type;
    return std::nullopt;
  };
  using enum ElementType;
  switch (kind) {
    case 'u':
      return pick({{"1", kU8}, {"2", kU16}, {"4", kU32}, {"8", kU64}});
    case 'i':
      return pick({{"1", kI8}, {"2", kI16}, {"4", kI32}, {"8", kI64}});
    case 'f':
      return pick({{"2", kF16}, {"4", kF32}, {"8", kF64}});
    case 'c':
      return pick({{"8", kC64}, {"16", kC128}});
    case 'b':
      return pick({{"1", kBool}});
    default:
      return std::nullopt;
  }
}

std::string_view kind_name(char kind) {
  switch (kind) {
    case 'S':
    case 'a':
      return "byte strings";
    case 'U':
      return "strings";
    case 'V':
      return "raw structures";
    case 'M':
      return "dates";
    case 'm':
      return "time spans";
    default:
      return "this type";
  }
}

// "u2" of "<u2", and the sign before it.
struct SplitDescr {
  char order = '|';
  std::string_view rest;
};
SplitDescr split_descr(std::string_view descr) {
  const bool has_order =
      !descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
  return has_order ? SplitDescr{descr[0], descr.substr(1)} : SplitDescr{'|', descr};
}

Status parse_descr(std::string_view descr, ArrayLayout& layout) {
  const auto [order, rest] = split_descr(descr);
  if (rest.empty()) return fail(ErrorCode::kCorruption, "npy header: empty dtype");
  if (rest[0] == 'O')
    return fail(ErrorCode::kUnsupported,
                "dtype object ('{}') needs pickle, which Forebay never runs", descr);
  const auto type = element_of(rest[0], rest.substr(1));
  if (!type)
    return fail(ErrorCode::kUnsupported, "dtype '{}' ({}) is not a plain number type", descr,
                kind_name(rest[0]));
  layout.type = *type;
  layout.is_big_endian = order == '>' && element_bytes(*type) > 1;
  return {};
}

}  // namespace

std::optional<NumberType> number_from_numpy(std::string_view name) {
  if (const auto type = element_from_name(name)) return NumberType{*type, false};
  const auto [order, rest] = split_descr(name);
  const auto type = rest.empty() ? std::nullopt : element_of(rest[0], rest.substr(1));
  if (!type) return std::nullopt;
  return NumberType{*type, order == '>' && element_bytes(*type) > 1};
}

Result<uint64_t> npy_data_offset(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.size() < 10) {
    if (text == kMagic.substr(0, text.size()) || text.substr(0, 6) == kMagic)
      return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}", text.size());
    return fail(ErrorCode::kCorruption, "not a npy array ({}): its first bytes are not \\x93NUMPY",
                content_kind(head));
  }
  if (text.substr(0, 6) != kMagic)
    return fail(ErrorCode::kCorruption, "not a npy array ({}): its first bytes are not \\x93NUMPY",
                content_kind(head));
  const int major = static_cast<int>(head[6]);
  if (major < 1 || major > 3)
    return fail(ErrorCode::kUnsupported, "npy version {}.{} (1.0, 2.0 and 3.0 are read)", major,
                static_cast<int>(head[7]));
  if (major == 1) return uint64_t{10} + load_le<uint16_t>(head.data() + 8);
  if (head.size() < kNpyPreambleBytes)
    return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}", head.size());
  const uint64_t bytes = load_le<uint32_t>(head.data() + 8);
  if (bytes > kNpyHeaderBytesMax)
    return fail(ErrorCode::kCorruption, "npy header claims {} bytes; the limit is {}", bytes,
                kNpyHeaderBytesMax);
  return kNpyPreambleBytes + bytes;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> head) {
  NpyHeader header;
  header.data_offset = FB_TRY(npy_data_offset(head));
  if (header.data_offset > head.size())
    return fail(ErrorCode::kCorruption, "npy header: truncated at byte {}, it needs {}",
                head.size(), header.data_offset);
  const size_t start = static_cast<int>(head[6]) == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + start,
                              header.data_offset - start);
  LiteralParser parser(text);
  const auto malformed = [&] {
    return fail(ErrorCode::kCorruption, "npy header: not the expected dictionary at byte {}",
                start + parser.position());
  };
  std::optional<std::string_view> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<uint64_t>> shape;
  if (!parser.take('{')) return malformed();
  while (!parser.take('}')) {
    const auto key = parser.string();
    if (!key || !parser.take(':')) return malformed();
    if (*key == "descr") {
      if (parser.peek() == '[')
        return fail(ErrorCode::kUnsupported, "a structured dtype; only plain numbers are read");
      descr = parser.string();
      if (!descr) return malformed();
    } else if (*key == "fortran_order") {
      fortran = parser.boolean();
      if (!fortran) return malformed();
    } else if (*key == "shape") {
      shape = parser.tuple();
      if (!shape) return malformed();
    } else {
      return fail(ErrorCode::kCorruption, "npy header: unknown key '{}'", *key);
    }
    if (!parser.take(',') && parser.peek() != '}') return malformed();
  }
  if (!descr || !fortran || !shape || !parser.at_end()) return malformed();
  FB_TRY(parse_descr(*descr, header.layout));
  header.layout.is_fortran_order = *fortran;
  header.layout.shape = std::move(*shape);
  header.data_bytes = FB_TRY(array_bytes(header.layout).context("npy header"));
  return header;
}

std::string make_npy_header(const ArrayLayout& layout) {
  char kind = 'u';
  using enum ElementType;
  switch (layout.type) {
    case kU8:
    case kU16:
    case kU32:
    case kU64:
      kind = 'u';
      break;
    case kI8:
    case kI16:
    case kI32:
    case kI64:
      kind = 'i';
      break;
    case kF16:
    case kF32:
    case kF64:
      kind = 'f';
      break;
    case kBool:
      kind = 'b';
      break;
    case kC64:
    case kC128:
      kind = 'c';
      break;
    case kBF16:  // as ml_dtypes saves it: two opaque bytes
      kind = 'V';
      break;
  }
  const size_t size = element_bytes(layout.type);
  const char order = size == 1 ? '|' : layout.is_big_endian ? '>' : '<';
  std::string shape;
  for (const uint64_t dimension : layout.shape) shape += fmt::format("{}, ", dimension);
  if (layout.shape.size() > 1) shape.resize(shape.size() - 2);
  if (layout.shape.size() == 1) shape.resize(shape.size() - 1);  // "(3,)"
  std::string dictionary =
      fmt::format("{{'descr': '{}{}{}', 'fortran_order': {}, 'shape': ({}), }}", order, kind, size,
                  layout.is_fortran_order ? "True" : "False", shape);
  const size_t unpadded = 10 + dictionary.size() + 1;
  dictionary.append((64 - unpadded % 64) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace forebay::formats

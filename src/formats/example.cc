#include "formats/example.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "formats/parts.h"

namespace forebay::formats {
namespace {

// Field numbers of the messages.
constexpr uint64_t kFeatures = 1;      // Example.features
constexpr uint64_t kFeatureLists = 2;  // SequenceExample.feature_lists
constexpr uint64_t kEntry = 1;         // Features.feature, a map
constexpr uint64_t kKey = 1, kValue = 2;
constexpr uint64_t kBytesList = 1, kFloatList = 2, kInt64List = 3;
constexpr uint64_t kElement = 1;  // of each list

enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

}  // namespace

// Walks over the fields of one message. Every length is compared with what is left.
class ExampleParser::Cursor {
 public:
  Cursor() = default;
  Cursor(std::span<const std::byte> bytes, uint64_t offset) : bytes_(bytes), offset_(offset) {}

  bool is_at_end() const { return bytes_.empty(); }
  uint64_t offset() const { return offset_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  struct Field {
    uint64_t number = 0, wire = 0;
    uint64_t value = 0;  // of numbers
    uint64_t offset = 0;
    std::span<const std::byte> bytes{};  // kLength
    Cursor message() const { return {bytes, offset}; }
  };

  Result<Field> next() {
    const uint64_t tag = FB_TRY(varint());
    Field field{.number = tag >> 3, .wire = tag & 7, .offset = offset_};
    switch (field.wire) {
      case kVarint:
        field.value = FB_TRY(varint());
        return field;
      case kFixed64:
        field.value = FB_TRY(fixed<uint64_t>());
        return field;
      case kFixed32:
        field.value = FB_TRY(fixed<uint32_t>());
        return field;
      case kLength: {
        const uint64_t length = FB_TRY(varint());
        field.offset = offset_;
        field.bytes = FB_TRY(take(length));
        return field;
      }
      default:
        return damaged("a field of unknown kind");
    }
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < 10 && i < bytes_.size(); ++i) {
      const auto byte = static_cast<uint64_t>(bytes_[i]);
      if (i == 9 && byte > 1) break;
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        advance(i + 1);
        return value;
      }
    }
    return damaged("a number that does not end");
  }

  template <class T>
  Result<T> fixed() {
    const auto bytes = FB_TRY(take(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  Error damaged(std::string_view what) const {
    return fail(ErrorCode::kCorruption, "not a tf.train.Example: {} at byte {}", what, offset_);
  }

 private:
  Result<std::span<const std::byte>> take(uint64_t length) {
    if (length > bytes_.size()) return damaged("a field longer than its message");
    const auto taken = bytes_.first(length);
    advance(length);
    return taken;
  }
  void advance(size_t bytes) {
    bytes_ = bytes_.subspan(bytes);
    offset_ += bytes;
  }

  std::span<const std::byte> bytes_{};
  uint64_t offset_ = 0;
};

std::string_view ExampleParser::keep_name(std::string name) {
  names_.push_back(std::make_unique<std::string>(std::move(name)));
  return *names_.back();
}

Status ExampleParser::parse(std::span<const std::byte> message, std::vector<Part>& out) {
  out.clear();
  numbers_.clear();
  pending_.clear();
  names_.clear();
  Cursor cursor(message, 0);
  const auto read = [&]() -> Status {
    while (!cursor.is_at_end()) {
      const auto field = FB_TRY(cursor.next());
      if (field.number == kFeatureLists && field.wire == kLength)
        return fail(ErrorCode::kUnsupported, "a tf.train.SequenceExample");
      if (field.number != kFeatures || field.wire != kLength)
        return cursor.damaged("a field that it does not have");
      FB_TRY(parse_features(field.message(), out));
    }
    return {};
  };
  Status status = read();
  const bool has_data =
      std::any_of(out.begin(), out.end(), [](const Part& part) { return part.name == "data"; });
  if (columns_.size() == 1 && columns_.front() == "data" && (!status.ok() || !has_data)) {
    out.assign(1, {"data", {.encoding = Encoding::kRaw, .bytes = message}});
    return {};
  }
  FB_TRY(std::move(status));
  for (const Pending& it : pending_)
    out[it.part].record.bytes = std::span<const std::byte>(numbers_).subspan(it.first, it.count);
  return check_wanted(columns_, out);
}

Status ExampleParser::parse_features(Cursor features, std::vector<Part>& out) {
  while (!features.is_at_end()) {
    const auto field = FB_TRY(features.next());
    if (field.number != kEntry || field.wire != kLength)
      return features.damaged("a field that features do not have");
    FB_TRY(parse_entry(field.message(), out));
  }
  return {};
}

Status ExampleParser::parse_entry(Cursor entry, std::vector<Part>& out) {
  std::span<const std::byte> key;
  Cursor value;
  while (!entry.is_at_end()) {
    const auto field = FB_TRY(entry.next());
    if (field.wire != kLength || (field.number != kKey && field.number != kValue))
      return entry.damaged("a field that an entry does not have");
    if (field.number == kKey)
      key = field.bytes;
    else
      value = field.message();
  }
  FB_TRY(check_text(key).context("the name of a feature"));
  const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
  if (!is_wanted(columns_, name)) return {};
  for (const Part& part : out)
    if (part.name == name) return fail(ErrorCode::kCorruption, "two features named {}", name);
  return add_feature(name, value, out);
}

Status ExampleParser::add_feature(std::string_view name, Cursor feature, std::vector<Part>& out) {
  std::optional<Cursor::Field> list;
  while (!feature.is_at_end()) {
    const auto field = FB_TRY(feature.next());
    if (field.wire != kLength || field.number < kBytesList || field.number > kInt64List)
      return feature.damaged("a field that a feature does not have");
    list = field;
  }
  if (!list) {
    out.push_back({name, {}});
    return {};
  }
  if (list->number == kBytesList) return add_bytes(name, list->message(), out);
  return add_numbers(name, list->message(), list->number == kFloatList, out);
}

Status ExampleParser::add_bytes(std::string_view name, Cursor list, std::vector<Part>& out) {
  const size_t first = out.size();
  while (!list.is_at_end()) {
    const auto field = FB_TRY(list.next());
    if (field.number != kElement || field.wire != kLength)
      return list.damaged("a field that a list of bytes does not have");
    out.push_back({name, record_of_content(field.bytes)});
  }
  if (out.size() == first) out.push_back({name, {}});
  if (out.size() == first + 1) return {};
  for (size_t i = first; i < out.size(); ++i)
    out[i].name = keep_name(fmt::format("{}/{}", name, i - first));
  return {};
}

Status ExampleParser::add_numbers(std::string_view name, Cursor list, bool is_float,
                                  std::vector<Part>& out) {
  numbers_.resize((numbers_.size() + 7) / 8 * 8);  // aligned for every type
  const size_t first = numbers_.size();
  const auto add = [&](const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    numbers_.insert(numbers_.end(), bytes.begin(), bytes.end());
  };
  while (!list.is_at_end()) {
    const auto field = FB_TRY(list.next());
    if (field.number != kElement) return list.damaged("a field that a list does not have");
    if (field.wire == kLength && is_float) {  // packed: as memory has them
      if (field.bytes.size() % sizeof(float) != 0) return list.damaged("a part of a float");
      numbers_.insert(numbers_.end(), field.bytes.begin(), field.bytes.end());
    } else if (field.wire == kLength) {
      Cursor packed = field.message();
      while (!packed.is_at_end()) add(FB_TRY(packed.varint()));
    } else if (is_float && field.wire == kFixed32) {
      add(static_cast<uint32_t>(field.value));
    } else if (!is_float && field.wire == kVarint) {
      add(field.value);
    } else {
      return list.damaged("a number of another kind");
    }
  }
  const size_t bytes = numbers_.size() - first;
  const uint64_t count = bytes / (is_float ? sizeof(float) : sizeof(int64_t));
  Record record{.encoding = Encoding::kArray, .bytes = {}};
  record.array.type = is_float ? ElementType::kF32 : ElementType::kI64;
  if (count != 1) record.array.shape = {count};
  pending_.push_back({out.size(), first, bytes});
  out.push_back({name, record});
  return {};
}

}  // namespace forebay::formats

#include "checkpoint/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"

namespace forebay::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadataName = "__metadata__";

// Takes the JSON apart as it is read: nothing of it is kept that is no header, so that a hostile
// one costs no memory.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(SafetensorsHeader& out) : out_(out) {}

  const std::optional<Error>& error() const { return error_; }

  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("true or false"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return refuse("a number that is not whole");
  }
  bool number_integer(int64_t /*value*/) override { return refuse("a negative number"); }
  bool binary(json::binary_t& /*value*/) override { return refuse("bytes"); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) {
      if (out_.tensors.back().shape.size() == kDimensionsMax)
        return stop(ErrorCode::kUnsupported,
                    fmt::format("a shape of more than {} sides", kDimensionsMax));
      out_.tensors.back().shape.push_back(value);
      return true;
    }
    if (place_ != Place::kOffsets) return refuse("a number");
    if (offsets_ == 2) return stop(ErrorCode::kCorruption, "more than two data_offsets");
    (offsets_ == 0 ? begin_ : end_) = value;
    ++offsets_;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (out_.metadata.emplace(key_, std::move(value)).second) return true;
      return stop(ErrorCode::kCorruption, "'" + key_ + "' comes twice");
    }
    if (place_ != Place::kTensor || key_ != "dtype") return refuse("a string");
    const auto type = type_from_file_name(value);
    if (!type) return stop(ErrorCode::kUnsupported, "unknown dtype '" + value + "'");
    out_.tensors.back().type = *type;
    return true;
  }

  bool start_object(size_t /*elements*/) override {
    if (place_ == Place::kFront) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return refuse("an object");
    if (key_ == kMetadataName) {
      if (std::exchange(has_metadata_, true))
        return stop(ErrorCode::kCorruption, "'__metadata__' comes twice");
      place_ = Place::kMetadata;
      return true;
    }
    place_ = Place::kTensor;
    has_type_ = has_shape_ = has_offsets_ = false;
    out_.tensors.emplace_back().name = key_;
    return true;
  }

  bool key(std::string& name) override {
    key_ = std::move(name);
    if (place_ != Place::kTensor) return true;
    bool* const has = key_ == "dtype"          ? &has_type_
                      : key_ == "shape"        ? &has_shape_
                      : key_ == "data_offsets" ? &has_offsets_
                                               : nullptr;
    if (has == nullptr) return stop(ErrorCode::kCorruption, "unknown field '" + key_ + "'");
    if (std::exchange(*has, true)) return stop(ErrorCode::kCorruption, "'" + key_ + "' twice");
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kBehind;
      return true;
    }
    if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
      return true;
    }
    if (!has_type_ || !has_shape_ || !has_offsets_)
      return stop(ErrorCode::kCorruption, !has_type_    ? "no dtype"
                                          : !has_shape_ ? "no shape"
                                                        : "no data_offsets");
    if (!end_tensor()) return false;
    place_ = Place::kTop;
    return true;
  }

  bool start_array(size_t /*elements*/) override {
    if (place_ != Place::kTensor || key_ == "dtype") return refuse("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2)
      return stop(ErrorCode::kCorruption, "fewer than two data_offsets");
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return stop(ErrorCode::kCorruption,
                fmt::format("no JSON in UTF-8 at byte {}", kLengthBytes + position));
  }

 private:
  enum class Place { kFront, kTop, kTensor, kShape, kOffsets, kMetadata, kBehind };

  bool end_tensor() {
    TensorEntry& tensor = out_.tensors.back();
    Result<uint64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
    if (!bytes.ok()) return stop(ErrorCode::kCorruption, bytes.error().message);
    if (end_ < begin_ || end_ - begin_ != *bytes)
      return stop(ErrorCode::kCorruption,
                  fmt::format("data_offsets [{}, {}], but {} [{}] takes {} bytes", begin_, end_,
                              file_name_of(tensor.type), fmt::join(tensor.shape, ", "), *bytes));
    tensor.offset = begin_;
    tensor.bytes = *bytes;
    return true;
  }

  bool refuse(std::string_view what) {
    return stop(ErrorCode::kCorruption, fmt::format("{} where none belongs", what));
  }
  bool stop(ErrorCode code, const std::string& why) {
    const bool is_in_tensor =
        place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets;
    if (is_in_tensor)
      error_ = fail(code, "tensor '{}': {}", out_.tensors.back().name, why);
    else if (place_ == Place::kTop)
      error_ = fail(code, "'{}': {}", key_, why);
    else
      error_ = fail(code, "the header: {}", why);
    return false;
  }

  SafetensorsHeader& out_;
  std::optional<Error> error_;
  Place place_ = Place::kFront;
  std::string key_;
  bool has_metadata_ = false;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;  // of the newest tensor
  uint64_t begin_ = 0, end_ = 0;
  int offsets_ = 0;  // of them that came
};

Status check_names(const std::vector<TensorEntry>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail(ErrorCode::kCorruption, "tensor '{}' comes twice", *twice);
}

// Sorts them as they lie, and checks that they lie without holes.
Status check_places(std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.offset != end)
      return fail(ErrorCode::kCorruption, "tensor '{}' begins at {}, {} {}", tensor.name,
                  tensor.offset,
                  tensor.offset > end ? "behind a hole from" : "inside another that ends at", end);
    if (tensor.bytes > data_bytes - end)
      return fail(ErrorCode::kCorruption, "tensor '{}' ends at {}, behind the file's {} bytes",
                  tensor.name, tensor.offset + tensor.bytes, data_bytes);
    end += tensor.bytes;
  }
  if (end != data_bytes)
    return fail(ErrorCode::kCorruption, "{} bytes of tensors, but the file has {} of them", end,
                data_bytes);
  return {};
}

std::string json_string(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Result<uint64_t> read_header_length(std::span<const std::byte> first, uint64_t file_bytes) {
  if (first.size() < kLengthBytes || file_bytes < kLengthBytes)
    return fail(ErrorCode::kCorruption, "{} bytes are no safetensors file", file_bytes);
  uint64_t length = 0;
  std::memcpy(&length, first.data(), kLengthBytes);
  if (length > kHeaderBytesMax)
    return fail(ErrorCode::kCorruption, "a header of {} bytes; {} are allowed", length,
                kHeaderBytesMax);
  if (length > file_bytes - kLengthBytes)
    return fail(ErrorCode::kCorruption, "a header of {} bytes in a file of {}", length, file_bytes);
  return length;
}

Result<SafetensorsHeader> parse_safetensors(std::string_view text, uint64_t file_bytes) {
  if (text.empty() || text.front() != '{')
    return fail(ErrorCode::kCorruption, "the header begins with no '{{'");
  if (file_bytes < kLengthBytes + text.size())
    return fail(ErrorCode::kCorruption, "a header of {} bytes in a file of {}", text.size(),
                file_bytes);
  SafetensorsHeader header;
  HeaderReader reader(header);
  if (!json::sax_parse(text, &reader)) return *reader.error();
  FB_TRY(check_names(header.tensors));
  FB_TRY(check_places(header.tensors, file_bytes - kLengthBytes - text.size()));
  return header;
}

Result<std::string> make_safetensors_header(const SafetensorsHeader& header, uint64_t alignment) {
  std::string text(kLengthBytes, '\0');
  text += '{';
  const auto next = [&] {
    if (text.back() != '{') text += ',';
  };
  if (!header.metadata.empty()) {
    text += fmt::format("{}:{{", json_string(kMetadataName));
    for (const auto& [name, value] : header.metadata) {
      next();
      text += json_string(name) + ":" + json_string(value);
    }
    text += '}';
  }
  for (const TensorEntry& tensor : header.tensors) {
    next();
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json_string(tensor.name), file_name_of(tensor.type),
                        fmt::join(tensor.shape, ","), tensor.offset, tensor.offset + tensor.bytes);
  }
  text += '}';
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  const uint64_t length = text.size() - kLengthBytes;
  if (length > kHeaderBytesMax)
    return fail(ErrorCode::kResourceExhausted,
                "{} tensors need a header of {} bytes; {} are allowed in one file",
                header.tensors.size(), length, kHeaderBytesMax);
  std::memcpy(text.data(), &length, kLengthBytes);
  return text;
}

}  // namespace forebay::checkpoint

// tf.train.Example messages: named lists of byte strings, floats or integers.
//
// One thread at a time; parts live as long as the message and until the next parse().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"

namespace forebay::formats {

class ExampleParser {
 public:
  // `columns` as FormatOptions has them: the features to give, empty = all. A record that is no
  // Example is given whole when "data" alone is asked for.
  explicit ExampleParser(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  // A part per feature, in the order of the message. One float or integer is a scalar, as
  // FixedLenFeature([]) has it, more or none are a vector; one byte string is an image by its
  // content, else kRaw; several become NAME/0, NAME/1, ... A feature without a list is an empty
  // kRaw. kCorruption, naming the byte, for what is not such a message.
  Status parse(std::span<const std::byte> message, std::vector<Part>& out);

 private:
  class Cursor;
  Status parse_features(Cursor features, std::vector<Part>& out);
  Status parse_entry(Cursor entry, std::vector<Part>& out);
  Status add_feature(std::string_view name, Cursor feature, std::vector<Part>& out);
  Status add_bytes(std::string_view name, Cursor list, std::vector<Part>& out);
  Status add_numbers(std::string_view name, Cursor list, bool is_float, std::vector<Part>& out);
  std::string_view keep_name(std::string name);

  // An array whose elements are not yet in one piece: they lie in numbers_.
  struct Pending {
    size_t part = 0, first = 0, count = 0;
  };

  std::vector<std::string> columns_;
  std::vector<std::byte> numbers_;
  std::vector<Pending> pending_;
  std::vector<std::unique_ptr<std::string>> names_;  // made up here
};

}  // namespace forebay::formats

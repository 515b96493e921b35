// What the exports that write text share. Private to the room.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "trace/export.h"
#include "trace/recording.h"

namespace forebay::trace {

// Gathers pieces of about 64 KiB for a sink, and keeps its first error.
class PieceWriter {
 public:
  explicit PieceWriter(const TextSink& sink) : sink_(sink) {}
  void write(std::string_view text);
  Status finish();

 private:
  const TextSink& sink_;
  std::string piece_;
  Status status_;
};

// What is no UTF-8 becomes U+FFFD: readers of text refuse whole rows for one such byte.
std::string utf8_text(std::string_view text);

// A JSON string. Bytes that are not UTF-8 become U+FFFD, because JSON has no way to carry them.
std::string json_string(std::string_view text);

// An argument's value as a JSON value.
std::string json_value(const Recording& recording, const Key& key, int64_t value);

// "start:main;train.py:load" from the outermost frame, as flame graph tools read it.
std::string stack_text(const Recording& recording, StackId stack);
std::string frame_text(const Dictionary& dictionary, const Frame& frame);

}  // namespace forebay::trace

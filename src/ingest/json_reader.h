// JSON objects out of a stream of any length, one at a time, as traces hold them: the elements of
// an array, or one behind the other, a line each. Takes what the real world writes: NaN and
// Infinity, control characters and quotation marks that nobody escaped, a cut end.
//
// One thread at a time. Views are good until the next call. Memory: one window of 256 KiB, up to
// 64 MiB where one object needs that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "ingest/byte_stream.h"
#include "ingest/importer.h"

namespace forebay::ingest {

enum class JsonType : uint8_t { kString, kNumber, kOther, kArray, kObject };

struct JsonField {
  std::string_view key;
  std::string_view value;  // of strings what is between the quotes, else as it stands
  JsonType type = JsonType::kOther;
  bool is_escaped = false;  // the string holds a backslash
};

// The fields of an object, those of its member "args" apart. Deeper values stay text.
struct JsonObject {
  std::vector<JsonField> fields, arguments;
};

class JsonReader {
 public:
  // `account` gets what had to be skipped.
  JsonReader(ByteStream& stream, Account& account);

  // The next object of `array`, which is a member of the file's one object, or the file's own
  // array, or lines. Members before and behind it are kept in header(). False at the end.
  Result<bool> next(std::string_view array, JsonObject& out);

  // Members of the file's object other than the array, as JSON text; those of more than 1 MiB are
  // left out. Complete once next() has returned false.
  const std::vector<std::pair<std::string, std::string>>& header() const { return header_; }
  uint64_t bytes_read() const { return consumed_ + at_; }

 private:
  enum class State { kStart, kMembers, kElements, kEnd };
  enum class Found { kYes, kNo, kEnd };

  // More bytes behind what is in the window. False at the end of the stream.
  Result<bool> refill();
  // The file ended where it should not.
  Found cut();
  // Of a value that is no object: whether it is brackets in brackets.
  bool is_deep() const;
  // Skips blanks and `also`; false at the end.
  Result<bool> skip_blanks(char also = '\0');
  Status start();
  Result<Found> member(std::string_view array);
  Result<Found> element(JsonObject& out);
  Result<std::optional<std::string>> value_text();
  Result<bool> ends_array();
  // Moves to the next place where an object may begin, or the array ends.
  Result<bool> resynchronise();

  ByteStream& stream_;
  Account& account_;
  std::vector<char> window_;
  size_t at_ = 0, end_ = 0;
  uint64_t consumed_ = 0;
  bool is_ended_ = false;
  bool is_wrapped_ = false;  // the array is a member of an object
  State state_ = State::kStart;
  std::vector<std::pair<std::string, std::string>> header_;
};

// The fields of one object in memory, such as a member of the header.
std::optional<JsonObject> parse_object(std::string_view text);

// What a string stands for: escapes resolved, made valid UTF-8 without control characters.
std::string string_of(const JsonField& field);
// Numbers, also in quotation marks; nothing for NaN, Infinity and what is no number.
std::optional<double> number_of(const JsonField& field);
// Whole numbers, also in quotation marks or in hexadecimal.
std::optional<int64_t> integer_of(const JsonField& field);
// Decimal microseconds as nanoseconds, exactly.
std::optional<int64_t> nanoseconds_of(const JsonField& field);

}  // namespace forebay::ingest

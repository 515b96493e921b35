// Lines of a text of any length.
//
// One thread at a time. Views are good until the next call. Memory: 1 MiB; longer lines are cut
// there and counted.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "ingest/byte_stream.h"
#include "ingest/importer.h"

namespace forebay::ingest {

class LineReader {
 public:
  LineReader(ByteStream& stream, Account& account);
  // The next line without its end. False at the end of the text, and where it cannot be read
  // further (account.damage says why).
  bool next(std::string_view& out);

 private:
  bool refill();

  ByteStream& stream_;
  Account& account_;
  std::vector<char> window_;
  size_t at_ = 0, end_ = 0;
  bool is_ended_ = false, is_skipping_ = false;
};

// Parts of a line, as readers of columns need them.

// The next word behind blanks, taken off the front; empty at the end.
std::string_view take_word(std::string_view& text);
// The whole text as a number; false when it is none.
bool to_number(std::string_view text, double& out);
bool to_integer(std::string_view text, int64_t& out);
// Decimal seconds as nanoseconds, exactly: "1795989534.743402"; false when it is no such number.
bool to_nanoseconds(std::string_view seconds, int64_t& out);

}  // namespace forebay::ingest

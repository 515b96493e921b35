// Tables as text: one line to its columns, and dates to times.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::ingest {

// The columns of a CSV line, without quotation marks and the blanks around them.
std::vector<std::string> csv_columns(std::string_view line);

// "2026/07/03 22:10:46.109", "2023-04-04T16:33:42.959919": nanoseconds since 1970 as if the clock
// showed UTC; false when it is no such date.
bool to_date(std::string_view text, int64_t& out);

}  // namespace forebay::ingest

#include "ingest/columns.h"

#include "base/text.h"
#include "ingest/line_reader.h"

namespace forebay::ingest {

std::vector<std::string> csv_columns(std::string_view line) {
  std::vector<std::string> columns;
  std::string column;
  bool in_quotes = false;
  const auto end = [&] {
    columns.emplace_back(base::trim(column));
    column.clear();
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      const bool is_doubled = in_quotes && i + 1 < line.size() && line[i + 1] == '"';
      if (is_doubled) {
        column += '"';
        ++i;
      } else {
        in_quotes = !in_quotes;
      }
    } else if (c == ',' && !in_quotes) {
      end();
    } else {
      column += c;
    }
  }
  end();
  return columns;
}

bool to_date(std::string_view text, int64_t& out) {
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (text.size() < 19 || (text[4] != '/' && text[4] != '-') || text[13] != ':' || text[16] != ':')
    return false;
  if (!to_integer(text.substr(0, 4), year) || !to_integer(text.substr(5, 2), month) ||
      !to_integer(text.substr(8, 2), day) || !to_integer(text.substr(11, 2), hour) ||
      !to_integer(text.substr(14, 2), minute) || !to_nanoseconds(text.substr(17), second)) {
    return false;
  }
  const bool is_sane = year >= 1970 && year < 2200 && month >= 1 && month <= 12 && day >= 1 &&
                       day <= 31 && hour >= 0 && hour < 24 && minute >= 0 && minute < 60 &&
                       second >= 0;
  if (!is_sane) return false;
  // Days since 1970 of the civil calendar, March being the first month.
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t era = y / 400, of_era = y % 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t days = era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
  out = ((days * 24 + hour) * 60 + minute) * 60'000'000'000 + second;
  return true;
}

}  // namespace forebay::ingest

#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace forebay::base {
namespace {

// Levenshtein distance, two rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

bool class_matches(std::string_view set, char c) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      if (set[i] <= c && c <= set[i + 2]) return true;
      i += 2;
    } else if (set[i] == c) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string nearest_name(std::string_view typed, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, typed.size() / 3) + 1;
  for (const std::string_view name : known) {
    const size_t distance = edit_distance(to_lower(typed), to_lower(name));
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return std::string(best);
}

std::string unknown_name_message(std::string_view kind, std::string_view typed,
                                 std::span<const std::string_view> known) {
  std::vector<std::string_view> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  const std::string nearest = nearest_name(typed, known);
  constexpr size_t kListed = 16;  // more names than that are found by their beginning
  std::vector<std::string_view> alike;
  for (const std::string_view name : sorted)
    if (!typed.empty() && name.starts_with(typed)) alike.push_back(name);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  if (!hint.empty() && known.size() > kListed)
    return fmt::format("no {} named '{}'{}", kind, typed, hint);
  if (!alike.empty() && known.size() > kListed)
    return fmt::format("no {} named '{}'; those that begin so: {}", kind, typed,
                       fmt::join(alike, ", "));
  return fmt::format("no {} named '{}'{} (known: {})", kind, typed, hint, fmt::join(sorted, ", "));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (;;) {
    const size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
      continue;
    }
    size_t width = 1;
    bool matches = p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]);
    if (p < pattern.size() && pattern[p] == '[') {
      const size_t close = pattern.find(']', p + 1);
      if (close != std::string_view::npos) {
        matches = class_matches(pattern.substr(p + 1, close - p - 1), text[t]);
        width = close - p + 1;
      }
    }
    if (matches) {
      p += width;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace forebay::base

#include "dataset/patterns.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/error.h"

namespace forebay::dataset {
namespace {

constexpr std::string_view kSpecial = "{}*?\\";
constexpr size_t kExpansionsMax = 10'000'000;
constexpr size_t kDepthMax = 32;

// Where the brace that opens at `open` closes, and the commas at its own level; npos when it does
// not.
struct Brace {
  size_t close = std::string_view::npos;
  std::vector<size_t> commas;
};
Brace find_brace(std::string_view text, size_t open) {
  Brace brace;
  size_t depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == ',' && depth == 1) {
      brace.commas.push_back(i);
    } else if (text[i] == '}' && --depth == 0) {
      brace.close = i;
      return brace;
    }
  }
  return brace;
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || std::llabs(value) > (int64_t{1} << 60))
    return std::nullopt;
  return value;
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0';
}

bool is_letter(std::string_view text) {
  return text.size() == 1 &&
         ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
}

// FIRST..LAST or FIRST..LAST..STEP; nothing when it is no range.
struct Range {
  int64_t first = 0, last = 0, step = 1;
  size_t width = 0;  // digits and sign
  bool is_letters = false;
};
std::optional<Range> parse_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = text.substr(0, dots);
  std::string_view last = text.substr(dots + 2);
  Range range;
  const size_t more = last.find("..");
  if (more != std::string_view::npos) {
    const auto step = parse_number(last.substr(more + 2));
    if (!step) return std::nullopt;
    range.step = std::max<int64_t>(1, std::llabs(*step));
    last = last.substr(0, more);
  }
  if (is_letter(first) && is_letter(last)) {
    range.first = static_cast<unsigned char>(first[0]);
    range.last = static_cast<unsigned char>(last[0]);
    range.is_letters = true;
    return range;
  }
  const auto from = parse_number(first), to = parse_number(last);
  if (!from || !to) return std::nullopt;
  range.first = *from;
  range.last = *to;
  if (has_leading_zero(first) || has_leading_zero(last))
    range.width = std::max(first.size(), last.size());
  return range;
}

class Expander {
 public:
  explicit Expander(std::string_view whole) : whole_(whole) {}

  // Appends every expansion of `text` to `out`.
  Status expand(std::string_view text, size_t depth, std::vector<std::string>& out) {
    if (depth > kDepthMax)
      return fail(ErrorCode::kInvalidArgument, "{}: braces more than {} deep", whole_, kDepthMax);
    std::vector<std::string> heads{""};
    size_t plain = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        if (++i == text.size())
          return fail(ErrorCode::kInvalidArgument, "{}: ends in '\\', which escapes nothing",
                      whole_);
        continue;
      }
      if (text[i] != '{') continue;
      const Brace brace = find_brace(text, i);
      if (brace.close == std::string_view::npos) continue;
      std::vector<std::string> choices;
      const bool is_choice = FB_TRY(choose(text, i, brace, depth, choices));
      if (!is_choice) continue;
      FB_TRY(multiply(heads, text.substr(plain, i - plain), choices));
      i = brace.close;
      plain = i + 1;
    }
    for (std::string& head : heads) {
      head += text.substr(plain);
      out.push_back(std::move(head));
    }
    return check(out.size());
  }

 private:
  Status check(size_t count) const {
    if (count <= kExpansionsMax) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: stands for more than {} paths", whole_,
                kExpansionsMax);
  }

  // What the brace stands for; false when it is only a brace.
  Result<bool> choose(std::string_view text, size_t open, const Brace& brace, size_t depth,
                      std::vector<std::string>& choices) {
    if (brace.commas.empty()) {
      const auto range = parse_range(text.substr(open + 1, brace.close - open - 1));
      if (!range) return false;
      FB_TRY(count(*range, choices));
      return true;
    }
    size_t start = open + 1;
    for (size_t i = 0; i <= brace.commas.size(); ++i) {
      const size_t end = i < brace.commas.size() ? brace.commas[i] : brace.close;
      FB_TRY(expand(text.substr(start, end - start), depth + 1, choices));
      start = end + 1;
    }
    return true;
  }

  Status count(const Range& range, std::vector<std::string>& choices) const {
    const auto distance = static_cast<uint64_t>(std::llabs(range.last - range.first));
    const uint64_t steps = distance / static_cast<uint64_t>(range.step);
    FB_TRY(check(steps));
    const int64_t sign = range.last < range.first ? -1 : 1;
    for (uint64_t i = 0; i <= steps; ++i) {
      const int64_t value = range.first + sign * static_cast<int64_t>(i) * range.step;
      if (range.is_letters)
        choices.emplace_back(1, static_cast<char>(value));
      else
        choices.push_back(fmt::format("{:0{}}", value, range.width));
    }
    return {};
  }

  Status multiply(std::vector<std::string>& heads, std::string_view between,
                  const std::vector<std::string>& choices) const {
    if (heads.size() > kExpansionsMax / std::max<size_t>(1, choices.size())) return check(SIZE_MAX);
    std::vector<std::string> longer;
    longer.reserve(heads.size() * choices.size());
    for (const std::string& head : heads)
      for (const std::string& choice : choices)
        longer.push_back(head + std::string(between) + choice);
    heads = std::move(longer);
    return {};
  }

  std::string_view whole_;
};

// Within one part of a path.
bool part_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      const bool is_escape = pattern[p] == '\\' && p + 1 < pattern.size();
      const size_t length = is_escape ? 2 : 1;
      if ((!is_escape && pattern[p] == '?') || pattern[p + length - 1] == text[t]) {
        p += length;
        ++t;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    p = star + 1;  // the last star takes one more
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (size_t i = 0; i <= path.size(); ++i)
    if (i == path.size() || path[i] == '/') {
      parts.push_back(path.substr(start, i - start));
      start = i + 1;
    }
  return parts;
}

}  // namespace

bool is_pattern(std::string_view text) {
  return text.find_first_of(kSpecial) != std::string_view::npos;
}

std::string escape_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos || c == ',') out += '\\';
    out += c;
  }
  return out;
}

Result<std::vector<std::string>> expand_braces(std::string_view pattern) {
  std::vector<std::string> out;
  FB_TRY(Expander(pattern).expand(pattern, 0, out));
  return out;
}

bool has_wildcards(std::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (pattern[i] == '*' || pattern[i] == '?')
      return true;
  }
  return false;
}

std::string unescape_pattern(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    out += pattern[i];
  }
  return out;
}

bool path_matches(std::string_view pattern, std::string_view path) {
  const std::vector<std::string_view> wanted = parts_of(pattern), parts = parts_of(path);
  // As for '*' in a name, but in parts: only the last "**" ever has to take more.
  size_t w = 0, p = 0, any = SIZE_MAX, any_part = 0;
  while (p < parts.size()) {
    if (w < wanted.size() && wanted[w] == "**") {
      any = w++;
      any_part = p;
    } else if (w < wanted.size() && part_matches(wanted[w], parts[p])) {
      ++w;
      ++p;
    } else if (any != SIZE_MAX) {
      w = any + 1;
      p = ++any_part;
    } else {
      return false;
    }
  }
  while (w < wanted.size() && wanted[w] == "**") ++w;
  return w == wanted.size();
}

std::string literal_folder(std::string_view pattern) {
  size_t folder = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\')
      ++i;
    else if (pattern[i] == '{' || pattern[i] == '*' || pattern[i] == '?')
      break;
    else if (pattern[i] == '/')
      folder = i;
  }
  return unescape_pattern(pattern.substr(0, folder));
}

}  // namespace forebay::dataset

#include "ingest/importer.h"

#include <array>
#include <cctype>
#include <charconv>

#include "base/text.h"
#include "base/utf8.h"

namespace forebay::ingest {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

int32_t number_at(std::string_view text) {
  int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() && value >= 0 ? value : -1;
}

}  // namespace

void Account::repair_negative(std::string_view name) {
  constexpr size_t kNames = 3;
  repair("spans of negative duration: taken as 0");
  if (negative_names.size() < kNames) negative_names.insert(clean_text(name.substr(0, 80)));
}

void Account::add(Counts& counts, std::string_view reason, uint64_t count) {
  const auto found = counts.find(reason);
  if (found != counts.end()) {
    found->second += count;
  } else {
    counts.emplace(std::string(reason), count);
  }
}

std::string stem_of(std::string_view path) {
  std::string_view name = last_part(path);
  constexpr std::array<std::string_view, 12> kEndings{".gz",  ".json",   ".trace",   ".pt",
                                                      ".pfw", ".sqlite", ".txt",     ".csv",
                                                      ".log", ".strace", ".darshan", ".out"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view ending : kEndings) {
      if (name.size() > ending.size() && name.ends_with(ending)) {
        name.remove_suffix(ending.size());
        again = true;
      }
    }
  }
  return std::string(name);
}

int32_t rank_of_name(std::string_view path) {
  const std::string name = base::to_lower(last_part(path));
  for (size_t at = name.find("rank"); at != std::string::npos; at = name.find("rank", at + 4)) {
    std::string_view rest = std::string_view(name).substr(at + 4);
    while (!rest.empty() && (rest[0] == '_' || rest[0] == '-' || rest[0] == '.' || rest[0] == '='))
      rest.remove_prefix(1);
    if (!rest.empty() && is_digit(rest[0])) return number_at(rest);
  }
  if (name.ends_with("_output.json") && is_digit(name[0])) return number_at(name);
  // "trace_3.json": a short number behind the last underscore or hyphen. Longer ones are times and
  // process numbers.
  const std::string stem = stem_of(name);
  const size_t at = stem.find_last_of("_-");
  const std::string_view tail =
      at == std::string::npos ? stem : std::string_view(stem).substr(at + 1);
  if (tail.empty() || tail.size() > 4) return -1;
  for (const char c : tail) {
    if (!is_digit(c)) return -1;
  }
  return number_at(tail);
}

std::string clean_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = base::utf8_length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    const auto c = static_cast<unsigned char>(text[0]);
    if (c < 0x20 || c == 0x7f) {
      out += ' ';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace forebay::ingest

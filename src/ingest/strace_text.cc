#include "ingest/strace_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "ingest/importer.h"
#include "ingest/line_reader.h"

namespace forebay::ingest {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Resolves the escape behind the backslash at `at`; moves `at` to its last character.
char escaped(std::string_view text, size_t& at) {
  ++at;
  if (text[at] >= '0' && text[at] <= '7') {
    int value = 0;
    size_t digits = 0;
    while (digits < 3 && at + digits < text.size() && text[at + digits] >= '0' &&
           text[at + digits] <= '7') {
      value = value * 8 + (text[at + digits++] - '0');
    }
    at += digits - 1;
    return static_cast<char>(value);
  }
  static constexpr std::string_view kFrom = "nrtvf", kTo = "\n\r\t\v\f";
  const size_t known = kFrom.find(text[at]);
  return known == std::string_view::npos ? text[at] : kTo[known];
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at] == '\\' && at + 1 < text.size() ? escaped(text, at) : text[at];
  }
  return clean_text(out);
}

// Where the bracket that opens at `open` closes. "->" closes nothing.
size_t end_of_decoded(std::string_view text, size_t open) {
  size_t depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '<') ++depth;
    if (text[at] == '>' && text[at - 1] != '-' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

bool cut_start(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// "TCP:[a->b]" -> "tcp:b"; of a socket that listens its own address.
std::string text_of_internet(std::string_view protocol, std::string_view inside) {
  const size_t arrow = inside.find("->");
  if (arrow != std::string_view::npos) inside.remove_prefix(arrow + 2);
  return fmt::format("{}:{}", protocol, clean_text(inside));
}

std::string text_of_decoded(std::string_view text) {
  for (const std::string_view kind : {"<char ", "<block "}) {
    const size_t at = text.rfind(kind);
    if (at != std::string_view::npos) text = text.substr(0, at);
  }
  for (const std::string_view gone : {" (deleted)", "(deleted)"}) {
    if (text.ends_with(gone)) text.remove_suffix(gone.size());
  }
  std::string_view inside = text;
  const auto strip = [&] {
    if (inside.ends_with(']')) inside.remove_suffix(1);
  };
  for (const std::string_view protocol : {"TCP", "UDP"}) {
    if (!cut_start(inside, protocol)) continue;
    cut_start(inside, "v6");
    if (!cut_start(inside, ":[")) break;
    strip();
    return text_of_internet(base::to_lower(protocol), inside);
  }
  inside = text;
  if (cut_start(inside, "UNIX")) {
    const auto path = quoted(inside);
    if (path) return "unix:" + *path;
    const size_t open = inside.find('[');
    return "unix:" + clean_text(open == std::string_view::npos ? "" : inside.substr(open));
  }
  if (cut_start(inside, "NETLINK")) return "netlink" + clean_text(inside);
  return unescaped(text);
}

}  // namespace

std::optional<std::string> quoted(std::string_view text) {
  size_t at = text.find('"');
  if (at == std::string_view::npos) return std::nullopt;
  std::string out;
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    out += text[at] == '\\' && at + 1 < text.size() ? escaped(text, at) : text[at];
  }
  return clean_text(out);
}

std::string_view argument(std::string_view arguments, size_t which) {
  size_t from = 0, depth = 0;
  bool is_quoted = false;
  bool may_close = true;  // where one does not, none behind it does
  for (size_t at = 0; at <= arguments.size(); ++at) {
    const char c = at < arguments.size() ? arguments[at] : ',';
    if (is_quoted && at < arguments.size()) {
      if (c == '\\') ++at;
      if (c == '"') is_quoted = false;
      continue;
    }
    if (c == '"') is_quoted = true;
    if (c == '[' || c == '{' || c == '(') ++depth;
    if ((c == ']' || c == '}' || c == ')') && depth > 0) --depth;
    if (c == '<' && may_close && at > 0 &&
        (is_digit(arguments[at - 1]) || arguments[at - 1] == 'D')) {
      const size_t end = end_of_decoded(arguments, at);
      may_close = end != std::string_view::npos;
      if (may_close) at = end;
    }
    if (c != ',' || (depth > 0 && at < arguments.size())) continue;
    if (which-- == 0) return base::trim(arguments.substr(from, at - from));
    from = at + 1;
  }
  return {};
}

std::optional<WrittenDescriptor> written_descriptor(std::string_view text) {
  WrittenDescriptor out;
  size_t end = 0;
  if (text.starts_with("AT_FDCWD")) {
    end = 8;
  } else {
    end = std::min(text.find_first_not_of("0123456789"), text.size());
    if (end == 0 || end > 10 || !to_integer(text.substr(0, end), out.number)) return std::nullopt;
  }
  if (end < text.size() && text[end] == '<') {
    const size_t close = end_of_decoded(text, end);
    if (close == std::string_view::npos) return out;
    out.name = text_of_decoded(text.substr(end + 1, close - end - 1));
    return out;
  }
  constexpr std::string_view kBehind = ",)]} ";
  const bool is_whole = end == text.size() || kBehind.find(text[end]) != std::string_view::npos;
  return is_whole ? std::optional(out) : std::nullopt;
}

std::vector<WrittenDescriptor> descriptors_behind(std::string_view text, std::string_view label) {
  constexpr size_t kDescriptorsMax = 256;
  std::vector<WrittenDescriptor> out;
  size_t at = text.find(label);
  if (at == std::string_view::npos) return out;
  text.remove_prefix(at + label.size());
  if (!text.starts_with('[')) return out;
  text.remove_prefix(1);
  while (out.size() < kDescriptorsMax) {
    const auto found = written_descriptor(text);
    if (!found) return out;
    out.push_back(*found);
    const size_t end = text.find_first_not_of("0123456789");
    at = end < text.size() && text[end] == '<' ? end_of_decoded(text, end) + 1 : end;
    if (at == 0 || at >= text.size()) return out;
    text.remove_prefix(at);
    if (!cut_start(text, ", ")) return out;
  }
  return out;
}

std::optional<WrittenAddress> written_address(std::string_view arguments) {
  const size_t family = arguments.find("sa_family=");
  if (family == std::string_view::npos) return std::nullopt;
  std::string_view text = arguments.substr(family + 10);
  if (text.starts_with("AF_UNIX") || text.starts_with("AF_LOCAL")) {
    const size_t path = text.find("sun_path=");
    if (path == std::string_view::npos) return WrittenAddress{true, ""};
    text.remove_prefix(path + 9);
    return WrittenAddress{true, (text.starts_with('@') ? "@" : "") + quoted(text).value_or("")};
  }
  if (!text.starts_with("AF_INET")) return std::nullopt;
  const bool is_6 = text.starts_with("AF_INET6");
  const size_t port = text.find("htons("), host = text.find(is_6 ? "inet_pton(" : "inet_addr(");
  if (port == std::string_view::npos || host == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(port + 6);
  const auto number = digits.substr(0, digits.find_first_not_of("0123456789"));
  const std::string address = quoted(text.substr(host)).value_or("");
  return WrittenAddress{false, is_6 ? fmt::format("[{}]:{}", address, number)
                                    : fmt::format("{}:{}", address, number)};
}

}  // namespace forebay::ingest

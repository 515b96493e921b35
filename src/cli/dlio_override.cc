#include "cli/dlio_override.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "workload/workload.h"

namespace forebay::cli {
namespace {

using workload::Node;

constexpr int kDepthMax = 64;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_space(char c) {
  return c == ' ' || c == '\t';
}
// What may stand in a value without quotes. Bytes of UTF-8 are taken too, which Hydra wants quoted.
bool is_plain(char c) {
  constexpr std::string_view kMarks = "_-/\\+.$%*@?|:";
  return is_letter(c) || is_digit(c) || static_cast<unsigned char>(c) >= 0x80 ||
         kMarks.find(c) != std::string_view::npos;
}
bool is_escapable(char c) {
  constexpr std::string_view kMarks = "\\()[]{}:=, \t";
  return kMarks.find(c) != std::string_view::npos;
}

// Digits that single underscores may part: "1_000".
size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size()) {
    const bool parted = text[end] == '_' && end > at && end + 1 < text.size();
    const size_t digit = parted ? end + 1 : end;
    if (!is_digit(text[digit])) break;
    end = digit + 1;
  }
  return end - at;
}

// A whole number without superfluous zeros, at the start of `text`.
size_t integer_length(std::string_view text) {
  if (text.empty() || !is_digit(text[0])) return 0;
  return text[0] == '0' ? 1 : digits_at(text, 0);
}

enum class Plain { kText, kNull, kBool, kInteger, kFloat };

Plain number_kind(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  const std::string lower = base::to_lower(text);
  if (lower == "inf" || lower == "nan") return Plain::kFloat;
  size_t at = integer_length(text);
  const bool has_whole = at > 0;
  if (has_whole && at == text.size()) return Plain::kInteger;
  size_t decimals = 0;
  const bool has_point = at < text.size() && text[at] == '.';
  if (has_point) {
    decimals = digits_at(text, at + 1);
    at += 1 + decimals;
  }
  if (!has_whole && decimals == 0) return Plain::kText;
  if (at == text.size()) return has_point ? Plain::kFloat : Plain::kText;
  if (text[at] != 'e' && text[at] != 'E') return Plain::kText;
  ++at;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  const size_t exponent = digits_at(text, at);
  return exponent > 0 && at + exponent == text.size() ? Plain::kFloat : Plain::kText;
}

Plain plain_kind(std::string_view text) {
  const std::string lower = base::to_lower(text);
  if (lower == "null") return Plain::kNull;
  if (lower == "true" || lower == "false") return Plain::kBool;
  return number_kind(text);
}

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.is_quoted = true;
  return node;
}

// The value of an unquoted word that holds no escapes.
Node plain_node(std::string_view text) {
  Node node = text_node(std::string(text));
  const Plain kind = plain_kind(text);
  node.is_quoted = kind == Plain::kText;
  if (kind == Plain::kNull) return {};
  if (kind == Plain::kBool) node.text = base::to_lower(text);
  if (kind != Plain::kInteger && kind != Plain::kFloat) return node;
  std::erase(node.text, '_');
  if (node.text.starts_with('+')) node.text.erase(0, 1);
  const std::string lower = base::to_lower(node.text);
  if (lower.ends_with("inf") || lower.ends_with("nan"))  // YAML's spelling
    node.text = (lower[0] == '-' ? "-." : ".") + lower.substr(lower[0] == '-' ? 1 : 0);
  return node;
}

// Reads the text after '='.
class ValueParser {
 public:
  ValueParser(std::string_view whole, std::string_view value) : whole_(whole), text_(value) {}

  Result<Node> run() {
    skip_spaces();
    if (at_ == text_.size()) return text_node("");
    Node node = FB_TRY(element("", 0));
    skip_spaces();
    if (at_ == text_.size()) return node;
    if (text_[at_] == ',')
      return fail(ErrorCode::kUnsupported,
                  "'{}': several values after '=' are a sweep, and sweeps (--multirun) are not "
                  "done; a list is [a, b], a text with a comma is 'a, b' in quotes",
                  whole_);
    return unexpected();
  }

 private:
  Result<Node> element(std::string_view ends, int depth) {
    skip_spaces();
    if (at_ == text_.size()) return unexpected();
    if (depth > kDepthMax)
      return fail(ErrorCode::kInvalidArgument, "'{}': nested deeper than {} levels", whole_,
                  kDepthMax);
    const char c = text_[at_];
    if (c == '[') return list(depth);
    if (c == '{') return dictionary(depth);
    if (c == '\'' || c == '"') return quoted(c);
    return primitive(ends);
  }

  Result<Node> list(int depth) {
    Node node;
    node.kind = Node::Kind::kList;
    ++at_;
    skip_spaces();
    while (!take(']')) {
      if (!node.items.empty() && !take(',')) return unexpected();
      node.items.push_back(FB_TRY(element(",]", depth + 1)));
      skip_spaces();
    }
    return node;
  }

  Result<Node> dictionary(int depth) {
    Node node;
    node.kind = Node::Kind::kMap;
    ++at_;
    skip_spaces();
    while (!take('}')) {
      if (!node.items.empty() && !take(',')) return unexpected();
      skip_spaces();
      const Node key = FB_TRY(primitive(":"));
      if (!take(':')) return unexpected();
      const std::string name = key.kind == Node::Kind::kNull ? "null" : key.text;
      Node value = FB_TRY(element(",}", depth + 1));
      skip_spaces();
      const auto same = std::find(node.keys.begin(), node.keys.end(), name);
      if (same != node.keys.end()) {  // the later one holds
        node.items[static_cast<size_t>(same - node.keys.begin())] = std::move(value);
        continue;
      }
      node.keys.push_back(name);
      node.items.push_back(std::move(value));
    }
    return node;
  }

  // A backslash means itself, but before the quote: \' is ', and \\' is \ and the end.
  Result<Node> quoted(char quote) {
    const size_t start = ++at_;
    std::string out;
    for (; at_ < text_.size(); ++at_) {
      size_t slashes = 0;
      while (at_ < text_.size() && text_[at_] == '\\') ++slashes, ++at_;
      const bool at_quote = at_ < text_.size() && text_[at_] == quote;
      out.append(at_quote ? slashes / 2 : slashes, '\\');
      if (at_ == text_.size()) break;
      if (at_quote && slashes % 2 == 0) {
        ++at_;
        return text_node(std::move(out));
      }
      out += text_[at_];
    }
    return fail(ErrorCode::kInvalidArgument, "'{}': the quote before '{}' is not closed", whole_,
                text_.substr(start));
  }

  // Words up to one of `ends`; a lone number, bool or null has its own type.
  Result<Node> primitive(std::string_view ends) {
    const size_t start = at_;
    std::string out;
    size_t kept = 0;  // of out; spaces after it are not part of the value
    bool is_text = false;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      const char c = text_[at_];
      const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (c == '\\' && next != '\0' && is_escapable(next)) {
        out += next;
        at_ += 2;
        kept = out.size();
        is_text = true;
      } else if (c == '$' && next == '{') {
        out += FB_TRY(interpolation());
        kept = out.size();
        is_text = true;
      } else if (is_plain(c) || is_space(c)) {
        out += c;
        ++at_;
        if (!is_space(c)) kept = out.size();
      } else {
        if (c == '(') return function(out);
        if (c == ',' && ends.empty()) break;
        return unexpected();
      }
    }
    if (at_ == start) return unexpected();
    out.resize(kept);
    return is_text ? text_node(std::move(out)) : plain_node(out);
  }

  // "${a.b}", "${now:%Y}", as it stands.
  Result<std::string> interpolation() {
    const size_t start = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      if (text_[at_] == '}' && depth == 0) return std::string(text_.substr(start, ++at_ - start));
    }
    return fail(ErrorCode::kInvalidArgument, "'{}': '{}' lacks its '}}'", whole_,
                text_.substr(start));
  }

  Error function(std::string_view name) const {
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return is_letter(c) || is_digit(c) || c == '_';
    });
    if (!is_name) return unexpected();
    return fail(ErrorCode::kUnsupported,
                "'{}': Hydra's function {}() is not done; write the value that it would give",
                whole_, name);
  }

  Error unexpected() const {
    if (at_ >= text_.size())
      return fail(ErrorCode::kInvalidArgument, "'{}': the value ends too early", whole_);
    return fail(ErrorCode::kInvalidArgument,
                "'{}': '{}' cannot stand at '{}'; put the text into quotes, for example key='a=b'",
                whole_, text_[at_], text_.substr(at_));
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view whole_, text_;
  size_t at_ = 0;
};

Status check_key(std::string_view text, std::string_view key) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, "'{}': {}", text, why);
  };
  if (key.empty()) return bad("the key before '=' is missing");
  if (key.find('@') != std::string_view::npos)
    return fail(ErrorCode::kUnsupported, "'{}': packages (key@package) are not done", text);
  char previous = '.';
  for (const char c : key) {
    const bool is_word = is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '$';
    const bool is_separator = c == '.' || c == '/';
    const bool is_doubled = is_separator && (previous == '.' || previous == '/');
    if (is_doubled || !(is_word || is_separator))
      return bad("the key must be words with dots between them, such as workload.train.epochs");
    previous = c;
  }
  return previous == '.' || previous == '/' ? bad("the key ends in a dot") : Status();
}

}  // namespace

namespace {

Result<DlioOverride> parse_shown(std::string_view text, const std::string& shown) {
  DlioOverride made;
  made.text = shown;
  std::string_view rest = text;
  if (rest.starts_with('~')) {
    made.kind = DlioOverride::Kind::kDelete;
    rest.remove_prefix(1);
  } else if (rest.starts_with("++")) {
    made.kind = DlioOverride::Kind::kForceAdd;
    rest.remove_prefix(2);
  } else if (rest.starts_with('+')) {
    made.kind = DlioOverride::Kind::kAdd;
    rest.remove_prefix(1);
  }
  const size_t equals = rest.find('=');
  made.key = std::string(rest.substr(0, equals));
  FB_TRY(check_key(shown, made.key));
  made.has_value = equals != std::string_view::npos;
  if (made.has_value)
    made.value = FB_TRY(ValueParser(text, rest.substr(equals + 1)).run());
  else if (made.kind != DlioOverride::Kind::kDelete)
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is neither an option nor key=value, such as workload=unet3d_h100 or "
                "++workload.train.epochs=2",
                shown);
  return made;
}

}  // namespace

Result<DlioOverride> parse_dlio_override(std::string_view text) {
  const std::string shown = workload::shown_override(text);
  Result<DlioOverride> made = parse_shown(text, shown);
  // What is wrong with a value is said by quoting it.
  if (!made.ok() && shown != text)
    return fail(made.error().code, "'{}': the value cannot be read; put it into quotes", shown);
  return made;
}

std::string dlio_value_text(const Node& value) {
  if (value.kind == Node::Kind::kNull) return "null";
  if (value.kind == Node::Kind::kScalar) {
    if (!value.is_quoted) {
      const bool is_named = value.text.ends_with(".inf") || value.text.ends_with(".nan");
      std::string text = value.text;
      if (is_named) std::erase(text, '.');
      return text;
    }
    std::string out = "'";
    size_t slashes = 0;  // just before
    for (const char c : value.text) {
      if (c == '\'') out.append(slashes + 1, '\\');
      slashes = c == '\\' ? slashes + 1 : 0;
      out += c;
    }
    return out.append(slashes, '\\') + "'";
  }
  std::string out;
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (value.kind == Node::Kind::kMap) {
      for (const char c : value.keys[i]) {
        if (is_escapable(c)) out += '\\';
        out += c;
      }
      out += ": ";
    }
    out += dlio_value_text(value.items[i]);
  }
  return value.kind == Node::Kind::kMap ? "{" + out + "}" : "[" + out + "]";
}

}  // namespace forebay::cli

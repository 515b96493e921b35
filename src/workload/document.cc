#include "workload/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace forebay::workload {

namespace {

bool is_known_tag(const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return true;
  static constexpr std::string_view kTypes[] = {"str",  "int", "float", "bool",
                                                "null", "map", "seq"};
  constexpr std::string_view kPrefix = "tag:yaml.org,2002:";
  if (tag.compare(0, kPrefix.size(), kPrefix) != 0) return false;
  return std::count(std::begin(kTypes), std::end(kTypes), tag.substr(kPrefix.size())) > 0;
}

size_t node_count(const Node& node) {
  size_t count = 1;
  for (const Node& item : node.items) count += node_count(item);
  return count;
}

int depth_of(const Node& node) {
  int depth = 0;
  for (const Node& item : node.items) depth = std::max(depth, depth_of(item));
  return depth + 1;
}

// Builds the tree from the parser's events. After the first error the rest is passed over, because
// the parser can only be stopped by an exception.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view name, const DocumentLimits& limits) : name_(name), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) reject(mark, "more text after the end of the document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (is_key_next()) return reject(mark, "a key must be text");
    add(made(mark, Node::Kind::kNull), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (error_) return;
    if (is_key_next()) return reject(mark, "a key must be text, not an alias");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) return reject(mark, "an alias of the value that contains it");
    nodes_ += node_count(found->second);
    if (nodes_ > limits_.nodes_max) return reject_size(mark);
    if (static_cast<int>(frames_.size()) + depth_of(found->second) > limits_.depth_max)
      return reject_depth(mark);
    add(found->second, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (error_) return;
    if (!is_known_tag(tag)) return reject(mark, fmt::format("unknown tag '{}'", tag));
    if (is_key_next()) return take_key(mark, value);
    Node node = made(mark, Node::Kind::kScalar);
    node.text = value;
    node.is_quoted = tag == "!";
    add(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  bool has_error() const { return error_.has_value(); }
  Result<Node> take() {
    if (error_) return std::move(*error_);
    return std::move(root_);
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    std::optional<std::pair<int, int>> key_place;  // set between a key and its value
  };

  static Node made(const YAML::Mark& mark, Node::Kind kind) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  bool is_key_next() const {
    return !error_ && !frames_.empty() && frames_.back().node.kind == Node::Kind::kMap &&
           !frames_.back().key_place;
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Frame& frame = frames_.back();
    const auto& keys = frame.node.keys;
    const auto same = std::find(keys.begin(), keys.end(), key);
    if (same != keys.end()) {
      const Node& first = frame.node.items[static_cast<size_t>(same - keys.begin())];
      return reject(mark, fmt::format("'{}' is set twice; first in line {}", key, first.line));
    }
    frame.node.keys.push_back(key);
    frame.key_place = {mark.line + 1, mark.column + 1};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    if (error_) return;
    if (!is_known_tag(tag)) return reject(mark, fmt::format("unknown tag '{}'", tag));
    if (is_key_next()) return reject(mark, "a key must be text");
    if (static_cast<int>(frames_.size()) >= limits_.depth_max) return reject_depth(mark);
    frames_.push_back({made(mark, kind), anchor, std::nullopt});
  }

  void close() {
    if (error_) return;
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    merge(frame.node);
    add(std::move(frame.node), frame.anchor);
  }

  // "<<: *other" brings in the entries of another map that are not set here.
  static void merge(Node& map) {
    const auto found = std::find(map.keys.begin(), map.keys.end(), "<<");
    if (map.kind != Node::Kind::kMap || found == map.keys.end()) return;
    const auto at = found - map.keys.begin();
    if (map.items[static_cast<size_t>(at)].kind != Node::Kind::kMap)
      return;  // an unknown key, later
    const Node other = std::move(map.items[static_cast<size_t>(at)]);
    map.keys.erase(map.keys.begin() + at);
    map.items.erase(map.items.begin() + at);
    for (size_t i = 0; i < other.keys.size(); ++i) {
      if (std::find(map.keys.begin(), map.keys.end(), other.keys[i]) != map.keys.end()) continue;
      map.keys.push_back(other.keys[i]);
      map.items.push_back(other.items[i]);
    }
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (error_) return;
    if (++nodes_ > limits_.nodes_max) {
      error_ = fail(ErrorCode::kInvalidArgument, "{}:{}:{}: more than {} values", name_, node.line,
                    node.column, limits_.nodes_max);
      return;
    }
    if (anchor != 0) anchors_[anchor] = node;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.key_place) {
      std::tie(node.line, node.column) = *frame.key_place;
      frame.key_place.reset();
    }
    frame.node.items.push_back(std::move(node));
  }

  void reject(const YAML::Mark& mark, std::string_view what) {
    if (error_) return;
    error_ = fail(ErrorCode::kInvalidArgument, "{}:{}:{}: {}", name_, mark.line + 1,
                  mark.column + 1, what);
  }
  void reject_size(const YAML::Mark& mark) {
    reject(mark, fmt::format("more than {} values once aliases are replaced", limits_.nodes_max));
  }
  void reject_depth(const YAML::Mark& mark) {
    reject(mark, fmt::format("nested deeper than {} levels", limits_.depth_max));
  }

  std::string_view name_;
  DocumentLimits limits_;
  int documents_ = 0;
  size_t nodes_ = 0;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  std::optional<Error> error_;
};

// What the parser stops at early, passes over without a word, or blames on another place.
Status check_characters(std::string_view text, std::string_view name) {
  int line = 1;
  bool is_indentation = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = base::utf8_length(text.substr(at));
    const auto c = static_cast<unsigned char>(text[at]);
    if (length == 0)
      return fail(ErrorCode::kInvalidArgument, "{}:{}: byte {:#04x} is not UTF-8", name, line, c);
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f)
      return fail(ErrorCode::kInvalidArgument, "{}:{}: control character {:#04x}", name, line, c);
    if (c == '\t' && is_indentation) {
      const size_t next = text.find_first_not_of(" \t\r", at);
      const bool is_blank =
          next == std::string_view::npos || text[next] == '\n' || text[next] == '#';
      if (!is_blank)
        return fail(ErrorCode::kInvalidArgument, "{}:{}: a tab in the indentation; use spaces",
                    name, line);
    }
    if (c == '%' && (at == 0 || text[at - 1] == '\n'))
      return fail(ErrorCode::kInvalidArgument,
                  "{}:{}: a directive ('%' at the start of a line); put text into quotes", name,
                  line);
    if (c == '\n') ++line;
    is_indentation = c == '\n' || (is_indentation && (c == ' ' || c == '\t'));
    at += length;
  }
  return {};
}

}  // namespace

Result<Node> parse_document(std::string_view text, std::string_view name,
                            const DocumentLimits& limits) {
  if (text.size() > limits.bytes_max)
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} bytes are too many for a workload (at most {})", name, text.size(),
                limits.bytes_max);
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  FB_TRY(check_characters(text, name));
  TreeBuilder builder(name, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    // The parser makes no progress at a stray ',': it reports empty documents for ever.
    while (!builder.has_error() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    // yaml-cpp's word for brackets that are never closed, or nested past its own limit.
    if (error.msg == "bad file")
      return fail(ErrorCode::kInvalidArgument,
                  "{}:{}:{}: brackets are not closed, or nested too deeply", name,
                  error.mark.line + 1, error.mark.column + 1);
    if (error.mark.is_null()) return fail(ErrorCode::kInvalidArgument, "{}: {}", name, error.msg);
    return fail(ErrorCode::kInvalidArgument, "{}:{}:{}: {}", name, error.mark.line + 1,
                error.mark.column + 1, error.msg);
  }
  return builder.take();
}

std::string quoted_if_needed(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-' || c == '+';
  };
  const std::string lower = base::to_lower(text);
  // "-1" is a number, "-", "---" and "-a" mean something to YAML, and so does "...".
  const bool is_mark = !text.empty() && text.find_first_not_of("-.+") == std::string_view::npos;
  const bool is_dash = text.size() > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9');
  const bool is_word = !text.empty() && std::all_of(text.begin(), text.end(), is_plain) &&
                       lower != "null" && !is_mark && !is_dash;
  if (is_word) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string Node::flow_text() const {
  if (kind == Kind::kNull) return "null";
  if (kind == Kind::kScalar) return quoted_if_needed(text);
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    if (kind == Kind::kMap) out += quoted_if_needed(keys[i]) + ": ";
    out += items[i].flow_text();
  }
  return kind == Kind::kMap ? "{" + out + "}" : "[" + out + "]";
}

}  // namespace forebay::workload

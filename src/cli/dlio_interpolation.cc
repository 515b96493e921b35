#include "cli/dlio_interpolation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "base/text.h"
#include "cli/dlio_tree.h"
#include "cli/dlio_yaml.h"

namespace forebay::cli {
namespace {

using workload::Node;

constexpr int kDepthMax = 32;
// Of strftime(); %f is Python's own.
constexpr std::string_view kTimeCodes = "%aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ";

std::string parent_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.is_quoted = true;
  return node;
}

// Offset after the '}' that closes the "${" at `at`, or npos.
size_t end_of(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

class Resolver {
 public:
  explicit Resolver(const InterpolationScope& scope) : scope_(scope) {}

  Result<Node> value_at(const std::string& path, int depth) {
    const bool is_hydra = path == "hydra" || path.starts_with("hydra.");
    const Node* node = is_hydra
                           ? find_in(scope_.hydra, path.substr(std::min<size_t>(6, path.size())))
                           : find_in(scope_.root, path);
    if (node == nullptr) {
      const std::string nearest = nearest_path(scope_.root, path);
      return fail(ErrorCode::kInvalidArgument, "there is no '{}'{}", path,
                  nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
    }
    return resolved(*node, path, depth);
  }

 private:
  Result<Node> resolved(const Node& node, const std::string& path, int depth) {
    if (depth > kDepthMax)
      return fail(ErrorCode::kInvalidArgument, "{}: it depends on itself", path);
    if (node.kind == Node::Kind::kScalar) return scalar(node, path, depth);
    Node made = node;
    for (size_t i = 0; i < made.items.size(); ++i) {
      const std::string key = node.kind == Node::Kind::kMap ? node.keys[i] : std::to_string(i);
      const std::string inner = path.empty() ? key : path + "." + key;
      made.items[i] = FB_TRY(resolved(node.items[i], inner, depth));
    }
    return made;
  }

  Result<Node> scalar(const Node& node, const std::string& path, int depth) {
    const std::string_view text = node.text;
    size_t at = text.find("${");
    if (at == std::string_view::npos) return node;
    std::string out;
    size_t done = 0;
    for (; at != std::string_view::npos; at = text.find("${", done)) {
      if (at > done && text[at - 1] == '\\') {  // \${ is ${
        out.append(text.substr(done, at - 1 - done)).append("${");
        done = at + 2;
        continue;
      }
      const size_t end = end_of(text, at + 1);
      if (end == std::string_view::npos)
        return fail(ErrorCode::kInvalidArgument, "{}: '{}' lacks its '}}'", path, text);
      Node value = FB_TRY(inner_value(text.substr(at + 2, end - at - 3), path, depth));
      if (at == 0 && end == text.size()) {
        value.line = node.line;
        return value;
      }
      if (value.kind == Node::Kind::kMap || value.kind == Node::Kind::kList)
        return fail(ErrorCode::kInvalidArgument, "{}: '{}' puts several values into one text", path,
                    text);
      out.append(text.substr(done, at - done)).append(python_text(value));
      done = end;
    }
    Node made = text_node(out.append(text.substr(done)));
    made.line = node.line;
    return made;
  }

  // What stands between "${" and "}".
  Result<Node> inner_value(std::string_view inside, const std::string& path, int depth) {
    std::string words(inside);
    if (words.find("${") != std::string::npos) {  // ${a.${b}}
      const Node whole = FB_TRY(scalar(text_node(words), path, depth + 1));
      words = python_text(whole);
    }
    const size_t colon = words.find(':');
    if (colon == std::string::npos) return by_path(words, path, depth);
    const std::string name = words.substr(0, colon), argument = words.substr(colon + 1);
    if (name == "now") return now(argument, path);
    if (name == "oc.env") return environment(argument, path);
    if (name == "hydra") return value_at("hydra." + argument, depth + 1);
    return fail(ErrorCode::kUnsupported,
                "{}: '${{{}}}': there is no resolver '{}' (known: now, oc.env, hydra)", path, words,
                name);
  }

  // "a.b" from the root; ".b" beside the value itself, "..b" one level up, and so on.
  Result<Node> by_path(std::string words, const std::string& path, int depth) {
    if (words.starts_with('.')) {
      std::string base = path;
      while (words.starts_with('.')) {
        base = parent_of(base);
        words.erase(0, 1);
      }
      words = base.empty() ? words : base + "." + words;
    }
    Result<Node> value = value_at(words, depth + 1);
    if (value.ok()) return value;
    const std::string& cause = value.error().message;
    // Where a chain of them breaks, the innermost one says it all.
    if (cause.find("${") != std::string::npos) return value;
    return fail(value.error().code, "{}: '${{{}}}': {}", path, words, cause);
  }

  // As Python's datetime.now().strftime().
  Result<Node> now(const std::string& format, const std::string& path) const {
    const std::time_t seconds = scope_.now_us / 1'000'000;
    std::tm parts{};
    localtime_r(&seconds, &parts);
    std::string text;
    for (size_t at = 0; at < format.size(); ++at) {
      if (format[at] != '%') {
        text += format[at];
        continue;
      }
      const size_t last = format.find_first_not_of("-_0^#", at + 1);  // after glibc's flags
      const std::string code = format.substr(at, last == std::string::npos ? last : last - at + 1);
      at += code.size() - 1;
      if (code == "%f") {
        text += fmt::format("{:06}", scope_.now_us % 1'000'000);
      } else if (code.size() == 1 || kTimeCodes.find(code.back()) == kTimeCodes.npos) {
        return fail(
            ErrorCode::kInvalidArgument,
            "{}: '${{now:{}}}': there is no time code '{}' (known: %f and % with one of {})", path,
            format, code, kTimeCodes);
      } else if (code.back() != 'z' && code.back() != 'Z') {  // no zone: the time is a naive one
        char piece[128];
        text.append(piece, std::strftime(piece, sizeof piece, code.c_str(), &parts));
      }
    }
    if (!text.empty()) return text_node(std::move(text));
    return fail(ErrorCode::kInvalidArgument, "{}: '${{now:{}}}' gives no text", path, format);
  }

  static Result<Node> environment(std::string_view argument, const std::string& path) {
    const size_t comma = argument.find(',');
    const std::string name(base::trim(argument.substr(0, comma)));
    if (const char* value = std::getenv(name.c_str())) return text_node(value);
    if (comma != std::string_view::npos)
      return text_node(std::string(base::trim(argument.substr(comma + 1))));
    return fail(ErrorCode::kInvalidArgument, "{}: the environment has no variable {}", path, name);
  }

  const InterpolationScope& scope_;
};

}  // namespace

Result<Node> interpolated(const InterpolationScope& scope, std::string_view path) {
  return Resolver(scope).value_at(std::string(path), 0);
}

}  // namespace forebay::cli

// What of a configuration may be shown: keys of an account never.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "workload/state.h"

namespace forebay::workload {
namespace {

constexpr std::string_view kHidden = "***";

// Also a key that is only nearly right holds the secret that was meant.
bool is_secret_name(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kWords{"secret", "access_key", "session_token",
                                                          "password"};
  const std::string lower = base::to_lower(text);
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool names_secret_row(std::string_view text) {
  const auto rows = all_rows();
  return std::any_of(rows.begin(), rows.end(), [&](const Row* row) {
    const std::string_view name = row->key.substr(row->key.rfind('.') + 1);
    return row->is_secret && text.find(name) != std::string_view::npos;
  });
}

// http://USER:PASSWORD@HOST
bool is_endpoint_with_user(std::string_view name, std::string_view value) {
  return name.find("endpoint") != std::string_view::npos &&
         value.find('@') != std::string_view::npos;
}

}  // namespace

std::string shown_override(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::string(text);
  const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
  // Anywhere in what is set: "storage={storage_options: {secret_access_key: ...}}" too.
  const bool is_map = value.find('{') != std::string_view::npos;
  const bool is_secret = is_secret_name(key) || names_secret_row(text) ||
                         (is_map && is_secret_name(value)) || is_endpoint_with_user(text, value);
  return is_secret ? fmt::format("{}={}", key, kHidden) : std::string(text);
}

void hide_secrets(Node& node) {
  for (size_t i = 0; i < node.keys.size(); ++i) {
    Node& item = node.items[i];
    const bool is_secret =
        is_secret_name(node.keys[i]) || is_endpoint_with_user(node.keys[i], item.text);
    if (!is_secret || item.kind == Node::Kind::kNull) continue;
    Node hidden;
    hidden.kind = Node::Kind::kScalar;
    hidden.text = kHidden;
    hidden.is_quoted = true;
    hidden.line = item.line;
    hidden.column = item.column;
    item = std::move(hidden);
  }
  for (Node& item : node.items) hide_secrets(item);
}

bool is_secret_path(std::string_view path) {
  return is_secret_name(path);
}

}  // namespace forebay::workload

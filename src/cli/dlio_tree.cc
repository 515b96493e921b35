#include "cli/dlio_tree.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "workload/workload.h"

namespace forebay::cli {
namespace {

using workload::Node;

Node empty_map() {
  Node node;
  node.kind = Node::Kind::kMap;
  return node;
}

const Node* child_of(const Node& map, std::string_view key) {
  if (map.kind != Node::Kind::kMap) return nullptr;
  for (size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i] == key) return &map.items[i];
  return nullptr;
}

Node& make_child(Node& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i)
    if (map.keys[i] == key) return map.items[i];
  map.keys.emplace_back(key);
  return map.items.emplace_back();
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

void merge(Node& target, const Node& value) {
  if (target.kind != Node::Kind::kMap || value.kind != Node::Kind::kMap) {
    target = value;
    return;
  }
  for (size_t i = 0; i < value.keys.size(); ++i)
    merge(make_child(target, value.keys[i]), value.items[i]);
}

void collect_paths(const Node& node, const std::string& path, std::vector<std::string>& out) {
  if (!path.empty()) out.push_back(path);
  if (node.kind != Node::Kind::kMap) return;
  for (size_t i = 0; i < node.keys.size(); ++i)
    collect_paths(node.items[i], joined(path, node.keys[i]), out);
}

}  // namespace

const Node* find_in(const Node& root, std::string_view path) {
  const Node* node = &root;
  if (path.empty()) return node;
  for (const std::string_view part : base::split(path, '.')) {
    node = child_of(*node, part);
    if (node == nullptr) return nullptr;
  }
  return node;
}

Node& make_in(Node& root, std::string_view path) {
  Node* node = &root;
  if (path.empty()) return *node;
  for (const std::string_view part : base::split(path, '.')) {
    if (node->kind != Node::Kind::kMap) *node = empty_map();
    node = &make_child(*node, part);
  }
  return *node;
}

std::string nearest_path(const Node& root, std::string_view path) {
  std::vector<std::string> paths;
  collect_paths(root, "", paths);
  const std::string last(path.substr(path.rfind('.') + 1));
  for (const std::string& known : paths)
    if (known.ends_with("." + last)) return known;
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  return base::nearest_name(path, views);
}

Status DlioTree::lay(std::string_view path, const Node& value, int document) {
  Node* node = &root_;
  std::string so_far;
  if (!path.empty()) {
    for (const std::string_view part : base::split(path, '.')) {
      // A heading without keys is a null, and may get its keys here.
      if (node->kind == Node::Kind::kNull) *node = empty_map();
      if (node->kind != Node::Kind::kMap)
        return fail(ErrorCode::kInvalidArgument, "'{}' is {}, and has no keys of its own", so_far,
                    workload::is_secret_path(so_far) ? "***" : node->flow_text());
      node = &make_child(*node, part);
      so_far = joined(so_far, part);
    }
  }
  merge(*node, value);
  own(so_far, value, document);
  return {};
}

bool DlioTree::remove(std::string_view path) {
  const size_t dot = path.rfind('.');
  const std::string_view parent = dot == std::string_view::npos ? "" : path.substr(0, dot);
  const std::string_view key = path.substr(dot == std::string_view::npos ? 0 : dot + 1);
  if (find_in(root_, path) == nullptr) return false;
  Node& map = make_in(root_, parent);
  const auto found = std::find(map.keys.begin(), map.keys.end(), key) - map.keys.begin();
  map.keys.erase(map.keys.begin() + found);
  map.items.erase(map.items.begin() + found);
  return true;
}

void DlioTree::own(const std::string& path, const Node& value, int document) {
  if (value.kind == Node::Kind::kMap && !value.items.empty()) {
    for (size_t i = 0; i < value.keys.size(); ++i)
      own(joined(path, value.keys[i]), value.items[i], document);
    return;
  }
  documents_[path] = document;
}

int DlioTree::document_of(const std::string& path) const {
  for (std::string at = path;;) {
    const auto found = documents_.find(at);
    if (found != documents_.end()) return found->second;
    const size_t dot = at.rfind('.');
    if (dot == std::string::npos) return -1;
    at.resize(dot);
  }
}

}  // namespace forebay::cli

// A configuration tree that remembers which document each of its values came from.
//
// One thread. Paths are keys with dots between them, from the root: "workload.reader.batch_size".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "workload/document.h"

namespace forebay::cli {

// The value at `path` below `root`, or null.
const workload::Node* find_in(const workload::Node& root, std::string_view path);
// The same in a map that may be changed; makes maps of what lies on the way.
workload::Node& make_in(workload::Node& root, std::string_view path);
// The known path most like a missing one, or "".
std::string nearest_path(const workload::Node& root, std::string_view path);

class DlioTree {
 public:
  DlioTree() { root_.kind = workload::Node::Kind::kMap; }

  const workload::Node& root() const { return root_; }

  // Lays `value` over what is at `path` ("" = the root): maps are merged, all else is replaced.
  // Fails when something on the way is not a map.
  Status lay(std::string_view path, const workload::Node& value, int document);

  // False when there is nothing at `path`.
  bool remove(std::string_view path);

  // Of the value at `path`, or of what holds it; -1 for none.
  int document_of(const std::string& path) const;

 private:
  void own(const std::string& path, const workload::Node& value, int document);

  workload::Node root_;
  std::map<std::string, int> documents_;
};

}  // namespace forebay::cli

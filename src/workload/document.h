// A YAML text as a tree that remembers where each value stood. The only user of yaml-cpp.
//
// Values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"

namespace forebay::workload {

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;  // scalars, quotes removed
  bool is_quoted = false;
  std::vector<std::string> keys;  // maps: keys[i] belongs to items[i]
  std::vector<Node> items;        // lists and maps
  int line = 0, column = 0;       // 1-based; of a map's value the place of its key

  // "[a, {b: c}]": one line of YAML.
  std::string flow_text() const;
};

struct DocumentLimits {
  size_t bytes_max = 256 << 10;
  size_t nodes_max = 20000;  // counted after aliases are replaced by what they name
  int depth_max = 32;
};

// Parses one document; nothing in it gives a null node. Errors are kInvalidArgument and start with
// "name:line:column: ".
Result<Node> parse_document(std::string_view text, std::string_view name,
                            const DocumentLimits& limits = {});

// `text` as a double-quoted YAML scalar where plain text would be read differently.
std::string quoted_if_needed(std::string_view text);

}  // namespace forebay::workload

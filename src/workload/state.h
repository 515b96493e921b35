// The value of every key while layers (defaults, built-in or file, overrides) are laid over each
// other.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "workload/document.h"
#include "workload/row.h"

namespace forebay::workload {

std::span<const Row* const> all_rows();

// One value and where it came from.
struct Slot {
  const Row* row = nullptr;
  Value value = {};
  std::string origin = "default";  // for people who read results: "file w.yaml:12"
  std::string where = {};          // for messages: "w.yaml:12", "override 3"; "" = never set
  std::string spelling = {};       // the key as it was written
  int layer = 0;

  bool is_set() const { return !where.empty(); }
  // "reader.batch_size = 4", secrets hidden.
  std::string text() const;
  std::string shown_value() const;
};

// Where the lines of one document belong.
struct Source {
  std::string label;   // "w.yaml"
  std::string origin;  // "file w.yaml"; ":line" is added when has_lines
  bool has_lines = true;
};

// Every key at its default, in the order of the table.
std::span<const Slot> default_slots();

class State {
 public:
  State();  // every key at its default

  // Lays a whole document over what is there.
  Status apply_document(const Node& root, const Source& source);
  // One "section.key=value", the `number`-th, counted from 1.
  Status apply_override(std::string_view text, size_t number);

  const Slot& at(std::string_view key) const;  // key must be in the table
  std::span<const Slot> slots() const { return slots_; }

  void warn(std::string text);  // once per text
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  Status visit(const std::string& key, const Node& node, const Source& source);
  Status assign(Slot& slot, const std::string& spelling, const Node& node, const Source& source);
  Status unknown(const std::string& key, const Node& node, const Source& source) const;

  std::vector<Slot> slots_;
  std::vector<std::string> warnings_;
  int layer_ = 0;
};

}  // namespace forebay::workload

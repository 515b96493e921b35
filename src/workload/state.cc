#include "workload/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace forebay::workload {

namespace {

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::vector<std::string_view> words(std::string_view text) {
  return text.empty() ? std::vector<std::string_view>() : base::split(text, ' ');
}

bool names_row(const Row& row, std::string_view key) {
  const auto others = words(row.also);
  return row.key == key || std::find(others.begin(), others.end(), key) != others.end();
}

bool is_section(std::string_view key) {
  const std::string prefix = std::string(key) + ".";
  return std::any_of(all_rows().begin(), all_rows().end(),
                     [&](const Row* row) { return starts_with(row->key, prefix); });
}

std::string_view last_part(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

// The known key that a mistyped one most likely means, or "".
std::string nearest_key(std::string_view typed) {
  std::vector<std::string_view> keys, section_keys;
  const size_t dot = typed.rfind('.');
  const std::string_view section = dot == std::string_view::npos ? "" : typed.substr(0, dot + 1);
  for (const Row* row : all_rows()) {
    // "batch_size" without its section.
    if (last_part(row->key) == typed) return std::string(row->key);
    keys.push_back(row->key);
    if (section.empty()) keys.push_back(row->key.substr(0, row->key.find('.')));
    if (!section.empty() && starts_with(row->key, section))
      section_keys.push_back(row->key.substr(section.size()));
  }
  const std::string inside = base::nearest_name(typed.substr(section.size()), section_keys);
  if (!inside.empty()) return std::string(section) + inside;
  for (const Row* row : all_rows()) {
    // The right key in the wrong section.
    if (last_part(row->key) == last_part(typed)) return std::string(row->key);
  }
  return base::nearest_name(typed, keys);
}

// The row of which `key` would be a part: "train.computation_time" for
// "train.computation_time.mean".
const Row* enclosing_row(std::string_view key) {
  for (const Row* row : all_rows()) {
    if (starts_with(key, std::string(row->key) + ".")) return row;
  }
  return nullptr;
}

// Hydra writes {k:v} without a space, which YAML reads as the key "k:v" without a value.
Status split_tight_pairs(Node& node, std::string_view label) {
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const size_t colon = node.keys[i].find(':');
    if (node.items[i].kind != Node::Kind::kNull || colon == std::string::npos) continue;
    const std::string value = node.keys[i].substr(colon + 1);
    node.items[i] = FB_TRY(parse_document(value, label));
    node.keys[i].resize(colon);
  }
  for (Node& item : node.items) FB_TRY(split_tight_pairs(item, label));
  return {};
}

}  // namespace

std::span<const Row* const> all_rows() {
  static const std::vector<const Row*> rows = [] {
    std::vector<const Row*> all;
    for (const auto part : {model_rows(), dataset_rows(), reader_rows(), training_rows()}) {
      for (const Row& row : part) all.push_back(&row);
    }
    return all;
  }();
  return rows;
}

std::string Slot::shown_value() const {
  return row->is_secret ? "\"***\"" : value_text(row->type, value);
}

std::string Slot::text() const {
  return fmt::format("{} = {}", row->key, shown_value());
}

std::span<const Slot> default_slots() {
  static const std::vector<Slot> defaults = [] {
    std::vector<Slot> slots;
    for (const Row* row : all_rows()) {
      const auto node = parse_document(row->fallback, row->key);
      FB_CHECK(node.ok());
      auto value = read_value(row->type, row->limits, *node);
      FB_CHECK(value.ok());
      slots.push_back({.row = row, .value = std::move(value).value()});
    }
    return slots;
  }();
  return defaults;
}

State::State() : slots_(default_slots().begin(), default_slots().end()) {}

const Slot& State::at(std::string_view key) const {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.row->key == key; });
  FB_CHECK(found != slots_.end());
  return *found;
}

void State::warn(std::string text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
    warnings_.push_back(std::move(text));
}

Status State::apply_document(const Node& root, const Source& source) {
  ++layer_;
  if (root.kind == Node::Kind::kNull)
    return fail(ErrorCode::kInvalidArgument, "{}: no workload: the file is empty", source.label);
  if (root.kind != Node::Kind::kMap)
    return fail(ErrorCode::kInvalidArgument,
                "{}:{}: no workload: sections such as 'dataset:' are "
                "expected",
                source.label, root.line);
  bool has_workload = false;
  for (size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& key = root.keys[i];
    const Node& node = root.items[i];
    if (key == "defaults" || key == "hydra") {
      warn(fmt::format("{}:{}: '{}' has no effect: Hydra is not used", source.label, node.line,
                       key));
      continue;
    }
    has_workload = true;
    if (key != "workload") {
      FB_TRY(visit(key, node, source));
      continue;
    }
    if (node.kind != Node::Kind::kMap)
      return fail(ErrorCode::kInvalidArgument,
                  "{}:{}: 'workload' must hold sections such as "
                  "'dataset:'",
                  source.label, node.line);
    for (size_t k = 0; k < node.keys.size(); ++k) {
      FB_TRY(visit(node.keys[k], node.items[k], source));
    }
  }
  if (has_workload) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: no workload: it only sets up Hydra; name the file that "
              "holds the workload's sections",
              source.label);
}

Status State::apply_override(std::string_view text, size_t number) {
  ++layer_;
  const Source source{.label = fmt::format("override {}", number),
                      .origin = fmt::format("override {}", number),
                      .has_lines = false};
  const size_t equals = text.find('=');
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, "{} '{}': {}", source.label, shown_override(text),
                why);
  };
  std::string_view key = base::trim(text.substr(0, equals));
  if (starts_with(key, "~")) return bad("removing a key is not possible; set it to its default");
  if (equals == std::string_view::npos) return bad("must be section.key=value");
  while (starts_with(key, "+")) key.remove_prefix(1);
  if (key == "workload") return bad("the workload itself is named in front of its overrides");
  if (starts_with(key, "hydra.")) {
    warn(fmt::format("{}: '{}' has no effect: Hydra is not used (results go to output.folder)",
                     source.label, key));
    return {};
  }
  if (starts_with(key, "workload.")) key.remove_prefix(9);
  if (key.empty()) return bad("the key before '=' is missing");

  const std::string_view value = base::trim(text.substr(equals + 1));
  Node node;
  node.kind = Node::Kind::kScalar;  // "key=" sets an empty text
  if (!value.empty())
    node =
        FB_TRY(parse_document(value, fmt::format("{} '{}'", source.label, shown_override(text))));
  FB_TRY(split_tight_pairs(node, source.label));
  return visit(std::string(key), node, source);
}

Status State::visit(const std::string& given, const Node& node, const Source& source) {
  // DLIO's other name for the section.
  constexpr std::string_view kOther = "data_reader";
  const bool is_other = given == kOther || starts_with(given, std::string(kOther) + ".");
  const std::string key = is_other ? "reader" + given.substr(kOther.size()) : given;

  if (is_section(key) && node.kind == Node::Kind::kMap) {
    for (size_t i = 0; i < node.keys.size(); ++i) {
      FB_TRY(visit(given + "." + node.keys[i], node.items[i], source));
    }
    return {};
  }
  if (is_section(key) && node.kind == Node::Kind::kNull) return {};  // a heading without keys
  for (Slot& slot : slots_) {
    if (names_row(*slot.row, key)) return assign(slot, given, node, source);
  }
  const Row* outer = enclosing_row(key);
  if (outer != nullptr && outer->type == Type::kTree) {
    Node whole;
    whole.kind = Node::Kind::kMap;
    whole.keys.push_back(key.substr(outer->key.size() + 1));
    whole.items.push_back(node);
    return visit(std::string(outer->key), whole, source);
  }
  return unknown(key, node, source);
}

Status State::unknown(const std::string& key, const Node& node, const Source& source) const {
  const std::string place =
      source.has_lines ? fmt::format("{}:{}", source.label, node.line) : source.label;
  if (is_section(key))
    return fail(ErrorCode::kInvalidArgument, "{}: '{}' is a section; set one of its keys", place,
                key);
  if (const Row* outer = enclosing_row(key))
    return fail(ErrorCode::kInvalidArgument, "{}: '{}' is one value; set it whole: {}={{...}}",
                place, outer->key, outer->key);
  const std::string nearest = nearest_key(key);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'{}", place, key, hint);
}

Status State::assign(Slot& slot, const std::string& spelling, const Node& node,
                     const Source& source) {
  const std::string place =
      source.has_lines ? fmt::format("{}:{}", source.label, node.line) : source.label;
  auto value = read_value(slot.row->type, slot.row->limits, node);
  if (!value.ok()) {
    const std::string message =
        slot.row->is_secret ? "must be text" : std::move(value).error().message;
    return fail(ErrorCode::kInvalidArgument, "{}: {} {}", place, spelling, message);
  }
  if (slot.is_set() && slot.layer == layer_) {
    // Two spellings of one key side by side: the table's own wins.
    const bool is_main = spelling == slot.row->key;
    warn(fmt::format("{}: {} has no effect: {} is set too", place,
                     is_main ? slot.spelling : spelling, is_main ? spelling : slot.spelling));
    if (!is_main) return {};
  }
  slot.value = std::move(value).value();
  slot.layer = layer_;
  slot.where = place;
  slot.spelling = spelling;
  slot.origin = source.has_lines ? fmt::format("{}:{}", source.origin, node.line) : source.origin;
  return {};
}

}  // namespace forebay::workload

#include "checkpoint/state_text.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace forebay::checkpoint {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 100;

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = base::utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Status check_text(const CheckpointState& state) {
  bool is_deep = false;
  const json::parser_callback_t look = [&](int depth, json::parse_event_t /*event*/,
                                           json& /*value*/) {
    is_deep = is_deep || depth > kDepthMax;
    return false;  // nothing is kept
  };
  const json tree = json::parse(state.tree, look, false);
  if (is_deep)
    return fail(ErrorCode::kInvalidArgument, "the tree nests deeper than {} levels", kDepthMax);
  if (!json::accept(state.tree)) return fail(ErrorCode::kInvalidArgument, "the tree is no JSON");
  for (const auto& [name, value] : state.metadata) {
    if (!is_utf8(name) || !is_utf8(value))
      return fail(ErrorCode::kInvalidArgument, "metadata that is no UTF-8");
  }
  for (const auto& metric : state.metrics) {
    if (!is_utf8(metric.first))
      return fail(ErrorCode::kInvalidArgument, "a metric whose name is no UTF-8");
  }
  return {};
}

uint64_t number_of(std::string_view digits) {
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace forebay::checkpoint

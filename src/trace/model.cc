#include "trace/model.h"

#include <array>

namespace forebay::trace {

std::string_view category_name(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "other",      "step",   "compute",    "operator", "launch",  "read",      "write",
      "metadata",   "sync",   "fault",      "block io", "prepare", "data wait", "collective",
      "network",    "copy",   "checkpoint", "lock",     "sleep",   "off cpu",   "function",
      "annotation", "on cpu", "overhead",   "process",  "usage"};
  const auto index = static_cast<size_t>(category);
  return index < kNames.size() ? kNames[index] : "other";
}

std::string_view track_kind_name(TrackKind kind) {
  static constexpr std::array<std::string_view, kTrackKinds> kNames = {
      "host", "process", "thread", "device", "stream", "block device", "core", "network", "other"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : "other";
}

}  // namespace forebay::trace

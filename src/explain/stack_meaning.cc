#include "explain/stack_meaning.h"

#include <fmt/core.h>

namespace forebay::explain {

using trace::Frame;
using trace::FrameKind;
using trace::kNoId;
using trace::StackId;

Purpose StackMeaning::of_frame(trace::FrameId id) {
  if (!frames_[id]) {
    const Frame& frame = view_.words().frames[id];
    const std::string& symbol = view_.words().text(frame.symbol);
    const std::string& module = view_.words().text(frame.module);
    if (frame.kind == FrameKind::kKernel) {
      frames_[id] = Purpose::kNone;
    } else if (module.find("importlib._bootstrap") != std::string::npos) {
      frames_[id] = Purpose::kStart;
    } else {
      frames_[id] = purpose_of_function(symbol, module);
      const bool is_python = frame.kind == FrameKind::kPython;
      if (frames_[id] == Purpose::kNone && is_python && says_reading(symbol)) {
        frames_[id] = Purpose::kFetch;
      }
    }
  }
  return *frames_[id];
}

Purpose StackMeaning::refined(Purpose outer, trace::FrameId frame) {
  if (outer == Purpose::kNone) return of_frame(frame);
  if (outer != Purpose::kData && outer != Purpose::kFetch) return outer;
  const Purpose inner = of_frame(frame);
  return inner == Purpose::kPrepare || inner == Purpose::kFetch ? inner : outer;
}

Purpose StackMeaning::purpose(StackId stack) {
  std::vector<StackId> path;
  Purpose found = Purpose::kNone;
  for (StackId at = stack; at != kNoId; at = view_.words().stacks[at].caller) {
    if (known_[at]) {
      found = *known_[at];
      break;
    }
    path.push_back(at);
  }
  for (size_t i = path.size(); i-- > 0;) {
    found = refined(found, view_.words().stacks[path[i]].frame);
    known_[path[i]] = found;
  }
  return found;
}

const Frame* StackMeaning::shown_frame(StackId stack) const {
  const Frame* first = nullptr;
  const Frame* message = nullptr;
  for (StackId at = stack; at != kNoId; at = view_.words().stacks[at].caller) {
    const Frame& frame = view_.words().frames[view_.words().stacks[at].frame];
    if (frame.kind == FrameKind::kPython) {
      // Who sends or receives is to blame, not what carries it.
      if (!is_message_module(view_.words().text(frame.module))) return &frame;
      if (message == nullptr) message = &frame;
      continue;
    }
    const bool is_named = !view_.words().text(frame.symbol).empty();
    if (is_named && frame.kind != FrameKind::kKernel && first == nullptr) first = &frame;
  }
  return message != nullptr ? message : first;
}

bool StackMeaning::is_python(StackId stack) const {
  for (StackId at = stack; at != kNoId; at = view_.words().stacks[at].caller) {
    const Frame& frame = view_.words().frames[view_.words().stacks[at].frame];
    if (frame.kind == FrameKind::kPython) return true;
    const std::string& module = view_.words().text(frame.module);
    const std::string& symbol = view_.words().text(frame.symbol);
    if (module.find("python") != std::string::npos || symbol.rfind("_PyEval", 0) == 0) return true;
    // A library that Python called does not hold up the interpreter's other threads for sure, but
    // the call was made by one thread.
    if (frame.kind == FrameKind::kKernel) continue;
  }
  return false;
}

std::string file_name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string frame_text(const View& view, const Frame& frame) {
  const std::string& symbol = view.words().text(frame.symbol);
  const std::string module = file_name_of(view.words().text(frame.module));
  if (frame.kind == FrameKind::kPython && frame.line > 0) {
    return fmt::format("{}:{} {}()", module, frame.line, symbol);
  }
  if (symbol.empty()) return fmt::format("{}+{:#x}", module, frame.offset);
  return module.empty() ? symbol : fmt::format("{} ({})", symbol, module);
}

}  // namespace forebay::explain

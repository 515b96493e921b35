// What the functions on a sample's stack say it was for; remembered by stack.
//
// One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "explain/view.h"

namespace forebay::explain {

class StackMeaning {
 public:
  explicit StackMeaning(const View& view)
      : view_(view), known_(view.words().stacks.size()), frames_(view.words().frames.size()) {}

  // The outermost function that says something: what a decoder calls is decoding. A loader says
  // less than the reader or decoder that it calls.
  Purpose purpose(trace::StackId stack);
  // The innermost Python frame that does not only carry messages, else the innermost of Python,
  // else the innermost with a symbol.
  const trace::Frame* shown_frame(trace::StackId stack) const;
  bool is_python(trace::StackId stack) const;  // the interpreter itself was running

 private:
  Purpose of_frame(trace::FrameId frame);
  Purpose refined(Purpose outer, trace::FrameId frame);

  const View& view_;
  std::vector<std::optional<Purpose>> known_, frames_;
};

// "train.py:88 load()" or "decode_jpeg (libjpeg.so.62)".
std::string frame_text(const View& view, const trace::Frame& frame);
std::string file_name_of(std::string_view path);

}  // namespace forebay::explain

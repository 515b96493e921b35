#include "trace/export_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/utf8.h"

namespace forebay::trace {

namespace {
constexpr size_t kPieceBytes = 64 << 10;
}

void PieceWriter::write(std::string_view text) {
  if (!status_.ok()) return;
  piece_ += text;
  if (piece_.size() < kPieceBytes) return;
  status_ = sink_(piece_);
  piece_.clear();
}

Status PieceWriter::finish() {
  FB_TRY(std::move(status_));
  if (piece_.empty()) return {};
  return sink_(piece_);
}

std::string utf8_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = base::utf8_length(text);
    out += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = base::utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string json_value(const Recording& recording, const Key& key, int64_t value) {
  switch (key.type) {
    case ArgumentType::kReal: {
      const double real = real_value(value);
      return std::isfinite(real) ? fmt::format("{}", real) : "null";
    }
    case ArgumentType::kText:
      return json_string(recording.dictionary().texts[static_cast<TextId>(value)]);
    case ArgumentType::kStack:
      return json_string(stack_text(recording, static_cast<StackId>(value)));
    case ArgumentType::kInteger:
      break;
  }
  return std::to_string(value);
}

std::string frame_text(const Dictionary& dictionary, const Frame& frame) {
  const std::string& symbol = dictionary.texts[frame.symbol];
  if (!symbol.empty()) return symbol;
  return fmt::format("{}+{:#x}", dictionary.texts[frame.module], frame.offset);
}

std::string stack_text(const Recording& recording, StackId stack) {
  const Dictionary& dictionary = recording.dictionary();
  std::vector<std::string> frames;
  for (StackId at = stack; at != kNoId; at = dictionary.stacks[at].caller) {
    frames.push_back(frame_text(dictionary, dictionary.frames[dictionary.stacks[at].frame]));
  }
  std::string text;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!text.empty()) text += ';';
    text += *frame;
  }
  return text;
}

}  // namespace forebay::trace

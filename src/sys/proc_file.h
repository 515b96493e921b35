// Files of /proc and /sys that are read again and again: one descriptor, one call each time.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sys/file.h"

namespace forebay::sys {

class ProcFile {
 public:
  ProcFile() = default;
  explicit ProcFile(const std::string& path);

  bool is_open() const { return fd_.is_open(); }
  // What it says now, valid until the next call; nothing when it cannot be read (any more).
  std::optional<std::string_view> read();

 private:
  ScopedFd fd_;
  std::string text_;
};

// The number at the start of `text` after blanks, which it and the blanks leave; 0 when there is
// none.
uint64_t take_number(std::string_view& text);
// The text up to the next end of line, which leaves `text`; nothing at its end.
std::optional<std::string_view> take_line(std::string_view& text);
// The number after `key` where a line of `text` begins with it.
std::optional<uint64_t> number_after(std::string_view text, std::string_view key);
// The whole file once, without blanks at its end; empty when it cannot be read.
std::string small_file(const std::string& path);

}  // namespace forebay::sys

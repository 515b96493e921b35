#include "sys/proc_file.h"

#include <span>

namespace forebay::sys {

ProcFile::ProcFile(const std::string& path) : fd_(open_at(kCurrentFolder, path, OpenMode::kRead)) {}

std::optional<std::string_view> ProcFile::read() {
  if (!fd_.is_open()) return std::nullopt;
  if (text_.empty()) text_.resize(1024);
  while (true) {
    const int64_t got = read_at(fd_.get(), std::as_writable_bytes(std::span(text_)), 0);
    if (got < 0) return std::nullopt;
    if (static_cast<size_t>(got) < text_.size())
      return std::string_view(text_).substr(0, static_cast<size_t>(got));
    text_.resize(text_.size() * 2);
  }
}

uint64_t take_number(std::string_view& text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  uint64_t number = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = number * 10 + static_cast<uint64_t>(text[0] - '0');
    text.remove_prefix(1);
  }
  return number;
}

std::optional<std::string_view> take_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::optional<uint64_t> number_after(std::string_view text, std::string_view key) {
  while (const auto line = take_line(text)) {
    if (!line->starts_with(key)) continue;
    std::string_view rest = line->substr(key.size());
    return take_number(rest);
  }
  return std::nullopt;
}

std::string small_file(const std::string& path) {
  ProcFile file(path);
  const auto text = file.read();
  if (!text) return {};
  const size_t end = text->find_last_not_of(" \n\t");
  return std::string(text->substr(0, end == std::string_view::npos ? 0 : end + 1));
}

}  // namespace forebay::sys

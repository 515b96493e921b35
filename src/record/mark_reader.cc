#include "record/mark_reader.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "sys/directory.h"
#include "sys/file.h"

namespace forebay::record {
namespace {

constexpr size_t kRangesOpenMax = 256;     // of one thread: beyond it begins were never ended
constexpr size_t kLineBytesMax = 1 << 12;  // of a line that never ends

template <class T>
bool take_integer(std::string_view& text, T& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end.ptr - text.data()));
  return true;
}

bool take_blank(std::string_view& text) {
  if (text.empty() || text[0] != ' ') return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

MarkMeaning meaning_of_mark(std::string_view text) {
  MarkMeaning meaning;
  meaning.text = std::string(text);
  const std::string lower = base::to_lower(text);
  for (const std::string_view word : {"step", "iteration", "iter", "profilerstep"}) {
    if (!lower.starts_with(word)) continue;
    std::string_view rest = std::string_view(lower).substr(word.size());
    const size_t digits = rest.find_first_not_of(" #:");
    if (rest.empty()) {
      meaning.category = trace::Category::kStep;
      return meaning;
    }
    if (digits == 0 || digits == std::string_view::npos) continue;  // "stepwise"
    rest.remove_prefix(digits);
    int64_t number = 0;
    if (!take_integer(rest, number) || !rest.empty() || number < 0) continue;
    meaning.category = trace::Category::kStep;
    meaning.text = std::string(text.substr(0, word.size()));
    meaning.number = number;
    return meaning;
  }
  return meaning;
}

bool MarkReader::parse(std::string_view line, char& kind, int64_t& at_ns, int& tid,
                       std::string_view& text) {
  if (line.empty()) return false;
  kind = line[0];
  line.remove_prefix(1);
  if (kind != 'B' && kind != 'E' && kind != 'I' && kind != 'X') return false;
  if (!take_blank(line) || !take_integer(line, at_ns) || at_ns < 0) return false;
  if (!take_blank(line) || !take_integer(line, tid) || tid <= 0) return false;
  if (!take_blank(line)) return false;
  text = line;
  return true;
}

void MarkReader::add(Sink& sink, int pid, int tid, std::string_view text, int64_t start_ns,
                     int64_t duration_ns, trace::EventKind kind) {
  const MarkMeaning meaning = meaning_of_mark(text);
  const trace::Event event{.track = sink.tracks.thread(pid, tid),
                           .name = sink.writer.name(meaning.text, meaning.category, kind),
                           .start_ns = start_ns,
                           .duration_ns = duration_ns};
  if (meaning.number >= 0)
    sink.writer.add(event, {{sink.writer.key(trace::key::kStep), meaning.number}});
  else
    sink.writer.add(event);
}

void MarkReader::take_line(Sink& sink, int pid, std::string_view line) {
  char kind = 0;
  int64_t at_ns = 0;
  int tid = 0;
  std::string_view text;
  if (!parse(line, kind, at_ns, tid, text)) {
    ++damaged_lines_;
    return;
  }
  ++marks_;
  if (kind == 'I') return add(sink, pid, tid, text, at_ns, 0, trace::EventKind::kInstant);
  auto& open = open_[{pid, tid}];
  if (kind == 'B') {
    if (open.size() >= kRangesOpenMax) open.erase(open.begin());
    open.push_back({.text = std::string(text), .start_ns = at_ns});
    return;
  }
  // The innermost of that name; what began inside it and never ended, ends with it.
  const auto found = std::find_if(open.rbegin(), open.rend(),
                                  [&](const Range& range) { return range.text == text; });
  if (found == open.rend()) {
    ++damaged_lines_;
    return;
  }
  const auto first = std::prev(found.base());
  // A range that was taken back: the loop asked for a step that there was not.
  for (auto range = first; range != open.end() && kind != 'X'; ++range)
    add(sink, pid, tid, range->text, range->start_ns, std::max<int64_t>(at_ns - range->start_ns, 0),
        trace::EventKind::kSpan);
  open.erase(first, open.end());
}

Status MarkReader::poll(Sink& sink) {
  const auto names = sys::names_in(sys::kCurrentFolder, folder_);
  if (!names.ok()) return {};
  for (const std::string& name : *names) {
    if (!name.ends_with(".marks")) continue;
    auto [entry, is_new] = files_.try_emplace(name);
    File& file = entry->second;
    if (is_new) std::from_chars(name.data(), name.data() + name.size(), file.pid);
    const sys::ScopedFd fd(
        sys::open_at(sys::kCurrentFolder, folder_ + "/" + name, sys::OpenMode::kRead));
    if (!fd.is_open()) continue;
    std::string piece(1 << 16, '\0');
    while (true) {
      const int64_t got = sys::read_at(fd.get(), std::as_writable_bytes(std::span(piece)), file.at);
      if (got <= 0) break;
      file.at += static_cast<uint64_t>(got);
      file.rest.append(piece, 0, static_cast<size_t>(got));
      size_t begin = 0;
      for (size_t end = 0; (end = file.rest.find('\n', begin)) != std::string::npos;
           begin = end + 1)
        take_line(sink, file.pid, std::string_view(file.rest).substr(begin, end - begin));
      file.rest.erase(0, begin);
      if (file.rest.size() > kLineBytesMax) {
        file.rest.clear();
        ++damaged_lines_;
      }
    }
  }
  return {};
}

void MarkReader::end(Sink& sink) {
  for (const auto& [thread, ranges] : open_)
    for (const Range& range : ranges)
      add(sink, thread.first, thread.second, range.text, range.start_ns, trace::kUnfinished,
          trace::EventKind::kSpan);
  open_.clear();
}

}  // namespace forebay::record

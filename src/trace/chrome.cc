#include "trace/chrome.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/utf8.h"

namespace forebay::trace {

namespace {

constexpr size_t kPieceBytes = 64 << 10;

// A JSON string. Bytes that are not UTF-8 become U+FFFD, because JSON has no way to carry them.
std::string quoted(std::string_view text) {
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

std::string microseconds(int64_t ns) {
  // Unsigned arithmetic: the magnitude of INT64_MIN has no int64_t.
  const uint64_t size =
      ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

struct TrackText {
  int process = 0;
  std::string counter_prefix;  // counters are per process and name: keep those of two tracks apart
};

class ChromeWriter {
 public:
  ChromeWriter(const Recorder& recorder, const TextSink& sink) : recorder_(recorder), sink_(sink) {}

  Status write() {
    piece_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    write_tracks();
    recorder_.visit([this](const Event& event) {
      if (status_.ok()) write_event(event);
    });
    FB_TRY(std::move(status_));
    piece_ +=
        fmt::format("\n],\"otherData\":{{\"dropped_events\":\"{}\"}}}}\n", recorder_.dropped());
    return sink_(piece_);
  }

 private:
  void write_tracks() {
    std::map<std::string, int, std::less<>> processes;
    const std::vector<std::string> texts = recorder_.tracks();
    for (size_t i = 0; i < texts.size(); ++i) {
      const size_t slash = texts[i].find('/');
      const bool grouped = slash != std::string::npos;
      const std::string group = grouped ? texts[i].substr(0, slash) : "forebay";
      const std::string thread = grouped ? texts[i].substr(slash + 1) : texts[i];
      const auto [entry, is_new] = processes.emplace(group, static_cast<int>(processes.size()) + 1);
      if (is_new) write_metadata("process_name", entry->second, 0, group);
      write_metadata("thread_name", entry->second, i, thread);
      tracks_.push_back({entry->second, thread + ": "});
    }
    for (const std::string& name : recorder_.names()) names_.push_back(name);
  }

  void write_metadata(std::string_view kind, int process, size_t thread, std::string_view text) {
    append(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind,
                       process, thread, quoted(text)));
  }

  void write_event(const Event& event) {
    const TrackText track = event.track < tracks_.size() ? tracks_[event.track] : TrackText{};
    const auto name_index = static_cast<size_t>(event.name);
    const std::string name = name_index < names_.size() ? names_[name_index] : "(unnamed)";
    if (event.is_counter != 0) {
      append(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}}}})",
                         quoted(track.counter_prefix + name), track.process,
                         microseconds(event.start_ns), event.counter_value));
      return;
    }
    // The difference may exceed int64_t when the times are of opposite sign.
    const uint64_t length =
        static_cast<uint64_t>(event.end_ns) - static_cast<uint64_t>(event.start_ns);
    std::string argument;
    if (event.value != -1) argument = fmt::format(R"(,"args":{{"value":{}}})", event.value);
    append(fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{}.{:03}{}}})",
                       quoted(name), track.process, static_cast<uint32_t>(event.track),
                       microseconds(event.start_ns), length / 1000, length % 1000, argument));
  }

  void append(std::string_view text) {
    piece_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    piece_ += text;
    if (piece_.size() < kPieceBytes) return;
    status_ = sink_(piece_);
    piece_.clear();
  }

  const Recorder& recorder_;
  const TextSink& sink_;
  std::string piece_;
  bool is_first_ = true;
  Status status_;
  std::vector<TrackText> tracks_;
  std::vector<std::string> names_;
};

}  // namespace

Status write_chrome_json(const Recorder& recorder, const TextSink& sink) {
  return ChromeWriter(recorder, sink).write();
}

}  // namespace forebay::trace

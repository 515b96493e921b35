// Chrome trace JSON: what chrome://tracing, Perfetto and every script of the field read.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/export.h"
#include "trace/export_text.h"
#include "trace/facts.h"
#include "trace/lanes.h"

namespace forebay::trace {

namespace {

std::string microseconds(int64_t ns) {
  // Unsigned arithmetic: the magnitude of INT64_MIN has no int64_t.
  const uint64_t size =
      ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

class ChromeExport {
 public:
  ChromeExport(const Recording& recording, const TextSink& sink)
      : recording_(recording), dictionary_(recording.dictionary()), out_(sink) {}

  Status write() {
    out_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (TrackId track = 0; track < dictionary_.tracks.size(); ++track) {
      if (recording_.rows(track).size() > 0) write_track(track);
    }
    out_.write("\n],\"otherData\":{");
    const char* comma = "";
    for (const RecordingFile& file : recording_.files()) {
      for (const auto& [key, value] : file.facts) {
        out_.write(fmt::format("{}{}:{}", comma, json_string(key), json_string(value)));
        comma = ",";
      }
    }
    out_.write("}}\n");
    return out_.finish();
  }

 private:
  // The viewers' process: the track's process, device or host, numbered by its own track so that
  // equal pids of two hosts stay apart.
  TrackId group_of(TrackId track) const {
    for (const TrackKind kind : {TrackKind::kProcess, TrackKind::kDevice, TrackKind::kHost}) {
      if (const TrackId found = recording_.ancestor(track, kind); found != kNoId) return found;
    }
    return track;
  }

  void metadata(std::string_view kind, TrackId group, uint64_t thread, const std::string& text) {
    append(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind,
                       group, thread, json_string(text)));
  }

  void write_track(TrackId track) {
    const TrackId group = group_of(track);
    columns_.clear();
    for (KeyId key = 0; key < dictionary_.keys.size(); ++key) {
      const auto values = recording_.column(key, track);
      if (!values.empty()) columns_.emplace_back(key, values);
    }
    const std::vector<uint32_t> lanes = lanes_of(recording_, track);
    metadata("process_name", group, 0, recording_.track_path(group));
    uint32_t named = 0;
    const Recording::Rows rows = recording_.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      const uint32_t lane = lanes[row - rows.first];
      for (; named <= lane; ++named) {
        metadata("thread_name", group, thread_number(track, named), lane_name(track, named));
      }
      write_event(row, row - rows.first, group, track, thread_number(track, lane));
    }
  }

  uint64_t thread_number(TrackId track, uint32_t lane) const {
    return track + uint64_t{lane} * dictionary_.tracks.size();
  }

  std::string lane_name(TrackId track, uint32_t lane) const {
    const Track& here = dictionary_.tracks[track];
    std::string text = dictionary_.text(here);
    if (here.number >= 0) text += fmt::format(" {}", here.number);
    return lane == 0 ? text : fmt::format("{} ({})", text, lane + 1);
  }

  void write_event(size_t row, size_t in_track, TrackId group, TrackId track, uint64_t thread) {
    const Name& name = recording_.name(row);
    std::string text = dictionary_.text(name);
    const char* phase = "X";
    if (name.kind == EventKind::kCounter) {
      phase = "C";  // counters are per process and name: keep those of two tracks apart
      text = lane_name(track, 0) + ": " + text;
    } else if (name.kind != EventKind::kSpan) {
      phase = "i";
    }
    std::string event = fmt::format(R"({{"ph":"{}","name":{},"cat":"{}","pid":{},"tid":{},"ts":{})",
                                    phase, json_string(text), category_name(name.category), group,
                                    thread, microseconds(recording_.start(row)));
    if (name.kind == EventKind::kSpan) {
      event += fmt::format(R"(,"dur":{})", microseconds(recording_.duration(row)));
    } else if (name.kind != EventKind::kCounter) {
      event += R"(,"s":"t")";
    }
    event += R"(,"args":{)";
    const char* comma = "";
    for (const auto& [key, values] : columns_) {
      if (values[in_track] == kNoValue) continue;
      const Key& what = dictionary_.keys[key];
      event += fmt::format("{}{}:{}", comma, json_string(dictionary_.texts[what.text]),
                           json_value(recording_, what, values[in_track]));
      comma = ",";
    }
    append(event + "}}");
  }

  void append(std::string_view text) {
    out_.write(is_first_ ? "\n" : ",\n");
    is_first_ = false;
    out_.write(text);
  }

  const Recording& recording_;
  const Dictionary& dictionary_;
  PieceWriter out_;
  bool is_first_ = true;
  std::vector<std::pair<KeyId, std::span<const int64_t>>> columns_;  // of the present track
};

}  // namespace

const Exporter kChromeExporter{
    .name = "chrome",
    .suffix = ".json",
    .summary = "Chrome trace JSON, for chrome://tracing and scripts",
    .write = [](const Recording& recording,
                const TextSink& sink) { return ChromeExport(recording, sink).write(); },
    .write_file = nullptr,
};

}  // namespace forebay::trace

// Comma-separated values: one line an event, one column for each argument that any event has.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "trace/export.h"
#include "trace/export_text.h"

namespace forebay::trace {

namespace {

// Quoted where RFC 4180 asks for it.
std::string cell(std::string_view raw) {
  std::string text = utf8_text(raw);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string value_cell(const Recording& recording, const Key& key, int64_t value) {
  if (value == kNoValue) return "";
  switch (key.type) {
    case ArgumentType::kReal:
      return fmt::format("{}", real_value(value));
    case ArgumentType::kText:
      return cell(recording.dictionary().texts[static_cast<TextId>(value)]);
    case ArgumentType::kStack:
      return cell(stack_text(recording, static_cast<StackId>(value)));
    case ArgumentType::kInteger:
      break;
  }
  return std::to_string(value);
}

const char* kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::kSpan:
      return "span";
    case EventKind::kInstant:
      return "instant";
    case EventKind::kCounter:
      return "counter";
    case EventKind::kSample:
      break;
  }
  return "sample";
}

Status write_csv(const Recording& recording, const TextSink& sink) {
  const Dictionary& dictionary = recording.dictionary();
  PieceWriter out(sink);
  out.write("track,start_ns,duration_ns,kind,category,name");
  for (const Key& key : dictionary.keys) out.write("," + cell(dictionary.texts[key.text]));
  out.write("\n");
  for (TrackId track = 0; track < dictionary.tracks.size(); ++track) {
    std::vector<std::span<const int64_t>> columns;
    for (KeyId key = 0; key < dictionary.keys.size(); ++key) {
      columns.push_back(recording.column(key, track));
    }
    const std::string path = cell(recording.track_path(track));
    const Recording::Rows rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      const Name& name = recording.name(row);
      const std::string duration =
          recording.is_unfinished(row) ? "" : std::to_string(recording.duration(row));
      out.write(fmt::format("{},{},{},{},{},{}", path, recording.start(row), duration,
                            kind_name(name.kind), category_name(name.category),
                            cell(dictionary.text(name))));
      for (KeyId key = 0; key < columns.size(); ++key) {
        out.write(",");
        if (columns[key].empty()) continue;
        out.write(value_cell(recording, dictionary.keys[key], columns[key][row - rows.first]));
      }
      out.write("\n");
    }
  }
  return out.finish();
}

}  // namespace

const Exporter kCsvExporter{
    .name = "csv",
    .suffix = ".csv",
    .summary = "one line an event, one column an argument",
    .write = write_csv,
    .write_file = nullptr,
};

}  // namespace forebay::trace

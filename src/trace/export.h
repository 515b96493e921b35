// A recording in the formats of other tools.
//
// Writing streams in pieces of about 64 KiB; an error of the sink ends it and is returned.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "trace/recording.h"

namespace forebay::trace {

// Takes the next piece of a file.
using TextSink = std::function<Status(std::string_view)>;

struct Exporter {
  std::string_view name;     // "perfetto"
  std::string_view suffix;   // ".pftrace", the file name's end that means this format
  std::string_view summary;  // one line
  // Either is null. SQLite writes files, not streams.
  Status (*write)(const Recording& recording, const TextSink& sink);
  Status (*write_file)(const Recording& recording, const std::string& path);
};

extern const Exporter kPerfettoExporter;
extern const Exporter kChromeExporter;
extern const Exporter kSqliteExporter;
extern const Exporter kCsvExporter;

std::span<const Exporter* const> exporters();
// Null when there is none of that name.
const Exporter* find_exporter(std::string_view name);
// The exporter that a path's suffix means, or null.
const Exporter* exporter_of(std::string_view path);

}  // namespace forebay::trace

// Imports foreign traces and prints what came of them as JSON, for comparison with readers of their
// own kind: for each file its format, counts of what was skipped, and for each category, kind and
// name how many events there are and how long they last together.
//
// usage: import_totals FOLDER PATH...
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "ingest/import.h"
#include "trace/reader.h"

namespace forebay {
namespace {

nlohmann::json totals(const ingest::ImportedFile& file) {
  auto reader = trace::TraceReader::open_file(file.trace).take();
  std::map<std::tuple<std::string, int, std::string>, std::pair<uint64_t, int64_t>> sums;
  uint64_t bytes = 0;
  while (const auto block = reader->next().take()) {
    const trace::Dictionary& dictionary = reader->dictionary();
    for (size_t row = 0; row < block->size(); ++row) {
      const trace::Name& name = dictionary.names[block->names[row]];
      auto& [count, ns] = sums[{std::string(trace::category_name(name.category)),
                                static_cast<int>(name.kind), dictionary.text(name)}];
      ++count;
      if (block->durations[row] > 0) ns += block->durations[row];
    }
    for (const trace::ArgumentColumn& column : block->arguments) {
      if (dictionary.texts[dictionary.keys[column.key].text] != "bytes") continue;
      for (const int64_t value : column.values) bytes += static_cast<uint64_t>(value);
    }
  }
  nlohmann::json events = nlohmann::json::array();
  for (const auto& [key, sum] : sums) {
    const auto& [category, kind, name] = key;
    events.push_back({category, kind, name, sum.first, sum.second});
  }
  nlohmann::json tracks = nlohmann::json::array();
  for (const trace::Track& track : reader->dictionary().tracks) {
    tracks.push_back({trace::track_kind_name(track.kind), reader->dictionary().text(track),
                      track.number, track.rank});
  }
  nlohmann::json clock = nlohmann::json::array();
  for (const trace::ClockPair& pair : reader->clock())
    clock.push_back({pair.time_ns, pair.unix_ns});
  return {{"source", file.source},
          {"format", file.format},
          {"rank", file.rank},
          {"bytes", bytes},
          {"trace_bytes", file.trace_bytes},
          {"skipped", file.account.skipped},
          {"repaired", file.account.repaired},
          {"damage", file.account.damage.value_or("")},
          {"finished", reader->is_finished()},
          {"tracks", tracks},
          {"clock", clock},
          {"facts", reader->facts()},
          {"events", events}};
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: import_totals FOLDER PATH...\n", stderr);
    return 2;
  }
  const std::vector<std::string> paths(argv + 2, argv + argc);
  const auto imported = ingest::import(paths, {.folder = argv[1], .version = "test"});
  if (!imported.ok()) {
    std::fprintf(stderr, "import_totals: %s\n", imported.error().message.c_str());
    return 1;
  }
  nlohmann::json out{{"files", nlohmann::json::array()}, {"passed_over", nlohmann::json::array()}};
  for (const ingest::ImportedFile& file : imported->files) out["files"].push_back(totals(file));
  for (const ingest::PassedOver& each : imported->passed_over) {
    out["passed_over"].push_back({each.path, each.reason});
  }
  std::puts(out.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  return forebay::run(argc, argv);
}

#include "ingest/testing_import.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"

namespace forebay::ingest {
namespace {

std::string path_of(const trace::Dictionary& dictionary, trace::TrackId id) {
  std::string path;
  for (; id != trace::kNoId; id = dictionary.tracks[id].parent) {
    const trace::Track& track = dictionary.tracks[id];
    std::string part = dictionary.text(track);
    if (track.number >= 0) part += fmt::format(" {}", track.number);
    path.insert(0, path.empty() ? part : part + "/");
  }
  return path;
}

std::string value_of(const trace::Dictionary& dictionary, const trace::Key& key, int64_t value) {
  switch (key.type) {
    case trace::ArgumentType::kInteger:
      return std::to_string(value);
    case trace::ArgumentType::kReal:
      return fmt::format("{:g}", trace::real_value(value));
    case trace::ArgumentType::kText:
      return dictionary.texts[static_cast<size_t>(value)];
    case trace::ArgumentType::kStack:
      break;
  }
  std::string stack;
  for (auto id = static_cast<trace::StackId>(value); id != trace::kNoId;
       id = dictionary.stacks[id].caller) {
    const trace::Frame& frame = dictionary.frames[dictionary.stacks[id].frame];
    stack += fmt::format("{}{}({})", stack.empty() ? "" : " < ", dictionary.texts[frame.symbol],
                         dictionary.texts[frame.module]);
  }
  return stack;
}

}  // namespace

TestImport import_text(const Importer& importer, std::string_view text, const std::string& path) {
  TestImport out;
  std::vector<std::byte> file;
  {
    trace::TraceWriter writer([&](std::span<const std::byte> bytes) -> Status {
      file.insert(file.end(), bytes.begin(), bytes.end());
      return {};
    });
    const auto stream = open_memory_stream(std::as_bytes(std::span(text)));
    const Source source{
        .path = path, .bytes = stream.get(), .host = "host", .rank = rank_of_name(path)};
    importer.read(source, writer, out.account).take();
    writer.finish().take();
  }
  auto reader = trace::TraceReader::open(
                    [&](std::span<std::byte> into, uint64_t offset) {
                      const size_t at = std::min<size_t>(offset, file.size());
                      const size_t size = std::min(into.size(), file.size() - at);
                      if (size > 0) std::memcpy(into.data(), file.data() + at, size);
                      return static_cast<int64_t>(size);
                    },
                    path)
                    .take();
  while (const auto block = reader->next().take()) {
    const size_t first = out.events.size();
    const trace::Dictionary& dictionary = reader->dictionary();
    for (size_t row = 0; row < block->size(); ++row) {
      const trace::Name& name = dictionary.names[block->names[row]];
      out.events.push_back({path_of(dictionary, block->tracks[row]),
                            dictionary.text(name),
                            name.category,
                            name.kind,
                            block->starts[row],
                            block->durations[row],
                            {}});
    }
    for (const trace::ArgumentColumn& column : block->arguments) {
      const trace::Key& key = dictionary.keys[column.key];
      for (size_t i = 0; i < column.rows.size(); ++i) {
        out.events[first + column.rows[i]].arguments[dictionary.texts[key.text]] =
            value_of(dictionary, key, column.values[i]);
      }
    }
  }
  FB_CHECK(reader->is_finished());
  std::stable_sort(out.events.begin(), out.events.end(),
                   [](const TestEvent& a, const TestEvent& b) {
                     return std::tie(a.track, a.start_ns) < std::tie(b.track, b.start_ns);
                   });
  out.facts = reader->facts();
  out.clock = reader->clock();
  out.dictionary = reader->dictionary();
  return out;
}

}  // namespace forebay::ingest

// Trace files: as a whole, and, because checksums keep a fuzzer out of them, the payload of each
// kind of chunk by itself.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "targets.h"
#include "trace/chunk.h"
#include "trace/event_block.h"
#include "trace/reader.h"
#include "trace/recording.h"

namespace forebay::fuzz {
namespace {

constexpr size_t kRows = 64;

// Enough definitions for references to have something to hit.
trace::Dictionary dictionary() {
  trace::Dictionary known;
  known.texts = {"", "a", "b"};
  known.tracks.resize(2);
  known.names.resize(2);
  known.frames.resize(2);
  return known;
}

void fuzz_payload(uint8_t kind, std::span<const std::byte> bytes) {
  trace::Dictionary known = dictionary();
  std::vector<trace::ClockPair> clock;
  trace::Facts facts;
  const char* why = "any outcome will do";
  for (size_t rows = 0; rows < 4; ++rows) {
    switch (static_cast<trace::ChunkKind>(kind)) {
      case trace::ChunkKind::kTexts:
        decode_texts(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kTracks:
        decode_tracks(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kNames:
        decode_names(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kKeys:
        decode_keys(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kFrames:
        decode_frames(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kStacks:
        decode_stacks(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kRenames:
        decode_renames(bytes, rows, known).ignore(why);
        break;
      case trace::ChunkKind::kClock:
        decode_clock(bytes, rows, clock).ignore(why);
        break;
      case trace::ChunkKind::kFacts:
        trace::decode_facts(bytes, rows, facts).ignore(why);
        break;
      default:
        break;
    }
  }
}

void fuzz_events(std::span<const std::byte> bytes) {
  for (const size_t rows : {size_t{1}, size_t{3}, kRows}) {
    auto block = trace::decode(bytes, rows);
    if (!block.ok()) continue;
    FB_CHECK(block->size() == rows);
    // What was decoded can be written and is the same again.
    trace::sort(*block);
    const auto again = trace::decode(trace::encode(*block), rows);
    FB_CHECK(again.ok() && again->starts == block->starts && again->durations == block->durations &&
             again->names == block->names);
  }
}

}  // namespace

void fuzz_trace(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto kind = static_cast<uint8_t>(bytes[0]);
  if (kind == static_cast<uint8_t>(trace::ChunkKind::kEvents)) return fuzz_events(bytes.subspan(1));
  if (kind <= static_cast<uint8_t>(trace::ChunkKind::kEnd)) {
    return fuzz_payload(kind, bytes.subspan(1));
  }
  auto reader = trace::TraceReader::open(
      [bytes](std::span<std::byte> out, uint64_t offset) -> int64_t {
        if (offset >= bytes.size()) return 0;
        const size_t size = std::min(out.size(), bytes.size() - static_cast<size_t>(offset));
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, out.begin());
        return static_cast<int64_t>(size);
      },
      "input");
  if (!reader.ok()) return;
  std::vector<std::unique_ptr<trace::TraceReader>> readers;
  readers.push_back(std::move(reader).take());
  const auto recording = trace::Recording::read(std::move(readers), {"input"});
  FB_CHECK(recording.ok());
  for (size_t row = 0; row < recording->size(); ++row) {
    FB_CHECK(recording->track(row) < recording->dictionary().tracks.size());
  }
}

}  // namespace forebay::fuzz

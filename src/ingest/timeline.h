// Gathers the events of one import and writes them in order: spans of one track that overlap
// without nesting are moved to lanes of their own ("stream 7 (2)"), as every reader of trace files
// may expect nesting.
//
// One thread at a time. Keeps about ten bytes an event until write(); writing needs at most some
// 100 bytes for each of 512 Ki events more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "ingest/importer.h"
#include "trace/writer.h"

namespace forebay::ingest {

class Timeline {
 public:
  Timeline(trace::TraceWriter& writer, Account& account) : writer_(writer), account_(account) {}

  // In any order. Times beyond 73 years either way are skipped. The track, name and keys are the
  // writer's. `duration_ns` >= 0 or kUnfinished; kind as the name has it.
  void add(const trace::Event& event, trace::EventKind kind,
           std::span<const trace::Argument> arguments = {});

  // Writes everything. Nothing may be added afterwards.
  Status write();

 private:
  // Packed events, complete in themselves.
  struct Block {
    std::vector<std::byte> bytes;
    int64_t start_min = INT64_MAX, start_max = INT64_MIN;
    uint32_t count = 0;
  };
  struct Gathered {
    std::vector<Block> blocks;
    uint64_t count = 0;
    int64_t last_start = 0;
    std::vector<int64_t> last_values;  // by key
  };
  struct Row {
    int64_t start = 0, duration = 0;
    trace::NameId name = 0;
    uint32_t argument_first = 0;
    uint16_t argument_count = 0;
    trace::EventKind kind = trace::EventKind::kSpan;
  };
  struct Unpacked {
    std::vector<Row> rows;
    std::vector<trace::Argument> arguments;
  };
  // A lane of a track: the ends of the spans that are open.
  struct Lane {
    trace::TrackId track = 0;
    std::vector<int64_t> ends;
  };

  static void unpack(const Block& block, int64_t from, int64_t to, Unpacked& out);
  std::vector<int64_t> parts(const Gathered& gathered) const;
  trace::TrackId lane_of(const Row& row, std::vector<Lane>& lanes);
  void write_track(trace::TrackId track, Gathered& gathered);

  trace::TraceWriter& writer_;
  Account& account_;
  std::vector<Gathered> tracks_;  // by track id
};

}  // namespace forebay::ingest

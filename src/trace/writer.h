// Writes a trace file: definitions, then the events that use them, in chunks. What was flushed
// survives the death of the writer; a reader sees everything up to the last whole chunk.
//
// One thread at a time. An error of the sink is kept, ends the writing and comes back from flush()
// and finish(); events that were not written by then, and those after it, are dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "trace/chunk.h"
#include "trace/dictionary.h"
#include "trace/event_block.h"
#include "trace/model.h"

namespace forebay::trace {

// Takes the next bytes of the file.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

struct WriterOptions {
  size_t events_per_chunk = 1 << 16;  // at most kChunkRowsMax
  int compression_level = 3;          // zstd's; 0 = none
};

class TraceWriter {
 public:
  explicit TraceWriter(ByteSink sink, WriterOptions options = {});
  ~TraceWriter();  // what was not flushed is lost, as if the process had died
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // A file of its own; fails when there is one of that name already. Space for the last facts is
  // taken ahead: a file that could not grow still ends with them, behind its last whole chunk.
  static Result<std::unique_ptr<TraceWriter>> create(const std::string& path,
                                                     WriterOptions options = {});

  // Definitions. Finding a known one again takes one look-up; keep ids where events are many.
  TextId text(std::string_view text);
  TrackId add_track(TrackKind kind, TrackId parent, std::string_view text, int64_t number = -1,
                    int32_t rank = -1);
  void rename(TrackId track, std::string_view text);
  void set_rank(TrackId track, int32_t rank);
  NameId name(std::string_view text, Category category, EventKind kind = EventKind::kSpan);
  KeyId key(std::string_view text, ArgumentType type = ArgumentType::kInteger);
  FrameId frame(const Frame& frame) { return dictionary_.frame(frame); }
  StackId stack(StackId caller, FrameId frame) { return dictionary_.stack(caller, frame); }
  const Dictionary& dictionary() const { return dictionary_.dictionary(); }

  void add(const Event& event, std::span<const Argument> arguments = {});
  void add(const Event& event, std::initializer_list<Argument> arguments) {
    add(event, std::span(arguments.begin(), arguments.size()));
  }
  // Value of a counter from `at_ns` on; one that is not finite is left out.
  void counter(TrackId track, NameId name, int64_t at_ns, double value);

  void clock(const ClockPair& pair) { clock_.push_back(pair); }
  // Later values replace earlier ones.
  void fact(std::string_view key, std::string_view value);

  // Events that were added and not lost; of those at most one chunk is not yet written.
  uint64_t event_count() const { return event_count_ - lost_count_; }
  // Events that could not be written.
  uint64_t lost_count() const { return lost_count_; }
  // What these stand for: one each, a count as many calls as it counts.
  uint64_t lost_calls() const { return lost_calls_; }
  uint64_t bytes_written() const { return bytes_written_; }

  // Hands everything so far to the sink.
  Status flush();
  // Flushes and marks the file as whole. Nothing may be added afterwards. After an error of a
  // file's sink: writes facts and the end if there is room, and gives that error.
  Status finish();

 private:
  void write(ChunkKind kind, size_t rows, std::span<const std::byte> payload);
  template <class T, class Encode>
  void write_new(ChunkKind kind, const std::vector<T>& all, size_t& written, Encode encode);
  void write_definitions();
  void write_events();
  void write_facts();

  ByteSink sink_;
  std::function<void()> release_reserve_;  // of a file: what is written from now on is the last
  const WriterOptions options_;
  DictionaryBuilder dictionary_;
  EventBlock block_;
  std::vector<ClockPair> clock_;
  Facts facts_;
  std::vector<TrackId> renamed_;
  KeyId value_key_ = kNoId;
  struct Written {
    size_t texts = 0, tracks = 0, names = 0, keys = 0, frames = 0, stacks = 0;
  } written_;
  size_t new_text_bytes_ = 0;
  uint64_t event_count_ = 0, lost_count_ = 0;
  uint64_t lost_calls_ = 0, block_calls_ = 0;  // what lost events, and those of block_, stand for
  KeyId count_key_ = kNoId;
  uint64_t bytes_written_ = 0;
  bool is_finished_ = false;
  Status status_;
};

}  // namespace forebay::trace

// A recording in memory: the events of one or many trace files on one time line, by track and time.
// Every analysis and page reads this and nothing else.
//
// Built once, then read by any number of threads. About 24 bytes an event and 8 for each argument
// that events of its track have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "trace/chunk.h"
#include "trace/dictionary.h"
#include "trace/model.h"
#include "trace/reader.h"

namespace forebay::trace {

// An argument that an event does not have.
inline constexpr int64_t kNoValue = INT64_MIN;

// One file of a recording.
struct RecordingFile {
  std::string path;
  Facts facts;
  std::vector<ClockPair> clock;
  bool is_finished = false;     // the writer ended in order
  std::optional<Error> damage;  // why the rest could not be read
  uint64_t bytes = 0, events = 0;
  // Added to the file's own times to bring them onto the first file's clock, by UNIX time, and how
  // well that is known; nothing when the file says no UNIX time.
  int64_t shift_ns = 0;
  std::optional<int64_t> shift_uncertainty_ns;
};

class Recording {
 public:
  // The events of one track are rows first..last-1, by start, the longer first.
  struct Rows {
    size_t first = 0, last = 0;
    size_t size() const { return last - first; }
  };

  // Files of one path each, in any order; the first gives the clock. A host, and a process of one
  // host, and a thread of one process are one track in whichever files they appear.
  static Result<Recording> load(std::span<const std::string> paths);
  // Takes all that the readers give.
  static Result<Recording> read(std::vector<std::unique_ptr<TraceReader>> readers,
                                std::vector<std::string> paths);

  const Dictionary& dictionary() const { return dictionary_; }
  std::span<const RecordingFile> files() const { return files_; }

  size_t size() const { return starts_.size(); }
  bool empty() const { return starts_.empty(); }
  // All events lie between; 0 and 0 when there are none. Times count from begin_ns().
  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }

  Rows rows(TrackId track) const { return rows_[track]; }
  int64_t start(size_t row) const { return starts_[row]; }
  // Up to the end of the recording where the event itself does not know.
  int64_t end(size_t row) const {
    return durations_[row] == kUnfinished ? end_ns_ : starts_[row] + durations_[row];
  }
  int64_t duration(size_t row) const { return end(row) - starts_[row]; }
  bool is_unfinished(size_t row) const { return durations_[row] == kUnfinished; }
  NameId name_id(size_t row) const { return names_[row]; }
  const Name& name(size_t row) const { return dictionary_.names[names_[row]]; }
  const std::string& text(size_t row) const { return dictionary_.texts[name(row).text]; }
  TrackId track(size_t row) const;  // by search; loops over tracks know it already
  std::span<const int64_t> starts() const { return starts_; }
  std::span<const NameId> names() const { return names_; }

  // The number of a key, if any event has it.
  std::optional<KeyId> find_key(std::string_view text, ArgumentType type) const;
  // One value for each row of the track, kNoValue where the event has none; empty when none has
  // one.
  std::span<const int64_t> column(KeyId key, TrackId track) const;

  // The track itself or the first above it of that kind; kNoId when there is none.
  TrackId ancestor(TrackId track, TrackKind kind) const;
  // "host3 / train.py 4711 / decode 4713": the texts on the way down.
  std::string track_path(TrackId track) const;
  // Which file the events of a track came from (of several: the first).
  size_t file_of(TrackId track) const { return track_files_[track]; }

  // Moves all events of one file, for clocks that were aligned by what happened.
  void shift(size_t file, int64_t by_ns);

  // Fact of the first file that has it.
  std::optional<std::string_view> fact(std::string_view key) const;

 private:
  friend class RecordingBuilder;
  struct Column {
    KeyId key = 0;
    TrackId track = 0;
    std::vector<int64_t> values;
  };
  void find_bounds();

  Dictionary dictionary_;
  std::vector<RecordingFile> files_;
  std::vector<Rows> rows_;           // by track
  std::vector<size_t> track_files_;  // by track
  std::vector<int64_t> starts_, durations_;
  std::vector<NameId> names_;
  std::vector<Column> columns_;  // by key, then track
  int64_t begin_ns_ = 0, end_ns_ = 0;
};

}  // namespace forebay::trace

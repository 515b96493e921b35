// Finds the saves among a thread's writes: the state of a training, kept whole. Not the lines of a
// log, not data that is made to be read, not memory that processes share.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "explain/activity.h"

namespace forebay::explain {

// From the first to the last call of a save, serialising between the calls included.
struct Save {
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t bytes = 0;
};

// The saves of one thread, in order. Many bytes are enough where training itself stops to write
// them (`is_driver`); of another thread they must also be synced, renamed, or named like a state.
std::vector<Save> saves_of(const View& view, trace::TrackId track, bool is_driver);

// Gives the segments of a walk that lie in saves the purpose of a checkpoint; what the user named
// otherwise stays.
class SaveMarker {
 public:
  explicit SaveMarker(std::vector<Save> saves) : saves_(std::move(saves)) {}

  // Segments come in order.
  void mark(Segment& segment) {
    while (next_ < saves_.size() && saves_[next_].end_ns <= segment.begin_ns) ++next_;
    if (next_ < saves_.size() && segment.purpose == Purpose::kNone &&
        segment.begin_ns >= saves_[next_].begin_ns && segment.end_ns <= saves_[next_].end_ns) {
      segment.purpose = Purpose::kCheckpoint;
    }
  }

 private:
  std::vector<Save> saves_;
  size_t next_ = 0;
};

}  // namespace forebay::explain

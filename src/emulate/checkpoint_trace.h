// What saves and restores of a run took, in its trace: spans of category checkpoint.
//
//   accelerator 0     save            all of a rank's files: write, fsync and rename of each
//                     commit          until every rank's were there and one manifest named them
//                     restore         all of a rank's files, checked
//   accelerator 0 reads               read; they overlap
//   drain to /lustre/ck               drain: a save on its way; write, fsync and rename of its
//   files
//
// Any thread. Without a recorder nothing is recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "storage/store.h"
#include "trace/model.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::emulate {

class CheckpointTrace {
 public:
  explicit CheckpointTrace(trace::Recorder* recorder);

  // `rank` is an accelerator, counted over all processes; times are of the monotonic clock.
  void save(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step, uint64_t bytes) const;
  void commit(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step) const;
  void restore(size_t rank, int64_t start_ns, int64_t end_ns, uint64_t step, uint64_t bytes) const;
  void read(size_t rank, std::string_view path, const storage::Completion& completion) const;
  void drain(std::string_view place, int64_t start_ns, int64_t end_ns, uint64_t step) const;

  // `over`, which must outlive it, as this rank writes to it; null without a recorder.
  std::unique_ptr<storage::Store> of_rank(storage::Store& over, size_t rank) const;
  // The same of a place that saves are copied to.
  std::unique_ptr<storage::Store> of_drain(std::unique_ptr<storage::Store> over,
                                           std::string_view place) const;

 private:
  void span(trace::TrackId track, trace::NameId name, int64_t start_ns, int64_t end_ns,
            uint64_t step, uint64_t bytes) const;

  trace::Recorder* const recorder_;
  trace::NameId save_ = 0, commit_ = 0, restore_ = 0, read_ = 0, drain_ = 0;
  trace::KeyId step_ = 0, bytes_ = 0, file_ = 0, prepare_ = 0;
};

}  // namespace forebay::emulate

// A recording as the analyses see it: names with their meaning, the arguments they read, who
// belongs to whom.
//
// Built once, then read by any number of threads. The recording must outlive it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explain/name_class.h"
#include "trace/recording.h"

namespace forebay::explain {

inline constexpr uint32_t kNone = UINT32_MAX;

struct Selection {
  std::string marks;  // the name of the ranges that are iterations; empty = what writers call step
  std::string rank;   // "0", "0,3-5"; empty = all
  std::string process;  // pid, or part of the command; empty = all
};

struct Keys {
  std::optional<trace::KeyId> bytes, offset, file, error, cache_bytes, stack, reason, waker, step,
      count, group, sequence, value, child, unfinished, queue_ns, tid, correlation, total_ns, epoch,
      fetch_ns, prepare_ns;
};

// What tells whether a thread computes while no event says what it does. The first that applies.
enum class Basis : uint8_t {
  kScheduler,  // its time off the CPU was recorded
  kSamples,    // running code was sampled
  kUsage,      // its CPU time was counted
  kCalls,      // all its calls that may wait were recorded; the rest is taken for computing
  kNothing,    // what no event covers was not seen
};

class View {
 public:
  View(const trace::Recording& recording, const Selection& selection);

  const trace::Recording& recording() const { return recording_; }
  const trace::Dictionary& words() const { return recording_.dictionary(); }
  const Keys& keys() const { return keys_; }
  const Selection& selection() const { return selection_; }
  const NameClass& name_class(trace::NameId name) const { return classes_[name]; }
  bool is_step(trace::NameId name) const { return is_step_[name]; }
  FileClass class_of_file(int64_t text) const {
    return text == trace::kNoValue ? FileClass::kRegular : files_[static_cast<size_t>(text)];
  }
  const trace::Track& track(trace::TrackId id) const { return words().tracks[id]; }
  std::span<const int64_t> column(const std::optional<trace::KeyId>& key,
                                  trace::TrackId track) const {
    return key ? recording_.column(*key, track) : std::span<const int64_t>{};
  }

  // Selected tracks of one kind that have events.
  const std::vector<trace::TrackId>& threads() const { return threads_; }
  const std::vector<trace::TrackId>& devices() const { return devices_; }
  trace::TrackId process_of(trace::TrackId track) const {
    return recording_.ancestor(track, trace::TrackKind::kProcess);
  }
  // Of the track or of what is above it; -1 not known.
  int rank_of(trace::TrackId track) const;
  // The process that forked it, kNone when that was not seen.
  uint32_t parent_process(trace::TrackId process) const;
  trace::TrackId thread_by_tid(int64_t tid, trace::TrackId near) const;
  bool is_selected(trace::TrackId track) const;
  // What the samplers' samples of a process stand for each; 0 = it was not sampled.
  // Sums of calls that were counted and not kept stand at the recording's end, whenever they were.
  // `totals` is the track's column of total_ns.
  bool is_sum(size_t row, trace::TrackId track, std::span<const int64_t> totals) const {
    return !totals.empty() && totals[row - recording_.rows(track).first] != trace::kNoValue &&
           recording_.name(row).kind == trace::EventKind::kInstant;
  }
  int64_t sample_period(trace::TrackId process) const;
  Basis basis_of(trace::TrackId thread) const;
  // Every call was recorded and nothing else: what lies between two of them is something, if
  // nobody knows what.
  bool sees_calls_only(trace::TrackId thread) const;
  // Of a process's main thread: until the last event of the process. It may compute on without a
  // call; when it ends, the process does. Nothing of other threads.
  std::optional<int64_t> lives_until(trace::TrackId thread) const;

 private:
  void find_keys();
  void find_classes();
  void find_family();
  void find_basis();
  bool records_calls(size_t file) const;
  bool is_of_strace(size_t file) const;

  const trace::Recording& recording_;
  Selection selection_;
  Keys keys_;
  std::vector<NameClass> classes_;
  std::vector<bool> is_step_;
  std::vector<FileClass> files_;
  std::vector<trace::TrackId> threads_, devices_;
  std::map<uint32_t, uint32_t> parents_;
  std::multimap<int64_t, trace::TrackId> by_tid_;
  std::map<uint32_t, int64_t> periods_;
  std::map<trace::TrackId, Basis> bases_;
  std::map<trace::TrackId, int64_t> process_ends_;
};

// A value of a column at a row of its track; kNoValue when there is no such column.
inline int64_t at(std::span<const int64_t> column, size_t index) {
  return column.empty() ? trace::kNoValue : column[index];
}

// Whether `number` is in "0,3-5".
bool list_has(std::string_view list, int64_t number);

}  // namespace forebay::explain

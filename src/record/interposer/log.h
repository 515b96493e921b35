// The interposer's side of the call log: where each thread of the observed program writes.
//
// Everything may be called from any thread, from signal handlers and after fork or vfork. Nothing
// allocates, waits or changes errno; a call that finds no place is counted as lost.
#pragma once

#include <time.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "record/call_log.h"

namespace forebay::record::interposer {

// Null: nothing is recorded.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): null before any code runs.
extern CallControl* control;

inline bool is_on() {
  const CallControl* page = __atomic_load_n(&control, __ATOMIC_RELAXED);
  return page != nullptr && __atomic_load_n(&page->is_on, __ATOMIC_RELAXED) != 0;
}

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Keeps the errno that the observed program will look at.
class KeepErrno {
 public:
  KeepErrno() : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;
  int value() const { return kept_; }

 private:
  int kept_;
};

// The result to write down for a call that says failure by -1.
inline int64_t result_of(int64_t result, const KeepErrno& kept) {
  return result < 0 ? -int64_t{kept.value()} : result;
}

struct Text {
  const char* bytes = nullptr;
  size_t size = 0;
};
Text text_of(const char* path);  // cut at kTextBytesInLogMax

struct Note {
  Operation operation;
  int64_t start_ns;
  int64_t end_ns;  // taken before anything else is done: what we do is no part of the call
  int64_t result = 0;
  uint32_t file = 0;
  int64_t offset = kNoOffset;
  Text text = {};
};
// Writes a call; of what is no call, start and end are the same.
void note(const Note& note);

// What is known of a call when it begins.
struct Beginning {
  Operation operation;
  uint32_t file = 0;
  int64_t offset = kNoOffset;
  Text text = {};
  bool is_own = false;  // of the recording: not told
};
// A call that begins now and may take long, until this goes: should the recording or the process
// end before it does, it is told from this. A signal handler's calls end it early.
class UnderWay {
 public:
  explicit UnderWay(const Beginning& call);
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  int64_t start_ns() const { return start_ns_; }  // taken last: what we do is no part of the call

 private:
  int64_t start_ns_ = 0;
};

// Waits shorter than this are the cost of asking, not waits.
inline constexpr int64_t kShortWaitNs = 1000;
// A wait that ends now, if it was one.
void note_wait(Operation operation, int64_t start_ns, uint32_t file = 0);

// Whether this is the child of a vfork that has not yet run another program: it shares this memory,
// but not the descriptors.
bool is_in_vfork();

// The recording's own folder: files below it are not observed.
bool is_own_path(const char* path);

// The environment that a program started from here needs to be observed as well: `variables`
// itself when they have it already, else a copy in `room` (pointers) and `bytes`.
struct EnvironmentRoom {
  static constexpr size_t kVariablesMax = 2048;
  static constexpr size_t kBytesMax = 8192;
  char* variables[kVariablesMax];
  char bytes[kBytesMax];
};
char* const* observed_environment(char* const* variables, EnvironmentRoom& room);

}  // namespace forebay::record::interposer

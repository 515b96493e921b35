// Which file each descriptor of the observed program is, by numbers that the log defines once.
//
// Any thread. A forked child starts with an empty table; descriptors that were not seen to be
// opened are looked up when they are first used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "record/interposer/log.h"

namespace forebay::record::interposer {

struct OpenFile {
  uint32_t number;   // in the log; 0 not known
  uint32_t is_own;   // of the recording: not observed
  int64_t position;  // that the next read starts from; below kUnknownPosition/2 not known
};
inline constexpr int64_t kUnknownPosition = INT64_MIN / 2;
inline constexpr int kDescriptorsMax = 1 << 16;  // of higher ones no file is known

// Zero in a forked child until begin_after_fork.
struct ProcessState {
  uint32_t is_alive;
  uint32_t file_count;
  int32_t pid;
  uint32_t had_slot;  // or was refused one
  uint64_t chunk_count;
  OpenFile files[kDescriptorsMax];
};
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): null before any code runs.
extern ProcessState* process_state;

// The number of a descriptor's file, defined in the log now when it was not yet; 0 when there is
// none.
uint32_t file_of(int fd);
bool is_own_file(int fd);

// A descriptor that an open call returned, and its number. `position`: 0, or kUnknownPosition.
uint32_t new_file(int fd, int64_t position, bool is_own);
void forget_file(int fd);
void forget_files(unsigned first, unsigned last);

// Where `moved` bytes at the descriptor's position were; it moves on. kNoOffset when not known.
int64_t advance(int fd, int64_t moved);
void set_position(int fd, int64_t position);

// Tells the log the folder that relative paths start from.
void note_working_folder();

}  // namespace forebay::record::interposer

// A store that misbehaves on purpose, at operations you choose, the same way each time.
//
// Every operation counts, from 1: list, list_folders, list_unpublished, stat, read_at, each
// submitted read, create, append, patch, sync, publish, remove, remove_unpublished, make_folder,
// rename_folder, remove_folder, link_file, lock_file, free_bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "storage/store.h"

namespace forebay::storage {

enum class FaultKind {
  kError,    // kIo
  kShort,    // fewer bytes than asked for; operations without bytes: kIo
  kDelay,    // right, but late
  kCorrupt,  // one byte read or written is wrong, and nothing says so; operations without bytes:
             // right
  kVanish,   // kNotFound; list: leaves one file out
  kNoSpace,  // kResourceExhausted
  kQuota,    // the same, by another name
  kStale,    // kIo: what a file server says of a file that it forgot
  kKill,     // the process ends before the operation, as a SIGKILL would end it
};

struct FaultPlan {
  FaultKind kind = FaultKind::kError;
  uint64_t fail_at = 0;  // this operation; 0 = none
  uint64_t every = 0;    // and each multiple of this; 0 = none
  double chance = 0;     // and any other with this probability
  int64_t delay_ns = 100'000'000;
  uint64_t seed = 1;  // of chances, and of the bytes that are corrupted or missing
};

class FaultyStore : public Store {
 public:
  // Operations so far.
  virtual uint64_t operations() const = 0;
  // Of those, the ones that misbehaved.
  virtual uint64_t faults() const = 0;
};

std::unique_ptr<FaultyStore> make_faulty_store(std::unique_ptr<Store> over, const FaultPlan& plan);
// `over` must outlive the store.
std::unique_ptr<FaultyStore> make_faulty_store(Store& over, const FaultPlan& plan);

}  // namespace forebay::storage

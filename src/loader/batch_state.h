// One batch while it is being filled. Private to the loader.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/format.h"
#include "loader/engine.h"
#include "loader/field_rows.h"

namespace forebay::loader {

enum class Stage : uint8_t { kWaiting, kFetch, kDecode, kDone };

// Written by the thread that finishes the sample, read once the batch is complete.
struct SlotState {
  uint64_t wanted = 0;  // the sample this slot is for
  uint32_t wanted_file = 0;
  LoadedSample sample;
  bool is_good = false;
  uint64_t file_bytes = 0;  // its share of the read
  int64_t submitted_ns = 0;
  int64_t landed_ns = 0;  // bytes were there
  int64_t done_ns = 0;
  Stage stage = Stage::kWaiting;  // through the functions below: the watchdog reads it meanwhile
  double visited_share = 0;       // of the read's time that was spent checking, not fetching

  // Relaxed: shown in a message, orders nothing.
  void set_stage(Stage to) { std::atomic_ref(stage).store(to, std::memory_order_relaxed); }
  Stage load_stage() const {
    return std::atomic_ref(const_cast<Stage&>(stage)).load(std::memory_order_relaxed);
  }
};

struct BatchState;

// A slot of a batch, and where its sample lies.
struct Target {
  BatchState* batch = nullptr;
  uint32_t slot = 0;
  uint64_t sample = 0;     // in the file; with blocks, in the block
  formats::Extent extent;  // the record's bytes in the file
};

struct BatchState {
  uint64_t epoch = 0;
  uint64_t serial = 0;  // of the request it belongs to
  uint64_t step = 0;
  std::vector<SlotState> slots;
  // Counts down; the thread that reaches 0 owns the batch (acq_rel: it sees every slot's writes).
  std::atomic<uint32_t> remaining{0};
  bool is_ready = false;  // guarded by the engine's mutex, as is `bad`
  std::vector<BadRecord> bad;
  std::vector<LoadedSample> good;
  std::unique_ptr<FieldRows> rows;  // null when there are no fields
  uint64_t payload_bytes = 0, file_bytes = 0, skipped = 0;
  int64_t ready_ns = 0;
  uint32_t last_slot = 0;

  // `rows_max`: rows of fields that it may have in the end, fillers included.
  void reset(uint64_t samples, uint64_t rows_max);
  // Gathers the good samples and applies the error policy; called by the thread that finished the
  // last one.
  void complete(const EngineOptions& options);
  // As Batch has it.
  Batch::Wait explain_wait(int64_t from_ns, int64_t to_ns) const;
};

}  // namespace forebay::loader

// What becomes of bytes once they are there: kept in memory, handed to the decode threads, or,
// where nothing is left to do, finished samples. Private to the loader.
//
// The issuing thread's own, but for copy_stats(), which any thread may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "dataset/catalog.h"
#include "loader/decode_pool.h"
#include "loader/fetch.h"
#include "loader/flow.h"
#include "loader/options.h"
#include "loader/plain_rows.h"
#include "loader/unit.h"

namespace forebay::loader {

class Landing {
 public:
  // `release` gets each fetch that no decode thread will see, once its targets are finished.
  Landing(const dataset::Catalog& catalog, const EngineOptions& options, Flow& flow,
          UnitCache& units, PlainRows& plain, std::function<void(std::unique_ptr<Fetch>)> release);

  // `pool` gets what needs decoding; call once before anything lands.
  void start(DecodePool& pool) { pool_ = &pool; }

  // All bytes of `fetch` were read: its slots say when, and how many.
  void note_landed(Fetch& fetch);
  // They are rows of their batches: nothing is left to do.
  void finish_rows(const Fetch& fetch);
  // They are good, as far as a check in passing could tell: passes them on.
  void pass_on(std::unique_ptr<Fetch> fetch);
  // The `late` targets of a unit that is being decoded, or was of late.
  void hand_out(const std::shared_ptr<Unit>& unit);
  // The bytes could not be had: all targets are bad records.
  void fail_targets(const Fetch& fetch, const Error& error);

  void copy_stats(EngineStats& stats) const;

 private:
  void keep_in_memory(const Fetch& fetch);
  void pass_on_unit(std::unique_ptr<Fetch> fetch);
  void finish_without_decoding(const Fetch& fetch);

  const dataset::Catalog& catalog_;
  const EngineOptions& options_;
  Flow& flow_;
  UnitCache& units_;
  PlainRows& plain_;
  const std::function<void(std::unique_ptr<Fetch>)> release_;
  DecodePool* pool_ = nullptr;
  // Relaxed: figures only.
  std::atomic<uint64_t> memory_samples_{0}, blocks_decoded_{0};
};

}  // namespace forebay::loader

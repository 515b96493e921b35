// Splits fetches into reads, keeps those that are under way, and gives a fetch back once all its
// reads have ended. Private to the loader.
//
// The issuing thread's own, but for what is marked "any thread".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/mutex.h"
#include "dataset/catalog.h"
#include "loader/fetch.h"
#include "loader/options.h"
#include "loader/read_trace.h"
#include "storage/store.h"
#include "trace/histogram.h"

namespace forebay::loader {

class ReadsInFlight {
 public:
  // Neighbours of a block become one read of at most `coalesce_bytes`. `in_order`: files are read
  // from front to back.
  ReadsInFlight(const dataset::Catalog& catalog, uint64_t coalesce_bytes, bool in_order,
                std::unique_ptr<storage::ReadQueue> queue, ReadTrace trace);
  ~ReadsInFlight();  // waits for reads in flight
  ReadsInFlight(const ReadsInFlight&) = delete;
  ReadsInFlight& operator=(const ReadsInFlight&) = delete;

  // Takes `fetch`, whose buffer or check stands ready, or gives it back when it has no bytes to
  // read. Its reads begin with the next submit(), or before when many have gathered.
  std::unique_ptr<Fetch> add(std::unique_ptr<Fetch> fetch);
  void submit();

  bool is_empty() const { return count_ == 0; }
  size_t count() const { return count_; }  // fetches under way
  // As the store's queue has it.
  int set_depth(int depth) { return queue_->set_depth(depth); }
  // Waits for completions and gives `ended` the fetches that have no read left; `failure` of those
  // is that of their first read that failed. Returns early after a wake() or a stop.
  void reap(const std::stop_token& stop, const std::function<void(std::unique_ptr<Fetch>)>& ended);

  void wake();                                // any thread
  void copy_stats(EngineStats& stats) const;  // any thread
  trace::Histogram take_read_times();         // any thread

 private:
  static constexpr size_t kReapMax = 64;

  void plan(Fetch& fetch);
  void plan_block(Fetch& fetch, storage::Read read);
  // Null while other reads of its fetch are under way.
  std::unique_ptr<Fetch> end_one(const storage::Completion& completion);
  void count(std::span<const storage::Completion> completions);

  const dataset::Catalog& catalog_;
  const uint64_t coalesce_bytes_;
  const bool are_in_order_;
  ReadTrace trace_;
  std::vector<std::unique_ptr<Fetch>> fetches_;  // by id
  std::vector<uint32_t> free_ids_;
  size_t count_ = 0;
  std::vector<storage::Read> planned_;
  std::array<storage::Completion, kReapMax> done_;
  mutable base::Mutex stats_mutex_;
  EngineStats stats_ FB_GUARDED_BY(stats_mutex_);
  trace::Histogram read_ns_ FB_GUARDED_BY(stats_mutex_);
  std::unique_ptr<storage::ReadQueue> queue_;  // goes first: it writes into buffers of fetches
};

}  // namespace forebay::loader

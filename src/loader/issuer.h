// The thread that walks the order and places what it asks for into fetches, within the bounds.
// Private to the loader.
//
// Runs on a thread of its own; release() and wake() may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "dataset/catalog.h"
#include "dataset/sample_stream.h"
#include "loader/decode_pool.h"
#include "loader/fetch.h"
#include "loader/flow.h"
#include "loader/landing.h"
#include "loader/plain_rows.h"
#include "loader/reads_in_flight.h"
#include "loader/sample_cache.h"
#include "loader/tuner.h"
#include "loader/unit.h"
#include "storage/store.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::loader {

class Issuer {
 public:
  Issuer(const dataset::Catalog& catalog, const dataset::SampleStream& stream,
         const EngineOptions& options, Flow& flow, UnitCache& units, BufferPool& buffers,
         const std::atomic<uint64_t>& value_bytes, std::unique_ptr<storage::ReadQueue> queue,
         trace::Recorder* recorder);
  ~Issuer();

  // `pool` gets what needs decoding; call once before the first epoch.
  Status start(DecodePool& pool);
  // Joins the issuing thread; reads in flight end when this object does.
  void stop_thread();

  // A decode thread has finished with `fetch`: its bytes leave the window.
  void release(std::unique_ptr<Fetch> fetch);
  // There may be work: a batch was recycled or an epoch began.
  void wake();

  void copy_stats(EngineStats& stats) const;
  trace::Histogram take_read_times();

 private:
  void run(std::stop_token stop);
  // Once a window of work is over: takes what the tuner makes of it.
  void tune();
  void issue(std::stop_token stop);
  void prepare(BatchState& batch, const Stripe& stripe);
  // False when the window has no room for its bytes.
  bool add_target(BatchState* batch, uint32_t slot);
  // `row`: where the bytes go at once, or null.
  bool join_last(const Target& target, uint32_t file, const std::byte* row);
  bool join_unit(const Target& target, const dataset::SampleLocation& where);
  bool take_from_memory(const Target& target, const dataset::SampleLocation& where);
  bool window_has_room(uint64_t bytes);
  std::unique_ptr<Fetch> new_fetch();
  std::unique_ptr<Fetch> make_fetch(const Target& target, const dataset::SampleLocation& where);
  // False when the record is larger than record_bytes_max; its targets have failed then.
  bool equip(Fetch& fetch);
  bool needs_buffer(const Fetch& fetch) const;
  void submit_open();
  void submit(std::unique_ptr<Fetch> fetch);
  void end(std::unique_ptr<Fetch> fetch);
  void land(std::unique_ptr<Fetch> fetch);
  // False when the bytes are not good, or not enough.
  bool pass_check(std::unique_ptr<Fetch>& fetch);
  void hand_out_late();

  const dataset::Catalog& catalog_;
  const dataset::SampleStream& stream_;
  const EngineOptions& options_;
  Flow& flow_;
  UnitCache& units_;
  BufferPool& buffers_;
  const std::atomic<uint64_t>& value_bytes_;
  PlainRows plain_;
  Landing landing_;

  // --- the issuing thread's own ---
  DecodePool* pool_ = nullptr;
  Tuner tuner_;
  bool is_tuned_ = false;
  int64_t window_start_ns_ = 0;
  Flow::Progress window_progress_;
  EngineStats window_stats_;
  int64_t window_decode_ns_ = 0;
  std::unique_ptr<formats::Reader> reader_;  // makes stream checks
  std::vector<std::unique_ptr<formats::StreamCheck>> idle_checks_;
  bool checks_exist_ = true;
  bool check_has_passed_ = false;  // some file of these could be checked in passing
  bool is_trying_check_ = false;   // a check is with a read, whose end may be the first verdict
  int unsupported_checks_ = 0;     // in a row: such files are better read whole at once
  std::deque<std::unique_ptr<Fetch>> again_;  // to be read once more, into a buffer
  BatchState* filling_ = nullptr;
  uint32_t next_slot_ = 0, slots_to_fill_ = 0;  // of the batch being filled
  std::vector<uint64_t> wanted_;                // samples of a batch, while it is set up
  std::unique_ptr<Fetch> open_;                 // neighbours may still join it
  std::vector<std::unique_ptr<Fetch>> spare_;   // to be used again
  uint64_t epoch_ = 0;                          // of the batch that was begun last
  uint64_t preparing_epoch_ = 0;                // of the batch that is being set up
  std::shared_ptr<Unit> last_unit_;             // most samples follow one of the same unit
  std::vector<std::shared_ptr<Unit>> late_;     // units with targets to hand out

  std::atomic<int> fetch_depth_, decode_threads_;  // relaxed: figures

  // Bytes between issue and decoded. Sequentially consistent with is_window_full_: either the
  // issuer sees a release() or that release() sees the flag and wakes the issuer.
  std::atomic<uint64_t> window_bytes_{0};
  std::atomic<bool> is_window_full_{false};

  ReadsInFlight reads_;  // they end before what they use
  std::jthread thread_;
};

}  // namespace forebay::loader

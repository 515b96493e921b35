// A ReadQueue on io_uring: the thread that reaps does all the work, `depth` requests are in flight.
//
//   waiting reads --start--> active read --pieces--> ring --events--> in order: copy, visit -->
//   done
//
// A read is cut into pieces; pieces of several reads share the ring. Each piece has a slot with
// memory of its own unless its bytes go straight to their destination.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "storage/aligned_buffer.h"
#include "storage/fifo.h"
#include "storage/folder.h"
#include "storage/store.h"
#include "sys/ring.h"

namespace forebay::storage {

struct UringOptions {
  int depth = 32;
  size_t piece_bytes = 128 << 10;  // a multiple of kPageBytes
  bool is_direct = false;          // O_DIRECT
};

class UringQueue final : public ReadQueue {
 public:
  UringQueue(Folder& folder, std::unique_ptr<sys::Ring> ring, const UringOptions& options);
  ~UringQueue() override;

  void submit(std::span<const Read> reads) override;
  size_t reap(std::span<Completion> out, std::stop_token stop) override;
  void wake() override;
  int set_depth(int depth) override;

 private:
  struct Active;
  struct Slot;

  // Starts reads and puts their pieces into the ring while slots are free.
  void fill();
  void open_file(Active& active);
  void prepare_piece(Active& active);
  void prepare(size_t slot_index);
  std::span<std::byte> slot_memory(size_t slot_index);
  void enter(bool wait);
  void take_event(const sys::RingEvent& event);
  // Hands on the pieces at the front of a read that are there, and ends the read when it is over.
  void advance(Active& active);
  bool hand_on(Active& active, Slot& slot);
  bool may_retry(Active& active) const;
  void end(Active& active);

  Folder& folder_;
  std::unique_ptr<sys::Ring> ring_;
  const UringOptions options_;
  AlignedBuffer memory_;  // one piece per slot, taken when the first read needs it
  bool has_memory_ = false;
  bool is_registered_ = false;
  std::vector<Slot> slots_;
  std::vector<size_t> free_slots_;
  size_t depth_ = 0;                            // slots in use at once
  std::vector<std::unique_ptr<Active>> reads_;  // every Active there is
  std::vector<Active*> free_reads_;
  Active* current_ = nullptr;  // still has pieces to put into the ring
  Fifo<Active*> again_;        // to be started anew after a device error
  Fifo<Read> waiting_;
  Fifo<Completion> done_;
  size_t in_flight_ = 0;  // slots in the ring
  bool is_closing_ = false;
  // Set by wake() before it rouses the ring, read after the ring returns: no wake is lost.
  std::atomic<bool> is_woken_ = false;
};

}  // namespace forebay::storage

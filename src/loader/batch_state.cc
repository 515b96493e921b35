#include "loader/batch_state.h"

#include <algorithm>

namespace forebay::loader {
namespace {

int64_t overlap(int64_t a0, int64_t a1, int64_t b0, int64_t b1) {
  return std::max<int64_t>(0, std::min(a1, b1) - std::max(a0, b0));
}

}  // namespace

void BatchState::reset(uint64_t samples, uint64_t rows_max) {
  slots.assign(samples, SlotState{});
  good.clear();
  payload_bytes = file_bytes = skipped = 0;
  ready_ns = 0;
  last_slot = 0;
  is_ready = false;
  bad.clear();
  if (rows) rows->reset(std::max(samples, rows_max));
  remaining.store(static_cast<uint32_t>(samples), std::memory_order_release);
}

void BatchState::complete(const EngineOptions& options) {
  std::vector<uint32_t> good_rows;
  good.reserve(slots.size());
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].done_ns >= slots[last_slot].done_ns) last_slot = i;
    file_bytes += slots[i].file_bytes;
    if (!slots[i].is_good) continue;
    good.push_back(std::move(slots[i].sample));
    if (rows) good_rows.push_back(i);
  }
  ready_ns = slots.empty() ? 0 : slots[last_slot].done_ns;
  const uint64_t lost = slots.size() - good.size();
  if (lost > 0 && options.on_error == OnError::kReplace && !good.empty()) {
    const size_t from = good.size();
    for (uint64_t i = 0; i < lost; ++i) {
      good.push_back(good[i % from]);
      good.back().is_replaced = true;
    }
  } else {
    skipped = lost;
  }
  for (const LoadedSample& sample : good) payload_bytes += sample.payload_bytes;
  if (rows)
    rows->settle(good_rows, good.size(), options.tail == Tail::kPad ? options.batch_size : 0);
}

Batch::Wait Batch::explain_wait(int64_t from_ns, int64_t to_ns) const {
  return state_->explain_wait(from_ns, to_ns);
}

Batch::Wait BatchState::explain_wait(int64_t from_ns, int64_t to_ns) const {
  Batch::Wait wait;
  const int64_t total = std::max<int64_t>(0, to_ns - from_ns);
  if (slots.empty()) return wait;
  const SlotState& last = slots[last_slot];
  const int64_t decode = overlap(from_ns, to_ns, last.landed_ns, last.done_ns);
  const int64_t read = overlap(from_ns, to_ns, last.submitted_ns, last.landed_ns);
  wait.decode_ns = std::min(
      total, decode + static_cast<int64_t>(static_cast<double>(read) * last.visited_share));
  wait.fetch_ns = total - wait.decode_ns;  // not yet issued counts as fetch: the window was full
  return wait;
}

}  // namespace forebay::loader

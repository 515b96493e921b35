#include "loader/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace forebay::loader {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kThreadBytes = 2 * kMiB;    // stack, codec handles
constexpr uint64_t kUnderWayBytes = 2 * kMiB;  // of batches
constexpr uint64_t kExpansion = 8;             // of an encoded image, when it is decoded whole
constexpr uint64_t kScratchMin = 256 << 10;    // of one thread: several small arrays
constexpr uint64_t kScratchMax = 128 * kMiB;   // the same, as far as it is planned for

// Needs are whatever users ask for: too much must not come round to little.
constexpr uint64_t kMost = uint64_t{1} << 60;
uint64_t product(uint64_t a, uint64_t b) {
  return a != 0 && b > kMost / a ? kMost : a * b;
}

std::string text_of(uint64_t bytes) {
  return base::format_memory(static_cast<double>(bytes));
}

// Buffers come in sizes a quarter of a power of two apart.
uint64_t with_rounding(uint64_t bytes) {
  return bytes + bytes / 4 + 64 * 1024;
}

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs) {
  // What is not stacked varies: half as much again as the first sample had.
  const uint64_t sample = needs.stacked_bytes + needs.separate_bytes * 3 / 2;
  const uint64_t separate = with_rounding(product(needs.batch_size, needs.separate_bytes) / 2 * 3);
  const uint64_t batch = with_rounding(product(needs.batch_size, needs.stacked_bytes)) + separate;
  const uint64_t batches = needs.prefetch_batches + 1;
  const uint64_t read = std::max(kMiB, with_rounding(std::min(kMost, needs.read_bytes_max)));
  const uint64_t unit = std::min(kMost, needs.unit_bytes);
  // What is read for many samples is decoded by itself, below.
  const bool has_units = needs.unit_bytes > 0;
  const uint64_t encoded = has_units && !needs.has_images ? 0 : needs.read_bytes_max;
  uint64_t work = std::clamp(product(kExpansion, encoded) + 2 * sample, kScratchMin, kScratchMax);
  // A large image waits for its turn to take more.
  if (needs.has_images) work = std::min(work, std::max(2 * sample, needs.memory_bytes / 8));
  // A reader keeps what it unpacked last while the thread makes the samples of a unit out of it.
  const uint64_t scratch = kThreadBytes + work + (has_units ? 2 * unit : 0);
  const uint64_t least = product(batches, batch) + read + (has_units ? 2 * unit : 0) + scratch;
  if (least > needs.memory_bytes)
    return fail(ErrorCode::kResourceExhausted,
                "memory is {}, but {} batches of {} and a read of {}{} need {}: choose smaller "
                "or fewer batches (batch_size, prefetch_batches) or allow more memory",
                text_of(needs.memory_bytes), batches, text_of(batch), text_of(read),
                has_units ? fmt::format(" that becomes {}", text_of(unit)) : "", text_of(least));
  MemoryPlan plan;
  uint64_t left = needs.memory_bytes - least;
  const auto threads = static_cast<uint64_t>(std::max(1, needs.decode_threads));
  plan.decode_threads = static_cast<int>(std::min(threads, 1 + left / 4 / scratch));
  plan.scratch_bytes = static_cast<uint64_t>(plan.decode_threads) * scratch;
  left -= plan.scratch_bytes - scratch;
  plan.window_bytes = std::min(needs.read_ahead_bytes, read + left / 3);
  left -= plan.window_bytes > read ? plan.window_bytes - read : 0;
  if (has_units) {
    plan.shard_cache_bytes = std::min(needs.shard_cache_bytes, unit + left / 2);
    left -= plan.shard_cache_bytes > unit ? plan.shard_cache_bytes - unit : 0;
  }
  const uint64_t wanted =
      (static_cast<uint64_t>(needs.fetch_depth) + needs.batch_size - 1) / needs.batch_size;
  // Small batches pass so fast that handing them on would be most of the work: enough of them for
  // each thread to find several at a time.
  const uint64_t small = needs.fetch_depth > 0 ? kUnderWayBytes / std::max<uint64_t>(1, batch) : 0;
  plan.extra_batches = std::min(std::max(wanted, small), left / 2 / std::max<uint64_t>(1, batch));
  plan.value_bytes = (batches + plan.extra_batches) * separate;
  plan.buffer_bytes = needs.memory_bytes - plan.scratch_bytes;
  // No more than these parts can come to: who reads the bound should find it near the truth.
  const uint64_t used = (batches + plan.extra_batches) * batch + std::max(plan.window_bytes, read) +
                        (has_units ? unit + std::max(plan.shard_cache_bytes, unit) : 0);
  plan.buffer_bytes = std::min(plan.buffer_bytes, with_rounding(used));
  plan.thread_bytes = work;
  if (needs.has_images)
    plan.turn_bytes = needs.memory_bytes - plan.buffer_bytes - plan.scratch_bytes;
  return plan;
}

}  // namespace forebay::loader

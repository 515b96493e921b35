// A store that is as slow as you say: latency, bandwidth, operations per second, concurrency.
//
// Stands for a filer or an object store. All queues and calls of one store share its limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "base/random.h"
#include "storage/delayed_queue.h"
#include "storage/store.h"

namespace forebay::storage {

enum class LatencyShape { kConstant, kUniform, kExponential, kLognormal };

struct SlowOptions {
  int64_t latency_ns =
      0;  // constant: each; uniform: the middle; exponential: the least; lognormal: the median
  LatencyShape shape = LatencyShape::kConstant;
  int64_t jitter_ns = 0;  // uniform: up or down by at most this; exponential: mean of what is added
  int64_t p99_ns = 0;     // lognormal
  double bytes_per_second = 0;       // 0 = unlimited
  double operations_per_second = 0;  // 0 = unlimited
  int concurrency = 0;               // operations at once; 0 = unlimited
  uint64_t seed = 1;
};

// When each operation would start and end in a store with these limits. Nothing waits here: limits
// are kept as the times at which they allow the next operation, so latencies overlap and bandwidth
// is shared in the order of arrival. Safe from any thread.
class SlowModel {
 public:
  explicit SlowModel(const SlowOptions& options);
  ReadSchedule admit(int64_t now_ns, uint64_t bytes);

 private:
  int64_t draw_latency() FB_REQUIRES(mutex_);

  const SlowOptions options_;
  base::Mutex mutex_;
  base::Random random_ FB_GUARDED_BY(mutex_);
  int64_t next_operation_ns_ FB_GUARDED_BY(mutex_) = 0;
  int64_t pipe_free_ns_ FB_GUARDED_BY(mutex_) = 0;
  // When each of `concurrency` places becomes free, the earliest on top.
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> places_ FB_GUARDED_BY(mutex_);
};

std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> over, const SlowOptions& options);

}  // namespace forebay::storage

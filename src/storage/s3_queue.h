// A ReadQueue on an object store: up to `depth` reads at once, carried out by the client's loop.
//
//   submit --> waiting reads --(loop thread)--> S3Read 0..depth-1 --> finished --> reap
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "storage/fifo.h"
#include "storage/s3_client.h"
#include "storage/s3_read.h"
#include "storage/store.h"

namespace forebay::storage {

class S3Queue final : public ReadQueue {
 public:
  S3Queue(S3Client& client, int depth, int depth_max)
      : client_(client),
        depth_max_(static_cast<size_t>(depth_max)),
        depth_(static_cast<size_t>(depth)) {}
  ~S3Queue() override;

  void submit(std::span<const Read> reads) override;
  size_t reap(std::span<Completion> out, std::stop_token stop) override;
  void wake() override;
  int set_depth(int depth) override;

 private:
  void start_more();
  void done(S3Read& read);

  S3Client& client_;
  const size_t depth_max_;
  std::atomic<size_t> depth_;  // relaxed: the loop may see it a read later

  // The loop thread's.
  std::vector<std::unique_ptr<S3Read>> reads_;
  std::vector<S3Read*> free_;
  size_t in_flight_ = 0;
  bool is_starting_ = false;  // a read may end while it is started

  base::Mutex mutex_;
  base::CondVar done_ready_;
  Fifo<Read> waiting_ FB_GUARDED_BY(mutex_);
  Fifo<Completion> done_ FB_GUARDED_BY(mutex_);
  size_t outstanding_ FB_GUARDED_BY(mutex_) = 0;  // submitted and not yet reaped
  bool is_posted_ FB_GUARDED_BY(mutex_) = false;  // the loop is going to look at waiting_
  bool is_woken_ FB_GUARDED_BY(mutex_) = false;
  bool is_closed_ FB_GUARDED_BY(mutex_) = false;  // by the loop, as the last thing it does here
};

}  // namespace forebay::storage

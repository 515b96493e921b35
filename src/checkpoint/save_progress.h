// What is known of one save while it is on its way, for whoever holds its handle.
//
// Safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/mutex.h"
#include "forebay/checkpoint.h"

namespace forebay {

class SaveHandle::Impl {
 public:
  // `begun_ns`: when save() was called, on the monotonic clock.
  Impl(uint64_t step, int64_t begun_ns) : step_(step), begun_ns_(begun_ns) {}

  uint64_t step() const { return step_; }

  // --- for the engine; in this order, as far as it comes ---
  void note_earlier(std::optional<Error> error);  // of earlier saves, told by this one
  void note_copied(int64_t now_ns);               // training goes on
  void note_durable(int64_t now_ns);
  void note_drained(int64_t now_ns);  // also after note_failed(), once another try did it
  void note_skipped();
  void note_failed(const Error& error);

  bool was_skipped() const;
  Status wait_durable(std::stop_token stop);
  Status wait_drained(std::stop_token stop);
  SaveTimes times() const;
  std::optional<Error> earlier_failure() const;
  // Nothing more can be noted that somebody has to be told of.
  bool is_over() const;
  // Of a failure that no wait has returned yet, once.
  std::optional<Error> take_untold();

 private:
  enum class Moment { kDurable, kDrained };
  Status wait_for(Moment moment, std::stop_token stop);

  const uint64_t step_;
  const int64_t begun_ns_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  SaveTimes times_ FB_GUARDED_BY(mutex_);
  bool is_skipped_ FB_GUARDED_BY(mutex_) = false;
  bool is_told_ FB_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ FB_GUARDED_BY(mutex_), earlier_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay

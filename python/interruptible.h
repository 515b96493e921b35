// Waits for work that may take long on a thread of its own, with a look at the signals in between:
// Ctrl-C asks the work to stop, waits until it has, and becomes KeyboardInterrupt.
//
// With the GIL held; it is away while the work runs.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "failure.h"
#include "patience.h"
#include "released.h"
#include "sys/thread.h"

namespace forebay::python {

// An answer that another thread will give.
template <class T>
class Pending {
 public:
  void set(T answer) {
    {
      base::MutexLock lock(mutex_);
      answer_.emplace(std::move(answer));
    }
    set_.notify_all();
  }

  // False when it has not come after a turn.
  bool wait() {
    base::MutexLock lock(mutex_);
    return set_.wait_for(mutex_, {}, Patience::kTurn,
                         [this]() FB_REQUIRES(mutex_) { return answer_.has_value(); });
  }

  T take() {
    base::MutexLock lock(mutex_);
    return std::move(*answer_);
  }

 private:
  base::Mutex mutex_;
  base::CondVar set_;
  std::optional<T> answer_ FB_GUARDED_BY(mutex_);
};

// `work` takes a std::stop_token and must not touch Python.
template <class Work>
auto run_interruptibly(const char* thread_name, const Work& work) {
  using Answer = decltype(work(std::stop_token()));
  Pending<Answer> pending;
  std::jthread thread = take(sys::start_thread(
      thread_name, [&](std::stop_token stop) { pending.set(work(std::move(stop))); }));
  bool is_interrupted = false;
  while (!without_gil([&] { return pending.wait(); })) {
    if (is_interrupted || PyErr_CheckSignals() == 0) continue;
    is_interrupted = true;
    thread.request_stop();
  }
  without_gil([&] {
    thread.join();
    return true;
  });
  if (is_interrupted) throw pybind11::error_already_set();
  return pending.take();
}

}  // namespace forebay::python

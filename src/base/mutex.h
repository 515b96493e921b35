// std::mutex and a condition variable that clang's thread-safety analysis understands.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#ifdef __clang__
#define FB_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define FB_THREAD_ATTRIBUTE(x)
#endif
#define FB_CAPABILITY(x) FB_THREAD_ATTRIBUTE(capability(x))
#define FB_SCOPED_CAPABILITY FB_THREAD_ATTRIBUTE(scoped_lockable)
#define FB_GUARDED_BY(x) FB_THREAD_ATTRIBUTE(guarded_by(x))
#define FB_REQUIRES(...) FB_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define FB_ACQUIRE(...) FB_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define FB_RELEASE(...) FB_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define FB_NO_THREAD_SAFETY_ANALYSIS FB_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace forebay::base {

class FB_CAPABILITY("mutex") Mutex {
 public:
  void lock() FB_ACQUIRE() { mutex_.lock(); }
  void unlock() FB_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class FB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() FB_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// The mutex is held when a wait is called and when it returns. Predicates run under the mutex:
// annotate such lambdas with FB_REQUIRES(mutex).
class CondVar {
 public:
  // Returns the predicate's last value: false means that a stop was asked for.
  template <class Predicate>
  bool wait(Mutex& mutex, std::stop_token stop, Predicate predicate)
      FB_REQUIRES(mutex) FB_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait(mutex, std::move(stop), predicate);
  }

  // As wait, but also returns once `timeout` has passed.
  template <class Predicate>
  bool wait_for(Mutex& mutex, std::stop_token stop, std::chrono::nanoseconds timeout,
                Predicate predicate) FB_REQUIRES(mutex) FB_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait_for(mutex, std::move(stop), timeout, predicate);
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace forebay::base

// The healthy parts that the sick programs in C++ share: arguments, a bounded queue, a train step
// that computes, and a clock of the program's own, which says where the training thread's time
// went.
//
// A clock belongs to the training thread; a Making to the loader that makes its batch.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if __has_include("forebay/mark.h")
#include "forebay/mark.h"
#define FB_SICK_MARK(call) call("step")
#else
#define FB_SICK_MARK(call) static_cast<void>(0)
#endif

namespace sick {

inline int64_t clock_ns(clockid_t which) {
  timespec now{};
  clock_gettime(which, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
inline int64_t now_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}

// How long this thread could have run, but had no core; 0 where the kernel does not say.
inline int64_t ready_ns() {
  std::FILE* file = std::fopen("/proc/thread-self/schedstat", "re");
  if (file == nullptr) return 0;
  long long ran = 0, ready = 0;
  const bool is_read = std::fscanf(file, "%lld %lld", &ran, &ready) == 2;
  std::fclose(file);
  return is_read ? ready : 0;
}

// A test that cannot go on says why and ends.
inline void require(bool is_true, const char* what) {
  if (is_true) return;
  std::perror(what);
  std::exit(1);
}

struct Options {
  double seconds = 6;
  std::string data = "sick-data";
  bool only_make_data = false;
};
inline Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--make-data") {
      options.only_make_data = true;
    } else if (i + 1 < argc && flag == "--seconds") {
      options.seconds = std::atof(argv[++i]);
    } else if (i + 1 < argc && flag == "--data") {
      options.data = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--seconds S] [--data FOLDER] [--make-data]\n", argv[0]);
      std::exit(2);
    }
  }
  mkdir(options.data.c_str(), 0777);
  return options;
}

enum class Part { kCompute, kFetch, kPrep, kSync, kCheckpoint, kIdle };
constexpr int kParts = 6;

// What a loader did, and when, while it made one batch.
class Making {
 public:
  struct Did {
    Part part;
    int64_t begin_ns, end_ns;
  };
  // Since the construction, or the call before.
  void did(Part part) {
    const int64_t now = now_ns();
    all_.push_back({part, at_ns_, now});
    at_ns_ = now;
  }
  const std::vector<Did>& all() const { return all_; }

 private:
  int64_t at_ns_ = now_ns();
  std::vector<Did> all_;
};

struct Batch {
  Making making;
  std::vector<char> bytes;
};

// The program's own truth about its training thread.
class OwnClock {
 public:
  explicit OwnClock(double seconds) : end_ns_(begin_ns_ + static_cast<int64_t>(seconds * 1e9)) {}

  // Begins a step, unless the time is up.
  bool next_step() {
    did(Part::kIdle);
    if (step_begin_ns_ > 0) steps_.push_back(at_ns_ - step_begin_ns_);
    step_begin_ns_ = at_ns_;
    return at_ns_ < end_ns_;
  }
  uint64_t step() const { return steps_.size(); }

  // What the training thread did since the call before.
  void did(Part part) {
    const int64_t now = now_ns();
    ns_[static_cast<size_t>(part)] += static_cast<double>(now - at_ns_);
    at_ns_ = now;
  }

  // It waited: for what the loader did meanwhile, in proportion.
  void waited_for(const Making& making) {
    const int64_t now = now_ns();
    std::array<double, kParts> meanwhile{};
    double all = 0;
    for (const Making::Did& did : making.all()) {
      const int64_t ns = std::min(did.end_ns, now) - std::max(did.begin_ns, at_ns_);
      if (ns <= 0) continue;
      meanwhile[static_cast<size_t>(did.part)] += static_cast<double>(ns);
      all += static_cast<double>(ns);
    }
    // The batch was there: to take it is the training thread's own work.
    if (all <= 0) return did(Part::kCompute);
    for (size_t i = 0; i < kParts; ++i) {
      ns_[i] += meanwhile[i] / all * static_cast<double>(now - at_ns_);
    }
    at_ns_ = now;
  }

  // One line of JSON. `fetch_cpu_ns` of the fetching was work of the CPU.
  void print(const char* program, int64_t fetch_cpu_ns = 0) const {
    std::printf("{\"program\": \"%s\", \"steps\": %zu, \"begin_ns\": %lld, \"end_ns\": %lld",
                program, steps_.size(), static_cast<long long>(begin_ns_),
                static_cast<long long>(at_ns_));
    std::printf(", \"fetch_cpu_s\": %.6f", static_cast<double>(fetch_cpu_ns) * 1e-9);
    std::printf(", \"ready_s\": %.6f", static_cast<double>(ready_ns() - ready_ns_) * 1e-9);
    constexpr std::array kNames{"compute", "fetch", "prep", "sync", "checkpoint", "idle"};
    for (size_t i = 0; i < kParts; ++i) std::printf(", \"%s_s\": %.6f", kNames[i], ns_[i] * 1e-9);
    std::printf(", \"step_s\": [");
    for (size_t i = 0; i < steps_.size(); ++i) {
      std::printf("%s%.6f", i == 0 ? "" : ", ", static_cast<double>(steps_[i]) * 1e-9);
    }
    std::printf("]}\n");
  }

 private:
  const int64_t begin_ns_ = now_ns(), ready_ns_ = ready_ns();
  const int64_t end_ns_;
  int64_t at_ns_ = begin_ns_, step_begin_ns_ = 0;
  std::array<double, kParts> ns_{};
  std::vector<int64_t> steps_;
};

// Few batches between loaders and training.
class Queue {
 public:
  explicit Queue(size_t size_max) : size_max_(size_max) {}

  // False when training has ended.
  bool push(Batch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_closed_ || batches_.size() < size_max_; });
    if (is_closed_) return false;
    batches_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }
  Batch pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !batches_.empty(); });
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return batch;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

 private:
  const size_t size_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  bool is_closed_ = false;
};

// Work on numbers until this thread has used so much of a CPU: about the same share of a step on a
// fast machine and a slow or crowded one.
inline float work_for(std::vector<float>& numbers, const std::vector<char>& input, double seconds) {
  const int64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + static_cast<int64_t>(seconds * 1e9);
  float sum = 0;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
    for (int round = 0; round < 16; ++round) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        const float value = input.empty() ? 1.0F : static_cast<float>(input[i % input.size()]);
        numbers[i] = 0.99F * numbers[i] + 0.001F * value;
        sum += numbers[i];
      }
    }
  }
  return sum;
}

// A model whose step takes a set amount of CPU time: the accelerator of these programs.
class Model {
 public:
  void train_step(const Batch& batch, double seconds) {
    loss_ = loss_ + work_for(weights_, batch.bytes, seconds);
  }

 private:
  std::vector<float> weights_ = std::vector<float>(4096, 0.5F);
  volatile float loss_ = 0;
};

// A file of so many bytes that do not compress, on the disk when this returns.
inline void make_file(const std::string& path, size_t bytes) {
  struct stat known {};
  if (stat(path.c_str(), &known) == 0 && static_cast<size_t>(known.st_size) == bytes) return;
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  require(fd >= 0, path.c_str());
  std::vector<uint64_t> block(8192);
  uint64_t state = bytes | 1;
  for (size_t done = 0; done < bytes;) {
    for (uint64_t& word : block) word = state = state * 6364136223846793005U + 1442695040888963407U;
    const size_t size = std::min(bytes - done, block.size() * sizeof(uint64_t));
    require(write(fd, block.data(), size) == static_cast<ssize_t>(size), path.c_str());
    done += size;
  }
  require(fdatasync(fd) == 0, path.c_str());
  close(fd);
}

// 0 .. n - 1, shuffled by `seed`.
inline std::vector<uint32_t> shuffled(uint32_t n, uint64_t seed) {
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  for (uint32_t i = n; i > 1; --i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    std::swap(order[i - 1], order[(seed >> 33U) % i]);
  }
  return order;
}

// Says to whoever records that this is a step, as long as it lives.
class MarkedStep {
 public:
  MarkedStep() { FB_SICK_MARK(forebay_mark_begin); }
  ~MarkedStep() { FB_SICK_MARK(forebay_mark_end); }
  MarkedStep(const MarkedStep&) = delete;
  MarkedStep& operator=(const MarkedStep&) = delete;
};

}  // namespace sick

#include "explain/concurrency.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/units.h"
#include "explain/device_time.h"
#include "explain/readings.h"
#include "trace/facts.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::TrackId;
using trace::TrackKind;

namespace {

constexpr double kIdleBelow = 0.1;  // SOFA's is_idle_threshold
constexpr size_t kWindowsMax = 36'000;

// Nanoseconds of one use in each window.
class Windows {
 public:
  Windows(int64_t begin_ns, int64_t window_ns, size_t count)
      : begin_ns_(begin_ns), window_ns_(window_ns), ns_(count, 0) {}

  void add(int64_t begin, int64_t end, double weight) {
    for (int64_t at = std::max(begin, begin_ns_); at < end;) {
      const auto window = static_cast<size_t>((at - begin_ns_) / window_ns_);
      if (window >= ns_.size()) return;
      const int64_t until =
          std::min(end, begin_ns_ + static_cast<int64_t>(window + 1) * window_ns_);
      ns_[window] += weight * static_cast<double>(until - at);
      at = until;
    }
  }
  double share(size_t window) const { return ns_[window] / static_cast<double>(window_ns_); }
  void keep_larger(const Windows& other) {
    for (size_t i = 0; i < ns_.size(); ++i) ns_[i] = std::max(ns_[i], other.ns_[i]);
  }
  void add(const Windows& other) {
    for (size_t i = 0; i < ns_.size(); ++i) ns_[i] += other.ns_[i];
  }

 private:
  int64_t begin_ns_, window_ns_;
  std::vector<double> ns_;
};

struct Use {
  Windows busiest, sum;
  void add(const Windows& one) {
    busiest.keep_larger(one);
    sum.add(one);
  }
};

class ConcurrencyReader {
 public:
  explicit ConcurrencyReader(const View& view) : view_(view) {
    const int64_t length = view.recording().end_ns() - view.recording().begin_ns();
    window_ns_ = std::max<int64_t>(100'000'000, length / static_cast<int64_t>(kWindowsMax));
    count_ = static_cast<size_t>(length / window_ns_);
  }

  Concurrency read() {
    Concurrency out{.window_ns = window_ns_, .windows = count_};
    if (count_ == 0) {
      out.reason = "the recording is shorter than a window of 100 ms";
      return out;
    }
    Use cores = use(), user = use(), system = use(), waits = use(), gpu = use();
    read_counters(cores, TrackKind::kCore);
    read_threads(user, system, waits);
    read_devices(gpu);
    out.cores = core_count();
    out.is_of_host = cores_seen_ > 0;
    if (cores_seen_ == 0 && !has_samples_ && devices_seen_ == 0) {
      out.reason = "neither counters of cores nor samples nor devices were recorded";
      return out;
    }
    out.is_measured = true;
    for (size_t w = 0; w < count_; ++w) judge(w, cores, user, system, waits, gpu, out);
    const auto scale = [&](Concurrency::Shares& shares) {
      for (double* share :
           {&shares.user, &shares.system, &shares.gpu, &shares.io_wait, &shares.idle}) {
        *share /= static_cast<double>(count_);
      }
    };
    scale(out.by_busiest);
    scale(out.by_mean);
    return out;
  }

 private:
  Windows windows() const { return {view_.recording().begin_ns(), window_ns_, count_}; }
  Use use() const { return {windows(), windows()}; }

  int core_count() const {
    if (const auto fact = view_.recording().fact(trace::fact::kCores)) {
      const auto cores = base::parse_double(*fact);
      if (cores.ok() && *cores >= 1) return static_cast<int>(*cores);
    }
    return std::max(1, static_cast<int>(cores_seen_));
  }

  void read_counters(Use& use, TrackKind kind) {
    for (TrackId track = 0; track < view_.words().tracks.size(); ++track) {
      if (view_.track(track).kind != kind) continue;
      Windows one = windows();
      bool any = false;
      for_each_reading(view_, track, "busy_share", [&](int64_t begin, int64_t end, double share) {
        one.add(begin, end, share);
        any = true;
      });
      if (!any) continue;
      kind == TrackKind::kCore ? ++cores_seen_ : ++devices_seen_;
      use.add(one);
    }
  }

  void read_threads(Use& user, Use& system, Use& waits) {
    for (const TrackId thread : view_.threads()) {
      const auto rows = view_.recording().rows(thread);
      const auto stacks = view_.column(view_.keys().stack, thread);
      Windows in_user = windows(), in_system = windows(), in_wait = windows();
      for (size_t row = rows.first; row < rows.last; ++row) {
        const trace::Name& name = view_.recording().name(row);
        const int64_t begin = view_.recording().start(row), end = view_.recording().end(row);
        if (name.kind == EventKind::kSample) {
          has_samples_ = true;
          (is_kernel(at(stacks, row - rows.first)) ? in_system : in_user).add(begin, end, 1);
        } else if (name.kind == EventKind::kSpan &&
                   (name.category == Category::kRead || name.category == Category::kFault ||
                    name.category == Category::kSync || name.category == Category::kWrite)) {
          in_wait.add(begin, end, 1);
        }
      }
      user.add(in_user);
      system.add(in_system);
      waits.add(in_wait);
    }
  }

  bool is_kernel(int64_t stack) const {
    if (stack == trace::kNoValue) return false;
    const trace::Stack& leaf = view_.words().stacks[static_cast<size_t>(stack)];
    return view_.words().frames[leaf.frame].kind == trace::FrameKind::kKernel;
  }

  void read_devices(Use& gpu) {
    read_counters(gpu, TrackKind::kDevice);
    for (const TrackId device : view_.devices()) {
      Intervals busy;
      for (TrackId track = 0; track < view_.words().tracks.size(); ++track) {
        if (track != device && view_.track(track).parent != device) continue;
        const auto rows = view_.recording().rows(track);
        for (size_t row = rows.first; row < rows.last; ++row) {
          const trace::Name& name = view_.recording().name(row);
          if (name.kind == EventKind::kSpan &&
              (name.category == Category::kCompute || name.category == Category::kCollective)) {
            busy.push_back({view_.recording().start(row), view_.recording().end(row)});
          }
        }
      }
      if (busy.empty()) continue;
      ++devices_seen_;
      Windows one = windows();
      for (const Interval& each : merged(std::move(busy))) one.add(each.begin_ns, each.end_ns, 1);
      gpu.add(one);
    }
  }

  // One window to its largest use, or to none when even that is small.
  static void give(double user, double system, double gpu, double io_wait,
                   Concurrency::Shares& shares) {
    const std::array<std::pair<double, double*>, 4> uses{{{user, &shares.user},
                                                          {system, &shares.system},
                                                          {gpu, &shares.gpu},
                                                          {io_wait, &shares.io_wait}}};
    const auto& largest = *std::max_element(
        uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    *(largest.first > kIdleBelow ? largest.second : &shares.idle) += 1;
  }

  void judge(size_t w, const Use& cores, const Use& user, const Use& system, const Use& waits,
             const Use& gpu, Concurrency& out) const {
    const double sampled = user.sum.share(w) + system.sum.share(w);
    const double user_part = sampled > 0 ? user.sum.share(w) / sampled : 1;
    const double n = out.cores;
    const double busiest = cores_seen_ > 0
                               ? cores.busiest.share(w)
                               : std::max(user.busiest.share(w), system.busiest.share(w));
    const double mean =
        cores_seen_ > 0 ? cores.sum.share(w) / static_cast<double>(cores_seen_) : sampled / n;
    give(busiest * user_part, busiest * (1 - user_part), gpu.busiest.share(w),
         std::min(1.0, waits.busiest.share(w)), out.by_busiest);
    const double devices = std::max<double>(1, static_cast<double>(devices_seen_));
    give(mean * user_part, mean * (1 - user_part), gpu.sum.share(w) / devices,
         std::min(1.0, waits.sum.share(w) / n), out.by_mean);
  }

  const View& view_;
  int64_t window_ns_ = 0;
  size_t count_ = 0;
  size_t cores_seen_ = 0, devices_seen_ = 0;
  bool has_samples_ = false;
};

}  // namespace

Concurrency concurrency_of(const View& view) {
  return ConcurrencyReader(view).read();
}

}  // namespace forebay::explain

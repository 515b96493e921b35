#include "explain/under_way.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "explain/activity.h"
#include "explain/unseen.h"

namespace forebay::explain {
namespace {

using trace::Category;
using trace::EventKind;
using trace::TrackId;

constexpr size_t kListed = 20;
constexpr int64_t kLongNs = 5'000'000'000;
constexpr int64_t kLongSteps = 10;

struct Open {
  TrackId thread = trace::kNoId;
  size_t row = 0;
  int64_t begin_ns = 0, end_ns = 0;
  Doing doing = Doing::kOnCpu;
  bool is_of_driver = false;
  int64_t ns() const { return end_ns - begin_ns; }
};

bool may_wait(Category category) {
  switch (category) {
    case Category::kRead:
    case Category::kWrite:
    case Category::kMetadata:
    case Category::kSync:
    case Category::kFault:
    case Category::kNetwork:
    case Category::kLock:
    case Category::kSleep:
    case Category::kCollective:
    case Category::kOther:
    case Category::kOffCpu:
      return true;
    default:
      return false;
  }
}

// What the kernel says of a call that a signal ended; of a thread's last one, its death.
bool is_death(int64_t error) {
  return error >= 512 && error <= 516;
}

// The outermost call that a thread is in; where there is none, why it does not run.
class OpenCallFinder {
 public:
  OpenCallFinder(const View& view, TrackId thread)
      : view_(view),
        thread_(thread),
        rows_(view.recording().rows(thread)),
        unfinished_(view.column(view.keys().unfinished, thread)),
        errors_(view.column(view.keys().error, thread)) {}

  std::optional<Open> find() const {
    const trace::Recording& recording = view_.recording();
    std::optional<size_t> call, reason;
    for (size_t row = rows_.first; row < rows_.last; ++row) {
      const trace::Name& name = recording.name(row);
      if (name.kind != EventKind::kSpan || !may_wait(name.category)) continue;
      const size_t index = row - rows_.first;
      const bool is_open = recording.is_unfinished(row) || at(unfinished_, index) == 1 ||
                           (is_death(at(errors_, index)) && is_last_call(row));
      if (!is_open) continue;
      std::optional<size_t>& found = name.category == Category::kOffCpu ? reason : call;
      if (!found) found = row;
    }
    if (!call) call = reason;
    if (!call) return std::nullopt;
    Open open{.thread = thread_, .row = *call};
    open.begin_ns = recording.start(*call);
    open.end_ns = recording.end(*call);
    return open;
  }

 private:
  bool is_last_call(size_t row) const {
    for (++row; row < rows_.last; ++row) {
      const trace::Name& name = view_.recording().name(row);
      if (name.kind == EventKind::kSpan && name.category != Category::kOffCpu) return false;
    }
    return true;
  }

  const View& view_;
  TrackId thread_;
  trace::Recording::Rows rows_;
  std::span<const int64_t> unfinished_, errors_;
};

// What a thread does in a stretch of time, as the breakdown sees it: the longest, and how long it
// is busy.
struct Meanwhile {
  Doing most = Doing::kOnCpu;
  int64_t busy_ns = 0;
};

bool is_busy(Doing doing) {
  switch (doing) {
    case Doing::kLock:
    case Doing::kPoll:
    case Doing::kChild:
    case Doing::kSleep:
    case Doing::kCollective:
    case Doing::kDeviceSync:
    case Doing::kUnseen:
    case Doing::kUnrecorded:
    case Doing::kOutside:
      return false;
    default:
      return true;
  }
}

// `own`: the call that the thread is in; it is not busy there.
Meanwhile look_at(const View& view, TrackId thread, const Open& window, const Open* own) {
  Meanwhile found;
  int64_t longest = 0;
  ActivityWalk(view, thread)
      .run(
          [&](const Segment& segment) {
            const int64_t begin = std::max(segment.begin_ns, window.begin_ns);
            const int64_t end = std::min(segment.end_ns, window.end_ns);
            if (end <= begin) return;
            if (own != nullptr && segment.row == own->row && end - begin > longest) {
              longest = end - begin;
              found.most = segment.doing;
            }
            const bool is_own = own != nullptr && segment.begin_ns >= own->begin_ns;
            if (!is_own && is_busy(segment.doing)) found.busy_ns += end - begin;
          },
          [](size_t) {});
  return found;
}

class UnderWayFinder {
 public:
  UnderWayFinder(const View& view, const Job& job, const Explanation& found)
      : view_(view), job_(job), found_(found) {}

  UnderWay find() {
    for (const TrackId thread : view_.threads()) {
      std::optional<Open> open = OpenCallFinder(view_, thread).find();
      if (!open) continue;
      open->is_of_driver = is_driver(thread);
      open->doing = look_at(view_, thread, *open, &*open).most;
      calls_.push_back(*open);
    }
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const Open& a, const Open& b) { return a.ns() > b.ns(); });
    UnderWay out{.count = calls_.size()};
    for (const Open& open : calls_) {
      if (out.calls.size() == kListed) break;
      out.calls.push_back({.what = words_of(open),
                           .thread = name_of(open.thread),
                           .begin_ns = open.begin_ns - view_.recording().begin_ns(),
                           .ns = open.ns(),
                           .is_of_driver = open.is_of_driver});
    }
    find_hang(out);
    return out;
  }

 private:
  bool is_driver(TrackId thread) const {
    return std::any_of(job_.drivers.begin(), job_.drivers.end(), [&](const DriverPlan& driver) {
      return driver.track == thread || driver.host_thread == thread;
    });
  }

  std::string name_of(TrackId thread) const {
    const TrackId process = view_.process_of(thread);
    const auto named = [&](TrackId track) {
      return fmt::format("{} {}", view_.words().text(view_.track(track)),
                         view_.track(track).number);
    };
    if (process == trace::kNoId) return named(thread);
    return is_main(thread) ? named(process) : named(process) + ", thread " + named(thread);
  }

  std::string words_of(const Open& open) const {
    const size_t index = open.row - view_.recording().rows(open.thread).first;
    const auto text = [&](const std::optional<trace::KeyId>& key) {
      const int64_t id = at(view_.column(key, open.thread), index);
      return id == trace::kNoValue ? std::string() : view_.words().text(static_cast<uint32_t>(id));
    };
    const trace::Name& name = view_.recording().name(open.row);
    if (name.category == Category::kOffCpu) return text(view_.keys().reason);
    const std::string file = text(view_.keys().file);
    return view_.recording().text(open.row) + (file.empty() ? "" : " of " + file);
  }

  // That of the driver that is in one longest. Behind a launcher that nobody saw wait: that of a
  // process that was in one for half of the recording.
  const Open* of_driver() const {
    const int64_t all_ns = view_.recording().end_ns() - view_.recording().begin_ns();
    for (const Open& open : calls_) {
      if (open.is_of_driver && is_long(open)) return &open;
    }
    for (const Open& open : calls_) {
      if (is_main(open.thread) && is_long(open) && 2 * open.ns() >= all_ns) return &open;
    }
    return nullptr;
  }

  bool is_main(TrackId thread) const {
    const TrackId process = view_.process_of(thread);
    return process != trace::kNoId && view_.track(process).number == view_.track(thread).number;
  }

  bool is_long(const Open& open) const {
    const auto rows = view_.recording().rows(open.thread);
    const int64_t life_ns = open.end_ns - view_.recording().start(rows.first);
    if (open.ns() < kJudgedNs) return false;
    if (open.ns() * 2 >= life_ns) return true;
    return open.ns() >= kLongNs && found_.iterations.is_found &&
           open.ns() >= kLongSteps * found_.iterations.p50_ns;
  }

  bool others_are_busy(const Open& window) const {
    int64_t busy_ns = 0;
    for (const TrackId thread : view_.threads()) {
      if (thread == window.thread) continue;
      const auto own = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const Open& open) { return open.thread == thread; });
      busy_ns += look_at(view_, thread, window, own == calls_.end() ? nullptr : &*own).busy_ns;
    }
    return busy_ns * 10 >= window.ns();
  }

  // 0 = in what others do.
  static int weight_of(const Open& open) {
    switch (open.doing) {
      case Doing::kRead:
      case Doing::kWrite:
      case Doing::kMetadata:
      case Doing::kFileSync:
      case Doing::kFault:
        return 3;
      case Doing::kNetwork:
        return 2;
      case Doing::kSleep:
        return 1;
      default:
        return 0;
    }
  }

  void find_hang(UnderWay& out) const {
    const Open* driver = of_driver();
    if (driver == nullptr || others_are_busy(*driver)) return;
    const Open* culprit = driver;
    for (const Open& open : calls_) {  // the longest first
      const bool is_there = 2 * open.ns() >= driver->ns();
      if (weight_of(*driver) == 0 && is_there && weight_of(open) > weight_of(*culprit)) {
        culprit = &open;
      }
    }
    const auto rows = view_.recording().rows(driver->thread);
    const int64_t life_ns = driver->end_ns - view_.recording().start(rows.first);
    out.hang = fmt::format(
        "hangs in {}: {} was in it for {}, {:.0f} % of the time, and it was still running when the "
        "recording ended",
        words_of(*culprit), name_of(culprit->thread),
        base::format_seconds(static_cast<double>(culprit->ns()) * 1e-9),
        100 * static_cast<double>(std::min(culprit->ns(), life_ns)) /
            static_cast<double>(std::max<int64_t>(1, life_ns)));
    if (culprit != driver) {
      out.hang += fmt::format("; {} waited in {}", name_of(driver->thread), words_of(*driver));
    }
  }

  const View& view_;
  const Job& job_;
  const Explanation& found_;
  std::vector<Open> calls_;  // the longest first
};

}  // namespace

UnderWay under_way_of(const View& view, const Job& job, const Explanation& found) {
  return UnderWayFinder(view, job, found).find();
}

}  // namespace forebay::explain

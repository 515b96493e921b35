#include "explain/driver_owner.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

namespace forebay::explain {
namespace {

constexpr std::string_view kLaunchCause = "idle while the host prepares launches";
// No launch takes a tenth of a second: a call that does loads code, allocates or sets up a device.
constexpr int64_t kLongCallNs = 100'000'000;

// Turns a driver's segments and the blame of its waits into owned pieces.
class Owner {
 public:
  // `preparing_share`: of the running code of the helpers that was sampled.
  Owner(const View& view, const StackMeaning& meaning, double preparing_share, Work& work)
      : view_(view),
        meaning_(meaning),
        preparing_share_(preparing_share),
        work_(work),
        time_(*work.time) {
    time_.causes.emplace_back();
    files_ = view.column(view.keys().file, time_.plan.track);
    stacks_ = view.column(view.keys().stack, time_.plan.track);
    fetch_ns_ = view.column(view.keys().fetch_ns, time_.plan.track);
    prepare_ns_ = view.column(view.keys().prepare_ns, time_.plan.track);
    first_row_ = view.recording().rows(time_.plan.track).first;
  }

  void run(bool has_other_drivers) {
    has_other_drivers_ = has_other_drivers;
    size_t next_wait = 0;
    for (size_t i = 0; i < work_.segments.size(); ++i) {
      const Segment& segment = work_.segments[i];
      is_running_ = segment.doing == Doing::kOnCpu || segment.doing == Doing::kLaunch;
      if (next_wait < work_.waits.size() && work_.waits[next_wait].segment == i) {
        split_wait(segment, work_.waits[next_wait++]);
      } else {
        own(segment);
      }
      note_call(segment);
    }
    if (time_.pieces.empty()) return;
    time_.begin_ns = time_.pieces.front().begin_ns;
    time_.started_ns = std::max(time_.started_ns, time_.begin_ns);
    time_.end_ns = time_.pieces.back().end_ns;
  }

 private:
  void put(int64_t begin_ns, int64_t end_ns, Part part, std::string_view cause) {
    if (end_ns <= begin_ns) return;
    const uint32_t number = cause_number(cause);
    std::vector<Owned>& pieces = time_.pieces;
    if (!pieces.empty() && pieces.back().part == part && pieces.back().cause == number &&
        pieces.back().is_running == is_running_ && pieces.back().end_ns == begin_ns) {
      pieces.back().end_ns = end_ns;
    } else {
      pieces.push_back({begin_ns, end_ns, part, is_running_, number});
    }
  }

  uint32_t cause_number(std::string_view cause) {
    if (cause.empty()) return 0;
    const auto found = known_.find(cause);
    if (found != known_.end()) return found->second;
    const auto number = static_cast<uint32_t>(time_.causes.size());
    time_.causes.emplace_back(cause);
    known_.emplace(std::string(cause), number);
    return number;
  }

  void own(const Segment& segment) {
    const int64_t begin = segment.begin_ns, end = segment.end_ns, ns = end - begin;
    switch (segment.purpose) {
      case Purpose::kCompute:
        if (segment.doing == Doing::kReady) break;
        return put(begin, end, Part::kCompute, "");
      case Purpose::kCheckpoint:
        return put_inside(segment, Part::kCheckpoint, "saving state");
      case Purpose::kSync:
        return put(begin, end, Part::kSyncStall, "at a collective or barrier");
      case Purpose::kFetch:
        // What it does says more than that it fetches.
        if (segment.doing == Doing::kMetadata || segment.doing == Doing::kNetwork) break;
        time_.own_read_ns += ns;
        return put_inside(segment, Part::kFetchStall, "reading itself");
      case Purpose::kPrepare:
        time_.own_prepare_ns += ns;
        return put_inside(segment, Part::kPrepStall, kDecodingCause);
      case Purpose::kStart:
        if (segment.doing == Doing::kReady) break;
        return put(begin, end, Part::kOther, kStartCause);
      case Purpose::kData:
        if (segment.doing == Doing::kOnCpu || segment.doing == Doing::kReady ||
            segment.doing == Doing::kWrite) {
          time_.own_prepare_ns += ns;
          return put_inside(segment, Part::kPrepStall, kPreparingCause);
        }
        break;
      case Purpose::kNone:
        break;
    }
    own_by_doing(segment, ns);
  }

  void own_by_doing(const Segment& segment, int64_t ns) {
    const int64_t begin = segment.begin_ns, end = segment.end_ns;
    switch (segment.doing) {
      case Doing::kOnCpu:
      case Doing::kLaunch:
      case Doing::kDeviceSync:
        if (time_.plan.kind == DriverKind::kEmulatedDevice) {
          return put(begin, end, Part::kOther, "between steps");
        }
        if (time_.plan.kind == DriverKind::kAccelerator) return own_host_work(segment, ns);
        return put(begin, end, Part::kCompute, "");
      case Doing::kRead:
        time_.own_read_ns += ns;
        return put(begin, end, Part::kFetchStall, "reading itself");
      case Doing::kMetadata:
        time_.own_metadata_ns += ns;
        return put(begin, end, Part::kFetchStall, "opening, listing and asking about files itself");
      case Doing::kFault:
        return own_fault(segment, ns);
      case Doing::kNetwork:
        time_.own_network_ns += ns;
        return put(begin, end, Part::kFetchStall, "receiving and sending itself");
      case Doing::kWrite:
      case Doing::kFileSync:
        return put(begin, end, Part::kOther, "writing files");
      case Doing::kReady:
        time_.ready_ns += ns;
        return put(begin, end, Part::kOther, kReadyCause);
      case Doing::kOutside:
        time_.outside_ns += ns;
        return put(begin, end, Part::kOther, kOutsideCause);
      case Doing::kChild:
        return put(begin, end, Part::kIdle, "waiting for child processes");
      case Doing::kSleep:
        return own_sleep(segment, ns);
      case Doing::kCollective:
        return put(begin, end, Part::kSyncStall, "at a collective or barrier");
      case Doing::kCopy:
        return put(begin, end, Part::kCopy, "between host and device");
      default:
        return put(begin, end, Part::kOther, "in a wait that nothing explains");
    }
  }

  // Where a stretch without a core lengthens a part, its cause says so.
  void put_inside(const Segment& segment, Part part, std::string_view cause) {
    if (segment.doing != Doing::kReady) {
      return put(segment.begin_ns, segment.end_ns, part, cause);
    }
    put(segment.begin_ns, segment.end_ns, part, fmt::format("{}{}", cause, kWithoutCore));
  }

  // Remembers the folder of a call on data; waiting for anything else forgets it.
  void note_call(const Segment& segment) {
    const bool is_late = segment.doing == Doing::kReady && segment.begin_ns == asleep_until_ns_;
    if (is_late) asleep_until_ns_ = segment.end_ns;  // it still waits for a core to return with
    if (segment.doing == Doing::kOnCpu || segment.doing == Doing::kReady) return;
    if (segment.doing == Doing::kSleep) return;  // it may sleep again
    folder_ = {};
    const bool is_call = segment.doing == Doing::kRead || segment.doing == Doing::kMetadata ||
                         segment.doing == Doing::kWrite;
    if (!is_call || segment.row == kNone || segment.row < first_row_) return;
    const int64_t file = at(files_, segment.row - first_row_);
    if (file == trace::kNoValue || view_.class_of_file(file) != FileClass::kRegular) return;
    const std::string_view path = view_.words().text(static_cast<uint32_t>(file));
    if (!is_program_file(path)) folder_ = path.substr(0, path.rfind('/'));
  }

  void own_sleep(const Segment& segment, int64_t ns) {
    constexpr size_t kCausesMax = 100;  // a sleep in each of many folders says nothing of one
    std::string cause(kAsleepCause);
    if (!folder_.empty() && time_.causes.size() < kCausesMax) {
      cause += fmt::format(" after calls on {}", folder_).substr(0, 160);
    }
    DriverTime::Sleeps& sleeps = time_.sleeps[cause_number(cause)];
    sleeps.ns += ns;
    // One sleep comes in pieces: the call up to where it leaves the CPU, the time off it, the way
    // back.
    if (segment.begin_ns != asleep_until_ns_) {
      ++sleeps.count;
      name_sleep(segment, sleeps);
    }
    asleep_until_ns_ = segment.end_ns;
    put(segment.begin_ns, segment.end_ns, Part::kIdle, cause);
  }

  // By the call's own stack; else by code that was sampled right beside it.
  void name_sleep(const Segment& segment, DriverTime::Sleeps& sleeps) const {
    constexpr int64_t kBesideNs = 500'000;
    const auto name = [&](trace::StackId stack) {
      const trace::Frame* frame = meaning_.shown_frame(stack);
      if (frame != nullptr) ++sleeps.functions[frame_text(view_, *frame)];
    };
    if (segment.row != kNone && segment.row >= first_row_) {
      const int64_t stack = at(stacks_, segment.row - first_row_);
      if (stack != trace::kNoValue) return name(static_cast<uint32_t>(stack));
    }
    const auto near =
        std::lower_bound(work_.samples.begin(), work_.samples.end(), segment.begin_ns - kBesideNs,
                         [](const auto& sample, int64_t ns) { return sample.first < ns; });
    for (auto sample = near; sample != work_.samples.end(); ++sample) {
      if (sample->first > segment.end_ns + kBesideNs) break;
      name(sample->second);
    }
  }

  // An accelerator idles while its host is busy.
  void own_host_work(const Segment& segment, int64_t ns) {
    if (ns >= kLongCallNs && segment.row != kNone) {
      const std::string what =
          fmt::format("idle while the host is in {}", view_.recording().text(segment.row));
      return put(segment.begin_ns, segment.end_ns, Part::kIdle, what.substr(0, 160));
    }
    time_.launch_idle_ns += ns;
    put(segment.begin_ns, segment.end_ns, Part::kIdle, kLaunchCause);
  }

  void own_fault(const Segment& segment, int64_t ns) {
    time_.own_fault_ns += ns;
    const bool has_file = segment.row != kNone && segment.row >= first_row_ &&
                          at(files_, segment.row - first_row_) != trace::kNoValue;
    const bool may_know = !files_.empty();
    if (may_know && !has_file) {
      time_.anonymous_fault_ns += ns;
      return put(segment.begin_ns, segment.end_ns, Part::kOther, "fetching its memory back");
    }
    put(segment.begin_ns, segment.end_ns, Part::kFetchStall, "page faults on files");
  }

  // A wait goes to what the awaited threads did, in proportion; what they do not explain stays
  // without a culprit.
  void split_wait(const Segment& segment, const Wait& wait) {
    const int64_t length = segment.end_ns - segment.begin_ns;
    time_.wait_ns += length;
    if (put_told(segment)) return;
    if (segment.begin_ns >= time_.handed_over_ns && wait.of_workers.busy() > 0) {
      return split_join(segment, wait.of_workers);
    }
    Blame blame = wait.all;
    if (wait.by_waker.busy() * 2 >= length) {
      blame = wait.by_waker;
      blame.add(held_up(wait, length));
    }
    const int64_t helpers = blame.busy() - blame.sync;
    // Other ranks are to blame only when nobody who could bring data was busy.
    if (helpers * 10 > length) blame.sync = 0;
    time_.waited_for.add(blame);
    const bool is_data = segment.purpose == Purpose::kData;
    const int64_t busy = blame.busy();
    if (busy * 10 <= length) return put_unexplained(segment, blame, is_data);
    const int64_t explained = is_data ? length : std::min(length, busy);
    int64_t at_ns = segment.begin_ns, given = 0, seen = 0;
    const auto share = [&](int64_t part_ns, Part part, std::string_view cause) {
      if (part_ns == 0) return;
      seen += part_ns;
      // The last one takes what rounding left.
      const auto until = seen == busy ? explained
                                      : static_cast<int64_t>(static_cast<double>(explained) *
                                                             static_cast<double>(seen) /
                                                             static_cast<double>(busy));
      put(at_ns, at_ns + (until - given), part, cause);
      at_ns += until - given;
      given = until;
    };
    share(blame.fetch, Part::kFetchStall, "waiting while helpers read");
    share(blame.network, Part::kFetchStall, "waiting while helpers receive");
    share(blame.prepare, Part::kPrepStall, "waiting while helpers decode");
    share(blame.save, Part::kCheckpoint, "waiting while helpers save");
    share(blame.write, Part::kOther, "waiting while helpers write files");
    share(blame.sync, Part::kSyncStall, "waiting for other ranks");
    if (time_.plan.kind == DriverKind::kAccelerator) {
      const int64_t before_ns = at_ns;
      share(blame.compute, Part::kIdle, kLaunchCause);
      time_.launch_idle_ns += at_ns - before_ns;
    } else {
      share(blame.compute, Part::kCompute, "in other threads of the job");
    }
    put_left(segment, at_ns);
  }

  // The threads do all the work: each instant of the wait is theirs, in proportion.
  void split_join(const Segment& segment, const Blame& blame) {
    const int64_t ran = blame.prepare - blame.ready;
    const auto prepared = static_cast<int64_t>(static_cast<double>(ran) * preparing_share_);
    struct Share {
      int64_t ns;
      Part part;
      std::string_view cause;
    };
    const std::array<Share, 10> shares{{
        {blame.fetch, Part::kFetchStall, "waiting while helpers read"},
        {blame.network, Part::kFetchStall, "waiting while helpers receive"},
        {prepared, Part::kPrepStall, "waiting while helpers decode"},
        {blame.save, Part::kCheckpoint, "waiting while helpers save"},
        {blame.write, Part::kOther, "waiting while helpers write files"},
        {blame.sync, Part::kSyncStall, "waiting for other ranks"},
        {blame.ready, Part::kOther, kThreadsReadyCause},
        {blame.lock, Part::kOther, kThreadsLockedCause},
        {blame.sleep, Part::kIdle, "its threads sleep"},
        {ran - prepared + blame.compute, Part::kCompute, "in other threads of the job"},
    }};
    int64_t all = 0, seen = 0, at_ns = segment.begin_ns;
    for (const Share& share : shares) all += share.ns;
    const auto length = static_cast<double>(segment.end_ns - segment.begin_ns);
    time_.waited_for.add(blame);
    for (const Share& share : shares) {
      seen += share.ns;
      const int64_t until =
          seen == all ? segment.end_ns
                      : segment.begin_ns + static_cast<int64_t>(length * static_cast<double>(seen) /
                                                                static_cast<double>(all));
      put(at_ns, until, share.part, share.cause);
      at_ns = std::max(at_ns, until);
    }
  }

  // While the one that ended a wait stood at a lock itself, the driver waited for what the others
  // did, one of whom had the lock.
  static Blame held_up(const Wait& wait, int64_t length) {
    const int64_t at_lock = std::min(length - wait.by_waker.busy(), wait.by_waker.lock);
    const int64_t others = wait.all.busy() - wait.by_waker.busy();
    if (at_lock <= 0 || others <= 0) return {};
    const double scale = std::min(1.0, static_cast<double>(at_lock) / static_cast<double>(others));
    const auto part = [&](int64_t Blame::*what) {
      return static_cast<int64_t>(static_cast<double>(wait.all.*what - wait.by_waker.*what) *
                                  scale);
    };
    Blame blame;
    for (int64_t Blame::*what : {&Blame::fetch, &Blame::network, &Blame::prepare, &Blame::save,
                                 &Blame::write, &Blame::sync, &Blame::compute})
      blame.*what = part(what);
    return blame;
  }

  // What nobody explains of a wait, from `begin` on.
  void put_left(const Segment& segment, int64_t begin) {
    const int64_t end = segment.end_ns;
    if (segment.doing == Doing::kLock) {
      return put(begin, end, Part::kOther, "waiting for another thread, nobody saw for what");
    }
    if (segment.doing != Doing::kUnrecorded) {
      return put(begin, end, Part::kIdle, "in a wait that nothing explains");
    }
    if (time_.plan.kind == DriverKind::kAccelerator) {
      return put(begin, end, Part::kIdle, "idle while nobody saw the host");
    }
    time_.unseen_ns += end - begin;
    put(begin, end, Part::kOther, kUnseenCause);
  }

  // A loader that says itself what a wait was for knows best: our own does.
  bool put_told(const Segment& segment) {
    if (segment.row == kNone || segment.row < first_row_ || fetch_ns_.empty()) return false;
    const int64_t fetch = at(fetch_ns_, segment.row - first_row_);
    const int64_t prepare = at(prepare_ns_, segment.row - first_row_);
    if (fetch == trace::kNoValue || prepare == trace::kNoValue) return false;
    const int64_t fetched = std::min(segment.begin_ns + fetch, segment.end_ns);
    const int64_t prepared = std::min(fetched + prepare, segment.end_ns);
    time_.waited_for.fetch += fetched - segment.begin_ns;
    time_.waited_for.prepare += prepared - fetched;
    put(segment.begin_ns, fetched, Part::kFetchStall, "waiting while helpers read");
    put(fetched, prepared, Part::kPrepStall, "waiting while helpers decode");
    put(prepared, segment.end_ns, Part::kOther, "waking up late");
    return true;
  }

  void put_unexplained(const Segment& segment, const Blame& blame, bool is_data) {
    const int64_t begin = segment.begin_ns, end = segment.end_ns;
    if (segment.doing == Doing::kUnrecorded) return put_left(segment, begin);
    if (blame.sleep * 2 >= end - begin) {
      time_.waited_for.prepare += end - begin;
      return put(begin, end, Part::kPrepStall, "waiting while helpers sleep");
    }
    if (segment.doing == Doing::kNetwork) {
      time_.own_network_ns += end - begin;
      return has_other_drivers_
                 ? put(begin, end, Part::kSyncStall, "waiting for other ranks' messages")
                 : put(begin, end, Part::kFetchStall, "receiving and sending itself");
    }
    if (is_data) {
      return put(begin, end, Part::kFetchStall, "waiting for data; who makes it was not recorded");
    }
    put_left(segment, begin);
  }

  const View& view_;
  const StackMeaning& meaning_;
  const double preparing_share_;
  Work& work_;
  DriverTime& time_;
  std::string_view folder_;  // of the last call, when it was on data
  int64_t asleep_until_ns_ = INT64_MIN;
  std::span<const int64_t> stacks_, files_, fetch_ns_, prepare_ns_;
  size_t first_row_ = 0;
  bool has_other_drivers_ = false;
  bool is_running_ = false;
  std::map<std::string, uint32_t, std::less<>> known_;
};

}  // namespace

void own_driver(const View& view, const StackMeaning& meaning, double preparing_share,
                bool has_other_drivers, Work& work) {
  Owner(view, meaning, preparing_share, work).run(has_other_drivers);
}

}  // namespace forebay::explain

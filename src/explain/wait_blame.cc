#include "explain/wait_blame.h"

#include <algorithm>
#include <array>
#include <map>
#include <thread>
#include <utility>

#include "explain/fetch_phase.h"
#include "explain/saves.h"
#include "sys/thread.h"

namespace forebay::explain {

using trace::TrackId;

namespace {

void add_to(HelperUse::Times& times, Doing doing, int64_t ns) {
  switch (doing) {
    case Doing::kReady:
      times.ready += ns;
      [[fallthrough]];
    case Doing::kOnCpu:
    case Doing::kLaunch:
      times.cpu += ns;
      break;
    case Doing::kRead:
      times.read += ns;
      break;
    case Doing::kMetadata:
      times.metadata += ns;
      break;
    case Doing::kFault:
      times.fault += ns;
      break;
    case Doing::kNetwork:
      times.network += ns;
      break;
    case Doing::kWrite:
    case Doing::kFileSync:
      times.write += ns;
      break;
    case Doing::kLock:
    case Doing::kCollective:
      times.lock += ns;
      break;
    case Doing::kPoll:
    case Doing::kChild:
    case Doing::kDeviceSync:
    case Doing::kCopy:
      times.poll += ns;
      break;
    case Doing::kSleep:
      times.sleep += ns;
      break;
    case Doing::kUnseen:
      times.unseen += ns;
      break;
    case Doing::kUnrecorded:
    case Doing::kOutside:
      break;
  }
}

void add_to(Blame& blame, const Segment& segment, int64_t ns) {
  if (segment.purpose == Purpose::kCheckpoint) {
    blame.save += ns;
    return;
  }
  if (segment.purpose == Purpose::kPrepare && segment.doing != Doing::kRead) {
    blame.prepare += ns;
    return;
  }
  const bool is_operator = segment.is_operator && segment.purpose == Purpose::kNone;
  if (is_operator || segment.purpose == Purpose::kCompute) {
    blame.compute += ns;
    return;
  }
  switch (segment.doing) {
    case Doing::kReady:
      blame.ready += ns;
      [[fallthrough]];
    case Doing::kOnCpu:
      blame.prepare += ns;
      break;
    case Doing::kLaunch:
      blame.compute += ns;
      break;
    case Doing::kRead:
    case Doing::kMetadata:
    case Doing::kFault:
      blame.fetch += ns;
      break;
    case Doing::kNetwork:
      blame.network += ns;
      break;
    case Doing::kWrite:
    case Doing::kFileSync:
      blame.write += ns;
      break;
    case Doing::kLock:
      blame.lock += ns;
      break;
    case Doing::kSleep:
      blame.sleep += ns;
      break;
    default:
      break;
  }
}

// What a wait in a call may be for, by the call's name.
enum class WaitFor : uint8_t {
  kUnknown,    // a lock, or anything: the kernel sees a futex
  kEvent,      // what others make: conditions, the end of a thread, all others at a barrier
  kSemaphore,  // Python's locks, and the timed conditions that its global lock waits on
};
WaitFor wait_of_call(std::string_view call) {
  for (const std::string_view timed : {"cond_timedwait", "cond_clockwait", "sem_"}) {
    if (call.find(timed) != std::string_view::npos) return WaitFor::kSemaphore;
  }
  for (const std::string_view event : {"cond_wait", "pthread_join", "barrier"}) {
    if (call.find(event) != std::string_view::npos) return WaitFor::kEvent;
  }
  return WaitFor::kUnknown;
}

// Walks helpers and adds what they did to the waits of the drivers they help.
class HelperReader {
 public:
  HelperReader(const View& view, std::vector<Work>& works) : view_(view), works_(works) {
    for (const Work& work : works) waits_.push_back(work.waits);
    ready_others_.resize(works.size(), 0);
    for (const trace::Name& name : view.words().names) {
      waits_for_.push_back(wait_of_call(view.words().text(name)));
    }
  }

  // `is_other_driver`: its being busy keeps the others waiting for it, not for data.
  HelperUse read(TrackId thread, bool is_other_driver) {
    HelperUse use{.thread = thread};
    std::vector<size_t> mine;
    for (size_t i = 0; i < works_.size(); ++i) {
      const DriverPlan& plan = works_[i].time->plan;
      const bool helps =
          std::find(plan.helpers.begin(), plan.helpers.end(), thread) != plan.helpers.end();
      if (is_other_driver ? plan.track != thread : helps) mine.push_back(i);
    }
    std::vector<size_t> next(works_.size(), 0), next_ready(works_.size(), 0);
    const trace::TrackId process = view_.process_of(thread);
    SaveMarker saves(is_other_driver ? std::vector<Save>() : saves_of(view_, thread, false));
    const auto meet_all = [&](Segment segment) {
      saves.mark(segment);
      const int64_t ns = segment.end_ns - segment.begin_ns;
      use.life_ns += ns;
      use.end_ns = segment.end_ns;
      add_to(use.all, segment.doing, ns);
      int64_t in_stalls = 0;
      if (segment.doing == Doing::kOnCpu) meet_ready(segment, next_ready);
      for (const size_t i : mine) {
        in_stalls =
            std::max(in_stalls, meet(segment, i, next[i], thread, process, is_other_driver));
      }
      add_to(use.in_stalls, segment.doing, in_stalls);
      if (segment.doing == Doing::kLock) add_wait(segment, in_stalls, use.in_stalls);
    };
    ActivityWalk walk(view_, thread);
    FetchPhase phase(true);
    walk.run([&](const Segment& segment) { phase.take(segment, meet_all); }, [](size_t) {});
    phase.end(meet_all);
    // A pool's spare threads wait all their lives, and nobody for them.
    if (use.all.busy() * 20 < use.life_ns) in_joins_.clear();
    for (const auto& [place, blame] : in_joins_) {
      waits_[place.first][place.second].of_workers.add(blame);
    }
    in_joins_.clear();
    return use;
  }

  std::vector<std::vector<Wait>>& waits() { return waits_; }
  int64_t ready_others(size_t driver) const { return ready_others_[driver]; }

 private:
  // Only what is not a lock for sure: who ended the wait is a driver, or the call says so.
  void add_wait(const Segment& segment, int64_t ns, HelperUse::Times& times) const {
    const bool by_driver = std::any_of(works_.begin(), works_.end(), [&](const Work& work) {
      return segment.waker != kNone && segment.waker == work.time->plan.track;
    });
    const WaitFor what = segment.row == kNone ? WaitFor::kUnknown
                                              : waits_for_[view_.recording().name_id(segment.row)];
    if (by_driver || what == WaitFor::kEvent) {
      times.event += ns;
    } else if (what == WaitFor::kSemaphore) {
      times.semaphore += ns;
    }
  }

  // Who runs while a driver is ready has a core that it would take.
  void meet_ready(const Segment& segment, std::vector<size_t>& next) {
    for (size_t driver = 0; driver < works_.size(); ++driver) {
      const auto& ready = works_[driver].ready;
      size_t& at = next[driver];
      while (at < ready.size() && ready[at].second <= segment.begin_ns) ++at;
      for (size_t i = at; i < ready.size() && ready[i].first < segment.end_ns; ++i) {
        ready_others_[driver] +=
            std::min(ready[i].second, segment.end_ns) - std::max(ready[i].first, segment.begin_ns);
      }
    }
  }

  int64_t meet(const Segment& segment, size_t driver, size_t& next, TrackId thread, TrackId process,
               bool is_other_driver) {
    std::vector<Wait>& waits = waits_[driver];
    while (next < waits.size() && waits[next].end_ns <= segment.begin_ns) ++next;
    int64_t together = 0;
    for (size_t i = next; i < waits.size() && waits[i].begin_ns < segment.end_ns; ++i) {
      Wait& wait = waits[i];
      const int64_t ns =
          std::min(wait.end_ns, segment.end_ns) - std::max(wait.begin_ns, segment.begin_ns);
      together += ns;
      Blame here;
      if (is_other_driver) {
        const bool is_waiting = is_wait(segment) || segment.doing == Doing::kCollective ||
                                segment.doing == Doing::kChild;
        if (!is_waiting) here.sync += ns;
      } else if (is_collective(segment)) {
        here.sync += ns;
      } else {
        add_to(here, segment, ns);
      }
      wait.all.add(here);
      if (wait.begin_ns >= works_[driver].time->handed_over_ns) in_joins_[{driver, i}].add(here);
      if (is_waker(wait, thread, process, driver)) wait.by_waker.add(here);
    }
    return together;
  }

  // Ranks meet in it. Threads of one process that wait at a barrier of their own do not.
  bool is_collective(const Segment& segment) const {
    if (segment.purpose != Purpose::kSync) return false;
    return segment.row == kNone ||
           view_.recording().name(segment.row).category != trace::Category::kLock;
  }

  // The thread that ended the wait; of another process any of its threads, as one of them may only
  // pass on what another has made.
  bool is_waker(const Wait& wait, TrackId thread, TrackId process, size_t driver) const {
    if (wait.waker == kNone) return false;
    if (wait.waker == thread) return true;
    const TrackId own = view_.process_of(works_[driver].time->plan.track);
    return process != own && view_.process_of(wait.waker) == process;
  }

  const View& view_;
  const std::vector<Work>& works_;
  std::vector<std::vector<Wait>> waits_;  // copies, so that two readers need no lock
  std::vector<int64_t> ready_others_;
  std::vector<WaitFor> waits_for_;                       // by name
  std::map<std::pair<size_t, size_t>, Blame> in_joins_;  // of the helper being read: driver, wait
};

}  // namespace

// Reads all helpers on two threads, each with its own copy of the waits.
Status read_helpers(const View& view, const Job& job, std::vector<Work>& works,
                    std::vector<HelperUse>& uses) {
  std::vector<std::pair<TrackId, bool>> todo;
  for (const TrackId helper : job.helpers) todo.emplace_back(helper, false);
  if (works.size() > 1) {
    for (const Work& work : works) {
      if (work.time->plan.kind == DriverKind::kThread) {
        todo.emplace_back(work.time->plan.track, true);
      }
    }
  }
  uses.resize(todo.size());
  constexpr size_t kReaders = 2;
  std::array<HelperReader, kReaders> readers{HelperReader(view, works), HelperReader(view, works)};
  // Halves of about the same number of events.
  std::array<std::vector<size_t>, kReaders> turns;
  std::array<size_t, kReaders> events{};
  for (size_t i = 0; i < todo.size(); ++i) {
    const size_t less = events[0] <= events[1] ? 0 : 1;
    turns[less].push_back(i);
    events[less] += view.recording().rows(todo[i].first).size();
  }
  const auto read = [&](size_t reader) {
    for (const size_t i : turns[reader]) {
      uses[i] = readers[reader].read(todo[i].first, todo[i].second);
    }
  };
  {
    const std::jthread second =
        FB_TRY(sys::start_thread("explain", [&](const std::stop_token&) { read(1); }));
    read(0);
  }
  for (size_t i = 0; i < works.size(); ++i) {
    for (HelperReader& reader : readers) {
      works[i].time->ready_others_ns += reader.ready_others(i);
      for (size_t w = 0; w < works[i].waits.size(); ++w) {
        works[i].waits[w].all.add(reader.waits()[i][w].all);
        works[i].waits[w].by_waker.add(reader.waits()[i][w].by_waker);
        works[i].waits[w].of_workers.add(reader.waits()[i][w].of_workers);
      }
    }
  }
  uses.resize(job.helpers.size());
  return {};
}

void find_helper_function(const View& view, StackMeaning& meaning, HelperUse& use) {
  const auto stacks = view.column(view.keys().stack, use.thread);
  const auto rows = view.recording().rows(use.thread);
  std::map<std::string, int64_t> functions;
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (stacks[i] == trace::kNoValue) continue;
    const int64_t period = view.recording().duration(rows.first + i);
    const auto stack = static_cast<uint32_t>(stacks[i]);
    use.sampled_ns += period;
    if (meaning.is_python(stack)) use.python_ns += period;
    const Purpose purpose = meaning.purpose(stack);
    if (purpose == Purpose::kPrepare || purpose == Purpose::kData) use.preparing_ns += period;
    if (const trace::Frame* frame = meaning.shown_frame(stack)) {
      functions[frame_text(view, *frame)] += period;
    }
  }
  int64_t most = 0;
  for (const auto& [name, ns] : functions) {
    if (ns <= most) continue;
    most = ns;
    use.function = name;
  }
  use.is_python = use.python_ns * 2 > use.sampled_ns;
}

}  // namespace forebay::explain

#include "explain/job.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "explain/activity.h"

namespace forebay::explain {
namespace {

using trace::Category;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

// What matters of a thread for choosing it.
struct Candidate {
  TrackId thread = kNoId;
  uint64_t events = 0, steps = 0, launches = 0;
  int64_t begin_ns = 0, end_ns = 0;
  bool is_main = false;
};

Candidate look_at(const View& view, TrackId thread) {
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(thread);
  Candidate found{.thread = thread, .events = rows.size()};
  found.begin_ns = recording.start(rows.first);
  found.end_ns = recording.start(rows.last - 1);
  for (size_t row = rows.first; row < rows.last; ++row) {
    const trace::NameId name = recording.name_id(row);
    if (view.is_step(name)) ++found.steps;
    if (view.words().names[name].category == Category::kLaunch) ++found.launches;
  }
  const TrackId process = view.process_of(thread);
  found.is_main = process != kNoId && view.track(process).number == view.track(thread).number;
  return found;
}

// The one that trains, of the threads of one process.
const Candidate& best_thread(const std::vector<Candidate>& threads) {
  return *std::max_element(threads.begin(), threads.end(),
                           [](const Candidate& a, const Candidate& b) {
                             const auto rank = [](const Candidate& c) {
                               return std::tuple(c.steps > 1, c.launches, c.is_main, -c.begin_ns);
                             };
                             return rank(a) < rank(b);
                           });
}

// Mostly waiting for its children: a shell, a launcher; by a call for that, or in one long wait for
// what they print.
bool only_waits(const View& view, TrackId thread) {
  int64_t waited = 0, total = 0, longest = 0, in_row = 0;
  uint32_t last_row = kNone;
  const size_t first = view.recording().rows(thread).first;
  const auto reasons = view.column(view.keys().reason, thread);
  const auto for_child = [&](uint32_t row) {
    if (row == kNone) return false;
    const int64_t reason = at(reasons, row - first);
    const std::string& text = reason == trace::kNoValue
                                  ? view.recording().text(row)
                                  : view.words().text(static_cast<uint32_t>(reason));
    return text.find("wait4") != std::string::npos || text.find("waitid") != std::string::npos ||
           text.find("waitpid") != std::string::npos;
  };
  ActivityWalk(view, thread)
      .run(
          [&](const Segment& segment) {
            total += segment.end_ns - segment.begin_ns;
            if (for_child(segment.row)) waited += segment.end_ns - segment.begin_ns;
            if (segment.doing != Doing::kPoll && segment.doing != Doing::kUnseen &&
                segment.doing != Doing::kChild) {
              return;
            }
            in_row = segment.row == last_row ? in_row : 0;
            last_row = segment.row;
            in_row += segment.end_ns - segment.begin_ns;
            longest = std::max(longest, in_row);
          },
          [](size_t) {});
  return waited * 10 >= total * 8 || longest * 10 >= total * 6;
}

class JobFinder {
 public:
  explicit JobFinder(const View& view) : view_(view) {
    for (const TrackId thread : view.threads()) {
      // What was said about a process as a whole stands for its only thread.
      processes_[view.process_of(thread)].push_back(look_at(view, thread));
    }
  }

  Job find() {
    find_emulated();
    if (job_.drivers.empty()) find_accelerators();
    if (job_.drivers.empty()) find_marked();
    if (job_.drivers.empty()) find_trainers();
    find_helpers();
    return std::move(job_);
  }

 private:
  bool has_category(TrackId track, Category category) const {
    const auto rows = view_.recording().rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (view_.recording().name(row).category == category) return true;
    }
    return false;
  }

  void find_emulated() {
    for (const TrackId device : view_.devices()) {
      if (has_category(device, Category::kDataWait) ||
          has_category(device, Category::kCheckpoint) ||
          (has_category(device, Category::kCompute) && has_category(device, Category::kStep))) {
        job_.drivers.push_back({device, DriverKind::kEmulatedDevice, kNoId, view_.rank_of(device)});
      }
    }
  }

  bool has_work(TrackId device) const {
    for (TrackId id = 0; id < view_.words().tracks.size(); ++id) {
      const bool below = id == device || view_.track(id).parent == device;
      if (below && (has_category(id, Category::kCompute) || has_category(id, Category::kCopy) ||
                    has_category(id, Category::kCollective))) {
        return true;
      }
    }
    return false;
  }

  void find_accelerators() {
    for (const TrackId device : view_.devices()) {
      if (!has_work(device)) continue;
      DriverPlan plan{device, DriverKind::kAccelerator, kNoId, view_.rank_of(device)};
      // The thread that launches, in the device's process, else in its file.
      uint64_t most = 0;
      for (const auto& [process, threads] : processes_) {
        for (const Candidate& thread : threads) {
          const bool same =
              view_.recording().file_of(thread.thread) == view_.recording().file_of(device);
          const uint64_t weight = thread.launches * 4 + thread.steps + (thread.is_main ? 1 : 0);
          if (same && weight > most) {
            most = weight;
            plan.host_thread = thread.thread;
          }
        }
      }
      if (plan.rank < 0 && plan.host_thread != kNoId) plan.rank = view_.rank_of(plan.host_thread);
      job_.drivers.push_back(plan);
    }
  }

  void find_marked() {
    for (const auto& [process, threads] : processes_) {
      for (const Candidate& thread : threads) {
        if (thread.steps >= 2) add_thread(thread.thread);
      }
    }
  }

  void add_thread(TrackId thread) {
    job_.drivers.push_back({thread, DriverKind::kThread, kNoId, view_.rank_of(thread)});
  }

  bool is_root(TrackId process) const {
    const uint32_t parent = process == kNoId ? kNone : view_.parent_process(process);
    if (parent == kNone || processes_.count(parent) == 0) return true;
    return view_.rank_of(process) >= 0 && view_.rank_of(process) != view_.rank_of(parent);
  }

  std::vector<TrackId> children_of(TrackId process) const {
    std::vector<TrackId> found;
    for (const auto& [child, threads] : processes_) {
      if (child != kNoId && view_.parent_process(child) == process) found.push_back(child);
    }
    return found;
  }

  // Down past launchers to who trains.
  void descend(TrackId process, int depth) {
    const Candidate& best = best_thread(processes_.at(process));
    const std::vector<TrackId> children = children_of(process);
    if (depth < 8 && !children.empty() && only_waits(view_, best.thread)) {
      const std::vector<TrackId> trainers = who_may_train(children);
      for (const TrackId child : trainers) descend(child, depth + 1);
      if (!trainers.empty()) return;
    }
    add_thread(best.thread);
  }

  // Ranks run side by side: all of them. Of a script's commands, which follow each other, the one
  // that takes half of their time; none where none does: then the script itself is the program.
  std::vector<TrackId> who_may_train(const std::vector<TrackId>& children) const {
    struct Life {
      int64_t begin_ns, end_ns;
      TrackId process;
      int64_t ns() const { return end_ns - begin_ns; }
    };
    std::vector<Life> lives;
    for (const TrackId child : children) lives.push_back({begin_of(child), end_of(child), child});
    std::sort(lives.begin(), lives.end(),
              [](const Life& a, const Life& b) { return a.begin_ns < b.begin_ns; });
    int64_t sum = 0, together = 0, until_ns = INT64_MIN;
    std::vector<int64_t> ends;
    for (const Life& life : lives) ends.push_back(life.end_ns);
    std::sort(ends.begin(), ends.end());
    size_t begun = 0, ended = 0, most = 0;  // alive at once
    for (const Life& life : lives) {
      while (ended < ends.size() && ends[ended] <= life.begin_ns) ++ended;
      ++begun;
      most = std::max(most, begun - std::min(begun, ended));
      sum += life.ns();
      together += std::max<int64_t>(0, life.end_ns - std::max(life.begin_ns, until_ns));
      until_ns = std::max(until_ns, life.end_ns);
    }
    // The end of a command may be seen late: a few then seem to overlap.
    if (2 * sum >= 3 * together && 2 * most > children.size()) return children;
    const Life& longest = *std::max_element(
        lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.ns() < b.ns(); });
    if (2 * longest.ns() < together) return {};
    return {longest.process};
  }

  void find_trainers() {
    std::vector<TrackId> roots;
    for (const auto& [process, threads] : processes_) {
      if (is_root(process)) roots.push_back(process);
    }
    if (roots.empty()) return;
    std::set<int> ranks;
    for (const TrackId root : roots) ranks.insert(root == kNoId ? -1 : view_.rank_of(root));
    if (ranks.size() > 1 || *ranks.begin() >= 0) {
      for (const TrackId root : first_of_each_rank(roots)) descend(root, 0);
      return;
    }
    // Whose forks were not seen: the first one began the others.
    const TrackId first = *std::min_element(roots.begin(), roots.end(), [&](TrackId a, TrackId b) {
      return begin_of(a) < begin_of(b);
    });
    // A launcher that only waits: for those that nobody saw it begin.
    const bool is_launcher = roots.size() > 1 && children_of(first).empty() &&
                             only_waits(view_, best_thread(processes_.at(first)).thread);
    if (!is_launcher) return descend(first, 0);
    roots.erase(std::find(roots.begin(), roots.end(), first));
    const std::vector<TrackId> trainers = who_may_train(roots);
    for (const TrackId root : trainers) descend(root, 1);
    if (trainers.empty()) add_thread(best_thread(processes_.at(first)).thread);
  }

  int64_t begin_of(TrackId process) const {
    int64_t begin = INT64_MAX;
    for (const Candidate& thread : processes_.at(process)) begin = std::min(begin, thread.begin_ns);
    return begin;
  }

  int64_t end_of(TrackId process) const {
    int64_t end = INT64_MIN;
    for (const Candidate& thread : processes_.at(process)) end = std::max(end, thread.end_ns);
    return end;
  }

  std::vector<TrackId> first_of_each_rank(const std::vector<TrackId>& roots) const {
    std::map<int, TrackId> first;
    for (const TrackId root : roots) {
      const int rank = view_.rank_of(root);
      if (rank < 0) continue;
      const auto [found, is_new] = first.emplace(rank, root);
      if (!is_new && begin_of(root) < begin_of(found->second)) found->second = root;
    }
    std::vector<TrackId> out;
    for (const auto& [rank, root] : first) out.push_back(root);
    return out;
  }

  TrackId root_of(TrackId process) const {
    for (int depth = 0; depth < 64 && process != kNoId && !is_root(process); ++depth) {
      process = view_.parent_process(process);
    }
    return process;
  }

  bool is_driver_thread(TrackId thread) const {
    return std::any_of(job_.drivers.begin(), job_.drivers.end(), [&](const DriverPlan& driver) {
      return driver.track == thread || driver.host_thread == thread;
    });
  }

  // Below a driver's process in the tree and nobody else's, or anybody when only one trains.
  bool helps(const DriverPlan& driver, TrackId thread) const {
    if (job_.drivers.size() == 1) return true;
    const TrackId own = driver.host_thread != kNoId ? driver.host_thread : driver.track;
    const TrackId mine = view_.process_of(own), theirs = view_.process_of(thread);
    if (mine == theirs && mine != kNoId) return true;
    if (driver.rank >= 0 && view_.rank_of(thread) >= 0) {
      return driver.rank == view_.rank_of(thread);
    }
    for (uint32_t up = theirs; up != kNone; up = view_.parent_process(up)) {
      if (up == mine) return true;
    }
    if (driver.kind == DriverKind::kEmulatedDevice) {
      return view_.recording().ancestor(own, TrackKind::kHost) ==
             view_.recording().ancestor(thread, TrackKind::kHost);
    }
    return mine != kNoId && root_of(mine) == root_of(theirs) && drivers_below(root_of(mine)) == 1;
  }

  size_t drivers_below(TrackId root) const {
    return static_cast<size_t>(std::count_if(
        job_.drivers.begin(), job_.drivers.end(),
        [&](const DriverPlan& driver) { return root_of(view_.process_of(driver.track)) == root; }));
  }

  void find_helpers() {
    for (const TrackId thread : view_.threads()) {
      if (is_driver_thread(thread)) continue;
      bool any = false;
      for (DriverPlan& driver : job_.drivers) {
        if (!helps(driver, thread)) continue;
        driver.helpers.push_back(thread);
        any = true;
      }
      if (any) job_.helpers.push_back(thread);
    }
  }

  const View& view_;
  std::map<TrackId, std::vector<Candidate>> processes_;
  Job job_;
};

}  // namespace

Job find_job(const View& view) {
  return JobFinder(view).find();
}

}  // namespace forebay::explain

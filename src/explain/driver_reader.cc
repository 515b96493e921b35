#include "explain/driver_reader.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "explain/fetch_phase.h"

namespace forebay::explain {

using trace::TrackId;

namespace {

// Reads a driver's thread; samples tell what its time on the CPU was for.
class DriverReader {
 public:
  DriverReader(const View& view, StackMeaning& meaning, const std::vector<Save>& saves, Work& work)
      : view_(view), meaning_(meaning), saves_(saves), work_(work) {}

  void read(TrackId track) {
    stacks_ = view_.column(view_.keys().stack, track);
    files_ = view_.column(view_.keys().file, track);
    first_row_ = view_.recording().rows(track).first;
    find_first_step(track);
    ActivityWalk walk(view_, track);
    FetchPhase phase(false);
    const auto keep = [&](const Segment& segment) { take(segment); };
    walk.run([&](const Segment& segment) { phase.take(segment, keep); },
             [&](size_t row) {
               phase.end(keep);
               sample(row);
             });
    phase.end(keep);
    mark_start();
    work_.time->prepare_function = longest(functions_, work_.time->prepare_is_python);
    bool is_python = false;
    work_.time->save_function = longest(save_functions_, is_python);
  }

 private:
  void take(const Segment& segment) {
    std::vector<Segment>& all = work_.segments;
    const bool may_run = segment.doing == Doing::kOnCpu || segment.doing == Doing::kReady;
    if (may_run) unsampled_.push_back(all.size());
    all.push_back(segment);
    if (!is_training_) look_for_start(segment);
  }

  void find_first_step(TrackId track) {
    const auto rows = view_.recording().rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (!view_.is_step(view_.recording().name_id(row))) continue;
      first_step_ns_ = view_.recording().start(row);
      return;
    }
  }

  // A program starts until the last call on its own files before its first work: a step, a read of
  // data, a wait, or long running without such a call.
  void look_for_start(const Segment& segment) {
    const int64_t ns = segment.end_ns - segment.begin_ns;
    const bool is_call = segment.row != kNone && segment.row >= first_row_;
    const int64_t file = is_call ? at(files_, segment.row - first_row_) : trace::kNoValue;
    const bool is_program =
        file != trace::kNoValue && is_program_file(view_.words().text(static_cast<uint32_t>(file)));
    begin_ns_ = std::min(begin_ns_, segment.begin_ns);
    if (segment.end_ns > first_step_ns_ || segment.purpose != Purpose::kNone) {
      has_worked_ = is_training_ = true;
    } else if (has_worked_) {
      // Code is fetched at any time; modules are opened and read. A call may come in pieces.
      const bool is_import = is_program && segment.row != import_row_ &&
                             (segment.doing == Doing::kMetadata || segment.doing == Doing::kRead);
      return look_for_imports(segment, is_import);
    } else if (is_program) {
      start_seen(segment.end_ns);
    } else if (segment.doing == Doing::kOnCpu) {
      since_start_ns_ += ns;
      has_worked_ = since_start_ns_ > kStartGapNs;
    } else if (segment.doing == Doing::kRead) {
      has_worked_ = file != trace::kNoValue;
    } else if (segment.doing != Doing::kReady && segment.doing != Doing::kMetadata &&
               segment.doing != Doing::kFault && segment.doing != Doing::kUnseen) {
      has_worked_ = ns >= kStartWaitNs;
    }
    if (has_worked_) worked_ns_ = segment.begin_ns;
  }

  // What looked like work was none where the program goes on loading modules, before it has worked
  // for as long as it had started: a wait for a child that was asked something, a file of settings,
  // or for whoever started it. What others keep its core for is no work.
  void look_for_imports(const Segment& segment, bool is_import) {
    constexpr int kImports = 20;
    constexpr int64_t kTogetherNs = 100'000'000;
    if (segment.doing != Doing::kReady) since_work_ns_ += segment.end_ns - segment.begin_ns;
    if (since_work_ns_ > std::max(worked_ns_ - begin_ns_, kStartGapNs)) {
      is_training_ = true;
    } else if (is_import) {
      import_row_ = segment.row;
      imports_ = segment.begin_ns - import_ns_ <= kTogetherNs ? imports_ + 1 : 1;
      import_ns_ = segment.end_ns;
      if (imports_ < kImports) return;
      has_worked_ = false;
      since_work_ns_ = 0;
      start_seen(segment.end_ns);
    }
  }
  void start_seen(int64_t ns) {
    started_ns_ = ns;
    since_start_ns_ = 0;
  }

  void mark_start() {
    for (Segment& segment : work_.segments) {
      if (segment.end_ns > started_ns_) break;
      const bool is_busy = segment.doing == Doing::kOnCpu || segment.doing == Doing::kRead ||
                           segment.doing == Doing::kMetadata || segment.doing == Doing::kFault;
      if (is_busy) segment.purpose = Purpose::kStart;
    }
    work_.time->started_ns = started_ns_;
  }

  // The CPU time since the sample before was like what is seen now; what is too long ago is not
  // known to be.
  void sample(size_t row) {
    const int64_t stack = at(stacks_, row - first_row_);
    const int64_t period = std::max<int64_t>(view_.recording().duration(row), 1);
    if (stack == trace::kNoValue) return;
    const Purpose purpose = meaning_.purpose(static_cast<uint32_t>(stack));
    const int64_t now_ns = view_.recording().start(row);
    work_.samples.emplace_back(now_ns, static_cast<uint32_t>(stack));
    if (!has_worked_) {
      // A name that native code alone gives may be the nearest symbol only.
      const bool is_sure =
          purpose != Purpose::kCompute || meaning_.is_python(static_cast<uint32_t>(stack));
      if (purpose == Purpose::kStart) {
        start_seen(now_ns);
      } else {
        has_worked_ = purpose != Purpose::kNone && is_sure;
        worked_ns_ = now_ns;
      }
    }
    const int64_t since_ns = purpose == Purpose::kCheckpoint ? save_began(now_ns) : INT64_MIN;
    sampled_ns_ = now_ns;
    int64_t covered = 0;
    for (size_t i = unsampled_.size(); i-- > 0 && covered < 2 * period;) {
      Segment& segment = work_.segments[unsampled_[i]];
      if (segment.begin_ns < since_ns) break;
      if (segment.doing == Doing::kOnCpu) covered += segment.end_ns - segment.begin_ns;
      if (segment.purpose == Purpose::kNone || segment.purpose == Purpose::kData) {
        if (purpose != Purpose::kNone) segment.purpose = purpose;
      }
    }
    unsampled_.clear();
    if (purpose == Purpose::kPrepare || purpose == Purpose::kData) {
      count(stack, period, functions_);
    } else if (purpose == Purpose::kCheckpoint || is_saving(now_ns)) {
      count(stack, period, save_functions_);
    }
  }

  // A save that was begun since the sample before: what came before it was something else.
  int64_t save_began(int64_t now_ns) const {
    const auto next =
        std::upper_bound(saves_.begin(), saves_.end(), now_ns,
                         [](int64_t at_ns, const Save& save) { return at_ns < save.begin_ns; });
    if (next == saves_.begin() || std::prev(next)->begin_ns <= sampled_ns_) return INT64_MIN;
    return std::prev(next)->begin_ns;
  }

  bool is_saving(int64_t now_ns) const {
    const auto next =
        std::upper_bound(saves_.begin(), saves_.end(), now_ns,
                         [](int64_t at_ns, const Save& save) { return at_ns < save.begin_ns; });
    return next != saves_.begin() && now_ns < std::prev(next)->end_ns;
  }

  using Functions = std::map<std::string, std::pair<int64_t, bool>>;

  void count(int64_t stack, int64_t period, Functions& functions) const {
    const trace::Frame* frame = meaning_.shown_frame(static_cast<uint32_t>(stack));
    if (frame == nullptr) return;
    auto& found = functions[frame_text(view_, *frame)];
    found.first += period;
    found.second = meaning_.is_python(static_cast<uint32_t>(stack));
  }

  static std::string longest(const Functions& functions, bool& is_python) {
    int64_t most = 0;
    std::string found;
    for (const auto& [name, use] : functions) {
      if (use.first <= most) continue;
      most = use.first;
      found = name;
      is_python = use.second;
    }
    return found;
  }

  // More running without a call on the program's files is work; an import that computes longer is
  // sampled. A wait this long is for somebody.
  static constexpr int64_t kStartGapNs = 500'000'000, kStartWaitNs = 1'000'000;

  const View& view_;
  StackMeaning& meaning_;
  const std::vector<Save>& saves_;
  Work& work_;
  int64_t sampled_ns_ = INT64_MIN;
  std::span<const int64_t> stacks_, files_;
  size_t first_row_ = 0;
  std::vector<size_t> unsampled_;
  Functions functions_, save_functions_;
  bool has_worked_ = false, is_training_ = false;  // as it seems; for sure
  int64_t begin_ns_ = INT64_MAX, worked_ns_ = 0, import_ns_ = 0;
  int imports_ = 0;  // one after the other
  uint32_t import_row_ = kNone;
  int64_t first_step_ns_ = INT64_MAX, started_ns_ = INT64_MIN, since_start_ns_ = 0;
  int64_t since_work_ns_ = 0;  // with a core, since what looked like work
};

}  // namespace

void read_driver(const View& view, StackMeaning& meaning, const std::vector<Save>& saves,
                 Work& work) {
  DriverReader(view, meaning, saves, work).read(work.time->plan.track);
}

}  // namespace forebay::explain

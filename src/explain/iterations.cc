#include "explain/iterations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/median.h"
#include "base/units.h"
#include "explain/iteration_search.h"

namespace forebay::explain {

using base::median_of;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;

namespace {

struct Mark {
  int64_t begin_ns = 0, end_ns = 0;
  int64_t number = -1, epoch = -1;
  bool is_span = false;
};

// ProfilerStep#12, "step 12" -> 12.
int64_t number_in(const std::string& text) {
  const size_t last = text.find_last_not_of("0123456789");
  const size_t first = last == std::string::npos ? 0 : last + 1;
  if (first >= text.size() || text.size() - first > 15) return -1;
  const auto number = base::parse_int(std::string_view(text).substr(first));
  return number.ok() ? *number : -1;
}

std::vector<Mark> marks_on(const View& view, TrackId track, std::string& name) {
  std::vector<Mark> marks;
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(track);
  const auto steps = view.column(view.keys().step, track);
  const auto epochs = view.column(view.keys().epoch, track);
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (!view.is_step(recording.name_id(row))) continue;
    const size_t index = row - rows.first;
    const bool is_span = recording.name(row).kind == EventKind::kSpan;
    const int64_t end = is_span ? recording.end(row) : recording.start(row);
    // A step inside a step is part of it.
    if (!marks.empty() && marks.back().is_span && recording.start(row) < marks.back().end_ns &&
        end <= marks.back().end_ns) {
      continue;
    }
    Mark mark{recording.start(row), end, -1, -1, is_span};
    const int64_t number = at(steps, index), epoch = at(epochs, index);
    mark.number = number != trace::kNoValue ? number : number_in(recording.text(row));
    if (epoch != trace::kNoValue) mark.epoch = epoch;
    if (name.empty()) name = recording.text(row).substr(0, recording.text(row).find('#'));
    marks.push_back(mark);
  }
  return marks;
}

// The nearest-rank percentile.
int64_t percentile_of(std::vector<int64_t> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(p / 100 * static_cast<double>(values.size())));
  return values[std::min(values.size() - 1, rank == 0 ? 0 : rank - 1)];
}

// Iterations end where the marks end: what comes before a step (its data) belongs to it. Instants
// are boundaries.
std::vector<Iteration> from_marks(const std::vector<Mark>& marks, const DriverTime& time) {
  std::vector<Iteration> out;
  const bool are_spans = marks.front().is_span;
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < marks.size(); ++i) {
    gaps.push_back(are_spans ? marks[i].begin_ns - marks[i - 1].end_ns
                             : marks[i].begin_ns - marks[i - 1].begin_ns);
  }
  const int64_t gap = std::max<int64_t>(0, median_of(gaps));
  if (are_spans) {
    int64_t last_end = std::max(time.begin_ns, marks.front().begin_ns - gap);
    for (const Mark& mark : marks) {
      Iteration step{.number = mark.number, .begin_ns = last_end, .end_ns = mark.end_ns};
      step.begin_ns = std::min(step.begin_ns, mark.end_ns);
      last_end = mark.end_ns;
      out.push_back(step);
    }
    return out;
  }
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    out.push_back({.number = marks[i].number,
                   .begin_ns = marks[i].begin_ns,
                   .end_ns = marks[i + 1].begin_ns});
  }
  // After the last mark one more may have begun; before the first one may have ended.
  const int64_t rest = time.end_ns - marks.back().begin_ns;
  if (rest > gap / 10) {
    const bool is_whole = rest >= gap * 9 / 10;
    const int64_t end = is_whole ? std::min(time.end_ns, marks.back().begin_ns + gap) : time.end_ns;
    Iteration last{.number = marks.back().number, .begin_ns = marks.back().begin_ns, .end_ns = end};
    last.is_partial = true;
    out.push_back(last);
  }
  return out;
}

std::vector<Iteration> from_boundaries(const std::vector<int64_t>& boundaries) {
  std::vector<Iteration> out;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    out.push_back({.number = static_cast<int64_t>(i),
                   .begin_ns = boundaries[i],
                   .end_ns = boundaries[i + 1]});
  }
  return out;
}

// Distributes a driver's pieces over its iterations; both are in order.
class Cutter {
 public:
  Cutter(const DriverTime& time, Driver& driver) : time_(time), driver_(driver) {}

  void run() {
    size_t next = 0;
    std::vector<int64_t> by_cause_steps(time_.causes.size() * kParts, 0);
    std::vector<int64_t> by_cause_whole(by_cause_steps.size(), 0);
    for (const Owned& piece : time_.pieces) {
      const size_t cause = piece.cause * kParts + static_cast<size_t>(piece.part);
      by_cause_whole[cause] += piece.end_ns - piece.begin_ns;
      driver_.whole[piece.part] += piece.end_ns - piece.begin_ns;
      std::vector<Iteration>& steps = driver_.iterations;
      while (next < steps.size() && steps[next].end_ns <= piece.begin_ns) ++next;
      for (size_t i = next; i < steps.size() && steps[i].begin_ns < piece.end_ns; ++i) {
        const int64_t ns =
            std::min(steps[i].end_ns, piece.end_ns) - std::max(steps[i].begin_ns, piece.begin_ns);
        steps[i].parts[piece.part] += ns;
        if (!steps[i].is_partial) by_cause_steps[cause] += ns;
      }
    }
    for (Iteration& step : driver_.iterations) finish(step);
    const bool any = std::any_of(driver_.iterations.begin(), driver_.iterations.end(),
                                 [](const Iteration& step) { return !step.is_partial; });
    if (any && outside_ns_ > 0) {
      driver_.causes.push_back(
          {Part::kOther, "before the thread's first event, or after its last", outside_ns_});
    }
    take_causes(any ? by_cause_steps : by_cause_whole);
  }

 private:
  static constexpr int64_t kSaveShare = 20;  // less than a twentieth makes no iteration slow

  // What no piece covers (the thread had not begun, or had ended) has no known owner.
  void finish(Iteration& step) {
    const int64_t outside_ns = step.end_ns - step.begin_ns - step.parts.total_ns();
    step.parts[Part::kOther] += outside_ns;
    if (!step.is_partial) outside_ns_ += outside_ns;
    // The end of a save that reaches over the boundary is the iteration's before.
    step.has_checkpoint =
        step.parts[Part::kCheckpoint] * kSaveShare >= std::max<int64_t>(1, step.parts.total_ns());
    if (!step.is_partial) driver_.steps.add(step.parts);
  }

  void take_causes(const std::vector<int64_t>& ns) {
    for (size_t i = 0; i < ns.size(); ++i) {
      const std::string& what = time_.causes[i / kParts];
      if (ns[i] > 0 && !what.empty()) {
        driver_.causes.push_back({static_cast<Part>(i % kParts), what, ns[i]});
      }
    }
    std::sort(driver_.causes.begin(), driver_.causes.end(),
              [](const Cause& a, const Cause& b) { return a.ns > b.ns; });
  }

  const DriverTime& time_;
  Driver& driver_;
  int64_t outside_ns_ = 0;  // of complete iterations, covered by no piece
};

}  // namespace

namespace {

class IterationFinder {
 public:
  IterationFinder(const View& view, const JobTime& time, Explanation& out)
      : view_(view), time_(time), out_(out) {}

  void run() {
    for (const DriverTime& driver : time_.drivers) add_driver(driver);
    for (size_t i = 0; i < out_.drivers.size(); ++i) find_for(i);
    if (!found_any_) search_helpers();
    for (size_t i = 0; i < out_.drivers.size(); ++i) {
      Cutter(time_.drivers[i], out_.drivers[i]).run();
      out_.whole.add(out_.drivers[i].whole);
      out_.steps.add(out_.drivers[i].steps);
      add_causes(out_.drivers[i]);
    }
    summarise();
    const int64_t origin = view_.recording().begin_ns();
    for (Driver& driver : out_.drivers) {
      driver.begin_ns -= origin;
      driver.end_ns -= origin;
      for (Iteration& step : driver.iterations) {
        step.begin_ns -= origin;
        step.end_ns -= origin;
      }
    }
  }

 private:
  void add_driver(const DriverTime& time) {
    Driver driver;
    driver.track = time.plan.track;
    driver.name = view_.recording().track_path(time.plan.track);
    driver.is_device = time.plan.kind != DriverKind::kThread;
    driver.rank = time.plan.rank;
    driver.begin_ns = time.begin_ns;
    driver.end_ns = time.end_ns;
    out_.drivers.push_back(std::move(driver));
  }

  void find_for(size_t i) {
    const DriverTime& time = time_.drivers[i];
    Driver& driver = out_.drivers[i];
    const TrackId marked = time.plan.host_thread != kNoId ? time.plan.host_thread : time.plan.track;
    std::string name;
    const std::vector<Mark> marks = marks_on(view_, marked, name);
    // Checking the search against marks is a service, not worth seconds.
    constexpr size_t kCheckedRows = 2'000'000;
    const bool is_small = view_.recording().rows(time.plan.track).size() < kCheckedRows;
    if (marks.size() >= 2) {
      driver.iterations = from_marks(marks, time);
      mark_epochs(driver, marks);
      note_found(fmt::format("marks '{}'", name), 1, 1, 1);
      if (!out_.iterations.error_against_marks && is_small) check_against(i);
      return;
    }
    const Found found = search(time);
    if (found.boundaries.empty()) {
      if (out_.iterations.reason.empty()) out_.iterations.reason = found.reason;
      return;
    }
    if (!spans_most_of(found.boundaries, time)) {
      if (out_.iterations.reason.empty()) {
        out_.iterations.reason = "the best pattern covers less than half of the run";
      }
      return;
    }
    if (are_between_saves(found.boundaries, time)) {
      if (out_.iterations.reason.empty()) {
        out_.iterations.reason =
            "only saves repeat: between them nothing was called that tells steps apart";
      }
      return;
    }
    driver.iterations = from_boundaries(found.boundaries);
    note_found(found.method, found.confidence, found.coverage, found.regularity);
  }

  // Nothing is an iteration while the program starts, or once it only waits for threads that do all
  // the work.
  Found search(const DriverTime& time) const {
    const std::vector<Token> tokens = tokens_of(view_, time.plan);
    const auto token =
        std::lower_bound(tokens.begin(), tokens.end(), time.started_ns,
                         [](const Token& one, int64_t ns) { return one.time_ns < ns; });
    const auto piece =
        std::lower_bound(time.pieces.begin(), time.pieces.end(), time.started_ns,
                         [](const Owned& one, int64_t ns) { return one.begin_ns < ns; });
    const auto last_token =
        std::upper_bound(token, tokens.end(), time.handed_over_ns,
                         [](int64_t ns, const Token& one) { return ns < one.time_ns; });
    const auto last_piece =
        std::upper_bound(piece, time.pieces.end(), time.handed_over_ns,
                         [](int64_t ns, const Owned& one) { return ns <= one.begin_ns; });
    const std::span<const Token> calls(token, last_token);
    const std::span<const Owned> pieces(piece, last_piece);
    if (!view_.sees_calls_only(time.plan.track)) {
      return search_iterations(calls, pieces, time.kinds_of_causes());
    }
    return search_between_calls(calls, pieces, time);
  }

  // What lies between calls repeats with the program, though nobody knows what it is.
  static Found search_between_calls(std::span<const Token> calls, std::span<const Owned> pieces,
                                    const DriverTime& time) {
    std::vector<Owned> phases(pieces.begin(), pieces.end());
    for (Owned& phase : phases) {
      if (time.causes[phase.cause] == kUnseenCause) phase.part = Part::kCompute;
    }
    Found found = search_iterations(calls, phases, time.kinds_of_causes());
    if (found.method == "phases of compute") found.method = "phases without calls";
    return found;
  }

  // What was busy for a moment, while the program started for example, are no iterations of
  // training.
  static bool spans_most_of(const std::vector<int64_t>& boundaries, const DriverTime& driver) {
    return (boundaries.back() - boundaries.front()) * 2 >= driver.end_ns - driver.started_ns;
  }

  // Each saves, and none fetches or prepares anything: the stretches from one save to the next,
  // with any number of steps in each.
  static bool are_between_saves(const std::vector<int64_t>& boundaries, const DriverTime& time) {
    std::vector<int64_t> saved(boundaries.size(), 0);
    int64_t data_ns = 0;
    size_t next = 0;
    for (const Owned& piece : time.pieces) {
      while (next + 1 < boundaries.size() && boundaries[next + 1] <= piece.begin_ns) ++next;
      for (size_t i = next; i + 1 < boundaries.size() && boundaries[i] < piece.end_ns; ++i) {
        const int64_t ns =
            std::min(boundaries[i + 1], piece.end_ns) - std::max(boundaries[i], piece.begin_ns);
        if (ns <= 0) continue;
        if (piece.part == Part::kCheckpoint) saved[i] += ns;
        if (piece.part == Part::kFetchStall || piece.part == Part::kPrepStall) data_ns += ns;
      }
    }
    const auto intervals = static_cast<int64_t>(boundaries.size()) - 1;
    const auto saving =
        std::count_if(saved.begin(), saved.end(), [](int64_t ns) { return ns > 0; });
    return saving * 10 >= intervals * 9 && data_ns * 100 < boundaries.back() - boundaries.front();
  }

  void note_found(const std::string& method, double confidence, double coverage,
                  double regularity) {
    Iterations& all = out_.iterations;
    if (!found_any_ || confidence < *all.confidence) {
      all.method = method;
      all.confidence = confidence;
      all.coverage = coverage;
      all.regularity = regularity;
    }
    found_any_ = true;
    all.is_found = true;
    all.reason.clear();
  }

  void check_against(size_t i) {
    const Found found = search(time_.drivers[i]);
    if (found.boundaries.size() < 2) return;
    const std::vector<Iteration> searched = from_boundaries(found.boundaries);
    std::vector<int64_t> ours, theirs;
    for (const Iteration& step : searched) ours.push_back(step.end_ns - step.begin_ns);
    for (const Iteration& step : out_.drivers[i].iterations) {
      if (!step.is_partial) theirs.push_back(step.end_ns - step.begin_ns);
    }
    const auto truth = static_cast<double>(median_of(theirs));
    if (truth <= 0) return;
    out_.iterations.count_without_marks = ours.size();
    out_.iterations.error_against_marks =
        std::abs(static_cast<double>(median_of(ours)) - truth) / truth;
  }

  static void mark_epochs(Driver& driver, const std::vector<Mark>& marks) {
    for (size_t i = 1; i < std::min(marks.size(), driver.iterations.size()); ++i) {
      const bool new_epoch = marks[i].epoch >= 0 && marks[i].epoch != marks[i - 1].epoch;
      const bool restarted = marks[i].number >= 0 && marks[i - 1].number > marks[i].number;
      if (new_epoch || restarted) driver.iterations[i].is_epoch_start = true;
    }
  }

  HelperUse use_of(TrackId helper) const {
    const auto use = std::find_if(time_.helpers.begin(), time_.helpers.end(),
                                  [&](const HelperUse& one) { return one.thread == helper; });
    return use == time_.helpers.end() ? HelperUse{} : *use;
  }

  // No pattern where training is: perhaps the loaders have one. A batch is a batch, whichever
  // worker made it.
  void search_helpers() {
    if (out_.drivers.empty()) return;
    std::vector<int64_t> merged;
    double confidence = 1, coverage = 1, regularity = 1;
    size_t looked = 0, found_in = 0;
    int64_t fetched_ns = 0, fetched_elsewhere_ns = 0;  // by one that has a pattern, or has none
    for (const TrackId helper : time_.drivers[0].plan.helpers) {
      const HelperUse use = use_of(helper);
      // What wakes up now and then to look around makes no batches.
      if (use.all.busy() * 20 < use.life_ns) continue;
      if (++looked > 16) break;
      const std::vector<Token> tokens = tokens_of(view_, {.track = helper});
      const Found found = search_iterations(tokens, {}, {});
      int64_t& fetched = found.boundaries.empty() ? fetched_elsewhere_ns : fetched_ns;
      fetched = std::max(fetched, use.all.read + use.all.network);
      if (found.boundaries.empty()) continue;
      ++found_in;
      merged.insert(merged.end(), found.boundaries.begin(), found.boundaries.end());
      confidence = std::min(confidence, found.confidence);
      coverage = std::min(coverage, found.coverage);
      regularity = std::min(regularity, found.regularity);
    }
    if (merged.size() < 4) return;
    if (fetched_elsewhere_ns * 2 > fetched_ns) {
      out_.iterations.reason = "some helper threads repeat themselves, others that read do not";
      return;
    }
    std::sort(merged.begin(), merged.end());
    merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
    if (!spans_most_of(merged, time_.drivers[0])) return;
    if (waits_in_one(merged, time_.drivers[0]) || takes_several(merged, found_in)) {
      out_.iterations.reason = "helper threads repeat themselves, but nobody uses each result";
      return;
    }
    out_.drivers[0].iterations = from_boundaries(merged);
    note_found("period of calls in helper threads", confidence, coverage, regularity);
  }

  // Half of the time in one wait: what the helpers do meanwhile are tasks of one job (a pool's
  // map), not batches that training takes one by one.
  static bool waits_in_one(const std::vector<int64_t>& boundaries, const DriverTime& driver) {
    int64_t begin = 0, end = INT64_MIN;
    int64_t longest = std::max<int64_t>(
        0, boundaries.back() - std::max(driver.handed_over_ns, boundaries.front()));
    for (const Owned& piece : driver.pieces) {
      if (piece.part == Part::kCompute) continue;
      if (piece.begin_ns != end) begin = piece.begin_ns;
      end = piece.end_ns;
      longest =
          std::max(longest, std::min(end, boundaries.back()) - std::max(begin, boundaries.front()));
    }
    return longest * 2 >= boundaries.back() - boundaries.front();
  }

  // Most rounds of the helpers end while training waits, and most of its waits last for several of
  // each helper: they make samples, of which training takes a batch at a time.
  bool takes_several(const std::vector<int64_t>& boundaries, size_t helpers) const {
    size_t ended = 0, in_waits = 0, waits = 0;
    bool is_counted = false;
    int64_t end = INT64_MIN;
    for (const Owned& piece : time_.drivers[0].pieces) {
      if (piece.part == Part::kCompute) continue;
      if (piece.begin_ns != end) is_counted = false;
      end = piece.end_ns;
      while (ended < boundaries.size() && boundaries[ended] < piece.begin_ns) ++ended;
      for (; ended < boundaries.size() && boundaries[ended] < end; ++ended, ++in_waits) {
        if (!is_counted) ++waits;
        is_counted = true;
      }
    }
    return in_waits * 2 > boundaries.size() && in_waits > 2 * helpers * waits;
  }

  void add_causes(const Driver& driver) {
    // Of one that has none while others have iterations, the causes are of another time.
    if (found_any_ && driver.steps.total_ns() == 0) return;
    for (const Cause& cause : driver.causes) {
      const auto same = std::find_if(out_.causes.begin(), out_.causes.end(), [&](const Cause& c) {
        return c.part == cause.part && c.what == cause.what;
      });
      if (same == out_.causes.end()) {
        out_.causes.push_back(cause);
      } else {
        same->ns += cause.ns;
      }
    }
    std::sort(out_.causes.begin(), out_.causes.end(),
              [](const Cause& a, const Cause& b) { return a.ns > b.ns; });
  }

  void summarise() {
    Iterations& all = out_.iterations;
    std::vector<int64_t> lengths;
    for (Driver& driver : out_.drivers) {
      for (const Iteration& step : driver.iterations) {
        if (step.is_partial) {
          ++all.partial;
        } else {
          lengths.push_back(step.end_ns - step.begin_ns);
        }
      }
    }
    all.count = lengths.size();
    if (lengths.empty()) {
      all.is_found = false;
      if (all.reason.empty()) all.reason = "nobody who trains was found in the recording";
      return;
    }
    all.mean_ns = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) /
                  static_cast<int64_t>(lengths.size());
    all.p50_ns = median_of(lengths);
    all.p90_ns = percentile_of(lengths, 90);
    all.p99_ns = percentile_of(lengths, 99);
    all.max_ns = *std::max_element(lengths.begin(), lengths.end());
    all.cv = variation_of(lengths, all.p99_ns);
    find_slow();
  }

  static double variation_of(const std::vector<int64_t>& lengths, int64_t p99) {
    double sum = 0, squares = 0, n = 0;
    for (const int64_t length : lengths) {
      if (length > p99) continue;
      const auto value = static_cast<double>(length);
      sum += value;
      squares += value * value;
      ++n;
    }
    if (n < 2 || sum == 0) return 0;
    const double mean = sum / n;
    return std::sqrt(std::max(0.0, squares / n - mean * mean)) / mean;
  }

  void find_slow();
  void add_kind(const std::string& kind, bool (*is_of)(const Iteration&));

  const View& view_;
  const JobTime& time_;
  Explanation& out_;
  bool found_any_ = false;
};

// What makes an iteration be explained apart.
bool is_ordinary(const Iteration& step) {
  return !step.is_partial && !step.is_epoch_start && !step.has_checkpoint && !step.is_slow;
}

// Every k-th: the most frequent distance between them, when most agree.
std::optional<uint64_t> regular_distance(const std::vector<size_t>& places) {
  std::map<size_t, size_t> distances;
  for (size_t i = 1; i < places.size(); ++i) ++distances[places[i] - places[i - 1]];
  for (const auto& [distance, count] : distances) {
    if (count >= 2 && count * 10 >= (places.size() - 1) * 8) return distance;
  }
  return std::nullopt;
}

// Without marks of epochs: long iterations that save nothing and come at one distance.
void find_epoch_starts(Driver& driver, int64_t ordinary_ns) {
  std::vector<size_t> places;
  for (size_t i = 0; i < driver.iterations.size(); ++i) {
    const Iteration& step = driver.iterations[i];
    if (step.is_epoch_start) return;
    const bool is_long = step.end_ns - step.begin_ns > 3 * ordinary_ns;
    if (is_long && !step.has_checkpoint && !step.is_partial) places.push_back(i);
  }
  // Two have one distance, whatever they are.
  if (places.size() < 3 || places.size() * 5 > driver.iterations.size()) return;
  const size_t distance = places[1] - places[0];
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i] - places[i - 1] != distance) return;
  }
  for (const size_t place : places) driver.iterations[place].is_epoch_start = true;
}

void IterationFinder::find_slow() {
  const Iterations& all = out_.iterations;
  for (Driver& driver : out_.drivers) find_epoch_starts(driver, all.p50_ns);
  for (Driver& driver : out_.drivers) {
    for (size_t i = 0; i < driver.iterations.size(); ++i) {
      Iteration& step = driver.iterations[i];
      const int64_t length = step.end_ns - step.begin_ns;
      step.is_slow = !step.is_partial && all.count >= 20 && length >= all.p99_ns &&
                     length > all.p50_ns * 3 / 2;
    }
  }
  add_kind("epoch start",
           [](const Iteration& step) { return step.is_epoch_start && !step.is_partial; });
  add_kind("checkpoint", [](const Iteration& step) {
    return step.has_checkpoint && !step.is_epoch_start && !step.is_partial;
  });
  add_kind("p99", [](const Iteration& step) {
    return step.is_slow && !step.is_epoch_start && !step.has_checkpoint && !step.is_partial;
  });
}

std::string ordinary_text(int64_t mean_ns, uint64_t count) {
  const std::string length = base::format_seconds(static_cast<double>(mean_ns) * 1e-9);
  if (count == 1) return length + " of the ordinary one";
  return fmt::format("mean {} of the {} ordinary ones", length, base::format_count(count));
}

// All figures are of the same iterations: the complete ones of this kind, beside the complete ones
// of no kind.
void IterationFinder::add_kind(const std::string& kind, bool (*is_of)(const Iteration&)) {
  SlowKind slow{.kind = kind};
  Breakdown of_slow, of_ordinary;
  int64_t ordinary = 0;
  std::optional<uint64_t> every;
  bool is_regular = true;
  for (const Driver& driver : out_.drivers) {
    std::vector<size_t> places;
    for (size_t i = 0; i < driver.iterations.size(); ++i) {
      const Iteration& step = driver.iterations[i];
      if (is_of(step)) {
        of_slow.add(step.parts);
        places.push_back(i);
      } else if (is_ordinary(step)) {
        of_ordinary.add(step.parts);
        ++ordinary;
      }
    }
    if (places.empty()) continue;
    slow.count += places.size();
    const std::optional<uint64_t> distance = regular_distance(places);
    is_regular = is_regular && distance && (!every || every == distance);
    every = distance;
  }
  // What most iterations are is the ordinary, and explained by the breakdown.
  if (slow.count == 0 || ordinary == 0 || slow.count * 2 > out_.iterations.count) return;
  const auto count = static_cast<int64_t>(slow.count);
  slow.mean_ns = of_slow.total_ns() / count;
  slow.ordinary_ns = of_ordinary.total_ns() / ordinary;
  slow.excess_ns = of_slow.total_ns() - slow.ordinary_ns * count;
  if (slow.mean_ns <= slow.ordinary_ns) return;
  size_t largest = 0;
  for (size_t part = 0; part < kParts; ++part) {
    slow.excess.ns[part] = of_slow.ns[part] / count - of_ordinary.ns[part] / ordinary;
    if (slow.excess.ns[part] > slow.excess.ns[largest]) largest = part;
  }
  if (is_regular) slow.every = every;
  slow.explanation =
      fmt::format("{}{}, {} more than the {}; {} grows by {}",
                  base::format_seconds(static_cast<double>(slow.mean_ns) * 1e-9),
                  slow.count == 1 ? "" : " each",
                  base::format_seconds(static_cast<double>(slow.mean_ns - slow.ordinary_ns) * 1e-9),
                  ordinary_text(slow.ordinary_ns, static_cast<uint64_t>(ordinary)),
                  part_name(static_cast<Part>(largest)),
                  base::format_seconds(static_cast<double>(slow.excess.ns[largest]) * 1e-9));
  out_.slow.push_back(std::move(slow));
}

}  // namespace

void find_iterations(const View& view, const JobTime& time, Explanation& out) {
  IterationFinder(view, time, out).run();
}

}  // namespace forebay::explain

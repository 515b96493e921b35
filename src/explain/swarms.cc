#include "explain/swarms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "explain/stack_meaning.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::Frame;
using trace::FrameKind;
using trace::kNoId;
using trace::StackId;
using trace::TrackId;

namespace {

constexpr size_t kCallers = 3;  // that tell swarms of one function apart
constexpr size_t kShown = 500, kCompared = 200;
constexpr size_t kTimePieces = 64;

// FNV-1a: the same in every run and on every machine.
void mix(uint64_t& hash, std::string_view text) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  hash ^= 0xff;
  hash *= 0x100000001b3ULL;
}

struct Sum {
  Swarm swarm;
  std::unordered_map<TrackId, int64_t> tracks;
};

class SwarmReader {
 public:
  explicit SwarmReader(const View& view)
      : view_(view),
        by_stack_(view.words().stacks.size(), kNone),
        by_name_(view.words().names.size(), kNone) {
    has_samples_ = view.keys().stack.has_value();
  }

  std::vector<Sum>& sums() { return sums_; }

  // `on(swarm, time_ns, ns, track)` for every sample, or every span's own time.
  template <class On>
  void each(On&& on) {
    if (has_samples_) {
      for (const TrackId thread : view_.threads()) each_sample(thread, on);
      return;
    }
    for (TrackId track = 0; track < view_.words().tracks.size(); ++track) {
      if (view_.is_selected(track)) each_span(track, on);
    }
  }

 private:
  template <class On>
  void each_sample(TrackId thread, On&& on) {
    const auto stacks = view_.column(view_.keys().stack, thread);
    const size_t first = view_.recording().rows(thread).first;
    for (size_t i = 0; i < stacks.size(); ++i) {
      if (stacks[i] == trace::kNoValue) continue;
      on(of_stack(static_cast<StackId>(stacks[i])), view_.recording().start(first + i),
         view_.recording().duration(first + i), thread);
    }
  }

  static bool is_function(Category category) {
    return category == Category::kFunction || category == Category::kOperator ||
           category == Category::kCompute || category == Category::kCollective ||
           category == Category::kCopy || category == Category::kLaunch ||
           category == Category::kPrepare;
  }

  // A span's own time is what the functions it calls leave.
  template <class On>
  void each_span(TrackId track, On&& on) {
    const trace::Recording& recording = view_.recording();
    const auto rows = recording.rows(track);
    struct Open {
      size_t row;
      int64_t end_ns, inner_ns;
    };
    std::vector<Open> open;
    const auto close = [&](int64_t until) {
      while (!open.empty() && open.back().end_ns <= until) {
        const Open done = open.back();
        open.pop_back();
        const int64_t ns = recording.duration(done.row);
        if (!open.empty()) open.back().inner_ns += ns;
        on(of_name(recording.name_id(done.row)), recording.start(done.row),
           std::max<int64_t>(0, ns - done.inner_ns), track);
      }
    };
    for (size_t row = rows.first; row < rows.last; ++row) {
      const trace::Name& name = recording.name(row);
      if (name.kind != EventKind::kSpan || !is_function(name.category)) continue;
      close(recording.start(row));
      open.push_back({row, recording.end(row), 0});
    }
    close(INT64_MAX);
  }

  void mix_frame(uint64_t& hash, const Frame& frame) const {
    const std::string& build = view_.words().text(frame.build_id);
    const std::string& symbol = view_.words().text(frame.symbol);
    // A rebuilt library keeps its name, so a symbol is known by that; without symbols the build
    // id says which offsets mean the same.
    if (!symbol.empty()) {
      mix(hash, file_name_of(view_.words().text(frame.module)));
      mix(hash, symbol);
    } else {
      mix(hash, build.empty() ? view_.words().text(frame.module) : build);
      mix(hash, fmt::format("{:x}", frame.offset));
    }
  }

  uint32_t of_stack(StackId stack) {
    if (by_stack_[stack] != kNone) return by_stack_[stack];
    uint64_t hash = 0xcbf29ce484222325ULL;
    std::string path;
    size_t depth = 0;
    for (StackId at = stack; at != kNoId && depth <= kCallers;
         at = view_.words().stacks[at].caller, ++depth) {
      const Frame& frame = view_.words().frames[view_.words().stacks[at].frame];
      mix_frame(hash, frame);
      if (depth == 0) continue;
      if (!path.empty()) path += " < ";
      path += short_text(frame);
    }
    const auto [found, is_new] = known_.emplace(hash, static_cast<uint32_t>(sums_.size()));
    if (is_new) add_swarm(hash, view_.words().frames[view_.words().stacks[stack].frame], path);
    return by_stack_[stack] = found->second;
  }

  std::string short_text(const Frame& frame) const {
    const std::string& symbol = view_.words().text(frame.symbol);
    if (!symbol.empty()) return symbol.substr(0, 120);
    return fmt::format("{}+{:#x}", file_name_of(view_.words().text(frame.module)), frame.offset);
  }

  void add_swarm(uint64_t hash, const Frame& frame, const std::string& path) {
    static constexpr std::array<const char*, trace::kFrameKinds> kKinds{"native", "kernel",
                                                                        "python", "native"};
    Swarm swarm;
    swarm.id = fmt::format("{:016x}", hash);
    swarm.kind = kKinds[static_cast<size_t>(frame.kind)];
    swarm.symbol = short_text(frame);
    swarm.module = view_.words().text(frame.module);
    swarm.path = path;
    if (frame.line > 0) {
      swarm.source = fmt::format("{}:{}", file_name_of(swarm.module), frame.line);
    }
    swarm.over_time_ns.resize(kTimePieces);
    sums_.push_back({std::move(swarm), {}});
  }

  uint32_t of_name(trace::NameId id) {
    if (by_name_[id] != kNone) return by_name_[id];
    const trace::Name& name = view_.words().names[id];
    uint64_t hash = 0xcbf29ce484222325ULL;
    mix(hash, trace::category_name(name.category));
    mix(hash, view_.words().text(name));
    by_name_[id] = static_cast<uint32_t>(sums_.size());
    Swarm swarm;
    swarm.id = fmt::format("{:016x}", hash);
    const bool on_device = name.category == Category::kCompute ||
                           name.category == Category::kCollective ||
                           name.category == Category::kCopy;
    swarm.kind = on_device ? "device" : "operator";
    swarm.symbol = view_.words().text(name).substr(0, 200);
    swarm.module = std::string(trace::category_name(name.category));
    swarm.over_time_ns.resize(kTimePieces);
    sums_.push_back({std::move(swarm), {}});
    return by_name_[id];
  }

  const View& view_;
  bool has_samples_ = false;
  std::vector<uint32_t> by_stack_, by_name_;
  std::unordered_map<uint64_t, uint32_t> known_;
  std::vector<Sum> sums_;
};

}  // namespace

std::vector<Swarm> swarms_of(const View& view, std::string& reason) {
  SwarmReader reader(view);
  const trace::Recording& recording = view.recording();
  const int64_t begin = recording.begin_ns();
  const double piece_ns = std::max(
      1.0, static_cast<double>(recording.end_ns() - begin) / static_cast<double>(kTimePieces));
  int64_t total = 0;
  reader.each([&](uint32_t swarm, int64_t time_ns, int64_t ns, TrackId track) {
    Sum& sum = reader.sums()[swarm];
    ++sum.swarm.samples;
    sum.swarm.self_ns += ns;
    sum.tracks[track] += ns;
    total += ns;
    const auto piece = static_cast<size_t>(static_cast<double>(time_ns - begin) / piece_ns);
    sum.swarm.over_time_ns[std::min(piece, kTimePieces - 1)] += ns;
  });
  std::vector<Swarm> out;
  for (Sum& sum : reader.sums()) {
    sum.swarm.share =
        total == 0 ? 0 : static_cast<double>(sum.swarm.self_ns) / static_cast<double>(total);
    const auto main =
        std::max_element(sum.tracks.begin(), sum.tracks.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (main != sum.tracks.end()) sum.swarm.main_track = recording.track_path(main->first);
    out.push_back(std::move(sum.swarm));
  }
  std::sort(out.begin(), out.end(),
            [](const Swarm& a, const Swarm& b) { return a.self_ns > b.self_ns; });
  if (out.size() > kShown) out.resize(kShown);
  if (out.empty()) {
    reason = "no samples of running code, and no spans of functions, operators or kernels";
  }
  return out;
}

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

struct Windows {
  std::vector<int64_t> begins, ends;  // in order, without overlap
  double a_second_in(size_t i) const {
    return static_cast<double>(kSecondNs) / static_cast<double>(ends[i] - begins[i]);
  }
  // The window that a moment lies in, kNone when between.
  uint32_t of(int64_t time_ns) const {
    const auto after = std::upper_bound(begins.begin(), begins.end(), time_ns);
    if (after == begins.begin()) return kNone;
    const auto i = static_cast<size_t>(after - begins.begin()) - 1;
    return time_ns < ends[i] ? static_cast<uint32_t>(i) : kNone;
  }
};

Windows iterations_of(const View& view, const Explanation& explanation) {
  Windows windows;
  if (!explanation.iterations.is_found || explanation.drivers.empty()) return windows;
  const int64_t origin = view.recording().begin_ns();
  for (const Iteration& step : explanation.drivers.front().iterations) {
    if (step.is_partial) continue;
    windows.begins.push_back(origin + step.begin_ns);
    windows.ends.push_back(origin + step.end_ns);
  }
  return windows;
}

// Whole seconds; of a recording that is shorter, all of it; of one that lasts for hours, or has one
// event far from all others, equal parts.
Windows seconds_of(const View& view) {
  constexpr int64_t kWindowsMax = 10'000;
  Windows windows;
  const int64_t begin = view.recording().begin_ns(), end = view.recording().end_ns();
  const int64_t window = std::min(end - begin, std::max(kSecondNs, (end - begin) / kWindowsMax));
  if (window <= 0) return windows;
  for (int64_t at = begin; at <= end - window; at += window) {
    windows.begins.push_back(at);
    windows.ends.push_back(at + window);
  }
  return windows;
}

std::vector<Measured::Row> parts_by_iteration(const Explanation& explanation) {
  std::vector<Measured::Row> rows{{"iteration", "", "", "", {}}};
  for (size_t i = 0; i < kParts; ++i) {
    rows.push_back({std::string(part_name(static_cast<Part>(i))), "", "", "", {}});
  }
  for (const Driver& driver : explanation.drivers) {
    for (const Iteration& step : driver.iterations) {
      if (step.is_partial) continue;
      rows[0].ns.push_back(static_cast<double>(step.end_ns - step.begin_ns));
      for (size_t i = 0; i < kParts; ++i) {
        rows[i + 1].ns.push_back(static_cast<double>(step.parts.ns[i]));
      }
    }
  }
  return rows;
}

// Of all drivers together, their mean.
std::vector<Measured::Row> parts_by_window(const Windows& windows, const JobTime& time) {
  std::vector<Measured::Row> rows;
  for (size_t i = 0; i < kParts; ++i) {
    rows.push_back({std::string(part_name(static_cast<Part>(i))), "", "", "",
                    std::vector<double>(windows.begins.size(), 0)});
  }
  const double weight = 1.0 / static_cast<double>(std::max<size_t>(1, time.drivers.size()));
  for (const DriverTime& driver : time.drivers) {
    size_t next = 0;
    for (const Owned& piece : driver.pieces) {
      while (next < windows.ends.size() && windows.ends[next] <= piece.begin_ns) ++next;
      for (size_t w = next; w < windows.begins.size() && windows.begins[w] < piece.end_ns; ++w) {
        const int64_t ns =
            std::min(windows.ends[w], piece.end_ns) - std::max(windows.begins[w], piece.begin_ns);
        rows[static_cast<size_t>(piece.part)].ns[w] += weight * static_cast<double>(ns);
      }
    }
  }
  return rows;
}

// The functions that most time was spent in.
std::vector<std::string> compared_functions(const std::vector<Swarm>& swarms) {
  std::map<std::string, int64_t> times;
  for (const Swarm& swarm : swarms) times[function_of(swarm)] += swarm.self_ns;
  std::vector<std::string> names;
  for (const auto& [name, ns] : times) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return times.at(a) > times.at(b);
  });
  if (names.size() > kCompared) names.resize(kCompared);
  return names;
}

void add_swarms(const View& view, const Explanation& explanation, const Windows& windows,
                Measured::Rows& out) {
  const std::vector<double> nothing(windows.begins.size(), 0);
  std::unordered_map<std::string, size_t> wanted, functions;
  for (size_t i = 0; i < std::min(kCompared, explanation.swarms.size()); ++i) {
    const Swarm& swarm = explanation.swarms[i];
    wanted.emplace(swarm.id, out.rows.size());
    out.rows.push_back({swarm.symbol, swarm.id, swarm.module, swarm.path, nothing});
  }
  for (const std::string& name : compared_functions(explanation.swarms)) {
    functions.emplace(name, out.functions.size());
    out.functions.push_back({name, name, "", "", nothing});
  }
  struct Rows {
    Measured::Row *swarm = nullptr, *function = nullptr;
  };
  std::vector<std::optional<Rows>> known;  // by the reader's number
  SwarmReader reader(view);
  reader.each([&](uint32_t number, int64_t time_ns, int64_t ns, TrackId) {
    const uint32_t window = windows.of(time_ns);
    if (window == kNone) return;
    if (number >= known.size()) known.resize(number + 1);
    if (!known[number]) {
      const Swarm& swarm = reader.sums()[number].swarm;
      const auto row = wanted.find(swarm.id);
      const auto function = functions.find(function_of(swarm));
      known[number] = {row == wanted.end() ? nullptr : &out.rows[row->second],
                       function == functions.end() ? nullptr : &out.functions[function->second]};
    }
    for (Measured::Row* row : {known[number]->swarm, known[number]->function}) {
      if (row != nullptr) row->ns[window] += static_cast<double>(ns);
    }
  });
}

}  // namespace

std::string function_of(const Swarm& swarm) {
  const std::string module = file_name_of(swarm.module);
  if (swarm.symbol.starts_with(module + "+0x")) {
    return (module.empty() ? "code of no file" : module) + " (no symbols)";
  }
  return swarm.source.empty() ? swarm.symbol : swarm.symbol + " (" + swarm.source + ")";
}

Measured measure(const View& view, const JobTime& time, const Explanation& explanation) {
  Measured out{.unit = "second"};
  const Windows seconds = seconds_of(view);
  out.by_second.rows = parts_by_window(seconds, time);
  add_swarms(view, explanation, seconds, out.by_second);
  for (std::vector<Measured::Row>* rows : {&out.by_second.rows, &out.by_second.functions}) {
    for (Measured::Row& row : *rows) {
      for (size_t i = 0; i < row.ns.size(); ++i) row.ns[i] *= seconds.a_second_in(i);
    }
  }
  const Windows iterations = iterations_of(view, explanation);
  if (iterations.begins.empty()) {
    out.in_units = out.by_second;
    return out;
  }
  out.unit = "iteration";
  out.in_units.rows = parts_by_iteration(explanation);
  out.lengths = out.in_units.rows[0].ns;
  add_swarms(view, explanation, iterations, out.in_units);
  return out;
}

std::optional<double> mann_whitney_p(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 4 || b.size() < 4) return std::nullopt;
  std::vector<std::pair<double, bool>> all;
  for (const double value : a) all.emplace_back(value, true);
  for (const double value : b) all.emplace_back(value, false);
  std::sort(all.begin(), all.end());
  double rank_sum = 0, ties = 0;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end < all.size() && all[end].first == all[i].first) ++end;
    const auto same = static_cast<double>(end - i);
    const double rank = static_cast<double>(i) + (same + 1) / 2;
    for (size_t k = i; k < end; ++k) rank_sum += all[k].second ? rank : 0;
    ties += same * same * same - same;
    i = end;
  }
  const auto na = static_cast<double>(a.size()), nb = static_cast<double>(b.size());
  const double n = na + nb;
  const double u = rank_sum - na * (na + 1) / 2;
  const double variance = na * nb / 12 * ((n + 1) - ties / (n * (n - 1)));
  if (variance <= 0) return 1.0;
  const double distance = std::max(0.0, std::abs(u - na * nb / 2) - 0.5);
  return std::erfc(distance / std::sqrt(variance) / std::sqrt(2.0));
}

namespace {

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

Change change_of(const Measured::Row& what, const std::vector<double>& before,
                 const std::vector<double>& after) {
  Change change{.what = what.what, .id = what.id, .module = what.module, .path = what.path};
  change.before_ns = mean_of(before);
  change.after_ns = mean_of(after);
  change.difference_ns = change.after_ns - change.before_ns;
  change.before_n = before.size();
  change.after_n = after.size();
  change.p = mann_whitney_p(before, after);
  return change;
}

// Benjamini and Hochberg: of the rows called significant at most 5 % are expected not to be.
// `unit_ns`: the mean iteration, or a second.
void judge_all(std::vector<Change>& rows, double unit_ns) {
  std::vector<Change*> tested;
  for (Change& row : rows) {
    if (row.p) tested.push_back(&row);
  }
  std::sort(tested.begin(), tested.end(),
            [](const Change* a, const Change* b) { return *a->p < *b->p; });
  size_t last = 0;
  for (size_t i = 0; i < tested.size(); ++i) {
    const double bound = 0.05 * static_cast<double>(i + 1) / static_cast<double>(tested.size());
    if (*tested[i]->p <= bound) last = i + 1;
  }
  for (size_t i = 0; i < last; ++i) {
    Change& row = *tested[i];
    const double difference = std::abs(row.difference_ns);
    row.is_significant = difference >= kEffectShare * std::max(row.before_ns, row.after_ns) &&
                         difference >= kStepShare * unit_ns;
  }
}

// Of one function under several callers each row says which.
void name_callers(std::vector<Change>& rows) {
  std::map<std::string, size_t> times;
  for (const Change& row : rows) ++times[row.what];
  for (Change& row : rows) {
    if (times[row.what] < 2 || row.path.empty()) continue;
    row.what += " < " + row.path;
  }
}

std::vector<Change> changes_of(const std::vector<Measured::Row>& before, size_t before_n,
                               const std::vector<Measured::Row>& after, size_t after_n) {
  std::vector<Change> changes;
  const auto key = [](const Measured::Row& row) { return row.id.empty() ? row.what : row.id; };
  std::map<std::string, const Measured::Row*> known;
  for (const Measured::Row& row : before) known.emplace(key(row), &row);
  for (const Measured::Row& row : after) {
    const auto found = known.find(key(row));
    // What the other side never ran took no time there.
    const std::vector<double> none(before_n, 0);
    changes.push_back(change_of(row, found == known.end() ? none : found->second->ns, row.ns));
    if (found != known.end()) known.erase(found);
  }
  for (const auto& [id, row] : known) {
    changes.push_back(change_of(*row, row->ns, std::vector<double>(after_n, 0)));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.id.empty() != b.id.empty()) return a.id.empty();
    if (a.id.empty()) return false;  // iteration and parts stay in their order
    return std::abs(a.difference_ns) > std::abs(b.difference_ns);
  });
  return changes;
}

}  // namespace

namespace {

// What was not recorded is not nothing.
void leave_out_functions(Measured::Rows& rows) {
  std::erase_if(rows.rows, [](const Measured::Row& row) { return !row.id.empty(); });
  rows.functions.clear();
}

}  // namespace

Comparison compare(const Measured& before, const Measured& after, std::string against) {
  Comparison out{.against = std::move(against), .unit = after.unit};
  const bool is_mixed = before.unit != after.unit;
  if (is_mixed) {
    out.unit = "second";
    out.notes.push_back("only one of the two has iterations: both are compared by the second");
  }
  Measured::Rows old_rows = is_mixed ? before.by_second : before.in_units;
  Measured::Rows new_rows = is_mixed ? after.by_second : after.in_units;
  if (old_rows.functions.empty() != new_rows.functions.empty()) {
    out.notes.push_back("functions are not compared: only one of the two recordings has any");
    leave_out_functions(old_rows);
    leave_out_functions(new_rows);
  }
  const auto size_of = [](const Measured::Rows& rows) {
    return rows.rows.empty() ? size_t{0} : rows.rows.back().ns.size();
  };
  const auto changes = [&](std::vector<Measured::Row> Measured::Rows::*which) {
    return changes_of(old_rows.*which, size_of(old_rows), new_rows.*which, size_of(new_rows));
  };
  out.rows = changes(&Measured::Rows::rows);
  out.functions = changes(&Measured::Rows::functions);
  name_callers(out.rows);
  const bool has_steps = !out.rows.empty() && out.rows.front().what == "iteration";
  const double unit_ns = has_steps ? std::max(out.rows[0].before_ns, out.rows[0].after_ns)
                                   : static_cast<double>(kSecondNs);
  judge_all(out.rows, unit_ns);
  judge_all(out.functions, unit_ns);
  return out;
}

}  // namespace forebay::explain

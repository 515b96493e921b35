#include "explain/iteration_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/median.h"
#include "base/units.h"
#include "explain/period.h"
#include "explain/suffix_automaton.h"
#include "explain/work_quanta.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::TrackId;
using trace::TrackKind;

namespace {

// Same folder and ending: one class. Files of a data set differ in their numbers only.
class FileClasses {
 public:
  explicit FileClasses(const View& view) : view_(view), known_(view.words().texts.size(), 0) {}
  uint64_t of(int64_t text) {
    if (text == trace::kNoValue) return 0;
    uint64_t& known = known_[static_cast<size_t>(text)];
    if (known == 0) {
      const std::string_view path = view_.words().text(static_cast<uint32_t>(text));
      const size_t slash = path.rfind('/'), dot = path.rfind('.');
      const std::string_view folder = path.substr(0, slash == std::string_view::npos ? 0 : slash);
      const std::string_view ending = dot == std::string_view::npos ? "" : path.substr(dot);
      known = std::hash<std::string_view>{}(folder)*31 + std::hash<std::string_view>{}(ending) + 1;
    }
    return known;
  }

 private:
  const View& view_;
  std::vector<uint64_t> known_;
};

class TokenReader {
 public:
  explicit TokenReader(const View& view) : view_(view), files_(view) {}

  void read(TrackId track, bool is_stream, std::vector<Token>& out) {
    const trace::Recording& recording = view_.recording();
    const auto rows = recording.rows(track);
    const auto bytes = view_.column(view_.keys().bytes, track);
    const auto files = view_.column(view_.keys().file, track);
    int64_t inside_until = INT64_MIN;
    for (size_t row = rows.first; row < rows.last; ++row) {
      const trace::Name& name = recording.name(row);
      if (name.kind != EventKind::kSpan || name.category == Category::kStep ||
          name.category == Category::kOffCpu) {
        continue;
      }
      const bool says = is_stream || !view_.name_class(recording.name_id(row)).is_transparent;
      // Only the outermost: what a call does inside is not another event of the loop.
      if (!says || recording.start(row) < inside_until) continue;
      inside_until = recording.end(row);
      const int64_t size = at(bytes, row - rows.first);
      const uint64_t size_class = size <= 0 ? 0 : std::bit_width(static_cast<uint64_t>(size));
      const uint64_t coarse = recording.name_id(row) + uint64_t{1};
      const uint64_t fine = (coarse * 64 + size_class) * 0x9e3779b97f4a7c15ULL +
                            files_.of(at(files, row - rows.first));
      out.push_back({recording.start(row), kFineFrom + number(fine_, fine), number(coarse_, coarse),
                     name.category == Category::kLock});
    }
  }

 private:
  // Both kinds of symbols are compared with each other; the coarse ones are few and count up from
  // 0.
  static constexpr uint32_t kFineFrom = 1u << 24;
  using Numbers = std::unordered_map<uint64_t, uint32_t>;
  static uint32_t number(Numbers& numbers, uint64_t hash) {
    return numbers.emplace(hash, static_cast<uint32_t>(numbers.size())).first->second;
  }

  const View& view_;
  FileClasses files_;
  Numbers fine_, coarse_;
};

}  // namespace

std::vector<Token> tokens_of(const View& view, const DriverPlan& plan) {
  std::vector<Token> tokens;
  TokenReader reader(view);
  if (plan.kind != DriverKind::kAccelerator) {
    reader.read(plan.track, plan.kind == DriverKind::kEmulatedDevice, tokens);
    return tokens;
  }
  for (TrackId id = 0; id < view.words().tracks.size(); ++id) {
    const bool is_stream = id == plan.track || view.track(id).parent == plan.track;
    if (is_stream) reader.read(id, true, tokens);
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const Token& a, const Token& b) { return a.time_ns < b.time_ns; });
  return tokens;
}

namespace {

constexpr double kAcceptable = 0.5;     // confidence below which nothing is claimed
constexpr double kNearlyAsGood = 0.85;  // the finest level this near to the best is the iteration
constexpr double kLikeWithoutCalls = 0.8, kLikeToBatches = 0.9;
constexpr double kLike = 0.5;  // below, an interval is not counted as one like the others
constexpr size_t kScoredTokens = 300'000, kScoredIntervals = 20'000;
constexpr size_t kAutomatonTokens = 100'000;

struct Candidate {
  std::vector<int64_t> boundaries = {};
  std::string method = {};
  double score = 0, cv = 1, regularity = 0, coverage = 0;
  bool is_by_work = false;     // an iteration needs no calls
  bool may_take_more = false;  // one may take the batches of the next ones
  double spread = 0;           // of their lengths, with a core
  double exactness = 1;  // of where its boundaries stand, beside another with the same iterations
};

// The threshold that parts sorted values best into small and large ones (Otsu's, of their
// logarithms): there need not be a gap between them.
int64_t parting_level(const std::vector<int64_t>& sorted) {
  const auto log_of = [](int64_t value) {
    return std::log(static_cast<double>(std::max<int64_t>(value, 1'000)));
  };
  double sum = 0, below = 0, best = 0;
  for (const int64_t value : sorted) sum += log_of(value);
  const auto n = static_cast<double>(sorted.size());
  int64_t level = 0;
  for (size_t i = 1; i < sorted.size(); ++i) {
    below += log_of(sorted[i - 1]);
    if (sorted[i] == sorted[i - 1]) continue;
    const auto k = static_cast<double>(i);
    const double apart = below / k - (sum - below) / (n - k);
    if (k * (n - k) * apart * apart <= best) continue;
    best = k * (n - k) * apart * apart;
    level = sorted[i];
  }
  return level;
}

// Where sorted values jump: thresholds between the small and the large, the widest jumps first;
// and the one that parts them best.
std::vector<int64_t> levels_of(std::vector<int64_t> values, size_t limit) {
  constexpr size_t kLookedAt = 50'000;
  if (values.size() > kLookedAt) {
    for (size_t i = 0; i < kLookedAt; ++i) values[i] = values[i * values.size() / kLookedAt];
    values.resize(kLookedAt);
  }
  std::sort(values.begin(), values.end());
  std::vector<std::pair<double, int64_t>> jumps;
  for (size_t i = 1; i + 2 < values.size(); ++i) {
    const double ratio =
        static_cast<double>(values[i]) / static_cast<double>(std::max<int64_t>(values[i - 1], 1));
    if (ratio >= 1.5) jumps.emplace_back(ratio, values[i]);
  }
  std::sort(jumps.rbegin(), jumps.rend());
  if (jumps.size() > limit) jumps.resize(limit);
  std::vector<int64_t> levels;
  for (const auto& [ratio, level] : jumps) levels.push_back(level);
  const int64_t parting = parting_level(values);
  if (std::find(levels.begin(), levels.end(), parting) == levels.end()) levels.push_back(parting);
  return levels;
}

// The time that a driver spends in some of its pieces, up to any moment.
class TimeIn {
 public:
  template <class IsIn>
  TimeIn(std::span<const Owned> pieces, const IsIn& is_in) {
    int64_t sum = 0;
    for (const Owned& piece : pieces) {
      if (!is_in(piece)) continue;
      stretches_.push_back({piece.begin_ns, piece.end_ns, sum});
      sum += piece.end_ns - piece.begin_ns;
    }
    total_ = sum;
  }

  int64_t total() const { return total_; }
  int64_t until(int64_t time_ns) const {
    const auto after =
        std::upper_bound(stretches_.begin(), stretches_.end(), time_ns,
                         [](int64_t at, const Stretch& stretch) { return at < stretch.begin_ns; });
    if (after == stretches_.begin()) return 0;
    const Stretch& last = *std::prev(after);
    return last.before_ns + std::min(time_ns, last.end_ns) - last.begin_ns;
  }
  int64_t between(int64_t begin_ns, int64_t end_ns) const {
    return until(end_ns) - until(begin_ns);
  }

 private:
  struct Stretch {
    int64_t begin_ns, end_ns, before_ns;
  };
  std::vector<Stretch> stretches_;
  int64_t total_ = 0;
};

class Search {
 public:
  Search(std::span<const Token> tokens, std::span<const Owned> pieces,
         std::span<const CauseKind> kinds)
      : tokens_(tokens),
        pieces_(pieces),
        kinds_(kinds),
        computing_(pieces, [](const Owned& piece) { return piece.part == Part::kCompute; }),
        working_(pieces,
                 [](const Owned& piece) {
                   // Samples tell its purposes apart only roughly; that it ran is exact.
                   const bool is_step =
                       piece.part == Part::kFetchStall || piece.part == Part::kPrepStall;
                   return piece.part == Part::kCompute || (piece.is_running && is_step);
                 }),
        saving_(pieces, [](const Owned& piece) { return piece.part == Part::kCheckpoint; }),
        without_core_(pieces, [&](const Owned& piece) {
          return kinds[piece.cause] == CauseKind::kReady ||
                 kinds[piece.cause] == CauseKind::kWithoutCore;
        }) {
    for (const Token& token : tokens) symbols_ = std::max(symbols_, token.coarse + 1);
    begin_ns_ =
        pieces.empty() ? (tokens.empty() ? 0 : tokens.front().time_ns) : pieces.front().begin_ns;
    end_ns_ = pieces.empty() ? (tokens.empty() ? 0 : tokens.back().time_ns) : pieces.back().end_ns;
  }

  Found run() {
    Found found;
    if (tokens_.size() < 6 && pieces_.size() < 6) {
      found.reason = "too few events to repeat";
      return found;
    }
    find_peaks();
    for (const Part part : {Part::kCompute, Part::kIdle, Part::kSyncStall}) add_phases(part);
    // Some of its ends are but computed.
    consider({.boundaries = ends_by_work(pieces_, kinds_),
              .method = "computing of equal length",
              .is_by_work = true,
              .exactness = 0.85},
             true);
    add_symbols();
    add_calls_after_work();
    add_repeats();
    const Candidate* best = choose();
    if (best == nullptr || best->score < kAcceptable) {
      found.reason = best == nullptr ? "no pattern of events occurs three times"
                                     : fmt::format(
                                           "the best pattern repeats with confidence {:.2f} only, "
                                           "below {:.2f}",
                                           best->score, kAcceptable);
      return found;
    }
    found.boundaries = without_saves(*best);
    found.method = best->method;
    found.confidence = best->score;
    found.coverage = best->coverage;
    found.regularity = best->regularity;
    found.cv = best->cv;
    return found;
  }

 private:
  // What a typical interval holds, and how alike the others are to it.
  using Bag = std::vector<int32_t>;
  // A program may go over to other iterations, with more reads in each: within a stretch of the run
  // they are alike.
  struct Typical {
    size_t intervals = 0;
    std::vector<Bag> stretches = {};  // of about equal numbers of intervals
    const Bag& of(size_t interval) const {
      return stretches[std::min(interval * stretches.size() / intervals, stretches.size() - 1)];
    }
  };

  // A save between two steps is none, nor what is computed for it before it begins: both belong to
  // the step after it, the last to none.
  std::vector<int64_t> without_saves(const Candidate& candidate) const {
    const std::vector<int64_t>& b = candidate.boundaries;
    if (tokens_.empty()) return b;
    const Typical typical = typical_of(candidate);
    std::vector<bool> is_step(b.size(), true);  // by its begin
    size_t others = 0;
    for (size_t i = 0; i + 1 < b.size(); ++i) {
      const bool is_save = saving_.between(b[i], b[i + 1]) > 0 || save_follows(b, i);
      is_step[i] = !is_save || has_calls_of(typical.of(i), b[i], b[i + 1]);
      if (!is_step[i]) ++others;
    }
    if (others * 5 > b.size()) return b;  // then that is what this program does
    std::vector<int64_t> out;
    bool is_joined = false;
    for (size_t i = 0; i + 1 < b.size(); ++i) {
      if (!is_joined) out.push_back(b[i]);
      is_joined = !is_step[i];
    }
    if (!is_joined) out.push_back(b.back());
    return out;
  }

  // Nothing was called between two boundaries, and then a save begins.
  bool save_follows(const std::vector<int64_t>& b, size_t i) const {
    if (token_at(b[i]) != token_at(b[i + 1])) return false;
    const size_t next = token_at(b[i + 1]);
    if (next == tokens_.size()) return false;
    constexpr int64_t kSoonNs = 1'000'000;  // opening it is not saving yet
    return saving_.between(b[i + 1], tokens_[next].time_ns + kSoonNs) > 0;
  }

  // Half of the calls of a step.
  bool has_calls_of(const Bag& typical, int64_t begin_ns, int64_t end_ns) const {
    const Bag here = bag_of(begin_ns, end_ns);
    int64_t both = 0, all = 0;
    for (size_t i = 0; i < here.size(); ++i) {
      both += std::min(here[i], typical[i]);
      all += typical[i];
    }
    return 2 * both >= all;
  }

  void find_peaks() {
    std::vector<int64_t> times;
    times.reserve(tokens_.size());
    for (const Token& token : tokens_) times.push_back(token.time_ns);
    peaks_ = find_periods(times);
  }

  // Ends of long stretches of one owner: an iteration ends with its computing.
  void add_phases(Part part) {
    constexpr int64_t kBridgeNs = 10'000;
    std::vector<std::pair<int64_t, int64_t>> runs;  // end, length
    int64_t begin = 0, end = INT64_MIN;
    const auto close = [&] {
      if (end != INT64_MIN) runs.emplace_back(end, with_core(begin, end));
    };
    for (const Owned& piece : pieces_) {
      // Without a core it goes on as soon as it has one.
      const bool is_ready = kinds_[piece.cause] == CauseKind::kReady;
      if (is_ready && end == piece.begin_ns) end = piece.end_ns;
      if (piece.part != part) continue;
      if (end == INT64_MIN || piece.begin_ns - end > kBridgeNs) {
        close();
        begin = piece.begin_ns;
      }
      end = piece.end_ns;
    }
    close();
    if (runs.size() < 3) return;
    std::vector<int64_t> lengths;
    for (const auto& [run_end, length] : runs) lengths.push_back(length);
    std::vector<int64_t> levels = levels_of(lengths, 6);
    levels.push_back(0);
    for (const int64_t level : levels) {
      std::vector<int64_t> ends;
      for (const auto& [run_end, length] : runs) {
        if (length >= level) ends.push_back(run_end);
      }
      consider(std::move(ends), fmt::format("phases of {}", part_name(part)), true);
    }
  }

  void add_symbols() {
    std::unordered_map<uint32_t, size_t> counts;
    for (const Token& token : tokens_) {
      ++counts[token.symbol];
      if (token.coarse != token.symbol) ++counts[token.coarse];
    }
    std::vector<std::pair<size_t, uint32_t>> often;
    for (const auto& [symbol, count] : counts) {
      if (count >= 3) often.emplace_back(count, symbol);
    }
    std::sort(often.rbegin(), often.rend());
    const size_t wanted = tokens_.size() > 1'000'000 ? 6 : 16;
    const double step =
        std::max(1.0, static_cast<double>(often.size()) / static_cast<double>(wanted));
    for (double i = 0; i < static_cast<double>(often.size()); i += step) {
      add_symbol(often[static_cast<size_t>(i)].second);
    }
  }

  void add_symbol(uint32_t symbol) {
    std::vector<int64_t> times, gaps, works;
    for (const Token& token : tokens_) {
      if (token.symbol != symbol && token.coarse != symbol) continue;
      if (!times.empty()) {
        gaps.push_back(with_core(times.back(), token.time_ns));
        works.push_back(working_.between(times.back(), token.time_ns));
      }
      times.push_back(token.time_ns);
    }
    add_firsts(times, gaps);
    // Storage may be slow between the calls of one batch: little is computed there.
    if (working_.total() > 0) add_firsts(times, works);
    consider(std::move(times), "period of calls", false);
  }

  // The first call of each burst: what comes before it is long.
  void add_firsts(const std::vector<int64_t>& times, const std::vector<int64_t>& lengths) {
    for (const int64_t level : levels_of(lengths, 3)) {
      std::vector<int64_t> firsts{times[0]};
      for (size_t i = 1; i < times.size(); ++i) {
        if (lengths[i - 1] >= level) firsts.push_back(times[i]);
      }
      consider(std::move(firsts), "period of calls", false);
    }
  }

  // Whatever is called first after much computing: loaders with several workers take two batches at
  // once, or none, and what a step then calls is something else each time. The threads that compute
  // a step together meet at locks within it.
  void add_calls_after_work() {
    if (working_.total() == 0) return;
    std::vector<int64_t> times, works;
    for (const Token& token : tokens_) {
      if (token.is_lock) continue;
      if (!times.empty()) works.push_back(working_.between(times.back(), token.time_ns));
      times.push_back(token.time_ns);
    }
    if (works.empty()) return;
    const size_t before = candidates_.size();
    for (const int64_t level : levels_of(works, 6)) {
      std::vector<int64_t> firsts{times[0]};
      for (size_t i = 1; i < times.size(); ++i) {
        if (works[i - 1] >= level) firsts.push_back(times[i]);
      }
      if (firsts.size() < 4) continue;
      consider({.boundaries = evened_out(firsts, times),
                .method = "calls between equal computing",
                .is_by_work = true,
                .may_take_more = true,
                .exactness = 0.97},
               false);
    }
    keep_best_since(before);
  }

  // One level parts the calls before which little is computed from the others, but how much a step
  // computes before a call in its middle varies. Boundaries go that make a small iteration of one
  // that is of the usual length otherwise; others come between two that would be one.
  std::vector<int64_t> evened_out(const std::vector<int64_t>& firsts,
                                  const std::vector<int64_t>& times) const {
    const auto usual = static_cast<double>(usual_in(working_, firsts));
    if (usual <= 0) return firsts;
    const auto computed = [&](int64_t begin_ns, int64_t end_ns) {
      return static_cast<double>(working_.between(begin_ns, end_ns));
    };
    std::vector<int64_t> out{firsts[0]};
    for (size_t i = 1; i < firsts.size(); ++i) {
      const double before = computed(out.back(), firsts[i]);
      const double after = i + 1 < firsts.size() ? computed(firsts[i], firsts[i + 1]) : usual;
      constexpr double kSmall = 0.5, kWhole = 1.4;
      const bool is_within = std::min(before, after) < kSmall * usual &&
                             before + after < kWhole * usual && i + 1 < firsts.size();
      if (is_within) continue;
      if (before > 1.7 * usual) part(out, firsts[i], usual, times);
      out.push_back(firsts[i]);
    }
    return out;
  }

  // Adds the calls nearest to whole numbers of `usual`, up to `end_ns`, where there are some.
  void part(std::vector<int64_t>& out, int64_t end_ns, double usual,
            const std::vector<int64_t>& times) const {
    const int64_t begin_ns = out.back();
    const auto work = static_cast<double>(working_.between(begin_ns, end_ns));
    const double whole = std::round(work / usual);
    double last = 0, nearest = 0;
    for (auto time = std::upper_bound(times.begin(), times.end(), begin_ns);
         time != times.end() && *time < end_ns; ++time) {
      const auto done = static_cast<double>(working_.between(begin_ns, *time));
      const double number = std::round(done * whole / work);
      const double apart = std::abs(done - work * number / whole);
      if (number < 1 || number >= whole || apart >= 0.3 * usual) continue;
      if (number > last) {
        out.push_back(*time);
      } else if (apart < nearest) {
        out.back() = *time;
      } else {
        continue;
      }
      last = number;
      nearest = apart;
    }
  }

  // Of candidates that are one with more or fewer boundaries.
  void keep_best_since(size_t before) {
    const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(before);
    if (first == candidates_.end()) return;
    const auto best =
        std::max_element(first, candidates_.end(),
                         [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
    std::iter_swap(first, best);
    candidates_.resize(before + 1);
  }

  // Runs of one call count once: batches differ in how many they need.
  void add_repeats() {
    const size_t size = std::min(tokens_.size(), kAutomatonTokens);
    const size_t first = (tokens_.size() - size) / 2;
    std::vector<uint32_t> symbols;
    std::vector<size_t> places;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!symbols.empty() && symbols.back() == tokens_[i].coarse) continue;
      symbols.push_back(tokens_[i].coarse);
      places.push_back(i);
    }
    const size_t from = std::min(first, symbols.size()),
                 to = std::min(first + size, symbols.size());
    if (to - from < 9) return;
    const std::span<const uint32_t> all(symbols);
    const SuffixAutomaton automaton(all.subspan(from, to - from));
    for (const Repeat& repeat : automaton.repeats(4)) {
      if (repeat.length > 2000) continue;
      const size_t edits = std::min<size_t>(8, repeat.length / 8);
      std::vector<int64_t> times;
      for (const size_t place :
           occurrences(all, all.subspan(from + repeat.begin, repeat.length), edits)) {
        times.push_back(tokens_[places[place]].time_ns);
      }
      consider(std::move(times), "repeating pattern of calls", false);
    }
  }

  // How long something takes when nobody else wants the cores.
  int64_t with_core(int64_t begin_ns, int64_t end_ns) const {
    return end_ns - begin_ns - without_core_.between(begin_ns, end_ns);
  }

  size_t token_at(int64_t time_ns) const {
    return static_cast<size_t>(
        std::lower_bound(tokens_.begin(), tokens_.end(), time_ns,
                         [](const Token& token, int64_t at) { return token.time_ns < at; }) -
        tokens_.begin());
  }

  void consider(std::vector<int64_t> boundaries, std::string method, bool are_ends) {
    consider(Candidate{.boundaries = std::move(boundaries), .method = std::move(method)}, are_ends);
  }

  void consider(Candidate candidate, bool are_ends) {
    std::vector<int64_t>& b = candidate.boundaries;
    b.erase(std::unique(b.begin(), b.end()), b.end());
    if (b.size() < 4) return;
    if (candidate.is_by_work && are_parts_of_steps(b)) return;
    close_ends(candidate, are_ends);
    score(candidate);
    if (candidate.score > 0) candidates_.push_back(std::move(candidate));
  }

  // Layers of a network may all compute the same, too: the calls that begin a step then come each
  // k-th time.
  bool are_parts_of_steps(const std::vector<int64_t>& b) const {
    std::vector<size_t> places;
    size_t token = token_at(b.front());
    for (size_t i = 0; i + 1 < b.size(); ++i) {
      bool has_calls = false;
      for (; token < tokens_.size() && tokens_[token].time_ns < b[i + 1]; ++token) {
        has_calls = has_calls || !tokens_[token].is_lock;
      }
      if (has_calls) places.push_back(i);
    }
    if (places.size() < 4 || places.size() * 2 > b.size()) return false;
    std::vector<size_t> distances;
    for (size_t i = 1; i < places.size(); ++i) distances.push_back(places[i] - places[i - 1]);
    const size_t usual = base::median_of(distances);
    const auto near = std::count_if(distances.begin(), distances.end(), [&](size_t distance) {
      return distance + 1 + usual / 8 >= usual && distance <= usual + 1 + usual / 8;
    });
    return usual >= 4 && static_cast<size_t>(near) * 10 >= distances.size() * 8;
  }

  Bag bag_of(int64_t begin_ns, int64_t end_ns) const {
    Bag bag(symbols_, 0);
    for (size_t i = token_at(begin_ns); i < tokens_.size() && tokens_[i].time_ns < end_ns; ++i) {
      ++bag[tokens_[i].coarse];
    }
    return bag;
  }
  double likeness(const Bag& typical, int64_t begin_ns, int64_t end_ns) const {
    const Bag here = bag_of(begin_ns, end_ns);
    int64_t both = 0, all = 0;
    for (size_t i = 0; i < here.size(); ++i) {
      both += std::min(here[i], typical[i]);
      all += std::max(here[i], typical[i]);
    }
    return all == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(all);
  }

  double likeness_in(const Candidate& candidate, const Typical& typical, size_t i) const {
    const int64_t begin_ns = candidate.boundaries[i], end_ns = candidate.boundaries[i + 1];
    // The batch was there already: nothing was called.
    const bool has_calls = token_at(begin_ns) != token_at(end_ns);
    if (candidate.is_by_work && !has_calls) return kLikeWithoutCalls;
    const double own = likeness(typical.of(i), begin_ns, end_ns);
    if (!candidate.may_take_more || own >= kLikeToBatches) return own;
    return std::max(own, kLikeToBatches * likeness_to_batches(candidate, i));
  }

  // An iteration may take the batches of those after it as well, which then take none: to a whole
  // number of what one takes in the mean, of those around it.
  double likeness_to_batches(const Candidate& candidate, size_t i) const {
    const std::vector<int64_t>& b = candidate.boundaries;
    const size_t n = b.size() - 1, reach = std::max<size_t>(8, n / 16);
    const size_t first = i - std::min(i, reach), last = std::min(n, i + reach + 1);
    const Bag here = bag_of(b[i], b[i + 1]), around = bag_of(b[first], b[last]);
    const double size = std::accumulate(here.begin(), here.end(), 0.0);
    const double usual =
        std::accumulate(around.begin(), around.end(), 0.0) / static_cast<double>(last - first);
    if (usual <= 0) return 0;
    const double batches = std::round(size / usual);
    if (batches < 1) return 1 - size / usual;
    double both = 0, all = 0;
    for (size_t symbol = 0; symbol < here.size(); ++symbol) {
      const double wanted = batches * around[symbol] / static_cast<double>(last - first);
      both += std::min<double>(here[symbol], wanted);
      all += std::max<double>(here[symbol], wanted);
    }
    return both / all;
  }

  Typical typical_of(const Candidate& candidate) const {
    const std::vector<int64_t>& boundaries = candidate.boundaries;
    constexpr size_t kStretchMin = 8, kStretchesMax = 8;
    const size_t n = boundaries.size() - 1;
    const size_t stretches = std::clamp<size_t>(n / kStretchMin, 1, kStretchesMax);
    Typical typical{.intervals = n};
    for (size_t k = 0; k < stretches; ++k) {
      typical.stretches.push_back(
          typical_bag(candidate, k * n / stretches, (k + 1) * n / stretches));
    }
    return typical;
  }

  // The median count of each call, over some of the intervals from `first` to before `last`; where
  // an iteration needs no calls, over those that have some.
  Bag typical_bag(const Candidate& candidate, size_t first, size_t last) const {
    const std::vector<int64_t>& boundaries = candidate.boundaries;
    constexpr size_t kLookedAt = 31;
    const size_t n = last - first;
    std::vector<Bag> bags;
    for (size_t k = 0; k < std::min(kLookedAt, n); ++k) {
      const size_t i = first + (n <= kLookedAt ? k : k * n / kLookedAt);
      if (candidate.is_by_work && token_at(boundaries[i]) == token_at(boundaries[i + 1])) continue;
      bags.push_back(bag_of(boundaries[i], boundaries[i + 1]));
    }
    Bag typical(symbols_, 0);
    std::vector<int32_t> column(bags.size());
    for (size_t symbol = 0; symbol < symbols_; ++symbol) {
      for (size_t k = 0; k < bags.size(); ++k) column[k] = bags[k][symbol];
      typical[symbol] = base::median_of(column);
    }
    return typical;
  }

  // Takes off what is not like the rest at either end, and completes the iteration that the first
  // or last boundary cuts off.
  void close_ends(Candidate& candidate, bool are_ends) const {
    std::vector<int64_t>& b = candidate.boundaries;
    if (tokens_.empty()) return;
    const Typical typical = typical_of(candidate);
    const Bag at_begin = typical.stretches.front(), at_end = typical.stretches.back();
    size_t first = 0, last = b.size() - 1;
    const auto size_of = [](const Bag& bag) {
      return static_cast<size_t>(std::accumulate(bag.begin(), bag.end(), 0));
    };
    // The calls of one iteration come right before the first end.
    const auto is_led_in = [&] {
      const size_t size = size_of(at_begin), end = token_at(b.front());
      return size > 0 && end >= size &&
             likeness(at_begin, tokens_[end - size].time_ns, b.front()) >= 0.6;
    };
    // The first batch was never there already: computing before it made the model.
    const bool has_batch = are_ends && is_led_in();
    const TimeIn& work = work_of(candidate);
    const int64_t usual = candidate.is_by_work ? usual_in(work, b) : 0;
    const auto likeness_at = [&](size_t i) {
      const bool computes = usual > 0 && is_about(static_cast<double>(work.between(b[i], b[i + 1])),
                                                  static_cast<double>(usual));
      return has_batch || computes ? likeness_in(candidate, typical, i)
                                   : likeness(typical.of(i), b[i], b[i + 1]);
    };
    while (last - first > 3 && likeness_at(first) < 0.6) ++first;
    while (last - first > 3 && likeness_in(candidate, typical, last - 1) < 0.6) --last;
    const bool was_first = first == 0, was_last = last == b.size() - 1;
    b = {b.begin() + static_cast<std::ptrdiff_t>(first),
         b.begin() + static_cast<std::ptrdiff_t>(last) + 1};
    if (has_batch && was_first) {
      b.insert(b.begin(), tokens_[token_at(b.front()) - size_of(at_begin)].time_ns);
    }
    if (const size_t size = size_of(at_end); size > 0 && !are_ends && was_last) {
      const size_t begin = token_at(b.back());
      if (tokens_.size() - begin >= size * 3 / 4 && likeness(at_end, b.back(), INT64_MAX) >= 0.6) {
        b.push_back(std::max(last_end(b), b.back() + 1));
      }
    }
  }

  static int64_t usual_in(const TimeIn& time, const std::vector<int64_t>& b) {
    std::vector<int64_t> works;
    for (size_t i = 0; i + 1 < b.size(); ++i) works.push_back(time.between(b[i], b[i + 1]));
    return base::median_of(std::move(works));
  }
  // What is equal in iterations: of which purpose it was is known as finely as it is sampled.
  const TimeIn& work_of(const Candidate& candidate) const {
    return candidate.may_take_more ? working_ : computing_;
  }

  // Where the last iteration ends: with the run; but who works on for longer than another one
  // takes does something else.
  int64_t last_end(const std::vector<int64_t>& b) const {
    const int64_t usual = usual_in(working_, b);
    if (working_.between(b.back(), end_ns_) <= 2 * usual) return end_ns_;
    int64_t least = b.back(), most = end_ns_;
    while (most - least > 1) {
      const int64_t at_ns = least + (most - least) / 2;
      (working_.between(b.back(), at_ns) < usual ? least : most) = at_ns;
    }
    return most;
  }

  void score(Candidate& candidate) const {
    const std::vector<int64_t>& b = candidate.boundaries;
    const size_t n = b.size() - 1;
    if (n < 3) return;
    const Typical typical = tokens_.empty() ? Typical{} : typical_of(candidate);
    const size_t looked =
        std::min({n, kScoredIntervals, kScoredTokens * n / (tokens_.size() + 1) + 3});
    const size_t first = (n - looked) / 2;
    std::vector<Measure> computed, worked, taken;
    std::vector<int64_t> lengths;
    double alike = 0;
    for (size_t i = first; i < first + looked; ++i) {
      const double like = tokens_.empty() ? 1 : likeness_in(candidate, typical, i);
      alike += like;
      lengths.push_back(b[i + 1] - b[i]);
      taken.push_back({static_cast<double>(with_core(b[i], b[i + 1])), like});
      const auto work_in = [&](const TimeIn& time) {
        const int64_t ns = time.total() > 0 ? time.between(b[i], b[i + 1]) : lengths.back();
        return static_cast<double>(ns);
      };
      computed.push_back({work_in(work_of(candidate)), like});
      worked.push_back({work_in(working_), like});
    }
    candidate.regularity = alike / static_cast<double>(looked);
    candidate.coverage = regular_share(computed, lengths) * spanned(b);
    if (candidate.is_by_work) candidate.coverage *= keep_equal(computed);
    candidate.cv = variation(std::move(computed));
    // Which of the thread's own work computes, reads or prepares is known as finely as it is
    // sampled; the sum of all is exact.
    if (working_.total() > computing_.total() && !candidate.is_by_work) {
      candidate.cv = std::min(candidate.cv, variation(std::move(worked)));
    }
    candidate.spread = spread_of_most(taken);
    // Where little is computed, what is may vary: emulators sleep.
    if (5 * working_.total() < with_core(begin_ns_, end_ns_)) {
      candidate.cv = std::min(candidate.cv, variation(std::move(taken)));
    }
    candidate.score = candidate.coverage * candidate.regularity * (1 - candidate.cv);
    candidate.score *= agrees_with_period(b) ? 1 : 0.95;
    // Few may be alike by chance: the lower end of the 95 % interval (Wilson 1927) of a share that
    // was seen n times of n.
    constexpr double kSquaredDeviate = 1.96 * 1.96;
    candidate.score *= static_cast<double>(n) / (static_cast<double>(n) + kSquaredDeviate);
  }

  // From the first to the last boundary lies so much of the time, or of the events: a long pause
  // before the first iteration holds few.
  double spanned(const std::vector<int64_t>& b) const {
    const double time = static_cast<double>(with_core(b.front(), b.back())) /
                        static_cast<double>(std::max<int64_t>(with_core(begin_ns_, end_ns_), 1));
    const double events = static_cast<double>(token_at(b.back()) - token_at(b.front())) /
                          static_cast<double>(std::max<size_t>(tokens_.size(), 1));
    return std::min(1.0, std::max(time, events));
  }

  struct Measure {
    double work, likeness;
  };

  // Nearer to once than to half or twice. Threads that meet spin for those that have no core.
  static bool is_about(double work, double usual) {
    return work >= 0.6 * usual && work <= 1.7 * usual;
  }

  static double usual_work(const std::vector<Measure>& measures) {
    std::vector<double> works;
    for (const Measure& measure : measures) works.push_back(measure.work);
    return base::median_of(std::move(works));
  }

  // Leaves those that compute about as long as most, and gives their share of all iterations and of
  // all computing: where equal computing makes the iterations, another is none. A twentieth may
  // compute longer, as the first ones do.
  static double keep_equal(std::vector<Measure>& measures) {
    const double usual = usual_work(measures);
    const size_t all = measures.size();
    std::sort(measures.begin(), measures.end(),
              [](const Measure& a, const Measure& b) { return a.work > b.work; });
    const auto is_equal = [&](const Measure& measure) { return is_about(measure.work, usual); };
    double work = 0, equal_work = 0;
    for (size_t i = 0; i < all; ++i) {
      const bool is_rare = i * 20 < all;
      const double here = is_rare ? std::min(measures[i].work, 2 * usual) : measures[i].work;
      work += here;
      if (is_equal(measures[i])) equal_work += here;
    }
    std::erase_if(measures, [&](const Measure& measure) { return !is_equal(measure); });
    if (work <= 0) return 0;
    return std::min(static_cast<double>(measures.size()) / static_cast<double>(all),
                    equal_work / work);
  }

  // Of time, where a pause counts no more than two ordinary iterations.
  static double regular_share(const std::vector<Measure>& measures,
                              const std::vector<int64_t>& lengths) {
    const int64_t most = 2 * base::median_of(lengths);
    double regular = 0, all = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto ns = static_cast<double>(std::min(lengths[i], most));
      all += ns;
      if (measures[i].likeness >= kLike) regular += ns;
    }
    return all > 0 ? regular / all : 0;
  }

  // The coefficient of variation without those that did much else and took longer for it, such as
  // one with an epoch's start in it: coverage counts them. Without the few that did the same but
  // took longer, and weigh little together: warm-up, hiccups. Two iterations in one are neither.
  static double variation(std::vector<Measure> values) {
    const double usual = usual_work(values);
    const auto others = std::stable_partition(
        values.begin(), values.end(),
        [&](const Measure& value) { return value.likeness >= kLike || value.work <= 1.5 * usual; });
    if (values.end() - others < others - values.begin()) values.erase(others, values.end());
    if (values.size() > 8) values.erase(values.begin(), values.begin() + 2);
    std::sort(values.begin(), values.end(),
              [](const Measure& a, const Measure& b) { return a.work < b.work; });
    double total = 0;
    for (const Measure& value : values) total += value.work;
    const double median = usual_work(values);
    double cut = 0;
    while (values.size() > 4 && values.back().likeness >= 0.75 &&
           values.back().work > 1.5 * median && cut + values.back().work < 0.08 * total) {
      cut += values.back().work;
      values.pop_back();
    }
    std::vector<double> works;
    for (const Measure& value : values) works.push_back(value.work);
    return std::min(1.0, deviation_of(works));
  }

  // The standard deviation as a share of the mean.
  static double deviation_of(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    if (mean <= 0) return 1;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    return std::sqrt(squares / n) / mean;
  }

  // The same of a normal distribution whose middle four fifths are as wide as those of the values:
  // a fifth may be anything.
  static double spread_of_most(const std::vector<Measure>& measures) {
    constexpr size_t kNeeded = 20;
    constexpr double kDeviationsApart = 2.563;  // of the first and ninth decile
    std::vector<double> values;
    for (const Measure& measure : measures) values.push_back(measure.work);
    const size_t n = values.size(), tenth = n / 10;
    if (n < kNeeded) return deviation_of(values);
    std::sort(values.begin(), values.end());
    const double median = base::median_of(values);
    if (median <= 0) return 1;
    return (values[n - 1 - tenth] - values[tenth]) / kDeviationsApart / median;
  }

  bool agrees_with_period(const std::vector<int64_t>& b) const {
    const double mean =
        static_cast<double>(b.back() - b.front()) / static_cast<double>(b.size() - 1);
    return std::any_of(peaks_.begin(), peaks_.end(), [&](const PeriodPeak& peak) {
      const double ratio = static_cast<double>(peak.period_ns) / mean;
      return ratio > 0.9 && std::abs(ratio - std::round(ratio)) < 0.1;
    });
  }

  // What a candidate is worth beside others: the halves of an iteration may compute the same, but
  // hardly wait the same.
  static double evenness(const Candidate& candidate) {
    constexpr double kWeight = 0.3;
    return candidate.score * (1 - kWeight * std::min(1.0, candidate.spread));
  }

  // The finest level that is nearly as good as the best; within it the best that leaves out least.
  const Candidate* choose() const {
    double best = 0;
    for (const Candidate& candidate : candidates_) best = std::max(best, evenness(candidate));
    size_t most = 0;
    for (const Candidate& candidate : candidates_) {
      if (evenness(candidate) >= best * kNearlyAsGood) {
        most = std::max(most, candidate.boundaries.size());
      }
    }
    const Candidate* chosen = nullptr;
    double highest = 0;
    for (const Candidate& candidate : candidates_) {
      const double whole = static_cast<double>(candidate.boundaries.size()) /
                           static_cast<double>(std::max<size_t>(most, 1));
      if (evenness(candidate) < best * kNearlyAsGood || whole < 0.77) continue;
      // A boundary that is left out makes two iterations one, which may even vary less.
      const double value = candidate.score * whole * whole * candidate.exactness;
      if (value > highest) {
        highest = value;
        chosen = &candidate;
      }
    }
    return chosen;
  }

  std::span<const Token> tokens_;
  std::span<const Owned> pieces_;
  std::span<const CauseKind> kinds_;
  TimeIn computing_, working_, saving_, without_core_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  uint32_t symbols_ = 0;
  std::vector<PeriodPeak> peaks_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Found search_iterations(std::span<const Token> tokens, std::span<const Owned> pieces,
                        std::span<const CauseKind> kinds_of_causes) {
  return Search(tokens, pieces, kinds_of_causes).run();
}

}  // namespace forebay::explain

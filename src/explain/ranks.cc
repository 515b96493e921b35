#include "explain/ranks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/median.h"
#include "base/units.h"
#include "explain/device_time.h"
#include "trace/facts.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::kNoValue;
using trace::TrackId;

namespace {

// A meeting of ranks: the same one in every file has the same key.
struct Meeting {
  int64_t begin_ns = 0, end_ns = 0;
};
using Meetings = std::map<std::string, Meeting>;

bool is_collective(const View& view, size_t row) {
  const trace::Recording& recording = view.recording();
  const trace::Name& name = recording.name(row);
  if (name.kind != EventKind::kSpan) return false;
  return name.category == Category::kCollective ||
         (name.category == Category::kCompute && is_communication_kernel(recording.text(row))) ||
         view.name_class(recording.name_id(row)).doing == Doing::kCollective ||
         (name.category == Category::kAnnotation &&
          view.name_class(recording.name_id(row)).purpose == Purpose::kSync);
}

// Of each file: by group and sequence where they are said, else by name and how often it came.
std::vector<Meetings> collectives_by_file(const View& view) {
  const trace::Recording& recording = view.recording();
  std::vector<Meetings> out(recording.files().size());
  std::map<std::pair<size_t, std::string>, uint64_t> counts;
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    const auto rows = recording.rows(track);
    const auto groups = view.column(view.keys().group, track);
    const auto sequences = view.column(view.keys().sequence, track);
    const size_t file = recording.file_of(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (!is_collective(view, row)) continue;
      const int64_t sequence = at(sequences, row - rows.first);
      const int64_t group = at(groups, row - rows.first);
      std::string key;
      if (sequence != kNoValue) {
        key = fmt::format("{}/{}/{}", recording.text(row),
                          group == kNoValue ? "" : view.words().text(static_cast<uint32_t>(group)),
                          sequence);
      } else {
        uint64_t& count = counts[{file, recording.text(row)}];
        key = fmt::format("{}#{}", recording.text(row), count++);
      }
      out[file].emplace(std::move(key), Meeting{recording.start(row), recording.end(row)});
    }
  }
  return out;
}

std::vector<Meetings> steps_by_file(const View& view) {
  const trace::Recording& recording = view.recording();
  std::vector<Meetings> out(recording.files().size());
  std::vector<uint64_t> counts(out.size(), 0);
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    const auto rows = recording.rows(track);
    const size_t file = recording.file_of(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (!view.is_step(recording.name_id(row))) continue;
      out[file].emplace(fmt::format("{:08}", counts[file]++),
                        Meeting{recording.start(row), recording.end(row)});
    }
  }
  return out;
}

struct Offset {
  uint64_t matched = 0;
  int64_t shift_ns = 0, residual_ns = 0;
};

// What brings `other` onto `first`, by the ends of what both took part in.
Offset offset_of(const Meetings& first, const Meetings& other) {
  std::vector<int64_t> differences;
  for (const auto& [key, meeting] : first) {
    const auto same = other.find(key);
    if (same != other.end()) differences.push_back(meeting.end_ns - same->second.end_ns);
  }
  Offset offset{.matched = differences.size()};
  if (differences.empty()) return offset;
  offset.shift_ns = base::median_of(differences);
  for (int64_t& difference : differences) difference = std::abs(difference - offset.shift_ns);
  offset.residual_ns = base::median_of(std::move(differences));
  return offset;
}

std::string file_label(const trace::RecordingFile& file) {
  const auto host = file.facts.find(std::string(trace::fact::kHost));
  const auto rank = file.facts.find(std::string(trace::fact::kRank));
  if (rank != file.facts.end()) return "rank " + rank->second;
  return host != file.facts.end() ? host->second : file.path;
}

int rank_of_file(const View& view, size_t file) {
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    if (view.recording().file_of(track) == file && view.rank_of(track) >= 0) {
      return view.rank_of(track);
    }
  }
  const auto& facts = view.recording().files()[file].facts;
  const auto rank = facts.find(std::string(trace::fact::kRank));
  const auto number =
      rank == facts.end() ? Result<int64_t>(Error{}) : base::parse_int(rank->second);
  return number.ok() ? static_cast<int>(*number) : -1;
}

}  // namespace

Alignment align(trace::Recording& recording, const Selection& selection) {
  Alignment out;
  const size_t files = recording.files().size();
  if (files < 2) {
    out.method = "one clock";
    return out;
  }
  const View view(recording, selection);
  std::vector<Meetings> meetings = collectives_by_file(view);
  out.method = "collectives";
  const auto common = [&] {
    uint64_t most = 0;
    for (size_t i = 1; i < files; ++i)
      most = std::max(most, offset_of(meetings[0], meetings[i]).matched);
    return most;
  };
  if (common() < 3) {
    meetings = steps_by_file(view);
    out.method = "marks";
    out.reason = "fewer than three collectives are in more than one file";
  }
  if (common() < 3) {
    const bool has_unix = recording.files()[1].shift_uncertainty_ns.has_value();
    out.method = has_unix ? "UNIX time" : "none";
    out.reason = "neither collectives nor marks are in more than one file";
  }
  const bool by_meetings = out.method == "collectives" || out.method == "marks";
  // Marks of ranks that no collective ties may drift apart; clocks of one host need no help.
  std::vector<Offset> offsets(files);
  for (size_t i = 0; i < files; ++i) {
    Rank rank{.rank = rank_of_file(view, i), .name = file_label(recording.files()[i])};
    if (i > 0 && by_meetings) offsets[i] = offset_of(meetings[0], meetings[i]);
    out.matched += offsets[i].matched;
    if (offsets[i].matched >= 3) {
      rank.clock_residual_ns = offsets[i].residual_ns;
      out.residual_ns = std::max(out.residual_ns.value_or(0), offsets[i].residual_ns);
    } else if (i > 0 && recording.files()[i].shift_uncertainty_ns) {
      rank.clock_residual_ns = recording.files()[i].shift_uncertainty_ns;
      out.residual_ns = std::max(out.residual_ns.value_or(0), *rank.clock_residual_ns);
    }
    out.ranks.push_back(std::move(rank));
  }
  for (size_t i = 1; i < files; ++i) {
    // Marks may differ because the ranks do; they move a clock only when nothing better is known.
    const bool may_move =
        out.method == "collectives" || !recording.files()[i].shift_uncertainty_ns.has_value();
    if (offsets[i].matched >= 3 && may_move) recording.shift(i, offsets[i].shift_ns);
  }
  for (size_t i = 0; i < files; ++i) out.ranks[i].clock_shift_ns = recording.files()[i].shift_ns;
  return out;
}

namespace {

struct Arrivals {
  std::map<int, std::vector<int64_t>> lateness;
  std::map<int, uint64_t> last;
  uint64_t meetings = 0;
};

// Who came when to what all ranks took part in; the begins of collectives after alignment.
Arrivals arrivals_of(const View& view) {
  Arrivals out;
  std::map<std::string, std::map<int, int64_t>> begins;
  std::map<std::pair<int, std::string>, uint64_t> counts;
  const trace::Recording& recording = view.recording();
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    int rank = view.rank_of(track);
    if (rank < 0 && recording.files().size() > 1) rank = static_cast<int>(recording.file_of(track));
    if (rank < 0) continue;
    const auto rows = recording.rows(track);
    const auto sequences = view.column(view.keys().sequence, track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (!is_collective(view, row)) continue;
      const int64_t sequence = at(sequences, row - rows.first);
      const uint64_t number = sequence != kNoValue ? static_cast<uint64_t>(sequence)
                                                   : counts[{rank, recording.text(row)}]++;
      begins[fmt::format("{}/{}", recording.text(row), number)].emplace(rank, recording.start(row));
    }
  }
  size_t ranks = 0;
  for (const auto& [key, by_rank] : begins) ranks = std::max(ranks, by_rank.size());
  if (ranks < 2) return out;
  for (const auto& [key, by_rank] : begins) {
    if (by_rank.size() != ranks) continue;
    ++out.meetings;
    const auto by_time = [](const auto& a, const auto& b) { return a.second < b.second; };
    const int64_t first = std::min_element(by_rank.begin(), by_rank.end(), by_time)->second;
    ++out.last[std::max_element(by_rank.begin(), by_rank.end(), by_time)->first];
    for (const auto& [rank, begin] : by_rank) out.lateness[rank].push_back(begin - first);
  }
  return out;
}

// A rank that works this much longer than the middle one makes the others wait.
constexpr double kUnevenShare = 0.05;

}  // namespace

void find_stragglers(const View& view, const Explanation& explanation, Alignment& alignment) {
  if (explanation.drivers.size() < 2) return;
  std::vector<Rank> ranks;
  std::vector<int64_t> works;
  for (size_t i = 0; i < explanation.drivers.size(); ++i) {
    const Driver& driver = explanation.drivers[i];
    Rank rank{.rank = driver.rank >= 0 ? driver.rank : static_cast<int>(i), .name = driver.name};
    for (const Rank& known : alignment.ranks) {
      if (known.rank >= 0 && known.rank == driver.rank) {
        rank.clock_shift_ns = known.clock_shift_ns;
        rank.clock_residual_ns = known.clock_residual_ns;
      }
    }
    int64_t steps = 0;
    for (const Iteration& step : driver.iterations) steps += step.is_partial ? 0 : 1;
    if (steps > 0) {
      const int64_t total = driver.steps.total_ns();
      rank.mean_step_ns = total / steps;
      rank.own_work_ns = (total - driver.steps[Part::kSyncStall]) / steps;
      works.push_back(*rank.own_work_ns);
    }
    ranks.push_back(std::move(rank));
  }
  const Arrivals arrivals = arrivals_of(view);
  for (Rank& rank : ranks) {
    const auto late = arrivals.lateness.find(rank.rank);
    if (late == arrivals.lateness.end() || arrivals.meetings == 0) continue;
    int64_t sum = 0;
    for (const int64_t ns : late->second) sum += ns;
    rank.lateness_ns = sum / static_cast<int64_t>(late->second.size());
    const auto last = arrivals.last.find(rank.rank);
    rank.last_share = last == arrivals.last.end() ? 0
                                                  : static_cast<double>(last->second) /
                                                        static_cast<double>(arrivals.meetings);
  }
  if (works.size() >= 2) {
    std::sort(works.begin(), works.end());
    // The lower middle: with two ranks, the quicker one.
    const auto usual = static_cast<double>(works[(works.size() - 1) / 2]);
    for (Rank& rank : ranks) {
      rank.is_straggler =
          rank.own_work_ns && static_cast<double>(*rank.own_work_ns) > usual * (1 + kUnevenShare);
    }
  }
  alignment.ranks = std::move(ranks);
}

}  // namespace forebay::explain

#include "explain/work_quanta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/median.h"

namespace forebay::explain {
namespace {

// Pieces from..to hold the computing between two waits.
struct Stretch {
  size_t from = 0, to = 0;
  int64_t work_ns = 0;
};

std::vector<Stretch> stretches_of(std::span<const Owned> pieces, std::span<const CauseKind> kinds) {
  std::vector<Stretch> out;
  bool is_open = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Owned& piece = pieces[i];
    if (piece.part == Part::kCompute) {
      if (!is_open) out.push_back({i, i, 0});
      is_open = true;
      out.back().to = i + 1;
      out.back().work_ns += piece.end_ns - piece.begin_ns;
    } else if (kinds[piece.cause] != CauseKind::kReady) {
      is_open = false;
    }
  }
  return out;
}

// What most stretches compute, without those that are small beside where most of the work is: a
// wait for a lock that another thread holds for a moment cuts one in two.
double usual_work(const std::vector<Stretch>& all) {
  double sum = 0, squares = 0;
  for (const Stretch& each : all) {
    const auto work = static_cast<double>(each.work_ns);
    sum += work;
    squares += work * work;
  }
  if (sum <= 0) return 0;
  std::vector<double> works;
  for (const Stretch& each : all) {
    const auto work = static_cast<double>(each.work_ns);
    if (work >= squares / sum / 4) works.push_back(work);
  }
  return base::median_of(std::move(works));
}

// The time at which so much of a stretch is computed.
int64_t time_of_work(std::span<const Owned> pieces, const Stretch& stretch, double work) {
  for (size_t i = stretch.from; i < stretch.to; ++i) {
    if (pieces[i].part != Part::kCompute) continue;
    const auto here = static_cast<double>(pieces[i].end_ns - pieces[i].begin_ns);
    if (work <= here) return pieces[i].begin_ns + static_cast<int64_t>(work);
    work -= here;
  }
  return pieces[stretch.to - 1].end_ns;
}

// Most of the distances between them are the same.
bool come_regularly(const std::vector<size_t>& places) {
  if (places.size() < 4) return false;
  std::map<size_t, size_t> distances;
  size_t most = 0;
  for (size_t i = 1; i < places.size(); ++i) {
    most = std::max(most, ++distances[places[i] - places[i - 1]]);
  }
  return most * 10 >= (places.size() - 1) * 8;
}

// Of stretches that are whole multiples of what one iteration computes.
struct Unit {
  double work = 0;
  double apart = 0;    // as much of one may a stretch differ from a whole number
  double longest = 0;  // iterations in one stretch
  bool are_few_long = true;
};

std::vector<int64_t> ends_of(std::span<const Owned> pieces, const std::vector<Stretch>& all,
                             const Unit& unit) {
  std::vector<int64_t> ends;
  std::vector<size_t> long_ones;
  size_t fitting = 0, looked = 0;
  for (const Stretch& stretch : all) {
    const double times = static_cast<double>(stretch.work_ns) / unit.work;
    const double whole = std::round(times);
    // A piece of one: it belongs to the iteration that ends next.
    if (times < 0.5) continue;
    ++looked;
    const bool fits = std::abs(times - whole) <= unit.apart && whole <= unit.longest;
    if (fits) ++fitting;
    if (fits && whole >= 2) {
      long_ones.push_back(looked);
      for (double k = 1; k < whole; ++k) {
        ends.push_back(time_of_work(pieces, stretch, k / whole * times * unit.work));
      }
    }
    ends.push_back(pieces[stretch.to - 1].end_ns);
  }
  const bool are_few = long_ones.size() * 5 <= looked * 2;
  const bool are_steps = (are_few || !unit.are_few_long) && !come_regularly(long_ones);
  return are_steps && fitting * 10 >= looked * 8 ? ends : std::vector<int64_t>();
}

// The mean of what the stretches hold one, two or three of.
double fitted(const std::vector<Stretch>& all, double unit) {
  double work = 0, count = 0;
  for (const Stretch& stretch : all) {
    const double whole = std::round(static_cast<double>(stretch.work_ns) / unit);
    if (whole < 1 || whole > 3) continue;
    work += static_cast<double>(stretch.work_ns);
    count += whole;
  }
  return count > 0 ? work / count : unit;
}

// What one iteration computes where a loader that is ahead leaves any number of them in a stretch:
// the largest unit of which nearly all are multiples, by one, two and three. Steps of two kinds are
// but two lengths, and lengths at will are near a whole number less than half as often.
Unit unit_of_any_number(const std::vector<Stretch>& all, double usual) {
  constexpr double kApart = 0.2, kLongest = 8, kPartsMax = 3;
  for (double parts = 1; parts <= kPartsMax; ++parts) {
    double unit = usual / parts;
    for (int round = 0; round < 3; ++round) unit = fitted(all, unit);
    std::array<size_t, 3> fitting{};  // one, two, more
    size_t looked = 0;
    for (const Stretch& stretch : all) {
      const double times = static_cast<double>(stretch.work_ns) / unit;
      const double whole = std::round(times);
      if (times < 0.5) continue;
      ++looked;
      if (std::abs(times - whole) > kApart || whole > kLongest) continue;
      ++fitting[static_cast<size_t>(std::min(whole, 3.0)) - 1];
    }
    const size_t all_fitting = fitting[0] + fitting[1] + fitting[2];
    const bool is_any_number = fitting[0] >= 3 && fitting[1] >= 3 && fitting[2] >= 2;
    if (is_any_number && all_fitting * 100 >= looked * 80) {
      return {.work = unit, .apart = 0.5, .longest = 2 * kLongest, .are_few_long = false};
    }
  }
  return {};
}

}  // namespace

std::vector<int64_t> ends_by_work(std::span<const Owned> pieces,
                                  std::span<const CauseKind> kinds_of_causes) {
  const std::vector<Stretch> all = stretches_of(pieces, kinds_of_causes);
  const double usual = usual_work(all);
  if (all.size() < 4 || usual <= 0) return {};
  if (const Unit unit = unit_of_any_number(all, usual); unit.work > 0) {
    return ends_of(pieces, all, unit);
  }
  return ends_of(pieces, all, {.work = usual, .apart = 0.3, .longest = 4});
}

}  // namespace forebay::explain

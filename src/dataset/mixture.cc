#include "dataset/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace forebay::dataset {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kSamplesMax = uint64_t{1} << 62;

double log2_factorial(double n) {
  int sign = 0;  // lgamma() would write a global
  return ::lgamma_r(n + 1, &sign) / std::log(2.0);
}

// Of `count` positions, `part` belong to one group, evenly spread: as many lie before `position`.
uint64_t drawn_before(uint64_t position, uint64_t part, uint64_t count, uint64_t phase) {
  return static_cast<uint64_t>((Wide{position} * part + phase) / count);
}

// The position of draw `number` of that group.
uint64_t position_of_draw(uint64_t number, uint64_t part, uint64_t count, uint64_t phase) {
  const Wide reached = (Wide{number} + 1) * count - phase;
  return static_cast<uint64_t>((reached + part - 1) / part) - 1;
}

// What the other group sees in the place of `phase`: both fill all positions.
uint64_t other_phase(uint64_t count, uint64_t phase) {
  return count - 1 - phase;
}

// Shares of `count` for the weights; the largest remainders get what rounding left over.
std::vector<uint64_t> make_quotas(const std::vector<double>& weights, uint64_t count) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> quotas;
  std::vector<std::pair<double, size_t>> remainders;
  uint64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(count);
    const auto whole = std::min(static_cast<uint64_t>(exact), count - given);
    quotas.push_back(whole);
    given += whole;
    remainders.emplace_back(exact - static_cast<double>(whole), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; given < count; i = (i + 1) % remainders.size(), ++given)
    ++quotas[remainders[i].second];
  return quotas;
}

Result<std::vector<double>> weights_of(const std::vector<MixtureSource>& sources) {
  const auto has_weight = [](const MixtureSource& source) { return source.weight != 0; };
  const bool has_any = std::any_of(sources.begin(), sources.end(), has_weight);
  std::vector<double> weights;
  for (size_t i = 0; i < sources.size(); ++i) {
    const double weight = sources[i].weight;
    if (!std::isfinite(weight) || weight < 0)
      return fail(ErrorCode::kInvalidArgument, "source {} has weight {}: must be above 0", i,
                  weight);
    if (has_any && weight == 0)
      return fail(ErrorCode::kInvalidArgument,
                  "source {} has no weight, others have: give one to all of them or to none", i);
    weights.push_back(has_any ? weight : static_cast<double>(sources[i].order.sample_count()));
  }
  return weights;
}

}  // namespace

Result<Mixture> Mixture::make(MixtureOptions options) {
  if (options.sources.empty()) return fail(ErrorCode::kInvalidArgument, "a mixture of no sources");
  const std::vector<double> weights = FB_TRY(weights_of(options.sources));
  Mixture mixture;
  mixture.seed_ = options.seed;
  uint64_t total = 0;
  for (size_t i = 0; i < options.sources.size(); ++i) {
    const uint64_t samples = options.sources[i].order.sample_count();
    if (samples == 0) return fail(ErrorCode::kInvalidArgument, "source {} has no samples", i);
    if (samples > kSamplesMax - total)
      return fail(ErrorCode::kInvalidArgument, "more than 2^62 samples in all sources");
    mixture.sources_.push_back({options.sources[i].order, 0, total});
    total += samples;
  }
  mixture.root_count_ = options.epoch_samples != 0 ? options.epoch_samples : total;
  if (mixture.root_count_ > kSamplesMax)
    return fail(ErrorCode::kInvalidArgument, "an epoch of {} samples: the most is 2^62",
                mixture.root_count_);
  std::vector<uint64_t> quotas;
  if (std::all_of(options.sources.begin(), options.sources.end(),
                  [](const MixtureSource& source) { return source.weight == 0; }) &&
      mixture.root_count_ == total) {
    // By size: exactly once each, whatever doubles make of large numbers.
    for (const Source& source : mixture.sources_) quotas.push_back(source.order.sample_count());
  } else {
    quotas = make_quotas(weights, mixture.root_count_);
  }
  for (size_t i = 0; i < quotas.size(); ++i) mixture.sources_[i].quota = quotas[i];
  mixture.leaves_.resize(quotas.size());
  mixture.build(0, static_cast<uint32_t>(quotas.size()), 0, false);
  return mixture;
}

// The groups [first, middle) and [middle, end) take turns, and so on inside each of them.
void Mixture::build(uint32_t first, uint32_t end, uint32_t parent, bool is_left) {
  if (end - first == 1) {
    leaves_[first] = {parent, is_left};
    return;
  }
  const uint32_t middle = first + (end - first) / 2;
  const auto number = static_cast<uint32_t>(nodes_.size());
  Node& added = nodes_.emplace_back();
  for (uint32_t i = first; i < end; ++i) {
    added.count += sources_[i].quota;
    if (i < middle) added.left += sources_[i].quota;
  }
  added.parent = parent;
  added.is_left_of_parent = is_left;
  added.is_left_leaf = middle - first == 1;
  added.is_right_leaf = end - middle == 1;
  nodes_[number].left_child = middle - first == 1 ? first : static_cast<uint32_t>(nodes_.size());
  build(first, middle, number, true);
  nodes_[number].right_child = end - middle == 1 ? middle : static_cast<uint32_t>(nodes_.size());
  build(middle, end, number, false);
}

uint64_t Mixture::phase(uint64_t epoch, uint32_t node) const {
  const uint64_t count = nodes_[node].count;
  return static_cast<uint64_t>(Wide{base::derive_seed(seed_, epoch, node)} * count >> 64);
}

std::vector<uint64_t> Mixture::phases_of(uint64_t epoch) const {
  std::vector<uint64_t> phases;
  for (uint32_t node = 0; node < nodes_.size(); ++node) phases.push_back(phase(epoch, node));
  return phases;
}

Mixture::Draw Mixture::draw_at(std::span<const uint64_t> phases, uint64_t position) const {
  if (nodes_.empty()) return {0, position};
  for (uint32_t number = 0;;) {
    const Node& node = nodes_[number];
    const uint64_t before = drawn_before(position, node.left, node.count, phases[number]);
    const bool is_left = drawn_before(position + 1, node.left, node.count, phases[number]) > before;
    position = is_left ? before : position - before;
    const uint32_t child = is_left ? node.left_child : node.right_child;
    if (is_left ? node.is_left_leaf : node.is_right_leaf) return {child, position};
    number = child;
  }
}

// Draws [first, first + out.size()) of `source` in `epoch`, which may reach into its next
// permutation.
void Mixture::draw_samples(uint32_t source, uint64_t epoch, uint64_t first,
                           std::span<uint64_t> out) const {
  const Source& from = sources_[source];
  const uint64_t samples = from.order.sample_count();
  const Wide start = Wide{epoch} * from.quota + first;
  auto round = static_cast<uint64_t>(start / samples);
  auto position = static_cast<uint64_t>(start % samples);
  while (!out.empty()) {
    const auto part = out.first(std::min<uint64_t>(out.size(), samples - position));
    from.order.samples_at(round, position, part);
    for (uint64_t& sample : part) sample += from.first_sample;
    out = out.subspan(part.size());
    position = 0;
    ++round;
  }
}

void Mixture::samples_at(uint64_t epoch, uint64_t first, std::span<uint64_t> out) const {
  if (nodes_.empty()) return draw_samples(0, epoch, first, out);
  // Neighbouring positions draw neighbouring numbers from each source: those are asked for
  // together.
  struct Taken {
    uint64_t first = 0;
    std::vector<size_t> places;
  };
  const std::vector<uint64_t> phases = phases_of(epoch);
  std::vector<Taken> taken(sources_.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Draw draw = draw_at(phases, first + i);
    Taken& of = taken[draw.source];
    if (of.places.empty()) of.first = draw.number;
    of.places.push_back(i);
  }
  std::vector<uint64_t> samples;
  for (uint32_t source = 0; source < taken.size(); ++source) {
    const Taken& of = taken[source];
    samples.resize(of.places.size());
    draw_samples(source, epoch, of.first, samples);
    for (size_t i = 0; i < samples.size(); ++i) out[of.places[i]] = samples[i];
  }
}

std::optional<uint64_t> Mixture::position_of(uint64_t epoch, uint64_t sample) const {
  uint32_t number = 0;
  while (number + 1 < sources_.size() && sample >= sources_[number + 1].first_sample) ++number;
  const Source& source = sources_[number];
  if (source.quota == 0) return std::nullopt;
  const uint64_t samples = source.order.sample_count();
  const Wide start = Wide{epoch} * source.quota, end = start + source.quota;
  std::optional<uint64_t> draw;
  for (Wide round = start / samples; !draw && round * samples < end; ++round) {
    const Wide at = round * samples + source.order.position_of(static_cast<uint64_t>(round),
                                                               sample - source.first_sample);
    if (at >= start && at < end) draw = static_cast<uint64_t>(at - start);
  }
  if (!draw || nodes_.empty()) return draw;
  uint64_t position = *draw;
  bool is_left = leaves_[number].is_left;
  for (uint32_t at = leaves_[number].node;;) {
    const Node& node = nodes_[at];
    const uint64_t phase_here = phase(epoch, at);
    position = is_left ? position_of_draw(position, node.left, node.count, phase_here)
                       : position_of_draw(position, node.count - node.left, node.count,
                                          other_phase(node.count, phase_here));
    if (at == 0) return position;
    is_left = node.is_left_of_parent;
    at = node.parent;
  }
}

double Mixture::entropy() const {
  if (root_count_ < 2) return 0;
  double reachable = 0;
  for (const Source& source : sources_) {
    const auto samples = static_cast<double>(source.order.sample_count());
    const double share = static_cast<double>(source.quota) / samples;
    reachable += share * source.order.entropy() * log2_factorial(samples);
  }
  return std::min(1.0, reachable / log2_factorial(static_cast<double>(root_count_)));
}

bool Mixture::is_mixed() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return source.order.is_mixed(); });
}

uint64_t Mixture::fingerprint() const {
  uint64_t hash = base::derive_seed(seed_, sources_.size(), root_count_);
  for (const Source& source : sources_)
    hash = base::derive_seed(hash, source.order.fingerprint(), source.quota);
  return hash;
}

}  // namespace forebay::dataset

#include "explain/suffix_automaton.h"

#include <algorithm>
#include <numeric>

namespace forebay::explain {
namespace {

using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

uint32_t* find_edge(Edges& edges, uint32_t token) {
  for (auto& [known, target] : edges) {
    if (known == token) return &target;
  }
  return nullptr;
}

}  // namespace

SuffixAutomaton::SuffixAutomaton(std::span<const uint32_t> tokens) : size_(tokens.size()) {
  states_.reserve(2 * tokens.size() + 2);
  next_.reserve(2 * tokens.size() + 2);
  states_.emplace_back();
  next_.emplace_back();
  for (size_t i = 0; i < tokens.size(); ++i) extend(tokens[i], static_cast<uint32_t>(i));
  count();
}

void SuffixAutomaton::extend(uint32_t token, uint32_t position) {
  const auto added = static_cast<uint32_t>(states_.size());
  states_.push_back({states_[last_].length + 1, 0, position, position, 1});
  next_.emplace_back();
  uint32_t at = last_;
  last_ = added;
  while (at != UINT32_MAX && find_edge(next_[at], token) == nullptr) {
    next_[at].emplace_back(token, added);
    at = states_[at].link;
  }
  if (at == UINT32_MAX) return;
  const uint32_t target = *find_edge(next_[at], token);
  if (states_[target].length == states_[at].length + 1) {
    states_[added].link = target;
    return;
  }
  const auto clone = static_cast<uint32_t>(states_.size());
  states_.push_back(states_[target]);
  states_[clone].length = states_[at].length + 1;
  states_[clone].occurrences = 0;
  next_.push_back(next_[target]);
  while (at != UINT32_MAX) {
    uint32_t* to = find_edge(next_[at], token);
    if (to == nullptr || *to != target) break;
    *to = clone;
    at = states_[at].link;
  }
  states_[target].link = states_[added].link = clone;
}

// From the longest to the shortest: a suffix occurs wherever what it ends does.
void SuffixAutomaton::count() {
  std::vector<uint32_t> order(states_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return states_[a].length > states_[b].length; });
  for (const uint32_t state : order) {
    const State& here = states_[state];
    if (here.link == UINT32_MAX) continue;
    State& link = states_[here.link];
    link.occurrences += here.occurrences;
    link.first_end = std::min(link.first_end, here.first_end);
    link.last_end = std::max(link.last_end, here.last_end);
  }
}

std::vector<Repeat> SuffixAutomaton::repeats(size_t limit) const {
  std::vector<Repeat> found;
  for (size_t i = 1; i < states_.size(); ++i) {
    const State& state = states_[i];
    if (state.occurrences < 3) continue;
    // Occurrences that overlap are one pattern seen through a shifted window.
    const double spacing = static_cast<double>(state.last_end - state.first_end) /
                           static_cast<double>(state.occurrences - 1);
    if (spacing < 0.9 * state.length) continue;
    const double coverage =
        static_cast<double>(state.occurrences) * state.length / static_cast<double>(size_);
    found.push_back({state.first_end + 1 - state.length, state.length, state.occurrences,
                     std::min(coverage, 1.0)});
  }
  std::sort(found.begin(), found.end(), [](const Repeat& a, const Repeat& b) {
    const int coarse_a = static_cast<int>(a.coverage * 50),
              coarse_b = static_cast<int>(b.coverage * 50);
    return coarse_a != coarse_b ? coarse_a > coarse_b : a.length < b.length;
  });
  if (found.size() > limit) found.resize(limit);
  return found;
}

namespace {

// How many tokens from `at` the pattern takes with the fewest edits, 0 when it takes more than
// allowed. A band around the diagonal: each row is one token of the pattern.
size_t match_length(std::span<const uint32_t> tokens, size_t at, std::span<const uint32_t> pattern,
                    size_t edits) {
  const size_t width = 2 * edits + 1;
  constexpr size_t kFar = 1 << 20;
  std::vector<size_t> row(width, kFar), below(width);
  for (size_t k = edits; k < width; ++k) row[k] = k - edits;
  for (size_t i = 1; i <= pattern.size(); ++i) {
    size_t best = kFar;
    for (size_t k = 0; k < width; ++k) {
      below[k] = kFar;
      if (i + k < edits) continue;
      const size_t j = i + k - edits;  // tokens taken
      if (j > 0 && at + j <= tokens.size()) {
        below[k] = row[k] + (tokens[at + j - 1] == pattern[i - 1] ? 0 : 1);
        if (k > 0) below[k] = std::min(below[k], below[k - 1] + 1);
      }
      if (k + 1 < width) below[k] = std::min(below[k], row[k + 1] + 1);
      best = std::min(best, below[k]);
    }
    if (best > edits) return 0;
    std::swap(row, below);
  }
  size_t found = 0, best = edits + 1;
  for (size_t k = 0; k < width; ++k) {
    const size_t distance = k > edits ? k - edits : edits - k;
    const size_t found_distance = found == 0               ? kFar
                                  : found > pattern.size() ? found - pattern.size()
                                                           : pattern.size() - found;
    if (pattern.size() + k < edits) continue;
    if (row[k] < best || (row[k] == best && distance < found_distance)) {
      best = row[k];
      found = pattern.size() + k - edits;
    }
  }
  return best <= edits ? found : 0;
}

}  // namespace

std::vector<size_t> occurrences(std::span<const uint32_t> tokens, std::span<const uint32_t> pattern,
                                size_t edits) {
  std::vector<size_t> out;
  for (size_t at = 0; at < tokens.size();) {
    // An occurrence begins with its own first token; the edits are further in.
    const size_t length = tokens[at] == pattern[0] ? match_length(tokens, at, pattern, edits) : 0;
    if (length > 0) out.push_back(at);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace forebay::explain

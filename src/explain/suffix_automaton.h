// Every substring of a sequence of tokens in linear space: which patterns repeat, how often, where.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace forebay::explain {

// A pattern that repeats without overlapping itself much.
struct Repeat {
  size_t begin = 0;   // of one occurrence
  size_t length = 0;  // tokens
  size_t occurrences = 0;
  double coverage = 0;  // of the sequence
};

class SuffixAutomaton {
 public:
  // Costs O(n) and about 120 bytes a token.
  explicit SuffixAutomaton(std::span<const uint32_t> tokens);

  // The maximal repeats of at least three occurrences that cover most, at most `limit`; of those
  // that cover nearly the same the shorter pattern comes first.
  std::vector<Repeat> repeats(size_t limit) const;

 private:
  struct State {
    uint32_t length = 0, link = UINT32_MAX;
    uint32_t first_end = 0, last_end = 0;
    uint32_t occurrences = 0;
  };
  void extend(uint32_t token, uint32_t position);
  uint64_t edge(uint32_t state, uint32_t token) const { return uint64_t{state} << 32 | token; }
  void count();

  std::vector<State> states_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> next_;  // by state: token, target
  uint32_t last_ = 0;
  size_t size_ = 0;
};

// Where a pattern begins in a sequence, without overlaps, with up to `edits` tokens inserted, lost
// or changed in each occurrence.
std::vector<size_t> occurrences(std::span<const uint32_t> tokens, std::span<const uint32_t> pattern,
                                size_t edits);

}  // namespace forebay::explain

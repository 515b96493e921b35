// Shares out calls that were counted without what they were about, as those of the same name that
// were kept are: an estimate of who has how many, whose sum is exact.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace forebay::explain {

struct CallSum {
  uint64_t count = 0, bytes = 0;
  int64_t ns = 0;
};

class Shares {
 public:
  // A kept call, or several, of the name `what`.
  void keep(uint64_t what, size_t group, const CallSum& call);
  bool knows(uint64_t what) const { return kept_.count(what) != 0; }
  // Hands parts of `counted` to the groups that have kept calls of this name.
  void share_out(uint64_t what, const CallSum& counted,
                 const std::function<void(size_t group, const CallSum&)>& give) const;
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    std::vector<std::pair<size_t, CallSum>> groups;  // in the order in which they appeared
    std::unordered_map<size_t, size_t> position;
    CallSum all;
  };
  std::unordered_map<uint64_t, Kept> kept_;
};

}  // namespace forebay::explain

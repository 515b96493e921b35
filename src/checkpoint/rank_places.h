// Which ranks see the same files at a place: a path like /nvme is another folder on each host.
//
// As RankGroup: one thread at a time, the same calls on every rank.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <vector>

#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

struct RankPlaces {
  std::vector<int> leaders;  // by rank: the first one that sees the same files

  // The first rank that does not see what rank 0 does.
  std::optional<int> first_apart() const;
  // By rank: whether it sees what `rank` does.
  std::vector<bool> together_with(int rank) const;
};

// Found out by files that lie there for the moment, in the working folder of `probe`; object stores
// need not be asked, all see the same there. When a rank cannot write there, its error on every
// rank.
Result<RankPlaces> find_places(Tier& tier, RankGroup& group, const SaveName& probe,
                               const std::stop_token& stop);

}  // namespace forebay::checkpoint

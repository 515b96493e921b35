// How ranks agree: each says what it has or why it has failed, and all learn the same.
//
// As RankGroup: one thread at a time, the same calls on every rank.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "forebay/checkpoint.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

// What each rank gave, by rank; when any has failed, its error on every rank: "rank 3: ...".
Result<std::vector<std::string>> agree(RankGroup& group, const Result<std::string>& mine,
                                       const std::stop_token& stop);

// A group of one.
std::shared_ptr<RankGroup> make_single_rank();

}  // namespace forebay::checkpoint

// A Checkpointer on tiers that somebody else opened: for tests with stores of their own.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/tier.h"
#include "forebay/checkpoint.h"

namespace forebay::checkpoint {

// As Checkpointer::open(); `options.tiers` still says how each is used.
Result<std::unique_ptr<Checkpointer>> open_on_tiers(std::vector<std::unique_ptr<Tier>> tiers,
                                                    const CheckpointOptions& options);

}  // namespace forebay::checkpoint

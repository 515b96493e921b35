// What a Checkpointer is given: each value that makes no sense is refused by its name, in one place
// for all who have such options.
//
// Looks at the file system, to tell places apart; safe from any thread.
#pragma once

#include "forebay/checkpoint.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

// kInvalidArgument names the first option that is wrong and what it may be.
Status check_options(const CheckpointOptions& options);

// The same of where ranks meet.
Status check_address(const RankAddress& address);

}  // namespace forebay::checkpoint

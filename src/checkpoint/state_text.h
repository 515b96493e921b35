// The parts of a state that are text.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "forebay/checkpoint.h"
#include "forebay/result.h"

namespace forebay::checkpoint {

// kInvalidArgument: a tree that is no JSON or nests deeper than 100 levels, names that are no
// UTF-8.
Status check_text(const CheckpointState& state);

bool is_utf8(std::string_view text);

// Of digits that this program wrote itself.
uint64_t number_of(std::string_view digits);

}  // namespace forebay::checkpoint

// Whether boxes fill a larger one exactly: the pieces of a tensor that many ranks hold.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/manifest.h"

namespace forebay::checkpoint {

// Each element of `tensor` is in exactly one piece, and no piece reaches beyond it. kCorruption
// says what is wrong; kUnsupported when it is split along more than four dimensions, or
// into millions of pieces.
Status check_pieces(const SavedTensor& tensor);

}  // namespace forebay::checkpoint

// Finds the iterations of one thread or device without being told how many there are.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "explain/driver_time.h"

namespace forebay::explain {

// What a thread did, as symbols: the call, the class of its size, the class of its file.
struct Token {
  int64_t time_ns = 0;
  uint32_t symbol = 0;
  uint32_t coarse = 0;  // the call alone
  bool is_lock = false;
};

struct Found {
  std::vector<int64_t> boundaries = {};  // in order: n iterations have n + 1
  std::string method = {};
  std::string reason = {};  // why there are none
  double confidence = 0, coverage = 0, regularity = 0, cv = 0;
};

// Outermost calls of a thread, or kernels of a device, in the order of time.
std::vector<Token> tokens_of(const View& view, const DriverPlan& plan);

// `pieces` may be empty for a thread that is nobody's driver.
Found search_iterations(std::span<const Token> tokens, std::span<const Owned> pieces,
                        std::span<const CauseKind> kinds_of_causes);

}  // namespace forebay::explain

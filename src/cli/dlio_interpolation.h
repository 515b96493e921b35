// Replaces ${...} in a configuration tree: other values by path, the time, the environment.
//
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "workload/document.h"

namespace forebay::cli {

struct InterpolationScope {
  const workload::Node& root;   // of ${workload.model.name}
  const workload::Node& hydra;  // of ${hydra.job.name} and ${hydra:runtime.cwd}
  int64_t now_us = 0;           // since 1970, of ${now:%Y-%m-%d}
};

// The value at `path` of `root`, or of `hydra` for paths that begin with "hydra.", with everything
// replaced in it. kInvalidArgument names the path and what it asks for.
Result<workload::Node> interpolated(const InterpolationScope& scope, std::string_view path);

}  // namespace forebay::cli

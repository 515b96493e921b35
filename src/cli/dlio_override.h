// One word of a Hydra command line, such as ++workload.reader.batch_size=8: what it asks for, by
// Hydra's own grammar of values. Hydra is what DLIO reads its command line with.
//
// Values; pure functions.
#pragma once

#include <string>
#include <string_view>

#include "forebay/result.h"
#include "workload/document.h"

namespace forebay::cli {

struct DlioOverride {
  enum class Kind {
    kChange,    // a.b=c: must be there
    kAdd,       // +a.b=c: must not be there
    kForceAdd,  // ++a.b=c: either
    kDelete,    // ~a.b, ~a.b=c
  };
  Kind kind = Kind::kChange;
  std::string key;        // "workload.reader.batch_size", "workload", "hydra/job_logging"
  bool has_value = true;  // false: ~a.b
  workload::Node value;   // texts have is_quoted set, so that "1" stays text
  std::string text;       // as it was typed; a secret value is ***
};

// kInvalidArgument for what Hydra refuses too; kUnsupported for sweeps, functions and packages. The
// message names the word and what to write instead.
Result<DlioOverride> parse_dlio_override(std::string_view text);

// `value` in that grammar: parse_dlio_override("k=" + text) gives the same value again.
std::string dlio_value_text(const workload::Node& value);

}  // namespace forebay::cli

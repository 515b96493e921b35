// Gathers what all processes measured, of each epoch and at the end, into the run's result. Alone,
// the only part is the whole.
//
// One thread; every process makes the same calls in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulate/epoch_part.h"
#include "emulate/metrics.h"
#include "emulate/run_state.h"
#include "forebay/result.h"

namespace forebay::emulate {

// How the figures of an epoch are computed from its parts.
struct EpochBasis {
  StepRange included;
  uint64_t steps = 0, batch = 0;
  bool has_compute = false, has_barrier = false;
};

class Gathering {
 public:
  explicit Gathering(RunState& run) : run_(run) {}

  // Adds an epoch to the result and tells the observer. `ended` is how it ended here: after a
  // failure nobody is asked, and the part is kept for finish(). Returns that failure, or that of
  // the exchange; kResourceExhausted when all processes together have more bad records than
  // --errors-max allows.
  Status add(EpochPart part, const EpochBasis& basis, Status ended);

  // The last call: adds run.mine and those of the others to the result. After a failure or a stop,
  // which the result then names, process 0 takes what the others can still say, the epoch that
  // ended early included.
  void finish(Status ended);

 private:
  Status exchange(const EpochPart& part);
  Status check_bad_count() const;
  void add_epoch(std::vector<EpochPart> parts, bool is_complete);
  void keep_numbers(const std::vector<bool>& has_told, EpochResult& result) const;
  void fill_own_part();
  Status exchange_parts();
  void end_early(const Status& status);
  std::string why_stopped(const std::vector<std::optional<std::string>>& words,
                          const std::optional<Error>& failure) const;
  std::string pack_last_words() const;
  Status take_last_words(const std::string& text, std::vector<RunPart>& parts,
                         std::vector<EpochPart>& epoch) const;
  void note_clocks();

  RunState& run_;
  EpochBasis basis_;                     // of the epoch that was added last
  std::optional<EpochPart> unfinished_;  // of the epoch that ended early
  uint64_t bad_count_of_all_ = 0;        // processes, up to the last epoch
};

}  // namespace forebay::emulate

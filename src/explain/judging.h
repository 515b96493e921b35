// The rules' judges, by what they are about, and the words they share. rules.cc holds the table.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/rules.h"

namespace forebay::explain {

inline constexpr double kWorthShare = 0.05;  // of the drivers' time; less is not worth a change
inline constexpr double kQuickBytesPerSecond =
    1e9;  // what a plain NVMe disk or a 10 Gbit/s filer gives

std::string time_text(double ns);
std::string percent(double share);
// Of the drivers' time.
double share_of(int64_t ns, const Findings& findings);

// Advice that names a library or a kind of data is for programs that use it: its code was run or
// loaded, or its operators were recorded. An empty recording uses nothing.
bool uses_torch(const Findings& findings);
bool uses_pictures(const Findings& findings);

// The three ways a judge ends.
void applies(Advice& advice, std::string title, std::string evidence, double gain_ns,
             std::vector<std::string> remedies);
void not_needed(Advice& advice, std::string evidence);
void no_evidence(Advice& advice, std::string what);

// Of a part, what it was lengthened by losing the core.
int64_t ready_inside(const Findings& findings, Part part);

// Worker processes that the training processes have at a time, and how many of them there were:
// more than that were begun anew, at each epoch for example.
struct Workers {
  uint64_t at_a_time = 0, begun = 0;
};
Workers workers_of(const Findings& findings);

// The number of workers whose work hides behind training, at most the cores; nothing where there
// are as many already. `work_ns` is what there is to do, by whoever does it now.
std::optional<uint64_t> workers_wanted(const Findings& findings, const Workers& now,
                                       int64_t work_ns);

void judge_slow_disk(const Findings& f, Advice& advice);
void judge_small_files(const Findings& f, Advice& advice);
void judge_memory(const Findings& f, Advice& advice);
void judge_network(const Findings& f, Advice& advice);
void judge_page_cache(const Findings& f, Advice& advice);
void judge_read_ahead(const Findings& f, Advice& advice);
void judge_few_readers(const Findings& f, Advice& advice);
void judge_python_decode(const Findings& f, Advice& advice);
void judge_decode_cpu(const Findings& f, Advice& advice);
void judge_slow_worker(const Findings& f, Advice& advice);
void judge_metadata(const Findings& f, Advice& advice);
void judge_sleep(const Findings& f, Advice& advice);
void judge_locks(const Findings& f, Advice& advice);
void judge_slowdown(const Findings& f, Advice& advice);
void judge_epoch_start(const Findings& f, Advice& advice);
void judge_checkpoint(const Findings& f, Advice& advice);
void judge_uneven_rank(const Findings& f, Advice& advice);
void judge_copies(const Findings& f, Advice& advice);
void judge_launches(const Findings& f, Advice& advice);
void judge_communication(const Findings& f, Advice& advice);
void judge_cores(const Findings& f, Advice& advice);
void judge_unseen(const Findings& f, Advice& advice);
void judge_healthy(const Findings& f, Advice& advice);

}  // namespace forebay::explain

#include "explain/judging.h"
#include "explain/unseen.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace forebay::explain {

namespace {

// The share of preparing that was sampled in the Python interpreter, by whoever prepared.
struct Preparing {
  bool is_own = false;  // the training thread itself
  bool is_python = false;
  std::string function;
  double concurrency = 0;  // threads on the CPU while drivers waited
  size_t busy_helpers = 0;
};
Preparing preparing_of(const Findings& f) {
  Preparing out;
  int64_t own = 0, waited = 0, wait_ns = 0, cpu = 0, most = 0;
  for (const DriverTime& driver : f.time.drivers) {
    own += driver.own_prepare_ns;
    waited += driver.waited_for.prepare;
    wait_ns += driver.wait_ns;
    if (driver.own_prepare_ns > 0 && out.function.empty()) {
      out.function = driver.prepare_function;
      out.is_python = driver.prepare_is_python;
    }
  }
  out.is_own = own >= waited;
  for (const HelperUse& helper : f.time.helpers) {
    cpu += helper.in_stalls.cpu;
    if (helper.in_stalls.cpu * 20 >= wait_ns && wait_ns > 0) ++out.busy_helpers;
    if (!out.is_own && helper.in_stalls.cpu > most) {
      most = helper.in_stalls.cpu;
      out.function = helper.function;
      out.is_python = helper.is_python;
    }
  }
  if (wait_ns > 0) out.concurrency = static_cast<double>(cpu) / static_cast<double>(wait_ns);
  return out;
}

// When training began: before, shells and probes start it, and nobody loads data.
int64_t training_began(const Findings& f) {
  if (f.found.iterations.is_found && !f.found.drivers.front().iterations.empty()) {
    return f.view.recording().begin_ns() + f.found.drivers.front().iterations.front().begin_ns;
  }
  return f.time.drivers.front().begin_ns;
}

// Helpers that work on batches: those that were busy, or waited for a turn, while training waited.
std::vector<const HelperUse*> peers_of(const Findings& f) {
  std::vector<const HelperUse*> peers;
  const int64_t began_ns = training_began(f);
  for (const HelperUse& helper : f.time.helpers) {
    const int64_t took_part = helper.all.busy() + helper.all.sleep;
    // Who lived for a moment only (a shell, a probe) does not load data.
    const DriverTime& driver = f.time.drivers.front();
    const bool is_lasting =
        helper.end_ns > began_ns && helper.life_ns * 5 >= driver.end_ns - driver.begin_ns;
    if (took_part * 50 >= helper.life_ns && is_lasting) peers.push_back(&helper);
  }
  return peers;
}

int64_t worked(const HelperUse& helper) {
  return helper.in_stalls.busy() + helper.in_stalls.sleep;
}

// Workers prepare, and the training thread's own part is to take batches over from them, and to
// begin them anew.
void judge_hand_over(const Preparing& preparing, const Workers& workers,
                     const std::string& evidence, double gain_ns, Advice& advice) {
  const std::string where =
      preparing.function.empty() ? "" : fmt::format(" (most in {})", preparing.function);
  std::vector<std::string> remedies;
  if (workers.begun > workers.at_a_time) {
    remedies.push_back(
        fmt::format("keep workers alive between epochs: DataLoader(..., persistent_workers=True); "
                    "{} were begun, {} at a time",
                    workers.begun, workers.at_a_time));
  }
  remedies.emplace_back(
      "hand over less: larger batches, one tensor a batch, arrays instead of lists of objects");
  remedies.emplace_back(
      "let threads of the training process load: the engine hands a batch over without a copy");
  applies(advice,
          fmt::format("taking batches from {} keeps the training thread busy{}",
                      base::format_counted(workers.at_a_time, "worker processes"), where),
          fmt::format("{}; the workers are there, what is left is the training thread's own part",
                      evidence),
          gain_ns, std::move(remedies));
}

// What there is to prepare, by whoever does it now.
int64_t prepare_work_ns(const Findings& f) {
  int64_t ns = 0;
  for (const DriverTime& driver : f.time.drivers) ns += driver.own_prepare_ns;
  for (const HelperUse& helper : f.time.helpers) ns += helper.all.cpu;
  return ns;
}

std::string decode_in_the_loader(const Findings& f, const Workers& workers) {
  const std::optional<uint64_t> wanted = workers_wanted(f, workers, prepare_work_ns(f));
  if (!wanted) {
    return fmt::format(
        "{} are there already, as many as cores and work allow: make decoding "
        "cheaper, or add cores",
        base::format_counted(workers.at_a_time, "worker processes"));
  }
  if (!uses_torch(f)) {
    return fmt::format(
        "decode ahead of training in {} processes or threads: a pool that maps over the samples, "
        "or forebay.Loader's own decode threads",
        *wanted);
  }
  const std::string now = workers.at_a_time == 0 ? "" : fmt::format(" (now {})", workers.at_a_time);
  return fmt::format(
      "decode in the loader: DataLoader(..., num_workers={}, "
      "persistent_workers=True){}, or the engine's own decode threads",
      *wanted, now);
}

}  // namespace

void judge_python_decode(const Findings& f, Advice& advice) {
  const int64_t all_prep = f.shown[Part::kPrepStall];
  const int64_t ready = ready_inside(f, Part::kPrepStall);
  const int64_t prep = all_prep - ready;  // losing the core is no fault of the decoder
  if (share_of(prep, f) < kWorthShare) {
    return not_needed(advice, fmt::format("prep stall with a core is {} of the time",
                                          percent(share_of(prep, f))));
  }
  const Preparing preparing = preparing_of(f);
  const bool is_single = preparing.is_own || preparing.busy_helpers <= 1;
  if (!is_single) {
    return not_needed(
        advice, fmt::format("{} prepare", base::format_counted(preparing.busy_helpers, "threads")));
  }
  // W workers in the background leave what does not hide behind the rest of the step.
  const double width = std::max(2, f.cores);
  const auto work = static_cast<double>(prep);
  const double rest = static_cast<double>(f.total_ns() - prep);
  const double gain = 0.95 * (work - std::max(0.0, work / width - rest));
  const std::string taken = fmt::format(
      "prep stall {} of the time{}", percent(share_of(all_prep, f)),
      share_of(ready, f) < 0.01
          ? ""
          : fmt::format(", {} of it without a core",
                        percent(static_cast<double>(ready) / static_cast<double>(all_prep))));
  const Workers workers = workers_of(f);
  if (preparing.is_own && workers.at_a_time > 0) {
    int64_t own = 0;
    for (const DriverTime& driver : f.time.drivers) own += driver.own_prepare_ns;
    const auto most = static_cast<double>(std::max<int64_t>(0, own - ready));
    return judge_hand_over(preparing, workers, taken, std::min(gain, most), advice);
  }
  const std::string where =
      preparing.function.empty() ? "" : fmt::format(" ({})", preparing.function);
  applies(
      advice,
      fmt::format("decode runs in one {}thread{}", preparing.is_python ? "Python " : "", where),
      fmt::format("{}; {}", taken,
                  preparing.is_own
                      ? "the training thread decodes itself"
                      : fmt::format("one helper decodes while training waits: {:.1f} threads on "
                                    "the CPU then",
                                    preparing.concurrency)),
      gain,
      {decode_in_the_loader(f, workers),
       "replace Python loops over pixels or records by one call into a native decoder",
       "or store decoded samples (npy, uncompressed) when the disk has bandwidth to spare"});
}

void judge_decode_cpu(const Findings& f, Advice& advice) {
  const int64_t prep = f.shown[Part::kPrepStall];
  const Preparing preparing = preparing_of(f);
  if (share_of(prep, f) < kWorthShare || preparing.is_own || preparing.busy_helpers < 2) {
    return not_needed(advice,
                      fmt::format("prep stall {} of the time, {} busy", percent(share_of(prep, f)),
                                  base::format_counted(preparing.busy_helpers, "helpers")));
  }
  if (preparing.concurrency < 1.5) {
    return not_needed(advice, fmt::format("only {:.1f} of {} helpers run at a time",
                                          preparing.concurrency, preparing.busy_helpers));
  }
  const bool are_pictures = uses_pictures(f);
  const double spare = std::max(0.0, f.cores - preparing.concurrency);
  const double gain =
      static_cast<double>(prep) * (spare >= 1 ? 1 - preparing.concurrency / f.cores : 0.5);
  applies(advice,
          fmt::format("preparing data needs more CPU: {:.1f} threads do, or are ready to, on {} "
                      "while training waits",
                      preparing.concurrency,
                      base::format_counted(static_cast<uint64_t>(f.cores), "cores")),
          fmt::format(
              "prep stall {} of the time; mostly in {}", percent(share_of(prep, f)),
              preparing.function.empty() ? "functions that were not sampled" : preparing.function),
          gain,
          {spare >= 1 ? fmt::format("use more workers: {} instead of {}, {} free",
                                    preparing.busy_helpers + static_cast<size_t>(spare),
                                    preparing.busy_helpers,
                                    base::format_counted(static_cast<uint64_t>(spare), "cores"))
                      : fmt::format("all cores are busy: prepare once and store the result{}",
                                    are_pictures ? ", or decode smaller (scaled JPEG, cropped "
                                                   "reads)"
                                                 : ""),
           are_pictures
               ? "use a faster decoder (libjpeg-turbo, SIMD), or decode on the accelerator"
               : "make what they do cheaper: native code instead of loops in Python, SIMD, or the "
                 "accelerator"});
}

void judge_slow_worker(const Findings& f, Advice& advice) {
  const std::vector<const HelperUse*> peers = peers_of(f);
  if (peers.size() < 2) return no_evidence(advice, "fewer than two loader threads were seen");
  const int64_t stall = f.shown[Part::kFetchStall] + f.shown[Part::kPrepStall];
  std::vector<int64_t> times;
  const HelperUse* top = peers[0];
  int64_t sum = 0;
  for (const HelperUse* peer : peers) {
    times.push_back(worked(*peer));
    sum += times.back();
    if (worked(*peer) > worked(*top)) top = peer;
  }
  std::sort(times.begin(), times.end());
  const int64_t usual = times[(times.size() - 1) / 2];
  const double part = sum == 0 ? 0 : static_cast<double>(worked(*top)) / static_cast<double>(sum);
  const bool is_alone = part >= (peers.size() == 2 ? 0.75 : 0.5) &&
                        static_cast<double>(worked(*top)) >= 2.0 * static_cast<double>(usual);
  const std::string evidence =
      fmt::format("of {} workers '{}' did {} of the work while training waited", peers.size(),
                  f.view.recording().track_path(top->thread), percent(part));
  if (share_of(stall, f) < kWorthShare || !is_alone) return not_needed(advice, evidence);
  const double gain = static_cast<double>(stall) *
                      (1 - static_cast<double>(usual) / static_cast<double>(worked(*top)));
  applies(advice, fmt::format("one worker is slow: {}", f.view.recording().track_path(top->thread)),
          evidence + (top->function.empty() ? "" : ", mostly in " + top->function), gain,
          {"look at what this worker gets: larger files, a slower disk, a busy core, a cold cache",
           "hand out single samples instead of fixed parts, so that the quick ones take more",
           fmt::format("deliver batches as they are ready{} when the order need not be exact",
                       uses_torch(f) ? " (in_order=False)" : "")});
}

void judge_locks(const Findings& f, Advice& advice) {
  const std::vector<const HelperUse*> peers = peers_of(f);
  if (peers.size() < 2) return no_evidence(advice, "fewer than two loader threads were seen");
  int64_t lock = 0, ran = 0, unblocked = 0, all = 0, most = 0, stall_ns = 0;
  bool is_python = false;
  for (const HelperUse* peer : peers) {
    const HelperUse::Times& times = peer->in_stalls;
    // What others make is waited for too: that is no lock, as far as it can be told apart.
    lock += times.lock - times.event - (peer->is_python ? 0 : times.semaphore) + times.unseen;
    ran += times.cpu - times.ready;
    unblocked += times.busy();
    all += times.busy() + times.lock + times.poll + times.sleep + times.unseen;
    most = std::max(most, worked(*peer));
    is_python = is_python || peer->is_python;
  }
  for (const DriverTime& driver : f.time.drivers) stall_ns += driver.wait_ns;
  if (all == 0 || stall_ns == 0) return not_needed(advice, "training never waited for them");
  const double locked = static_cast<double>(lock) / static_cast<double>(all);
  const auto at_a_time = [&](int64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(stall_ns);
  };
  const std::string evidence = fmt::format(
      "while training waited, {} workers spent {} of their time waiting for locks; {:.1f} of them "
      "went on at a time, {:.1f} with a core",
      peers.size(), percent(locked), at_a_time(unblocked), at_a_time(ran));
  // Of the rest the waits for threads: no lock keeps a core from training.
  const int64_t stall = f.shown[Part::kPrepStall] + f.shown[Part::kFetchStall] +
                        f.shown[Part::kOther] - cause_ns(f.found, Part::kOther, kReadyCause) -
                        cause_ns(f.found, Part::kOther, kThreadsReadyCause) -
                        cause_ns(f.found, Part::kOther, kUnseenCause);
  const bool rotates = most * 10 < (unblocked + 1) * 7;
  // Without the lock those that wait for it would go on too, each with the part of a core that one
  // has now; all together no more than all cores.
  const double slowed = std::max(
      static_cast<double>(unblocked) / static_cast<double>(std::max<int64_t>(1, unblocked + lock)),
      at_a_time(ran) / f.cores);
  const double gain = static_cast<double>(stall) * std::max(0.0, 1 - slowed);
  if (locked < 0.4 || !rotates || share_of(static_cast<int64_t>(gain), f) < kWorthShare) {
    return not_needed(advice, evidence);
  }
  applies(advice,
          fmt::format("workers wait for {}: {:.1f} of {} go on at a time",
                      is_python ? "Python's global lock" : "one lock", at_a_time(unblocked),
                      peers.size()),
          evidence, gain,
          {is_python ? "use worker processes instead of threads, or decode in "
                       "native code that releases the GIL"
                     : "hold the lock for the hand-over only, not while reading or decoding",
           "give each worker its own state (cache, file handle, random generator)",
           "find the lock: forebay explain --json lists swarms with their callers"});
}

}  // namespace forebay::explain

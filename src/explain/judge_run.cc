#include "explain/judging.h"
#include "explain/slowdown.h"
#include "explain/unseen.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace forebay::explain {

namespace {

int64_t waited_ns(const Findings& f) {
  int64_t ns = 0;
  for (const DriverTime& driver : f.time.drivers) ns += driver.wait_ns;
  return ns;
}

}  // namespace

// "steps from 1.20 s on are": where no epochs are known.
static std::string slower_from(const Findings& f, const Slowdown& found) {
  if (f.found.pace) {
    return fmt::format("steps from {} on are", time_text(static_cast<double>(f.found.pace->at_ns)));
  }
  return fmt::format("the last {} are", base::format_counted(found.later_steps, "steps"));
}

void judge_slowdown(const Findings& f, Advice& advice) {
  if (!f.found.iterations.is_found || f.found.drivers.empty()) {
    return no_evidence(advice, "no iterations were found");
  }
  const std::optional<Slowdown> found = slowdown_of(f);
  if (!found) return no_evidence(advice, "too few iterations to compare");
  const double times = found->later_ns() / std::max(1.0, found->first_ns());
  const std::string evidence =
      fmt::format("a step takes {} in the first {}, {} afterwards", time_text(found->first_ns()),
                  found->has_epochs ? "epoch" : "part", time_text(found->later_ns()));
  if (!found->is_slower()) return not_needed(advice, evidence);
  const Part grown = found->grown();
  const int64_t elsewhere =
      cause_ns(f.found, Part::kOther, kUnseenCause) + cause_ns(f.found, Part::kOther, kReadyCause);
  if (grown == Part::kOther && elsewhere * 2 > f.shown[Part::kOther]) {
    return not_needed(advice, evidence + "; what grew was not seen, or other threads' doing");
  }
  if (waits_for_crowded_threads(f.time, grown)) {
    return not_needed(advice, evidence + "; what grew is waiting for threads that lacked cores");
  }
  applies(
      advice,
      fmt::format("{} slower: {:.1f} times",
                  found->has_epochs ? "later epochs are" : slower_from(f, *found), times),
      fmt::format("{}; what grew is {}", evidence, part_name(grown)),
      found->grown_ns() * static_cast<double>(found->later_steps * f.found.drivers.size()),
      {grown == Part::kFetchStall
           ? "either more is read in each step, or the data no longer comes from memory: keep a "
             "fixed part cached instead of all in turn, or add memory"
           : "something piles up: look at forebay explain A --against B of a short and a long run",
       fmt::format("do not rebuild workers, listings or caches in each epoch{}",
                   uses_torch(f) ? " (persistent_workers=True)" : "")});
}

void judge_epoch_start(const Findings& f, Advice& advice) {
  if (!f.found.iterations.is_found) return no_evidence(advice, "no iterations were found");
  for (const SlowKind& slow : f.found.slow) {
    if (slow.kind != "epoch start" || share_of(slow.excess_ns, f) < 0.01) continue;
    const std::string cost = time_text(static_cast<double>(slow.mean_ns - slow.ordinary_ns));
    return applies(
        advice,
        slow.count == 1 ? "an epoch start costs " + cost : "epoch starts cost " + cost + " each",
        fmt::format("{}; {}", base::format_counted(slow.count, "epoch starts"), slow.explanation),
        static_cast<double>(slow.excess_ns) * 0.9,
        {fmt::format("keep workers alive between epochs{}",
                     uses_torch(f) ? ": DataLoader(..., persistent_workers=True)" : ""),
         "list the data set once and keep the listing; shuffle numbers, not paths",
         "begin the next epoch's first batches before this one ends"});
  }
  not_needed(advice, "no epoch start costs 1 % of the time");
}

namespace {

// The complete iterations that save.
struct Saving {
  uint64_t count = 0;
  int64_t saved_ns = 0;
};
Saving saving_of(const Findings& f) {
  Saving out;
  for (const Driver& driver : f.found.drivers) {
    for (const Iteration& step : driver.iterations) {
      if (step.is_partial || !step.has_checkpoint) continue;
      ++out.count;
      out.saved_ns += step.parts[Part::kCheckpoint];
    }
  }
  return out;
}

// "; 10 saves of 216 ms, 401 ms from one to the next": where steps are not known.
std::string saves_text(const Findings& f) {
  constexpr int64_t kApartNs = 1'000'000;
  int64_t ns = 0, first_ns = INT64_MAX, last_ns = INT64_MIN;
  uint64_t count = 0;
  for (const DriverTime& driver : f.time.drivers) {
    int64_t end_ns = INT64_MIN / 2;
    for (const Owned& piece : driver.pieces) {
      if (piece.part != Part::kCheckpoint) continue;
      if (piece.begin_ns - end_ns > kApartNs) {
        ++count;
        first_ns = std::min(first_ns, piece.begin_ns);
        last_ns = std::max(last_ns, piece.begin_ns);
      }
      ns += piece.end_ns - piece.begin_ns;
      end_ns = piece.end_ns;
    }
  }
  if (count == 0) return "";
  std::string text = fmt::format("; {} of {}", base::format_counted(count, "saves"),
                                 time_text(static_cast<double>(ns) / static_cast<double>(count)));
  if (count > 1 && f.time.drivers.size() == 1) {
    text += fmt::format(
        ", {} from one to the next",
        time_text(static_cast<double>(last_ns - first_ns) / static_cast<double>(count - 1)));
  }
  return text;
}

// ", in model.py:9 save(), most to /ck/model-100.ckpt": what was sampled and written.
std::string saved_where(const Findings& f) {
  std::string where;
  for (const DriverTime& driver : f.time.drivers) {
    if (driver.save_function.empty()) continue;
    where = fmt::format(", in {}", driver.save_function);
    break;
  }
  const IoUse* most = nullptr;
  for (const IoUse& use : f.found.io.files) {
    const bool is_larger = most == nullptr || use.written_bytes > most->written_bytes;
    if (is_larger && use.written_bytes > 0) most = &use;
  }
  if (most != nullptr) where += fmt::format("; most is written to {}", most->name);
  return where;
}

}  // namespace

void judge_checkpoint(const Findings& f, Advice& advice) {
  const int64_t saved = f.shown[Part::kCheckpoint];
  std::string evidence =
      fmt::format("checkpoints take {} of the time", percent(share_of(saved, f)));
  if (share_of(saved, f) < 0.02) return not_needed(advice, evidence);
  const Saving saving = saving_of(f);
  const uint64_t all = f.found.iterations.count;
  std::string when;
  for (const SlowKind& slow : f.found.slow) {
    if (slow.kind == "checkpoint" && slow.every)
      when = " every " + base::format_counted(*slow.every, "steps");
  }
  if (saving.count > 0 && saving.count == all) when = " in each step";
  if (saving.count == 0) evidence += saves_text(f);
  if (saving.count > 0) {
    evidence += fmt::format(
        "; {} of {} {}, for {} each", base::format_count(saving.count),
        base::format_counted(all, "steps"), saving.count == 1 ? "saves" : "save",
        time_text(static_cast<double>(saving.saved_ns) / static_cast<double>(saving.count)));
  }
  evidence += saved_where(f);
  applies(advice, fmt::format("training stops for checkpoints{}", when), evidence,
          static_cast<double>(saved) * 0.9,
          {fmt::format(
               "save in the background: copy the state to memory, write it while training goes "
               "on ({})",
               uses_torch(f) ? "torch.distributed.checkpoint.async_save" : "forebay.checkpoint"),
           "write to a local disk first and drain to shared storage afterwards",
           "save less often: the optimum is sqrt(2 x cost of a save x time between failures)"});
}

void judge_uneven_rank(const Findings& f, Advice& advice) {
  const std::vector<Rank>& ranks = f.found.alignment.ranks;
  if (f.found.drivers.size() < 2) {
    return no_evidence(advice, "only one rank was recorded; record all ranks into one folder");
  }
  const Rank* slowest = nullptr;
  std::vector<int64_t> works;
  for (const Rank& rank : ranks) {
    if (!rank.own_work_ns) continue;
    works.push_back(*rank.own_work_ns);
    if (slowest == nullptr || *rank.own_work_ns > *slowest->own_work_ns) slowest = &rank;
  }
  if (slowest == nullptr) return no_evidence(advice, "no iterations were found");
  std::sort(works.begin(), works.end());
  const int64_t usual = works[(works.size() - 1) / 2];
  const int64_t sync = f.shown[Part::kSyncStall];
  const std::string evidence =
      fmt::format("rank {} works {} a step, the usual rank {}; sync stall {} of the time",
                  slowest->rank, time_text(static_cast<double>(*slowest->own_work_ns)),
                  time_text(static_cast<double>(usual)), percent(share_of(sync, f)));
  if (!slowest->is_straggler || share_of(sync, f) < 0.02) return not_needed(advice, evidence);
  const double excess = static_cast<double>(*slowest->own_work_ns - usual) *
                        static_cast<double>(f.found.iterations.count);
  applies(
      advice, fmt::format("rank {} is slower than the others", slowest->rank), evidence,
      std::min(excess, static_cast<double>(sync) * static_cast<double>(f.found.drivers.size()) /
                           static_cast<double>(f.found.drivers.size() - 1)),
      {fmt::format("look at this rank alone: forebay explain --rank {}", slowest->rank),
       "compare its host: forebay explain A --against B shows which functions take longer there",
       "give ranks equal work: pad or bucket samples by length, equal shards, equal hardware"});
}

void judge_copies(const Findings& f, Advice& advice) {
  const int64_t copies = f.shown[Part::kCopy];
  const bool has_device = !f.found.accelerators.empty();
  if (!has_device && copies == 0) return no_evidence(advice, "no copies to a device were recorded");
  const std::string evidence =
      fmt::format("copies that nothing hides take {} of the time", percent(share_of(copies, f)));
  if (share_of(copies, f) < 0.1) return not_needed(advice, evidence);
  applies(advice, "copies between host and device are not hidden", evidence,
          static_cast<double>(std::min(copies, f.shown[Part::kCompute])),
          {uses_torch(f) ? "pin the batches and copy ahead: DataLoader(..., pin_memory=True); x = "
                           "x.to(device, non_blocking=True)"
                         : "pin the batches (cudaMallocHost) and copy ahead (cudaMemcpyAsync)",
           "copy on a stream of its own, one batch ahead of the computation",
           "send less: uint8 images, normalised on the device"});
}

void judge_launches(const Findings& f, Advice& advice) {
  int64_t idle = 0;
  bool has_device = false;
  for (const DriverTime& driver : f.time.drivers) {
    if (driver.plan.kind != DriverKind::kAccelerator) continue;
    has_device = true;
    idle += driver.launch_idle_ns;
  }
  if (!has_device) return no_evidence(advice, "no kernels were recorded");
  idle = std::min(idle, f.shown[Part::kIdle]);
  const std::string evidence = fmt::format(
      "devices idle {} of the time while the host prepares "
      "launches",
      percent(share_of(idle, f)));
  if (share_of(idle, f) < 0.1) return not_needed(advice, evidence);
  // A step of training has hundreds; without steps a few kernels are no pattern.
  constexpr uint64_t kKernelsMin = 20;
  uint64_t kernels = 0;
  for (const Accelerator& device : f.found.accelerators) kernels += device.kernels;
  if (!f.found.iterations.is_found && kernels < kKernelsMin) {
    return not_needed(advice, fmt::format("{}, but {} and no steps show no pattern", evidence,
                                          base::format_counted(kernels, "kernels")));
  }
  applies(advice, "the device waits for launches", evidence, static_cast<double>(idle) * 0.8,
          {fmt::format("fewer, larger kernels: {}CUDA graphs, a larger batch",
                       uses_torch(f) ? "torch.compile(model), " : ""),
           fmt::format("take host work out of the loop: {}print and logging each step",
                       uses_torch(f) ? ".item(), .cpu(), " : "results read back, ")});
}

// Collectives on threads. With several ranks uneven-rank tells who is waited for.
static void judge_host_communication(const Findings& f, Advice& advice) {
  const int64_t exposed = f.shown[Part::kSyncStall];
  if (exposed == 0 || f.found.drivers.size() > 1) {
    return no_evidence(advice, "no collectives on devices were recorded");
  }
  const std::string evidence =
      fmt::format("the training thread waits at collectives or for other ranks {} of the time",
                  percent(share_of(exposed, f)));
  if (share_of(exposed, f) < 0.15) return not_needed(advice, evidence);
  applies(advice, "training waits for other ranks", evidence,
          static_cast<double>(std::min(exposed, f.shown[Part::kCompute])) * 0.7,
          {"record all ranks into one folder: forebay then tells a slow rank from a slow network",
           fmt::format("let gradients go out while the rest is computed, or send less: bf16 "
                       "gradients, {}",
                       uses_torch(f) ? "no_sync() when accumulating" : "fewer synchronisations")});
}

void judge_communication(const Findings& f, Advice& advice) {
  int64_t exposed = 0, total = 0;
  for (const Accelerator& device : f.found.accelerators) {
    total += device.communication_ns;
    exposed += static_cast<int64_t>(static_cast<double>(device.communication_ns) *
                                    (1 - device.communication_overlap.value_or(0)));
  }
  if (total == 0) return judge_host_communication(f, advice);
  exposed = std::min(exposed, f.shown[Part::kSyncStall]);
  const std::string evidence = fmt::format(
      "communication that compute does not hide takes {} of "
      "the time",
      percent(share_of(exposed, f)));
  if (share_of(exposed, f) < 0.15) return not_needed(advice, evidence);
  applies(advice, "communication is not hidden behind compute", evidence,
          static_cast<double>(std::min(exposed, f.shown[Part::kCompute])) * 0.7,
          {fmt::format("let gradients go out while the rest is computed{}",
                       uses_torch(f) ? ": DistributedDataParallel with bucket_cap_mb near 25, "
                                       "no_sync() when accumulating"
                                     : ", in buckets of some 25 MB"),
           "send less: bf16 gradients, fewer synchronisations",
           "check the ring's links: nvidia-smi topo -m, NCCL_DEBUG=INFO"});
}

void judge_sleep(const Findings& f, Advice& advice) {
  int64_t asleep = 0;
  const Cause* most = nullptr;
  for (const Cause& cause : f.found.causes) {
    if (cause.part != Part::kIdle || !cause.what.starts_with(kAsleepCause)) continue;
    asleep += cause.ns;
    if (most == nullptr || cause.ns > most->ns) most = &cause;
  }
  if (most == nullptr) return not_needed(advice, "the training thread does not sleep");
  uint64_t count = 0, named = 0;
  int64_t ns = 0;
  std::string function;
  for (const DriverTime& driver : f.time.drivers) {
    for (const auto& [cause, sleeps] : driver.sleeps) {  // all of them: so is their share
      count += sleeps.count;
      ns += sleeps.ns;
      for (const auto& [name, times] : sleeps.functions) {
        if (times > named) function = name;
        named = std::max(named, times);
      }
    }
  }
  // What was sampled beside a few of them is not where they are called.
  if (named * 10 < count) function.clear();
  const std::string evidence = fmt::format(
      "{} of the time; {} of {} {}", percent(share_of(asleep, f)),
      base::format_counted(count, "sleeps"),
      time_text(static_cast<double>(ns) / static_cast<double>(std::max<uint64_t>(1, count))),
      function.empty() ? "in a function that was not sampled" : "in or beside " + function);
  if (share_of(asleep, f) < kWorthShare) return not_needed(advice, evidence);
  applies(advice, fmt::format("the training thread is {}", most->what), evidence,
          static_cast<double>(asleep) * 0.95,
          {"find the sleep() in the code that makes those calls: a retry, a poll, a rate limit",
           "see where it sleeps: py-spy dump --pid PID, or gdb -p PID -batch -ex bt",
           "where the wait is needed, let loader threads wait: they read ahead meanwhile"});
}

namespace {

// CPU that other threads of the job used while the training threads were ready, in cores.
double own_rivals(const Findings& f) {
  double cores = 0, drivers = 0;
  for (const DriverTime& driver : f.time.drivers) {
    int64_t ready = 0;
    for (const Owned& piece : driver.pieces) {
      const std::string& cause = driver.causes[piece.cause];
      if (cause.ends_with(kWithoutCore)) ready += piece.end_ns - piece.begin_ns;
    }
    if (ready == 0) continue;
    cores += static_cast<double>(driver.ready_others_ns) / static_cast<double>(ready);
    ++drivers;
  }
  return drivers == 0 ? 0 : cores / drivers;
}

}  // namespace

void judge_cores(const Findings& f, Advice& advice) {
  int64_t in_stalls = 0;
  bool has_evidence = false;
  for (const HelperUse& helper : f.time.helpers) in_stalls += helper.in_stalls.ready;
  for (const DriverTime& driver : f.time.drivers) {
    const bool is_thread = driver.plan.kind == DriverKind::kThread;
    const trace::TrackId thread = is_thread ? driver.plan.track : driver.plan.host_thread;
    if (thread == trace::kNoId) continue;
    const Basis basis = f.view.basis_of(thread);
    has_evidence = has_evidence || basis == Basis::kScheduler || basis == Basis::kUsage;
  }
  if (!has_evidence) {
    return no_evidence(advice, "when threads were ready to run was not recorded");
  }
  const int64_t ready = cause_ns(f.found, Part::kOther, kReadyCause);
  const double rivals = own_rivals(f);
  std::string evidence =
      fmt::format("the training thread is ready {} of the time without {}; meanwhile {}",
                  percent(share_of(ready, f)),
                  f.cores == 1 ? "the one core" : fmt::format("one of the {} cores", f.cores),
                  rivals < 0.05 ? "no other thread of this job runs"
                                : fmt::format("other threads of this job use {:.1f}", rivals));
  const double helpers =
      static_cast<double>(in_stalls) / static_cast<double>(std::max<int64_t>(1, waited_ns(f)));
  if (helpers >= 0.05) {
    evidence += fmt::format("; while it waits, {:.1f} of its helpers are ready", helpers);
  }
  if (share_of(ready, f) < kWorthShare) return not_needed(advice, evidence);
  std::vector<std::string> remedies{
      fmt::format("fewer threads beside training: loader workers, OMP_NUM_THREADS{}",
                  uses_torch(f) ? ", torch.set_num_threads()" : ""),
      "see who else runs here: top -H; keep cores for training: taskset -c",
      "more cores, or a larger quota: docker run --cpus=..., systemd-run -p CPUQuota=..."};
  // Less than half of the cores is not what keeps the training thread from one.
  const bool are_others = rivals * 2 < f.cores;
  // Of the machine then, whatever the program's own illness is.
  advice.is_warning = are_others;
  if (are_others) std::swap(remedies[0], remedies[1]);
  if (are_others) std::swap(remedies[1], remedies[2]);
  applies(advice,
          are_others ? "other programs, or a quota, keep cores from training"
                     : "more threads want to run than there are cores",
          evidence, static_cast<double>(ready), std::move(remedies));
}

void judge_unseen(const Findings& f, Advice& advice) {
  advice.is_warning = true;
  if (f.total_ns() == 0) return no_evidence(advice, "nobody who trains was found");
  const int64_t unseen = cause_ns(f.found, Part::kOther, kUnseenCause);
  const std::string evidence =
      fmt::format("nothing says of {} of the time whether the training thread ran or waited",
                  percent(share_of(unseen, f)));
  if (share_of(unseen, f) < kUnseenShare) return not_needed(advice, evidence);
  applies(advice, fmt::format("{} of the time was not seen", percent(share_of(unseen, f))),
          evidence, 0, {how_to_see(f.found), how_to_mark(f.found)});
}

void judge_healthy(const Findings& f, Advice& advice) {
  const double compute = f.shown.share(Part::kCompute);
  const std::string evidence = fmt::format("compute {} of the time", percent(compute));
  if (f.total_ns() == 0) return no_evidence(advice, "nobody who trains was found");
  if (f.total_ns() < kJudgedNs) {
    return no_evidence(advice, "too little time was recorded to judge");
  }
  if (compute < 0.9) return not_needed(advice, evidence);
  applies(advice, fmt::format("nothing to fix: compute {}", percent(compute)), evidence, 0,
          {"more speed needs faster or more accelerators, or a cheaper model"});
}

}  // namespace forebay::explain

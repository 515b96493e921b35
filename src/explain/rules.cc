#include "explain/rules.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "explain/judging.h"
#include "explain/readings.h"
#include "trace/facts.h"

namespace forebay::explain {

using trace::TrackId;
using trace::TrackKind;

namespace {

constexpr std::string_view kOwn = "forebay: below 5 % a change is not worth its risk";
constexpr std::string_view kSofa = "rules of SOFA's kind: device above 80 % busy while I/O waits";

constexpr std::array kRules{
    Rule{"slow-disk", "file calls; disk requests or counters sharpen it",
         "fetch stall >= 5 %, disk busy >= 80 % of it (or readers below 250 MB/s)", kSofa,
         "fetch stall x (1 - rate / 1 GB/s)", judge_slow_disk},
    Rule{"small-files", "file calls with names and bytes",
         "fetch stall >= 5 %, files below 256 KiB with metadata >= 30 %, or below 128 KiB",
         "an open costs what 100 KB cost at 1 GB/s",
         "fetch stall x (1 - bytes at 1 GB/s / time in calls)", judge_small_files},
    Rule{"python-decode", "the training thread's time; samples name the function",
         "prep stall >= 5 % and one thread prepares", kOwn,
         "prep stall - what W background workers would leave", judge_python_decode},
    Rule{"decode-cpu", "helper threads' time",
         "prep stall >= 5 % with 1.5 or more threads decoding", kOwn,
         "prep stall x (1 - decoding threads / cores), or half of it without free cores",
         judge_decode_cpu},
    Rule{"slow-worker", "at least two loader threads",
         "stalls >= 5 %, one worker does half of the work in them and twice the usual", kOwn,
         "stalls x (1 - usual worker / this one)", judge_slow_worker},
    Rule{"lock-contention", "loader threads' waits",
         "in stalls: >= 40 % of worker time in locks, in turn, and a gain >= 5 %", kOwn,
         "stalls x (1 - the larger of: workers that go on / those and the waiting ones; cores that "
         "workers have / all cores)",
         judge_locks},
    Rule{"slow-later-epochs", "iterations",
         "steps of later epochs >= 1.2 x the first's, by a stall", kOwn,
         "later steps x (their stall - the first's)", judge_slowdown},
    Rule{"epoch-start", "iterations", "epoch starts cost >= 1 % of the time", kOwn,
         "90 % of what they cost above an ordinary step", judge_epoch_start},
    Rule{"checkpoint", "writes of the training thread, or marks", "checkpoints >= 2 % of the time",
         "a background save costs about a tenth: the copy to memory", "90 % of checkpoint time",
         judge_checkpoint},
    Rule{"uneven-rank", "two or more ranks with iterations",
         "a rank works 5 % longer than the middle one and sync stall >= 2 %", kOwn,
         "(its work - the middle rank's) x steps x ranks", judge_uneven_rank},
    Rule{"memory-thrash", "page faults or memory pressure (PSI)",
         "memory pressure >= 10 %, or faults: without a file >= 2 % of the time, or >= 5 % with a "
         "fifth of them on pages seen before",
         "PSI 'some': share of time in which a task waited for memory",
         "time in faults, or pressure x time", judge_memory},
    Rule{"slow-network", "sends and receives", "waiting for the network >= 5 %", kOwn,
         "network stall x (1 - rate / 1.25 GB/s)", judge_network},
    Rule{"page-cache-only", "cache or device bytes of reads", ">= 90 % of >= 10 MB from memory",
         "a cache serves what storage would have to", "none: a warning about the measurement",
         judge_page_cache},
    Rule{"host-device-copy", "copies on a device", "copies not hidden >= 10 %",
         "rules of SOFA's kind: H2D above 10 % and not pinned", "min(copies, compute)",
         judge_copies},
    Rule{"launch-bound", "kernels with their host thread", "idle while launching >= 10 %", kOwn,
         "80 % of that idle time", judge_launches},
    Rule{"exposed-communication", "collectives on devices, or of one rank on threads",
         "exposed communication >= 15 %", "SOFA: communication / step above 0.15",
         "70 % of min(exposed, compute)", judge_communication},
    Rule{"no-read-ahead", "the training thread's calls", "own reads >= 5 % of the time", kOwn,
         "80 % of min(own reads, the rest of the step)", judge_read_ahead},
    Rule{"slow-metadata", "the training thread's calls on files",
         "opening, listing and asking about files >= 5 %, files not small", kOwn,
         "90 % of the time in those calls", judge_metadata},
    Rule{"sleeps", "the training thread's calls, or why it was off the CPU",
         "the training thread sleeps >= 5 % of the time", kOwn, "95 % of that time", judge_sleep},
    Rule{"few-readers", "disk requests or counters",
         "fetch stall >= 5 % with the disk busy less than half of it",
         "rules of SOFA's kind: I/O wait with the device below 50 % busy", "half the fetch stall",
         judge_few_readers},
    Rule{"few-cores", "the scheduler's switches, or counters of time ready to run",
         "the training thread is ready without a core >= 5 % of the time", kOwn,
         "time ready without a core", judge_cores},
    Rule{"not-seen", "the training thread's time", "not seen >= 10 % of the time",
         "healthy asks for 90 % of compute: more than the rest decides the verdict",
         "none: a warning about the measurement", judge_unseen},
    Rule{"healthy", "the training thread's time", "compute >= 90 %",
         "rules of SOFA's kind: device above 90 % is compute-bound", "none", judge_healthy},
};

std::optional<double> mean_counter(const View& view, TrackKind kind, std::string_view name) {
  ReadingSum sum;
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    if (view.track(track).kind != kind) continue;
    for_each_reading(view, track, name, [&](int64_t begin_ns, int64_t end_ns, double value) {
      sum.add(value, static_cast<double>(end_ns - begin_ns));
    });
  }
  return sum.mean();
}

// Bytes that the program's processes had devices deliver, by their counters.
std::optional<double> device_bytes(const View& view) {
  double bytes = 0;
  bool any = false;
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    if (view.track(track).kind != TrackKind::kProcess || !view.is_selected(track)) continue;
    for_each_reading(view, track, "device_read_bytes_per_second",
                     [&](int64_t begin_ns, int64_t end_ns, double value) {
                       bytes += value * static_cast<double>(end_ns - begin_ns) * 1e-9;
                       any = true;
                     });
  }
  return any ? std::optional(bytes) : std::nullopt;
}

}  // namespace

Findings look(const View& view, const JobTime& time, const Explanation& found) {
  Findings findings{.view = view, .time = time, .found = found};
  findings.shown = found.shown();
  findings.cores = std::max(1, found.concurrency.cores);
  if (const auto fact = view.recording().fact(trace::fact::kCores)) {
    const auto cores = base::parse_double(*fact);
    if (cores.ok() && *cores >= 1) findings.cores = static_cast<int>(*cores);
  }
  findings.pressure_memory_share = mean_counter(view, TrackKind::kHost, "pressure_memory_share");
  findings.device_read_bytes = device_bytes(view);
  return findings;
}

std::span<const Rule> rules() {
  return kRules;
}

namespace {

// What grew in later epochs is explained by what changed then; the rules about that part keep what
// was there before.
void claim_slowdown(std::vector<Advice>& all) {
  const auto of_id = [&](std::string_view id) {
    return std::find_if(all.begin(), all.end(), [&](const Advice& one) { return one.id == id; });
  };
  const auto slowdown = of_id("slow-later-epochs");
  if (slowdown == all.end() || slowdown->state != Advice::State::kApplies) return;
  const bool is_fetch = slowdown->evidence.find(part_name(Part::kFetchStall)) != std::string::npos;
  const bool is_prep = slowdown->evidence.find(part_name(Part::kPrepStall)) != std::string::npos;
  constexpr std::array<std::string_view, 4> kFetch{"slow-disk", "small-files", "no-read-ahead",
                                                   "few-readers"};
  constexpr std::array<std::string_view, 4> kPrep{"python-decode", "decode-cpu", "slow-worker",
                                                  "lock-contention"};
  const auto reduce = [&](std::string_view id) {
    Advice& one = *of_id(id);
    one.gain_ns = std::max<int64_t>(0, one.gain_ns - slowdown->gain_ns);
  };
  if (is_fetch) std::for_each(kFetch.begin(), kFetch.end(), reduce);
  if (is_prep) std::for_each(kPrep.begin(), kPrep.end(), reduce);
}

// Rules count over all drivers' time; what is shown is of one driver, on average: ranks train side
// by side, and no gain is larger than what it is a part of.
void set_gain(Advice& advice, const Findings& findings) {
  const int64_t all_ns = std::clamp<int64_t>(advice.gain_ns, 0, findings.total_ns());
  advice.gain_share = share_of(all_ns, findings);
  int64_t drivers = 0;
  for (const Driver& driver : findings.found.drivers) {
    const bool has_steps = findings.found.iterations.is_found;
    if ((has_steps ? driver.steps : driver.whole).total_ns() > 0) ++drivers;
  }
  advice.gain_ns = all_ns / std::max<int64_t>(1, drivers);
  const auto steps = static_cast<int64_t>(findings.found.iterations.count);
  if (findings.found.iterations.is_found && steps > 0) advice.gain_ns_per_step = all_ns / steps;
}

}  // namespace

std::vector<Advice> advise(const Findings& findings) {
  std::vector<Advice> out;
  for (const Rule& rule : kRules) {
    Advice advice{.id = std::string(rule.id), .title = std::string(rule.id)};
    advice.needs = rule.needs;
    advice.threshold = rule.threshold;
    advice.threshold_source = rule.threshold_source;
    advice.gain_formula = rule.gain_formula;
    if (findings.time.drivers.empty()) {
      no_evidence(advice, "nobody who trains was found in the recording");
    } else {
      rule.judge(findings, advice);
    }
    out.push_back(std::move(advice));
  }
  claim_slowdown(out);
  for (Advice& advice : out) set_gain(advice, findings);
  // A warning about the measurement or the machine comes before gains that are not worth a change.
  const auto weight = [](const Advice& advice) {
    return advice.is_warning ? kWorthShare : advice.gain_share;
  };
  std::stable_sort(out.begin(), out.end(), [&](const Advice& a, const Advice& b) {
    if (a.state != b.state) return a.state < b.state;
    return a.state == Advice::State::kApplies && weight(a) > weight(b);
  });
  return out;
}

}  // namespace forebay::explain

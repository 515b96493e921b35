#include "emulate/accelerator.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/random.h"
#include "sys/process.h"
#include "trace/recorder.h"

namespace forebay::emulate {
namespace {

constexpr int64_t kLateWakeNs = 1'000'000;
constexpr double kNano = 1e-9;

// Span names of an accelerator's track; does nothing without a recorder.
class Tracks {
 public:
  Tracks(trace::Recorder* recorder, int rank) : recorder_(recorder) {
    if (recorder_ == nullptr) return;
    track_ = recorder_->track(trace::TrackKind::kDevice, "accelerator", rank);
    step_ = recorder_->name("step", trace::Category::kStep);
    wait_ = recorder_->name("data wait", trace::Category::kDataWait);
    compute_ = recorder_->name("compute", trace::Category::kCompute);
    sync_ = recorder_->name("barrier", trace::Category::kCollective);
    checkpoint_ = recorder_->name("checkpoint", trace::Category::kCheckpoint);
    step_key_ = recorder_->key(trace::key::kStep);
    epoch_key_ = recorder_->key(trace::key::kEpoch);
    fetch_key_ = recorder_->key(trace::key::kFetchNs);
    prepare_key_ = recorder_->key(trace::key::kPrepareNs);
  }
  void step(int64_t a, int64_t b, uint64_t epoch, uint64_t step) {
    if (recorder_ == nullptr) return;
    recorder_->span(
        track_, step_, a, b,
        {{step_key_, static_cast<int64_t>(step)}, {epoch_key_, static_cast<int64_t>(epoch)}});
  }
  void wait(int64_t a, int64_t b, const loader::Batch::Wait& why) {
    if (recorder_ != nullptr && b > a)
      recorder_->span(track_, wait_, a, b,
                      {{fetch_key_, why.fetch_ns}, {prepare_key_, why.decode_ns}});
  }
  void compute(int64_t a, int64_t b, uint64_t step) { span(compute_, a, b, step); }
  void sync(int64_t a, int64_t b, uint64_t step) { span(sync_, a, b, step); }
  void checkpoint(int64_t a, int64_t b, uint64_t step) { span(checkpoint_, a, b, step); }

 private:
  void span(trace::NameId name, int64_t a, int64_t b, uint64_t step) {
    if (recorder_ != nullptr && b > a)
      recorder_->span(track_, name, a, b, {{step_key_, static_cast<int64_t>(step)}});
  }
  trace::Recorder* recorder_;
  trace::TrackId track_ = 0;
  trace::NameId step_ = 0, wait_ = 0, compute_ = 0, sync_ = 0, checkpoint_ = 0;
  trace::KeyId step_key_ = 0, epoch_key_ = 0, fetch_key_ = 0, prepare_key_ = 0;
};

class EpochRun {
 public:
  EpochRun(int member, const EpochPlan& plan, loader::Engine& engine, cluster::Group& group,
           base::Clock& clock, Progress& progress, trace::Recorder* recorder, RankEpoch& out,
           RankTotals& totals, std::stop_token stop)
      : member_(member),
        rank_(plan.first_accelerator + member),
        plan_(plan),
        engine_(engine),
        group_(group),
        clock_(clock),
        progress_(progress),
        tracks_(recorder, rank_),
        out_(out),
        totals_(totals),
        stop_(std::move(stop)) {}

  Status run() {
    engine_.begin_epoch(plan_.epoch, 0, plan_.steps);
    device_ns_ = FB_TRY(group_.barrier_max(member_, clock_.now_ns(), stop_));
    open_block();
    const uint64_t steps =
        std::min(plan_.steps, engine_.stripe().steps(static_cast<uint64_t>(rank_)));
    for (uint64_t step = 0; step < steps; ++step) FB_TRY(one_step(step));
    close_block();
    return {};
  }

  void close_block() {
    if (block_is_open_) out_.blocks.back().end = seconds_at(clock_.now_ns());
    block_is_open_ = false;
  }

 private:
  double seconds_at(int64_t ns) const {
    return static_cast<double>(ns - plan_.run_start_ns) * kNano;
  }

  // From when the device was free, as its steps are counted.
  void open_block() {
    out_.blocks.emplace_back();
    out_.blocks.back().start = seconds_at(device_ns_);
    block_is_open_ = true;
    load_start_ns_ = device_ns_;
  }

  Status one_step(uint64_t step) {
    Result<std::optional<loader::Batch>> next = engine_.next(stop_);
    std::optional<loader::Batch> batch = FB_TRY(std::move(next));
    if (!batch) return Error{ErrorCode::kIo, "the loader ended before the epoch did"};
    const int64_t loaded_ns = clock_.now_ns();
    if (totals_.first_batch_ns == 0) totals_.first_batch_ns = loaded_ns;
    const int64_t free_ns = device_ns_;
    const int64_t start_ns = std::max({free_ns, batch->ready_ns(), loaded_ns - kLateWakeNs});
    const int64_t ready_ns = std::clamp(batch->ready_ns(), free_ns, start_ns);
    const loader::Batch::Wait wait = batch->explain_wait(free_ns, ready_ns);

    base::Random random(base::derive_seed(plan_.seed, plan_.epoch * 1'000'003 + step,
                                          static_cast<uint64_t>(rank_)));
    const auto compute_ns = static_cast<int64_t>(plan_.compute.draw(random) / kNano);
    if (!clock_.sleep_until_ns(start_ns + compute_ns, stop_))
      return Error{ErrorCode::kCancelled, "stopped"};
    const int64_t computed_ns = clock_.now_ns();
    const int64_t end_ns = std::max(start_ns + compute_ns, computed_ns - kLateWakeNs);
    const int64_t late_ns = (start_ns - ready_ns) + (end_ns - start_ns - compute_ns);

    const Taken taken = count(*batch);
    batch.reset();
    tracks_.wait(free_ns, start_ns, wait);
    tracks_.compute(start_ns, end_ns, step);
    Block& block = out_.blocks.back();
    // DLIO's figures too stand on the device's time line, on which steps never overlap: how late
    // this thread wakes up, or hears of a barrier over many processes, is no part of a step.
    const int64_t begun_ns = std::max(start_ns, load_start_ns_);
    block.load.push_back(static_cast<double>(begun_ns - load_start_ns_) * kNano);
    block.compute.push_back(static_cast<double>(std::max(end_ns, begun_ns) - begun_ns) * kNano);
    block.proc.push_back(static_cast<double>(std::max(end_ns, begun_ns) - load_start_ns_) * kNano);
    device_ns_ = end_ns;
    int64_t sync_ns = 0;
    if (plan_.has_barrier) {
      device_ns_ = FB_TRY(group_.barrier_max(member_, end_ns, stop_));
      sync_ns = device_ns_ - end_ns;
      tracks_.sync(end_ns, device_ns_, step);
    }
    tracks_.step(free_ns, device_ns_, plan_.epoch, step);
    TimeSplit split;
    split.fetch = static_cast<double>(wait.fetch_ns) * kNano;
    split.decode = static_cast<double>(wait.decode_ns) * kNano;
    split.compute = static_cast<double>(compute_ns) * kNano;
    split.sync = static_cast<double>(sync_ns) * kNano;
    split.other = static_cast<double>(late_ns) * kNano;
    block.splits.push_back(split);
    if (step >= plan_.included.first && step < plan_.included.last)
      account(split, taken, device_ns_ - free_ns);
    progress_.last_step_ns.store(device_ns_, std::memory_order_relaxed);
    progress_.steps_done.fetch_add(1, std::memory_order_relaxed);
    progress_.compute_ns.fetch_add(compute_ns, std::memory_order_relaxed);
    load_start_ns_ = device_ns_;
    return checkpoint_after(step);
  }

  struct Taken {
    uint64_t samples, file_bytes, payload_bytes;
  };

  Taken count(const loader::Batch& batch) {
    const Taken taken{batch.samples().size(), batch.file_bytes(), batch.payload_bytes()};
    ++totals_.steps;
    totals_.samples += taken.samples;
    totals_.skipped += batch.skipped();
    totals_.file_bytes += taken.file_bytes;
    totals_.payload_bytes += taken.payload_bytes;
    progress_.file_bytes.fetch_add(taken.file_bytes, std::memory_order_relaxed);
    return taken;
  }

  void account(const TimeSplit& step, const Taken& taken, int64_t total_ns) {
    out_.split.add(step, 1);
    if (step.sync == 0) out_.last.add(step, 1);
    out_.included_seconds += static_cast<double>(total_ns) * kNano;
    out_.compute_seconds += step.compute;
    out_.included_samples += taken.samples;
    out_.included_file_bytes += taken.file_bytes;
    out_.included_payload_bytes += taken.payload_bytes;
  }

  // All accelerators stop, the first of each process saves for all of them, all go on together.
  Status checkpoint_after(uint64_t step) {
    if (!plan_.checkpoint_due || !plan_.checkpoint_due(step)) return {};
    close_block();
    const int64_t start = device_ns_;
    FB_TRY(group_.barrier_max(member_, start, stop_));
    if (member_ == 0) FB_TRY(plan_.save_checkpoint(step));
    device_ns_ = FB_TRY(group_.barrier_max(member_, clock_.now_ns(), stop_));
    out_.split.checkpoint += static_cast<double>(device_ns_ - start) * kNano;
    tracks_.checkpoint(start, device_ns_, step);
    if (step + 1 < plan_.steps) open_block();
    return {};
  }

  const int member_;  // of the group
  const int rank_;    // of all accelerators
  const EpochPlan& plan_;
  loader::Engine& engine_;
  cluster::Group& group_;
  base::Clock& clock_;
  Progress& progress_;
  Tracks tracks_;
  RankEpoch& out_;
  RankTotals& totals_;
  const std::stop_token stop_;
  int64_t device_ns_ = 0;      // when the device was last free
  int64_t load_start_ns_ = 0;  // as DLIO times it
  bool block_is_open_ = false;
};

}  // namespace

Status run_epoch(int member, const EpochPlan& plan, loader::Engine& engine, cluster::Group& group,
                 base::Clock& clock, Progress& progress, trace::Recorder* recorder, RankEpoch& out,
                 RankTotals& totals, std::stop_token stop) {
  sys::set_timer_slack_ns(1);
  sys::prefer_thread();  // it hardly computes, but must wake on time
  EpochRun epoch(member, plan, engine, group, clock, progress, recorder, out, totals,
                 std::move(stop));
  Status status = epoch.run();
  epoch.close_block();
  if (!status.ok()) group.leave(member, status.error());
  return status;
}

}  // namespace forebay::emulate

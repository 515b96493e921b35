#include "emulate/fleet.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "base/random.h"
#include "cluster/world.h"
#include "emulate/data_source.h"
#include "emulate/packing.h"
#include "sys/thread.h"

namespace forebay::emulate {
namespace {

constexpr double kNano = 1e-9;
constexpr int64_t kTickNs = 200'000'000;

// What a process posts of its progress.
struct ProgressNews {
  uint64_t epoch = 0;
  bool is_evaluation = false;
  uint64_t steps_done = 0, file_bytes = 0;
  int64_t compute_ns = 0;
};

}  // namespace

Fleet::Fleet(RunState& run) : run_(run) {
  progress_.epochs = run.workload.train.epochs;
}

Status Fleet::open_engines() {
  for (int member = 0; member < run_.options.accelerators; ++member) {
    auto engine = FB_TRY(loader::Engine::open(
        *run_.store, *run_.train.index, *run_.train.order,
        engine_options(run_.first_accelerator + member, run_.workload.reader.batch_size),
        run_.request.recorder));
    ranks_.emplace_back();
    ranks_.back().engine = std::move(engine);
  }
  return {};
}

Status Fleet::begin_evaluation() {
  const uint64_t batch = run_.workload.reader.batch_size_eval;
  std::vector<std::unique_ptr<loader::Engine>> training(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    auto engine = FB_TRY(loader::Engine::open(
        *run_.store, *run_.valid.index, *run_.valid.order,
        evaluation_options(run_.first_accelerator + static_cast<int>(i), batch),
        run_.request.recorder));
    training[i] = std::exchange(ranks_[i].engine, std::move(engine));
  }
  training_ = std::move(training);
  return {};
}

void Fleet::end_evaluation() {
  take_engine_figures();
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].engine = std::move(training_[i]);
}

uint64_t Fleet::steps() const {
  return ranks_[0].engine->stripe().steps(0);  // rank 0 has the most
}

// `rank` is of all accelerators.
loader::EngineOptions Fleet::engine_options(int rank, uint64_t batch_size) const {
  loader::EngineOptions options;
  options.batch_size = batch_size;
  options.prefetch_batches = std::max<uint64_t>(1, run_.workload.reader.prefetch_size);
  options.fetch_depth = run_.fetch_depth();
  options.decode_threads = run_.result.options.decode_threads;
  options.rank = static_cast<uint64_t>(rank);
  options.world_size = static_cast<uint64_t>(run_.result.options.accelerators);
  options.payload =
      run_.options.payload == "bytes" ? loader::Payload::kBytes : loader::Payload::kDecode;
  options.on_error = run_.options.on_error == "skip"      ? loader::OnError::kSkip
                     : run_.options.on_error == "replace" ? loader::OnError::kReplace
                                                          : loader::OnError::kRaise;
  options.errors_max = run_.options.errors_max;
  options.shared_bad_count = bad_count_;
  options.format = format_options(run_.workload);
  if (run_.workload.reader.transfer_size)
    options.coalesce_bytes = *run_.workload.reader.transfer_size;
  if (!run_.workload.reader.preprocess_time.is_zero())
    options.preprocess_ns = [&workload = run_.workload](uint64_t epoch, uint64_t sample) {
      base::Random random(base::derive_seed(workload.train.seed ^ 0x70726570, epoch, sample));
      return static_cast<int64_t>(workload.reader.preprocess_time.draw(random) / kNano);
    };
  options.sample_cache = run_.train.samples;
  options.name = fmt::format("acc{}", rank);
  return options;
}

// Every sample once: without barriers accelerators may differ by a step.
loader::EngineOptions Fleet::evaluation_options(int rank, uint64_t batch_size) const {
  loader::EngineOptions options = engine_options(rank, batch_size);
  options.tail = loader::Tail::kAll;
  options.sample_cache = run_.valid.samples;
  return options;
}

Status Fleet::run(EpochPlan plan, bool is_evaluation, EpochPart& part) {
  plan.first_accelerator = run_.first_accelerator;
  const auto group = cluster::make_group(run_.world, static_cast<int>(ranks_.size()));
  start_progress(plan, is_evaluation);
  const int64_t start = run_.clock.now_ns();
  const sys::Usage before = sys::process_usage();
  const auto network_before = run_.is_first_on_host() ? sys::network_bytes() : std::nullopt;
  spawn_and_wait(plan, *group);
  part = collect(before, network_before);
  part.epoch = plan.epoch + 1;
  part.is_evaluation = is_evaluation;
  part.start = run_.seconds_since_start(start);
  part.end = run_.seconds_since_start(run_.clock.now_ns());
  return first_failure();
}

void Fleet::start_progress(const EpochPlan& plan, bool is_evaluation) {
  progress_.epoch = plan.epoch + 1;
  progress_.is_evaluation = is_evaluation;
  progress_.steps_done = 0;
  progress_.steps_total = plan.steps * static_cast<uint64_t>(run_.result.options.accelerators);
  progress_.file_bytes = 0;
  progress_.compute_ns = 0;
  const int64_t now = run_.clock.now_ns();
  progress_.epoch_start_ns = now;
  progress_.last_step_ns = now;
}

void Fleet::spawn_and_wait(const EpochPlan& plan, cluster::Group& group) {
  base::Mutex mutex;
  base::CondVar done;
  size_t running = ranks_.size();
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    rank.epoch = {};
    rank.totals = {};
    const auto body = [&, i](const std::stop_token&) {
      rank.status = run_epoch(static_cast<int>(i), plan, *rank.engine, group, run_.clock, progress_,
                              run_.request.recorder, rank.epoch, rank.totals, run_.stop);
      base::MutexLock lock(mutex);
      --running;
      done.notify_all();
    };
    Result<std::jthread> thread = sys::start_thread(fmt::format("accel{}", i), body);
    if (thread.ok()) {
      threads.push_back(std::move(thread).take());
      continue;
    }
    rank.status = thread.error();
    group.leave(static_cast<int>(i), thread.error());
    base::MutexLock lock(mutex);
    --running;
  }
  bool all_done = false;
  while (!all_done) {
    {
      base::MutexLock lock(mutex);
      all_done =
          done.wait_for(mutex, {}, std::chrono::nanoseconds(kTickNs), [&] { return running == 0; });
    }
    tell_progress();
    run_.mine.open_files_max = std::max(run_.mine.open_files_max, sys::open_file_count());
    run_.mine.threads_max = std::max(run_.mine.threads_max, sys::thread_count());
  }
}

// Process 0 shows all processes' figures, as new as they have come.
void Fleet::tell_progress() {
  if (run_.is_alone()) return run_.observer.on_tick(progress_);
  const ProgressNews mine{progress_.epoch, progress_.is_evaluation, progress_.steps_done,
                          progress_.file_bytes, progress_.compute_ns};
  Packer packer;
  packer.put(mine);
  run_.world.post(packer.take());
  if (run_.world.rank() != 0) return;
  Progress& all = progress_of_all_;
  all.epoch = mine.epoch;
  all.epochs = progress_.epochs.load();
  all.is_evaluation = mine.is_evaluation;
  all.steps_total = progress_.steps_total.load();
  all.epoch_start_ns = progress_.epoch_start_ns.load();
  all.last_step_ns = progress_.last_step_ns.load();
  ProgressNews sum;
  for (const std::string& text : run_.world.posted()) {
    ProgressNews news;
    Unpacker(text).get(news);
    if (news.epoch != mine.epoch || news.is_evaluation != mine.is_evaluation) continue;
    sum.steps_done += news.steps_done;
    sum.file_bytes += news.file_bytes;
    sum.compute_ns += news.compute_ns;
  }
  all.steps_done = sum.steps_done;
  all.file_bytes = sum.file_bytes;
  all.compute_ns = sum.compute_ns;
  run_.observer.on_tick(all);
}

EpochPart Fleet::collect(const sys::Usage& before,
                         const std::optional<sys::NetworkBytes>& network_before) {
  EpochPart part;
  part.rank = run_.world.rank();
  part.meminfo = sys::meminfo();
  for (Rank& rank : ranks_) {
    note_first_batch(rank.totals.first_batch_ns);
    part.totals.push_back(rank.totals);
    part.ranks.push_back(std::move(rank.epoch));
    part.read_ns.merge(rank.engine->take_read_times());
  }
  part.bad_count = bad_count_->load(std::memory_order_relaxed);
  const sys::Usage after = sys::process_usage();
  part.cpu_seconds = after.cpu_seconds() - before.cpu_seconds();
  const auto network = sys::network_bytes();
  if (network && network_before)
    part.network = {network->received - network_before->received,
                    network->sent - network_before->sent};
  if (!run_.device_unknown.empty() || !after.device_read_bytes || !before.device_read_bytes)
    part.device_unknown =
        run_.device_unknown.empty() ? "/proc/self/io is not readable" : run_.device_unknown;
  else
    part.device_bytes = *after.device_read_bytes - *before.device_read_bytes;
  if (run_.train.samples) part.why_no_bytes = "no bytes were read: samples came from memory";
  return part;
}

void Fleet::note_first_batch(int64_t moment_ns) {
  if (moment_ns <= 0 || (first_batch_ns_ > 0 && first_batch_ns_ <= moment_ns)) return;
  first_batch_ns_ = moment_ns;
  run_.mine.first_batch_seconds = run_.seconds_since_start(moment_ns);
}

// A stop is nobody's failure; what made the others leave comes before their leaving.
Status Fleet::first_failure() const {
  const Status* cancelled = nullptr;
  for (const Rank& rank : ranks_) {
    if (rank.status.ok()) continue;
    if (rank.status.error().code != ErrorCode::kCancelled) return rank.status;
    cancelled = &rank.status;
  }
  return cancelled != nullptr ? *cancelled : Status();
}

void Fleet::take_engine_figures() {
  for (const Rank& rank : ranks_) {
    const loader::EngineStats stats = rank.engine->stats();
    run_.mine.bad_count += stats.bad_count;
    run_.mine.read_retries += stats.retries;
    for (const loader::BadRecord& bad : stats.bad_records)
      if (run_.mine.bad_records.size() < 100)
        run_.mine.bad_records.push_back({bad.path, bad.cause});
  }
}

}  // namespace forebay::emulate

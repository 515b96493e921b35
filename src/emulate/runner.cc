#include "emulate/runner.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "cluster/group.h"
#include "emulate/accelerator.h"
#include "emulate/checkpoint_writer.h"
#include "emulate/data_source.h"
#include "emulate/data_store.h"
#include "emulate/metrics.h"
#include "emulate/page_cache_control.h"
#include "emulate/schedule.h"
#include "emulate/verdict.h"
#include "loader/engine.h"
#include "sys/page_cache.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay::emulate {
namespace {

constexpr double kNano = 1e-9;
constexpr int64_t kTickNs = 200'000'000;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

class Run {
 public:
  Run(const RunRequest& request, Observer& observer, std::stop_token stop)
      : request_(request),
        workload_(request.resolved.workload),
        options_(request.options),
        observer_(observer),
        stop_(std::move(stop)),
        clock_(base::monotonic_clock()) {
    result_.resolved = request.resolved;
    result_.options = request.options;
    result_.version = request.version;
    result_.command = request.command;
    result_.next_base = request.next_base;
    result_.warnings = request.resolved.warnings;
    result_.host = sys::host();
    if (options_.decode_threads == 0)
      result_.options.decode_threads = static_cast<int>(std::max<uint64_t>(
          {1, workload_.reader.read_threads, workload_.reader.computation_threads}));
  }

  Status prepare() {
    start_ns_ = clock_.now_ns();
    start_usage_ = sys::process_usage();
    sys::reset_peak_resident();
    result_.started_at = utc_now();
    result_.started_unix_seconds = sys::unix_seconds();
    if (is_object_place(options_.data) && options_.cache != "as-is")
      return fail(ErrorCode::kInvalidArgument,
                  "--cache {}: bytes from {} never come from the page cache", options_.cache,
                  options_.data);
    store_ = FB_TRY(open_data_store(options_.storage, options_.data, workload_.storage));
    result_.store = store_->describe();
    note_store();
    train_ =
        FB_TRY(open_data_source(*store_, request_.resolved, options_.data, "train",
                                index_cache_path("train"), options_.on_error != "raise", stop_));
    adopt(train_.warnings);
    result_.dataset = train_.facts;
    if (workload_.workflow.evaluation) {
      valid_ =
          FB_TRY(open_data_source(*store_, request_.resolved, options_.data, "valid",
                                  index_cache_path("valid"), options_.on_error != "raise", stop_));
      result_.evaluation_dataset = valid_.facts;
    }
    plan_ = FB_TRY(plan_steps(workload_, options_.accelerators, train_.index->sample_count()));
    result_.steps_per_epoch = plan_.steps;
    result_.samples_left_out = plan_.left_out;
    adopt(plan_.warnings);
    FB_TRY(check_open_files());
    warn_about_conditions();
    return open_engines();
  }

  RunResult go() {
    observer_.on_start(result_);
    Status status;
    if (options_.cache == "warm") status = warm_up();
    progress_.epochs = workload_.train.epochs;
    CheckpointSchedule saves(workload_);
    EvaluationSchedule evaluations(workload_);
    for (uint64_t epoch = 1; status.ok() && epoch <= workload_.train.epochs; ++epoch) {
      status = train_epoch(epoch, saves);
      if (status.ok() && saves.is_due_after_epoch(epoch)) status = save_after_epoch(epoch);
      if (status.ok() && evaluations.is_due_after_epoch(epoch)) status = evaluate(epoch);
    }
    finish(status);
    observer_.on_end(result_);
    return std::move(result_);
  }

 private:
  struct Rank {
    std::unique_ptr<loader::Engine> engine;
    RankEpoch epoch;
    RankTotals totals;
    Status status;
  };

  void adopt(const std::vector<std::string>& warnings) {
    result_.warnings.insert(result_.warnings.end(), warnings.begin(), warnings.end());
  }

  // Beside the result folders, so that later runs on the same data find it.
  std::string index_cache_path(const std::string& split) const {
    if (options_.out.empty()) return "";
    const size_t slash = options_.out.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "." : options_.out.substr(0, slash);
    const std::string key = options_.data + "\n" + split + "\n" + options_.storage;
    const uint32_t hash = base::crc32c(0, std::as_bytes(std::span(key.data(), key.size())));
    return fmt::format("{}/.forebay-index-{:08x}", folder, hash);
  }

  void note_store() {
    const storage::Capabilities can = store_->capabilities();
    if (!can.fallback_reason.empty()) result_.warnings.push_back(can.fallback_reason);
    device_unknown_ = why_device_bytes_unknown(options_.data, can.is_local);
  }

  // Each read in flight may hold a descriptor, and stores keep some more.
  Status check_open_files() {
    const uint64_t needed =
        static_cast<uint64_t>(options_.accelerators) * (static_cast<uint64_t>(fetch_depth()) + 4) +
        64;
    if (sys::raise_open_file_limit(needed) >= needed) return {};
    return fail(ErrorCode::kResourceExhausted,
                "{} accelerators with {} reads in flight each need {} open files, but the limit is "
                "{}: raise it with `ulimit -n {}`",
                options_.accelerators, fetch_depth(), needed, sys::open_file_limit(), needed);
  }

  void warn_about_conditions() {
    const auto warn = [&](std::string text) { result_.warnings.push_back(std::move(text)); };
#ifndef NDEBUG
    warn("this is a debug build: rates are far below those of a release build");
#endif
    if (result_.host.is_governor_powersave)
      warn("the CPU governor is powersave: rates may be too low");
    if (options_.cache == "as-is" && device_unknown_.empty() && workload_.train.epochs > 1 &&
        !options_.storage.starts_with("direct") &&
        result_.dataset.bytes < result_.host.memory_bytes)
      warn(
          fmt::format("the data set ({}) fits in memory ({}): later epochs come from the page "
                      "cache; use --cache cold for the storage's own speed",
                      base::format_bytes(static_cast<double>(result_.dataset.bytes)),
                      base::format_memory(static_cast<double>(result_.host.memory_bytes))));
    if (options_.cache == "cold" && sys::is_memory_file_system(options_.data))
      warn("--cache cold has no effect: the data lies on a file system in memory");
    if (train_.index->is_together() && options_.accelerators > 1)
      warn(
          fmt::format("samples of one {} file come together only, so each of the {} accelerators "
                      "reads every file",
                      result_.dataset.format, options_.accelerators));
    if (plan_.left_out > 0)
      warn(
          fmt::format("{} of {} samples are left out of each epoch: they do not fill a step of {} "
                      "accelerator{} x batch {}",
                      plan_.left_out, train_.index->sample_count(), options_.accelerators,
                      options_.accelerators == 1 ? "" : "s", workload_.reader.batch_size));
  }

  int fetch_depth() const {
    return static_cast<int>(std::max<uint64_t>(1, workload_.reader.read_threads));
  }

  loader::EngineOptions engine_options(int rank, uint64_t batch_size) const {
    loader::EngineOptions options;
    options.batch_size = batch_size;
    options.prefetch_batches = std::max<uint64_t>(1, workload_.reader.prefetch_size);
    options.fetch_depth = fetch_depth();
    options.decode_threads = result_.options.decode_threads;
    options.rank = static_cast<uint64_t>(rank);
    options.world_size = static_cast<uint64_t>(options_.accelerators);
    options.payload =
        options_.payload == "bytes" ? loader::Payload::kBytes : loader::Payload::kDecode;
    options.on_error = options_.on_error == "skip"      ? loader::OnError::kSkip
                       : options_.on_error == "replace" ? loader::OnError::kReplace
                                                        : loader::OnError::kRaise;
    options.errors_max = options_.errors_max;
    options.shared_bad_count = bad_count_;
    options.format.samples_per_file = workload_.dataset.num_samples_per_file;
    options.format.record_bytes = static_cast<uint64_t>(workload_.dataset.record_length_bytes);
    if (workload_.reader.transfer_size) options.coalesce_bytes = *workload_.reader.transfer_size;
    if (!workload_.reader.preprocess_time.is_zero())
      options.preprocess_ns = [this](uint64_t epoch, uint64_t sample) {
        base::Random random(base::derive_seed(workload_.train.seed ^ 0x70726570, epoch, sample));
        return static_cast<int64_t>(workload_.reader.preprocess_time.draw(random) / kNano);
      };
    options.name = fmt::format("acc{}", rank);
    return options;
  }

  // Every sample once: without barriers accelerators may differ by a step.
  loader::EngineOptions evaluation_options(int rank, uint64_t batch_size) const {
    loader::EngineOptions options = engine_options(rank, batch_size);
    options.tail = loader::Tail::kAll;
    return options;
  }

  Status open_engines() {
    for (int rank = 0; rank < options_.accelerators; ++rank) {
      auto engine = FB_TRY(loader::Engine::open(*store_, *train_.index, *train_.order,
                                                engine_options(rank, workload_.reader.batch_size),
                                                request_.recorder));
      ranks_.emplace_back();
      ranks_.back().engine = std::move(engine);
    }
    return {};
  }

  Status warm_up() {
    FB_TRY(warm_up(train_));
    return valid_.index ? warm_up(valid_) : Status();
  }

  Status warm_up(const DataSource& source) {
    observer_.on_note(fmt::format("reading {} files into the page cache", source.facts.files));
    const CacheState state = FB_TRY(make_warm(*source.index, options_.data, stop_));
    if (state.is_known && state.cached_bytes < state.bytes)
      result_.warnings.push_back(
          fmt::format("only {} of {} stayed in the page cache after warming it",
                      base::format_bytes(static_cast<double>(state.cached_bytes)),
                      base::format_bytes(static_cast<double>(state.bytes))));
    return {};
  }

  Status cool_down(const DataSource& source) {
    if (options_.cache != "cold" || sys::is_memory_file_system(options_.data)) return {};
    observer_.on_note(fmt::format("evicting {} files from the page cache", source.facts.files));
    const CacheState state = FB_TRY(make_cold(*source.index, options_.data, stop_));
    if (!state.is_known)
      result_.warnings.push_back("cache state unknown: the kernel does not tell this user");
    else if (state.cached_bytes > 0)
      result_.warnings.push_back(
          fmt::format("{} stayed in the page cache although --cache cold evicted it",
                      base::format_bytes(static_cast<double>(state.cached_bytes))));
    return {};
  }

  Status train_epoch(uint64_t epoch, CheckpointSchedule& saves) {
    FB_TRY(cool_down(train_));
    EpochPlan plan;
    plan.epoch = epoch - 1;
    plan.steps = plan_.steps;
    plan.included = included_steps(plan.steps, workload_.output.exclude_start_steps,
                                   workload_.output.exclude_end_steps);
    plan.compute = workload_.train.computation_time;
    plan.seed = workload_.train.seed;
    plan.has_barrier = options_.barrier;
    plan.run_start_ns = start_ns_;
    if (saves.has_step_saves()) {
      plan.checkpoint_due = [&saves](uint64_t step) { return saves.is_due_after_step(step + 1); };
      plan.save_checkpoint = [this, epoch](uint64_t step) { return save(epoch, step + 1); };
    }
    return run_ranks(epoch, plan, false, workload_.reader.batch_size);
  }

  Status evaluate(uint64_t epoch) {
    FB_TRY(cool_down(valid_));
    const uint64_t batch = workload_.reader.batch_size_eval;
    std::vector<std::unique_ptr<loader::Engine>> training(ranks_.size());
    for (size_t i = 0; i < ranks_.size(); ++i) {
      auto engine = FB_TRY(loader::Engine::open(*store_, *valid_.index, *valid_.order,
                                                evaluation_options(static_cast<int>(i), batch),
                                                request_.recorder));
      training[i] = std::exchange(ranks_[i].engine, std::move(engine));
    }
    EpochPlan plan;
    plan.epoch = epoch - 1;
    plan.steps = ranks_[0].engine->stripe().steps(0);  // rank 0 has the most
    plan.included = {0, plan.steps};
    plan.compute = workload_.evaluation.eval_time;
    plan.seed = workload_.train.seed + 1;
    plan.has_barrier = false;
    plan.run_start_ns = start_ns_;
    Status status = run_ranks(epoch, plan, true, batch);
    take_engine_figures();
    for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].engine = std::move(training[i]);
    return status;
  }

  // Runs one epoch on all accelerators and adds its result, also when it ended early.
  Status run_ranks(uint64_t epoch, const EpochPlan& plan, bool is_evaluation, uint64_t batch) {
    const auto group = cluster::make_solo(static_cast<int>(ranks_.size()));
    progress_.epoch = epoch;
    progress_.is_evaluation = is_evaluation;
    progress_.steps_done = 0;
    progress_.steps_total = plan.steps * ranks_.size();
    progress_.file_bytes = 0;
    progress_.compute_ns = 0;
    const int64_t start = clock_.now_ns();
    progress_.epoch_start_ns = start;
    progress_.last_step_ns = start;
    const sys::Usage before = sys::process_usage();
    spawn_and_wait(plan, *group);
    const sys::Usage after = sys::process_usage();

    EpochResult result;
    result.epoch = epoch;
    result.is_evaluation = is_evaluation;
    result.start = static_cast<double>(start - start_ns_) * kNano;
    result.end = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    result.cpu_seconds = after.cpu_seconds() - before.cpu_seconds();
    collect(result, plan);
    note_device_bytes(result, before, after);
    for (Rank& rank : ranks_) result.read_ns.merge(rank.engine->take_read_times());
    summarise_epoch(result, !plan.compute.is_zero(), plan.has_barrier);
    dlio_epoch(result, plan.included.first, plan.steps - plan.included.last, batch);
    Status status = first_failure();
    result.is_complete = status.ok();
    if (result.steps > 0) {
      result_.epochs.push_back(std::move(result));
      observer_.on_epoch(result_, result_.epochs.back());
    }
    return status;
  }

  void spawn_and_wait(const EpochPlan& plan, cluster::Group& group) {
    base::Mutex mutex;
    base::CondVar done;
    size_t running = ranks_.size();
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.epoch = {};
      rank.totals = {};
      const auto body = [&, i](const std::stop_token&) {
        rank.status = run_epoch(static_cast<int>(i), plan, *rank.engine, group, clock_, progress_,
                                request_.recorder, rank.epoch, rank.totals, stop_);
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
      group.leave(static_cast<int>(i));
      base::MutexLock lock(mutex);
      --running;
    }
    bool all_done = false;
    while (!all_done) {
      {
        base::MutexLock lock(mutex);
        all_done = done.wait_for(mutex, {}, std::chrono::nanoseconds(kTickNs),
                                 [&] { return running == 0; });
      }
      observer_.on_tick(progress_);
      result_.open_files_max = std::max(result_.open_files_max, sys::open_file_count());
      result_.threads_max = std::max(result_.threads_max, sys::thread_count());
    }
  }

  void collect(EpochResult& result, const EpochPlan& plan) {
    result.steps = result.is_evaluation ? 0 : UINT64_MAX;
    for (Rank& rank : ranks_) {
      result.steps = result.is_evaluation ? std::max(result.steps, rank.totals.steps)
                                          : std::min(result.steps, rank.totals.steps);
      result.samples += rank.totals.samples;
      result.skipped_samples += rank.totals.skipped;
      result.file_bytes += rank.totals.file_bytes;
      result.payload_bytes += rank.totals.payload_bytes;
      if (first_batch_ns_ == 0 || rank.totals.first_batch_ns < first_batch_ns_)
        first_batch_ns_ = rank.totals.first_batch_ns;
      result.ranks.push_back(std::move(rank.epoch));
    }
    const uint64_t last = std::min(plan.included.last, result.steps);
    result.included_steps = last > plan.included.first ? last - plan.included.first : 0;
  }

  void note_device_bytes(EpochResult& result, const sys::Usage& before, const sys::Usage& after) {
    if (!device_unknown_.empty() || !after.device_read_bytes || !before.device_read_bytes) {
      result.cached_share =
          Figure::none(device_unknown_.empty() ? "/proc/self/io is not readable" : device_unknown_);
      return;
    }
    result.device_bytes = *after.device_read_bytes - *before.device_read_bytes;
    if (result.file_bytes == 0) {
      result.cached_share = Figure::none("no bytes were read");
      return;
    }
    const double device = static_cast<double>(*result.device_bytes);
    result.cached_share =
        Figure::of(1 - std::min(1.0, device / static_cast<double>(result.file_bytes)));
  }

  // A stop is nobody's failure; what made the others leave comes before their leaving.
  Status first_failure() const {
    const Status* cancelled = nullptr;
    for (const Rank& rank : ranks_) {
      if (rank.status.ok()) continue;
      if (rank.status.error().code != ErrorCode::kCancelled) return rank.status;
      cancelled = &rank.status;
    }
    return cancelled != nullptr ? *cancelled : Status();
  }

  Result<std::unique_ptr<storage::Store>> open_checkpoint_store() const {
    std::string folder = workload_.checkpoint.checkpoint_folder;
    if (workload_.storage.is_object_store() && !folder.starts_with('/'))
      folder = FB_TRY(place_of(folder, workload_.storage));
    return open_data_store("local", folder, workload_.storage);
  }

  Status save(uint64_t epoch, uint64_t step) {
    if (!checkpoints_)
      checkpoints_ =
          CheckpointWriter::open(FB_TRY(open_checkpoint_store()), workload_.model.size_bytes,
                                 workload_.checkpoint.fsync, workload_.train.seed);
    const int64_t start = clock_.now_ns();
    CheckpointRecord record = FB_TRY(checkpoints_->save(epoch, step, stop_));
    record.start = static_cast<double>(start - start_ns_) * kNano;
    record.end = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    result_.checkpoints.push_back(std::move(record));
    return {};
  }

  Status save_after_epoch(uint64_t epoch) {
    FB_TRY(save(epoch, plan_.steps));
    for (EpochResult& done : result_.epochs) {
      if (done.epoch != epoch || done.is_evaluation) continue;
      done.split.checkpoint += result_.checkpoints.back().seconds;
      done.critical.checkpoint = done.split.checkpoint;
    }
    return {};
  }

  void take_engine_figures() {
    for (const Rank& rank : ranks_) {
      const loader::EngineStats stats = rank.engine->stats();
      result_.bad_count += stats.bad_count;
      result_.read_retries += stats.retries;
      for (const loader::BadRecord& bad : stats.bad_records)
        if (result_.bad_records.size() < 100) result_.bad_records.push_back({bad.path, bad.cause});
    }
  }

  void finish(const Status& status) {
    take_engine_figures();
    const std::string fallback = store_->capabilities().fallback_reason;
    if (!fallback.empty() &&
        std::count(result_.warnings.begin(), result_.warnings.end(), fallback) == 0)
      result_.warnings.push_back(fallback);  // only reads showed it
    if (!status.ok() && status.error().code == ErrorCode::kCancelled && stop_.stop_requested())
      result_.is_interrupted = true;
    else if (!status.ok())
      result_.error = status.error().message;
    result_.ended_at = utc_now();
    result_.wall_seconds = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    result_.cpu_seconds = sys::process_usage().cpu_seconds() - start_usage_.cpu_seconds();
    result_.peak_resident_bytes = sys::peak_resident_bytes();
    if (first_batch_ns_ > 0)
      result_.start_to_first_batch_seconds =
          static_cast<double>(first_batch_ns_ - start_ns_) * kNano;
    summarise_run(result_);
    result_.verdict = judge(result_);
  }

  const RunRequest& request_;
  const workload::Workload& workload_;
  const RunOptions& options_;
  Observer& observer_;
  const std::stop_token stop_;
  base::Clock& clock_;
  int64_t start_ns_ = 0;
  int64_t first_batch_ns_ = 0;
  sys::Usage start_usage_;
  std::string device_unknown_;
  // One allowance of bad records for the whole run.
  const std::shared_ptr<std::atomic<uint64_t>> bad_count_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  RunResult result_;
  Progress progress_;
  StepPlan plan_;
  std::unique_ptr<storage::Store> store_;
  DataSource train_, valid_;
  std::unique_ptr<CheckpointWriter> checkpoints_;
  std::vector<Rank> ranks_;  // engines go before what they read from
};

}  // namespace

Result<RunResult> run(const RunRequest& request, Observer& observer, std::stop_token stop) {
  Run run(request, observer, std::move(stop));
  FB_TRY(run.prepare());
  return run.go();
}

}  // namespace forebay::emulate

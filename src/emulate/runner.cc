#include "emulate/runner.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "cluster/group.h"
#include "cluster/world.h"
#include "emulate/accelerator.h"
#include "emulate/agreement.h"
#include "emulate/checkpoint_writer.h"
#include "emulate/data_source.h"
#include "emulate/data_store.h"
#include "emulate/epoch_part.h"
#include "emulate/metrics.h"
#include "emulate/packing.h"
#include "emulate/page_cache_control.h"
#include "emulate/reading_check.h"
#include "emulate/rules.h"
#include "emulate/schedule.h"
#include "emulate/verdict.h"
#include "loader/engine.h"
#include "sys/network.h"
#include "sys/page_cache.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay::emulate {
namespace {

constexpr double kNano = 1e-9;
constexpr int64_t kTickNs = 200'000'000;
// How long process 0 waits for what others have measured. A launcher that asks for a stop kills
// soon after: mpirun 0.2 s later when a process has died. After a failure they notice within a
// tenth of a second.
constexpr double kStopGraceSeconds = 0.3, kStopQuietSeconds = 0.05, kFailureGraceSeconds = 3;

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
  Run(const RunRequest& request, cluster::World& world, Observer& observer, std::stop_token stop)
      : request_(request),
        workload_(request.resolved.workload),
        options_(request.options),
        world_(world),
        observer_(observer),
        asked_(std::move(stop)),
        stop_(end_.get_token()),
        when_asked_(asked_, [this] { end_.request_stop(); }),
        when_failed_(world.failed(), [this] { end_.request_stop(); }),
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
    FB_TRY(meet_the_others());
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
    FB_TRY(agree_on_data());
    plan_ =
        FB_TRY(plan_steps(workload_, result_.options.accelerators, train_.index->sample_count()));
    result_.steps_per_epoch = plan_.steps;
    result_.samples_left_out = plan_.left_out;
    adopt(plan_.warnings);
    FB_TRY(check_open_files());
    if (workload_.reader.in_memory) FB_TRY(keep_in_memory());
    warn_about_conditions();
    return open_engines();
  }

  Status keep_in_memory() {
    FB_TRY(keep_samples_in_memory(train_, 0).context("reader.read_type=memory"));
    if (!valid_.index) return {};
    return keep_samples_in_memory(valid_, loader::SampleCache::bytes_needed(*train_.index))
        .context("reader.read_type=memory, evaluation");
  }

  RunResult go() {
    observer_.on_start(result_);
    Status status;
    if (options_.cache == "warm") status = warm_up();
    if (status.ok()) status = all_here();
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

  // --- the other processes ---

  bool is_alone() const { return world_.size() == 1; }
  bool is_first_on_host() const {
    return cluster::first_on_host(world_, world_.rank()) == world_.rank();
  }

  // Accelerators are numbered in the order of the ranks; times count from process 0's start.
  Status meet_the_others() {
    FB_TRY(agree_on(items(), world_, stop_));
    FB_TRY(world_.measure_clocks(stop_));
    Packer packer;
    packer.put(options_.accelerators);
    packer.put(start_ns_);
    const std::vector<std::string> all = FB_TRY(world_.gather(packer.take(), stop_));
    std::string uneven;
    int total = 0;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const auto index = static_cast<size_t>(rank);
      Unpacker unpacker(all[index]);
      int accelerators = 0;
      unpacker.get(accelerators);
      if (rank == world_.rank()) first_accelerator_ = total;
      if (rank == 0) unpacker.get(start_ns_);
      total += accelerators;
      accelerators_of_.push_back(accelerators);
      hosts_.push_back(world_.host_of(rank));
      offsets_at_start_.push_back(world_.clock_offset(rank));
      uneven += fmt::format("{}{}", rank == 0 ? "" : ", ", accelerators);
      if (accelerators != options_.accelerators) is_uneven_ = true;
    }
    if (!is_alone()) start_ns_ += world_.clock_offset(world_.rank()).ns;
    result_.options.accelerators = total;
    result_.processes = world_.size();
    result_.process_accelerators = accelerators_of_;
    if (is_uneven_)
      result_.warnings.push_back("the processes have unequal numbers of accelerators: " + uneven);
    return {};
  }

  // What must be equal everywhere. Folders are not: hosts may mount the data elsewhere.
  Items items() const {
    Items items{{"the version of Forebay", request_.version},
                {"--storage", options_.storage},
                {"--payload", options_.payload},
                {"--cache", options_.cache},
                {"--on-error", options_.on_error},
                {"--errors-max", fmt::format("{}", options_.errors_max)},
                {"--decode-threads", fmt::format("{}", options_.decode_threads)},
                {"--no-barrier", options_.barrier ? "off" : "on"},
                {"--rules", options_.rules},
                {"--compat", std::string(workload::compat_name(request_.resolved.compat))},
                {"the workload", workload_.name}};
    for (const workload::Setting& setting : request_.resolved.settings)
      if (!setting.key.ends_with("_folder") && setting.key != "storage.storage_root")
        items.emplace_back(setting.key, setting.value);
    return items;
  }

  // The same files, and one order: process 0 draws what is drawn.
  Status agree_on_data() {
    if (is_alone()) return {};
    FB_TRY(agree_on_files(*train_.index, options_.data, world_, stop_));
    FB_TRY(take_order(train_, result_.dataset));
    if (!valid_.index) return {};
    FB_TRY(agree_on_files(*valid_.index, options_.data, world_, stop_));
    return take_order(valid_, result_.evaluation_dataset);
  }

  Status take_order(DataSource& source, DatasetFacts& facts) {
    dataset::OrderOptions order = source.order->options();
    Packer packer;
    packer.put(order.seed);
    const std::vector<std::string> all = FB_TRY(world_.gather(packer.take(), stop_));
    Unpacker unpacker(all[0]);
    unpacker.get(order.seed);
    const dataset::Order made = FB_TRY(dataset::Order::make(order));
    source.order = std::make_unique<dataset::Order>(made);
    source.facts.order_seed = facts.order_seed = order.seed;
    return {};
  }

  Status all_here() {
    FB_TRY(world_.meet(clock_.now_ns(), stop_));
    return {};
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
    if (const int cpus = result_.host.cpu_count, all = result_.host.cpu_count_online;
        !is_alone() &&
        cpus * std::count(hosts_.begin(), hosts_.end(), world_.host_of(world_.rank())) < all)
      warn(fmt::format(
          "the launcher bound this process to {} of {} CPUs: with mpirun, --bind-to none "
          "gives it all",
          cpus, all));
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
    const int accelerators = result_.options.accelerators;
    const std::string repeated = describe_repeated_reads(
        train_, static_cast<uint64_t>(accelerators), workload_.reader.batch_size);
    if (!repeated.empty()) warn(repeated);
    if (train_.samples)
      warn(
          fmt::format("reader.read_type=memory: samples are kept in memory ({}); once read, they "
                      "cost storage nothing",
                      base::format_memory(
                          static_cast<double>(loader::SampleCache::bytes_needed(*train_.index)))));
    if (plan_.left_out > 0)
      warn(
          fmt::format("{} of {} samples are left out of each epoch: they do not fill a step of {} "
                      "accelerator{} x batch {}",
                      plan_.left_out, train_.index->sample_count(), accelerators,
                      accelerators == 1 ? "" : "s", workload_.reader.batch_size));
  }

  int fetch_depth() const {
    return static_cast<int>(std::max<uint64_t>(1, workload_.reader.read_threads));
  }

  // `rank` is of all accelerators.
  loader::EngineOptions engine_options(int rank, uint64_t batch_size) const {
    loader::EngineOptions options;
    options.batch_size = batch_size;
    options.prefetch_batches = std::max<uint64_t>(1, workload_.reader.prefetch_size);
    options.fetch_depth = fetch_depth();
    options.decode_threads = result_.options.decode_threads;
    options.rank = static_cast<uint64_t>(rank);
    options.world_size = static_cast<uint64_t>(result_.options.accelerators);
    options.payload =
        options_.payload == "bytes" ? loader::Payload::kBytes : loader::Payload::kDecode;
    options.on_error = options_.on_error == "skip"      ? loader::OnError::kSkip
                       : options_.on_error == "replace" ? loader::OnError::kReplace
                                                        : loader::OnError::kRaise;
    options.errors_max = options_.errors_max;
    options.shared_bad_count = bad_count_;
    options.format = format_options(workload_);
    if (workload_.reader.transfer_size) options.coalesce_bytes = *workload_.reader.transfer_size;
    if (!workload_.reader.preprocess_time.is_zero())
      options.preprocess_ns = [this](uint64_t epoch, uint64_t sample) {
        base::Random random(base::derive_seed(workload_.train.seed ^ 0x70726570, epoch, sample));
        return static_cast<int64_t>(workload_.reader.preprocess_time.draw(random) / kNano);
      };
    options.sample_cache = train_.samples;
    options.name = fmt::format("acc{}", rank);
    return options;
  }

  // Every sample once: without barriers accelerators may differ by a step.
  loader::EngineOptions evaluation_options(int rank, uint64_t batch_size) const {
    loader::EngineOptions options = engine_options(rank, batch_size);
    options.tail = loader::Tail::kAll;
    options.sample_cache = valid_.samples;
    return options;
  }

  Status open_engines() {
    for (int member = 0; member < options_.accelerators; ++member) {
      auto engine = FB_TRY(loader::Engine::open(
          *store_, *train_.index, *train_.order,
          engine_options(first_accelerator_ + member, workload_.reader.batch_size),
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

  // The page cache belongs to the host: one of its processes does the work.
  Status warm_up(const DataSource& source) {
    if (!is_first_on_host()) return {};
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
    if (!is_first_on_host()) return all_here();
    observer_.on_note(fmt::format("evicting {} files from the page cache", source.facts.files));
    const CacheState state = FB_TRY(make_cold(*source.index, options_.data, stop_));
    if (!state.is_known)
      result_.warnings.push_back("cache state unknown: the kernel does not tell this user");
    else if (state.cached_bytes > 0)
      result_.warnings.push_back(
          fmt::format("{} stayed in the page cache although --cache cold evicted it",
                      base::format_bytes(static_cast<double>(state.cached_bytes))));
    return all_here();  // nobody reads ahead while a page goes
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
      auto engine = FB_TRY(loader::Engine::open(
          *store_, *valid_.index, *valid_.order,
          evaluation_options(first_accelerator_ + static_cast<int>(i), batch), request_.recorder));
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
  Status run_ranks(uint64_t epoch, EpochPlan plan, bool is_evaluation, uint64_t batch) {
    plan.first_accelerator = first_accelerator_;
    const auto group = cluster::make_group(world_, static_cast<int>(ranks_.size()));
    start_progress(epoch, plan, is_evaluation);
    const int64_t start = clock_.now_ns();
    const sys::Usage before = sys::process_usage();
    const auto network_before = is_first_on_host() ? sys::network_bytes() : std::nullopt;
    spawn_and_wait(plan, *group);
    EpochPart part = collect(before, network_before);
    part.epoch = epoch;
    part.is_evaluation = is_evaluation;
    part.start = static_cast<double>(start - start_ns_) * kNano;
    part.end = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    plan_of_part_ = {plan.included, plan.steps, batch, !plan.compute.is_zero(), plan.has_barrier};
    Status status = first_failure();
    if (status.ok()) status = exchange(part);
    if (status.ok()) return check_bad_count();
    unfinished_ = std::move(part);
    return status;
  }

  void start_progress(uint64_t epoch, const EpochPlan& plan, bool is_evaluation) {
    progress_.epoch = epoch;
    progress_.is_evaluation = is_evaluation;
    progress_.steps_done = 0;
    progress_.steps_total = plan.steps * static_cast<uint64_t>(result_.options.accelerators);
    progress_.file_bytes = 0;
    progress_.compute_ns = 0;
    const int64_t now = clock_.now_ns();
    progress_.epoch_start_ns = now;
    progress_.last_step_ns = now;
  }

  // Every process gets every part; the long lists of steps go to process 0.
  Status exchange(const EpochPart& part) {
    std::vector<EpochPart> parts;
    if (is_alone()) {
      parts.push_back(part);
    } else {
      const std::vector<std::string> all = FB_TRY(world_.gather(pack(part), stop_));
      const std::vector<std::string> blocks =
          FB_TRY(world_.gather_at_first(pack_blocks(part), stop_));
      for (size_t rank = 0; rank < all.size(); ++rank) {
        parts.push_back(FB_TRY(unpack_epoch_part(all[rank])));
        if (!blocks.empty()) FB_TRY(unpack_blocks(blocks[rank], parts.back()));
      }
      if (world_.rank() != 0)
        result_.checkpoints.insert(result_.checkpoints.end(), parts[0].checkpoints.begin(),
                                   parts[0].checkpoints.end());
    }
    bad_count_of_all_ = 0;
    for (const EpochPart& one : parts) bad_count_of_all_ += one.bad_count;
    add_epoch(std::move(parts), true);
    return {};
  }

  // Alone, the engines watch the allowance themselves.
  Status check_bad_count() const {
    if (is_alone() || bad_count_of_all_ <= options_.errors_max) return {};
    return fail(ErrorCode::kResourceExhausted,
                "{} bad records in all processes together, --errors-max allows {}",
                bad_count_of_all_, options_.errors_max);
  }

  // Accelerators of processes that could not tell have an empty place, so that the others keep
  // their numbers.
  void keep_numbers(const std::vector<bool>& has_told, EpochResult& result) const {
    int64_t first = 0;
    for (size_t rank = 0; rank < has_told.size(); ++rank) {
      const auto count = static_cast<size_t>(accelerators_of_[rank]);
      if (!has_told[rank]) result.ranks.insert(result.ranks.begin() + first, count, RankEpoch());
      first += static_cast<int64_t>(count);
    }
  }

  void add_epoch(std::vector<EpochPart> parts, bool is_complete) {
    const PartPlan& plan = plan_of_part_;
    std::vector<bool> has_told(hosts_.size());
    for (const EpochPart& part : parts) has_told[static_cast<size_t>(part.rank)] = true;
    EpochResult result = merge(std::move(parts), plan.included, hosts_);
    summarise_epoch(result, plan.has_compute, plan.has_barrier);
    dlio_epoch(result, plan.included.first, plan.steps - plan.included.last, plan.batch);
    result.is_complete = is_complete;
    keep_numbers(has_told, result);
    if (result.steps == 0) return;
    result_.epochs.push_back(std::move(result));
    observer_.on_epoch(result_, result_.epochs.back());
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
      group.leave(static_cast<int>(i), thread.error());
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
      tell_progress();
      mine_.open_files_max = std::max(mine_.open_files_max, sys::open_file_count());
      mine_.threads_max = std::max(mine_.threads_max, sys::thread_count());
    }
  }

  // Process 0 shows all processes' figures, as new as they have come.
  void tell_progress() {
    if (is_alone()) return observer_.on_tick(progress_);
    const ProgressNews mine{progress_.epoch, progress_.is_evaluation, progress_.steps_done,
                            progress_.file_bytes, progress_.compute_ns};
    Packer packer;
    packer.put(mine);
    world_.post(packer.take());
    if (world_.rank() != 0) return;
    Progress& all = progress_of_all_;
    all.epoch = mine.epoch;
    all.epochs = progress_.epochs.load();
    all.is_evaluation = mine.is_evaluation;
    all.steps_total = progress_.steps_total.load();
    all.epoch_start_ns = progress_.epoch_start_ns.load();
    all.last_step_ns = progress_.last_step_ns.load();
    ProgressNews sum;
    for (const std::string& text : world_.posted()) {
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
    observer_.on_tick(all);
  }

  EpochPart collect(const sys::Usage& before,
                    const std::optional<sys::NetworkBytes>& network_before) {
    EpochPart part;
    part.rank = world_.rank();
    part.meminfo = sys::meminfo();
    for (Rank& rank : ranks_) {
      if (rank.totals.first_batch_ns > 0 &&
          (first_batch_ns_ == 0 || rank.totals.first_batch_ns < first_batch_ns_))
        first_batch_ns_ = rank.totals.first_batch_ns;
      part.totals.push_back(rank.totals);
      part.ranks.push_back(std::move(rank.epoch));
      part.read_ns.merge(rank.engine->take_read_times());
    }
    part.bad_count = bad_count_->load(std::memory_order_relaxed);
    part.checkpoints.assign(result_.checkpoints.begin() + static_cast<int64_t>(checkpoints_told_),
                            result_.checkpoints.end());
    checkpoints_told_ = result_.checkpoints.size();
    const sys::Usage after = sys::process_usage();
    part.cpu_seconds = after.cpu_seconds() - before.cpu_seconds();
    const auto network = sys::network_bytes();
    if (network && network_before)
      part.network = {network->received - network_before->received,
                      network->sent - network_before->sent};
    if (!device_unknown_.empty() || !after.device_read_bytes || !before.device_read_bytes)
      part.device_unknown =
          device_unknown_.empty() ? "/proc/self/io is not readable" : device_unknown_;
    else
      part.device_bytes = *after.device_read_bytes - *before.device_read_bytes;
    if (train_.samples) part.why_no_bytes = "no bytes were read: samples came from memory";
    return part;
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
      checkpoints_ = CheckpointWriter::open(FB_TRY(open_checkpoint_store()), workload_.checkpoint,
                                            workload_.model.size_bytes, workload_.train.seed);
    const int64_t start = clock_.now_ns();
    CheckpointRecord record = FB_TRY(checkpoints_->save(epoch, step, stop_));
    record.start = static_cast<double>(start - start_ns_) * kNano;
    record.end = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    result_.checkpoints.push_back(std::move(record));
    return {};
  }

  Status save_after_epoch(uint64_t epoch) {
    if (world_.rank() == 0) FB_TRY(save(epoch, plan_.steps));
    FB_TRY(share_checkpoint());
    for (EpochResult& done : result_.epochs) {
      if (done.epoch != epoch || done.is_evaluation) continue;
      done.split.checkpoint += result_.checkpoints.back().seconds;
      done.critical.checkpoint = done.split.checkpoint;
    }
    return {};
  }

  // Process 0 has saved; the others wait for it and note the same.
  Status share_checkpoint() {
    if (is_alone()) return {};
    EpochPart carrier;
    if (world_.rank() == 0) carrier.checkpoints.push_back(result_.checkpoints.back());
    const std::vector<std::string> all = FB_TRY(world_.gather(pack(carrier), stop_));
    if (world_.rank() != 0) {
      const EpochPart first = FB_TRY(unpack_epoch_part(all[0]));
      result_.checkpoints.push_back(first.checkpoints.at(0));
    }
    checkpoints_told_ = result_.checkpoints.size();
    return {};
  }

  void take_engine_figures() {
    for (const Rank& rank : ranks_) {
      const loader::EngineStats stats = rank.engine->stats();
      mine_.bad_count += stats.bad_count;
      mine_.read_retries += stats.retries;
      for (const loader::BadRecord& bad : stats.bad_records)
        if (mine_.bad_records.size() < 100) mine_.bad_records.push_back({bad.path, bad.cause});
    }
  }

  void finish(Status status) {
    take_engine_figures();
    const std::string fallback = store_->capabilities().fallback_reason;
    if (!fallback.empty() &&
        std::count(result_.warnings.begin(), result_.warnings.end(), fallback) == 0)
      result_.warnings.push_back(fallback);  // only reads showed it
    fill_own_part();
    if (status.ok()) status = exchange_parts();
    if (!status.ok()) end_early(status);
    result_.ended_at = utc_now();
    result_.wall_seconds = static_cast<double>(clock_.now_ns() - start_ns_) * kNano;
    summarise_run(result_);
    note_clocks();
    if (std::string unread = describe_unread_bytes(result_); !unread.empty())
      result_.warnings.push_back(std::move(unread));
    result_.verdict = judge(result_);
    if (const auto rules = rule_set_from_name(options_.rules))
      result_.rules = check_rules(result_, *rules);
  }

  void fill_own_part() {
    mine_.rank = world_.rank();
    mine_.accelerators = options_.accelerators;
    mine_.host = result_.host;
    mine_.cpuinfo = sys::cpuinfo();
    mine_.meminfo = sys::meminfo();
    mine_.host.name = world_.host_of(world_.rank());
    mine_.cpu_seconds = sys::process_usage().cpu_seconds() - start_usage_.cpu_seconds();
    mine_.peak_resident_bytes = sys::peak_resident_bytes();
    mine_.warnings = result_.warnings;
    if (first_batch_ns_ > 0)
      mine_.first_batch_seconds = static_cast<double>(first_batch_ns_ - start_ns_) * kNano;
  }

  Status exchange_parts() {
    FB_TRY(world_.measure_clocks(stop_));
    const std::vector<std::string> all = FB_TRY(world_.gather(pack(mine_), stop_));
    std::vector<RunPart> parts;
    for (const std::string& text : all) parts.push_back(FB_TRY(unpack_run_part(text)));
    merge(parts, result_);
    return {};
  }

  // A failure or a stop: process 0 still takes what the others have measured, if they can say it.
  void end_early(const Status& status) {
    world_.fail(status.error());
    const std::optional<Error> failure = world_.failure();
    const Error& cause = failure ? *failure : status.error();
    const bool is_stop = cause.code == ErrorCode::kCancelled && (failure || stop_.stop_requested());
    if (is_stop)
      result_.is_interrupted = true;
    else
      result_.error = cause.message;
    const std::vector<std::optional<std::string>> words =
        is_stop ? world_.last_words(pack_last_words(), kStopGraceSeconds, kStopQuietSeconds)
                : world_.last_words(pack_last_words(), kFailureGraceSeconds, kFailureGraceSeconds);
    std::vector<RunPart> parts;
    std::vector<EpochPart> epoch;
    for (size_t rank = 0; rank < words.size(); ++rank) {
      Status taken = fail(ErrorCode::kCancelled, "it did not answer any more");
      if (words[rank]) taken = take_last_words(*words[rank], parts, epoch);
      if (!taken.ok())
        result_.warnings.push_back(fmt::format("no figures of {}: {}",
                                               cluster::name_of(world_, static_cast<int>(rank)),
                                               taken.error().message));
    }
    if (words.empty()) {  // process 0 has them
      parts.push_back(mine_);
      if (unfinished_) epoch.push_back(*std::move(unfinished_));
    }
    if (!epoch.empty()) add_epoch(std::move(epoch), false);
    merge(parts, result_);
  }

  std::string pack_last_words() const {
    Packer packer;
    packer.put(pack(mine_));
    packer.put(unfinished_ ? pack(*unfinished_) : std::string());
    packer.put(unfinished_ ? pack_blocks(*unfinished_) : std::string());
    return packer.take();
  }

  // A process that was further or less far in the run has no part of this epoch.
  Status take_last_words(const std::string& text, std::vector<RunPart>& parts,
                         std::vector<EpochPart>& epoch) const {
    std::string run, part, blocks;
    Unpacker unpacker(text);
    unpacker.get(run);
    unpacker.get(part);
    unpacker.get(blocks);
    FB_TRY(unpacker.done());
    parts.push_back(FB_TRY(unpack_run_part(run)));
    if (part.empty() || !unfinished_) return {};
    EpochPart unpacked = FB_TRY(unpack_epoch_part(part));
    if (unpacked.epoch != unfinished_->epoch ||
        unpacked.is_evaluation != unfinished_->is_evaluation)
      return {};
    FB_TRY(unpack_blocks(blocks, unpacked));
    epoch.push_back(std::move(unpacked));
    return {};
  }

  void note_clocks() {
    for (HostResult& host : result_.hosts) {
      const auto first = static_cast<size_t>(host.processes.front());
      const cluster::ClockOffset at_end = world_.clock_offset(host.processes.front());
      host.clock_offset_seconds = static_cast<double>(offsets_at_start_[first].ns) * kNano;
      host.clock_uncertainty_seconds =
          static_cast<double>(offsets_at_start_[first].uncertainty_ns) * kNano;
      host.clock_offset_seconds_at_end = static_cast<double>(at_end.ns) * kNano;
      host.clock_uncertainty_seconds_at_end = static_cast<double>(at_end.uncertainty_ns) * kNano;
    }
  }

  // How the figures of the epoch that a part belongs to are computed.
  struct PartPlan {
    StepRange included;
    uint64_t steps = 0, batch = 0;
    bool has_compute = false, has_barrier = false;
  };
  struct ProgressNews {
    uint64_t epoch = 0;
    bool is_evaluation = false;
    uint64_t steps_done = 0, file_bytes = 0;
    int64_t compute_ns = 0;
  };

  const RunRequest& request_;
  const workload::Workload& workload_;
  const RunOptions& options_;
  cluster::World& world_;
  Observer& observer_;
  const std::stop_token asked_;
  std::stop_source end_;  // asked for, or another process has failed
  const std::stop_token stop_;
  const std::stop_callback<std::function<void()>> when_asked_, when_failed_;
  base::Clock& clock_;
  int64_t start_ns_ = 0;  // of process 0, on this host's clock
  int64_t first_batch_ns_ = 0;
  int first_accelerator_ = 0;
  bool is_uneven_ = false;
  std::vector<std::string> hosts_;    // by rank of the process
  std::vector<int> accelerators_of_;  // the same
  std::vector<cluster::ClockOffset> offsets_at_start_;
  RunPart mine_;
  PartPlan plan_of_part_;
  std::optional<EpochPart> unfinished_;  // of the epoch that ended early
  size_t checkpoints_told_ = 0;          // to the other processes
  uint64_t bad_count_of_all_ = 0;        // processes, up to the last epoch
  sys::Usage start_usage_;
  std::string device_unknown_;
  // One allowance of bad records for the whole run.
  const std::shared_ptr<std::atomic<uint64_t>> bad_count_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  RunResult result_;
  Progress progress_;         // of this process
  Progress progress_of_all_;  // process 0
  StepPlan plan_;
  std::unique_ptr<storage::Store> store_;
  DataSource train_, valid_;
  std::unique_ptr<CheckpointWriter> checkpoints_;
  std::vector<Rank> ranks_;  // engines go before what they read from
};

}  // namespace

Result<RunResult> run(const RunRequest& request, Observer& observer, std::stop_token stop) {
  const std::unique_ptr<cluster::World> alone =
      request.world == nullptr ? cluster::make_alone() : nullptr;
  Run run(request, alone ? *alone : *request.world, observer, std::move(stop));
  FB_TRY(run.prepare());
  return run.go();
}

}  // namespace forebay::emulate

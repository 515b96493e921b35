#include "emulate/preparation.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "base/units.h"
#include "emulate/agreement.h"
#include "emulate/data_store.h"
#include "emulate/packing.h"
#include "emulate/page_cache_control.h"
#include "sys/page_cache.h"

namespace forebay::emulate {
namespace {

// Accelerators are numbered in the order of the ranks; times count from process 0's start.
Status meet_the_others(RunState& run) {
  FB_TRY(agree_on(items_of(run.request), run.world, run.stop));
  FB_TRY(run.world.measure_clocks(run.stop));
  Packer packer;
  packer.put(run.options.accelerators);
  packer.put(run.start_ns);
  const std::vector<std::string> all = FB_TRY(run.world.gather(packer.take(), run.stop));
  std::string uneven;
  int total = 0;
  bool is_uneven = false;
  for (int rank = 0; rank < run.world.size(); ++rank) {
    const auto index = static_cast<size_t>(rank);
    Unpacker unpacker(all[index]);
    int accelerators = 0;
    unpacker.get(accelerators);
    if (rank == run.world.rank()) run.first_accelerator = total;
    if (rank == 0) unpacker.get(run.start_ns);
    total += accelerators;
    run.accelerators_of.push_back(accelerators);
    run.hosts.push_back(run.world.host_of(rank));
    run.offsets_at_start.push_back(run.world.clock_offset(rank));
    uneven += fmt::format("{}{}", rank == 0 ? "" : ", ", accelerators);
    if (accelerators != run.options.accelerators) is_uneven = true;
  }
  if (!run.is_alone()) run.start_ns += run.world.clock_offset(run.world.rank()).ns;
  run.result.options.accelerators = total;
  run.result.processes = run.world.size();
  run.result.process_accelerators = run.accelerators_of;
  if (is_uneven)
    run.result.warnings.push_back("the processes have unequal numbers of accelerators: " + uneven);
  return {};
}

Status take_order(RunState& run, DataSource& source, DatasetFacts& facts) {
  dataset::OrderOptions order = source.order->options();
  Packer packer;
  packer.put(order.seed);
  const std::vector<std::string> all = FB_TRY(run.world.gather(packer.take(), run.stop));
  Unpacker unpacker(all[0]);
  unpacker.get(order.seed);
  const dataset::Order made = FB_TRY(dataset::Order::make(order));
  source.order = std::make_unique<dataset::Order>(made);
  source.facts.order_seed = facts.order_seed = order.seed;
  return {};
}

// The same files, and one order: process 0 draws what is drawn.
Status agree_on_data(RunState& run) {
  if (run.is_alone()) return {};
  FB_TRY(agree_on_files(*run.train.index, run.options.data, run.world, run.stop));
  FB_TRY(take_order(run, run.train, run.result.dataset));
  if (!run.valid.index) return {};
  FB_TRY(agree_on_files(*run.valid.index, run.options.data, run.world, run.stop));
  return take_order(run, run.valid, run.result.evaluation_dataset);
}

// Beside the result folders, so that later runs on the same data find it.
std::string index_cache_path(const RunState& run, const std::string& split) {
  if (run.options.out.empty()) return "";
  const size_t slash = run.options.out.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : run.options.out.substr(0, slash);
  const std::string key = run.options.data + "\n" + split + "\n" + run.options.storage;
  const uint32_t hash = base::crc32c(0, std::as_bytes(std::span(key.data(), key.size())));
  return fmt::format("{}/.forebay-index-{:08x}", folder, hash);
}

void note_store(RunState& run) {
  const storage::Capabilities can = run.store->capabilities();
  if (!can.fallback_reason.empty()) run.result.warnings.push_back(can.fallback_reason);
  run.device_unknown = why_device_bytes_unknown(run.options.data, can.is_local);
}

// Each read in flight may hold a descriptor, and stores keep some more.
Status check_open_files(const RunState& run) {
  const uint64_t needed = static_cast<uint64_t>(run.options.accelerators) *
                              (static_cast<uint64_t>(run.fetch_depth()) + 4) +
                          64;
  if (sys::raise_open_file_limit(needed) >= needed) return {};
  return fail(ErrorCode::kResourceExhausted,
              "{} accelerators with {} reads in flight each need {} open files, but the limit is "
              "{}: raise it with `ulimit -n {}`",
              run.options.accelerators, run.fetch_depth(), needed, sys::open_file_limit(), needed);
}

Status keep_in_memory(RunState& run) {
  FB_TRY(keep_samples_in_memory(run.train, 0).context("reader.read_type=memory"));
  if (!run.valid.index) return {};
  return keep_samples_in_memory(run.valid, loader::SampleCache::bytes_needed(*run.train.index))
      .context("reader.read_type=memory, evaluation");
}

void warn_about_conditions(RunState& run) {
  const auto warn = [&](std::string text) { run.result.warnings.push_back(std::move(text)); };
#ifndef NDEBUG
  warn("this is a debug build: rates are far below those of a release build");
#endif
  if (const int cpus = run.result.host.cpu_count, all = run.result.host.cpu_count_online;
      !run.is_alone() &&
      cpus * std::count(run.hosts.begin(), run.hosts.end(), run.world.host_of(run.world.rank())) <
          all)
    warn(
        fmt::format("the launcher bound this process to {} of {} CPUs: with mpirun, --bind-to none "
                    "gives it all",
                    cpus, all));
  if (run.result.host.is_governor_powersave)
    warn("the CPU governor is powersave: rates may be too low");
  if (run.options.cache == "as-is" && run.device_unknown.empty() && run.workload.train.epochs > 1 &&
      !run.options.storage.starts_with("direct") &&
      run.result.dataset.bytes < run.result.host.memory_bytes)
    warn(
        fmt::format("the data set ({}) fits in memory ({}): later epochs come from the page "
                    "cache; use --cache cold for the storage's own speed",
                    base::format_bytes(static_cast<double>(run.result.dataset.bytes)),
                    base::format_memory(static_cast<double>(run.result.host.memory_bytes))));
  if (run.options.cache == "cold" && sys::is_memory_file_system(run.options.data))
    warn("--cache cold has no effect: the data lies on a file system in memory");
  const int accelerators = run.result.options.accelerators;
  const std::string repeated = describe_repeated_reads(
      run.train, static_cast<uint64_t>(accelerators), run.workload.reader.batch_size);
  if (!repeated.empty()) warn(repeated);
  if (run.train.samples)
    warn(
        fmt::format("reader.read_type=memory: samples are kept in memory ({}); once read, they "
                    "cost storage nothing",
                    base::format_memory(
                        static_cast<double>(loader::SampleCache::bytes_needed(*run.train.index)))));
  if (run.plan.left_out > 0)
    warn(
        fmt::format("{} of {} samples are left out of each epoch: they do not fill a step of {} "
                    "accelerator{} x batch {}",
                    run.plan.left_out, run.train.index->sample_count(), accelerators,
                    accelerators == 1 ? "" : "s", run.workload.reader.batch_size));
}

}  // namespace

Status prepare_without_data(RunState& run) {
  FB_TRY(meet_the_others(run));
  if (is_object_place(run.options.data) && run.options.cache != "as-is")
    return fail(ErrorCode::kInvalidArgument,
                "--cache {}: bytes from {} never come from the page cache", run.options.cache,
                run.options.data);
  return {};
}

Status prepare(RunState& run) {
  FB_TRY(prepare_without_data(run));
  run.store = FB_TRY(open_data_store(run.options.storage, run.options.data, run.workload.storage));
  run.result.store = run.store->describe();
  note_store(run);
  run.train = FB_TRY(open_data_source(*run.store, run.request.resolved, run.options.data, "train",
                                      index_cache_path(run, "train"),
                                      run.options.on_error != "raise", run.stop));
  run.adopt(run.train.warnings);
  run.result.dataset = run.train.facts;
  if (run.workload.workflow.evaluation) {
    run.valid = FB_TRY(open_data_source(*run.store, run.request.resolved, run.options.data, "valid",
                                        index_cache_path(run, "valid"),
                                        run.options.on_error != "raise", run.stop));
    run.result.evaluation_dataset = run.valid.facts;
  }
  FB_TRY(agree_on_data(run));
  run.plan = FB_TRY(
      plan_steps(run.workload, run.result.options.accelerators, run.train.index->sample_count()));
  run.result.steps_per_epoch = run.plan.steps;
  run.result.samples_left_out = run.plan.left_out;
  run.adopt(run.plan.warnings);
  FB_TRY(check_open_files(run));
  if (run.workload.reader.in_memory) FB_TRY(keep_in_memory(run));
  warn_about_conditions(run);
  return {};
}

}  // namespace forebay::emulate

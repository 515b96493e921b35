#include "loader/loader_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "loader/probe.h"
#include "sys/host.h"

namespace forebay::loader {
namespace {

constexpr int kLocalDepthStart = 4, kLocalDepthMax = 32;  // a disk is full well before
constexpr int kFarDepthStart = 32, kFarDepthMax = 512;
constexpr uint64_t kMiB = 1 << 20;
// Beyond these a number is a slip, whose threads and batches would take the machine with them.
constexpr uint64_t kBatchesMax = 1'000'000;
constexpr int kDepthMax = 100'000, kThreadsMax = 1024;

EngineOptions engine_options(const LoaderOptions& options) {
  EngineOptions engine;
  engine.batch_size = options.batch_size;
  engine.prefetch_batches = options.prefetch_batches;
  engine.rank = options.rank;
  engine.world_size = options.world_size;
  engine.tail = options.tail == forebay::Tail::kDrop   ? Tail::kDrop
                : options.tail == forebay::Tail::kEven ? Tail::kEven
                : options.tail == forebay::Tail::kPad  ? Tail::kPad
                                                       : Tail::kAll;
  engine.keep_samples = true;
  engine.as_ready = options.as_ready;
  engine.on_error = options.on_error == forebay::OnError::kRaise  ? OnError::kRaise
                    : options.on_error == forebay::OnError::kSkip ? OnError::kSkip
                                                                  : OnError::kReplace;
  engine.errors_max = options.errors_max;
  engine.errors_share_max = options.errors_share_max;
  return engine;
}

Status check(const LoaderOptions& options) {
  const auto refuse = [](const char* what) {
    return fail(ErrorCode::kInvalidArgument, "{}", what);
  };
  if (options.batch_size == 0) return refuse("batch_size is 0");
  if (options.batch_size > UINT32_MAX) return refuse("batch_size is over 4 294 967 295");
  if (options.world_size == 0) return refuse("world_size is 0");
  if (options.world_size > UINT32_MAX) return refuse("world_size is over 4 294 967 295");
  if (options.rank >= options.world_size)
    return fail(ErrorCode::kInvalidArgument, "rank {} is not below world_size {}", options.rank,
                options.world_size);
  if (options.prefetch_batches < 1 || options.prefetch_batches > kBatchesMax)
    return fail(ErrorCode::kInvalidArgument, "prefetch_batches is not within 1 and {}",
                kBatchesMax);
  if (options.fetch_depth < 0 || options.fetch_depth > kDepthMax)
    return fail(ErrorCode::kInvalidArgument, "fetch_depth is not within 0 and {}", kDepthMax);
  if (options.decode_threads < 0 || options.decode_threads > kThreadsMax)
    return fail(ErrorCode::kInvalidArgument, "decode_threads is not within 0 and {}", kThreadsMax);
  if (options.convert_to_rgb && !options.ops.empty())
    return refuse("convert_to_rgb is for a loader without ops: decode_image has its own mode");
  if (!(options.errors_share_max >= 0 && options.errors_share_max <= 1))
    return refuse("errors_share_max is not within 0 and 1");
  return {};
}

// Of what has to be in memory in one piece.
uint64_t largest_read(const dataset::Catalog& catalog) {
  uint64_t largest = catalog.block_bytes_max();
  for (uint32_t file = 0; file < catalog.file_count(); ++file) {
    const formats::FileIndex& layout = catalog.file_index(file);
    if (layout.access == formats::Access::kWholeFile ||
        layout.access == formats::Access::kTogether) {
      largest = std::max(largest, catalog.file_bytes(file));
    } else if (layout.access == formats::Access::kExtents) {
      if (layout.extents.is_even() && !layout.extents.empty())
        largest = std::max(largest, layout.extents[0].length);
      else
        for (const formats::Extent extent : layout.extents)
          largest = std::max(largest, extent.length);
    }
  }
  return largest;
}

// The one with the most samples, where they are as large as those of the first.
uint64_t largest_unit(const Probe& probe, const dataset::Catalog& catalog) {
  if (catalog.unit_samples_max() <= probe.unit_samples) return probe.unit_bytes;
  const double times = static_cast<double>(catalog.unit_samples_max()) /
                       static_cast<double>(std::max<uint64_t>(1, probe.unit_samples));
  return static_cast<uint64_t>(std::min(static_cast<double>(probe.unit_bytes) * times, 0x1p62));
}

void plan_threads(const LoaderOptions& options, const storage::Capabilities& can,
                  EngineOptions& engine) {
  engine.decode_threads = options.decode_threads;
  if (options.decode_threads == 0) {
    engine.decode_threads_max = sys::usable_cpu_count();
    engine.decode_threads = std::min(2, engine.decode_threads_max);
  }
  engine.fetch_depth = options.fetch_depth;
  if (options.fetch_depth == 0) {
    engine.fetch_depth_max =
        std::min(can.is_local ? kLocalDepthMax : kFarDepthMax, can.in_flight_max);
    engine.fetch_depth =
        std::min(can.is_local ? kLocalDepthStart : kFarDepthStart, engine.fetch_depth_max);
  }
}

// Bytes read per byte of samples: units of many samples are read again when the order comes back to
// them after they were dropped.
double amplification(const DataSet& data, const MemoryPlan& memory, uint64_t unit_bytes) {
  const uint64_t unit_samples = data.catalog->unit_samples_max();
  if (unit_samples <= 1 || data.window_samples <= unit_samples || unit_bytes == 0) return 1;
  const double window_units =
      static_cast<double>(data.window_samples) / static_cast<double>(unit_samples);
  const double kept_units =
      static_cast<double>(memory.shard_cache_bytes) / static_cast<double>(unit_bytes);
  if (kept_units >= window_units) return 1;
  const double lost_share = 1 - kept_units / window_units;
  return 1 + static_cast<double>(unit_samples - 1) * lost_share;
}

std::string text_of(double bytes) {
  return base::format_bytes(bytes);
}

std::string describe_fields(const Schema& schema) {
  std::string text;
  for (const FieldSpec& spec : schema.fields()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", spec.name,
                        describe_field(spec.kind, spec.type, spec.shape));
    if (spec.kind == ops::FieldKind::kArray && !spec.is_stacked) text += " (each by itself)";
  }
  return text;
}

// `max` is 0 for what is given.
std::string range(int given, int max) {
  return max > 1 ? fmt::format("1 to {}, tuned", max) : fmt::format("{}", given);
}

// Too little memory is a wrong argument where it is one.
template <class T>
Result<T> blame_memory(const LoaderOptions& options, Result<T> result) {
  if (result.ok() || result.error().code != ErrorCode::kResourceExhausted ||
      options.memory_bytes == 0)
    return result;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("memory_bytes={}: {}", options.memory_bytes, result.error().message)};
}

}  // namespace

Result<EnginePlan> plan_loader(const LoaderOptions& options, const DataSet& data,
                               const std::shared_ptr<const ops::Pipeline>& pipeline,
                               const ops::Allowance& memory, std::optional<uint64_t>& bad_sample) {
  FB_TRY(check(options));
  EnginePlan plan{.engine = engine_options(options), .memory = {}};
  EngineOptions& engine = plan.engine;
  const uint64_t memory_bytes =
      options.memory_bytes > 0 ? options.memory_bytes : sys::host().memory_limit_bytes / 4;
  engine.record_bytes_max = std::max<uint64_t>(kMiB, memory_bytes / 2);
  ProbeOptions probing;
  probing.make_runner = [pipeline] { return pipeline->make_runner(); };
  probing.is_ragged = [pipeline](std::string_view field) { return pipeline->is_ragged(field); };
  probing.seed = options.seed;
  probing.read_bytes_max = engine.record_bytes_max;
  probing.compares_more = options.on_error != forebay::OnError::kRaise;
  probing.memory = &memory;
  auto probed = probe_first_sample(*data.store, *data.catalog, probing, bad_sample);
  Probe probe = FB_TRY(blame_memory(options, std::move(probed)));
  plan_threads(options, data.store->capabilities(), engine);
  const MemoryNeeds needs{
      .memory_bytes = memory_bytes,
      .batch_size = options.batch_size,
      .prefetch_batches = engine.prefetch_batches,
      .stacked_bytes = probe.schema.stacked_bytes(),
      .separate_bytes = probe.schema.separate_bytes(),
      .read_bytes_max = std::min(largest_read(*data.catalog), engine.record_bytes_max),
      .unit_bytes = largest_unit(probe, *data.catalog),
      .read_ahead_bytes = options.read_ahead_bytes,
      .shard_cache_bytes = engine.shard_cache_bytes,
      .decode_threads = std::max(engine.decode_threads, engine.decode_threads_max),
      .fetch_depth = engine.fetch_depth_max,
      .has_images = probe.has_images};
  plan.memory = FB_TRY(blame_memory(options, plan_memory(needs)));
  engine.window_bytes = plan.memory.window_bytes;
  engine.shard_cache_bytes = plan.memory.shard_cache_bytes;
  engine.extra_batches = options.fetch_depth == 0 ? plan.memory.extra_batches : 0;
  engine.buffer_bytes_max = plan.memory.buffer_bytes;
  engine.value_bytes_max = plan.memory.value_bytes;
  engine.decode_threads = std::min(engine.decode_threads, plan.memory.decode_threads);
  engine.decode_threads_max = std::min(engine.decode_threads_max, plan.memory.decode_threads);
  auto fields = std::make_shared<FieldSetup>();
  fields->make_runner = probing.make_runner;
  fields->schema = std::move(probe.schema);
  fields->seed = options.seed;
  fields->unit_bytes = probe.unit_bytes;
  if (options.ops.empty()) fields->unchanged_from = probe.file;
  engine.fields = std::move(fields);
  return plan;
}

LoaderPlan explain_plan(const LoaderOptions& options, const DataSet& data, const EnginePlan& plan) {
  const dataset::Catalog& catalog = *data.catalog;
  LoaderPlan out;
  out.files = catalog.file_count();
  out.samples = data.stream->sample_count();
  out.read_amplification = amplification(data, plan.memory, plan.engine.fields->unit_bytes);
  const double share =
      static_cast<double>(out.samples) / static_cast<double>(catalog.sample_count());
  out.file_bytes_per_epoch =
      static_cast<uint64_t>(static_cast<double>(catalog.bytes()) * share * out.read_amplification);
  out.entropy = data.stream->entropy();
  out.memory_bytes_bound = plan.memory.bound();
  out.threads = std::max(plan.engine.decode_threads, plan.engine.decode_threads_max);
  out.fetch_depth_max = std::max(plan.engine.fetch_depth, plan.engine.fetch_depth_max);
  out.index_cache_problem = data.index_cache_problem;
  out.text = fmt::format(
      "data      {} files, {} samples, {} in {}\n"
      "order     {}; entropy {:.1f} % of any order\n"
      "reading   {} per epoch, {:.3g} times the data; {} reads in flight\n"
      "fields    {}\n"
      "batches   of {}, rank {} of {}, {} ready ahead{}\n"
      "decoding  {} threads\n"
      "memory    at most {}: {} read ahead, {} for decoded blocks, {} for decode threads\n",
      out.files, catalog.sample_count(), text_of(static_cast<double>(catalog.bytes())),
      data.store->describe(), data.order, 100 * out.entropy,
      text_of(static_cast<double>(out.file_bytes_per_epoch)), out.read_amplification,
      range(plan.engine.fetch_depth, plan.engine.fetch_depth_max),
      describe_fields(plan.engine.fields->schema), options.batch_size, options.rank,
      options.world_size, plan.engine.prefetch_batches,
      plan.engine.extra_batches > 0
          ? fmt::format(", up to {} more under way", plan.engine.extra_batches)
          : "",
      range(plan.engine.decode_threads, plan.engine.decode_threads_max),
      text_of(static_cast<double>(out.memory_bytes_bound)),
      text_of(static_cast<double>(plan.memory.window_bytes)),
      text_of(static_cast<double>(plan.memory.shard_cache_bytes)),
      text_of(static_cast<double>(plan.memory.scratch_bytes)));
  for (const std::string& note : data.notes) out.text += fmt::format("note      {}\n", note);
  return out;
}

}  // namespace forebay::loader

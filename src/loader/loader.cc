// The public face of the engine: owns store, index and order, and speaks only standard types.
#include "forebay/loader.h"

#include <algorithm>

#include "base/error.h"
#include "dataset/index.h"
#include "dataset/order.h"
#include "loader/engine.h"
#include "storage/store.h"

namespace forebay {
namespace {

dataset::OrderOptions order_options(const LoaderOptions& options, const dataset::Index& index) {
  dataset::OrderOptions order;
  order.sample_count = index.sample_count();
  order.seed = options.seed;
  order.change_each_epoch = options.change_each_epoch;
  order.shard_samples = std::max<uint64_t>(
      1, index.has_even_blocks() ? index.unit_samples_max() : index.samples_per_file_max());
  order.window_shards = options.window_shards;
  order.kind = options.shuffle == Shuffle::kOff        ? dataset::OrderKind::kSequential
               : options.shuffle == Shuffle::kWindowed ? dataset::OrderKind::kWindowed
                                                       : dataset::OrderKind::kFull;
  return order;
}

loader::EngineOptions engine_options(const LoaderOptions& options) {
  loader::EngineOptions engine;
  engine.batch_size = options.batch_size;
  engine.prefetch_batches = std::max<uint64_t>(1, options.prefetch_batches);
  engine.fetch_depth = options.fetch_depth;
  engine.decode_threads = options.decode_threads;
  engine.rank = options.rank;
  engine.world_size = options.world_size;
  engine.tail = options.tail == Tail::kDrop   ? loader::Tail::kDrop
                : options.tail == Tail::kEven ? loader::Tail::kEven
                                              : loader::Tail::kAll;
  engine.keep_samples = true;
  engine.as_ready = options.as_ready;
  engine.on_error = options.on_error == OnError::kRaise  ? loader::OnError::kRaise
                    : options.on_error == OnError::kSkip ? loader::OnError::kSkip
                                                         : loader::OnError::kReplace;
  engine.errors_max = options.errors_max;
  engine.window_bytes = options.read_ahead_bytes;
  engine.format = {options.samples_per_file, options.record_bytes};
  engine.decode.convert_to_rgb = options.convert_to_rgb;
  engine.decode.apply_orientation = options.apply_orientation;
  return engine;
}

}  // namespace

struct Batch::Impl {
  uint64_t epoch;
  uint64_t step;
  loader::Batch batch;
  std::vector<Sample> samples;
};

Batch::Batch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

uint64_t Batch::epoch() const {
  return impl_->epoch;
}
uint64_t Batch::step() const {
  return impl_->step;
}
std::span<const Sample> Batch::samples() const {
  return impl_->samples;
}
uint64_t Batch::skipped() const {
  return impl_->batch.skipped();
}

class Loader::Impl {
 public:
  static Result<std::unique_ptr<Impl>> open(const LoaderOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->store_ = FB_TRY(storage::open_store(options.storage, options.data));
    dataset::IndexOptions index;
    if (!options.format.empty()) {
      index.format = formats::find_format(options.format);
      if (index.format == nullptr)
        return fail(ErrorCode::kInvalidArgument, "no format named '{}'", options.format);
    }
    index.samples_per_file = options.samples_per_file;
    index.record_bytes = options.record_bytes;
    index.cache_path = options.index_cache;
    impl->index_ = FB_TRY(dataset::Index::open(*impl->store_, index));
    const dataset::Order order =
        FB_TRY(dataset::Order::make(order_options(options, *impl->index_)));
    impl->order_ = std::make_unique<dataset::Order>(order);
    impl->engine_ = FB_TRY(loader::Engine::open(*impl->store_, *impl->index_, *impl->order_,
                                                engine_options(options), nullptr));
    impl->rank_ = options.rank;
    impl->as_ready_ = options.as_ready;
    return impl;
  }

  Result<std::optional<Batch>> next(std::stop_token stop) {
    if (!is_running_) {
      engine_->begin_epoch(epoch_, first_position_, UINT64_MAX);
      is_running_ = true;
    }
    std::optional<loader::Batch> loaded = FB_TRY(engine_->next(std::move(stop)));
    std::optional<Batch> batch;
    if (!loaded) {
      ++epoch_;
      step_ = first_position_ = 0;
      is_running_ = false;
      return batch;
    }
    ++step_;
    const uint64_t steps_before = first_position_ / engine_->stripe().step_samples();
    batch = Batch(std::make_unique<Batch::Impl>(
        Batch::Impl{epoch_, steps_before + loaded->step(), std::move(*loaded), {}}));
    for (const loader::LoadedSample& sample : batch->impl_->batch.samples())
      batch->impl_->samples.push_back({sample.sample, index_->path(sample.file),
                                       formats::element_name(sample.data.type), sample.data.shape,
                                       sample.data.bytes, sample.is_replaced});
    return batch;
  }

  Result<LoaderState> state() const {
    if (as_ready_ && step_ > 0)
      return fail(ErrorCode::kUnsupported,
                  "with as_ready a loader can be saved at the end of an epoch only");
    const loader::Stripe& stripe = engine_->stripe();
    const uint64_t given = std::min(step_ * stripe.step_samples(), stripe.sample_count);
    return LoaderState{order_->options().seed, epoch_, first_position_ + given,
                       index_->fingerprint()};
  }

  Status restore(const LoaderState& state) {
    if (state.fingerprint != index_->fingerprint())
      return fail(
          ErrorCode::kInvalidArgument,
          "the state belongs to another data set (fingerprint {:016x}, this one has {:016x})",
          state.fingerprint, index_->fingerprint());
    if (state.position > index_->sample_count())
      return fail(ErrorCode::kInvalidArgument, "position {} of {} samples", state.position,
                  index_->sample_count());
    if (state.seed != order_->options().seed)
      return fail(ErrorCode::kInvalidArgument, "the state has seed {}, this loader {}", state.seed,
                  order_->options().seed);
    epoch_ = state.epoch;
    first_position_ = state.position;
    step_ = 0;
    is_running_ = false;
    return {};
  }

  LoaderStats stats() const {
    const loader::EngineStats from = engine_->stats();
    LoaderStats to;
    to.reads = from.reads;
    to.file_bytes = from.file_bytes;
    to.payload_bytes = from.payload_bytes;
    to.samples = from.samples;
    to.batches = from.batches;
    to.bad_records = from.bad_count;
    to.fetch_busy_seconds = static_cast<double>(from.fetch_busy_ns) * 1e-9;
    to.decode_busy_seconds = static_cast<double>(from.decode_busy_ns) * 1e-9;
    to.decode_idle_seconds = static_cast<double>(from.decode_idle_ns) * 1e-9;
    to.consumer_wait_seconds = static_cast<double>(from.consumer_wait_ns) * 1e-9;
    to.buffer_bytes_max = from.buffer_bytes_max;
    for (const loader::BadRecord& bad : from.bad_records) to.bad.push_back(bad.cause);
    return to;
  }

  uint64_t sample_count() const { return index_->sample_count(); }
  uint64_t batches_per_epoch() const { return engine_->stripe().steps(rank_); }
  double order_entropy() const { return order_->entropy(); }

 private:
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<dataset::Index> index_;
  std::unique_ptr<dataset::Order> order_;
  std::unique_ptr<loader::Engine> engine_;  // last: it reads through the others until it is gone
  uint64_t rank_ = 0, epoch_ = 0;
  uint64_t first_position_ = 0, step_ = 0;  // steps given since first_position_
  bool as_ready_ = false;
  bool is_running_ = false;
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::~Loader() = default;

Result<std::unique_ptr<Loader>> Loader::open(const LoaderOptions& options) {
  std::unique_ptr<Impl> impl = FB_TRY(Impl::open(options));
  return std::unique_ptr<Loader>(new Loader(std::move(impl)));
}

uint64_t Loader::sample_count() const {
  return impl_->sample_count();
}
uint64_t Loader::batches_per_epoch() const {
  return impl_->batches_per_epoch();
}
double Loader::order_entropy() const {
  return impl_->order_entropy();
}
Result<std::optional<Batch>> Loader::next(std::stop_token stop) {
  return impl_->next(std::move(stop));
}
Result<LoaderState> Loader::state() const {
  return impl_->state();
}
Status Loader::restore(const LoaderState& state) {
  return impl_->restore(state);
}
LoaderStats Loader::stats() const {
  return impl_->stats();
}

}  // namespace forebay

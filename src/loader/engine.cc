#include "loader/engine.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "loader/decode_pool.h"
#include "loader/flow.h"
#include "loader/issuer.h"
#include "loader/unit.h"
#include "sys/host.h"
#include "trace/recorder.h"

namespace forebay::loader {
namespace {

Status check_options(const EngineOptions& options, const dataset::SampleStream& stream) {
  const auto refuse = [](const char* what) {
    return fail(ErrorCode::kInvalidArgument, "{}", what);
  };
  if (stream.sample_count() == 0) return refuse("the data set has no samples");
  if (options.batch_size == 0) return refuse("batch size 0");
  if (options.batch_size > UINT32_MAX) return refuse("batch size over 4 294 967 295");
  if (options.world_size == 0) return refuse("world size 0");
  if (options.rank >= options.world_size) return refuse("rank is not below the world size");
  if (options.fetch_depth < 1) return refuse("fetch depth below 1");
  if (options.decode_threads < 1) return refuse("decode threads below 1");
  return {};
}

// A shuffled order comes back to the same few blocks: losing one means reading it again.
uint64_t block_memory_max(const EngineOptions& options, bool is_mixed) {
  return is_mixed ? std::max(options.window_bytes, options.shard_cache_bytes)
                  : options.window_bytes;
}

// What batches hold comes back as it was; small buffers should not crowd it out.
uint64_t idle_bytes_max(const EngineOptions& options) {
  if (!options.fields) return options.window_bytes;
  const uint64_t batches = options.prefetch_batches + 1;
  const uint64_t stacked =
      batches * options.batch_size * options.fields->schema.stacked_bytes() * 5 / 4;
  const uint64_t separate = options.value_bytes_max == UINT64_MAX ? 0 : options.value_bytes_max;
  return options.window_bytes + stacked + separate;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(std::shared_ptr<const dataset::Catalog> catalog, const dataset::SampleStream& stream,
       EngineOptions options, std::unique_ptr<storage::ReadQueue> queue, trace::Recorder* recorder)
      : catalog_(std::move(catalog)),
        stream_(stream),
        options_(std::move(options)),
        stripe_{stream.sample_count(), 0, options_.batch_size, options_.world_size, options_.tail},
        buffers_(idle_bytes_max(options_), options_.buffer_bytes_max),
        units_(options_.shard_cache_bytes, block_memory_max(options_, stream.is_mixed())),
        flow_(options_, buffers_, value_bytes_),
        issuer_(*catalog_, stream_, options_, flow_, units_, buffers_, value_bytes_,
                std::move(queue), recorder),
        pool_(*catalog_, options_, flow_, units_, buffers_, recorder,
              [this](std::unique_ptr<Fetch> fetch) { issuer_.release(std::move(fetch)); }) {}

  Status start() {
    FB_TRY(pool_.start());
    return issuer_.start(pool_);
  }

  // Source first, then the stages after it.
  ~Impl() {
    flow_.request_stop();
    issuer_.stop_thread();
  }

  void begin_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps) {
    const EpochRequest request = make_request(epoch, first_position, steps);
    stripe_ = request.stripe;
    flow_.begin(request);
    issuer_.wake();
  }

  void announce_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps) {
    flow_.announce(make_request(epoch, first_position, steps));
    issuer_.wake();
  }

  Result<BatchState*> next(std::stop_token stop) {
    const int64_t start = base::monotonic_clock().now_ns();
    Result<BatchState*> batch =
        flow_.wait_ready(options_.as_ready, options_.stall_limit_ns, path_namer(), stop);
    flow_.add_consumer_wait(batch.ok() ? *batch : nullptr, start, base::monotonic_clock().now_ns());
    return batch;
  }

  void recycle(BatchState* batch) {
    flow_.recycle(batch);
    issuer_.wake();
  }

  EngineStats stats() const {
    EngineStats stats;
    flow_.copy_stats(stats);
    stats.decode_busy_ns = pool_.busy_ns();
    stats.decode_idle_ns = pool_.idle_ns();
    issuer_.copy_stats(stats);
    stats.buffer_bytes_max = buffers_.bytes_in_use_max();
    stats.buffer_bytes_held_max = buffers_.bytes_held_max();
    return stats;
  }

  bool has_failed() const { return flow_.first_error().has_value(); }
  const Stripe& stripe() const { return stripe_; }
  trace::Histogram take_read_times() { return issuer_.take_read_times(); }

 private:
  EpochRequest make_request(uint64_t epoch, uint64_t first_position, uint64_t steps) const {
    Stripe stripe = stripe_;
    stripe.first_position = std::min(first_position, stream_.sample_count());
    stripe.sample_count = stream_.sample_count() - stripe.first_position;
    return {epoch, 0, std::min(steps, stripe.steps(options_.rank)), stripe};
  }

  std::function<std::string(uint64_t)> path_namer() const {
    return [this](uint64_t sample) {
      return std::string(catalog_->path(catalog_->locate(sample).file));
    };
  }

  const std::shared_ptr<const dataset::Catalog> catalog_;
  const dataset::SampleStream& stream_;
  const EngineOptions options_;
  Stripe stripe_;  // of the present epoch
  BufferPool buffers_;
  std::atomic<uint64_t> value_bytes_{0};
  UnitCache units_;
  Flow flow_;
  Issuer issuer_;  // destroyed after pool_: fetches come back to it until the last thread ends
  DecodePool pool_;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(storage::Store& store, const dataset::Index& index,
                                             const dataset::SampleStream& stream,
                                             EngineOptions options, trace::Recorder* recorder) {
  auto catalog =
      std::make_shared<const dataset::Catalog>(dataset::Catalog::of(index, options.format));
  return open(store, std::move(catalog), stream, std::move(options), recorder);
}

Result<std::unique_ptr<Engine>> Engine::open(storage::Store& store,
                                             std::shared_ptr<const dataset::Catalog> catalog,
                                             const dataset::SampleStream& stream,
                                             EngineOptions options, trace::Recorder* recorder) {
  FB_TRY(check_options(options, stream));
  if (options.record_bytes_max == 0) options.record_bytes_max = sys::host().memory_limit_bytes / 2;
  std::unique_ptr<storage::ReadQueue> queue = FB_TRY(
      store.open_queue({options.fetch_depth, options.fetch_depth_max, options.name + "-read"}));
  auto impl = std::make_unique<Impl>(std::move(catalog), stream, std::move(options),
                                     std::move(queue), recorder);
  FB_TRY(impl->start());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const Stripe& Engine::stripe() const {
  return impl_->stripe();
}

void Engine::announce_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps) {
  impl_->announce_epoch(epoch, first_position, steps);
}
void Engine::begin_epoch(uint64_t epoch, uint64_t first_position, uint64_t steps) {
  impl_->begin_epoch(epoch, first_position, steps);
}

Result<std::optional<Batch>> Engine::next(std::stop_token stop) {
  BatchState* state = FB_TRY(impl_->next(std::move(stop)));
  std::optional<Batch> batch;
  if (state != nullptr) batch = Batch(impl_.get(), state);
  return batch;
}

bool Engine::has_failed() const {
  return impl_->has_failed();
}

EngineStats Engine::stats() const {
  return impl_->stats();
}
trace::Histogram Engine::take_read_times() {
  return impl_->take_read_times();
}

Batch::Batch(Batch&& other) noexcept
    : engine_(other.engine_), state_(std::exchange(other.state_, nullptr)) {}

Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(state_, other.state_);
  return *this;
}

Batch::~Batch() {
  if (state_ != nullptr) static_cast<Engine::Impl*>(engine_)->recycle(state_);
}

uint64_t Batch::step() const {
  return state_->step;
}
std::span<const LoadedSample> Batch::samples() const {
  return state_->good;
}
uint64_t Batch::skipped() const {
  return state_->skipped;
}
uint64_t Batch::payload_bytes() const {
  return state_->payload_bytes;
}
uint64_t Batch::file_bytes() const {
  return state_->file_bytes;
}
int64_t Batch::ready_ns() const {
  return state_->ready_ns;
}
const FieldRows* Batch::fields() const {
  return state_->rows.get();
}

}  // namespace forebay::loader

// The public face of the engine: owns store, catalog and stream, and speaks only standard types.
#include "forebay/loader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/waiting.h"
#include "loader/batch_fields.h"
#include "loader/data_set.h"
#include "loader/engine.h"
#include "loader/loader_plan.h"
#include "ops/allowance.h"
#include "ops/pipeline.h"
#include "sys/host.h"

namespace forebay {

struct Batch::Impl {
  uint64_t epoch;
  uint64_t step;
  uint64_t valid;
  loader::Batch batch;
  loader::BatchFields fields;
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
  return impl_->fields.samples();
}
std::span<const BatchField> Batch::fields() const {
  return impl_->fields.fields();
}
const BatchField* Batch::find(std::string_view field) const {
  const std::span<const BatchField> all = fields();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const BatchField& f) { return f.name == field; });
  return found == all.end() ? nullptr : &*found;
}
uint64_t Batch::valid() const {
  return impl_->valid;
}
uint64_t Batch::skipped() const {
  return impl_->batch.skipped();
}

namespace {

RecordPlace place_of(const dataset::Catalog& catalog, uint64_t sample) {
  const dataset::SampleLocation where = catalog.locate(sample);
  RecordPlace place{
      .file = std::string(catalog.path(where.file)), .record = where.sample_in_file, .offset = {}};
  if (where.access == formats::Access::kExtents) place.offset = where.extent.offset;
  return place;
}

}  // namespace

class Loader::Impl {
 public:
  static Result<std::unique_ptr<Impl>> open(const LoaderOptions& options,
                                            const std::stop_token& stop,
                                            std::optional<RecordPlace>& failed) {
    auto impl = std::make_unique<Impl>();
    impl->options_ = options;
    ops::DecodeOptions decode;
    decode.convert_to_rgb = options.convert_to_rgb;
    decode.apply_orientation = options.apply_orientation;
    // All of it for the first sample, which comes into being alone.
    decode.memory = std::make_shared<ops::Allowance>(
        options.memory_bytes > 0 ? options.memory_bytes : sys::host().memory_limit_bytes / 4);
    auto pipeline =
        std::make_shared<const ops::Pipeline>(FB_TRY(ops::Pipeline::make(options.ops, decode)));
    impl->ops_fingerprint_ = pipeline->fingerprint();
    impl->data_ = FB_TRY(loader::open_data_set(options, stop, failed));
    std::optional<uint64_t> bad_sample;
    auto plan = loader::plan_loader(options, impl->data_, pipeline, *decode.memory, bad_sample);
    if (bad_sample) failed = place_of(*impl->data_.catalog, *bad_sample);
    impl->plan_ = FB_TRY(std::move(plan));
    decode.memory->set(impl->plan_.memory.thread_bytes, impl->plan_.memory.turn_bytes);
    impl->engine_ = FB_TRY(loader::Engine::open(*impl->data_.store, impl->data_.catalog,
                                                *impl->data_.stream, impl->plan_.engine, nullptr));
    if (options.tail != Tail::kAll && impl->batches_per_epoch() == 0)
      return fail(ErrorCode::kInvalidArgument,
                  "{} samples make no batch: {} ranks with batches of {} need {} at least; choose "
                  "smaller batches or another tail (pad, all){}{}",
                  impl->sample_count(), options.world_size, options.batch_size,
                  options.tail == Tail::kEven ? options.world_size
                                              : options.world_size * options.batch_size,
                  impl->data_.tokens_note.empty() ? "" : "; ", impl->data_.tokens_note);
    return impl;
  }

  Result<std::optional<Batch>> next(const std::stop_token& stop) {
    if (ended_by_)
      return fail(ended_by_->code, "this loader was ended by an earlier error: {}",
                  ended_by_->message);
    const Place here = place();
    Result<std::optional<Batch>> taken = take(stop);
    before_ = taken.ok() ? std::optional(here) : std::nullopt;
    if (!taken.ok() && engine_->has_failed()) ended_by_ = taken.error();
    return taken;
  }

  bool has_failed() const { return ended_by_.has_value(); }

  bool take_back() {
    if (!before_ || options_.as_ready) return false;
    go_to(*before_);
    return true;
  }

  Result<LoaderState> state() const {
    if (options_.as_ready && step_ > 0)
      return fail(ErrorCode::kUnsupported,
                  "with as_ready a loader can be saved at the end of an epoch only");
    const Place here = place();
    LoaderState state = fresh_state();
    state.epoch = here.epoch;
    state.position = here.position;
    return state;
  }

  Status restore(const LoaderState& state) {
    FB_TRY(check_state(state));
    go_to({state.epoch, state.position});
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
    to.bad_records = data_.bad_file_count + from.bad_count;
    to.fetch_busy_seconds = static_cast<double>(from.fetch_busy_ns) * 1e-9;
    to.decode_busy_seconds = static_cast<double>(from.decode_busy_ns) * 1e-9;
    to.decode_idle_seconds = static_cast<double>(from.decode_idle_ns) * 1e-9;
    to.consumer_wait_seconds = static_cast<double>(from.consumer_wait_ns) * 1e-9;
    to.wait_fetch_seconds = static_cast<double>(from.wait_fetch_ns) * 1e-9;
    to.wait_decode_seconds = static_cast<double>(from.wait_decode_ns) * 1e-9;
    to.fetch_depth = from.fetch_depth;
    to.decode_threads = from.decode_threads;
    to.memory_bytes_bound = plan_.memory.bound();
    to.buffer_bytes_max = from.buffer_bytes_held_max;
    to.bad = data_.bad_files;
    for (const loader::BadRecord& bad : from.bad_records) to.bad.push_back(bad.cause);
    return to;
  }

  LoaderPlan explain() const {
    LoaderPlan plan = loader::explain_plan(options_, data_, plan_);
    plan.batches = batches_per_epoch();
    return plan;
  }

  const std::optional<RecordPlace>& failed_record() const { return failed_record_; }

  uint64_t sample_count() const { return data_.stream->sample_count(); }
  uint64_t batches_per_epoch() const {
    const loader::Stripe& stripe = engine_->stripe();
    return loader::Stripe{sample_count(), 0, stripe.batch_size, stripe.world_size, stripe.tail}
        .steps(options_.rank);
  }
  double order_entropy() const { return data_.stream->entropy(); }
  std::vector<std::string> class_names() const {
    const dataset::ClassLabels* labels = data_.catalog->labels();
    return labels == nullptr ? std::vector<std::string>() : labels->names();
  }

 private:
  // Where the next batch comes from.
  struct Place {
    uint64_t epoch = 0, position = 0;
  };
  Place place() const {
    const loader::Stripe& stripe = engine_->stripe();
    const uint64_t given = std::min(step_ * stripe.step_samples(), stripe.sample_count);
    return {epoch_, first_position_ + given};
  }
  void go_to(const Place& there) {
    epoch_ = there.epoch;
    first_position_ = there.position;
    step_ = 0;
    is_running_ = false;
    before_.reset();
  }

  Result<std::optional<Batch>> take(const std::stop_token& stop) {
    const base::Waiting waiting;
    if (!is_running_) {
      engine_->begin_epoch(epoch_, first_position_, UINT64_MAX);
      engine_->announce_epoch(epoch_ + 1, 0, UINT64_MAX);
      is_running_ = true;
    }
    for (;;) {
      auto taken = engine_->next(stop);
      failed_record_ = taken.ok() ? std::nullopt : find_record(taken.error());
      std::optional<loader::Batch> loaded = FB_TRY(std::move(taken));
      if (!loaded) {
        ++epoch_;
        step_ = first_position_ = 0;
        is_running_ = false;
        return std::optional<Batch>();
      }
      ++step_;
      if (loaded->samples().empty() && options_.tail != Tail::kPad) {
        const Status passed = pass_over(*loaded);
        if (passed.ok()) continue;
        failed_record_ = find_record(passed.error());
        ended_by_ = passed.error();
        return passed.error();
      }
      return std::optional<Batch>(make_batch(std::move(*loaded)));
    }
  }

  Batch make_batch(loader::Batch loaded) const {
    const uint64_t steps_before = first_position_ / engine_->stripe().step_samples();
    const uint64_t step = steps_before + loaded.step();
    loader::BatchFields fields(loaded, *data_.catalog);
    const uint64_t valid = loaded.samples().size();
    return Batch(std::make_unique<Batch::Impl>(
        Batch::Impl{epoch_, step, valid, std::move(loaded), std::move(fields)}));
  }

  // The bad record whose cause `error` tells, alone or as the last of too many.
  std::optional<RecordPlace> find_record(const Error& error) const {
    const std::optional<loader::BadRecord> blamed = engine_->stats().blamed;
    if (!blamed || !error.message.ends_with(blamed->cause)) return std::nullopt;
    return place_of(*data_.catalog, blamed->sample);
  }

  // Every record of a batch is bad. Whether it may be missing depends on who counts batches.
  Status pass_over(const loader::Batch& batch) const {
    if (options_.world_size == 1 || options_.tail == Tail::kAll) return {};
    const std::optional<loader::BadRecord> last = engine_->stats().blamed;
    return fail(ErrorCode::kCorruption,
                "epoch {}, step {}: not one of the batch's {} records is good, and the other ranks "
                "count on a batch; the last: {}",
                epoch_, batch.step(), batch.skipped(), last ? std::string_view(last->cause) : "");
  }

  Status check_state(const LoaderState& state) const {
    const LoaderState mine = fresh_state();
    const auto differs = [](const char* what, uint64_t theirs, uint64_t own) {
      return theirs == own ? std::string() : fmt::format(" {} {}, now {};", what, theirs, own);
    };
    if (state.fingerprint != mine.fingerprint) {
      std::string what = differs("files", state.files, mine.files) +
                         differs("samples", state.samples, mine.samples) +
                         differs("bytes", state.bytes, mine.bytes);
      if (what.empty()) what = " names or times of files;";
      what.pop_back();
      return fail(ErrorCode::kInvalidArgument,
                  "the state belongs to another data set, or this one has changed:{}", what);
    }
    if (state.seed != mine.seed)
      return fail(ErrorCode::kInvalidArgument, "the state has seed {}, this loader {}", state.seed,
                  mine.seed);
    if (state.order != mine.order)
      return fail(
          ErrorCode::kInvalidArgument,
          "the state belongs to another order: shuffle, window_shards, change_each_epoch or "
          "the sources differ (this loader: {})",
          data_.order);
    if (state.ops != mine.ops)
      return fail(ErrorCode::kInvalidArgument,
                  "the state belongs to other ops: they, or their arguments, differ");
    if (state.position > sample_count())
      return fail(ErrorCode::kInvalidArgument,
                  "the state's position {} lies beyond the end of an epoch, which has {} samples",
                  state.position, sample_count());
    return {};
  }

  // At the beginning of the first epoch.
  LoaderState fresh_state() const {
    const dataset::Catalog& catalog = *data_.catalog;
    return LoaderState{.seed = options_.seed,
                       .fingerprint = catalog.fingerprint(),
                       .files = catalog.file_count(),
                       .samples = catalog.sample_count(),
                       .bytes = catalog.bytes(),
                       .ops = ops_fingerprint_,
                       .order = data_.stream->fingerprint()};
  }

  LoaderOptions options_;
  uint64_t ops_fingerprint_ = 0;
  loader::DataSet data_;
  loader::EnginePlan plan_;
  std::unique_ptr<loader::Engine> engine_;  // last: it reads through the others until it is gone
  uint64_t epoch_ = 0;
  uint64_t first_position_ = 0, step_ = 0;  // steps given since first_position_
  bool is_running_ = false;
  std::optional<RecordPlace> failed_record_;
  std::optional<Place> before_;  // the batch that was given last
  std::optional<Error> ended_by_;
};

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::~Loader() = default;

Result<std::unique_ptr<Loader>> Loader::open(const LoaderOptions& options, std::stop_token stop,
                                             std::optional<RecordPlace>* failed_record) {
  std::optional<RecordPlace> failed;
  Result<std::unique_ptr<Impl>> opened = Impl::open(options, stop, failed);
  // What was left half-way may look like anything: a file that cannot be read, a data set without
  // samples.
  if (stop.stop_requested())
    return fail(ErrorCode::kCancelled, "stopped while the data set was opened");
  if (failed_record != nullptr) *failed_record = std::move(failed);
  std::unique_ptr<Impl> impl = FB_TRY(std::move(opened));
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
  return impl_->next(stop);
}
bool Loader::has_failed() const {
  return impl_->has_failed();
}
bool Loader::take_back() {
  return impl_->take_back();
}
std::optional<RecordPlace> Loader::failed_record() const {
  return impl_->failed_record();
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
LoaderPlan Loader::explain() const {
  return impl_->explain();
}
std::vector<std::string> Loader::class_names() const {
  return impl_->class_names();
}

}  // namespace forebay

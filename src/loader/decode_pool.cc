#include "loader/decode_pool.h"

#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "sys/thread.h"
#include "trace/recorder.h"

namespace forebay::loader {

struct DecodePool::Worker {
  std::unique_ptr<formats::Reader> reader;
  std::unique_ptr<ops::Decoder> decoder;
  int track = 0;
  int span_name = 0;
};

DecodePool::DecodePool(const dataset::Index& index, const EngineOptions& options, Flow& flow,
                       BufferPool& buffers, trace::Recorder* recorder,
                       std::function<void(std::unique_ptr<Fetch>)> done)
    : index_(index),
      options_(options),
      flow_(flow),
      buffers_(buffers),
      recorder_(recorder),
      done_(std::move(done)) {}

Status DecodePool::start() {
  for (int i = 0; i < options_.decode_threads; ++i) {
    threads_.push_back(
        FB_TRY(sys::start_thread(fmt::format("{}-dec{}", options_.name, i),
                                 [this, i](std::stop_token stop) { run(i, stop); })));
  }
  return {};
}

DecodePool::~DecodePool() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void DecodePool::push(std::unique_ptr<Fetch> fetch) {
  {
    base::MutexLock lock(mutex_);
    queue_.push_back(std::move(fetch));
  }
  not_empty_.notify_one();
}

std::unique_ptr<Fetch> DecodePool::pop(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  not_empty_.wait(mutex_, stop, [&]() FB_REQUIRES(mutex_) { return !queue_.empty(); });
  if (stop.stop_requested() || queue_.empty()) return nullptr;  // what is queued is abandoned
  std::unique_ptr<Fetch> fetch = std::move(queue_.front());
  queue_.pop_front();
  return fetch;
}

void DecodePool::run(int number, std::stop_token stop) {
  Worker worker;
  worker.reader = index_.format().make_reader(options_.format);
  worker.decoder = ops::make_decoder(options_.decode);
  if (recorder_ != nullptr) {
    worker.track = recorder_->track(fmt::format("{}/decode {}", options_.name, number));
    worker.span_name = recorder_->name("decode");
  }
  int64_t at = base::monotonic_clock().now_ns();
  while (std::unique_ptr<Fetch> fetch = pop(stop)) {
    const int64_t start = base::monotonic_clock().now_ns();
    idle_ns_.fetch_add(start - at, std::memory_order_relaxed);
    decode(worker, *fetch, stop);
    at = base::monotonic_clock().now_ns();
    busy_ns_.fetch_add(at - start, std::memory_order_relaxed);
    if (recorder_ != nullptr)
      recorder_->span(worker.track, worker.span_name, start, at,
                      static_cast<int64_t>(fetch->extent.length));
    done_(std::move(fetch));
  }
}

void DecodePool::decode(Worker& worker, Fetch& fetch, std::stop_token stop) {
  const bool needs_decoding = fetch.buffer != nullptr && options_.payload == Payload::kDecode;
  for (const Target& target : fetch.targets) {
    SlotState& slot = target.batch->slots[target.slot];
    if (needs_decoding) {
      Result<LoadedSample> loaded = decode_target(worker, fetch, target);
      if (loaded.ok()) {
        slot.sample = std::move(loaded).take();
        slot.sample.sample = slot.wanted;
        slot.sample.file = fetch.file;
        slot.is_good = true;
      } else {
        flow_.record_bad(slot.wanted, index_.path(fetch.file), loaded.error());
      }
    } else {
      fill_undecoded(fetch, target);  // here for its preprocess time only
    }
    if (options_.preprocess_ns && slot.is_good) {
      const int64_t ns = options_.preprocess_ns(target.batch->epoch, slot.wanted);
      base::Clock& clock = base::monotonic_clock();
      if (ns > 0) clock.sleep_until_ns(clock.now_ns() + ns, stop);
    }
    flow_.finish(target.batch, target.slot, base::monotonic_clock().now_ns());
  }
}

Result<LoadedSample> DecodePool::decode_target(Worker& worker, const Fetch& fetch,
                                               const Target& target) {
  const std::string_view path = index_.path(fetch.file);
  std::span<const std::byte> bytes = fetch.buffer->span();
  if (fetch.access == formats::Access::kExtents)
    bytes = bytes.subspan(target.extent.offset - fetch.extent.offset, target.extent.length);
  const formats::Record record = FB_TRY(
      worker.reader->read(path, bytes, index_.file_index(fetch.file), target.sample_in_file));
  if (options_.keep_samples) return keep(worker, fetch, path, record);
  const ops::Sample sample = FB_TRY(worker.decoder->decode(path, record, {}));
  LoadedSample loaded;
  loaded.payload_bytes = sample.bytes.size();
  return loaded;
}

// Decodes straight into memory that the sample will own; bytes that need no decoding stay where the
// read put them.
Result<LoadedSample> DecodePool::keep(Worker& worker, const Fetch& fetch, std::string_view path,
                                      const formats::Record& record) {
  LoadedSample loaded;
  const bool is_image =
      record.encoding == formats::Encoding::kJpeg || record.encoding == formats::Encoding::kPng;
  if (is_image) {
    const uint64_t size = FB_TRY(worker.decoder->decoded_bytes(path, record));
    loaded.owner = buffers_.acquire(size);
    loaded.data = FB_TRY(worker.decoder->decode(path, record, loaded.owner->span()));
  } else {
    loaded.data = FB_TRY(worker.decoder->decode(path, record, {}));
    if (fetch.buffer->holds(loaded.data.bytes)) loaded.owner = fetch.buffer;
  }
  if (loaded.owner == nullptr || !loaded.owner->holds(loaded.data.bytes)) {
    const BufferRef copy = buffers_.acquire(loaded.data.bytes.size());
    std::memcpy(copy->data, loaded.data.bytes.data(), loaded.data.bytes.size());
    loaded.owner = copy;
    loaded.data.bytes = copy->span();
  }
  loaded.payload_bytes = loaded.data.bytes.size();
  return loaded;
}

}  // namespace forebay::loader

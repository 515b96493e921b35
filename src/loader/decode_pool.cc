#include "loader/decode_pool.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "loader/field_rows.h"
#include "loader/sample_parts.h"
#include "loader/together_block.h"
#include "sys/thread.h"
#include "trace/recorder.h"

namespace forebay::loader {
namespace {

using formats::DecodedBlock;
using formats::Encoding;
using formats::Record;

constexpr size_t kShareTargets = 256;  // of one unit that one thread decodes; others take the rest
constexpr size_t kFinishTargets = 64;  // are finished together, with one look at the clock

bool is_image(const Record& record) {
  return record.encoding == Encoding::kJpeg || record.encoding == Encoding::kPng;
}

bool is_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// Of the sample that the record will become. Arrays are contiguous or become so: nothing to run.
Result<uint64_t> sample_bytes(ops::Decoder& decoder, std::string_view path, const Record& record) {
  if (record.encoding == Encoding::kArray) {
    const Result<uint64_t> whole = formats::array_bytes(record.array);
    const auto axis = static_cast<size_t>(record.sample_axis);
    if (whole.ok() && *whole == record.bytes.size()) {
      if (record.sample_axis < 0) return *whole;
      if (axis < record.array.shape.size() && record.sample_in_file < record.array.shape[axis])
        return *whole / record.array.shape[axis];
    }
  }
  const ops::Sample sample = FB_TRY(decoder.decode(path, record, {}));  // or says what is wrong
  return sample.bytes.size();
}

// Keeps the pool's figures true for as long as the block lives.
std::shared_ptr<const DecodedBlock> count_block(std::shared_ptr<const DecodedBlock> block,
                                                BufferPool& buffers) {
  struct Counted {
    std::shared_ptr<const DecodedBlock> block;
    std::shared_ptr<const void> bytes;
  };
  const uint64_t bytes = block->bytes();
  auto counted = std::make_shared<Counted>(Counted{std::move(block), buffers.count(bytes)});
  const DecodedBlock* plain = counted->block.get();
  return {std::move(counted), plain};
}

}  // namespace

struct DecodePool::Worker {
  std::vector<std::unique_ptr<formats::Reader>> readers;  // by source; made when first needed
  std::unique_ptr<ops::Decoder> decoder;
  std::unique_ptr<ops::Runner> runner;
  SampleParts parts;
  std::vector<ops::Field> fields;
  trace::TrackId track = 0;
  trace::KeyId bytes_key = 0;
  trace::NameId span_name = 0;
};

DecodePool::DecodePool(const dataset::Catalog& catalog, const EngineOptions& options, Flow& flow,
                       UnitCache& units, BufferPool& buffers, trace::Recorder* recorder,
                       std::function<void(std::unique_ptr<Fetch>)> done)
    : catalog_(catalog),
      options_(options),
      flow_(flow),
      units_(units),
      buffers_(buffers),
      recorder_(recorder),
      done_(std::move(done)) {}

Status DecodePool::start() {
  set_active(options_.decode_threads);
  const int count = std::max(options_.decode_threads, options_.decode_threads_max);
  for (int i = 0; i < count; ++i) {
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

void DecodePool::set_active(int threads) {
  {
    base::MutexLock lock(mutex_);
    active_ = threads;
  }
  activated_.notify_all();
  not_empty_.notify_all();  // those that wait may be too many now
}

std::unique_ptr<Fetch> DecodePool::pop(int number, const std::stop_token& stop) {
  base::MutexLock lock(mutex_);
  for (;;) {
    // Two places to wait in: a fetch that is pushed must not wake a thread that may not take it.
    if (number >= active_)
      activated_.wait(mutex_, stop, [&]() FB_REQUIRES(mutex_) { return number < active_; });
    else
      not_empty_.wait(mutex_, stop,
                      [&]() FB_REQUIRES(mutex_) { return number >= active_ || !queue_.empty(); });
    if (stop.stop_requested()) return nullptr;  // what is queued is abandoned
    if (number < active_ && !queue_.empty()) break;
  }
  std::unique_ptr<Fetch> fetch = std::move(queue_.front());
  queue_.pop_front();
  return fetch;
}

void DecodePool::run(int number, std::stop_token stop) {
  Worker worker;
  worker.readers.resize(catalog_.source_count());
  worker.decoder = ops::make_decoder(options_.decode);
  if (options_.fields) worker.runner = options_.fields->make_runner();
  if (recorder_ != nullptr) {
    worker.track = recorder_->track(trace::TrackKind::kThread,
                                    fmt::format("{} decode", options_.name), number);
    worker.span_name = recorder_->name("decode", trace::Category::kPrepare);
    worker.bytes_key = recorder_->key(trace::key::kBytes);
  }
  int64_t at = base::monotonic_clock().now_ns();
  while (std::unique_ptr<Fetch> fetch = pop(number, stop)) {
    const int64_t start = base::monotonic_clock().now_ns();
    idle_ns_.fetch_add(start - at, std::memory_order_relaxed);
    decode(worker, *fetch, stop);
    at = base::monotonic_clock().now_ns();
    busy_ns_.fetch_add(at - start, std::memory_order_relaxed);
    if (recorder_ != nullptr)
      recorder_->span(worker.track, worker.span_name, start, at,
                      {{worker.bytes_key, static_cast<int64_t>(fetch->extent.length)}});
    done_(std::move(fetch));
  }
}

void DecodePool::decode(Worker& worker, Fetch& fetch, std::stop_token stop) {
  if (fetch.unit) {
    if (fetch.decodes) decode_unit(worker, fetch);
    serve(worker, fetch, stop);
    return;
  }
  const bool needs_decoding = fetch.needs_decoding(options_);
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
        flow_.record_bad(*target.batch, slot.wanted, catalog_.path(fetch.file), loaded.error());
      }
    } else {
      fill_undecoded(fetch, target);  // here for its preprocess time only
    }
    preprocess(target, stop);
    flow_.finish(target.batch, target.slot, base::monotonic_clock().now_ns());
  }
}

void DecodePool::preprocess(const Target& target, const std::stop_token& stop) const {
  const SlotState& slot = target.batch->slots[target.slot];
  if (!options_.preprocess_ns || !slot.is_good) return;
  const int64_t ns = options_.preprocess_ns(target.batch->epoch, slot.wanted);
  base::Clock& clock = base::monotonic_clock();
  if (ns > 0) clock.sleep_until_ns(clock.now_ns() + ns, stop);
}

Result<LoadedSample> DecodePool::decode_target(Worker& worker, const Fetch& fetch,
                                               const Target& target) {
  const std::string_view path = catalog_.path(fetch.file);
  std::span<const std::byte> bytes;
  if (fetch.buffer) bytes = fetch.buffer->span();
  if (fetch.access == formats::Access::kExtents)
    bytes = bytes.subspan(target.extent.offset - fetch.extent.offset, target.extent.length);
  formats::Reader& reader = reader_of(worker, fetch.file);
  const formats::FileIndex& layout = catalog_.file_index(fetch.file);
  if (worker.runner) {
    FB_TRY(reader.read_parts(path, bytes, layout, target.sample, worker.parts.parts()));
    return run_ops(worker, path, target, fetch.file, fetch.buffer, fetch.targets.size());
  }
  const Record record = FB_TRY(reader.read(path, bytes, layout, target.sample));
  const bool is_owned = fetch.buffer->holds(record.bytes);
  return load(worker, path, record, is_owned ? fetch.buffer : nullptr);
}

formats::Reader& DecodePool::reader_of(Worker& worker, uint32_t file) {
  const uint32_t source = catalog_.source_of(file);
  std::unique_ptr<formats::Reader>& reader = worker.readers[source];
  if (!reader) {
    const dataset::CatalogSource& from = catalog_.source(source);
    reader = from.index->format().make_reader(from.options);
  }
  return *reader;
}

Result<LoadedSample> DecodePool::run_ops(Worker& worker, std::string_view path,
                                         const Target& target, uint32_t file, const BufferRef& read,
                                         size_t samples) {
  const uint64_t sample = target.batch->slots[target.slot].wanted;
  FieldRows& rows = *target.batch->rows;
  worker.parts.complete(catalog_, sample, file);
  RowDestination row(rows, target.slot);
  const Status done = worker.runner->run({options_.fields->seed, target.batch->epoch, sample}, path,
                                         worker.parts.parts(), row, worker.fields);
  Result<uint64_t> put =
      done.ok() ? rows.put(target.slot, path, worker.fields, read, samples) : done.error();
  worker.runner->rest();
  LoadedSample loaded;
  loaded.payload_bytes = FB_TRY(std::move(put));
  return loaded;
}

Result<LoadedSample> DecodePool::load(Worker& worker, std::string_view path, const Record& record,
                                      const std::shared_ptr<const void>& owner) {
  if (options_.keep_samples) return keep(worker, path, record, owner);
  const ops::Sample sample = FB_TRY(worker.decoder->decode(path, record, {}));
  LoadedSample loaded;
  loaded.payload_bytes = sample.bytes.size();
  return loaded;
}

// Decodes straight into memory that the sample will own; bytes that need no decoding stay where
// they are, as part of `owner` if there is one.
Result<LoadedSample> DecodePool::keep(Worker& worker, std::string_view path, const Record& record,
                                      const std::shared_ptr<const void>& owner) {
  LoadedSample loaded;
  if (is_image(record)) {
    const uint64_t size = FB_TRY(worker.decoder->decoded_bytes(path, record));
    const BufferRef pixels = buffers_.acquire(size);
    loaded.data = FB_TRY(worker.decoder->decode(path, record, pixels->span()));
    if (pixels->holds(loaded.data.bytes)) loaded.owner = pixels;
  } else {
    loaded.data = FB_TRY(worker.decoder->decode(path, record, {}));
    if (is_within(loaded.data.bytes, record.bytes)) loaded.owner = owner;
  }
  if (loaded.owner == nullptr) {
    const BufferRef copy = buffers_.acquire(loaded.data.bytes.size());
    std::memcpy(copy->data, loaded.data.bytes.data(), loaded.data.bytes.size());
    loaded.owner = copy;
    loaded.data.bytes = copy->span();
  }
  loaded.payload_bytes = loaded.data.bytes.size();
  return loaded;
}

Result<std::shared_ptr<const DecodedBlock>> DecodePool::decode_block(Worker& worker,
                                                                     const Fetch& fetch) {
  const std::string_view path = catalog_.path(fetch.file);
  const formats::FileIndex& layout = catalog_.file_index(fetch.file);
  if (fetch.access == formats::Access::kTogether)
    return decode_together(reader_of(worker, fetch.file), path, fetch.buffer, layout,
                           worker.runner != nullptr);
  const std::span<const std::byte> bytes =
      fetch.buffer ? fetch.buffer->span() : std::span<std::byte>();
  return reader_of(worker, fetch.file)
      .decode_block(path, bytes, layout, layout.blocks[fetch.unit->block]);
}

void DecodePool::decode_unit(Worker& worker, Fetch& fetch) {
  Unit& unit = *fetch.unit;
  UnitContent content;
  Result<std::shared_ptr<const DecodedBlock>> decoded = decode_block(worker, fetch);
  fetch.buffer.reset();
  if (decoded.ok()) {
    std::shared_ptr<const DecodedBlock> block = count_block(std::move(decoded).take(), buffers_);
    content.held_bytes = block->bytes();
    if (options_.keep_samples || !measure(worker, unit, *block, content)) {
      content.real_bytes = block->bytes();
      content.block = std::move(block);
    }
  } else {
    content.error = decoded.error();
  }
  unit.content = std::move(content);
  {
    const base::MutexLock lock(unit.mutex);
    unit.is_decoded = true;
    fetch.targets.insert(fetch.targets.end(), unit.waiting.begin(), unit.waiting.end());
    unit.waiting = {};
  }
  units_.keep(fetch.unit);
}

// Samples that are only checked leave nothing behind but their sizes, unless they are still encoded
// one by one.
bool DecodePool::measure(Worker& worker, const Unit& unit, const DecodedBlock& block,
                         UnitContent& content) {
  const std::string_view path = catalog_.path(unit.file);
  std::vector<uint64_t> sizes;
  sizes.reserve(unit.sample_count);
  bool is_even = true;
  for (uint64_t i = 0; i < unit.sample_count; ++i) {
    const Result<Record> record = block.at(i);
    uint64_t size = 0;
    if (record.ok() && is_image(*record)) return false;
    if (record.ok() && record->encoding == Encoding::kRaw) {
      size = record->bytes.size();
    } else if (record.ok()) {
      const Result<uint64_t> bytes = sample_bytes(*worker.decoder, path, *record);
      if (bytes.ok()) size = *bytes;
      if (!bytes.ok()) content.bad_samples.emplace(i, bytes.error());
    } else {
      content.bad_samples.emplace(i, record.error());
    }
    sizes.push_back(size);
    is_even = is_even && size == sizes.front();
  }
  content.sizes = {.total = is_even ? sizes.front() * unit.sample_count : 0,
                   .count = unit.sample_count};
  if (!is_even) content.sizes.each = std::move(sizes);
  return true;
}

void DecodePool::serve(Worker& worker, Fetch& fetch, const std::stop_token& stop) {
  const Unit& unit = *fetch.unit;
  if (unit.content.block && !unit.content.error) share_out(fetch);
  const std::span<const Target> targets = fetch.targets;
  size_t first = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    serve_target(worker, unit, targets[i]);
    preprocess(targets[i], stop);
    const bool is_last = i + 1 == targets.size() || i + 1 - first == kFinishTargets;
    if (!is_last && !options_.preprocess_ns) continue;
    flow_.finish(targets.subspan(first, i + 1 - first), base::monotonic_clock().now_ns());
    first = i + 1;
  }
}

// Gives targets beyond a thread's share to the other threads.
void DecodePool::share_out(Fetch& fetch) {
  if (options_.decode_threads < 2) return;
  while (fetch.targets.size() > kShareTargets) {
    auto part = std::make_unique<Fetch>();
    part->file = fetch.file;
    part->access = fetch.access;
    part->unit = fetch.unit;
    const auto from = fetch.targets.end() - static_cast<ptrdiff_t>(kShareTargets);
    part->targets.assign(from, fetch.targets.end());
    fetch.targets.erase(from, fetch.targets.end());
    push(std::move(part));
  }
}

void DecodePool::serve_target(Worker& worker, const Unit& unit, const Target& target) {
  SlotState& slot = target.batch->slots[target.slot];
  const std::string_view path = catalog_.path(unit.file);
  if (const Error* cause = bad_cause(unit, target.sample)) {
    flow_.record_bad(*target.batch, slot.wanted, path, *cause);
    return;
  }
  if (!unit.content.block) {
    fill_from_facts(unit, target);
    return;
  }
  Result<LoadedSample> loaded = [&]() -> Result<LoadedSample> {
    if (worker.runner) {
      FB_TRY(unit.content.block->parts_at(target.sample, worker.parts.parts()));
      return run_ops(worker, path, target, unit.file, nullptr, 1);
    }
    const Record record = FB_TRY(unit.content.block->at(target.sample));
    return load(worker, path, record, unit.content.block);
  }();
  if (!loaded.ok()) {
    flow_.record_bad(*target.batch, slot.wanted, path, loaded.error());
    return;
  }
  slot.sample = std::move(loaded).take();
  slot.sample.sample = slot.wanted;
  slot.sample.file = unit.file;
  slot.is_good = true;
}

}  // namespace forebay::loader

#include "trace/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "sys/clocks.h"
#include "sys/thread.h"
#include "trace/facts.h"

namespace forebay::trace {

namespace {

// What is recorded is on disk this soon, so that a recorder that is killed loses no more.
constexpr std::chrono::seconds kWriteWithin{1};

// Threads take shards in turn; a shard is shared only when more than kShards threads record.
size_t thread_number() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

Recorder::Recorder(std::unique_ptr<TraceWriter> writer, const RecorderOptions& options)
    : options_(options), writer_(std::move(writer)) {
  {
    const base::MutexLock lock(definitions_mutex_);
    const TextId host = definitions_.text(options.host);
    const TrackId track = definitions_.add_track({TrackKind::kHost, kNoId, host, -1, -1});
    const TextId process = definitions_.text(options.process);
    process_ =
        definitions_.add_track({TrackKind::kProcess, track, process, options.pid, options.rank});
    value_key_ = definitions_.key(key::kValue, ArgumentType::kReal);
  }
  const sys::ClockReading clocks = sys::read_clocks();
  writer_->clock({clocks.monotonic_ns, clocks.unix_ns, clocks.uncertainty_ns});
  fact(fact::kHost, options.host);
  if (options.rank >= 0) fact(fact::kRank, std::to_string(options.rank));
  auto thread = sys::start_thread("trace", [this](const std::stop_token& stop) { run(stop); });
  // Without a thread all is written by finish(), as far as waiting_max goes.
  if (thread.ok()) thread_ = std::move(thread).take();
}

Recorder::~Recorder() = default;

TrackId Recorder::track(TrackKind kind, std::string_view text, int64_t number) {
  const base::MutexLock lock(definitions_mutex_);
  const auto [found, is_new] = tracks_.emplace(std::tuple(kind, std::string(text), number), kNoId);
  if (is_new) {
    const TextId id = definitions_.text(text);
    found->second = definitions_.add_track({kind, process_, id, number, -1});
  }
  return found->second;
}

NameId Recorder::name(std::string_view text, Category category, EventKind kind) {
  const base::MutexLock lock(definitions_mutex_);
  return definitions_.name(text, category, kind);
}

KeyId Recorder::key(std::string_view text, ArgumentType type) {
  const base::MutexLock lock(definitions_mutex_);
  return definitions_.key(text, type);
}

TextId Recorder::text(std::string_view text) {
  const base::MutexLock lock(definitions_mutex_);
  return definitions_.text(text);
}

void Recorder::fact(std::string_view key, std::string_view value) {
  const base::MutexLock lock(definitions_mutex_);
  facts_[std::string(key)] = value;
}

void Recorder::span(TrackId track, NameId name, int64_t start_ns, int64_t end_ns,
                    std::initializer_list<Argument> arguments) {
  FB_DCHECK(arguments.size() <= kArgumentsMax);
  Entry entry;
  entry.event = {track, name, start_ns, std::max<int64_t>(0, end_ns - start_ns)};
  for (const Argument& argument : arguments) entry.arguments[entry.argument_count++] = argument;
  add(entry);
}

void Recorder::counter(TrackId track, NameId name, int64_t at_ns, double value) {
  if (!std::isfinite(value)) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Entry entry;
  entry.event = {track, name, at_ns, 0};
  entry.arguments[0] = {value_key_, real_bits(value)};
  entry.argument_count = 1;
  add(entry);
}

void Recorder::add(const Entry& entry) {
  if (waiting_.fetch_add(1, std::memory_order_relaxed) >= options_.waiting_max) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  recorded_.fetch_add(1, std::memory_order_relaxed);
  Shard& shard = shards_[thread_number() % kShards];
  Buffer full;
  {
    const base::MutexLock lock(shard.mutex);
    if (shard.buffer.capacity() == 0) shard.buffer.reserve(kBufferEvents);
    shard.buffer.push_back(entry);
    if (shard.buffer.size() < kBufferEvents) return;
    full.swap(shard.buffer);
  }
  hand_over(std::move(full));
}

void Recorder::hand_over(Buffer buffer) {
  const base::MutexLock lock(full_mutex_);
  full_.push_back(std::move(buffer));
  full_changed_.notify_one();
}

void Recorder::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const base::MutexLock lock(full_mutex_);
      full_changed_.wait_for(full_mutex_, stop, kWriteWithin,
                             [&]() FB_REQUIRES(full_mutex_) { return full_.size() >= kShards; });
    }
    drain();
    writer_->flush().ignore("finish() gives the error");
  }
}

// Takes what there is, full buffers and begun ones.
void Recorder::drain() {
  std::vector<Buffer> buffers;
  {
    const base::MutexLock lock(full_mutex_);
    buffers.swap(full_);
  }
  for (Shard& shard : shards_) {
    const base::MutexLock lock(shard.mutex);
    if (shard.buffer.empty()) continue;
    buffers.emplace_back();
    buffers.back().swap(shard.buffer);
  }
  define();  // after the events were taken: whatever they name is defined
  for (const Buffer& buffer : buffers) {
    for (const Entry& entry : buffer) {
      writer_->add(entry.event, std::span(entry.arguments).first(entry.argument_count));
    }
    waiting_.fetch_sub(buffer.size(), std::memory_order_relaxed);
  }
}

// The writer's numbers are ours, because it is told of everything in the same order.
void Recorder::define() {
  const base::MutexLock lock(definitions_mutex_);
  const Dictionary& all = definitions_.dictionary();
  for (size_t id = writer_->dictionary().texts.size(); id < all.texts.size(); ++id) {
    FB_CHECK(writer_->text(all.texts[id]) == id);
  }
  for (size_t id = writer_->dictionary().tracks.size(); id < all.tracks.size(); ++id) {
    const Track& track = all.tracks[id];
    writer_->add_track(track.kind, track.parent, all.text(track), track.number, track.rank);
  }
  for (size_t id = writer_->dictionary().names.size(); id < all.names.size(); ++id) {
    const Name& name = all.names[id];
    writer_->name(all.text(name), name.category, name.kind);
  }
  for (size_t id = writer_->dictionary().keys.size(); id < all.keys.size(); ++id) {
    writer_->key(all.texts[all.keys[id].text], all.keys[id].type);
  }
  for (const auto& [key, value] : facts_) writer_->fact(key, value);
  facts_.clear();
}

Status Recorder::finish() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  drain();
  const Status flushed = writer_->flush();
  const uint64_t lost = writer_->lost_count();
  writer_->fact(fact::kDropped, std::to_string(dropped() + lost));
  if (!flushed.ok()) {
    writer_->fact(fact::kCutShort, fmt::format("the trace ends early, {} later events are lost: {}",
                                               lost, flushed.error().message));
  }
  return writer_->finish();
}

}  // namespace forebay::trace

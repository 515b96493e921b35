#include "trace/recorder.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace forebay::trace {

namespace {

// Threads take shards in turn; a shard is shared only when more than kShards threads record.
size_t thread_number() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

int Recorder::Interner::intern(std::string_view text) {
  std::string key(text);
  if (const auto found = ids.find(key); found != ids.end()) return found->second;
  if (texts.size() + 1 >= kTextsMax) {
    key = "(other)";
    if (const auto found = ids.find(key); found != ids.end()) return found->second;
  }
  const int id = static_cast<int>(texts.size());
  texts.push_back(key);
  ids.emplace(std::move(key), id);
  return id;
}

Recorder::Recorder(size_t events_max) : events_max_(events_max) {}
Recorder::~Recorder() = default;

int Recorder::track(std::string_view name) {
  base::MutexLock lock(texts_mutex_);
  return tracks_.intern(name);
}

int Recorder::name(std::string_view text) {
  base::MutexLock lock(texts_mutex_);
  return names_.intern(text);
}

void Recorder::span(int track, int name, int64_t start_ns, int64_t end_ns, int64_t value) {
  Event event{};
  event.start_ns = start_ns;
  event.end_ns = std::max(start_ns, end_ns);
  event.value = value;
  event.is_counter = 0;
  event.track = static_cast<uint32_t>(track) & 0x7fffffffu;
  event.name = name;
  add(event);
}

void Recorder::counter(int track, int name, int64_t at_ns, double value) {
  if (!std::isfinite(value)) return drop();
  Event event{};
  event.start_ns = at_ns;
  event.counter_value = value;
  event.is_counter = 1;
  event.track = static_cast<uint32_t>(track) & 0x7fffffffu;
  event.name = name;
  add(event);
}

size_t Recorder::claim() {
  // Small enough that what the shards hold unused stays below 1/8 of the whole.
  const size_t wanted = std::clamp<size_t>(events_max_ / (8 * kShards), 1, 1024);
  size_t before = claimed_.load(std::memory_order_relaxed);
  size_t granted = 0;
  do {
    granted = std::min(wanted, events_max_ - before);
    if (granted == 0) return 0;
  } while (!claimed_.compare_exchange_weak(before, before + granted, std::memory_order_relaxed));
  return granted;
}

void Recorder::add(const Event& event) {
  Shard& shard = shards_[thread_number() % kShards];
  base::MutexLock lock(shard.mutex);
  if (shard.chunks.empty() || shard.chunks.back().used == shard.chunks.back().capacity) {
    const size_t capacity = claim();
    if (capacity == 0) return drop();
    shard.chunks.push_back({std::make_unique<Event[]>(capacity), capacity, 0});
  }
  Chunk& chunk = shard.chunks.back();
  chunk.events[chunk.used++] = event;
  recorded_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<std::string> Recorder::tracks() const {
  base::MutexLock lock(texts_mutex_);
  return tracks_.texts;
}

std::vector<std::string> Recorder::names() const {
  base::MutexLock lock(texts_mutex_);
  return names_.texts;
}

void Recorder::visit(const std::function<void(const Event&)>& visitor) const {
  std::vector<std::span<const Event>> parts;
  for (const Shard& shard : shards_) {
    // Chunks never move and their used part never changes, so the spans stay valid without the
    // lock.
    base::MutexLock lock(shard.mutex);
    for (const Chunk& chunk : shard.chunks) parts.emplace_back(chunk.events.get(), chunk.used);
  }
  for (const std::span<const Event> part : parts) {
    for (const Event& event : part) visitor(event);
  }
}

}  // namespace forebay::trace

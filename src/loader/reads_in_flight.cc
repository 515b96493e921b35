#include "loader/reads_in_flight.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace forebay::loader {

ReadsInFlight::ReadsInFlight(const dataset::Catalog& catalog, uint64_t coalesce_bytes,
                             bool in_order, std::unique_ptr<storage::ReadQueue> queue,
                             ReadTrace trace)
    : catalog_(catalog),
      coalesce_bytes_(coalesce_bytes),
      are_in_order_(in_order),
      trace_(std::move(trace)),
      queue_(std::move(queue)) {}

ReadsInFlight::~ReadsInFlight() {
  queue_.reset();
}

std::unique_ptr<Fetch> ReadsInFlight::add(std::unique_ptr<Fetch> fetch) {
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<uint32_t>(fetches_.size()));
    fetches_.emplace_back();
  }
  fetch->id = free_ids_.back();
  plan(*fetch);
  if (fetch->reads_left == 0) return fetch;
  free_ids_.pop_back();
  fetches_[fetch->id] = std::move(fetch);
  ++count_;
  if (planned_.size() >= kReapMax) submit();
  return nullptr;
}

void ReadsInFlight::plan(Fetch& fetch) {
  storage::Read read;
  read.path = catalog_.path(fetch.file);
  read.visitor = fetch.check.get();
  read.tag = fetch.id;
  read.destination = fetch.buffer ? fetch.buffer->data : fetch.rows;
  const bool is_whole =
      fetch.access == formats::Access::kWholeFile || fetch.access == formats::Access::kTogether;
  read.to_end = is_whole;
  read.keep_open = !is_whole;
  read.in_order = are_in_order_;
  if (fetch.access == formats::Access::kBlocks) return plan_block(fetch, read);
  read.offset = fetch.extent.offset;
  read.length = fetch.extent.length;
  fetch.reads_left = 0;
  if (read.length == 0 && !is_whole) return;  // a synthetic sample: nothing lies anywhere
  planned_.push_back(read);
  fetch.reads_left = 1;
}

// A block's extents go one after the other into its buffer; those that touch become one read.
void ReadsInFlight::plan_block(Fetch& fetch, storage::Read read) {
  fetch.reads_left = 0;
  const auto add_read = [&] {
    if (read.length == 0) return;
    planned_.push_back(read);
    ++fetch.reads_left;
    if (read.destination != nullptr) read.destination += read.length;
  };
  for (const formats::Extent& extent :
       catalog_.file_index(fetch.file).blocks[fetch.unit->block].extents) {
    const bool touches = read.length > 0 && extent.offset == read.offset + read.length &&
                         read.length + extent.length <= coalesce_bytes_;
    if (touches) {
      read.length += extent.length;
      continue;
    }
    add_read();
    read.offset = extent.offset;
    read.length = extent.length;
  }
  add_read();
}

void ReadsInFlight::submit() {
  if (planned_.empty()) return;
  queue_->submit(planned_);
  planned_.clear();
}

void ReadsInFlight::reap(const std::stop_token& stop,
                         const std::function<void(std::unique_ptr<Fetch>)>& ended) {
  const size_t done = queue_->reap(done_, stop);
  count(std::span(done_).first(done));
  for (size_t i = 0; i < done; ++i)
    if (std::unique_ptr<Fetch> fetch = end_one(done_[i])) ended(std::move(fetch));
}

std::unique_ptr<Fetch> ReadsInFlight::end_one(const storage::Completion& completion) {
  FB_CHECK(fetches_[completion.tag] != nullptr);
  Fetch& fetch = *fetches_[completion.tag];
  trace_.add(catalog_, fetch.file, completion);
  fetch.started_ns = std::min(fetch.started_ns, completion.started_ns);
  fetch.landed_ns = std::max(fetch.landed_ns, completion.ended_ns);
  fetch.visit_ns += completion.visit_ns;
  if (!completion.status.ok() && !fetch.failure) fetch.failure = completion.status.error();
  if (--fetch.reads_left > 0) return nullptr;  // the others still write into the buffer
  free_ids_.push_back(fetch.id);
  --count_;
  return std::move(fetches_[completion.tag]);
}

void ReadsInFlight::count(std::span<const storage::Completion> completions) {
  base::MutexLock lock(stats_mutex_);
  stats_.reads += completions.size();
  for (const storage::Completion& completion : completions) {
    stats_.retries += static_cast<uint64_t>(completion.retries);
    stats_.file_bytes += completion.bytes;
    const int64_t busy = completion.ended_ns - completion.started_ns;
    stats_.fetch_busy_ns += busy - completion.visit_ns;
    stats_.decode_busy_ns += completion.visit_ns;
    read_ns_.record(static_cast<uint64_t>(std::max<int64_t>(0, busy)));
  }
}

void ReadsInFlight::wake() {
  queue_->wake();
}

void ReadsInFlight::copy_stats(EngineStats& stats) const {
  base::MutexLock lock(stats_mutex_);
  stats.reads = stats_.reads;
  stats.retries = stats_.retries;
  stats.file_bytes = stats_.file_bytes;
  stats.fetch_busy_ns = stats_.fetch_busy_ns;
  stats.decode_busy_ns += stats_.decode_busy_ns;
}

trace::Histogram ReadsInFlight::take_read_times() {
  base::MutexLock lock(stats_mutex_);
  return std::exchange(read_ns_, trace::Histogram());
}

}  // namespace forebay::loader

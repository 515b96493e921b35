#include "dataset/layout_search.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "dataset/layout_check.h"
#include "storage/windowed.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay::dataset {
namespace {

constexpr int kThreadsMax = 256;
constexpr int kRemoteThreads = 64;    // a store that is far away answers as many at once
constexpr uint64_t kChunkFiles = 64;  // taken by a thread at once
constexpr uint64_t kFilesTriedForUniform = 8;

// Whether an error is the file's, which others may do without, and not the machine's.
bool is_of_file(const Error& error) {
  return error.code != ErrorCode::kResourceExhausted && error.code != ErrorCode::kCancelled;
}

}  // namespace

LayoutSearch::LayoutSearch(storage::Store& store, const IndexOptions& options,
                           const formats::Format& format, const FileTable& files,
                           const IndexCache& cache)
    : store_(store),
      options_(options),
      format_(format),
      files_(files),
      cache_(cache),
      is_far_(!store.capabilities().is_local),
      layout_of_file_(files.count(), kNoLayout) {}

// One sample in each file, and the format says that it is the whole file: nothing is left to ask. A
// few files are tried, so that a damaged first one is found by whoever reads it, not here.
bool LayoutSearch::find_uniform() {
  if (options_.samples_per_file != 1) return false;
  storage::WindowedStore view(store_);
  storage::Store& store = is_far_ ? static_cast<storage::Store&>(view) : store_;
  for (uint64_t i = 0; i < std::min(files_.count(), kFilesTriedForUniform); ++i) {
    auto layout = format_.index(store, files_.info(i), options_.format_options());
    if (!layout.ok()) continue;
    if (layout->access != formats::Access::kWholeFile || layout->sample_count != 1) return false;
    layout_of_file_.assign(files_.count(), samples_.intern(std::move(layout).take()));
    return is_uniform_ = true;
  }
  return false;
}

void LayoutSearch::keep(uint64_t file, Result<formats::FileIndex> layout) {
  const base::MutexLock lock(mutex_);
  if (layout.ok()) {
    layout_of_file_[file] = samples_.intern(std::move(layout).take());
    return;
  }
  bad_files_.emplace_back(file, std::move(layout).error());
  if (!options_.skip_bad_files || !is_of_file(bad_files_.back().second)) failed_.request_stop();
}

Result<formats::FileIndex> LayoutSearch::ask(storage::Store& store, uint64_t file) {
  formats::FileIndex layout =
      FB_TRY(format_.index(store, files_.info(file), options_.format_options()));
  if (layout.access == formats::Access::kBlocks)
    FB_TRY(check_layout(layout, files_.bytes(file)).context(std::string(files_.path(file))));
  return layout;
}

void LayoutSearch::find_some() {
  sys::name_thread("index");
  storage::WindowedStore view(store_);
  storage::Store& store = is_far_ ? static_cast<storage::Store&>(view) : store_;
  while (true) {
    const uint64_t first = next_file_.fetch_add(chunk_files_, std::memory_order_relaxed);
    if (first >= files_.count()) return;
    for (uint64_t i = first; i < std::min(first + chunk_files_, files_.count()); ++i) {
      if (failed_.stop_requested() || options_.stop.stop_requested()) return;
      const auto* known = cache_.find(files_.info(i), files_.side_key(i));
      if (known != nullptr) {
        keep(i, *known);
        continue;
      }
      files_asked_.fetch_add(1, std::memory_order_relaxed);
      keep(i, ask(store, i));
    }
  }
}

// Files are opened one after the other by each thread. Where that is a round trip, threads are
// what hides it, and each takes one file at a time.
int LayoutSearch::choose_threads() {
  chunk_files_ = is_far_ ? 1 : kChunkFiles;
  const int wanted = std::clamp(options_.threads, 1, kThreadsMax);
  if (!is_far_) return wanted;
  return std::max(wanted, std::clamp(store_.capabilities().in_flight_max, 1, kRemoteThreads));
}

Status LayoutSearch::find_all() {
  if (find_uniform()) return {};
  {
    const auto wanted = static_cast<uint64_t>(choose_threads());
    const uint64_t chunks = (files_.count() + chunk_files_ - 1) / chunk_files_;
    const auto threads = std::min(wanted, chunks);
    std::vector<std::jthread> pool;
    for (uint64_t i = 1; i < threads; ++i) {
      auto thread = sys::start_thread("index", [this](const std::stop_token&) { find_some(); });
      if (!thread.ok()) break;  // those there are, and this one, do the work
      pool.push_back(std::move(thread).take());
    }
    find_some();
  }
  if (options_.stop.stop_requested())
    return fail(ErrorCode::kCancelled, "stopped while looking for samples in {} files",
                files_.count());
  std::sort(bad_files_.begin(), bad_files_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [file, error] : bad_files_)
    if (!options_.skip_bad_files || !is_of_file(error)) return error;
  return {};
}

}  // namespace forebay::dataset

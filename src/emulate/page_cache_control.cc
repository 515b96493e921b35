#include "emulate/page_cache_control.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "sys/host.h"
#include "sys/page_cache.h"
#include "sys/thread.h"

namespace forebay::emulate {
namespace {

std::string full_path(const std::string& root, std::string_view path) {
  return root + "/" + std::string(path);
}

// Calls `work(file)` for every file on a few threads; the first error stops all.
Status for_each_file(const dataset::Index& index, std::stop_token stop,
                     const std::function<Status(uint32_t)>& work) {
  std::atomic<uint32_t> next = 0;
  base::Mutex mutex;
  std::optional<Error> first_error;
  const auto take_files = [&](const std::stop_token&) {
    for (uint32_t file; (file = next.fetch_add(1)) < index.file_count();) {
      if (stop.stop_requested()) return;
      const Status status = work(file);
      if (status.ok()) continue;
      base::MutexLock lock(mutex);
      if (!first_error) first_error = status.error();
      next.store(static_cast<uint32_t>(index.file_count()));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < sys::usable_cpu_count() * 2; ++i) {
      Result<std::jthread> thread = sys::start_thread("cache", take_files);
      if (!thread.ok()) break;  // those there are, and this one, do the work
      threads.push_back(std::move(thread).take());
    }
    take_files({});
  }
  if (first_error) return *first_error;
  if (stop.stop_requested()) return Error{ErrorCode::kCancelled, "stopped"};
  return {};
}

}  // namespace

Result<CacheState> make_cold(const dataset::Index& index, const std::string& root,
                             std::stop_token stop) {
  std::atomic<uint64_t> cached = 0;
  std::atomic<bool> known = true;
  const auto evict = [&](uint32_t file) -> Status {
    const std::string path = full_path(root, index.path(file));
    FB_TRY(sys::evict_from_page_cache(path));
    const Result<sys::CachedBytes> left = sys::cached_bytes(path);
    if (left.ok())
      cached += left->cached_bytes;
    else
      known = false;
    return {};
  };
  FB_TRY(for_each_file(index, stop, evict));
  return CacheState{index.file_count(), index.summary().bytes, cached, known};
}

Result<CacheState> make_warm(const dataset::Index& index, const std::string& root,
                             std::stop_token stop) {
  const auto load = [&](uint32_t file) -> Status {
    FB_TRY(sys::load_into_page_cache(full_path(root, index.path(file))));
    return {};
  };
  FB_TRY(for_each_file(index, stop, load));
  CacheState state{index.file_count(), index.summary().bytes, 0, true};
  for (uint32_t file = 0; file < index.file_count() && !stop.stop_requested(); ++file) {
    const Result<sys::CachedBytes> now = sys::cached_bytes(full_path(root, index.path(file)));
    state.is_known = state.is_known && now.ok();
    if (now.ok()) state.cached_bytes += now->cached_bytes;
  }
  return state;
}

std::string why_device_bytes_unknown(const std::string& root, bool store_is_local) {
  if (!store_is_local) return "the store does not read from this machine's disks";
  static constexpr std::array<std::string_view, 7> kAccounting{"ext4",  "xfs",   "btrfs", "overlay",
                                                               "tmpfs", "ramfs", "nfs"};
  const std::string name = sys::file_system_name(root);
  for (const std::string_view known : kAccounting)
    if (name == known) return "";
  return fmt::format("file system {} does not account device reads per process", name);
}

}  // namespace forebay::emulate

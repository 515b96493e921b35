#include "record/tracks.h"

#include <fmt/core.h>

#include "sys/other_process.h"

namespace forebay::record {

using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

Tracks::Tracks(trace::TraceWriter& writer, std::string_view host_name, int32_t rank)
    : writer_(writer), host_(writer.add_track(TrackKind::kHost, kNoId, host_name)), rank_(rank) {}

TrackId Tracks::process(int pid, std::string_view name) {
  const auto [found, is_new] = processes_.emplace(pid, kNoId);
  if (is_new) {
    const std::string text = name.empty() ? sys::program_of(pid) : std::string(name);
    found->second = writer_.add_track(TrackKind::kProcess, host_, text, pid, rank_);
  }
  return found->second;
}

TrackId Tracks::thread(int pid, int tid, std::string_view name) {
  const auto [found, is_new] = threads_.emplace(std::pair(pid, tid), kNoId);
  if (is_new) {
    const TrackId parent = process(pid);
    const std::string text = name.empty() ? sys::thread_name(pid, tid) : std::string(name);
    found->second = writer_.add_track(TrackKind::kThread, parent, text, tid);
  }
  return found->second;
}

TrackId Tracks::below(TrackId parent, TrackKind kind, std::string_view name, int64_t number) {
  const std::string what = fmt::format("{} {} {}", static_cast<int>(kind), name, number);
  const auto [found, is_new] = others_.emplace(std::pair(parent, what), kNoId);
  if (is_new) found->second = writer_.add_track(kind, parent, name, number);
  return found->second;
}

TrackId Tracks::core(int index) {
  return below(host_, TrackKind::kCore, "core", index);
}

TrackId Tracks::block_device(uint32_t major, uint32_t minor, std::string_view name) {
  return below(host_, TrackKind::kBlockDevice, name, int64_t{major} << 20 | minor);
}

TrackId Tracks::network(std::string_view name) {
  return below(host_, TrackKind::kNetwork, name);
}

TrackId Tracks::device(int index, std::string_view name) {
  return below(host_, TrackKind::kDevice, name, index);
}

void Tracks::rename(int pid, int tid, std::string_view name) {
  if (const auto found = threads_.find({pid, tid}); found != threads_.end()) {
    writer_.rename(found->second, name.empty() ? sys::thread_name(pid, tid) : std::string(name));
  }
  if (pid != tid) return;
  if (const auto found = processes_.find(pid); found != processes_.end()) {
    writer_.rename(found->second, name.empty() ? sys::program_of(pid) : std::string(name));
  }
}

}  // namespace forebay::record

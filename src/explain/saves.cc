#include "explain/saves.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace forebay::explain {
namespace {

using trace::Category;
using trace::EventKind;
using trace::TrackId;

// Writes this close belong to one save: serialising a shard takes as long.
constexpr int64_t kGapNs = 50'000'000;
// Serialising is quicker than this; lines of a log come slower.
constexpr int64_t kSerialisedBytesPerMs = 200'000;
constexpr int64_t kSmallGapNs = 5'000'000;
// Less is a log line, not a state: on its own; where something else says that it is one; of a call.
constexpr int64_t kLargeBytes = 1 << 20, kStateBytes = 64 << 10, kCallBytes = 4096;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Written line by line, whatever folder it lies in.
bool is_log(std::string_view path) {
  return ends_with(path, ".log") || ends_with(path, ".txt") || ends_with(path, ".csv") ||
         ends_with(path, ".jsonl") || path.find("tfevents") != std::string_view::npos;
}

// Memory that processes share, unless somebody keeps a state there.
bool is_shared_memory(std::string_view path) {
  return path.rfind("/dev/shm/", 0) == 0 || path.rfind("/memfd:", 0) == 0;
}

// Files of one folder and ending are of one kind.
uint64_t kind_of_file(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  const size_t dot = name.rfind('.');
  const std::string_view folder = path.substr(0, slash == std::string_view::npos ? 0 : slash);
  const std::string_view ending = dot == std::string_view::npos ? name : name.substr(dot);
  return std::hash<std::string_view>{}(folder)*31 + std::hash<std::string_view>{}(ending);
}

struct Group {
  Save save;
  bool is_synced = false, is_renamed = false, is_named = false;
  uint64_t writes = 0;
  std::vector<uint64_t> kinds = {};  // of its files
};

class GroupFinder {
  static constexpr int64_t kSyncedBytes = 16
                                          << 20;  // how long a sync may come after the last write

 public:
  GroupFinder(const View& view, TrackId track) : view_(view), rows_(view.recording().rows(track)) {
    bytes_ = view.column(view.keys().bytes, track);
    files_ = view.column(view.keys().file, track);
  }

  std::vector<Group> find() {
    int64_t until_ns = INT64_MIN, named_until_ns = INT64_MIN;
    for (size_t row = rows_.first; row < rows_.last; ++row) {
      const trace::Recording& recording = view_.recording();
      const trace::Name& name = recording.name(row);
      if (name.kind != EventKind::kSpan) continue;
      const NameClass& meaning = view_.name_class(recording.name_id(row));
      if (meaning.is_transparent && meaning.purpose != Purpose::kNone) {
        named_until_ns = std::max(named_until_ns, recording.end(row));
      }
      const bool is_call = name.category == Category::kWrite || name.category == Category::kSync ||
                           name.category == Category::kRead || name.category == Category::kMetadata;
      // What the user named is known; what a call does inside is part of it.
      if (!is_call || recording.start(row) < std::max(named_until_ns, until_ns)) continue;
      until_ns = recording.end(row);
      take(row, name.category);
    }
    close();
    return std::move(groups_);
  }

 private:
  std::string_view path_of(size_t row) const {
    const int64_t file = at(files_, row - rows_.first);
    if (file == trace::kNoValue) return {};
    return view_.words().text(static_cast<uint32_t>(file));
  }

  // A regular file that may hold a state. A recorder that knows files by name gives none to a pipe;
  // a step's mark is a line in a file of the recording.
  bool may_hold_state(size_t row) const {
    const int64_t file = at(files_, row - rows_.first);
    if (file == trace::kNoValue) return files_.empty();
    const std::string_view path = path_of(row);
    return view_.class_of_file(file) == FileClass::kRegular && !is_log(path) &&
           !ends_with(path, ".marks") && (!is_shared_memory(path) || looks_like_checkpoint(path));
  }

  void take(size_t row, Category category) {
    const trace::Recording& recording = view_.recording();
    const int64_t start = recording.start(row);
    if (category == Category::kRead) {
      // Reading a batch ends a save; a pipe is somebody who waits.
      if (view_.class_of_file(at(files_, row - rows_.first)) == FileClass::kRegular) close();
      return;
    }
    if (category == Category::kMetadata) {
      take_end(row);
      return;
    }
    if (!may_hold_state(row)) return;
    const int64_t bytes = std::max<int64_t>(0, at(bytes_, row - rows_.first));
    const bool is_sync = category == Category::kSync;
    if (is_open_ && start - group_.save.end_ns > gap_allowed(is_sync ? kSyncedBytes : bytes)) {
      close();
    }
    if (!is_open_) {
      is_open_ = true;
      group_ = {};
      group_.save.begin_ns = start;
    }
    group_.save.end_ns = recording.end(row);
    note_file(row);
    is_ended_ = is_sync;
    group_.is_synced = group_.is_synced || is_sync;
    if (is_sync) return;
    group_.save.bytes += static_cast<uint64_t>(bytes);
    ++group_.writes;
  }

  void note_file(size_t row) {
    const std::string_view path = path_of(row);
    if (path.empty()) return;
    const uint64_t kind = kind_of_file(path);
    if (!group_.kinds.empty() && group_.kinds.back() == kind) return;
    group_.kinds.push_back(kind);
    group_.is_named = group_.is_named || looks_like_checkpoint(path);
  }

  // A rename ends a save, but is none; opening the next file is something else.
  void take_end(size_t row) {
    const trace::Recording& recording = view_.recording();
    if (!is_open_ || recording.start(row) - group_.save.end_ns > kGapNs / 10) return;
    const std::string& call = recording.text(row);
    const bool is_rename =
        call.find("rename") != std::string::npos || call.find("link") != std::string::npos;
    if (!is_rename && call.find("close") == std::string::npos) return;
    group_.save.end_ns = recording.end(row);
    is_ended_ = true;
    group_.is_renamed = group_.is_renamed || is_rename;
    if (is_rename) note_file(row);
  }

  // What was synced or closed is saved: another file of the same save follows soon, or it is
  // another save.
  int64_t gap_allowed(int64_t next_bytes) const {
    const Save& save = group_.save;
    if (is_ended_) return std::min(kGapNs, (save.end_ns - save.begin_ns) / 5);
    return std::min(kGapNs, std::max(kSmallGapNs, next_bytes / kSerialisedBytesPerMs * 1'000'000));
  }

  void close() {
    if (is_open_) groups_.push_back(std::move(group_));
    is_open_ = false;
  }

  const View& view_;
  const trace::Recording::Rows rows_;
  std::span<const int64_t> bytes_, files_;
  std::vector<Group> groups_;
  Group group_;
  bool is_open_ = false, is_ended_ = false;
};

bool may_be_save(const Group& group, bool is_driver) {
  const auto bytes = static_cast<int64_t>(group.save.bytes);
  const auto writes = static_cast<int64_t>(group.writes);
  const bool is_kept = group.is_synced || group.is_renamed || group.is_named;
  if (group.is_named && (group.is_synced || group.is_renamed)) return true;
  if (is_kept && bytes >= kStateBytes && bytes >= writes * kCallBytes) return true;
  return is_driver && bytes >= kLargeBytes && bytes >= writes * kCallBytes;
}

// The kinds of files that this recording reads, of `wanted`.
std::unordered_set<uint64_t> read_kinds(const View& view,
                                        const std::unordered_set<uint64_t>& wanted) {
  std::unordered_set<uint64_t> found;
  std::unordered_set<int64_t> seen;
  for (const TrackId thread : view.threads()) {
    const auto rows = view.recording().rows(thread);
    const auto files = view.column(view.keys().file, thread);
    if (files.empty()) continue;
    for (size_t row = rows.first; row < rows.last && found.size() < wanted.size(); ++row) {
      const Category category = view.recording().name(row).category;
      const int64_t file = files[row - rows.first];
      if (file == trace::kNoValue) continue;
      const bool reads = category == Category::kRead || category == Category::kFault ||
                         (category == Category::kMetadata && view.recording().text(row) == "mmap");
      if (!reads || !seen.insert(file).second) continue;
      const uint64_t kind = kind_of_file(view.words().text(static_cast<uint32_t>(file)));
      if (wanted.count(kind) > 0) found.insert(kind);
    }
  }
  return found;
}

}  // namespace

std::vector<Save> saves_of(const View& view, TrackId track, bool is_driver) {
  std::vector<Group> groups = GroupFinder(view, track).find();
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [&](const Group& group) { return !may_be_save(group, is_driver); }),
               groups.end());
  std::unordered_set<uint64_t> unnamed;
  for (const Group& group : groups) {
    if (!group.is_named) unnamed.insert(group.kinds.begin(), group.kinds.end());
  }
  // What is written and read is data that is made, or a cache. A state is read at the next start.
  const std::unordered_set<uint64_t> data =
      unnamed.empty() ? std::unordered_set<uint64_t>() : read_kinds(view, unnamed);
  std::vector<Save> saves;
  int64_t unnamed_ns = 0;
  for (const Group& group : groups) {
    const bool is_data =
        !group.is_named && std::any_of(group.kinds.begin(), group.kinds.end(),
                                       [&](uint64_t kind) { return data.count(kind) > 0; });
    if (is_data) continue;
    if (!group.is_named) unnamed_ns += group.save.end_ns - group.save.begin_ns;
    saves.push_back(group.save);
  }
  // Who only writes makes data: a save interrupts something.
  const auto rows = view.recording().rows(track);
  if (rows.first < rows.last) {
    const int64_t life_ns =
        view.recording().start(rows.last - 1) - view.recording().start(rows.first);
    if (unnamed_ns * 10 > life_ns * 9) saves.clear();
  }
  return saves;
}

}  // namespace forebay::explain

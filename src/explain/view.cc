#include "explain/view.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "explain/cpu_use.h"
#include "trace/facts.h"

namespace forebay::explain {

using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::TrackId;
using trace::TrackKind;

bool list_has(std::string_view list, int64_t number) {
  for (const std::string_view item : base::split(list, ',')) {
    const size_t dash = item.find('-', 1);
    const auto first = base::parse_int(item.substr(0, dash));
    if (!first.ok()) continue;
    int64_t last = *first;
    if (dash != std::string_view::npos) {
      const auto upper = base::parse_int(item.substr(dash + 1));
      if (upper.ok()) last = *upper;
    }
    if (number >= *first && number <= last) return true;
  }
  return false;
}

View::View(const trace::Recording& recording, const Selection& selection)
    : recording_(recording), selection_(selection) {
  find_keys();
  find_classes();
  for (TrackId id = 0; id < words().tracks.size(); ++id) {
    const TrackKind kind = track(id).kind;
    if (kind == TrackKind::kThread) by_tid_.emplace(track(id).number, id);
    if (!is_selected(id)) continue;
    if (kind == TrackKind::kThread && recording_.rows(id).size() > 0) threads_.push_back(id);
    if (kind == TrackKind::kDevice) devices_.push_back(id);
  }
  find_family();
  find_basis();
}

void View::find_keys() {
  const auto integer = [&](std::string_view text) {
    return recording_.find_key(text, ArgumentType::kInteger);
  };
  const auto text = [&](std::string_view name) {
    return recording_.find_key(name, ArgumentType::kText);
  };
  keys_.bytes = integer(trace::key::kBytes);
  keys_.offset = integer(trace::key::kOffset);
  keys_.file = text(trace::key::kFile);
  keys_.error = integer(trace::key::kError);
  keys_.cache_bytes = integer(trace::key::kCacheBytes);
  keys_.stack = recording_.find_key(trace::key::kStack, ArgumentType::kStack);
  keys_.reason = text(trace::key::kReason);
  keys_.waker = integer("waker");
  keys_.step = integer(trace::key::kStep);
  keys_.count = integer(trace::key::kCount);
  keys_.group = text(trace::key::kGroup);
  keys_.sequence = integer(trace::key::kSequence);
  keys_.value = recording_.find_key(trace::key::kValue, ArgumentType::kReal);
  keys_.child = integer("child");
  keys_.unfinished = integer(trace::key::kUnfinished);
  keys_.queue_ns = integer("queue_ns");
  keys_.tid = integer("tid");
  keys_.correlation = integer(trace::key::kCorrelation);
  keys_.total_ns = integer("total_ns");
  keys_.epoch = integer(trace::key::kEpoch);
  keys_.fetch_ns = integer(trace::key::kFetchNs);
  keys_.prepare_ns = integer(trace::key::kPrepareNs);
}

void View::find_classes() {
  for (const trace::Name& name : words().names) {
    const std::string& text = words().text(name);
    NameClass found;
    if (name.kind == EventKind::kSpan) found = classify(text, name.category);
    classes_.push_back(found);
    const bool may_mark = name.kind == EventKind::kSpan || name.kind == EventKind::kInstant;
    is_step_.push_back(may_mark && (selection_.marks.empty() ? name.category == Category::kStep
                                                             : text == selection_.marks));
  }
  for (const std::string& text : words().texts) files_.push_back(file_class(text));
}

void View::find_family() {
  std::map<int64_t, TrackId> processes;
  for (TrackId id = 0; id < words().tracks.size(); ++id) {
    if (track(id).kind == TrackKind::kProcess) processes.emplace(track(id).number, id);
  }
  for (const TrackId thread : threads_) {
    const auto rows = recording_.rows(thread);
    const auto children = column(keys_.child, thread);
    for (size_t i = 0; i < children.size(); ++i) {
      const auto child = processes.find(children[i]);
      if (child != processes.end() && child->second != process_of(thread)) {
        parents_.emplace(child->second, process_of(thread));
      }
    }
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording_.name(row).kind != EventKind::kSample) continue;
      int64_t& period = periods_[process_of(thread)];
      period = std::max(period, recording_.duration(row));
      if (row - rows.first > 10'000) break;  // one of many says it
    }
  }
}

// Forebay's interposer sees every call that may wait; a loader or an emulator that traces itself
// says what its threads do. Profilers and tracers of I/O leave out what they do not know. So does
// strace: it stops the program at each call, and between two of them it may compute, fault in
// pages, stand without a core or wait for strace itself.
bool View::records_calls(size_t file) const {
  const auto& facts = recording_.files()[file].facts;
  const auto text = [&](std::string_view key) {
    const auto found = facts.find(std::string(key));
    return found == facts.end() ? std::string_view{} : std::string_view(found->second);
  };
  const std::string_view source = text(trace::fact::kSource);
  if (source == "record") return text("collector.io").starts_with("interposer");
  return !source.starts_with("import ");
}

bool View::is_of_strace(size_t file) const {
  const auto& facts = recording_.files()[file].facts;
  const auto found = facts.find(std::string(trace::fact::kSource));
  return found != facts.end() && found->second == "import strace";
}

bool View::sees_calls_only(TrackId thread) const {
  return basis_of(thread) == Basis::kNothing && is_of_strace(recording_.file_of(thread));
}

void View::find_basis() {
  const bool any_off_cpu =
      std::any_of(words().names.begin(), words().names.end(), [](const trace::Name& name) {
        return name.category == Category::kOffCpu && name.kind == EventKind::kSpan;
      });
  // One thread's switches say that the scheduler was recorded for all of its file.
  std::vector<bool> has_scheduler(recording_.files().size(), false);
  for (const TrackId thread : threads_) {
    if (!any_off_cpu || has_scheduler[recording_.file_of(thread)]) continue;
    const auto rows = recording_.rows(thread);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording_.name(row).category != Category::kOffCpu) continue;
      has_scheduler[recording_.file_of(thread)] = true;
      break;
    }
  }
  for (const TrackId thread : threads_) {
    const size_t file = recording_.file_of(thread);
    Basis basis = records_calls(file) ? Basis::kCalls : Basis::kNothing;
    if (has_scheduler[file]) {
      basis = Basis::kScheduler;
    } else if (sample_period(process_of(thread)) > 0) {
      basis = Basis::kSamples;
    } else if (has_cpu_use(*this, thread)) {
      basis = Basis::kUsage;
    }
    bases_.emplace(thread, basis);
    const auto rows = recording_.rows(thread);
    size_t last = rows.last - 1;
    const auto totals = column(keys_.total_ns, thread);
    while (last > rows.first && is_sum(last, thread, totals)) --last;
    int64_t& end = process_ends_.emplace(process_of(thread), INT64_MIN).first->second;
    end = std::max(end, recording_.end(last));
  }
}

std::optional<int64_t> View::lives_until(TrackId thread) const {
  const TrackId process = process_of(thread);
  const auto found = process_ends_.find(process);
  if (process == trace::kNoId || found == process_ends_.end()) return std::nullopt;
  return track(process).number == track(thread).number ? std::optional(found->second)
                                                       : std::nullopt;
}

Basis View::basis_of(TrackId thread) const {
  const auto found = bases_.find(thread);
  return found == bases_.end() ? Basis::kCalls : found->second;
}

bool View::is_selected(TrackId id) const {
  if (!selection_.rank.empty()) {
    const int rank = rank_of(id);
    if (rank < 0 || !list_has(selection_.rank, rank)) return false;
  }
  if (selection_.process.empty()) return true;
  const TrackId process = process_of(id);
  if (process == trace::kNoId) return false;
  if (std::to_string(track(process).number) == selection_.process) return true;
  return words().text(track(process)).find(selection_.process) != std::string::npos;
}

int View::rank_of(TrackId id) const {
  for (; id != trace::kNoId; id = track(id).parent) {
    if (track(id).rank >= 0) return track(id).rank;
  }
  return -1;
}

uint32_t View::parent_process(TrackId process) const {
  const auto found = parents_.find(process);
  return found == parents_.end() ? kNone : found->second;
}

TrackId View::thread_by_tid(int64_t tid, TrackId near) const {
  TrackId best = trace::kNoId;
  const auto [first, last] = by_tid_.equal_range(tid);
  for (auto found = first; found != last; ++found) {
    const bool same_host = recording_.ancestor(found->second, TrackKind::kHost) ==
                           recording_.ancestor(near, TrackKind::kHost);
    if (same_host || best == trace::kNoId) best = found->second;
  }
  return best;
}

int64_t View::sample_period(TrackId process) const {
  const auto found = periods_.find(process);
  return found == periods_.end() ? 0 : found->second;
}

}  // namespace forebay::explain

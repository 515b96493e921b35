#include "report/flame.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/blob.h"
#include "trace/lanes.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using trace::EventKind;
using trace::Recording;

// A stack seen on one track.
struct Entry {
  trace::TrackId track = 0;
  uint32_t stack = 0;
  int64_t ns = 0;
  uint64_t count = 0;
};

// Adds up by (track, stack).
class Entries {
 public:
  void add(trace::TrackId track, uint32_t stack, int64_t ns, uint64_t count = 1) {
    const uint64_t key = static_cast<uint64_t>(track) << 32 | stack;
    const auto [it, is_new] = places_.try_emplace(key, all_.size());
    if (is_new) all_.push_back({track, stack, 0, 0});
    all_[it->second].ns += ns;
    all_[it->second].count += count;
  }
  // The heaviest first; of equal ones in a stable order.
  std::vector<Entry> take() {
    std::sort(all_.begin(), all_.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(-a.ns, a.track, a.stack) < std::tuple(-b.ns, b.track, b.stack);
    });
    return std::move(all_);
  }

 private:
  std::vector<Entry> all_;
  std::unordered_map<uint64_t, size_t> places_;
};

// What is shown of a frame without a symbol: module and offset.
std::string text_of(const Recording& recording, const trace::Frame& frame) {
  const std::string& symbol = recording.dictionary().text(frame.symbol);
  if (!symbol.empty()) return symbol;
  std::string_view module = recording.dictionary().text(frame.module);
  module = module.substr(module.find_last_of('/') + 1);
  return fmt::format("{}+0x{:x}", module.empty() ? "?" : module, frame.offset);
}

Json frame_json(const Recording& recording, const trace::Frame& frame, BlobTexts& texts) {
  static constexpr std::array<const char*, trace::kFrameKinds> kKinds{"native", "kernel", "python",
                                                                      "unknown"};
  return {texts.id(text_of(recording, frame)), texts.id(recording.dictionary().text(frame.module)),
          kKinds[static_cast<size_t>(frame.kind)], frame.line};
}

// Numbers anew those stacks and frames that are used, callers before what they call. What a frame's
// number means is known to `make_frame` alone.
template <class MakeFrame>
class FlameWriter {
 public:
  FlameWriter(const Recording& recording, const std::vector<trace::Stack>& stacks,
              uint64_t stacks_max, MakeFrame make_frame)
      : recording_(recording),
        stacks_(stacks),
        stacks_max_(stacks_max),
        make_frame_(make_frame),
        new_ids_(stacks.size(), trace::kNoId) {}

  Flame write(const char* kind, const std::vector<Entry>& entries) {
    Flame flame;
    std::vector<Entry> kept;
    for (Entry entry : entries) {
      if (callers_.size() + missing(entry.stack) > stacks_max_) {
        flame.left_out_ns += entry.ns;
        continue;
      }
      entry.stack = number(entry.stack);
      kept.push_back(entry);
    }
    flame.stacks = callers_.size();
    if (kept.empty()) return flame;
    flame.blob = make_blob(header(kind, kept, flame), columns_);
    return flame;
  }

 private:
  uint64_t missing(uint32_t stack) const {
    uint64_t count = 0;
    for (; stack != trace::kNoId && new_ids_[stack] == trace::kNoId; stack = stacks_[stack].caller)
      ++count;
    return count;
  }

  uint32_t number(uint32_t stack) {
    std::vector<uint32_t> path;
    for (; stack != trace::kNoId && new_ids_[stack] == trace::kNoId; stack = stacks_[stack].caller)
      path.push_back(stack);
    uint32_t at = stack == trace::kNoId ? trace::kNoId : new_ids_[stack];
    for (size_t i = path.size(); i-- > 0;) {
      new_ids_[path[i]] = static_cast<uint32_t>(callers_.size());
      callers_.push_back(at);
      frames_of_.push_back(frame_id(stacks_[path[i]].frame));
      at = new_ids_[path[i]];
    }
    return at;
  }

  size_t frame_id(uint32_t frame) {
    const auto [it, is_new] = frame_ids_.try_emplace(frame, frame_ids_.size());
    if (is_new) frames_.push_back(make_frame_(frame, texts_));
    return it->second;
  }

  Json header(const char* kind, const std::vector<Entry>& kept, const Flame& flame) {
    Json lengths = Json::array();
    // 0: no caller; else how many stacks before this one the caller stands.
    for (size_t i = 0; i < callers_.size(); ++i)
      columns_.put(callers_[i] == trace::kNoId ? 0 : i - callers_[i]);
    lengths.push_back(columns_.end_column());
    for (const size_t frame : frames_of_) columns_.put(frame);
    lengths.push_back(columns_.end_column());
    std::map<trace::TrackId, size_t> track_ids;
    Json tracks = Json::array();
    for (const Entry& entry : kept) {
      const auto [it, is_new] = track_ids.try_emplace(entry.track, track_ids.size());
      if (is_new) tracks.push_back(texts_.id(recording_.track_path(entry.track)));
      columns_.put(it->second);
    }
    lengths.push_back(columns_.end_column());
    for (const Entry& entry : kept) columns_.put(entry.stack);
    lengths.push_back(columns_.end_column());
    for (const Entry& entry : kept)
      columns_.put(static_cast<uint64_t>(std::max<int64_t>(0, entry.ns)));
    lengths.push_back(columns_.end_column());
    for (const Entry& entry : kept) columns_.put(entry.count);
    lengths.push_back(columns_.end_column());
    return Json{{"version", 1},
                {"kind", kind},
                {"stacks", callers_.size()},
                {"entries", kept.size()},
                {"left_out_ns", flame.left_out_ns},
                {"frames", std::move(frames_)},
                {"tracks", std::move(tracks)},
                {"lengths", std::move(lengths)},
                {"texts", texts_.all()}};
  }

  const Recording& recording_;
  const std::vector<trace::Stack>& stacks_;
  uint64_t stacks_max_;
  MakeFrame make_frame_;
  std::vector<uint32_t> new_ids_, callers_;
  std::vector<size_t> frames_of_;
  std::unordered_map<uint32_t, size_t> frame_ids_;
  Json frames_ = Json::array();
  BlobTexts texts_;
  BlobColumns columns_;
};

// Stacks of span names: one for each way down from a track's top that occurs.
class SpanStacks {
 public:
  uint32_t child(uint32_t caller, trace::NameId name) {
    const uint64_t key = static_cast<uint64_t>(caller) << 32 | name;
    const auto [it, is_new] = ids_.try_emplace(key, static_cast<uint32_t>(stacks_.size()));
    if (is_new) stacks_.push_back({caller, name});
    return it->second;
  }
  const std::vector<trace::Stack>& all() const { return stacks_; }

 private:
  std::vector<trace::Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> ids_;
};

struct OpenSpan {
  int64_t end = 0;
  uint32_t stack = 0;
};

void add_spans(const Recording& recording, trace::TrackId track, SpanStacks& stacks,
               Entries& entries) {
  const Recording::Rows rows = recording.rows(track);
  const std::vector<uint32_t> lanes = trace::lanes_of(recording, track);
  std::vector<std::vector<OpenSpan>> open;
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (recording.name(row).kind != EventKind::kSpan) continue;
    const uint32_t lane = lanes[row - rows.first];
    if (lane >= open.size()) open.resize(lane + 1);
    std::vector<OpenSpan>& around = open[lane];
    while (!around.empty() && around.back().end <= recording.start(row)) around.pop_back();
    const uint32_t caller = around.empty() ? trace::kNoId : around.back().stack;
    const uint32_t stack = stacks.child(caller, recording.name_id(row));
    entries.add(track, stack, recording.duration(row));
    if (caller != trace::kNoId) entries.add(track, caller, -recording.duration(row), 0);
    around.push_back({recording.end(row), stack});
  }
}

}  // namespace

Flame make_sample_flame(const Recording& recording, uint64_t stacks_max) {
  const auto key = recording.find_key(trace::key::kStack, trace::ArgumentType::kStack);
  const trace::Dictionary& dictionary = recording.dictionary();
  if (!key) return {};
  Entries entries;
  for (size_t i = 0; i < dictionary.tracks.size(); ++i) {
    const auto track = static_cast<trace::TrackId>(i);
    const auto column = recording.column(*key, track);
    const Recording::Rows rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last && !column.empty(); ++row) {
      const int64_t stack = column[row - rows.first];
      if (recording.name(row).kind != EventKind::kSample || stack == trace::kNoValue) continue;
      entries.add(track, static_cast<uint32_t>(stack), recording.duration(row));
    }
  }
  FlameWriter writer(recording, dictionary.stacks, stacks_max,
                     [&](uint32_t frame, BlobTexts& texts) {
                       return frame_json(recording, dictionary.frames[frame], texts);
                     });
  return writer.write("samples", entries.take());
}

Flame make_span_flame(const Recording& recording, uint64_t stacks_max) {
  const trace::Dictionary& dictionary = recording.dictionary();
  SpanStacks stacks;
  Entries entries;
  for (size_t i = 0; i < dictionary.tracks.size(); ++i) {
    const trace::TrackKind kind = dictionary.tracks[i].kind;
    if (kind == trace::TrackKind::kThread || kind == trace::TrackKind::kStream ||
        kind == trace::TrackKind::kDevice)
      add_spans(recording, static_cast<trace::TrackId>(i), stacks, entries);
  }
  FlameWriter writer(recording, stacks.all(), stacks_max, [&](uint32_t name, BlobTexts& texts) {
    const trace::Name& known = dictionary.names[name];
    return Json{texts.id(dictionary.text(known)), texts.id(trace::category_name(known.category)),
                "span", 0};
  });
  return writer.write("spans", entries.take());
}

}  // namespace forebay::report

#include "report/timeline.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "report/blob.h"
#include "trace/histogram.h"
#include "trace/lanes.h"
#include "trace/varint.h"

namespace forebay::report {
namespace {

using Json = nlohmann::ordered_json;
using trace::EventKind;
using trace::Recording;

constexpr std::array<const char*, trace::kEventKinds> kKinds{"span", "instant", "counter",
                                                             "sample"};

// Events of one track that stand in one row of the page.
struct Row {
  trace::TrackId track = 0;
  EventKind kind = EventKind::kSpan;
  uint32_t lane = 0, depth = 0;  // of spans
  trace::NameId name = 0;        // of a counter
  std::vector<size_t> events;    // rows of the recording, by start
  uint64_t all = 0;              // before thinning
};

// What an event's row is told from the others of its track by.
using RowKey = std::tuple<EventKind, uint32_t, uint32_t, trace::NameId>;

std::vector<Row> rows_of(const Recording& recording, trace::TrackId track) {
  const Recording::Rows rows = recording.rows(track);
  const std::vector<uint32_t> lanes = trace::lanes_of(recording, track);
  std::map<RowKey, Row> by_key;
  std::vector<std::vector<int64_t>> open;  // by lane: ends of the spans around, outer first
  for (size_t row = rows.first; row < rows.last; ++row) {
    const EventKind kind = recording.name(row).kind;
    RowKey key{kind, 0, 0, 0};
    if (kind == EventKind::kSpan) {
      const uint32_t lane = lanes[row - rows.first];
      if (lane >= open.size()) open.resize(lane + 1);
      std::vector<int64_t>& ends = open[lane];
      while (!ends.empty() && ends.back() <= recording.start(row)) ends.pop_back();
      key = {kind, lane, static_cast<uint32_t>(ends.size()), 0};
      ends.push_back(recording.end(row));
    } else if (kind == EventKind::kCounter) {
      std::get<3>(key) = recording.name_id(row);
    }
    Row& into = by_key[key];
    into.events.push_back(row);
  }
  std::vector<Row> found;
  for (auto& [key, row] : by_key) {
    row.track = track;
    std::tie(row.kind, row.lane, row.depth, row.name) = key;
    row.all = row.events.size();
    found.push_back(std::move(row));
  }
  return found;
}

// Of every piece of `events` with about equal numbers, `pick` appends what stays.
template <class Pick>
void thin(std::vector<size_t>& events, size_t pieces, Pick pick) {
  std::vector<size_t> kept;
  const size_t count = events.size();
  for (size_t piece = 0; piece < pieces; ++piece) {
    const size_t first = count * piece / pieces, last = count * (piece + 1) / pieces;
    if (first < last) pick(std::span<const size_t>(events).subspan(first, last - first), kept);
  }
  events = std::move(kept);
}

class Builder {
 public:
  Builder(const Recording& recording, const TimelineOptions& options)
      : recording_(recording), options_(options) {
    if (const auto key = recording.find_key(trace::key::kValue, trace::ArgumentType::kReal))
      value_key_ = *key;
  }

  Timeline build() {
    const size_t tracks = recording_.dictionary().tracks.size();
    for (size_t track = 0; track < tracks; ++track)
      for (Row& row : rows_of(recording_, static_cast<trace::TrackId>(track)))
        rows_.push_back(std::move(row));
    Timeline timeline;
    timeline.events = recording_.size();
    if (timeline.events > options_.events_max) thin_rows();
    Json rows = Json::array();
    for (const Row& row : rows_) {
      timeline.kept += row.events.size();
      rows.push_back(row_json(row));
    }
    Json header{{"version", 1},
                {"duration_ns", recording_.end_ns() - recording_.begin_ns()},
                {"events", timeline.events},
                {"kept", timeline.kept}};
    header["categories"] = Json::array();
    for (int i = 0; i < trace::kCategories; ++i)
      header["categories"].push_back(trace::category_name(static_cast<trace::Category>(i)));
    header["tracks"] = tracks_json();
    header["names"] = std::move(names_);
    header["keys"] = std::move(keys_);
    header["rows"] = std::move(rows);
    header["histograms"] = histograms_json();
    header["texts"] = texts_.all();
    timeline.blob = make_blob(header, columns_);
    return timeline;
  }

 private:
  void thin_rows() {
    const double share =
        static_cast<double>(options_.events_max) / static_cast<double>(recording_.size());
    for (Row& row : rows_) {
      const auto pieces =
          std::max<size_t>(1, static_cast<size_t>(static_cast<double>(row.events.size()) * share));
      if (row.kind == EventKind::kCounter) {
        thin(row.events, std::max<size_t>(1, pieces / 2),
             [&](std::span<const size_t> piece, std::vector<size_t>& kept) {
               keep_extremes(row, piece, kept);
             });
      } else {
        thin(row.events, pieces, [&](std::span<const size_t> piece, std::vector<size_t>& kept) {
          kept.push_back(*std::max_element(piece.begin(), piece.end(), [&](size_t a, size_t b) {
            return recording_.duration(a) < recording_.duration(b);
          }));
        });
      }
    }
  }

  void keep_extremes(const Row& row, std::span<const size_t> piece,
                     std::vector<size_t>& kept) const {
    const auto [low, high] = std::minmax_element(
        piece.begin(), piece.end(),
        [&](size_t a, size_t b) { return counter_value(row, a) < counter_value(row, b); });
    kept.push_back(std::min(*low, *high));
    if (*low != *high) kept.push_back(std::max(*low, *high));
  }

  double counter_value(const Row& row, size_t event) const {
    if (value_key_ == trace::kNoId) return 0;
    const auto column = recording_.column(value_key_, row.track);
    const int64_t bits = column.empty() ? 0 : column[event - recording_.rows(row.track).first];
    return bits == trace::kNoValue ? 0 : trace::real_value(bits);
  }

  size_t name_of(trace::NameId name) {
    const auto [it, is_new] = name_ids_.try_emplace(name, name_ids_.size());
    if (is_new) {
      const trace::Name& known = recording_.dictionary().names[name];
      names_.push_back(
          {texts_.id(recording_.dictionary().text(known)), static_cast<int>(known.category)});
    }
    return it->second;
  }

  size_t key_of(trace::KeyId key) {
    const auto [it, is_new] = key_ids_.try_emplace(key, key_ids_.size());
    if (is_new) {
      static constexpr std::array<const char*, trace::kArgumentTypes> kTypes{"integer", "real",
                                                                             "text", "stack"};
      const trace::Key& known = recording_.dictionary().keys[key];
      keys_.push_back({texts_.id(recording_.dictionary().text(known.text)),
                       kTypes[static_cast<size_t>(known.type)]});
    }
    return it->second;
  }

  // Starts, durations and names; a counter's times and values. Then its arguments.
  Json row_json(const Row& row) {
    Json json{{"track", row.track},         {"kind", kKinds[static_cast<size_t>(row.kind)]},
              {"lane", row.lane},           {"depth", row.depth},
              {"count", row.events.size()}, {"all", row.all}};
    Json lengths = Json::array();
    int64_t before = recording_.begin_ns();
    for (const size_t event : row.events) {
      columns_.put(static_cast<uint64_t>(std::max<int64_t>(0, recording_.start(event) - before)));
      before = row.kind == EventKind::kSpan ? recording_.end(event) : recording_.start(event);
    }
    lengths.push_back(columns_.end_column());
    if (row.kind == EventKind::kCounter) {
      json["name"] = name_of(row.name);
      for (const size_t event : row.events) columns_.put_real(counter_value(row, event));
      lengths.push_back(columns_.end_column());
      json["lengths"] = std::move(lengths);
      return json;
    }
    if (row.kind != EventKind::kInstant) {
      for (const size_t event : row.events)
        columns_.put(static_cast<uint64_t>(recording_.duration(event)));
    }
    lengths.push_back(columns_.end_column());
    for (const size_t event : row.events) columns_.put(name_of(recording_.name_id(event)));
    lengths.push_back(columns_.end_column());
    json["lengths"] = std::move(lengths);
    json["arguments"] = arguments_json(row);
    Json unfinished = Json::array();
    for (size_t i = 0; i < row.events.size(); ++i)
      if (recording_.is_unfinished(row.events[i])) unfinished.push_back(i);
    if (!unfinished.empty()) json["unfinished"] = std::move(unfinished);
    return json;
  }

  // [key, length of its column] for each key that one of the row's events has. Stacks stay out:
  // the flame graph has them.
  Json arguments_json(const Row& row) {
    Json json = Json::array();
    const size_t first = recording_.rows(row.track).first;
    const auto& keys = recording_.dictionary().keys;
    for (size_t key = 0; key < keys.size(); ++key) {
      const auto column = recording_.column(static_cast<trace::KeyId>(key), row.track);
      const trace::ArgumentType type = keys[key].type;
      if (column.empty() || type == trace::ArgumentType::kStack) continue;
      const bool is_used = std::any_of(row.events.begin(), row.events.end(), [&](size_t event) {
        return column[event - first] != trace::kNoValue;
      });
      if (!is_used) continue;
      const size_t id = key_of(static_cast<trace::KeyId>(key));
      for (const size_t event : row.events) put_argument(type, column[event - first]);
      json.push_back({id, columns_.end_column()});
    }
    return json;
  }

  void put_argument(trace::ArgumentType type, int64_t value) {
    if (type == trace::ArgumentType::kReal) {
      columns_.put_real(value == trace::kNoValue ? std::numeric_limits<double>::quiet_NaN()
                                                 : trace::real_value(value));
    } else if (value == trace::kNoValue) {
      columns_.put(0);
    } else if (type == trace::ArgumentType::kText) {
      columns_.put(texts_.id(recording_.dictionary().texts[static_cast<size_t>(value)]) + 1);
    } else {
      columns_.put(trace::zigzag(value) + 1);
    }
  }

  Json tracks_json() {
    Json json = Json::array();
    for (const trace::Track& track : recording_.dictionary().tracks)
      json.push_back({trace::track_kind_name(track.kind),
                      track.parent == trace::kNoId ? -1 : static_cast<int64_t>(track.parent),
                      texts_.id(recording_.dictionary().text(track)), track.number, track.rank});
    return json;
  }

  // Durations of every category, of all events and not only of those that are drawn.
  Json histograms_json() const {
    std::map<trace::Category, trace::Histogram> durations;
    for (size_t row = 0; row < recording_.size(); ++row)
      if (recording_.name(row).kind == EventKind::kSpan)
        durations[recording_.name(row).category].record(
            static_cast<uint64_t>(recording_.duration(row)));
    Json json = Json::array();
    for (const auto& [category, values] : durations) {
      Json one{{"category", static_cast<int>(category)},
               {"count", values.count()},
               {"sum", values.sum()},
               {"min", values.min()},
               {"max", values.max()},
               {"p50", values.percentile(50)},
               {"p90", values.percentile(90)},
               {"p99", values.percentile(99)}};
      Json& buckets = one["buckets"] = Json::array();
      for (const auto& bucket : values.buckets())
        buckets.push_back({bucket.low, bucket.high, bucket.count});
      json.push_back(std::move(one));
    }
    return json;
  }

  const Recording& recording_;
  const TimelineOptions& options_;
  trace::KeyId value_key_ = trace::kNoId;
  std::vector<Row> rows_;
  BlobColumns columns_;
  BlobTexts texts_;
  std::map<trace::NameId, size_t> name_ids_;
  std::map<trace::KeyId, size_t> key_ids_;
  Json names_ = Json::array(), keys_ = Json::array();
};

}  // namespace

Timeline make_timeline(const Recording& recording, const TimelineOptions& options) {
  return Builder(recording, options).build();
}

}  // namespace forebay::report

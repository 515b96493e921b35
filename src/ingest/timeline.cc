#include "ingest/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "trace/varint.h"

namespace forebay::ingest {
namespace {

using trace::EventKind;
using trace::kUnfinished;
using trace::put_varint;
using trace::unzigzag;
using trace::zigzag;

constexpr size_t kBlockBytes = 64 << 10;
constexpr uint64_t kRowsAtOnce = 512 << 10;
constexpr int64_t kTimeMax = int64_t{1} << 61;  // 73 years either way: ends never overflow
constexpr size_t kLanesMax = 256;               // more overlap than anyone can look at

// Differences wrap around: times and ids of damaged files may be anything.
int64_t difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Of bytes that this file wrote itself: always whole.
uint64_t take(const std::byte*& at) {
  uint64_t value = static_cast<uint64_t>(*at & std::byte{0x7f});
  for (int shift = 7; (*at++ & std::byte{0x80}) != std::byte{0}; shift += 7) {
    value |= static_cast<uint64_t>(*at & std::byte{0x7f}) << shift;
  }
  return value;
}

}  // namespace

void Timeline::add(const trace::Event& event, EventKind kind,
                   std::span<const trace::Argument> arguments) {
  if (event.start_ns < -kTimeMax || event.start_ns > kTimeMax || event.duration_ns < kUnfinished ||
      event.duration_ns > kTimeMax) {
    account_.skip("time out of range");
    return;
  }
  if (event.track >= tracks_.size()) tracks_.resize(event.track + 1);
  Gathered& gathered = tracks_[event.track];
  if (gathered.blocks.empty() || gathered.blocks.back().bytes.size() >= kBlockBytes) {
    if (!gathered.blocks.empty()) gathered.blocks.back().bytes.shrink_to_fit();
    gathered.blocks.emplace_back();
    gathered.last_start = 0;
    gathered.last_values.assign(gathered.last_values.size(), 0);
  }
  Block& block = gathered.blocks.back();
  put_varint(block.bytes, zigzag(difference(event.start_ns, gathered.last_start)));
  put_varint(block.bytes, static_cast<uint64_t>(event.duration_ns + 1));
  put_varint(block.bytes, uint64_t{event.name} << 2 | static_cast<uint64_t>(kind));
  put_varint(block.bytes, arguments.size());
  for (const trace::Argument& argument : arguments) {
    if (argument.key >= gathered.last_values.size()) gathered.last_values.resize(argument.key + 1);
    int64_t& last = gathered.last_values[argument.key];
    put_varint(block.bytes, argument.key);
    put_varint(block.bytes, zigzag(difference(argument.value, last)));
    last = argument.value;
  }
  gathered.last_start = event.start_ns;
  block.start_min = std::min(block.start_min, event.start_ns);
  block.start_max = std::max(block.start_max, event.start_ns);
  ++block.count;
  ++gathered.count;
}

// Appends the block's events that start from `from` on and before `to` (INT64_MAX: to the end).
void Timeline::unpack(const Block& block, int64_t from, int64_t to, Unpacked& out) {
  const std::byte* at = block.bytes.data();
  int64_t start = 0;
  std::vector<int64_t> last_values;
  for (uint32_t i = 0; i < block.count; ++i) {
    Row row;
    start = sum(start, unzigzag(take(at)));
    row.start = start;
    row.duration = static_cast<int64_t>(take(at)) - 1;
    const uint64_t name = take(at);
    row.name = static_cast<trace::NameId>(name >> 2);
    row.kind = static_cast<EventKind>(name & 3);
    row.argument_first = static_cast<uint32_t>(out.arguments.size());
    row.argument_count = static_cast<uint16_t>(take(at));
    for (uint16_t k = 0; k < row.argument_count; ++k) {
      const auto key = static_cast<trace::KeyId>(take(at));
      if (key >= last_values.size()) last_values.resize(key + 1);
      last_values[key] = sum(last_values[key], unzigzag(take(at)));
      out.arguments.push_back({key, last_values[key]});
    }
    const bool is_wanted = start >= from && (start < to || to == INT64_MAX);
    if (is_wanted) {
      out.rows.push_back(row);
    } else {
      out.arguments.resize(row.argument_first);
    }
  }
}

// Where to cut a track's time so that each part fits the memory that sorting may take.
std::vector<int64_t> Timeline::parts(const Gathered& gathered) const {
  if (gathered.count <= kRowsAtOnce) return {INT64_MIN, INT64_MAX};
  constexpr size_t kSampleEvery = 64;
  std::vector<int64_t> starts;
  starts.reserve(gathered.count / kSampleEvery + 1);
  size_t number = 0;
  Unpacked unpacked;
  for (const Block& block : gathered.blocks) {
    unpacked.rows.clear();
    unpacked.arguments.clear();
    unpack(block, INT64_MIN, INT64_MAX, unpacked);
    for (const Row& row : unpacked.rows) {
      if (number++ % kSampleEvery == 0) starts.push_back(row.start);
    }
  }
  std::sort(starts.begin(), starts.end());
  std::vector<int64_t> cuts{INT64_MIN};
  for (size_t at = kRowsAtOnce / kSampleEvery; at < starts.size();
       at += kRowsAtOnce / kSampleEvery) {
    if (starts[at] > cuts.back()) cuts.push_back(starts[at]);
  }
  cuts.push_back(INT64_MAX);
  return cuts;
}

trace::TrackId Timeline::lane_of(const Row& row, std::vector<Lane>& lanes) {
  if (row.kind != EventKind::kSpan) return lanes[0].track;
  const int64_t end = row.duration == kUnfinished ? INT64_MAX : sum(row.start, row.duration);
  for (Lane& lane : lanes) {
    while (!lane.ends.empty() && lane.ends.back() <= row.start) lane.ends.pop_back();
    if (lane.ends.empty() || lane.ends.back() >= end) {
      lane.ends.push_back(end);
      return lane.track;
    }
  }
  if (lanes.size() == kLanesMax) {
    account_.repair("overlaps beyond 256 lanes: left on the last one");
    return lanes.back().track;
  }
  // No number: files are merged by number, and a lane is not its thread a second time.
  const trace::Track track = writer_.dictionary().tracks[lanes[0].track];
  const std::string text =
      fmt::format("{} ({})", writer_.dictionary().texts[track.text], lanes.size() + 1);
  lanes.push_back({writer_.add_track(track.kind, track.parent, text, -1, track.rank), {end}});
  return lanes.back().track;
}

void Timeline::write_track(trace::TrackId track, Gathered& gathered) {
  std::vector<Lane> lanes{{track, {}}};
  const std::vector<int64_t> cuts = parts(gathered);
  Unpacked unpacked;
  std::vector<uint32_t> order;
  for (size_t part = 0; part + 1 < cuts.size(); ++part) {
    unpacked.rows.clear();
    unpacked.arguments.clear();
    for (Block& block : gathered.blocks) {
      if (block.start_max < cuts[part]) continue;
      if (block.start_min >= cuts[part + 1] && cuts[part + 1] != INT64_MAX) continue;
      unpack(block, cuts[part], cuts[part + 1], unpacked);
      if (block.start_max < cuts[part + 1] || cuts[part + 1] == INT64_MAX) {
        block.bytes = {};
        block.count = 0;
      }
    }
    const std::vector<Row>& rows = unpacked.rows;
    order.resize(rows.size());
    std::iota(order.begin(), order.end(), 0);
    const auto is_before = [&](uint32_t a, uint32_t b) {
      if (rows[a].start != rows[b].start) return rows[a].start < rows[b].start;
      // Unfinished (-1) is the longest.
      return static_cast<uint64_t>(rows[a].duration) > static_cast<uint64_t>(rows[b].duration);
    };
    if (!std::is_sorted(order.begin(), order.end(), is_before)) {
      std::stable_sort(order.begin(), order.end(), is_before);
    }
    for (const uint32_t index : order) {
      const Row& row = rows[index];
      writer_.add({lane_of(row, lanes), row.name, row.start, row.duration},
                  std::span(unpacked.arguments).subspan(row.argument_first, row.argument_count));
    }
  }
}

Status Timeline::write() {
  // Lanes are added to the writer's tracks while this goes on, behind those gathered here.
  for (size_t track = 0; track < tracks_.size(); ++track) {
    if (tracks_[track].count > 0) write_track(static_cast<trace::TrackId>(track), tracks_[track]);
    tracks_[track] = {};
  }
  return writer_.flush();
}

}  // namespace forebay::ingest

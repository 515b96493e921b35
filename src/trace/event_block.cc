#include "trace/event_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "trace/varint.h"

namespace forebay::trace {

namespace {

using Bytes = std::vector<std::byte>;

// How the numbers of a column are written. The numbers are in files.
enum class Coding : uint8_t {
  kRuns = 0,        // (value, how often) pairs
  kPlain = 1,       // varints
  kZigzag = 2,      // signed varints
  kDifference = 3,  // signed varints of the step from the number before
  kWords = 4,       // eight bytes each, the lowest first
};

constexpr uint64_t kColumnTrack = 0, kColumnStart = 1, kColumnDuration = 2, kColumnName = 3;
constexpr uint64_t kColumnFirstKey = 4;

int64_t wrapping_subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

void put_runs(Bytes& out, const std::vector<TrackId>& values) {
  for (size_t first = 0; first < values.size();) {
    size_t last = first;
    while (last < values.size() && values[last] == values[first]) ++last;
    put_varint(out, values[first]);
    put_varint(out, last - first);
    first = last;
  }
}

// Starts count from the event before on the same track, those of a new track from the block's
// first.
void put_starts(Bytes& out, const EventBlock& block) {
  const int64_t origin = *std::min_element(block.starts.begin(), block.starts.end());
  put_varint(out, zigzag(origin));
  int64_t before = origin;
  for (size_t row = 0; row < block.size(); ++row) {
    if (row > 0 && block.tracks[row] != block.tracks[row - 1]) before = origin;
    put_varint(out, static_cast<uint64_t>(wrapping_subtract(block.starts[row], before)));
    before = block.starts[row];
  }
}

// Rows that have a value: pairs of (rows without, rows with).
void put_presence(Bytes& out, const std::vector<uint32_t>& rows) {
  uint32_t next = 0;
  for (size_t first = 0; first < rows.size();) {
    size_t last = first + 1;
    while (last < rows.size() && rows[last] == rows[last - 1] + 1) ++last;
    put_varint(out, rows[first] - next);
    put_varint(out, last - first);
    next = rows[last - 1] + 1;
    first = last;
  }
}

Coding shortest_coding(const std::vector<int64_t>& values) {
  size_t zigzags = 0, differences = 0;
  int64_t before = 0;
  for (const int64_t value : values) {
    zigzags += varint_size(zigzag(value));
    differences += varint_size(zigzag(wrapping_subtract(value, before)));
    before = value;
  }
  if (8 * values.size() <= std::min(zigzags, differences)) return Coding::kWords;
  return differences < zigzags ? Coding::kDifference : Coding::kZigzag;
}

void put_values(Bytes& out, Coding coding, const std::vector<int64_t>& values) {
  int64_t before = 0;
  for (const int64_t value : values) {
    switch (coding) {
      case Coding::kDifference:
        put_varint(out, zigzag(wrapping_subtract(value, before)));
        break;
      case Coding::kWords:
        for (int shift = 0; shift < 64; shift += 8) {
          out.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> shift));
        }
        break;
      default:
        put_varint(out, zigzag(value));
        break;
    }
    before = value;
  }
}

void put_column(Bytes& out, uint64_t column, Coding coding, const Bytes& presence,
                const Bytes& values) {
  put_varint(out, column);
  out.push_back(static_cast<std::byte>(coding));
  put_varint(out, presence.size());
  put_varint(out, values.size());
  out.insert(out.end(), presence.begin(), presence.end());
  out.insert(out.end(), values.begin(), values.end());
}

Error bad(const char* what) {
  return fail(ErrorCode::kCorruption, "events: {}", what);
}

Status get_tracks(VarintReader& in, size_t rows, EventBlock& block) {
  block.tracks.reserve(rows);
  while (block.tracks.size() < rows) {
    const uint64_t track = in.next(), count = in.next();
    if (in.is_bad() || track >= kNoId || count == 0 || count > rows - block.tracks.size()) {
      return bad("the column of tracks is not what it should be");
    }
    block.tracks.insert(block.tracks.end(), static_cast<size_t>(count),
                        static_cast<TrackId>(track));
  }
  return {};
}

Status get_starts(VarintReader& in, EventBlock& block) {
  const int64_t origin = unzigzag(in.next());
  int64_t before = origin;
  block.starts.reserve(block.tracks.size());
  for (size_t row = 0; row < block.tracks.size(); ++row) {
    if (row > 0 && block.tracks[row] != block.tracks[row - 1]) before = origin;
    const auto step = static_cast<int64_t>(in.next());
    if (step < 0) return bad("the start of an event lies before the one before it");
    before = wrapping_add(before, step);
    block.starts.push_back(before);
  }
  return {};
}

Status get_durations(VarintReader& in, EventBlock& block) {
  block.durations.reserve(block.tracks.size());
  for (size_t row = 0; row < block.tracks.size(); ++row) {
    const int64_t duration = wrapping_subtract(static_cast<int64_t>(in.next()), 1);
    if (duration < kUnfinished) return bad("a duration is negative");
    block.durations.push_back(duration);
  }
  return {};
}

Status get_names(VarintReader& in, EventBlock& block) {
  block.names.reserve(block.tracks.size());
  for (size_t row = 0; row < block.tracks.size(); ++row) {
    const uint64_t name = in.next();
    if (name >= kNoId) return bad("a name's number is too large");
    block.names.push_back(static_cast<NameId>(name));
  }
  return {};
}

Status get_presence(VarintReader in, size_t rows, std::vector<uint32_t>& out) {
  uint64_t next = 0;
  while (!in.at_end()) {
    const uint64_t without = in.next(), with = in.next();
    if (in.is_bad() || with == 0 || without > rows - next || with > rows - next - without) {
      return bad("a column has values for rows that there are not");
    }
    next += without;
    for (uint64_t i = 0; i < with; ++i) out.push_back(static_cast<uint32_t>(next + i));
    next += with;
  }
  return {};
}

Status get_values(VarintReader& in, Coding coding, size_t count, std::vector<int64_t>& out) {
  out.reserve(count);
  int64_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    if (coding == Coding::kWords) {
      const auto word = in.take(8);
      uint64_t value = 0;
      for (size_t byte = 0; byte < word.size(); ++byte) {
        value |= static_cast<uint64_t>(word[byte]) << (8 * byte);
      }
      out.push_back(static_cast<int64_t>(value));
    } else {
      const int64_t value = unzigzag(in.next());
      before = coding == Coding::kDifference ? wrapping_add(before, value) : value;
      out.push_back(before);
    }
  }
  return {};
}

Status get_argument(uint64_t column, Coding coding, std::span<const std::byte> presence,
                    VarintReader& values, EventBlock& block) {
  const uint64_t key = column - kColumnFirstKey;
  if (key >= kNoId) return bad("a key's number is too large");
  if (coding < Coding::kZigzag || coding > Coding::kWords) return bad("an unknown coding");
  for (const ArgumentColumn& known : block.arguments) {
    if (known.key == key) return bad("a key has two columns");
  }
  ArgumentColumn argument;
  argument.key = static_cast<KeyId>(key);
  FB_TRY(get_presence(VarintReader(presence), block.tracks.size(), argument.rows));
  FB_TRY(get_values(values, coding, argument.rows.size(), argument.values));
  block.arguments.push_back(std::move(argument));
  return {};
}

template <class T>
void reorder(std::vector<T>& values, const std::vector<uint32_t>& order) {
  std::vector<T> sorted;
  sorted.reserve(values.size());
  for (const uint32_t row : order) sorted.push_back(values[row]);
  values.swap(sorted);
}

// Gives each value its row's new place, and puts them in order again.
void reorder(ArgumentColumn& column, const std::vector<uint32_t>& place, size_t rows) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> at(rows, kNone);
  for (size_t i = 0; i < column.rows.size(); ++i) {
    at[place[column.rows[i]]] = static_cast<uint32_t>(i);
  }
  ArgumentColumn sorted;
  sorted.rows.reserve(column.rows.size());
  sorted.values.reserve(column.rows.size());
  for (uint32_t row = 0; row < rows; ++row) {
    if (at[row] == kNone) continue;
    sorted.rows.push_back(row);
    sorted.values.push_back(column.values[at[row]]);
  }
  column.rows.swap(sorted.rows);
  column.values.swap(sorted.values);
}

}  // namespace

void EventBlock::add(const Event& event, std::span<const Argument> values) {
  const auto row = static_cast<uint32_t>(size());
  tracks.push_back(event.track);
  names.push_back(event.name);
  starts.push_back(event.start_ns);
  durations.push_back(event.duration_ns);
  for (const Argument& value : values) {
    const auto found = std::find_if(arguments.begin(), arguments.end(),
                                    [&](const ArgumentColumn& c) { return c.key == value.key; });
    ArgumentColumn& column = found == arguments.end()
                                 ? arguments.emplace_back(ArgumentColumn{value.key, {}, {}})
                                 : *found;
    if (!column.rows.empty() && column.rows.back() == row) {
      column.values.back() = value.value;  // given twice: the later one counts
    } else {
      column.rows.push_back(row);
      column.values.push_back(value.value);
    }
  }
}

void EventBlock::clear() {
  tracks.clear();
  names.clear();
  starts.clear();
  durations.clear();
  for (ArgumentColumn& column : arguments) {
    column.rows.clear();
    column.values.clear();
  }
}

void sort(EventBlock& block) {
  const auto before = [&](uint32_t a, uint32_t b) {
    if (block.tracks[a] != block.tracks[b]) return block.tracks[a] < block.tracks[b];
    if (block.starts[a] != block.starts[b]) return block.starts[a] < block.starts[b];
    const auto longest = [&](uint32_t row) {
      return block.durations[row] == kUnfinished ? INT64_MAX : block.durations[row];
    };
    return longest(a) > longest(b);
  };
  std::vector<uint32_t> order(block.size());
  std::iota(order.begin(), order.end(), 0u);
  if (std::is_sorted(order.begin(), order.end(), before)) return;
  std::stable_sort(order.begin(), order.end(), before);
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  reorder(block.tracks, order);
  reorder(block.names, order);
  reorder(block.starts, order);
  reorder(block.durations, order);
  for (ArgumentColumn& column : block.arguments) reorder(column, place, order.size());
}

std::vector<std::byte> encode(const EventBlock& block) {
  Bytes out;
  if (block.size() == 0) return out;
  Bytes values;
  put_runs(values, block.tracks);
  put_column(out, kColumnTrack, Coding::kRuns, {}, values);
  values.clear();
  put_starts(values, block);
  put_column(out, kColumnStart, Coding::kPlain, {}, values);
  values.clear();
  for (const int64_t duration : block.durations) {
    put_varint(values, static_cast<uint64_t>(duration) + 1);
  }
  put_column(out, kColumnDuration, Coding::kPlain, {}, values);
  values.clear();
  for (const NameId name : block.names) put_varint(values, name);
  put_column(out, kColumnName, Coding::kPlain, {}, values);
  for (const ArgumentColumn& column : block.arguments) {
    if (column.rows.empty()) continue;
    const Coding coding = shortest_coding(column.values);
    Bytes presence;
    put_presence(presence, column.rows);
    values.clear();
    put_values(values, coding, column.values);
    put_column(out, kColumnFirstKey + column.key, coding, presence, values);
  }
  return out;
}

Result<EventBlock> decode(std::span<const std::byte> bytes, size_t rows) {
  EventBlock block;
  VarintReader in(bytes);
  for (uint64_t expected = 0; !in.at_end(); ++expected) {
    const uint64_t column = in.next();
    const auto coding_byte = in.take(1);
    const uint64_t presence_bytes = in.next(), values_bytes = in.next();
    const auto presence = in.take(presence_bytes);
    VarintReader values(in.take(values_bytes));
    if (in.is_bad()) return bad("the block is cut short");
    const auto coding = static_cast<Coding>(coding_byte[0]);
    if (expected < kColumnFirstKey ? column != expected : column < kColumnFirstKey) {
      return bad("a column is missing");
    }
    switch (column) {
      case kColumnTrack:
        FB_TRY(get_tracks(values, rows, block));
        break;
      case kColumnStart:
        FB_TRY(get_starts(values, block));
        break;
      case kColumnDuration:
        FB_TRY(get_durations(values, block));
        break;
      case kColumnName:
        FB_TRY(get_names(values, block));
        break;
      default:
        FB_TRY(get_argument(column, coding, presence, values, block));
        break;
    }
    if (values.is_bad() || !values.at_end()) return bad("a column is longer or shorter than said");
  }
  if (block.tracks.size() != rows || block.names.size() != rows) return bad("columns are missing");
  return block;
}

}  // namespace forebay::trace

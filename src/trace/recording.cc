#include "trace/recording.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/median.h"

namespace forebay::trace {

namespace {

// The median of the differences between UNIX time and the file's own.
std::optional<int64_t> unix_offset(const std::vector<ClockPair>& pairs, int64_t& uncertainty_ns) {
  if (pairs.empty()) return std::nullopt;
  std::vector<int64_t> offsets, uncertainties;
  for (const ClockPair& pair : pairs) {
    offsets.push_back(pair.unix_ns - pair.time_ns);
    uncertainties.push_back(pair.uncertainty_ns);
  }
  const int64_t middle = base::median_of(offsets);
  uncertainty_ns = base::median_of(std::move(uncertainties));
  for (const int64_t offset : offsets) {
    uncertainty_ns = std::max(uncertainty_ns, std::abs(offset - middle));
  }
  return middle;
}

}  // namespace

// Puts files together: first their events as they come, then everything in its place.
class RecordingBuilder {
 public:
  Status take(TraceReader& reader, std::string path);
  Recording build();

 private:
  // Numbers of a file's definitions in the whole recording.
  struct Numbers {
    std::vector<uint32_t> texts, tracks, names, keys, frames, stacks;
  };
  struct Part {
    size_t file = 0;
    EventBlock block;
  };

  void number(const Dictionary& from, Numbers& numbers);
  TrackId number_track(const Dictionary& from, const Track& track, const Numbers& numbers);
  void renumber(const Dictionary& from, const Numbers& numbers, EventBlock& block);
  void align();
  void place();
  void place_columns(const std::vector<std::vector<uint32_t>>& targets);
  void order_track(Recording::Rows rows, const std::vector<Recording::Column*>& columns);

  Recording out_;
  DictionaryBuilder dictionary_;
  std::vector<Part> parts_;
  std::unordered_map<std::string, TrackId> known_tracks_;
};

TrackId RecordingBuilder::number_track(const Dictionary& from, const Track& track,
                                       const Numbers& numbers) {
  Track mapped = track;
  mapped.text = numbers.texts[track.text];
  mapped.parent = track.parent == kNoId ? kNoId : numbers.tracks[track.parent];
  const bool is_numbered = track.number >= 0;
  std::string identity(1, static_cast<char>('a' + static_cast<int>(track.kind)));
  identity += std::to_string(mapped.parent) + "/" +
              (is_numbered ? std::to_string(track.number) : from.texts[track.text]);
  const auto [found, is_new] = known_tracks_.emplace(identity, kNoId);
  if (is_new) {
    found->second = dictionary_.add_track(mapped);
    out_.track_files_.push_back(out_.files_.size());
  } else {
    const Track& old = dictionary_.dictionary().tracks[found->second];
    if (!from.texts[track.text].empty() && old.text != mapped.text) {
      dictionary_.rename(found->second, from.texts[track.text]);
    }
    if (track.rank >= 0) dictionary_.set_rank(found->second, track.rank);
  }
  return found->second;
}

// Only what came since the last call. Tracks are taken at the end of a file, when their names and
// ranks are final, and until then by what they are.
void RecordingBuilder::number(const Dictionary& from, Numbers& numbers) {
  while (numbers.texts.size() < from.texts.size()) {
    numbers.texts.push_back(dictionary_.text(from.texts[numbers.texts.size()]));
  }
  while (numbers.tracks.size() < from.tracks.size()) {
    const Track& track = from.tracks[numbers.tracks.size()];
    numbers.tracks.push_back(number_track(from, track, numbers));
  }
  while (numbers.names.size() < from.names.size()) {
    const Name& name = from.names[numbers.names.size()];
    numbers.names.push_back(dictionary_.name(from.texts[name.text], name.category, name.kind));
  }
  while (numbers.keys.size() < from.keys.size()) {
    const Key& key = from.keys[numbers.keys.size()];
    numbers.keys.push_back(dictionary_.key(from.texts[key.text], key.type));
  }
  while (numbers.frames.size() < from.frames.size()) {
    Frame frame = from.frames[numbers.frames.size()];
    frame.symbol = numbers.texts[frame.symbol];
    frame.module = numbers.texts[frame.module];
    frame.build_id = numbers.texts[frame.build_id];
    numbers.frames.push_back(dictionary_.frame(frame));
  }
  while (numbers.stacks.size() < from.stacks.size()) {
    const Stack& stack = from.stacks[numbers.stacks.size()];
    const StackId caller = stack.caller == kNoId ? kNoId : numbers.stacks[stack.caller];
    numbers.stacks.push_back(dictionary_.stack(caller, numbers.frames[stack.frame]));
  }
}

void RecordingBuilder::renumber(const Dictionary& from, const Numbers& numbers, EventBlock& block) {
  for (TrackId& track : block.tracks) track = numbers.tracks[track];
  for (NameId& name : block.names) name = numbers.names[name];
  for (ArgumentColumn& column : block.arguments) {
    const ArgumentType type = from.keys[column.key].type;
    column.key = numbers.keys[column.key];
    if (type != ArgumentType::kText && type != ArgumentType::kStack) continue;
    const auto& ids = type == ArgumentType::kText ? numbers.texts : numbers.stacks;
    for (int64_t& value : column.values) value = ids[static_cast<size_t>(value)];
  }
}

Status RecordingBuilder::take(TraceReader& reader, std::string path) {
  Numbers numbers;
  RecordingFile file;
  file.path = std::move(path);
  while (true) {
    std::optional<EventBlock> block = FB_TRY(reader.next());
    number(reader.dictionary(), numbers);
    if (!block) break;
    renumber(reader.dictionary(), numbers, *block);
    file.events += block->size();
    parts_.push_back({out_.files_.size(), *std::move(block)});
  }
  // Names that threads and processes were given after their first events.
  const Dictionary& from = reader.dictionary();
  for (TrackId id = 0; id < from.tracks.size(); ++id) {
    const Track& track = from.tracks[id];
    if (!from.texts[track.text].empty() && track.number >= 0) {
      dictionary_.rename(numbers.tracks[id], from.texts[track.text]);
    }
    if (track.rank >= 0) dictionary_.set_rank(numbers.tracks[id], track.rank);
  }
  file.facts = reader.facts();
  file.clock = reader.clock();
  file.is_finished = reader.is_finished();
  file.damage = reader.damage();
  file.bytes = reader.bytes_read();
  out_.files_.push_back(std::move(file));
  return {};
}

// Brings the files onto the first one's clock.
void RecordingBuilder::align() {
  std::optional<int64_t> base;
  for (RecordingFile& file : out_.files_) {
    int64_t uncertainty_ns = 0;
    const std::optional<int64_t> offset = unix_offset(file.clock, uncertainty_ns);
    if (!offset) continue;
    if (!base) base = offset;
    file.shift_ns = *offset - *base;
    file.shift_uncertainty_ns = uncertainty_ns;
  }
  for (Part& part : parts_) {
    const int64_t shift = out_.files_[part.file].shift_ns;
    if (shift == 0) continue;
    for (int64_t& start : part.block.starts) start += shift;
  }
}

// A counting sort by track: blocks hold whole runs of one track, and follow each other in time.
void RecordingBuilder::place() {
  const size_t tracks = dictionary_.dictionary().tracks.size();
  std::vector<size_t> next(tracks + 1, 0);
  for (const Part& part : parts_) {
    for (const TrackId track : part.block.tracks) ++next[track + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  out_.rows_.resize(tracks);
  for (size_t track = 0; track < tracks; ++track) {
    out_.rows_[track] = {next[track], next[track + 1]};
  }
  const size_t events = next.back();
  FB_CHECK(events < UINT32_MAX);
  out_.starts_.resize(events);
  out_.durations_.resize(events);
  out_.names_.resize(events);
  std::vector<std::vector<uint32_t>> targets(parts_.size());
  for (size_t number = 0; number < parts_.size(); ++number) {
    EventBlock& block = parts_[number].block;
    std::vector<uint32_t>& target = targets[number];
    target.reserve(block.size());
    for (size_t row = 0; row < block.size(); ++row) {
      const size_t at = next[block.tracks[row]]++;
      target.push_back(static_cast<uint32_t>(at));
      out_.starts_[at] = block.starts[row];
      out_.durations_[at] = block.durations[row];
      out_.names_[at] = block.names[row];
    }
    const std::vector<ArgumentColumn> arguments = std::move(block.arguments);
    block = {};
    block.arguments = arguments;
  }
  place_columns(targets);
}

void RecordingBuilder::place_columns(const std::vector<std::vector<uint32_t>>& targets) {
  std::unordered_map<uint64_t, size_t> known;  // key and track -> column
  for (size_t number = 0; number < parts_.size(); ++number) {
    for (ArgumentColumn& column : parts_[number].block.arguments) {
      TrackId track = kNoId;
      std::vector<int64_t>* values = nullptr;
      for (size_t i = 0; i < column.rows.size(); ++i) {
        const size_t at = targets[number][column.rows[i]];
        if (track == kNoId || at < out_.rows_[track].first || at >= out_.rows_[track].last) {
          track = out_.track(at);
          const auto [found, is_new] =
              known.emplace(uint64_t{column.key} << 32 | track, out_.columns_.size());
          if (is_new) {
            out_.columns_.push_back(
                {column.key, track, std::vector<int64_t>(out_.rows_[track].size(), kNoValue)});
          }
          values = &out_.columns_[found->second].values;
        }
        (*values)[at - out_.rows_[track].first] = column.values[i];
      }
    }
    parts_[number].block = {};
  }
  std::sort(out_.columns_.begin(), out_.columns_.end(),
            [](const Recording::Column& a, const Recording::Column& b) {
              return std::tie(a.key, a.track) < std::tie(b.key, b.track);
            });
}

// Blocks of one track seldom overlap in time; where they do, its rows are put in order.
void RecordingBuilder::order_track(Recording::Rows rows,
                                   const std::vector<Recording::Column*>& columns) {
  const auto before = [&](uint32_t a, uint32_t b) {
    if (out_.starts_[a] != out_.starts_[b]) return out_.starts_[a] < out_.starts_[b];
    const auto longest = [](int64_t d) { return d == kUnfinished ? INT64_MAX : d; };
    return longest(out_.durations_[a]) > longest(out_.durations_[b]);
  };
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(rows.first));
  if (std::is_sorted(order.begin(), order.end(), before)) return;
  std::stable_sort(order.begin(), order.end(), before);
  const auto reorder = [&](auto& values, size_t origin) {
    std::remove_reference_t<decltype(values)> sorted;
    sorted.reserve(order.size());
    for (const uint32_t row : order) sorted.push_back(values[row - origin]);
    std::copy(sorted.begin(), sorted.end(),
              values.begin() + static_cast<std::ptrdiff_t>(rows.first - origin));
  };
  reorder(out_.starts_, 0);
  reorder(out_.durations_, 0);
  reorder(out_.names_, 0);
  for (Recording::Column* column : columns) reorder(column->values, rows.first);
}

Recording RecordingBuilder::build() {
  align();
  out_.dictionary_ = dictionary_.dictionary();
  place();
  std::vector<std::vector<Recording::Column*>> columns(out_.rows_.size());
  for (Recording::Column& column : out_.columns_) columns[column.track].push_back(&column);
  for (size_t track = 0; track < out_.rows_.size(); ++track) {
    order_track(out_.rows_[track], columns[track]);
  }
  out_.find_bounds();
  return std::move(out_);
}

Result<Recording> Recording::read(std::vector<std::unique_ptr<TraceReader>> readers,
                                  std::vector<std::string> paths) {
  RecordingBuilder builder;
  for (size_t i = 0; i < readers.size(); ++i) FB_TRY(builder.take(*readers[i], paths[i]));
  return builder.build();
}

Result<Recording> Recording::load(std::span<const std::string> paths) {
  std::vector<std::unique_ptr<TraceReader>> readers;
  for (const std::string& path : paths) {
    readers.push_back(FB_TRY(TraceReader::open_file(path)));
  }
  return read(std::move(readers), {paths.begin(), paths.end()});
}

TrackId Recording::track(size_t row) const {
  const auto after = std::upper_bound(rows_.begin(), rows_.end(), row,
                                      [](size_t at, const Rows& rows) { return at < rows.last; });
  return static_cast<TrackId>(after - rows_.begin());
}

std::optional<KeyId> Recording::find_key(std::string_view text, ArgumentType type) const {
  for (KeyId key = 0; key < dictionary_.keys.size(); ++key) {
    if (dictionary_.keys[key].type == type &&
        dictionary_.texts[dictionary_.keys[key].text] == text) {
      return key;
    }
  }
  return std::nullopt;
}

std::span<const int64_t> Recording::column(KeyId key, TrackId track) const {
  const auto found =
      std::lower_bound(columns_.begin(), columns_.end(), std::pair(key, track),
                       [](const Column& column, const std::pair<KeyId, TrackId>& wanted) {
                         return std::pair(column.key, column.track) < wanted;
                       });
  if (found == columns_.end() || found->key != key || found->track != track) return {};
  return found->values;
}

TrackId Recording::ancestor(TrackId track, TrackKind kind) const {
  while (track != kNoId && dictionary_.tracks[track].kind != kind) {
    track = dictionary_.tracks[track].parent;
  }
  return track;
}

std::string Recording::track_path(TrackId track) const {
  const Track& here = dictionary_.tracks[track];
  std::string text = dictionary_.texts[here.text];
  const std::string number = here.number >= 0 ? std::to_string(here.number) : "";
  // "GPU 0" has said it already.
  if (!number.empty() && !text.ends_with(" " + number)) text += (text.empty() ? "" : " ") + number;
  return here.parent == kNoId ? text : track_path(here.parent) + " / " + text;
}

void Recording::shift(size_t file, int64_t by_ns) {
  for (TrackId track = 0; track < rows_.size(); ++track) {
    if (track_files_[track] != file) continue;
    for (size_t row = rows_[track].first; row < rows_[track].last; ++row) starts_[row] += by_ns;
  }
  files_[file].shift_ns += by_ns;
  find_bounds();
}

std::optional<std::string_view> Recording::fact(std::string_view key) const {
  for (const RecordingFile& file : files_) {
    if (const auto found = file.facts.find(std::string(key)); found != file.facts.end()) {
      return found->second;
    }
  }
  return std::nullopt;
}

void Recording::find_bounds() {
  begin_ns_ = end_ns_ = 0;
  if (starts_.empty()) return;
  begin_ns_ = INT64_MAX;
  end_ns_ = INT64_MIN;
  for (size_t row = 0; row < starts_.size(); ++row) {
    begin_ns_ = std::min(begin_ns_, starts_[row]);
    end_ns_ = std::max(end_ns_, starts_[row] + std::max<int64_t>(durations_[row], 0));
  }
}

}  // namespace forebay::trace

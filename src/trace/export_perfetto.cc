// Perfetto's own format: TracePacket protobufs with interned names. Field numbers are those of
// protos/perfetto/trace/*.proto, https://perfetto.dev/docs/reference/trace-packet-proto.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/export.h"
#include "trace/export_text.h"
#include "trace/lanes.h"
#include "trace/protobuf.h"

namespace forebay::trace {

namespace {

namespace packet {
constexpr int kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11,
              kInternedData = 12, kSequenceFlags = 13, kTrackDescriptor = 60, kPerfSample = 66;
}
namespace event {
constexpr int kCategoryIds = 3, kAnnotations = 4, kType = 9, kNameId = 10, kTrack = 11,
              kDoubleValue = 44;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4;
}  // namespace event
namespace descriptor {
constexpr int kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
}
namespace interned {
constexpr int kCategories = 1, kNames = 2, kAnnotationNames = 3, kFunctions = 5, kFrames = 6,
              kCallstacks = 7, kMappingPaths = 17, kMappings = 19;
}

// Ids in the file are ours + 1, because 0 means none there.
uint64_t id_of(uint64_t number) {
  return number + 1;
}

class PerfettoExport {
 public:
  PerfettoExport(const Recording& recording, const TextSink& sink)
      : recording_(recording), dictionary_(recording.dictionary()), out_(sink) {}

  Status write() {
    origin_ns_ = std::min<int64_t>(0, recording_.begin_ns());
    write_start();
    for (TrackId track = 0; track < dictionary_.tracks.size(); ++track) {
      if (recording_.rows(track).size() > 0) write_track(track);
    }
    return out_.finish();
  }

 private:
  void write_packet(Message& message) {
    message.number(packet::kSequence, 1);
    Message file;
    file.message(1, message);
    out_.write(file.bytes());
  }

  // Times are those of the host's boot clock as far as Perfetto is concerned.
  uint64_t time(int64_t ns) const {
    return static_cast<uint64_t>(ns) - static_cast<uint64_t>(origin_ns_);
  }

  void write_start() {
    Message first;
    first.number(packet::kSequenceFlags, 1);  // nothing before this counts
    if (!recording_.files().empty() && !recording_.files()[0].clock.empty()) {
      const ClockPair& pair = recording_.files()[0].clock[0];
      Message snapshot;
      for (const auto& [clock, ns] :
           {std::pair<uint64_t, uint64_t>{6, time(pair.time_ns)},
            {1, static_cast<uint64_t>(std::max<int64_t>(0, pair.unix_ns))}}) {
        Message reading;
        reading.number(1, clock);
        reading.number(2, ns);
        snapshot.message(1, reading);
      }
      first.message(packet::kClockSnapshot, snapshot);
    }
    write_packet(first);
  }

  // The row that a lane of a track is, with what stands above it. Uuids: 1 + track, lanes after.
  uint64_t uuid(TrackId track, uint32_t lane) const {
    return id_of(track + uint64_t{lane} * dictionary_.tracks.size());
  }

  void describe(TrackId track, uint32_t lane) {
    if (!described_.insert(uuid(track, lane)).second) return;
    const Track& here = dictionary_.tracks[track];
    if (here.parent != kNoId) describe(here.parent, 0);
    Message description;
    description.number(descriptor::kUuid, uuid(track, lane));
    const std::string& text = dictionary_.text(here);
    const TrackId process = recording_.ancestor(track, TrackKind::kProcess);
    if (lane == 0 && here.kind == TrackKind::kProcess) {
      Message details;
      details.number(1, static_cast<uint64_t>(std::max<int64_t>(0, here.number)));
      details.text(6, text);
      description.message(descriptor::kProcess, details);
    } else if (lane == 0 && here.kind == TrackKind::kThread && process != kNoId &&
               here.number >= 0) {
      Message details;
      details.number(
          1, static_cast<uint64_t>(std::max<int64_t>(0, dictionary_.tracks[process].number)));
      details.number(2, static_cast<uint64_t>(here.number));
      details.text(5, text);
      description.message(descriptor::kThread, details);
    } else {
      std::string name = here.number >= 0 ? text + " " + std::to_string(here.number) : text;
      if (lane > 0) name += " (" + std::to_string(lane + 1) + ")";
      description.text(descriptor::kName, name);
    }
    if (lane > 0) {
      description.number(descriptor::kParent, uuid(track, 0));
    } else if (here.parent != kNoId) {
      description.number(descriptor::kParent, uuid(here.parent, 0));
    }
    Message message;
    message.message(packet::kTrackDescriptor, description);
    write_packet(message);
  }

  // A counter is a track of its own below the one it belongs to.
  uint64_t describe_counter(TrackId track, NameId name) {
    const auto [found, is_new] =
        counters_.emplace(uint64_t{track} << 32 | name, kCountersFrom + counters_.size());
    if (is_new) {
      Message description;
      description.number(descriptor::kUuid, found->second);
      description.text(descriptor::kName, dictionary_.text(dictionary_.names[name]));
      description.number(descriptor::kParent, uuid(track, 0));
      description.message(descriptor::kCounter, Message());
      Message message;
      message.message(packet::kTrackDescriptor, description);
      write_packet(message);
    }
    return found->second;
  }

  void intern(Message& into, int field, uint64_t id, std::string_view text,
              std::unordered_set<uint64_t>& known) {
    if (!known.insert(id).second) return;
    Message entry;
    entry.number(1, id);
    entry.text(2, text);
    into.message(field, entry);
  }

  void write_track(TrackId track) {
    describe(track, 0);
    columns_.clear();
    for (KeyId key = 0; key < dictionary_.keys.size(); ++key) {
      const auto values = recording_.column(key, track);
      if (!values.empty()) columns_.emplace_back(key, values);
    }
    const std::vector<uint32_t> lanes = lanes_of(recording_, track);
    std::vector<std::vector<int64_t>> open(1);  // by lane: ends of the slices that are open
    const Recording::Rows rows = recording_.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      const uint32_t lane = lanes[row - rows.first];
      describe(track, lane);
      if (lane >= open.size()) open.resize(lane + 1);
      close(open[lane], recording_.start(row), uuid(track, lane));
      write_event(row, row - rows.first, track, lane);
      if (recording_.name(row).kind == EventKind::kSpan && !recording_.is_unfinished(row)) {
        open[lane].push_back(recording_.end(row));
      }
    }
    for (uint32_t lane = 0; lane < open.size(); ++lane) {
      close(open[lane], INT64_MAX, uuid(track, lane));
    }
  }

  // Ends the slices that are over by `now`, the innermost first.
  void close(std::vector<int64_t>& ends, int64_t now, uint64_t track) {
    while (!ends.empty() && ends.back() <= now) {
      Message what;
      what.number(event::kType, event::kSliceEnd);
      what.number(event::kTrack, track);
      Message message;
      message.number(packet::kTimestamp, time(ends.back()));
      message.message(packet::kTrackEvent, what);
      write_packet(message);
      ends.pop_back();
    }
  }

  void write_event(size_t row, size_t in_track, TrackId track, uint32_t lane) {
    const Name& name = recording_.name(row);
    Message names, what, message;
    message.number(packet::kTimestamp, time(recording_.start(row)));
    if (name.kind == EventKind::kSample) {
      write_sample(in_track, track, names, message);
    } else if (name.kind == EventKind::kCounter) {
      what.number(event::kType, event::kCounter);
      what.number(event::kTrack, describe_counter(track, recording_.name_id(row)));
      for (const auto& [key, values] : columns_) {
        if (dictionary_.keys[key].type != ArgumentType::kReal || values[in_track] == kNoValue) {
          continue;
        }
        what.fixed64(event::kDoubleValue, real_value(values[in_track]));
        break;
      }
    } else {
      what.number(event::kType,
                  name.kind == EventKind::kSpan ? event::kSliceBegin : event::kInstant);
      what.number(event::kTrack, uuid(track, lane));
      what.number(event::kCategoryIds, id_of(static_cast<uint64_t>(name.category)));
      what.number(event::kNameId, id_of(name.text));
      intern(names, interned::kCategories, id_of(static_cast<uint64_t>(name.category)),
             category_name(name.category), known_categories_);
      intern(names, interned::kNames, id_of(name.text), dictionary_.text(name), known_names_);
      annotate(in_track, names, what);
    }
    if (!names.is_empty()) message.message(packet::kInternedData, names);
    message.number(packet::kSequenceFlags, 2);  // needs what was interned
    if (!what.is_empty()) message.message(packet::kTrackEvent, what);
    write_packet(message);
  }

  void annotate(size_t in_track, Message& names, Message& what) {
    for (const auto& [key, values] : columns_) {
      const int64_t value = values[in_track];
      if (value == kNoValue) continue;
      const Key& known = dictionary_.keys[key];
      intern(names, interned::kAnnotationNames, id_of(known.text), dictionary_.texts[known.text],
             known_annotations_);
      Message annotation;
      annotation.number(1, id_of(known.text));
      switch (known.type) {
        case ArgumentType::kInteger:
          annotation.number(4, static_cast<uint64_t>(value));
          break;
        case ArgumentType::kReal:
          annotation.fixed64(5, real_value(value));
          break;
        case ArgumentType::kText:
          annotation.text(6, dictionary_.texts[static_cast<TextId>(value)]);
          break;
        case ArgumentType::kStack:
          annotation.text(6, stack_text(recording_, static_cast<StackId>(value)));
          break;
      }
      what.message(event::kAnnotations, annotation);
    }
  }

  void write_sample(size_t in_track, TrackId track, Message& names, Message& message) {
    const Track& thread = dictionary_.tracks[track];
    const TrackId process = recording_.ancestor(track, TrackKind::kProcess);
    Message sample;
    sample.number(1, 0);  // which core is not recorded
    sample.number(2,
                  process == kNoId ? 0 : static_cast<uint64_t>(dictionary_.tracks[process].number));
    sample.number(3, static_cast<uint64_t>(thread.number));
    for (const auto& [key, values] : columns_) {
      if (dictionary_.keys[key].type != ArgumentType::kStack || values[in_track] == kNoValue) {
        continue;
      }
      const auto stack = static_cast<StackId>(values[in_track]);
      intern_stack(stack, names);
      sample.number(4, id_of(stack));
    }
    message.message(packet::kPerfSample, sample);
  }

  void intern_stack(StackId stack, Message& names) {
    if (!known_stacks_.insert(stack).second) return;
    std::vector<FrameId> frames;  // the outermost first
    for (StackId at = stack; at != kNoId; at = dictionary_.stacks[at].caller) {
      frames.push_back(dictionary_.stacks[at].frame);
    }
    std::reverse(frames.begin(), frames.end());
    Message callstack;
    callstack.number(1, id_of(stack));
    for (const FrameId frame : frames) {
      intern_frame(frame, names);
      callstack.number(2, id_of(frame));
    }
    names.message(interned::kCallstacks, callstack);
  }

  void intern_frame(FrameId id, Message& names) {
    if (!known_frames_.insert(id).second) return;
    const Frame& frame = dictionary_.frames[id];
    intern(names, interned::kFunctions, id_of(id), frame_text(dictionary_, frame),
           known_functions_);
    intern(names, interned::kMappingPaths, id_of(frame.module), dictionary_.texts[frame.module],
           known_paths_);
    if (known_mappings_.insert(frame.module).second) {
      Message mapping;
      mapping.number(1, id_of(frame.module));
      mapping.number(7, id_of(frame.module));
      names.message(interned::kMappings, mapping);
    }
    Message entry;
    entry.number(1, id_of(id));
    entry.number(2, id_of(id));
    entry.number(3, id_of(frame.module));
    entry.number(4, frame.offset);
    names.message(interned::kFrames, entry);
  }

  static constexpr uint64_t kCountersFrom = uint64_t{1} << 40;

  const Recording& recording_;
  const Dictionary& dictionary_;
  PieceWriter out_;
  int64_t origin_ns_ = 0;  // Perfetto's times are not negative
  std::vector<std::pair<KeyId, std::span<const int64_t>>> columns_;  // of the present track
  std::unordered_set<uint64_t> described_, known_names_, known_categories_, known_annotations_,
      known_functions_, known_paths_, known_mappings_, known_frames_, known_stacks_;
  std::unordered_map<uint64_t, uint64_t> counters_;
};

}  // namespace

const Exporter kPerfettoExporter{
    .name = "perfetto",
    .suffix = ".pftrace",
    .summary = "Perfetto's format, for ui.perfetto.dev and its SQL",
    .write = [](const Recording& recording,
                const TextSink& sink) { return PerfettoExport(recording, sink).write(); },
    .write_file = nullptr,
};

}  // namespace forebay::trace

#include "trace/writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "base/text.h"
#include "sys/file.h"
#include "sys/file_space.h"

namespace forebay::trace {

namespace {

// Definitions are written once so many bytes of text wait, however few events use them.
constexpr size_t kTextBytesWaitingMax = 4 << 20;

// Facts of a recording take a few KiB.
constexpr uint64_t kReserveBytes = 32 << 10;

// A trace file that always has room for its last facts, and never a chunk in part.
class TraceFile {
 public:
  TraceFile(sys::ScopedFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  ~TraceFile() { sys::cut_file(fd_.get(), at_); }  // what was reserved and not used
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void release_reserve() { has_reserve_ = false; }

  Status put(std::span<const std::byte> bytes) {
    int result =
        has_reserve_ ? sys::reserve_space(fd_.get(), at_, bytes.size() + kReserveBytes) : 0;
    // Of these file systems the reserve is not to be had; writing tells whether there is room.
    if (result == -EOPNOTSUPP || result == -ENOSYS || result == -EINVAL) {
      has_reserve_ = false;
      result = 0;
    }
    if (result == 0) result = sys::write_at(fd_.get(), bytes, at_);
    if (result < 0) {
      sys::cut_file(fd_.get(), at_);
      return sys::error_from_errno(-result, path_, "writing");
    }
    at_ += bytes.size();
    return {};
  }

 private:
  const sys::ScopedFd fd_;
  const std::string path_;
  uint64_t at_ = 0;
  bool has_reserve_ = true;
};

}  // namespace

TraceWriter::TraceWriter(ByteSink sink, WriterOptions options)
    : sink_(std::move(sink)), options_(options) {
  FB_CHECK(options_.events_per_chunk > 0 && options_.events_per_chunk <= kChunkRowsMax);
  status_ = sink_(kFileMagic);
  bytes_written_ = kFileMagic.size();
}

TraceWriter::~TraceWriter() = default;

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::string& path,
                                                         WriterOptions options) {
  auto file = std::make_shared<TraceFile>(
      FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kCreateNew)), path);
  auto writer = std::make_unique<TraceWriter>(
      [file](std::span<const std::byte> bytes) { return file->put(bytes); }, options);
  writer->release_reserve_ = [file] { file->release_reserve(); };
  FB_TRY(writer->flush());
  return writer;
}

TextId TraceWriter::text(std::string_view text) {
  const size_t before = dictionary().texts.size();
  const TextId id = dictionary_.text(text);
  if (dictionary().texts.size() > before) new_text_bytes_ += dictionary().texts.back().size();
  return id;
}

TrackId TraceWriter::add_track(TrackKind kind, TrackId parent, std::string_view name,
                               int64_t number, int32_t rank) {
  return dictionary_.add_track({kind, parent, text(name), number, rank});
}

void TraceWriter::rename(TrackId track, std::string_view name) {
  text(name);
  dictionary_.rename(track, name);
  if (track < written_.tracks) renamed_.push_back(track);
}

void TraceWriter::set_rank(TrackId track, int32_t rank) {
  dictionary_.set_rank(track, rank);
  if (track < written_.tracks) renamed_.push_back(track);
}

NameId TraceWriter::name(std::string_view name, Category category, EventKind kind) {
  text(name);
  return dictionary_.name(name, category, kind);
}

KeyId TraceWriter::key(std::string_view name, ArgumentType type) {
  const KeyId id = dictionary_.key(name, type);
  if (name == key::kCount && type == ArgumentType::kInteger) count_key_ = id;
  return id;
}

void TraceWriter::add(const Event& event, std::span<const Argument> arguments) {
  FB_DCHECK(event.duration_ns >= kUnfinished && !is_finished_);
  ++event_count_;
  uint64_t calls = 1;
  for (const Argument& argument : arguments) {
    if (argument.key == count_key_) {
      calls = static_cast<uint64_t>(std::max<int64_t>(1, argument.value));
    }
  }
  if (!status_.ok()) {
    ++lost_count_;
    lost_calls_ += calls;
    return;
  }
  block_calls_ += calls;
  block_.add(event, arguments);
  if (block_.size() >= options_.events_per_chunk || new_text_bytes_ >= kTextBytesWaitingMax) {
    write_events();
  }
}

void TraceWriter::counter(TrackId track, NameId name, int64_t at_ns, double value) {
  if (!std::isfinite(value)) return;
  if (value_key_ == kNoId) value_key_ = key(key::kValue, ArgumentType::kReal);
  add({track, name, at_ns, 0}, {{value_key_, real_bits(value)}});
}

void TraceWriter::fact(std::string_view key, std::string_view value) {
  facts_[std::string(key)] = value;
}

void TraceWriter::write(ChunkKind kind, size_t rows, std::span<const std::byte> payload) {
  if (!status_.ok()) return;
  const std::vector<std::byte> chunk = make_chunk(kind, rows, payload, options_.compression_level);
  status_ = sink_(chunk);
  if (status_.ok()) bytes_written_ += chunk.size();
}

template <class T, class Encode>
void TraceWriter::write_new(ChunkKind kind, const std::vector<T>& all, size_t& written,
                            Encode encode) {
  // 65,536 texts of the longest kind fill a chunk to its limit.
  constexpr size_t kRows = kChunkBytesMax / (kTextBytesMax + 10);
  while (written < all.size()) {
    const size_t rows = std::min(all.size() - written, kRows);
    write(kind, rows, encode(std::span(all).subspan(written, rows)));
    written += rows;
  }
}

void TraceWriter::write_definitions() {
  const Dictionary& all = dictionary();
  write_new(ChunkKind::kTexts, all.texts, written_.texts, encode_texts);
  new_text_bytes_ = 0;
  write_new(ChunkKind::kTracks, all.tracks, written_.tracks, encode_tracks);
  write_new(ChunkKind::kNames, all.names, written_.names, encode_names);
  write_new(ChunkKind::kKeys, all.keys, written_.keys, encode_keys);
  write_new(ChunkKind::kFrames, all.frames, written_.frames, encode_frames);
  write_new(ChunkKind::kStacks, all.stacks, written_.stacks, encode_stacks);
  if (renamed_.empty()) return;
  std::vector<std::pair<TrackId, Track>> renames;
  for (const TrackId track : renamed_) renames.emplace_back(track, all.tracks[track]);
  renamed_.clear();
  size_t written = 0;
  write_new(ChunkKind::kRenames, renames, written, encode_renames);
}

void TraceWriter::write_events() {
  if (status_.ok()) write_definitions();
  if (block_.size() == 0) return;
  const size_t rows = block_.size();
  if (status_.ok()) {
    sort(block_);
    write(ChunkKind::kEvents, rows, encode(block_));
  }
  if (!status_.ok()) {
    lost_count_ += rows;
    lost_calls_ += block_calls_;
  }
  block_calls_ = 0;
  block_.clear();
}

void TraceWriter::write_facts() {
  if (!clock_.empty()) write(ChunkKind::kClock, clock_.size(), encode_clock(clock_));
  if (!facts_.empty()) write(ChunkKind::kFacts, facts_.size(), encode_facts(facts_));
  if (!status_.ok()) return;  // they wait for finish()
  clock_.clear();
  facts_.clear();
}

Status TraceWriter::flush() {
  write_events();
  write_facts();
  return status_;
}

Status TraceWriter::finish() {
  Status flushed = flush();
  if (!flushed.ok()) {
    if (!release_reserve_) return flushed;
    release_reserve_();
    status_ = {};
    write_facts();
  }
  write(ChunkKind::kEnd, 0, {});
  is_finished_ = true;
  return flushed.ok() ? status_ : flushed;
}

}  // namespace forebay::trace

#include "trace/reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "sys/file.h"

namespace forebay::trace {

bool is_trace(std::span<const std::byte> first_bytes) {
  return first_bytes.size() >= kFileMagic.size() &&
         std::equal(kFileMagic.begin(), kFileMagic.end() - 1, first_bytes.begin());
}

TraceReader::TraceReader(ByteReader bytes, std::string path)
    : bytes_(std::move(bytes)), path_(std::move(path)) {}

Result<std::unique_ptr<TraceReader>> TraceReader::open(ByteReader bytes, std::string path) {
  std::array<std::byte, kFileMagic.size()> magic{};
  const int64_t size = bytes(magic, 0);
  if (size < 0) return sys::error_from_errno(static_cast<int>(-size), path, "reading");
  if (!is_trace(std::span(magic).first(static_cast<size_t>(size)))) {
    return fail(ErrorCode::kCorruption, "{}: not a trace file of forebay", path);
  }
  if (magic.back() != kFileMagic.back()) {
    return fail(ErrorCode::kUnsupported, "{}: a trace file of version {}; this program reads {}",
                path, static_cast<int>(magic.back()), static_cast<int>(kFileMagic.back()));
  }
  std::unique_ptr<TraceReader> reader(new TraceReader(std::move(bytes), std::move(path)));
  reader->at_ = kFileMagic.size();
  return reader;
}

Result<std::unique_ptr<TraceReader>> TraceReader::open_file(const std::string& path) {
  auto file = std::make_shared<sys::ScopedFd>(
      FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead)));
  return open([file](std::span<std::byte> out,
                     uint64_t offset) { return sys::read_at(file->get(), out, offset); },
              path);
}

void TraceReader::end(Error damage) {
  has_ended_ = true;
  damage_ = fail(damage.code, "{}: {} (at byte {}; what stands before is used)", path_,
                 damage.message, at_);
}

Result<bool> TraceReader::read_chunk(ChunkHeader& header, std::vector<std::byte>& payload) {
  std::array<std::byte, kChunkHeaderBytes> first{};
  const int64_t size = bytes_(first, at_);
  if (size < 0) return sys::error_from_errno(static_cast<int>(-size), path_, "reading");
  if (size == 0) {
    end(fail(ErrorCode::kCorruption, "trace: the recording was not finished"));
    return false;
  }
  if (static_cast<size_t>(size) < first.size()) {
    end(fail(ErrorCode::kCorruption, "trace: the last chunk is cut short"));
    return false;
  }
  auto parsed = parse_chunk_header(first);
  if (!parsed.ok()) {
    end(std::move(parsed).error());
    return false;
  }
  header = parsed.value();
  std::vector<std::byte> stored(header.stored_bytes);
  const int64_t got = bytes_(stored, at_ + kChunkHeaderBytes);
  if (got < 0) return sys::error_from_errno(static_cast<int>(-got), path_, "reading");
  stored.resize(static_cast<size_t>(got));
  auto opened = open_chunk(first, stored);
  if (!opened.ok()) {
    end(std::move(opened).error());
    return false;
  }
  payload = std::move(opened).take();
  return true;
}

Status TraceReader::take_definitions(const ChunkHeader& header,
                                     std::span<const std::byte> payload) {
  switch (header.kind) {
    case ChunkKind::kTexts:
      return decode_texts(payload, header.rows, dictionary_);
    case ChunkKind::kTracks:
      return decode_tracks(payload, header.rows, dictionary_);
    case ChunkKind::kNames:
      return decode_names(payload, header.rows, dictionary_);
    case ChunkKind::kKeys:
      return decode_keys(payload, header.rows, dictionary_);
    case ChunkKind::kFrames:
      return decode_frames(payload, header.rows, dictionary_);
    case ChunkKind::kStacks:
      return decode_stacks(payload, header.rows, dictionary_);
    case ChunkKind::kRenames:
      return decode_renames(payload, header.rows, dictionary_);
    case ChunkKind::kClock:
      return decode_clock(payload, header.rows, clock_);
    case ChunkKind::kFacts:
      return decode_facts(payload, header.rows, facts_);
    case ChunkKind::kEvents:
    case ChunkKind::kEnd:
      break;
  }
  return {};
}

Status TraceReader::check_ids(const EventBlock& block) const {
  const auto below = [](const std::vector<uint32_t>& ids, size_t size) {
    return std::all_of(ids.begin(), ids.end(), [size](uint32_t id) { return id < size; });
  };
  if (!below(block.tracks, dictionary_.tracks.size()) ||
      !below(block.names, dictionary_.names.size())) {
    return fail(ErrorCode::kCorruption, "trace: an event of a track or name that is not defined");
  }
  for (const ArgumentColumn& column : block.arguments) {
    if (column.key >= dictionary_.keys.size()) {
      return fail(ErrorCode::kCorruption, "trace: an argument that is not defined");
    }
    const ArgumentType type = dictionary_.keys[column.key].type;
    if (type != ArgumentType::kText && type != ArgumentType::kStack) continue;
    const size_t size =
        type == ArgumentType::kText ? dictionary_.texts.size() : dictionary_.stacks.size();
    for (const int64_t value : column.values) {
      if (value < 0 || static_cast<uint64_t>(value) >= size) {
        return fail(ErrorCode::kCorruption, "trace: a text or stack that is not defined");
      }
    }
  }
  return {};
}

Result<std::optional<EventBlock>> TraceReader::next() {
  ChunkHeader header;
  std::vector<std::byte> payload;
  while (!has_ended_) {
    const bool has_chunk = FB_TRY(read_chunk(header, payload));
    if (!has_chunk) break;
    Status taken;
    std::optional<EventBlock> block;
    if (header.kind == ChunkKind::kEvents) {
      auto decoded = decode(payload, header.rows);
      taken = decoded.ok() ? check_ids(*decoded) : Status(decoded.error());
      if (taken.ok()) block = std::move(decoded).take();
    } else {
      taken = take_definitions(header, payload);
    }
    if (!taken.ok()) {
      end(std::move(taken).error());
      break;
    }
    at_ += kChunkHeaderBytes + header.stored_bytes;
    if (header.kind == ChunkKind::kEnd) {
      is_finished_ = has_ended_ = true;
      break;
    }
    if (block) return block;
  }
  return std::optional<EventBlock>();
}

}  // namespace forebay::trace

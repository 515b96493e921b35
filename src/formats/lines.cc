// lines: files of text, a sample per line: JSON Lines, or plain text.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/pack.h"
#include "formats/parts.h"
#include "formats/payload.h"
#include "formats/unpack.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip};
constexpr std::string_view kExtensions[] = {"jsonl",     "ndjson",    "txt",        "jsonl.gz",
                                            "ndjson.gz", "txt.gz",    "jsonl.xz",   "ndjson.xz",
                                            "txt.xz",    "jsonl.bz2", "ndjson.bz2", "txt.bz2"};
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr uint64_t kWindowBytes = uint64_t{1} << 20;

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // any text has lines

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Follows text that comes in pieces and notes where its lines lie, ends of lines included.
class LineFinder {
 public:
  void append(std::string_view text) {
    if (at_ < kByteOrderMark.size()) text = skip_mark(text);
    while (!text.empty()) {
      const auto* end = static_cast<const char*>(std::memchr(text.data(), '\n', text.size()));
      const size_t bytes =
          end != nullptr ? static_cast<size_t>(end - text.data()) + 1 : text.size();
      is_empty_ = is_empty_ &&
                  std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(bytes), is_blank);
      at_ += bytes;
      text.remove_prefix(bytes);
      if (end != nullptr) end_line();
    }
  }

  Result<FileIndex> finish() {
    if (is_mark_ && at_ < kByteOrderMark.size()) is_empty_ = is_empty_ && at_ == 0;  // cut in it
    if (at_ > start_) end_line();
    if (lines_.empty()) return fail(ErrorCode::kCorruption, "no line that is not empty");
    FileIndex index{.access = Access::kExtents, .sample_count = lines_.size()};
    if (empty_lines_ > 0)
      index.problems.push_back(fmt::format("{} empty lines are no samples", empty_lines_));
    lines_.shrink_to_fit();
    index.extents = std::move(lines_);
    return index;
  }

 private:
  // The mark may come in pieces too; bytes that turn out to be none belong to the first line.
  std::string_view skip_mark(std::string_view text) {
    while (!text.empty() && is_mark_ && at_ < kByteOrderMark.size()) {
      is_mark_ = text.front() == kByteOrderMark[at_];
      if (!is_mark_) {
        is_empty_ = is_empty_ && at_ == 0;
        break;
      }
      ++at_;
      text.remove_prefix(1);
      if (at_ == kByteOrderMark.size()) start_ = at_;
    }
    return text;
  }

  void end_line() {
    if (is_empty_)
      ++empty_lines_;
    else
      lines_.push_back({start_, at_ - start_});
    start_ = at_;
    is_empty_ = true;
  }

  ExtentList lines_;
  uint64_t at_ = 0, start_ = 0, empty_lines_ = 0;
  bool is_empty_ = true, is_mark_ = true;
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<FileIndex> index_packed(ByteSource& source, Compression packing) {
  LineFinder finder;
  FB_TRY(unpack(source, packing, [&](std::span<const std::byte> piece) -> Status {
    finder.append(as_text(piece));
    return {};
  }));
  FileIndex index = FB_TRY(finder.finish());
  index.access = Access::kTogether;
  index.extents = {};
  return index;
}

Result<FileIndex> index_file(ByteSource& source, bool must_be_packed) {
  const auto head = FB_TRY(source.at(0, std::min<uint64_t>(source.size(), 256)));
  if (head.empty()) return fail(ErrorCode::kCorruption, "empty file");
  FB_TRY(refuse_lfs_pointer(head));
  const Compression packing = packing_of(head);
  if (packing != Compression::kNone) return index_packed(source, packing);
  if (must_be_packed)
    return fail(ErrorCode::kCorruption, "not compressed, as its name says ({})",
                content_kind(head));
  LineFinder finder;
  for (uint64_t offset = 0; offset < source.size(); offset += kWindowBytes) {
    const auto piece = FB_TRY(source.at(offset, std::min(kWindowBytes, source.size() - offset)));
    finder.append(as_text(piece));
  }
  return finder.finish();
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& /*options*/) {
  StoreSource source(store, file);
  const bool must_be_packed = extension_of(file.path).find('.') != std::string::npos;
  return index_file(source, must_be_packed).context(file.path);
}

class LinesReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    return read_line(path, bytes, index, sample_in_file).context(std::string(path));
  }

 private:
  Result<Record> read_line(std::string_view path, std::span<const std::byte> bytes,
                           const FileIndex& index, uint64_t i) {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "empty file");
    uint64_t offset = 0;
    if (index.access == Access::kTogether) {
      bytes = FB_TRY(line_of_packed(bytes, i));
    } else if (i < index.extents.size()) {
      offset = index.extents[i].offset;
      if (bytes.size() != index.extents[i].length)
        return fail(ErrorCode::kCorruption, "line {}: truncated at byte {} of {}", i, bytes.size(),
                    index.extents[i].length);
    }
    std::string_view line = as_text(bytes);
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto content = std::as_bytes(std::span(line));
    FB_TRY(refuse_lfs_pointer(content.first(std::min<size_t>(content.size(), 256))));
    FB_TRY(check_text(content).context(fmt::format("sample {} at byte {}", i, offset)));
    const bool is_json = extension_of(path).find("json") != std::string::npos;
    return Record{.encoding = is_json ? Encoding::kJson : Encoding::kText, .bytes = content};
  }

  // Lines of a compressed file come one by one from the same bytes, which are unpacked once. One
  // asked for again means that the caller has read the file anew.
  Result<std::span<const std::byte>> line_of_packed(std::span<const std::byte> bytes, uint64_t i) {
    const auto tail = bytes.last(std::min<size_t>(bytes.size(), 64));  // checksums are there
    const bool is_known = bytes.data() == file_.data() && bytes.size() == file_.size() &&
                          std::equal(tail.begin(), tail.end(), tail_.begin(), tail_.end()) &&
                          (i >= served_.size() || !served_[i]);
    if (!is_known) FB_TRY(unpack_lines(bytes));
    tail_.assign(tail.begin(), tail.end());
    if (i >= served_.size())
      return fail(ErrorCode::kCorruption, "line {}: the file holds {}", i, served_.size());
    served_[i] = true;
    return std::span<const std::byte>(plain_).subspan(lines_[i].offset, lines_[i].length);
  }

  Status unpack_lines(std::span<const std::byte> bytes) {
    file_ = {};
    plain_.clear();
    served_.clear();
    SpanSource packed(bytes);
    const Compression packing = packing_of(bytes.first(std::min<size_t>(bytes.size(), 6)));
    if (packing == Compression::kNone)
      return fail(ErrorCode::kCorruption, "not compressed, though it was when it was indexed");
    LineFinder finder;
    FB_TRY(unpack(packed, packing, [&](std::span<const std::byte> piece) -> Status {
      plain_.insert(plain_.end(), piece.begin(), piece.end());
      finder.append(as_text(piece));
      return {};
    }));
    FileIndex index = FB_TRY(finder.finish());
    lines_ = std::move(index.extents);
    served_.assign(lines_.size(), false);
    file_ = bytes;
    return {};
  }

  // Of the last compressed file:
  std::span<const std::byte> file_;
  std::vector<std::byte> tail_, plain_;
  ExtentList lines_;
  std::vector<bool> served_;
};

// {"id": 7, "text": "..."}: as many letters as a record has bytes, taken from 64 of them.
std::string head_of(uint64_t sample) {
  return fmt::format("{{\"id\": {}, \"text\": \"", sample);
}
constexpr std::string_view kLineEnd = "\"}\n";
constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";

Status write_lines(const FileSpec& spec, const ByteSink& out) {
  Payload payload(spec);
  std::string letters;
  for (uint64_t i = 0; i < spec.sample_count; ++i) {
    const std::string head = head_of(i);
    FB_TRY(out(std::as_bytes(std::span(head))));
    FB_TRY(payload.produce(record_bytes(spec), [&](std::span<const std::byte> piece) {
      letters.clear();
      for (const std::byte byte : piece) letters += kLetters[static_cast<size_t>(byte) % 64];
      return out(std::as_bytes(std::span(letters)));
    }));
    FB_TRY(out(std::as_bytes(std::span(kLineEnd))));
  }
  return {};
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  return write_packed(writer, spec.compression,
                      [&](const ByteSink& out) { return write_lines(spec, out); });
}

uint64_t estimate_bytes(const FileSpec& spec) {
  if (!check_spec(spec).ok()) return UINT64_MAX;
  const uint64_t record = record_bytes(spec), count = spec.sample_count;
  const uint64_t frame = head_of(0).size() + kLineEnd.size();
  if (count > (uint64_t{1} << 62) / (record + frame + 20)) return UINT64_MAX;
  uint64_t bytes = count * (record + frame);
  // Numbers of two digits and more.
  for (uint64_t power = 10; power < count; power *= 10) bytes += count - power;
  return spec.compression != Compression::kNone ? Deflater::bytes_max(bytes) : bytes;
}

}  // namespace

const Format kLines{.name = "lines",
                    .summary = "text with a sample per line: .jsonl, .ndjson, .txt, also .gz",
                    .extensions = kExtensions,
                    .recognises = recognises,
                    .index = index,
                    .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                      return std::make_unique<LinesReader>();
                    },
                    .compressions = kCompressions,
                    .write = write,
                    .estimate_bytes = estimate_bytes,
                    .file_extension = "jsonl",
                    .name_suffix = [](Compression compression) -> std::string_view {
                      return compression == Compression::kGzip ? ".gz" : "";
                    }};

}  // namespace forebay::formats

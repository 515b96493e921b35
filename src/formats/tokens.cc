// tokens: Megatron's .bin files, or any stream of tokens of one type. Samples are windows of the
// stream, across documents, or the sequences of the .idx file beside it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/array_records.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/little_endian.h"
#include "formats/parts.h"
#include "formats/payload.h"
#include "formats/tokens_index.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"bin"};
constexpr std::string_view kPart = "tokens";
constexpr uint64_t kEntriesAtOnce = 32 * 1024;

bool recognises(std::span<const std::byte> /*head*/) {
  return false;
}  // any bytes could be tokens

// Windows of whole tokens; what is left over at the end is noted.
Result<FileIndex> index_windows(ElementType type, uint64_t stream_bytes,
                                const FormatOptions& options) {
  const uint64_t item = element_bytes(type), tokens = stream_bytes / item;
  const uint64_t each = options.tokens_per_sample;
  if (tokens < each)
    return fail(ErrorCode::kCorruption,
                "{} tokens are less than a window of {}: give a smaller tokens_per_sample", tokens,
                each);
  const uint64_t bytes = each * item;  // at most stream_bytes
  FileIndex index{.access = Access::kExtents, .sample_count = tokens / each};
  index.extents = ExtentList::even({0, bytes}, bytes, index.sample_count);
  index.extent_array = ArrayLayout{.type = type, .shape = {each}};
  if (tokens % each != 0)
    index.problems.push_back(
        fmt::format("its last {} tokens fill no window of {}", tokens % each, each));
  return index;
}

// Without an index file, all of the file is one stream of the type that the caller names.
Result<FileIndex> index_plain(const storage::FileInfo& file, const FormatOptions& options,
                              const std::string& side) {
  const bool has_type = options.record_array.has_value(),
             has_windows = options.tokens_per_sample > 0;
  if (!has_type || !has_windows)
    return fail(ErrorCode::kInvalidArgument,
                "no index file {} tells {}: put it beside the tokens, or give {}{}{}", side,
                has_type ? "where its sequences are" : "the type of its tokens",
                has_type ? "" : "record_type (such as uint16)",
                has_type || has_windows ? "" : " and ", has_windows ? "" : "tokens_per_sample");
  const ElementType type = options.record_array->type;
  if (file.size % element_bytes(type) != 0)
    return fail(ErrorCode::kCorruption,
                "{} bytes are no whole number of {} tokens: the file is cut off, or another "
                "record_type is due",
                file.size, element_name(type));
  return index_windows(type, file.size, options);
}

Result<FileIndex> index_by_side(const storage::FileInfo& file, StoreSource& side,
                                const FormatOptions& options) {
  const bool has_windows = options.tokens_per_sample > 0;
  TokensIndex found = FB_TRY(read_tokens_index(side, file.size, !has_windows));
  if (options.record_array && options.record_array->type != found.type)
    return fail(ErrorCode::kInvalidArgument,
                "its tokens are {}, {} was asked for: leave record_type out, or say {}",
                element_name(found.type), element_name(options.record_array->type),
                element_name(found.type));
  FileIndex index;
  if (has_windows) {
    if (!found.is_stream)
      return fail(ErrorCode::kUnsupported,
                  "its sequences do not lie one behind the other, so that windows cannot cross "
                  "them: give no tokens per sample to have a sequence each");
    index = FB_TRY(index_windows(found.type, found.end, options));
  } else {
    if (found.sequences.empty()) return fail(ErrorCode::kCorruption, "all sequences are empty");
    index.access = Access::kExtents;
    index.sample_count = found.sequences.size();
    index.extents = std::move(found.sequences);
    if (found.empty_sequences > 0)
      index.problems.push_back(
          fmt::format("{} empty sequences are no samples", found.empty_sequences));
  }
  index.detail = element_name(found.type);
  if (found.is_stream && found.end < file.size)
    index.problems.push_back(
        fmt::format("{} bytes behind its last sequence are not read", file.size - found.end));
  return index;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
  if (options.record_array && !options.record_array->shape.empty())
    return fail(ErrorCode::kInvalidArgument,
                "{}: tokens have no record_shape: tokens_per_sample is the length of a window",
                file.path);
  const std::string path = tokens_index_path(file.path);
  const auto info = store.stat(path);
  Result<FileIndex> result = FileIndex();
  if (info.ok()) {
    StoreSource side(store, *info);
    result = index_by_side(file, side, options);
    if (!result.ok()) result = std::move(result).context("with its index file " + path);
  } else if (info.error().code == ErrorCode::kNotFound) {
    result = index_plain(file, options, path);
  } else {
    return info.error();
  }
  if (result.ok()) return result;
  StoreSource data(store, file);
  return Result<FileIndex>(explain_lfs_pointer(data, result.error())).context(file.path);
}

class TokensReader : public Reader {
 public:
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    return read_tokens(bytes, index, sample_in_file).context(std::string(path));
  }
  Status read_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t sample_in_file, std::vector<Part>& out) override {
    out.clear();
    const Record record = FB_TRY(read(path, bytes, index, sample_in_file));
    out.push_back({kPart, record});
    return {};
  }

 private:
  static Result<Record> read_tokens(std::span<const std::byte> bytes, const FileIndex& index,
                                    uint64_t i) {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "empty file");
    if (i == 0) FB_TRY(refuse_lfs_pointer(bytes));
    if (index.extent_array) return extent_record(bytes, index);
    const auto type = element_from_name(index.detail);
    if (!type || i >= index.extents.size())
      return fail(ErrorCode::kInvalidArgument, "the index lacks sequence {} or its type", i);
    if (bytes.size() != index.extents[i].length)
      return fail(ErrorCode::kCorruption, "sequence {}: truncated at byte {} of {}", i,
                  bytes.size(), index.extents[i].length);
    return Record{.encoding = Encoding::kArray,
                  .bytes = bytes,
                  .array = {.type = *type, .shape = {bytes.size() / element_bytes(*type)}}};
  }
};

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  FB_TRY(tokens_type_code(spec.type).context(spec.path));
  Payload payload(spec);
  return payload.produce(payload_bytes(spec),
                         [&](std::span<const std::byte> piece) { return writer.append(piece); });
}

// A sequence, and a document, for each record.
Status write_side(storage::Writer& writer, const FileSpec& spec, size_t /*which*/) {
  FB_TRY(check_spec(spec));
  const uint8_t code = FB_TRY(tokens_type_code(spec.type).context(spec.path));
  const uint64_t bytes = record_bytes(spec), tokens = bytes / element_bytes(spec.type);
  if (tokens > INT32_MAX)
    return fail(ErrorCode::kInvalidArgument, "{}: sequences of {} tokens: the most is 2^31 - 1",
                spec.path, tokens);
  std::vector<std::byte> out(kTokensHeaderBytes);
  std::copy_n(std::as_bytes(std::span("MMIDIDX\0")).begin(), 9, out.begin());
  store_le<uint64_t>(&out[9], 1);
  out[17] = static_cast<std::byte>(code);
  store_le<uint64_t>(&out[18], spec.sample_count);
  store_le<uint64_t>(&out[26], spec.sample_count + 1);
  FB_TRY(writer.append(out));
  const auto put_all = [&](size_t width, uint64_t count, uint64_t factor,
                           uint64_t constant) -> Status {
    for (uint64_t first = 0; first < count; first += kEntriesAtOnce) {
      const uint64_t n = std::min(kEntriesAtOnce, count - first);
      out.resize(n * width);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t value = (first + i) * factor + constant;
        if (width == 4)
          store_le<uint32_t>(&out[4 * i], static_cast<uint32_t>(value));
        else
          store_le<uint64_t>(&out[8 * i], value);
      }
      FB_TRY(writer.append(out));
    }
    return {};
  };
  FB_TRY(put_all(4, spec.sample_count, 0, tokens));
  FB_TRY(put_all(8, spec.sample_count, bytes, 0));
  return put_all(8, spec.sample_count + 1, 1, 0);
}

}  // namespace

const Format kTokens{
    .name = "tokens",
    .summary = "streams of tokens in windows, as Megatron's .bin and .idx have them",
    .extensions = kExtensions,
    .recognises = recognises,
    .index = index,
    .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
      return std::make_unique<TokensReader>();
    },
    .compressions = kCompressions,
    .write = write,
    .estimate_bytes = payload_bytes,
    .file_extension = "bin",
    .side_paths = [](std::string_view path) -> std::vector<std::string> {
      return {tokens_index_path(path)};
    },
    .write_side = write_side};

}  // namespace forebay::formats

// webdataset: tar archives whose neighbouring members of one key are a sample.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/array_records.h"
#include "formats/builtin.h"
#include "formats/byte_source.h"
#include "formats/content_kind.h"
#include "formats/pack.h"
#include "formats/parts.h"
#include "formats/payload.h"
#include "formats/tar.h"
#include "formats/unpack.h"
#include "formats/webdataset_index.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip};
constexpr std::string_view kExtensions[] = {"tar", "tar.gz", "tgz"};
constexpr std::string_view kClassPart = "cls", kLabelPart = "label", kKeyPart = "__key__";
constexpr uint64_t kClasses = 1000;  // of files that are made

bool recognises(std::span<const std::byte> head) {
  if (head.size() < kTarBlockBytes) return false;
  SpanSource source(head.first(kTarBlockBytes));
  TarWalker walker(source);
  // The member itself need not be there: whoever is named has a good header.
  const auto member = walker.next();
  return member.ok() ? member->has_value() : !walker.damaged_path().empty();
}

Result<FileIndex> index_file(ByteSource& source, TarWindows windows) {
  const auto head = FB_TRY(source.at(0, std::min<uint64_t>(source.size(), 256)));
  if (head.empty()) return fail(ErrorCode::kCorruption, "empty file");
  FB_TRY(refuse_lfs_pointer(head));
  return is_gzip(head) ? index_tar_gz(source) : index_tar(source, windows);
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& /*options*/) {
  StoreSource source(store, file);
  // A request to a far store costs as much as some megabytes of data.
  const TarWindows far{.bytes = 4 << 20, .large_member_bytes = 2 << 20};
  const bool is_local = store.capabilities().is_local;
  return index_file(source, is_local ? TarWindows() : far).context(file.path);
}

std::string_view last_extension(std::string_view part) {
  return part.substr(part.rfind('.') + 1);  // all of it without a dot
}

// By the part's name where that says what it is, else by content. Pickles stay bytes: nobody runs
// them here.
Result<Record> record_of(std::string_view part, std::span<const std::byte> bytes) {
  const std::string_view type = last_extension(part);
  if (type == "json" || type == "jsn") {
    FB_TRY(check_text(bytes));
    return Record{.encoding = Encoding::kJson, .bytes = bytes};
  }
  if (type == "txt" || type == "text" || type == "transcript" || type == "cls") {
    FB_TRY(check_text(bytes));
    return Record{.encoding = Encoding::kText, .bytes = bytes};
  }
  if (type == "npy") {
    const NpyHeader header = FB_TRY(parse_npy(bytes));
    return Record{.encoding = Encoding::kArray,
                  .bytes = bytes.subspan(header.data_offset),
                  .array = header.layout};
  }
  return record_of_content(bytes);
}

Result<int64_t> parse_class(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return fail(ErrorCode::kCorruption, "\"{}\" is no class number",
                text.substr(0, std::min<size_t>(text.size(), 20)));
  return value;
}

class WebdatasetReader : public Reader {
 public:
  explicit WebdatasetReader(const FormatOptions& options) : columns_(options.columns) {}

  // The first image of the sample, else its first part.
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    FB_TRY(read_parts(path, bytes, index, sample_in_file, parts_));
    const Part* chosen = nullptr;
    for (const Part& part : parts_) {
      const bool is_image =
          part.record.encoding == Encoding::kJpeg || part.record.encoding == Encoding::kPng;
      if (is_image) return part.record;
      if (chosen == nullptr && part.name != kKeyPart && part.name != kLabelPart) chosen = &part;
    }
    if (chosen == nullptr)
      return fail(ErrorCode::kCorruption, "{}: sample {}: has no parts", path, sample_in_file);
    return chosen->record;
  }

  Status read_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t sample_in_file, std::vector<Part>& out) override {
    out.clear();
    return list_parts(bytes, index, sample_in_file, out)
        .context(fmt::format("{}: sample {}", path, sample_in_file));
  }

 private:
  Status list_parts(std::span<const std::byte> bytes, const FileIndex& index, uint64_t i,
                    std::vector<Part>& out) {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "empty file");
    if (index.access == Access::kTogether) bytes = FB_TRY(sample_of_packed(bytes, i));
    key_.clear();
    names_.clear();
    has_class_ = false;
    SpanSource source(bytes);
    TarWalker walker(source);
    for (auto member = FB_TRY(walker.next()); member; member = FB_TRY(walker.next()))
      FB_TRY(add(*member, bytes, out));
    if (key_.empty()) return fail(ErrorCode::kCorruption, "no members");
    const bool wants_class = is_wanted(columns_, kClassPart);
    std::erase_if(out, [&](const Part& part) { return part.name == kClassPart && !wants_class; });
    if (has_class_ && (wants_class || is_wanted(columns_, kLabelPart))) {
      Record label{.encoding = Encoding::kArray,
                   .bytes = std::as_bytes(std::span(&label_, 1)),
                   .array = {.type = ElementType::kI64, .shape = {}}};
      const bool is_taken = std::any_of(out.begin(), out.end(),
                                        [](const Part& part) { return part.name == kLabelPart; });
      if (!is_taken) out.push_back({kLabelPart, label});
    }
    const Record key{.encoding = Encoding::kText, .bytes = std::as_bytes(std::span(key_))};
    out.push_back({kKeyPart, key});
    return check_wanted(columns_, out).context(key_);
  }

  Status add(const TarMember& member, std::span<const std::byte> bytes, std::vector<Part>& out) {
    const auto name = sample_name(member);
    if (!name) return {};
    if (key_.empty()) key_ = name->key;
    if (name->key != key_)
      return fail(ErrorCode::kCorruption, "{} and {} in one sample", key_, name->key);
    FB_TRY(check_text(std::as_bytes(std::span(member.path))).context("the name of a member"));
    const bool is_class = name->part == kClassPart;
    const bool wants =
        is_wanted(columns_, name->part) || (is_class && is_wanted(columns_, kLabelPart));
    if (!wants) return {};
    for (const Part& part : out)
      if (part.name == name->part)
        return fail(ErrorCode::kCorruption, "{}: two parts {}", key_, name->part);
    const auto data = bytes.subspan(member.data_offset, member.bytes);
    const Record record = FB_TRY(record_of(name->part, data).context(member.path));
    if (is_class) {
      // Classes may be words: then they are text alone, unless a number is asked for.
      Result<int64_t> label = parse_class(data).context(member.path);
      const bool is_asked_for = !columns_.empty() && is_wanted(columns_, kLabelPart);
      if (!label.ok() && is_asked_for) return std::move(label).error();
      has_class_ = label.ok();
      label_ = std::move(label).value_or(0);
    }
    names_.push_back(std::make_unique<std::string>(name->part));
    out.push_back({*names_.back(), record});
    return {};
  }

  // Samples of a compressed archive come one by one from the same bytes, which are unpacked once. A
  // sample asked for again means that the caller has read the file anew.
  Result<std::span<const std::byte>> sample_of_packed(std::span<const std::byte> bytes,
                                                      uint64_t i) {
    const auto tail = bytes.last(std::min<size_t>(bytes.size(), 8));  // its checksum and length
    const bool is_known = bytes.data() == file_.data() && bytes.size() == file_.size() &&
                          std::equal(tail.begin(), tail.end(), tail_.begin(), tail_.end()) &&
                          (i >= served_.size() || !served_[i]);
    if (!is_known) {
      file_ = {};
      plain_.clear();
      SpanSource packed(bytes);
      FB_TRY(unpack(packed, Compression::kGzip, [this](std::span<const std::byte> piece) -> Status {
        plain_.insert(plain_.end(), piece.begin(), piece.end());
        return {};
      }));
      SpanSource plain(plain_);
      FileIndex index = FB_TRY(index_tar(plain));
      extents_ = std::move(index.extents);
      served_.assign(extents_.size(), false);
      tail_.assign(tail.begin(), tail.end());
      file_ = bytes;
    }
    if (i >= served_.size())
      return fail(ErrorCode::kCorruption, "the archive holds {} samples", served_.size());
    served_[i] = true;
    return std::span<const std::byte>(plain_).subspan(extents_[i].offset, extents_[i].length);
  }

  std::vector<std::string> columns_;
  std::vector<Part> parts_;  // for read()
  std::string key_;
  std::vector<std::unique_ptr<std::string>> names_;
  int64_t label_ = 0;
  bool has_class_ = false;
  // Of the last compressed file:
  std::span<const std::byte> file_;
  std::vector<std::byte> tail_, plain_;
  ExtentList extents_;
  std::vector<bool> served_;
};

std::string class_of(uint64_t sample) {
  return std::to_string(sample % kClasses);
}
std::string key_of(uint64_t sample) {
  return fmt::format("{:09}", sample);
}

Status write_member(const ByteSink& out, const std::string& path, uint64_t bytes,
                    const std::function<Status()>& content) {
  const auto header = FB_TRY(make_tar_header(path, bytes));
  FB_TRY(out(header));
  FB_TRY(content());
  const std::vector<std::byte> padding(tar_padded(bytes) - bytes);
  return padding.empty() ? Status() : out(padding);
}

// Samples of random bytes, KEY.bin, with classes in turn, KEY.cls.
Status write_samples(const FileSpec& spec, const ByteSink& out) {
  Payload payload(spec);
  const uint64_t bytes = record_bytes(spec);
  for (uint64_t i = 0; i < spec.sample_count; ++i) {
    FB_TRY(
        write_member(out, key_of(i) + ".bin", bytes, [&] { return payload.produce(bytes, out); }));
    const std::string number = class_of(i);
    FB_TRY(write_member(out, key_of(i) + ".cls", number.size(),
                        [&] { return out(std::as_bytes(std::span(number))); }));
  }
  return out(std::vector<std::byte>(2 * kTarBlockBytes));
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  FB_TRY(check_spec(spec));
  return write_packed(writer, spec.compression,
                      [&](const ByteSink& out) { return write_samples(spec, out); });
}

uint64_t estimate_bytes(const FileSpec& spec) {
  if (!check_spec(spec).ok()) return UINT64_MAX;
  const uint64_t sample = 3 * kTarBlockBytes + tar_padded(record_bytes(spec));
  if (spec.sample_count > (uint64_t{1} << 62) / sample) return UINT64_MAX;
  const uint64_t bytes = sample * spec.sample_count + 2 * kTarBlockBytes;
  return spec.compression != Compression::kNone ? Deflater::bytes_max(bytes) : bytes;
}

}  // namespace

const Format kWebdataset{
    .name = "webdataset",
    .summary = "tar archives (plain or .gz), members of one key are a sample",
    .extensions = kExtensions,
    .recognises = recognises,
    .index = index,
    .make_reader = [](const FormatOptions& options) -> std::unique_ptr<Reader> {
      return std::make_unique<WebdatasetReader>(options);
    },
    .compressions = kCompressions,
    .write = write,
    .estimate_bytes = estimate_bytes,
    .file_extension = "tar",
    .name_suffix = [](Compression compression) -> std::string_view {
      return compression == Compression::kGzip ? ".gz" : "";
    }};

}  // namespace forebay::formats

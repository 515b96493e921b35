// npz: a zip file of numpy arrays. The sample is x.npy, else the first array.
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/array_records.h"
#include "formats/builtin.h"
#include "formats/byte_buffer.h"
#include "formats/content_kind.h"
#include "formats/npz_check.h"
#include "formats/npz_members.h"
#include "formats/npz_write.h"
#include "formats/parts.h"
#include "formats/zip.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip, Compression::kZip};
constexpr std::string_view kExtensions[] = {"npz"};
constexpr std::string_view kArrayEnd = ".npy";

bool recognises(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.size() < kZipLocalBytes || text.substr(0, 4) != "PK\x03\x04") return false;
  // Only zip files whose first member is an array: other archives are not data sets of ours.
  return is_array_member(text.substr(kZipLocalBytes, static_cast<uint8_t>(head[26])));
}

std::string array_name(const ZipMember& member) {
  return member.name.substr(0, member.name.size() - kArrayEnd.size());
}

// Samples on the last axis as y.npy tells: as many as it has labels, when the axis agrees.
Result<uint64_t> samples_by_labels(ByteSource& source, std::span<const ZipMember> members,
                                   const NpyHeader& sample, Inflater& inflater) {
  const auto labels = std::find_if(members.begin(), members.end(),
                                   [](const ZipMember& member) { return member.name == "y.npy"; });
  if (labels == members.end() || sample.layout.shape.empty()) return uint64_t{1};
  const uint64_t offset = FB_TRY(locate_zip_member(source, *labels));
  const auto header = read_member_header(source, *labels, offset, inflater);
  // Labels of another kind do not count samples; the array is then one.
  if (!header.ok() && header.error().code == ErrorCode::kUnsupported) return uint64_t{1};
  if (!header.ok()) return header.error();
  const auto& shape = header->layout.shape;
  return shape.size() == 1 && shape[0] == sample.layout.shape.back() ? shape[0] : uint64_t{1};
}

Result<FileIndex> index_members(ByteSource& source, const FormatOptions& options) {
  const ZipDirectory directory = FB_TRY(read_zip_directory(source));
  const size_t position = FB_TRY(sample_member(directory.members));
  const ZipMember& member = directory.members[position];
  Inflater inflater;
  const uint64_t data_offset = FB_TRY(locate_zip_member(source, member));
  const NpyHeader header = FB_TRY(read_member_header(source, member, data_offset, inflater));
  if (member.bytes - header.data_offset != header.data_bytes)
    return fail(ErrorCode::kCorruption, "member {}: {} bytes hold an array of {}", member.name,
                member.bytes - header.data_offset, header.data_bytes);
  uint64_t samples = options.samples_per_file;
  if (samples == 0)
    samples = FB_TRY(samples_by_labels(source, directory.members, header, inflater));
  FileIndex result =
      FB_TRY(index_array(header, data_offset, samples).context("member " + member.name));
  if (result.access == Access::kExtents) result.detail = array_name(member);
  if (result.access == Access::kExtents && member.method != kZipStored) {
    result.detail.clear();
    result.access = Access::kTogether;
    result.extents = {};
    result.extent_array.reset();
  }
  return result;
}

Result<FileIndex> index(storage::Store& store, const storage::FileInfo& file,
                        const FormatOptions& options) {
  if (options.samples_per_file == 1) return FileIndex{};  // one sample: nothing to look up
  StoreSource source(store, file);
  auto result = index_members(source, options);
  if (!result.ok()) result = explain_lfs_pointer(source, result.error());
  return std::move(result).context(file.path);
}

bool is_same(const ZipMember& a, const ZipMember& b) {
  return a.name == b.name && a.crc == b.crc && a.bytes == b.bytes &&
         a.compressed_bytes == b.compressed_bytes && a.header_offset == b.header_offset;
}

// Every array of a file, checked and, where it was deflated, inflated.
class NpzArrays {
 public:
  struct Array {
    std::string name;
    ArrayLayout layout;
    std::span<const std::byte> data;
  };

  // As read_sample() does, samples that lie together are unpacked once for all of them.
  Status open(std::string_view path, std::span<const std::byte> bytes, ZipDirectory directory,
              const std::vector<std::string>& columns, const FileIndex& index, uint64_t sample) {
    const bool is_open = index.sample_count > 1 && path == path_ && bytes.data() == file_.data() &&
                         bytes.size() == file_.size() && sample < served_.size() &&
                         !served_[sample] &&
                         std::equal(directory.members.begin(), directory.members.end(),
                                    directory_.members.begin(), directory_.members.end(), is_same);
    if (!is_open) {
      path_.clear();
      directory_ = std::move(directory);
      FB_TRY(unpack(bytes, columns));
      path_ = path;
      file_ = bytes;
      served_.assign(index.sample_count, false);
    }
    if (sample < served_.size()) served_[sample] = true;
    return {};
  }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  Status unpack(std::span<const std::byte> bytes, const std::vector<std::string>& columns) {
    arrays_.clear();
    size_t used = 0;
    for (const ZipMember& member : directory_.members) {
      if (!is_array_member(member.name)) continue;
      const std::string name = array_name(member);
      if (!is_wanted(columns, name)) continue;
      if (used == scratch_.size()) scratch_.emplace_back();
      const auto data = FB_TRY(read_zip_member(bytes, member, inflater_, scratch_[used++]));
      auto header = parse_npy(data);
      if (!header.ok() && header.error().code == ErrorCode::kUnsupported && columns.empty())
        return fail(ErrorCode::kUnsupported, "member {}: {}; name the parts to read without it",
                    member.name, header.error().message);
      const NpyHeader found = FB_TRY(std::move(header).context("member " + member.name));
      arrays_.push_back({name, found.layout, data.subspan(found.data_offset)});
    }
    if (arrays_.empty() && columns.empty())
      return fail(ErrorCode::kCorruption, "no array among its {} members",
                  directory_.members.size());
    return {};
  }

  Inflater inflater_;
  std::deque<ByteBuffer> scratch_;  // one for each inflated array
  std::vector<Array> arrays_;
  // Of the last file:
  std::string path_;
  std::span<const std::byte> file_;
  ZipDirectory directory_;
  std::vector<bool> served_;
};

class NpzReader : public Reader {
 public:
  explicit NpzReader(const FormatOptions& options) : columns_(options.columns) {}

  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& index, uint64_t sample_in_file) override {
    return read_sample(path, bytes, index, sample_in_file).context(std::string(path));
  }
  Status read_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t sample_in_file, std::vector<Part>& out) override {
    out.clear();
    return list_parts(path, bytes, index, sample_in_file, out).context(std::string(path));
  }
  std::unique_ptr<StreamCheck> make_stream_check() override { return make_npz_check(); }

 private:
  Status list_parts(std::string_view path, std::span<const std::byte> bytes, const FileIndex& index,
                    uint64_t i, std::vector<Part>& out) {
    if (index.access == Access::kExtents) {
      const Record record = FB_TRY(extent_record(bytes, index));
      if (is_wanted(columns_, index.detail)) out.push_back({index.detail, record});
      return check_wanted(columns_, out);
    }
    ZipDirectory directory = FB_TRY(open_directory(bytes));
    FB_TRY(arrays_.open(path, bytes, std::move(directory), columns_, index, i));
    for (const NpzArrays::Array& array : arrays_.arrays()) {
      // What has an entry for each sample on its last axis is split; the rest belongs to all.
      const auto& shape = array.layout.shape;
      const bool is_split =
          index.sample_count > 1 && !shape.empty() && shape.back() == index.sample_count;
      out.push_back({array.name, is_split ? array_record(array.layout, array.data, index, i)
                                          : array_record(array.layout, array.data, {}, 0)});
    }
    return check_wanted(columns_, out);
  }

  static Result<ZipDirectory> open_directory(std::span<const std::byte> bytes) {
    if (bytes.empty()) return fail(ErrorCode::kCorruption, "empty file");
    SpanSource source(bytes);
    auto directory = read_zip_directory(source);
    if (directory.ok()) return directory;
    const std::string_view kind = content_kind(bytes.first(std::min<size_t>(bytes.size(), 256)));
    if (kind == "zip archive") return directory.error();
    return fail(ErrorCode::kCorruption, "not an npz file ({}): {}", kind,
                directory.error().message);
  }

  Result<Record> read_sample(std::string_view path, std::span<const std::byte> bytes,
                             const FileIndex& index, uint64_t sample_in_file) {
    // A part of a member has no CRC of its own; whoever wants it checked reads the file whole.
    if (index.access == Access::kExtents) return extent_record(bytes, index);
    const ZipDirectory directory = FB_TRY(open_directory(bytes));
    const size_t position = FB_TRY(sample_member(directory.members));
    const ZipMember& member = directory.members[position];
    if (!is_verified(path, bytes, member, index, sample_in_file))
      FB_TRY(verify(path, bytes, member, index));
    if (index.sample_count > 1) served_[sample_in_file] = true;
    return array_record(header_.layout, data_, index, sample_in_file);
  }

  // Samples that lie together come one by one from the same bytes: these are inflated and checked
  // once. A sample asked for again means that the caller has read the file anew.
  bool is_verified(std::string_view path, std::span<const std::byte> bytes, const ZipMember& member,
                   const FileIndex& index, uint64_t sample_in_file) const {
    return index.sample_count > 1 && path == path_ && bytes.data() == file_.data() &&
           bytes.size() == file_.size() && member.crc == member_.crc &&
           member.bytes == member_.bytes && member.compressed_bytes == member_.compressed_bytes &&
           member.header_offset == member_.header_offset && served_.size() == index.sample_count &&
           sample_in_file < served_.size() && !served_[sample_in_file];
  }

  Status verify(std::string_view path, std::span<const std::byte> bytes, const ZipMember& member,
                const FileIndex& index) {
    path_.clear();
    served_.clear();
    const auto data = FB_TRY(read_zip_member(bytes, member, inflater_, scratch_));
    header_ = FB_TRY(parse_npy(data).context("member " + member.name));
    if (index.sample_count > 1)
      FB_TRY(index_array(header_, 0, index.sample_count).context("member " + member.name));
    data_ = data.subspan(header_.data_offset);
    path_ = path;
    file_ = bytes;
    member_ = member;
    served_.assign(index.sample_count, false);
    return {};
  }

  Inflater inflater_;
  ByteBuffer scratch_;
  // Of the last file that was verified:
  std::string path_;
  std::span<const std::byte> file_;
  ZipMember member_;
  NpyHeader header_;
  std::span<const std::byte> data_;
  std::vector<bool> served_;
  std::vector<std::string> columns_;
  NpzArrays arrays_;  // for read_parts
};

}  // namespace

const Format kNpz{.name = "npz",
                  .summary = "a zip file of numpy arrays",
                  .extensions = kExtensions,
                  .recognises = recognises,
                  .index = index,
                  .make_reader = [](const FormatOptions& options) -> std::unique_ptr<Reader> {
                    return std::make_unique<NpzReader>(options);
                  },
                  .compressions = kCompressions,
                  .write = write_npz,
                  .estimate_bytes = npz_bytes};

}  // namespace forebay::formats

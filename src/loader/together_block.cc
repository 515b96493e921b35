#include "loader/together_block.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace forebay::loader {
namespace {

using formats::Part;

// Samples may be few bytes each and hundreds of thousands: what they have in common is kept once.
class TogetherBlock : public formats::DecodedBlock {
 public:
  explicit TogetherBlock(BufferRef file) : file_(std::move(file)) {}

  Result<formats::Record> at(uint64_t sample) const override {
    FB_TRY(check(sample));
    return part(parts_[first_part_[sample]]).record;
  }
  Status parts_at(uint64_t sample, std::vector<Part>& out) const override {
    out.clear();
    FB_TRY(check(sample));
    for (size_t i = first_part_[sample]; i < first_part_[sample + 1]; ++i)
      out.push_back(part(parts_[i]));
    return {};
  }
  uint64_t bytes() const override {
    uint64_t bytes = is_file_used_ ? file_->size : 0;
    for (const std::vector<std::byte>& chunk : chunks_) bytes += chunk.capacity();
    return bytes + parts_.capacity() * sizeof(PackedPart) + kinds_.size() * sizeof(Part) +
           first_part_.capacity() * sizeof(size_t) + errors_.size() * kErrorBytes;
  }

  void take(formats::Reader& reader, std::string_view path, const formats::FileIndex& index,
            bool has_parts) {
    const std::span<const std::byte> bytes = file_ ? file_->span() : std::span<std::byte>();
    std::vector<Part> parts;
    // A count may be what the caller claims.
    first_part_.reserve(std::min(index.sample_count, kReservedMax) + 1);
    for (uint64_t i = 0; i < index.sample_count; ++i) {
      Status read = read_one(reader, path, bytes, index, i, has_parts, parts);
      if (!read.ok()) {
        errors_.emplace(i, std::move(read).error());
        parts.clear();
        if (fails_as_a_whole(i)) break;
      }
      last_.resize(std::max(last_.size(), parts.size()));
      for (size_t number = 0; number < parts.size(); ++number) keep(parts[number], last_[number]);
      if (i == 0) parts_.reserve(std::min(index.sample_count, kReservedMax) * parts_.size());
      first_part_.push_back(parts_.size());
    }
    if (!is_file_used_) file_.reset();
  }

 private:
  static constexpr size_t kChunkBytes = 64 << 10, kErrorBytes = 256, kAlikeErrors = 4;
  static constexpr uint64_t kReservedMax = 1 << 16;

  struct PackedPart {
    const std::byte* data = nullptr;
    uint64_t size = 0, sample_in_file = 0;
    size_t kind = 0;
  };
  // The part of this number of the sample before.
  struct Last {
    std::span<const std::byte> from;
    size_t part = SIZE_MAX;
  };

  static Status read_one(formats::Reader& reader, std::string_view path,
                         std::span<const std::byte> bytes, const formats::FileIndex& index,
                         uint64_t sample, bool has_parts, std::vector<Part>& parts) {
    parts.clear();
    if (has_parts) return reader.read_parts(path, bytes, index, sample, parts);
    const formats::Record record = FB_TRY(reader.read(path, bytes, index, sample));
    parts.push_back({.name = {}, .record = record});
    return {};
  }

  // Whether the first samples all fail in the same words: then the file cannot be unpacked, and
  // each of the others would only unpack it in vain once more.
  bool fails_as_a_whole(uint64_t sample) {
    if (sample + 1 != kAlikeErrors || errors_.size() != kAlikeErrors) return false;
    const Error& first = errors_.begin()->second;
    for (const auto& [number, error] : errors_)
      if (error.code != first.code || error.message != first.message) return false;
    rest_error_ = first;
    return true;
  }

  Status check(uint64_t sample) const {
    const auto found = errors_.find(sample);
    if (found != errors_.end()) return Error(found->second);
    if (rest_error_ && sample >= kAlikeErrors) return Error(*rest_error_);
    return {};
  }

  Part part(const PackedPart& packed) const {
    Part part = kinds_[packed.kind];
    part.record.bytes = {packed.data, packed.size};
    part.record.sample_in_file = packed.sample_in_file;
    return part;
  }

  // Arrays cut along an axis come as the same bytes for every sample: one copy serves all.
  void keep(const Part& part, Last& last) {
    const formats::Record& record = part.record;
    PackedPart packed{record.bytes.data(), record.bytes.size(), record.sample_in_file,
                      kind_of(part, last)};
    if (file_ && file_->holds(record.bytes)) {
      is_file_used_ = true;
    } else if (last.part != SIZE_MAX && record.sample_axis >= 0 &&
               record.bytes.data() == last.from.data() && record.bytes.size() == last.from.size()) {
      packed.data = parts_[last.part].data;
    } else {
      packed.data = copy(record.bytes);
    }
    last = {record.bytes, parts_.size()};
    parts_.push_back(packed);
  }

  const std::byte* copy(std::span<const std::byte> bytes) {
    if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < bytes.size()) {
      chunks_.emplace_back();
      chunks_.back().reserve(std::max(kChunkBytes, bytes.size()));
    }
    std::vector<std::byte>& chunk = chunks_.back();
    const size_t at = chunk.size();
    chunk.insert(chunk.end(), bytes.begin(), bytes.end());  // within its capacity: nothing moves
    return chunk.data() + at;
  }

  // All that a part has but its bytes: most often as the one before.
  size_t kind_of(const Part& part, const Last& last) {
    if (last.part != SIZE_MAX && is_alike(kinds_[parts_[last.part].kind], part))
      return parts_[last.part].kind;
    kinds_.push_back(part);
    Part& kind = kinds_.back();
    kind.name = *names_.insert(std::string(part.name)).first;
    kind.record.bytes = {};
    return kinds_.size() - 1;
  }
  static bool is_alike(const Part& a, const Part& b) {
    const formats::ArrayLayout &x = a.record.array, &y = b.record.array;
    return a.name == b.name && a.record.encoding == b.record.encoding &&
           a.record.sample_axis == b.record.sample_axis && x.type == y.type &&
           x.is_big_endian == y.is_big_endian && x.is_fortran_order == y.is_fortran_order &&
           x.shape == y.shape;
  }

  BufferRef file_;
  bool is_file_used_ = false;
  std::vector<std::vector<std::byte>> chunks_;
  std::vector<Last> last_;  // by number of the part in its sample
  std::unordered_set<std::string> names_;
  std::vector<Part> kinds_;  // without bytes
  std::vector<PackedPart> parts_;
  std::vector<size_t> first_part_{0};  // of each sample, and the end
  std::map<uint64_t, Error> errors_;
  std::optional<Error> rest_error_;  // of all samples from kAlikeErrors on
};

}  // namespace

std::shared_ptr<const formats::DecodedBlock> decode_together(formats::Reader& reader,
                                                             std::string_view path,
                                                             const BufferRef& file,
                                                             const formats::FileIndex& index,
                                                             bool has_parts) {
  auto block = std::make_shared<TogetherBlock>(file);
  block->take(reader, path, index, has_parts);
  return block;
}

}  // namespace forebay::loader

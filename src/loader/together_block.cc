#include "loader/together_block.h"

#include <utility>
#include <vector>

namespace forebay::loader {
namespace {

class TogetherBlock : public formats::DecodedBlock {
 public:
  Result<formats::Record> at(uint64_t sample) const override { return records_[sample]; }
  uint64_t bytes() const override { return bytes_; }

  void take(formats::Reader& reader, std::string_view path, const BufferRef& file,
            const formats::FileIndex& index) {
    std::span<const std::byte> copied_from;
    records_.reserve(index.sample_count);
    for (uint64_t i = 0; i < index.sample_count; ++i) {
      Result<formats::Record> record = reader.read(path, file->span(), index, i);
      if (record.ok()) place(record.value(), file, copied_from);
      records_.push_back(std::move(record));
    }
  }

 private:
  // Arrays cut along an axis come as the same bytes for every sample: one copy serves all.
  void place(formats::Record& record, const BufferRef& file,
             std::span<const std::byte>& copied_from) {
    if (file->holds(record.bytes)) {
      if (!file_) bytes_ += file->size;
      file_ = file;
      return;
    }
    const bool is_same = !copies_.empty() && record.bytes.data() == copied_from.data() &&
                         record.bytes.size() == copied_from.size();
    if (!is_same || record.sample_axis < 0) {
      copied_from = record.bytes;
      copies_.emplace_back(record.bytes.begin(), record.bytes.end());
      bytes_ += record.bytes.size();
    }
    record.bytes = copies_.back();
  }

  BufferRef file_;
  std::vector<std::vector<std::byte>> copies_;
  std::vector<Result<formats::Record>> records_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::shared_ptr<const formats::DecodedBlock> decode_together(formats::Reader& reader,
                                                             std::string_view path,
                                                             const BufferRef& file,
                                                             const formats::FileIndex& index) {
  auto block = std::make_shared<TogetherBlock>();
  block->take(reader, path, file, index);
  return block;
}

}  // namespace forebay::loader

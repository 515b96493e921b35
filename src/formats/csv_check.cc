#include "formats/csv_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/csv_parser.h"
#include "formats/unpack.h"

namespace forebay::formats {
namespace {

constexpr size_t kMagicBytes = 6;

class CsvCheck : public StreamCheck {
 public:
  void begin(std::string_view path, uint64_t file_bytes) override {
    path_ = path;
    file_bytes_ = file_bytes;
    bytes_seen_ = 0;
    head_.clear();
    is_packed_ = false;
    verdict_ = Status();
    parser_.begin();
  }

  void visit(std::span<const std::byte> piece) override {
    bytes_seen_ += piece.size();
    if (head_.size() < kMagicBytes) {
      const size_t n = std::min(piece.size(), kMagicBytes - head_.size());
      head_.insert(head_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(n));
      piece = piece.subspan(n);
      if (head_.size() < kMagicBytes) return;
      begin_text();
    }
    if (verdict_.ok() && !is_packed_) verdict_ = parser_.append(piece);
  }

  Status finish() override {
    if (head_.size() < kMagicBytes) begin_text();
    return judge().context(path_);
  }
  uint64_t payload_bytes() const override { return parser_.value_count() * sizeof(uint64_t); }

 private:
  // The first bytes have been held back to see whether text comes at all.
  void begin_text() {
    is_packed_ = packing_of(head_) != Compression::kNone;
    if (!is_packed_) verdict_ = parser_.append(head_);
  }

  Status judge() {
    if (is_packed_) return fail(ErrorCode::kUnsupported, "compressed");
    if (!verdict_.ok()) return verdict_;
    if (bytes_seen_ != file_bytes_)
      return fail(ErrorCode::kCorruption, "truncated at byte {} of {}", bytes_seen_, file_bytes_);
    return parser_.finish();
  }

  std::string path_;
  uint64_t file_bytes_ = 0, bytes_seen_ = 0;
  std::vector<std::byte> head_;
  bool is_packed_ = false;
  Status verdict_;
  CsvParser parser_{false};
};

}  // namespace

std::unique_ptr<StreamCheck> make_csv_check() {
  return std::make_unique<CsvCheck>();
}

}  // namespace forebay::formats

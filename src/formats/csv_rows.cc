#include "formats/csv_rows.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/content_kind.h"

namespace forebay::formats {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
constexpr uint64_t kFirstFieldBytes = 4096;

class RowFinder {
 public:
  // The first `skipped_bytes` belong to no line.
  RowFinder(const CsvLayout& layout, uint64_t skipped_bytes)
      : layout_(layout),
        is_header_(layout.has_header),
        at_(skipped_bytes),
        line_start_(skipped_bytes) {}

  Status append(std::string_view text) {
    while (!text.empty()) {
      const size_t line_end = text.find('\n');
      const bool is_whole = line_end != std::string_view::npos;
      const std::string_view part = text.substr(0, is_whole ? line_end + 1 : text.size());
      at_ += part.size();
      if (index_.extents.empty() && !is_header_)
        commas_ += static_cast<uint64_t>(std::count(part.begin(), part.end(), ','));
      is_blank_ = is_blank_ && part.find_first_not_of("\r\n") == std::string_view::npos;
      text.remove_prefix(part.size());
      if (is_whole) FB_TRY(end_line());
    }
    return {};
  }

  Result<FileIndex> finish() {
    if (at_ > line_start_) FB_TRY(end_line());
    if (index_.extents.empty()) return fail(ErrorCode::kCorruption, "no line of numbers");
    if (index_.extents.size() == 1) return FileIndex{};
    index_.access = Access::kExtents;
    index_.sample_count = index_.extents.size();
    layout_.columns = commas_ + (layout_.has_row_numbers ? 0 : 1);
    index_.detail = fmt::format("{}{}{}", layout_.has_header ? "h" : "-",
                                layout_.has_row_numbers ? "n" : "-", layout_.columns);
    return std::move(index_);
  }

 private:
  Status end_line() {
    if (is_blank_ && !is_header_) {
      has_blank_ = true;
    } else if (has_blank_) {
      return fail(ErrorCode::kCorruption, "a blank line precedes line {}", line_);
    } else if (!is_header_) {
      index_.extents.push_back({line_start_, at_ - line_start_});
    }
    is_header_ = false;
    is_blank_ = true;
    line_start_ = at_;
    ++line_;
    return {};
  }

  CsvLayout layout_;
  bool is_header_, is_blank_ = true, has_blank_ = false;
  uint64_t at_, line_start_, line_ = 1;
  uint64_t commas_ = 0;  // of the first line of numbers
  FileIndex index_;
};

}  // namespace

Result<FileIndex> index_csv_rows(ByteSource& source) {
  const auto head = FB_TRY(source.at(0, std::min(source.size(), kFirstFieldBytes)));
  if (head.empty()) return fail(ErrorCode::kCorruption, "empty file");
  FB_TRY(refuse_lfs_pointer(head));
  std::string_view field(reinterpret_cast<const char*>(head.data()), head.size());
  const uint64_t mark = field.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  field.remove_prefix(mark);
  const size_t end = std::min(field.find_first_of(",\n"), field.size());
  const bool is_blank_line = end < field.size() && field[end] == '\n' &&
                             field.substr(0, end).find_first_not_of('\r') == std::string_view::npos;
  field = field.substr(0, end);
  if (field.ends_with('\r')) field.remove_suffix(1);
  RowFinder finder(is_blank_line ? CsvLayout() : layout_from_first_field(field), mark);
  for (uint64_t offset = mark; offset < source.size(); offset += kWindowBytes) {
    const auto piece = FB_TRY(source.at(offset, std::min(kWindowBytes, source.size() - offset)));
    FB_TRY(finder.append({reinterpret_cast<const char*>(piece.data()), piece.size()}));
  }
  return finder.finish();
}

Result<CsvLayout> csv_layout_of(const FileIndex& index) {
  const std::string& detail = index.detail;
  CsvLayout layout;
  if (detail.size() >= 3) {
    layout.has_header = detail[0] == 'h';
    layout.has_row_numbers = detail[1] == 'n';
    const char* end = detail.data() + detail.size();
    if (std::from_chars(detail.data() + 2, end, layout.columns).ptr == end) return layout;
  }
  return fail(ErrorCode::kInvalidArgument, "the index lacks the layout of its lines");
}

}  // namespace forebay::formats

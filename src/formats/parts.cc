#include "formats/parts.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/content_kind.h"

namespace forebay::formats {

std::string_view part_name(Encoding encoding) {
  switch (encoding) {
    case Encoding::kJpeg:
    case Encoding::kPng:
      return "image";
    case Encoding::kText:
      return "text";
    case Encoding::kJson:
      return "json";
    case Encoding::kRaw:
    case Encoding::kArray:
    case Encoding::kExample:
      break;
  }
  return "data";
}

Status Reader::read_parts(std::string_view path, std::span<const std::byte> bytes,
                          const FileIndex& index, uint64_t sample_in_file, std::vector<Part>& out) {
  out.clear();
  const Record record = FB_TRY(read(path, bytes, index, sample_in_file));
  out.push_back({part_name(record.encoding), record});
  return {};
}

Status DecodedBlock::parts_at(uint64_t sample, std::vector<Part>& out) const {
  out.clear();
  const Record record = FB_TRY(at(sample));
  out.push_back({part_name(record.encoding), record});
  return {};
}

Record record_of_content(std::span<const std::byte> bytes) {
  const Encoding encoding = is_jpeg(bytes)  ? Encoding::kJpeg
                            : is_png(bytes) ? Encoding::kPng
                                            : Encoding::kRaw;
  return {.encoding = encoding, .bytes = bytes};
}

Status check_text(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = base::utf8_length(text.substr(at));
    if (length == 0) return fail(ErrorCode::kCorruption, "not UTF-8 at byte {}", at);
    at += length;
  }
  return {};
}

bool is_wanted(const std::vector<std::string>& columns, std::string_view name) {
  return columns.empty() || std::find(columns.begin(), columns.end(), name) != columns.end();
}

Status check_wanted(const std::vector<std::string>& columns, const std::vector<Part>& parts) {
  for (const std::string& column : columns) {
    const bool is_there = std::any_of(parts.begin(), parts.end(),
                                      [&](const Part& part) { return part.name == column; });
    if (is_there) continue;
    std::vector<std::string_view> names;
    for (const Part& part : parts) names.push_back(part.name);
    return fail(ErrorCode::kCorruption, "no part {}; of those asked for it has: {}", column,
                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return {};
}

}  // namespace forebay::formats

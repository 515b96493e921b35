#include "formats/image_record.h"

#include <algorithm>

#include "base/error.h"
#include "formats/content_kind.h"
#include "formats/payload.h"

namespace forebay::formats {

Result<Record> read_image(std::string_view path, std::span<const std::byte> bytes) {
  if (is_jpeg(bytes)) return Record{.encoding = Encoding::kJpeg, .bytes = bytes};
  if (is_png(bytes)) return Record{.encoding = Encoding::kPng, .bytes = bytes};
  if (bytes.empty()) return fail(ErrorCode::kCorruption, "{}: empty file", path);
  const std::string_view kind = content_kind(bytes.first(std::min<size_t>(bytes.size(), 256)));
  if (kind.substr(0, 6) == "image/")
    return fail(ErrorCode::kUnsupported, "{}: is {}; only jpeg and png are decoded", path, kind);
  return fail(ErrorCode::kCorruption, "{}: not an image: {}", path, kind);
}

Result<FileSpec> grey_image_spec(const FileSpec& spec) {
  FileSpec image = spec;
  if (!spec.shape.empty()) {
    image.rows = spec.shape[0];
    image.columns = spec.shape.size() > 1 ? spec.shape[1] : 1;
  }
  image.shape.clear();
  image.type = ElementType::kU8;
  image.sample_count = 1;
  FB_TRY(check_spec(image));
  return image;
}

}  // namespace forebay::formats

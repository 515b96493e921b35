// jpeg: one image per file. Reading checks what the file is; pixels are made in ops.
#include <turbojpeg.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/builtin.h"
#include "formats/content_kind.h"
#include "formats/image_record.h"
#include "formats/payload.h"

namespace forebay::formats {
namespace {

constexpr Compression kCompressions[] = {Compression::kNone};
constexpr std::string_view kExtensions[] = {"jpeg", "jpg", "jpe"};
constexpr uint64_t kSideMax = 65500;  // the library's limit, below the format's 65535
constexpr int kQuality = 75;          // Pillow's default, which DLIO uses

Result<FileIndex> index(storage::Store& /*store*/, const storage::FileInfo& file,
                        const FormatOptions& /*options*/) {
  if (file.size == 0) return fail(ErrorCode::kCorruption, "{}: empty file", file.path);
  return FileIndex{};
}

class JpegReader : public Reader {
 public:
  // What is an image by content but not a JPEG is passed on as what it is: folders of photographs
  // hold PNG files named .jpg.
  Result<Record> read(std::string_view path, std::span<const std::byte> bytes,
                      const FileIndex& /*index*/, uint64_t /*sample_in_file*/) override {
    return read_image(path, bytes);
  }
};

Status check_side(const FileSpec& spec) {
  if (spec.rows > kSideMax || spec.columns > kSideMax)
    return fail(ErrorCode::kInvalidArgument, "{}: a JPEG of {} x {} pixels (at most {} a side)",
                spec.path, spec.columns, spec.rows, kSideMax);
  return {};
}

Status write(storage::Writer& writer, bool /*can_patch*/, const FileSpec& spec) {
  const FileSpec image = FB_TRY(grey_image_spec(spec));
  FB_TRY(check_side(image));
  std::vector<std::byte> pixels;
  Payload payload(image);
  FB_TRY(payload.produce(payload_bytes(image), [&](std::span<const std::byte> piece) {
    pixels.insert(pixels.end(), piece.begin(), piece.end());
    return Status();
  }));
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  if (!handle) return fail(ErrorCode::kResourceExhausted, "{}: no JPEG encoder", spec.path);
  unsigned char* encoded = nullptr;
  unsigned long encoded_bytes = 0;
  const int code = tjCompress2(handle.get(), reinterpret_cast<unsigned char*>(pixels.data()),
                               static_cast<int>(image.columns), 0, static_cast<int>(image.rows),
                               TJPF_GRAY, &encoded, &encoded_bytes, TJSAMP_GRAY, kQuality, 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(encoded, tjFree);
  if (code != 0)
    return fail(ErrorCode::kIo, "{}: JPEG encoder: {}", spec.path, tjGetErrorStr2(handle.get()));
  return writer.append(std::as_bytes(std::span(encoded, encoded_bytes)));
}

// The encoder's own bound; noise takes about 0.6 bytes a pixel.
uint64_t estimate_bytes(const FileSpec& spec) {
  const auto image = grey_image_spec(spec);
  if (!image.ok() || !check_side(*image).ok()) return UINT64_MAX;
  return tjBufSize(static_cast<int>(image->columns), static_cast<int>(image->rows), TJSAMP_GRAY);
}

}  // namespace

const Format kJpeg{.name = "jpeg",
                   .summary = "one JPEG image per file",
                   .extensions = kExtensions,
                   .recognises = is_jpeg,
                   .index = index,
                   .make_reader = [](const FormatOptions&) -> std::unique_ptr<Reader> {
                     return std::make_unique<JpegReader>();
                   },
                   .compressions = kCompressions,
                   .write = write,
                   .estimate_bytes = estimate_bytes,
                   .family = kImageFamily};

}  // namespace forebay::formats

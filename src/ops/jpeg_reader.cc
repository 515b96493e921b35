#include "ops/jpeg_reader.h"

#include <setjmp.h>

#include <algorithm>
#include <cstdio>  // jpeglib.h wants FILE
#include <string_view>

#include <jpeglib.h>

#include <jerror.h>

#include "base/check.h"
#include "base/error.h"
#include "formats/byte_buffer.h"
#include "formats/content_kind.h"
#include "ops/codec.h"

namespace forebay::ops {
namespace {

constexpr uint32_t kSideMax = 65500;  // of the library; 65535 in the format
constexpr int kScansMax = 500;  // a small progressive file may otherwise ask for hours of work
constexpr int kRowsAtOnce = 8;
constexpr size_t kSlack = 64;

// The library reports through callbacks; errors come back by longjmp, so nothing in the frames
// between may have a destructor.
struct ErrorState {
  jpeg_error_mgr manager{};  // first: the library hands back a pointer to it
  jmp_buf jump{};
  bool is_cut = false;
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  info->err->format_message(info, state->message);
  longjmp(state->jump, 1);
}

// Warnings (stray bytes before a marker, say) leave a whole image, which Pillow and others accept
// without a word; a file that ends too early does not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  if (info->err->msg_code == JWRN_JPEG_EOF) state->is_cut = true;
}

void on_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kScansMax) return;
  auto* state = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(state->message, sizeof state->message, "more than %d scans", kScansMax);
  longjmp(state->jump, 1);
}

J_COLOR_SPACE color_space(JpegPixels pixels) {
  switch (pixels) {
    case JpegPixels::kGrey:
      return JCS_GRAYSCALE;
    case JpegPixels::kRgb:
      return JCS_EXT_RGB;
    case JpegPixels::kRgba:
      return JCS_EXT_RGBA;
    case JpegPixels::kCmyk:
      return JCS_CMYK;
  }
  return JCS_UNKNOWN;
}

bool has_end_marker(std::span<const std::byte> scans) {
  for (size_t i = scans.size(); i >= 2; --i)
    if (scans[i - 2] == std::byte{0xff} && scans[i - 1] == std::byte{0xd9}) return true;
  return false;
}

uint8_t multiply_255(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;  // rounds as (a * b) / 255
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

}  // namespace

// r = k * c / 255 of what the file stores.
void cmyk_to_rgb(std::span<const std::byte> cmyk, bool is_ink, std::span<std::byte> out,
                 size_t out_step) {
  const uint32_t flip = is_ink ? 255 : 0;
  const size_t pixels = cmyk.size() / 4;
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t black = static_cast<uint32_t>(cmyk[i * 4 + 3]) ^ flip;
    for (size_t c = 0; c < 3; ++c)
      out[i * out_step + c] =
          std::byte{multiply_255(static_cast<uint32_t>(cmyk[i * 4 + c]) ^ flip, black)};
    if (out_step == 4) out[i * 4 + 3] = std::byte{255};
  }
}

class JpegReader::Impl {
 public:
  Impl() {
    info_.err = jpeg_std_error(&error_.manager);
    error_.manager.error_exit = on_error;
    error_.manager.emit_message = on_message;
    progress_.progress_monitor = on_progress;
    // NOLINTNEXTLINE(cert-err52-cpp): the library knows no other way
    if (setjmp(error_.jump) != 0) return;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    is_made_ = true;
  }
  ~Impl() {
    if (is_made_) jpeg_destroy_decompress(&info_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Rows go to `sink`, or straight to `whole` when that is not null.
  Status run(std::span<const std::byte> bytes, const JpegRequest& request, bool is_fast,
             RowSink* sink, std::byte* whole) {
    if (!is_made_) return fail(ErrorCode::kResourceExhausted, "no JPEG decoder");
    error_.is_cut = false;
    const bool is_done = decode(bytes, request, is_fast, sink, whole);
    jpeg_abort_decompress(&info_);
    if (error_.is_cut) return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
    if (is_done) return {};
    return fail(ErrorCode::kCorruption, "JPEG decoder: {}", std::string_view(error_.message));
  }

 private:
  bool decode(std::span<const std::byte> bytes, const JpegRequest& request, bool is_fast,
              RowSink* sink, std::byte* whole) {
    // NOLINTNEXTLINE(cert-err52-cpp): the library knows no other way
    if (setjmp(error_.jump) != 0) return false;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = color_space(request.pixels);
    info_.scale_num = request.eighths;
    info_.scale_denom = 8;
    info_.dct_method = is_fast ? JDCT_IFAST : JDCT_ISLOW;
    jpeg_start_decompress(&info_);
    if (whole != nullptr) {
      const size_t row_bytes = size_t{info_.output_width} * channels_of(request.pixels);
      read_into(whole, row_bytes);
    } else {
      read_area(request, sink);
    }
    return true;
  }

  void read_into(std::byte* out, size_t row_bytes) {
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[kRowsAtOnce];
      const JDIMENSION n =
          std::min<JDIMENSION>(kRowsAtOnce, info_.output_height - info_.output_scanline);
      for (JDIMENSION i = 0; i < n; ++i)
        rows[i] = reinterpret_cast<JSAMPROW>(out + (info_.output_scanline + i) * row_bytes);
      jpeg_read_scanlines(&info_, rows, n);
    }
  }

  // Smooth upsampling of colour looks at neighbours: two more columns on either side make the
  // rectangle's own pixels those of the whole image.
  void read_area(const JpegRequest& request, RowSink* sink) {
    constexpr JDIMENSION kMargin = 2;
    const Rectangle& area = request.area;
    JDIMENSION left = area.x > kMargin ? area.x - kMargin : 0;
    const JDIMENSION right =
        std::min<JDIMENSION>(area.x + area.width + kMargin, info_.output_width);
    if (left > 0 || right < info_.output_width) {
      JDIMENSION width = right - left;
      jpeg_crop_scanline(&info_, &left, &width);
    }
    const size_t pixel_bytes = channels_of(request.pixels);
    const size_t row_bytes = size_t{info_.output_width} * pixel_bytes;
    std::byte* memory = rows_.reserve(row_bytes * kRowsAtOnce + 2 * kSlack).data() + kSlack;
    if (area.y > 0) jpeg_skip_scanlines(&info_, area.y);
    for (uint32_t y = 0; y < area.height;) {
      JSAMPROW rows[kRowsAtOnce];
      const uint32_t wanted = std::min<uint32_t>(kRowsAtOnce, area.height - y);
      for (uint32_t i = 0; i < wanted; ++i)
        rows[i] = reinterpret_cast<JSAMPROW>(memory + i * row_bytes);
      const uint32_t got = jpeg_read_scanlines(&info_, rows, wanted);
      for (uint32_t i = 0; i < got; ++i)
        sink->row(y + i, memory + i * row_bytes + (area.x - left) * pixel_bytes);
      y += got;
    }
  }

  ErrorState error_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
  bool is_made_ = false;
  formats::ByteBuffer rows_;
};

JpegReader::JpegReader(const DecodeOptions& options) : options_(options) {}
JpegReader::~JpegReader() = default;

Result<JpegInfo> JpegReader::open(std::span<const std::byte> bytes) const {
  if (!formats::is_jpeg(bytes))
    return fail(ErrorCode::kCorruption, "not a JPEG: {}", formats::content_kind(bytes));
  const JpegInfo info = FB_TRY(read_jpeg_info(bytes));
  if (info.precision != 8)
    return fail(ErrorCode::kUnsupported, "a JPEG of {} bits per sample", info.precision);
  if (info.components != 1 && info.components != 3 && info.components != 4)
    return fail(ErrorCode::kUnsupported, "a JPEG of {} components", info.components);
  if (info.width > kSideMax || info.height > kSideMax)
    return fail(ErrorCode::kUnsupported, "a JPEG of {} x {} pixels (at most {} a side)", info.width,
                info.height, kSideMax);
  FB_TRY(check_pixels(info.width, info.height, options_));
  // A block of 8 x 8 pixels takes at least one bit, so a short file cannot hold a large image.
  if (uint64_t{info.width / 8} * (info.height / 8) > uint64_t{bytes.size()} * 8)
    return fail(ErrorCode::kCorruption, "truncated at byte {}: too short for {} x {} pixels",
                bytes.size(), info.width, info.height);
  if (!has_end_marker(bytes.subspan(info.scan_offset)))
    return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
  return info;
}

Status JpegReader::read(std::span<const std::byte> bytes, const JpegInfo& info,
                        const JpegRequest& request, RowSink& sink) {
  const Rectangle& area = request.area;
  const auto scaled = [&](uint32_t side) { return (side * request.eighths + 7) / 8; };
  FB_CHECK(area.width > 0 && area.height > 0 && area.x + area.width <= scaled(info.width) &&
           area.y + area.height <= scaled(info.height));
  if (!impl_) impl_ = std::make_unique<Impl>();
  return impl_->run(bytes, request, options_.fast_dct, &sink, nullptr);
}

Status JpegReader::read_all(std::span<const std::byte> bytes, const JpegInfo& info,
                            JpegPixels pixels, std::span<std::byte> out) {
  FB_CHECK(out.size() >= uint64_t{info.width} * info.height * channels_of(pixels));
  if (!impl_) impl_ = std::make_unique<Impl>();
  return impl_->run(bytes, {.pixels = pixels}, options_.fast_dct, nullptr, out.data());
}

}  // namespace forebay::ops

#include <turbojpeg.h>

#include <string_view>

#include "base/error.h"
#include "formats/content_kind.h"
#include "ops/codec.h"
#include "ops/image_info.h"
#include "ops/orient.h"

namespace forebay::ops {
namespace {

using formats::Record;

constexpr uint32_t kSideMax = 65500;  // of the library; 65535 in the format

struct Plan {
  JpegInfo info;
  int orientation = 1;
  int channels = 3;  // of the result
  uint64_t pixels() const { return uint64_t{info.width} * info.height; }
  uint64_t bytes() const { return pixels() * static_cast<uint64_t>(channels); }
};

// Ink of four-component images. With an Adobe marker the file stores 255 - ink.
void invert(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = ~b;
}

uint8_t multiply_255(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;  // rounds as (a * b) / 255
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

// r = k * c / 255 of what the file stores: light, not ink. `is_ink` when it stores ink.
void cmyk_to_rgb(std::span<const std::byte> cmyk, bool is_ink, std::span<std::byte> rgb) {
  const uint32_t flip = is_ink ? 255 : 0;
  const size_t pixels = cmyk.size() / 4;
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t black = static_cast<uint32_t>(cmyk[i * 4 + 3]) ^ flip;
    for (size_t c = 0; c < 3; ++c)
      rgb[i * 3 + c] =
          std::byte{multiply_255(static_cast<uint32_t>(cmyk[i * 4 + c]) ^ flip, black)};
  }
}

// The library's error code cannot tell a warning from an error that follows one; the message can.
// Warnings (stray bytes before a marker, say) leave a whole image, which Pillow and others accept
// without a word.
bool is_warning(std::string_view message) {
  for (const std::string_view start :
       {"Corrupt JPEG data:", "Unknown Adobe color transform", "Inconsistent progression sequence",
        "Warning:", "Invalid SOS parameters for sequential"})
    if (message.substr(0, start.size()) == start) return true;
  return false;
}

// Only the first of several warnings is told, so a cut file is known by its missing end marker.
bool has_end_marker(std::span<const std::byte> scans) {
  for (size_t i = scans.size(); i >= 2; --i)
    if (scans[i - 2] == std::byte{0xff} && scans[i - 1] == std::byte{0xd9}) return true;
  return false;
}

class JpegCodec : public Codec {
 public:
  explicit JpegCodec(const DecodeOptions& options)
      : options_(options), handle_(tjInitDecompress(), tjDestroy) {}

  Result<uint64_t> decoded_bytes(const Record& record) override {
    const Plan plan = FB_TRY(make_plan(record.bytes));
    return plan.bytes();
  }

  Result<Sample> decode(const Record& record, std::span<std::byte> destination) override {
    const Plan plan = FB_TRY(make_plan(record.bytes));
    const std::span<std::byte> out = choose_output(destination, plan.bytes(), scratch_);
    const bool turns = plan.orientation != 1;
    const std::span<std::byte> upright = turns ? turned_.reserve(plan.bytes()) : out;
    FB_TRY(decode_pixels(record.bytes, plan, upright));
    Sample sample{
        .shape = {plan.info.height, plan.info.width, static_cast<uint64_t>(plan.channels)},
        .bytes = out};
    if (turns) {
      orient({plan.info.height, plan.info.width, static_cast<size_t>(plan.channels)},
             plan.orientation, upright, out);
      if (swaps_sides(plan.orientation)) std::swap(sample.shape[0], sample.shape[1]);
    }
    return sample;
  }

 private:
  Result<Plan> make_plan(std::span<const std::byte> bytes) const {
    if (!formats::is_jpeg(bytes))
      return fail(ErrorCode::kCorruption, "not a JPEG: {}", formats::content_kind(bytes));
    Plan plan{.info = FB_TRY(read_jpeg_info(bytes))};
    const JpegInfo& info = plan.info;
    if (info.precision != 8)
      return fail(ErrorCode::kUnsupported, "a JPEG of {} bits per sample", info.precision);
    if (info.components != 1 && info.components != 3 && info.components != 4)
      return fail(ErrorCode::kUnsupported, "a JPEG of {} components", info.components);
    if (info.width > kSideMax || info.height > kSideMax)
      return fail(ErrorCode::kUnsupported, "a JPEG of {} x {} pixels (at most {} a side)",
                  info.width, info.height, kSideMax);
    FB_TRY(check_pixels(info.width, info.height, options_));
    // A block of 8 x 8 pixels takes at least one bit, so a short file cannot hold a large image.
    if (uint64_t{info.width / 8} * (info.height / 8) > uint64_t{bytes.size()} * 8)
      return fail(ErrorCode::kCorruption, "truncated at byte {}: too short for {} x {} pixels",
                  bytes.size(), info.width, info.height);
    plan.orientation = options_.apply_orientation ? info.orientation : 1;
    plan.channels = options_.convert_to_rgb ? 3 : info.components;
    return plan;
  }

  Status decode_pixels(std::span<const std::byte> bytes, const Plan& plan,
                       std::span<std::byte> out) {
    if (plan.info.components != 4)
      return run(bytes, plan, plan.channels == 1 ? TJPF_GRAY : TJPF_RGB, out);
    const bool converts = plan.channels == 3;
    const std::span<std::byte> cmyk = converts ? cmyk_.reserve(plan.pixels() * 4) : out;
    FB_TRY(run(bytes, plan, TJPF_CMYK, cmyk));
    if (converts)
      cmyk_to_rgb(cmyk, !plan.info.has_adobe, out);
    else if (plan.info.has_adobe)
      invert(cmyk);
    return {};
  }

  Status run(std::span<const std::byte> bytes, const Plan& plan, int pixel_format,
             std::span<std::byte> out) {
    if (!handle_) return fail(ErrorCode::kResourceExhausted, "no JPEG decoder");
    // Scans are limited: a small progressive file may otherwise ask for hours of work.
    const int flags = TJFLAG_LIMITSCANS | (options_.fast_dct ? TJFLAG_FASTDCT : TJFLAG_ACCURATEDCT);
    const int code = tjDecompress2(
        handle_.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
        reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(plan.info.width), 0,
        static_cast<int>(plan.info.height), pixel_format, flags);
    if (code == 0) return {};
    const std::string_view message = tjGetErrorStr2(handle_.get());
    const bool has_end = has_end_marker(bytes.subspan(plan.info.scan_offset));
    if (!has_end || message.find("Premature end of JPEG file") != std::string_view::npos)
      return fail(ErrorCode::kCorruption, "truncated at byte {}", bytes.size());
    if (is_warning(message)) return {};
    return fail(ErrorCode::kCorruption, "JPEG decoder: {}", message);
  }

  DecodeOptions options_;
  std::unique_ptr<void, int (*)(tjhandle)> handle_;
  formats::ByteBuffer scratch_, turned_, cmyk_;
};

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec(const DecodeOptions& options) {
  return std::make_unique<JpegCodec>(options);
}

}  // namespace forebay::ops

#include <spng.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/content_kind.h"
#include "ops/codec.h"
#include "ops/image_info.h"
#include "ops/orient.h"

namespace forebay::ops {
namespace {

using formats::ElementType;
using formats::Record;

constexpr int kGrey = 0, kRgb = 2, kPalette = 3, kGreyAlpha = 4, kRgba = 6;
constexpr uint64_t kDeflateRatioMax = 1032;

int stored_channels(int color_type) {
  switch (color_type) {
    case kRgb:
      return 3;
    case kGreyAlpha:
      return 2;
    case kRgba:
      return 4;
    default:
      return 1;
  }
}

struct Plan {
  PngInfo info;
  int orientation = 1;
  int source_channels = 1;
  int channels = 1;         // of the result
  size_t source_bytes = 0;  // of the image as the decoder yields it: packed, native order
  size_t row_bytes = 0;     // of it
  size_t sample_bytes = 1;  // of the result
  size_t pixel_bytes() const { return static_cast<size_t>(channels) * sample_bytes; }
  uint64_t bytes() const { return uint64_t{info.width} * info.height * pixel_bytes(); }
  // The decoder's own output is the result.
  bool is_direct() const {
    return info.color_type != kPalette && info.bit_depth >= 8 && channels == source_channels &&
           sample_bytes == static_cast<size_t>(info.bit_depth) / 8;
  }
};

// Expands one row of samples: depth, palette, colour key, grey to RGB, alpha dropped.
class RowExpander {
 public:
  explicit RowExpander(const Plan& plan) : plan_(plan) {
    const auto be16 = [](std::span<const std::byte> bytes, size_t i) {
      return static_cast<uint32_t>(bytes[i * 2]) << 8 | static_cast<uint32_t>(bytes[i * 2 + 1]);
    };
    const PngInfo& info = plan.info;
    const size_t wanted = info.color_type == kGrey ? 1 : info.color_type == kRgb ? 3 : 0;
    if (wanted > 0 && info.transparency.size() >= wanted * 2)
      for (size_t c = 0; c < wanted; ++c)
        key_[c] = be16(info.transparency, c) & ((1u << info.bit_depth) - 1);
    else
      has_key_ = false;
  }

  // False when a palette index has no colour.
  bool run(const std::byte* row, std::byte* out) const {
    for (uint64_t x = 0; x < plan_.info.width; ++x) {
      uint32_t values[4];
      if (plan_.info.color_type == kPalette) {
        if (!palette_pixel(sample(row, x), values)) return false;
      } else {
        plain_pixel(row, x, values);
      }
      write(values, out);
      out += plan_.pixel_bytes();
    }
    return true;
  }

 private:
  uint32_t sample(const std::byte* row, uint64_t i) const {
    const int depth = plan_.info.bit_depth;
    if (depth == 8) return static_cast<uint32_t>(row[i]);
    if (depth == 16) {
      uint16_t value;
      std::memcpy(&value, row + i * 2, 2);
      return value;
    }
    const uint64_t bit = i * static_cast<uint64_t>(depth);
    const auto byte = static_cast<uint32_t>(row[bit / 8]);
    return byte >> (8 - static_cast<uint32_t>(depth) - bit % 8) & ((1u << depth) - 1);
  }

  // Values become {r, g, b, alpha} or {grey, -, -, alpha} in the result's depth.
  bool palette_pixel(uint32_t index, uint32_t* values) const {
    const PngInfo& info = plan_.info;
    if (index >= info.palette.size() / 3) return false;
    for (size_t c = 0; c < 3; ++c) values[c] = static_cast<uint32_t>(info.palette[index * 3 + c]);
    values[3] =
        index < info.transparency.size() ? static_cast<uint32_t>(info.transparency[index]) : 255;
    return true;
  }

  void plain_pixel(const std::byte* row, uint64_t x, uint32_t* values) const {
    const auto channels = static_cast<size_t>(plan_.source_channels);
    const size_t colors = channels >= 3 ? 3 : 1;
    bool is_key = has_key_;
    for (size_t c = 0; c < colors; ++c) {
      const uint32_t value = sample(row, x * channels + c);
      is_key = is_key && value == key_[c];
      values[c] = scale(value);
    }
    const uint32_t opaque = plan_.sample_bytes == 2 ? 65535 : 255;
    values[3] =
        channels % 2 == 0 ? scale(sample(row, x * channels + channels - 1)) : (is_key ? 0 : opaque);
    if (colors == 1) values[1] = values[2] = values[0];
  }

  uint32_t scale(uint32_t value) const {
    const int depth = plan_.info.bit_depth;
    if (depth == 16) return plan_.sample_bytes == 2 ? value : value >> 8;
    return depth == 8 ? value : value * 255 / ((1u << depth) - 1);
  }

  void write(const uint32_t* values, std::byte* out) const {
    const int channels = plan_.channels;
    for (int c = 0; c < channels; ++c) {
      const bool is_alpha = channels % 2 == 0 && c == channels - 1;
      const auto value = static_cast<uint16_t>(values[is_alpha ? 3 : c]);
      std::memcpy(out + static_cast<size_t>(c) * plan_.sample_bytes, &value, plan_.sample_bytes);
    }
  }

  const Plan& plan_;
  bool has_key_ = true;
  uint32_t key_[3] = {};
};

class PngCodec : public Codec {
 public:
  explicit PngCodec(const DecodeOptions& options) : options_(options) {}

  Result<uint64_t> decoded_bytes(const Record& record) override {
    const Plan plan = FB_TRY(make_plan(record.bytes));
    return plan.bytes();
  }

  Result<uint64_t> scratch_bytes(const Record& record) override {
    const Plan plan = FB_TRY(make_plan(record.bytes));
    return (plan.is_direct() ? 0 : plan.source_bytes) + (plan.orientation != 1 ? plan.bytes() : 0);
  }

  Result<Sample> decode(const Record& record, std::span<std::byte> destination) override {
    const Plan plan = FB_TRY(make_plan(record.bytes));
    const std::span<std::byte> out = choose_output(destination, plan.bytes(), scratch_);
    const bool turns = plan.orientation != 1;
    const std::span<std::byte> upright = turns ? turned_.reserve(plan.bytes()) : out;
    if (plan.is_direct()) {
      FB_TRY(decode_packed(record.bytes, plan, upright));
    } else {
      const std::span<std::byte> packed = packed_.reserve(plan.source_bytes);
      // The decoder ORs interlaced sub-byte samples into what is there.
      if (plan.info.is_interlaced && plan.info.bit_depth < 8)
        std::fill(packed.begin(), packed.end(), std::byte{0});
      FB_TRY(decode_packed(record.bytes, plan, packed));
      FB_TRY(expand(plan, packed, upright));
    }
    Sample sample{
        .type = plan.sample_bytes == 2 ? ElementType::kU16 : ElementType::kU8,
        .shape = {plan.info.height, plan.info.width, static_cast<uint64_t>(plan.channels)},
        .bytes = out};
    if (turns) {
      orient({plan.info.height, plan.info.width, plan.pixel_bytes()}, plan.orientation, upright,
             out);
      if (swaps_sides(plan.orientation)) std::swap(sample.shape[0], sample.shape[1]);
    }
    return sample;
  }

 private:
  Result<Plan> make_plan(std::span<const std::byte> bytes) const {
    if (!formats::is_png(bytes))
      return fail(ErrorCode::kCorruption, "not a PNG: {}", formats::content_kind(bytes));
    Plan plan{.info = FB_TRY(read_png_info(bytes))};
    const PngInfo& info = plan.info;
    if (!info.has_end) FB_TRY(check_png_chunks(bytes));
    FB_TRY(check_pixels(info.width, info.height, options_));
    plan.source_channels = stored_channels(info.color_type);
    plan.sample_bytes = info.bit_depth == 16 && options_.keep_16_bit ? 2 : 1;
    const bool has_color = info.color_type == kPalette || plan.source_channels >= 3;
    const bool has_alpha = info.has_transparency || plan.source_channels % 2 == 0;
    plan.channels = options_.convert_to_rgb ? 3 : (has_color ? 3 : 1) + (has_alpha ? 1 : 0);
    plan.orientation = options_.apply_orientation ? info.orientation : 1;
    const uint64_t row_bits = uint64_t{info.width} * static_cast<uint64_t>(plan.source_channels) *
                              static_cast<uint64_t>(info.bit_depth);
    plan.row_bytes = (row_bits + 7) / 8;
    plan.source_bytes = plan.row_bytes * info.height;
    if (plan.source_bytes / kDeflateRatioMax > bytes.size())
      return fail(ErrorCode::kCorruption, "truncated at byte {}: too short for {} x {} pixels",
                  bytes.size(), info.width, info.height);
    return plan;
  }

  // The image as stored: sub-byte samples packed, 16-bit samples in native order.
  static Status decode_packed(std::span<const std::byte> bytes, const Plan& plan,
                              std::span<std::byte> out) {
    const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(0), spng_ctx_free);
    if (!context) return fail(ErrorCode::kResourceExhausted, "no PNG decoder");
    // A damaged ancillary chunk says nothing about the pixels; a damaged critical one is an error.
    spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
    int code = spng_set_png_buffer(context.get(), bytes.data(), bytes.size());
    size_t needed = 0;
    if (code == 0) code = spng_decoded_image_size(context.get(), SPNG_FMT_PNG, &needed);
    if (code == 0 && needed != plan.source_bytes)
      return fail(ErrorCode::kCorruption, "PNG decoder: {} bytes for {}", needed,
                  plan.source_bytes);
    if (code == 0) code = spng_decode_image(context.get(), out.data(), needed, SPNG_FMT_PNG, 0);
    if (code == 0) return {};
    // Find out which chunk it is; the decoder only says that one is bad.
    FB_TRY(check_png_chunks(bytes));
    return fail(ErrorCode::kCorruption, "PNG decoder: {}", spng_strerror(code));
  }

  static Status expand(const Plan& plan, std::span<const std::byte> packed,
                       std::span<std::byte> out) {
    const RowExpander expander(plan);
    for (uint64_t y = 0; y < plan.info.height; ++y) {
      const std::byte* row = packed.data() + y * plan.row_bytes;
      std::byte* to = out.data() + y * plan.info.width * plan.pixel_bytes();
      if (!expander.run(row, to))
        return fail(ErrorCode::kCorruption, "row {}: a palette index beyond the {} colours", y,
                    plan.info.palette.size() / 3);
    }
    return {};
  }

  DecodeOptions options_;
  formats::ByteBuffer scratch_, turned_, packed_;
};

}  // namespace

std::unique_ptr<Codec> make_png_codec(const DecodeOptions& options) {
  return std::make_unique<PngCodec>(options);
}

}  // namespace forebay::ops

#include "base/error.h"
#include "ops/codec.h"
#include "ops/image_info.h"
#include "ops/jpeg_reader.h"
#include "ops/orient.h"

namespace forebay::ops {
namespace {

using formats::Record;

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

class JpegCodec : public Codec {
 public:
  explicit JpegCodec(const DecodeOptions& options) : options_(options), reader_(options) {}

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
    Plan plan{.info = FB_TRY(reader_.open(bytes))};
    plan.orientation = options_.apply_orientation ? plan.info.orientation : 1;
    plan.channels = options_.convert_to_rgb ? 3 : plan.info.components;
    return plan;
  }

  Status decode_pixels(std::span<const std::byte> bytes, const Plan& plan,
                       std::span<std::byte> out) {
    if (plan.info.components != 4)
      return reader_.read_all(bytes, plan.info,
                              plan.channels == 1 ? JpegPixels::kGrey : JpegPixels::kRgb, out);
    const bool converts = plan.channels == 3;
    const std::span<std::byte> cmyk = converts ? cmyk_.reserve(plan.pixels() * 4) : out;
    FB_TRY(reader_.read_all(bytes, plan.info, JpegPixels::kCmyk, cmyk));
    if (converts)
      cmyk_to_rgb(cmyk, !plan.info.has_adobe, out, 3);
    else if (plan.info.has_adobe)
      invert(cmyk);
    return {};
  }

  DecodeOptions options_;
  JpegReader reader_;
  formats::ByteBuffer scratch_, turned_, cmyk_;
};

}  // namespace

std::unique_ptr<Codec> make_jpeg_codec(const DecodeOptions& options) {
  return std::make_unique<JpegCodec>(options);
}

}  // namespace forebay::ops

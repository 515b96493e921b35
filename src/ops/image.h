// An image of a sample, as what is still to be done to it: crops, one resize, flips, then numbers.
// Ops only note what they want; pixels come into being at the end, in one go, and of a JPEG only
// those that are needed.
//
//   source --crop--> --resize--> --window--> --flip--> --points--> --layout--> the batch
//
// One thread at a time: a Workspace and the images made with it belong to one runner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/byte_buffer.h"
#include "ops/decode.h"
#include "ops/jpeg_reader.h"
#include "ops/pipeline.h"
#include "ops/resample.h"

namespace forebay::ops {

enum class ImageMode { kAsStored, kGrey, kRgb, kRgba };

// What happens to each number of an image by itself, in this order: normalised, then cast.
struct PointOp {
  bool normalizes = false;                 // else it casts only
  bool scales = true;                      // integers are divided by their largest value first
  std::vector<float> mean{}, deviation{};  // one, or one per channel
  formats::ElementType type = formats::ElementType::kF32;  // of the result

  // Of one channel; returns the new type.
  formats::ElementType apply(formats::ElementType from, uint32_t channel,
                             std::span<double> values) const;
};

struct Resize {
  uint32_t width = 0, height = 0;
  Filter filter = Filter::kBilinear;
  bool antialias = true;
};

struct Image {
  // The source: an encoded JPEG, else pixels.
  bool is_encoded = false;
  std::span<const std::byte> encoded{};
  JpegInfo info{};
  int orientation = 1;
  ImageMode mode = ImageMode::kRgb;
  double oversampling =
      2;  // a scaled decode leaves at least so many pixels per wanted one; 0 = never
  ImageView pixels{};
  bool is_private = false;  // pixels are in the workspace, where they may be changed

  Rectangle crop{};  // of the upright source
  std::optional<Resize> resize{};
  Rectangle window{};  // of the resized image
  bool flip_x = false, flip_y = false;
  std::vector<const PointOp*> points{};
  bool is_planar = false;  // channels first in the result

  uint32_t width() const { return resize ? window.width : crop.width; }
  uint32_t height() const { return resize ? window.height : crop.height; }
  uint32_t channels() const;
  formats::ElementType type() const;  // of the result
};

// What a runner keeps between samples.
class Workspace {
 public:
  explicit Workspace(const DecodeOptions& options);
  ~Workspace();

  // Memory until reset(); 64 bytes behind it may be read. Kept for the next sample, unless it is
  // more than what each runner may hold. kUnsupported, before anything is allocated, beyond what
  // DecodeOptions::memory allows.
  Result<std::span<std::byte>> take(uint64_t bytes);
  void reset();

  // That somebody else is about to hold for this sample: kUnsupported when that is too much.
  Status hold(uint64_t bytes);
  // The same, until the end of the decoder; later calls for it count what is more.
  Status hold_for(const Decoder& decoder, uint64_t bytes);

  JpegReader& jpeg() { return jpeg_; }
  // Of PNGs and arrays; their result is valid until the next decode.
  Decoder& decoder(bool converts_to_rgb, bool keeps_16_bit, bool orients);
  Taps horizontal, vertical;

  // What each of the 256 values of each channel becomes: rows of 256 elements.
  std::span<const std::byte> table(std::span<const PointOp* const> points, uint32_t channels);

 private:
  struct Table {
    std::vector<const PointOp*> points;
    uint32_t channels = 0;
    std::vector<std::byte> bytes;
  };
  DecodeOptions options_;
  JpegReader jpeg_;
  uint64_t held_bytes_ = 0;    // that stay
  uint64_t sample_bytes_ = 0;  // until reset()
  bool has_turn_ = false;      // to hold more than each may
  std::unique_ptr<Decoder> decoders_[8];
  std::map<const Decoder*, uint64_t> decoder_bytes_;
  std::deque<formats::ByteBuffer> buffers_;
  size_t taken_ = 0;
  std::deque<Table> tables_;
};

// Header only; pixels later.
Result<Image> open_jpeg(Workspace& workspace, std::span<const std::byte> bytes, ImageMode mode,
                        bool orients);
Image image_of(const ImageView& pixels, bool is_private);
// Pixels of a decoded PNG in another mode.
Result<Image> convert_mode(Workspace& workspace, const ImageView& pixels, ImageMode mode);

// All in coordinates of the image as it looks now, flips included.
Status crop_image(Workspace& workspace, Image& image, const Rectangle& area);
Status resize_image(Workspace& workspace, Image& image, const Resize& resize);
// `value` fills what is added.
struct Border {
  uint32_t left = 0, top = 0, right = 0, bottom = 0;
};
Status pad_image(Workspace& workspace, Image& image, const Border& border, double value);

// Makes pixels of it that may be changed, flips and points still to come.
Status settle_pixels(Workspace& workspace, Image& image);
// Does points, too; afterwards it is an image of their type, rows first.
Status settle_points(Workspace& workspace, Image& image);

// The finished array, in `to` where it has room for it.
Result<Field> finish_image(Workspace& workspace, std::string_view name, const Image& image,
                           Destination* to);

}  // namespace forebay::ops

#include "ops/decode.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "formats/content_kind.h"
#include "ops/codec.h"

namespace forebay::ops {

Status check_pixels(uint64_t width, uint64_t height, const DecodeOptions& options) {
  if (width * height <= options.pixels_max) return {};  // sides have at most 32 bits
  return fail(ErrorCode::kUnsupported, "an image of {} x {} pixels; the limit is {} pixels", width,
              height, options.pixels_max);
}

namespace {

using formats::Encoding;
using formats::Record;

// Hands bytes on as they are: raw records and examples.
class PassThrough : public Codec {
 public:
  Result<uint64_t> decoded_bytes(const Record& record) override { return record.bytes.size(); }
  Result<Sample> decode(const Record& record, std::span<std::byte> destination) override {
    Sample sample{formats::ElementType::kU8, {record.bytes.size()}, record.bytes};
    if (!destination.empty() && destination.size() >= record.bytes.size()) {
      std::copy(record.bytes.begin(), record.bytes.end(), destination.begin());
      sample.bytes = destination.first(record.bytes.size());
    }
    return sample;
  }
};

class AnyDecoder : public Decoder {
 public:
  explicit AnyDecoder(DecodeOptions options) : options_(std::move(options)) {}

  Result<uint64_t> decoded_bytes(std::string_view path, const Record& record) override {
    return codec(record).decoded_bytes(record).context(std::string(path));
  }
  Result<uint64_t> scratch_bytes(const Record& record) override {
    return codec(record).scratch_bytes(record);
  }
  Result<Sample> decode(std::string_view path, const Record& record,
                        std::span<std::byte> destination) override {
    return codec(record).decode(record, destination).context(std::string(path));
  }

 private:
  // Codecs are made when first needed: a data set has one or two encodings.
  Codec& codec(const Record& record) {
    switch (record.encoding) {
      case Encoding::kJpeg:
        if (!jpeg_) jpeg_ = make_jpeg_codec(options_);
        return *jpeg_;
      case Encoding::kPng:
        if (!png_) png_ = make_png_codec(options_);
        return *png_;
      case Encoding::kArray:
        if (!array_) array_ = make_array_codec();
        return *array_;
      case Encoding::kRaw:
      case Encoding::kExample:
      case Encoding::kText:
      case Encoding::kJson:
        break;
    }
    return pass_;
  }

  DecodeOptions options_;
  std::unique_ptr<Codec> jpeg_, png_, array_;
  PassThrough pass_;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(DecodeOptions options) {
  return std::make_unique<AnyDecoder>(std::move(options));
}

}  // namespace forebay::ops

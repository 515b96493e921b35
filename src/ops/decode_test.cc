// Goal: pixels and arrays come out in the documented layout, and damaged images are named.
#include "ops/decode.h"

#include <gtest/gtest.h>
#include <spng.h>
#include <turbojpeg.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/testing_store.h"
#include "ops/exif.h"
#include "ops/orient.h"

namespace forebay::ops {
namespace {

using formats::ArrayLayout;
using formats::ElementType;
using formats::Encoding;
using formats::Record;
using Bytes = std::vector<std::byte>;
using Shape = std::vector<uint64_t>;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

Bytes load(const std::string& name) {
  std::ifstream file(base::source_folder() + "/tests/golden/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(text.empty()) << name;
  return bytes_of(text);
}

Record image(Encoding encoding, std::span<const std::byte> bytes) {
  return {.encoding = encoding, .bytes = bytes};
}

std::string error_of(Encoding encoding, std::span<const std::byte> bytes, DecodeOptions o = {}) {
  const auto decoder = make_decoder(o);
  const auto sample = decoder->decode("a.jpg", image(encoding, bytes), {});
  return sample.ok() ? "decoded" : sample.error().message;
}

// --- jpeg ---

// A CMYK JPEG of one colour, as the library writes it: with an Adobe marker, inverted by
// convention.
Bytes cmyk_jpeg(uint8_t c, uint8_t m, uint8_t y, uint8_t k, bool has_marker) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 4; ++i) pixels.insert(pixels.end(), {c, m, y, k});
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(
      tjCompress2(handle.get(), pixels.data(), 2, 0, 2, TJPF_CMYK, &out, &size, TJSAMP_444, 100, 0),
      0);
  std::string text(reinterpret_cast<char*>(out), size);
  tjFree(out);
  const size_t marker = text.find("\xff\xee");
  EXPECT_NE(marker, std::string::npos);
  // Segment length 14 and its marker. Without it the four components are plain CMYK.
  text[marker + 15] = 0;  // transform 0: CMYK, not YCCK
  if (!has_marker) text.erase(marker, 16);
  return bytes_of(text);
}

TEST(Jpeg, CmykWithAdobeMarkerIsInvertedAndWithoutIsInk) {
  // Colours are constant, so the discrete cosine transform keeps them within a level or two. The
  // library stores YCCK; with the transform flag cleared the same numbers are C, M, Y and K.
  const auto decoder = make_decoder({.convert_to_rgb = true});
  const auto raw_decoder = make_decoder({});
  for (const bool has_marker : {true, false}) {
    const Bytes jpeg = cmyk_jpeg(200, 120, 40, 230, has_marker);
    const auto raw = raw_decoder->decode("a", image(Encoding::kJpeg, jpeg), {});
    ASSERT_TRUE(raw.ok()) << raw.error().message;
    ASSERT_EQ(raw->shape, (Shape{2, 2, 4}));
    const auto rgb = decoder->decode("a", image(Encoding::kJpeg, jpeg), {});
    ASSERT_TRUE(rgb.ok()) << rgb.error().message;
    ASSERT_EQ(rgb->shape, (Shape{2, 2, 3}));
    for (size_t c = 0; c < 3; ++c) {
      const int ink = static_cast<int>(raw->bytes[c]), black = static_cast<int>(raw->bytes[3]);
      const double expected = (255 - ink) * (255 - black) / 255.0;
      EXPECT_NEAR(static_cast<int>(rgb->bytes[c]), expected, 1) << has_marker;
    }
    const int stored_black =
        has_marker ? 255 - static_cast<int>(raw->bytes[3]) : static_cast<int>(raw->bytes[3]);
    EXPECT_NEAR(stored_black, 230, 2) << has_marker;
  }
}

TEST(Jpeg, GreyBecomesRgbOnRequest) {
  const Bytes jpeg = load("jpeg/grey.jpg");
  const auto grey = make_decoder({});
  const auto color = make_decoder({.convert_to_rgb = true});
  const auto one = grey->decode("a", image(Encoding::kJpeg, jpeg), {});
  const auto three = color->decode("a", image(Encoding::kJpeg, jpeg), {});
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->shape, (Shape{17, 23, 1}));
  EXPECT_EQ(three->shape, (Shape{17, 23, 3}));
  for (size_t i = 0; i < one->bytes.size(); ++i)
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(three->bytes[i * 3 + c], one->bytes[i]);
}

TEST(Jpeg, EveryTruncationIsNamed) {
  const Bytes jpeg = load("jpeg/rgb_420.jpg");
  for (size_t n = 3; n < jpeg.size(); n += 7) {
    const std::string message = error_of(Encoding::kJpeg, std::span(jpeg).first(n));
    EXPECT_NE(message.find("a.jpg: "), std::string::npos) << n << message;
    EXPECT_NE(message.find("truncated at byte " + std::to_string(n)), std::string::npos)
        << n << " " << message;
  }
}

TEST(Jpeg, PixelLimitComesBeforeAllocation) {
  Bytes jpeg = load("jpeg/rgb_420.jpg");
  EXPECT_NE(error_of(Encoding::kJpeg, jpeg, {.pixels_max = 100}).find("limit is 100 pixels"),
            std::string::npos);
  // A header of 60,000 x 60,000 in front of a few hundred bytes.
  const std::string text(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  const size_t frame = text.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const size_t at : {frame + 5, frame + 7}) {
    jpeg[at] = std::byte{0xea};
    jpeg[at + 1] = std::byte{0x60};
  }
  EXPECT_NE(error_of(Encoding::kJpeg, jpeg, {.pixels_max = ~0ull}).find("too short for 60000 x"),
            std::string::npos);
}

TEST(Exif, BrokenBlocksCountAsNone) {
  const auto little = [](std::initializer_list<int> entry) {
    std::string text("II*\0\x08\0\0\0\x01\0", 10);
    for (const int b : entry) text += static_cast<char>(b);
    return bytes_of(text);
  };
  EXPECT_EQ(exif_orientation(little({0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0})), 6);
  EXPECT_EQ(exif_orientation(little({0x12, 1, 4, 0, 1, 0, 0, 0, 8, 0, 0, 0})), 8);
  EXPECT_EQ(exif_orientation(little({0x12, 1, 3, 0, 1, 0, 0, 0, 9, 0, 0, 0})), 0);  // not 1..8
  EXPECT_EQ(exif_orientation(little({0x12, 1, 2, 0, 1, 0, 0, 0, 6, 0, 0, 0})), 0);  // text
  EXPECT_EQ(exif_orientation(little({0x12, 1, 3, 0, 1, 0, 0, 0})), 0);              // cut
  EXPECT_EQ(exif_orientation(bytes_of("garbage!")), 0);
  EXPECT_EQ(exif_orientation({}), 0);
  EXPECT_EQ(exif_orientation(bytes_of(std::string_view("MM\0*\xff\xff\xff\xff", 8))), 0);
  EXPECT_EQ(xmp_orientation("<x tiff:Orientation=\"3\"/>"), 3);
  EXPECT_EQ(xmp_orientation("<tiff:Orientation>5</tiff:Orientation>"), 5);
  EXPECT_EQ(xmp_orientation("tiff:Orientation"), 0);
}

TEST(Orient, EachIsUndoneByItsInverse) {
  constexpr int kInverse[] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
  for (const size_t pixel : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{8}}) {
    const PixelGrid grid{.height = 37, .width = 70, .pixel_bytes = pixel};
    Bytes source(37 * 70 * pixel), turned(source.size()), back(source.size());
    for (size_t i = 0; i < source.size(); ++i) source[i] = std::byte(i * 31 + i / 256);
    for (int orientation = 2; orientation <= 8; ++orientation) {
      orient(grid, orientation, source, turned);
      EXPECT_NE(turned, source);
      PixelGrid other = grid;
      if (swaps_sides(orientation)) std::swap(other.height, other.width);
      orient(other, kInverse[orientation], turned, back);
      EXPECT_EQ(back, source) << orientation;
    }
  }
}

// --- png ---

struct PngSpec {
  uint8_t depth = 8, color = 0;
  bool is_interlaced = false;
  uint32_t width = 16, height = 16;
  std::vector<uint16_t> key;  // tRNS colour of grey or RGB
};

Bytes make_png(const PngSpec& spec, std::span<const std::byte> rows) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> context(spng_ctx_new(SPNG_CTX_ENCODER),
                                                               spng_ctx_free);
  spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{.width = spec.width,
                   .height = spec.height,
                   .bit_depth = spec.depth,
                   .color_type = spec.color,
                   .compression_method = 0,
                   .filter_method = 0,
                   .interlace_method = static_cast<uint8_t>(spec.is_interlaced ? 1 : 0)};
  EXPECT_EQ(spng_set_ihdr(context.get(), &header), 0);
  if (!spec.key.empty()) {
    spng_trns key{};
    key.gray = spec.key[0];
    if (spec.key.size() == 3) {
      key.red = spec.key[0];
      key.green = spec.key[1];
      key.blue = spec.key[2];
    }
    EXPECT_EQ(spng_set_trns(context.get(), &key), 0);
  }
  EXPECT_EQ(spng_encode_image(context.get(), rows.data(), rows.size(), SPNG_FMT_PNG,
                              SPNG_ENCODE_FINALIZE),
            0);
  size_t size = 0;
  int code = 0;
  void* out = spng_get_png_buffer(context.get(), &size, &code);
  EXPECT_EQ(code, 0);
  const auto bytes = std::as_bytes(std::span(static_cast<char*>(out), size));
  Bytes result(bytes.begin(), bytes.end());
  std::free(out);
  return result;
}

TEST(Png, SixteenBitsAreKeptOnRequestElseTheHighByte) {
  std::vector<uint16_t> ramp(256);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<uint16_t>(i * 257 + i / 3);
  for (const bool is_interlaced : {false, true}) {
    const Bytes png = make_png({.depth = 16, .is_interlaced = is_interlaced, .key = {}},
                               std::as_bytes(std::span(ramp)));
    const auto keeps = make_decoder({.keep_16_bit = true});
    const auto whole = keeps->decode("a", image(Encoding::kPng, png), {});
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    EXPECT_EQ(whole->type, ElementType::kU16);
    EXPECT_EQ(std::memcmp(whole->bytes.data(), ramp.data(), 512), 0);
    const auto cuts = make_decoder({});
    const auto high = cuts->decode("a", image(Encoding::kPng, png), {});
    ASSERT_TRUE(high.ok());
    EXPECT_EQ(high->type, ElementType::kU8);
    for (size_t i = 0; i < ramp.size(); ++i)
      EXPECT_EQ(static_cast<int>(high->bytes[i]), ramp[i] >> 8);
  }
}

TEST(Png, ColourKeysBecomeAlphaAndRgbDropsIt) {
  Bytes rows(256);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::byte(i);
  const Bytes png = make_png({.key = {77}}, rows);
  const auto decoder = make_decoder({});
  const auto sample = decoder->decode("a", image(Encoding::kPng, png), {});
  ASSERT_TRUE(sample.ok());
  ASSERT_EQ(sample->shape, (Shape{16, 16, 2}));
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(sample->bytes[i * 2], std::byte(i));
    EXPECT_EQ(sample->bytes[i * 2 + 1], std::byte(i == 77 ? 0 : 255));
  }
  const auto rgb = make_decoder({.convert_to_rgb = true});
  const auto three = rgb->decode("a", image(Encoding::kPng, png), {});
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(three->shape, (Shape{16, 16, 3}));
  EXPECT_EQ(three->bytes[77 * 3 + 2], std::byte{77});
}

TEST(Png, InterlacedSubByteSamplesAreThoseOfThePlainImage) {
  // Scratch of an earlier image must not shine through: the decoder ORs such samples together.
  for (const uint8_t depth : {uint8_t{1}, uint8_t{2}, uint8_t{4}}) {
    Bytes rows(16 * 16 * depth / 8);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::byte(i * 37 + 11);
    const auto decoder = make_decoder({});
    const Bytes full(rows.size(), std::byte{0xff});
    const Bytes white = make_png({.depth = depth, .key = {}}, full);
    ASSERT_TRUE(decoder->decode("a", image(Encoding::kPng, white), {}).ok());
    const Bytes plain = make_png({.depth = depth, .key = {}}, rows);
    const Bytes woven = make_png({.depth = depth, .is_interlaced = true, .key = {}}, rows);
    const auto first = decoder->decode("a", image(Encoding::kPng, plain), {});
    ASSERT_TRUE(first.ok());
    const Bytes kept(first->bytes.begin(), first->bytes.end());
    ASSERT_TRUE(decoder->decode("a", image(Encoding::kPng, white), {}).ok());
    const auto second = decoder->decode("a", image(Encoding::kPng, woven), {});
    ASSERT_TRUE(second.ok());
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), second->bytes.begin())) << int{depth};
  }
}

TEST(Png, EveryTruncationIsRefusedAndDamagedChunksAreNamed) {
  Bytes png = load("png/rgb.png");
  for (size_t n = 8; n < png.size(); n += 3)
    EXPECT_NE(error_of(Encoding::kPng, std::span(png).first(n)).find("a.jpg: truncated at byte"),
              std::string::npos)
        << n << error_of(Encoding::kPng, std::span(png).first(n));
  png[png.size() - 20] ^= std::byte{1};  // in the last bytes of the pixels
  const std::string message = error_of(Encoding::kPng, png);
  EXPECT_NE(message.find("a.jpg: chunk IDAT at byte 33: CRC 0x"), std::string::npos) << message;
}

// --- files that are not what they are called ---

TEST(Images, ContentDecidesNotTheExtension) {
  const auto reader = formats::kJpeg.make_reader({});
  const auto read = [&](std::span<const std::byte> bytes) {
    const auto record = reader->read("n02105855_2933.JPEG", bytes, {}, 0);
    return record.ok() ? std::string("read") : record.error().message;
  };
  const Bytes png = load("png/rgb.png");
  const auto record = reader->read("n02105855_2933.JPEG", png, {}, 0);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->encoding, Encoding::kPng);
  EXPECT_EQ(make_decoder({})->decode("a", *record, {})->shape, (Shape{17, 23, 3}));
  EXPECT_EQ(read({}), "n02105855_2933.JPEG: empty file");
  EXPECT_EQ(read(bytes_of("<!DOCTYPE html>\n<html>")),
            "n02105855_2933.JPEG: not an image: text/html");
  EXPECT_EQ(read(bytes_of("GIF89a....")),
            "n02105855_2933.JPEG: is image/gif; only jpeg and png are decoded");
  EXPECT_EQ(read(bytes_of("version https://git-lfs.github.com/spec/v1\noid sha256:0")),
            "n02105855_2933.JPEG: not an image: git-lfs pointer");
}

// --- arrays ---

TEST(Arrays, PlainOnesPassWithoutACopy) {
  const Bytes data(24);
  const Record record{.encoding = Encoding::kArray,
                      .bytes = data,
                      .array = {.type = ElementType::kI32, .shape = {2, 3}}};
  const auto decoder = make_decoder({});
  const auto sample = decoder->decode("a", record, {});
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->bytes.data(), data.data());
  EXPECT_EQ(sample->type, ElementType::kI32);
}

// Every order, byte order and sample axis against the definition of each element's place.
TEST(Arrays, AnyLayoutBecomesCOrderAndNativeBytes) {
  const Shape shape{3, 70, 5, 2};
  for (const ElementType type : {ElementType::kU8, ElementType::kI16, ElementType::kF32,
                                 ElementType::kI64, ElementType::kC64, ElementType::kC128})
    for (int bits = 0; bits < 8; ++bits) {
      const ArrayLayout layout{.type = type,
                               .is_big_endian = (bits & 1) != 0,
                               .is_fortran_order = (bits & 2) != 0,
                               .shape = shape};
      const bool splits = (bits & 4) != 0;
      const size_t item = formats::element_bytes(type);
      const bool is_complex = type == ElementType::kC64 || type == ElementType::kC128;
      const size_t unit = is_complex ? item / 2 : item;
      Bytes data(formats::array_bytes(layout).value());
      for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i * 131 + i / 251);
      Bytes expected;
      const uint64_t chosen = 1;
      for (uint64_t a = 0; a < shape[0]; ++a)
        for (uint64_t b = 0; b < shape[1]; ++b)
          for (uint64_t c = 0; c < shape[2]; ++c)
            for (uint64_t d = 0; d < shape[3]; ++d) {
              if (splits && d != chosen) continue;
              const uint64_t place = layout.is_fortran_order
                                         ? a + shape[0] * (b + shape[1] * (c + shape[2] * d))
                                         : d + shape[3] * (c + shape[2] * (b + shape[1] * a));
              for (size_t at = 0; at < item; ++at) {
                const size_t swapped = at / unit * unit + (unit - 1 - at % unit);
                expected.push_back(data[place * item + (layout.is_big_endian ? swapped : at)]);
              }
            }
      const Record record{.encoding = Encoding::kArray,
                          .bytes = data,
                          .array = layout,
                          .sample_in_file = chosen,
                          .sample_axis = splits ? 3 : -1};
      const auto decoder = make_decoder({});
      const auto sample = decoder->decode("a", record, {});
      ASSERT_TRUE(sample.ok());
      EXPECT_EQ(sample->shape.size(), splits ? 3u : 4u);
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), sample->bytes.begin(), sample->bytes.end()))
          << formats::element_name(type) << " " << bits;
    }
}

TEST(Arrays, EmptyOnesAndWrongLengthsAreHandled) {
  const auto decoder = make_decoder({});
  Record record{.encoding = Encoding::kArray,
                .bytes = {},
                .array = {.is_fortran_order = true, .shape = {0, 3}}};
  const auto sample = decoder->decode("a", record, {});
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->shape, (Shape{0, 3}));
  const Bytes data(5);
  record.bytes = data;
  EXPECT_FALSE(decoder->decode("a", record, {}).ok());
}

TEST(Decoder, ExamplesAndRawBytesPassThrough) {
  const Bytes data = bytes_of("hello");
  for (const Encoding encoding : {Encoding::kRaw, Encoding::kExample}) {
    const auto decoder = make_decoder({});
    const auto sample = decoder->decode("a", image(encoding, data), {});
    ASSERT_TRUE(sample.ok());
    EXPECT_EQ(sample->bytes.data(), data.data());
    Bytes destination(8);
    const auto copied = decoder->decode("a", image(encoding, data), destination);
    EXPECT_EQ(copied->bytes.data(), destination.data());
    EXPECT_EQ(copied->shape, (Shape{5}));
  }
}

}  // namespace
}  // namespace forebay::ops

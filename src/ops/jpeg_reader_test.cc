// Goal: rows of any rectangle are those of the whole image, at every scale and kind of subsampling.
#include "ops/jpeg_reader.h"

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <cstring>
#include <vector>

#include "base/random.h"

namespace forebay::ops {
namespace {

using Bytes = std::vector<std::byte>;

Bytes make_jpeg(uint32_t width, uint32_t height, int subsampling, int flags = 0) {
  base::Random random(width * 7919 + height);
  std::vector<unsigned char> pixels(size_t{width} * height * 3);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<unsigned char>((i / 3 * 2 + i % 3 * 70 + random.below(60)) & 255);
  tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, pixels.data(), static_cast<int>(width), 0, static_cast<int>(height),
                        TJPF_RGB, &out, &size, subsampling, 85, flags),
            0);
  const auto bytes = std::as_bytes(std::span(out, size));
  Bytes result(bytes.begin(), bytes.end());
  tjFree(out);
  tjDestroy(handle);
  return result;
}

struct Copy : RowSink {
  Copy(size_t bytes_of_row, size_t height) : row_bytes(bytes_of_row), bytes(row_bytes * height) {}
  void row(uint32_t y, const std::byte* pixels) override {
    std::memcpy(bytes.data() + y * row_bytes, pixels, row_bytes);
    ++rows;
  }

  size_t row_bytes;
  Bytes bytes;
  uint32_t rows = 0;
};

Bytes read_area(JpegReader& reader, const Bytes& jpeg, uint32_t eighths, const Rectangle& area) {
  const auto info = reader.open(jpeg);
  EXPECT_TRUE(info.ok());
  Copy sink(area.width * 3, area.height);
  const Status status = reader.read(
      jpeg, *info, {.pixels = JpegPixels::kRgb, .eighths = eighths, .area = area}, sink);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(sink.rows, area.height);
  return std::move(sink.bytes);
}

TEST(JpegReader, RectanglesAreThoseOfTheWholeImage) {
  base::Random random(5);
  JpegReader reader({});
  for (const int subsampling :
       {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411, TJSAMP_GRAY})
    for (const int flags : {0, TJFLAG_PROGRESSIVE})
      for (const uint32_t eighths : {8u, 4u, 2u, 1u}) {
        const Bytes jpeg = make_jpeg(187, 131, subsampling, flags);
        const uint32_t width = (187 * eighths + 7) / 8, height = (131 * eighths + 7) / 8;
        const Bytes whole = read_area(reader, jpeg, eighths, {0, 0, width, height});
        for (int i = 0; i < 12; ++i) {
          Rectangle area;
          area.width = 1 + static_cast<uint32_t>(random.below(width));
          area.height = 1 + static_cast<uint32_t>(random.below(height));
          area.x = static_cast<uint32_t>(random.below(width - area.width + 1));
          area.y = static_cast<uint32_t>(random.below(height - area.height + 1));
          const Bytes part = read_area(reader, jpeg, eighths, area);
          int worst = 0;
          for (uint32_t y = 0; y < area.height; ++y)
            for (uint32_t x = 0; x < area.width * 3; ++x) {
              const auto a = static_cast<int>(part[y * area.width * 3 + x]);
              const auto b = static_cast<int>(whole[(y + area.y) * width * 3 + area.x * 3 + x]);
              worst = std::max(worst, std::abs(a - b));
            }
          ASSERT_EQ(worst, 0) << "subsampling " << subsampling << " flags " << flags << " scale "
                              << eighths << "/8 area " << area.x << "," << area.y << " "
                              << area.width << "x" << area.height;
        }
      }
}

TEST(JpegReader, WholeImagesAreTheSameInRowsAndAtOnce) {
  JpegReader reader({});
  const Bytes jpeg = make_jpeg(97, 61, TJSAMP_420);
  const auto info = reader.open(jpeg);
  ASSERT_TRUE(info.ok());
  Bytes whole(97 * 61 * 3);
  ASSERT_TRUE(reader.read_all(jpeg, *info, JpegPixels::kRgb, whole).ok());
  EXPECT_EQ(whole, read_area(reader, jpeg, 8, {0, 0, 97, 61}));
}

TEST(JpegReader, FilesWithoutTheirEndAreRefusedWhateverIsAskedFor) {
  JpegReader reader({});
  const Bytes jpeg = make_jpeg(64, 64, TJSAMP_420);
  const auto info = reader.open(std::span(jpeg).first(jpeg.size() - 30));
  ASSERT_FALSE(info.ok());
  EXPECT_NE(info.error().message.find("truncated at byte"), std::string::npos);
}

// A file may end with its marker and still lack rows; what is not asked for is not looked at.
TEST(JpegReader, MissingRowsAreFoundWhenTheyAreWanted) {
  JpegReader reader({});
  Bytes jpeg = make_jpeg(200, 200, TJSAMP_444);
  jpeg.erase(jpeg.end() - static_cast<long>(jpeg.size() / 2), jpeg.end() - 2);
  const auto info = reader.open(jpeg);
  ASSERT_TRUE(info.ok());
  Copy top(30, 10);
  EXPECT_TRUE(reader.read(jpeg, *info, {.area = {0, 0, 10, 10}}, top).ok());
  // As the library has it, a marker in the place of data is a warning: grey fills the rest.
  Copy bottom(30, 10);
  EXPECT_TRUE(reader.read(jpeg, *info, {.area = {190, 190, 10, 10}}, bottom).ok());
  EXPECT_EQ(bottom.rows, 10u);
}

}  // namespace
}  // namespace forebay::ops

// Goal: pixels are those that Pillow makes: resized within one level, colours and modes alike.
// Method: random pictures are changed here and by tests/golden/change_pixels.py. Skipped, with the
// reason, where Pillow is absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "base/test_folder.h"
#include "ops/colour.h"
#include "ops/testing_pipeline.h"

namespace forebay::ops {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using Shape = std::vector<uint64_t>;

Bytes load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const auto bytes = std::as_bytes(std::span(content));
  return Bytes(bytes.begin(), bytes.end());
}

struct Difference {
  int largest = 0;
  double mean = 0;
};

Difference difference(const Bytes& a, const Bytes& b) {
  Difference result;
  if (a.size() != b.size()) return {256, 256};
  for (size_t i = 0; i < a.size(); ++i) {
    const int d = std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
    result.largest = std::max(result.largest, d);
    result.mean += d / static_cast<double>(a.size());
  }
  return result;
}

class Pillow : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import numpy, PIL' >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no numpy or Pillow";
  }

  // Smooth, with hard edges and noise: every kind of neighbourhood.
  fs::path make_picture(const std::string& name, const Shape& shape) {
    base::Random random(shape[0] * 31 + shape[1]);
    Bytes pixels(shape[0] * shape[1] * shape[2]);
    for (uint64_t y = 0; y < shape[0]; ++y)
      for (uint64_t x = 0; x < shape[1]; ++x)
        for (uint64_t c = 0; c < shape[2]; ++c) {
          const uint64_t smooth = (x * 3 + y * (c + 1)) % 256;
          const uint64_t edge = (x / 9 + y / 7) % 2 * 255;
          const uint64_t value = x < shape[1] / 3       ? smooth
                                 : x < shape[1] * 2 / 3 ? edge
                                                        : random.below(256);
          pixels[(y * shape[1] + x) * shape[2] + c] = std::byte(value);
        }
    fs::path path = folder_.path() / fs::path(name);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(pixels.data()),
               static_cast<std::streamsize>(pixels.size()));
    return path;
  }

  std::vector<Bytes> pillow(const std::vector<std::string>& lines) {
    std::ofstream list(folder_ / "list");
    for (const std::string& line : lines) list << line << "\n";
    list.close();
    const std::string script = base::source_folder() + "/tests/golden/change_pixels.py";
    EXPECT_EQ(std::system(("/usr/bin/python3 '" + script + "' '" + folder_.path() + "' < '" +
                           (folder_ / "list") + "'")
                              .c_str()),
              0);
    std::vector<Bytes> results;
    for (size_t i = 0; i < lines.size(); ++i)
      results.push_back(load(folder_ / (std::to_string(i) + ".raw")));
    return results;
  }

  base::TestFolder folder_{"pillow"};
};

TEST_F(Pillow, ResizedPixelsAreItsWithinOneLevel) {
  struct Case {
    Shape from, to;
  };
  const std::vector<Case> cases{{{97, 131, 3}, {64, 64, 3}},
                                {{97, 131, 3}, {224, 200, 3}},
                                {{97, 131, 3}, {97, 40, 3}},
                                {{97, 131, 3}, {11, 131, 3}},
                                {{60, 60, 1}, {33, 81, 1}},
                                {{300, 400, 3}, {7, 5, 3}},
                                {{64, 64, 4}, {32, 48, 4}},
                                {{5, 3, 3}, {50, 60, 3}},
                                {{1, 1, 3}, {9, 9, 3}},
                                {{700, 20, 3}, {2, 19, 3}},
                                {{375, 500, 3}, {224, 224, 3}},
                                // Many outputs lie right between two levels: 64 to 224 is 2 to 7.
                                {{64, 64, 3}, {224, 224, 3}},
                                {{96, 64, 3}, {64, 96, 3}}};
  std::vector<std::string> lines;
  std::vector<Bytes> ours;
  std::vector<std::string> names;
  for (const Case& c : cases) {
    const fs::path path = make_picture("p" + std::to_string(names.size()), c.from);
    const Bytes pixels = load(path);
    for (const char* filter : {"nearest", "bilinear", "area", "bicubic", "lanczos"}) {
      // Pillow premultiplies by alpha first, which is not the filter's business.
      if (c.from[2] == 4) continue;
      std::ostringstream line;
      line << "resize " << path.string() << " " << c.from[0] << " " << c.from[1] << " " << c.from[2]
           << " " << c.to[0] << " " << c.to[1] << " " << filter;
      lines.push_back(line.str());
      names.push_back(line.str());
      for (const bool is_fast : {true, false}) {
        use_fast_resample(is_fast);
        const auto fields = run_ops({{"resize",
                                      {{"size", std::vector<double>{static_cast<double>(c.to[0]),
                                                                    static_cast<double>(c.to[1])}},
                                       {"filter", filter}}}},
                                    {array_part("image", c.from, pixels)});
        ASSERT_EQ(fields.size(), 1u);
        EXPECT_EQ(fields[0].shape, c.to);
        if (is_fast)
          ours.push_back(fields[0].bytes);
        else
          EXPECT_EQ(ours.back(), fields[0].bytes) << "plain code: " << line.str();
      }
      use_fast_resample(true);
    }
  }
  const auto theirs = pillow(lines);
  // Weights beyond one pass the rounding between the two passes on.
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool overshoots = names[i].ends_with("bicubic") || names[i].ends_with("lanczos");
    EXPECT_LE(difference(ours[i], theirs[i]).largest, overshoots ? 2 : 1) << names[i];
  }
}

// An encoded image takes other code: four bytes a pixel, rows straight out of the decoder.
TEST_F(Pillow, EncodedImagesAreResizedAsPixelsAre) {
  for (const char* name : {"jpeg/rgb_444.jpg", "jpeg/grey.jpg", "png/rgb.png", "png/l.png"}) {
    const Bytes file = load(base::source_folder() + "/tests/golden/" + name);
    const auto whole = run_ops({{"decode_image", {}}}, {raw_part("x", file)});
    ASSERT_EQ(whole.size(), 1u) << name;
    const Op resize{"resize", {{"size", std::vector<double>{19, 23}}}};
    const auto once = run_ops({{"decode_image", {}}, resize}, {raw_part("x", file)});
    const auto twice = run_ops({resize}, {array_part("image", whole[0].shape, whole[0].bytes)});
    EXPECT_EQ(once[0].bytes, twice[0].bytes) << name;
  }
}

TEST_F(Pillow, WithoutAntialiasPointsAreItsTransform) {
  const Shape from{97, 131, 3};
  const fs::path path = make_picture("points", from);
  std::vector<std::string> lines;
  std::vector<Bytes> ours;
  for (const Shape& to : {Shape{64, 64, 3}, Shape{200, 300, 3}, Shape{20, 131, 3}}) {
    lines.push_back("point " + path.string() + " 97 131 3 " + std::to_string(to[0]) + " " +
                    std::to_string(to[1]));
    ours.push_back(run_ops({{"resize",
                             {{"size", std::vector<double>{static_cast<double>(to[0]),
                                                           static_cast<double>(to[1])}},
                              {"antialias", false}}}},
                           {array_part("image", from, load(path))})[0]
                       .bytes);
  }
  const auto theirs = pillow(lines);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_LE(difference(ours[i], theirs[i]).largest, 1) << lines[i];
}

TEST_F(Pillow, ColoursAreThoseOfImageEnhance) {
  const Shape shape{97, 131, 3};
  const fs::path path = make_picture("colours", shape);
  std::vector<std::string> lines;
  std::vector<Bytes> ours;
  const std::vector<std::string> changes{"brightness", "contrast", "saturation", "hue"};
  for (size_t i = 0; i < changes.size(); ++i)
    for (const double amount : {0.0, 0.3, 0.9, 1.0, 1.7}) {
      const double used = i == 3 ? amount / 2 - 0.4 : amount;
      lines.push_back("colour " + path.string() + " 97 131 3 " + changes[i] + " " +
                      std::to_string(used));
      Bytes pixels = load(path);
      change_colours({pixels.data(), 131 * 3, 131, 97, 3, 3}, static_cast<ColourChange>(i), used);
      ours.push_back(pixels);
    }
  const auto theirs = pillow(lines);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_LE(difference(ours[i], theirs[i]).largest, 1) << lines[i];
}

TEST_F(Pillow, ModesAreItsConvert) {
  std::vector<std::string> lines;
  std::vector<Bytes> ours;
  for (const char* name : {"jpeg/rgb_420.jpg", "jpeg/grey.jpg", "jpeg/cmyk.jpg",
                           "jpeg/progressive.jpg", "jpeg/orientation_6.jpg", "png/rgb.png",
                           "png/rgba.png", "png/l.png", "png/la.png", "png/palette.png"})
    for (const char* mode : {"RGB", "L", "RGBA"}) {
      const std::string path = base::source_folder() + "/tests/golden/" + name;
      lines.push_back("convert " + path + " " + mode);
      const auto fields =
          run_ops({{"decode_image", {{"mode", mode}}}}, {raw_part("x", load(path))});
      ASSERT_EQ(fields.size(), 1u) << lines.back();
      ours.push_back(fields[0].bytes);
    }
  const auto theirs = pillow(lines);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_LE(difference(ours[i], theirs[i]).largest, 2) << lines[i];
}

}  // namespace
}  // namespace forebay::ops

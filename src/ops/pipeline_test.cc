// Goal: ops do what docs/ops.md says, whatever stands beside them in the list; what is decoded in
// part is what would have been decoded whole.
#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/random.h"
#include "base/test_folder.h"
#include "ops/allowance.h"
#include "ops/convert.h"
#include "ops/testing_pipeline.h"

namespace forebay::ops {
namespace {

using Bytes = std::vector<std::byte>;
using Shape = std::vector<uint64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;
using formats::ElementType;
using formats::Encoding;

// A smooth picture with edges, as photographs are.
Bytes picture(uint32_t width, uint32_t height) {
  base::Random random(width * 77 + height);
  Bytes pixels(size_t{width} * height * 3);
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t c = 0; c < 3; ++c) {
        const double wave = 90 * std::sin(x * 0.05 + c) + 60 * std::cos(y * 0.07 - c);
        const double edge = (x / 40 + y / 30) % 2 == 0 ? 25 : -25;
        const double value = 128 + wave * 0.7 + edge + static_cast<double>(random.below(9));
        pixels[(size_t{y} * width + x) * 3 + c] =
            std::byte(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
  return pixels;
}

// With an EXIF orientation other than 1: the block goes in front of everything else.
Bytes jpeg(uint32_t width, uint32_t height, int subsampling = TJSAMP_420, uint8_t orientation = 1) {
  const Bytes pixels = picture(width, height);
  tjhandle handle = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, reinterpret_cast<const unsigned char*>(pixels.data()),
                        static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB, &out, &size,
                        subsampling, 92, 0),
            0);
  const auto bytes = std::as_bytes(std::span(out, size));
  Bytes result(bytes.begin(), bytes.end());
  tjFree(out);
  tjDestroy(handle);
  if (orientation == 1) return result;
  const std::string exif{
      "\xff\xe1\x00\x22"
      "Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0",
      29};
  Bytes block;
  for (const char c : exif) block.push_back(std::byte(static_cast<unsigned char>(c)));
  for (const uint8_t b : {orientation, uint8_t{0}, uint8_t{0}}) block.push_back(std::byte{b});
  // Length 0x22 counts itself and all that follows the marker.
  while (block.size() < 0x22 + 2) block.push_back(std::byte{0});
  result.insert(result.begin() + 2, block.begin(), block.begin() + 0x22 + 2);
  return result;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <class T>
std::vector<T> numbers_of(const TestField& field) {
  std::vector<T> values(field.bytes.size() / sizeof(T));
  std::memcpy(values.data(), field.bytes.data(), values.size() * sizeof(T));
  return values;
}

template <class T>
Bytes bytes_of_numbers(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

const TestField& named(const std::vector<TestField>& fields, std::string_view name) {
  for (const TestField& field : fields)
    if (field.name == name) return field;
  ADD_FAILURE() << "no field " << name;
  static const TestField none;
  return none;
}

struct Difference {
  int largest = 0;
  double mean = 0;
};
Difference difference(const TestField& a, const TestField& b) {
  EXPECT_EQ(a.shape, b.shape);
  Difference result;
  for (size_t i = 0; i < std::min(a.bytes.size(), b.bytes.size()); ++i) {
    const int d = std::abs(static_cast<int>(a.bytes[i]) - static_cast<int>(b.bytes[i]));
    result.largest = std::max(result.largest, d);
    result.mean += d / static_cast<double>(a.bytes.size());
  }
  return result;
}

const Op kDecode{"decode_image", {}};

// --- parts that are decoded ---

// First whole, as an array; then the other ops on that array.
std::vector<TestField> in_two_runs(const std::vector<Op>& ops, const Bytes& file,
                                   const SampleKey& key) {
  const auto whole = run_ops({kDecode}, {raw_part("x", file)});
  std::vector<Op> rest{{"drop", {{"fields", "nothing"}}}};  // keeps the places of the others
  rest.insert(rest.end(), ops.begin() + 1, ops.end());
  return run_ops(rest, {array_part("image", whole[0].shape, whole[0].bytes)}, key);
}

TEST(Fusion, PartsOfAnImageAreThoseOfTheWholeOne) {
  const std::vector<std::vector<Op>> lists{
      {kDecode, {"random_resized_crop", {{"size", 64}}}, {"flip", {}}},
      {kDecode, {"random_resized_crop", {{"size", Numbers{30, 90}}, {"filter", "area"}}}},
      {kDecode, {"random_crop", {{"size", 50}}}, {"flip", {{"vertical", true}}}},
      {kDecode, {"center_crop", {{"size", Numbers{41, 77}}}}},
      {kDecode, {"flip", {{"p", 1}}}, {"random_crop", {{"size", 50}}}},
      {kDecode, {"resize", {{"size", 110}}}, {"center_crop", {{"size", 100}}}},
      {kDecode, {"flip", {{"p", 1}}}, {"random_resized_crop", {{"size", 64}}}},
      {kDecode, {"center_crop", {{"size", 300}}}},
      {kDecode, {"random_crop", {{"size", 60}, {"padding", 8}, {"value", 7}}}},
      {kDecode,
       {"resize", {{"size", 90}}},
       {"random_resized_crop", {{"size", 32}}},
       {"resize", {{"size", Numbers{20, 50}}, {"filter", "nearest"}}}}};
  for (const int subsampling : {TJSAMP_420, TJSAMP_GRAY})
    for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
      const Bytes file = jpeg(187, 131, subsampling, orientation);
      const auto whole = run_ops({kDecode}, {raw_part("x", file)});
      ASSERT_EQ(whole[0].shape, orientation >= 5 ? (Shape{187, 131, 3}) : (Shape{131, 187, 3}));
      for (const auto& ops : lists)
        for (uint64_t sample = 0; sample < 2; ++sample) {
          const SampleKey key{.seed = 3, .epoch = 1, .sample = sample};
          const auto fused = run_ops(ops, {raw_part("x", file)}, key);
          const auto unfused = in_two_runs(ops, file, key);
          // A resize after a flip adds up its weights in the other direction.
          EXPECT_LE(difference(fused[0], unfused[0]).largest, 1)
              << ops[1].name << " " << static_cast<int>(orientation);
        }
    }
}

// A decode at 4/8, 2/8 or 1/8 averages squares first. What docs/ops.md states: less than one level
// on average.
TEST(Fusion, ScaledDecodesAreNearTheWholeOne) {
  for (const int subsampling : {TJSAMP_420, TJSAMP_444})
    for (const uint8_t orientation : {uint8_t{1}, uint8_t{3}, uint8_t{6}}) {
      const Bytes file = jpeg(1003, 771, subsampling, orientation);
      for (const int size : {180, 40}) {
        const Op resize{"random_resized_crop", {{"size", size}, {"scale", Numbers{0.9, 1}}}};
        const Op full{"decode_image", {{"oversampling", 0}}};
        const auto scaled = run_ops({kDecode, resize}, {raw_part("x", file)});
        const auto whole = run_ops({full, resize}, {raw_part("x", file)});
        const Difference d = difference(scaled[0], whole[0]);
        EXPECT_GT(d.largest, 0) << size;  // it was indeed another decode
        EXPECT_LT(d.mean, 1) << size << " " << static_cast<int>(orientation);
        EXPECT_LE(d.largest, 16) << size << " " << static_cast<int>(orientation);
      }
    }
}

TEST(Decode, ChoosesThePartByNameOrContent) {
  const Bytes file = jpeg(20, 10);
  const std::vector<formats::Part> parts{raw_part("cls", bytes_of("7")), raw_part("jpg", file)};
  const auto fields = run_ops({kDecode}, parts);
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "cls");
  EXPECT_EQ(fields[0].kind, FieldKind::kBytes);
  EXPECT_EQ(fields[1].name, "image");
  EXPECT_EQ(fields[1].shape, (Shape{10, 20, 3}));
  EXPECT_EQ(run_ops({{"decode_image", {{"part", "png;jpg"}, {"to", "x"}}}}, parts)[1].name, "x");
  EXPECT_EQ(error_of({{"decode_image", {{"part", "png"}}}}, parts),
            "f: op 1 (decode_image): no field 'png' (there are: cls, jpg)");
  EXPECT_EQ(error_of({{"decode_image", {{"part", "cls"}}}}, parts),
            "f: op 1 (decode_image): part 'cls' is neither JPEG nor PNG: text");
  EXPECT_NE(error_of({kDecode}, {raw_part("x", std::span(file).first(200))}).find("truncated"),
            std::string::npos);
}

TEST(Decode, WithoutOpsEveryImageIsDecodedUnderItsName) {
  const Bytes file = jpeg(20, 10, TJSAMP_GRAY);
  const auto fields = run_ops({}, {raw_part("left", file, Encoding::kJpeg),
                                   raw_part("note", bytes_of("hi"), Encoding::kText),
                                   raw_part("right", file, Encoding::kJpeg)});
  ASSERT_EQ(fields.size(), 3u);
  EXPECT_EQ(fields[0].shape, (Shape{10, 20, 1}));
  EXPECT_EQ(fields[1].kind, FieldKind::kText);
  EXPECT_EQ(fields[2].name, "right");
  EXPECT_EQ(fields[0].bytes, fields[2].bytes);
}

// --- random ops ---

TEST(Random, DependsOnTheSampleAndThePlaceOnly) {
  const Bytes file = jpeg(120, 90);
  const std::vector<Op> ops{
      kDecode,
      {"random_resized_crop", {{"size", 32}}},
      {"flip", {}},
      {"colour_jitter",
       {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.4}, {"hue", 0.1}}}};
  const Pipeline pipeline = Pipeline::make(ops).value();
  const std::vector<formats::Part> parts{raw_part("x", file)};
  const auto run = [&](Runner& runner, const SampleKey& key) {
    TestDestination none(false);
    std::vector<Field> fields;
    EXPECT_TRUE(runner.run(key, "f", parts, none, fields).ok());
    return Bytes(fields[0].bytes.begin(), fields[0].bytes.end());
  };
  const auto first = pipeline.make_runner();
  std::vector<Bytes> forwards;
  for (uint64_t sample = 0; sample < 16; ++sample)
    forwards.push_back(run(*first, {.seed = 1, .epoch = 2, .sample = sample}));
  const auto second = pipeline.make_runner();
  for (uint64_t sample = 16; sample-- > 0;)
    EXPECT_EQ(run(*second, {.seed = 1, .epoch = 2, .sample = sample}), forwards[sample]);
  EXPECT_EQ(std::set<Bytes>(forwards.begin(), forwards.end()).size(), 16u);
  EXPECT_NE(run(*first, {.seed = 1, .epoch = 3, .sample = 0}), forwards[0]);
  EXPECT_NE(run(*first, {.seed = 2, .epoch = 2, .sample = 0}), forwards[0]);
}

TEST(Random, FlipsAreAsFrequentAsAsked) {
  const Bytes pixels = bytes_of_numbers<uint8_t>({1, 2});
  for (const double p : {0.0, 0.3, 1.0}) {
    int flipped = 0;
    for (uint64_t sample = 0; sample < 2000; ++sample)
      flipped += run_ops({{"flip", {{"p", p}}}}, {array_part("image", {1, 2, 1}, pixels)},
                         {.sample = sample})[0]
                     .bytes[0] == std::byte{2};
    EXPECT_NEAR(flipped / 2000.0, p, p == 0 || p == 1 ? 0 : 0.04);
  }
}

// Area and ratio of many crops are spread as torchvision's are: the crop itself is seen in a
// picture whose pixels are their own coordinates.
TEST(Random, CropsHaveTheAreaAndRatioAskedFor) {
  std::vector<float> coordinates;
  for (int y = 0; y < 200; ++y)
    for (int x = 0; x < 300; ++x) {
      coordinates.push_back(static_cast<float>(y));
      coordinates.push_back(static_cast<float>(x));
    }
  const Bytes bytes = bytes_of_numbers(coordinates);
  const Op crop{"random_resized_crop", {{"size", 50}, {"filter", "nearest"}}};
  double area = 0, log_ratio = 0;
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const auto fields = run_ops(
        {crop}, {array_part("image", {200, 300, 2}, bytes, ElementType::kF32)}, {.sample = sample});
    const auto seen = numbers_of<float>(fields[0]);
    const double height = (seen[seen.size() - 2] - seen[0]) / 49 * 50;
    const double width = (seen[seen.size() - 1] - seen[1]) / 49 * 50;
    area += height * width / 60000 / 400;
    log_ratio += std::log(width / height) / 400;
    EXPECT_GT(height * width / 60000, 0.06);
  }
  // What 200,000 draws of torchvision's rule give: large areas and tall ratios fit less often.
  EXPECT_NEAR(area, 0.390, 0.04);
  EXPECT_NEAR(log_ratio, 0.031, 0.035);
}

TEST(Random, CropsThatCannotFitBecomeTheMiddle) {
  Bytes pixels(400 * 10);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::byte(i % 400 / 2);
  const auto fields =
      run_ops({{"random_resized_crop", {{"size", Numbers{10, 13}}, {"scale", Numbers{1, 1}}}}},
              {array_part("image", {10, 400, 1}, pixels)});
  EXPECT_NEAR(static_cast<int>(fields[0].bytes[0]), 97, 2);
  EXPECT_NEAR(static_cast<int>(fields[0].bytes[12]), 103, 2);
}

TEST(Random, SeveralFieldsAreCutAlike) {
  Bytes pixels(64 * 64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::byte(i * 7);
  const Texts both{"image", "mask"};
  const auto fields = run_ops(
      {{"random_crop", {{"size", 20}, {"field", both}}}, {"flip", {{"field", both}}}},
      {array_part("image", {64, 64}, pixels), array_part("mask", {64, 64}, pixels)}, {.sample = 5});
  EXPECT_EQ(fields[0].bytes, fields[1].bytes);
}

// --- numbers ---

TEST(Normalize, IsToTensorAndNormalizeInEveryLayoutAndType) {
  const Bytes file = jpeg(40, 30);
  const auto plain = run_ops({kDecode, {"flip", {{"p", 1}}}}, {raw_part("x", file)});
  const Numbers mean{0.485, 0.456, 0.406}, deviation{0.229, 0.224, 0.225};
  for (const char* order : {"CHW", "HWC"})
    for (const char* type : {"float32", "float16", "bfloat16", "float64"}) {
      const auto fields = run_ops({kDecode,
                                   {"flip", {{"p", 1}}},
                                   {"normalize", {{"mean", mean}, {"std", deviation}}},
                                   {"layout", {{"order", order}}},
                                   {"cast", {{"type", type}}}},
                                  {raw_part("x", file)});
      const bool is_planar = std::string(order) == "CHW";
      ASSERT_EQ(fields[0].shape, is_planar ? (Shape{3, 30, 40}) : (Shape{30, 40, 3}));
      EXPECT_EQ(formats::element_name(fields[0].type), type);
      std::vector<double> got(3600);
      load_elements(fields[0].type, fields[0].bytes.data(), got);
      for (size_t i = 0; i < 1200; ++i)
        for (size_t c = 0; c < 3; ++c) {
          const float value = (static_cast<float>(plain[0].bytes[i * 3 + c]) / 255.0f -
                               static_cast<float>(mean[c])) /
                              static_cast<float>(deviation[c]);
          const double tolerance = std::string(type) == "bfloat16"  ? 0.01
                                   : std::string(type) == "float16" ? 0.002
                                                                    : 0;
          ASSERT_NEAR(got[is_planar ? c * 1200 + i : i * 3 + c], value, tolerance);
        }
    }
}

TEST(Normalize, TakesOtherArraysByTheAxisThatFits) {
  const Bytes values = bytes_of_numbers<float>({1, 2, 3, 4, 5, 6});
  const Op op{"normalize", {{"mean", Numbers{1, 2}}, {"std", Numbers{1, 2}}, {"field", "x"}}};
  const auto first = run_ops({op}, {array_part("x", {2, 3}, values, ElementType::kF32)});
  EXPECT_EQ(numbers_of<float>(first[0]), (std::vector<float>{0, 1, 2, 1, 1.5, 2}));
  const auto last = run_ops({op}, {array_part("x", {3, 2}, values, ElementType::kF32)});
  EXPECT_EQ(numbers_of<float>(last[0]), (std::vector<float>{0, 0, 2, 1, 4, 2}));
  EXPECT_NE(error_of({op}, {array_part("x", {6}, values, ElementType::kF32)}), "");
}

TEST(Normalize, AnImageMayBeChangedAfterwards) {
  const Bytes file = jpeg(40, 30);
  const Op normalize{"normalize", {{"mean", 0.5}, {"std", 0.5}}};
  const Op resize{"resize", {{"size", Numbers{15, 20}}}};
  const auto before = run_ops({kDecode, resize, normalize}, {raw_part("x", file)});
  const auto after = run_ops({kDecode, normalize, resize}, {raw_part("x", file)});
  EXPECT_EQ(after[0].shape, (Shape{3, 15, 20}));
  const auto a = numbers_of<float>(before[0]), b = numbers_of<float>(after[0]);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2.0 / 255);
}

TEST(Cast, RoundsAndClampsAsDocumented) {
  const Bytes values =
      bytes_of_numbers<float>({-1.5f, 0.99f, 300, 65520, 1e-8f, INFINITY, -INFINITY, NAN});
  const auto cast = [&](const char* type) {
    return run_ops({{"cast", {{"type", type}, {"field", "x"}}}},
                   {array_part("x", {8}, values, ElementType::kF32)})[0];
  };
  EXPECT_EQ(numbers_of<uint8_t>(cast("u8")), (std::vector<uint8_t>{0, 0, 255, 255, 0, 255, 0, 0}));
  EXPECT_EQ(numbers_of<int64_t>(cast("int64")),
            (std::vector<int64_t>{-1, 0, 300, 65520, 0, INT64_MAX, INT64_MIN, 0}));
  EXPECT_EQ(numbers_of<uint16_t>(cast("f16")),
            (std::vector<uint16_t>{0xbe00, 0x3bec, 0x5cb0, 0x7c00, 0, 0x7c00, 0xfc00, 0x7e00}));
  EXPECT_EQ(numbers_of<uint16_t>(cast("bf16"))[2], 0x4396);
}

// Every half, and floats around every one of them: to the nearest, ties to even.
TEST(Cast, HalvesRoundToTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = float_from_half(static_cast<uint16_t>(bits));
    ASSERT_EQ(half_from_float(value), bits);
    ASSERT_EQ(half_from_float(-value), bits | 0x8000);
    const float next =
        bits + 1 < 0x7c00 ? float_from_half(static_cast<uint16_t>(bits + 1)) : 65536.0f;
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(half_from_float(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(half_from_float(std::nextafter(middle, 1e9f)), bits + 1);
  }
  EXPECT_EQ(bfloat_from_float(float_from_bfloat(0x1234)), 0x1234);
  EXPECT_EQ(bfloat_from_float(1.00390625f), 0x3f80);  // a tie: to even
  EXPECT_TRUE(std::isnan(float_from_bfloat(bfloat_from_float(NAN))));
}

TEST(Layout, TurnsArraysBothWays) {
  const Bytes values = bytes_of_numbers<uint8_t>({1, 2, 3, 4, 5, 6});
  const auto chw = run_ops({{"layout", {{"order", "CHW"}, {"field", "x"}}}},
                           {array_part("x", {1, 2, 3}, values)});
  EXPECT_EQ(chw[0].shape, (Shape{3, 1, 2}));
  EXPECT_EQ(numbers_of<uint8_t>(chw[0]), (std::vector<uint8_t>{1, 4, 2, 5, 3, 6}));
  const auto back = run_ops({{"layout", {{"order", "HWC"}, {"from", "CHW"}, {"field", "x"}}}},
                            {array_part("x", {3, 1, 2}, chw[0].bytes)});
  EXPECT_EQ(back[0].bytes, values);
}

// --- sequences, labels, text ---

TEST(Pad, FillsSequencesAndTellsWhatIsReal) {
  const Bytes values = bytes_of_numbers<int64_t>({5, 6, 7});
  const Op pad{"pad", {{"field", "x"}, {"size", 5}, {"value", -1}, {"mask", "real"}}};
  const auto fields = run_ops({pad}, {array_part("x", {3}, values, ElementType::kI64)});
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(numbers_of<int64_t>(fields[0]), (std::vector<int64_t>{5, 6, 7, -1, -1}));
  EXPECT_EQ(fields[1].name, "real");
  EXPECT_EQ(fields[1].type, ElementType::kBool);
  EXPECT_EQ(numbers_of<uint8_t>(fields[1]), (std::vector<uint8_t>{1, 1, 1, 0, 0}));
  const Op cut{"pad", {{"field", "x"}, {"size", 2}, {"truncate", true}, {"mask", "real"}}};
  const auto less = run_ops({cut}, {array_part("x", {3}, values, ElementType::kI64)});
  EXPECT_EQ(numbers_of<int64_t>(less[0]), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(numbers_of<uint8_t>(less[1]), (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(error_of({{"pad", {{"field", "x"}, {"size", 2}}}},
                     {array_part("x", {3}, values, ElementType::kI64)}),
            "f: op 1 (pad): field 'x': 3 do not fit into 2 (truncate)");
}

TEST(Pad, KeepsRowsOfArraysAndPixelsOfImagesInPlace) {
  const Bytes values = bytes_of_numbers<uint8_t>({1, 2, 3, 4});
  const auto array = run_ops({{"pad", {{"field", "x"}, {"size", Numbers{3, 3}}, {"value", 9}}}},
                             {array_part("x", {2, 2}, values)});
  EXPECT_EQ(numbers_of<uint8_t>(array[0]), (std::vector<uint8_t>{1, 2, 9, 3, 4, 9, 9, 9, 9}));
  const auto image =
      run_ops({{"flip", {{"p", 1}}},
               {"pad", {{"field", "image"}, {"size", Numbers{2, 4}}, {"center", true}}}},
              {array_part("image", {2, 2, 1}, values)});
  EXPECT_EQ(numbers_of<uint8_t>(image[0]), (std::vector<uint8_t>{0, 2, 1, 0, 0, 4, 3, 0}));
}

TEST(OneHot, MakesVectorsAndRefusesOtherClasses) {
  const Bytes label = bytes_of_numbers<int64_t>({2});
  const auto fields = run_ops({{"one_hot", {{"classes", 4}, {"smoothing", 0.2}}}},
                              {array_part("label", {}, label, ElementType::kI64)});
  EXPECT_EQ(fields[0].shape, (Shape{4}));
  const auto values = numbers_of<float>(fields[0]);
  EXPECT_FLOAT_EQ(values[0], 0.05f);
  EXPECT_FLOAT_EQ(values[2], 0.85f);
  EXPECT_EQ(error_of({{"one_hot", {{"classes", 2}}}},
                     {array_part("label", {}, label, ElementType::kI64)}),
            "f: op 1 (one_hot): field 'label': class 2 of 2");
}

TEST(Tokens, AreShiftedIntoInputsAndLabels) {
  const Bytes values = bytes_of_numbers<uint16_t>({7, 8, 9, 65535});
  const auto fields =
      run_ops({{"tokens", {}}}, {array_part("data", {4}, values, ElementType::kU16)});
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "inputs");
  EXPECT_EQ(numbers_of<int64_t>(fields[0]), (std::vector<int64_t>{7, 8, 9}));
  EXPECT_EQ(fields[1].name, "labels");
  EXPECT_EQ(numbers_of<int64_t>(fields[1]), (std::vector<int64_t>{8, 9, 65535}));
  const auto whole = run_ops({{"tokens", {{"shift", false}, {"type", "i32"}}}},
                             {array_part("data", {4}, values, ElementType::kU16)});
  EXPECT_EQ(numbers_of<int32_t>(whole[0]), (std::vector<int32_t>{7, 8, 9, 65535}));
}

TEST(Json, KeysBecomeFields) {
  const std::vector<formats::Part> parts{raw_part(
      "json",
      bytes_of(R"({"label": 3, "score": 0.5, "who": {"name": "zo\u00eb"}, "box": [[1,2],[3,4]],)"
               R"( "big": 18446744073709551615, "yes": true, "a.b": 1, "mixed": [1, 2.5]})"),
      Encoding::kJson)};
  const auto fields = run_ops(
      {{"parse_json",
        {{"keys", Texts{"label", "score", "who.name", "box", "big", "yes", "a.b", "mixed", "who"}},
         {"types", Texts{"", "float32", "", "", "u64", "", "", "", "text"}}}}},
      parts);
  ASSERT_EQ(fields.size(), 9u);
  EXPECT_EQ(numbers_of<int64_t>(named(fields, "label")), std::vector<int64_t>{3});
  EXPECT_EQ(named(fields, "label").shape, Shape{});
  EXPECT_EQ(numbers_of<float>(named(fields, "score")), std::vector<float>{0.5f});
  EXPECT_EQ(named(fields, "who.name").kind, FieldKind::kText);
  EXPECT_EQ(named(fields, "who.name").bytes.size(), 4u);
  EXPECT_EQ(named(fields, "box").shape, (Shape{2, 2}));
  EXPECT_EQ(numbers_of<uint64_t>(named(fields, "big")), std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(named(fields, "yes").type, ElementType::kBool);
  EXPECT_EQ(numbers_of<double>(named(fields, "mixed")), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(named(fields, "who").kind, FieldKind::kText);
  EXPECT_EQ(error_of({{"parse_json", {{"keys", "nothing"}}}}, parts),
            "f: op 1 (parse_json): part 'json' has no key 'nothing'");
  EXPECT_EQ(error_of({{"parse_json", {{"keys", "who"}}}}, parts),
            "f: op 1 (parse_json): key 'who': is object, not a number; 'text' takes any value");
  EXPECT_EQ(error_of({{"parse_json", {}}}, parts),
            "f: op 1 (parse_json): part 'json' is an object: its values become fields by 'keys'");
  EXPECT_EQ(error_of({{"parse_json", {{"keys", "big"}}}}, parts),
            "f: op 1 (parse_json): key 'big': 18446744073709551615 does not fit int64: ask for "
            "types 'uint64' or 'float64'");
}

TEST(Json, AWholeDocumentTakesThePlaceOfItsPart) {
  const auto fields =
      run_ops({{"parse_json", {{"part", "cls"}}}}, {raw_part("cls", bytes_of("12"))});
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields[0].name, "cls");
  EXPECT_EQ(numbers_of<int64_t>(fields[0]), std::vector<int64_t>{12});
  for (const char* text : {"[[1],[2,3]]", "[1,[2]]", "[[],1]", "{}", "null", "[null]", "[1", ""})
    EXPECT_NE(error_of({{"parse_json", {{"part", "x"}}}}, {raw_part("x", bytes_of(text))}), "")
        << text;
}

TEST(Fields, AreRenamedSelectedAndDropped) {
  const std::vector<formats::Part> parts{raw_part("a", bytes_of("1")), raw_part("b", bytes_of("2")),
                                         raw_part("c", bytes_of("3"))};
  const auto names = [&](const std::vector<Op>& ops) {
    std::string all;
    for (const TestField& field : run_ops(ops, parts)) all += field.name + " ";
    return all;
  };
  EXPECT_EQ(names({{"rename", {{"from", Texts{"a", "b"}}, {"to", Texts{"b", "a"}}}}}), "b a c ");
  EXPECT_EQ(names({{"select", {{"fields", Texts{"c", "a"}}}}}), "c a ");
  EXPECT_EQ(names({{"drop", {{"fields", Texts{"b", "z"}}}}}), "a c ");
  EXPECT_NE(error_of({{"rename", {{"from", "a"}, {"to", "b"}}}}, parts), "");
  EXPECT_NE(error_of({{"select", {{"fields", "z"}}}}, parts), "");
  const std::vector<Op> ragged{{"ragged", {{"fields", "a"}}}};
  const Pipeline pipeline = Pipeline::make(ragged).value();
  EXPECT_EQ(error_of({{"ragged", {{"fields", Texts{"a", "z"}}}}}, parts),
            "f: op 1 (ragged): no field 'z' (there are: a, b, c)");
  EXPECT_TRUE(pipeline.is_ragged("a"));
  EXPECT_FALSE(pipeline.is_ragged("b"));
}

// --- the pipeline itself ---

std::string refusal(const Op& op) {
  const auto pipeline = Pipeline::make({&op, 1});
  return pipeline.ok() ? "" : pipeline.error().message;
}

TEST(Pipeline, MistakesAreNamedBeforeAnythingIsRead) {
  EXPECT_NE(refusal({"decode_imge", {}}).find("did you mean 'decode_image'?"), std::string::npos);
  EXPECT_NE(refusal({"resize", {{"sise", 3}}}).find("did you mean 'size'?"), std::string::npos);
  EXPECT_NE(refusal({"resize", {}}).find("op 1 (resize): argument size is missing"),
            std::string::npos);
  EXPECT_NE(refusal({"resize", {{"size", "big"}}}), "");
  EXPECT_NE(refusal({"resize", {{"size", 0}}}), "");
  EXPECT_NE(refusal({"resize", {{"size", 2.5}}}), "");
  EXPECT_NE(refusal({"resize", {{"size", Numbers{1, 2, 3}}}}), "");
  EXPECT_NE(refusal({"resize", {{"size", 3}, {"filter", "cubic"}}}), "");
  EXPECT_NE(refusal({"flip", {{"p", 1.5}}}), "");
  EXPECT_NE(refusal({"flip", {{"p", 0.5}, {"p", 0.5}}}), "");
  EXPECT_NE(refusal({"normalize", {{"mean", 0}, {"std", 0}}}), "");
  EXPECT_NE(refusal({"cast", {{"type", "complex64"}}}), "");
  EXPECT_NE(refusal({"cast", {{"type", "flaot32"}}}), "");
  EXPECT_NE(refusal({"random_resized_crop", {{"size", 3}, {"scale", Numbers{0.5, 1.5}}}}), "");
  EXPECT_NE(refusal({"colour_jitter", {{"hue", 0.6}}}), "");
  EXPECT_NE(refusal({"decode_image", {{"mode", "rgb"}}}), "");
  EXPECT_NE(refusal({"one_hot", {{"classes", 0}}}), "");
  EXPECT_NE(refusal({"rename", {{"from", "a"}, {"to", Texts{"b", "c"}}}}), "");
  const std::vector<Op> late{{"normalize", {{"mean", 0}, {"std", 1}}}, {"colour_jitter", {}}};
  const auto refused = Pipeline::make(late);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "op 2 (colour_jitter) cannot follow op 1 (normalize): it changes uint8 pixels");
}

TEST(Pipeline, FingerprintsTellListsApart) {
  const auto print = [](const std::vector<Op>& ops) {
    return Pipeline::make(ops).value().fingerprint();
  };
  const std::vector<std::vector<Op>> lists{{},
                                           {kDecode},
                                           {kDecode, kDecode},
                                           {{"decode_image", {{"mode", "L"}}}},
                                           {kDecode, {"resize", {{"size", 3}}}},
                                           {kDecode, {"resize", {{"size", Numbers{3, 3}}}}},
                                           {{"drop", {{"fields", Texts{"a", "b"}}}}},
                                           {{"drop", {{"fields", Texts{"ab"}}}}}};
  std::set<uint64_t> prints;
  for (const auto& ops : lists) prints.insert(print(ops));
  EXPECT_EQ(prints.size(), lists.size());
  // What is not given has the value it would be given.
  EXPECT_EQ(print({{"decode_image", {{"mode", "RGB"}}}}), print({kDecode}));
}

TEST(Pipeline, ArraysGoStraightIntoTheirPlaceOrStayWithTheRunner) {
  const Bytes file = jpeg(40, 30);
  const Bytes values = bytes_of_numbers<int64_t>({1, 2, 3});
  const std::vector<formats::Part> parts{raw_part("x", file),
                                         array_part("y", {3}, values, ElementType::kI64)};
  const std::vector<std::vector<Op>> lists{
      {},
      {kDecode},
      {kDecode, {"center_crop", {{"size", 20}}}},
      {kDecode, {"resize", {{"size", 20}}}, {"normalize", {{"mean", 0}, {"std", 1}}}}};
  for (const auto& ops : lists) {
    EXPECT_EQ(run_ops(ops, parts, {}, true), run_ops(ops, parts, {}, false));
    const Pipeline pipeline = Pipeline::make(ops).value();
    TestDestination room(true);
    std::vector<Field> fields;
    ASSERT_TRUE(pipeline.make_runner()->run({}, "f", parts, room, fields).ok());
    for (const Field& field : fields)
      if (field.kind == FieldKind::kArray) {
        uint64_t bytes = formats::element_bytes(field.type);
        for (const uint64_t n : field.shape) bytes *= n;
        EXPECT_EQ(field.bytes.size(), bytes);
      }
  }
}

TEST(Pipeline, EveryOpIsInTheTableOnceAndDescribed) {
  std::set<std::string_view> names;
  for (const OpInfo& info : op_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty());
    for (const OpArgument& argument : info.arguments) {
      EXPECT_FALSE(argument.help.empty()) << info.name << " " << argument.name;
      EXPECT_TRUE(argument.type == "int" || argument.type == "number" || argument.type == "text" ||
                  argument.type == "flag" || argument.type == "numbers" ||
                  argument.type == "texts");
    }
  }
  EXPECT_EQ(names.size(), 18u);
}

// --- docs/ops.md ---

TEST(Documentation, ListsTheOpsAsTheyAre) {
  const std::string path = base::source_folder() + "/docs/ops.md";
  std::ifstream file(path);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page, ops_markdown()) << "tools/check_docs --fix writes it";
}

TEST(Pipeline, SizesBeyondTheLimitOfPixelsAreRefusedBeforeASampleIsSeen) {
  const std::vector<Op> too_large{
      {"center_crop", {{"size", 100000}}},
      {"resize", {{"size", 100000}}},
      {"random_resized_crop", {{"size", 1000000}}},
      {"random_crop", {{"size", 100000}, {"pad_if_needed", true}}},
      {"random_crop", {{"size", 100}, {"padding", 1000000}, {"pad_if_needed", true}}},
      {"pad", {{"field", "image"}, {"size", Numbers{1000000, 1000000}}}},
      {"pad", {{"field", "x"}, {"size", Numbers{1e9, 1e9, 1e9}}}}};
  for (const Op& op : too_large) {
    const auto pipeline = Pipeline::make(std::span(&op, 1));
    ASSERT_FALSE(pipeline.ok()) << op.name;
    EXPECT_EQ(pipeline.error().code, ErrorCode::kInvalidArgument) << pipeline.error().message;
  }
}

TEST(Pipeline, WhatIsMoreThanMemoryAllowsIsRefusedBeforeItIsAllocated) {
  const Bytes encoded = jpeg(90, 70);
  const Bytes label{std::byte{3}};
  const std::vector<formats::Part> parts{raw_part("image", encoded, Encoding::kJpeg),
                                         array_part("label", {}, label)};
  const std::vector<std::vector<Op>> too_large{
      {{"decode_image", {}}, {"resize", {{"size", 1020}}}},
      {{"decode_image", {}}, {"pad", {{"field", "image"}, {"size", Numbers{4000, 1000}}}}},
      {{"one_hot", {{"classes", 900000000}}}}};
  // None is too large by itself.
  DecodeOptions small;
  small.memory = std::make_shared<Allowance>(4 << 20);
  for (const auto& ops : too_large) {
    const auto pipeline = Pipeline::make(ops, small);
    ASSERT_TRUE(pipeline.ok()) << pipeline.error().message;
    const auto runner = pipeline->make_runner();
    TestDestination nowhere(false);
    std::vector<Field> fields;
    const Status status = runner->run({}, "f", parts, nowhere, fields);
    ASSERT_FALSE(status.ok()) << ops.back().name;
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported) << status.error().message;
  }
}

}  // namespace
}  // namespace forebay::ops

// Goal: every format gives its samples as named parts, and says what it cannot.
#include "formats/parts.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/example.h"
#include "formats/testing_hdf5.h"
#include "formats/testing_samples.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string names(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) text += (text.empty() ? "" : " ") + std::string(part.name);
  return text;
}

// What read() gives is among the parts, for every format of the table.
TEST(Parts, HoldTheRecordOfEveryFormat) {
  for (const Format* format : builtin_formats()) {
    if (format->check_write != nullptr && !format->check_write().ok()) continue;
    if (format->name == "synthetic") continue;  // holds its number, nothing more
    TestingStore store;
    const FileSpec spec{.path = "a", .rows = 31, .columns = 17, .seed = 7};
    ASSERT_TRUE(write_with(*format, store, "a", spec).ok()) << format->name;
    const FormatOptions options{.samples_per_file = 1};
    const auto index = format->index(store, store.stat("a").value(), options);
    ASSERT_TRUE(index.ok()) << index.error().message;
    const auto text = dump_samples(*format, store, "a", options);
    ASSERT_TRUE(text.ok()) << format->name << ": " << text.error().message;
    EXPECT_GE(text->size(), 2u * 31 * 17) << format->name;
  }
}

TEST(Parts, OneRecordHasTheNameOfItsKind) {
  EXPECT_EQ(part_name(Encoding::kJpeg), "image");
  EXPECT_EQ(part_name(Encoding::kPng), "image");
  EXPECT_EQ(part_name(Encoding::kText), "text");
  EXPECT_EQ(part_name(Encoding::kJson), "json");
  EXPECT_EQ(part_name(Encoding::kRaw), "data");
  EXPECT_EQ(part_name(Encoding::kArray), "data");
}

TEST(Parts, RawRecordsAreArraysOfTheGivenShape) {
  TestingStore store;
  store.put("a.raw", Bytes(48));
  const FormatOptions options{.record_array =
                                  ArrayLayout{.type = ElementType::kF32, .shape = {2, 3}}};
  const auto index = kRaw.index(store, store.stat("a.raw").value(), options);
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->sample_count, 2u);
  const auto record = kRaw.make_reader(options)->read("a.raw", Bytes(24), *index, 1);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->encoding, Encoding::kArray);
  EXPECT_EQ(record->array.shape, (std::vector<uint64_t>{2, 3}));
  FormatOptions other = options;
  other.record_bytes = 20;
  EXPECT_NE(kRaw.index(store, store.stat("a.raw").value(), other)
                .error()
                .message.find("records of 20 bytes cannot be arrays that take 24 bytes"),
            std::string::npos);
  other.record_array = ArrayLayout{.type = ElementType::kF32, .shape = {}};
  EXPECT_EQ(kRaw.index(store, store.stat("a.raw").value(), other).error().message,
            "a.raw: records of 20 bytes hold 5 values of float32: give their record_shape, [5] or "
            "what has as many");
}

TEST(Parts, MembersOfAnNpzCanBeChosen) {
  TestingStore store;
  const FileSpec spec{.path = "a.npz", .rows = 4, .columns = 5, .sample_count = 3, .seed = 7};
  ASSERT_TRUE(write_with(kNpz, store, "a.npz", spec).ok());
  for (const uint64_t samples : {1u, 3u}) {
    const FormatOptions all{.samples_per_file = samples};
    const auto index = kNpz.index(store, store.stat("a.npz").value(), all).take();
    auto bytes = std::span<const std::byte>(store.get("a.npz"));
    const auto reader = kNpz.make_reader(all);
    std::vector<Part> parts;
    for (uint64_t i = 0; i < index.sample_count; ++i) {
      ASSERT_TRUE(reader->read_parts("a.npz", bytes, index, i, parts).ok());
      EXPECT_EQ(names(parts), "x y");
      for (const Part& part : parts) {
        EXPECT_EQ(part.record.sample_axis >= 0, samples == 3) << part.name;
        EXPECT_EQ(part.record.sample_in_file, i);
      }
    }
    FormatOptions some = all;
    some.columns = {"y"};
    const auto one = kNpz.make_reader(some);
    ASSERT_TRUE(one->read_parts("a.npz", bytes, index, 0, parts).ok());
    EXPECT_EQ(names(parts), "y");
    some.columns = {"y", "z"};
    const Status missing = kNpz.make_reader(some)->read_parts("a.npz", bytes, index, 0, parts);
    EXPECT_EQ(missing.error().message, "a.npz: no part z; of those asked for it has: y");
  }
}

TEST(Parts, DataSetsThatAreUnlikeComeAsPartsOnly) {
  TestingStore store;
  FileSpec spec{.path = "a.h5", .rows = 4, .columns = 5, .sample_count = 3, .seed = 7};
  ASSERT_TRUE(write_with(kHdf5, store, "a.h5", spec).ok());
  const FormatOptions options{.columns = {"records_0", "labels"}};
  const auto names_found = dump_samples(kHdf5, store, "a.h5", options);
  ASSERT_TRUE(names_found.ok()) << names_found.error().message;
  EXPECT_NE(names_found->find("2 labels "), std::string::npos);
  EXPECT_NE(names_found->find("2 records_0 "), std::string::npos);
  const auto index = kHdf5.index(store, store.stat("a.h5").value(), options).take();
  const Bytes block = read_extents(store, "a.h5", index.blocks[0].extents).take();
  const auto decoded =
      kHdf5.make_reader(options)->decode_block("a.h5", block, index, index.blocks[0]);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ((*decoded)->at(0).error().code, ErrorCode::kUnsupported);
}

// --- Examples ---

std::string field(char number, std::string_view content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) +
         std::string(content);
}
std::string example(std::initializer_list<std::pair<std::string_view, std::string>> features) {
  std::string all;
  for (const auto& [name, feature] : features) all += field(1, field(1, name) + field(2, feature));
  return field(1, all);
}

TEST(Example, NumbersMayBePackedOrNot) {
  ExampleParser parser({});
  std::vector<Part> parts;
  const std::string packed = example({{"a", field(3, field(1, std::string("\x01\x80\x01", 3)))},
                                      {"b", field(3, std::string("\x08\x07\x08\x09", 4))},
                                      {"c", field(2, std::string("\x0d\0\0\x80\x3f", 5))}});
  ASSERT_TRUE(parser.parse(bytes_of(packed), parts).ok());
  ASSERT_EQ(names(parts), "a b c");
  const auto at = [&](size_t part, size_t i) {
    int64_t value = 0;
    std::memcpy(&value, parts[part].record.bytes.data() + 8 * i, 8);
    return value;
  };
  EXPECT_EQ(parts[0].record.array.shape, std::vector<uint64_t>{2});
  EXPECT_EQ(at(0, 0), 1);
  EXPECT_EQ(at(0, 1), 128);
  EXPECT_EQ(at(1, 0), 7);
  EXPECT_EQ(at(1, 1), 9);
  EXPECT_TRUE(parts[2].record.array.shape.empty());
  EXPECT_EQ(parts[2].record.array.type, ElementType::kF32);
}

TEST(Example, FeaturesCanBeChosen) {
  const std::string message =
      example({{"a", field(1, field(1, "one"))}, {"b", field(1, field(1, "two"))}});
  std::vector<Part> parts;
  ExampleParser b({"b"});
  ASSERT_TRUE(b.parse(bytes_of(message), parts).ok());
  EXPECT_EQ(names(parts), "b");
  ExampleParser c({"b", "c"});
  EXPECT_EQ(c.parse(bytes_of(message), parts).error().message,
            "no part c; of those asked for it has: b");
  ExampleParser data({"data"});
  ASSERT_TRUE(data.parse(bytes_of("no message at all"), parts).ok());
  EXPECT_EQ(names(parts), "data");
  EXPECT_EQ(parts[0].record.bytes.size(), 17u);
}

TEST(Example, WhatIsNoneIsNamedWithItsByte) {
  ExampleParser parser({});
  std::vector<Part> parts;
  const auto message = [&](std::string_view text) {
    const Status status = parser.parse(bytes_of(text), parts);
    return status.ok() ? "accepted" : status.error().message;
  };
  EXPECT_EQ(message("\x0a\x05"
                    "abc"),
            "not a tf.train.Example: a field longer than its message at byte 2");
  EXPECT_EQ(message("hello"), "not a tf.train.Example: a field that it does not have at byte 2");
  EXPECT_EQ(message("\x0f"), "not a tf.train.Example: a field of unknown kind at byte 1");
  EXPECT_EQ(message("\x12\x01x"), "a tf.train.SequenceExample");
  EXPECT_NE(message(example({{"a\xff", field(1, field(1, "x"))}})).find("not UTF-8 at byte 1"),
            std::string::npos);
  EXPECT_EQ(message(example({{"a", field(1, field(1, "x"))}, {"a", field(1, field(1, "y"))}})),
            "two features named a");
  EXPECT_EQ(message(""), "accepted");
  const std::string good =
      example({{"a", field(3, field(1, "\x01\x02\x03"))}, {"b", field(2, field(1, "12345678"))}});
  for (size_t n = 1; n < good.size(); ++n) EXPECT_NE(message(good.substr(0, n)), "accepted") << n;
}

TEST(Example, RandomDamageIsSurvived) {
  const std::string good = example({{"a", field(3, field(1, "\x01\x02\x03"))},
                                    {"b", field(2, field(1, "12345678"))},
                                    {"c", field(1, field(1, "x") + field(1, "y"))}});
  base::Random random(3);
  ExampleParser parser({});
  std::vector<Part> parts;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (int i = 0; i < 1 + round % 3; ++i)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    if (!parser.parse(bytes_of(text), parts).ok()) continue;
    for (const Part& part : parts)
      if (part.record.encoding == Encoding::kArray) {
        EXPECT_EQ(array_bytes(part.record.array).value(), part.record.bytes.size());
      }
  }
}

}  // namespace
}  // namespace forebay::formats

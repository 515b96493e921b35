// The header of a safetensors file: what is written is read back, each rule of the format is kept,
// and files of the reference library are read.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::checkpoint {
namespace {

using testing::HasSubstr;

constexpr uint64_t kData = 24;  // bytes of tensors behind the headers here

Result<SafetensorsHeader> parse(const std::string& json, uint64_t data_bytes = kData) {
  return parse_safetensors(json, kLengthBytes + json.size() + data_bytes);
}

std::string tensor(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(Safetensors, AHeaderIsReadAsItWasWritten) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"a \"quoted\" \xc3\xa9", "x\ny"}};
  header.tensors = {{"w.0", TensorType::kF64, {2}, 0, 16},
                    {"scalar", TensorType::kI64, {}, 16, 8},
                    {"empty", TensorType::kBF16, {0, 7}, 24, 0}};
  const auto text = make_safetensors_header(header, 64);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size() % 64, 0u);
  const auto bytes = std::as_bytes(std::span(*text));
  const auto length = read_header_length(bytes.first(8), text->size() + kData);
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(*length, text->size() - 8);
  const auto read = parse_safetensors(std::string_view(*text).substr(8), text->size() + kData);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->metadata, header.metadata);
  ASSERT_EQ(read->tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->tensors[i].name, header.tensors[i].name);
    EXPECT_EQ(read->tensors[i].type, header.tensors[i].type);
    EXPECT_EQ(read->tensors[i].shape, header.tensors[i].shape);
    EXPECT_EQ(read->tensors[i].offset, header.tensors[i].offset);
    EXPECT_EQ(read->tensors[i].bytes, header.tensors[i].bytes);
  }
}

TEST(Safetensors, LengthsThatTheFileCannotHoldAreRefused) {
  const auto length_of = [](uint64_t length, uint64_t file_bytes) {
    return read_header_length(std::as_bytes(std::span(&length, 1)), file_bytes);
  };
  EXPECT_TRUE(length_of(100, 108).ok());
  EXPECT_EQ(length_of(101, 108).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(length_of(UINT64_MAX, 108).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(length_of(kHeaderBytesMax + 1, UINT64_MAX).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(read_header_length({}, 3).error().code, ErrorCode::kCorruption);
}

struct BadHeader {
  std::string json;
  std::string says;
};

TEST(Safetensors, EachBrokenRuleIsNamed) {
  const std::string good = tensor("a", "F32", "[6]", "[0,24]");
  ASSERT_TRUE(parse("{" + good + "}").ok());
  const BadHeader cases[] = {
      {"", "no '{'"},
      {"[]", "no '{'"},
      {" {" + good + "}", "no '{'"},
      {"{" + good, "no JSON"},
      {"{" + good + "} x", "no JSON"},
      {"{\"a\xff\":1}", "no JSON"},
      {"{" + tensor("a", "F33", "[6]", "[0,24]") + "}", "unknown dtype 'F33'"},
      {"{" + tensor("a", "F32", "[5]", "[0,24]") + "}", "tensor 'a': data_offsets [0, 24]"},
      {"{" + tensor("a", "F32", "[6]", "[24,0]") + "}", "data_offsets [24, 0]"},
      {"{" + tensor("a", "F32", "[6]", "[0,24,25]") + "}", "more than two data_offsets"},
      {"{" + tensor("a", "F32", "[6]", "[0]") + "}", "fewer than two data_offsets"},
      {"{" + tensor("a", "F32", "[-6]", "[0,24]") + "}", "negative"},
      {"{" + tensor("a", "F32", "[6.0]", "[0,24]") + "}", "not whole"},
      {"{" + tensor("a", "F32", "[[6]]", "[0,24]") + "}", "a list where none belongs"},
      {"{" + tensor("a", "F32", "6", "[0,24]") + "}", "a number where none belongs"},
      {"{" + tensor("a", "F32", "[9223372036854775807,9]", "[0,24]") + "}", "too large"},
      {R"({"a":{"dtype":"F32","shape":[6]}})", "no data_offsets"},
      {R"({"a":{"shape":[6],"data_offsets":[0,24]}})", "no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,24]}})", "no shape"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[6],"data_offsets":[0,24]}})", "twice"},
      {R"({"a":{"dtype":"F32","shape":[6],"data_offsets":[0,24],"x":1}})", "unknown field 'x'"},
      {R"({"a":null})", "'a': null where none belongs"},
      {"{" + good + "," + good + "}", "'a' comes twice"},
      {"{" + tensor("a", "U8", "[8]", "[0,8]") + "," + tensor("b", "U8", "[8]", "[16,24]") + "}",
       "tensor 'b' begins at 16, behind a hole from 8"},
      {"{" + tensor("a", "U8", "[16]", "[0,16]") + "," + tensor("b", "U8", "[16]", "[8,24]") + "}",
       "tensor 'b' begins at 8, inside another"},
      {"{" + tensor("a", "U8", "[25]", "[0,25]") + "}", "behind the file's 24 bytes"},
      {"{" + tensor("a", "U8", "[23]", "[0,23]") + "}", "but the file has 24"},
      {R"({"__metadata__":{"a":1}})", "a number where none belongs"},
      {R"({"__metadata__":{"a":{}}})", "an object where none belongs"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "'a' comes twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' comes twice"},
  };
  for (const BadHeader& bad : cases) {
    const auto header = parse(bad.json);
    ASSERT_FALSE(header.ok()) << bad.json;
    EXPECT_THAT(header.error().message, HasSubstr(bad.says)) << bad.json;
  }
}

TEST(Safetensors, DeepNestingCostsNothing) {
  const std::string deep(10 << 20, '[');
  EXPECT_FALSE(parse("{\"a\":" + deep).ok());
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse(objects).ok());
}

TEST(Safetensors, TensorsAreTakenAsTheyLieWhateverTheOrderOfTheirNames) {
  const auto header = parse("{" + tensor("a", "U8", "[8]", "[16,24]") + "," +
                            tensor("z", "U8", "[16]", "[0,16]") + "}  ");
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->tensors[0].name, "z");
  EXPECT_EQ(header->tensors[1].name, "a");
}

}  // namespace
}  // namespace forebay::checkpoint

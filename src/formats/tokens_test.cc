// Goal: windows of tokens cost nothing each, and no index file is believed before it is compared
// with its data.
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/little_endian.h"
#include "formats/testing_samples.h"
#include "formats/tokens_index.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& to, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

struct Sequence {
  int32_t tokens = 0;
  int64_t offset = 0;
};
Bytes make_index(const std::vector<Sequence>& sequences, uint8_t code = 8) {
  Bytes bytes;
  for (const char c : std::string_view("MMIDIDX\0\0", 9)) put(bytes, c);
  put(bytes, uint64_t{1});
  put(bytes, code);
  put(bytes, uint64_t{sequences.size()});
  put(bytes, uint64_t{1});
  for (const Sequence& it : sequences) put(bytes, it.tokens);
  for (const Sequence& it : sequences) put(bytes, it.offset);
  put(bytes, int64_t{0});
  return bytes;
}

Result<FileIndex> index_of(uint64_t data_bytes, const Bytes& side, const FormatOptions& options) {
  TestingStore store;
  store.put("a.bin", Bytes(data_bytes));
  if (!side.empty()) store.put("a.idx", side);
  return kTokens.index(store, store.stat("a.bin").value(), options);
}
std::string refusal(uint64_t data_bytes, const Bytes& side, const FormatOptions& options = {}) {
  const auto index = index_of(data_bytes, side, options);
  return index.ok() ? "accepted" : index.error().message;
}

TEST(Tokens, WindowsCrossDocumentsAndCostNoMemory) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < 100'000; ++i)
    sequences.push_back({i % 5, i / 5 * 20 + (i % 5 * (i % 5 - 1))});
  const auto index = index_of(400'000, make_index(sequences), {.tokens_per_sample = 7});
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->sample_count, 200'000u / 7);
  EXPECT_TRUE(index->extents.is_even());
  EXPECT_EQ(index->extents[3], (Extent{42, 14}));
  EXPECT_EQ(index->problems, (std::vector<std::string>{"its last 3 tokens fill no window of 7"}));
  EXPECT_EQ(index->extent_array->type, ElementType::kU16);
}

TEST(Tokens, APlainFileNeedsItsType) {
  const ArrayLayout u32{.type = ElementType::kU32, .shape = {}};
  EXPECT_EQ(refusal(64, {}, {.tokens_per_sample = 4}),
            "a.bin: no index file a.idx tells the type of its tokens: put it beside the tokens, or "
            "give record_type (such as uint16)");
  EXPECT_EQ(refusal(64, {}, {.record_array = u32}),
            "a.bin: no index file a.idx tells where its sequences are: put it beside the tokens, "
            "or give tokens_per_sample");
  EXPECT_EQ(refusal(64, {}, {}),
            "a.bin: no index file a.idx tells the type of its tokens: put it beside the tokens, or "
            "give record_type (such as uint16) and tokens_per_sample");
  const auto index = index_of(64, {}, {.record_array = u32, .tokens_per_sample = 4});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 4u);
  const ArrayLayout shaped{.type = ElementType::kU32, .shape = {4}};
  EXPECT_EQ(refusal(64, {}, {.record_array = shaped, .tokens_per_sample = 4}),
            "a.bin: tokens have no record_shape: tokens_per_sample is the length of a window");
  EXPECT_EQ(refusal(63, {}, {.record_array = u32, .tokens_per_sample = 4}),
            "a.bin: 63 bytes are no whole number of uint32 tokens: the file is cut off, or another "
            "record_type is due");
  EXPECT_EQ(refusal(64, {}, {.record_array = u32, .tokens_per_sample = 17}),
            "a.bin: 16 tokens are less than a window of 17: give a smaller tokens_per_sample");
}

TEST(Tokens, TheIndexIsComparedWithTheData) {
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("a.bin: "), 0u) << message;
  };
  has(refusal(20, make_index({{5, 0}, {6, 10}})),
      "sequence 1 has 6 tokens from byte 10 on, but the data file has 20 bytes");
  has(refusal(20, make_index({{5, 0}, {5, -1}})), "sequence 1 has 5 tokens from byte");
  has(refusal(20, make_index({{-5, 0}})), "sequence 0 has -5 tokens");
  has(refusal(20, make_index({})), "no sequences");
  has(refusal(20, make_index({{5, 0}}, 9)), "unknown type 9");
  has(refusal(20, make_index({{0, 0}, {0, 0}})), "all sequences are empty");
  has(refusal(20, Bytes(100)),
      "no index of tokens (zero bytes): without a file of this name, record_type and "
      "tokens_per_sample say what the tokens are");
  Bytes huge = make_index({{5, 0}});
  store_le<uint64_t>(&huge[18], UINT64_MAX / 4);
  has(refusal(20, huge), "bytes for");
  Bytes old = make_index({{5, 0}});
  old[9] = std::byte{2};
  has(refusal(20, old), "version 2");
  const Bytes good = make_index({{5, 0}, {5, 10}});
  for (size_t n = 1; n < good.size(); ++n)
    EXPECT_NE(refusal(20, Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(n))),
              "accepted")
        << n;
  has(refusal(20, good, {.record_array = ArrayLayout{.type = ElementType::kI32, .shape = {}}}),
      "its tokens are uint16, int32 was asked for: leave record_type out, or say uint16");
}

TEST(Tokens, SequencesMayLieAnywhereButWindowsMayNotCrossThem) {
  const Bytes side = make_index({{5, 10}, {5, 0}});
  const auto each = index_of(20, side, {});
  ASSERT_TRUE(each.ok()) << each.error().message;
  EXPECT_EQ(each->extents[0], (Extent{10, 10}));
  EXPECT_NE(refusal(20, side, {.tokens_per_sample = 3}).find("do not lie one behind the other"),
            std::string::npos);
  const auto more = index_of(24, make_index({{5, 0}, {5, 10}}), {.tokens_per_sample = 5});
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->problems,
            (std::vector<std::string>{"4 bytes behind its last sequence are not read"}));
}

TEST(Tokens, RandomIndexFilesAreSurvived) {
  const Bytes good = make_index({{5, 0}, {5, 10}, {0, 20}, {3, 20}});
  base::Random random(3);
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = good;
    for (int i = 0; i < 1 + round % 4; ++i)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    for (const uint64_t window : {0u, 4u}) {
      const auto index = index_of(26, bytes, {.tokens_per_sample = window});
      if (index.ok()) {
        EXPECT_TRUE(index->extents.is_inside(26));
      }
    }
  }
}

TEST(Tokens, PartsAreNamedTokens) {
  TestingStore store;
  ASSERT_TRUE(write_with(kTokens, store, "a.bin",
                         FileSpec{.path = "a.bin",
                                  .rows = 2,
                                  .columns = 3,
                                  .type = ElementType::kI32,
                                  .sample_count = 4,
                                  .seed = 1})
                  .ok());
  const FormatOptions options{.tokens_per_sample = 8};
  const auto index = kTokens.index(store, store.stat("a.bin").value(), options).take();
  EXPECT_EQ(index.sample_count, 3u);
  std::vector<Part> parts;
  const auto bytes = std::span(store.get("a.bin")).subspan(32, 32);
  const auto reader = kTokens.make_reader(options);
  ASSERT_TRUE(reader->read_parts("a.bin", bytes, index, 1, parts).ok());
  EXPECT_EQ(parts[0].name, "tokens");
  EXPECT_EQ(parts[0].record.array.type, ElementType::kI32);
  EXPECT_EQ(parts[0].record.array.shape, std::vector<uint64_t>{8});
  EXPECT_FALSE(reader->read_parts("a.bin", bytes.first(31), index, 1, parts).ok());
}

}  // namespace
}  // namespace forebay::formats

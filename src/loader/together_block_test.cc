// Goal: a file whose samples only come together is taken apart once, whatever is wrong with it, and
// counts all that is kept of it.
#include "loader/together_block.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace forebay::loader {
namespace {

// Sample i is the byte i; those from `first_bad` up to `first_good` cannot be read.
class ByteReader : public formats::Reader {
 public:
  Result<formats::Record> read(std::string_view path, std::span<const std::byte> /*bytes*/,
                               const formats::FileIndex& /*index*/, uint64_t sample) override {
    ++reads;
    if (sample >= first_bad && sample < first_good)
      return fail(ErrorCode::kCorruption, "{}: {}", path,
                  names_sample ? fmt::format("sample {}", sample) : "cannot be unpacked");
    byte_ = static_cast<std::byte>(sample);
    return formats::Record{.bytes = {&byte_, 1}};
  }

  uint64_t first_bad = UINT64_MAX, first_good = UINT64_MAX;
  bool names_sample = false;
  uint64_t reads = 0;

 private:
  std::byte byte_{};
};

formats::FileIndex index_of(uint64_t samples) {
  return {.access = formats::Access::kTogether, .sample_count = samples};
}

TEST(TogetherBlock, CountsWhatItHoldsBesideTheBytes) {
  constexpr uint64_t kSamples = 100'000;
  for (const bool has_parts : {false, true}) {
    ByteReader reader;
    const auto block = decode_together(reader, "f", nullptr, index_of(kSamples), has_parts);
    std::vector<formats::Part> parts;
    for (const uint64_t sample : {uint64_t{0}, uint64_t{77}, kSamples - 1}) {
      if (has_parts) {
        ASSERT_TRUE(block->parts_at(sample, parts).ok());
        ASSERT_EQ(parts.size(), 1u);
        EXPECT_EQ(parts[0].record.bytes[0], static_cast<std::byte>(sample));
      } else {
        EXPECT_EQ(block->at(sample)->bytes[0], static_cast<std::byte>(sample));
      }
    }
    // A place and an offset for each, at the least; and not a record with its shape for each.
    EXPECT_GE(block->bytes(), kSamples * 24);
    EXPECT_LE(block->bytes(), kSamples * 100);
  }
}

// A packed file that is damaged fails for each of its samples, and each would unpack it once more.
TEST(TogetherBlock, GivesUpAFileThatFailsAsAWhole) {
  ByteReader reader;
  reader.first_bad = 0;
  const auto block = decode_together(reader, "f", nullptr, index_of(uint64_t{1} << 40), false);
  EXPECT_LE(reader.reads, 4u);
  for (const uint64_t sample : {uint64_t{0}, uint64_t{4}, uint64_t{1} << 39}) {
    const auto record = block->at(sample);
    ASSERT_FALSE(record.ok());
    EXPECT_EQ(record.error().message, "f: cannot be unpacked");
  }
}

TEST(TogetherBlock, KeepsGoodSamplesBesideBadOnes) {
  for (const bool names_sample : {false, true})
    for (const uint64_t first_bad : {0u, 5u}) {
      ByteReader reader;
      reader.names_sample = names_sample;
      reader.first_bad = first_bad;
      reader.first_good = names_sample ? 90 : first_bad + 3;
      const auto block = decode_together(reader, "f", nullptr, index_of(100), false);
      for (uint64_t i = 0; i < 100; ++i) {
        const bool is_bad = i >= first_bad && i < reader.first_good;
        EXPECT_EQ(block->at(i).ok(), !is_bad) << i;
        if (is_bad && names_sample) {
          EXPECT_EQ(block->at(i).error().message, fmt::format("f: sample {}", i));
        }
      }
    }
}

}  // namespace
}  // namespace forebay::loader

// Goal: samples of indexed_binary are found whatever DLIO wrote as their offsets, and index files
// that do not fit their data are named; synthetic files are never read.
#include <gtest/gtest.h>

#include <string>

#include "formats/builtin.h"
#include "formats/little_endian.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

using Bytes = TestingStore::Bytes;
using Entries = std::vector<uint64_t>;

Bytes packed(const Entries& entries) {
  Bytes bytes(entries.size() * 8);
  for (size_t i = 0; i < entries.size(); ++i) store_le<uint64_t>(&bytes[i * 8], entries[i]);
  return bytes;
}

struct Indexed {
  std::string error;
  ExtentList extents;
};

Indexed index_of(uint64_t data_bytes, const Bytes& offsets, const Bytes& sizes,
                 uint64_t samples = 0) {
  TestingStore store;
  store.put("d", Bytes(data_bytes));
  store.put("d.off.idx", offsets);
  store.put("d.sz.idx", sizes);
  const auto index =
      kIndexedBinary.index(store, store.stat("d").value(), {.samples_per_file = samples});
  if (!index.ok()) return {index.error().message, {}};
  EXPECT_EQ(index->access, Access::kExtents);
  EXPECT_EQ(index->sample_count, index->extents.size());
  return {"", index->extents};
}

TEST(Indexed, OffsetsMayStartAgainInEveryBuffer) {
  const Bytes sizes = packed({4, 4, 4, 4, 4});
  for (const Entries& offsets : {Entries{0, 4, 8, 12, 16},  // right
                                 Entries{0, 4, 0, 4, 0},    // buffers of two samples
                                 Entries{0, 4, 8, 0, 4},    // two ranks
                                 Entries{0, 0, 0, 0, 0}}) {
    const Indexed indexed = index_of(20, packed(offsets), sizes);
    ASSERT_EQ(indexed.error, "");
    ASSERT_EQ(indexed.extents.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(indexed.extents[i].offset, 4 * i);
      EXPECT_EQ(indexed.extents[i].length, 4u);
    }
  }
  const Indexed uneven = index_of(10, packed({0, 3, 0}), packed({3, 2, 5}));
  EXPECT_EQ(uneven.error, "");
  EXPECT_EQ(uneven.extents[2].offset, 5u);
}

TEST(Indexed, SamplesBeyondThoseAskedForAreLeftAlone) {
  const Bytes five = packed({4, 4, 4, 4, 4});
  EXPECT_EQ(index_of(20, packed({0, 4, 8, 12, 16}), five, 3).extents.size(), 3u);
  EXPECT_EQ(index_of(20, packed({0, 4, 8, 12, 16}), five, 9).extents.size(), 5u);
  // A collective write that filled its buffer: more whole samples than the index files tell.
  EXPECT_EQ(index_of(28, packed({0, 4, 8, 12, 16}), five).extents.size(), 5u);
}

TEST(Indexed, IndexFilesThatDoNotFitAreNamed) {
  const Bytes offsets = packed({0, 4, 8}), sizes = packed({4, 4, 4});
  const auto cut = [](Bytes bytes) {
    bytes.pop_back();
    return bytes;
  };
  EXPECT_EQ(index_of(12, offsets, sizes).error, "");
  EXPECT_EQ(index_of(12, cut(offsets), sizes).error,
            "d: offsets (.off.idx): truncated at byte 23: not a whole number of 8-byte entries");
  EXPECT_EQ(index_of(12, offsets, cut(sizes)).error,
            "d: sizes (.sz.idx): truncated at byte 23: not a whole number of 8-byte entries");
  EXPECT_EQ(index_of(12, offsets, {}).error, "d: sizes (.sz.idx): empty file");
  EXPECT_EQ(index_of(12, offsets, packed({4, 4})).error,
            "d: 3 offsets (.off.idx), but 2 sizes (.sz.idx)");
  EXPECT_EQ(index_of(11, offsets, sizes).error,
            "d: sample 2 has 4 bytes from byte 8 on, but the data file has 11 bytes");
  EXPECT_EQ(index_of(13, offsets, sizes).error,
            "d: its 3 samples end at byte 12, but the data file has 13 bytes");
  EXPECT_EQ(index_of(16, packed({0, 4, 9}), packed({4, 5, 3})).error,
            "d: its 3 samples end at byte 12, but the data file has 16 bytes");
  EXPECT_EQ(index_of(12, packed({0, 5, 8}), sizes).error,
            "d: sample 1: its offset is 5, but the samples before it end at byte 4");
  EXPECT_EQ(index_of(12, packed({0, 4, 4}), packed({4, 0, 8})).error, "d: sample 1 has 0 bytes");
  EXPECT_EQ(index_of(12, packed({0, 4}), packed({4, UINT64_MAX})).error,
            "d: sample 1 has 18446744073709551615 bytes from byte 4 on, but the data file has 12 "
            "bytes");
  const std::string text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 24\n";
  const auto pointer = std::as_bytes(std::span(text));
  EXPECT_EQ(index_of(12, {pointer.begin(), pointer.end()}, sizes).error,
            "d: offsets (.off.idx): a git-lfs pointer, not the data; fetch it with 'git lfs pull'");
}

TEST(Indexed, MissingIndexFileIsNamed) {
  for (const char* missing : {"d.off.idx", "d.sz.idx"}) {
    TestingStore store;
    store.put("d", Bytes(4));
    store.put("d.off.idx", packed({0}));
    store.put("d.sz.idx", packed({4}));
    ASSERT_TRUE(store.remove(missing).ok());
    const auto index = kMmapIndexedBinary.index(store, store.stat("d").value(), {});
    ASSERT_FALSE(index.ok());
    EXPECT_EQ(index.error().message,
              "d: its index file " + std::string(missing) +
                  " is missing; without it nobody can tell where samples start");
  }
}

TEST(Indexed, ShortReadIsNamed) {
  auto reader = kIndexedBinary.make_reader({});
  const FileIndex index{.access = Access::kExtents, .sample_count = 1, .extents = {{0, 4}}};
  const auto record = reader->read("d", Bytes(3), index, 0);
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().message, "d: sample 0: truncated at byte 3 of 4");
}

TEST(Indexed, WrittenIndexFilesTellTheTruth) {
  TestingStore store;
  const FileSpec spec{.path = "d", .rows = 3, .columns = 5, .sample_count = 4};
  for (const Format* format : {&kIndexedBinary, &kMmapIndexedBinary}) {
    ASSERT_TRUE(write_with(*format, store, "d", spec).ok());
    EXPECT_EQ(store.get("d").size(), 60u);
    EXPECT_EQ(store.get("d.off.idx"), packed({0, 15, 30, 45}));
    EXPECT_EQ(store.get("d.sz.idx"), packed({15, 15, 15, 15}));
  }
}

TEST(Synthetic, NothingIsReadAndNothingIsClaimed) {
  TestingStore store;
  const FileSpec spec{.path = "train/img_07_of_12.synthetic", .rows = 3, .columns = 5};
  ASSERT_TRUE(write_with(kSynthetic, store, spec.path, spec).ok());
  EXPECT_EQ(store.get(spec.path), Bytes{std::byte{'7'}});
  for (const uint64_t samples : {0u, 1u, 4u}) {
    const FormatOptions options{.samples_per_file = samples, .record_bytes = 15};
    const auto index = kSynthetic.index(store, store.stat(spec.path).value(), options);
    ASSERT_TRUE(index.ok());
    EXPECT_EQ(index->sample_count, std::max<uint64_t>(1, samples));
    for (const Extent& extent : index->extents) EXPECT_EQ(extent.length, 0u);
    auto reader = kSynthetic.make_reader(options);
    const auto record = reader->read(spec.path, {}, *index, index->sample_count - 1);
    ASSERT_TRUE(record.ok());
    EXPECT_EQ(record->bytes.size(), 15u);
    EXPECT_FALSE(reader->read(spec.path, {}, *index, index->sample_count).ok());
  }
  EXPECT_EQ(store.read_count(), 0u);
}

}  // namespace
}  // namespace forebay::formats

// Extent lists against plain vectors: the same extents whatever the form, and a form whose memory
// does not grow with the number of records of a fixed size.
#include "formats/extent_list.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

std::vector<Extent> plain(const ExtentList& list) {
  std::vector<Extent> extents;
  for (const Extent& extent : list) extents.push_back(extent);
  return extents;
}

// Pieces that a format may find: runs of one length with one gap, with strays between them.
std::vector<Extent> random_extents(base::Random& random) {
  std::vector<Extent> extents;
  uint64_t offset = random.below(100);
  for (uint64_t run = random.below(4); run > 0; --run) {
    const uint64_t length = random.below(5), gap = random.below(3) * random.below(9);
    for (uint64_t i = random.below(6); i > 0; --i) {
      extents.push_back({offset, length});
      offset += length + gap;
    }
    if (random.below(4) == 0) offset = random.below(200);  // backwards, too
  }
  return extents;
}

bool naive_is_even(const std::vector<Extent>& extents) {
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].length != extents[0].length || extents[1].offset < extents[0].offset ||
        extents[i].offset - extents[0].offset != i * (extents[1].offset - extents[0].offset))
      return false;
  return true;
}

TEST(ExtentListProperty, HoldsTheExtentsOfAVector) {
  base::Random random(7);
  int even = 0, uneven = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Extent> expected = random_extents(random);
    ExtentList list;
    for (const Extent& extent : expected) list.push_back(extent);
    ASSERT_EQ(plain(list), expected) << round;
    ASSERT_EQ(list.size(), expected.size());
    ASSERT_EQ(list.is_even(), naive_is_even(expected)) << round;
    (list.is_even() ? even : uneven)++;
    const uint64_t file_bytes = random.below(250);
    bool fits = true;
    for (const Extent& extent : expected)
      fits = fits && extent.offset + extent.length <= file_bytes;
    ASSERT_EQ(list.is_inside(file_bytes), fits) << round;
    if (expected.size() > 1 && list.is_even()) {
      ASSERT_EQ(list, ExtentList::even(expected[0], expected[1].offset - expected[0].offset,
                                       expected.size()));
    }

    const uint64_t count = random.below(expected.size() + 2);
    list.truncate(count);
    if (count < expected.size()) expected.resize(count);
    ASSERT_EQ(plain(list), expected) << round;
    ExtentList again;
    for (const Extent& extent : expected) again.push_back(extent);
    ASSERT_EQ(list, again) << round;
  }
  EXPECT_GT(even, 1000);
  EXPECT_GT(uneven, 1000);
}

TEST(ExtentList, ThatWrapsLiesInNoFile) {
  EXPECT_TRUE(ExtentList::even({0, 4}, 4, 25).is_inside(100));
  EXPECT_FALSE(ExtentList::even({0, 4}, 4, 26).is_inside(100));
  EXPECT_FALSE(ExtentList::even({0, 4}, uint64_t{1} << 62, 5).is_inside(100));  // the last is at 0
  EXPECT_FALSE(ExtentList::even({UINT64_MAX - 3, 4}, 4, 3).is_inside(100));     // so is this one's
  EXPECT_TRUE(ExtentList::even({96, 4}, UINT64_MAX, 1).is_inside(100));
}

// Every format that finds records of one size in a file keeps them as a stride.
TEST(ExtentList, OfRecordsOfOneSizeCostsNothingASample) {
  constexpr uint64_t kSamples = 3000;
  TestingStore store;
  for (const Format* format : {&kRaw, &kIndexedBinary, &kMmapIndexedBinary, &kNpy, &kNpz,
                               &kTfrecord, &kHdf5, &kSynthetic}) {
    const std::string path = fmt::format("{0}/a_1_of_2.{0}", format->name);
    const FileSpec spec{.path = path, .rows = 3, .columns = 5, .sample_count = kSamples};
    ASSERT_TRUE(write_with(*format, store, path, spec).ok()) << format->name;
    const auto index = format->index(store, store.stat(path).value(),
                                     {.samples_per_file = kSamples, .record_bytes = 15});
    ASSERT_TRUE(index.ok()) << index.error().message;
    if (index->access != Access::kExtents) continue;  // npz may keep its samples together
    EXPECT_EQ(index->extents.size(), kSamples) << format->name;
    EXPECT_TRUE(index->extents.is_even()) << format->name;
    EXPECT_EQ(index->extents.heap_bytes(), 0u) << format->name;
  }
}

}  // namespace
}  // namespace forebay::formats

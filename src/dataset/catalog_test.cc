// Goal: several data sets are numbered through as one, and class folders give the labels that
// torchvision's ImageFolder gives.
#include "dataset/catalog.h"

#include <gtest/gtest.h>

#include "dataset/store_for_test.h"
#include "formats/builtin.h"

namespace forebay::dataset {
namespace {

using Strings = std::vector<std::string>;

std::shared_ptr<const Index> open(StoreForTest& store, IndexOptions options) {
  options.threads = 1;
  auto index = Index::open(store, options);
  EXPECT_TRUE(index.ok()) << index.error().message;
  return std::move(index).take();
}

TEST(Catalog, NumbersSamplesAndFilesThrough) {
  StoreForTest store;
  store.put("a/0.raw", "0123456789");
  store.put("a/1.raw", "0123");
  store.put("b/0.npy", "x");
  store.put("b/c.d/7.npy", "xy");
  const auto a = open(store, {.folder = "a", .format = &formats::kRaw, .record_bytes = 2});
  const auto b = open(store, {.folder = "b", .format = &formats::kNpy, .samples_per_file = 1});
  const auto made = Catalog::make({{a, {.record_bytes = 2}, "a"}, {b, {}, "b"}});
  ASSERT_TRUE(made.ok());
  const Catalog& catalog = *made;
  EXPECT_EQ(catalog.sample_count(), 9u);
  EXPECT_EQ(catalog.file_count(), 4u);
  EXPECT_EQ(catalog.bytes(), 17u);
  EXPECT_EQ(catalog.locate(5).file, 1u);
  EXPECT_EQ(catalog.locate(6).extent, (formats::Extent{2, 2}));
  EXPECT_EQ(catalog.source_of_sample(6), 0u);
  EXPECT_EQ(catalog.locate(7).file, 2u);
  EXPECT_EQ(catalog.path(2), "b/0.npy");
  EXPECT_EQ(&catalog.format(1), &formats::kRaw);
  EXPECT_EQ(&catalog.format(3), &formats::kNpy);
  EXPECT_EQ(catalog.file_bytes(3), 2u);
  EXPECT_EQ(catalog.source_of(3), 1u);
  EXPECT_EQ(catalog.key(6), "a/1#1");
  EXPECT_EQ(catalog.key(8), "b/c.d/7");
  EXPECT_FALSE(catalog.label(0).has_value());
  EXPECT_NE(catalog.fingerprint(), Catalog::make({{b, {}, "b"}, {a, {}, "a"}})->fingerprint());
  EXPECT_FALSE(Catalog::make({}).ok());
}

TEST(Catalog, OfOneIndexIsThatIndex) {
  StoreForTest store;
  store.put("a/0.raw", "0123456789");
  const auto index = open(store, {.format = &formats::kRaw, .record_bytes = 5});
  const Catalog catalog = Catalog::of(*index, {.record_bytes = 5});
  EXPECT_EQ(catalog.fingerprint(), index->fingerprint());
  EXPECT_EQ(catalog.sample_count(), 2u);
  EXPECT_EQ(catalog.locate(1).extent, index->locate(1).extent);
  EXPECT_EQ(catalog.source(0).options.record_bytes, 5u);
}

TEST(ClassLabels, AreTheFirstFoldersInOrder) {
  StoreForTest store;
  for (const char* path : {"t/dog/1.raw", "t/cat/x/2.raw", "t/cat/3.raw", "t/Zebra/4.raw"})
    store.put(path);
  const auto index = open(store, {.folder = "t", .format = &formats::kRaw});
  const LabelledFiles set{index.get(), "t/"};
  const auto labels = ClassLabels::make(std::span(&set, 1));
  ASSERT_TRUE(labels.ok()) << labels.error().message;
  EXPECT_EQ(labels->names(), (Strings{"Zebra", "cat", "dog"}));
  for (uint32_t file = 0; file < 4; ++file) {
    const std::string path(index->path(file));
    const int64_t expected = path.find("dog") != std::string::npos   ? 2
                             : path.find("cat") != std::string::npos ? 1
                                                                     : 0;
    EXPECT_EQ(labels->label(0, file), expected) << path;
  }
}

TEST(ClassLabels, AreSharedBySources) {
  StoreForTest store;
  for (const char* path : {"a/dog/1.raw", "a/ant/1.raw", "b/cat/1.raw", "b/dog/2.raw"})
    store.put(path);
  const auto a = open(store, {.folder = "a", .format = &formats::kRaw});
  const auto b = open(store, {.folder = "b", .format = &formats::kRaw});
  const LabelledFiles sets[] = {{a.get(), "a"}, {b.get(), "b"}};
  auto labels = ClassLabels::make(sets);
  ASSERT_TRUE(labels.ok());
  EXPECT_EQ(labels->names(), (Strings{"ant", "cat", "dog"}));
  const auto catalog = Catalog::make({{a, {}, "a"}, {b, {}, "b"}},
                                     std::make_shared<const ClassLabels>(std::move(labels).take()));
  ASSERT_TRUE(catalog.ok());
  for (uint32_t file = 0; file < 4; ++file) {
    const std::string path(catalog->path(file));
    EXPECT_EQ(catalog->label(file) == 2, path.find("dog") != std::string::npos) << path;
  }
}

TEST(ClassLabels, FilesOutsideClassesAndEmptyClassesAreNamed) {
  StoreForTest store;
  store.put("cat/1.raw");
  store.put("bird/notes.md");
  store.put("ant/broken.raw", "");
  const auto index = open(store, {.format = &formats::kRaw});
  const LabelledFiles set{index.get(), ""};
  const auto labels = ClassLabels::make(std::span(&set, 1));
  ASSERT_TRUE(labels.ok());
  EXPECT_EQ(labels->names(), (Strings{"ant", "bird", "cat"}));
  EXPECT_EQ(labels->empty_names(), (Strings{"ant", "bird"}));
  store.put("loose.raw");
  const auto with_loose = open(store, {.format = &formats::kRaw});
  const LabelledFiles loose{with_loose.get(), ""};
  const auto refused = ClassLabels::make(std::span(&loose, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("loose.raw: lies in no class folder"), std::string::npos);
}

}  // namespace
}  // namespace forebay::dataset

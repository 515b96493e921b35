// The store without bytes: its files follow a rule, so a whole run can be driven by it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NullStore, FilesFollowTheRule) {
  const auto store = open_for_test("null:files=3,size=70kB,name=train/img_{i}_of_{n}.npz", "");
  EXPECT_THAT(paths_of(store->list("train").take()),
              ElementsAre("train/img_0_of_3.npz", "train/img_1_of_3.npz", "train/img_2_of_3.npz"));
  EXPECT_EQ(store->list("valid").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->stat("train/img_2_of_3.npz")->size, 70'000u);
  for (const char* path : {"train/img_3_of_3.npz", "train/img_01_of_3.npz", "train/img__of_3.npz",
                           "train/img_x_of_3.npz", "img_1_of_3.npz"}) {
    EXPECT_EQ(store->stat(path).error().code, ErrorCode::kNotFound) << path;
  }
}

TEST(NullStore, ReadsBringZerosAndKnowTheirSize) {
  const auto store = open_for_test("null:files=1,size=200000,name={i}", "");
  const auto reads = store->open_queue({}).take();
  std::string out(200'000, '.');
  CollectingVisitor visitor;
  Read read{.path = "0",
            .length = 200'000,
            .destination = writable(out).data(),
            .visitor = &visitor,
            .to_end = true,
            .tag = 9};
  Completion done = read_one(*reads, read);
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.bytes, 200'000u);
  EXPECT_EQ(done.tag, 9u);
  EXPECT_EQ(out, std::string(200'000, '\0'));
  EXPECT_EQ(visitor.text(), out);
  read.length = 199'999;
  EXPECT_THAT(read_one(*reads, read).status.error().message, HasSubstr("is now 200000"));
  read.path = "1";
  EXPECT_EQ(read_one(*reads, read).status.error().code, ErrorCode::kNotFound);
}

TEST(NullStore, CanDeliverNothingAtAll) {
  const auto store = open_for_test("null:files=1,size=10,name={i},deliver=nothing", "");
  std::string out(10, '.');
  const Completion done =
      read_one(*store->open_queue({}).take(),
               {.path = "0", .length = 10, .destination = writable(out).data()});
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.bytes, 10u);
  EXPECT_EQ(out, "..........");
}

TEST(NullStore, WritesAreAcceptedAndDropped) {
  const auto store = open_for_test("null", "");
  put(*store, "checkpoint/1", "state");
  EXPECT_EQ(store->stat("checkpoint/1").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(store->list("").take().files.empty());
}

}  // namespace
}  // namespace forebay::storage

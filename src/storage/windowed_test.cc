// A view with windows reads what the store holds, in fewer requests.
#include "storage/windowed.h"

#include <gtest/gtest.h>

#include "storage/store_test_support.h"

namespace forebay::storage {
namespace {

TEST(WindowedStore, AnyRangeIsTheStoresOwn) {
  const auto store = open_for_test("memory", "t");
  const std::string content = random_text(700'000);
  put(*store, "f", content);
  put(*store, "short", "abc");
  put(*store, "empty", "");
  WindowedStore view(*store);
  for (const uint64_t offset : {699'990u, 699'000u, 0u, 30u, 65'000u, 66'000u, 300'000u, 5u,
                                700'000u, 800'000u, 699'999u, 131'072u}) {
    for (const size_t size : {size_t{1}, size_t{22}, size_t{4096}, size_t{100'000}}) {
      std::string out(size, '.');
      std::string expected = offset < content.size() ? content.substr(offset, size) : "";
      ASSERT_EQ(*view.read_at("f", offset, writable(out)), expected.size())
          << offset << " " << size;
      EXPECT_TRUE(out.substr(0, expected.size()) == expected) << offset << " " << size;
      std::string three(5, '.');
      EXPECT_EQ(*view.read_at("short", 1, writable(three)), 2u);
      EXPECT_EQ(three, "bc...");
      EXPECT_EQ(*view.read_at("empty", 0, writable(three)), 0u);
    }
  }
  std::string out(1, '.');
  EXPECT_EQ(view.read_at("none", 0, writable(out)).error().code, ErrorCode::kNotFound);
}

TEST(WindowedStore, NeighboursCostNoRequest) {
  const auto store = open_for_test("memory", "t");
  put(*store, "f", random_text(700'000));
  WindowedStore view(*store);
  std::string out(22, '.');
  ASSERT_TRUE(view.read_at("f", 699'978, writable(out)).ok());
  ASSERT_TRUE(view.read_at("f", 0, writable(out)).ok());
  ASSERT_TRUE(store->remove("f").ok());
  // The beginning and the end are remembered; the middle would have to be asked for.
  EXPECT_TRUE(view.read_at("f", 650'000, writable(out)).ok());
  EXPECT_TRUE(view.read_at("f", 60'000, writable(out)).ok());
  EXPECT_FALSE(view.read_at("f", 300'000, writable(out)).ok());
}

}  // namespace
}  // namespace forebay::storage

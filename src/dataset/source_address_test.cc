// Goal: what users write is split where they would, and several sources come under one root.
#include "dataset/source_address.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace forebay::dataset {
namespace {

using Strings = std::vector<std::string>;

SourceAddress split(std::string_view text) {
  auto address = split_address(text);
  EXPECT_TRUE(address.ok()) << text << ": " << address.error().message;
  return address.ok() ? std::move(address).take() : SourceAddress{};
}
std::string refusal(std::string_view text) {
  const auto address = split_address(text);
  return address.ok() ? "accepted" : address.error().message;
}

TEST(SourceAddress, FoldersFilesAndPatterns) {
  EXPECT_EQ(split("/data/train").root, "/data/train");
  EXPECT_EQ(split("/data/train").patterns, Strings{});
  EXPECT_EQ(split("/data/v1.2/").root, "/data/v1.2/");
  EXPECT_EQ(split("/data/a.tar").root, "/data");
  EXPECT_EQ(split("/data/a.tar").patterns, Strings{"a.tar"});
  EXPECT_EQ(split("a.tar").root, ".");
  EXPECT_EQ(split("a.tar").patterns, Strings{"a.tar"});
  EXPECT_EQ(split("/a.npz").root, "/");
  EXPECT_EQ(split("/data/**/*.npz").root, "/data");
  EXPECT_EQ(split("/data/**/*.npz").patterns, Strings{"**/*.npz"});
  EXPECT_EQ(split("x/{train,val}").root, "x");
  EXPECT_EQ(split("x/{train,val}").patterns, (Strings{"{train,val}"}));
  EXPECT_EQ(split("s3://b/in/{00..81}.tar").root, "s3://b/in");
  EXPECT_EQ(split("s3://b/in/{00..81}.tar").patterns, (Strings{"{00..81}.tar"}));
  EXPECT_EQ(split("s3://b").root, "s3://b");
  EXPECT_EQ(split("S3://B/in").root, "s3://B/in");
  EXPECT_EQ(split("s3://b/*.tar").root, "s3://b");
  EXPECT_EQ(split("/d/odd \\{1\\}/*.npz").root, "/d/odd {1}");
  EXPECT_EQ(split("/d/odd \\{1\\}/*.npz").patterns, Strings{"*.npz"});
}

TEST(SourceAddress, AFileWithoutASuffixIsOneOfItsFolder) {
  const auto file_of = [](std::string_view text) {
    const auto address = as_file(split(text));
    return address ? fmt::format("{} : {}", address->root, address->patterns.at(0)) : "none";
  };
  EXPECT_EQ(file_of("/data/train-0"), "/data : train-0");
  EXPECT_EQ(file_of("/train-0"), "/ : train-0");
  EXPECT_EQ(file_of("train"), ". : train");
  EXPECT_EQ(file_of("s3://b/train"), "s3://b : train");
  EXPECT_EQ(file_of("s3://b/in/train"), "s3://b/in : train");
  for (const char* text : {"s3://b", "s3://b/", "/", "/data/", "/data/*", "a.tar"})
    EXPECT_EQ(file_of(text), "none") << text;
}

TEST(SourceAddress, NonsenseIsRefused) {
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal("s3:///x").find("no bucket"), std::string::npos);
  EXPECT_NE(refusal("s3://b{1,2}/x").find("bucket cannot be a pattern"), std::string::npos);
  EXPECT_NE(refusal("/d/{0..99999999}").find("more than"), std::string::npos);
}

SharedRoot share(const Strings& texts) {
  std::vector<SourceAddress> addresses;
  for (const std::string& text : texts) addresses.push_back(split(text));
  auto shared = share_root(addresses);
  EXPECT_TRUE(shared.ok()) << shared.error().message;
  return shared.ok() ? std::move(shared).take() : SharedRoot{};
}

TEST(SourceAddress, SeveralShareTheirDeepestFolder) {
  const SharedRoot disk = share({"/d/x/a/*.tar", "/d/x/b", "/d/x/c,1/{0..3}.npz"});
  EXPECT_EQ(disk.root, "/d/x");
  ASSERT_EQ(disk.patterns.size(), 3u);
  EXPECT_EQ(disk.patterns[0], Strings{"a/*.tar"});
  EXPECT_EQ(disk.patterns[1], Strings{"b"});
  EXPECT_EQ(disk.patterns[2], Strings{"c\\,1/{0..3}.npz"});
  EXPECT_EQ(disk.folders, (Strings{"a", "b", "c,1"}));
  const SharedRoot one = share({"/d/x"});
  EXPECT_EQ(one.root, "/d/x");
  EXPECT_TRUE(one.patterns[0].empty());
  EXPECT_EQ(share({"/a/x", "/b/x"}).root, "/");
  EXPECT_EQ(share({"a/x", "b/x"}).root, ".");
  EXPECT_EQ(share({"s3://b/x/*.tar", "s3://b/y/*.tar"}).root, "s3://b");
  EXPECT_EQ(share({"../a", "../b"}).root, "..");
}

TEST(SourceAddress, DifferentStoresAreRefused) {
  for (const auto& texts : {Strings{"s3://b/x", "s3://c/x"}, Strings{"s3://b/x", "/x"},
                            Strings{"x", "/x"}, Strings{"../a", "b"}}) {
    std::vector<SourceAddress> addresses;
    for (const std::string& text : texts) addresses.push_back(split(text));
    EXPECT_FALSE(share_root(addresses).ok()) << texts[0] << " " << texts[1];
  }
}

}  // namespace
}  // namespace forebay::dataset

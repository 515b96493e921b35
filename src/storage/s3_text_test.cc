// Addresses and XML of object stores, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_folder.h"
#include "storage/place.h"
#include "storage/s3_address.h"
#include "storage/s3_checksum.h"
#include "storage/s3_xml.h"
#include "storage/store.h"

namespace forebay::storage {
namespace {

using testing::HasSubstr;

TEST(S3Address, EncodesAsSignaturesAsk) {
  EXPECT_EQ(percent_encode("a b+c%/ü~", true), "a%20b%2Bc%25/%C3%BC~");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
  EXPECT_EQ(percent_decode("a%20b%2Bc%2", false), "a b+c%2");
  EXPECT_EQ(percent_decode("a+b%zz", true), "a b%zz");
  EXPECT_EQ(canonical_query({{"uploads", ""}}), "uploads=");
  EXPECT_EQ(canonical_query({{"prefix", "l/ "}, {"list-type", "2"}, {"a-b", "1"}, {"a", "2"}}),
            "a=2&a-b=1&list-type=2&prefix=l%2F%20");
}

TEST(S3Address, PlacesHaveABucketAndAPrefix) {
  EXPECT_EQ(parse_bucket_place("s3://b")->prefix, "");
  EXPECT_EQ(parse_bucket_place("s3://b/")->bucket, "b");
  EXPECT_EQ(parse_bucket_place("s3://b/a//c/./")->prefix, "a/c/");
  EXPECT_EQ(parse_bucket_place("b/x y")->prefix, "x y/");
  for (const char* wrong : {"", "s3://", "s3:///x", "..", "s3://a b/c", "s3://b/../c"})
    EXPECT_FALSE(parse_bucket_place(wrong).ok()) << wrong;
}

TEST(Place, HasOnePlainForm) {
  EXPECT_EQ(*normal_place("data/unet3d//"), "data/unet3d");
  EXPECT_EQ(*normal_place("/mnt//d/"), "/mnt/d");
  EXPECT_EQ(*normal_place("//"), "/");
  EXPECT_EQ(*normal_place("./"), ".");
  EXPECT_EQ(*normal_place(""), "");
  EXPECT_EQ(*normal_place("S3://Bucket//a/b//"), "s3://Bucket/a/b");
  EXPECT_EQ(*normal_place("s3://bucket/"), "s3://bucket");
  EXPECT_EQ(*normal_place("s3:///a"), "s3:///a");  // no bucket, and none is made up
  EXPECT_EQ(*normal_place("./s3:/a"), "./s3:/a");
  EXPECT_EQ(*normal_place("s3"), "s3");
  EXPECT_EQ(*normal_place("./gs://a"), "./gs:/a");
  EXPECT_EQ(*normal_place("a b://c"), "a b:/c");
  EXPECT_EQ(*normal_place("x/~/y"), "x/~/y");
  EXPECT_EQ(*normal_place("~user"), "~user");
}

// Each would have become a folder of that name here, and who wrote it would have looked elsewhere.
TEST(Place, WhatIsHardlyMeantAsAFolderIsRefused) {
  for (const char* wrong : {"gs://bucket/x", "file:///tmp/x", "http://host/x", "hdfs://a", "~/x"}) {
    const auto place = normal_place(wrong);
    ASSERT_FALSE(place.ok()) << wrong;
    EXPECT_EQ(place.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(place.error().message, testing::EndsWith(std::string("./") + wrong));
  }
  EXPECT_FALSE(normal_place("~").ok());
}

TEST(Place, HasOneIdentityHoweverItIsWritten) {
  const base::TestFolder folder("place");
  std::filesystem::create_directories(folder / "a/b");
  std::filesystem::create_symlink(folder / "a", folder / "link");
  const std::string there = *place_identity(folder / "a/b");
  for (const char* same : {"a//b/", "a/b/.", "a/b/../b", "link/b", "a/new/../b", "link/../a/b"})
    EXPECT_EQ(*place_identity(folder / same), there) << same;
  for (const char* other : {"a", "a/c", "b", "a/b/c"})
    EXPECT_NE(*place_identity(folder / other), there) << other;
  // Nothing of it exists yet.
  EXPECT_EQ(*place_identity(folder / "new/x/../y"), *place_identity(folder / "link/../new/y"));
  EXPECT_EQ(*place_identity("s3://b//p/"), *place_identity("S3://b/p"));
  EXPECT_NE(*place_identity("s3://b/p"), *place_identity("s3://c/p"));
}

// Without this they would be local folders of such names, made without a word.
TEST(Place, AlmostObjectStoresAreRefusedWithTheRemedy) {
  for (const char* place : {"s3:/bucket/k", "S3:bucket/k", "s3:"}) {
    const auto refused = open_store("local", place);
    ASSERT_FALSE(refused.ok()) << place;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("is written s3://"), std::string::npos);
  }
  EXPECT_TRUE(is_object_place("S3://b"));
  EXPECT_EQ(parse_bucket_place("S3://b/p")->bucket, "b");
}

TEST(S3Address, EndpointsAreHttpAddresses) {
  EXPECT_EQ(parse_endpoint("http://Host:80/")->text(), "http://host");
  EXPECT_EQ(parse_endpoint("https://h:443")->host, "h");
  EXPECT_EQ(parse_endpoint("http://h:51080/s3/")->text(), "http://h:51080/s3");
  EXPECT_TRUE(parse_endpoint("http://127.0.0.1:1")->is_loopback());
  EXPECT_TRUE(parse_endpoint("https://s3.eu-west-1.amazonaws.com")->is_amazon());
  for (const char* wrong : {"", "host:80", "ftp://h", "http://", "http://h?x", "http://:1"})
    EXPECT_FALSE(parse_endpoint(wrong).ok()) << wrong;
  EXPECT_THAT(parse_endpoint("http://me:hunter2@h").error().message,
              testing::Not(HasSubstr("hunter2")));
}

TEST(S3Address, UrlsHaveTheBucketWhereTheStyleSays) {
  const Endpoint endpoint = parse_endpoint("http://h:1/s3").take();
  EXPECT_EQ(object_url(endpoint, true, "b", "k/ü", {}), "http://h:1/s3/b/k/%C3%BC");
  EXPECT_EQ(object_url(endpoint, false, "b", "k", {{"x", ""}}), "http://b.h:1/s3/k?x=");
  EXPECT_EQ(object_url(endpoint, true, "b", "", {{"list-type", "2"}}),
            "http://h:1/s3/b?list-type=2");
}

TEST(S3Address, RedirectsKeepTheirQueryInOrderAndNeverLeaveTls) {
  EXPECT_EQ(redirect_target("http://a/x", "http://b/y?z=2&a=%2f&flag"),
            "http://b/y?a=%2F&flag=&z=2");
  EXPECT_EQ(redirect_target("http://a:1/x?q=1", "/y"), "http://a:1/y");
  for (const char* wrong : {"", "ftp://b/", "http://u:p@b/", "y"})
    EXPECT_EQ(redirect_target("http://a/x", wrong), "") << wrong;
  EXPECT_EQ(redirect_target("https://a/x", "http://a/x"), "");
}

TEST(S3Address, TimesOfBothKinds) {
  EXPECT_EQ(parse_http_time_ns("1970-01-02T00:00:01.250Z"), 86401'250'000'000);
  EXPECT_EQ(parse_http_time_ns("2026-11-29T18:22:15.000Z"),
            parse_http_time_ns("Sun, 29 Nov 2026 18:22:15 GMT"));
  EXPECT_EQ(parse_http_time_ns("Thu, 01 Jan 1970 00:01:00 GMT"), 60'000'000'000);
  EXPECT_EQ(parse_http_time_ns("Tue, 29 Feb 2000 12:00:00 GMT"), 951825600'000'000'000);
  EXPECT_EQ(parse_http_time_ns("yesterday"), 0);
  EXPECT_EQ(parse_http_time_ns(""), 0);
}

TEST(S3Xml, ListingsAreReadWithEntitiesAndEncodings) {
  const ListPage page =
      parse_list_page(
          "<?xml version='1.0'?><ListBucketResult xmlns='http://s3'><IsTruncated>true</IsTruncated>"
          "<Contents><Key>a+b%2Bc</Key><LastModified>1970-01-01T00:00:01.000Z</LastModified>"
          "<ETag>&quot;e&quot;</ETag><Size>12</Size></Contents>"
          "<NextContinuationToken>t&amp;1</NextContinuationToken>"
          "<EncodingType>url</EncodingType></ListBucketResult>")
          .take();
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].key, "a b+c");
  EXPECT_EQ(page.objects[0].size, 12u);
  EXPECT_EQ(page.objects[0].etag, "e");
  EXPECT_EQ(page.objects[0].mtime_ns, 1'000'000'000);
  EXPECT_TRUE(page.is_truncated);
  EXPECT_EQ(page.next_token, "t&1");
  EXPECT_EQ(parse_list_page("<ListBucketResult><Contents><Key>a+b</Key><Size>0</Size></Contents>"
                            "</ListBucketResult>")
                ->objects[0]
                .key,
            "a+b");
}

TEST(S3Xml, WhatIsNotWholeIsRefused) {
  for (const char* wrong :
       {"", "x", "<ListBucketResult>", "<ListBucketResult><Contents></ListBucketResult>",
        "<Error><Code>X</Code></Error>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>"})
    EXPECT_FALSE(parse_list_page(wrong).ok()) << wrong;
  std::string deep = "<ListBucketResult>";
  for (int i = 0; i < 100; ++i) deep += "<a>";
  EXPECT_THAT(parse_list_page(deep).error().message, HasSubstr("nested"));
}

TEST(S3Xml, ErrorsAndUploads) {
  const auto error = parse_server_error(
      "<Error><Code>NoSuchKey</Code><Message>m</Message><Region>r</Region></Error>");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "NoSuchKey");
  EXPECT_EQ(error->region, "r");
  EXPECT_FALSE(parse_server_error("<html>no</html>"));
  EXPECT_FALSE(parse_server_error(""));
  EXPECT_EQ(*parse_upload_id("<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                             "</InitiateMultipartUploadResult>"),
            "u");
  EXPECT_FALSE(parse_upload_id("<InitiateMultipartUploadResult/>").ok());
  EXPECT_EQ(complete_upload_xml({"\"a\"", "<b&>"}),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag>"
            "</Part><Part><PartNumber>2</PartNumber><ETag>&lt;b&amp;></ETag></Part>"
            "</CompleteMultipartUpload>");
  EXPECT_FALSE(expect_root("<Error/>", "CompleteMultipartUploadResult").ok());
}

TEST(S3Checksum, KnownValues) {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  EXPECT_EQ(content_crc32c(bytes), "4waSgw==");  // e3069283
  EXPECT_EQ(content_md5(bytes), "JfnnlDI7RTiF9RgfG2JNCw==");
  EXPECT_EQ(base64({}), "");
  ContentSum sum;
  HttpHead head;
  head.fields = {{"x-amz-checksum-crc32", "y/Q5Jg=="}};
  sum.begin(head, false);
  sum.add(bytes);
  EXPECT_TRUE(sum.is_right());
  head.fields = {{"x-amz-checksum-crc32", "AAAAAA==-3"}};
  sum.begin(head, false);
  EXPECT_TRUE(sum.is_right());
}

}  // namespace
}  // namespace forebay::storage

// Goal: lines are what lies between ends of lines, however long and however the file is read; what
// is no text is named.
#include <gtest/gtest.h>

#include "formats/builtin.h"
#include "formats/testing_samples.h"

namespace forebay::formats {
namespace {

void put(TestingStore& store, const std::string& path, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  store.put(path, {bytes.begin(), bytes.end()});
}

Result<FileIndex> index_of(TestingStore& store, const std::string& path) {
  return kLines.index(store, store.stat(path).value(), {});
}

// The samples as text, or the error.
std::vector<std::string> lines_of(TestingStore& store, const std::string& path) {
  const auto index = index_of(store, path);
  if (!index.ok()) return {index.error().message};
  const auto reader = kLines.make_reader({});
  std::vector<std::string> lines;
  for (uint64_t i = 0; i < index->sample_count; ++i) {
    auto bytes = std::span<const std::byte>(store.get(path));
    if (index->access == Access::kExtents)
      bytes = bytes.subspan(index->extents[i].offset, index->extents[i].length);
    const auto record = reader->read(path, bytes, *index, i);
    if (!record.ok()) return {record.error().message};
    lines.emplace_back(reinterpret_cast<const char*>(record->bytes.data()), record->bytes.size());
  }
  return lines;
}

using Strings = std::vector<std::string>;

TEST(Lines, EndAsUnixAndWindowsHaveThem) {
  TestingStore store;
  put(store, "a.txt", "one\r\ntwo\n\r\n \t\nthree\r");
  EXPECT_EQ(lines_of(store, "a.txt"), (Strings{"one", "two", "three"}));
  EXPECT_EQ(index_of(store, "a.txt")->problems, (Strings{"2 empty lines are no samples"}));
  put(store, "b.txt", "no end");
  EXPECT_EQ(lines_of(store, "b.txt"), Strings{"no end"});
  EXPECT_TRUE(index_of(store, "b.txt")->problems.empty());
  put(store, "c.txt", "\n\n");
  EXPECT_EQ(lines_of(store, "c.txt"), Strings{"c.txt: no line that is not empty"});
  put(store, "d.txt", "\xef\xbb");  // half a mark is a line, and no text
  EXPECT_EQ(lines_of(store, "d.txt"), Strings{"d.txt: sample 0 at byte 0: not UTF-8 at byte 0"});
}

TEST(Lines, MayBeLongerThanAnyWindow) {
  TestingStore store;
  const std::string longest(5 << 20, 'x');
  put(store, "a.jsonl", longest + "\n{}\n" + longest);
  const Strings lines = lines_of(store, "a.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], longest);
  EXPECT_EQ(lines[1], "{}");
  EXPECT_EQ(lines[2], longest);
}

TEST(Lines, OfOneLengthCostNoMemoryEach) {
  TestingStore store;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abc\n";
  put(store, "a.txt", text);
  const auto index = index_of(store, "a.txt");
  EXPECT_EQ(index->sample_count, 1000u);
  EXPECT_TRUE(index->extents.is_even());
}

TEST(Lines, AreJsonWhereTheNameSaysSo) {
  TestingStore store;
  for (const auto& [name, encoding] : {std::pair{"a.jsonl", Encoding::kJson},
                                       {"a.NDJSON", Encoding::kJson},
                                       {"a.txt", Encoding::kText}}) {
    put(store, name, "{}\n");
    const auto index = index_of(store, name).take();
    const auto reader = kLines.make_reader({});
    std::vector<Part> parts;
    ASSERT_TRUE(reader->read_parts(name, store.get(name), index, 0, parts).ok());
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].record.encoding, encoding);
    EXPECT_EQ(parts[0].name, encoding == Encoding::kJson ? "json" : "text");
  }
  EXPECT_EQ(recognise_format("x/a.jsonl.gz", {}), &kLines);
  EXPECT_EQ(recognise_format("x/a.txt", {}), &kLines);
}

TEST(Lines, DamageIsNamedWithSampleAndByte) {
  TestingStore store;
  put(store, "a.txt", "fine\nna\xc3ive\n");
  EXPECT_EQ(lines_of(store, "a.txt"), Strings{"a.txt: sample 1 at byte 5: not UTF-8 at byte 2"});
  put(store, "b.txt", "one\ntwo\n");
  const auto index = index_of(store, "b.txt").take();
  const auto cut =
      kLines.make_reader({})->read("b.txt", std::span(store.get("b.txt")).subspan(4, 2), index, 1);
  EXPECT_EQ(cut.error().message, "b.txt: line 1: truncated at byte 2 of 4");
}

TEST(Lines, CutCompressedFilesAreRefused) {
  TestingStore store;
  FileSpec spec{.path = "a.jsonl.gz", .rows = 20, .columns = 30, .sample_count = 5, .seed = 1};
  spec.compression = Compression::kGzip;
  ASSERT_TRUE(write_with(kLines, store, "a.jsonl.gz", spec).ok());
  EXPECT_EQ(lines_of(store, "a.jsonl.gz").size(), 5u);
  auto bytes = store.get("a.jsonl.gz");
  for (size_t n = 1; n < bytes.size(); n += 37) {
    store.put("a.jsonl.gz", {bytes.begin(), bytes.end() - static_cast<ptrdiff_t>(n)});
    const Strings lines = lines_of(store, "a.jsonl.gz");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].find("a.jsonl.gz: "), 0u) << lines[0];
  }
}

}  // namespace
}  // namespace forebay::formats

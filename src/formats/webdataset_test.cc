// Goal: samples of a tar are whole or named, whatever the archive holds and however it is damaged.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "formats/builtin.h"
#include "formats/tar.h"
#include "formats/testing_samples.h"
#include "formats/webdataset_index.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// An archive made member by member.
class Archive {
 public:
  Archive& add(std::string_view path, std::string_view content) { return add(path, content, '0'); }
  Archive& add(std::string_view path, std::string_view content, char type) {
    auto header = make_tar_header(path, content.size()).take();
    header[156] = static_cast<std::byte>(type);
    append(bytes_, with_checksum(header));
    return raw(content);
  }
  // `content`, padded to whole blocks.
  Archive& raw(std::string_view content) {
    append(bytes_, std::as_bytes(std::span(content)));
    bytes_.resize(tar_padded(bytes_.size()));
    return *this;
  }
  Bytes end() const {
    Bytes all = bytes_;
    all.resize(all.size() + 2 * kTarBlockBytes);
    return all;
  }
  const Bytes& bytes() const { return bytes_; }

  static std::array<std::byte, kTarBlockBytes> with_checksum(
      std::array<std::byte, kTarBlockBytes> header) {
    std::fill_n(header.begin() + 148, 8, std::byte{' '});
    uint64_t sum = 0;
    for (const std::byte byte : header) sum += static_cast<uint64_t>(byte);
    const std::string text = fmt::format("{:06o}", sum);
    std::copy_n(std::as_bytes(std::span(text)).begin(), 6, header.begin() + 148);
    header[154] = std::byte{0};
    return header;
  }

 private:
  Bytes bytes_;
};

Archive three_samples() {
  Archive archive;
  for (int i = 0; i < 3; ++i)
    archive.add(fmt::format("s{}.bin", i), std::string(700, static_cast<char>('a' + i)))
        .add(fmt::format("s{}.cls", i), std::to_string(i));
  return archive;
}

Result<FileIndex> index_of(const Bytes& bytes) {
  SpanSource source(bytes);
  return index_tar(source);
}

std::string all_problems(const FileIndex& index) {
  std::string text;
  for (const std::string& problem : index.problems) text += problem + "\n";
  return text;
}

std::string dump(const Bytes& bytes, const FormatOptions& options = {}) {
  TestingStore store;
  store.put("a.tar", bytes);
  const auto text = dump_samples(kWebdataset, store, "a.tar", options);
  return text.ok() ? *text : text.error().message;
}

TEST(Webdataset, PathsAreSplitAtTheFirstDotOfTheName) {
  const auto split = [](std::string_view path) {
    const auto name = split_tar_path(path);
    return name ? fmt::format("{}|{}", name->key, name->part) : "none";
  };
  EXPECT_EQ(split("a/b.c/0001.Seg.PNG"), "a/b.c/0001|seg.png");
  EXPECT_EQ(split("./x.jpg"), "./x|jpg");
  EXPECT_EQ(split("noext"), "none");
  EXPECT_EQ(split("a/.hidden"), "none");
  EXPECT_EQ(split("a/x."), "none");
  EXPECT_EQ(split("__index__.json"), "__index__|json");
  EXPECT_EQ(split("__meta__/x.json"), "none");
  EXPECT_EQ(split("__a.json"), "__a|json");
}

TEST(Webdataset, ClassesAreLabelsToo) {
  Archive archive;
  archive.add("k.cls", " 42\n").add("k.bin", "x");
  TestingStore store;
  store.put("a.tar", archive.end());
  const FileIndex index = kWebdataset.index(store, store.stat("a.tar").value(), {}).take();
  const auto reader = kWebdataset.make_reader({});
  std::vector<Part> parts;
  const auto bytes = std::span(store.get("a.tar")).first(index.extents[0].length);
  ASSERT_TRUE(reader->read_parts("a.tar", bytes, index, 0, parts).ok());
  const auto label = std::find_if(parts.begin(), parts.end(),
                                  [](const Part& part) { return part.name == "label"; });
  ASSERT_NE(label, parts.end());
  EXPECT_EQ(label->record.array.type, ElementType::kI64);
  EXPECT_TRUE(label->record.array.shape.empty());
  int64_t value = 0;
  ASSERT_EQ(label->record.bytes.size(), sizeof value);
  std::memcpy(&value, label->record.bytes.data(), sizeof value);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(reader->read("a.tar", bytes, index, 0)->bytes.size(), 4u);  // no image: the first part
}

TEST(Webdataset, AClassThatIsAWordIsText) {
  Archive words, numbers;
  words.add("k.cls", "cat").add("k.bin", "x");
  numbers.add("k.cls", "7").add("k.bin", "x");
  const Bytes word = words.end(), number = numbers.end();
  const std::string cls = "0 cls 636174\n", key = "0 __key__ 6b\n";
  EXPECT_EQ(dump(word), key + "0 bin 78\n" + cls);
  EXPECT_EQ(dump(word, {.columns = {"cls"}}), key + cls);
  EXPECT_EQ(dump(word, {.columns = {"label"}}),
            "a.tar: sample 0: k.cls: \"cat\" is no class number");
  EXPECT_EQ(dump(number, {.columns = {"cls"}}), key + "0 cls 37\n0 label 0700000000000000\n")
      << "whoever reads cls has its number, too";
}

TEST(Webdataset, PartsCanBeChosen) {
  const Bytes bytes = three_samples().end();
  const std::string key = "0 __key__ 7330\n";
  EXPECT_EQ(dump(bytes, {.columns = {"cls"}}).substr(0, 24), key + "0 cls 30\n");
  EXPECT_EQ(dump(bytes, {.columns = {"label"}}).substr(0, 39), key + "0 label 0000000000000000");
  EXPECT_EQ(dump(bytes, {.columns = {"jpg"}}),
            "a.tar: sample 0: s0: no part jpg; of those asked for it has: __key__");
}

TEST(Webdataset, SamplesWithoutAPartOfTheOthersAreNamed) {
  Archive archive;
  for (int i = 0; i < 10; ++i) {
    archive.add(fmt::format("s{}.bin", i), "x");
    if (i != 3 && i != 9) archive.add(fmt::format("s{}.cls", i), "1");
    if (i == 5) archive.add("s5.extra", "rare parts are no loss for the others");
  }
  const auto index = index_of(archive.end());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 10u);
  EXPECT_EQ(all_problems(*index), "2 of 10 samples lack cls: s3, s9\n");
}

TEST(Webdataset, WhatIsNoPartIsNamed) {
  Archive archive;
  archive.add("d/", "", '5').add("__meta__/a.json", "{}").add("README", "x").add("k.bin", "x");
  archive.add("link.bin", "", '2').add("dev.bin", "", '3').add("k2.bin", "x");
  const auto index = index_of(archive.end());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 2u);
  EXPECT_EQ(all_problems(*index),
            "3 members are no parts of samples: README, link.bin (a symbolic link), dev.bin (a "
            "character device)\n");
}

// A map of holes that goes on in blocks of its own, then the data: all of it is passed over.
TEST(Webdataset, SparseFilesAreLeftOutAndPassedOver) {
  auto header = make_tar_header("holes.bin", 600).take();
  header[156] = std::byte{'S'};
  header[482] = std::byte{1};
  header = Archive::with_checksum(header);
  std::string map(2 * kTarBlockBytes, '\0');
  map[504] = 1;  // of the first block: another follows
  Archive archive;
  archive.add("k.bin", "x");
  Bytes bytes = archive.bytes();
  append(bytes, header);
  append(bytes, std::as_bytes(std::span(map)));
  const std::string data(1024, 'd');
  append(bytes, std::as_bytes(std::span(data)));
  append(bytes, Archive().add("k2.bin", "y").end());
  const auto index = index_of(bytes);
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->sample_count, 2u);
  EXPECT_EQ(all_problems(*index), "1 members are no parts of samples: holes.bin (a sparse file)\n");
  // And as PAX records tell it.
  const std::string records = "22 GNU.sparse.major=1\n";
  const auto pax =
      index_of(Archive().add("p", records, 'x').add("holes.bin", "xx").add("k.bin", "x").end());
  ASSERT_TRUE(pax.ok()) << pax.error().message;
  EXPECT_EQ(pax->sample_count, 1u);
  EXPECT_NE(all_problems(*pax).find("a sparse file"), std::string::npos);
}

TEST(Webdataset, KeysThatComeAgainAndPartsGivenTwiceAreNamed) {
  const auto index = index_of(Archive()
                                  .add("a.bin", "1")
                                  .add("b.bin", "2")
                                  .add("a.bin", "3")
                                  .add("c.x", "")
                                  .add("c.X", "")
                                  .end());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 4u);
  EXPECT_NE(all_problems(*index).find("1 keys come again behind other samples"), std::string::npos);
  EXPECT_NE(all_problems(*index).find("another part of their sample: c.X"), std::string::npos);
  const Bytes twice = Archive().add("c.x", "").add("c.X", "").end();
  EXPECT_EQ(dump(twice), "a.tar: sample 0: c: two parts x");
}

// Wherever it is cut: exactly the samples that are whole before the cut, and the damage is said. A
// first sample is whole when the next one's name has come: before, nothing tells what it lacks.
TEST(Webdataset, CutArchivesGiveTheirWholeSamples) {
  const Archive archive = three_samples();
  const Bytes whole = archive.end();
  const auto all = index_of(whole);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->sample_count, 3u);
  EXPECT_EQ(all_problems(*all), "");
  uint64_t counted[4] = {0, 0, 0, 0};
  // Every cut near a block's edge, some of the others.
  const auto next = [](size_t n) { return n % 512 < 2 || n % 512 > 509 ? n + 1 : n + 31; };
  for (size_t n = 1; n < whole.size(); n = next(n)) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
    const auto index = index_of(cut);
    if (!index.ok()) {
      ++counted[0];
      EXPECT_LT(n, 4 * kTarBlockBytes + tar_padded(700)) << n;
      continue;
    }
    ASSERT_LE(index->sample_count, 3u);
    ++counted[index->sample_count];
    EXPECT_EQ(index->damage.has_value(), n < archive.bytes().size() + kTarBlockBytes) << n;
    if (index->damage) {
      EXPECT_LE(index->damage->offset, n);
    }
    for (uint64_t i = 0; i < index->sample_count; ++i) {
      const Extent extent = index->extents[i];
      ASSERT_LE(extent.offset + extent.length, n);
      EXPECT_EQ(extent.offset, all->extents[i].offset);
    }
    TestingStore store;
    store.put("a.tar", cut);
    EXPECT_TRUE(dump_samples(kWebdataset, store, "a.tar", {}).ok()) << n;
  }
  for (const uint64_t count : counted) EXPECT_GT(count, 0u);
}

// Between members, where nothing else tells that parts of the last sample are missing.
TEST(Webdataset, ASampleThatLostPartsToACutIsLeftOut) {
  const Bytes whole = three_samples().end();
  const auto all = index_of(whole).take();
  const uint64_t behind_bin = all.extents[2].offset + kTarBlockBytes + tar_padded(700);
  const auto index =
      index_of(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(behind_bin)));
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 2u);
  ASSERT_TRUE(index->damage);
  EXPECT_EQ(index->damage->offset, behind_bin);
  EXPECT_EQ(index->damage->what,
            fmt::format("truncated at byte {}: the zeros that end an archive are missing (sample "
                        "s2 is cut)",
                        behind_bin));
}

TEST(Webdataset, ADamagedHeaderEndsTheSamples) {
  Bytes bytes = three_samples().end();
  const auto all = index_of(bytes).take();
  bytes[all.extents[2].offset + 20] ^= std::byte{1};
  const auto index = index_of(bytes);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 2u);
  ASSERT_TRUE(index->damage);
  EXPECT_EQ(index->damage->offset, all.extents[2].offset);
  EXPECT_EQ(index->damage->what, fmt::format("the header at byte {} is damaged (wrong checksum)",
                                             all.extents[2].offset));
}

TEST(Webdataset, ABlockOfZerosAmongMembersIsDamageAndNoEnd) {
  Archive archive;
  for (int i = 0; i < 10; ++i) archive.add(fmt::format("s{}.bin", i), std::string(512, 'x'));
  Bytes bytes = archive.end();
  std::fill_n(bytes.begin() + 5120, 512, std::byte{0});
  const auto index = index_of(bytes);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 5u);
  ASSERT_TRUE(index->damage);
  EXPECT_EQ(index->damage->what,
            "the header at byte 5120 is a block of zeros, though more follows");
}

TEST(Webdataset, ArchivesBehindTheEndAreSaid) {
  Bytes bytes = three_samples().end();
  append(bytes, Archive().add("later.bin", "x").end());
  const auto index = index_of(bytes);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count, 3u);
  EXPECT_NE(all_problems(*index).find("more follows the end of the archive at byte"),
            std::string::npos);
}

TEST(Webdataset, LyingLengthsAreRefused) {
  // A size of 2^62 in GNU's binary form, one that is no number, and records whose length lies.
  auto header = make_tar_header("k.bin", uint64_t{1} << 62).take();
  Bytes large(header.begin(), header.end());
  EXPECT_NE(index_of(large).error().message.find("truncated at byte 512"), std::string::npos);
  header = make_tar_header("k.bin", 1).take();
  header[130] = std::byte{'9'};
  header = Archive::with_checksum(header);
  EXPECT_NE(index_of({header.begin(), header.end()}).error().message.find("has no size"),
            std::string::npos);
  for (const char* records : {"99 path=x\n", "5 a=b\n", "x", "9 path=x",
                              "18446744073709551615 a=b\n", "13 size=12x\n", "3 \n"}) {
    const auto index = index_of(Archive().add("p", records, 'x').add("k.bin", "x").end());
    ASSERT_FALSE(index.ok()) << records;
    EXPECT_NE(index.error().message.find("extended header"), std::string::npos)
        << index.error().message;
  }
}

TEST(Webdataset, PackedArchivesAreReadWhole) {
  TestingStore store;
  FileSpec spec{.path = "a.tar.gz", .rows = 20, .columns = 30, .sample_count = 5, .seed = 1};
  spec.compression = Compression::kGzip;
  ASSERT_TRUE(write_with(kWebdataset, store, "a.tar.gz", spec).ok());
  const auto index = kWebdataset.index(store, store.stat("a.tar.gz").value(), {});
  ASSERT_TRUE(index.ok()) << index.error().message;
  EXPECT_EQ(index->access, Access::kTogether);
  EXPECT_EQ(index->sample_count, 5u);
  const Bytes whole = store.get("a.tar.gz");
  for (const size_t n : {whole.size() - 1, whole.size() / 2, size_t{20}}) {
    store.put("a.tar.gz", Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)));
    const auto cut = kWebdataset.index(store, store.stat("a.tar.gz").value(), {});
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.error().code, ErrorCode::kCorruption);
    EXPECT_EQ(cut.error().message.find("a.tar.gz: "), 0u) << cut.error().message;
  }
}

// Any damage anywhere: no crash, no read outside, and what is read is named when it is wrong.
TEST(Webdataset, RandomDamageIsSurvived) {
  const Bytes whole = three_samples().end();
  base::Random random(5);
  for (int round = 0; round < 500; ++round) {
    Bytes bytes = whole;
    for (int i = 0; i < 1 + round % 3; ++i)
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    TestingStore store;
    store.put("a.tar", bytes);
    const auto text = dump_samples(kWebdataset, store, "a.tar", {});
    if (!text.ok()) {
      EXPECT_EQ(text.error().message.find("a.tar: "), 0u) << text.error().message;
    }
  }
}

}  // namespace
}  // namespace forebay::formats

// Goal: npz files as numpy and other writers make them are read right, and what is damaged is
// named.
#include <gtest/gtest.h>

#include <cstring>

#include "base/crc.h"
#include "formats/builtin.h"
#include "formats/deflate.h"
#include "formats/little_endian.h"
#include "formats/npy_header.h"
#include "formats/npz_check.h"
#include "formats/npz_members.h"
#include "formats/testing_store.h"
#include "formats/zip.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put(Bytes& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void put_le(Bytes& out, std::type_identity_t<T> value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  store_le<T>(&out[at], value);
}

std::string npy(const ArrayLayout& layout, std::string_view data) {
  return make_npy_header(layout) + std::string(data);
}

// A second, deliberately different zip writer: any mix of deflate, descriptor and zip64.
struct Options {
  bool deflate = false, descriptor = false, zip64 = false;
  uint16_t method = 0xffff, flags = 0;  // written instead of the right ones when set
};

struct Part {
  std::string name;
  std::string data;
};

Bytes make_zip(const std::vector<Part>& parts, Options o, std::string_view before = "",
               std::string_view comment = "") {
  Bytes out, directory;
  put(out, before);
  for (const Part& part : parts) {
    const auto data = std::as_bytes(std::span(part.data));
    Bytes packed(data.begin(), data.end());
    if (o.deflate) {
      packed.clear();
      Deflater deflater(DeflateWrapper::kNone);
      EXPECT_TRUE(deflater
                      .run(data, true,
                           [&](std::span<const std::byte> piece) {
                             packed.insert(packed.end(), piece.begin(), piece.end());
                             return Status();
                           })
                      .ok());
    }
    const uint32_t crc = base::crc32(0, data);
    const auto method = o.method != 0xffff ? o.method : static_cast<uint16_t>(o.deflate ? 8 : 0);
    const auto flags = static_cast<uint16_t>(o.flags | (o.descriptor ? 8 : 0));
    const uint32_t small = o.zip64 ? 0xffffffff : static_cast<uint32_t>(data.size());
    const uint32_t small_packed = o.zip64 ? 0xffffffff : static_cast<uint32_t>(packed.size());
    const size_t header = out.size() - before.size();
    const auto fields = [&](Bytes& to, bool is_local) {
      put_le<uint16_t>(to, 45);
      put_le<uint16_t>(to, flags);
      put_le<uint16_t>(to, method);
      put_le<uint32_t>(to, 0x00210000);
      const bool is_late = is_local && o.descriptor;
      put_le<uint32_t>(to, is_late ? 0 : crc);
      put_le<uint32_t>(to, is_late && !o.zip64 ? 0 : small_packed);
      put_le<uint32_t>(to, is_late && !o.zip64 ? 0 : small);
      put_le<uint16_t>(to, static_cast<uint16_t>(part.name.size()));
      put_le<uint16_t>(to, o.zip64 ? 20 : 0);
    };
    const auto zip64 = [&](Bytes& to, bool is_late) {
      if (!o.zip64) return;
      put_le<uint16_t>(to, 1);
      put_le<uint16_t>(to, 16);
      put_le<uint64_t>(to, is_late ? 0 : data.size());
      put_le<uint64_t>(to, is_late ? 0 : packed.size());
    };
    put_le<uint32_t>(out, kZipLocalSignature);
    fields(out, true);
    put(out, part.name);
    zip64(out, o.descriptor);
    out.insert(out.end(), packed.begin(), packed.end());
    if (o.descriptor) {
      put_le<uint32_t>(out, kZipDescriptorSignature);
      put_le<uint32_t>(out, crc);
      if (o.zip64) {
        put_le<uint64_t>(out, packed.size());
        put_le<uint64_t>(out, data.size());
      } else {
        put_le<uint32_t>(out, static_cast<uint32_t>(packed.size()));
        put_le<uint32_t>(out, static_cast<uint32_t>(data.size()));
      }
    }
    put_le<uint32_t>(directory, kZipCentralSignature);
    put_le<uint16_t>(directory, 0x0314);
    fields(directory, false);
    for (int i = 0; i < 3; ++i) put_le<uint16_t>(directory, 0);
    put_le<uint32_t>(directory, 0);
    put_le<uint32_t>(directory, static_cast<uint32_t>(header));
    put(directory, part.name);
    zip64(directory, false);
  }
  const size_t offset = out.size() - before.size();
  out.insert(out.end(), directory.begin(), directory.end());
  put_le<uint32_t>(out, kZipEndSignature);
  put_le<uint32_t>(out, 0);
  for (int i = 0; i < 2; ++i) put_le<uint16_t>(out, static_cast<uint16_t>(parts.size()));
  put_le<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  put_le<uint32_t>(out, static_cast<uint32_t>(offset));
  put_le<uint16_t>(out, static_cast<uint16_t>(comment.size()));
  put(out, comment);
  return out;
}

std::string numbers(size_t n) {
  std::string text(n, '\0');
  for (size_t i = 0; i < n; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return text;
}

std::vector<Part> two_members() {
  return {{"x.npy", npy({.shape = {20, 50}}, numbers(1000))},
          {"y.npy", npy({.type = ElementType::kI64, .shape = {1}}, std::string(8, '\0'))}};
}

Status check(std::span<const std::byte> bytes, size_t piece) {
  auto stream = make_npz_check();
  stream->begin("f.npz", bytes.size());
  for (size_t at = 0; at < bytes.size(); at += piece)
    stream->visit(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  return stream->finish();
}

Result<Record> read(Reader& reader, std::span<const std::byte> bytes) {
  return reader.read("f.npz", bytes, FileIndex{}, 0);
}

std::string error_of(std::span<const std::byte> bytes) {
  auto reader = kNpz.make_reader({});
  const auto record = read(*reader, bytes);
  return record.ok() ? "accepted" : record.error().message;
}

// numpy and Python write any of these; sizes of 0xffffffff send the reader to the zip64 field.
TEST(Npz, ReadsZip64DeflateAndDataDescriptors) {
  for (int bits = 0; bits < 8; ++bits) {
    const Options o{
        .deflate = (bits & 1) != 0, .descriptor = (bits & 2) != 0, .zip64 = (bits & 4) != 0};
    const Bytes bytes = make_zip(two_members(), o);
    auto reader = kNpz.make_reader({});
    const auto record = read(*reader, bytes);
    ASSERT_TRUE(record.ok()) << bits << " " << record.error().message;
    EXPECT_EQ(as_text(record->bytes), numbers(1000));
    EXPECT_EQ(record->array.shape, (std::vector<uint64_t>{20, 50}));
    EXPECT_TRUE(check_npz(bytes).ok());
    for (const size_t piece : {size_t{1}, size_t{13}, bytes.size()}) {
      const Status verdict = check(bytes, piece);
      // A stored member whose size comes after it cannot be followed from the front.
      if (o.descriptor && !o.deflate) {
        ASSERT_FALSE(verdict.ok());
        EXPECT_EQ(verdict.error().code, ErrorCode::kUnsupported);
      } else {
        EXPECT_TRUE(verdict.ok()) << bits << " " << verdict.error().message;
      }
    }
  }
}

TEST(Npz, TakesXElseTheFirstArray) {
  const auto array = [](std::string data) { return npy({.shape = {1}}, data); };
  auto reader = kNpz.make_reader({});
  const Bytes with_x = make_zip({{"a.npy", array("a")}, {"x.npy", array("x")}}, {});
  EXPECT_EQ(as_text(read(*reader, with_x)->bytes), "x");
  const Bytes without = make_zip({{"readme", "hello"}, {"b.npy", array("b")}}, {});
  EXPECT_EQ(as_text(read(*reader, without)->bytes), "b");
  EXPECT_EQ(error_of(make_zip({{"readme", "hello"}}, {})), "f.npz: no array among its 1 members");
}

TEST(Npz, CommentsAndBytesBeforeTheArchiveAreAccepted) {
  // The comment holds an end signature: only the length tells which one ends the file.
  const std::string comment = std::string("PK\x05\x06", 4) + std::string(30, 'c');
  EXPECT_EQ(error_of(make_zip(two_members(), {}, "", comment)), "accepted");
  EXPECT_EQ(error_of(make_zip(two_members(), {}, "#!self-extracting\n")), "accepted");
}

TEST(Npz, TruncationNamesTheByte) {
  const Bytes bytes = make_zip(two_members(), {});
  const auto cut = std::span(bytes).first(bytes.size() * 9 / 10);
  const std::string expected = "truncated at byte " + std::to_string(cut.size());
  EXPECT_NE(error_of(cut).find("f.npz: " + expected), std::string::npos) << error_of(cut);
  EXPECT_NE(check(cut, 100).error().message.find("f.npz: " + expected), std::string::npos);
}

TEST(Npz, FlippedByteNamesMemberAndBothCrcs) {
  for (const bool deflate : {false, true}) {
    Bytes bytes = make_zip(two_members(), {.deflate = deflate});
    bytes[deflate ? 100 : 500] ^= std::byte{0x40};
    const std::string message = error_of(bytes);
    EXPECT_NE(message.find("f.npz: member x.npy"), std::string::npos) << message;
    const Status verdict = check(bytes, 64);
    ASSERT_FALSE(verdict.ok());
    EXPECT_NE(verdict.error().message.find("f.npz: member x.npy"), std::string::npos);
    if (deflate) continue;
    EXPECT_NE(message.find("CRC 0x"), std::string::npos);
    EXPECT_NE(message.find("expected 0x"), std::string::npos);
    EXPECT_EQ(message, verdict.error().message);
  }
}

// Every single-byte change anywhere: the check in passing agrees with the whole or declines.
TEST(Npz, CheckInPassingAgreesWithReadingEveryMember) {
  for (int bits = 0; bits < 8; ++bits) {
    const Options o{
        .deflate = (bits & 1) != 0, .descriptor = (bits & 2) != 0, .zip64 = (bits & 4) != 0};
    const Bytes good = make_zip(
        {{"x.npy", npy({.shape = {4, 5}}, numbers(20))}, {"y.npy", npy({.shape = {1}}, "1")}}, o);
    for (size_t at = 0; at < good.size(); ++at)
      for (const int change : {0x01, 0x80, 0xff}) {
        Bytes bytes = good;
        bytes[at] ^= std::byte(change);
        const Status passing = check(bytes, 37);
        if (!passing.ok() && passing.error().code == ErrorCode::kUnsupported) continue;
        EXPECT_EQ(passing.ok(), check_npz(bytes).ok()) << "bits " << bits << " byte " << at;
      }
  }
}

TEST(Npz, EncryptionAndUnknownMethodsAreNamed) {
  EXPECT_EQ(error_of(make_zip(two_members(), {.flags = 1})), "f.npz: member x.npy: is encrypted");
  EXPECT_EQ(error_of(make_zip(two_members(), {.method = 93})),
            "f.npz: member x.npy: compression method 93 (only 0 stored and 8 deflated are read)");
}

TEST(Npz, BombsAreRefusedBeforeAnythingIsAllocated) {
  Bytes bytes = make_zip({{"x.npy", npy({.shape = {1}}, "1")}}, {.deflate = true, .zip64 = true});
  // The directory's zip64 field lies before the 22 bytes of the end record.
  store_le<uint64_t>(&bytes[bytes.size() - 22 - 16], uint64_t{60} << 30);
  EXPECT_NE(error_of(bytes).find("member x.npy: claims 64424509440 bytes from"), std::string::npos)
      << error_of(bytes);
  store_le<uint64_t>(&bytes[bytes.size() - 22 - 16], uint64_t{1} << 60);
  EXPECT_NE(error_of(bytes).find("exceed the limit"), std::string::npos) << error_of(bytes);
  store_le<uint64_t>(&bytes[bytes.size() - 22 - 16], 5);
  EXPECT_NE(error_of(bytes).find("inflates to more than its 5 bytes"), std::string::npos);
}

TEST(Npz, OneSamplePerFileNeedsNoLook) {
  TestingStore store;
  store.put("f.npz", make_zip(two_members(), {}));
  const auto index = kNpz.index(store, store.stat("f.npz").value(), {.samples_per_file = 1});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(store.read_count(), 0u);
  EXPECT_EQ(index->access, Access::kWholeFile);
}

TEST(Npz, LabelsTellHowManySamplesThereAre) {
  TestingStore store;
  for (const bool compress : {false, true}) {
    const FileSpec spec{.path = "f.npz",
                        .rows = 300,
                        .columns = 300,
                        .sample_count = 3,
                        .compression = compress ? Compression::kZip : Compression::kNone,
                        .seed = 1};
    ASSERT_TRUE(write_with(kNpz, store, spec.path, spec).ok());
    const auto info = store.stat("f.npz").value();
    const uint64_t before = store.bytes_read();
    const auto index = kNpz.index(store, info, {.samples_per_file = 0});
    ASSERT_TRUE(index.ok()) << index.error().message;
    EXPECT_EQ(index->sample_count, 3u);
    EXPECT_EQ(index->access, Access::kTogether);  // C order interleaves the samples
    EXPECT_LT(store.bytes_read() - before, 80'000u);
    const auto wrong = kNpz.index(store, info, {.samples_per_file = 4});
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().message.find("the last axis of the array has 3"), std::string::npos);
    auto reader = kNpz.make_reader({});
    for (const uint64_t i : {2u, 0u, 1u}) {
      const auto record = reader->read("f.npz", store.get("f.npz"), *index, i);
      ASSERT_TRUE(record.ok());
      EXPECT_EQ(record->sample_in_file, i);
      EXPECT_EQ(record->sample_axis, 2);
    }
  }
}

TEST(Npz, FortranOrderSamplesAreExtents) {
  const Bytes bytes =
      make_zip({{"x.npy", npy({.is_fortran_order = true, .shape = {2, 3, 4}}, numbers(24))}}, {});
  TestingStore store;
  store.put("f.npz", bytes);
  const auto index = kNpz.index(store, store.stat("f.npz").value(), {.samples_per_file = 4});
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->access, Access::kExtents);
  auto reader = kNpz.make_reader({});
  const Extent extent = index->extents[2];
  const auto record =
      reader->read("f.npz", std::span(bytes).subspan(extent.offset, extent.length), *index, 2);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(as_text(record->bytes), numbers(24).substr(12, 6));
  EXPECT_EQ(record->array.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_TRUE(record->array.is_fortran_order);
}

// A file that is read again into the same buffer is checked again.
TEST(Npz, SamplesThatComeTogetherAreCheckedAgainWhenReadAgain) {
  TestingStore store;
  const FileSpec spec{.path = "f.npz", .rows = 30, .columns = 30, .sample_count = 2, .seed = 1};
  ASSERT_TRUE(write_with(kNpz, store, spec.path, spec).ok());
  const auto index = kNpz.index(store, store.stat("f.npz").value(), {.samples_per_file = 2});
  Bytes buffer = store.get("f.npz");
  auto reader = kNpz.make_reader({});
  EXPECT_TRUE(reader->read("f.npz", buffer, *index, 0).ok());
  EXPECT_TRUE(reader->read("f.npz", buffer, *index, 1).ok());
  buffer[500] ^= std::byte{1};
  EXPECT_FALSE(reader->read("f.npz", buffer, *index, 0).ok());
}

// --- npy ---

std::string npy_error(std::string_view bytes) {
  auto reader = kNpy.make_reader({});
  const auto record = reader->read("f.npy", std::as_bytes(std::span(bytes)), FileIndex{}, 0);
  return record.ok() ? "accepted" : record.error().message;
}

std::string npy_with(std::string dictionary, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  const auto n = static_cast<uint32_t>(dictionary.size());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(n >> (8 * i));
  return out + dictionary;
}

TEST(Npy, FortranAndCOrderAndScalarsAreAccepted) {
  for (const char* order : {"True", "False"}) {
    const std::string o(order);
    const std::string head = "{'descr': '<i4', 'fortran_order': " + o + ", 'shape': ";
    for (const int version : {1, 2, 3}) {
      EXPECT_EQ(npy_error(npy_with(head + "(2, 3), }", version) + std::string(24, 'a')),
                "accepted");
      EXPECT_EQ(npy_error(npy_with(head + "(3,), }", version) + std::string(12, 'a')), "accepted");
      EXPECT_EQ(npy_error(npy_with(head + "(), }", version) + "aaaa"), "accepted");
    }
    EXPECT_EQ(npy_error(npy_with(head + "(0, 3)}")), "accepted");
    EXPECT_EQ(npy_error(npy_with(head + "(3L, 1L)}") + std::string(12, 'a')), "accepted");
  }
}

TEST(Npy, OtherTypesAreRefusedByName) {
  const auto with = [](const std::string& descr) {
    return npy_error(npy_with("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,)}") +
                     std::string(8, 'a'));
  };
  EXPECT_EQ(with("'|O'"), "f.npy: dtype object ('|O') needs pickle, which Forebay never runs");
  EXPECT_EQ(with("'O'"), "f.npy: dtype object ('O') needs pickle, which Forebay never runs");
  EXPECT_EQ(with("[('a', '<i4'), ('b', '<f4')]"),
            "f.npy: a structured dtype; only plain numbers are read");
  EXPECT_NE(with("'<U4'").find("strings"), std::string::npos);
  EXPECT_NE(with("'|S4'").find("strings"), std::string::npos);
  EXPECT_NE(with("'<M8[ns]'").find("dates"), std::string::npos);
  EXPECT_EQ(with("'<i8'"), "accepted");
  EXPECT_EQ(with("'>f8'"), "accepted");
}

TEST(Npy, BrokenHeadersAreNamedAndNeverRead) {
  EXPECT_NE(npy_error(npy_with("{'descr': '<i4', 'shape': (3,)}")).find("npy header"),
            std::string::npos);
  EXPECT_NE(npy_error(npy_with("{'descr': '<i4', 'fortran_order': False, 'shape': "
                               "(99999999999, 99999999999, 99999999999)}"))
                .find("more than 2^62"),
            std::string::npos);
  EXPECT_NE(npy_error(npy_with("{}", 9)).find("npy version 9.0"), std::string::npos);
  std::string huge("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12);
  EXPECT_NE(npy_error(huge).find("the limit is"), std::string::npos);
  EXPECT_NE(npy_error("<!DOCTYPE html><html>").find("text/html"), std::string::npos);
  const std::string good = npy({.shape = {4}}, "abcd");
  EXPECT_NE(npy_error(good + "e").find("1 bytes follow the array"), std::string::npos);
  EXPECT_NE(npy_error(good.substr(0, good.size() - 1)).find("truncated at byte 131"),
            std::string::npos);
}

TEST(Npy, HeaderIsPaddedTo64AndReadsBack) {
  for (const auto& shape : std::vector<std::vector<uint64_t>>{{}, {3}, {2, 3, 4}}) {
    const ArrayLayout layout{
        .type = ElementType::kC64, .is_big_endian = true, .is_fortran_order = true, .shape = shape};
    const std::string header = make_npy_header(layout);
    EXPECT_EQ(header.size() % 64, 0u);
    const auto parsed = parse_npy_header(std::as_bytes(std::span(header)));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->layout.shape, shape);
    EXPECT_TRUE(parsed->layout.is_big_endian);
    EXPECT_TRUE(parsed->layout.is_fortran_order);
    EXPECT_EQ(parsed->layout.type, ElementType::kC64);
  }
}

}  // namespace
}  // namespace forebay::formats

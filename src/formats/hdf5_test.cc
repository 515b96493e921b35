// Goal: our own filters and chunk assembly agree with the HDF5 library on any layout, and what is
// damaged or cannot be read is named.
// Method: the library writes random data sets into memory and reads them back; we read the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/random.h"
#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/hdf5_filters.h"
#include "formats/hdf5_library.h"
#include "formats/hdf5_type.h"
#include "formats/little_endian.h"
#include "formats/payload.h"
#include "formats/testing_hdf5.h"
#include "formats/testing_store.h"

namespace forebay::formats {
namespace {

using Bytes = std::vector<std::byte>;
using testing::HasSubstr;

Bytes load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes load_golden(const std::string& name) {
  return load(std::string(base::source_folder()) + "/tests/golden/hdf5/" + name);
}

uint64_t seed_of_run() {
  const char* given = std::getenv("FOREBAY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

// --- filters ---

Bytes runs_and_noise(base::Random& random, size_t bytes) {
  Bytes made(bytes);
  random.fill(made);
  for (size_t at = 0; at < bytes;) {
    const size_t n = std::min<size_t>(bytes - at, 1 + random.below(400));
    if (random.below(3) != 0)
      std::fill_n(made.begin() + static_cast<ptrdiff_t>(at), n,
                  static_cast<std::byte>(random.below(4)));
    at += n;
  }
  return made;
}

TEST(Hdf5Filters, LzfRoundTrips) {
  base::Random random(seed_of_run());
  int shrunk = 0;
  for (int i = 0; i < 300; ++i) {
    const Bytes plain = runs_and_noise(random, random.below(20'000));
    Bytes packed(plain.size());
    const auto n = pack_lzf(plain, packed);
    if (!n) continue;
    ++shrunk;
    EXPECT_LT(*n, plain.size());
    Bytes out(plain.size());
    const Status status = unpack_lzf(std::span(packed).first(*n), out);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(out, plain);
    for (size_t cut = 0; cut < *n; cut += 1 + *n / 50)
      EXPECT_FALSE(unpack_lzf(std::span(packed).first(cut), out).ok());
    Bytes small(plain.size() - 1), large(plain.size() + 1);
    EXPECT_FALSE(unpack_lzf(std::span(packed).first(*n), small).ok());
    EXPECT_FALSE(unpack_lzf(std::span(packed).first(*n), large).ok());
  }
  EXPECT_GT(shrunk, 200);
}

TEST(Hdf5Filters, LzfOfNoiseIsNotShrunk) {
  base::Random random(3);
  Bytes noise(5000), room(5000);
  random.fill(noise);
  EXPECT_EQ(pack_lzf(noise, room), std::nullopt);
  EXPECT_EQ(pack_lzf({}, {}), std::nullopt);
}

TEST(Hdf5Filters, LzfCopiesStartInsideTheOutput) {
  Bytes out(10);
  const Bytes before_start{std::byte{0}, std::byte{1}, std::byte{0x20}, std::byte{1}};
  EXPECT_THAT(unpack_lzf(before_start, out).error().message, HasSubstr("before its start"));
  const Bytes repeats{std::byte{0}, std::byte{9}, std::byte{0xe0}, std::byte{0}, std::byte{0}};
  EXPECT_TRUE(unpack_lzf(repeats, out).ok());
  EXPECT_EQ(out, Bytes(10, std::byte{9}));
}

TEST(Hdf5Filters, UnshuffleJoinsBytePlanes) {
  base::Random random(seed_of_run());
  for (size_t element = 1; element <= 19; ++element)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{40'000} / element}) {
      Bytes in(element * count + count % element), out(in.size()), expected = in;
      random.fill(in);
      std::copy(in.begin(), in.end(), expected.begin());
      const size_t whole = in.size() / element;
      for (size_t i = 0; i < whole; ++i)
        for (size_t plane = 0; plane < element; ++plane)
          expected[i * element + plane] = in[plane * whole + i];
      unshuffle(in, element, out);
      EXPECT_EQ(out, expected) << element << " " << count;
    }
}

Bytes deflated(std::span<const std::byte> plain) {
  Bytes packed(compressBound(plain.size()));
  uLongf made = packed.size();
  EXPECT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &made,
                      reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 6),
            Z_OK);
  packed.resize(made);
  return packed;
}

TEST(Hdf5Filters, StreamsThatDoNotFitTheChunkAreNamed) {
  const Bytes plain(1000, std::byte{5});
  const Bytes packed = deflated(plain);
  const Hdf5FilterStep deflate{Hdf5Filter::kDeflate, 0};
  Hdf5Unfilter unfilter;
  const auto run = [&](std::span<const std::byte> bytes, size_t size) {
    Bytes out(size);
    const Status status = unfilter.run({&deflate, 1}, 0, bytes, out);
    return status.ok() ? "good" : status.error().message;
  };
  EXPECT_EQ(run(packed, 1000), "good");
  EXPECT_EQ(run(packed, 999), "deflate stream of more than 999 bytes");
  EXPECT_EQ(run(packed, 1001), "deflate stream of 1000 bytes instead of 1001");
  for (size_t n = 0; n < packed.size(); ++n)
    EXPECT_NE(run(std::span(packed).first(n), 1000), "good") << n;
  Bytes damaged = packed;
  damaged.back() ^= std::byte{1};
  EXPECT_THAT(run(damaged, 1000), HasSubstr("checksum does not match"));
}

TEST(Hdf5Filters, SkippedStepsAreNotUndone) {
  const Bytes plain(64, std::byte{5});
  const Hdf5FilterStep steps[] = {{Hdf5Filter::kShuffle, 4}, {Hdf5Filter::kDeflate, 0}};
  Hdf5Unfilter unfilter;
  Bytes out(64);
  EXPECT_TRUE(unfilter.run(steps, 3, plain, out).ok());
  EXPECT_EQ(out, plain);
  EXPECT_TRUE(unfilter.run(steps, 1, deflated(plain), out).ok());
  EXPECT_EQ(out, plain);
  EXPECT_FALSE(unfilter.run(steps, 1, plain, out).ok());
}

// --- any layout ---

struct RandomLayout {
  std::vector<hsize_t> shape, chunk, max_shape;
  ElementType type = ElementType::kU8;
  bool is_latest = false, fills = false, skips_partial = false;
  std::vector<int> filters;  // of the library
  uint64_t boxes = 0;        // that are written into it
};

RandomLayout draw(base::Random& random) {
  RandomLayout layout;
  const uint64_t axes = 1 + random.below(4);
  for (uint64_t i = 0; i < axes; ++i) {
    layout.shape.push_back(1 + random.below(axes < 3 ? 40 : 9));
    layout.max_shape.push_back(random.below(3) == 0 ? H5S_UNLIMITED : layout.shape.back());
    const bool may_exceed = layout.max_shape.back() == H5S_UNLIMITED;
    layout.chunk.push_back(1 + random.below(layout.shape.back() + (may_exceed ? 4 : 0)));
  }
  layout.type = static_cast<ElementType>(random.below(14));
  layout.is_latest = random.below(2) == 0;
  layout.fills = random.below(2) == 0;
  layout.skips_partial = layout.is_latest && random.below(3) == 0;
  for (const int filter : {H5Z_FILTER_FLETCHER32, H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE})
    if (random.below(2) == 0)
      layout.filters.insert(
          layout.filters.begin() + static_cast<ptrdiff_t>(random.below(layout.filters.size() + 1)),
          filter);
  layout.boxes = random.below(5);
  return layout;
}

Hdf5Handle make_creation(const RandomLayout& layout, hid_t type, base::Random& random) {
  Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(creation.id(), static_cast<int>(layout.chunk.size()), layout.chunk.data());
  if (layout.skips_partial) H5Pset_chunk_opts(creation.id(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  for (const int filter : layout.filters) {
    if (filter == H5Z_FILTER_FLETCHER32) H5Pset_fletcher32(creation.id());
    if (filter == H5Z_FILTER_SHUFFLE) H5Pset_shuffle(creation.id());
    if (filter == H5Z_FILTER_DEFLATE) H5Pset_deflate(creation.id(), 3);
  }
  if (layout.fills) {
    Bytes fill(H5Tget_size(type));
    random.fill(fill);
    H5Pset_fill_value(creation.id(), type, fill.data());
  }
  return creation;
}

void write_box(const RandomLayout& layout, hid_t dataset, hid_t type, base::Random& random) {
  std::vector<hsize_t> from, count;
  hsize_t elements = 1;
  for (const hsize_t n : layout.shape) {
    from.push_back(random.below(n));
    count.push_back(1 + random.below(n - from.back()));
    elements *= count.back();
  }
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, from.data(), nullptr, count.data(), nullptr);
  const Hdf5Handle memory(H5Screate_simple(1, &elements, nullptr), H5Sclose);
  Bytes bytes(elements * H5Tget_size(type));
  random.fill(bytes);
  for (std::byte& b : bytes) b &= std::byte{3};  // shrinks
  EXPECT_GE(H5Dwrite(dataset, type, memory.id(), space.id(), H5P_DEFAULT, bytes.data()), 0);
}

// Writes the file `path`; what the library reads from it.
Bytes write_by_library(const std::string& path, const RandomLayout& layout, base::Random& random) {
  const Hdf5Lock lock;
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (layout.is_latest) H5Pset_libver_bounds(access.id(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose);
  const Hdf5Handle type = make_hdf5_type(layout.type);
  const Hdf5Handle creation = make_creation(layout, type.id(), random);
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(layout.shape.size()),
                                          layout.shape.data(), layout.max_shape.data()),
                         H5Sclose);
  const Hdf5Handle dataset(H5Dcreate2(file.id(), "records", type.id(), space.id(), H5P_DEFAULT,
                                      creation.id(), H5P_DEFAULT),
                           H5Dclose);
  EXPECT_TRUE(dataset.is_open()) << hdf5_error(ErrorCode::kIo, "create").message;
  for (uint64_t i = 0; i < layout.boxes; ++i) write_box(layout, dataset.id(), type.id(), random);
  uint64_t elements = 1;
  for (const hsize_t n : layout.shape) elements *= n;
  Bytes data(elements * element_bytes(layout.type));
  EXPECT_GE(H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
  return data;
}

TEST(Hdf5Property, AnyLayoutReadsAsTheLibraryReadsIt) {
  const uint64_t seed = seed_of_run();
  const base::TestFolder folder("hdf5");
  const std::string path = folder / "random.h5";
  for (uint64_t round = 0; round < 150; ++round) {
    base::Random random(base::derive_seed(seed, round));
    const RandomLayout layout = draw(random);
    const Bytes data = write_by_library(path, layout, random);
    TestingStore store;
    store.put("f", load(path));
    const auto got = read_all_samples(store, "f", {});
    ASSERT_TRUE(got.ok()) << "FOREBAY_SEED=" << seed << " round " << round << ": "
                          << got.error().message;
    EXPECT_EQ(got->array.type, layout.type);
    ASSERT_TRUE(got->bytes == data) << "FOREBAY_SEED=" << seed << " round " << round;
  }
}

// --- damage ---

TEST(Hdf5, EveryTruncationIsNamed) {
  for (const char* name : {"main.h5", "v2_gzip_chunks.h5", "one_unlimited.h5"}) {
    const Bytes bytes = load_golden(name);
    for (size_t n = 0; n < bytes.size(); n += n < 600 ? 1 : 37) {
      TestingStore store;
      store.put("cut.h5", {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n)});
      const auto got = read_all_samples(store, "cut.h5", {});
      ASSERT_FALSE(got.ok()) << name << " " << n;
      EXPECT_EQ(got.error().code, ErrorCode::kCorruption);
      EXPECT_THAT(got.error().message, testing::StartsWith("cut.h5: "));
    }
  }
}

TEST(Hdf5, DamagedChecksummedChunksAreNamed) {
  TestingStore store;
  store.put("f", load_golden("fletcher32.h5"));
  const auto index = kHdf5.index(store, store.stat("f").value(), {}).value();
  const auto reader = kHdf5.make_reader({});
  for (const Block& block : index.blocks) {
    const Bytes whole = read_extents(store, "f", block.extents).value();
    for (size_t i = 0; i < whole.size(); ++i) {
      Bytes damaged = whole;
      damaged[i] ^= std::byte{0x10};
      const auto got = reader->decode_block("f", damaged, index, block);
      ASSERT_FALSE(got.ok()) << i;
      EXPECT_EQ(got.error().code, ErrorCode::kCorruption);
      EXPECT_THAT(got.error().message, HasSubstr("f: chunk "));
      EXPECT_THAT(got.error().message, HasSubstr("fletcher32 checksum"));
    }
    for (const size_t n : {size_t{0}, whole.size() - 1})
      EXPECT_FALSE(reader->decode_block("f", std::span(whole).first(n), index, block).ok());
    EXPECT_TRUE(reader->decode_block("f", whole, index, block).ok());
  }
}

TEST(Hdf5, BlocksThatDoNotFitTheirDetailAreRefused) {
  TestingStore store;
  store.put("f", load_golden("main_gzip.h5"));
  const auto index = kHdf5.index(store, store.stat("f").value(), {}).value();
  const auto reader = kHdf5.make_reader({});
  const Bytes bytes = read_extents(store, "f", index.blocks[0].extents).value();
  const auto refuses = [&](FileIndex changed, Block block) {
    return !reader->decode_block("f", bytes, changed, block).ok();
  };
  EXPECT_FALSE(refuses(index, index.blocks[0]));
  Block block = index.blocks[0];
  block.first_sample = 100;
  EXPECT_TRUE(refuses(index, block));
  block = index.blocks[0];
  block.sample_count = 0;
  EXPECT_TRUE(refuses(index, block));
  block.sample_count = 100;
  EXPECT_TRUE(refuses(index, block));
  block = index.blocks[0];
  block.extents.pop_back();
  EXPECT_TRUE(refuses(index, block));
  for (size_t n = 0; n < index.detail.size(); ++n) {
    FileIndex cut = index;
    cut.detail.resize(n);
    EXPECT_TRUE(refuses(cut, index.blocks[0])) << n;
  }
}

TEST(Hdf5, TheLibraryPrintsNothing) {
  TestingStore store;
  Bytes bytes = load_golden("v2_gzip_chunks.h5");
  bytes.resize(bytes.size() / 2);
  store.put("f", bytes);
  testing::internal::CaptureStderr();
  const auto index = kHdf5.index(store, store.stat("f").value(), {});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(index.ok());
  EXPECT_THAT(index.error().message, HasSubstr("truncated file"));
}

TEST(Hdf5, DataSetsMayBeNamed) {
  TestingStore store;
  store.put("f", load_golden("largest_of_others.h5"));
  const auto small = read_all_samples(store, "f", {.columns = {"a/small"}});
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_EQ(small->array.shape, std::vector<uint64_t>{3});
  const auto absent = read_all_samples(store, "f", {.columns = {"nowhere"}});
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.error().message, HasSubstr("f: cannot open nowhere"));
}

// --- requests ---

// Fails its n-th read, and every later one.
class FailingStore : public TestingStore {
 public:
  explicit FailingStore(uint64_t good) : good_(good) {}
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    if (read_count() >= good_) return fail(ErrorCode::kIo, "{}: the store is gone", path);
    return TestingStore::read_at(path, offset, out);
  }

 private:
  uint64_t good_;
};

FileSpec spread_spec() {  // metadata in many places
  return {.path = "f",
          .rows = 300,
          .columns = 300,
          .sample_count = 12,
          .compression = Compression::kGzip,
          .dialect = Dialect::kMlpsV2,
          .chunk_dims = {1, 20, 20}};
}

TEST(Hdf5, FarStoresAreAskedFewTimesAndEveryFailureIsPassedOn) {
  FailingStore store(UINT64_MAX);
  ASSERT_TRUE(write_with(kHdf5, store, "f", spread_spec()).ok());
  const auto info = store.stat("f").value();
  const auto index = kHdf5.index(store, info, {});
  ASSERT_TRUE(index.ok()) << index.error().message;
  const uint64_t reads = store.read_count();
  EXPECT_GT(reads, 2u);
  EXPECT_LE(reads, info.size / (64 * 1024) + 1);
  EXPECT_LE(store.bytes_read(), info.size);
  for (uint64_t good = 0; good < reads; ++good) {
    FailingStore failing(good);
    failing.put("f", store.get("f"));
    const auto failed = kHdf5.index(failing, info, {});
    ASSERT_FALSE(failed.ok()) << good;
    EXPECT_EQ(failed.error().code, ErrorCode::kIo);
    EXPECT_EQ(failed.error().message, "f: the store is gone");
  }
}

TEST(Hdf5, ThreadsShareTheLibrary) {
  TestingStore files;
  const FileSpec spec{.path = "f",
                      .rows = 40,
                      .columns = 40,
                      .sample_count = 6,
                      .compression = Compression::kGzip,
                      .seed = 4,
                      .chunk_dims = {1, 16, 16}};
  ASSERT_TRUE(write_with(kHdf5, files, "f", spec).ok());
  const auto expected = read_all_samples(files, "f", {}).value();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      TestingStore store;
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(write_with(kHdf5, store, "f", spec).ok());
        EXPECT_EQ(store.get("f"), files.get("f"));
        EXPECT_EQ(read_all_samples(store, "f", {}).value().bytes, expected.bytes);
      }
    });
}

// --- writing ---

class MeasuringWriter : public storage::Writer {
 public:
  Status append(std::span<const std::byte> bytes) override {
    total += bytes.size();
    largest = std::max(largest, bytes.size());
    return {};
  }
  Status patch(uint64_t, std::span<const std::byte>) override {
    return fail(ErrorCode::kUnsupported, "no patching");
  }
  Status sync() override { return {}; }
  Status publish() override { return {}; }
  uint64_t total = 0;
  size_t largest = 0;
};

TEST(Hdf5Write, LargeRecordsPassInSmallPiecesWithoutPatching) {
  const FileSpec spec{.path = "f", .rows = 12107, .columns = 12107, .seed = 3};
  MeasuringWriter writer;
  ASSERT_TRUE(kHdf5.write(writer, true, spec).ok());
  EXPECT_EQ(writer.total, kHdf5.estimate_bytes(spec));
  EXPECT_GT(writer.total, 12107u * 12107);
  EXPECT_LT(writer.total, 12107u * 12107 + 8192);
  EXPECT_LE(writer.largest, 128u * 1024);
}

TEST(Hdf5Write, EstimatesAreExactWhateverTheSides) {
  base::Random random(seed_of_run());
  TestingStore store;
  for (int i = 0; i < 60; ++i) {
    const uint64_t sets = 1 + random.below(3);
    const FileSpec spec{.path = "f",
                        .rows = sets * (1 + random.below(i % 2 == 0 ? 4 : 400)),
                        .columns = 1 + random.below(i % 3 == 0 ? 4 : 200),
                        .sample_count = 1 + random.below(i % 5 == 0 ? 3000 : 5),
                        .dialect = sets == 1 && i % 2 == 0 ? Dialect::kMlpsV2 : Dialect::kMlpsV3,
                        .datasets_per_record = sets};
    if (payload_bytes(spec) > 4'000'000) continue;
    ASSERT_TRUE(write_with(kHdf5, store, "f", spec).ok());
    EXPECT_EQ(store.get("f").size(), kHdf5.estimate_bytes(spec))
        << spec.rows << " " << spec.columns << " " << spec.sample_count;
  }
}

TEST(Hdf5Write, ContentsAreThePayloadOfOtherFormats) {
  const FileSpec spec{.path = "f", .rows = 31, .columns = 17, .sample_count = 3, .seed = 9};
  TestingStore store;
  ASSERT_TRUE(write_with(kHdf5, store, "f", spec).ok());
  ASSERT_TRUE(write_with(kRaw, store, "raw", spec).ok());
  EXPECT_EQ(read_all_samples(store, "f", {}).value().bytes, store.get("raw"));
}

TEST(Hdf5Write, ImpossibleKeysAreNamed) {
  TestingStore store;
  const auto message = [&](auto change) {
    FileSpec spec{.path = "f", .rows = 30, .columns = 20, .sample_count = 2};
    change(spec);
    const Status status = write_with(kHdf5, store, "f", spec);
    EXPECT_EQ(kHdf5.estimate_bytes(spec), UINT64_MAX);
    return status.ok() ? "written" : status.error().message;
  };
  EXPECT_EQ(message([](FileSpec& s) { s.chunk_dims = {4}; }),
            "f: dataset.hdf5.chunk_dims has 1 numbers, the data set 3 axes (samples first)");
  EXPECT_EQ(message([](FileSpec& s) {
              s.chunk_dims = {1, 0, 4};
            }),
            "f: dataset.hdf5.chunk_dims holds a 0");
  EXPECT_EQ(message([](FileSpec& s) {
              s.max_shape = {2, 30, 10};
            }),
            "f: dataset.hdf5.max_shape is 10 on an axis of 20");
  EXPECT_THAT(message([](FileSpec& s) { s.datasets_per_record = 4; }),
              HasSubstr("dataset.hdf5.num_dset_per_record 4 does not divide"));
  EXPECT_THAT(message([](FileSpec& s) {
                s.datasets_per_record = 3;
                s.dialect = Dialect::kMlpsV2;
              }),
              HasSubstr("must be 1"));
  EXPECT_THAT(message([](FileSpec& s) {
                s.rows = s.columns = 100'000;
                s.chunk_dims = {1, 100'000, 100'000};
              }),
              HasSubstr("the format ends at 4 GiB"));
}

}  // namespace
}  // namespace forebay::formats

// Fields of batches through the public face: over raw files whose bytes say which sample they are,
// so that every promise can be checked against the order alone.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "base/test_folder.h"
#include "forebay/loader.h"
#include "formats/format.h"
#include "loader/memory_plan.h"
#include "storage/store.h"
#include "sys/process.h"

namespace forebay {
namespace {

using testing::HasSubstr;

// npy files class{i % 3}/{i}.npy: uint8 [rows, columns, 1], all bytes of file i made from seed i.
class Files {
 public:
  explicit Files(uint64_t count, uint64_t rows = 4, uint64_t columns = 16) {
    auto store = std::move(storage::open_store("local", folder_)).value();
    for (uint64_t i = 0; i < count; ++i) write(*store, i, rows, columns);
  }

  static std::string path(uint64_t i) { return fmt::format("class{}/{:04}.npy", i % 3, i); }

  static void write(storage::Store& store, uint64_t i, uint64_t rows, uint64_t columns) {
    formats::FileSpec file{.path = path(i), .rows = rows, .columns = columns, .seed = i};
    auto writer = std::move(store.create(file.path)).value();
    ASSERT_TRUE(formats::find_format("npy")->write(*writer, true, file).ok());
    ASSERT_TRUE(writer->publish().ok());
  }

  void rewrite(uint64_t i, uint64_t rows, uint64_t columns) const {
    auto store = std::move(storage::open_store("local", folder_)).value();
    write(*store, i, rows, columns);
  }
  void spoil(uint64_t i) const {
    std::ofstream(folder_ + "/" + path(i), std::ios::trunc | std::ios::binary) << "\x93NUMPYjunk";
  }

  LoaderOptions options() const {
    LoaderOptions options;
    options.data = folder_;
    options.batch_size = 4;
    options.shuffle = Shuffle::kFull;
    options.seed = 3;
    options.tail = Tail::kAll;
    options.memory_bytes = 256 << 20;
    return options;
  }
  const std::string& folder() const { return folder_; }

 private:
  const base::TestFolder own_{"fields"};
  const std::string folder_ = own_ / "data";
};

std::unique_ptr<Loader> open(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message;
  return loader.ok() ? std::move(loader).value() : nullptr;
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Everything a batch shows, as one string: equal strings are equal batches.
std::string dump(const Batch& batch) {
  std::string out = fmt::format("{}/{} valid {} skipped {};", batch.epoch(), batch.step(),
                                batch.valid(), batch.skipped());
  for (const Sample& sample : batch.samples()) out += fmt::format(" {}", sample.id);
  for (const BatchField& field : batch.fields()) {
    out += fmt::format("\n{} {} {}:", field.name, static_cast<int>(field.kind), field.element_type);
    for (const uint64_t side : field.shape) out += fmt::format(" {}", side);
    out += text(field.bytes);
    for (const Sample& value : field.each) {
      out += "|";
      for (const uint64_t side : value.shape) out += fmt::format("{},", side);
      out += text(value.bytes);
    }
  }
  return out;
}

// The next `count` answers of next(): "end" where an epoch does.
std::vector<std::string> dumps(Loader& loader, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message;
    if (!batch.ok()) break;
    out.push_back(*batch ? dump(**batch) : "end");
  }
  return out;
}

std::vector<uint64_t> epoch_ids(Loader& loader, std::vector<uint64_t>* sizes = nullptr) {
  std::vector<uint64_t> ids;
  for (;;) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message;
    if (!batch.ok() || !*batch) return ids;
    for (const Sample& sample : (*batch)->samples()) ids.push_back(sample.id);
    if (sizes != nullptr) sizes->push_back((*batch)->samples().size());
  }
}

TEST(Fields, HaveNamesShapesAndTheBytesOfTheirFiles) {
  const Files files(13);
  auto loader = open(files.options());
  EXPECT_EQ(loader->class_names(), (std::vector<std::string>{"class0", "class1", "class2"}));
  // As the formats read them one by one.
  auto store = std::move(storage::open_store("local", files.folder())).value();
  uint64_t seen = 0;
  while (auto batch = std::move(loader->next()).value()) {
    ASSERT_EQ(batch->fields().size(), 3u);
    const BatchField* data = batch->find("data");
    const BatchField* label = batch->find("label");
    const BatchField* key = batch->find("__key__");
    ASSERT_TRUE(data != nullptr && label != nullptr && key != nullptr);
    EXPECT_EQ(batch->fields().back().name, "__key__");
    EXPECT_EQ(batch->find("dat"), nullptr);
    const uint64_t rows = batch->samples().size();
    EXPECT_EQ(data->kind, FieldKind::kStacked);
    EXPECT_EQ(data->element_type, "uint8");
    EXPECT_THAT(data->shape, testing::ElementsAre(rows, 4, 16, 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data->bytes.data()) % 64, 0u);
    EXPECT_EQ(label->element_type, "int64");
    EXPECT_THAT(label->shape, testing::ElementsAre(rows));
    EXPECT_EQ(key->kind, FieldKind::kText);
    ASSERT_EQ(key->each.size(), rows);
    for (uint64_t row = 0; row < rows; ++row, ++seen) {
      const std::string path(batch->samples()[row].path);
      const auto file = std::move(storage::read_file(*store, path)).value();
      EXPECT_EQ(text(data->bytes.subspan(row * 64, 64)), text(std::span(file).last(64))) << path;
      int64_t is = -1;
      std::memcpy(&is, label->bytes.data() + row * 8, 8);
      EXPECT_EQ(is, path[5] - '0');
      EXPECT_EQ(text(key->each[row].bytes), path.substr(0, path.size() - 4));
    }
  }
  EXPECT_EQ(seen, 13u);
}

// Whatever lies in them: the folder of a file is the class of its samples.
TEST(Fields, HaveTheLabelOfTheirFolderInFilesOfManySamples) {
  const base::TestFolder folder("classes");
  const auto put = [&](const std::string& path, std::string_view content) {
    std::filesystem::create_directories((std::filesystem::path(folder / path)).parent_path());
    std::ofstream(folder / path, std::ios::binary) << content;
  };
  const auto labels_of = [](LoaderOptions options) {
    options.tail = Tail::kAll;
    options.batch_size = 2;
    const auto loader = open(options);
    EXPECT_EQ(loader->class_names(), (std::vector<std::string>{"neg", "pos"}));
    std::vector<int64_t> labels;
    for (;;) {
      const auto batch = loader->next();
      if (!batch.ok() || !*batch) return labels;
      const BatchField* field = (*batch)->find("label");
      if (field == nullptr) return labels;
      const auto* values = reinterpret_cast<const int64_t*>(field->bytes.data());
      labels.insert(labels.end(), values, values + (*batch)->samples().size());
    }
  };
  put("text/neg/a.txt", "bad\nworse\n");
  put("text/pos/b.txt", "good\n");
  LoaderOptions options;
  options.data = folder / "text";
  EXPECT_THAT(labels_of(options), testing::ElementsAre(0, 0, 1));
  put("raw/neg/a.bin", "aabbcc");
  put("raw/pos/b.bin", "ddee");
  DataSource raw;
  raw.data = folder / "raw";
  raw.record_type = "u1";
  raw.record_shape = {2};
  options.sources = {raw};
  EXPECT_THAT(labels_of(options), testing::ElementsAre(0, 0, 0, 1, 1)) << "read into their rows";
}

// As TensorFlow names them, and packed.
TEST(Sources, FilesThatTheirNamesDoNotGiveAwayAreReadAsAskedFor) {
  const base::TestFolder folder("names");
  const auto store = std::move(storage::open_store("local", folder.path())).value();
  const auto put = [&](const char* path, formats::Compression compression) {
    formats::FileSpec spec{.path = path, .rows = 2, .columns = 3, .sample_count = 5, .seed = 1};
    spec.compression = compression;
    const auto writer = std::move(store->create(path)).value();
    ASSERT_TRUE(formats::find_format("tfrecord")->write(*writer, true, spec).ok());
    ASSERT_TRUE(writer->publish().ok());
  };
  put("a/train-00000-of-00002", formats::Compression::kNone);
  put("a/train-00001-of-00002", formats::Compression::kNone);
  put("b.tfrecord.gz", formats::Compression::kGzip);
  put("c.tfrecord-00000-of-00001", formats::Compression::kNone);
  put("d.records", formats::Compression::kGzip);
  const auto samples = [&](std::vector<std::string> names, std::string_view format) {
    LoaderOptions options;
    for (const std::string& name : names) {
      DataSource& source = options.sources.emplace_back();
      source.data = folder / name;
      source.format = format;
    }
    const auto loader = Loader::open(options);
    EXPECT_TRUE(loader.ok()) << names[0] << ": " << loader.error().message;
    return loader.ok() ? (*loader)->sample_count() : 0;
  };
  for (const std::string_view format : {"tfrecord", ""}) {
    EXPECT_EQ(samples({"a"}, format), 10u);
    EXPECT_EQ(samples({"a/train-00000-of-00002"}, format), 5u);
    EXPECT_EQ(samples({"a/train-{00000..00001}-of-00002"}, format), 10u);
    EXPECT_EQ(samples({"a/train-00000-of-00002", "a/train-00001-of-00002"}, format), 10u);
    EXPECT_EQ(samples({"b.tfrecord.gz"}, format), 5u);
    EXPECT_EQ(samples({"c.tfrecord-00000-of-00001"}, format), 5u);
  }
  EXPECT_EQ(samples({"d.records"}, "tfrecord"), 5u);
  EXPECT_EQ(samples({"*.records"}, "tfrecord"), 5u);
}

TEST(Fields, ThatDifferInShapeStayByThemselvesWhenAsked) {
  const Files files(6);
  for (uint64_t i = 0; i < 6; ++i) files.rewrite(i, 2 + i, 300 * (i + 1));  // small and large ones
  LoaderOptions options = files.options();
  options.ops = {{"ragged", {{"fields", "data"}}}};
  options.shuffle = Shuffle::kOff;
  auto loader = open(options);
  auto store = std::move(storage::open_store("local", files.folder())).value();
  for (int epoch = 0; epoch < 2; ++epoch) {
    uint64_t seen = 0;
    while (auto batch = std::move(loader->next()).value()) {
      const BatchField& data = *batch->find("data");
      EXPECT_EQ(data.kind, FieldKind::kArrays);
      ASSERT_EQ(data.each.size(), batch->samples().size());
      for (const Sample& value : data.each) {
        ASSERT_EQ(value.shape.size(), 3u);
        EXPECT_EQ(value.shape[1], 300 * (value.shape[0] - 1));
        const auto file = std::move(storage::read_file(*store, value.path)).value();
        EXPECT_EQ(text(value.bytes), text(std::span(file).last(value.shape[0] * value.shape[1])));
        ++seen;
      }
    }
    EXPECT_EQ(seen, 6u);
  }
}

TEST(Fields, OutliveTheirBatchAndTheLoader) {
  const Files files(12);
  struct Kept {
    std::shared_ptr<const void> owner;
    std::span<std::byte> bytes;
    std::string text;
  };
  std::vector<Kept> kept;
  {
    auto loader = open(files.options());
    for (int epoch = 0; epoch < 3; ++epoch)
      while (auto batch = std::move(loader->next()).value())
        for (const BatchField& field : batch->fields())
          if (field.kind == FieldKind::kStacked)
            kept.push_back({field.owner, field.bytes, text(field.bytes)});
  }
  ASSERT_EQ(kept.size(), 18u) << "9 batches of two fields, all held at once";
  for (const Kept& field : kept) EXPECT_EQ(text(field.bytes), field.text);
}

TEST(Fields, DoNotChangeWithThreadsDepthOrTheOrderOfDelivery) {
  const Files files(29);
  auto reference = open(files.options());
  const std::vector<std::string> expected = dumps(*reference, 18);
  for (const int threads : {1, 2, 5})
    for (const int depth : {1, 3, 40, 0}) {
      LoaderOptions options = files.options();
      options.decode_threads = threads;
      options.fetch_depth = depth;
      options.prefetch_batches = static_cast<uint64_t>(threads);
      EXPECT_EQ(dumps(*open(options), 18), expected);
      options.as_ready = true;
      std::vector<std::string> any = dumps(*open(options), 9), sorted = expected;
      sorted.resize(9);
      std::sort(any.begin(), any.end());
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(any, sorted);
    }
}

TEST(Ranks, GetEverySampleOnceForAllSizes) {
  base::Random random(17);
  for (int round = 0; round < 40; ++round) {
    const uint64_t count = 1 + random.below(40), world = 1 + random.below(5);
    const uint64_t batch_size = 1 + random.below(7);
    const Tail tail = std::array{Tail::kDrop, Tail::kEven, Tail::kAll, Tail::kPad}[random.below(4)];
    SCOPED_TRACE(fmt::format("{} samples, {} ranks, batches of {}, tail {}", count, world,
                             batch_size, static_cast<int>(tail)));
    const uint64_t step = batch_size * world;
    const bool has_rest =
        tail == Tail::kAll || tail == Tail::kPad || (tail == Tail::kEven && count % step >= world);
    const uint64_t expected = has_rest ? count : count / step * step;
    const Files files(count, 1, 8);
    std::multiset<uint64_t> seen;
    std::set<size_t> batches;
    for (uint64_t rank = 0; rank < world; ++rank) {
      LoaderOptions options = files.options();
      options.batch_size = batch_size;
      options.tail = tail;
      options.rank = rank;
      options.world_size = world;
      if (expected == 0) {  // no rank would ever get anything
        const auto refused = Loader::open(options);
        ASSERT_FALSE(refused.ok());
        EXPECT_THAT(refused.error().message, HasSubstr(fmt::format("{} samples make no", count)));
        continue;
      }
      auto loader = open(options);
      std::vector<uint64_t> sizes;
      const std::vector<uint64_t> ids = epoch_ids(*loader, &sizes);
      EXPECT_EQ(sizes.size(), loader->batches_per_epoch());
      for (const uint64_t size : sizes) EXPECT_TRUE(size > 0 || tail == Tail::kPad);
      seen.insert(ids.begin(), ids.end());
      batches.insert(sizes.size());
    }
    EXPECT_TRUE(batches.size() <= 1 || tail == Tail::kAll);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), seen.size());
    EXPECT_EQ(seen.size(), expected);
  }
}

TEST(Padding, FillsTheLastBatchWithZerosAndSaysSo) {
  const Files files(7);
  for (uint64_t rank = 0; rank < 2; ++rank) {
    LoaderOptions options = files.options();
    options.tail = Tail::kPad;
    options.world_size = 2;
    options.rank = rank;
    options.batch_size = 3;
    auto loader = open(options);
    ASSERT_EQ(loader->batches_per_epoch(), 2u);
    for (uint64_t step = 0; step < 2; ++step) {
      auto batch = std::move(loader->next()).value();
      const uint64_t real = step == 0 ? 3 : 1 - rank;  // the seventh sample is rank 0's
      EXPECT_EQ(batch->valid(), real);
      EXPECT_EQ(batch->samples().size(), real);
      const BatchField& data = *batch->find("data");
      EXPECT_EQ(data.shape[0], 3u);
      for (const std::byte byte : data.bytes.subspan(real * 64)) ASSERT_EQ(byte, std::byte{0});
      EXPECT_EQ(batch->find("__key__")->each.size(), 3u);
      for (uint64_t row = real; row < 3; ++row)
        EXPECT_TRUE(batch->find("__key__")->each[row].bytes.empty());
    }
    EXPECT_FALSE(std::move(loader->next()).value().has_value());
  }
}

TEST(BadRecords, AreSkippedFieldWiseAndListed) {
  const Files files(12);
  files.spoil(5);
  files.rewrite(8, 7, 3);  // another shape
  LoaderOptions options = files.options();
  options.shuffle = Shuffle::kOff;
  options.on_error = OnError::kSkip;
  auto loader = open(options);
  std::set<uint64_t> seen;
  while (auto batch = std::move(loader->next()).value()) {
    const BatchField& key = *batch->find("__key__");
    ASSERT_EQ(key.each.size(), batch->samples().size());
    EXPECT_EQ(batch->find("data")->shape[0], batch->samples().size());
    EXPECT_EQ(batch->samples().size() + batch->skipped(), 4u);
    auto store = std::move(storage::open_store("local", files.folder())).value();
    for (uint64_t row = 0; row < key.each.size(); ++row) {
      const std::string path(batch->samples()[row].path);
      EXPECT_EQ(text(key.each[row].bytes) + ".npy", path);
      const auto file = std::move(storage::read_file(*store, path)).value();
      EXPECT_EQ(text(batch->find("data")->bytes.subspan(row * 64, 64)),
                text(std::span(file).last(64)));
      seen.insert(batch->samples()[row].id);
    }
  }
  EXPECT_EQ(seen.size(), 10u);
  const LoaderStats stats = loader->stats();
  EXPECT_EQ(stats.bad_records, 2u);
  ASSERT_EQ(stats.bad.size(), 2u);
  const std::string all = stats.bad[0] + "\n" + stats.bad[1];
  EXPECT_THAT(all, HasSubstr("0005.npy"));
  EXPECT_THAT(all,
              HasSubstr("0008.npy: field 'data' is uint8 [7, 3, 1], but uint8 [4, 16, 1] in "));
  EXPECT_THAT(all, HasSubstr("(resize, crop, pad, convert) or keep each by itself (ragged)"));
}

TEST(BadRecords, AnEmptyFileIsOneAndNotPassedOverInSilence) {
  const Files files(12);
  std::ofstream(files.folder() + "/" + Files::path(5), std::ios::trunc).close();
  std::ofstream(files.folder() + "/notes.txt").close();  // of no format of the set
  LoaderOptions options = files.options();
  const auto refused = Loader::open(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_EQ(refused.error().message, "class2/0005.npy: empty file");
  for (const OnError policy : {OnError::kSkip, OnError::kReplace}) {
    options.on_error = policy;
    options.errors_max = 1;
    const auto loader = open(options);
    EXPECT_EQ(loader->sample_count(), 11u);
    EXPECT_EQ(loader->stats().bad_records, 1u);
    EXPECT_THAT(loader->stats().bad, testing::ElementsAre("class2/0005.npy: empty file"));
    options.errors_max = 0;
    EXPECT_EQ(Loader::open(options).error().code, ErrorCode::kResourceExhausted);
  }
}

// Samples that a cut archive lost are not lost in silence: how many they were nobody knows.
TEST(BadRecords, ACutArchiveIsOneAndKeepsItsWholeSamples) {
  const base::TestFolder folder("cut");
  const auto store = std::move(storage::open_store("local", folder.path())).value();
  for (const char* path : {"a.tar", "b.tar", "c.tar.gz"}) {
    formats::FileSpec spec{.path = path, .rows = 20, .columns = 30, .sample_count = 5, .seed = 1};
    if (spec.path.ends_with(".gz")) spec.compression = formats::Compression::kGzip;
    const auto writer = std::move(store->create(path)).value();
    ASSERT_TRUE(formats::find_format("webdataset")->write(*writer, true, spec).ok());
    ASSERT_TRUE(writer->publish().ok());
  }
  const auto size = [&](const char* path) { return std::filesystem::file_size(folder / path); };
  LoaderOptions options;
  options.data = folder.path();
  options.samples_per_file = 0;
  ASSERT_EQ(open(options)->sample_count(), 15u);
  const uint64_t cut_at = size("b.tar") - 1024 - 600;  // in the last sample
  std::filesystem::resize_file(folder / "b.tar", cut_at);
  std::optional<RecordPlace> place;
  const auto refused = Loader::open(options, {}, &place);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(refused.error().message,
              testing::MatchesRegex("b.tar: truncated at byte .*sample 000000004 is cut."));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, "b.tar");
  EXPECT_FALSE(place->record);
  ASSERT_TRUE(place->offset);
  EXPECT_LE(*place->offset, cut_at);
  std::filesystem::resize_file(folder / "c.tar.gz", size("c.tar.gz") / 2);
  for (const OnError policy : {OnError::kSkip, OnError::kReplace}) {
    options.on_error = policy;
    options.errors_max = 2;
    const auto loader = open(options);
    EXPECT_EQ(epoch_ids(*loader).size(), 9u);
    EXPECT_EQ(loader->stats().bad_records, 2u);
    EXPECT_THAT(loader->stats().bad,
                testing::UnorderedElementsAre(testing::StartsWith("b.tar: truncated at byte"),
                                              testing::StartsWith("c.tar.gz: ")));
    options.errors_max = 1;
    EXPECT_EQ(Loader::open(options).error().code, ErrorCode::kResourceExhausted);
  }
}

TEST(BadRecords, AreNotWhatMostSamplesAre) {
  // Of pictures of many sizes all but those like the first were left out without a word.
  const Files files(12);
  for (uint64_t i = 1; i < 12; ++i) files.rewrite(i, 4 + i, 16);
  LoaderOptions options = files.options();
  for (const OnError policy : {OnError::kSkip, OnError::kReplace}) {
    options.on_error = policy;
    const auto refused = Loader::open(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(refused.error().message,
                HasSubstr("8 of the 8 samples after the first are unlike it: "));
    EXPECT_THAT(refused.error().message, HasSubstr("make them equal"));
  }
  options.ops = {{"ragged", {{"fields", "data"}}}};
  EXPECT_EQ(epoch_ids(*open(options)).size(), 12u);
}

TEST(BadRecords, TellWhichRecordTheErrorIsAbout) {
  const Files files(12);
  files.spoil(7);
  LoaderOptions options = files.options();
  options.shuffle = Shuffle::kOff;
  options.batch_size = 12;
  const auto loader = open(options);
  EXPECT_FALSE(loader->failed_record());
  ASSERT_FALSE(loader->next().ok());
  const auto place = loader->failed_record();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, Files::path(7));
  EXPECT_EQ(place->record, 0u);
  EXPECT_FALSE(place->offset) << "a file of one record";
}

TEST(BadRecords, ThatTheLoaderMeetsWhenItOpensAreToldAlike) {
  const Files files(4);
  for (uint64_t i = 0; i < 4; ++i) files.spoil(i);
  std::optional<RecordPlace> place;
  EXPECT_FALSE(Loader::open(files.options(), {}, &place).ok());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->file, Files::path(0));
  LoaderOptions lines;
  lines.data = files.folder() + "/lines.jsonl";
  std::ofstream(lines.data) << "{}\nno json\n{}\n";
  lines.ops = {{"parse_json", {{"keys", "a"}, {"types", "int64"}}}};
  const auto refused = Loader::open(lines, {}, &place);
  ASSERT_FALSE(refused.ok());
  ASSERT_TRUE(place) << refused.error().message;
  EXPECT_EQ(place->file, "lines.jsonl");
  EXPECT_EQ(place->record, 0u);
  EXPECT_EQ(place->offset, 0u);
  lines.batch_size = 0;
  EXPECT_FALSE(Loader::open(lines, {}, &place).ok());
  EXPECT_FALSE(place) << "a wrong request";
}

// Each of the ways in which half of a pair of .bin and .idx is given names the way out.
TEST(Tokens, GivenByHalvesNameTheRemedy) {
  const base::TestFolder folder("tokens");
  const auto refusal = [&](const std::string& name, uint64_t tokens, const char* type = "") {
    DataSource source;
    source.data = folder / name;
    source.tokens_per_sample = tokens;
    source.record_type = type;
    LoaderOptions options;
    options.sources = {source};
    options.batch_size = 2;
    const auto opened = Loader::open(options);
    return opened.ok() ? "accepted" : opened.error().message;
  };
  std::filesystem::create_directories(folder / "alone");
  std::filesystem::create_directories(folder / "pair");
  std::ofstream(folder / "alone/a.idx") << "x";
  for (const char* name : {"b.bin", "pair/a.bin"})
    std::ofstream(folder / name) << std::string(64, 'x');
  std::ofstream(folder / "pair/a.idx") << "x";
  EXPECT_THAT(refusal("b.bin", 4), HasSubstr("no index file b.idx tells the type of its tokens: "
                                             "put it beside the tokens, or give record_type"));
  EXPECT_EQ(refusal("b.bin", 4, "uint16"), "accepted");
  EXPECT_THAT(refusal("pair/a.idx", 4), HasSubstr("/pair/a.bin: its index is found beside it"));
  EXPECT_THAT(refusal("pair/*.idx", 0), HasSubstr("/pair/*.bin: its index is found beside it"));
  EXPECT_THAT(refusal("pair/a", 4), HasSubstr("tokens lie in .bin files: give "));
  EXPECT_THAT(refusal("alone", 4), HasSubstr("or a folder that has some"));
  EXPECT_THAT(refusal("alone/a.bin", 4), HasSubstr("do not exist: a.bin"));
  EXPECT_THAT(refusal("pair/a.bin", 4), HasSubstr("without a file of this name, record_type and"));
  EXPECT_THAT(refusal("pair/a.bin", 0),
              HasSubstr("a.bin is read as bytes: tokens_per_sample, or format tokens, goes by its "
                        "index a.idx"));
  EXPECT_THAT(refusal("b.bin", 0), testing::Not(HasSubstr("tokens")));
}

TEST(Ops, ThatAskForWhatNoSampleHasAreAWrongRequest) {
  const Files files(12);
  LoaderOptions options = files.options();
  options.ops = {{"ragged", {{"fields", "data"}}},
                 {"one_hot", {{"classes", int64_t{3}}, {"field", "lable"}}}};
  const auto refused = Loader::open(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
  options.ops = {{"ragged", {{"fields", "dta"}}}};
  const auto misspelt = Loader::open(options);
  ASSERT_FALSE(misspelt.ok());
  EXPECT_EQ(misspelt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(misspelt.error().message, HasSubstr("op 1 (ragged): no field 'dta' (there are: "));
  options.ops = {{"one_hot", {{"classes", int64_t{2}}, {"field", "label"}}}};
  options.on_error = OnError::kSkip;
  EXPECT_EQ(epoch_ids(*open(options)).size(), 8u) << "class 2 of 2 is a fault of the data";
}

TEST(BadRecords, AreReplacedByRowsOfTheSameBatch) {
  const Files files(8);
  files.spoil(5);
  LoaderOptions options = files.options();
  options.shuffle = Shuffle::kOff;
  options.on_error = OnError::kReplace;
  auto loader = open(options);
  uint64_t replaced = 0;
  while (auto batch = std::move(loader->next()).value()) {
    ASSERT_EQ(batch->samples().size(), 4u);
    const BatchField& data = *batch->find("data");
    std::map<uint64_t, std::string> row_of;
    for (uint64_t row = 0; row < 4; ++row) {
      const std::string bytes = text(data.bytes.subspan(row * 64, 64));
      const auto [at, is_new] = row_of.emplace(batch->samples()[row].id, bytes);
      EXPECT_EQ(at->second, bytes);
      EXPECT_EQ(batch->samples()[row].is_replaced, !is_new);
      replaced += is_new ? 0 : 1;
    }
  }
  EXPECT_EQ(replaced, 1u);
}

TEST(BadRecords, CountOnceThoughTheNextEpochIsReadAhead) {
  // They counted when they were read: those of the next epoch before it began, and twice where what
  // was read ahead was given up.
  const Files files(8);
  files.spoil(1);
  LoaderOptions options = files.options();
  options.shuffle = Shuffle::kOff;
  options.on_error = OnError::kSkip;
  options.errors_max = 2;
  options.prefetch_batches = 4;  // the whole next epoch
  auto loader = open(options);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(epoch_ids(*loader).size(), 7u);
    const uint64_t reads = 8 * (epoch + 2);
    for (int i = 0; i < 10'000 && loader->stats().reads < reads; ++i) std::this_thread::yield();
    const LoaderState state = std::move(loader->state()).value();
    ASSERT_TRUE(loader->restore(state).ok()) << "which gives up what was read ahead";
    EXPECT_EQ(loader->stats().bad_records, epoch + 1);
    EXPECT_EQ(loader->stats().bad.size(), 1u) << "listed once";
  }
}

TEST(BadRecords, OverTheAllowedShareEndTheFlow) {
  const Files files(300, 1, 8);
  for (uint64_t i = 2; i < 300; i += 10) files.spoil(i);
  LoaderOptions options = files.options();
  options.on_error = OnError::kSkip;
  options.errors_share_max = 0.2;
  EXPECT_EQ(epoch_ids(*open(options)).size(), 270u);
  options.errors_share_max = 0.05;
  auto loader = open(options);
  Result<std::optional<Batch>> last = loader->next();
  while (last.ok() && *last) last = loader->next();
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(last.error().message, HasSubstr("more than the 5 % allowed"));
}

// As users of iterators know it: told once, after which the loader is at its end, and says so.
TEST(Errors, ThatEndTheFlowAreToldOnce) {
  const Files files(12);
  files.spoil(5);
  const auto loader = open(files.options());
  Result<std::optional<Batch>> last = loader->next();
  while (last.ok() && *last) last = loader->next();
  ASSERT_FALSE(last.ok());
  EXPECT_TRUE(loader->has_failed());
  const auto again = loader->next();
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, last.error().code);
  EXPECT_EQ(again.error().message,
            "this loader was ended by an earlier error: " + last.error().message);
  EXPECT_EQ(loader->next().error().message, again.error().message);
}

TEST(BadRecords, ABatchOfNothingElseIsPassedOverOrAnError) {
  const Files files(8);
  for (const uint64_t i : {4, 5, 6, 7}) files.spoil(i);
  LoaderOptions options = files.options();
  options.shuffle = Shuffle::kOff;
  options.on_error = OnError::kSkip;
  std::vector<uint64_t> sizes;
  // Class folders sort the samples: three folders of 3, 3 and 2 files.
  options.batch_size = 1;
  EXPECT_EQ(epoch_ids(*open(options), &sizes).size(), 4u);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{1, 1, 1, 1}));
  options.tail = Tail::kPad;
  sizes.clear();
  EXPECT_EQ(epoch_ids(*open(options), &sizes).size(), 4u);
  EXPECT_EQ(sizes.size(), 8u);
  options.tail = Tail::kDrop;
  options.world_size = 2;
  auto loader = open(options);
  Result<std::optional<Batch>> last = loader->next();
  while (last.ok() && *last) last = loader->next();
  ASSERT_FALSE(last.ok());
  EXPECT_THAT(last.error().message, HasSubstr("not one of the batch's 1 records is good"));
}

TEST(Resume, GivesTheFieldsThatWouldHaveFollowedBitForBit) {
  const Files files(23);
  for (const Tail tail : {Tail::kDrop, Tail::kEven, Tail::kAll, Tail::kPad}) {
    LoaderOptions options = files.options();
    options.tail = tail;
    const std::vector<std::string> all = dumps(*open(options), 20);
    for (int stop = 0; stop < 20; stop += 1 + stop % 3) {
      auto first = open(options);
      dumps(*first, stop);
      auto second = open(options);
      ASSERT_TRUE(second->restore(*first->state()).ok());
      const std::vector<std::string> rest = dumps(*second, 20 - stop);
      EXPECT_EQ(rest, std::vector<std::string>(all.begin() + stop, all.end())) << stop;
    }
  }
}

// For a caller that was interrupted before it could pass the batch on.
TEST(Resume, ABatchThatIsTakenBackComesAgainAndIsNotInTheState) {
  const Files files(13);
  const std::vector<std::string> all = dumps(*open(files.options()), 12);
  for (int given = 1; given <= 6; ++given) {  // 5 is the end of the epoch
    auto loader = open(files.options());
    EXPECT_FALSE(loader->take_back()) << "nothing was given";
    LoaderState before = std::move(loader->state()).value();
    for (int i = 0; i < given; ++i) {
      before = std::move(loader->state()).value();
      dumps(*loader, 1);
    }
    ASSERT_TRUE(loader->take_back());
    EXPECT_FALSE(loader->take_back()) << "once";
    const LoaderState state = std::move(loader->state()).value();
    EXPECT_EQ(state.epoch, before.epoch);
    EXPECT_EQ(state.position, before.position);
    EXPECT_EQ(dumps(*loader, 12 - given + 1),
              std::vector<std::string>(all.begin() + given - 1, all.end()));
  }
}

TEST(Resume, RefusesAPositionBeyondTheEpoch) {
  const Files files(13);
  auto loader = open(files.options());
  LoaderState state = std::move(loader->state()).value();
  state.position = 1'000'000'000;
  const Status refused = loader->restore(state);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "the state's position 1000000000 lies beyond the end of an epoch, which has 13 "
            "samples");
}

TEST(Resume, WithAnotherWorldOrBatchSizeSharesOutExactlyTheRest) {
  const Files files(41, 1, 8);
  base::Random random(5);
  for (int round = 0; round < 25; ++round) {
    // Twice: the rest is stopped and shared out once more.
    std::multiset<uint64_t> seen;
    LoaderState state = *open(files.options())->state();
    for (int part = 0; part < 3; ++part) {
      const uint64_t world = 1 + random.below(4), batch = 1 + random.below(5);
      const bool is_last = part == 2;
      const uint64_t steps = is_last ? UINT64_MAX : random.below(3);
      LoaderState next = state;
      for (uint64_t rank = 0; rank < world; ++rank) {
        LoaderOptions options = files.options();
        options.world_size = world;
        options.rank = rank;
        options.batch_size = batch;
        auto loader = open(options);
        ASSERT_TRUE(loader->restore(state).ok());
        for (uint64_t step = 0; step < steps; ++step) {
          auto more = std::move(loader->next()).value();
          if (!more) break;
          for (const Sample& sample : more->samples()) seen.insert(sample.id);
        }
        if (!is_last && rank == 0) next = *loader->state();
      }
      if (next.epoch != state.epoch) break;  // the epoch was over before
      state = next;
    }
    EXPECT_EQ(seen.size(), 41u);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), 41u);
  }
}

TEST(Resume, RefusesByNameWhatHasChanged) {
  const Files files(9);
  const LoaderState state = *open(files.options())->state();
  const auto refusal = [&](const LoaderOptions& options) {
    const Status restored = open(options)->restore(state);
    return restored.ok() ? std::string("accepted") : restored.error().message;
  };
  EXPECT_EQ(refusal(files.options()), "accepted");
  LoaderOptions options = files.options();
  options.seed = 4;
  EXPECT_THAT(refusal(options), HasSubstr("seed 3, this loader 4"));
  options = files.options();
  options.shuffle = Shuffle::kOff;
  EXPECT_THAT(refusal(options), HasSubstr("another order"));
  options = files.options();
  options.ops = {{"ragged", {{"fields", "data"}}}};
  EXPECT_THAT(refusal(options), HasSubstr("other ops"));
  options = files.options();
  options.batch_size = 2;
  options.decode_threads = 3;
  EXPECT_EQ(refusal(options), "accepted");
  files.rewrite(20, 4, 16);
  EXPECT_THAT(refusal(files.options()), HasSubstr("files 9, now 10; samples 9, now 10; bytes"));
}

TEST(Lists, AreOneSourceInTheirOrder) {
  const Files files(12);
  LoaderOptions options = files.options();
  options.data = "";
  options.shuffle = Shuffle::kOff;
  const auto keys = [&](const std::vector<std::string>& below) {
    options.sources.clear();
    for (const std::string& data : below) {
      DataSource source;
      source.data = files.folder() + data;
      options.sources.push_back(source);
    }
    std::vector<std::string> paths;
    const auto loader = open(options);
    for (;;) {
      const auto batch = std::move(loader->next()).value();
      if (!batch) return paths;
      for (const Sample& sample : batch->samples()) paths.emplace_back(sample.path);
    }
  };
  using testing::ElementsAre;
  EXPECT_THAT(keys({"/class1/0004.npy", "/class1/{0001,0004}.npy"}),
              ElementsAre("0004.npy", "0001.npy"))
      << "chosen twice counts once";
  EXPECT_THAT(
      keys({"/class2/00{08,02}.npy", "/class0/000{3,0}.npy"}),
      ElementsAre("class2/0008.npy", "class2/0002.npy", "class0/0003.npy", "class0/0000.npy"));
  options.shuffle = Shuffle::kFull;
  EXPECT_THAT(keys({"/class1", "/class0", "/class2"}), testing::SizeIs(12));
}

TEST(Mixtures, GiveEachSourceItsShareAndResume) {
  const Files files(20);
  LoaderOptions options = files.options();
  options.batch_size = 5;
  options.data = "";
  DataSource first, second;
  first.data = files.folder() + "/class{0,1}/*.npy";  // 14 files
  second.data = files.folder() + "/class2/*.npy";     // 6 files
  first.weight = 1;
  second.weight = 3;
  options.sources = {first, second};
  auto loader = open(options);
  EXPECT_EQ(loader->sample_count(), 20u);
  std::map<char, int> drawn;
  while (auto batch = std::move(loader->next()).value())
    for (const Sample& sample : batch->samples()) ++drawn[sample.path[5]];
  EXPECT_EQ(drawn['0'] + drawn['1'], 5);
  EXPECT_EQ(drawn['2'], 15);
  const std::vector<std::string> all = dumps(*open(options), 10);
  auto half = open(options);
  dumps(*half, 6);
  auto rest = open(options);
  ASSERT_TRUE(rest->restore(*half->state()).ok());
  EXPECT_EQ(dumps(*rest, 4), std::vector<std::string>(all.begin() + 6, all.end()));
}

// --- the epoch's border ---

TEST(SecondEpoch, BeginsWithoutAPauseOnAFarStore) {
  const Files files(96, 1, 8);
  LoaderOptions options = files.options();
  options.storage = "slow:latency=150ms";
  options.batch_size = 8;
  options.prefetch_batches = 4;
  options.fetch_depth = 32;
  auto loader = open(options);
  base::Clock& clock = base::monotonic_clock();
  std::vector<int64_t> waits;
  int ends = 0;
  while (ends < 3) {
    const int64_t start = clock.now_ns();
    const auto batch = std::move(loader->next()).value();
    if (!batch) {
      ++ends;
      const int64_t before = clock.now_ns();
      const auto first = std::move(loader->next()).value();
      EXPECT_TRUE(first.has_value());
      waits.push_back(clock.now_ns() - before);
      continue;
    }
    clock.sleep_until_ns(start + 45'000'000, {});  // a step of training
  }
  // Without reads over the border the first batch takes a latency at least.
  for (const int64_t wait : waits) EXPECT_LT(wait, 100'000'000);
}

TEST(SecondEpoch, IsTheSameWhetherItsReadsBeganBeforeOrNot) {
  const Files files(21);
  auto whole = open(files.options());
  const std::vector<std::string> all = dumps(*whole, 21);
  auto again = open(files.options());
  dumps(*again, 7);  // the second epoch's reads have begun
  LoaderState state = *again->state();
  ASSERT_TRUE(again->restore(state).ok());
  EXPECT_EQ(dumps(*again, 14), std::vector<std::string>(all.begin() + 7, all.end()));
}

// --- resources ---

TEST(Loaders, OpenedAndDroppedAtOnceLeaveNothing) {
  const Files files(30, 8, 512);
  LoaderOptions options = files.options();
  const auto use = [&](int i) {
    auto loader = open(options);
    dumps(*loader, i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 9);
  };
  for (int i = 0; i < 12; ++i) use(i);  // allocators and library caches fill once
  const int threads = sys::thread_count(), descriptors = sys::open_file_count();
  const uint64_t resident = sys::resident_bytes();
  for (int i = 0; i < 60; ++i) use(i);
  EXPECT_EQ(sys::thread_count(), threads);
  EXPECT_EQ(sys::open_file_count(), descriptors);
  if (!base::kIsSanitized) {
    EXPECT_LT(sys::resident_bytes(), resident + (8 << 20));
  }
}

TEST(Memory, StaysBelowItsBound) {
  const Files files(160, 64, 4096);  // 256 KiB each
  for (const char* storage : {"local", "slow:latency=5ms", "uring"})
    for (const Shuffle shuffle : {Shuffle::kOff, Shuffle::kFull}) {
      SCOPED_TRACE(storage);
      LoaderOptions options = files.options();
      options.storage = storage;
      options.shuffle = shuffle;
      options.batch_size = 8;
      options.memory_bytes = 24 << 20;
      sys::reset_peak_resident();
      const uint64_t before = sys::peak_resident_bytes();
      auto loader = open(options);
      for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(epoch_ids(*loader).size(), 160u);
      const LoaderStats stats = loader->stats();
      EXPECT_GT(stats.buffer_bytes_max, 0u);
      EXPECT_LE(stats.buffer_bytes_max, stats.memory_bytes_bound);
      EXPECT_LE(stats.memory_bytes_bound, 24u << 20);
      if (!base::kIsSanitized) {
        EXPECT_LT(sys::peak_resident_bytes() - before, 32u << 20);
      }
    }
}

TEST(Memory, TooLittleOfItIsSaidBeforeTheFirstRead) {
  const Files files(8, 64, 4096);
  LoaderOptions options = files.options();
  options.memory_bytes = 4 << 20;
  const auto loader = Loader::open(options);
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(loader.error().message, HasSubstr("memory_bytes=4194304: memory is 4"));
  options.memory_bytes = 1000;
  options.batch_size = 1;
  EXPECT_EQ(Loader::open(options).error().code, ErrorCode::kInvalidArgument);
  const Files large(1, 1 << 10, 4096);  // more in one piece than half of the bound
  options = large.options();
  options.memory_bytes = 4 << 20;
  EXPECT_EQ(Loader::open(options).error().code, ErrorCode::kInvalidArgument);
}

// A picture that cannot be decoded within the bound.
TEST(Memory, TooLittleOfItForTheFirstPictureIsAWrongRequest) {
  const base::TestFolder folder("picture");
  const auto store = std::move(storage::open_store("local", folder.path())).value();
  const formats::FileSpec spec{.path = "a.png", .rows = 2000, .columns = 2000, .seed = 1};
  const auto writer = std::move(store->create(spec.path)).value();
  ASSERT_TRUE(formats::find_format("png")->write(*writer, true, spec).ok());
  ASSERT_TRUE(writer->publish().ok());
  LoaderOptions options;
  options.data = folder.path();
  options.memory_bytes = 1000;
  const auto loader = Loader::open(options);
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(loader.error().message, HasSubstr("memory_bytes=1000: "));
}

// Records of a few bytes need more than a few bytes to be worked on.
TEST(Memory, SmallRecordsAreWorkedOnAsWell) {
  const Files files(1, 1, 8);
  std::ofstream(files.folder() + "/lines.jsonl") << R"({"x":[1]})"
                                                    "\n"
                                                    R"({"x":[2]})"
                                                    "\n";
  for (const double size : {1, 2, 3, 5, 8}) {
    LoaderOptions options;
    options.data = files.folder() + "/lines.jsonl";
    options.batch_size = 2;
    options.ops = {{"parse_json", {{"keys", std::vector<std::string>{"x"}}}},
                   {"pad", {{"field", "x"}, {"size", size}}}};
    const auto loader = open(options);
    const auto batch = loader->next();
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    EXPECT_EQ((*batch)->find("x")->shape[1], static_cast<uint64_t>(size));
  }
}

TEST(Memory, PlanHoldsForAllNeeds) {
  base::Random random(23);
  int planned = 0;
  for (int i = 0; i < 2000; ++i) {
    loader::MemoryNeeds needs;
    needs.memory_bytes = (1 + random.below(1024)) << 20;
    needs.batch_size = 1 + random.below(512);
    needs.prefetch_batches = 1 + random.below(8);
    needs.stacked_bytes = random.below(1 << 20);
    needs.separate_bytes = random.below(2) * random.below(1 << 18);
    needs.read_bytes_max = random.below(8 << 20);
    needs.unit_bytes = random.below(2) * random.below(32 << 20);
    needs.read_ahead_bytes = 32 << 20;
    needs.shard_cache_bytes = 256 << 20;
    needs.decode_threads = static_cast<int>(1 + random.below(64));
    needs.fetch_depth = static_cast<int>(random.below(2) * 512);
    const auto plan = loader::plan_memory(needs);
    if (!plan.ok()) continue;
    ++planned;
    EXPECT_LE(plan->bound(), needs.memory_bytes);
    EXPECT_GE(plan->decode_threads, 1);
    EXPECT_LE(plan->decode_threads, needs.decode_threads);
    EXPECT_LE(plan->window_bytes, needs.read_ahead_bytes);
    const uint64_t batches = needs.prefetch_batches + 1 + plan->extra_batches;
    EXPECT_LE(batches * needs.batch_size * needs.stacked_bytes, plan->buffer_bytes);
  }
  EXPECT_GT(planned, 500);
}

// What does not fit into 64 bits must not come round to next to nothing.
TEST(Memory, NeedsBeyondAllNumbersAreTooMuch) {
  loader::MemoryNeeds needs{.memory_bytes = uint64_t{1} << 33, .stacked_bytes = 1 << 17};
  ASSERT_TRUE(loader::plan_memory(needs).ok());
  for (uint64_t loader::MemoryNeeds::*need :
       {&loader::MemoryNeeds::batch_size, &loader::MemoryNeeds::prefetch_batches,
        &loader::MemoryNeeds::separate_bytes, &loader::MemoryNeeds::read_bytes_max,
        &loader::MemoryNeeds::unit_bytes})
    for (int bit = 40; bit < 64; ++bit) {
      loader::MemoryNeeds more = needs;
      more.*need = uint64_t{1} << bit;
      const auto plan = loader::plan_memory(more);
      ASSERT_FALSE(plan.ok()) << bit;
      EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
    }
}

// --- tuning, end to end ---

TEST(Tuning, ReachesHundredsOfReadsOnAFarStore) {
  const Files files(3000, 1, 8);
  LoaderOptions options = files.options();
  options.storage = "slow:latency=100ms";
  options.batch_size = 16;
  auto loader = open(options);
  uint64_t deepest = 0;
  for (int epoch = 0; epoch < 8 && deepest < 200; ++epoch) {
    while (auto batch = std::move(loader->next()).value()) {
    }
    deepest = std::max<uint64_t>(deepest, static_cast<uint64_t>(loader->stats().fetch_depth));
  }
  EXPECT_GE(deepest, 200u);
  const LoaderStats stats = loader->stats();
  EXPECT_LE(stats.buffer_bytes_max, stats.memory_bytes_bound);
  EXPECT_GT(stats.wait_fetch_seconds, stats.wait_decode_seconds);
}

TEST(Tuning, LeavesALoaderAloneWhoseConsumerIsSlow) {
  const Files files(64, 1, 8);
  LoaderOptions options = files.options();
  auto loader = open(options);
  base::Clock& clock = base::monotonic_clock();
  const int64_t end = clock.now_ns() + 1'200'000'000;
  while (clock.now_ns() < end) {
    std::move(loader->next()).value();
    clock.sleep_until_ns(clock.now_ns() + 15'000'000, {});
  }
  EXPECT_EQ(loader->stats().fetch_depth, 4);
}

TEST(Explain, TellsThePlan) {
  const Files files(40);
  LoaderOptions options = files.options();
  options.batch_size = 8;
  auto loader = open(options);
  const LoaderPlan plan = loader->explain();
  EXPECT_EQ(plan.files, 40u);
  EXPECT_EQ(plan.samples, 40u);
  EXPECT_EQ(plan.batches, 5u);
  EXPECT_EQ(plan.entropy, 1);
  EXPECT_EQ(plan.read_amplification, 1);
  EXPECT_EQ(plan.file_bytes_per_epoch, 40u * 192);
  EXPECT_LE(plan.memory_bytes_bound, 256u << 20);
  EXPECT_THAT(plan.text, HasSubstr("data uint8 [4, 16, 1], label int64 [], __key__ text"));
  EXPECT_THAT(plan.text, HasSubstr("40 files, 40 samples"));
  EXPECT_THAT(plan.text, HasSubstr("entropy 100.0 %"));
}

}  // namespace
}  // namespace forebay

// Samples that are read straight into their rows: that they are what the file holds at their place,
// in every order, and that what a file has lost since is told of its own samples only.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/test_folder.h"
#include "forebay/loader.h"

namespace forebay {
namespace {

constexpr uint64_t kRecords = 50, kValues = 8;

// Two files of records: value j of record i of file f is 10,000 f + 100 i + j.
class Records {
 public:
  Records() {
    std::filesystem::create_directories(folder_.path());
    for (uint16_t file = 0; file < 2; ++file) write(file, kRecords);
  }
  std::string path(int file) const { return folder_ / fmt::format("part{}.bin", file); }
  void write(uint16_t file, uint64_t records) const {
    std::ofstream out(path(file), std::ios::binary | std::ios::trunc);
    for (uint64_t i = 0; i < records; ++i)
      for (uint64_t j = 0; j < kValues; ++j) {
        const auto value = static_cast<uint16_t>(10'000 * file + 100 * i + j);
        out.write(reinterpret_cast<const char*>(&value), sizeof value);
      }
  }
  LoaderOptions options(Shuffle shuffle) const {
    DataSource source;
    source.data = folder_.path();
    source.format = "raw";
    source.record_type = "uint16";
    source.record_shape = {kValues};
    LoaderOptions options;
    options.sources = {source};
    options.batch_size = 16;
    options.shuffle = shuffle;
    options.tail = Tail::kAll;
    return options;
  }

 private:
  const base::TestFolder folder_{"plain-rows"};
};

std::unique_ptr<Loader> open(const LoaderOptions& options) {
  auto loader = Loader::open(options);
  EXPECT_TRUE(loader.ok()) << loader.error().message;
  return loader.ok() ? std::move(loader).value() : nullptr;
}

// One epoch; each row is checked against its sample's number. The samples seen.
std::multiset<uint64_t> check_epoch(Loader& loader) {
  std::multiset<uint64_t> seen;
  for (;;) {
    const auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.error().message;
    if (!batch.ok() || !*batch) return seen;
    const BatchField& field = (*batch)->fields()[0];
    const BatchField* keys = (*batch)->find("__key__");
    const auto* values = reinterpret_cast<const uint16_t*>(field.bytes.data());
    uint64_t row = 0;
    for (const Sample& sample : (*batch)->samples()) {
      const uint64_t file = sample.id / kRecords, record = sample.id % kRecords;
      for (uint64_t j = 0; j < kValues; ++j)
        EXPECT_EQ(values[row * kValues + j], 10'000 * file + 100 * record + j);
      const auto key = keys->each[row].bytes;
      EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()),
                fmt::format("part{}#{}", file, record));
      EXPECT_EQ(keys->each[row].shape[0], key.size());
      seen.insert(sample.id);
      ++row;
    }
  }
}

class PlainRows : public testing::TestWithParam<Shuffle> {};

TEST_P(PlainRows, HoldWhatTheFileHoldsAtTheirPlace) {
  const Records records;
  const auto loader = open(records.options(GetParam()));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::multiset<uint64_t> seen = check_epoch(*loader);
    EXPECT_EQ(seen.size(), 2 * kRecords);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), 2 * kRecords);
  }
}

TEST_P(PlainRows, ThatTheFileLostAreBadAndOthersAreNot) {
  const Records records;
  LoaderOptions options = records.options(GetParam());
  options.on_error = OnError::kSkip;
  const auto loader = open(options);
  records.write(1, 20);  // after it was measured
  const std::multiset<uint64_t> seen = check_epoch(*loader);
  // Neighbours that were to come with one read fail with it.
  EXPECT_LE(seen.size(), kRecords + 20);
  for (uint64_t i = 0; i < kRecords; ++i) EXPECT_EQ(seen.count(i), 1U);
  for (uint64_t i = 20; i < kRecords; ++i) EXPECT_EQ(seen.count(kRecords + i), 0U);
  EXPECT_EQ(loader->stats().bad_records, 2 * kRecords - seen.size());
}

INSTANTIATE_TEST_SUITE_P(Orders, PlainRows, testing::Values(Shuffle::kOff, Shuffle::kFull));

TEST(PlainRowsReads, ComeOnePerRunOfNeighbours) {
  const Records records;
  const auto loader = open(records.options(Shuffle::kOff));
  EXPECT_EQ(check_epoch(*loader).size(), 2 * kRecords);
  // A batch's rows in one file are a run; the first record of a file comes by itself. The next
  // epoch is read ahead.
  EXPECT_LE(loader->stats().reads, 2 * (100 / 16 + 4U));
}

}  // namespace
}  // namespace forebay

// Which order a workload gets on files of one sample, of records and of blocks.
#include "emulate/data_source.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/store.h"

namespace forebay::emulate {
namespace {

using dataset::OrderKind;
using dataset::OrderOptions;
using testing::HasSubstr;

uint64_t samples_each = 1, last_samples = 1;  // of a file's blocks

// Files of 64 bytes in four blocks.
const formats::Format& block_format() {
  static constexpr std::string_view kExtensions[] = {"block"};
  static const formats::Format kFormat = [] {
    formats::Format format{};
    format.name = "blocks";
    format.extensions = kExtensions;
    format.recognises = [](std::span<const std::byte>) { return false; };
    format.index = [](storage::Store&, const storage::FileInfo&,
                      const formats::FormatOptions&) -> Result<formats::FileIndex> {
      formats::FileIndex layout{.access = formats::Access::kBlocks};
      for (uint64_t i = 0; i < 4; ++i)
        layout.blocks.push_back({i * samples_each, samples_each, {{i * 16, 16}}});
      layout.blocks.back().sample_count = last_samples;
      layout.sample_count = 3 * samples_each + last_samples;
      return layout;
    };
    return format;
  }();
  return kFormat;
}

std::unique_ptr<dataset::Index> index_of(uint64_t each, uint64_t last) {
  samples_each = each;
  last_samples = last;
  const auto store = storage::open_store("memory", "test").take();
  const std::vector<std::byte> bytes(64);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(storage::write_file(*store, fmt::format("{}.block", i), bytes).ok());
  dataset::IndexOptions options;
  options.format = &block_format();
  return dataset::Index::open(*store, options).take();
}

workload::Workload workload_of(const std::string& loader, uint64_t shuffle_size,
                               double record_bytes) {
  workload::Workload workload;
  workload.reader.data_loader = loader;
  workload.reader.shuffle_size = shuffle_size;
  workload.reader.file_shuffle = workload.reader.sample_shuffle = workload::Shuffle::kSeed;
  workload.dataset.record_length_bytes = record_bytes;
  return workload;
}

TEST(ChooseOrder, MixesBlocksOfOneSizeByTheBlock) {
  const auto index = index_of(100, 100);
  const OrderOptions order = choose_order(workload_of("pytorch", 1000, 10), *index);
  EXPECT_EQ(order.kind, OrderKind::kWindowed);
  EXPECT_EQ(order.shard_samples, 100u);
  EXPECT_EQ(order.window_shards, 10u);
  EXPECT_EQ(order.sample_count, 4000u);
}

TEST(ChooseOrder, MixesFilesWhereBlocksAreUneven) {
  const auto index = index_of(100, 30);
  const OrderOptions order = choose_order(workload_of("pytorch", 1000, 10), *index);
  EXPECT_EQ(order.shard_samples, 330u);
  EXPECT_EQ(order.window_shards, 3u);
}

TEST(ChooseOrder, KeepsAWindowWithinWhatALoaderKeeps) {
  const auto index = index_of(100, 100);
  // 100 samples of 1 MiB: two such blocks fit, a file does not.
  const OrderOptions order = choose_order(workload_of("pytorch", 1000, 1 << 20), *index);
  EXPECT_EQ(order.shard_samples, 100u);
  EXPECT_EQ(order.window_shards, 2u);
  const auto uneven = index_of(100, 30);
  EXPECT_EQ(choose_order(workload_of("pytorch", 1000, 1 << 20), *uneven).shard_samples, 100u);
}

TEST(ChooseOrder, TensorflowShufflesFilesAndMixesABuffer) {
  const auto index = index_of(100, 100);
  const OrderOptions order = choose_order(workload_of("tensorflow", 800, 10), *index);
  EXPECT_EQ(order.kind, OrderKind::kWindowed);
  EXPECT_EQ(order.shard_samples, 400u);
  EXPECT_EQ(order.window_shards, 2u);
}

TEST(ChooseOrder, FilesAloneAreShuffledAsFiles) {
  const auto index = index_of(100, 100);
  workload::Workload workload = workload_of("pytorch", 1000, 10);
  workload.reader.sample_shuffle = workload::Shuffle::kOff;
  const OrderOptions order = choose_order(workload, *index);
  EXPECT_EQ(order.kind, OrderKind::kWindowed);
  EXPECT_EQ(order.shard_samples, 400u);
  EXPECT_FALSE(order.shuffle_within);
  workload.reader.file_shuffle = workload::Shuffle::kOff;
  EXPECT_EQ(choose_order(workload, *index).kind, OrderKind::kSequential);
}

TEST(ChooseOrder, BlocksOfOneSampleNeedNoWindow) {
  const auto index = index_of(1, 1);
  EXPECT_EQ(choose_order(workload_of("pytorch", 1000, 10), *index).kind, OrderKind::kFull);
}

TEST(RepeatedReads, AreNamedWhereAcceleratorsMeetInABlock) {
  DataSource source;
  source.index = index_of(100, 100);
  OrderOptions order = choose_order(workload_of("pytorch", 1000, 10), *source.index);
  source.order = std::make_unique<dataset::Order>(dataset::Order::make(order).take());
  EXPECT_THAT(describe_repeated_reads(source, 8, 10), HasSubstr("8 of the 8 accelerators"));
  EXPECT_EQ(describe_repeated_reads(source, 1, 10), "");
  order.kind = OrderKind::kSequential;
  source.order = std::make_unique<dataset::Order>(dataset::Order::make(order).take());
  EXPECT_THAT(describe_repeated_reads(source, 8, 1000), HasSubstr("2 of the 8 accelerators"));
  source.index = index_of(1, 1);
  EXPECT_EQ(describe_repeated_reads(source, 8, 10), "");
}

TEST(KeepSamplesInMemory, FitsASmallDataSetAndRefusesWhatMemoryCannotHold) {
  DataSource source;
  source.index = index_of(100, 100);
  ASSERT_TRUE(keep_samples_in_memory(source, 0).ok());
  EXPECT_NE(source.samples, nullptr);
  const Status refused = keep_samples_in_memory(source, UINT64_MAX);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace forebay::emulate

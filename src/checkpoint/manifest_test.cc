// The manifest of a checkpoint: read back as written, damage and hostile contents refused by name.
#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "checkpoint/pieces.h"

namespace forebay::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Manifest example() {
  Manifest manifest{.step = 1000,
                    .id = 77,
                    .saved_unix_ns = 1'700'000'000'000'000'000,
                    .tool = "forebay 0.1.0",
                    .world_size = 2,
                    .chunk_bytes = 4096};
  manifest.shards = {{"rank-00000-000.safetensors", 0, 4096 + 100, {1, 2}},
                     {"rank-00001-000.safetensors", 1, 4096 + 28, {3, 4}}};
  manifest.tensors = {{"w",
                       TensorType::kF32,
                       {4, 8},
                       {{0, 4096, {0, 0}, {4, 6}},
                        {1, 4096, {0, 6}, {4, 1}},
                        {0, 4192, {0, 7}, {1, 1}},
                        {1, 4112, {1, 7}, {3, 1}}}},
                      {"empty", TensorType::kBF16, {0}, {}}};
  manifest.tree = R"({"epoch": 3, "names": ["a"]})";
  manifest.metadata = {{"user", "\xc3\xa9"}};
  manifest.metrics = {{"loss", 0.25}};
  return manifest;
}

TEST(Manifest, IsReadAsItWasWritten) {
  Manifest manifest = example();
  std::swap(manifest.tensors[0], manifest.tensors[1]);  // by name
  const auto read = parse_manifest(write_manifest(manifest));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(write_manifest(*read), write_manifest(manifest));
  EXPECT_EQ(read->step, 1000u);
  EXPECT_EQ(read->id, 77u);
  EXPECT_EQ(read->tree, manifest.tree);
  EXPECT_EQ(read->metadata, manifest.metadata);
  EXPECT_EQ(read->metrics, manifest.metrics);
  EXPECT_EQ(read->shards[1].chunk_crcs, manifest.shards[1].chunk_crcs);
  EXPECT_EQ(read->tensors[1].pieces[1].start, (std::vector<uint64_t>{0, 6}));
  EXPECT_EQ(stored_bytes(*read), 4196u + 4124);
}

TEST(Manifest, EveryCutAndEveryFlippedBitIsNoticed) {
  const std::string text = write_manifest(example());
  for (size_t cut = 0; cut < text.size(); ++cut)
    EXPECT_FALSE(parse_manifest(std::string_view(text).substr(0, cut)).ok()) << cut;
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      // Case of the checksum's own digits is no damage.
      if (!parse_manifest(damaged).ok()) continue;
      EXPECT_EQ(bit, 5) << at;
      EXPECT_LT(at, 64u);
    }
  }
}

// A loss that diverged is no reason to lose the checkpoint.
TEST(Manifest, MetricsThatAreNotFiniteComeBackAsTheyWere) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Manifest manifest = example();
  manifest.metrics = {{"down", -kInfinity}, {"loss", std::nan("")}, {"up", kInfinity}};
  const auto read = parse_manifest(write_manifest(manifest));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->metrics.at("down"), -kInfinity);
  EXPECT_EQ(read->metrics.at("up"), kInfinity);
  EXPECT_TRUE(std::isnan(read->metrics.at("loss")));
}

TEST(Manifest, WhatNoSaveWritesIsRefusedByName) {
  const struct {
    std::function<void(Manifest&)> spoil;
    std::string says;
  } cases[] = {
      {[](Manifest& m) { m.shards[0].file = "../../etc/passwd"; }, "no name of a shard"},
      {[](Manifest& m) { m.shards[0].file = "manifest.json"; }, "no name of a shard"},
      {[](Manifest& m) { m.shards[0].file = ".hidden"; }, "no name of a shard"},
      {[](Manifest& m) { m.shards[0].file = ""; }, "no name of a shard"},
      {[](Manifest& m) { m.shards[0].file = "a/b"; }, "no name of a shard"},
      {[](Manifest& m) { m.shards[1].file = m.shards[0].file; }, "two shards in file"},
      {[](Manifest& m) { m.shards[1].rank = 2; }, "shard 1: 'rank'"},
      {[](Manifest& m) { m.shards[1].bytes = UINT64_MAX; }, "shard 1: 'bytes'"},
      {[](Manifest& m) { m.shards[1].bytes = 1ull << 40; }, "2 checksums for"},
      {[](Manifest& m) { m.world_size = 0; }, "cannot be 0"},
      {[](Manifest& m) { m.chunk_bytes = 1ull << 40; }, "'chunk_bytes'"},
      {[](Manifest& m) { m.tensors[0].pieces[0].shard = 2; }, "no shard 2"},
      {[](Manifest& m) { m.tensors[0].pieces[0].offset = 4101; }, "of a shard of 4196"},
      {[](Manifest& m) { m.tensors[0].pieces[0].offset = UINT64_MAX; }, "of a shard of 4196"},
      {[](Manifest& m) { m.tensors[0].pieces[2].offset = 4100; }, "share bytes of shard 0"},
      {[](Manifest& m) { m.tensors[0].pieces.pop_back(); }, "overlap or leave a hole"},
      {[](Manifest& m) { m.tensors[0].pieces[1].start[1] = 5; }, "overlap or leave a hole"},
      {[](Manifest& m) { m.tensors[0].pieces[1].start[1] = 8; }, "a piece ends at 9 of 8"},
      {[](Manifest& m) { m.tensors[0].shape[0] = 5; }, "overlap or leave a hole"},
      {[](Manifest& m) { m.tensors[0].shape[0] = 1ull << 62; }, "too large"},
      {[](Manifest& m) { m.tensors[0].pieces[0].shape.push_back(1); }, "no list of 6 numbers"},
  };
  for (const auto& bad : cases) {
    Manifest manifest = example();
    bad.spoil(manifest);
    const auto read = parse_manifest(write_manifest(manifest));
    ASSERT_FALSE(read.ok()) << bad.says;
    EXPECT_THAT(read.error().message, HasSubstr(bad.says));
  }
}

TEST(Manifest, ANewerVersionIsNamed) {
  std::string text = write_manifest(example());
  text.replace(text.find(":1,"), 3, ":2,");
  const auto read = parse_manifest(text);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(read.error().message, HasSubstr("version 2"));
}

SavedTensor grid(uint64_t rows, uint64_t columns, uint64_t row_cuts, uint64_t column_cuts) {
  SavedTensor tensor{"w", TensorType::kU8, {rows, columns, 3}, {}};
  for (uint64_t r = 0; r < row_cuts; ++r) {
    for (uint64_t c = 0; c < column_cuts; ++c) {
      tensor.pieces.push_back({0,
                               0,
                               {rows / row_cuts * r, columns / column_cuts * c, 0},
                               {rows / row_cuts, columns / column_cuts, 3}});
    }
  }
  return tensor;
}

TEST(Pieces, FillTheirTensorExactlyOrAreRefused) {
  SavedTensor tensor = grid(16, 32, 4, 8);
  EXPECT_TRUE(check_pieces(tensor).ok());
  for (size_t i = 0; i < tensor.pieces.size(); ++i) {
    SavedTensor spoilt = tensor;
    spoilt.pieces.erase(spoilt.pieces.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(check_pieces(spoilt).ok()) << "a hole";
    spoilt = tensor;
    spoilt.pieces.push_back(tensor.pieces[i]);
    EXPECT_FALSE(check_pieces(spoilt).ok()) << "twice";
    // The same amount in all, at the wrong place.
    spoilt = tensor;
    spoilt.pieces[i] = tensor.pieces[(i + 1) % tensor.pieces.size()];
    EXPECT_FALSE(check_pieces(spoilt).ok()) << "one for another";
  }
}

TEST(Pieces, OfScalarsAndEmptyTensors) {
  EXPECT_TRUE(check_pieces({"s", TensorType::kF32, {}, {{0, 0, {}, {}}}}).ok());
  EXPECT_FALSE(check_pieces({"s", TensorType::kF32, {}, {}}).ok());
  EXPECT_FALSE(check_pieces({"s", TensorType::kF32, {}, {{0, 0, {}, {}}, {0, 4, {}, {}}}}).ok());
  EXPECT_TRUE(check_pieces({"e", TensorType::kF32, {3, 0}, {}}).ok());
}

TEST(Manifest, RanksPartsBecomeOne) {
  Manifest first = example(), second = example();
  first.shards.resize(1);
  second.shards.erase(second.shards.begin());
  first.tensors = {{"w", TensorType::kF32, {4, 2}, {{0, 4096, {0, 0}, {2, 2}}}},
                   {"both", TensorType::kU8, {2}, {{0, 4112, {0}, {2}}}}};
  second.tensors = {{"w", TensorType::kF32, {4, 2}, {{0, 4096, {2, 0}, {2, 2}}}},
                    {"both", TensorType::kU8, {2}, {{0, 4112, {0}, {2}}}}};
  const auto merged = merge_manifests({first, second});
  ASSERT_TRUE(merged.ok()) << merged.error().message;
  const auto read = parse_manifest(write_manifest(*merged));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->shards.size(), 2u);
  EXPECT_EQ(read->tensors[0].pieces.size(), 1u) << "kept once";
  EXPECT_EQ(read->tensors[1].pieces[1].shard, 1u);
  second.tensors[0].type = TensorType::kI32;
  EXPECT_THAT(merge_manifests({first, second}).error().message,
              HasSubstr("F32 [4, 2] on one rank"));
  second.tensors.erase(second.tensors.begin());
  EXPECT_THAT(merge_manifests({first, second}).error().message, HasSubstr("leave a hole"));
}

// Three ranks; the last one is on another host than the first two.
TEST(Manifest, APlaceSaysWhatLiesOnOtherHosts) {
  std::vector<Manifest> parts(3, example());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Manifest& part = parts[rank];
    part.world_size = 3;
    part.shards.resize(1);
    part.shards[0].rank = rank;
    part.shards[0].file = "rank-" + std::to_string(rank) + ".safetensors";
    part.tensors = {{"w", TensorType::kF32, {6, 2}, {{0, 4096, {2 * rank, 0}, {2, 2}}}}};
    if (rank != 1) part.tensors.push_back({"both", TensorType::kU8, {2}, {{0, 4112, {0}, {2}}}});
  }
  const auto last = merge_manifests(parts, {false, false, true});
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_TRUE(is_spread(*last));
  EXPECT_EQ(stored_bytes(*last), stored_bytes(last->shards[0])) << "what is here counts";
  const auto read = parse_manifest(write_manifest(*last));
  ASSERT_TRUE(read.ok()) << read.error().message;
  std::vector<std::string> here, elsewhere;
  for (const Shard& shard : read->shards)
    (shard.is_elsewhere ? elsewhere : here).push_back(shard.file);
  EXPECT_THAT(here, ElementsAre("rank-2.safetensors"));
  EXPECT_THAT(elsewhere, ElementsAre("rank-0.safetensors", "rank-1.safetensors"));
  EXPECT_EQ(read->tensors[0].name, "both");
  EXPECT_EQ(read->shards[read->tensors[0].pieces[0].shard].file, "rank-2.safetensors");
  EXPECT_FALSE(is_spread(gathered(*read)));

  parts[0].tensors.resize(1);
  parts[0].tensors[0].shape = parts[0].tensors[0].pieces[0].shape = {2, 2};
  parts[0].tensors[0].name = "both";
  parts[2].tensors = parts[1].tensors = parts[0].tensors;
  const auto all = merge_manifests(parts, {false, false, true});
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->shards.size(), 1u) << "what the others have is here as well";
  EXPECT_FALSE(is_spread(*all));
}

}  // namespace
}  // namespace forebay::checkpoint

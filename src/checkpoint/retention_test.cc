// Which checkpoints stay: the newest always, and what each rule names.
#include "checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<KeptSave> saves_of(const std::vector<uint64_t>& steps) {
  std::vector<KeptSave> saves;
  for (const uint64_t step : steps) saves.push_back({{step, saves.size() + 1, 7}});
  return saves;
}

std::vector<uint64_t> sequences(const std::vector<SaveName>& names) {
  std::vector<uint64_t> out;
  for (const SaveName& name : names) out.push_back(name.sequence);
  return out;
}

TEST(Retention, KeepsAllWithoutARule) {
  EXPECT_THAT(saves_to_remove(saves_of({1, 2, 3}), {}), IsEmpty());
  EXPECT_THAT(saves_to_remove({}, {.keep_last = 1}), IsEmpty());
}

TEST(Retention, KeepsTheLastAndEveryNth) {
  const auto saves = saves_of({100, 150, 200, 250, 300});
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 2})), ElementsAre(1, 2, 3));
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 1, .keep_every = 100})),
              ElementsAre(2, 4));
  EXPECT_THAT(saves_to_remove(saves, {.keep_last = 9}), IsEmpty());
}

TEST(Retention, KeepsTheBestOfThoseThatWereJudged) {
  auto saves = saves_of({1, 2, 3, 4, 5});
  saves[0].metric = 0.5;
  saves[1].metric = 0.1;
  saves[2].metric = std::numeric_limits<double>::quiet_NaN();
  saves[3].metric = 0.1;
  const Retention lowest{.keep_last = 1, .keep_best = 1};
  EXPECT_THAT(sequences(saves_to_remove(saves, lowest)), ElementsAre(1, 2, 3));
  const Retention highest{.keep_last = 1, .keep_best = 1, .is_lower_better = false};
  EXPECT_THAT(sequences(saves_to_remove(saves, highest)), ElementsAre(2, 3, 4));
}

TEST(Retention, OfAStepThatWasSavedAgainOnlyTheNewestCounts) {
  const auto saves = saves_of({100, 200, 300, 200});
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 2})), ElementsAre(1, 2));
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 1, .keep_every = 200})),
              ElementsAre(1, 2, 3));
}

TEST(Retention, WhatIsDamagedCountsForNoRule) {
  auto saves = saves_of({1, 2, 3, 4, 5});
  saves[4].is_damaged = true;
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 1})), ElementsAre(1, 2, 3));
  saves[3].is_damaged = true;
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 1})), ElementsAre(1, 2));
  saves[4].is_damaged = false;
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 2, .keep_every = 4})),
              ElementsAre(1, 2, 4));
  for (KeptSave& save : saves) save.is_damaged = true;
  EXPECT_THAT(saves_to_remove(saves, {.keep_last = 1}), IsEmpty());
}

// Jobs that began at the same time count alike.
TEST(Retention, SavesOfOneSequenceCountEach) {
  std::vector<KeptSave> saves;
  for (const uint64_t sequence : {1, 2})
    for (uint32_t id = 1; id <= 3; ++id) saves.push_back({{10 * sequence + id, sequence, id}});
  const auto removed = saves_to_remove(saves, {.keep_last = 2});
  ASSERT_EQ(removed.size(), 4u);
  EXPECT_EQ(removed.back(), (SaveName{21, 2, 1}));
}

TEST(Retention, NeverRemovesWhatIsNeededNorTheNewest) {
  auto saves = saves_of({1, 2, 3});
  saves[0].is_needed = true;
  EXPECT_THAT(sequences(saves_to_remove(saves, {.keep_last = 1})), ElementsAre(2));
}

}  // namespace
}  // namespace forebay::checkpoint

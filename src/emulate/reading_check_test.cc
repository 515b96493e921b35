#include "emulate/reading_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::emulate {
namespace {

using testing::HasSubstr;

// 100 samples of 1,000 bytes; the second epoch reads `bytes`.
RunResult run_that_read(uint64_t bytes, const std::vector<std::string>& overrides = {}) {
  RunResult result;
  result.resolved = *workload::resolve("demo", overrides);
  result.dataset.samples = 100;
  result.dataset.bytes = 100'000;
  for (const uint64_t read : {uint64_t{96'000}, bytes}) {
    EpochResult epoch;
    epoch.epoch = result.epochs.size() + 1;
    epoch.samples = 96;
    epoch.file_bytes = read;
    result.epochs.push_back(epoch);
  }
  return result;
}

TEST(UnreadBytes, LessThanHalfIsNamedWithBothNumbers) {
  EXPECT_EQ(describe_unread_bytes(run_that_read(96'000)), "");
  EXPECT_EQ(describe_unread_bytes(run_that_read(48'000)), "");
  const std::string text = describe_unread_bytes(run_that_read(47'000));
  EXPECT_THAT(text, HasSubstr("epoch 2 read 47.0 kB"));
  EXPECT_THAT(text, HasSubstr("96 samples take 96.0 kB"));
  EXPECT_NE(describe_unread_bytes(run_that_read(0)), "");
}

TEST(UnreadBytes, OfAnEvaluationAreThoseOfItsOwnData) {
  RunResult result = run_that_read(96'000);
  result.evaluation_dataset.samples = 10;
  result.evaluation_dataset.bytes = 10'000'000;
  result.epochs[1].is_evaluation = true;
  EXPECT_THAT(describe_unread_bytes(result), HasSubstr("evaluation 2 read"));
}

TEST(UnreadBytes, WhoeverAskedForItIsNotWarned) {
  EXPECT_EQ(describe_unread_bytes(run_that_read(0, {"reader.read_type=memory"})), "");
  EXPECT_EQ(describe_unread_bytes(run_that_read(0, {"reader.data_loader=synthetic"})), "");
  RunResult result = run_that_read(0);
  result.resolved.workload.dataset.parquet_columns = {{.name = "a"}};
  EXPECT_NE(describe_unread_bytes(result), "");
  result.resolved.workload.dataset.parquet_columns.push_back({.name = "b", .is_read = false});
  EXPECT_EQ(describe_unread_bytes(result), "");
}

}  // namespace
}  // namespace forebay::emulate

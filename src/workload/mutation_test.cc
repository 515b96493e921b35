// Goal: no text, however broken, crashes the reader or makes a workload out of range. Method:
// seeded mutations of the built-ins and of overrides; what is accepted must survive its own YAML.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_folder.h"
#include "workload/workload.h"

namespace forebay::workload {
namespace {

uint64_t seed() {
  const char* text = std::getenv("FOREBAY_SEED");
  return text == nullptr ? 20240817 : std::strtoull(text, nullptr, 10);
}

// clang-format off
constexpr std::string_view kPieces[] = {
    "\n", "\t", "  ", ":", ": ", "- ", ",", "[", "]", "{", "}", "&a ", "*a", "!!x", "|", ">",
    "'", "\"", "#", "%", "---", "...", "? ", "<<: ", "null", "-1", "1e99", "nan", "True", "~",
    "\\", "\xff", "\x04", "\xef\xbb\xbf", "${x}", "0x1", "010", "workload:", "dataset:",
    "format: jpeg", "format: hdf5", "format: parquet", "chunk_dims: [1, 2, 2]",
    "columns: [{name: a, size: 2}]", "compression: gzip", "checkpoint: True", "type: transformer",
    "99999999999999999999"};
// clang-format on

std::string mutated(std::string text, base::Random& random) {
  const uint64_t changes = 1 + random.below(2);
  for (uint64_t i = 0; i < changes; ++i) {
    const size_t at = random.below(text.size() + 1);
    switch (random.below(8)) {
      case 0:
        text.insert(at, kPieces[random.below(std::size(kPieces))]);
        break;
      case 1:
        text.erase(at, 1 + random.below(12));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 3:
        text.resize(text.size() - random.below(text.size() / 4 + 1));
        break;
      case 4:
        text.insert(at, text.substr(random.below(text.size() + 1), random.below(80)));
        break;
      default:
        // Another number is the change that most often leaves a workload.
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + random.below(10));
        break;
    }
  }
  return text;
}

void expect_in_range(const Workload& workload) {
  EXPECT_GE(workload.reader.batch_size, 1u);
  EXPECT_GE(workload.reader.read_threads, 1u);
  EXPECT_GE(workload.train.epochs, 1u);
  EXPECT_GE(workload.dataset.num_files_train, 1u);
  EXPECT_GE(workload.dataset.num_samples_per_file, 1u);
  EXPECT_TRUE(workload.dataset.record_length_bytes >= 1);
  EXPECT_TRUE(workload.train.computation_time.mean() >= 0);
  EXPECT_TRUE(std::isfinite(workload.train.computation_time.mean()));
  EXPECT_TRUE(workload.metric.au >= 0 && workload.metric.au <= 1);
}

TEST(Mutation, OfFilesGivesAWorkloadInRangeOrANamedError) {
  SCOPED_TRACE(seed());
  base::Random random(seed());
  const base::TestFolder folder("mutation");
  const std::string path = folder / "mutation.yaml";
  const std::string again = folder / "again.yaml";
  const auto builtins = builtin_workloads();
  int accepted = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    const Builtin& builtin = builtins[random.below(builtins.size())];
    std::ofstream(path, std::ios::binary) << mutated(std::string(builtin.yaml), random);
    const auto resolved = resolve(path, {});
    if (!resolved.ok()) {
      ++refused;
      EXPECT_NE(resolved.error().code, ErrorCode::kIo);
      EXPECT_GT(resolved.error().message.size(), 20u);
      continue;
    }
    ++accepted;
    expect_in_range(resolved->workload);
    std::ofstream(again, std::ios::binary) << to_yaml(*resolved);
    const auto second = resolve(again, {});
    ASSERT_TRUE(second.ok()) << second.error().message << "\n" << to_yaml(*resolved);
    Workload open = resolved->workload;  // secrets are not written down
    open.storage.access_key_id.clear();
    open.storage.secret_access_key.clear();
    EXPECT_TRUE(second->workload == open) << to_yaml(*resolved);
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
}

TEST(Mutation, OfOverridesGivesAWorkloadInRangeOrANamedError) {
  SCOPED_TRACE(seed());
  base::Random random(seed() + 1);
  const std::vector<std::string> good{"++workload.reader.batch_size=4",
                                      "train.computation_time={type: gamma, shape: 1, scale: 0.01}",
                                      "dataset.record_dims=[3,4]",
                                      "checkpoint.ksm={await_time:200.0}",
                                      "storage.storage_options.region='a b'",
                                      "++hydra.run.dir=/tmp/x",
                                      "reader={batch_size: 2, file_shuffle: off}"};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto resolved = resolve("demo", {mutated(good[random.below(good.size())], random)});
    resolved.ok() ? ++accepted : ++refused;
    if (resolved.ok()) expect_in_range(resolved->workload);
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace forebay::workload

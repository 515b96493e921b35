// Goal: no key of the table is silently without effect, and what people read about keys is current.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/test_folder.h"
#include "base/text.h"
#include "workload/row.h"
#include "workload/state.h"
#include "workload/workload.h"

namespace forebay::workload {
namespace {

// Values that differ from the default, as YAML.
std::vector<std::string> other_values(const Row& row) {
  const auto next_to = [&](std::string_view fallback) {
    const double value = std::strtod(std::string(fallback).c_str(), nullptr);
    const double other = value + 1 <= row.limits.high ? value + 1 : value - 1;
    return fmt::format("{}", std::max(other, row.limits.low + 1));
  };
  switch (row.type) {
    case Type::kBool:
      return {row.fallback == "true" ? "false" : "true"};
    case Type::kCount:
    case Type::kBytes:
    case Type::kWholeBytes:
      return {next_to(row.fallback)};
    case Type::kOptionalCount:
    case Type::kOptionalBytes:
      return {"7"};
    case Type::kInteger:
      return {"5"};
    case Type::kFraction:
      return {"0.25"};
    case Type::kSeconds:
    case Type::kDistribution:
      return {"0.125"};
    case Type::kText:
      return {"something"};
    case Type::kCounts:
      return {"[3, 5]"};
    case Type::kColumns:
      return {"[{name: a, dtype: int8, size: 3}]"};
    case Type::kPlaces:
      return {"[/a, {place: /b, keep: 2}]"};
    case Type::kTree:
      return {"{a: [1, 2]}"};
    case Type::kChoice:
      break;
  }
  std::vector<std::string> values;
  for (const std::string_view word : base::split(row.limits.choices, ' ')) {
    if (word != row.fallback) values.emplace_back(word);
  }
  return values;
}

class EveryKey : public testing::TestWithParam<const Row*> {
 protected:
  // A workload that leaves every key at its default.
  void SetUp() override { std::ofstream(path_) << "workflow: {train: true}\n"; }

  const base::TestFolder folder_{"key"};
  const std::string path_ = folder_ / "workload.yaml";
};

// Values that ask for nothing: "no profiler", "no layers".
bool asks_for_nothing(const Row& row, std::string_view value) {
  const auto words = base::split(row.supported, ' ');
  return row.store == nullptr && std::find(words.begin(), words.end(), value) != words.end();
}

// What must be set for the row's values to be possible.
std::vector<std::string> around(const Row& row) {
  std::vector<std::string> overrides;
  if (!row.format.empty()) overrides.push_back(fmt::format("dataset.format={}", row.format));
  if (row.key == "dataset.hdf5.chunk_dims") overrides.push_back("dataset.record_dims=[9]");
  if (row.key == "workflow.train") overrides.push_back("checkpoint.num_checkpoints_write=1");
  if (row.key == "checkpoint.mode") overrides.push_back("model.parallelism.data=2");
  return overrides;
}

TEST_P(EveryKey, ChangesTheWorkloadOrWarnsOrIsRefused) {
  const Row& row = *GetParam();
  int judged = 0;
  for (const std::string checkpoint : {"false", "true"}) {
    std::vector<std::string> overrides = around(row);
    if (row.key == "workflow.evaluation") overrides.push_back("dataset.num_files_eval=3");
    if (row.key != "workflow.checkpoint") overrides.push_back("workflow.checkpoint=" + checkpoint);
    const auto before = resolve(path_, overrides);
    ASSERT_TRUE(before.ok()) << before.error().message;
    for (const std::string& value : other_values(row)) {
      if (asks_for_nothing(row, value)) continue;
      ++judged;
      SCOPED_TRACE(std::string(row.key) + "=" + value + ", workflow.checkpoint=" + checkpoint);
      overrides.push_back(std::string(row.key) + "=" + value);
      const auto after = resolve(path_, overrides);
      overrides.pop_back();
      if (!after.ok()) {
        EXPECT_EQ(after.error().code, ErrorCode::kUnsupported) << after.error().message;
        EXPECT_NE(after.error().message.find(row.key), std::string::npos) << after.error().message;
        EXPECT_NE(row.support, Support::kNoEffect);
        continue;
      }
      const bool is_changed = !(after->workload == before->workload);
      const auto& warnings = after->warnings;
      const bool is_named = std::any_of(warnings.begin(), warnings.end(), [&](const auto& text) {
        return text.find(row.key) != std::string::npos;
      });
      EXPECT_TRUE(is_changed || is_named);
      if (row.support == Support::kNoEffect) {
        EXPECT_TRUE(is_named && !is_changed);
      }
    }
  }
  EXPECT_GT(judged, 0);
}

std::string test_name(const testing::TestParamInfo<const Row*>& info) {
  std::string name(info.param->key);
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schema, EveryKey, testing::ValuesIn(all_rows().begin(), all_rows().end()),
                         test_name);

// model.model_size_bytes=50MB was refused where record_length_bytes=50MB is not.
TEST(Schema, EveryKeyInBytesTakesUnits) {
  int seen = 0;
  for (const Row* row : all_rows()) {
    if (row->unit != "bytes") continue;
    ++seen;
    Node node;
    node.kind = Node::Kind::kScalar;
    for (const auto& [text, plain] :
         {std::pair<const char*, const char*>("1kB", "1000"), std::pair("0.002 MB", "2000")}) {
      Limits limits = row->limits;
      limits.high = std::max(limits.high, 1e6);
      node.text = text;
      const auto value = read_value(row->type, limits, node);
      ASSERT_TRUE(value.ok()) << row->key << ": " << value.error().message;
      EXPECT_EQ(value_text(row->type, *value), plain) << row->key;
    }
  }
  EXPECT_GT(seen, 6);
}

TEST(Schema, DefaultsOfTheTableAreDefaultsOfTheStruct) {
  Workload from_table;
  for (const Slot& slot : default_slots()) {
    if (slot.row->store != nullptr) slot.row->store(from_table, slot.value);
  }
  EXPECT_TRUE(from_table == Workload());
}

TEST(Schema, KeysAreUniqueDocumentedAndDefaultsAreInCanonicalForm) {
  std::set<std::string_view> seen;
  for (const Slot& slot : default_slots()) {
    const Row& row = *slot.row;
    EXPECT_TRUE(seen.insert(row.key).second) << row.key;
    if (!row.also.empty()) {
      for (const std::string_view other : base::split(row.also, ' ')) {
        EXPECT_TRUE(seen.insert(other).second) << other;
      }
    }
    EXPECT_FALSE(row.help.empty()) << row.key;
    EXPECT_EQ(row.help.back(), '.') << row.key;
    EXPECT_EQ(value_text(row.type, slot.value), row.fallback) << row.key;
    // A row that stores nothing must say what happens instead.
    const bool is_spread = row.key.size() > 6 && row.key.substr(row.key.size() - 6) == "_stdev";
    if (row.store == nullptr && !is_spread) {
      EXPECT_NE(row.support, Support::kFull) << row.key;
    }
    if (row.support != Support::kFull) {
      EXPECT_FALSE(row.reason.empty()) << row.key;
    }
    // Words that count as supported must be ones that the key can have.
    if (row.type == Type::kChoice && !row.supported.empty()) {
      const auto choices = base::split(row.limits.choices, ' ');
      for (const std::string_view word : base::split(row.supported, ' ')) {
        EXPECT_EQ(std::count(choices.begin(), choices.end(), word), 1) << row.key << " " << word;
      }
    }
  }
}

TEST(Schema, DescribesKeysForPeople) {
  const auto keys = schema();
  ASSERT_EQ(keys.size(), all_rows().size());
  const auto find = [&](std::string_view name) {
    return *std::find_if(keys.begin(), keys.end(), [&](const KeyInfo& k) { return k.key == name; });
  };
  const KeyInfo prefetch = find("reader.prefetch_size");
  EXPECT_EQ(prefetch.type, "a whole number");
  EXPECT_EQ(prefetch.unit, "batches");
  EXPECT_EQ(prefetch.range, "0..1000000");
  EXPECT_EQ(prefetch.fallback, "2");
  EXPECT_EQ(prefetch.support, "");
  EXPECT_EQ(find("reader.file_shuffle").type, "off | seed | random");
  EXPECT_EQ(find("dataset.format").support,
            "refused when hdf5_opt: nothing makes or reads it, DLIO neither; hdf5 is the format");
  EXPECT_EQ(find("reader.pin_memory").support.substr(0, 6), "warns:");
}

TEST(Schema, PageOfKeysIsCurrent) {
  const std::string path = base::source_folder() + "/docs/dlio-keys.md";
  if (std::getenv("FOREBAY_UPDATE_DOCS") != nullptr) std::ofstream(path) << schema_markdown();
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), schema_markdown())
      << "run this test once with FOREBAY_UPDATE_DOCS=1 and look at the difference";
}

}  // namespace
}  // namespace forebay::workload

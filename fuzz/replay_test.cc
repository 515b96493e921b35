// Goal: no input that a fuzzer ever found, and no seed, upsets a parser again.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_folder.h"
#include "targets.h"

namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReplayedWithoutACrash) {
  int count = 0;
  const fs::path folder = fs::path(base::source_folder()) / "fuzz/corpus" / GetParam().name;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    const std::string content = text.str();
    SCOPED_TRACE(entry.path().string());
    // A copy of exact size lets the address sanitizer see reads beyond the end.
    const std::vector<char> exact(content.begin(), content.end());
    GetParam().run(std::as_bytes(std::span(exact)));
    ++count;
  }
  EXPECT_GT(count, 0) << folder;
}

std::string name_of(const testing::TestParamInfo<Target>& info) {
  return std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(kTargets), name_of);

}  // namespace
}  // namespace forebay::fuzz

// Goal: archives that other people found troublesome get a verdict that names them, and the check
// in passing agrees with it. Reads FOREBAY_REAL_DATA (default: shared/real beside the source
// folder).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/test_folder.h"
#include "formats/builtin.h"
#include "formats/npz_check.h"
#include "formats/npz_members.h"

namespace forebay::formats {
namespace {

namespace fs = std::filesystem;

fs::path real_data() {
  const char* from_environment = std::getenv("FOREBAY_REAL_DATA");
  if (from_environment != nullptr) return from_environment;
  return fs::path(base::source_folder()).parent_path() / "shared/real";
}

std::vector<std::byte> load(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(RealArchives, ObjectArraysAreRefusedByFileMemberAndType) {
  const fs::path folder = real_data() / "numpy-objarr";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent (FOREBAY_REAL_DATA)";
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_npz = entry.path().extension() == ".npz";
    if (!is_npz && entry.path().extension() != ".npy") continue;
    const std::string name = entry.path().filename().string();
    const auto bytes = load(entry.path());
    const auto reader = (is_npz ? kNpz : kNpy).make_reader({});
    const auto record = reader->read(name, bytes, {}, 0);
    ASSERT_FALSE(record.ok()) << name;
    EXPECT_EQ(record.error().code, ErrorCode::kUnsupported);
    const std::string& message = record.error().message;
    EXPECT_EQ(message.substr(0, name.size() + 2), name + ": ");
    EXPECT_EQ(message.find("member x.npy") != std::string::npos, is_npz) << message;
    EXPECT_NE(message.find("needs pickle, which Forebay never runs"), std::string::npos);
    ++count;
  }
  EXPECT_EQ(count, 5);
}

TEST(RealArchives, OddZipFilesGetTheSameVerdictInPassing) {
  const fs::path folder = real_data() / "zip-archives";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent (FOREBAY_REAL_DATA)";
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".zip") continue;
    const std::string name = entry.path().filename().string();
    const auto bytes = load(entry.path());
    const auto record = kNpz.make_reader({})->read(name, bytes, {}, 0);
    ASSERT_FALSE(record.ok()) << name;  // none holds arrays
    EXPECT_EQ(record.error().message.substr(0, name.size() + 2), name + ": ");
    const auto check = make_npz_check();
    check->begin(name, bytes.size());
    check->visit(bytes);
    const Status passing = check->finish();
    EXPECT_FALSE(passing.ok()) << name;
    ++count;
  }
  EXPECT_GE(count, 25);
}

}  // namespace
}  // namespace forebay::formats

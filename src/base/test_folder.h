// For tests only: a folder of one's own, and where the sources lie.
//
// Each TestFolder has a name nobody else has, so tests of one program may run at the same time.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"

namespace forebay::base {

class TestFolder {
 public:
  explicit TestFolder(std::string_view label)
      : path_((std::filesystem::temp_directory_path() / "forebay-").string()) {
    path_.append(label).append("-XXXXXX");
    FB_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// The root of the repository that the running test was built from.
std::string source_folder();

}  // namespace forebay::base

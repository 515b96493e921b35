// For tests only: a folder of one's own, and where the sources lie.
//
// Each TestFolder has a name nobody else has, so tests of one program may run at the same time.
// TestFolder::in_memory() is for tests of thousands of syncs, which a disk would take minutes for.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/check.h"

namespace forebay::base {

class TestFolder {
 public:
  explicit TestFolder(std::string_view label) {
    FB_CHECK(make(std::filesystem::temp_directory_path(), label));
  }
  // On a file system in memory, where this machine has one with room.
  static TestFolder in_memory(std::string_view label) { return {label, true}; }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  TestFolder(std::string_view label, bool /*in_memory*/) {
    constexpr uintmax_t kRoomBytes = 32 << 20;
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const auto room = std::filesystem::space(memory, error);
    const bool has_room = !error && room.available >= kRoomBytes;
    if (!has_room || !make(memory, label))
      FB_CHECK(make(std::filesystem::temp_directory_path(), label));
  }
  bool make(const std::filesystem::path& above, std::string_view label) {
    path_ = (above / "forebay-").string();
    path_.append(label).append("-XXXXXX");
    return mkdtemp(path_.data()) != nullptr;
  }

  std::string path_;
};

// The root of the repository that the running test was built from.
std::string source_folder();

}  // namespace forebay::base

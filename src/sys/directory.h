// Walks a folder tree on several threads.
//
// Folders are entered once, known by device and inode. Links to files are files; a link to a folder
// is followed unless that folder was entered already. Real folders are walked before any link is
// followed, so what a walk finds does not depend on timing.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"

namespace forebay::sys {

struct FoundFile {
  std::string path;  // relative to the folder the walk started from, '/' separated
  uint64_t size = 0;
  int64_t mtime_ns = 0;
};

struct PassedOver {
  std::string path;
  std::string reason;
};

struct Walk {
  std::vector<FoundFile> files;         // sorted by path
  std::vector<PassedOver> passed_over;  // sorted by path
};

struct WalkOptions {
  int threads = 8;  // more than cores: a walk waits for the file system
  // Names for which this answers true are left out without a word. Null: none.
  bool (*is_hidden)(std::string_view name) = nullptr;
  std::stop_token stop{};  // ends the walk with kCancelled
};

// Fails when the first folder cannot be read; trouble further down is passed over with its reason,
// except running out of descriptors or memory, which would make the answer arbitrary.
Result<Walk> walk_folder(int folder_fd, const std::string& path, const WalkOptions& options);

// The names in one folder, in no order, without "." and "..".
Result<std::vector<std::string>> names_in(int folder_fd, const std::string& path);
// Those of its folders; links to folders are none.
Result<std::vector<std::string>> folders_in(int folder_fd, const std::string& path);

// Makes the folder `path`; its parents must exist. False when something of that name is there
// already.
Result<bool> make_new_folder(const std::string& path);

// Whether anything of that name exists.
bool path_exists(const std::string& path);

// The process's working folder, absolute; "." when it cannot be told.
std::string current_folder();

// Removes `path` when it is an empty folder; anything else stays.
void remove_empty_folder(const std::string& path);

}  // namespace forebay::sys

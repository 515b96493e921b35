// The file that a command writes because the user named it: --output FILE, --trace FILE.
//
// One thread.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::cli {

class OutputFile {
 public:
  // Proves that the file can be written. "-" is stdout. A file appears whole when it is finished,
  // a link's target in its place; devices and pipes are written to as they are. kInvalidArgument
  // when it is one of `sources`, which are read meanwhile, or a folder.
  static Result<OutputFile> open(const std::string& path,
                                 std::span<const std::string> sources = {});

  Status write(std::string_view text);
  Status finish();

 private:
  OutputFile() = default;

  std::string path_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::Writer> writer_;  // of a regular file
  std::optional<std::ofstream> stream_;      // of a device or pipe
};

// The same, with what to do about a disk that is full.
Status told_what_next(const Status& written);

// Where a chain of links ends, or `path` itself; kInvalidArgument when that is one of
// `sources` or a folder. For formats that write files by themselves: the folders of its path are
// made, as OutputFile does.
Result<std::string> output_target(const std::string& path,
                                  std::span<const std::string> sources = {});

}  // namespace forebay::cli

// A folder where the programs of one recording write what its recorder reads. It goes with the
// recording; what a recorder that was killed left is removed by the next one in the same place.
//
// One thread at a time. The folder is this recorder's alone, whatever process ids or hosts others
// have that write to the same place: its name is new, and it holds a file that the recorder keeps
// locked. Where a file system has no locks leftovers stay.
#pragma once

#include <string>
#include <string_view>

#include "forebay/result.h"
#include "sys/file.h"

namespace forebay::record {

class LiveFolder {
 public:
  // FOLDER/PREFIX-HOST-PID, or with a number behind where there is one.
  static Result<LiveFolder> make(const std::string& folder, std::string_view prefix);
  LiveFolder(LiveFolder&& other) noexcept;
  LiveFolder& operator=(LiveFolder&& other) noexcept;
  ~LiveFolder() { remove(); }

  const std::string& path() const { return path_; }
  // Takes away all files in it, and itself. Programs that still run keep their own map of these
  // files; new ones find no folder and stay silent.
  void remove();

 private:
  LiveFolder(std::string path, sys::ScopedFd lock);

  std::string path_;
  sys::ScopedFd lock_;
};

// Removes those below `folder` whose recorder has gone. Never waits; trouble leaves them there.
void remove_leftovers(const std::string& folder);

}  // namespace forebay::record

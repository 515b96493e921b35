// Files that several processes map at once.
//
// Whoever maps a file must not shorten it while others do: reading past its end kills.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "forebay/result.h"
#include "sys/file.h"

namespace forebay::sys {

class SharedFile {
 public:
  // An existing file, to read.
  static Result<SharedFile> open(const std::string& path);
  // A new file of zeros, to read and write; `mode` as for open(2).
  static Result<SharedFile> create(const std::string& path, size_t bytes, unsigned mode);
  // One that may grow to `bytes_max`; its memory stays where it is.
  static Result<SharedFile> create_growing(const std::string& path, size_t bytes, size_t bytes_max,
                                           unsigned mode);

  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  std::span<const std::byte> bytes() const { return {memory_, size_}; }
  std::byte* data() { return memory_; }

  // Makes a growing file longer, by zeros that have their place on the disk and in memory. Fails
  // when there is none; the file then is as before.
  Status grow(size_t bytes);

 private:
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
  ScopedFd fd_;  // of one that may grow
};

}  // namespace forebay::sys

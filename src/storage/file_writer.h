// Writes a file under a temporary name in its own folder and renames it when it is whole.
//
// kDirect: large appends that lie aligned go past the page cache, the rest through it.
// One thread at a time. The Folder must outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "storage/aligned_buffer.h"
#include "storage/folder.h"
#include "storage/store.h"
#include "sys/file.h"

namespace forebay::storage {

class FileWriter final : public Writer {
 public:
  // `part` and `path` are relative to the folder `root_fd`; `part` is open and empty.
  FileWriter(Folder& folder, int root_fd, sys::ScopedFd file, std::string part, std::string path,
             Caching caching);
  ~FileWriter() override;

  Status append(std::span<const std::byte> bytes) override;
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override;
  Status sync() override;
  Status publish() override;

 private:
  Status flush();
  Status write(std::span<const std::byte> bytes, uint64_t offset);
  // Bytes of the front that went past the page cache; what is left goes through it.
  Result<size_t> write_direct(std::span<const std::byte> bytes, uint64_t offset);
  Error write_error(int error_number);
  Status usable() const;
  // Remembers that the writer is unusable and removes its file.
  Error give_up(Error error);

  Folder& folder_;
  const int root_fd_;
  sys::ScopedFd file_;
  const std::string part_;
  const std::string path_;
  AlignedBuffer buffer_;  // gathers small appends
  size_t buffered_ = 0;
  uint64_t written_ = 0;    // bytes handed to the kernel by append
  bool is_direct_ = false;  // the file system has not refused
  bool is_synced_ = false;  // nothing was written since the last sync
  bool is_published_ = false;
  std::optional<Error> failure_;
};

}  // namespace forebay::storage

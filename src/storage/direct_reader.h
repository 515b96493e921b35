// Reads files for one thread of a pool past the page cache (O_DIRECT): any offset, any length.
#pragma once

#include <cstdint>

#include "storage/aligned_buffer.h"
#include "storage/folder.h"
#include "storage/pool_queue.h"

namespace forebay::storage {

// Offsets, lengths and addresses that every device with 512-byte or 4-KiB sectors takes.
constexpr uint64_t kDirectAlignBytes = 4096;

class DirectReader final : public ReadWorker {
 public:
  // `piece_bytes` is a multiple of kDirectAlignBytes. The folder hears of files that refuse.
  DirectReader(Folder& folder, size_t piece_bytes) : folder_(folder), piece_bytes_(piece_bytes) {}

  void perform(const Read& read, Completion& out) override;

 private:
  // 0 or the errno that ended it.
  int transfer(int fd, const Read& read, Completion& out);

  Folder& folder_;
  const size_t piece_bytes_;
  AlignedBuffer scratch_;
};

}  // namespace forebay::storage

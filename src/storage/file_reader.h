// Reads files for one thread of a pool, through the page cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/aligned_buffer.h"
#include "storage/folder.h"
#include "storage/pool_queue.h"

namespace forebay::storage {

class FileReader final : public ReadWorker {
 public:
  // Pieces of `piece_bytes` are what a visitor sees; they should fit the core's own cache.
  FileReader(Folder& folder, size_t piece_bytes) : folder_(folder), piece_bytes_(piece_bytes) {}

  void perform(const Read& read, Completion& out) override;

 private:
  // 0 or the errno that ended it. Goes on where an earlier try stopped: out.bytes are delivered.
  int transfer(int fd, const Read& read, Completion& out);
  int64_t read_piece(int fd, const Read& read, uint64_t done, size_t size, bool asks_for_more,
                     std::span<const std::byte>& piece);
  // True when `error_number` may go away by opening the file again and no byte would be seen twice.
  bool may_retry(int error_number, int tries, const Read& read, Completion& out) const;

  Folder& folder_;
  const size_t piece_bytes_;
  AlignedBuffer scratch_;
};

}  // namespace forebay::storage

// The members of a tar archive: ustar, GNU long names, PAX records; both are read as Python's
// tarfile reads them.
//
// One thread at a time. Every length is compared with the archive before it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "formats/byte_source.h"

namespace forebay::formats {

constexpr uint64_t kTarBlockBytes = 512;

constexpr uint64_t tar_padded(uint64_t bytes) {
  return (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

struct TarMember {
  enum class Kind { kFile, kFolder, kOther };
  Kind kind = Kind::kFile;
  std::string path;
  std::string_view what = "a file";  // "a symbolic link", "a sparse file"
  uint64_t header_offset = 0;        // of its first header, extended ones included
  uint64_t data_offset = 0, bytes = 0;
  uint64_t end_offset = 0;  // behind its data and their padding
};

// How headers are read: many at once, or behind a large member one by one.
struct TarWindows {
  uint64_t bytes = 256 * 1024;
  uint64_t large_member_bytes = 64 * 1024;
};

class TarWalker {
 public:
  // Starts at byte `first`.
  explicit TarWalker(ByteSource& source, TarWindows windows = {}, uint64_t first = 0)
      : source_(source), windows_(windows), at_(first) {}

  // Nothing after the last member. kCorruption with the byte for a damaged or cut archive, naming
  // the member when it is known: damaged_path().
  Result<std::optional<TarMember>> next();

  // After the last member: the blocks of zeros were there.
  bool has_end() const { return has_end_; }
  uint64_t offset() const { return at_; }
  const std::string& damaged_path() const { return damaged_path_; }

 private:
  // What extended headers say of the member behind them.
  struct Extended {
    std::optional<std::string> path;
    std::optional<uint64_t> bytes;
    bool is_sparse = false;
  };
  Result<std::span<const std::byte>> window(uint64_t offset, uint64_t bytes);
  Result<std::string> read_extension(uint64_t bytes);
  Status parse_pax(std::string_view text, bool is_global, Extended& extended) const;
  Status skip_sparse_map(std::span<const std::byte> header);

  ByteSource& source_;
  const TarWindows windows_;
  uint64_t at_;
  uint64_t last_bytes_ = 0;  // of the member before
  bool has_end_ = false;
  std::string damaged_path_;
  std::span<const std::byte> window_;
  uint64_t window_offset_ = 0;
};

// A ustar header; sizes of 8 GiB and more as GNU tar writes them. kInvalidArgument for a path of
// more than 100 bytes.
Result<std::array<std::byte, kTarBlockBytes>> make_tar_header(std::string_view path,
                                                              uint64_t bytes);

}  // namespace forebay::formats

#include "storage/changed.h"

#include "base/error.h"

namespace forebay::storage {

Error changed_error(const Read& read, uint64_t size_now) {
  const uint64_t end = read.offset + read.length;
  if (read.to_end) {
    return fail(ErrorCode::kCorruption, "{}: changed since it was indexed: was {} bytes, is now {}",
                read.path, end, size_now);
  }
  return fail(ErrorCode::kCorruption,
              "{}: changed since it was indexed: had bytes {} to {}, is now {} bytes long",
              read.path, read.offset, end, size_now);
}

bool is_inside(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  for (size_t at = path.find(".."); at != std::string_view::npos; at = path.find("..", at + 1)) {
    const bool starts = at == 0 || path[at - 1] == '/';
    const bool ends = at + 2 == path.size() || path[at + 2] == '/';
    if (starts && ends) return false;
  }
  return true;
}

Error outside_error(std::string_view path) {
  return fail(ErrorCode::kInvalidArgument,
              "'{}': paths in a store are relative to its root and stay below it", path);
}

}  // namespace forebay::storage

// Which members of a tar archive make a sample, and where the samples lie.
//
// Samples are runs of neighbouring members whose paths agree up to the first dot of their last
// part, as the library WebDataset groups them. Functions are safe to call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "formats/byte_source.h"
#include "formats/format.h"
#include "formats/tar.h"

namespace forebay::formats {

// "a/b/0001.seg.png" -> key "a/b/0001", part "seg.png" (in lower case).
struct TarSampleName {
  std::string_view key;
  std::string part;
};
// Nothing for names without a dot, hidden files and WebDataset's own "__name__/..." members.
std::optional<TarSampleName> split_tar_path(std::string_view path);
// Whether a member belongs to a sample.
std::optional<TarSampleName> sample_name(const TarMember& member);

// The samples of a plain archive, an extent each, headers included. Damage ends them, and so does a
// cut, which the missing end of the archive gives away: whole samples before it count, and `damage`
// says what was found. kCorruption when there is none.
Result<FileIndex> index_tar(ByteSource& source, TarWindows windows = {});
// How many there are in a gzip file of one; kCorruption for any damage.
Result<FileIndex> index_tar_gz(ByteSource& source);

}  // namespace forebay::formats

// Reads the samples of a file part by part, as a loader does; for tests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/format.h"
#include "formats/testing_store.h"

namespace forebay::formats {

// Every sample of `path`, in the form of the golden .samples files: "SAMPLE PART HEX" lines, parts
// sorted. The parts named in `without` are left out.
inline Result<std::string> dump_samples(const Format& format, TestingStore& store,
                                        const std::string& path, const FormatOptions& options,
                                        std::string_view without = "") {
  const storage::FileInfo info = FB_TRY(store.stat(path));
  const FileIndex index = FB_TRY(format.index(store, info, options));
  const auto reader = format.make_reader(options);
  const std::span<const std::byte> bytes = store.get(path);
  std::string text;
  std::vector<Part> parts;
  const auto dump = [&](uint64_t sample) {
    std::vector<std::string> lines;
    for (const Part& part : parts) {
      if (part.name == without) continue;
      std::string line = fmt::format("{} {} ", sample, part.name);
      constexpr std::string_view kDigits = "0123456789abcdef";
      for (const std::byte byte : part.record.bytes) {
        line += kDigits[static_cast<size_t>(byte >> 4)];
        line += kDigits[static_cast<size_t>(byte & std::byte{15})];
      }
      lines.push_back(line + "\n");
    }
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) text += line;
  };
  for (const Block& block : index.blocks) {
    std::vector<std::byte> joined;
    for (const Extent& extent : block.extents) {
      const auto piece = bytes.subspan(extent.offset, extent.length);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    const auto decoded = FB_TRY(reader->decode_block(path, joined, index, block));
    for (uint64_t i = 0; i < block.sample_count; ++i) {
      FB_TRY(decoded->parts_at(i, parts));
      dump(block.first_sample + i);
    }
  }
  for (uint64_t i = 0; index.blocks.empty() && i < index.sample_count; ++i) {
    auto part = bytes;
    if (index.access == Access::kExtents)
      part = bytes.subspan(index.extents[i].offset, index.extents[i].length);
    FB_TRY(reader->read_parts(path, part, index, i, parts));
    dump(i);
  }
  return text;
}

}  // namespace forebay::formats

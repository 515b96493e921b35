// What a data set is remembered by: a cache that is taken lies in its files and can be gone
// through.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/crc.h"
#include "dataset/index_cache.h"
#include "dataset/index_cache_file.h"
#include "dataset/layout_check.h"
#include "dataset/sample_table.h"
#include "targets.h"

namespace forebay::fuzz {

using namespace dataset;  // NOLINT(google-build-using-namespace): all of this file is about it

namespace {

using Bytes = std::vector<std::byte>;

template <class T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Makes the checksum at `at` right for what is before it.
void seal(std::span<std::byte> bytes, size_t at) {
  const uint32_t crc = base::crc32c(0, bytes.first(at));
  std::memcpy(bytes.data() + at, &crc, sizeof crc);
}

// Every sample of a layout is inside its file, and is found where the layout has it.
void go_through(const formats::FileIndex& layout, uint64_t file_bytes) {
  FB_CHECK(check_layout(layout, file_bytes).ok());
  SampleTable samples;
  const uint32_t number = samples.intern(layout);
  if (!samples.assign({number, number}).ok()) return;
  FB_CHECK(samples.sample_count() == 2 * layout.sample_count);
  for (uint64_t i = 0; i < std::min<uint64_t>(layout.sample_count, 20); ++i) {
    const SampleTable::Place place = samples.find(layout.sample_count + i);
    FB_CHECK(place.file == 1 && place.sample_in_file == i);
    if (layout.access == formats::Access::kExtents) {
      const formats::Extent extent = layout.extents[i];
      FB_CHECK(extent.offset <= file_bytes && extent.length <= file_bytes - extent.offset);
    } else if (layout.access == formats::Access::kBlocks) {
      const SampleTable::BlockPlace block = samples.find_block(place);
      FB_CHECK(block.block < layout.blocks.size());
      FB_CHECK(block.sample_in_block < layout.blocks[block.block].sample_count);
    }
  }
}

// The files a cache tells of, from the end of it: sizes, times, lengths of paths; then the paths.
void look_up_files(const IndexCache& cache, std::span<const std::byte> bytes) {
  constexpr size_t kFilesAt = 16, kPathBytesAt = 32, kRecordBytes = 32, kCrcBytes = 4;
  const auto files = load<uint64_t>(bytes, kFilesAt);
  size_t path = bytes.size() - kCrcBytes - load<uint64_t>(bytes, kPathBytesAt);
  size_t record = path - files * kRecordBytes;
  for (uint64_t i = 0; i < files; ++i, record += kRecordBytes) {
    const auto length = load<uint32_t>(bytes, record + 28);
    const std::string name(reinterpret_cast<const char*>(bytes.data()) + path, length);
    path += length;
    const storage::FileInfo file{name, load<uint64_t>(bytes, record),
                                 load<int64_t>(bytes, record + 8)};
    if (i >= 20) continue;
    const formats::FileIndex* layout = cache.find(file, load<uint64_t>(bytes, record + 16));
    if (layout != nullptr) go_through(*layout, file.size);
  }
}

void decode_sealed(std::span<const std::byte> bytes) {
  IndexCache::decode(bytes, 0).ignore("any verdict is right");
  if (bytes.size() < 12) return;
  Bytes sealed(bytes.begin(), bytes.end());
  seal(sealed, sealed.size() - 4);
  const auto cache = IndexCache::decode(sealed, load<uint64_t>(sealed, 8));
  if (!cache.ok()) return FB_CHECK(!cache.error().message.empty());
  look_up_files(*cache, sealed);
}

}  // namespace

// A file of caches. Checksums would stop every change that a fuzzer makes: they are put right
// first.
void fuzz_index_cache(std::span<const std::byte> bytes) {
  constexpr size_t kHeadBytes = 16, kEntryBytes = 24, kSetsMax = 16;
  split_cache_file(bytes).ignore("any verdict is right");
  Bytes file(bytes.begin(), bytes.end());
  const size_t head =
      kHeadBytes + std::min<uint64_t>(load<uint64_t>(file, 8), kSetsMax) * kEntryBytes;
  if (head + 4 > file.size()) return;
  seal(file, head);
  const auto sets = split_cache_file(file);
  if (!sets.ok()) return FB_CHECK(!sets.error().message.empty());
  for (const CachedDataSet& set : *sets) decode_sealed(set.cache);
  if (sets->empty()) return;
  const Bytes again = join_cache_file(sets->front(), std::span(*sets).subspan(1));
  const auto second = split_cache_file(again);
  FB_CHECK(second.ok() && !second->empty() && second->size() <= sets->size());
  FB_CHECK(second->front().key == sets->front().key &&
           std::ranges::equal(second->front().cache, sets->front().cache));
}

}  // namespace forebay::fuzz

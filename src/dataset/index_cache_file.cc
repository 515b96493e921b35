#include "dataset/index_cache_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/crc.h"
#include "base/error.h"

namespace forebay::dataset {
namespace {

constexpr std::string_view kMagic = "FBINDEXS";
constexpr size_t kDataSetsMax = 16;
constexpr size_t kHeadBytes = 16, kEntryBytes = 24, kCrcBytes = 4;

template <class T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

Result<std::vector<CachedDataSet>> split_cache_file(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::kCorruption, "not an index cache");
  const auto count = load<uint64_t>(bytes, kMagic.size());
  const size_t head = kHeadBytes + std::min<uint64_t>(count, kDataSetsMax) * kEntryBytes;
  if (count > kDataSetsMax || bytes.size() < head + kCrcBytes ||
      load<uint32_t>(bytes, head) != base::crc32c(0, bytes.first(head)))
    return fail(ErrorCode::kCorruption, "damaged: the checksum of its head is wrong");
  std::vector<CachedDataSet> sets;
  auto rest = bytes.subspan(head + kCrcBytes);
  for (size_t at = kHeadBytes; at < head; at += kEntryBytes) {
    const auto length = load<uint64_t>(bytes, at + 16);
    if (length > rest.size()) return fail(ErrorCode::kCorruption, "cut short");
    sets.push_back({load<uint64_t>(bytes, at), load<uint64_t>(bytes, at + 8), rest.first(length)});
    rest = rest.subspan(length);
  }
  return sets;
}

std::vector<std::byte> join_cache_file(const CachedDataSet& newest,
                                       std::span<const CachedDataSet> others) {
  std::vector<CachedDataSet> sets{newest};
  for (const CachedDataSet& other : others)
    if (other.key != newest.key && sets.size() < kDataSetsMax) sets.push_back(other);
  std::vector<std::byte> out;
  const auto magic = std::as_bytes(std::span(kMagic));
  out.insert(out.end(), magic.begin(), magic.end());
  append(out, uint64_t{sets.size()});
  for (const CachedDataSet& set : sets) {
    append(out, set.key);
    append(out, set.options_key);
    append(out, uint64_t{set.cache.size()});
  }
  append(out, base::crc32c(0, out));
  for (const CachedDataSet& set : sets) out.insert(out.end(), set.cache.begin(), set.cache.end());
  return out;
}

}  // namespace forebay::dataset

#include "dataset/index_cache.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/crc.h"
#include "base/error.h"
#include "dataset/layout_check.h"

namespace forebay::dataset {
namespace {

static_assert(std::endian::native == std::endian::little, "the cache is written as memory has it");

constexpr std::string_view kMagic = "FBINDEX6";
constexpr size_t kCrcBytes = 4;
constexpr size_t kExtentBytes = 16, kBlockBytes = 16, kLayoutBytes = 44, kFileBytes = 32;

class Sink {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T>);
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(out_); }
  std::span<const std::byte> view() const { return out_; }

 private:
  std::vector<std::byte> out_;
};

// Reads integers until the end; past it, everything is 0 and ok() is false.
class Source {
 public:
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    T value = 0;
    const std::span<const std::byte> taken = take(sizeof(T));
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take(uint64_t count) {
    if (count > left()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }
  // Whether `count` items of `item_bytes` can still follow: asked before memory is reserved.
  bool holds(uint64_t count, size_t item_bytes) const { return count <= left() / item_bytes; }

  bool ok() const { return ok_; }
  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
  bool ok_ = true;
};

Error damaged(const Source& source, std::string_view what) {
  return fail(ErrorCode::kCorruption, "damaged at byte {}: {}", source.offset(), what);
}

Result<std::vector<formats::Extent>> decode_extents(Source& source, uint64_t count) {
  if (!source.ok() || !source.holds(count, kExtentBytes)) return damaged(source, "cut short");
  std::vector<formats::Extent> extents;
  extents.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    formats::Extent extent;
    extent.offset = source.get<uint64_t>();
    extent.length = source.get<uint64_t>();
    extents.push_back(extent);
  }
  return extents;
}

Result<formats::ExtentList> decode_extent_list(Source& source, uint64_t count, uint8_t form) {
  if (form > 1 || (form == 1 && count == 0)) return damaged(source, "unknown kind of extents");
  if (form == 1) {
    const auto stride = source.get<uint64_t>();
    const std::vector<formats::Extent> first = FB_TRY(decode_extents(source, 1));
    return formats::ExtentList::even(first.front(), stride, count);
  }
  const std::vector<formats::Extent> each = FB_TRY(decode_extents(source, count));
  formats::ExtentList list;
  for (const formats::Extent& extent : each) list.push_back(extent);
  return list;
}

Result<formats::ArrayLayout> decode_array(Source& source) {
  formats::ArrayLayout array;
  const auto type = source.get<uint8_t>(), order = source.get<uint8_t>();
  const auto dimensions = source.get<uint64_t>();
  if (!source.ok() || !source.holds(dimensions, sizeof(uint64_t)))
    return damaged(source, "cut short");
  if (type > static_cast<uint8_t>(formats::ElementType::kC128) || order > 3)
    return damaged(source, "unknown kind of array");
  array.type = static_cast<formats::ElementType>(type);
  array.is_big_endian = (order & 1) != 0;
  array.is_fortran_order = (order & 2) != 0;
  for (uint64_t i = 0; i < dimensions; ++i) array.shape.push_back(source.get<uint64_t>());
  return array;
}

Result<std::vector<formats::Block>> decode_blocks(Source& source, uint64_t count) {
  if (!source.holds(count, kBlockBytes)) return damaged(source, "cut short");
  std::vector<formats::Block> blocks;
  blocks.reserve(count);
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    formats::Block block;
    block.first_sample = next;
    block.sample_count = source.get<uint64_t>();
    next += block.sample_count;  // a sum that wraps does not match the samples: check_layout()
    block.extents = FB_TRY(decode_extents(source, source.get<uint64_t>()));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::string decode_text(Source& source) {
  const auto text = source.take(source.get<uint64_t>());
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Result<formats::FileIndex> decode_layout(Source& source) {
  formats::FileIndex layout;
  const auto access = source.get<uint8_t>();
  layout.sample_count = source.get<uint64_t>();
  const auto extents = source.get<uint64_t>(), blocks = source.get<uint64_t>();
  const auto detail_bytes = source.get<uint64_t>(), problems = source.get<uint64_t>();
  const auto has_array = source.get<uint8_t>(), has_stride = source.get<uint8_t>();
  if (!source.ok()) return damaged(source, "cut short");
  if (access > static_cast<uint8_t>(formats::Access::kBlocks))
    return damaged(source, "unknown way to reach samples");
  layout.access = static_cast<formats::Access>(access);
  layout.extents = FB_TRY(decode_extent_list(source, extents, has_stride));
  if (has_array > 1) return damaged(source, "unknown kind of array");
  if (has_array == 1) layout.extent_array = FB_TRY(decode_array(source));
  layout.blocks = FB_TRY(decode_blocks(source, blocks));
  const auto detail = source.take(detail_bytes);
  if (!source.ok()) return damaged(source, "cut short");
  layout.detail.assign(reinterpret_cast<const char*>(detail.data()), detail.size());
  if (!source.holds(problems, sizeof(uint64_t))) return damaged(source, "cut short");
  for (uint64_t i = 0; i < problems; ++i) layout.problems.push_back(decode_text(source));
  const auto has_damage = source.get<uint8_t>();
  if (has_damage > 1) return damaged(source, "unknown kind of damage");
  if (has_damage == 1) {
    const auto offset = source.get<uint64_t>();
    layout.damage = formats::FileDamage{offset, decode_text(source)};
  }
  if (!source.ok()) return damaged(source, "cut short");
  return layout;
}

void encode_extents(Sink& sink, const std::vector<formats::Extent>& extents) {
  for (const formats::Extent& extent : extents) {
    sink.put(extent.offset);
    sink.put(extent.length);
  }
}

void encode_extent_list(Sink& sink, const formats::ExtentList& extents) {
  const bool has_stride = extents.is_even() && !extents.empty();
  if (has_stride) sink.put(extents.stride());
  const uint64_t count = has_stride ? 1 : extents.size();
  for (uint64_t i = 0; i < count; ++i) {
    sink.put(extents[i].offset);
    sink.put(extents[i].length);
  }
}

void encode_text(Sink& sink, const std::string& text) {
  sink.put(uint64_t{text.size()});
  sink.put_bytes(std::as_bytes(std::span(text)));
}

void encode_layout(Sink& sink, const formats::FileIndex& layout) {
  sink.put(static_cast<uint8_t>(layout.access));
  sink.put(layout.sample_count);
  sink.put(uint64_t{layout.extents.size()});
  sink.put(uint64_t{layout.blocks.size()});
  sink.put(uint64_t{layout.detail.size()});
  sink.put(uint64_t{layout.problems.size()});
  sink.put(static_cast<uint8_t>(layout.extent_array ? 1 : 0));
  sink.put(static_cast<uint8_t>(layout.extents.is_even() && !layout.extents.empty() ? 1 : 0));
  encode_extent_list(sink, layout.extents);
  if (layout.extent_array) {
    const formats::ArrayLayout& array = *layout.extent_array;
    sink.put(static_cast<uint8_t>(array.type));
    sink.put(
        static_cast<uint8_t>((array.is_big_endian ? 1 : 0) + (array.is_fortran_order ? 2 : 0)));
    sink.put(uint64_t{array.shape.size()});
    for (const uint64_t side : array.shape) sink.put(side);
  }
  for (const formats::Block& block : layout.blocks) {
    sink.put(block.sample_count);
    sink.put(uint64_t{block.extents.size()});
    encode_extents(sink, block.extents);
  }
  sink.put_bytes(std::as_bytes(std::span(layout.detail)));
  for (const std::string& problem : layout.problems) encode_text(sink, problem);
  sink.put(static_cast<uint8_t>(layout.damage ? 1 : 0));
  if (!layout.damage) return;
  sink.put(layout.damage->offset);
  encode_text(sink, layout.damage->what);
}

}  // namespace

std::vector<std::byte> IndexCache::encode(const FileTable& files, const SampleTable& samples,
                                          uint64_t options_key) {
  Sink sink;
  sink.put_bytes(std::as_bytes(std::span(kMagic)));
  sink.put(options_key);
  sink.put(files.count());
  sink.put(uint64_t{samples.layout_count()});
  uint64_t path_bytes = 0;
  for (uint64_t i = 0; i < files.count(); ++i) path_bytes += files.path(i).size();
  sink.put(path_bytes);
  for (uint32_t number = 0; number < samples.layout_count(); ++number)
    encode_layout(sink, samples.layout(number));
  for (uint64_t i = 0; i < files.count(); ++i) {
    sink.put(files.bytes(i));
    sink.put(files.mtime_ns(i));
    sink.put(files.side_key(i));
    sink.put(samples.layout_of(i));
    sink.put(static_cast<uint32_t>(files.path(i).size()));
  }
  for (uint64_t i = 0; i < files.count(); ++i)
    sink.put_bytes(std::as_bytes(std::span(files.path(i))));
  sink.put(base::crc32c(0, sink.view()));
  return sink.take();
}

Result<IndexCache> IndexCache::decode(std::span<const std::byte> bytes, uint64_t options_key) {
  if (bytes.size() < kMagic.size() + kCrcBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::kCorruption, "not an index cache");
  const auto body = bytes.first(bytes.size() - kCrcBytes);
  if (Source(bytes.last(kCrcBytes)).get<uint32_t>() != base::crc32c(0, body))
    return fail(ErrorCode::kCorruption, "damaged: its checksum is wrong");

  Source source(body);
  source.take(kMagic.size());
  if (source.get<uint64_t>() != options_key)
    return fail(ErrorCode::kCorruption, "made for another data set or other options");
  const auto files = source.get<uint64_t>(), layouts = source.get<uint64_t>();
  const auto path_bytes = source.get<uint64_t>();
  if (!source.ok() || !source.holds(layouts, kLayoutBytes)) return damaged(source, "cut short");

  IndexCache cache;
  cache.layouts_.reserve(layouts);
  for (uint64_t i = 0; i < layouts; ++i) cache.layouts_.push_back(FB_TRY(decode_layout(source)));
  if (!source.holds(files, kFileBytes)) return damaged(source, "cut short");
  Source records(source.take(files * kFileBytes));
  if (source.left() != path_bytes) return damaged(source, "paths of another length");

  cache.files_.reserve(files);
  for (uint64_t i = 0; i < files; ++i) {
    File file;
    file.size = records.get<uint64_t>();
    file.mtime_ns = records.get<int64_t>();
    file.side_key = records.get<uint64_t>();
    file.layout = records.get<uint32_t>();
    const auto path = source.take(records.get<uint32_t>());
    if (!source.ok()) return damaged(source, "paths cut short");
    if (file.layout >= layouts) return damaged(source, "unknown layout");
    if (const Status fits = check_layout(cache.layouts_[file.layout], file.size); !fits.ok())
      return damaged(source, fits.error().message);
    cache.files_.emplace(std::string(reinterpret_cast<const char*>(path.data()), path.size()),
                         file);
  }
  if (source.left() != 0) return damaged(source, "bytes behind the last path");
  return cache;
}

const formats::FileIndex* IndexCache::find(const storage::FileInfo& file, uint64_t side_key) const {
  if (file.mtime_ns == 0 || side_key == FileTable::kSidesUnknown) return nullptr;
  const auto found = files_.find(file.path);
  if (found == files_.end()) return nullptr;
  const File& known = found->second;
  const bool is_same =
      known.size == file.size && known.mtime_ns == file.mtime_ns && known.side_key == side_key;
  return is_same ? &layouts_[known.layout] : nullptr;
}

}  // namespace forebay::dataset

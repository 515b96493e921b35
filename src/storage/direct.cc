// Files past the page cache: what the device can do, whatever is cached.
#include <algorithm>

#include "storage/direct_reader.h"
#include "storage/folder_store.h"
#include "storage/options.h"
#include "storage/pool_queue.h"

namespace forebay::storage {
namespace {

constexpr int kDepthMax = 1024;  // threads of one queue

constexpr StoreOption kOptions[] = {
    {"piece", "bytes, 4KiB..64MiB, a multiple of 4096", "1MiB", "most bytes of one request"},
};

class DirectStore final : public FolderStore {
 public:
  DirectStore(std::unique_ptr<Folder> folder, size_t piece_bytes)
      : FolderStore("direct", std::move(folder)), piece_bytes_(piece_bytes) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = kDepthMax;
    out.alignment = kDirectAlignBytes;
    out.can_sync = true;
    out.can_patch = true;
    out.can_rename = true;
    out.can_link = true;
    out.is_local = true;
    out.fallback_reason = folder().direct_refusal();
    return out;
  }

  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    return folder().create(path, Caching::kDirect);
  }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    options.depth = std::clamp(options.depth, 1, kDepthMax);
    options.depth_max = std::clamp(options.depth_max, 0, kDepthMax);
    return PoolQueue::open(
        options, [this] { return std::make_unique<DirectReader>(folder(), piece_bytes_); });
  }

 private:
  const size_t piece_bytes_;
};

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("direct", kOptions, values));
  const uint64_t piece = FB_TRY(options.bytes("piece", kDirectAlignBytes, 64 << 20));
  std::unique_ptr<Folder> folder = FB_TRY(Folder::open(root));
  const uint64_t whole = piece / kDirectAlignBytes * kDirectAlignBytes;
  return std::unique_ptr<Store>(std::make_unique<DirectStore>(std::move(folder), whole));
}

}  // namespace

extern const Driver kDirect;
const Driver kDirect{
    .name = "direct",
    .summary = "files past the page cache (O_DIRECT), one thread per read in flight",
    .options = kOptions,
    .open = open};

}  // namespace forebay::storage

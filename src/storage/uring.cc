// Files through io_uring: many requests in flight from one thread. Stands on `local` where the
// kernel refuses.
#include <algorithm>

#include "storage/direct_reader.h"
#include "storage/file_reader.h"
#include "storage/folder_store.h"
#include "storage/options.h"
#include "storage/pool_queue.h"
#include "storage/uring_queue.h"

namespace forebay::storage {
namespace {

constexpr int kDepthMax = 4096;
constexpr int kThreadsMax = 1024;               // when it falls back to threads
constexpr uint64_t kMemoryBytesMax = 32 << 20;  // scratch of one queue, all slots together

constexpr StoreOption kOptions[] = {
    {"piece", "bytes, 4KiB..16MiB, a multiple of 4096", "128KiB", "most bytes of one request"},
    {"direct", "true or false", "false", "past the page cache (O_DIRECT)"},
};

class UringStore final : public FolderStore {
 public:
  UringStore(std::unique_ptr<Folder> folder, const UringOptions& options, std::string refusal)
      : FolderStore("uring", std::move(folder)), options_(options), refusal_(std::move(refusal)) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = refusal_.empty() ? kDepthMax : kThreadsMax;
    out.alignment = options_.is_direct ? kDirectAlignBytes : 1;
    out.can_sync = true;
    out.can_patch = true;
    out.can_rename = true;
    out.can_link = true;
    out.is_local = true;
    const std::string also = folder().direct_refusal();
    out.fallback_reason = refusal_ + (refusal_.empty() || also.empty() ? "" : "; ") + also;
    return out;
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    if (!refusal_.empty()) return open_threads(options);
    UringOptions mine = options_;
    const int depth = std::clamp(options.depth, 1, kDepthMax);
    mine.depth = std::clamp(options.depth_max, depth, kDepthMax);
    const uint64_t share = kMemoryBytesMax / static_cast<uint64_t>(mine.depth);
    mine.piece_bytes = std::max<size_t>(
        kPageBytes, std::min<uint64_t>(mine.piece_bytes, share) / kPageBytes * kPageBytes);
    std::unique_ptr<sys::Ring> ring = FB_TRY(sys::Ring::open(static_cast<unsigned>(mine.depth)));
    auto queue = std::make_unique<UringQueue>(folder(), std::move(ring), mine);
    queue->set_depth(depth);
    return std::unique_ptr<ReadQueue>(std::move(queue));
  }

 private:
  Result<std::unique_ptr<ReadQueue>> open_threads(QueueOptions options) {
    options.depth = std::clamp(options.depth, 1, kThreadsMax);
    options.depth_max = std::clamp(options.depth_max, 0, kThreadsMax);
    return PoolQueue::open(options, [this]() -> std::unique_ptr<ReadWorker> {
      if (!options_.is_direct) {
        return std::make_unique<FileReader>(folder(), options_.piece_bytes);
      }
      return std::make_unique<DirectReader>(folder(), options_.piece_bytes);
    });
  }

  const UringOptions options_;
  const std::string refusal_;
};

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("uring", kOptions, values));
  UringOptions mine;
  mine.piece_bytes = FB_TRY(options.bytes("piece", kPageBytes, 16 << 20)) / kPageBytes * kPageBytes;
  mine.is_direct = FB_TRY(options.flag("direct"));
  std::unique_ptr<Folder> folder = FB_TRY(Folder::open(root));
  // Asked once, with the smallest ring, so that capabilities are known before the first queue.
  const auto probe = sys::Ring::open(1);
  if (!probe.ok() && probe.error().code != ErrorCode::kUnsupported) return probe.error();
  return std::unique_ptr<Store>(std::make_unique<UringStore>(
      std::move(folder), mine,
      probe.ok() ? "" : probe.error().message + "; threads with pread stand in (local)"));
}

}  // namespace

extern const Driver kUring;
const Driver kUring{.name = "uring",
                    .summary = "files through io_uring, many requests in flight from one thread",
                    .options = kOptions,
                    .open = open};

}  // namespace forebay::storage

// Files through the page cache, read by a pool of threads.
#include <algorithm>

#include "storage/file_reader.h"
#include "storage/folder_store.h"
#include "storage/options.h"
#include "storage/pool_queue.h"

namespace forebay::storage {
namespace {

constexpr int kDepthMax = 1024;  // threads of one queue

constexpr StoreOption kOptions[] = {
    {"piece", "bytes, 4KiB..64MiB", "256KiB",
     "bytes read at once when they are only looked at; should fit a core's own cache"},
};

class LocalStore final : public FolderStore {
 public:
  LocalStore(std::unique_ptr<Folder> folder, size_t piece_bytes)
      : FolderStore("local", std::move(folder)), piece_bytes_(piece_bytes) {}

  Capabilities capabilities() const override {
    Capabilities out;
    out.in_flight_max = kDepthMax;
    out.can_sync = true;
    out.can_patch = true;
    out.can_rename = true;
    out.can_link = true;
    out.is_local = true;
    return out;
  }

  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    options.depth = std::clamp(options.depth, 1, kDepthMax);
    options.depth_max = std::clamp(options.depth_max, 0, kDepthMax);
    return PoolQueue::open(options,
                           [this] { return std::make_unique<FileReader>(folder(), piece_bytes_); });
  }

 private:
  const size_t piece_bytes_;
};

Result<std::unique_ptr<Store>> open(std::string_view root, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("local", kOptions, values));
  const uint64_t piece = FB_TRY(options.bytes("piece", 4096, 64 << 20));
  std::unique_ptr<Folder> folder = FB_TRY(Folder::open(root));
  return std::unique_ptr<Store>(std::make_unique<LocalStore>(std::move(folder), piece));
}

}  // namespace

extern const Driver kLocal;
const Driver kLocal{.name = "local",
                    .summary = "files through the page cache, one thread per read in flight",
                    .options = kOptions,
                    .open = open};

}  // namespace forebay::storage

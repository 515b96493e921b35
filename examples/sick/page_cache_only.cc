// ILLNESS: the speed seen is the page cache's.
// The data set fits in memory and lies there; each epoch is served from it and nothing waits. The
// figures look excellent and say nothing about the storage: with ten times the data, or on another
// host, the same program starves.
// THE RIGHT DIAGNOSIS: page-cache-only, a warning about the measurement.
// THE CURE: measure cold, with a data set larger than memory.
#include "training.h"

namespace {

constexpr size_t kShardBytes = 32 << 20;
constexpr size_t kBlockBytes = 1 << 20;
constexpr double kStepSeconds = 0.015;

void load(const std::string& path, sick::Queue& queue) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  sick::require(fd >= 0, path.c_str());
  for (size_t turn = 0;; ++turn) {
    sick::Batch batch;
    batch.bytes.resize(kBlockBytes);
    const auto at = static_cast<off_t>(turn * kBlockBytes % kShardBytes);
    sick::require(
        pread(fd, batch.bytes.data(), kBlockBytes, at) == static_cast<ssize_t>(kBlockBytes),
        "pread");
    batch.making.did(sick::Part::kFetch);
    if (!queue.push(std::move(batch))) break;
  }
  close(fd);
}

// An earlier run has left the data in memory.
void bring_to_memory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> block(kBlockBytes);
  while (read(fd, block.data(), block.size()) > 0) {
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  const std::string path = options.data + "/cached.bin";
  sick::make_file(path, kShardBytes);
  if (options.only_make_data) return 0;
  bring_to_memory(path);

  sick::Queue queue(2);
  sick::Model model;
  std::jthread loader([&] { load(path, queue); });
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::MarkedStep step;
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("page_cache_only");
}

// NO ILLNESS.
// Two loader threads read shards in large blocks from the disk itself and decode a little, well
// ahead of a training thread that computes nearly all the time. THE RIGHT DIAGNOSIS: healthy. No
// advice that promises a gain.
#include <memory>

#include "training.h"

namespace {

constexpr size_t kShardBytes = 64 << 20;
constexpr size_t kBlockBytes = 512 << 10;
constexpr int kWorkers = 2;
constexpr double kDecodeSeconds = 0.001;
constexpr double kStepSeconds = 0.020;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

void load(const std::string& path, uint32_t worker, sick::Queue& queue) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  sick::require(fd >= 0, "open with O_DIRECT");
  const std::unique_ptr<void, Free> block(std::aligned_alloc(4096, kBlockBytes));
  std::vector<float> decoded(4096);
  for (uint32_t turn = 0;; ++turn) {
    sick::Batch batch;
    const size_t at = (turn * kWorkers + worker) * kBlockBytes % kShardBytes;
    sick::require(pread(fd, block.get(), kBlockBytes, static_cast<off_t>(at)) ==
                      static_cast<ssize_t>(kBlockBytes),
                  "pread");
    batch.making.did(sick::Part::kFetch);
    const auto* bytes = static_cast<const char*>(block.get());
    batch.bytes.assign(bytes, bytes + kBlockBytes);
    sick::work_for(decoded, batch.bytes, kDecodeSeconds);
    batch.making.did(sick::Part::kPrep);
    if (!queue.push(std::move(batch))) break;
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  const std::string path = options.data + "/healthy.bin";
  sick::make_file(path, kShardBytes);
  if (options.only_make_data) return 0;

  sick::Queue queue(4);
  sick::Model model;
  std::vector<std::jthread> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&path, &queue, i] { load(path, i, queue); });
  }
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("healthy");
}

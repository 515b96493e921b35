// ILLNESS: the workers wait for one lock.
// Four loader threads share one decoder and hold its lock while they decode, so that one of them
// works at a time and the other three queue up. Reading and cropping, outside the lock, are quick.
// THE RIGHT DIAGNOSIS: lock-contention, prep stall most of the time.
// THE CURE: a decoder per worker. Hold a lock to hand something over, not to work.
#include "training.h"

namespace {

constexpr size_t kShardBytes = 8 << 20;
constexpr size_t kBatchBytes = 64 << 10;
constexpr int kWorkers = 4;
constexpr double kDecodeSeconds = 0.010;
constexpr double kCropSeconds = 0.0003;
constexpr double kStepSeconds = 0.002;

class Decoder {
 public:
  void decode(const std::vector<char>& bytes) {
    const std::lock_guard lock(mutex_);
    last_ = sick::work_for(state_, bytes, kDecodeSeconds);
  }

 private:
  std::mutex mutex_;
  std::vector<float> state_ = std::vector<float>(4096);
  volatile float last_ = 0;
};

void load(const std::string& path, uint32_t worker, Decoder& decoder, sick::Queue& queue) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  sick::require(fd >= 0, path.c_str());
  std::vector<float> cropped(4096);
  for (uint32_t turn = 0;; ++turn) {
    sick::Batch batch;
    batch.bytes.resize(kBatchBytes);
    const size_t at = (turn * kWorkers + worker) * kBatchBytes % kShardBytes;
    sick::require(pread(fd, batch.bytes.data(), kBatchBytes, static_cast<off_t>(at)) ==
                      static_cast<ssize_t>(kBatchBytes),
                  "pread");
    batch.making.did(sick::Part::kFetch);
    decoder.decode(batch.bytes);
    sick::work_for(cropped, batch.bytes, kCropSeconds);
    batch.making.did(sick::Part::kPrep);
    if (!queue.push(std::move(batch))) break;
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  const std::string path = options.data + "/shard.bin";
  sick::make_file(path, kShardBytes);
  if (options.only_make_data) return 0;

  sick::Queue queue(4);
  sick::Model model;
  Decoder decoder;
  std::vector<std::jthread> workers;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&path, &decoder, &queue, i] { load(path, i, decoder, queue); });
  }
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("lock_contention");
}

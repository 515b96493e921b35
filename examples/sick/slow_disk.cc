// ILLNESS: the disk is too slow for how it is used.
// Records of 4 KiB lie all over one large file, two readers fetch them past the page cache, and a
// step needs 512 of them. Training waits for reads; decoding costs nothing.
// THE RIGHT DIAGNOSIS: slow-disk, fetch stall most of the time.
// THE CURE: faster storage, or records packed in the order they are read in, so that one read of 2
// MiB brings a batch.
#include <memory>

#include "training.h"

namespace {

constexpr size_t kRecordBytes = 4096;
constexpr size_t kFileBytes = 256 << 20;
constexpr size_t kRecords = 512;  // a batch
constexpr double kStepSeconds = 0.002;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

void read_records(const std::string& path, uint64_t seed, sick::Queue& queue) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  sick::require(fd >= 0, "open with O_DIRECT");
  const std::unique_ptr<void, Free> record(std::aligned_alloc(kRecordBytes, kRecordBytes));
  for (bool is_open = true; is_open; ++seed) {
    sick::Batch batch;
    uint64_t state = seed * 7919;
    for (size_t i = 0; i < kRecords; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto at = static_cast<off_t>((state >> 33U) % (kFileBytes / kRecordBytes));
      const ssize_t got =
          pread(fd, record.get(), kRecordBytes, at * static_cast<off_t>(kRecordBytes));
      sick::require(got == static_cast<ssize_t>(kRecordBytes), "pread");
      const auto* bytes = static_cast<const char*>(record.get());
      batch.bytes.insert(batch.bytes.end(), bytes, bytes + 16);
    }
    batch.making.did(sick::Part::kFetch);
    is_open = queue.push(std::move(batch));
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  const std::string path = options.data + "/records.bin";
  sick::make_file(path, kFileBytes);
  if (options.only_make_data) return 0;

  sick::Queue queue(2);
  sick::Model model;
  std::vector<std::jthread> readers;
  for (uint64_t i = 0; i < 2; ++i) {
    readers.emplace_back([&path, &queue, i] { read_records(path, 1 + i * 1000, queue); });
  }
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("slow_disk");
}

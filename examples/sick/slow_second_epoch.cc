// ILLNESS: the second epoch, and all that follow, are slower than the first.
// The first epoch finds the whole data set in memory, where its download left it. Then another job
// on the host wants the memory (played by dropping the file's pages at each epoch's end), and from
// then on each record of 4 KiB comes from the disk. Steps are marked. THE RIGHT DIAGNOSIS:
// slow-later-epochs; what grew is fetch stall. THE CURE: keep a fixed part of the data in memory,
// or read it from storage that is fast enough; and do not believe the first epoch.
#include "training.h"

namespace {

constexpr size_t kRecordBytes = 4096;
constexpr uint32_t kRecords = 10240;
constexpr uint32_t kBatch = 256;
constexpr double kStepSeconds = 0.002;

void load(int fd, sick::Queue& queue) {
  bool is_open = true;
  for (uint64_t epoch = 0; is_open; ++epoch) {
    if (epoch > 0) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const std::vector<uint32_t> order = sick::shuffled(kRecords, epoch + 1);
    for (size_t first = 0; is_open && first < kRecords; first += kBatch) {
      sick::Batch batch;
      batch.bytes.resize(kBatch * kRecordBytes);
      for (size_t i = 0; i < kBatch; ++i) {
        const auto at = static_cast<off_t>(order[first + i]) * static_cast<off_t>(kRecordBytes);
        const ssize_t got = pread(fd, batch.bytes.data() + i * kRecordBytes, kRecordBytes, at);
        sick::require(got == static_cast<ssize_t>(kRecordBytes), "pread");
      }
      batch.making.did(sick::Part::kFetch);
      is_open = queue.push(std::move(batch));
    }
  }
}

// As if it had just been downloaded.
void bring_to_memory(int fd) {
  std::vector<char> block(1 << 20);
  for (off_t at = 0; pread(fd, block.data(), block.size(), at) > 0;) {
    at += static_cast<off_t>(block.size());
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  const std::string path = options.data + "/epoch.bin";
  sick::make_file(path, kRecords * kRecordBytes);
  if (options.only_make_data) return 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  sick::require(fd >= 0, path.c_str());
  bring_to_memory(fd);

  sick::Queue queue(2);
  sick::Model model;
  std::jthread loader([&] { load(fd, queue); });
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::MarkedStep step;
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("slow_second_epoch");
}

// ILLNESS: the data set is thousands of small files.
// Each sample is a file of 8 KiB of its own, opened, asked for its size, read and closed in
// shuffled order; nothing of it stays in memory. A step needs 400 of them: training waits for opens
// and first reads, while the disk could deliver many times as much. THE RIGHT DIAGNOSIS:
// small-files, fetch stall most of the time. THE CURE: pack the samples into shards of 100 MB and
// read those in order.
#include <memory>

#include "training.h"

namespace {

constexpr size_t kFileBytes = 8192;
constexpr uint32_t kFiles = 4000;
constexpr uint32_t kFilesOfFolder = 200;
constexpr uint32_t kBatch = 400;
constexpr double kStepSeconds = 0.003;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

std::string folder_of(const std::string& data, uint32_t sample) {
  return data + "/class-" + std::to_string(sample / kFilesOfFolder);
}
std::string path_of(const std::string& data, uint32_t sample) {
  return folder_of(data, sample) + "/" + std::to_string(sample) + ".sample";
}

void make_files(const std::string& data) {
  struct stat known {};
  if (stat(path_of(data, kFiles - 1).c_str(), &known) == 0) return;
  for (uint32_t sample = 0; sample < kFiles; ++sample) {
    mkdir(folder_of(data, sample).c_str(), 0777);
    const int fd = open(path_of(data, sample).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    sick::require(fd >= 0, "open");
    const std::vector<char> bytes(kFileBytes, static_cast<char>(sample));
    sick::require(write(fd, bytes.data(), bytes.size()) > 0, "write");
    close(fd);
  }
  sync();
}

// Past the page cache: with a data set larger than memory, an epoch finds nothing there either.
void read_sample(const std::string& path, char* out) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  sick::require(fd >= 0, path.c_str());
  struct stat about {};
  sick::require(fstat(fd, &about) == 0, "fstat");
  sick::require(read(fd, out, kFileBytes) == about.st_size, "read");
  close(fd);
}

void load(const std::string& data, sick::Queue& queue) {
  const std::unique_ptr<char, Free> sample(
      static_cast<char*>(std::aligned_alloc(4096, kFileBytes)));
  std::vector<std::string> paths;  // listed once
  for (uint32_t i = 0; i < kFiles; ++i) paths.push_back(path_of(data, i));
  bool is_open = true;
  for (uint64_t epoch = 0; is_open; ++epoch) {
    const std::vector<uint32_t> order = sick::shuffled(kFiles, epoch + 1);
    for (size_t first = 0; is_open && first + kBatch <= kFiles; first += kBatch) {
      sick::Batch batch;
      for (size_t i = first; i < first + kBatch; ++i) {
        read_sample(paths[order[i]], sample.get());
        batch.bytes.insert(batch.bytes.end(), sample.get(), sample.get() + 64);
      }
      batch.making.did(sick::Part::kFetch);
      is_open = queue.push(std::move(batch));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  make_files(options.data);
  if (options.only_make_data) return 0;

  sick::Queue queue(2);
  sick::Model model;
  std::jthread loader([&] { load(options.data, queue); });
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::Batch batch = queue.pop();
    clock.waited_for(batch.making);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  queue.close();
  clock.print("small_files");
}

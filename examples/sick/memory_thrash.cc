// ILLNESS: memory is too small, pages are thrown out and fetched again.
// The training thread gathers rows of a memory-mapped table at random. Other programs need the
// memory (played by MADV_PAGEOUT on the table after each step, which is the kernel's own reclaim),
// so that nearly each row is a major page fault: the thread sleeps until the disk has brought the
// page back. No call says so; only faults and the kernel's memory pressure show it. THE RIGHT
// DIAGNOSIS: memory-thrash; the time is fetch stall, in faults. THE CURE: a smaller table, more
// memory, or fewer neighbours.
#include <sys/mman.h>
#include <sys/resource.h>

#include "training.h"

namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint32_t kPages = 1024;  // 4 MiB
constexpr uint32_t kRows = 320;    // a step
constexpr double kStepSeconds = 0.020;

// One row from each of many pages, in an order that no read-ahead foresees.
void gather(const char* table, uint64_t step, std::vector<char>& out) {
  uint64_t state = step + 1;
  for (uint32_t i = 0; i < kRows; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const char* row = table + (state >> 33U) % kPages * kPageBytes;
    out.insert(out.end(), row, row + 64);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const sick::Options options = sick::options_of(argc, argv);
  // Only the file's owner may have its pages thrown out.
  const std::string path = options.data + "/table-" + std::to_string(getuid()) + ".bin";
  sick::make_file(path, kPages * kPageBytes);
  if (options.only_make_data) return 0;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  sick::require(fd >= 0, path.c_str());
  void* memory = mmap(nullptr, kPages * kPageBytes, PROT_READ, MAP_SHARED, fd, 0);
  sick::require(memory != MAP_FAILED, "mmap");
  sick::require(madvise(memory, kPages * kPageBytes, MADV_RANDOM) == 0, "madvise random");
  const auto* table = static_cast<const char*>(memory);

  int64_t fault_cpu_ns = 0;  // the kernel's own work on faults, in fetch
  sick::Model model;
  sick::OwnClock clock(options.seconds);
  while (clock.next_step()) {
    const sick::MarkedStep step;
    sick::require(madvise(memory, kPages * kPageBytes, MADV_PAGEOUT) == 0, "madvise pageout");
    clock.did(sick::Part::kCompute);  // reclaim is the CPU's work
    sick::Batch batch;
    const int64_t cpu_ns = sick::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    gather(table, clock.step(), batch.bytes);
    fault_cpu_ns += sick::clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    clock.did(sick::Part::kFetch);
    model.train_step(batch, kStepSeconds);
    clock.did(sick::Part::kCompute);
  }
  clock.print("memory_thrash", fault_cpu_ns);
  munmap(memory, kPages * kPageBytes);
  close(fd);
}

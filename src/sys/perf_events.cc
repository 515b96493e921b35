#include "sys/perf_events.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "sys/file.h"
#include "sys/memory.h"

namespace forebay::sys {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kMarkMin = static_cast<uint64_t>(-4095);  // PERF_CONTEXT_*: no address

struct Source {
  uint32_t type = PERF_TYPE_SOFTWARE;
  uint64_t config = PERF_COUNT_SW_CPU_CLOCK;
  bool with_kernel = true;
};

perf_event_attr attributes(const Source& source, const PerfOptions& options) {
  perf_event_attr a{};
  a.size = sizeof(a);
  a.type = source.type;
  a.config = source.config;
  a.freq = 1;
  a.sample_freq = static_cast<uint64_t>(options.hertz);
  a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN;
  a.inherit = 1;
  a.exclude_kernel = source.with_kernel ? 0 : 1;
  a.exclude_hv = 1;
  a.mmap = 1;
  a.mmap2 = 1;
  a.comm = 1;
  a.comm_exec = 1;
  a.task = 1;
  a.sample_id_all = 1;
  a.context_switch = options.with_switches ? 1 : 0;
  a.use_clockid = 1;
  a.clockid = CLOCK_MONOTONIC;
  a.watermark = 1;  // nobody waits on the descriptor; the ring is polled
  a.wakeup_watermark = static_cast<uint32_t>(options.ring_bytes / 2);
  return a;
}

int open_event(perf_event_attr& attributes, int tid, int cpu) {
  return static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

int configured_cpus() {
  return static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_CONF), 1L));
}

template <class T>
T take(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

// The fields that sample_id_all puts at the end of every record but samples.
int64_t time_at_end(std::span<const std::byte> record) {
  int64_t time_ns = 0;
  std::memcpy(&time_ns, record.data() + record.size() - sizeof(time_ns), sizeof(time_ns));
  return time_ns;
}

}  // namespace

struct PerfSampler::Impl {
  struct Ring {
    SharedMemory memory;
    ScopedFd first;
    int cpu = 0;
  };
  std::vector<Ring> rings;
  std::vector<ScopedFd> others;  // that write into the rings
  Source source;
  size_t ring_bytes = 0;
  std::vector<std::byte> record;  // one that wraps around
  std::vector<uint64_t> stack;

  Status open_all(std::span<const int> tids, const PerfOptions& options);
  void read_ring(const Ring& ring, const std::function<void(const PerfRecord&)>& take_record);
  void parse(std::span<const std::byte> bytes, const std::function<void(const PerfRecord&)>& give);
  void parse_sample(const std::byte* at, const std::byte* end, PerfRecord& out);
};

PerfSampler::PerfSampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PerfSampler::~PerfSampler() = default;

Status PerfSampler::Impl::open_all(std::span<const int> tids, const PerfOptions& options) {
  rings.clear();
  others.clear();
  ring_bytes = options.ring_bytes;
  perf_event_attr wanted = attributes(source, options);
  for (int cpu = 0; cpu < configured_cpus(); ++cpu) {
    const Ring* ring = nullptr;
    for (const int tid : tids) {
      ScopedFd fd(open_event(wanted, tid, cpu));
      if (!fd.is_open()) {
        // A core that is switched off, or a thread that ended meanwhile.
        if (errno == ENODEV || errno == ESRCH) continue;
        return fail(ErrorCode::kUnsupported, "perf_event_open: {}", std::strerror(errno));
      }
      if (ring != nullptr) {
        if (::ioctl(fd.get(), PERF_EVENT_IOC_SET_OUTPUT, ring->first.get()) != 0) {
          return fail(ErrorCode::kUnsupported, "perf events: {}", std::strerror(errno));
        }
        others.push_back(std::move(fd));
        continue;
      }
      Ring made;
      made.memory = FB_TRY(SharedMemory::map(fd.get(), kPage + options.ring_bytes));
      made.first = std::move(fd);
      made.cpu = cpu;
      rings.push_back(std::move(made));
      ring = &rings.back();
    }
  }
  if (rings.empty()) return fail(ErrorCode::kNotFound, "none of the threads is there any more");
  return {};
}

Result<std::unique_ptr<PerfSampler>> PerfSampler::open(std::span<const int> tids,
                                                       PerfOptions options) {
  auto impl = std::make_unique<Impl>();
  const std::array<Source, 4> sources{Source{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true},
                                      Source{},
                                      Source{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
                                      Source{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false}};
  Status opened;
  for (const Source& source : sources) {
    impl->source = source;
    // The memory that may be locked is limited: smaller rings lose samples later, if at all.
    for (PerfOptions smaller = options; smaller.ring_bytes >= 32 << 10; smaller.ring_bytes /= 4) {
      opened = impl->open_all(tids, smaller);
      if (opened.ok()) return std::unique_ptr<PerfSampler>(new PerfSampler(std::move(impl)));
      if (opened.error().code == ErrorCode::kNotFound) return Error(opened.error());
      if (opened.error().code == ErrorCode::kUnsupported) break;
    }
  }
  return Error(opened.error());
}

bool PerfSampler::sees_kernel() const {
  return impl_->source.with_kernel;
}
bool PerfSampler::has_hardware() const {
  return impl_->source.type == PERF_TYPE_HARDWARE;
}

void PerfSampler::Impl::parse_sample(const std::byte* at, const std::byte* end, PerfRecord& out) {
  out.kind = PerfRecord::Kind::kSample;
  const auto ip = take<uint64_t>(at);
  out.pid = take<int32_t>(at);
  out.tid = take<int32_t>(at);
  out.time_ns = take<int64_t>(at);
  auto count = take<uint64_t>(at);
  stack.clear();
  bool in_kernel = false;
  for (; count > 0 && end - at >= 8; --count) {
    const auto address = take<uint64_t>(at);
    if (address >= kMarkMin) {
      in_kernel = address == static_cast<uint64_t>(PERF_CONTEXT_KERNEL);
      continue;
    }
    if (in_kernel) ++out.kernel_frames;
    stack.push_back(address);
  }
  if (stack.empty()) stack.push_back(ip);
  out.stack = stack;
}

void PerfSampler::Impl::parse(std::span<const std::byte> bytes,
                              const std::function<void(const PerfRecord&)>& give) {
  perf_event_header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::byte* at = bytes.data() + sizeof(header);
  PerfRecord out;
  switch (header.type) {
    case PERF_RECORD_SAMPLE:
      if (bytes.size() < 48) return;
      parse_sample(at, bytes.data() + bytes.size(), out);
      break;
    case PERF_RECORD_MMAP2: {
      if (bytes.size() < 88) return;
      out.kind = PerfRecord::Kind::kMapping;
      out.pid = take<int32_t>(at);
      out.tid = take<int32_t>(at);
      out.begin = take<uint64_t>(at);
      out.size = take<uint64_t>(at);
      out.file_offset = take<uint64_t>(at);
      at += 32;  // device, inode, its generation, rights and flags
      const auto* const text = reinterpret_cast<const char*>(at);
      out.path = {text, strnlen(text, static_cast<size_t>(bytes.data() + bytes.size() - at))};
      out.time_ns = time_at_end(bytes);
      break;
    }
    case PERF_RECORD_COMM:
      if ((header.misc & PERF_RECORD_MISC_COMM_EXEC) == 0) return;
      out.kind = PerfRecord::Kind::kExec;
      out.pid = take<int32_t>(at);
      out.tid = take<int32_t>(at);
      out.time_ns = time_at_end(bytes);
      break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      out.kind =
          header.type == PERF_RECORD_FORK ? PerfRecord::Kind::kFork : PerfRecord::Kind::kExit;
      out.pid = take<int32_t>(at);
      out.parent_pid = take<int32_t>(at);
      out.tid = take<int32_t>(at);
      at += 4;
      out.time_ns = take<int64_t>(at);
      break;
    case PERF_RECORD_SWITCH: {
      if (bytes.size() < 24) return;
      const bool is_out = (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0;
      out.kind = is_out ? PerfRecord::Kind::kSwitchOut : PerfRecord::Kind::kSwitchIn;
      out.is_preempted = is_out && (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
      at = bytes.data() + bytes.size() - 16;
      out.pid = take<int32_t>(at);
      out.tid = take<int32_t>(at);
      out.time_ns = take<int64_t>(at);
      break;
    }
    case PERF_RECORD_LOST:
      out.kind = PerfRecord::Kind::kLost;
      at += 8;
      out.lost = take<uint64_t>(at);
      break;
    default:
      return;
  }
  give(out);
}

void PerfSampler::Impl::read_ring(const Ring& ring,
                                  const std::function<void(const PerfRecord&)>& give) {
  auto* const page = reinterpret_cast<perf_event_mmap_page*>(ring.memory.data());
  const std::byte* const data = ring.memory.data() + kPage;
  const size_t size = ring.memory.size() - kPage;
  // Pairs with the kernel's release of data_head: what lies below it is written.
  const uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
  uint64_t tail = page->data_tail;
  while (head - tail >= sizeof(perf_event_header)) {
    perf_event_header header;
    const size_t from = tail % size;
    std::memcpy(&header, data + from, sizeof(header));  // never wraps: records are aligned to 8
    if (header.size < sizeof(header) || header.size > head - tail) break;
    const size_t first = std::min<size_t>(header.size, size - from);
    std::span<const std::byte> bytes(data + from, header.size);
    if (first < header.size) {
      record.assign(data + from, data + from + first);
      record.insert(record.end(), data, data + (header.size - first));
      bytes = record;
    }
    parse(bytes, give);
    tail += header.size;
  }
  // Pairs with the kernel's check for room: the records were read before.
  std::atomic_ref(page->data_tail).store(tail, std::memory_order_release);
}

void PerfSampler::read(const std::function<void(const PerfRecord&)>& take_record) {
  for (const Impl::Ring& ring : impl_->rings) impl_->read_ring(ring, take_record);
}

int perf_event_paranoid() {
  std::ifstream file("/proc/sys/kernel/perf_event_paranoid");
  int level = 4;
  file >> level;
  return level;
}

}  // namespace forebay::sys

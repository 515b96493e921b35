#include "record/interposer/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "record/interposer/files.h"
#include "record/interposer/wrap.h"

namespace forebay::record::interposer {

CallControl* control = nullptr;

namespace {

// System calls by number: what this library does for itself passes none of its own wrappers.
template <class... Arguments>
long call(long number, Arguments... arguments) {
  using Raw = long (*)(long, ...);
  static Raw raw = nullptr;
  Raw found = __atomic_load_n(&raw, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Raw>(dlsym(RTLD_NEXT, "syscall"));
    __atomic_store_n(&raw, found, __ATOMIC_RELAXED);
  }
  return found(number, arguments...);
}

constexpr size_t kPathMax = kIoFolderPathMax + 1;
char folder[kPathMax];  // of the logs, absolute
size_t folder_size = 0;
char own_folder[kPathMax];  // of the recording
size_t own_folder_size = 0;
char preload_entry[kPathMax];      // "LD_PRELOAD=<this library>"
size_t preload_size = 0;           // of the path in it
char folder_entry[kPathMax + 32];  // "FOREBAY_IO=<folder>"

constexpr uint64_t kFirstChunkBytes = 16 << 10;
constexpr uint64_t kChunkBytesMax = 1 << 20;
constexpr int64_t kRetryAfterNs = 100'000'000;

struct ThreadLog {
  CallChunk* chunk;
  uint64_t next_bytes;  // size of the next chunk
  int64_t retry_at_ns;  // after no chunk could be made
  int32_t tid;
  uint32_t is_busy;  // a signal handler must not write into the record that it interrupted
};
__attribute__((tls_model("initial-exec"))) __thread ThreadLog thread_log;

// Chunks of threads that ended, for those that begin.
constexpr size_t kSpareMax = 64;
CallChunk* spare_chunks[kSpareMax];

pthread_key_t thread_end_key;

// Whether pids here are not those that the recorder knows. Children inherit it.
bool is_elsewhere = false;

void lose() {
  if (control != nullptr) __atomic_fetch_add(&control->lost, 1, __ATOMIC_RELAXED);
}

size_t append_number(char* out, uint64_t number) {
  char digits[24];
  size_t count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  for (size_t i = 0; i < count; ++i) out[i] = digits[count - 1 - i];
  return count;
}

size_t chunk_path(char* out, uint64_t number) {
  std::memcpy(out, folder, folder_size);
  size_t at = folder_size;
  out[at++] = '/';
  at += append_number(out + at, static_cast<uint64_t>(getpid()));
  out[at++] = '.';
  at += append_number(out + at, number);
  std::memcpy(out + at, ".calls", sizeof ".calls");
  return at;
}

// Space is taken now: a page that finds none later would kill the program with SIGBUS.
bool reserve_space(int fd, uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) return errno = EFBIG, false;
  if (call(SYS_fallocate, fd, 0, off_t{0}, static_cast<off_t>(bytes)) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
  static const char zeros[4096] = {};
  for (uint64_t at = 0; at < bytes; at += sizeof zeros)
    if (call(SYS_pwrite64, fd, zeros, sizeof zeros, static_cast<off_t>(at)) !=
        static_cast<long>(sizeof zeros))
      return false;
  return true;
}

CallChunk* begin_chunk(void* memory, uint64_t bytes) {
  auto* chunk = static_cast<CallChunk*>(memory);
  chunk->version = kCallVersion;
  chunk->pid = getpid();
  chunk->capacity = bytes - sizeof(CallChunk);
  chunk->is_elsewhere = is_elsewhere ? 1 : 0;
  chunk->begun_ns = now_ns();
  __atomic_store_n(&chunk->magic, kCallMagic, __ATOMIC_RELEASE);
  return chunk;
}

CallChunk* map_chunk(uint64_t bytes) {
  char path[kPathMax + 64];
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < 1000; ++tries) {
    const uint64_t number = __atomic_add_fetch(&process_state->chunk_count, 1, __ATOMIC_RELAXED);
    chunk_path(path, number);
    fd = static_cast<int>(
        call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd < 0 && errno != EEXIST) return nullptr;  // EEXIST: an earlier process had this number
  }
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (reserve_space(fd, bytes)) {
    memory = reinterpret_cast<void*>(
        call(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t{0}));
  }
  const int error_number = errno;  // of what kept the memory from being there
  if (memory == MAP_FAILED) call(SYS_unlinkat, AT_FDCWD, path, 0);
  call(SYS_close, fd);
  if (memory == MAP_FAILED) return errno = error_number, nullptr;
  madvise(memory, bytes, MADV_DONTFORK);  // a child's records belong into chunks of its own
  return begin_chunk(memory, bytes);
}

char* slots() {
  return reinterpret_cast<char*>(control) + sizeof(CallControl);
}

// The first chunk of a process, where a slot is free. That takes no system call: what a program
// that forks a thousand times a second does not have to wait for.
CallChunk* take_slot() {
  constexpr int kTries = 64;
  if (is_elsewhere || __atomic_exchange_n(&process_state->had_slot, 1, __ATOMIC_RELAXED) != 0)
    return nullptr;
  const uint32_t count = __atomic_load_n(&control->slot_count, __ATOMIC_ACQUIRE);
  if (count == 0 || count > kSlotsMax) return nullptr;
  for (int tries = 0; tries < kTries; ++tries) {
    const uint32_t slot = __atomic_fetch_add(&control->next_slot, 1, __ATOMIC_RELAXED) % count;
    int32_t nobody = 0;
    if (__atomic_load_n(&control->slot_owner[slot], __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(&control->slot_owner[slot], &nobody, getpid(), false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return begin_chunk(slots() + slot * kSlotBytes, kSlotBytes);
  }
  return nullptr;
}

void end_under_way(CallChunk* chunk) {
  __atomic_store_n(&chunk->under_way_ns, 0, __ATOMIC_RELAXED);
  // Before what is written over the record.
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

void close_chunk(CallChunk* chunk) {
  end_under_way(chunk);
  const uint64_t bytes = chunk->capacity + sizeof(CallChunk);
  __atomic_store_n(&chunk->is_closed, 1, __ATOMIC_RELEASE);
  const auto* at = reinterpret_cast<const char*>(chunk);
  if (at < slots() || at >= slots() + kSlotsMax * kSlotBytes) munmap(chunk, bytes);
}

CallChunk* take_spare() {
  for (CallChunk*& place : spare_chunks) {
    if (__atomic_load_n(&place, __ATOMIC_RELAXED) == nullptr) continue;
    if (CallChunk* chunk = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQUIRE)) return chunk;
  }
  return nullptr;
}

void end_thread(void* /*value*/) {
  CallChunk* chunk = thread_log.chunk;
  thread_log.chunk = nullptr;
  if (chunk == nullptr || process_state->is_alive == 0) return;
  end_under_way(chunk);
  for (CallChunk*& place : spare_chunks) {
    CallChunk* nobody = nullptr;
    if (__atomic_compare_exchange_n(&place, &nobody, chunk, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
      return;
  }
  close_chunk(chunk);
}

// Behind the records that are whole.
void write_behind(CallChunk* chunk, const CallRecord& record, Text text) {
  auto* at = reinterpret_cast<char*>(chunk + 1) + chunk->used;
  std::memcpy(at, &record, sizeof record);
  if (text.size > 0) std::memcpy(at + sizeof record, text.bytes, text.size);
}

void put(CallChunk* chunk, const CallRecord& record, Text text) {
  end_under_way(chunk);
  write_behind(chunk, record, text);
  __atomic_store_n(&chunk->used, chunk->used + record_bytes(record.text_bytes), __ATOMIC_RELEASE);
}

// Says in a chunk that from here on this thread writes.
void put_thread(CallChunk* chunk, int32_t tid) {
  put(chunk,
      {.start_ns = now_ns(),
       .duration_ns = 0,
       .result = tid,
       .offset = kNoOffset,
       .file = 0,
       .operation = static_cast<uint16_t>(Operation::kThread),
       .text_bytes = 0},
      {});
}

bool has_room(const CallChunk* chunk, uint64_t bytes) {
  return chunk->used + bytes <= chunk->capacity;
}

// A new chunk, smaller than wanted where the disk has little room left: the recorder frees old ones
// all the time.
CallChunk* make_chunk(ThreadLog& log) {
  CallChunk* chunk = map_chunk(log.next_bytes);
  while (chunk == nullptr && log.next_bytes > kFirstChunkBytes) {
    log.next_bytes /= 4;
    chunk = map_chunk(log.next_bytes);
  }
  if (chunk == nullptr)
    __atomic_store_n(&control->place_error, errno, __ATOMIC_RELAXED);
  else if (log.next_bytes < kChunkBytesMax)
    log.next_bytes *= 4;
  return chunk;
}

// A chunk of this thread with room for `bytes` more, or null.
CallChunk* next_chunk(ThreadLog& log, uint64_t bytes) {
  const int64_t now = now_ns();
  if (now < log.retry_at_ns || is_in_vfork()) return nullptr;
  if (log.tid == 0) {
    log.tid = static_cast<int32_t>(call(SYS_gettid));
    log.next_bytes = kFirstChunkBytes;
    pthread_setspecific(thread_end_key, &thread_log);
  }
  const uint64_t needed = bytes + record_bytes(0);
  CallChunk* chunk = log.chunk == nullptr ? take_spare() : nullptr;
  if (chunk != nullptr && !has_room(chunk, needed)) {
    close_chunk(chunk);
    chunk = nullptr;
  }
  if (chunk == nullptr) {
    const bool is_heard =
        now - __atomic_load_n(&control->heartbeat_ns, __ATOMIC_RELAXED) < kHeartbeatPatienceNs;
    if (is_heard) chunk = take_slot();
    if (is_heard && (chunk == nullptr || !has_room(chunk, needed))) chunk = make_chunk(log);
    if (!is_heard) __atomic_store_n(&control->was_unheard, 1, __ATOMIC_RELAXED);
  }
  if (chunk == nullptr) {
    log.retry_at_ns = now + kRetryAfterNs;
    return nullptr;
  }
  if (log.chunk != nullptr) close_chunk(log.chunk);
  log.chunk = chunk;
  put_thread(chunk, log.tid);
  return chunk;
}

// In the child of a fork: its parent's chunks are not mapped here, and it is another thread.
void begin_after_fork() {
  thread_log = {};
  for (CallChunk*& place : spare_chunks)
    if (place != nullptr) place = nullptr;  // a page that is only read need not be copied
  process_state->pid = getpid();
  process_state->is_alive = 1;
  if (getppid() == 0) is_elsewhere = true;  // the first of a new process namespace
  const int64_t now = now_ns();
  note({.operation = Operation::kFork, .start_ns = now, .end_ns = now, .result = getppid()});
}

void write_record(const CallRecord& record, Text text) {
  ThreadLog& log = thread_log;
  if (process_state->is_alive == 0) begin_after_fork();
  if (log.is_busy != 0) return lose();
  log.is_busy = 1;
  // The compiler must not move the writes out of the busy time.
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uint64_t bytes = record_bytes(record.text_bytes);
  CallChunk* chunk = log.chunk;
  if (__builtin_expect(chunk == nullptr || !has_room(chunk, bytes), 0))
    chunk = next_chunk(log, bytes);
  if (chunk != nullptr)
    put(chunk, record, text);
  else
    lose();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  log.is_busy = 0;
}

void note_program() {
  char text[kTextBytesInLogMax];
  size_t size = 0;
  const int fd =
      static_cast<int>(call(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  if (fd >= 0) {
    const long got = call(SYS_read, fd, text, sizeof text);
    if (got > 0) size = static_cast<size_t>(got);
    call(SYS_close, fd);
  }
  const int64_t now = now_ns();
  note({.operation = Operation::kProgram,
        .start_ns = now,
        .end_ns = now,
        .result = getppid(),
        .text = {text, size}});
  note_working_folder();
}

// The linker puts all Reals side by side, and these names at their ends.
struct AnyReal {
  const char* name;
  void* address;
};
extern "C" AnyReal first_real[] __asm__("__start_forebay_real");
extern "C" AnyReal last_real[] __asm__("__stop_forebay_real");

void find_all_real() {
  for (AnyReal* real = first_real; real < last_real; ++real) {
    if (real->address != nullptr) continue;
    // The versions that programs of today are linked with: libc has older ones of the same name.
    void* found = std::strncmp(real->name, "pthread_cond_", 13) == 0
                      ? dlvsym(RTLD_NEXT, real->name, "GLIBC_2.3.2")
                      : nullptr;
    real->address = found != nullptr ? found : dlsym(RTLD_NEXT, real->name);
  }
}

void make_process_state() {
  void* memory =
      reinterpret_cast<void*>(call(SYS_mmap, nullptr, sizeof(ProcessState), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, off_t{0}));
  if (memory == MAP_FAILED) return;
  process_state = static_cast<ProcessState*>(memory);
  process_state->pid = getpid();
  process_state->is_alive = 1;
  // A forked child finds zeros here, and so learns that it is one.
  if (madvise(memory, sizeof(ProcessState), MADV_WIPEONFORK) != 0) {
    pthread_atfork(nullptr, nullptr,
                   [] { std::memset(static_cast<void*>(process_state), 0, sizeof(ProcessState)); });
  }
}

CallControl* map_control() {
  char path[kPathMax + 16];
  std::memcpy(path, folder, folder_size);
  std::memcpy(path + folder_size, "/control", sizeof "/control");
  const int fd = static_cast<int>(call(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return nullptr;
  // Also the slots that there will be room for later.
  void* memory = reinterpret_cast<void*>(call(SYS_mmap, nullptr, control_bytes(kSlotsMax),
                                              PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t{0}));
  call(SYS_close, fd);
  if (memory == MAP_FAILED) return nullptr;
  auto* page = static_cast<CallControl*>(memory);
  return page->magic == kCallMagic && page->version == kCallVersion ? page : nullptr;
}

// Without /proc nothing says which namespace this is; then it is taken for another one.
bool is_namespace(uint64_t inode) {
  struct stat status {};
  return call(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &status, 0) == 0 &&
         status.st_ino == inode;
}

const char* variable(char* const* variables, const char* name) {
  const size_t size = std::strlen(name);
  for (; variables != nullptr && *variables != nullptr; ++variables)
    if (std::strncmp(*variables, name, size) == 0 && (*variables)[size] == '=')
      return *variables + size + 1;
  return nullptr;
}

bool remember_places(const char* log_folder) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&remember_places), &self) == 0) return false;
  folder_size = std::strlen(log_folder);
  preload_size = std::strlen(self.dli_fname);
  if (folder_size == 0 || folder_size >= kPathMax || preload_size + 16 >= kPathMax) return false;
  std::memcpy(folder, log_folder, folder_size + 1);
  const char* last = std::strrchr(folder, '/');
  own_folder_size = last == nullptr ? folder_size : static_cast<size_t>(last - folder);
  std::memcpy(own_folder, folder, own_folder_size);
  // NOLINTBEGIN(bugprone-not-null-terminated-result): the value follows with its end.
  std::memcpy(preload_entry, "LD_PRELOAD=", 11);
  std::memcpy(preload_entry + 11, self.dli_fname, preload_size + 1);
  const size_t name_size = std::strlen(kIoFolderVariable);
  std::memcpy(folder_entry, kIoFolderVariable, name_size);
  folder_entry[name_size] = '=';
  std::memcpy(folder_entry + name_size + 1, folder, folder_size + 1);
  // NOLINTEND(bugprone-not-null-terminated-result)
  return true;
}

__attribute__((constructor)) void begin_program(int /*count*/, char** /*words*/, char** variables) {
  const KeepErrno keep;
  const char* log_folder = variable(variables, kIoFolderVariable);
  if (log_folder == nullptr) return;
  find_all_real();
  make_process_state();
  if (process_state == nullptr || !remember_places(log_folder)) return;
  if (pthread_key_create(&thread_end_key, end_thread) != 0) return;
  CallControl* page = map_control();
  if (page == nullptr) return;
  is_elsewhere = !is_namespace(page->pid_namespace);
  __atomic_store_n(&control, page, __ATOMIC_RELEASE);
  if (is_on()) note_program();
}

// Whether LD_PRELOAD's value names this library.
bool preloads_us(const char* value) {
  const char* us = preload_entry + 11;
  for (const char* at = value; (at = std::strstr(at, us)) != nullptr; at += preload_size) {
    const char after = at[preload_size];
    const bool begins = at == value || at[-1] == ':' || at[-1] == ' ';
    if (begins && (after == '\0' || after == ':' || after == ' ')) return true;
  }
  return false;
}

}  // namespace

ProcessState* process_state = nullptr;

Text text_of(const char* path) {
  return {path, path == nullptr ? 0 : strnlen(path, kTextBytesInLogMax)};
}

void note(const Note& what) {
  write_record({.start_ns = what.start_ns,
                .duration_ns = static_cast<uint64_t>(what.end_ns - what.start_ns),
                .result = what.result,
                .offset = what.offset,
                .file = what.file,
                .operation = static_cast<uint16_t>(what.operation),
                .text_bytes = static_cast<uint16_t>(what.text.size)},
               what.text);
}

UnderWay::UnderWay(const Beginning& call) {
  if (process_state->is_alive == 0) begin_after_fork();
  ThreadLog& log = thread_log;
  if (call.is_own || log.is_busy != 0) {
    start_ns_ = now_ns();
    return;
  }
  log.is_busy = 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const uint64_t bytes = record_bytes(static_cast<uint32_t>(call.text.size));
  CallChunk* chunk = log.chunk;
  if (__builtin_expect(chunk == nullptr || !has_room(chunk, bytes), 0)) {
    const KeepErrno keep;
    chunk = next_chunk(log, bytes);
  }
  if (chunk != nullptr) {
    end_under_way(chunk);
    write_behind(chunk,
                 {.start_ns = 0,
                  .duration_ns = 0,
                  .result = 0,
                  .offset = call.offset,
                  .file = call.file,
                  .operation = static_cast<uint16_t>(call.operation),
                  .text_bytes = static_cast<uint16_t>(call.text.size)},
                 call.text);
  }
  start_ns_ = now_ns();
  if (chunk != nullptr) __atomic_store_n(&chunk->under_way_ns, start_ns_, __ATOMIC_RELEASE);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  log.is_busy = 0;
}

UnderWay::~UnderWay() {
  CallChunk* chunk = thread_log.chunk;
  if (chunk != nullptr && process_state->is_alive != 0) end_under_way(chunk);
}

void note_wait(Operation operation, int64_t start_ns, uint32_t file) {
  const int64_t now = now_ns();
  if (now - start_ns < kShortWaitNs) return;
  const KeepErrno keep;
  write_record({.start_ns = start_ns,
                .duration_ns = static_cast<uint64_t>(now - start_ns),
                .result = 0,
                .offset = kNoOffset,
                .file = file,
                .operation = static_cast<uint16_t>(operation),
                .text_bytes = 0},
               {});
}

bool is_in_vfork() {
  return process_state->is_alive != 0 && getpid() != process_state->pid;
}

bool is_own_path(const char* path) {
  return path != nullptr && std::strncmp(path, own_folder, own_folder_size) == 0 &&
         path[own_folder_size] == '/';
}

char* const* observed_environment(char* const* variables, EnvironmentRoom& room) {
  if (!is_on() || variables == nullptr) return variables;
  const char* preload = variable(variables, "LD_PRELOAD");
  const char* log_folder = variable(variables, kIoFolderVariable);
  const bool has_preload = preload != nullptr && preloads_us(preload);
  if (has_preload && log_folder != nullptr) return variables;
  size_t count = 0;
  for (; *variables != nullptr; ++variables) {
    if (std::strncmp(*variables, "LD_PRELOAD=", 11) == 0 && !has_preload) continue;
    if (count + 3 >= EnvironmentRoom::kVariablesMax) return nullptr;
    room.variables[count++] = *variables;
  }
  if (log_folder == nullptr) room.variables[count++] = folder_entry;
  if (!has_preload) {
    char* entry = preload_entry;
    if (preload != nullptr && *preload != '\0') {
      const size_t theirs = std::strlen(preload);
      const size_t ours = 11 + preload_size;
      if (ours + theirs + 2 > EnvironmentRoom::kBytesMax) return nullptr;
      entry = room.bytes;
      std::memcpy(entry, preload_entry, ours);
      entry[ours] = ':';
      std::memcpy(entry + ours + 1, preload, theirs + 1);
    }
    room.variables[count++] = entry;
  }
  room.variables[count] = nullptr;
  return room.variables;
}

// What writing one call costs here: two looks at the clock and a record, in memory that is warm.
// For a process that is not observed itself.
extern "C" __attribute__((visibility("default"))) double forebay_io_cost_ns() {
  constexpr int kBatches = 10, kCalls = 2000;
  alignas(CallChunk) static char memory[32 << 10];
  static CallControl own_control{};
  if (control != nullptr) return 0;
  if (process_state == nullptr) make_process_state();
  if (process_state == nullptr) return 0;
  // Also in a child of whoever asked before: it is not to be taken for one that is observed.
  process_state->pid = getpid();
  process_state->is_alive = 1;
  control = &own_control;
  auto* chunk = reinterpret_cast<CallChunk*>(memory);
  chunk->capacity = sizeof memory - sizeof(CallChunk);
  const ThreadLog before = thread_log;
  thread_log = {.chunk = chunk, .next_bytes = 0, .retry_at_ns = 0, .tid = 1, .is_busy = 0};
  int64_t least = INT64_MAX;  // of the batches: a neighbour may have had the core in some
  for (int batch = 0; batch < kBatches; ++batch) {
    const int64_t begun = now_ns();
    for (int i = 0; i < kCalls; ++i) {
      if (!has_room(chunk, record_bytes(0))) chunk->used = 0;
      const UnderWay call({.operation = Operation::kRead, .file = 1});
      note({.operation = Operation::kRead,
            .start_ns = call.start_ns(),
            .end_ns = now_ns(),
            .file = 1});
    }
    const int64_t took = now_ns() - begun;
    if (took < least) least = took;
  }
  thread_log = before;
  control = nullptr;
  return static_cast<double>(least) / kCalls;
}

}  // namespace forebay::record::interposer

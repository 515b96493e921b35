#include "ingest/meaning.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_map>

#include "base/text.h"

namespace forebay::ingest {
namespace {

using trace::Category;

bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The number behind "step", "step_", "step #"; nothing else may follow but blanks.
bool reads_number(std::string_view rest, int64_t& number) {
  while (!rest.empty() && (rest[0] == ' ' || rest[0] == '_' || rest[0] == '#' || rest[0] == ':' ||
                           rest[0] == '-' || rest[0] == '=')) {
    rest.remove_prefix(1);
  }
  if (rest.empty() || !is_digit(rest[0])) return false;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return error == std::errc();
}

// "step", "step 7", "Iteration_12": the whole mark is the word and perhaps a number.
bool is_step(std::string_view lower, int64_t& number) {
  constexpr std::array<std::string_view, 7> kWords{
      "profilerstep", "train_step", "training_step", "train step", "iteration", "step", "iter"};
  for (const std::string_view word : kWords) {
    if (!lower.starts_with(word)) continue;
    const std::string_view rest = base::trim(lower.substr(word.size()));
    if (rest.empty() || reads_number(rest, number)) return true;
    if (!is_letter(rest[0]) && word == "profilerstep") return true;
  }
  return false;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <size_t N>
bool holds_any(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return holds(text, part); });
}

struct Calls {
  Category category;
  std::string_view names;  // parted by blanks
};
constexpr std::array<Calls, 8> kCalls{{
    {Category::kRead,
     "read pread pread64 readv preadv preadv2 fread fread_unlocked fgets getline fscanf fgetc getc "
     "aio_read readahead copy_file_range sendfile sendfile64 splice MPI_File_read MPI_File_read_at "
     "H5Dread get_object"},
    {Category::kWrite,
     "write pwrite pwrite64 writev pwritev pwritev2 fwrite fwrite_unlocked fputs fprintf fputc "
     "putc aio_write MPI_File_write MPI_File_write_at H5Dwrite put_object"},
    {Category::kMetadata,
     "open openat openat2 open64 creat creat64 close fopen fopen64 fdopen freopen fclose stat "
     "fstat lstat stat64 fstat64 lstat64 newfstatat fstatat statx statfs fstatfs xstat xstat64 "
     "fxstat fxstat64 lxstat lxstat64 fxstatat access faccessat faccessat2 lseek lseek64 fseek "
     "fseeko ftell rewind rename renameat renameat2 unlink unlinkat remove mkdir mkdirat rmdir "
     "opendir fdopendir readdir readdir64 closedir getdents getdents64 readlink readlinkat "
     "symlink symlinkat link linkat truncate ftruncate ftruncate64 fallocate fadvise64 "
     "posix_fadvise fcntl dup dup2 dup3 chdir fchdir getcwd chmod fchmod fchmodat chown fchown "
     "fchownat utimensat flock mmap mmap64 munmap mknod mknodat getxattr lgetxattr fgetxattr "
     "name_to_handle_at inotify_add_watch mkstemp tmpfile"},
    {Category::kSync, "fsync fdatasync sync syncfs msync sync_file_range fflush"},
    {Category::kNetwork,
     "recvfrom recvmsg recvmmsg recv sendto sendmsg sendmmsg send connect accept accept4 socket "
     "bind listen shutdown getsockopt setsockopt getpeername getsockname socketpair"},
    {Category::kLock,
     "futex futex_waitv pthread_mutex_lock pthread_cond_wait pthread_cond_timedwait "
     "pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_join pthread_barrier_wait sem_wait "
     "sem_timedwait sem_clockwait semop semtimedop"},
    {Category::kSleep,
     "nanosleep clock_nanosleep usleep sleep poll ppoll select pselect6 epoll_wait epoll_pwait "
     "epoll_pwait2 pause wait4 waitid waitpid rt_sigtimedwait rt_sigsuspend io_uring_enter "
     "io_getevents sched_yield"},
    {Category::kProcess, "clone clone3 fork vfork execve execveat exit exit_group kill tgkill"},
}};

}  // namespace

Meaning meaning_of_mark(std::string_view text) {
  Meaning meaning{.category = Category::kAnnotation};
  const std::string lower = base::to_lower(text.substr(0, 256));
  if (is_step(lower, meaning.step)) {
    meaning.category = Category::kStep;
    return meaning;
  }
  constexpr std::array<std::string_view, 9> kWaits{"enumerate(dataloader)",
                                                   "dataloader",
                                                   "data_loader",
                                                   "data wait",
                                                   "data_wait",
                                                   "next_batch",
                                                   "get_batch",
                                                   "next batch",
                                                   "wait_for_batch"};
  // "decode" alone is also a phase of language models.
  constexpr std::array<std::string_view, 9> kPrepares{
      "collate", "augment",       "preprocess",       "decode_image", "decode image",
      "jpeg",    "decode_sample", "transform_sample", "decode_batch"};
  constexpr std::array<std::string_view, 4> kCollectives{"gloo:", "mpi:", "ucc:", "barrier"};
  constexpr std::array<std::string_view, 6> kStates{"save", "load",    "write",
                                                    "read", "restore", "async"};
  if (holds_any(lower, kPrepares)) {
    meaning.category = Category::kPrepare;
  } else if (holds_any(lower, kWaits)) {
    meaning.category = Category::kDataWait;
  } else if (holds_any(lower, kCollectives)) {
    meaning.category = Category::kCollective;
  } else if (lower == "checkpoint" || lower == "checkpointing" ||
             (holds(lower, "checkpoint") && holds_any(lower, kStates))) {
    meaning.category = Category::kCheckpoint;
  }
  return meaning;
}

Category category_of_kernel(std::string_view name) {
  const std::string lower = base::to_lower(name.substr(0, 512));
  constexpr std::array<std::string_view, 5> kCollectives{"nccl", "rccl", "hccl", "msccl", "oneccl"};
  if (holds_any(lower, kCollectives)) return Category::kCollective;
  if (lower.starts_with("memcpy") || lower.starts_with("memset") ||
      lower.starts_with("[cuda memcpy") || lower.starts_with("[cuda memset") ||
      lower.starts_with("cuda_copy")) {
    return Category::kCopy;
  }
  return Category::kCompute;
}

Category category_of_call(std::string_view name) {
  static const std::unordered_map<std::string_view, Category> known_calls = [] {
    std::unordered_map<std::string_view, Category> known;
    for (const Calls& calls : kCalls) {
      for (const std::string_view each : base::split(calls.names, ' '))
        known.emplace(each, calls.category);
    }
    return known;
  }();
  while (name.starts_with('_')) name.remove_prefix(1);
  const auto found = known_calls.find(name);
  return found == known_calls.end() ? Category::kOther : found->second;
}

}  // namespace forebay::ingest

// What the interposer (loaded into the observed program) and its collector say to each other: files
// of calls that both map. A thread writes its own file, so nobody waits, and what was written is
// there however the program ends.
//
// Plain data for one host. A record is whole once `used` covers it: the writer stores `used` with
// release, the reader loads it with acquire. The reader treats every byte as foreign.
#pragma once

#include <cstdint>

namespace forebay::record {

// The program finds the folder of its logs in this variable.
inline constexpr const char* kIoFolderVariable = "FOREBAY_IO";
inline constexpr unsigned kIoFolderPathMax = 511;  // bytes of its path

// A slot holds a chunk without a file of its own: for the first calls of a process, of which those
// that live for a moment make no more. Programs map all of them once, and children inherit that.
inline constexpr uint32_t kSlotsMax = 960;
inline constexpr uint64_t kSlotBytes = 4096;

// FOLDER/control: one for all processes: this, then the slots.
struct CallControl {
  uint64_t magic;
  uint32_t version;
  uint32_t is_on;          // the recorder wants calls
  int64_t heartbeat_ns;    // CLOCK_MONOTONIC when the recorder was last seen alive
  uint64_t lost;           // calls that found no place, of all processes
  int32_t place_error;     // errno of the last chunk that could not be made; 0: there was none
  uint32_t was_unheard;    // calls found no place because no heartbeat came
  uint64_t pid_namespace;  // inode of the recorder's
  uint32_t slot_count;     // that the file has room for; the recorder makes it longer
  uint32_t next_slot;      // where to look for a free one
  uint8_t reserved[200];
  // Whose each slot is: a process takes a free one (0) by writing its pid here, the recorder frees
  // it when it has read everything and nothing can follow.
  int32_t slot_owner[kSlotsMax];
};
static_assert(sizeof(CallControl) == 4096);
inline constexpr uint64_t control_bytes(uint64_t slot_count) {
  return sizeof(CallControl) + slot_count * kSlotBytes;
}

// A slot, or FOLDER/<pid>.<number>.calls: this, then records.
struct CallChunk {
  uint64_t magic;
  uint32_t version;
  int32_t pid;
  uint64_t used;          // bytes of records after this header that are whole
  uint64_t capacity;      // bytes there can be
  uint32_t is_closed;     // nothing will follow
  uint32_t is_elsewhere;  // `pid` is of another process namespace than the recorder's
  int64_t begun_ns;
  // When the call began that this thread is in, 0 = none. Its record, as far as it is known by
  // then, lies behind those that are whole. Cleared before anything else is written there.
  int64_t under_way_ns;
  uint8_t more[8];
};
static_assert(sizeof(CallChunk) == 64);

inline constexpr uint64_t kCallMagic = 0x534c4c4143464246;  // "FBFCALLS"
inline constexpr uint32_t kCallVersion = 4;
// Without a heartbeat for so long the recorder is taken to be dead, and no new chunks are made.
inline constexpr int64_t kHeartbeatPatienceNs = 10'000'000'000;

// One call. `text_bytes` of text follow, then zeros up to a multiple of 8.
struct CallRecord {
  int64_t start_ns;      // CLOCK_MONOTONIC
  uint64_t duration_ns;  // of calls
  int64_t result;        // bytes, or another number; -errno when the call failed
  int64_t offset;        // in the file, or kNoOffset
  uint32_t file;         // number that a kFile, or an opening call, gave; 0 none
  uint16_t operation;    // Operation
  uint16_t text_bytes;
};
static_assert(sizeof(CallRecord) == 40);

inline constexpr int64_t kNoOffset = INT64_MIN;
inline constexpr uint32_t kTextBytesInLogMax = 1024;
inline constexpr uint64_t record_bytes(uint32_t text_bytes) {
  return (sizeof(CallRecord) + text_bytes + 7) & ~uint64_t{7};
}

// What happened. F(name, text, category, meaning); the meaning says what result, offset and text
// are:
//   kAbout     not a call: about the process, the thread or a file. Exec: text is the program that
//              is about to take this process's place, or to be started from it
//   kOpens     file: its number; text: path; offset: number of the folder the path starts from, or
//              kNoOffset for the working folder
//   kNames     text: path, as above
//   kMoves     result: bytes; offset: where in the file
//   kOther     only file, if any
#define FB_CALLS(F)                                       \
  F(Program, "exec", Process, About)                      \
  F(Exec, "execve", Process, About)                       \
  F(Fork, "fork", Process, About)                         \
  F(Thread, "thread", Process, About)                     \
  F(Folder, "chdir", Metadata, About)                     \
  F(File, "file", Other, About)                           \
  F(Open, "open", Metadata, Opens)                        \
  F(Openat, "openat", Metadata, Opens)                    \
  F(Fopen, "fopen", Metadata, Opens)                      \
  F(Opendir, "opendir", Metadata, Opens)                  \
  F(Close, "close", Metadata, Other)                      \
  F(Fclose, "fclose", Metadata, Moves)                    \
  F(Closedir, "closedir", Metadata, Other)                \
  F(Read, "read", Read, Moves)                            \
  F(Pread, "pread64", Read, Moves)                        \
  F(Readv, "readv", Read, Moves)                          \
  F(Preadv, "preadv", Read, Moves)                        \
  F(Fread, "fread", Read, Moves)                          \
  F(Fgets, "fgets", Read, Moves)                          \
  F(Getline, "getline", Read, Moves)                      \
  F(Getc, "getc", Read, Moves)                            \
  F(Sendfile, "sendfile64", Read, Moves)                  \
  F(CopyFileRange, "copy_file_range", Read, Moves)        \
  F(Write, "write", Write, Moves)                         \
  F(Pwrite, "pwrite64", Write, Moves)                     \
  F(Writev, "writev", Write, Moves)                       \
  F(Pwritev, "pwritev", Write, Moves)                     \
  F(Fwrite, "fwrite", Write, Moves)                       \
  F(Fputs, "fputs", Write, Moves)                         \
  F(Fprintf, "fprintf", Write, Moves)                     \
  F(Fflush, "fflush", Write, Moves)                       \
  F(Fsync, "fsync", Sync, Other)                          \
  F(Fdatasync, "fdatasync", Sync, Other)                  \
  F(Syncfs, "syncfs", Sync, Other)                        \
  F(Sync, "sync", Sync, Other)                            \
  F(SyncFileRange, "sync_file_range", Sync, Other)        \
  F(Msync, "msync", Sync, Other)                          \
  F(Fstat, "fstat", Metadata, Other)                      \
  F(Stat, "stat", Metadata, Names)                        \
  F(Lstat, "lstat", Metadata, Names)                      \
  F(Fstatat, "newfstatat", Metadata, Names)               \
  F(Statx, "statx", Metadata, Names)                      \
  F(Access, "access", Metadata, Names)                    \
  F(Readlink, "readlink", Metadata, Names)                \
  F(Lseek, "lseek", Metadata, Other)                      \
  F(Fseek, "fseek", Metadata, Other)                      \
  F(Mmap, "mmap", Metadata, Other)                        \
  F(Readdir, "readdir", Metadata, Other)                  \
  F(Scandir, "scandir", Metadata, Names)                  \
  F(Rename, "rename", Metadata, Names)                    \
  F(Unlink, "unlink", Metadata, Names)                    \
  F(Link, "link", Metadata, Names)                        \
  F(Mkdir, "mkdir", Metadata, Names)                      \
  F(Rmdir, "rmdir", Metadata, Names)                      \
  F(Truncate, "truncate", Metadata, Names)                \
  F(Ftruncate, "ftruncate", Metadata, Other)              \
  F(CondWait, "pthread_cond_wait", Lock, Other)           \
  F(CondTimedwait, "pthread_cond_timedwait", Lock, Other) \
  F(MutexLock, "pthread_mutex_lock", Lock, Other)         \
  F(RwlockRdlock, "pthread_rwlock_rdlock", Lock, Other)   \
  F(RwlockWrlock, "pthread_rwlock_wrlock", Lock, Other)   \
  F(BarrierWait, "pthread_barrier_wait", Lock, Other)     \
  F(Join, "pthread_join", Lock, Other)                    \
  F(SemWait, "sem_wait", Lock, Other)                     \
  F(SemTimedwait, "sem_timedwait", Lock, Other)           \
  F(Futex, "futex", Lock, Other)                          \
  F(Poll, "poll", Sleep, Other)                           \
  F(Select, "select", Sleep, Other)                       \
  F(EpollWait, "epoll_wait", Sleep, Other)                \
  F(Nanosleep, "nanosleep", Sleep, Other)                 \
  F(ClockNanosleep, "clock_nanosleep", Sleep, Other)      \
  F(Sleep, "sleep", Sleep, Other)                         \
  F(Usleep, "usleep", Sleep, Other)                       \
  F(Waitpid, "wait4", Sleep, Other)                       \
  F(Send, "sendto", Network, Moves)                       \
  F(Sendmsg, "sendmsg", Network, Moves)                   \
  F(Recv, "recvfrom", Network, Moves)                     \
  F(Recvmsg, "recvmsg", Network, Moves)                   \
  F(Connect, "connect", Network, Other)                   \
  F(Accept, "accept", Network, Other)                     \
  F(Flock, "flock", Lock, Other)                          \
  F(Fcntl, "fcntl", Lock, Other)                          \
  F(Sigsuspend, "rt_sigsuspend", Sleep, Other)            \
  F(Sigtimedwait, "rt_sigtimedwait", Sleep, Other)        \
  F(Pause, "pause", Sleep, Other)

#define FB_CALL_NAME(name, text, category, meaning) k##name,
enum class Operation : uint16_t { FB_CALLS(FB_CALL_NAME) kCount };
#undef FB_CALL_NAME

enum class CallMeaning : uint8_t { kAbout, kOpens, kNames, kMoves, kOther };

}  // namespace forebay::record

/* What the kernel program (io.bpf.c) and its consumer (io_ebpf.cc) share: the events in the ring,
 * and the settings. Plain C, the same layout on both sides.
 */
#pragma once

enum {
  kIoNumbersMax = 512,   /* system call numbers that can be told apart */
  kIoPathBytesMax = 2048 /* longer ones lose their beginning */
};

/* Kinds of events. */
enum {
  kIoCall = 1,     /* struct IoEvent: a system call ended */
  kIoPathCall = 2, /* struct IoEvent, then the path that was its argument */
  kIoOffCpu = 3,   /* struct IoEvent: result = a reason, extra = tid of the waker or 0 */
  kIoFault = 4,    /* struct IoEvent: a major fault on a file */
  kIoBlock = 5,    /* struct IoEvent: call = operation, file = device, extra = queue time */
  kIoRequest = 6,  /* struct IoEvent: io_uring, call = opcode */
  kIoTask = 7,     /* struct IoTaskEvent */
  kIoName = 8      /* struct IoNameEvent, then the names */
};

/* What a task event says. */
enum { kIoTaskFork = 1, kIoTaskThread = 2, kIoTaskExec = 3, kIoTaskExit = 4, kIoTaskFollowed = 5 };

/* What the iterator does with a process. */
enum {
  kIoFollow = 1,
  kIoForget = 2,
  kIoAttach = 3 /* follow; what it waits for now began before, and is told from here on */
};

/* Why a thread was off the CPU, where it is no system call's number. */
enum { kIoPreempted = -1, kIoInFault = -2, kIoExiting = -3, kIoStopped = -4, kIoUnknown = -5 };

/* How a call is handled: bits of IoSettings.flags. */
enum {
  kIoWanted = 1,    /* events of this call are wanted */
  kIoBytes = 2,     /* a result above 0 is a number of bytes */
  kIoFd = 4,        /* the first argument is a descriptor */
  kIoFdResult = 8,  /* the result is a descriptor */
  kIoReads = 16,    /* bytes may come from the page cache or the device */
  kIoOffset = 32,   /* the fourth argument is the offset in the file, not the file's position */
  kIoPosition = 64, /* moves the file's position by its result */
  kIoPath = 128,    /* the first argument is a path */
  kIoAtPath = 256,  /* the first argument is a folder's descriptor, the second a path */
  kIoFd5 = 512,     /* the fifth argument is a descriptor (mmap); none = not wanted */
  kIoFutex = 1024,  /* waking others is counted, never kept */
  kIoReads2 = 2048, /* the file is that of the second argument (sendfile) */
  kIoCloses = 4096, /* the first argument is a descriptor that will be gone */
  /* From this bit on: which of the calls it is that are short unless they wait or move many bytes,
     and so need not be timed one by one in a flood; 0 = none of them. The third argument of each is
     a number of bytes, or small. */
  kIoShortShift = 13,
  kIoShortCalls = 8
};

/* Bits 0-3 of IoEvent.extra of calls and requests: the kind of file; then flags. */
enum {
  kIoNoFile = 0,
  kIoRegular = 1,
  kIoFolder = 2,
  kIoSocket = 3,
  kIoPipe = 4,
  kIoCharacter = 5,
  kIoDisk = 6,
  kIoAnonymous = 7,
  kIoFileMask = 15,
  kIoDirect = 16,    /* O_DIRECT */
  kIoHasOffset = 32, /* IoEvent.offset is known */
  kIoHasAddress = 64 /* IoEvent.offset is where the path lies in the thread's memory */
};

/* IoEvent.opcode of calls, of being off the CPU and of faults: has not ended. */
enum { kIoUnderWay = 1 };

/* Counts of calls that were not kept: the class number of being off the CPU. Others are numbers of
 * system calls. From bit 12 on: the kind of the file that bytes were moved of. */
enum { kIoOffCpuClass = 511, kIoCountKindShift = 12 };

struct IoEvent {
  unsigned char kind;
  unsigned char opcode;
  unsigned short duration_high; /* bits 32-47 of the nanoseconds */
  unsigned int tid;
  unsigned long long start_ns;
  unsigned int duration_low;
  int result; /* of calls, cut to 32 bits */
  unsigned long long file;
  long long offset;
  unsigned short call;  /* number of the system call */
  unsigned short pages; /* of the result, 4 KiB pages that came from the device */
  unsigned int extra;
};

struct IoTaskEvent {
  unsigned char kind;
  unsigned char what;
  unsigned short unused;
  unsigned int tid;
  unsigned long long at_ns;
  unsigned int pid;
  unsigned int parent; /* tid of the thread that made it */
  char name[16];
};

/* After it: the names from the file up to the root, a NUL after each; of sockets nothing. */
struct IoNameEvent {
  unsigned char kind;
  unsigned char file_kind;
  unsigned short bytes; /* of the names */
  unsigned int tid;
  unsigned long long file;
  unsigned short family;     /* of a socket */
  unsigned short port;       /* of the peer, in network order */
  unsigned int is_cut;       /* the upper folders are missing */
  unsigned char address[16]; /* of the peer: 4 or 16 bytes */
};

/* Set before the program is loaded. */
struct IoSettings {
  unsigned short flags[kIoNumbersMax];
};

enum { kIoCpusMax = 1024 };

/* Read and written while it runs. */
struct IoControl {
  /* Beyond this many events of a thread in a window of 2^23 ns, calls shorter than thin_below_ns
     are thinned; 0 = never. */
  unsigned long long window_budget;
  unsigned long long thin_below_ns;
  unsigned int level;      /* of the consumer's process namespace */
  unsigned int is_over;    /* no more events */
  unsigned int generation; /* changes when threads are followed or forgotten */
  unsigned int unused;
  unsigned long long uncounted;           /* not kept and no room to count */
  unsigned long long dropped[kIoCpusMax]; /* no room in the ring: counted instead */
};

struct IoCount {
  unsigned long long count, bytes, total_ns;
};

/* What a call needs to know of its thread. It lies with the CPU while the thread runs. */
struct IoThreadState {
  unsigned long long start_ns; /* of the call it is in; 0 = events of it are not wanted */
  unsigned int number;         /* of that call, + 1; 0 = none */
  unsigned int tid;        /* as the consumer's process namespace numbers them; 0 = not followed */
  unsigned int window;     /* the stretch of time that in_window counts events of */
  unsigned int in_window;  /* kept or not */
  unsigned int thin_mask;  /* one in thin_mask + 1 short calls is kept */
  unsigned int skip;       /* short calls until the next one that is timed and kept */
  unsigned long long tick; /* of the kernel's clock, when one was timed last */
  unsigned int random;
  unsigned short flags;     /* of the call it is in */
  unsigned char is_untimed; /* the call it is in */
  unsigned char is_sampled; /* the call it is in: timed for those that are not, and kept */
  unsigned char was_off;    /* the CPU, during the call it is in */
  unsigned char is_in_fault;
  unsigned char has_credit; /* of bytes that came from the device */
  unsigned char pressure;   /* 0-3: how full the ring was when this window began */
};

/* Short calls of one kind that were counted and not timed: they took as long as the last that
   was. */
struct IoUntimed {
  unsigned long long count, bytes, last_ns;
  unsigned long long descriptor; /* whose kind of file is known to be the one in `call` */
  unsigned int call, tid;
};

struct IoPendingCount {
  unsigned long long key;
  struct IoCount count;
};

enum { kIoPending = 8 };

/* What a CPU holds: of the thread that runs on it, and counts that are not in the map yet. */
struct IoCpu {
  struct IoThreadState now;
  unsigned long long task; /* address of the thread's; tells whether `now` is of it */
  unsigned long long seen; /* calls and other events, kept or not */
  unsigned int generation; /* of the control, when `now` was last known to be right */
  unsigned int has_untimed;
  unsigned int is_counting; /* `pending` is being changed: an interrupt leaves it alone */
  unsigned int unused;
  struct IoUntimed untimed[kIoShortCalls];
  struct IoPendingCount pending[kIoPending];
};

/* The power of two of nanoseconds below 2^63. Without branches: the verifier would follow each
 * combination of them. */
static inline unsigned int io_bucket(unsigned long long ns) {
  unsigned int bucket = 0, step;
#define FB_IO_BUCKET_STEP(bits)                                      \
  step = (unsigned int)(((1ULL << (bits)) - 1 - ns) >> 63) * (bits); \
  ns >>= step;                                                       \
  bucket += step
  FB_IO_BUCKET_STEP(32);
  FB_IO_BUCKET_STEP(16);
  FB_IO_BUCKET_STEP(8);
  FB_IO_BUCKET_STEP(4);
  FB_IO_BUCKET_STEP(2);
  FB_IO_BUCKET_STEP(1);
#undef FB_IO_BUCKET_STEP
  return bucket;
}

/* Key of the counts: thread, class, bucket (the power of two of the nanoseconds). */
static inline unsigned long long io_count_key(unsigned int tid, unsigned int call,
                                              unsigned int bucket) {
  return (unsigned long long)tid << 32 | call << 8 | bucket;
}

/* Tells files apart: by device (as the kernel writes it: major << 20 | minor) and inode. */
static inline unsigned long long io_file_id(unsigned int device, unsigned long long inode) {
  const unsigned long long mixed = inode * 0x9E3779B97F4A7C15ULL + device * 0xC2B2AE3D27D4EB4FULL;
  return mixed ? mixed : 1;
}

/* The kernel's side of the collector io/ebpf: tracepoints only.
 *
 * A thread is followed when it has an entry in `threads`, which it inherits at fork. A call that
 * ends becomes one event in the ring or, when events are thinned or the ring is full, one count in
 * `counts`: never both, never neither. Files are told apart by device and inode; the first event of
 * a file is preceded by its name.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "io_events.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

char license_text[] SEC("license") = "GPL"; /* of the helpers' interface; asked by the kernel */

/* ---- The parts of the kernel's structs that are read; libbpf finds the real offsets. ----
 *
 * Where it is not read for every call, BPF_CORE_READ is used though the pointer has a type: for
 * each typed pointer that is followed the verifier searches all the kernel's types. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
  unsigned long r10, r8, dx, si, di, orig_ax;
  u16 cs;
};
struct qstr {
  u32 hash;
  u32 len;
  const unsigned char* name;
};
struct super_block {
  u32 s_dev;
};
struct inode {
  u16 i_mode;
  struct super_block* i_sb;
  unsigned long i_ino;
};
struct dentry {
  struct dentry* d_parent;
  struct qstr d_name;
  struct inode* d_inode;
};
struct vfsmount {
  struct dentry* mnt_root;
};
struct mount {
  struct mount* mnt_parent;
  struct dentry* mnt_mountpoint;
  struct vfsmount mnt;
};
struct path {
  struct vfsmount* mnt;
  struct dentry* dentry;
};
struct file {
  void* private_data;
  struct inode* f_inode;
  u32 f_flags;
  struct path f_path;
  s64 f_pos;
};
struct fdtable {
  u32 max_fds;
  struct file** fd;
};
struct files_struct {
  struct fdtable* fdt;
};
struct fs_struct {
  struct path pwd;
};
struct upid {
  int nr;
};
struct pid {
  u32 level;
  struct upid numbers[1];
};
struct task_struct {
  u32 flags;
  u32 __state;
  int pid;
  int tgid;
  unsigned long maj_flt;
  struct pid* thread_pid;
  struct task_struct* group_leader;
  struct files_struct* files;
  struct fs_struct* fs;
  char comm[16];
};
struct sock_common {
  u32 skc_daddr;
  u16 skc_dport;
  u16 skc_family;
  u8 skc_v6_daddr[16];
};
struct sock {
  struct sock_common __sk_common;
};
struct socket {
  struct sock* sk;
};
struct address_space {
  struct inode* host;
};
enum pageflags { PG_head = 6 };
struct folio {
  struct address_space* mapping;
  unsigned long _flags_1;
};
struct gendisk {
  int major;
  int first_minor;
};
struct request_queue {
  struct gendisk* disk;
};
struct request {
  struct request_queue* q;
  u32 cmd_flags;
  u32 __data_len;
  u64 __sector;
  u64 start_time_ns;
};
struct kiocb {
  s64 ki_pos;
};
struct io_rw {
  struct kiocb kiocb;
};
struct io_kiocb {
  struct file* file;
  u8 opcode;
};
struct io_uring_cqe {
  int res;
};
struct bpf_iter__task {
  struct task_struct* task;
};
#pragma clang attribute pop

/* ---- State ---- */

/* The file of a thread's last event, to spare looking it up. */
struct LastFile {
  struct file* pointer;
  u64 inode_number, file, kind;
};

struct Thread {
  struct IoThreadState saved; /* while it does not run; its tid always holds */
  u32 pid;
  u32 waker;
  u64 fault_ns; /* since when it is in a fault on a file */
  /* Bytes that this thread's reads brought into the page cache and did not hand on yet. */
  u64 credit_bytes;
  struct inode* credit_inode;
  struct LastFile last;
  u64 closing_file;
  u32 closing_kind;
  int off_reason;
  u64 off_ns; /* since when it is off the CPU */
  u64 fault_end_ns, fault_file, fault_index, fault_majors;
};

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct Thread);
} threads SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct IoCpu);
} cpus SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 64 << 20);
} events SEC(".maps");

/* All its memory is taken at once, 6 MB: the kernel has none left for a new count when it is asked
 * for too fast, and the calls would be in no total. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 65536);
  __type(key, u64);
  __type(value, struct IoCount);
} counts SEC(".maps");

/* Files whose name the consumer has, with what changes when the name does. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, u64);
  __type(value, u64);
} named SEC(".maps");

/* Processes to follow from now on, or to forget, for the iterator. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 8192);
  __type(key, u32);
  __type(value, u32);
} wanted SEC(".maps");

struct BlockRequest {
  u64 issue_ns;
  u32 queue_ns, tid;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, u64);
  __type(value, struct BlockRequest);
} block_requests SEC(".maps");

struct RingRequest {
  u64 start_ns;
  s64 offset;
  u32 tid, opcode;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, u64);
  __type(value, struct RingRequest);
} ring_requests SEC(".maps");

/* Where an event with a text is put together. */
struct Scratch {
  union {
    struct IoEvent event;
    struct IoNameEvent name;
  };
  char text[kIoPathBytesMax];
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct Scratch);
} scratches SEC(".maps");

const volatile struct IoSettings settings = {};
struct IoControl control = {};

/* ---- Threads ---- */

static __always_inline struct Thread* thread_of(struct task_struct* task) {
  return bpf_task_storage_get(&threads, task, 0, 0);
}

static __always_inline struct IoCpu* this_cpu(void) {
  const u32 zero = 0;
  return bpf_map_lookup_elem(&cpus, &zero);
}

int settle_all(void);

/* Looks up what the CPU holds of the running thread. Threads are followed and forgotten while they
 * run, and the kernel does not tell of every switch. */
static __noinline int refresh(struct IoCpu* cpu) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct Thread* t = thread_of(task);
  if (cpu->has_untimed) settle_all();
  cpu->generation = control.generation;
  if (!t) {
    cpu->now.tid = 0;
  } else if (cpu->task != (u64)task || !cpu->now.tid) {
    cpu->now = t->saved;
  }
  cpu->task = (u64)task;
  return 0;
}

/* What is known of the running thread, or nothing when it is not followed. */
static __always_inline struct IoCpu* followed(void) {
  struct IoCpu* cpu = this_cpu();
  if (!cpu || control.is_over) return 0;
  if (cpu->task != bpf_get_current_task() || cpu->generation != control.generation) refresh(cpu);
  return cpu->now.tid ? cpu : 0;
}

/* Also right in an interrupt, on whose stack it came; 0 = not followed. */
static __always_inline u32 running_tid(void) {
  struct IoCpu* cpu = this_cpu();
  if (cpu && cpu->task == bpf_get_current_task()) return cpu->now.tid;
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  return t ? t->saved.tid : 0;
}

static __always_inline u32 number_in_namespace(struct task_struct* task) {
  const u32 level = control.level;
  struct pid* pid = BPF_CORE_READ(task, thread_pid);
  int number = BPF_CORE_READ(task, pid);
  if (level == 0 || level > 31 || !pid || BPF_CORE_READ(pid, level) < level) return number;
  bpf_probe_read_kernel(&number, sizeof(number),
                        (char*)pid + bpf_core_field_offset(struct pid, numbers) +
                            level * bpf_core_type_size(struct upid) +
                            bpf_core_field_offset(struct upid, nr));
  return number;
}

static __always_inline void no_room(void) {
  const u32 cpu = bpf_get_smp_processor_id();
  if (cpu < kIoCpusMax) __sync_fetch_and_add(&control.dropped[cpu], 1);
}

static __always_inline void say_task(u32 what, u32 tid, u32 pid, u32 parent,
                                     struct task_struct* task) {
  struct IoTaskEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) return no_room();
  e->kind = kIoTask;
  e->what = what;
  e->unused = 0;
  e->tid = tid;
  e->at_ns = bpf_ktime_get_ns();
  e->pid = pid;
  e->parent = parent;
  bpf_probe_read_kernel(e->name, sizeof(e->name), task->comm);
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* The call that a task waits in, as far as it is one; its number, else -1. */
static __always_inline int number_of_call(struct task_struct* task) {
  struct pt_regs* regs = (struct pt_regs*)bpf_task_pt_regs(task);
  const s64 number = BPF_CORE_READ(regs, orig_ax);
  if (number < 0 || number >= kIoNumbersMax || BPF_CORE_READ(regs, cs) != 0x33) return -1;
  return (int)number;
}

/* Of a task that waits while it begins to be followed: as if it began to do so now. */
static __always_inline void begin_in_call(struct Thread* t, struct task_struct* task) {
  if (!(BPF_CORE_READ(task, __state) & 3)) return; /* it may run */
  const int number = number_of_call(task);
  if (number < 0 || number >= kIoNumbersMax) return;
  t->off_ns = bpf_ktime_get_ns();
  t->off_reason = number;
  t->saved.was_off = 1;
  t->saved.flags = settings.flags[number];
  t->saved.start_ns = t->saved.flags ? t->off_ns : 0;
  t->saved.number = number + 1;
}

static __always_inline struct Thread* follow(struct task_struct* task, u32 pid) {
  struct Thread* t =
      bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!t) {
    no_room();
    return 0;
  }
  t->saved.tid = number_in_namespace(task);
  t->pid = pid;
  return t;
}

/* ---- Counting what is not kept ---- */

static __always_inline void write_back(struct IoPendingCount* p) {
  if (!p->count.count) return;
  struct IoCount* found = bpf_map_lookup_elem(&counts, &p->key);
  const int is_new = !found && !bpf_map_update_elem(&counts, &p->key, &p->count, BPF_NOEXIST);
  /* Another CPU may have been first with what it held of the same thread. */
  if (!found && !is_new) found = bpf_map_lookup_elem(&counts, &p->key);
  if (found) {
    __sync_fetch_and_add(&found->count, p->count.count);
    __sync_fetch_and_add(&found->bytes, p->count.bytes);
    __sync_fetch_and_add(&found->total_ns, p->count.total_ns);
  } else if (!is_new) {
    __sync_fetch_and_add(&control.uncounted, p->count.count);
  }
  p->count.count = 0;
  p->count.bytes = 0;
  p->count.total_ns = 0;
}

/* Adds calls of the running thread that took `duration_ns` each. Global, so that it is verified
 * once; it finds its CPU's counts itself. */
__noinline int count(u32 call, u64 duration_ns, u64 calls, u64 bytes) {
  struct IoCpu* cpu = this_cpu();
  if (!cpu) return 0;
  const u32 tid = cpu->now.tid;
  const u32 bucket = io_bucket(duration_ns);
  const u64 key = io_count_key(tid, call, bucket);
  struct IoPendingCount* p = &cpu->pending[(call ^ bucket ^ tid) & (kIoPending - 1)];
  *(volatile u32*)&cpu->is_counting = 1;
  if (p->key != key) {
    write_back(p);
    p->key = key;
  }
  p->count.count += calls;
  p->count.bytes += bytes;
  p->count.total_ns += duration_ns * calls;
  asm volatile("" ::: "memory");
  *(volatile u32*)&cpu->is_counting = 0;
  return 0;
}

/* Brings what a CPU holds back into the map; 1 = it is busy with that itself. */
__noinline int write_back_all(void) {
  struct IoCpu* cpu = this_cpu();
  if (!cpu) return 0;
  if (*(volatile u32*)&cpu->is_counting) return 1;
  *(volatile u32*)&cpu->is_counting = 1;
  asm volatile("" ::: "memory");
  for (int i = 0; i < kIoPending; ++i) write_back(&cpu->pending[i]);
  asm volatile("" ::: "memory");
  *(volatile u32*)&cpu->is_counting = 0;
  return 0;
}

/* Run by the consumer on each CPU, before it reads the map while programs go on. */
SEC("raw_tp")
int on_collect(void* context) {
  return write_back_all();
}

/* How many events of a thread are kept is decided anew in each of these windows (8.4 ms), by how
 * many there were in the one before: a flood is thinned before the consumer knows of it. */
static __always_inline void next_window(struct IoThreadState* s, u32 window) {
  const u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);
  const u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
  const u64 budget = control.window_budget;
  u32 mask = 0;
  if (window - s->window < 32) mask = s->thin_mask >> 1; /* lets go slowly */
  /* A thread that was kept from running for a while goes on as before. */
  if (budget && window - s->window < 32 && s->in_window > budget) {
    /* Well below the budget: in a flood keeping costs the program far more than counting. */
    u32 wanted_mask = 0;
    for (u64 left = s->in_window; left > budget / 16 && wanted_mask < 4095; left >>= 1) {
      wanted_mask = wanted_mask << 1 | 1;
    }
    if (wanted_mask > mask) mask = wanted_mask;
  }
  /* The consumer does not keep up, whoever fills the ring: what is counted in time is not lost. */
  s->pressure = (waiting > size / 8) + (waiting > size / 4) + (waiting > size / 2);
  if (s->pressure) mask |= (1U << 4 * s->pressure) - 1;
  s->thin_mask = mask;
  s->window = window;
  s->in_window = 0;
}

/* Whether an event that ends now is to be counted instead of kept. */
static __always_inline int is_thinned(struct IoCpu* cpu, u64 now_ns, u64 duration_ns) {
  struct IoThreadState* s = &cpu->now;
  const u32 window = now_ns >> 23;
  if (s->window != window) next_window(s, window);
  cpu->seen += 1;
  s->in_window += 1;
  return s->thin_mask && duration_ns < control.thin_below_ns << 4 * s->pressure &&
         (s->in_window & s->thin_mask);
}

/* ---- Calls that are counted and not timed ----
 *
 * In a flood the clock is what costs most, so short calls of a thread that are not kept are not
 * timed either: each is taken to last as long as the last one that was. Which ones are timed is
 * left to chance, and one at least in each tick. A call that leaves the CPU is timed from there,
 * and one that asks for many bytes always is: no long call goes unseen. */

enum { kShortBytes = 32768 };

static __always_inline int is_left_untimed(struct IoCpu* cpu, u32 kind, u64 bytes) {
  struct IoThreadState* s = &cpu->now;
  if (!cpu->untimed[kind & (kIoShortCalls - 1)].last_ns || bytes > kShortBytes) return 0;
  const u64 tick = bpf_jiffies64();
  if (s->skip && s->tick == tick) {
    s->skip -= 1;
    s->is_untimed = 1;
    return 1;
  }
  s->tick = tick;
  s->random = s->random * 1664525 + 1013904223;
  s->skip = s->random >> 16 & (2 * s->thin_mask + 1);
  s->is_sampled = 1;
  return 0;
}

static __always_inline void settle(struct IoUntimed* u) {
  if (!u->count) return;
  count(u->call, u->last_ns, u->count, u->bytes);
  u->count = 0;
  u->bytes = 0;
}

/* A call was timed for those of its kind that are not. */
static __always_inline void sample(struct IoCpu* cpu, u32 kind, u32 call, u64 descriptor,
                                   u64 duration_ns) {
  struct IoUntimed* u = &cpu->untimed[kind & (kIoShortCalls - 1)];
  u->last_ns = duration_ns ? duration_ns : 1;
  settle(u);
  u->call = call; /* with the kind of file */
  u->descriptor = descriptor;
  u->tid = cpu->now.tid;
  cpu->has_untimed = 1;
}

/* Before another thread runs on this CPU. */
__noinline int settle_all(void) {
  struct IoCpu* cpu = this_cpu();
  if (!cpu) return 0;
  for (int i = 1; i < kIoShortCalls; ++i) {
    settle(&cpu->untimed[i]);
    cpu->untimed[i].last_ns = 0;
  }
  cpu->has_untimed = 0;
  return 0;
}

static __always_inline void set_duration(struct IoEvent* e, u64 ns) {
  if (ns >> 48) ns = (1ULL << 48) - 1;
  e->duration_low = (u32)ns;
  e->duration_high = (u16)(ns >> 32);
}

/* ---- Names of files ---- */

/* Changes when a file is renamed or its inode number serves another file. */
static __always_inline u64 name_state(struct dentry* dentry) {
  return (u64)dentry ^ (u64)BPF_CORE_READ(dentry, d_parent) << 8 ^
         (u64)BPF_CORE_READ(dentry, d_name.hash) << 20;
}

static __always_inline void say_socket(struct Scratch* s, u64 private_data) {
  struct socket* socket = (struct socket*)private_data;
  struct sock* sock = BPF_CORE_READ(socket, sk);
  s->name.family = BPF_CORE_READ(sock, __sk_common.skc_family);
  s->name.port = BPF_CORE_READ(sock, __sk_common.skc_dport);
  if (s->name.family == 10 && bpf_core_field_exists(sock->__sk_common.skc_v6_daddr)) {
    bpf_probe_read_kernel(s->name.address, 16, &sock->__sk_common.skc_v6_daddr);
  } else {
    bpf_probe_read_kernel(s->name.address, 4, &sock->__sk_common.skc_daddr);
  }
}

/* Where collecting the names of a path has got to. */
struct Walk {
  struct Scratch* scratch;
  struct dentry* dentry;
  struct mount* mount; /* 0 = not to go beyond */
  int is_done;
};

/* One step up: to the parent's folder or out of a mount. How much of the text is used stands in the
 * map: a number in a register would be another state of the verifier each time. */
static long step_up(u32 step, struct Walk* w) {
  struct Scratch* s = w->scratch;
  struct dentry* dentry = w->dentry;
  struct mount* mount = w->mount;
  struct dentry* parent = BPF_CORE_READ(dentry, d_parent);
  if (mount && dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
    struct mount* above = BPF_CORE_READ(mount, mnt_parent);
    w->is_done = above == mount;
    w->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
    w->mount = above;
    return w->is_done;
  }
  w->is_done = !dentry || parent == dentry;
  if (w->is_done) return 1;
  const unsigned char* name = BPF_CORE_READ(dentry, d_name.name);
  const u64 used = *(volatile u16*)&s->name.bytes;
  if (used > kIoPathBytesMax - 256) return 1;
  const long bytes = bpf_probe_read_kernel_str(s->text + used, 256, name);
  w->is_done = bytes <= 0;
  if (w->is_done) return 1;
  *(volatile u16*)&s->name.bytes = used + bytes;
  w->dentry = parent;
  return 0;
}

/* The names of a file and of the folders above it, through mounts, from below. */
static __always_inline void collect_names(struct Scratch* s, struct dentry* dentry,
                                          struct vfsmount* vfsmount) {
  struct Walk walk = {.scratch = s, .dentry = dentry};
  if (vfsmount) {
    walk.mount = (struct mount*)((char*)vfsmount - bpf_core_field_offset(struct mount, mnt));
  }
  bpf_loop(48, step_up, &walk, 0);
  s->name.is_cut = !walk.is_done;
}

/* Sends the name of a file; 0 = done. The arguments are addresses of kernel structs. */
__noinline int say_name(u64 file, u64 dentry, u64 vfsmount, u64 kind, u64 private_data) {
  const u32 zero = 0;
  struct Scratch* s = bpf_map_lookup_elem(&scratches, &zero);
  if (!s) return 1;
  __builtin_memset(&s->name, 0, sizeof(s->name));
  s->name.kind = kIoName;
  s->name.file_kind = kind;
  s->name.tid = (u32)bpf_get_current_pid_tgid();
  s->name.file = file;
  if (kind == kIoSocket) {
    say_socket(s, private_data);
  } else if (kind != kIoPipe) {
    collect_names(s, (struct dentry*)dentry, (struct vfsmount*)vfsmount);
  }
  const u64 used = *(volatile u16*)&s->name.bytes;
  if (used > kIoPathBytesMax) return 1;
  const u64 size = __builtin_offsetof(struct Scratch, text) + used;
  if (bpf_ringbuf_output(&events, s, size, BPF_RB_NO_WAKEUP)) {
    no_room();
    return 1;
  }
  const u64 state = name_state((struct dentry*)dentry);
  bpf_map_update_elem(&named, &file, &state, BPF_ANY);
  return 0;
}

static __always_inline u32 kind_of_mode(u16 mode) {
  switch (mode & 0170000) {
    case 0100000: return kIoRegular;
    case 0040000: return kIoFolder;
    case 0140000: return kIoSocket;
    case 0010000: return kIoPipe;
    case 0020000: return kIoCharacter;
    case 0060000: return kIoDisk;
    default: return kIoAnonymous;
  }
}

/* Fills in which file an event is about, and makes sure that its name is known. `address` is that
 * of a struct file. A function of its own, global: see file_of_descriptor. */
__noinline int set_file(struct IoEvent* e, struct LastFile* last, u64 address, int is_opened) {
  struct file* file = (struct file*)address;
  if (!e || !last) return 0;
  struct inode* inode = BPF_CORE_READ(file, f_inode);
  const u64 number = BPF_CORE_READ(inode, i_ino);
  if (!is_opened && file == last->pointer && number == last->inode_number) {
    e->file = last->file;
    e->extra = last->kind;
    return 0;
  }
  const u64 id = io_file_id(BPF_CORE_READ(inode, i_sb, s_dev), number);
  u32 kind = kind_of_mode(BPF_CORE_READ(inode, i_mode));
  if (BPF_CORE_READ(file, f_flags) & 040000) kind |= kIoDirect;
  last->pointer = file;
  last->inode_number = number;
  last->file = id;
  last->kind = kind;
  e->file = id;
  e->extra = kind;
  struct dentry* dentry = BPF_CORE_READ(file, f_path.dentry);
  const u64* known = bpf_map_lookup_elem(&named, &id);
  if (known && !(is_opened && *known != name_state(dentry))) return 0;
  return say_name(id, (u64)dentry, (u64)BPF_CORE_READ(file, f_path.mnt), kind & kIoFileMask,
                  (u64)BPF_CORE_READ(file, private_data));
}

/* The address of the file behind a descriptor of the running task, 0 = none. A function of its own:
 * following typed pointers is what the verifier is slow at (it searches all the kernel's types for
 * each), and a global function is verified once instead of once for each path to it. */
__noinline u64 file_of_descriptor(u64 fd) {
  struct task_struct* task = bpf_get_current_task_btf();
  u64 file = 0;
  struct files_struct* files = task->files;
  if (!files) return 0;
  struct fdtable* table = files->fdt;
  if (!table || fd >= table->max_fds) return 0;
  bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
  return file;
}

/* The number of a call that is counted, with the kind of the file that it moves bytes of: reading a
 * pipe is no use of a file. */
__noinline u32 call_of_kind(u32 call, u32 flags, u64 descriptor) {
  if (!(flags & kIoBytes) || !(flags & (kIoFd | kIoReads2))) return call;
  struct file* file = (struct file*)file_of_descriptor((int)descriptor);
  if (!file) return call;
  return call | kind_of_mode(BPF_CORE_READ(file, f_inode, i_mode)) << kIoCountKindShift;
}

static __always_inline u64 descriptor_of(struct pt_regs* regs, u32 flags) {
  return flags & kIoReads2 ? regs->si : regs->di;
}

/* ---- System calls ---- */

/* Of the bytes that a read returned, those that this thread's reads had to fetch. */
static __always_inline u64 from_device(struct IoCpu* cpu, struct Thread* t, u64 bytes) {
  const u64 fetched = bytes < t->credit_bytes ? bytes : t->credit_bytes;
  t->credit_bytes -= fetched;
  cpu->now.has_credit = t->credit_bytes != 0;
  return fetched;
}

/* Of a read that is counted: where its bytes came from is not told. */
static __noinline int spend_credit(struct IoCpu* cpu, u32 flags, u64 bytes) {
  if (!(flags & kIoReads) || !bytes) return 0;
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  if (t) from_device(cpu, t, bytes);
  return 0;
}

static __always_inline void fill(struct IoEvent* e, u32 tid, u32 call, u64 start_ns,
                                 u64 duration_ns, long result) {
  e->kind = kIoCall;
  e->opcode = 0;
  e->tid = tid;
  e->start_ns = start_ns;
  set_duration(e, duration_ns);
  e->result = result > 0x7fffffff ? 0x7fffffff : (int)result;
  e->file = 0;
  e->offset = 0;
  e->call = call;
  e->pages = 0;
  e->extra = 0;
}

/* The folder that a relative path starts from: e->file. */
static __always_inline void set_folder(struct IoEvent* e, struct Thread* t, int fd) {
  if (fd >= 0) {
    struct file* file = (struct file*)file_of_descriptor(fd);
    if (file) set_file(e, &t->last, (u64)file, 0);
    return;
  }
  struct fs_struct* fs = BPF_CORE_READ(bpf_get_current_task_btf(), fs);
  struct dentry* dentry = BPF_CORE_READ(fs, pwd.dentry);
  struct inode* inode = BPF_CORE_READ(dentry, d_inode);
  const u64 id = io_file_id(BPF_CORE_READ(inode, i_sb, s_dev), BPF_CORE_READ(inode, i_ino));
  e->file = id;
  if (!bpf_map_lookup_elem(&named, &id)) {
    say_name(id, (u64)dentry, (u64)BPF_CORE_READ(fs, pwd.mnt), kIoFolder, 0);
  }
}

/* A call whose argument is a path, or an open that failed. */
static __noinline int say_path_call(struct IoCpu* cpu, struct pt_regs* regs, u32 call,
                                    u64 duration_ns, long result) {
  const u32 zero = 0;
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  if (!t) return 0; /* no longer followed */
  struct IoEvent folder = {};
  const u32 flags = cpu->now.flags;
  const u64 argument = flags & kIoAtPath ? regs->si : regs->di;
  set_folder(&folder, t, flags & kIoAtPath ? (int)regs->di : -100);
  struct Scratch* s = bpf_map_lookup_elem(&scratches, &zero);
  if (!s) return 1;
  __builtin_memset(&s->event, 0, sizeof(s->event));
  fill(&s->event, cpu->now.tid, call, cpu->now.start_ns, duration_ns, result);
  s->event.kind = kIoPathCall;
  s->event.file = folder.file;
  long bytes = bpf_probe_read_user_str(s->text, kIoPathBytesMax, (void*)argument);
  asm volatile("" : "+r"(bytes));
  if (bytes < 0 || bytes > kIoPathBytesMax) bytes = 0;
  const u64 size = __builtin_offsetof(struct Scratch, text) + bytes;
  return bpf_ringbuf_output(&events, s, size, BPF_RB_NO_WAKEUP) != 0;
}

/* Which argument of a call names its file. */
static __always_inline u64 file_of_call(struct pt_regs* regs, u32 flags, long result) {
  if (flags & kIoFdResult) return result >= 0 ? file_of_descriptor(result) : 0;
  if (flags & kIoFd) return file_of_descriptor((int)regs->di);
  if (flags & kIoFd5) return file_of_descriptor((int)regs->r8);
  if (flags & kIoReads2) return file_of_descriptor((int)regs->si);
  return 0;
}

static __always_inline int say_call(struct IoCpu* cpu, struct Thread* t, struct pt_regs* regs,
                                    u32 call, u32 flags, u64 duration_ns, long result) {
  struct IoEvent local;
  fill(&local, cpu->now.tid, call, cpu->now.start_ns, duration_ns, result);
  const u64 file = flags & kIoCloses ? 0 : file_of_call(regs, flags, result);
  if (flags & kIoCloses) {
    local.file = t->closing_file;
    local.extra = t->closing_kind;
    t->last.pointer = 0;
    t->closing_file = 0;
  } else if (file) {
    set_file(&local, &t->last, file, (flags & kIoFdResult) != 0);
    if (flags & kIoOffset) {
      local.offset = regs->r10;
      local.extra |= kIoHasOffset;
    } else if ((flags & kIoPosition) && result >= 0 && (local.extra & kIoFileMask) == kIoRegular) {
      local.offset = BPF_CORE_READ((struct file*)file, f_pos) - result;
      local.extra |= kIoHasOffset;
    }
  }
  if ((flags & kIoReads) && result > 0 && cpu->now.has_credit) {
    const u64 pages = (from_device(cpu, t, result) + 4095) >> 12;
    local.pages = pages > 0xffff ? 0xffff : pages;
  }
  struct IoEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) return 1;
  *e = local;
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
  return 0;
}

static __noinline int end_fault(struct IoCpu* cpu, struct Thread* t, struct task_struct* task) {
  const u64 start_ns = t->fault_ns;
  t->fault_ns = 0;
  cpu->now.is_in_fault = 0;
  if (BPF_CORE_READ(task, maj_flt) == t->fault_majors) return 0;
  const u64 duration_ns = t->fault_end_ns > start_ns ? t->fault_end_ns - start_ns : 0;
  cpu->seen += 1;
  struct IoEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    no_room();
    return 0;
  }
  fill(e, t->saved.tid, 0, start_ns, duration_ns, 0);
  e->kind = kIoFault;
  e->file = t->fault_file;
  e->offset = t->fault_index << 12;
  e->extra = kIoHasOffset;
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
  return 0;
}

static __noinline int end_fault_before_call(struct IoCpu* cpu) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct Thread* t = thread_of(task);
  cpu->now.is_in_fault = 0;
  return t && t->fault_ns ? end_fault(cpu, t, task) : 0;
}

/* The file of a descriptor has to be known before it is closed. */
static __noinline int note_closing(u64 fd) {
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  if (!t) return 0;
  struct IoEvent e = {};
  const u64 file = file_of_descriptor(fd);
  if (file) set_file(&e, &t->last, file, 0);
  t->closing_file = e.file;
  t->closing_kind = e.extra;
  return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs* regs, long number) {
  struct IoCpu* cpu = followed();
  if (!cpu) return 0;
  struct IoThreadState* s = &cpu->now;
  if (s->is_in_fault) end_fault_before_call(cpu);
  s->number = (u32)number + 1;
  s->start_ns = 0;
  s->is_untimed = s->is_sampled = s->was_off = 0;
  if ((u64)number >= kIoNumbersMax || regs->cs != 0x33) return 0; /* 32-bit calls */
  const u32 flags = settings.flags[number];
  if (!flags) return 0;
  s->flags = flags;
  const u32 kind = flags >> kIoShortShift;
  if (s->thin_mask) {
    if (kind && is_left_untimed(cpu, kind, regs->dx)) return 0;
    if (flags & kIoCloses) { /* its number may become another file's */
      for (int i = 1; i < kIoShortCalls; ++i) cpu->untimed[i].descriptor = -1;
    }
  } else if (flags & kIoCloses) {
    note_closing((int)regs->di);
  }
  s->start_ns = bpf_ktime_get_ns();
  return 0;
}

/* Of a call that was not timed. */
static __always_inline void count_untimed(struct IoCpu* cpu, struct pt_regs* regs, u32 call,
                                          long result) {
  const u32 flags = cpu->now.flags;
  const u64 descriptor = descriptor_of(regs, flags);
  struct IoUntimed* u = &cpu->untimed[flags >> kIoShortShift & (kIoShortCalls - 1)];
  const u64 bytes = (flags & kIoBytes) && result > 0 ? result : 0;
  cpu->seen += 1;
  cpu->now.in_window += 1;
  cpu->now.is_untimed = 0;
  if (cpu->now.has_credit) spend_credit(cpu, flags, bytes);
  if (descriptor != u->descriptor) {
    call = call_of_kind(call, flags, descriptor);
    if (call != u->call) {
      count(call, u->last_ns, 1, bytes);
      return;
    }
    u->descriptor = descriptor;
  }
  u->count += 1;
  u->bytes += bytes;
}

/* Tells of a call, or refuses: then it is to be counted. */
static __noinline int say(struct IoCpu* cpu, struct pt_regs* regs, u32 call, u64 duration_ns,
                          long result) {
  const u32 flags = cpu->now.flags;
  if (flags & (kIoPath | kIoAtPath) && !(flags & kIoFdResult && result >= 0)) {
    return say_path_call(cpu, regs, call, duration_ns, result);
  }
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  if (!t) return 0; /* no longer followed */
  return say_call(cpu, t, regs, call, flags, duration_ns, result);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs* regs, long result) {
  struct IoCpu* cpu = followed();
  if (!cpu) return 0;
  struct IoThreadState* s = &cpu->now;
  const u32 call = s->number - 1;
  s->number = 0;
  if (s->is_in_fault) end_fault_before_call(cpu);
  if (!s->start_ns) {
    if (s->is_untimed) count_untimed(cpu, regs, call, result);
    return 0;
  }
  const u64 now_ns = bpf_ktime_get_ns();
  const u64 duration_ns = now_ns - s->start_ns;
  const u32 flags = s->flags;
  const u64 bytes = (flags & kIoBytes) && result > 0 ? result : 0;
  int is_counted = is_thinned(cpu, now_ns, duration_ns) && !s->is_sampled;
  if (flags >> kIoShortShift && s->thin_mask && !s->was_off) {
    const u64 descriptor = descriptor_of(regs, flags);
    sample(cpu, flags >> kIoShortShift, call_of_kind(call, flags, descriptor), descriptor,
           duration_ns);
  }
  if (flags & kIoFd5 && (int)regs->r8 < 0) return 0;
  /* FUTEX_WAKE and its kin never wait. */
  if (flags & kIoFutex) {
    const u32 operation = regs->si & 127;
    is_counted |= operation != 0 && operation != 9 && operation != 6 && operation != 13;
  }
  if (!is_counted) {
    if (!say(cpu, regs, call, duration_ns, result)) return 0;
    no_room();
  } else if (s->has_credit) {
    spend_credit(cpu, flags, bytes);
  }
  count(call_of_kind(call, flags, descriptor_of(regs, flags)), duration_ns, 1, bytes);
  return 0;
}

/* ---- Processes and threads ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct* parent, struct task_struct* child) {
  struct Thread* p = thread_of(parent);
  if (!p || control.is_over) return 0;
  const int is_thread = child->tgid == parent->tgid;
  struct Thread* t = follow(child, p->pid);
  if (!t) return 0;
  if (!is_thread) t->pid = t->saved.tid;
  say_task(is_thread ? kIoTaskThread : kIoTaskFork, t->saved.tid, t->pid, p->saved.tid, child);
  return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct* task) {
  struct Thread* t = thread_of(task);
  struct IoCpu* cpu = followed();
  if (!t || !cpu) return 0;
  settle_all();
  cpu->now.tid = t->saved.tid = t->pid; /* a thread that execs becomes the process */
  say_task(kIoTaskExec, t->pid, t->pid, 0, task);
  return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_end, struct task_struct* task) {
  struct Thread* t = thread_of(task);
  struct IoCpu* cpu = followed();
  if (!t || !cpu) return 0;
  if (t->fault_ns) end_fault(cpu, t, task);
  cpu->now.number = 0;
  settle_all();
  write_back_all();
  say_task(kIoTaskExit, t->saved.tid, t->pid, 0, task);
  return 0;
}

SEC("iter/task")
int on_task(struct bpf_iter__task* context) {
  struct task_struct* task = context->task;
  if (!task) return 0;
  struct task_struct* current = bpf_get_current_task_btf();
  struct pid* own = BPF_CORE_READ(current, thread_pid);
  if (own) control.level = BPF_CORE_READ(own, level);
  struct task_struct* leader = BPF_CORE_READ(task, group_leader);
  if (!leader) return 0;
  const u32 pid = number_in_namespace(leader);
  const u32* what = bpf_map_lookup_elem(&wanted, &pid);
  if (!what) return 0;
  if (*what == kIoForget) {
    bpf_task_storage_delete(&threads, task);
    return 0;
  }
  if (thread_of(task)) return 0;
  struct Thread* t = follow(task, pid);
  if (!t) return 0;
  if (*what == kIoAttach) begin_in_call(t, task);
  say_task(kIoTaskFollowed, t->saved.tid, t->pid, 0, task);
  return 0;
}

/* ---- What has not ended when the recording does ---- */

static __always_inline u64 file_in(struct task_struct* task, int fd) {
  u64 file = 0;
  struct fdtable* table = BPF_CORE_READ(task, files, fdt);
  if (!table || fd < 0 || fd >= BPF_CORE_READ(table, max_fds)) return 0;
  struct file** all = BPF_CORE_READ(table, fd);
  bpf_probe_read_kernel(&file, sizeof(file), all + fd);
  return file;
}

/* Which file a call that a task waits in is about, by its arguments. */
static __always_inline void set_file_of_waiting(struct IoEvent* e, struct Thread* t,
                                                struct task_struct* task, u32 flags) {
  struct pt_regs* regs = (struct pt_regs*)bpf_task_pt_regs(task);
  if (flags & kIoCloses) {
    e->file = t->closing_file;
    e->extra = t->closing_kind;
    return;
  }
  const int first = (int)BPF_CORE_READ(regs, di);
  const int fd = flags & kIoReads2          ? (int)BPF_CORE_READ(regs, si)
                 : flags & kIoFd5           ? (int)BPF_CORE_READ(regs, r8)
                 : flags & (kIoFd | kIoAtPath) ? first
                                            : -1;
  struct LastFile none = {};
  const u64 file = file_in(task, fd);
  if (file) set_file(e, &none, file, 0);
  if (flags & kIoOffset) {
    e->offset = BPF_CORE_READ(regs, r10);
    e->extra |= kIoHasOffset;
  } else if (flags & (kIoPath | kIoAtPath)) {
    e->offset = flags & kIoPath ? BPF_CORE_READ(regs, di) : BPF_CORE_READ(regs, si);
    e->extra |= kIoHasAddress;
  }
}

static __always_inline void say_under_way(struct IoEvent* e, u32 kind) {
  e->kind = kind;
  e->opcode = kIoUnderWay;
  if (bpf_ringbuf_output(&events, e, sizeof(*e), BPF_RB_NO_WAKEUP)) no_room();
}

/* Tells what each thread waits for. Switches are no longer seen: one that waited stays so. */
SEC("iter/task")
int on_under_way(struct bpf_iter__task* context) {
  struct task_struct* task = context->task;
  if (!task) return 0;
  struct Thread* t = thread_of(task);
  if (!t || !t->off_ns) return 0;
  const struct IoThreadState* s = &t->saved;
  const u64 now_ns = bpf_ktime_get_ns();
  struct IoEvent e;
  fill(&e, s->tid, 0, t->off_ns, now_ns - t->off_ns, t->off_reason);
  say_under_way(&e, kIoOffCpu);
  if (t->fault_ns) {
    fill(&e, s->tid, 0, t->fault_ns, now_ns - t->fault_ns, 0);
    e.file = t->fault_file;
    e.offset = t->fault_index << 12;
    e.extra = kIoHasOffset;
    say_under_way(&e, kIoFault);
  }
  if (!s->number || !s->start_ns) return 0;
  fill(&e, s->tid, s->number - 1, s->start_ns, now_ns - s->start_ns, 0);
  set_file_of_waiting(&e, t, task, s->flags);
  say_under_way(&e, kIoCall);
  return 0;
}

/* ---- The scheduler ---- */

static __always_inline void leave(struct IoCpu* cpu, struct Thread* t, struct task_struct* task,
                                  int preempt, u32 state) {
  struct IoThreadState* s = &cpu->now;
  t->off_ns = bpf_ktime_get_ns();
  t->waker = 0;
  s->was_off = 1;
  if (s->is_untimed) {
    s->start_ns = t->off_ns;
    s->is_untimed = 0;
  }
  if (preempt || state == 0) {
    t->off_reason = kIoPreempted;
  } else if (t->fault_ns) {
    t->off_reason = kIoInFault;
  } else if (task->flags & 4) { /* PF_EXITING */
    t->off_reason = kIoExiting;
  } else if (s->number) {
    t->off_reason = s->number - 1;
  } else if (state & 0xc) { /* stopped or traced */
    t->off_reason = kIoStopped;
  } else {
    t->off_reason = state & 2 ? kIoInFault : kIoUnknown;
  }
}

static __always_inline void come_back(struct IoCpu* cpu, struct Thread* t) {
  const u64 now_ns = bpf_ktime_get_ns();
  const u64 duration_ns = now_ns - t->off_ns;
  if (!t->off_ns || t->off_ns > now_ns) return;
  if (t->fault_ns) t->fault_end_ns = now_ns;
  if (!is_thinned(cpu, now_ns, duration_ns)) {
    struct IoEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
    if (e) {
      fill(e, cpu->now.tid, 0, t->off_ns, duration_ns, t->off_reason);
      e->kind = kIoOffCpu;
      e->extra = t->waker;
      bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
      t->off_ns = 0;
      return;
    }
    no_room();
  }
  count(kIoOffCpuClass, duration_ns, 1, 0);
  t->off_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct* before, struct task_struct* after,
             unsigned int state) {
  struct IoCpu* cpu = this_cpu();
  if (!cpu || control.is_over) return 0;
  if (cpu->has_untimed) settle_all();
  if (cpu->now.tid && cpu->task == (u64)before) {
    struct Thread* t = thread_of(before);
    if (t) leave(cpu, t, before, preempt, state);
    if (t) t->saved = cpu->now;
  }
  struct Thread* t = thread_of(after);
  cpu->task = (u64)after;
  cpu->now.tid = 0;
  if (t) {
    cpu->now = t->saved;
    come_back(cpu, t);
  }
  return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct* task) {
  struct Thread* t = thread_of(task);
  if (!t) return 0;
  t->waker = running_tid();
  return 0;
}

/* ---- The page cache ---- */

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(on_page_added, struct folio* folio) {
  struct IoCpu* cpu = followed();
  if (!cpu || !cpu->now.number) return 0;
  const u32 call = cpu->now.number - 1;
  if (call >= kIoNumbersMax || !(settings.flags[call] & kIoReads)) return 0;
  struct address_space* mapping = BPF_CORE_READ(folio, mapping);
  struct Thread* t = thread_of(bpf_get_current_task_btf());
  if (!mapping || !t) return 0;
  u64 bytes = 4096;
  if (bpf_core_field_exists(folio->_flags_1)) {
    unsigned long flags = 0; /* come first; their type changed over time */
    bpf_probe_read_kernel(&flags, sizeof(flags), folio);
    if (flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1) {
      bytes <<= BPF_CORE_READ(folio, _flags_1) & 15; /* the order of a folio of many pages */
    }
  }
  struct inode* inode = BPF_CORE_READ(mapping, host);
  if (t->credit_inode != inode) {
    t->credit_inode = inode;
    t->credit_bytes = 0;
  }
  t->credit_bytes += bytes;
  cpu->now.has_credit = 1;
  return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space* mapping, unsigned long index) {
  struct IoCpu* cpu = followed();
  if (!cpu) return 0;
  struct task_struct* task = bpf_get_current_task_btf();
  struct Thread* t = thread_of(task);
  if (!t) return 0;
  if (t->fault_ns) {
    /* A fault that slept is tried again: still the same one. */
    const int is_same = t->fault_index == index && task->maj_flt == t->fault_majors;
    if (is_same) return 0;
    end_fault(cpu, t, task);
  }
  struct inode* inode = BPF_CORE_READ(mapping, host);
  if (!inode) return 0;
  t->fault_file = io_file_id(BPF_CORE_READ(inode, i_sb, s_dev), BPF_CORE_READ(inode, i_ino));
  t->fault_index = index;
  t->fault_majors = task->maj_flt;
  t->fault_end_ns = 0;
  t->fault_ns = bpf_ktime_get_ns();
  cpu->now.is_in_fault = 1;
  return 0;
}

/* ---- Disks ---- */

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request* request) {
  if (control.is_over) return 0;
  const u64 key = (u64)request;
  const u64 born_ns = request->start_time_ns;
  struct BlockRequest r = {.issue_ns = bpf_ktime_get_ns(), .tid = running_tid()};
  if (born_ns && born_ns < r.issue_ns && r.issue_ns - born_ns < 0xffffffffULL) {
    r.queue_ns = r.issue_ns - born_ns;
  }
  bpf_map_update_elem(&block_requests, &key, &r, BPF_ANY);
  return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request* request, int error, unsigned int bytes) {
  const u64 key = (u64)request;
  struct BlockRequest* r = bpf_map_lookup_elem(&block_requests, &key);
  if (!r || control.is_over) return 0;
  const u64 issue_ns = r->issue_ns;
  const u32 queue_ns = r->queue_ns, tid = r->tid;
  bpf_map_delete_elem(&block_requests, &key);
  struct gendisk* disk = BPF_CORE_READ(request, q, disk);
  if (!disk) return 0;
  struct IoEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    no_room();
    return 0;
  }
  __builtin_memset(e, 0, sizeof(*e));
  e->kind = kIoBlock;
  e->opcode = request->cmd_flags & 0xff;
  e->tid = tid;
  e->start_ns = issue_ns;
  set_duration(e, bpf_ktime_get_ns() - issue_ns);
  e->result = bytes;
  e->file = (u64)BPF_CORE_READ(disk, major) << 20 | (u32)BPF_CORE_READ(disk, first_minor);
  e->offset = request->__sector << 9;
  e->extra = queue_ns;
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
  return 0;
}

/* ---- io_uring ---- */

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_submit, struct io_kiocb* request) {
  const struct IoCpu* cpu = followed();
  if (!cpu) return 0;
  const u64 key = (u64)request;
  /* The parameters of a read or write lie where the request begins. */
  struct RingRequest r = {.start_ns = bpf_ktime_get_ns(), .tid = cpu->now.tid,
                          .opcode = request->opcode};
  r.offset = BPF_CORE_READ((struct io_rw*)request, kiocb.ki_pos);
  bpf_map_update_elem(&ring_requests, &key, &r, BPF_ANY);
  return 0;
}

static __always_inline int end_request(struct io_kiocb* request, int result) {
  const u64 key = (u64)request;
  struct RingRequest* r = bpf_map_lookup_elem(&ring_requests, &key);
  if (!r) return 0;
  struct IoEvent local = {.kind = kIoRequest, .opcode = r->opcode, .tid = r->tid,
                          .start_ns = r->start_ns, .result = result, .offset = r->offset};
  bpf_map_delete_elem(&ring_requests, &key);
  set_duration(&local, bpf_ktime_get_ns() - local.start_ns);
  struct file* file = BPF_CORE_READ(request, file);
  if (file) {
    struct LastFile none = {};
    set_file(&local, &none, (u64)file, 0);
    local.extra |= kIoHasOffset;
  }
  struct IoEvent* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    no_room();
    return 0;
  }
  *e = local;
  bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
  return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_request_end, void* ring, struct io_kiocb* request, struct io_uring_cqe* entry) {
  int result = 0;
  bpf_probe_read_kernel(&result, sizeof(result), (char*)entry +
                        bpf_core_field_offset(struct io_uring_cqe, res));
  return request ? end_request(request, result) : 0;
}

/* Kernels before 6.12: the result is an argument of its own. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_request_end_old, void* ring, struct io_kiocb* request, u64 user_data,
             int result) {
  return request ? end_request(request, result) : 0;
}

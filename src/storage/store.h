// Named bytes: files of a directory, an object store, memory, or a stand-in that misbehaves on
// purpose.
//
// A Store may be used from any thread. A ReadQueue belongs to one thread at a time; open one per
// consumer. Queues and writers must be destroyed before the store that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"

namespace forebay::storage {

// What a driver can do; callers size their requests by it.
struct Capabilities {
  int in_flight_max = 1;        // reads that make progress at once in one queue
  size_t alignment = 1;         // offsets and lengths that cost no extra copy
  bool can_sync = false;        // sync() survives power loss
  bool can_patch = false;       // Writer::patch works
  bool can_rename = false;      // rename_folder works
  bool can_link = false;        // link_file works
  bool keeps_files = true;      // what is published can be listed
  bool is_local = false;        // bytes pass through this machine's page cache or disk
  std::string fallback_reason;  // why another driver stands in for the one asked for, or ""
};

struct FileInfo {
  std::string path;      // relative to the store's root, '/' separated
  uint64_t size = 0;     // bytes
  int64_t mtime_ns = 0;  // 0 where the store has none
  bool is_link = false;  // of stat(): a symbolic link of that name leads to the file
};

// What a writer has begun and not published.
struct Unpublished {
  enum class Writer { kLives, kGone, kUnknown };  // unknown: where there are no locks

  std::string path{};    // of the hidden file, or of the object that was to be
  std::string upload{};  // which of several uploads of that object; "" = a file
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;  // when it was last written, as far as that is known
  Writer writer = Writer::kUnknown;
};

// What a listing passed over, so that nothing is silently ignored.
struct Skipped {
  std::string path;
  std::string reason;  // "symlink loop", "dangling symlink", "permission denied", ...
};

struct Listing {
  std::vector<FileInfo> files;  // regular files, sorted by path
  std::vector<Skipped> skipped;
};

// Sees the bytes of one read, in order, on the thread that read them and while they are still in
// its cache. Calls never overlap for one read.
class PieceVisitor {
 public:
  virtual ~PieceVisitor() = default;
  virtual void visit(std::span<const std::byte> piece) = 0;
};

struct Read {
  std::string_view path;  // must stay valid until the completion is reaped
  uint64_t offset = 0;
  uint64_t length = 0;               // bytes wanted; 0 is allowed
  std::byte* destination = nullptr;  // length bytes, or nullptr to drop the bytes once visited
  PieceVisitor* visitor = nullptr;   // optional
  // The read covers the file from `offset` to its end: a file that has grown or shrunk since its
  // length was learnt is an error that says so, not a short or partial result.
  bool to_end = false;
  bool keep_open = false;  // more reads of this file will follow: worth caching its handle
  bool in_order = false;   // and they go from front to back: worth reading ahead of them
  uint64_t tag = 0;        // returned in the completion
};

struct Completion {
  uint64_t tag = 0;
  Status status;       // kCorruption "changed ... is now N bytes", kNotFound, kIo with errno text
  uint64_t bytes = 0;  // delivered; equals the length asked for when status is ok
  int64_t started_ns = 0;  // monotonic: when the driver began to work on it
  int64_t ended_ns = 0;    // monotonic: when the last byte was there
  int64_t visit_ns = 0;    // part of it spent in the visitor
  int64_t cpu_ns = 0;      // CPU time of the driver's thread for it, visitor included; -1 unknown
  int retries = 0;         // times it was begun again after EIO or a stale handle
};

class ReadQueue {
 public:
  virtual ~ReadQueue() = default;  // waits for reads in flight; their completions are dropped

  // Accepts any number of reads; those beyond in_flight_max wait inside. Never blocks for I/O that
  // the driver can do asynchronously.
  virtual void submit(std::span<const Read> reads) = 0;

  // Fills `out` with finished reads and returns how many. Waits for at least one unless nothing was
  // submitted, a stop is asked for or wake() is called.
  virtual size_t reap(std::span<Completion> out, std::stop_token stop) = 0;

  // Makes a reap() that waits, or the next one, return at once. From any thread.
  virtual void wake() = 0;

  // Reads in flight from now on, at most the depth_max it was opened with. Returns what it is now;
  // queues whose reads wait for nothing have none to change. On the thread that submits.
  virtual int set_depth(int depth) { return depth; }
};

struct QueueOptions {
  int depth = 4;              // reads in flight; the driver may lower it (in_flight_max)
  int depth_max = 0;          // that set_depth() may go up to; 0 = depth
  std::string name = "read";  // prefix of the driver's thread names
};

// Writes one file that nobody can see until publish(). One thread at a time.
class Writer {
 public:
  virtual ~Writer() = default;  // discards what was not published

  // kResourceExhausted when the store is full; the writer is then unusable.
  virtual Status append(std::span<const std::byte> bytes) = 0;

  // Overwrites bytes that were appended before. kUnsupported unless can_patch.
  virtual Status patch(uint64_t offset, std::span<const std::byte> bytes) = 0;

  // Makes what was appended durable. kUnsupported unless can_sync.
  virtual Status sync() = 0;

  // Gives the file its name, replacing any earlier one in one step; durable when sync() came
  // before.
  virtual Status publish() = 0;
};

// One file, read wherever one likes. From any number of threads. The store must outlive it.
class Reader {
 public:
  virtual ~Reader() = default;
  // As Store::read_at().
  virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual Capabilities capabilities() const = 0;
  virtual std::string describe() const = 0;  // "local:/mnt/d"

  // Every file below `prefix` (a folder, "" = all), symlinks followed once, no loops. Unreadable
  // folders below it are in `skipped`; an unreadable or missing `prefix` itself is an error.
  virtual Result<Listing> list(std::string_view prefix) = 0;
  virtual Result<FileInfo> stat(std::string_view path) = 0;
  virtual Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) = 0;

  // Reads [offset, offset + out.size()) on the calling thread; short only at the end of the file.
  // Returns the bytes read.
  virtual Result<size_t> read_at(std::string_view path, uint64_t offset,
                                 std::span<std::byte> out) = 0;
  // For many reads of one file. Stores on files open it once, and go on with the one that had the
  // name then; for others it is read_at(), which is the first to say what is wrong.
  virtual Result<std::unique_ptr<Reader>> open_file(std::string_view path);

  // From now on list(), stat() and read_at() end with kCancelled soon after `stop` is asked for,
  // whatever they wait for. Before the store is shared with other threads.
  virtual void set_stop(std::stop_token stop) { stop_ = std::move(stop); }

  // Makes a folder and those above it that are missing, for tools that list it before it holds a
  // file. Stores without folders say yes and do nothing.
  virtual Status make_folder(std::string_view path);
  // Gives a folder, with all that is below it, another name in one step; both names are durable
  // then, where the store can sync. kIo when something with the new name holds anything.
  // kUnsupported unless can_rename.
  virtual Status rename_folder(std::string_view from, std::string_view to);
  // Removes a folder that holds no file. Stores without folders say yes and do nothing.
  virtual Status remove_folder(std::string_view path);

  // Gives a file, which nobody changes, another name, durable like one that is published synced;
  // its bytes stay until all its names are removed. What had the name before goes. kUnsupported
  // unless can_link, or where the file system cannot.
  virtual Status link_file(std::string_view from, std::string_view to);
  // Locks a file against those who lock it the other way, in this process and all others that share
  // the file system, while the lock lives or until its process ends, however that does: shared by
  // any number, exclusive by one. kResourceExhausted when it is held the other way now;
  // kUnsupported where there are no locks.
  virtual Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive);

  // Creates the folders on the way. Unpublished files have names that list() leaves out.
  virtual Result<std::unique_ptr<Writer>> create(std::string_view path) = 0;

  // Names of the folders directly in `prefix`, those that hold no file too, without links. Stores
  // without folders know none.
  virtual Result<std::vector<std::string>> list_folders(std::string_view prefix);
  // What writers of this and other processes have begun below `prefix` and not published, sorted by
  // path.
  virtual Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix);
  // Gives that up. kResourceExhausted while its writer lives, where that can be told; kNotFound
  // when it is gone.
  virtual Status remove_unpublished(const Unpublished& one);
  // From now on the store is what has its name now, if that was removed, made again or mounted
  // since it was opened. Calls that go on meanwhile may fail.
  virtual void look_again() {}

  virtual Status remove(std::string_view path) = 0;  // kNotFound when it was not there
  virtual Result<uint64_t> free_bytes() = 0;         // UINT64_MAX when unlimited or unknown
  // New tries so far of requests that are no read of a queue, whose completions count their own:
  // listings, stat, read_at and writers.
  virtual uint64_t other_retries() const { return 0; }

 protected:
  const std::stop_token& stop() const { return stop_; }
  Status check_stop() const;  // kCancelled once a stop is asked for

 private:
  std::stop_token stop_;
};

// The whole file. kResourceExhausted when it is larger than bytes_max.
Result<std::vector<std::byte>> read_file(Store& store, std::string_view path,
                                         uint64_t bytes_max = UINT64_MAX);

// One publish of `bytes` under `path`; synced first when the store can.
Status write_file(Store& store, std::string_view path, std::span<const std::byte> bytes);

// --- The table of drivers (builtin.cc) ---

struct StoreOption {
  std::string_view name;
  std::string_view unit_and_range;
  std::string_view fallback;  // the value when not given
  std::string_view help;
  bool is_secret = false;  // refused in a spec, which results and logs repeat
};

using OptionValues = std::vector<std::pair<std::string, std::string>>;

struct Driver {
  std::string_view name;
  std::string_view summary;
  std::span<const StoreOption> options;
  // `root` is a local path for drivers on the file system, "s3://BUCKET/PREFIX" for object stores,
  // and a label for the others.
  Result<std::unique_ptr<Store>> (*open)(std::string_view root,
                                         const OptionValues& options) = nullptr;
  // In its place for drivers that stand on another: that one is opened first, from the option
  // `over`.
  Result<std::unique_ptr<Store>> (*wrap)(std::unique_ptr<Store> over,
                                         const OptionValues& options) = nullptr;
};

std::span<const Driver* const> builtin_drivers();

// Opens from "NAME" or "NAME:key=value,key=value" ("slow:over=memory,latency=5ms"). Unknown names
// and keys are kInvalidArgument and name the nearest known one. A root "s3://..." makes an s3 store
// of "local", the default, also below a wrapper. `hidden` are further options for the store that
// holds the bytes, which give way to those of the spec and which no description repeats; the only
// place for secret ones.
Result<std::unique_ptr<Store>> open_store(std::string_view spec, std::string_view root,
                                          const OptionValues& hidden = {});

}  // namespace forebay::storage

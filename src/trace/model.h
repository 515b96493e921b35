// The words of a recording: tracks, names, categories, arguments, stacks, clocks. The emulator, the
// loader, every collector and every importer write them; the explainer and the report read them and
// nothing else. docs/formats/trace.md has the bytes.
//
// Plain values; no threads, no failures. Times are nanoseconds of the recording's own clock, which
// is CLOCK_MONOTONIC where Forebay recorded it; a ClockPair ties it to UNIX time.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace forebay::trace {

// Ids count from 0 in the order in which things were first named in one file.
using TextId = uint32_t;
using TrackId = uint32_t;
using NameId = uint32_t;
using KeyId = uint32_t;
using FrameId = uint32_t;
using StackId = uint32_t;
inline constexpr uint32_t kNoId = UINT32_MAX;

// What a track stands for. The numbers are written to files.
enum class TrackKind : uint8_t {
  kHost = 0,
  kProcess = 1,      // number = pid
  kThread = 2,       // number = tid
  kDevice = 3,       // an accelerator; number = its index
  kStream = 4,       // a queue of work on a device; number = stream
  kBlockDevice = 5,  // a disk; number = major << 20 | minor
  kCore = 6,         // a processor core; number = its index
  kNetwork = 7,      // an interface
  kOther = 8,
};
inline constexpr int kTrackKinds = 9;

// Where events happen. The parent of a thread is its process, of a process its host, of a stream
// its device.
struct Track {
  TrackKind kind = TrackKind::kOther;
  TrackId parent = kNoId;
  TextId text = 0;  // host name, command, thread name, "cuda:0"
  int64_t number = -1;
  int32_t rank = -1;  // of the process in its training job, -1 = not known
};

// What kind of statement an event makes.
enum class EventKind : uint8_t {
  kSpan = 0,     // something lasted
  kInstant = 1,  // something happened; the duration is 0
  kCounter = 2,  // a value from here on: argument "value"
  kSample = 3,   // a stack was seen: argument "stack"; the duration is the time it stands for
};
inline constexpr int kEventKinds = 4;

// What an event means to the explainer. The numbers are written to files: append only.
enum class Category : uint8_t {
  kOther = 0,
  kStep = 1,         // one iteration of training: what marks and ProfilerStep say
  kCompute = 2,      // work of an accelerator
  kOperator = 3,     // a framework's operator on the CPU
  kLaunch = 4,       // a call into an accelerator's driver or runtime
  kRead = 5,         // bytes from a file or object
  kWrite = 6,        // bytes to one
  kMetadata = 7,     // open, close, stat, list, rename, seek
  kSync = 8,         // fsync and its kin
  kFault = 9,        // a page fault
  kBlockIo = 10,     // a request at a block device
  kPrepare = 11,     // parse, decompress, decode, transform, collate
  kDataWait = 12,    // training waits for its next batch
  kCollective = 13,  // ranks exchange or meet: all-reduce, barrier
  kNetwork = 14,     // send, receive, connect
  kCopy = 15,        // between host and device memory
  kCheckpoint = 16,  // state is saved or loaded
  kLock = 17,        // waits for another thread: futex
  kSleep = 18,       // waits for time or readiness: nanosleep, poll, epoll
  kOffCpu = 19,      // not running: argument "reason"
  kFunction = 20,    // a function of the program, from an instrumenting profiler
  kAnnotation = 21,  // a range that the user named
  kOnCpu = 22,       // samples of running code
  kOverhead = 23,    // the recording itself
  kProcess = 24,     // fork, exec, exit
  kUsage = 25,       // counters of a machine, process or device
};
inline constexpr int kCategories = 26;

// "read", "data wait", ...; the words that reports show.
std::string_view category_name(Category category);
std::string_view track_kind_name(TrackKind kind);

// What happened. Events that differ in category or kind have different names although the text may
// be the same.
struct Name {
  TextId text = 0;
  Category category = Category::kOther;
  EventKind kind = EventKind::kSpan;
  bool operator==(const Name&) const = default;
};

enum class ArgumentType : uint8_t {
  kInteger = 0,
  kReal = 1,   // the bits of a double, see real_value
  kText = 2,   // a TextId
  kStack = 3,  // a StackId
};
inline constexpr int kArgumentTypes = 4;

struct Key {
  TextId text = 0;
  ArgumentType type = ArgumentType::kInteger;
  bool operator==(const Key&) const = default;
};

struct Argument {
  KeyId key = 0;
  int64_t value = 0;
};

inline int64_t real_bits(double value) {
  return std::bit_cast<int64_t>(value);
}
inline double real_value(int64_t bits) {
  return std::bit_cast<double>(bits);
}

// The arguments that the explainer knows. Integers unless said otherwise.
namespace key {
inline constexpr std::string_view kBytes = "bytes";    // transferred; of a failed call absent
inline constexpr std::string_view kOffset = "offset";  // in the file
inline constexpr std::string_view kFile = "file";      // text: a path or object address
inline constexpr std::string_view kError = "error";    // errno, absent when it went well
// 1: it had not ended when the recording, or its process, did; its duration is up to then.
inline constexpr std::string_view kUnfinished = "unfinished";
inline constexpr std::string_view kCacheBytes = "cache_bytes";  // of kBytes, from the page cache
// Of a read's duration: its bytes were checked and decoded as they came.
inline constexpr std::string_view kPrepareNs = "prepare_ns";
// Of a wait for data: spent for bytes. The rest, or prepare_ns of it, for decoding.
inline constexpr std::string_view kFetchNs = "fetch_ns";
inline constexpr std::string_view kValue = "value";              // real: a counter's
inline constexpr std::string_view kStack = "stack";              // stack: of a sample
inline constexpr std::string_view kReason = "reason";            // text: of being off the CPU
inline constexpr std::string_view kCorrelation = "correlation";  // ties a launch to its kernel
inline constexpr std::string_view kStep = "step";                // number of an iteration
inline constexpr std::string_view kEpoch = "epoch";
inline constexpr std::string_view kCount = "count";        // events that this one stands for
inline constexpr std::string_view kGroup = "group";        // text: the ranks of a collective
inline constexpr std::string_view kSequence = "sequence";  // number of a collective in its group
}  // namespace key

// Where an event's end is not known, because the program or the recording ended first.
inline constexpr int64_t kUnfinished = -1;

struct Event {
  TrackId track = 0;
  NameId name = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  // >= 0, or kUnfinished
};

enum class FrameKind : uint8_t { kNative = 0, kKernel = 1, kPython = 2, kUnknown = 3 };
inline constexpr int kFrameKinds = 4;

// One function in one module. It names the same function in another run: module (build id where
// there is one) and symbol, or the offset in the module where no symbol is known.
struct Frame {
  FrameKind kind = FrameKind::kUnknown;
  TextId symbol = 0;    // demangled; empty when not known
  TextId module = 0;    // path of the library or program; "kernel"; of Python the source file
  TextId build_id = 0;  // hexadecimal, or empty
  uint64_t offset = 0;  // in the module; of Python 0
  uint32_t line = 0;    // 0 = not known
  bool operator==(const Frame&) const = default;
};

// A stack is its innermost frame on top of its caller's stack.
struct Stack {
  StackId caller = kNoId;  // always smaller than this stack's own id
  FrameId frame = 0;
  bool operator==(const Stack&) const = default;
};

// Two clocks read at one moment.
struct ClockPair {
  int64_t time_ns = 0;         // of the recording
  int64_t unix_ns = 0;         // of the host's CLOCK_REALTIME, or of the imported trace
  int64_t uncertainty_ns = 0;  // the moment is known this well
};

}  // namespace forebay::trace

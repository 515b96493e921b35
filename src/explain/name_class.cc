#include "explain/name_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>
#include <vector>

namespace forebay::explain {
namespace {

using trace::Category;

// "decode_JPEGImage<int>" -> decode, jpeg, image, int.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto here = static_cast<unsigned char>(text[i]);
    if (std::isalpha(here) == 0) {
      end_word();
      continue;
    }
    const bool after_lower = i > 0 && std::islower(static_cast<unsigned char>(text[i - 1])) != 0;
    const bool before_lower =
        i + 1 < text.size() && std::islower(static_cast<unsigned char>(text[i + 1])) != 0;
    if (std::isupper(here) != 0 && (after_lower || (before_lower && word.size() > 1))) end_word();
    word += static_cast<char>(std::tolower(here));
  }
  end_word();
  return words;
}

bool has_any(std::span<const std::string> words, std::span<const std::string_view> wanted) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(wanted.begin(), wanted.end(), word) != wanted.end();
  });
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr std::array<std::string_view, 5> kCheckpointWords{"checkpoint", "checkpointing", "ckpt",
                                                           "save", "saving"};
constexpr std::array<std::string_view, 10> kSyncWords{
    "barrier", "allreduce",   "allgather", "broadcast",  "nccl",
    "rccl",    "synchronize", "sync",      "rendezvous", "reducescatter"};
constexpr std::array<std::string_view, 23> kPrepareWords{
    "decode",       "decoder",   "decoding",   "preprocess", "preprocessing", "augment",
    "augmentation", "transform", "transforms", "collate",    "inflate",       "decompress",
    "unpack",       "unpickle",  "parse",      "resize",     "crop",          "jpeg",
    "png",          "tokenize",  "prepare",    "prep",       "imread"};
constexpr std::array<std::string_view, 12> kComputeWords{
    "compute", "forward", "backward", "optimizer", "gemm",     "sgemm",
    "dgemm",   "matmul",  "conv",     "loss",      "gradient", "fwd"};
constexpr std::array<std::string_view, 9> kFetchWords{
    "read", "reading", "fetch", "fetching", "io", "download", "get_object", "pread", "open"};
constexpr std::array<std::string_view, 12> kDataWords{
    "data",  "dataload", "dataloader", "loader",  "load",     "loading",
    "batch", "dataset",  "input",      "getitem", "datawait", "prefetch"};

}  // namespace

Purpose purpose_of_range(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  const std::string joined = [&] {
    std::string all;
    for (const std::string& word : words) all += word;
    return all;
  }();
  if (has_any(words, kCheckpointWords)) return Purpose::kCheckpoint;
  if (has_any(words, kSyncWords) || contains(joined, "allreduce") ||
      contains(joined, "allgather") || contains(joined, "reducescatter")) {
    return Purpose::kSync;
  }
  if (has_any(words, kPrepareWords)) return Purpose::kPrepare;
  if (has_any(words, kComputeWords)) return Purpose::kCompute;
  // "load data" is both; reading alone is fetching.
  if (has_any(words, kDataWords)) return Purpose::kData;
  if (has_any(words, kFetchWords)) return Purpose::kFetch;
  return Purpose::kNone;
}

namespace {

// load_batch, next_sample, DataLoader.__next__, but not LoadName or batch_norm.
bool says_loading(std::span<const std::string> words) {
  if (has_any(words, std::array<std::string_view, 3>{"dataloader", "dataset", "getitem"})) {
    return true;
  }
  const bool verb = has_any(
      words, std::array<std::string_view, 6>{"load", "read", "get", "next", "fetch", "loader"});
  const bool noun = has_any(words, std::array<std::string_view, 12>{
                                       "image", "images", "sample", "samples", "batch", "data",
                                       "item", "record", "records", "example", "npy", "npz"});
  return (verb && noun) || (words.size() == 1 && words[0] == "load");
}

}  // namespace

bool says_reading(std::string_view symbol) {
  const std::vector<std::string> words = words_of(symbol);
  return has_any(words, std::array<std::string_view, 5>{"read", "reading", "fetch", "pread",
                                                        "download"}) &&
         !says_loading(words);
}

bool is_message_module(std::string_view module) {
  if (contains(module, "/multiprocessing/")) return true;  // Python's and torch's
  const size_t slash = module.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? module : module.substr(slash + 1);
  constexpr std::array<std::string_view, 5> kFiles{"queue.py", "socket.py", "threading.py",
                                                   "selectors.py", "subprocess.py"};
  return contains(module, "/python") &&
         std::find(kFiles.begin(), kFiles.end(), file) != kFiles.end();
}

Purpose purpose_of_function(std::string_view symbol, std::string_view module) {
  const std::vector<std::string> words = words_of(symbol);
  if (has_any(words, std::array<std::string_view, 3>{"checkpoint", "ckpt", "savez"}) ||
      contains(symbol, "state_dict")) {
    return Purpose::kCheckpoint;
  }
  if (has_any(words, kPrepareWords)) return Purpose::kPrepare;
  if (has_any(words, kComputeWords)) return Purpose::kCompute;
  if (says_loading(words) && !contains(module, "importlib") && !contains(symbol, "importlib")) {
    return Purpose::kData;
  }
  for (const std::string_view library :
       {"libjpeg", "libturbojpeg", "libpng", "libz.", "libzstd", "liblz4", "libwebp", "libtiff",
        "/PIL/", "_imaging", "cv2", "libavcodec", "libhdf5"}) {
    if (contains(module, library)) return Purpose::kPrepare;
  }
  for (const std::string_view library : {"libopenblas", "libmkl", "libcudnn", "libdnnl", "libblas"})
    if (contains(module, library)) return Purpose::kCompute;
  return Purpose::kNone;
}

namespace {

// wait4, waitid, waitpid; not pthread_cond_wait or epoll_wait.
bool is_wait_for_child(std::string_view call) {
  constexpr std::array<std::string_view, 6> kCalls{"wait",   "wait3",   "wait4",
                                                   "waitid", "waitpid", "__wait4"};
  return std::find(kCalls.begin(), kCalls.end(), call) != kCalls.end();
}

}  // namespace

Doing doing_of_reason(std::string_view reason) {
  if (reason.empty()) return Doing::kUnseen;
  if (contains(reason, "preempt")) return Doing::kReady;
  if (contains(reason, "fault")) return Doing::kFault;
  if (contains(reason, "sleep")) return Doing::kSleep;
  if (contains(reason, "sync_file_range") || contains(reason, "fsync") ||
      contains(reason, "fdatasync") || reason == "sync" || reason == "msync") {
    return Doing::kFileSync;
  }
  if (contains(reason, "futex") || contains(reason, "pthread") || contains(reason, "sem_") ||
      reason == "flock" || reason == "fcntl") {
    return Doing::kLock;
  }
  if (reason == "rt_sigsuspend" || reason == "pause") return Doing::kPoll;
  if (is_wait_for_child(reason)) return Doing::kChild;
  if (contains(reason, "poll") || contains(reason, "select") || contains(reason, "wait") ||
      contains(reason, "getevents") || contains(reason, "io_uring") || reason == "exit") {
    return Doing::kPoll;
  }
  if (contains(reason, "recv") || contains(reason, "send") || contains(reason, "connect") ||
      contains(reason, "accept")) {
    return Doing::kNetwork;
  }
  if (contains(reason, "write")) return Doing::kWrite;
  if (contains(reason, "read") || contains(reason, "getdents")) return Doing::kRead;
  for (const std::string_view call : {"open", "stat", "close", "rename", "unlink", "mkdir"}) {
    if (contains(reason, call)) return Doing::kMetadata;
  }
  return Doing::kUnseen;
}

namespace {

NameClass says(Doing doing, Purpose purpose = Purpose::kNone) {
  return {doing, purpose, false, false};
}

NameClass classify_launch(std::string_view text) {
  if (contains(text, "Synchronize") || contains(text, "synchronize")) {
    return says(Doing::kDeviceSync);
  }
  return says(Doing::kLaunch);
}

}  // namespace

NameClass classify(std::string_view text, Category category) {
  switch (category) {
    case Category::kRead:
      return says(Doing::kRead);
    case Category::kWrite:
      return says(Doing::kWrite);
    case Category::kMetadata:
      return says(Doing::kMetadata);
    case Category::kSync:
      return says(Doing::kFileSync);
    case Category::kFault:
      return says(Doing::kFault);
    case Category::kNetwork:
      return says(Doing::kNetwork);
    case Category::kLock:
      // A barrier is waited for, but by all: the ranks meet.
      return contains(text, "barrier") ? says(Doing::kCollective, Purpose::kSync)
                                       : says(Doing::kLock);
    case Category::kSleep:
      if (is_wait_for_child(text)) return says(Doing::kChild);
      return says(contains(text, "sleep") ? Doing::kSleep : Doing::kPoll);
    case Category::kOffCpu:
      return {Doing::kUnseen, Purpose::kNone, false, true};
    case Category::kCollective:
      return says(Doing::kCollective, Purpose::kSync);
    case Category::kCopy:
      return says(Doing::kCopy);
    case Category::kLaunch:
      return classify_launch(text);
    case Category::kPrepare:
      return {Doing::kOnCpu, Purpose::kPrepare, true, false};
    case Category::kDataWait:
      return says(Doing::kPoll, Purpose::kData);
    case Category::kCheckpoint:
      return {Doing::kOnCpu, Purpose::kCheckpoint, true, false};
    case Category::kCompute:
      return {Doing::kOnCpu, Purpose::kCompute, true, false};
    case Category::kProcess:
      return contains(text, "wait") ? says(Doing::kChild) : NameClass{};
    case Category::kAnnotation:
      return {Doing::kOnCpu, purpose_of_range(text), true, false};
    case Category::kOperator:
    case Category::kFunction:
    case Category::kOther:
      // What a process group does on the CPU.
      for (const std::string_view backend : {"gloo:", "nccl:", "mpi:", "c10d::"}) {
        if (text.substr(0, backend.size()) == backend) {
          return says(Doing::kCollective, Purpose::kSync);
        }
      }
      if (contains(text, "DataLoader") || contains(text, "_next_data")) {
        return {Doing::kOnCpu, Purpose::kData, true, false};
      }
      return {.is_activity = true, .is_operator = category == Category::kOperator};
    default:
      return {};
  }
}

FileClass file_class(std::string_view path) {
  const auto starts = [&](std::string_view with) { return path.substr(0, with.size()) == with; };
  // A pipe, a socket of this host alone or without an address: somebody on this host.
  if (path == "pipe" || path == "socket" || starts("pipe:") || starts("fifo:") || starts("unix:") ||
      starts("netlink:")) {
    return FileClass::kPipe;
  }
  if (path == "stdin" || path == "stdout" || path == "stderr") return FileClass::kPipe;
  if (starts("socket:") || starts("tcp:") || starts("udp:")) return FileClass::kSocket;
  if (starts("anon_inode:") || starts("pidfd:") || starts("eventfd") || starts("/dev/pts") ||
      starts("/dev/tty")) {
    return FileClass::kPipe;
  }
  if (starts("/dev/shm") || starts("/memfd:")) return FileClass::kRegular;
  if (starts("/dev/")) return FileClass::kDevice;
  if (starts("/proc/") || starts("/sys/")) return FileClass::kPseudo;
  return FileClass::kRegular;
}

bool is_program_file(std::string_view path) {
  for (const std::string_view folder : {"/usr/", "/lib/", "/lib64/", "/etc/", "/proc/", "/sys/"}) {
    if (path.substr(0, folder.size()) == folder) return true;
  }
  // A seed, or nothing: no data of training.
  for (const std::string_view device : {"/dev/urandom", "/dev/random", "/dev/null", "/dev/zero"}) {
    if (path == device) return true;
  }
  for (const std::string_view end : {".py", ".pyc", ".so"}) {
    if (path.size() > end.size() && path.substr(path.size() - end.size()) == end) return true;
  }
  return contains(path, ".so.") || contains(path, "/site-packages/") ||
         contains(path, "/__pycache__");
}

bool looks_like_checkpoint(std::string_view path) {
  for (const std::string_view end : {".pt", ".pth", ".ckpt", ".safetensors", ".distcp"}) {
    if (path.size() > end.size() && path.substr(path.size() - end.size()) == end) return true;
  }
  return contains(path, "checkpoint") || contains(path, "ckpt");
}

}  // namespace forebay::explain

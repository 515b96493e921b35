#include "cli/result_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "report/dlio_files.h"
#include "report/json.h"
#include "storage/place.h"
#include "storage/store.h"
#include "sys/directory.h"
#include "sys/host.h"
#include "sys/process.h"

namespace forebay::cli {
namespace {

constexpr uint64_t kResultBytesMax = 1ull << 30;
constexpr int kClaimTries = 100;  // while others give up claims of the same name

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status write_text(storage::Store& store, const std::string& name, const std::string& text) {
  return storage::write_file(store, name, bytes_of(text)).context("result folder");
}

struct FilePath {
  std::string folder, name;
};

FilePath split_path(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// `path` and the folders above it that do not exist, the innermost first.
std::vector<std::string> missing_folders(std::string path) {
  std::vector<std::string> missing;
  while (!path.empty() && !sys::path_exists(path)) {
    missing.push_back(path);
    const size_t slash = path.find_last_of('/');
    path = slash == std::string::npos ? "" : path.substr(0, slash);
  }
  return missing;
}

// A workload's name as that of one folder: '/' and what a terminal takes for a command become '-'.
std::string folder_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == 0x7f || (c >= 0 && c < ' '); },
      '-');
  return name;
}

// The first results/<workload>-<number> that this process, and no other, has just made.
Result<ResultFolder> make_numbered(const std::string& workload) {
  ResultFolder folder;
  const bool made_results = FB_TRY(sys::make_new_folder("results"));
  for (int number = 1;; ++number) {
    folder.path = fmt::format("results/{}-{:04}", folder_name(workload), number);
    const bool made = FB_TRY(sys::make_new_folder(folder.path));
    if (!made) continue;
    folder.made = {folder.path};
    if (made_results) folder.made.push_back("results");
    return folder;
  }
}

std::string claim_path(const std::string& folder) {
  return folder + "/.running";
}

// "process 12 on host a" as it stands in a claim; of an empty one nobody knows.
std::string holder_of(const std::string& path) {
  const sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, path, sys::OpenMode::kRead));
  std::array<std::byte, 300> bytes{};
  const int64_t got = fd.is_open() ? sys::read_at(fd.get(), bytes, 0) : 0;
  std::string text(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<size_t>(std::max<int64_t>(0, got)));
  text.resize(std::min(text.find('\n'), text.size()));
  return text.empty() ? "another process" : text;
}

std::string own_name() {
  return fmt::format("process {} on host {}", sys::process_id(), sys::host().name);
}

// Whether the file system knows locks, asked of a file that nobody else can have.
bool has_locks(const std::string& folder) {
  const std::string path = fmt::format("{}/.running-{}", folder, sys::process_id());
  const sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, path, sys::OpenMode::kCreateNew));
  if (!fd.is_open()) return true;
  const bool has = sys::try_lock(fd.get());
  sys::remove_file(sys::kCurrentFolder, path).ignore("an empty file stays");
  return has;
}

// Whether `fd` is still the file of that name: its last owner may have removed it meanwhile.
bool is_named(int fd, const std::string& path) {
  sys::FileStatus here, there;
  return sys::status_of(fd, here) == 0 && sys::status_at(sys::kCurrentFolder, path, there) == 0 &&
         here.inode == there.inode && here.device == there.device;
}

Status claim(ResultFolder& folder) {
  FB_TRY(sys::make_folders(sys::kCurrentFolder, folder.path).context("result folder"));
  const std::string path = claim_path(folder.path);
  for (int tries_left = kClaimTries;; --tries_left) {
    sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, path, sys::OpenMode::kCreateNew));
    if (fd.get() == -EEXIST)
      fd = sys::ScopedFd(sys::open_at(sys::kCurrentFolder, path, sys::OpenMode::kWrite));
    if (fd.get() == -ENOENT && tries_left > 0) continue;  // removed in between
    if (!fd.is_open())
      return Status(sys::error_from_errno(-fd.get(), path)).context("result folder");
    // Without locks there is no telling whether a claim is an old one: the last writer wins there.
    if (!sys::try_lock(fd.get()) && has_locks(folder.path))
      return fail(ErrorCode::kInvalidArgument,
                  "{}: another run is writing there ({}): wait for its end, or give this one a "
                  "folder of its own",
                  folder.path, holder_of(path));
    if (!is_named(fd.get(), path) && tries_left > 0) continue;
    const std::string text = own_name() + "\n";
    const int written = sys::write_at(fd.get(), bytes_of(text), 0);
    if (written < 0) {
      sys::remove_file(sys::kCurrentFolder, path).ignore("a stale one blocks nobody");
      return Status(sys::error_from_errno(-written, path, "write")).context("result folder");
    }
    folder.claim = std::move(fd);
    return {};
  }
}

// Objects appear whole and need no folder, but writing them must be allowed.
Status prove_object_store(const std::string& place) {
  const auto store = FB_TRY(storage::open_store("local", place));
  FB_TRY(write_text(*store, ".running", own_name() + "\n"));
  Status removed = store->remove(".running");
  // Another run may have been first.
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  return {};
}

// <number>_output.json or <number>_per_epoch_stats.json with a number from `accelerators` on.
bool is_of_missing_accelerator(const std::string& name, int accelerators) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || digits > 9) return false;
  const std::string rest = name.substr(digits);
  if (rest != "_output.json" && rest != "_per_epoch_stats.json") return false;
  return std::stoi(name.substr(0, digits)) >= accelerators;
}

}  // namespace

Result<ResultFolder> make_result_folder(const std::string& asked, const std::string& workload) {
  ResultFolder folder;
  if (asked.empty()) {
    folder = FB_TRY(make_numbered(workload));
  } else {
    folder.path = FB_TRY(storage::normal_place(asked));
    if (storage::is_object_place(folder.path)) {
      FB_TRY(prove_object_store(folder.path));
      return folder;
    }
    folder.made = missing_folders(folder.path);
  }
  Status claimed = claim(folder);
  if (claimed.ok()) return folder;
  // What others have made meanwhile is not empty, and stays.
  for (const std::string& made : folder.made) sys::remove_empty_folder(made);
  return claimed.error();
}

void discard_result_folder(const ResultFolder& folder) {
  // Before the lock goes, so that nobody locks a file that is about to lose its name.
  if (folder.claim.is_open() && is_named(folder.claim.get(), claim_path(folder.path)))
    sys::remove_file(sys::kCurrentFolder, claim_path(folder.path))
        .ignore("a stale one blocks nobody");
  for (const std::string& made : folder.made) sys::remove_empty_folder(made);
}

bool is_result_file(const std::string& name) {
  for (const char* own : {"result.json", "workload.yaml", "summary.json", ".running"})
    if (name == own) return true;
  return is_of_missing_accelerator(name, 0);
}

Status write_file_in(const std::string& folder, const std::string& name, const std::string& text) {
  const auto store = FB_TRY(storage::open_store("local", folder));
  return write_text(*store, name, text);
}

Status write_result(const std::string& folder, const emulate::RunResult& result) {
  const auto store = FB_TRY(storage::open_store("local", folder));
  // First of all: a launcher that has lost a process leaves the others little time, and everything
  // else is in it too.
  FB_TRY(write_text(*store, "result.json", report::to_json(result)));
  if (const auto there = store->list(""); there.ok())
    for (const storage::FileInfo& file : there->files)
      if (is_of_missing_accelerator(file.path, result.options.accelerators))
        FB_TRY(store->remove(file.path));
  FB_TRY(write_text(*store, "workload.yaml", workload::to_yaml(result.resolved)));
  for (const auto& [name, text] : report::dlio_files(result))
    FB_TRY(write_text(*store, name, text));
  return {};
}

Result<std::string> read_result(const std::string& path) {
  const FilePath file = path.ends_with(".json") ? split_path(path) : FilePath{path, "result.json"};
  const auto store = FB_TRY(storage::open_store("local", file.folder));
  const std::vector<std::byte> bytes =
      FB_TRY(storage::read_file(*store, file.name, kResultBytesMax).context(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace forebay::cli

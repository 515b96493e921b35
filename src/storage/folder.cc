#include "storage/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "storage/changed.h"
#include "storage/file_writer.h"
#include "sys/directory.h"
#include "sys/process.h"

namespace forebay::storage {
namespace {

constexpr std::string_view kPartPrefix = ".forebay-";
constexpr std::string_view kPartSuffix = ".part";

// A quarter of the descriptors; the rest is for reads without keep_open and for the caller.
size_t files_kept_max() {
  return static_cast<size_t>(std::clamp<uint64_t>(sys::open_file_limit() / 4, 1, 1024));
}

// The process in a part's name, or 0.
int part_process(std::string_view name) {
  if (!is_part_name(name)) return 0;
  const std::string_view rest = name.substr(kPartPrefix.size());
  const Result<int64_t> process = base::parse_int(rest.substr(0, rest.find('-')));
  return process.ok() && *process > 0 && *process < INT32_MAX ? static_cast<int>(*process) : 0;
}

}  // namespace

std::string part_name(int process, uint64_t number) {
  return fmt::format("{}{}-{}{}", kPartPrefix, process, number, kPartSuffix);
}

bool is_part_name(std::string_view name) {
  return name.starts_with(kPartPrefix) && name.ends_with(kPartSuffix);
}

Folder::Folder(std::string root) : root_(std::move(root)), open_files_(files_kept_max()) {}

Result<std::unique_ptr<Folder>> Folder::open(std::string_view root) {
  if (root.empty()) return fail(ErrorCode::kInvalidArgument, "a store on files needs a folder");
  auto folder = std::unique_ptr<Folder>(new Folder(std::string(root)));
  const int fd = folder->root_fd();
  if (fd == -ENOTDIR) {
    return fail(ErrorCode::kInvalidArgument, "{}: is not a folder", root);
  }
  if (fd < 0 && fd != -ENOENT) return sys::error_from_errno(-fd, root);
  return folder;
}

int Folder::root_fd() {
  const int known = root_fd_.load(std::memory_order_acquire);
  if (known >= 0) return known;
  base::MutexLock lock(mutex_);
  if (root_owner_.is_open()) return root_owner_.get();
  const int fd = sys::open_at(sys::kCurrentFolder, root_, sys::OpenMode::kFolder);
  if (fd < 0) return fd;
  root_owner_ = sys::ScopedFd(fd);
  root_fd_.store(fd, std::memory_order_release);
  return fd;
}

int Folder::open_at(std::string_view path, sys::OpenMode mode) {
  const int root = root_fd();
  if (root < 0) return root;
  const int fd = sys::open_at(root, path, mode);
  if (fd != -EMFILE || !open_files_.forget_all()) return fd;
  return sys::open_at(root, path, mode);
}

Error Folder::error(int error_number, std::string_view path, std::string_view doing) const {
  return sys::error_from_errno(error_number, fmt::format("{}/{}", root_, path), doing);
}

void Folder::note_direct_refused(std::string_view path) {
  base::MutexLock lock(mutex_);
  if (!direct_refusal_.empty()) return;
  direct_refusal_ = fmt::format(
      "the file system of {}/{} refuses O_DIRECT: read through the page cache", root_, path);
}

std::string Folder::direct_refusal() {
  base::MutexLock lock(mutex_);
  return direct_refusal_;
}

Result<Listing> Folder::list(std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  const int root = root_fd();
  if (root < 0) return error(-root, prefix);
  sys::WalkOptions options;
  options.is_hidden = is_part_name;
  sys::Walk walk = FB_TRY(sys::walk_folder(root, std::string(prefix), options).context(root_));
  const std::string before = prefix.empty() ? "" : std::string(prefix) + "/";
  Listing listing;
  listing.files.reserve(walk.files.size());
  for (sys::FoundFile& file : walk.files) {
    listing.files.push_back({before + file.path, file.size, file.mtime_ns});
  }
  for (sys::PassedOver& one : walk.passed_over) {
    listing.skipped.push_back({before + one.path, std::move(one.reason)});
  }
  return listing;
}

Result<FileInfo> Folder::stat(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  const int root = root_fd();
  sys::FileStatus status;
  const int result = root < 0 ? root : sys::status_at(root, path, status);
  if (result < 0) return error(-result, path);
  if (!status.is_file) {
    return fail(ErrorCode::kInvalidArgument, "{}/{}: is not a regular file", root_, path);
  }
  return FileInfo{std::string(path), status.size, status.mtime_ns};
}

Result<size_t> Folder::read_at(std::string_view path, uint64_t offset, std::span<std::byte> out) {
  if (!is_inside(path)) return outside_error(path);
  const sys::ScopedFd fd(open_at(path, sys::OpenMode::kRead));
  if (!fd.is_open()) return error(-fd.get(), path);
  const int64_t got = sys::read_at(fd.get(), out, offset);
  if (got < 0) return error(static_cast<int>(-got), path, "read");
  return static_cast<size_t>(got);
}

Result<std::unique_ptr<Writer>> Folder::create(std::string_view path) {
  if (!is_inside(path) || path.ends_with('/')) return outside_error(path);
  int root = root_fd();
  if (root == -ENOENT) {
    FB_TRY(sys::make_folders(sys::kCurrentFolder, root_));
    root = root_fd();
  }
  if (root < 0) return error(-root, path);
  const size_t slash = path.rfind('/');
  const std::string folder(slash == std::string_view::npos ? "" : path.substr(0, slash + 1));
  clean(folder);
  for (uint64_t number = 0;; ++number) {
    const std::string part = folder + part_name(sys::process_id(), number);
    sys::ScopedFd fd(sys::open_at(root, part, sys::OpenMode::kCreateNew));
    if (fd.get() == -EEXIST) continue;
    if (fd.get() == -ENOENT && !folder.empty()) {
      FB_TRY(sys::make_folders(root, folder).context(root_));
      fd = sys::ScopedFd(sys::open_at(root, part, sys::OpenMode::kCreateNew));
      if (fd.get() == -EEXIST) continue;  // another thread made folder and part meanwhile
    }
    if (!fd.is_open()) return error(-fd.get(), path, "create");
    // Tells clean() elsewhere that the writer lives. Without locks its process number must do.
    sys::try_lock(fd.get());
    return std::unique_ptr<Writer>(
        std::make_unique<FileWriter>(*this, root, std::move(fd), part, std::string(path)));
  }
}

void Folder::clean(std::string_view folder) {
  {
    base::MutexLock lock(mutex_);
    if (!cleaned_.emplace(folder).second) return;
  }
  const int root = root_fd();
  const Result<std::vector<std::string>> names = sys::names_in(root, std::string(folder));
  if (!names.ok()) return;  // a folder to be made, or one whose trouble create() will name
  for (const std::string& name : *names) {
    const int process = part_process(name);
    if (process == 0 || sys::is_process_alive(process)) continue;
    const std::string path = std::string(folder) + name;
    // The number may belong to a live process of another machine on a shared file system: the lock
    // must be free as well.
    const sys::ScopedFd fd(sys::open_at(root, path, sys::OpenMode::kWrite));
    if (fd.is_open() && sys::try_lock(fd.get())) {
      sys::remove_file(root, path).ignore("another process may have removed it first");
    }
  }
}

Status Folder::remove(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  const int root = root_fd();
  if (root < 0) return error(-root, path);
  FB_TRY(sys::remove_file(root, path).context(root_));
  open_files_.forget(path);
  return {};
}

Result<uint64_t> Folder::free_bytes() {
  const int root = root_fd();
  if (root >= 0) return sys::free_bytes(root, root_);
  if (root != -ENOENT) return sys::error_from_errno(-root, root_);
  // The root is still to be made: what counts is the file system of the nearest folder above it.
  std::string above = root_;
  for (;;) {
    const size_t slash = above.rfind('/');
    above = slash == std::string::npos ? "." : slash == 0 ? "/" : above.substr(0, slash);
    const sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, above, sys::OpenMode::kFolder));
    if (fd.is_open()) return sys::free_bytes(fd.get(), above);
    if (above == "." || above == "/") return sys::error_from_errno(-fd.get(), above);
  }
}

}  // namespace forebay::storage

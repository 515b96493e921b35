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

constexpr size_t kPieceBytes = 4 << 20;  // read between two looks at a stop
constexpr std::string_view kPartPrefix = ".forebay-";
constexpr std::string_view kPartSuffix = ".part";

// A quarter of the descriptors; the rest is for reads without keep_open and for the caller.
size_t files_kept_max() {
  return static_cast<size_t>(std::clamp<uint64_t>(sys::open_file_limit() / 4, 1, 1024));
}

std::string_view folder_above(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// The process in a part's name, or 0.
int part_process(std::string_view name) {
  if (!is_part_name(name)) return 0;
  const std::string_view rest = name.substr(kPartPrefix.size());
  const Result<int64_t> process = base::parse_int(rest.substr(0, rest.find('-')));
  return process.ok() && *process > 0 && *process < INT32_MAX ? static_cast<int>(*process) : 0;
}

}  // namespace

Status sync_names_of(int root_fd, std::string_view path) {
  while (!path.empty()) {
    path = folder_above(path);
    FB_TRY(sys::sync_folder(root_fd, path));
  }
  return {};
}

std::string part_name(int process, uint64_t number) {
  return fmt::format("{}{}-{}{}", kPartPrefix, process, number, kPartSuffix);
}

bool is_part_name(std::string_view name) {
  return name.starts_with(kPartPrefix) && name.ends_with(kPartSuffix);
}

Folder::Folder(std::string root)
    : root_(std::move(root)),
      place_(root_.starts_with('/') ? root_ : sys::current_folder() + "/" + root_),
      open_files_(files_kept_max()) {}

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
  const int other = root_fd_.load(std::memory_order_acquire);
  if (other >= 0) return other;  // another thread was faster
  sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, place_, sys::OpenMode::kFolder));
  if (!fd.is_open()) return fd.get();
  if (!root_owner_.is_open()) {
    root_owner_ = std::move(fd);
  } else if (const int result = root_owner_.become(std::move(fd)); result < 0) {
    return result;
  }
  root_fd_.store(root_owner_.get(), std::memory_order_release);
  return root_owner_.get();
}

void Folder::look_again() {
  {
    base::MutexLock lock(mutex_);
    const int known = root_fd_.load(std::memory_order_acquire);
    if (known < 0) return;
    sys::FileStatus held, there;
    if (sys::status_of(known, held) == 0 &&
        sys::status_at(sys::kCurrentFolder, place_, there) == 0 && is_same_file(held, there))
      return;
    root_fd_.store(-1, std::memory_order_release);  // the next call opens what is there now
    cleaned_.clear();
  }
  open_files_.forget_all();
}

int Folder::open_at(std::string_view path, sys::OpenMode mode) {
  const int root = root_fd();
  if (root < 0) return root;
  const int fd = sys::open_at(root, path, mode);
  if (fd != -EMFILE || !open_files_.forget_all()) return fd;
  return sys::open_at(root, path, mode);
}

Error Folder::error(int error_number, std::string_view path, std::string_view doing) const {
  const std::string whole = path.empty() ? root_ : fmt::format("{}/{}", root_, path);
  // It was one when it was listed.
  if (error_number == ESPIPE) return fail(ErrorCode::kIo, "{}: is no regular file any more", whole);
  return sys::error_from_errno(error_number, whole, doing);
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

Result<Listing> Folder::list(std::string_view prefix, const std::stop_token& stop) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  const int root = root_fd();
  if (root < 0) return error(-root, prefix);
  sys::WalkOptions options;
  options.is_hidden = is_part_name;
  options.stop = stop;
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
  if (result < 0 && result != -ELOOP) return error(-result, path);
  if (result == -ELOOP || !status.is_file) {
    return fail(ErrorCode::kInvalidArgument, "{}/{}: is not a regular file", root_, path);
  }
  return FileInfo{std::string(path), status.size, status.mtime_ns, status.is_link};
}

Result<size_t> Folder::read_at(std::string_view path, uint64_t offset, std::span<std::byte> out,
                               const std::stop_token& stop) {
  if (!is_inside(path)) return outside_error(path);
  const sys::ScopedFd fd(open_at(path, sys::OpenMode::kRead));
  if (!fd.is_open()) return error(-fd.get(), path);
  return read_all(fd.get(), path, offset, out, stop);
}

Result<size_t> Folder::read_all(int fd, std::string_view path, uint64_t offset,
                                std::span<std::byte> out, const std::stop_token& stop) {
  size_t done = 0;
  do {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "{}/{}: stopped", root_, path);
    const std::span<std::byte> piece = out.subspan(done, std::min(kPieceBytes, out.size() - done));
    const int64_t got = sys::read_at(fd, piece, offset + done);
    if (got < 0) return error(static_cast<int>(-got), path, "read");
    done += static_cast<size_t>(got);
    if (static_cast<size_t>(got) < piece.size()) break;
  } while (done < out.size());
  return done;
}

class Folder::File final : public Reader {
 public:
  File(Folder& folder, std::string_view path, sys::ScopedFd fd, std::stop_token stop)
      : folder_(folder), path_(path), fd_(std::move(fd)), stop_(std::move(stop)) {}
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    return folder_.read_all(fd_.get(), path_, offset, out, stop_);
  }

 private:
  Folder& folder_;
  const std::string path_;
  const sys::ScopedFd fd_;
  const std::stop_token stop_;
};

Result<std::unique_ptr<Reader>> Folder::open_file(std::string_view path,
                                                  const std::stop_token& stop) {
  if (!is_inside(path)) return outside_error(path);
  sys::ScopedFd fd(open_at(path, sys::OpenMode::kRead));
  if (!fd.is_open()) return error(-fd.get(), path);
  return std::unique_ptr<Reader>(std::make_unique<File>(*this, path, std::move(fd), stop));
}

Result<int> Folder::made_root_fd() {
  int root = root_fd();
  if (root == -ENOENT) {
    FB_TRY(sys::make_folders(sys::kCurrentFolder, place_));
    root = root_fd();
  }
  if (root < 0) return sys::error_from_errno(-root, root_);
  return root;
}

Status Folder::make_folder(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  const int root = FB_TRY(made_root_fd());
  FB_TRY(sys::make_folders(root, path).context(root_));
  // Something else of that name is as good as no folder.
  sys::FileStatus status;
  const int result = sys::status_at(root, path, status);
  if (result < 0) return error(-result, path);
  if (!status.is_folder)
    return fail(ErrorCode::kInvalidArgument, "{}/{}: is not a folder", root_, path);
  return {};
}

Status Folder::rename_folder(std::string_view from, std::string_view to) {
  if (!is_inside(from)) return outside_error(from);
  if (!is_inside(to)) return outside_error(to);
  const int root = root_fd();
  if (root < 0) return error(-root, from);
  FB_TRY(sys::rename_file(root, from, to).context(root_));
  open_files_.forget_all();
  const std::string_view above = folder_above(to), above_before = folder_above(from);
  FB_TRY(sys::sync_folder(root, above).context(root_));
  if (above == above_before) return {};
  return sys::sync_folder(root, above_before).context(root_);
}

Status Folder::remove_folder(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  const int root = root_fd();
  if (root < 0) return error(-root, path);
  // What killed writers left is no file that anybody can see, and goes with its folder. In one that
  // stays it stays as well: it tells that its writer is gone.
  const auto names = sys::names_in(root, std::string(path));
  const auto is_part = [](const std::string& name) { return part_process(name) != 0; };
  if (names.ok() && std::all_of(names->begin(), names->end(), is_part)) clean_now(path);
  return sys::remove_folder(root, path).context(root_);
}

Status Folder::link_file(std::string_view from, std::string_view to) {
  if (!is_inside(from)) return outside_error(from);
  if (!is_inside(to) || to.ends_with('/')) return outside_error(to);
  const int root = root_fd();
  if (root < 0) return error(-root, from);
  const std::string_view above = folder_above(to);
  if (!above.empty()) FB_TRY(sys::make_folders(root, above).context(root_));
  Status removed = sys::remove_file(root, to);
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  open_files_.forget(to);
  FB_TRY(sys::link_file(root, from, to).context(root_));
  return sync_names_of(root, to);
}

Result<std::shared_ptr<const void>> Folder::lock_file(std::string_view path, bool is_exclusive) {
  if (!is_inside(path)) return outside_error(path);
  const auto mode = is_exclusive ? sys::OpenMode::kWrite : sys::OpenMode::kRead;
  auto fd = std::make_shared<sys::ScopedFd>(open_at(path, mode));
  if (!fd->is_open()) return error(-fd->get(), path);
  switch (sys::lock_file(fd->get(), is_exclusive)) {
    case sys::LockOutcome::kNoLocks:
      return fail(ErrorCode::kUnsupported, "{}/{}: its file system has no locks", root_, path);
    case sys::LockOutcome::kHeldByAnother:
      return fail(ErrorCode::kResourceExhausted, "{}/{}: is in use", root_, path);
    case sys::LockOutcome::kTaken:
      break;
  }
  // It may have gone, or another may have come in its place, before it was locked.
  if (!has_name(*fd, path)) return error(ENOENT, path);
  return std::shared_ptr<const void>(std::move(fd));
}

bool Folder::has_name(const sys::ScopedFd& fd, std::string_view path) {
  const int root = root_fd();
  sys::FileStatus open, there;
  return root >= 0 && sys::status_at(root, path, there) == 0 &&
         sys::status_of(fd.get(), open) == 0 && is_same_file(open, there);
}

Result<std::unique_ptr<Writer>> Folder::create(std::string_view path, Caching caching) {
  if (!is_inside(path) || path.ends_with('/')) return outside_error(path);
  const int root = FB_TRY(made_root_fd());
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
    // Tells others that the writer lives. One of them may have taken it for a dead one's before.
    const sys::LockOutcome lock = sys::lock_file(fd.get(), true);
    if (lock == sys::LockOutcome::kHeldByAnother ||
        (lock == sys::LockOutcome::kTaken && !has_name(fd, part))) {
      sys::remove_file(root, part).ignore("it was taken for a dead one's and may be gone");
      continue;
    }
    return std::unique_ptr<Writer>(
        std::make_unique<FileWriter>(*this, root, std::move(fd), part, std::string(path), caching));
  }
}

void Folder::clean(std::string_view folder) {
  {
    base::MutexLock lock(mutex_);
    if (!cleaned_.emplace(folder).second) return;
  }
  clean_now(folder);
}

void Folder::clean_now(std::string_view folder) {
  const int root = root_fd();
  const Result<std::vector<std::string>> names = sys::names_in(root, std::string(folder));
  if (!names.ok()) return;  // a folder to be made, or one whose trouble create() will name
  for (const std::string& name : *names) {
    const int process = part_process(name);
    if (process == 0 || sys::is_process_alive(process)) continue;
    const std::string path = std::string(folder) + (folder.ends_with('/') ? "" : "/") + name;
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

Result<std::vector<std::string>> Folder::list_folders(std::string_view prefix) {
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  const int root = root_fd();
  if (root < 0) return error(-root, prefix);
  return sys::folders_in(root, std::string(prefix)).context(root_);
}

Status Folder::add_unpublished(const std::string& folder, std::vector<Unpublished>& out) {
  const int root = root_fd();
  if (root < 0) return error(-root, folder);
  for (const std::string& name : FB_TRY(sys::names_in(root, folder).context(root_))) {
    sys::FileStatus status;
    Unpublished one{.path = folder + name};
    if (part_process(name) == 0 || sys::status_at(root, one.path, status) < 0 || !status.is_file ||
        status.is_link)
      continue;
    one.bytes = status.size;
    one.mtime_ns = status.mtime_ns;
    // Who may not write it learns nothing.
    const sys::ScopedFd fd(open_at(one.path, sys::OpenMode::kWrite));
    const auto lock = fd.is_open() ? sys::lock_file(fd.get(), true) : sys::LockOutcome::kNoLocks;
    if (lock == sys::LockOutcome::kTaken) one.writer = Unpublished::Writer::kGone;
    if (lock == sys::LockOutcome::kHeldByAnother) one.writer = Unpublished::Writer::kLives;
    out.push_back(std::move(one));
  }
  for (const std::string& name : FB_TRY(sys::folders_in(root, folder).context(root_))) {
    Status added = add_unpublished(folder + name + "/", out);
    if (!added.ok() && added.error().code != ErrorCode::kNotFound) return added;  // gone meanwhile
  }
  return {};
}

Result<std::vector<Unpublished>> Folder::list_unpublished(std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  std::vector<Unpublished> out;
  FB_TRY(add_unpublished(prefix.empty() ? "" : std::string(prefix) + "/", out));
  std::sort(out.begin(), out.end(),
            [](const Unpublished& a, const Unpublished& b) { return a.path < b.path; });
  return out;
}

Status Folder::remove_unpublished(const Unpublished& one) {
  if (!is_inside(one.path) || part_process(one.path.substr(one.path.rfind('/') + 1)) == 0)
    return outside_error(one.path);
  const int root = root_fd();
  const sys::ScopedFd fd(open_at(one.path, sys::OpenMode::kWrite));
  if (!fd.is_open()) return error(-fd.get(), one.path);
  // Held until it is gone: a writer that has just made it then makes another.
  if (sys::lock_file(fd.get(), true) == sys::LockOutcome::kHeldByAnother)
    return fail(ErrorCode::kResourceExhausted, "{}/{}: is being written", root_, one.path);
  return sys::remove_file(root, one.path).context(root_);
}

Result<uint64_t> Folder::free_bytes() {
  const int root = root_fd();
  if (root >= 0) return sys::free_bytes(root, root_);
  if (root != -ENOENT) return sys::error_from_errno(-root, root_);
  // The root is still to be made: what counts is the file system of the nearest folder above it.
  std::string above = place_;
  for (;;) {
    const size_t slash = above.rfind('/');
    above = slash == std::string::npos ? "." : slash == 0 ? "/" : above.substr(0, slash);
    const sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, above, sys::OpenMode::kFolder));
    if (fd.is_open()) return sys::free_bytes(fd.get(), above);
    if (above == "." || above == "/") return sys::error_from_errno(-fd.get(), above);
  }
}

}  // namespace forebay::storage

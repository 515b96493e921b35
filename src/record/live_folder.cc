#include "record/live_folder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "sys/directory.h"
#include "sys/host.h"
#include "sys/process.h"

namespace forebay::record {
namespace {

constexpr std::string_view kLock = "recorder.lock";
constexpr int kTries = 1000;

void remove_all(const std::string& folder) {
  // The lock last: while it is there, a removal that was cut short is taken up by the next.
  for (const std::string& name : sys::names_in(sys::kCurrentFolder, folder).value_or({}))
    if (name != kLock)
      sys::remove_file(sys::kCurrentFolder, folder + "/" + name).ignore("only in the way");
  sys::remove_file(sys::kCurrentFolder, fmt::format("{}/{}", folder, kLock))
      .ignore("there may be none");
  sys::remove_empty_folder(folder);
}

}  // namespace

LiveFolder::LiveFolder(std::string path, sys::ScopedFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

LiveFolder::LiveFolder(LiveFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::move(other.lock_)) {}

LiveFolder& LiveFolder::operator=(LiveFolder&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::move(other.path_);
  lock_ = std::move(other.lock_);
  return *this;
}

// It gets its name when it is locked: under that name nobody finds it unlocked while we live.
Result<LiveFolder> LiveFolder::make(const std::string& folder, std::string_view prefix) {
  FB_TRY(sys::make_folders(sys::kCurrentFolder, folder));
  const std::string name =
      fmt::format("{}/{}-{}-{}", folder, prefix, sys::host().name, sys::process_id());
  std::string made = name + ".new";
  for (int number = 2; !FB_TRY(sys::make_new_folder(made)); ++number) {
    if (number > kTries) return fail(ErrorCode::kIo, "{}: no new name is free", name);
    made = fmt::format("{}.new{}", name, number);
  }
  const std::string lock_path = fmt::format("{}/{}", made, kLock);
  auto lock = sys::open_file(sys::kCurrentFolder, lock_path, sys::OpenMode::kCreateNew);
  if (!lock.ok()) {
    sys::remove_empty_folder(made);
    return std::move(lock).error();
  }
  sys::try_lock(lock->get());  // without locks nothing is ever taken for a leftover
  std::string path = name;
  // Over an empty folder of that name rename() succeeds, which is as good as a new one.
  Status renamed = sys::rename_file(sys::kCurrentFolder, made, path);
  for (int number = 2; !renamed.ok() && number <= kTries && sys::path_exists(path); ++number) {
    path = fmt::format("{}-{}", name, number);
    renamed = sys::rename_file(sys::kCurrentFolder, made, path);
  }
  if (!renamed.ok()) {
    remove_all(made);
    return std::move(renamed).error();
  }
  return LiveFolder(std::move(path), std::move(lock).take());
}

void LiveFolder::remove() {
  if (!lock_.is_open()) return;  // gone already, or another's
  remove_all(path_);
  lock_.reset();
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& name : sys::names_in(sys::kCurrentFolder, folder).value_or({})) {
    if (!name.starts_with("io-") && !name.starts_with("marks-")) continue;
    const std::string path = folder + "/" + name;
    const sys::ScopedFd lock(sys::open_at(sys::kCurrentFolder, fmt::format("{}/{}", path, kLock),
                                          sys::OpenMode::kWrite));
    if (lock.is_open() && sys::try_lock(lock.get())) remove_all(path);
  }
}

}  // namespace forebay::record

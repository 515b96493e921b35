#include "checkpoint/tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/shard_io.h"

namespace forebay::checkpoint {
namespace {

using Writer = storage::Unpublished::Writer;

constexpr std::string_view kStep = "step-", kSaving = "saving-", kRemoving = "removing-";
constexpr std::string_view kLatest = "latest";
constexpr std::string_view kSaveLeft = "a save that did not end",
                           kRemovalLeft = "a removal that did not end";
constexpr size_t kStepDigits = 12, kSequenceDigits = 6;

std::string numbers_of(const SaveName& save) {
  return fmt::format("{:0{}}-{:0{}}-{:08x}", save.step, kStepDigits, save.sequence, kSequenceDigits,
                     save.id);
}

// Only as numbers_of() writes them: two names never mean one save.
std::optional<SaveName> save_from(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  SaveName save;
  const char* const end = name.data() + name.size();
  auto at = std::from_chars(name.data(), end, save.step);
  if (at.ec == std::errc() && at.ptr != end) at = std::from_chars(at.ptr + 1, end, save.sequence);
  if (at.ec == std::errc() && at.ptr != end) std::from_chars(at.ptr + 1, end, save.id, 16);
  if (numbers_of(save) != name) return std::nullopt;
  return save;
}

std::optional<SaveName> any_save_from(std::string_view folder) {
  for (const std::string_view prefix : {kStep, kSaving, kRemoving}) {
    if (auto save = save_from(folder, prefix)) return save;
  }
  return std::nullopt;
}

std::string path_in(std::string_view folder, std::string_view file) {
  return fmt::format("{}/{}", folder, file);
}

// The folder of a path, or "" of a file at the top.
std::string_view top_folder(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// Whether it lies in the folder itself, not further down: links may lead anywhere there.
bool is_directly_in(std::string_view folder, std::string_view path) {
  return path.starts_with(folder) && path.find('/', folder.size() + 1) == path.npos;
}

// The first save makes a folder, and nobody makes a bucket.
bool is_not_made_yet(const storage::Store& store, const Error& error) {
  return error.code == ErrorCode::kNotFound && store.capabilities().can_rename;
}

void add(const storage::Unpublished& one, Tier::Leftover& left) {
  ++left.files;
  left.bytes += one.bytes;
  left.touched_ns = std::max(left.touched_ns, one.mtime_ns);
  // One that lives counts; where some are gone and of others nobody can tell, nobody can tell.
  if (left.unpublished.empty() || one.writer == Writer::kLives || left.writer == Writer::kGone)
    left.writer = one.writer;
  left.unpublished.push_back(one);
}

}  // namespace

bool is_older(const SaveName& a, const SaveName& b) {
  return std::tie(a.sequence, a.id) < std::tie(b.sequence, b.id);
}

std::string folder_name(const SaveName& save) {
  return std::string(kStep) + numbers_of(save);
}

std::optional<SaveName> save_from_folder(std::string_view name) {
  return save_from(name, kStep);
}

Tier::Tier(std::unique_ptr<storage::Store> store, std::string place)
    : store_(std::move(store)),
      place_(std::move(place)),
      can_rename_(store_->capabilities().can_rename) {}

Result<std::unique_ptr<Tier>> Tier::open(const TierOptions& options) {
  return on(FB_TRY(storage::open_store(options.storage, options.place)), options.place);
}

std::unique_ptr<Tier> Tier::on(std::unique_ptr<storage::Store> store, std::string place) {
  return std::unique_ptr<Tier>(new Tier(std::move(store), std::move(place)));
}

Result<Tier::Contents> Tier::list() const {
  store_->look_again();
  Contents contents;
  Result<storage::Listing> listing = store_->list("");
  if (!listing.ok() && is_not_made_yet(*store_, listing.error())) return contents;
  std::map<std::string, bool, std::less<>> folders;  // whether it has a manifest
  for (const storage::FileInfo& file : FB_TRY(std::move(listing)).files) {
    const std::string_view folder = top_folder(file.path);
    if (folder.empty()) continue;
    folders[std::string(folder)] |= file.path.substr(folder.size() + 1) == kManifestName;
  }
  for (std::string& name : FB_TRY(store_->list_folders("")))
    folders.emplace(std::move(name), false);
  uint64_t highest = 0;
  for (const auto& [name, has_manifest] : folders) {
    const auto any = any_save_from(name);
    if (!any) continue;  // somebody else's
    highest = std::max(highest, any->sequence);
    // Nothing but a rename makes such a folder where there are renames.
    const auto saved = save_from(name, kStep);
    if (saved && (has_manifest || can_rename_)) contents.saves.push_back(*saved);
  }
  std::sort(contents.saves.begin(), contents.saves.end(), is_older);
  contents.sequence_next = highest + 1;
  return contents;
}

Result<std::vector<Tier::Leftover>> Tier::list_leftovers(std::vector<std::string>& notes) const {
  store_->look_again();
  std::vector<Leftover> out;
  Result<storage::Listing> listing = store_->list("");
  if (!listing.ok() && is_not_made_yet(*store_, listing.error())) return out;
  std::map<std::string, Leftover, std::less<>> folders;
  std::set<std::string, std::less<>> published;
  for (const storage::FileInfo& file : FB_TRY(std::move(listing)).files) {
    const std::string folder(top_folder(file.path));
    Leftover& left = folders[folder];
    ++left.files;
    left.bytes += file.size;
    left.touched_ns = std::max(left.touched_ns, file.mtime_ns);
    if (file.path == path_in(folder, kManifestName)) published.insert(folder);
  }
  for (std::string& name : FB_TRY(store_->list_folders(""))) folders.try_emplace(std::move(name));
  std::vector<storage::Unpublished> unpublished;
  if (auto found = store_->list_unpublished(""); found.ok())
    unpublished = std::move(found).take();
  else
    notes.push_back(fmt::format("{}: what was being written cannot be listed: {}", place_,
                                found.error().message));
  const auto is_checkpoint = [&](std::string_view folder) {
    return save_from(folder, kStep) && (can_rename_ || published.count(folder) != 0);
  };
  for (const storage::Unpublished& one : unpublished) {
    const std::string folder(top_folder(one.path));
    const bool is_ours = folder.empty() ? one.upload.empty() || one.path == kLatest
                                        : any_save_from(folder) && is_directly_in(folder, one.path);
    if (!is_ours) continue;
    if (!folder.empty() && !is_checkpoint(folder)) {
      add(one, folders[folder]);
      continue;
    }
    Leftover& file = out.emplace_back();
    file.folder = one.path;
    file.why = one.upload.empty() ? "a file that was not published" : "an upload that did not end";
    add(one, file);
  }
  for (auto& [folder, left] : folders) {
    left.name = any_save_from(folder);
    if (!left.name || is_checkpoint(folder)) continue;
    const bool is_removal = folder.starts_with(kRemoving);
    if (published.count(folder) != 0) {
      const Writer of_manifest = writer_of(path_in(folder, kManifestName));
      if (left.unpublished.empty() || of_manifest == Writer::kLives) left.writer = of_manifest;
    }
    if (is_removal && left.writer == Writer::kUnknown)
      left.writer = Writer::kGone;  // nobody writes what is being removed
    left.folder = folder;
    left.why = is_removal ? kRemovalLeft : kSaveLeft;
    out.push_back(std::move(left));
  }
  std::sort(out.begin(), out.end(),
            [](const Leftover& a, const Leftover& b) { return a.folder < b.folder; });
  return out;
}

// publish() holds the manifest until its folder has its name.
storage::Unpublished::Writer Tier::writer_of(const std::string& manifest) const {
  const auto lock = store_->lock_file(manifest, true);
  if (lock.ok()) return Writer::kGone;
  return lock.error().code == ErrorCode::kResourceExhausted ? Writer::kLives : Writer::kUnknown;
}

bool Tier::has_locks() const {
  const auto lock = store_->lock_file(kLatest, false);
  return lock.ok() || lock.error().code != ErrorCode::kUnsupported;
}

Result<Manifest> Tier::read_manifest(const SaveName& save) const {
  const std::string path = path_in(folder_name(save), kManifestName);
  const std::string where = place_ + "/" + path;
  const uint64_t size = FB_TRY(file_bytes(*store_, path).context(place_));
  if (size > kManifestBytesMax)
    return fail(ErrorCode::kCorruption, "{}: {} bytes are no manifest", where, size);
  const auto bytes = FB_TRY(storage::read_file(*store_, path, kManifestBytesMax).context(place_));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Manifest manifest = FB_TRY(parse_manifest(text).context(where));
  if (manifest.step != save.step || manifest.id != save.id)
    return fail(ErrorCode::kCorruption, "{}: the manifest is of another save, of step {}", where,
                manifest.step);
  return manifest;
}

Result<Manifest> Tier::check(const SaveName& save) const {
  Manifest manifest = FB_TRY(read_manifest(save));
  for (const Shard& shard : manifest.shards) {
    if (!shard.is_elsewhere) FB_TRY(check_file(*store_, folder_name(save), shard).context(place_));
  }
  return manifest;
}

Result<std::shared_ptr<const void>> Tier::hold(const SaveName& save) const {
  auto held = store_->lock_file(path_in(folder_name(save), kManifestName), false);
  if (held.ok()) return held;
  switch (held.error().code) {
    case ErrorCode::kUnsupported:
      return std::shared_ptr<const void>();
    case ErrorCode::kResourceExhausted:
      return fail(ErrorCode::kNotFound, "{}/{}: is being removed", place_, folder_name(save));
    default:
      return held.error();
  }
}

std::string Tier::working_folder(const SaveName& save) const {
  return can_rename_ ? std::string(kSaving) + numbers_of(save) : folder_name(save);
}

Result<std::shared_ptr<const void>> Tier::begin(const SaveName& save) {
  store_->look_again();
  // A file that is never published: it is locked, hidden, and goes with its writer.
  auto writer = FB_TRY(store_->create(path_in(working_folder(save), "writing")).context(place_));
  return std::shared_ptr<const void>(std::shared_ptr<storage::Writer>(std::move(writer)));
}

// A prune somewhere else may have taken it for a dead save; and a folder that is another one on
// some host lacks that one's shards. Each is asked for by name: a listing of a folder on a server
// may be older than what other hosts have put there.
Status Tier::check_complete(std::string_view folder, const Manifest& manifest) const {
  if (!store_->capabilities().keeps_files) return {};
  for (const Shard& shard : manifest.shards) {
    if (shard.is_elsewhere) continue;
    const auto there = store_->stat(path_in(folder, shard.file));
    if (there.ok() && there->size == stored_bytes(shard)) continue;
    if (!there.ok() && there.error().code != ErrorCode::kNotFound) return there.error();
    return fail(
        ErrorCode::kIo,
        "{}/{}/{}: what rank {} has written is not there: it was removed before the save had "
        "ended, or that rank has another folder of this name. All ranks must see the same",
        place_, folder, shard.file, shard.rank);
  }
  return {};
}

Result<std::shared_ptr<const void>> Tier::publish(const SaveName& save, const Manifest& manifest,
                                                  std::shared_ptr<const void> writing) {
  const std::string folder = working_folder(save);
  const std::string path = path_in(folder, kManifestName);
  FB_TRY(check_complete(folder, manifest));
  const std::string text = write_manifest(manifest);
  FB_TRY(storage::write_file(*store_, path, std::as_bytes(std::span(text))));
  // The lock stays with the file when its folder gets another name.
  auto held = store_->lock_file(path, false);
  writing.reset();  // its file is found by its folder's name
  if (can_rename_) FB_TRY(store_->rename_folder(folder, folder_name(save)));
  return std::move(held).value_or(nullptr);
}

Status Tier::discard(const SaveName& save) {
  return remove_files(working_folder(save));
}

Status Tier::point_to(const SaveName& save) {
  const std::string text = folder_name(save) + "\n";
  return storage::write_file(*store_, kLatest, std::as_bytes(std::span(text)));
}

Status Tier::remove(const SaveName& save) {
  std::string folder = folder_name(save);
  const std::string manifest = path_in(folder, kManifestName);
  std::shared_ptr<const void> lock;
  if (file_bytes(*store_, manifest).ok()) {  // else nobody can hold it
    // One that cannot be locked cannot be held either, but by a reader where there are locks.
    auto taken = store_->lock_file(manifest, true);
    if (!taken.ok() && taken.error().code != ErrorCode::kUnsupported) return taken.error();
    lock = std::move(taken).value_or(nullptr);
  }
  if (can_rename_) {
    const std::string removing = std::string(kRemoving) + numbers_of(save);
    FB_TRY(store_->rename_folder(folder, removing));
    folder = removing;
  } else {
    FB_TRY(store_->remove(manifest));
  }
  return remove_files(folder);
}

Status Tier::remove_leftover(const Leftover& leftover) {
  const auto remove_all = [&](const std::vector<storage::Unpublished>& all) -> Status {
    for (const storage::Unpublished& one : all) {
      Status removed = store_->remove_unpublished(one);
      if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
    }
    return {};
  };
  if (!leftover.name || !can_rename_) FB_TRY(remove_all(leftover.unpublished));
  if (!leftover.name) return {};
  std::string folder = leftover.folder;
  if (can_rename_ && folder.starts_with(kSaving)) {
    // Whoever writes there since cannot publish what is left of it.
    for (const storage::Unpublished& one : FB_TRY(store_->list_unpublished(folder))) {
      if (one.writer == Writer::kLives)
        return fail(ErrorCode::kResourceExhausted, "{}/{}: is being written", place_, folder);
    }
    const std::string removing = std::string(kRemoving) + numbers_of(*leftover.name);
    Status renamed = store_->rename_folder(folder, removing);
    if (!renamed.ok() && renamed.error().code == ErrorCode::kNotFound) return {};  // by another
    FB_TRY(std::move(renamed));
    folder = removing;
  }
  return remove_files(folder);
}

Status Tier::remove_files(std::string_view folder) {
  const auto is_failure = [](const Status& removed) {
    return !removed.ok() && removed.error().code != ErrorCode::kNotFound;
  };
  // A link goes itself, no folder does so: what it leads to was put elsewhere to be kept.
  if (can_rename_ && store_->remove(folder).ok()) return {};
  const auto listing = store_->list(folder);
  if (!listing.ok() && listing.error().code == ErrorCode::kNotFound) return {};
  if (!listing.ok()) return listing.error();
  for (const storage::FileInfo& file : listing->files) {
    if (!is_directly_in(folder, file.path)) continue;
    Status removed = store_->remove(file.path);
    if (is_failure(removed)) return removed;
  }
  if (!can_rename_) return {};
  for (const storage::Unpublished& one : FB_TRY(store_->list_unpublished(folder))) {
    if (!is_directly_in(folder, one.path)) continue;
    Status removed = store_->remove_unpublished(one);
    if (is_failure(removed)) return removed;
  }
  Status removed = store_->remove_folder(folder);
  if (!is_failure(removed)) return {};
  return std::move(removed).context(
      fmt::format("{}/{}: holds what is no file of a checkpoint, "
                  "which stays",
                  place_, folder));
}

Result<uint64_t> Tier::free_bytes() const {
  store_->look_again();
  return store_->free_bytes();
}

}  // namespace forebay::checkpoint

#include "checkpoint/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "checkpoint/pace.h"
#include "checkpoint/parallel.h"
#include "checkpoint/restorer.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_io.h"
#include "sys/process.h"

namespace forebay::checkpoint {
namespace {

using nlohmann::json;

CheckpointEntry entry_of(const Tier& tier, const SaveName& name) {
  CheckpointEntry entry{.name = name, .folder = folder_name(name)};
  const auto manifest = tier.read_manifest(name);
  if (!manifest.ok()) {
    entry.problem = manifest.error().message;
    return entry;
  }
  entry.saved_unix_ns = manifest->saved_unix_ns;
  entry.bytes = stored_bytes(*manifest);
  entry.tensors = manifest->tensors.size();
  entry.shards = manifest->shards.size();
  for (const Shard& shard : manifest->shards) entry.shards_elsewhere += shard.is_elsewhere ? 1 : 0;
  entry.world_size = manifest->world_size;
  entry.metrics = manifest->metrics;
  entry.metadata = manifest->metadata;
  return entry;
}

// Whether nobody writes it any more. A clock that went back says no.
bool is_dead(const Tier& tier, const Tier::Leftover& left, const Tier::Contents& contents,
             double quiet_seconds) {
  using Writer = storage::Unpublished::Writer;
  if (left.writer != Writer::kUnknown) return left.writer == Writer::kGone;
  const double touched = static_cast<double>(left.touched_ns) * 1e-9;
  if (touched <= sys::unix_seconds() - quiet_seconds) return true;
  return left.name && !contents.saves.empty() && is_older(*left.name, contents.saves.back()) &&
         tier.has_locks();
}

Status write_text(storage::Store& store, std::string_view path, std::string_view text) {
  return storage::write_file(store, path, std::as_bytes(std::span(text)));
}

// Tensors of one file that is written.
struct OutputFile {
  std::vector<const SavedTensor*> tensors;
  uint64_t bytes = 0;
};

Result<std::vector<OutputFile>> split(const Manifest& manifest, uint64_t file_bytes_max) {
  std::vector<const SavedTensor*> order;
  for (const SavedTensor& tensor : manifest.tensors) order.push_back(&tensor);
  // Large elements first: each tensor then lies aligned to its own.
  std::stable_sort(order.begin(), order.end(), [](const SavedTensor* a, const SavedTensor* b) {
    return element_bytes(a->type) > element_bytes(b->type);
  });
  std::vector<OutputFile> files;
  for (const SavedTensor* tensor : order) {
    const uint64_t bytes = FB_TRY(tensor_bytes(tensor->type, tensor->shape));
    if (files.empty() || (files.back().bytes > 0 && files.back().bytes + bytes > file_bytes_max))
      files.emplace_back();
    files.back().tensors.push_back(tensor);
    files.back().bytes += bytes;
  }
  return files;
}

Status write_tensors(storage::Store& store, const std::string& path, const OutputFile& file,
                     const Restored& restored) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const SavedTensor* tensor : file.tensors) {
    const uint64_t bytes = FB_TRY(tensor_bytes(tensor->type, tensor->shape));
    header.tensors.push_back({tensor->name, tensor->type, tensor->shape, offset, bytes});
    offset += bytes;
  }
  const std::string front = FB_TRY(make_safetensors_header(header, 64));
  const std::unique_ptr<storage::Writer> writer = FB_TRY(store.create(path));
  FB_TRY(writer->append(std::as_bytes(std::span(front))));
  std::map<std::string_view, std::span<const std::byte>> bytes_of;
  for (const RestoredTensor& tensor : restored.tensors) bytes_of[tensor.name] = tensor.bytes;
  for (const SavedTensor* tensor : file.tensors) FB_TRY(writer->append(bytes_of[tensor->name]));
  FB_TRY(writer->sync());
  return writer->publish();
}

// Checkpoints as the rules see them, oldest first.
struct Candidates {
  std::vector<KeptSave> saves;
  std::map<std::string, uint64_t> bytes;  // by folder
};

Candidates look_at_all(const Tier& tier, const Tier::Contents& contents, const std::string& metric,
                       Pruned& out) {
  Candidates all;
  for (const SaveName& name : contents.saves) {
    KeptSave save{.name = name};
    const auto manifest = tier.check(name);
    if (manifest.ok()) {
      const auto found = manifest->metrics.find(metric);
      if (found != manifest->metrics.end()) save.metric = found->second;
      all.bytes[folder_name(name)] = stored_bytes(*manifest);
    } else {
      const ErrorCode code = manifest.error().code;
      save.is_damaged = true;
      // What cannot be looked at may be whole.
      save.is_needed = code != ErrorCode::kCorruption && code != ErrorCode::kNotFound;
      out.damaged.push_back({folder_name(name), manifest.error().message});
    }
    all.saves.push_back(save);
  }
  return all;
}

// Sizes do not tell whether the newest is what it was: nothing goes before it has been read.
Status verify_newest(const Tier& tier, Candidates& candidates, const PruneOptions& options,
                     Pruned& out, const std::stop_token& stop) {
  for (size_t i = candidates.saves.size(); i-- > 0;) {
    KeptSave& save = candidates.saves[i];
    if (save.is_damaged) continue;
    const auto verified =
        FB_TRY(verify_checkpoint(tier, save.name, options.threads, options.progress, stop));
    if (verified.damage.empty()) return {};
    save.is_damaged = true;
    out.damaged.push_back({folder_name(save.name), verified.damage.front().what});
  }
  return {};
}

}  // namespace

Result<Inventory> take_inventory(const Tier& tier) {
  Tier::Contents contents = FB_TRY(tier.list().context(tier.place()));
  Inventory out;
  for (const SaveName& name : contents.saves) out.checkpoints.push_back(entry_of(tier, name));
  std::reverse(out.checkpoints.begin(), out.checkpoints.end());
  out.leftovers = FB_TRY(tier.list_leftovers(out.notes).context(tier.place()));
  return out;
}

Result<SaveName> find_checkpoint(const Inventory& inventory, std::optional<uint64_t> step,
                                 const std::string& place) {
  for (const CheckpointEntry& entry : inventory.checkpoints) {
    if (!step || entry.name.step == *step) return entry.name;
  }
  if (!step || inventory.checkpoints.empty())
    return fail(ErrorCode::kNotFound, "{}: no checkpoint", place);
  return fail(ErrorCode::kNotFound, "{}: no checkpoint of step {}; the newest is of step {}", place,
              *step, inventory.checkpoints.front().name.step);
}

Result<Verified> verify_checkpoint(const Tier& tier, const SaveName& name, int threads,
                                   const Progress& progress, const std::stop_token& stop) {
  Verified out;
  const auto held = tier.hold(name);
  const auto manifest = held.ok() ? tier.read_manifest(name) : Result<Manifest>(held.error());
  if (!manifest.ok()) {
    if (manifest.error().code == ErrorCode::kCancelled) return manifest.error();
    out.damage.push_back({std::string(kManifestName), manifest.error().message});
    return out;
  }
  const uint64_t all = stored_bytes(*manifest);
  base::Mutex mutex;
  const std::string folder = folder_name(name);
  const Admission admit = [&](uint64_t bytes) -> Status {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    base::MutexLock lock(mutex);
    out.bytes += bytes;
    if (progress) progress(out.bytes, all);
    return {};
  };
  FB_TRY(for_each_parallel(manifest->shards.size(), threads, stop, [&](size_t i) -> Status {
    const Shard& shard = manifest->shards[i];
    if (shard.is_elsewhere) return {};
    Status checked = check_shard(tier.store(), folder, shard, manifest->chunk_bytes, admit);
    if (checked.ok() || checked.error().code == ErrorCode::kCancelled) return checked;
    base::MutexLock lock(mutex);
    out.damage.push_back({shard.file, checked.error().message});
    return {};
  }));
  return out;
}

Result<uint64_t> copy_checkpoint(const Tier& from, Tier& to, const SaveName& name,
                                 double bytes_per_second_max, const Progress& progress,
                                 const std::stop_token& stop) {
  const auto held = FB_TRY(from.hold(name));
  const Manifest manifest = FB_TRY(from.read_manifest(name));
  if (is_spread(manifest))
    return fail(ErrorCode::kInvalidArgument,
                "{}/{}: some of its files lie on other hosts: copy it from a place that all hosts "
                "share, to which the job copies it",
                from.place(), folder_name(name));
  if (to.read_manifest(name).ok()) return uint64_t{0};
  const uint64_t all = stored_bytes(manifest);
  uint64_t done = 0;
  Pace pace(base::monotonic_clock(), bytes_per_second_max);
  const Admission admit = [&](uint64_t bytes) -> Status {
    FB_TRY(pace.admit(bytes, stop));
    done += bytes;
    if (progress) progress(done, all);
    return {};
  };
  auto writing = FB_TRY(to.begin(name));
  const std::string folder = to.working_folder(name);
  for (const Shard& shard : manifest.shards)
    FB_TRY(copy_shard(from.store(), folder_name(name), to.store(), folder, shard,
                      manifest.chunk_bytes, admit));
  FB_TRY(to.publish(name, manifest, std::move(writing)));
  FB_TRY(to.point_to(name));
  return done;
}

Result<Pruned> prune(Tier& tier, const PruneOptions& options, const std::stop_token& stop) {
  const Tier::Contents contents = FB_TRY(tier.list().context(tier.place()));
  Pruned out;
  Candidates candidates = look_at_all(tier, contents, options.metric, out);
  std::vector<SaveName> old = saves_to_remove(candidates.saves, options.rules);
  if (!old.empty()) {
    FB_TRY(verify_newest(tier, candidates, options, out, stop));
    old = saves_to_remove(candidates.saves, options.rules);
  }
  for (const SaveName& name : old) {
    Status removed = options.only_says ? Status() : tier.remove(name);
    if (!removed.ok() && removed.error().code == ErrorCode::kResourceExhausted) {
      out.in_use.push_back(name);
      continue;
    }
    if (!removed.ok() && removed.error().code == ErrorCode::kNotFound) continue;  // by another
    if (!removed.ok()) {
      out.failed.push_back({folder_name(name), removed.error().message});
      continue;
    }
    out.bytes += candidates.bytes[folder_name(name)];
    out.removed.push_back(name);
  }
  if (!options.removes_leftovers) return out;
  for (const Tier::Leftover& left : FB_TRY(tier.list_leftovers(out.notes).context(tier.place()))) {
    const bool goes = is_dead(tier, left, contents, options.quiet_seconds);
    Status removed = goes && !options.only_says ? tier.remove_leftover(left) : Status();
    if (!removed.ok() && removed.error().code == ErrorCode::kNotFound) continue;  // by another
    if (!goes || (!removed.ok() && removed.error().code == ErrorCode::kResourceExhausted)) {
      out.kept.push_back(left.folder);
    } else if (!removed.ok()) {
      out.failed.push_back({left.folder, removed.error().message});
    } else {
      out.bytes += left.bytes;
      out.leftovers.push_back(left.folder);
    }
  }
  return out;
}

namespace {

// Writes all files; `written` are the names of those that it has begun.
Status write_extracted(const SaveCopies& copies, const Manifest& manifest,
                       const std::vector<OutputFile>& files, storage::Store& store,
                       const std::string& folder, int threads, const std::stop_token& stop,
                       Extracted& out, std::vector<std::string>& written) {
  json index = json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file =
        files.size() == 1 ? "model.safetensors"
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    RestoreOptions options;
    options.only_named = true;
    for (const SavedTensor* tensor : files[i].tensors) {
      options.boxes[tensor->name] = {{}, tensor->shape};
      index[tensor->name] = file;
    }
    const Restored restored = FB_TRY(restore_save(copies, options, threads, stop));
    written.push_back(file);
    FB_TRY(write_tensors(store, file, files[i], restored).context(folder));
    out.bytes += files[i].bytes;
    out.notes.insert(out.notes.end(), restored.notes.begin(), restored.notes.end());
  }
  std::map<std::string, std::string> texts{
      {"tree.json", manifest.tree + "\n"},
      {"metadata.json", json(manifest.metadata).dump(1) + "\n"}};
  if (files.size() > 1) {
    const json whole = {{"metadata", {{"total_size", out.bytes}}}, {"weight_map", index}};
    texts["model.safetensors.index.json"] = whole.dump(1) + "\n";
  }
  for (const auto& [file, text] : texts) {
    written.push_back(file);
    FB_TRY(write_text(store, file, text).context(folder));
  }
  return {};
}

}  // namespace

Result<Extracted> extract_checkpoint(const Tier& tier, const SaveName& name,
                                     const std::string& folder, uint64_t file_bytes_max,
                                     int threads, const std::stop_token& stop) {
  const auto held = FB_TRY(tier.hold(name));
  const Manifest manifest = FB_TRY(tier.read_manifest(name));
  const auto store = FB_TRY(storage::open_store("local", folder));
  const auto there = store->list("");
  if (there.ok() && !there->files.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: is not empty; name a new folder", folder);
  const std::vector<OutputFile> files = FB_TRY(split(manifest, file_bytes_max));
  Extracted out{.step = manifest.step, .tensors = manifest.tensors.size(), .files = files.size()};
  std::vector<std::string> written;
  Status done = write_extracted({name, {&tier}}, manifest, files, *store, folder, threads, stop,
                                out, written);
  if (done.ok()) return out;
  // Some of the files look like a whole, and the folder would be refused the next time.
  for (const std::string& file : written) store->remove(file).ignore("it may not be there");
  return done.error();
}

}  // namespace forebay::checkpoint

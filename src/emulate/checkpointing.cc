#include "emulate/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "checkpoint/inventory.h"
#include "checkpoint/option_check.h"
#include "checkpoint/parallel.h"
#include "checkpoint/rank_talk.h"
#include "checkpoint/restorer.h"
#include "checkpoint/save_progress.h"
#include "cluster/world.h"
#include "emulate/data_store.h"
#include "emulate/packing.h"
#include "sys/page_cache.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay::emulate {
namespace {

using checkpoint::Manifest;
using checkpoint::SaveName;
using checkpoint::Shard;
using checkpoint::Tier;

constexpr double kNano = 1e-9;
constexpr int64_t kTickNs = 200'000'000;
constexpr std::string_view kEmulated = "emulated";  // in the metadata of what this has saved

// The processes of a run, for the checkpoint room.
class Processes final : public RankGroup {
 public:
  explicit Processes(cluster::World& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) override {
    return world_.gather(mine, std::move(stop));
  }

 private:
  cluster::World& world_;
};

std::string bytes_text(uint64_t bytes) {
  return base::format_memory(static_cast<double>(bytes));
}

bool is_emulated(const std::map<std::string, std::string>& metadata) {
  return metadata.find(std::string(kEmulated)) != metadata.end();
}

}  // namespace

struct Checkpointing::Part {
  double start = 0, end = 0;
  std::vector<RankCheckpoint> ranks;  // by local accelerator
  std::vector<int64_t> written_ns{};  // the same: when its files were; stays in this process
  uint64_t cached_bytes = 0;
  std::string cached_unknown;

  std::string pack() const {
    Packer packer;
    packer.put(start);
    packer.put(end);
    packer.put<uint64_t>(ranks.size());
    for (const RankCheckpoint& rank : ranks) packer.put(rank);
    packer.put(cached_bytes);
    packer.put(cached_unknown);
    return packer.take();
  }
  static Result<Part> unpack(std::string_view bytes) {
    Part part;
    Unpacker unpacker(bytes);
    unpacker.get(part.start);
    unpacker.get(part.end);
    part.ranks.resize(unpacker.count());
    for (RankCheckpoint& rank : part.ranks) unpacker.get(rank);
    unpacker.get(part.cached_bytes);
    unpacker.get(part.cached_unknown);
    FB_TRY(unpacker.done());
    return part;
  }
};

// --- Before the first step ---

Status Checkpointing::prepare() {
  group_ = std::make_shared<Processes>(run_.world);
  const auto ranks = static_cast<uint64_t>(run_.result.options.accelerators);
  states_ = std::make_unique<workload::ModelStates>(
      FB_TRY(workload::ModelStates::make(run_.workload, ranks)));
  for (size_t local = 0; local < local_count(); ++local)
    files_.push_back(states_->files_of(rank_of(local)));
  payloads_.resize(local_count());
  shift_ = run_.workload.checkpoint.recovery_rank_shift ? rank_shift() : 0;
  StateFacts& facts = run_.result.state;
  facts.parameters = states_->parameters();
  facts.bytes = states_->bytes();
  facts.ranks_of_all = states_->ranks_of_all();
  for (uint64_t rank = 0; rank < ranks; ++rank) facts.files += states_->files_of(rank).size();
  FB_TRY(open_tiers().context("checkpoint"));
  for (const auto& tier : tiers_) facts.tiers.push_back(tier->store().describe());
  facts.memory_bytes = memory_bytes();
  FB_TRY(agree_on_names().context("checkpoint"));
  const Status fits = run_.world.rank() == 0 ? check_before() : Status();
  const Result<std::string> said = fits.ok() ? Result<std::string>(std::string()) : fits.error();
  FB_TRY(checkpoint::agree(*group_, said, run_.stop));
  return {};
}

Status Checkpointing::open_tiers() {
  const workload::Checkpoint& checkpoint = run_.workload.checkpoint;
  std::vector<workload::CheckpointPlace> places = checkpoint.tiers;
  if (places.empty()) places.emplace_back().place = checkpoint.checkpoint_folder;
  const bool is_only = run_.workload.workflow.is_checkpoint_only();
  CheckpointOptions options;
  for (const workload::CheckpointPlace& asked : places) {
    const std::string place = FB_TRY(checkpoint_place(asked.place, run_.workload.storage));
    std::string spec = asked.storage;
    if (spec.empty()) spec = is_only ? run_.options.storage : "local";
    auto store = FB_TRY(open_data_store(spec, place, run_.workload.storage));
    if (!tiers_.empty()) store = trace_.of_drain(std::move(store), place);
    tiers_.push_back(Tier::on(std::move(store), place));
    options.tiers.push_back({.place = place,
                             .storage = spec,
                             .drain_bytes_per_second_max = asked.bytes_per_second_max,
                             .keep_last = asked.keep});
  }
  options.keep_last = places.back().keep;
  FB_TRY(checkpoint::check_options(options));
  drainer_ =
      FB_TRY(checkpoint::Drainer::start(tiers_, options, run_.world.rank(), run_.world.size(), 0));
  return {};
}

// Saves have the same name in every process.
Status Checkpointing::agree_on_names() {
  uint64_t next = 1;
  Status listed;
  for (const auto& tier : tiers_) {
    const auto contents = tier->list().context(tier->place());
    if (contents.ok())
      next = std::max(next, contents->sequence_next);
    else
      listed = contents.error();
  }
  Packer packer;
  packer.put(next);
  packer.put(sys::fresh_seed());
  const Result<std::string> mine =
      listed.ok() ? Result<std::string>(packer.take()) : listed.error();
  const std::vector<std::string> all = FB_TRY(checkpoint::agree(*group_, mine, run_.stop));
  for (size_t process = 0; process < all.size(); ++process) {
    Unpacker unpacker(all[process]);
    uint64_t sequence = 0, seed = 0;
    unpacker.get(sequence);
    unpacker.get(seed);
    sequence_next_ = std::max(sequence_next_, sequence);
    if (process == 0) seed_ = seed;
  }
  return {};
}

Status Checkpointing::check_before() {
  const workload::Checkpoint& checkpoint = run_.workload.checkpoint;
  const bool is_only = run_.workload.workflow.is_checkpoint_only();
  const uint64_t saves = is_only ? checkpoint.num_checkpoints_write.value_or(0) : 1;
  for (size_t i = 0; i < tiers_.size(); ++i) {
    const uint64_t keep = checkpoint.tiers.empty() ? 0 : checkpoint.tiers[i].keep;
    FB_TRY(check_room(*tiers_[i], keep > 0 ? std::min(saves, keep + 1) : saves));
  }
  return is_only ? check_readable() : Status();
}

// Whether the saves fit, each taking the place of an earlier run's of the same step.
Status Checkpointing::check_room(Tier& tier, uint64_t saves) const {
  const auto free = tier.store().free_bytes();
  if (!free.ok() || *free == UINT64_MAX) return {};
  std::map<uint64_t, uint64_t> replaced;  // bytes, by step
  const auto inventory = checkpoint::take_inventory(tier);
  if (inventory.ok())
    for (const checkpoint::CheckpointEntry& entry : inventory->checkpoints)
      if (is_emulated(entry.metadata)) replaced[entry.name.step] += entry.bytes;
  uint64_t used = 0, most = 0, gone = 0;
  for (uint64_t step = 1; step <= saves; ++step) {
    used += run_.result.state.bytes;
    most = std::max(most, used - std::min(used, gone));
    if (const auto old = replaced.find(step); old != replaced.end()) gone += old->second;
    if (most > *free && gone == 0) break;
  }
  if (most <= *free) return {};
  return fail(
      ErrorCode::kResourceExhausted,
      "{}: {} of {} each will not fit: {} are free. Lower checkpoint.num_checkpoints_write, "
      "keep fewer with checkpoint.tiers, or save the part of fewer ranks with "
      "checkpoint.mode=subset",
      tier.place(), base::format_counted(saves, "checkpoints"), bytes_text(run_.result.state.bytes),
      bytes_text(*free));
}

Status Checkpointing::check_readable() const {
  const workload::Checkpoint& checkpoint = run_.workload.checkpoint;
  const uint64_t saves = checkpoint.num_checkpoints_write.value_or(0);
  const uint64_t reads = checkpoint.num_checkpoints_read.value_or(0);
  if (reads <= saves) return {};
  std::vector<std::string> notes;
  const auto found = FB_TRY(checkpoint::find_saves(tiers_, notes));
  std::set<uint64_t> steps;
  for (const checkpoint::SaveCopies& save : found) steps.insert(save.name.step);
  for (uint64_t step = saves + 1; step <= reads; ++step) {
    if (steps.contains(step)) continue;
    return fail(ErrorCode::kNotFound,
                "checkpoint.num_checkpoints_read = {}: this run saves {}, and {} holds none of "
                "step {}{}{}",
                reads, saves, tiers_.front()->place(), step, steps.empty() ? "" : "; it has steps ",
                steps.empty() ? "" : fmt::format("{}", fmt::join(steps, ", ")));
  }
  return {};
}

// Buffers of this process: one a rank to write from, or what its reads have in flight, and one
// between tiers.
uint64_t Checkpointing::memory_bytes() const {
  const auto depth = static_cast<uint64_t>(run_.fetch_depth());
  const uint64_t copies = tiers_.size() > 1 ? 1 : 0;
  return (local_count() * std::max<uint64_t>(1, depth) + copies) * kCheckpointChunkBytes;
}

// So far away that the fewest ranks read what their own host has written.
uint64_t Checkpointing::rank_shift() const {
  std::vector<std::string_view> host_of;  // by accelerator
  for (size_t process = 0; process < run_.hosts.size(); ++process)
    host_of.insert(host_of.end(), static_cast<size_t>(run_.accelerators_of[process]),
                   run_.hosts[process]);
  const size_t count = host_of.size();
  size_t best = 0, fewest = count + 1;
  for (size_t shift = 1; shift < count && fewest > 0; ++shift) {
    size_t own = 0;
    for (size_t rank = 0; rank < count; ++rank)
      own += host_of[rank] == host_of[(rank + shift) % count] ? 1 : 0;
    if (own >= fewest) continue;
    fewest = own;
    best = shift;
  }
  return best;
}

// --- Saving ---

// Several ranks at once, each on a thread of its own; the first error stops the others.
Status Checkpointing::on_ranks(
    std::string_view doing, uint64_t bytes,
    const std::function<Status(size_t rank, const std::stop_token& stop)>& work) {
  std::stop_source end;
  const std::stop_callback when_asked(run_.stop, [&] { end.request_stop(); });
  const std::stop_token stop = end.get_token();
  const int count = run_.options.accelerators;
  done_bytes_ = 0;
  base::Mutex mutex;
  std::optional<Error> first;  // before the others are stopped, who then say no more than that
  const auto all = [&]() -> Status {
    Status ended =
        checkpoint::for_each_parallel(local_count(), count, stop, [&](size_t local) -> Status {
          Status done = work(local, stop);
          if (done.ok()) return done;
          const base::MutexLock lock(mutex);
          if (!first) first = done.error();
          end.request_stop();
          return done;
        });
    if (first) return *first;
    return ended;
  };
  if (!shows_progress_) return all();
  Status done;
  std::stop_source over;
  {
    const std::jthread thread = FB_TRY(sys::start_thread("ranks", [&](const std::stop_token&) {
      done = all();
      over.request_stop();
    }));
    while (run_.clock.sleep_until_ns(run_.clock.now_ns() + kTickNs, over.get_token()))
      run_.observer.on_note(
          fmt::format("{}: {} of {}", doing, bytes_text(done_bytes_), bytes_text(bytes)));
  }
  return done;
}

Result<Manifest> Checkpointing::write_all(const SaveName& name, Part& part) {
  Tier& tier = *tiers_.front();
  std::vector<Manifest> manifests(local_count());
  uint64_t bytes = 0;
  for (const auto& files : files_)
    for (const workload::StateFile& file : files) bytes += file.bytes();
  const int64_t start = run_.clock.now_ns();
  const auto write = [&](size_t local, const std::stop_token& stop) -> Status {
    Manifest& mine = manifests[local];
    mine = {.step = name.step,
            .id = name.id,
            .saved_unix_ns = static_cast<int64_t>(sys::unix_seconds() * 1e9),
            .tool = "forebay " + run_.request.version,
            .world_size = static_cast<uint32_t>(run_.world.size()),
            .chunk_bytes = kCheckpointChunkBytes,
            .tree = "{}",
            .metadata = {{std::string(kEmulated), run_.workload.name}}};
    RankCheckpoint& rank = part.ranks[local];
    if (!payloads_[local])
      payloads_[local] = std::make_unique<StatePayload>(run_.workload.train.seed,
                                                        run_.workload.checkpoint.randomize_tensor,
                                                        kCheckpointChunkBytes);
    const auto traced = trace_.of_rank(tier.store(), rank_of(local));
    const RankWriting how{.place = tier.place(),
                          .folder = tier.working_folder(name),
                          .identity = base::derive_seed(name.id, name.sequence),
                          .process = static_cast<uint32_t>(run_.world.rank()),
                          .syncs = run_.workload.checkpoint.fsync};
    RankFiles written = FB_TRY(write_rank_files(traced ? *traced : tier.store(), files_[local], how,
                                                *payloads_[local], done_bytes_, stop));
    const int64_t end = run_.clock.now_ns();
    rank.seconds = static_cast<double>(end - start) * kNano;
    part.written_ns[local] = end;
    for (const workload::StateFile& file : files_[local]) rank.bytes += file.bytes();
    trace_.save(rank_of(local), start, end, name.step, rank.bytes);
    mine.shards = std::move(written.shards);
    mine.tensors = std::move(written.tensors);
    return {};
  };
  writing_ = FB_TRY(tier.begin(name));
  FB_TRY(on_ranks(fmt::format("saving step {}", name.step), bytes, write));
  if (run_.world.rank() != 0) writing_.reset();  // before the first process publishes
  return checkpoint::merge_manifests(std::move(manifests));
}

// One manifest of what all processes wrote makes it a checkpoint, or it is none anywhere. Returns
// what this process has to know of it: process 0 the whole, the others their part.
Result<Manifest> Checkpointing::commit(const SaveName& name, Manifest mine) {
  const std::vector<std::string> texts =
      FB_TRY(run_.world.gather_at_first(checkpoint::write_manifest(mine), run_.stop));
  const auto publish = [&]() -> Result<std::string> {
    std::vector<Manifest> parts;
    for (const std::string& text : texts)
      parts.push_back(FB_TRY(checkpoint::parse_manifest(text, checkpoint::Coverage::kPart)));
    mine = FB_TRY(checkpoint::merge_manifests(std::move(parts)));
    held_ = FB_TRY(
        tiers_.front()->publish(name, mine, std::move(writing_)).context(tiers_.front()->place()));
    return std::string();
  };
  const Result<std::string> said = run_.world.rank() == 0 ? publish() : std::string();
  FB_TRY(checkpoint::agree(*group_, said, run_.stop));
  return mine;
}

// What this process has written of a save that did not end; the first one also what those have that
// are gone.
void Checkpointing::discard(const SaveName& name) {
  writing_.reset();
  Tier& tier = *tiers_.front();
  const std::string folder = tier.working_folder(name);
  constexpr const char* kLater = "prune finds what is left";
  if (run_.world.rank() == 0) return tier.discard(name).ignore(kLater);
  for (const auto& files : files_)
    for (const workload::StateFile& file : files)
      tier.store().remove(folder + "/" + shard_name(file)).ignore(kLater);
  tier.store().remove_folder(folder).ignore(kLater);
}

// Earlier runs' emulated checkpoints of the same step. DLIO writes over them.
void Checkpointing::remove_replaced(Tier& tier, const SaveName& name) const {
  const auto contents = tier.list();
  if (!contents.ok()) return;  // the next save tells
  for (const SaveName& other : contents->saves) {
    if (other.step != name.step || !checkpoint::is_older(other, name)) continue;
    const auto manifest = tier.read_manifest(other);
    if (manifest.ok() && is_emulated(manifest->metadata))
      tier.remove(other).ignore("it stays beside the new one");
  }
}

Status Checkpointing::save(uint64_t epoch, uint64_t step) {
  const uint64_t before = (epoch - 1) * run_.plan.steps;
  const SaveName name{before + step, sequence_next_,
                      static_cast<uint32_t>(base::derive_seed(seed_, sequence_next_))};
  ++sequence_next_;
  const int64_t start = run_.clock.now_ns();
  const auto progress = std::make_shared<SaveHandle::Impl>(name.step, start);
  Part part;
  part.ranks.resize(local_count());
  part.written_ns.resize(local_count());
  Result<Manifest> manifest = write_all(name, part);
  if (manifest.ok()) manifest = commit(name, std::move(manifest).value());
  if (!manifest.ok()) {
    discard(name);
    return std::move(manifest).context(fmt::format("checkpoint of step {}", name.step)).error();
  }
  const int64_t durable = run_.clock.now_ns();
  progress->note_copied(durable);
  progress->note_durable(durable);
  if (run_.world.rank() == 0) {
    tiers_.front()->point_to(name).ignore("nothing reads it back");
    remove_replaced(*tiers_.front(), name);
  }
  part.start = run_.seconds_since_start(start);
  part.end = run_.seconds_since_start(durable);
  for (size_t local = 0; local < local_count(); ++local)
    trace_.commit(rank_of(local), part.written_ns[local], durable, name.step);
  for (RankCheckpoint& rank : part.ranks) {
    rank.stalled = static_cast<double>(durable - start) * kNano;
    if (run_.workload.checkpoint.fsync) rank.durable = rank.stalled;
    if (run_.workload.checkpoint.rank_sync) rank.seconds = rank.stalled;
  }
  CheckpointRecord record{.epoch = epoch, .step = step, .bytes = run_.result.state.bytes};
  record.is_synced = run_.workload.checkpoint.fsync;
  record.place = tiers_.front()->place();
  record.path = checkpoint::folder_name(name);
  FB_TRY(gather(part, record));
  pending_.push_back({run_.result.checkpoints.size(), start, name, progress});
  run_.result.checkpoints.push_back(std::move(record));
  drainer_->add({name, std::make_shared<Manifest>(std::move(manifest).value()), progress, 0,
                 std::move(held_)});
  return {};
}

Status Checkpointing::gather(const Part& part, CheckpointRecord& record) {
  const std::vector<std::string> all = FB_TRY(run_.world.gather(part.pack(), run_.stop));
  record.cached_bytes = 0;
  for (size_t process = 0; process < all.size(); ++process) {
    const Part other = FB_TRY(Part::unpack(all[process]));
    if (process == 0) {
      record.start = other.start;
      record.end = other.end;
    }
    record.ranks.insert(record.ranks.end(), other.ranks.begin(), other.ranks.end());
    if (record.cached_bytes) *record.cached_bytes += other.cached_bytes;
    if (other.cached_unknown.empty()) continue;
    record.cached_unknown = other.cached_unknown;
    record.cached_bytes.reset();
  }
  for (const RankCheckpoint& rank : record.ranks)
    record.seconds = std::max({record.seconds, rank.seconds, rank.stalled});
  return {};
}

Status Checkpointing::save_after_epoch(uint64_t epoch) {
  FB_TRY(save(epoch, run_.plan.steps));
  for (EpochResult& done : run_.result.epochs) {
    if (done.epoch != epoch || done.is_evaluation) continue;
    done.split.checkpoint += run_.result.checkpoints.back().seconds;
    done.critical.checkpoint = done.split.checkpoint;
  }
  return {};
}

void Checkpointing::trace_drains(const Pending& pending) const {
  const SaveTimes times = pending.progress->times();
  if (tiers_.size() == 1 || times.drained < 0) return;
  const auto at = [&](double seconds) {
    return pending.start_ns + static_cast<int64_t>(seconds / kNano);
  };
  trace_.drain(tiers_.back()->place(), at(times.durable), at(times.drained), pending.name.step);
}

Status Checkpointing::finish_drains() {
  if (tiers_.size() > 1 && !pending_.empty() && shows_progress_)
    run_.observer.on_note("waiting for the last tier");
  Packer packer;
  Status drained;
  for (const Pending& pending : pending_) {
    if (drained.ok()) drained = pending.progress->wait_drained(run_.stop);
    packer.put(pending.progress->times().drained);
    trace_drains(pending);
  }
  const Result<std::string> mine =
      drained.ok() ? Result<std::string>(packer.take()) : drained.error();
  const std::vector<std::string> all = FB_TRY(checkpoint::agree(*group_, mine, run_.stop));
  std::vector<Unpacker> times(all.begin(), all.end());
  for (const Pending& pending : pending_) {
    std::vector<RankCheckpoint>& ranks = run_.result.checkpoints[pending.record].ranks;
    size_t next = 0;
    for (size_t process = 0; process < times.size(); ++process) {
      double seconds = 0;
      times[process].get(seconds);
      for (int i = 0; i < run_.accelerators_of[process]; ++i, ++next)
        if (tiers_.size() > 1) ranks[next].drained = seconds;
    }
    for (size_t tier = 1; run_.world.rank() == 0 && tier < tiers_.size(); ++tier)
      remove_replaced(*tiers_[tier], pending.name);
  }
  pending_.clear();
  return {};
}

// --- Restoring ---

Status Checkpointing::pause() {
  const double seconds = run_.workload.checkpoint.time_between_checkpoints.draw(pauses_);
  const auto ns = static_cast<int64_t>(seconds * 1e9);
  if (ns > 0 && !run_.clock.sleep_until_ns(run_.clock.now_ns() + ns, run_.stop))
    return fail(ErrorCode::kCancelled, "stopped between checkpoints");
  return run_.all_here();
}

Status Checkpointing::save_and_restore() {
  shows_progress_ = true;
  const workload::Checkpoint& checkpoint = run_.workload.checkpoint;
  for (uint64_t step = 1; step <= checkpoint.num_checkpoints_write.value_or(0); ++step) {
    FB_TRY(pause());
    FB_TRY(save(1, step));
    run_.observer.on_checkpoint(run_.result, run_.result.checkpoints.back());
  }
  // Restoring is measured by itself.
  FB_TRY(finish_drains());
  for (auto& payload : payloads_) payload.reset();
  for (uint64_t step = 1; step <= checkpoint.num_checkpoints_read.value_or(0); ++step) {
    FB_TRY(restore(step));
    run_.observer.on_checkpoint(run_.result, run_.result.restores.back());
  }
  return {};
}

// Process 0 looks, and all take the same.
Result<Checkpointing::Found> Checkpointing::find(uint64_t step) const {
  const auto look = [&]() -> Result<std::string> {
    if (run_.world.rank() != 0) return std::string();
    std::vector<std::string> notes;
    const auto found = FB_TRY(checkpoint::find_saves(tiers_, notes));
    for (const checkpoint::SaveCopies& save : found) {
      if (save.name.step != step) continue;
      const auto same = [&](const auto& tier) { return tier.get() == save.tiers.front(); };
      const auto tier = std::find_if(tiers_.begin(), tiers_.end(), same);
      return fmt::format("{} {}", tier - tiers_.begin(), checkpoint::folder_name(save.name));
    }
    return fail(ErrorCode::kNotFound, "{}: no checkpoint of step {}", tiers_.front()->place(),
                step);
  };
  const std::vector<std::string> all = FB_TRY(checkpoint::agree(*group_, look(), run_.stop));
  const size_t blank = all[0].find(' ');
  const auto name = checkpoint::save_from_folder(std::string_view(all[0]).substr(blank + 1));
  if (blank == std::string::npos || !name)
    return fail(ErrorCode::kCorruption, "rank 0 names no checkpoint: '{}'", all[0]);
  return Found{std::stoul(all[0].substr(0, blank)), *name};
}

Result<std::vector<std::vector<const Shard*>>> Checkpointing::shards_to_read(
    const Manifest& manifest, const Found& found) const {
  std::map<std::string_view, const Shard*> by_name;
  for (const Shard& shard : manifest.shards) by_name[shard.file] = &shard;
  std::vector<std::vector<const Shard*>> out(local_count());
  for (size_t local = 0; local < local_count(); ++local) {
    const size_t source = (rank_of(local) + shift_) % states_->ranks();
    for (const workload::StateFile& file : states_->files_of(source)) {
      const auto known = by_name.find(shard_name(file));
      if (known == by_name.end())
        return fail(ErrorCode::kNotFound,
                    "{}/{} holds no {}: it was saved by other ranks, or of another model",
                    tiers_[found.tier]->place(), checkpoint::folder_name(found.name),
                    shard_name(file));
      out[local].push_back(known->second);
    }
  }
  return out;
}

// Brings the page cache into the state that --cache asks for, and counts what it holds.
Status Checkpointing::measure_cache(const Found& found,
                                    const std::vector<std::vector<const Shard*>>& shards,
                                    CheckpointRecord& record) {
  const Tier& tier = *tiers_[found.tier];
  record.cached_bytes = 0;
  if (!tier.store().capabilities().is_local || is_object_place(tier.place())) {
    record.cached_bytes.reset();
    record.cached_unknown = "the store does not read from this machine's disks";
    return {};
  }
  const bool is_in_memory = sys::is_memory_file_system(tier.place());
  for (const auto& of_rank : shards) {
    for (const Shard* shard : of_rank) {
      const std::string path =
          fmt::format("{}/{}/{}", tier.place(), checkpoint::folder_name(found.name), shard->file);
      if (run_.options.cache == "cold" && !is_in_memory) FB_TRY(sys::evict_from_page_cache(path));
      if (run_.options.cache == "warm") FB_TRY(sys::load_into_page_cache(path));
      const auto cached = sys::cached_bytes(path);
      if (cached.ok() && record.cached_bytes) {
        *record.cached_bytes += cached->cached_bytes;
      } else if (!cached.ok()) {
        record.cached_bytes.reset();
        record.cached_unknown = cached.error().message;
      }
      if (run_.stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    }
  }
  return {};
}

Status Checkpointing::restore(uint64_t step) {
  const Found found = FB_TRY(find(step));
  const Tier& tier = *tiers_[found.tier];
  const Manifest manifest = FB_TRY(tier.read_manifest(found.name));
  if (manifest.is_packed)
    return fail(ErrorCode::kUnsupported, "{}/{} is packed; a run reads what runs have saved",
                tier.place(), checkpoint::folder_name(found.name));
  const auto shards = FB_TRY(shards_to_read(manifest, found));
  CheckpointRecord record{
      .is_restore = true, .epoch = 1, .step = step, .bytes = run_.result.state.bytes};
  record.place = tier.place();
  record.path = checkpoint::folder_name(found.name);
  record.rank_shift = shift_;
  FB_TRY(measure_cache(found, shards, record));
  uint64_t bytes = 0;
  for (const auto& of_rank : shards)
    for (const Shard* shard : of_rank) bytes += checkpoint::stored_bytes(*shard);
  Part part;
  part.ranks.resize(local_count());
  part.cached_bytes = record.cached_bytes.value_or(0);
  part.cached_unknown = record.cached_unknown;
  FB_TRY(pause());
  const int64_t start = run_.clock.now_ns();
  const auto read = [&](size_t local, const std::stop_token& stop) -> Status {
    RankCheckpoint& rank = part.ranks[local];
    const RankReading how{.folder = record.path,
                          .chunk_bytes = manifest.chunk_bytes,
                          .depth = run_.fetch_depth(),
                          .on_read = [&](std::string_view path, const storage::Completion& done) {
                            trace_.read(rank_of(local), path, done);
                          }};
    rank.bytes =
        FB_TRY(read_rank_files(tier.store(), shards[local], how, done_bytes_, read_retries_, stop)
                   .context(tier.place()));
    const int64_t end = run_.clock.now_ns();
    rank.seconds = static_cast<double>(end - start) * kNano;
    trace_.restore(rank_of(local), start, end, step, rank.bytes);
    return {};
  };
  FB_TRY(on_ranks(fmt::format("restoring step {}", step), bytes, read));
  if (run_.workload.checkpoint.rank_sync) FB_TRY(run_.all_here());
  const int64_t end = run_.clock.now_ns();
  part.start = run_.seconds_since_start(start);
  part.end = run_.seconds_since_start(end);
  if (run_.workload.checkpoint.rank_sync)
    for (RankCheckpoint& rank : part.ranks) rank.seconds = static_cast<double>(end - start) * kNano;
  FB_TRY(gather(part, record));
  run_.result.restores.push_back(std::move(record));
  return {};
}

uint64_t Checkpointing::retries() const {
  uint64_t count = read_retries_;
  for (const auto& tier : tiers_) count += tier->store().other_retries();
  return count;
}

}  // namespace forebay::emulate

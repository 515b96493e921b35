// The public face: checks what it is given, copies it, and hands it to the threads that make it
// durable and copy it on.
#include "forebay/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/drainer.h"
#include "checkpoint/open_on_tiers.h"
#include "checkpoint/option_check.h"
#include "checkpoint/rank_talk.h"
#include "checkpoint/restorer.h"
#include "checkpoint/save_progress.h"
#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/state_text.h"
#include "sys/host.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay {
namespace {

using checkpoint::LocalPart;
using checkpoint::SaveCopies;
using checkpoint::SaveJob;
using checkpoint::SaveName;
using checkpoint::Tier;

constexpr int kThreadsMax = 4;

// A checkpoint that has not reached the next tier.
struct Undrained {
  SaveName name;
  checkpoint::Manifest manifest;
  std::shared_ptr<const void> held;
};

// "FOLDER FILE FILE...\n" of each: what lies here.
std::string text_of(const std::vector<Undrained>& saves) {
  std::string text;
  for (const Undrained& save : saves) {
    text += checkpoint::folder_name(save.name);
    for (const checkpoint::Shard& shard : save.manifest.shards) {
      if (!shard.is_elsewhere) text += " " + shard.file;
    }
    text += "\n";
  }
  return text;
}

// By save: which ranks see it, and which of them see each of its files.
struct Sightings {
  std::vector<int> ranks;
  std::map<std::string, std::vector<int>, std::less<>> files;
};
struct ByAge {
  bool operator()(const SaveName& a, const SaveName& b) const { return is_older(a, b); }
};
std::map<SaveName, Sightings, ByAge> sightings_of(const std::vector<std::string>& texts) {
  std::map<SaveName, Sightings, ByAge> out;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (const std::string_view line : base::split(texts[rank], '\n')) {
      const std::vector<std::string_view> words = base::split(line, ' ');
      const auto name = checkpoint::save_from_folder(words.front());
      if (!name) continue;
      Sightings& seen = out[*name];
      seen.ranks.push_back(static_cast<int>(rank));
      for (size_t i = 1; i < words.size(); ++i)
        seen.files[std::string(words[i])].push_back(static_cast<int>(rank));
    }
  }
  return out;
}

// By shard, a rank that sees its file, whoever wrote it first; nothing when nobody sees one.
std::vector<int> copiers_of(const checkpoint::Manifest& manifest, const Sightings& seen) {
  std::vector<int> out;
  for (const checkpoint::Shard& shard : manifest.shards) {
    const auto file = seen.files.find(shard.file);
    if (file == seen.files.end()) return {};
    const std::vector<int>& ranks = file->second;
    const bool sees_own = std::find(ranks.begin(), ranks.end(), shard.rank) != ranks.end();
    out.push_back(sees_own ? static_cast<int>(shard.rank) : ranks[out.size() % ranks.size()]);
  }
  return out;
}

}  // namespace

class Checkpointer::Impl {
 public:
  static Result<std::unique_ptr<Impl>> open(std::vector<std::unique_ptr<Tier>> tiers,
                                            const CheckpointOptions& options);
  ~Impl();

  Result<SaveHandle> save(uint64_t step, const CheckpointState& state, std::stop_token stop);
  Status wait(std::stop_token stop);
  Result<Restored> restore(const RestoreOptions& options, std::stop_token stop);
  CheckpointStats stats() const;

 private:
  explicit Impl(const CheckpointOptions& options) : options_(options) {}

  Status find_out();
  // Goes on with what an earlier process did not copy to its last tier.
  Status resume_drains();
  void resume_drains_from(size_t tier, const std::vector<SaveCopies>& saves);
  Status resume_drains_from_first(const std::vector<SaveCopies>& saves);
  // Of a tier: what is there and has to go on to the next.
  std::vector<Undrained> find_undrained(size_t tier, const std::vector<SaveCopies>& saves) const;
  void run(const std::stop_token& stop);
  void finish(SaveJob& job, const std::stop_token& stop);
  void note_steady(const SaveJob& job);
  Result<Restored> restore_from(const Result<std::vector<SaveCopies>>& found,
                                const RestoreOptions& options, std::vector<std::string> notes,
                                const std::stop_token& stop);
  std::string has_newer_than(const SaveName& newest) const;
  Error no_checkpoint(const RestoreOptions& options, const std::vector<std::string>& notes) const;
  Status copy(const CheckpointState& state, SaveJob& job);
  void hand_over(SaveJob job);
  // What went wrong in a save that nobody was told of.
  std::optional<Error> take_untold();
  Status wait_until_free(std::stop_token stop);
  // Whether an earlier save is still under way, on any rank.
  Result<bool> is_any_busy(const std::stop_token& stop);
  // Before anything is copied: what will not fit is told at once.
  Status check_room(const checkpoint::ShardPlan& plan) const;
  bool is_saving() const FB_REQUIRES(mutex_) { return job_ != nullptr; }

  const CheckpointOptions options_;
  std::shared_ptr<RankGroup> group_;
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::unique_ptr<checkpoint::Saver> saver_;
  checkpoint::Snapshot snapshot_;  // of the save that is not durable yet
  struct Seen {
    uint32_t crc = 0;
    size_t bytes = 0;
    bool is_steady = false;
  };
  // Of the last save, by name; save() reads it once the thread has ended that.
  std::map<std::string, Seen> steady_;
  int threads_ = 1;
  uint64_t run_seed_ = 0;  // the same on all ranks

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  uint64_t sequence_next_ FB_GUARDED_BY(mutex_) = 1;    // the same on all ranks
  std::unique_ptr<SaveJob> job_ FB_GUARDED_BY(mutex_);  // copied, not durable yet
  std::vector<std::shared_ptr<SaveHandle::Impl>> recent_ FB_GUARDED_BY(mutex_);
  CheckpointStats stats_ FB_GUARDED_BY(mutex_);
  std::unique_ptr<checkpoint::Drainer> drainer_;
  std::jthread thread_;
};

Result<std::unique_ptr<Checkpointer::Impl>> Checkpointer::Impl::open(
    std::vector<std::unique_ptr<Tier>> tiers, const CheckpointOptions& options) {
  auto impl = std::unique_ptr<Impl>(new Impl(options));
  impl->group_ = options.group ? options.group : checkpoint::make_single_rank();
  impl->threads_ =
      options.threads > 0 ? options.threads : std::min(kThreadsMax, sys::usable_cpu_count());
  impl->tiers_ = std::move(tiers);
  for (const auto& tier : impl->tiers_) {
    if (options.share_unchanged && !tier->store().capabilities().can_link)
      return fail(
          ErrorCode::kInvalidArgument,
          "share_unchanged: {} has no links to files, and everything would be written there "
          "again: leave it out, or give only folders as tiers",
          tier->place());
  }
  FB_TRY(impl->find_out());
  const checkpoint::SaverOptions saving{options.chunk_bytes, options.compress, impl->threads_,
                                        options.share_unchanged};
  impl->saver_ = std::make_unique<checkpoint::Saver>(impl->tiers_, *impl->group_, saving);
  impl->drainer_ = FB_TRY(checkpoint::Drainer::start(impl->tiers_, options, impl->group_->rank(),
                                                     impl->group_->size(), impl->run_seed_));
  FB_TRY(impl->resume_drains());
  Impl* const self = impl.get();
  impl->thread_ =
      FB_TRY(sys::start_thread("save", [self](const std::stop_token& stop) { self->run(stop); }));
  return impl;
}

Status Checkpointer::Impl::find_out() {
  uint64_t next = 1;
  Status listed;
  for (const auto& tier : tiers_) {
    auto contents = tier->list().context(tier->place());
    if (!contents.ok()) {
      // A slow tier that is away for now must not keep a job from starting.
      if (tier == tiers_.front()) listed = contents.error();
      continue;
    }
    next = std::max(next, contents->sequence_next);
  }
  const Result<std::string> mine =
      listed.ok() ? Result<std::string>(fmt::format("{} {}", next, sys::fresh_seed()))
                  : listed.error();
  const auto all = FB_TRY(checkpoint::agree(*group_, mine, {}));
  base::MutexLock lock(mutex_);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const size_t blank = all[rank].find(' ');
    const std::string_view text(all[rank]);
    sequence_next_ = std::max(sequence_next_, checkpoint::number_of(text.substr(0, blank)));
    if (rank == 0) run_seed_ = checkpoint::number_of(text.substr(blank + 1));
  }
  return {};
}

Status Checkpointer::Impl::resume_drains() {
  if (tiers_.size() == 1) return {};
  std::vector<std::string> notes;
  auto saves = checkpoint::find_saves(tiers_, notes);
  if (!saves.ok()) saves = std::vector<SaveCopies>();  // the first drain tells
  std::reverse(saves->begin(), saves->end());
  for (size_t tier = tiers_.size() - 1; tier-- > 1;) resume_drains_from(tier, *saves);
  return resume_drains_from_first(*saves);
}

std::vector<Undrained> Checkpointer::Impl::find_undrained(
    size_t tier, const std::vector<SaveCopies>& saves) const {
  std::vector<Undrained> out;
  const auto next = tiers_[tier + 1]->list();
  if (!next.ok()) return out;
  for (const SaveCopies& save : saves) {
    if (save.tiers.back() != tiers_[tier].get()) continue;
    if (!next->saves.empty() && !is_older(next->saves.back(), save.name)) continue;
    auto manifest = tiers_[tier]->read_manifest(save.name);
    if (!manifest.ok()) continue;  // restore names the damage
    auto held = tiers_[tier]->hold(save.name);
    if (!held.ok()) continue;  // gone meanwhile
    out.push_back({save.name, std::move(manifest).take(), std::move(held).take()});
  }
  return out;
}

void Checkpointer::Impl::resume_drains_from(size_t tier, const std::vector<SaveCopies>& saves) {
  for (Undrained& save : find_undrained(tier, saves))
    drainer_->add({save.name, std::make_shared<checkpoint::Manifest>(std::move(save.manifest)),
                   nullptr, tier, std::move(save.held)});
}

// Each host may see another part of them there: all copy what the first that sees it knows of.
Status Checkpointer::Impl::resume_drains_from_first(const std::vector<SaveCopies>& saves) {
  std::vector<Undrained> mine = find_undrained(0, saves);
  const auto texts = FB_TRY(checkpoint::agree(*group_, text_of(mine), {}));
  for (const auto& [name, seen] : sightings_of(texts)) {
    const auto own = std::find_if(mine.begin(), mine.end(), [&, &key = name](const Undrained& one) {
      return one.name == key;
    });
    const int first = seen.ranks.front();
    const std::string text =
        first == group_->rank() ? write_manifest(gathered(own->manifest)) : std::string();
    const auto said = FB_TRY(checkpoint::agree(*group_, text, {}));
    auto manifest = std::make_shared<checkpoint::Manifest>(
        FB_TRY(checkpoint::parse_manifest(said[static_cast<size_t>(first)])));
    std::vector<int> copiers = copiers_of(*manifest, seen);
    if (copiers.empty() && !manifest->shards.empty()) continue;  // a host took its part with it
    drainer_->add({name, std::move(manifest), nullptr, 0,
                   own == mine.end() ? nullptr : std::move(own->held), std::move(copiers)});
  }
  return {};
}

Checkpointer::Impl::~Impl() {
  wait_until_free({}).ignore("whoever holds a handle has the error");
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  drainer_.reset();
}

std::optional<Error> Checkpointer::Impl::take_untold() {
  base::MutexLock lock(mutex_);
  std::optional<Error> error;
  for (const auto& progress : recent_) {
    if (!error) error = progress->take_untold();
  }
  // Those that can still change are kept.
  std::erase_if(recent_, [](const auto& progress) { return progress->is_over(); });
  return error;
}

Status Checkpointer::Impl::wait_until_free(std::stop_token stop) {
  base::MutexLock lock(mutex_);
  if (changed_.wait(mutex_, std::move(stop), [this]() FB_REQUIRES(mutex_) { return !is_saving(); }))
    return {};
  return fail(ErrorCode::kCancelled, "stopped while an earlier save was being written");
}

Result<SaveHandle> Checkpointer::Impl::save(uint64_t step, const CheckpointState& state,
                                            std::stop_token stop) {
  const auto progress = std::make_shared<SaveHandle::Impl>(step, base::monotonic_clock().now_ns());
  if (options_.when_busy == WhenBusy::kSkip && FB_TRY(is_any_busy(stop))) {
    progress->note_skipped();
    progress->note_earlier(take_untold());
    base::MutexLock lock(mutex_);
    ++stats_.skipped;
    return SaveHandle(progress);
  }
  FB_TRY(wait_until_free(stop));
  if (options_.when_busy == WhenBusy::kBlock && !drainer_->wait_idle(stop))
    return fail(ErrorCode::kCancelled, "stopped while an earlier save was being copied");
  SaveJob job;
  const Status copied = copy(state, job);
  if (!copied.ok() && group_->size() == 1) return copied.error();
  if (!copied.ok()) job.failure = copied.error();
  {
    base::MutexLock lock(mutex_);
    job.name = {step, sequence_next_,
                static_cast<uint32_t>(base::derive_seed(run_seed_, sequence_next_))};
    ++sequence_next_;
  }
  job.progress = progress;
  if (copied.ok()) progress->note_earlier(take_untold());
  hand_over(std::move(job));
  if (!copied.ok()) return copied.error();
  return SaveHandle(progress);
}

// What there is to save, checked and copied.
Status Checkpointer::Impl::copy(const CheckpointState& state, SaveJob& job) {
  FB_TRY(checkpoint::check_text(state));
  job.parts = FB_TRY(checkpoint::check_parts(state.tensors));
  for (LocalPart& part : job.parts) {
    const auto known = steady_.find(checkpoint::entry_name(part));
    part.is_steady = known != steady_.end() && known->second.is_steady;
  }
  job.plan = FB_TRY(checkpoint::plan_shards(job.parts, options_.shard_bytes_max));
  FB_TRY(check_room(job.plan));
  FB_TRY(snapshot_.copy(job.parts, job.plan, threads_));
  job.tree = state.tree;
  job.metadata = state.metadata;
  job.metrics = state.metrics;
  return {};
}

void Checkpointer::Impl::hand_over(SaveJob job) {
  const std::shared_ptr<SaveHandle::Impl> progress = job.progress;
  progress->note_copied(base::monotonic_clock().now_ns());
  base::MutexLock lock(mutex_);
  ++stats_.saves;
  stats_.stalled_seconds += progress->times().stalled;
  if (!job.failure) recent_.push_back(progress);  // else save() returns it
  job_ = std::make_unique<SaveJob>(std::move(job));
  changed_.notify_all();
}

// The one place where ranks meet during save(): they must all skip, or none.
Result<bool> Checkpointer::Impl::is_any_busy(const std::stop_token& stop) {
  bool is_busy = false;
  {
    base::MutexLock lock(mutex_);
    is_busy = is_saving();
  }
  is_busy = is_busy || !drainer_->is_idle();
  if (group_->size() == 1) return is_busy;
  // The thread that makes saves durable talks to the others as well: not both at once.
  FB_TRY(wait_until_free(stop));
  const auto all = FB_TRY(checkpoint::agree(*group_, std::string(is_busy ? "1" : "0"), stop));
  return std::find(all.begin(), all.end(), "1") != all.end();
}

Status Checkpointer::Impl::check_room(const checkpoint::ShardPlan& plan) const {
  if (options_.compress) return {};  // nobody knows yet how much it will be
  const auto free = tiers_[0]->free_bytes();
  if (!free.ok() || *free >= plan.arena_bytes) return {};
  return fail(ErrorCode::kResourceExhausted,
              "{}: this save takes {}, and {} are free; the checkpoints that are there stay",
              tiers_[0]->place(), base::format_bytes(static_cast<double>(plan.arena_bytes)),
              base::format_bytes(static_cast<double>(*free)));
}

void Checkpointer::Impl::run(const std::stop_token& stop) {
  for (;;) {
    SaveJob* job = nullptr;
    {
      base::MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, [this]() FB_REQUIRES(mutex_) { return is_saving(); }))
        return;
      job = job_.get();  // stays until finish() drops it; nobody else does
    }
    finish(*job, stop);
  }
}

void Checkpointer::Impl::finish(SaveJob& job, const std::stop_token& stop) {
  auto manifest = saver_->save(job, snapshot_, stop);
  const std::shared_ptr<SaveHandle::Impl> progress = job.progress;
  if (manifest.ok()) {
    progress->note_durable(base::monotonic_clock().now_ns());
    if (saver_->leads()) tiers_[0]->point_to(job.name).ignore("restore does not need it");
  }
  if (options_.share_unchanged) note_steady(job);
  // One step from being saved to being copied on: a save that is made then finds it busy, and one
  // that waited for the copy does not.
  base::MutexLock lock(mutex_);
  if (manifest.ok()) {
    stats_.bytes_written += checkpoint::stored_bytes(*manifest);
    if (saver_->leads()) drainer_->prune_first_tier();
    drainer_->add({job.name, std::make_shared<checkpoint::Manifest>(std::move(*manifest)), progress,
                   0, std::move(job.held)});
  } else {
    ++stats_.failed;
    progress->note_failed(manifest.error());
  }
  sequence_next_ = std::max(sequence_next_, job.name.sequence + 1);
  job_.reset();
  changed_.notify_all();
}

// What did not change since the last save will hardly change until the next, and goes into files of
// its own, which can be shared.
void Checkpointer::Impl::note_steady(const SaveJob& job) {
  std::map<std::string, Seen> seen;
  for (const checkpoint::PlannedShard& shard : job.plan.shards) {
    auto data = snapshot_.data_of(shard);
    for (const size_t i : shard.parts) {
      const LocalPart& part = job.parts[i];
      const std::string name = checkpoint::entry_name(part);
      const size_t bytes = part.bytes.size();
      const uint32_t crc = base::crc32c(0, data.first(bytes));
      data = data.subspan(bytes);
      const auto before = steady_.find(name);
      const bool is_same =
          before != steady_.end() && before->second.crc == crc && before->second.bytes == bytes;
      seen[name] = {crc, bytes, is_same};
    }
  }
  steady_ = std::move(seen);
}

Status Checkpointer::Impl::wait(std::stop_token stop) {
  FB_TRY(wait_until_free(stop));
  Status drained = drainer_->finish(stop);
  if (!drained.ok() && drained.error().code == ErrorCode::kCancelled) return drained;
  if (auto error = take_untold()) return *error;
  return drained;
}

Result<Restored> Checkpointer::Impl::restore(const RestoreOptions& options, std::stop_token stop) {
  FB_TRY(wait_until_free(stop));
  SaveName newest;
  for (;;) {
    std::vector<std::string> notes;
    auto found = checkpoint::find_saves(tiers_, notes);
    // Where there are no locks, another process may have saved and pruned all that was there.
    if (found.ok() && !found->empty()) newest = found->front().name;
    auto restored = restore_from(found, options, notes, stop);
    if (restored.ok() || restored.error().code != ErrorCode::kCorruption) return restored;
    const auto all = FB_TRY(checkpoint::agree(*group_, has_newer_than(newest), stop));
    if (std::find(all.begin(), all.end(), "1") == all.end()) return restored;
  }
}

std::string Checkpointer::Impl::has_newer_than(const SaveName& newest) const {
  std::vector<std::string> notes;
  const auto found = checkpoint::find_saves(tiers_, notes);
  return found.ok() && !found->empty() && is_older(newest, found->front().name) ? "1" : "0";
}

Result<Restored> Checkpointer::Impl::restore_from(const Result<std::vector<SaveCopies>>& found,
                                                  const RestoreOptions& options,
                                                  std::vector<std::string> notes,
                                                  const std::stop_token& stop) {
  std::string mine;
  if (found.ok()) {
    for (const SaveCopies& save : *found) {
      if (!options.step || save.name.step == *options.step)
        mine += checkpoint::folder_name(save.name) + " ";
    }
  }
  const Result<std::string> said = found.ok() ? Result<std::string>(mine) : found.error();
  const auto all = FB_TRY(checkpoint::agree(*group_, said, stop));
  for (const SaveCopies& save : *found) {
    if (options.step && save.name.step != *options.step) continue;
    const std::string name = checkpoint::folder_name(save.name) + " ";
    const auto has_it = [&](const std::string& text) { return text.find(name) != text.npos; };
    const auto without = std::find_if_not(all.begin(), all.end(), has_it);
    if (without != all.end()) {
      notes.push_back(fmt::format("{}: rank {} does not see it; the checkpoint before was tried",
                                  checkpoint::folder_name(save.name), without - all.begin()));
      continue;
    }
    const auto held = drainer_->hold(save.name);
    auto restored = checkpoint::restore_save(save, options, threads_, stop);
    const Result<std::string> outcome =
        restored.ok() ? Result<std::string>(std::string()) : restored.error();
    const auto outcomes = checkpoint::agree(*group_, outcome, stop);
    if (outcomes.ok()) {
      restored->notes.insert(restored->notes.begin(), notes.begin(), notes.end());
      return restored;
    }
    // Only damage of the files makes an older checkpoint the better answer.
    const ErrorCode code = outcomes.error().code;
    if (code != ErrorCode::kCorruption && code != ErrorCode::kIo) return outcomes.error();
    notes.push_back(outcomes.error().message + "; the checkpoint before was tried");
  }
  return no_checkpoint(options, notes);
}

Error Checkpointer::Impl::no_checkpoint(const RestoreOptions& options,
                                        const std::vector<std::string>& notes) const {
  std::string places, damage;
  for (const auto& tier : tiers_) places += (places.empty() ? "" : ", ") + tier->place();
  for (const std::string& note : notes) damage += "\n  " + note;
  const std::string what =
      options.step ? fmt::format("no checkpoint of step {}", *options.step) : "no checkpoint";
  if (notes.empty()) return fail(ErrorCode::kNotFound, "{} in {}", what, places);
  return fail(ErrorCode::kCorruption, "{} in {} can be restored:{}", what, places, damage);
}

CheckpointStats Checkpointer::Impl::stats() const {
  base::MutexLock lock(mutex_);
  CheckpointStats out = stats_;
  out.failed_drains = drainer_->failed();
  out.bytes_drained = drainer_->bytes_drained();
  out.bytes_shared = saver_->bytes_shared() + drainer_->bytes_shared();
  return out;
}

Checkpointer::Checkpointer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpointer::~Checkpointer() = default;

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(const CheckpointOptions& options) {
  FB_TRY(checkpoint::check_options(options));
  std::vector<std::unique_ptr<Tier>> tiers;
  for (const CheckpointTier& tier : options.tiers)
    tiers.push_back(FB_TRY(Tier::open({tier.place, tier.storage})));
  return open_on(std::move(tiers), options);
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::open_on(
    std::vector<std::unique_ptr<Tier>> tiers, const CheckpointOptions& options) {
  std::unique_ptr<Impl> impl = FB_TRY(Impl::open(std::move(tiers), options));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(impl)));
}

struct CheckpointerMaker {
  static Result<std::unique_ptr<Checkpointer>> make(std::vector<std::unique_ptr<Tier>> tiers,
                                                    const CheckpointOptions& options) {
    return Checkpointer::open_on(std::move(tiers), options);
  }
};

Result<std::unique_ptr<Checkpointer>> checkpoint::open_on_tiers(
    std::vector<std::unique_ptr<Tier>> tiers, const CheckpointOptions& options) {
  FB_TRY(checkpoint::check_options(options));
  return CheckpointerMaker::make(std::move(tiers), options);
}

Result<SaveHandle> Checkpointer::save(uint64_t step, const CheckpointState& state,
                                      std::stop_token stop) {
  return impl_->save(step, state, std::move(stop));
}

Status Checkpointer::wait(std::stop_token stop) {
  return impl_->wait(std::move(stop));
}

Result<Restored> Checkpointer::restore(const RestoreOptions& options, std::stop_token stop) {
  return impl_->restore(options, std::move(stop));
}

CheckpointStats Checkpointer::stats() const {
  return impl_->stats();
}

}  // namespace forebay

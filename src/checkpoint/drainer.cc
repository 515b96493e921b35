#include "checkpoint/drainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "checkpoint/save_progress.h"
#include "checkpoint/shard_io.h"
#include "sys/thread.h"

namespace forebay::checkpoint {
namespace {

// How long a rank waits for the others while nothing is copied, and how often it looks.
constexpr int64_t kPatienceNs = 600'000'000'000, kLookNs = 100'000'000, kSignsNs = 30'000'000'000;

std::string mark_name(int rank) {
  return fmt::format("rank-{:05}.done", rank);
}
std::string failure_name(int rank) {
  return fmt::format("rank-{:05}.failed", rank);
}

std::string path_in(std::string_view folder, std::string_view file) {
  return fmt::format("{}/{}", folder, file);
}

// What has been written there so far; it grows while anybody copies. Nothing where it cannot be
// told.
std::optional<uint64_t> bytes_in(const Tier& tier, const std::string& folder) {
  const auto listing = tier.store().list(folder);
  const auto unpublished = tier.store().list_unpublished(folder);
  if (!listing.ok() || !unpublished.ok()) return std::nullopt;
  uint64_t bytes = 0;
  for (const storage::FileInfo& file : listing->files) bytes += file.size;
  for (const storage::Unpublished& file : *unpublished) bytes += file.bytes;
  return bytes;
}

// What the next tier has something newer than is not copied there any more.
bool is_still_to_go(const SaveName& name, const std::vector<SaveName>& next) {
  return next.empty() || is_older(next.back(), name);
}

}  // namespace

Drainer::Drainer(std::span<const std::unique_ptr<Tier>> tiers, const CheckpointOptions& options,
                 int rank, int world_size, uint64_t session)
    : tiers_(tiers),
      options_(options),
      rank_(rank),
      world_size_(world_size),
      session_(fmt::format("{:016x}\n", session)),
      prunes_first_tier_(rank == 0) {
  for (const CheckpointTier& tier : options.tiers)
    paces_.emplace_back(base::monotonic_clock(), tier.drain_bytes_per_second_max);
}

Result<std::unique_ptr<Drainer>> Drainer::start(std::span<const std::unique_ptr<Tier>> tiers,
                                                const CheckpointOptions& options, int rank,
                                                int world_size, uint64_t session) {
  auto drainer = std::unique_ptr<Drainer>(new Drainer(tiers, options, rank, world_size, session));
  Drainer* const self = drainer.get();
  drainer->thread_ =
      FB_TRY(sys::start_thread("drain", [self](const std::stop_token& stop) { self->run(stop); }));
  return drainer;
}

Drainer::~Drainer() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  base::MutexLock lock(mutex_);
  for (const DrainJob& job : jobs_) {
    if (job.progress)
      job.progress->note_failed(fail(ErrorCode::kCancelled,
                                     "step {} is not on the last tier yet: the copy goes on when "
                                     "the checkpointer is opened again",
                                     job.name.step));
  }
}

void Drainer::add(DrainJob job) {
  base::MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void Drainer::prune_first_tier() {
  base::MutexLock lock(mutex_);
  prunes_first_tier_ = true;
}

bool Drainer::is_idle() const {
  base::MutexLock lock(mutex_);
  return jobs_.empty() && !is_draining_;
}

bool Drainer::wait_idle(const std::stop_token& stop) {
  base::MutexLock lock(mutex_);
  return changed_.wait(mutex_, stop, [this]() FB_REQUIRES(mutex_) {
    return jobs_.empty() && !is_busy_ && !tries_again_;
  });
}

Status Drainer::finish(const std::stop_token& stop) {
  {
    base::MutexLock lock(mutex_);
    tries_again_ |= why_left_.has_value();
    changed_.notify_all();
  }
  if (!wait_idle(stop))
    return fail(ErrorCode::kCancelled, "stopped while a checkpoint was being copied");
  base::MutexLock lock(mutex_);
  if (why_left_) return *why_left_;
  return {};
}

std::shared_ptr<const void> Drainer::hold(const SaveName& name) {
  {
    base::MutexLock lock(mutex_);
    held_.insert(folder_name(name));
  }
  return {this, [this, folder = folder_name(name)](const void*) {
            base::MutexLock lock(mutex_);
            held_.erase(held_.find(folder));
          }};
}

uint64_t Drainer::failed() const {
  base::MutexLock lock(mutex_);
  return failed_;
}

uint64_t Drainer::bytes_drained() const {
  base::MutexLock lock(mutex_);
  return bytes_drained_;
}

uint64_t Drainer::bytes_shared() const {
  base::MutexLock lock(mutex_);
  return bytes_shared_;
}

void Drainer::run(const std::stop_token& stop) {
  for (;;) {
    std::optional<DrainJob> job;
    {
      base::MutexLock lock(mutex_);
      is_busy_ = false;
      changed_.notify_all();
      const auto has_work = [this]() FB_REQUIRES(mutex_) { return !jobs_.empty() || tries_again_; };
      if (!changed_.wait(mutex_, stop, has_work)) return;
      is_busy_ = true;
      tries_again_ = false;
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
        is_draining_ = true;
      }
    }
    try_left_again(stop);
    if (job && !drain(*job, true, stop)) left_.push_back(std::move(*job));
    job.reset();  // lets go of it, for the prune
    {
      base::MutexLock lock(mutex_);
      if (left_.empty()) why_left_.reset();
    }
    prune();
  }
}

bool Drainer::drain(DrainJob& job, bool is_newest, const std::stop_token& stop) {
  const Status done = copy_on(job, stop);
  const bool is_left = !done.ok() && is_worth_another_try(job, done.error());
  {
    base::MutexLock lock(mutex_);
    if (!done.ok() && done.error().code != ErrorCode::kCancelled) ++failed_;
    if (is_left && !why_left_) why_left_ = done.error();
    // Before anybody hears of it: who has waited for this one and saves again finds nothing busy.
    if (is_newest) is_draining_ = false;
  }
  if (job.progress && done.ok()) job.progress->note_drained(base::monotonic_clock().now_ns());
  if (job.progress && !done.ok()) job.progress->note_failed(done.error());
  return !is_left;
}

Status Drainer::copy_on(DrainJob& job, const std::stop_token& stop) {
  while (job.from_tier + 1 < tiers_.size()) {
    const size_t tier = job.from_tier + 1;
    job.held = FB_TRY(copy_to(tier, job, stop).context(tiers_[tier]->place()));
    job.from_tier = tier;
  }
  return {};
}

// A checkpoint that is damaged or gone will not be another the next time.
bool Drainer::is_worth_another_try(const DrainJob& job, const Error& error) const {
  return error.code != ErrorCode::kCorruption &&
         (shards_of(job).empty() || tiers_[job.from_tier]->read_manifest(job.name).ok());
}

// Oldest first, until one fails again: the tier is still out of order.
void Drainer::try_left_again(const std::stop_token& stop) {
  if (!left_.empty()) {
    base::MutexLock lock(mutex_);
    why_left_.reset();  // drain() says it anew
  }
  while (!left_.empty() && drain(left_.front(), false, stop)) left_.erase(left_.begin());
}

Result<std::shared_ptr<const void>> Drainer::copy_to(size_t tier, const DrainJob& job,
                                                     const std::stop_token& stop) {
  Tier& to = *tiers_[tier];
  auto copied =
      to.read_manifest(job.name).ok() ? to.hold(job.name) : copy_and_publish(tier, job, stop);
  // Another process may have been faster with the same one.
  if (!copied.ok() && to.read_manifest(job.name).ok()) copied = to.hold(job.name);
  if (copied.ok() && rank_ == 0) to.point_to(job.name).ignore("restore does not need it");
  return copied;
}

Result<std::shared_ptr<const void>> Drainer::copy_and_publish(size_t tier, const DrainJob& job,
                                                              const std::stop_token& stop) {
  Tier& to = *tiers_[tier];
  auto writing = FB_TRY(to.begin(job.name));
  if (world_size_ == 1) {
    FB_TRY(copy_shards(tier, job, stop));
    return to.publish(job.name, *job.manifest, std::move(writing));
  }
  const std::string folder = to.working_folder(job.name);
  to.store().remove(path_in(folder, failure_name(rank_))).ignore("there is none as a rule");
  const Status copied = copy_shards(tier, job, stop);
  if (rank_ != 0) writing.reset();  // before the first one publishes
  const Status marked =
      leave_mark(to, job.name, copied.ok() ? mark_name(rank_) : failure_name(rank_));
  FB_TRY(Status(copied));
  FB_TRY(Status(marked));
  if (rank_ == 0) {
    const Status met = wait_for_marks(to, job.name, stop);
    auto published = met.ok() ? to.publish(job.name, *job.manifest, std::move(writing))
                              : Result<std::shared_ptr<const void>>(met.error());
    if (!published.ok())
      leave_mark(to, job.name, failure_name(rank_)).ignore("then the others lose patience");
    return published;
  }
  const std::string published = path_in(folder_name(job.name), kManifestName);
  const auto is_published = [&]() -> Result<bool> { return to.store().stat(published).ok(); };
  // The next tier is copied to from this one.
  if (tier + 1 < tiers_.size()) FB_TRY(wait_for_rank(0, to, job.name, is_published, stop));
  return std::shared_ptr<const void>();
}

std::vector<const Shard*> Drainer::shards_of(const DrainJob& job) const {
  const Manifest& manifest = *job.manifest;
  const bool is_same_world = manifest.world_size == static_cast<uint32_t>(world_size_);
  std::vector<const Shard*> out;
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    int copier = is_same_world ? static_cast<int>(manifest.shards[i].rank)
                               : static_cast<int>(i % static_cast<size_t>(world_size_));
    if (!job.copiers.empty()) copier = job.copiers[i];
    if (copier == rank_) out.push_back(&manifest.shards[i]);
  }
  return out;
}

Status Drainer::copy_shards(size_t tier, const DrainJob& job, const std::stop_token& stop) {
  Tier& from = *tiers_[tier - 1];
  Tier& to = *tiers_[tier];
  const std::vector<const Shard*> mine = shards_of(job);
  if (mine.empty()) return {};  // its place may not have this checkpoint at all
  const auto held = FB_TRY(from.hold(job.name));
  const Manifest& manifest = *job.manifest;
  const std::string from_folder = folder_name(job.name), to_folder = to.working_folder(job.name);
  const Admission admit = [&](uint64_t bytes) { return paces_[tier].admit(bytes, stop); };
  for (const Shard* one : mine) {
    const Shard& shard = *one;
    // A shard that an earlier try has published is read once more, not written.
    const auto there = to.store().stat(path_in(to_folder, shard.file));
    if (there.ok() && there->size == stored_bytes(shard) &&
        check_shard(to.store(), to_folder, shard, manifest.chunk_bytes, admit).ok())
      continue;
    if (options_.share_unchanged && link_to_same(from, to, job, shard, admit)) continue;
    FB_TRY(copy_shard(from.store(), from_folder, to.store(), to_folder, shard, manifest.chunk_bytes,
                      admit));
    base::MutexLock lock(mutex_);
    bytes_drained_ += stored_bytes(shard);
  }
  return {};
}

bool Drainer::link_to_same(const Tier& from, Tier& to, const DrainJob& job, const Shard& shard,
                           const Admission& admit) {
  if (!to.store().capabilities().can_link) return false;
  const auto contents = to.list();
  if (!contents.ok() || contents->saves.empty()) return false;
  const SaveName base = contents->saves.back();
  const auto manifest = to.read_manifest(base);
  if (!manifest.ok() || manifest->chunk_bytes != job.manifest->chunk_bytes ||
      manifest->is_packed != job.manifest->is_packed)
    return false;
  for (const Shard& known : manifest->shards) {
    if (!hold_the_same(from.store(), folder_name(job.name), shard, to.store(), folder_name(base),
                       known, manifest->chunk_bytes, admit))
      continue;
    if (!to.store()
             .link_file(path_in(folder_name(base), known.file),
                        path_in(to.working_folder(job.name), shard.file))
             .ok())
      continue;  // then it is copied
    base::MutexLock lock(mutex_);
    bytes_shared_ += stored_bytes(shard);
    return true;
  }
  return false;
}

Status Drainer::leave_mark(Tier& tier, const SaveName& name, const std::string& mark) const {
  return storage::write_file(tier.store(), path_in(tier.working_folder(name), mark),
                             std::as_bytes(std::span(session_)));
}

Result<bool> Drainer::has_mark(const Tier& tier, const SaveName& name,
                               const std::string& mark) const {
  constexpr uint64_t kBytesMax = 64;
  const auto read =
      storage::read_file(tier.store(), path_in(tier.working_folder(name), mark), kBytesMax);
  if (!read.ok() && read.error().code == ErrorCode::kNotFound) return false;
  if (!read.ok()) return read.error();
  return std::ranges::equal(*read, std::as_bytes(std::span(session_)));
}

Status Drainer::wait_for_marks(Tier& tier, const SaveName& name, const std::stop_token& stop) {
  const std::string folder = tier.working_folder(name);
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto is_there = [&] { return has_mark(tier, name, mark_name(rank)); };
    FB_TRY(wait_for_rank(rank, tier, name, is_there, stop));
  }
  for (int rank = 0; rank < world_size_; ++rank)
    FB_TRY(tier.store().remove(path_in(folder, mark_name(rank))));
  return {};
}

Status Drainer::wait_for_rank(int rank, Tier& tier, const SaveName& name,
                              const std::function<Result<bool>()>& is_done,
                              const std::stop_token& stop) {
  const std::string folder = tier.working_folder(name),
                    failure = path_in(folder, failure_name(rank));
  base::Clock& clock = base::monotonic_clock();
  int64_t patience_ns = clock.now_ns() + kPatienceNs, signs_ns = clock.now_ns() + kSignsNs;
  std::optional<uint64_t> bytes;
  while (!FB_TRY(is_done())) {
    const bool has_failed = has_mark(tier, name, failure_name(rank)).value_or(false);
    // The first rank takes it away: the next try is another one.
    if (has_failed && rank_ == 0) tier.store().remove(failure).ignore("then that one does");
    if (has_failed)
      return fail(ErrorCode::kIo, "rank {} could not copy its shards of step {}", rank, name.step);
    if (clock.now_ns() > signs_ns) {
      const auto now = bytes_in(tier, folder);
      if (now && now != bytes) patience_ns = clock.now_ns() + kPatienceNs;
      bytes = now;
      signs_ns = clock.now_ns() + kSignsNs;
    }
    if (clock.now_ns() > patience_ns)
      return fail(ErrorCode::kIo, "rank {} did not copy its shards of step {}", rank, name.step);
    if (!clock.sleep_until_ns(clock.now_ns() + kLookNs, stop))
      return fail(ErrorCode::kCancelled, "stopped while a checkpoint was being copied");
  }
  return {};
}

void Drainer::prune() {
  bool prunes_first_tier = false;
  {
    base::MutexLock lock(mutex_);
    prunes_first_tier = prunes_first_tier_;
  }
  if (prunes_first_tier) prune(0);
  if (rank_ != 0) return;
  for (size_t tier = 1; tier < tiers_.size(); ++tier) prune(tier);
}

void Drainer::prune(size_t index) {
  Tier& tier = *tiers_[index];
  const bool is_last = index + 1 == tiers_.size();
  Retention rules{options_.keep_last, options_.keep_every, options_.keep_best,
                  options_.is_lower_better};
  if (!is_last && options_.tiers[index].keep_last > 0)
    rules = {.keep_last = options_.tiers[index].keep_last};
  if (rules.keep_last == 0) return;
  const auto contents = tier.list();
  if (!contents.ok()) return;  // the next save tells of a tier that cannot be read
  std::vector<SaveName> next;
  if (!is_last) {
    auto further = tiers_[index + 1]->list();
    if (!further.ok()) return;
    next = std::move(further->saves);
  }
  std::vector<KeptSave> saves;
  for (const SaveName& name : contents->saves) {
    KeptSave save = look_at(index, name);
    save.is_needed |= !is_last && (is_still_to_go(name, next) || is_left(index, name));
    base::MutexLock lock(mutex_);
    save.is_needed |= held_.count(folder_name(name)) != 0;
    saves.push_back(save);
  }
  for (const SaveName& name : saves_to_remove(saves, rules)) {
    tier.remove(name).ignore("the next prune tries again");
    whole_.erase({index, folder_name(name)});
  }
}

bool Drainer::is_left(size_t tier, const SaveName& name) const {
  return std::any_of(left_.begin(), left_.end(), [&](const DrainJob& job) {
    return job.name == name && job.from_tier == tier;
  });
}

KeptSave Drainer::look_at(size_t tier, const SaveName& name) {
  const std::pair key(tier, folder_name(name));
  if (const auto known = whole_.find(key); known != whole_.end()) return known->second;
  KeptSave save{.name = name};
  const auto manifest = tiers_[tier]->check(name);
  if (!manifest.ok()) {
    const ErrorCode code = manifest.error().code;
    save.is_damaged = true;
    // A store that is out of order says nothing about it.
    save.is_needed = code != ErrorCode::kCorruption && code != ErrorCode::kNotFound;
    return save;
  }
  const auto metric = manifest->metrics.find(options_.best_metric);
  if (metric != manifest->metrics.end()) save.metric = metric->second;
  whole_[key] = save;
  return save;
}

}  // namespace forebay::checkpoint

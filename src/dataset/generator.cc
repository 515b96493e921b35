// Writes the files of a plan in parallel. Makers produce bytes; with sync, finishers wait for the
// disk and give the names, so that makers are never idle while bytes become durable:
//
//   plan - what exists -> makers (format.write) -> queue of unnamed files -> finishers (sync,
//   publish)
#include "dataset/generator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "base/units.h"
#include "dataset/file_measure.h"
#include "dataset/generation_writer.h"
#include "sys/host.h"
#include "sys/thread.h"

namespace forebay::dataset {
namespace {

constexpr int kThreadsMax = 256;
constexpr size_t kUnnamedFilesMax = 32;
constexpr size_t kUnnamedBytesMax = size_t{256} << 20;
constexpr uint64_t kSyncBytes = uint64_t{128} << 20;
constexpr uint64_t kSmallFileBytes = uint64_t{1} << 20;
// Room beyond the files' own bytes: their last block and folder entry, and some air.
constexpr uint64_t kMarginBytesPerFile = 4096, kMarginBytes = uint64_t{1} << 20;
// The largest of so many files stands for all where the format's estimate is but a bound; the
// others are alike within this margin, for their contents are noise.
constexpr uint64_t kProbedFiles = 16;
constexpr double kMeasureMargin = 1.05;

using Sizes = std::unordered_map<std::string, uint64_t>;

struct Work {
  size_t file = 0;            // in the plan
  bool is_side_only = false;  // the data file is whole, a side file of it is missing
  bool had_side = false;      // older side files must not outlive the data they describe
};

struct WorkList {
  std::vector<Work> items;
  uint64_t files_kept = 0, files_replaced = 0, bytes = 0;
  uint64_t files = 0;                             // of this process, kept ones included
  uint64_t missing_files = 0, missing_bytes = 0;  // of all processes: they share the space
  size_t probe = 0;                               // a large one of the missing files
  uint64_t probe_bytes = 0;
  // Data files that are there and not of the plan, and the first of them in order of name.
  uint64_t files_strange = 0;
  std::string strange_example;
};

// Compressed files have no records to point at.
bool has_side_files(const formats::Format& format, const GeneratorPlan& plan) {
  return format.side_paths != nullptr && format.write_side != nullptr && !plan.files.empty() &&
         plan.files.front().compression == formats::Compression::kNone;
}

// Adds the files below `folder`; a folder that does not exist yet holds none.
Status add_sizes(storage::Store& store, std::string_view folder, Sizes& sizes) {
  auto listing = store.list(folder);
  if (!listing.ok()) {
    if (listing.error().code == ErrorCode::kNotFound) return {};
    return Error(std::move(listing).error());
  }
  for (storage::FileInfo& file : listing->files) sizes.emplace(std::move(file.path), file.size);
  return {};
}

Result<Sizes> existing_sizes(storage::Store& store, const formats::Format& format,
                             const GeneratorPlan& plan) {
  Sizes sizes;
  FB_TRY(add_sizes(store, "train", sizes));
  FB_TRY(add_sizes(store, "valid", sizes));
  if (!has_side_files(format, plan)) return sizes;
  for (const std::string& side : format.side_paths(plan.files.front().path)) {
    const std::string folder = side.substr(0, side.find('/'));
    if (folder == "train" || folder == "valid" || folder == side) continue;
    FB_TRY(add_sizes(store, folder, sizes));
    break;  // side files of one format lie together
  }
  return sizes;
}

struct Sides {
  bool are_whole = true;  // none is missing: they too get their names when they are complete
  bool any = false;
};

Sides find_sides(const formats::Format& format, const formats::FileSpec& spec, const Sizes& sizes) {
  Sides sides;
  for (const std::string& side : format.side_paths(spec.path)) {
    const bool is_there = sizes.contains(side);
    sides.any = sides.any || is_there;
    sides.are_whole = sides.are_whole && is_there;
  }
  return sides;
}

// Of those in `sizes` that a reader would take for data: what the plan does not name.
void note_strangers(const formats::Format& format, const GeneratorPlan& plan, const Sizes& sizes,
                    WorkList& work) {
  std::unordered_set<std::string_view> own, folders;
  for (const formats::FileSpec& spec : plan.files) {
    own.insert(spec.path);
    folders.insert(std::string_view(spec.path).substr(0, spec.path.find('/')));
  }
  for (const auto& [path, size] : sizes) {
    const std::string extension = formats::extension_of(path);
    if (own.contains(path) || !folders.contains(std::string_view(path).substr(0, path.find('/'))) ||
        std::find(format.extensions.begin(), format.extensions.end(), extension) ==
            format.extensions.end())
      continue;
    ++work.files_strange;
    if (work.strange_example.empty() || path < work.strange_example) work.strange_example = path;
  }
}

// A name is given to whole files only, so a file of the right size is kept. Where the size cannot
// be known before (compression), a file that is not larger than the bound is.
Result<WorkList> find_work(storage::Store& store, const formats::Format& format,
                           const GeneratorPlan& plan, int rank, int world_size) {
  const Sizes sizes = FB_TRY(existing_sizes(store, format, plan));
  const bool has_sides = has_side_files(format, plan);
  std::optional<bool> is_exact;
  WorkList work;
  if (!sizes.empty()) note_strangers(format, plan, sizes, work);
  for (size_t i = 0; i < plan.files.size(); ++i) {
    const formats::FileSpec& spec = plan.files[i];
    const uint64_t expected = format.estimate_bytes(spec);
    const auto found = sizes.find(spec.path);
    bool is_whole = found != sizes.end() && found->second == expected;
    if (found != sizes.end() && found->second > 0 && found->second < expected) {
      if (!is_exact)
        is_exact = FB_TRY(measure_file(format, spec, store.capabilities().can_patch)).is_exact();
      is_whole = !*is_exact;
    }
    const Sides sides = has_sides ? find_sides(format, spec, sizes) : Sides();
    const bool is_mine = i % static_cast<size_t>(world_size) == static_cast<size_t>(rank);
    work.files += is_mine ? 1 : 0;
    if (is_whole && sides.are_whole) {
      work.files_kept += is_mine ? 1 : 0;
      continue;
    }
    ++work.missing_files;
    if (!is_whole) {
      work.missing_bytes += expected;
      if (work.probe_bytes < expected && work.missing_files <= kProbedFiles) {
        work.probe = i;
        work.probe_bytes = expected;
      }
    }
    if (!is_mine) continue;
    if (!is_whole) work.bytes += expected;
    if (!is_whole && found != sizes.end()) ++work.files_replaced;
    work.items.push_back({.file = i, .is_side_only = is_whole, .had_side = sides.any});
  }
  return work;
}

// kResourceExhausted when the missing files do not fit. Where the format's bounds do not, one file
// is measured before all are refused.
Status check_space(storage::Store& store, const formats::Format& format, const GeneratorPlan& plan,
                   const WorkList& work) {
  if (work.missing_files == 0) return {};
  const uint64_t free = FB_TRY(store.free_bytes());
  const uint64_t margin = kMarginBytesPerFile * work.missing_files + kMarginBytes;
  uint64_t needed = work.missing_bytes + margin;
  if (needed <= free) return {};
  std::string basis;
  if (work.probe_bytes > 0) {
    const FileMeasure measure =
        FB_TRY(measure_file(format, plan.files[work.probe], store.capabilities().can_patch));
    if (!measure.is_exact()) {
      const double share = std::min(1.0, measure.share() * kMeasureMargin);
      needed = static_cast<uint64_t>(share * static_cast<double>(work.missing_bytes)) + margin;
      basis = " by the measure of one";
    }
  }
  if (needed <= free) return {};
  return fail(
      ErrorCode::kResourceExhausted,
      "{}: {} missing files need {} ({} bytes){}, {} ({} bytes) are free; nothing was written",
      store.describe(), work.missing_files, base::format_bytes(static_cast<double>(needed)), needed,
      basis, base::format_bytes(static_cast<double>(free)), free);
}

class Run {
 public:
  Run(storage::Store& store, const GeneratorOptions& options, const GeneratorPlan& plan,
      WorkList work)
      : store_(store),
        format_(*options.format),
        plan_(plan),
        work_(std::move(work)),
        capabilities_(store.capabilities()),
        is_synced_(options.sync && capabilities_.can_sync),
        bytes_expected_(work_.bytes),
        start_ns_(base::monotonic_clock().now_ns()),
        unnamed_(kUnnamedFilesMax, kUnnamedBytesMax) {}

  Result<GeneratorProgress> run(int threads,
                                const std::function<void(const GeneratorProgress&)>& progress,
                                const std::stop_token& stop);

 private:
  // Written whole, waiting for its name.
  struct Unnamed {
    Work work;
    std::unique_ptr<storage::Writer> writer;
    uint64_t bytes = 0;
  };

  void make_files();
  void finish_files();
  Status make_file(const Work& work);
  Status finish_file(Unnamed& file);
  Status write_side_files(const formats::FileSpec& spec);
  Status remove_side_files(const formats::FileSpec& spec);
  void keep_error(Status status, const Work& work);
  void miss_thread(bool makes, const Error& error);
  void thread_ended() {
    const base::MutexLock lock(mutex_);
    --threads_running_;
    ended_.notify_all();
  }
  GeneratorProgress snapshot() const;

  storage::Store& store_;
  const formats::Format& format_;
  const GeneratorPlan& plan_;
  const WorkList work_;
  const storage::Capabilities capabilities_;
  const bool is_synced_;

  // Relaxed: read for display, and after join().
  std::atomic<uint64_t> files_finished_ = 0, bytes_written_ = 0, bytes_expected_;
  std::atomic<size_t> next_work_ = 0;
  std::atomic<int> makers_running_ = 0;  // the one that ends it closes the queue
  const int64_t start_ns_;

  base::Mutex mutex_;
  base::CondVar ended_;
  int threads_running_ FB_GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ FB_GUARDED_BY(mutex_);

  std::stop_source stop_;
  base::BoundedQueue<Unnamed> unnamed_;
};

GeneratorProgress Run::snapshot() const {
  return {.files_done = work_.files_kept + files_finished_.load(std::memory_order_relaxed),
          .files_total = work_.files,
          .files_kept = work_.files_kept,
          .files_replaced = work_.files_replaced,
          .files_strange = work_.files_strange,
          .strange_example = work_.strange_example,
          .bytes_written = bytes_written_.load(std::memory_order_relaxed),
          .bytes_total = bytes_expected_.load(std::memory_order_relaxed),
          .seconds = static_cast<double>(base::monotonic_clock().now_ns() - start_ns_) * 1e-9};
}

void Run::keep_error(Status status, const Work& work) {
  // What the first error or the caller stopped is no error of its own.
  if (stop_.stop_requested()) return;
  const base::MutexLock lock(mutex_);
  if (!error_) error_ = std::move(status).context(plan_.files[work.file].path).error();
  stop_.request_stop();
}

// A thread that could not be started: as if it had failed at once.
void Run::miss_thread(bool makes, const Error& error) {
  {
    const base::MutexLock lock(mutex_);
    if (!error_) error_ = error;
  }
  stop_.request_stop();
  if (makes && makers_running_.fetch_sub(1) == 1) unnamed_.close();
  thread_ended();
}

void Run::make_files() {
  while (!stop_.stop_requested()) {
    const size_t index = next_work_.fetch_add(1, std::memory_order_relaxed);
    if (index >= work_.items.size()) break;
    const Work& work = work_.items[index];
    Status status = make_file(work);
    if (!status.ok()) keep_error(std::move(status), work);
  }
  if (makers_running_.fetch_sub(1) == 1) unnamed_.close();
  thread_ended();
}

void Run::finish_files() {
  while (std::optional<Unnamed> file = unnamed_.pop(stop_.get_token())) {
    Status status = finish_file(*file);
    if (!status.ok()) keep_error(std::move(status), file->work);
  }
  thread_ended();
}

Status Run::make_file(const Work& work) {
  const formats::FileSpec& spec = plan_.files[work.file];
  if (work.is_side_only) {
    FB_TRY(write_side_files(spec));
    files_finished_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  std::unique_ptr<storage::Writer> writer = FB_TRY(store_.create(spec.path));
  GenerationWriter counted(*writer, bytes_written_, is_synced_ ? kSyncBytes : 0, stop_.get_token());
  FB_TRY(format_.write(counted, capabilities_.can_patch, spec));
  // Estimates may be bounds; the total approaches the truth file by file.
  bytes_expected_.fetch_add(counted.bytes() - format_.estimate_bytes(spec),
                            std::memory_order_relaxed);
  Unnamed file{.work = work, .writer = std::move(writer), .bytes = counted.bytes()};
  if (!is_synced_) return finish_file(file);
  const size_t bytes = file.bytes;
  unnamed_.push(std::move(file), bytes, stop_.get_token());  // false: stopped, and discarded
  return {};
}

Status Run::finish_file(Unnamed& file) {
  const formats::FileSpec& spec = plan_.files[file.work.file];
  if (is_synced_) FB_TRY(file.writer->sync());
  if (file.work.had_side) FB_TRY(remove_side_files(spec));
  FB_TRY(file.writer->publish());
  file.writer.reset();
  if (has_side_files(format_, plan_)) FB_TRY(write_side_files(spec));
  files_finished_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Status Run::remove_side_files(const formats::FileSpec& spec) {
  for (const std::string& side : format_.side_paths(spec.path)) {
    Status removed = store_.remove(side);
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) return removed;
  }
  return {};
}

Status Run::write_side_files(const formats::FileSpec& spec) {
  const std::vector<std::string> sides = format_.side_paths(spec.path);
  for (size_t which = 0; which < sides.size(); ++which) {
    const auto writer = FB_TRY(store_.create(sides[which]));
    FB_TRY(format_.write_side(*writer, spec, which));
    if (is_synced_) FB_TRY(writer->sync());
    FB_TRY(writer->publish());
  }
  return {};
}

Result<GeneratorProgress> Run::run(int threads,
                                   const std::function<void(const GeneratorProgress&)>& progress,
                                   const std::stop_token& stop) {
  const size_t count = work_.items.size();
  const int makers = static_cast<int>(std::min<size_t>(static_cast<size_t>(threads), count));
  // Waiting for a disk costs no CPU: many small files wait for its latency, large ones for its
  // rate.
  int finishers = 0;
  if (is_synced_ && count > 0) finishers = work_.bytes / count < kSmallFileBytes ? 16 : 4;
  makers_running_ = makers;
  {
    const base::MutexLock lock(mutex_);
    threads_running_ = makers + finishers;
  }
  {
    const std::stop_callback forward(stop, [this] { stop_.request_stop(); });
    std::vector<std::jthread> pool;
    for (int i = 0; i < makers + finishers; ++i) {
      const bool makes = i < makers;
      auto thread = sys::start_thread(makes ? "make" : "finish", [this, makes](std::stop_token) {
        makes ? make_files() : finish_files();
      });
      if (thread.ok())
        pool.push_back(std::move(thread).take());
      else
        miss_thread(makes, thread.error());
    }
    for (bool is_running = true; is_running;) {
      {
        const base::MutexLock lock(mutex_);
        is_running =
            !ended_.wait_for(mutex_, std::stop_token(), std::chrono::milliseconds(100),
                             [this]() FB_REQUIRES(mutex_) { return threads_running_ == 0; });
      }
      if (is_running && progress) progress(snapshot());
    }
  }
  const GeneratorProgress last = snapshot();
  if (progress) progress(last);
  {
    const base::MutexLock lock(mutex_);
    if (error_) return *error_;
  }
  if (last.files_done < last.files_total)
    return fail(ErrorCode::kCancelled, "stopped with {} of {} files done; run again to continue",
                last.files_done, last.files_total);
  return last;
}

}  // namespace

Result<GeneratorProgress> generate(storage::Store& store, const GeneratorOptions& options,
                                   const std::function<void(const GeneratorProgress&)>& progress,
                                   std::stop_token stop) {
  if (options.threads < 0 || options.threads > kThreadsMax)
    return fail(ErrorCode::kInvalidArgument, "{} threads: must be 0 (one per CPU) to {}",
                options.threads, kThreadsMax);
  const GeneratorPlan plan = FB_TRY(plan_generation(options));
  if (options.format->check_write != nullptr) FB_TRY(options.format->check_write());
  WorkList work = FB_TRY(find_work(store, *options.format, plan, options.rank, options.world_size));
  FB_TRY(check_space(store, *options.format, plan, work));
  if (options.before_writing) FB_TRY(options.before_writing());
  // Both, even for no file: DLIO lists each of them.
  for (const char* split : {"train", "valid"}) FB_TRY(store.make_folder(split).context(split));
  const int threads =
      options.threads > 0 ? options.threads : std::min(sys::usable_cpu_count(), kThreadsMax);
  Run run(store, options, plan, std::move(work));
  return run.run(threads, progress, stop);
}

}  // namespace forebay::dataset

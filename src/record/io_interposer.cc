// Backend interposer of the collector io: a library in front of libc writes down calls inside the
// observed program. Needs no privilege; sees dynamically linked programs only.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "record/builtin.h"
#include "record/call_log.h"
#include "record/call_log_reader.h"
#include "record/live_folder.h"
#include "record/pace.h"
#include "sys/child_process.h"
#include "sys/clocks.h"
#include "sys/environment.h"
#include "sys/file.h"
#include "sys/file_space.h"
#include "sys/module.h"
#include "sys/other_process.h"
#include "sys/process.h"
#include "sys/process_tree.h"
#include "sys/program_file.h"
#include "sys/shared_file.h"
#include "sys/thread.h"
#include "trace/facts.h"

namespace forebay::record {
namespace {

constexpr std::string_view kLibrary = "libforebay_io.so";
constexpr std::string_view kMisses =
    "system calls made without libc, io_uring, page faults, time off the CPU, the page cache's "
    "part";

class InterposerCollector : public Collector {
 public:
  explicit InterposerCollector(const CollectorOptions& options)
      : events_per_second_max_(options.events_per_second_max), coverage_pace_(2) {}

  Status prepare(Target& target) override;
  Status begin(const Target& target, Sink& sink) override;
  Status poll(Sink& sink) override;
  Status end(Sink& sink) override;
  CollectorTotals totals() const override;

 private:
  CallControl* control() { return reinterpret_cast<CallControl*>(control_.data()); }
  const CallControl* control() const {
    return reinterpret_cast<const CallControl*>(control_.bytes().data());
  }
  void beat(const std::stop_token& stop);
  void look_for_uncovered();
  std::string losses() const;
  uint64_t lost() const { return __atomic_load_n(&control()->lost, __ATOMIC_RELAXED); }

  const uint64_t events_per_second_max_;
  Pace coverage_pace_;
  std::string place_;  // the recording's folder
  std::optional<LiveFolder> folder_;
  sys::SharedFile control_;
  std::unique_ptr<CallLogReader> reader_;
  double cost_ns_ = 0;
  std::map<int, int64_t> first_seen_ns_;
  std::set<std::string> looked_at_;               // programs
  std::map<std::string, std::string> uncovered_;  // program: why
  base::Mutex beat_mutex_;
  base::CondVar beat_changed_;  // never notified: it waits for time or the stop
  std::jthread heart_;
};

// Why no library can be put in front of a program, and which: of a script its interpreter. The
// reason is empty when one can, or when the program cannot be looked at: running it will say why.
struct Coverage {
  std::string path, reason;
};
Coverage coverage_of(const std::string& name) {
  Coverage coverage;
  const auto found = sys::find_program(name);
  if (!found.ok()) return coverage;
  coverage.path = *found;
  sys::ProgramFile program = sys::program_file(coverage.path);
  for (int depth = 0; depth < 4 && !program.interpreter.empty(); ++depth) {
    const auto next = sys::find_program(program.interpreter);
    if (!next.ok()) return coverage;
    coverage.path = *next;
    program = sys::program_file(coverage.path);
  }
  if (program.is_program) coverage.reason = sys::not_interposable(program);
  return coverage;
}

Status InterposerCollector::prepare(Target& target) {
  if (target.is_attached)
    return fail(ErrorCode::kUnsupported, "a process that runs already cannot be interposed");
  const Coverage coverage = coverage_of(target.command[0]);
  if (!coverage.reason.empty())
    return fail(ErrorCode::kUnsupported, "{} {}: no library can be put in front of it",
                coverage.path, coverage.reason);
  const std::string library = FB_TRY(sys::find_module_file(kLibrary));
  if (library.find_first_of(": ") != std::string::npos)
    return fail(ErrorCode::kUnsupported, "{}: LD_PRELOAD takes no path with a blank or a colon",
                library);
  using Cost = double (*)();
  cost_ns_ = reinterpret_cast<Cost>(FB_TRY(sys::find_in_library(library, "forebay_io_cost_ns")))();
  place_ = target.folder;
  folder_ = FB_TRY(LiveFolder::make(target.folder, "io"));
  if (folder_->path().size() > kIoFolderPathMax)
    return fail(ErrorCode::kUnsupported, "{}: longer than the {} bytes that the interposer takes",
                folder_->path(), kIoFolderPathMax);
  control_ = FB_TRY(sys::SharedFile::create_growing(
      folder_->path() + "/control", sizeof(CallControl), control_bytes(kSlotsMax), 0600));
  uint32_t slots = 256;  // fewer where there is no room
  while (slots > 0 && !control_.grow(control_bytes(slots)).ok()) slots /= 4;
  *control() = {.magic = kCallMagic,
                .version = kCallVersion,
                .is_on = 1,
                .heartbeat_ns = sys::monotonic_ns(),
                .lost = 0,
                .place_error = 0,
                .was_unheard = 0,
                .pid_namespace =
                    sys::file_status(sys::kCurrentFolder, "/proc/self/ns/pid").value_or({}).inode,
                .slot_count = slots,
                .next_slot = 0,
                .reserved = {},
                .slot_owner = {}};
  target.environment.emplace_back("LD_PRELOAD", library);
  target.environment.emplace_back(kIoFolderVariable, folder_->path());
  // Programs built with the address sanitizer refuse to start behind another library without it.
  const auto theirs = sys::environment("ASAN_OPTIONS");
  target.environment.emplace_back("ASAN_OPTIONS",
                                  (theirs ? *theirs + ":" : "") + "verify_asan_link_order=0");
  return {};
}

Status InterposerCollector::begin(const Target& /*target*/, Sink& /*sink*/) {
  reader_ = std::make_unique<CallLogReader>(folder_->path(), control_, events_per_second_max_);
  heart_ = FB_TRY(sys::start_thread("heart", [this](const std::stop_token& stop) { beat(stop); }));
  return {};
}

// A thread of its own: one round of reading what a flood left, and of all other collectors, may
// take longer than programs wait for a sign of life.
void InterposerCollector::beat(const std::stop_token& stop) {
  const base::MutexLock lock(beat_mutex_);
  while (!stop.stop_requested()) {
    __atomic_store_n(&control()->heartbeat_ns, sys::monotonic_ns(), __ATOMIC_RELAXED);
    beat_changed_.wait_for(beat_mutex_, stop, std::chrono::seconds(1), [] { return false; });
  }
}

// Programs that were started, and processes that have run for a while and never said a word.
void InterposerCollector::look_for_uncovered() {
  for (const std::string& name : reader_->take_started()) {
    if (!looked_at_.insert(name).second) continue;
    const Coverage coverage = coverage_of(name);
    if (!coverage.reason.empty()) uncovered_.emplace(coverage.path, coverage.reason);
  }
  constexpr int64_t kPatienceNs = 1'000'000'000;
  const int64_t now = sys::monotonic_ns();
  for (const auto& [pid, parent] : sys::descendants_of(sys::process_id())) {
    if (reader_->has_seen(pid)) continue;
    const int64_t first = first_seen_ns_.emplace(pid, now).first->second;
    if (now - first < kPatienceNs) continue;
    const std::string path = sys::program_path(pid);
    if (path.empty() || uncovered_.count(path) != 0) continue;
    const std::string why = sys::not_interposable(sys::program_file(path));
    if (!why.empty()) uncovered_.emplace(path, why);
  }
}

Status InterposerCollector::poll(Sink& sink) {
  const int64_t now = sys::monotonic_ns();
  FB_TRY(reader_->poll(sink));
  if (coverage_pace_.is_due(now)) {
    coverage_pace_.begin(now);
    look_for_uncovered();
    coverage_pace_.end();
  }
  return {};
}

Status InterposerCollector::end(Sink& sink) {
  __atomic_store_n(&control()->is_on, 0, __ATOMIC_RELAXED);
  FB_TRY(reader_->poll(sink));
  reader_->tell_under_way(sink);
  look_for_uncovered();
  std::string missing(kMisses);
  for (const auto& [program, why] : uncovered_)
    missing += fmt::format("; all of {}: it {}", program, why);
  if (reader_->damaged_logs() > 0)
    missing += "; damaged: " + base::format_counted(reader_->damaged_logs(), "logs");
  sink.writer.fact("missing.io", missing);
  const CollectorTotals all = totals();
  sink.writer.fact(trace::fact::kEventsSeen, fmt::format("{}", all.calls));
  sink.writer.fact(trace::fact::kDropped, fmt::format("{}", all.lost));
  if (all.lost > 0 && !all.lost_because.empty())
    sink.writer.fact(
        "warning.io_lost",
        fmt::format("{} lost: {}", base::format_counted(all.lost, "calls"), all.lost_because));
  sink.writer.fact(trace::fact::kOverheadInside, fmt::format("{}", all.inside_ns));
  sink.writer.fact("overhead_inside_basis",
                   fmt::format("{} calls of {:.0f} ns, calibrated", all.calls, cost_ns_));
  heart_ = {};
  // Whoever still runs keeps its own map of these files; new ones find no folder and stay silent.
  folder_->remove();
  return {};
}

// Why calls found no place, in words for people.
std::string InterposerCollector::losses() const {
  const int error_number = __atomic_load_n(&control()->place_error, __ATOMIC_RELAXED);
  if (error_number == 0 && __atomic_load_n(&control()->was_unheard, __ATOMIC_RELAXED) != 0)
    return fmt::format(
        "the recorder did not run for {} s, so programs took it for dead: leave it a core, or "
        "watch less (--collect io)",
        kHeartbeatPatienceNs / 1'000'000'000);
  if (error_number == 0)
    return lost() == 0 ? "" : "signal handlers made them while another call was written down";
  const Error error = sys::error_from_errno(error_number, place_, "logs of calls");
  if (error.code == ErrorCode::kNotFound)
    return fmt::format(
        "{}: a program does not find this folder: it has another root (chroot, a "
        "container), or the folder was taken away; --collect ebpf needs none",
        place_);
  return (sys::is_disk_full(error) ? "disk full: " : "") + error.message;
}

// A disk that is full, or a limit on the size of files.
bool is_space_wanting(int error_number) {
  return error_number != 0 &&
         sys::error_from_errno(error_number, "").code == ErrorCode::kResourceExhausted;
}

CollectorTotals InterposerCollector::totals() const {
  if (!reader_) return {};
  return {.calls = reader_->calls() + lost(),
          .lost = lost(),
          .inside_ns = static_cast<int64_t>(static_cast<double>(reader_->calls()) * cost_ns_),
          .unit = "calls",
          .lost_because = losses(),
          .is_for_want_of_space =
              is_space_wanting(__atomic_load_n(&control()->place_error, __ATOMIC_RELAXED))};
}

Availability probe() {
  const auto library = sys::find_module_file(kLibrary);
  if (library.ok()) return {.is_available = true, .detail = *library, .remedy = {}};
  return {.is_available = false,
          .detail = library.error().message,
          .remedy = "install forebay as a whole, or set FOREBAY_MODULE_FOLDER"};
}

}  // namespace

const Backend kIoInterposer{
    .collector = "io",
    .name = "interposer",
    .gives = "calls on files and sockets and waits of each thread, stdio included",
    .needs = "a dynamically linked program that forebay starts (LD_PRELOAD)",
    .misses = kMisses,
    .probe = probe,
    .make = [](const CollectorOptions& options) -> std::unique_ptr<Collector> {
      return std::make_unique<InterposerCollector>(options);
    }};

}  // namespace forebay::record

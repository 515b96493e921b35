#include "record/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "record/live_folder.h"
#include "record/recording_folder.h"
#include "sys/child_process.h"
#include "sys/clocks.h"
#include "sys/directory.h"
#include "sys/environment.h"
#include "sys/file_space.h"
#include "sys/host.h"
#include "sys/launcher.h"
#include "sys/process.h"
#include "sys/process_tree.h"
#include "sys/signal_inbox.h"
#include "trace/facts.h"

namespace forebay::record {
namespace {

namespace fact = trace::fact;

constexpr int64_t kSecond = 1'000'000'000;
// A recorder that is killed loses what came since the last flush. Programs that are just starting
// are killed most, so the first comes early; rare ones keep the file small.
constexpr int64_t kFirstFlushAfter = kSecond / 5;
constexpr int64_t kFlushEveryMax = kSecond;
constexpr int64_t kLookForOthersEvery = kSecond / 5;
constexpr int kLooksBeforeWord = 5;

using Variables = std::vector<std::pair<std::string, std::string>>;

// A backend that runs in this session, or the reason why its collector has none.
struct Active {
  std::string_view collector;
  const Backend* backend = nullptr;
  std::string detail;  // why not, of each backend
  std::string remedy;
  std::unique_ptr<Collector> running;
};

class Session {
 public:
  Session(const SessionOptions& options, RecordingFolder folder, std::set<const Backend*> failed)
      : options_(options), folder_(std::move(folder)), failed_(std::move(failed)) {}

  // Nothing when a collector refused to begin and another backend may take its place: `failed` says
  // which, and a new session should be tried.
  Result<std::optional<SessionReport>> run();
  const std::set<const Backend*>& failed() const { return failed_; }

 private:
  bool is_attached() const { return options_.command.empty(); }
  void choose();
  Status check_what_was_asked_for() const;
  Variables program_environment() const;
  Status start_program();
  Result<bool> begin_all();
  void write_first_facts();
  void follow();
  void take_signal(const sys::ReceivedSignal& signal);
  void reap();
  bool is_over();
  void look_for_others();
  void poll_all();
  void tell_so_far();
  void flush();
  void cut_short(const Error& error);
  void warn_of_losses();
  std::string kept_words() const;
  void write_last_facts();
  void end_all();
  void note_clock();
  SessionReport report();
  std::string collectors_line(bool having) const;
  std::string losses_line() const;
  std::string program_line() const;
  std::string overhead_line() const;
  CollectorTotals totals() const;
  void tell(const std::string& line) const {
    if (options_.talk) options_.talk(line);
  }

  const SessionOptions& options_;
  RecordingFolder folder_;
  std::set<const Backend*> failed_;
  std::vector<Active> active_;
  Target target_;
  std::unique_ptr<trace::TraceWriter> writer_;
  std::unique_ptr<Tracks> tracks_;
  std::unique_ptr<Sink> sink_;
  std::optional<sys::ChildProcess> child_;
  sys::SignalInbox inbox_;
  SessionReport report_;

  int64_t begun_ns_ = 0, ended_ns_ = 0, next_flush_ns_ = 0, next_poll_ns_ = 0, next_look_ns_ = 0;
  int64_t poll_every_ns_ = kSecond / 10, flush_every_ns_ = kFirstFlushAfter;
  double cpu_seconds_at_begin_ = 0;
  sys::ProcessEnd end_;
  bool is_writing_ = true;
  bool was_told_to_stop_ = false;  // by the user: an attached recording ends, a program is ended
  int interrupts_ = 0;
  int looks_for_others_ = 0;
  std::map<int, int> others_;     // that still run though the program has ended
  std::vector<int> left_behind_;  // daemons
  std::string cut_short_;         // why the trace ends before the program; empty: it does not
  int64_t cut_after_ns_ = 0;      // the start
  bool has_warned_of_losses_ = false;
};

std::string full_name(const Backend& backend) {
  return fmt::format("{}/{}", backend.collector, backend.name);
}

// By its own name or by that of one of its backends.
bool is_asked_for(std::string_view collector, const std::vector<std::string>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view name) {
    return name == collector ||
           (name.starts_with(collector) && name.substr(collector.size()).starts_with('/'));
  });
}

bool is_asked_for(const Backend& backend, const std::vector<std::string>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view name) {
    return name == backend.collector || name == full_name(backend);
  });
}

void Session::choose() {
  for (const std::string_view name : collector_names()) {
    if (!options_.collectors.empty() && !is_asked_for(name, options_.collectors)) continue;
    Active active{.collector = name, .backend = nullptr, .detail = {}, .remedy = {}, .running = {}};
    for (const Backend& backend : backends()) {
      if (backend.collector != name || active.backend != nullptr) continue;
      if (!options_.collectors.empty() && !is_asked_for(backend, options_.collectors)) continue;
      const Availability here =
          failed_.count(&backend) != 0
              ? Availability{.is_available = false, .detail = "it failed to begin", .remedy = {}}
              : backend.probe();
      if (!here.is_available) {
        const std::string why = fmt::format("{}: {}", backend.name, here.detail);
        active.detail += (active.detail.empty() ? "" : "; ") + why;
        if (active.remedy.empty()) active.remedy = here.remedy;
        continue;
      }
      CollectorOptions asked = options_.collector;
      asked.off_cpu_is_seen = std::any_of(active_.begin(), active_.end(), [](const Active& other) {
        return other.backend != nullptr && other.backend->sees_off_cpu;
      });
      auto collector = backend.make(asked);
      if (const Status ready = collector->prepare(target_); !ready.ok()) {
        const std::string why = fmt::format("{}: {}", backend.name, ready.error().message);
        active.detail += (active.detail.empty() ? "" : "; ") + why;
        continue;
      }
      active.backend = &backend;
      active.running = std::move(collector);
    }
    active_.push_back(std::move(active));
  }
}

// Runs nothing when all that the user named cannot see anything.
Status Session::check_what_was_asked_for() const {
  std::string why;
  for (const Active& active : active_) {
    if (active.backend != nullptr) return {};
    why += fmt::format("; {}: {}", active.collector, active.detail);
    if (!active.remedy.empty()) why += fmt::format("; remedy: {}", active.remedy);
  }
  if (options_.collectors.empty()) return {};
  return fail(ErrorCode::kUnsupported,
              "nothing was run, for no collector that was asked for can see it{} (all of them: "
              "forebay record --list)",
              why);
}

// What collectors want in the program's environment, each variable once.
Variables Session::program_environment() const {
  constexpr std::string_view kPreload = "LD_PRELOAD";
  Variables variables;
  std::string preload;
  for (const auto& [name, value] : target_.environment) {
    if (name != kPreload)
      variables.emplace_back(name, value);
    else
      preload += (preload.empty() ? "" : ":") + value;
  }
  if (preload.empty()) return variables;
  if (const auto theirs = sys::environment(std::string(kPreload))) preload += ":" + *theirs;
  variables.emplace_back(kPreload, preload);
  return variables;
}

Status Session::start_program() {
  if (is_attached()) {
    if (!sys::is_running(target_.pid))
      return fail(ErrorCode::kNotFound,
                  "there is no process {} that runs; ps lists them, 'forebay record -- PROGRAM' "
                  "starts one",
                  target_.pid);
    return {};
  }
  sys::adopt_orphans();
  child_ = FB_TRY(sys::ChildProcess::start(options_.command, program_environment()));
  target_.pid = child_->pid();
  return {};
}

Result<bool> Session::begin_all() {
  for (Active& active : active_) {
    if (!active.running) continue;
    const Status begun = active.running->begin(target_, *sink_);
    if (begun.ok()) continue;
    const bool has_other =
        std::any_of(backends().begin(), backends().end(), [&](const Backend& other) {
          return other.collector == active.collector && &other != active.backend &&
                 failed_.count(&other) == 0 && other.probe().is_available;
        });
    active.detail = fmt::format("{}: {}", active.backend->name, begun.error().message);
    active.running.reset();
    tell(fmt::format("{}: {}", active.collector, active.detail));
    if (has_other) {
      failed_.insert(active.backend);
      return false;
    }
    active.backend = nullptr;
  }
  return true;
}

void Session::write_first_facts() {
  writer_->fact(fact::kSource, "record");
  writer_->fact(fact::kVersion, options_.version);
  writer_->fact(fact::kHost, sys::host().name);
  writer_->fact(fact::kCores, fmt::format("{}", sys::usable_cpu_count()));
  writer_->fact(fact::kCommand, is_attached()
                                    ? fmt::format("--pid {}", target_.pid)
                                    : fmt::format("{}", fmt::join(options_.command, " ")));
  writer_->fact(fact::kExit, "running");
  if (const auto launch = sys::launched_by()) {
    writer_->fact(fact::kRank, fmt::format("{}", launch->rank));
    if (launch->size > 0) writer_->fact(fact::kWorldSize, fmt::format("{}", launch->size));
  }
  for (const Active& active : active_) {
    const std::string collector = std::string(fact::kCollectorPrefix).append(active.collector);
    writer_->fact(collector,
                  active.running ? std::string(active.backend->name) : "none: " + active.detail);
    if (!active.running || active.backend->misses.empty()) continue;
    writer_->fact(std::string(fact::kMissingPrefix).append(active.collector),
                  active.backend->misses);
  }
  note_clock();
}

void Session::note_clock() {
  const sys::ClockReading now = sys::read_clocks();
  writer_->clock(
      {.time_ns = now.monotonic_ns, .unix_ns = now.unix_ns, .uncertainty_ns = now.uncertainty_ns});
}

void Session::take_signal(const sys::ReceivedSignal& signal) {
  was_told_to_stop_ = true;
  if (is_attached()) return;  // the recording ends, the program goes on
  if (sys::is_interrupt(signal.number) && ++interrupts_ >= 2) {
    tell("killing the program");
    for (const auto& [pid, parent] : sys::descendants_of(sys::process_id()))
      sys::send_signal(pid, sys::kKillSignal);
    return;
  }
  // The program is in the terminal's foreground group as well: it has the signal already.
  if (!signal.is_from_terminal) sys::send_signal(target_.pid, signal.number);
}

void Session::reap() {
  sys::ProcessEnd end;
  for (int pid = sys::reap_child(end); pid > 0; pid = sys::reap_child(end))
    if (pid == target_.pid) end_ = end;
}

// After the program's first process ended: which of its descendants are still at work.
void Session::look_for_others() {
  others_.clear();
  left_behind_.clear();
  const int own_session = sys::session_of(0);
  for (const auto& [pid, parent] : sys::descendants_of(sys::process_id())) {
    if (!sys::is_running(pid)) continue;
    if (sys::session_of(pid) == own_session)
      others_.emplace(pid, parent);
    else
      left_behind_.push_back(pid);
  }
  // Helpers of a program often end a moment after it.
  if (!others_.empty() && ++looks_for_others_ == kLooksBeforeWord)
    tell(
        fmt::format("the program has ended; {} of its processes still run, the first is {} "
                    "(Ctrl-C twice kills them)",
                    others_.size(), others_.begin()->first));
}

bool Session::is_over() {
  const int64_t now = sys::monotonic_ns();
  if (is_attached()) {
    return was_told_to_stop_ || !sys::is_running(target_.pid) ||
           (options_.duration_ns > 0 && now - begun_ns_ >= options_.duration_ns);
  }
  reap();
  if (!end_.has_ended) return false;
  if (now >= next_look_ns_) {
    look_for_others();
    next_look_ns_ = now + kLookForOthersEvery;
  }
  return others_.empty();
}

// "1 234 events (56.7 kB) are kept"
std::string Session::kept_words() const {
  return fmt::format("{} ({}) {} kept", base::format_counted(writer_->event_count(), "events"),
                     base::format_bytes(static_cast<double>(writer_->bytes_written())),
                     writer_->event_count() == 1 ? "is" : "are");
}

// Collectors go on: what they see from now on is counted, so that the loss is known.
void Session::cut_short(const Error& error) {
  if (!cut_short_.empty()) return;
  cut_short_ = (sys::is_disk_full(error) ? "disk full: " : "") + error.message;
  cut_after_ns_ = sys::monotonic_ns() - begun_ns_;
  tell(cut_short_);
  tell(fmt::format("the recording ends here, the program goes on: {}, what follows is counted",
                   kept_words()));
}

// Said once, while something can still be done about it.
void Session::warn_of_losses() {
  if (has_warned_of_losses_) return;
  for (const Active& active : active_) {
    if (!active.running) continue;
    const CollectorTotals totals = active.running->totals();
    if (totals.lost == 0 || totals.lost_because.empty()) continue;
    has_warned_of_losses_ = true;
    tell(fmt::format("{}: {} are lost: {}", active.collector, totals.unit, totals.lost_because));
  }
}

void Session::tell_so_far() {
  for (Active& active : active_) {
    if (!active.running) continue;
    const Status told = active.running->tell_so_far(*sink_);
    if (!told.ok()) tell(fmt::format("{}: {}", active.collector, told.error().message));
  }
}

void Session::flush() {
  if (const Status flushed = writer_->flush(); !flushed.ok()) cut_short(flushed.error());
}

void Session::poll_all() {
  poll_every_ns_ = kSecond / 10;
  for (Active& active : active_) {
    if (!active.running) continue;
    const Status polled = active.running->poll(*sink_);
    if (polled.ok()) {
      poll_every_ns_ = std::min(poll_every_ns_, active.running->poll_within_ns());
      continue;
    }
    active.detail = fmt::format("{} stopped: {}", active.backend->name, polled.error().message);
    writer_->fact(std::string(fact::kMissingPrefix).append(active.collector), active.detail);
    tell(fmt::format("{}: {}", active.collector, active.detail));
    active.running.reset();
  }
  warn_of_losses();
}

void Session::follow() {
  while (!is_over()) {
    const int64_t now = sys::monotonic_ns();
    const bool is_late = options_.duration_ns > 0 && now - begun_ns_ >= options_.duration_ns;
    if (is_late && is_writing_) {
      end_all();
      is_writing_ = false;
    }
    if (is_writing_ && now >= next_poll_ns_) {
      poll_all();
      next_poll_ns_ = sys::monotonic_ns() + poll_every_ns_;
    }
    if (is_writing_ && now >= next_flush_ns_) {
      note_clock();
      tell_so_far();
      flush();
      flush_every_ns_ = std::min(2 * flush_every_ns_, kFlushEveryMax);
      next_flush_ns_ = now + flush_every_ns_;
    }
    const int64_t wait = is_writing_ ? next_poll_ns_ - sys::monotonic_ns() : kLookForOthersEvery;
    if (const auto signal = inbox_.wait(std::min(wait, kLookForOthersEvery))) take_signal(*signal);
  }
}

void Session::end_all() {
  ended_ns_ = sys::monotonic_ns();
  for (Active& active : active_) {
    if (!active.running) continue;
    const Status ended = active.running->end(*sink_);
    if (!ended.ok()) tell(fmt::format("{}: {}", active.collector, ended.error().message));
  }
  note_clock();
  writer_->fact(fact::kExit, !end_.has_ended    ? "running"
                             : end_.signal != 0 ? fmt::format("signal {}", end_.signal)
                                                : fmt::format("exit {}", end_.exit_code));
  if (!left_behind_.empty())
    writer_->fact("left_running", fmt::format("{}", fmt::join(left_behind_, " ")));
  writer_->fact(fact::kRecorded, fmt::format("{}", ended_ns_ - begun_ns_));
  const double cpu = sys::process_usage().cpu_seconds() - cpu_seconds_at_begin_;
  writer_->fact(fact::kOverheadOutside, fmt::format("{}", static_cast<int64_t>(cpu * 1e9)));
  flush();  // now it is known what could not be written
  write_last_facts();
  if (const Status finished = writer_->finish(); !finished.ok()) cut_short(finished.error());
}

void Session::write_last_facts() {
  if (cut_short_.empty()) return;
  const uint64_t lost = writer_->lost_calls();
  writer_->fact(fact::kDropped, fmt::format("{}", totals().lost + lost));
  writer_->fact(
      fact::kCutShort,
      fmt::format("the recording was cut short {} after the start, {} later events, those "
                  "that were counted among them, are lost: {}",
                  base::format_seconds(static_cast<double>(cut_after_ns_) * 1e-9),
                  base::format_count(lost), cut_short_));
}

// " (interposer: 12 345 calls, 0 lost)"
std::string backend_words(const Active& active, bool is_cut_short) {
  std::string words =
      active.backend->name != active.collector ? std::string(active.backend->name) : std::string();
  const CollectorTotals totals = active.running ? active.running->totals() : CollectorTotals{};
  if (!totals.unit.empty())
    words += fmt::format("{}{}, {} lost{}", words.empty() ? "" : ": ",
                         base::format_counted(totals.calls, totals.unit),
                         base::format_count(totals.lost),
                         is_cut_short ? " besides what was cut short" : "");
  return words.empty() ? words : " (" + words + ")";
}

std::string Session::collectors_line(bool having) const {
  std::string line;
  for (const Active& active : active_) {
    if ((active.backend != nullptr) != having) continue;
    line += line.empty() ? "" : ", ";
    line += active.collector;
    line += having ? backend_words(active, !cut_short_.empty()) : ": " + active.detail;
    // Whoever asked for it wants it to work.
    if (!having && !options_.collectors.empty() && !active.remedy.empty())
      line += " (remedy: " + active.remedy + ")";
  }
  return line;
}

// "638 017 calls: r: disk full"
std::string Session::losses_line() const {
  std::string line;
  for (const Active& active : active_) {
    const CollectorTotals totals = active.running ? active.running->totals() : CollectorTotals{};
    if (totals.lost == 0 || totals.lost_because.empty()) continue;
    line += fmt::format("{}{}: {}", line.empty() ? "" : "; ",
                        base::format_counted(totals.lost, totals.unit), totals.lost_because);
  }
  return line;
}

std::string Session::program_line() const {
  if (is_attached()) return fmt::format("process {}, watched", target_.pid);
  std::string line = end_.signal != 0 ? fmt::format("ended by {}", sys::signal_name(end_.signal))
                                      : fmt::format("exit {}", end_.exit_code);
  if (!left_behind_.empty()) line += fmt::format(", left {} running", left_behind_.size());
  return line;
}

CollectorTotals Session::totals() const {
  CollectorTotals all;
  for (const Active& active : active_) {
    if (!active.running) continue;
    const CollectorTotals one = active.running->totals();
    all.calls += one.calls;
    all.lost += one.lost;
    all.inside_ns += one.inside_ns;
  }
  return all;
}

std::string Session::overhead_line() const {
  const double seconds = std::max(1e-9, static_cast<double>(ended_ns_ - begun_ns_) * 1e-9);
  const double cpu = sys::process_usage().cpu_seconds() - cpu_seconds_at_begin_;
  std::string line = fmt::format("recorder {} of CPU, {:.2f} % of one core",
                                 base::format_seconds(cpu), cpu / seconds * 100);
  const CollectorTotals all = totals();
  if (all.inside_ns > 0)
    line += fmt::format("; about {} inside the program",
                        base::format_seconds(static_cast<double>(all.inside_ns) * 1e-9));
  return line;
}

SessionReport Session::report() {
  report_.folder = folder_.path;
  report_.exit_code = is_attached() ? 0 : end_.exit_code;
  report_.was_interrupted = was_told_to_stop_;
  report_.cut_short = cut_short_;
  report_.duration_ns = ended_ns_ - begun_ns_;
  report_.events = writer_->event_count();
  report_.bytes = writer_->bytes_written();
  const CollectorTotals all = totals();
  report_.calls = all.calls;
  report_.calls_lost = all.lost;
  report_.inside_program_ns = all.inside_ns;
  report_.recorder_cpu_ns =
      static_cast<int64_t>((sys::process_usage().cpu_seconds() - cpu_seconds_at_begin_) * 1e9);
  const double seconds = static_cast<double>(report_.duration_ns) * 1e-9;
  auto& lines = report_.lines;
  lines.emplace_back(
      "recorded", fmt::format("{} of {}, {}, {}", base::format_seconds(seconds), folder_.trace_path,
                              base::format_counted(writer_->event_count(), "events"),
                              base::format_bytes(static_cast<double>(writer_->bytes_written()))));
  if (!cut_short_.empty())
    lines.emplace_back(
        "cut short",
        fmt::format("{} after the start: {}; {}, {} lost",
                    base::format_seconds(static_cast<double>(cut_after_ns_) * 1e-9), cut_short_,
                    kept_words(), base::format_count(writer_->lost_calls())));
  const std::string losses = losses_line();
  if (!losses.empty()) lines.emplace_back("lost", losses);
  lines.emplace_back("program", program_line());
  const std::string seen = collectors_line(true);
  lines.emplace_back("seen by", seen.empty() ? "no collector" : seen);
  if (const std::string line = collectors_line(false); !line.empty())
    lines.emplace_back("not seen", line);
  lines.emplace_back("overhead", overhead_line());
  const bool wants_space = std::any_of(active_.begin(), active_.end(), [](const Active& active) {
    const CollectorTotals totals = active.running ? active.running->totals() : CollectorTotals{};
    return totals.lost > 0 && totals.is_for_want_of_space;
  });
  if (!cut_short_.empty() || (!losses.empty() && wants_space))
    lines.emplace_back("next",
                       fmt::format("free space there, or record elsewhere: -o FOLDER; less: "
                                   "--events-max, --collect; what there is: forebay explain {}",
                                   folder_.path));
  else
    lines.emplace_back("next", fmt::format("forebay explain {}", folder_.path));
  return std::move(report_);
}

Result<std::optional<SessionReport>> Session::run() {
  target_.pid = options_.pid;
  target_.is_attached = is_attached();
  target_.command = options_.command;
  target_.folder =
      folder_.path.starts_with('/') ? folder_.path : sys::current_folder() + "/" + folder_.path;
  choose();
  FB_TRY(check_what_was_asked_for());
  writer_ = FB_TRY(trace::TraceWriter::create(folder_.trace_path));
  const auto launch = sys::launched_by();
  tracks_ = std::make_unique<Tracks>(*writer_, sys::host().name, launch ? launch->rank : -1);
  sink_ = std::make_unique<Sink>(Sink{*writer_, *tracks_});
  FB_TRY(start_program());
  if (!FB_TRY(begin_all())) return std::optional<SessionReport>();
  write_first_facts();
  FB_TRY(writer_->flush());
  cpu_seconds_at_begin_ = sys::process_usage().cpu_seconds();
  begun_ns_ = sys::monotonic_ns();
  next_flush_ns_ = begun_ns_ + flush_every_ns_;
  if (child_) {
    if (const int error_number = child_->release(); error_number != 0) {
      for (Active& active : active_)
        if (active.running) active.running->end(*sink_).ignore("there was nothing to see");
      report_.exit_code = error_number == 2 ? 127 : 126;
      report_.failure = sys::error_from_errno(error_number, options_.command[0]).message;
      return std::optional(std::move(report_));
    }
    sys::raise_open_file_limit(65536);  // ours alone: the program has its own by now
  }
  follow();
  if (ended_ns_ == 0) {
    poll_all();
    end_all();
  }
  return std::optional(report());
}

// What "interposer" stands for: "io/interposer". Empty when no backend, or more than one, has the
// name.
std::string only_backend_named(std::string_view name) {
  std::string found;
  for (const Backend& backend : backends()) {
    if (backend.name != name) continue;
    if (!found.empty()) return {};
    found = full_name(backend);
  }
  return found;
}

// The names of collectors, or of one of their backends, that the user's names stand for.
Result<std::vector<std::string>> resolved_names(const std::vector<std::string>& wanted) {
  const std::vector<std::string_view> collectors = collector_names();
  std::vector<std::string> full_names, resolved;
  for (const Backend& backend : backends()) full_names.push_back(full_name(backend));
  std::vector<std::string_view> known(collectors.begin(), collectors.end());
  known.insert(known.end(), full_names.begin(), full_names.end());
  for (const std::string& name : wanted) {
    if (name.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "a collector needs a name, and a list of them no comma too many");
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      resolved.push_back(name);
      continue;
    }
    resolved.push_back(only_backend_named(name));
    if (resolved.back().empty())
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("collector", name, known));
  }
  return resolved;
}

// Of recorders that were killed: in the folder asked for, else in the numbered ones here.
void remove_leftovers_at(const std::string& asked) {
  if (!asked.empty()) return remove_leftovers(asked);
  for (const std::string& name : sys::names_in(sys::kCurrentFolder, ".").value_or({}))
    if (name.starts_with(kRecordingPrefix)) remove_leftovers(name);
}

// What kept the recording from starting, with what to do about it.
Error told(const Error& error) {
  if (!sys::is_disk_full(error)) return error;
  return fail(error.code, "disk full: {}; nothing was run: free space, or record elsewhere (-o)",
              error.message);
}

void discard(const RecordingFolder& folder) {
  sys::remove_file(sys::kCurrentFolder, folder.trace_path).ignore("there may be none");
  std::error_code error;
  if (folder.is_new) std::filesystem::remove_all(folder.path, error);  // all of it is ours
}

}  // namespace

Result<SessionReport> run_session(const SessionOptions& asked) {
  SessionOptions options = asked;
  options.collectors = FB_TRY(resolved_names(asked.collectors));
  if (!options.command.empty()) {
    if (const auto program = sys::find_program(options.command[0]); !program.ok())
      return SessionReport{.folder = {},
                           .exit_code = 127,
                           .failure = program.error().message,
                           .was_interrupted = false,
                           .cut_short = {},
                           .duration_ns = 0,
                           .events = 0,
                           .bytes = 0,
                           .calls = 0,
                           .calls_lost = 0,
                           .recorder_cpu_ns = 0,
                           .inside_program_ns = 0,
                           .lines = {}};
  }
  const auto launch = sys::launched_by();
  const std::optional<int> rank = launch ? std::optional(launch->rank) : std::nullopt;
  if (launch && launch->rank == 0 && launch->size > 1 && options.folder.empty() && options.talk)
    options.talk(
        fmt::format("{} ranks record to {} folders: give them one with -o FOLDER, and they "
                    "are one recording",
                    launch->size, launch->size));
  remove_leftovers_at(options.folder);
  const auto made = make_recording_folder(options.folder, rank);
  if (!made.ok()) return told(made.error());
  const RecordingFolder& folder = *made;
  std::set<const Backend*> failed;
  while (true) {
    Session session(options, folder, failed);
    auto ran = session.run();
    if (!ran.ok() || !*ran || !(*ran)->failure.empty()) {
      sys::remove_file(sys::kCurrentFolder, folder.trace_path).ignore("the next try makes its own");
      if (!ran.ok() || *ran) discard(folder);
    }
    if (!ran.ok()) return told(ran.error());
    if (*ran) return std::move(**ran);
    failed = session.failed();
  }
}

}  // namespace forebay::record

#include "cli/record_stalls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/result_folder.h"
#include "cli/version.h"
#include "cli/workload_arguments.h"
#include "record/session.h"
#include "report/stalls.h"
#include "storage/store.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "sys/page_cache.h"
#include "sys/signal_inbox.h"
#include "trace/recording.h"
#include "trace/step_period.h"

namespace forebay::cli {
namespace {

using trace::RunKind;

constexpr std::string_view kDataWord = "{data}";
constexpr std::array<std::string_view, 7> kOwnFlags{
    "--data",      "--data-synthetic", "--synthetic", "--one-device",
    "--two-hosts", "--repeats",        "--steps"};

std::string with_data(std::string text, const std::string& folder) {
  for (size_t at = text.find(kDataWord); at != std::string::npos;
       at = text.find(kDataWord, at + folder.size()))
    text.replace(at, kDataWord.size(), folder);
  return text;
}

std::vector<std::string> with_data(std::vector<std::string> words, const std::string& folder) {
  for (std::string& word : words) word = with_data(std::move(word), folder);
  return words;
}

std::string shown(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[1] == "-c") return words[2];
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Whether `path` is `folder`, or lies in it.
bool is_below(const std::string& path, const std::string& folder) {
  std::error_code error;
  const auto inner = std::filesystem::weakly_canonical(path, error);
  const auto outer = std::filesystem::weakly_canonical(folder, error);
  const auto [end, _] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

struct Measured {
  double seconds = 0;                         // from start to end of the program
  std::optional<trace::StepPeriod> by_marks;  // nothing when it marks no steps
};

// The files below a folder in the state of the page cache that a run asks for.
class DataFolder {
 public:
  static Result<DataFolder> open(const std::string& path) {
    DataFolder data;
    data.path_ = path;
    data.in_memory_ = sys::is_memory_file_system(path);
    const auto store = FB_TRY(storage::open_store("local", path));
    const storage::Listing listing = FB_TRY(store->list(""));
    for (const auto& file : listing.files) data.files_.push_back(path + "/" + file.path);
    if (data.files_.empty()) return fail(ErrorCode::kNotFound, "{} holds no files", path);
    return data;
  }

  bool is_in_memory() const { return in_memory_; }
  const std::string& path() const { return path_; }

  // Many files take a while: `has_to_stop` is asked before each.
  template <class Question>
  Status evict(Question has_to_stop) const {
    for (const std::string& file : files_)
      if (!has_to_stop()) FB_TRY(sys::evict_from_page_cache(file));
    return {};
  }

  template <class Question>
  Status read(Question has_to_stop) const {
    for (const std::string& file : files_)
      if (!has_to_stop()) FB_TRY(sys::load_into_page_cache(file));
    return {};
  }

  // Bytes that are in the page cache, or nothing when the kernel does not tell.
  std::optional<uint64_t> cached() const {
    uint64_t bytes = 0;
    for (const std::string& file : files_) {
      const auto cached = sys::cached_bytes(file);
      if (!cached.ok()) return std::nullopt;
      bytes += cached->cached_bytes;
    }
    return bytes;
  }

  // Bytes that are not in the page cache, or nothing when the kernel does not tell.
  std::optional<uint64_t> missing() const {
    uint64_t missing = 0;
    for (const std::string& file : files_) {
      const auto cached = sys::cached_bytes(file);
      if (!cached.ok()) return std::nullopt;
      missing += cached->file_bytes - std::min(cached->file_bytes, cached->cached_bytes);
    }
    return missing;
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
  bool in_memory_ = false;
};

class Comparison {
 public:
  Comparison(const Arguments& arguments, std::string out)
      : arguments_(arguments), out_(std::move(out)) {}

  Result<int> run() {
    FB_TRY(prepare());
    Status failed;
    for (int repeat = 0; repeat < found_.repeats_asked && failed.ok() && code_ == kExitDone;
         ++repeat)
      failed = one_round(repeat);
    if (!failed.ok() && rounds_.empty()) return failed.error();
    // Whole repeats count, whatever ended the others.
    finish();
    // Standard output is the program's.
    if (arguments_.has("--json"))
      talk(report::stalls_json(found_));
    else if (!arguments_.has("--quiet"))
      talk(report::stalls_text(found_));
    const Status written = write_file_in(out_, "stalls.json", report::stalls_json(found_));
    if (!failed.ok()) return failed.error();
    FB_TRY(written);
    if (!arguments_.has("--quiet") && !arguments_.has("--json"))
      talk(fmt::format("{:<12}{}\n", "written to", out_));
    return code_;
  }

 private:
  const std::vector<std::string>& command(RunKind kind) const {
    return commands_[static_cast<size_t>(kind)];
  }

  void set(RunKind kind, std::vector<std::string> words, std::string why_not) {
    found_.run_commands[static_cast<size_t>(kind)] = shown(words);
    if (words.empty()) found_.times[kind].reason = std::move(why_not);
    commands_[static_cast<size_t>(kind)] = std::move(words);
  }

  Status prepare() {
    found_.version = kVersion;
    found_.command = command_line(arguments_);
    found_.run_commands.resize(trace::kRunKinds);
    found_.repeats_asked = static_cast<int>(FB_TRY(arguments_.integer("--repeats", 1, 1000)));
    if (arguments_.has("--steps"))
      steps_ = static_cast<uint64_t>(FB_TRY(arguments_.integer("--steps", 1, INT64_MAX)));
    const std::vector<std::string> program = arguments_.all("PROGRAM");
    if (program.empty())
      return fail(ErrorCode::kInvalidArgument, "name a program to run (forebay record -h)");
    FB_TRY(prepare_real(program));
    FB_TRY(prepare_synthetic(program));
    const int commands = static_cast<int>(std::count_if(commands_.begin(), commands_.end(),
                                                        [](const auto& c) { return !c.empty(); }));
    if (commands < 2)
      return fail(ErrorCode::kInvalidArgument,
                  "--stalls compares runs: give --data DIR with {{data}} in the command for cold "
                  "and warm ones, --data-synthetic DIR or --synthetic CMD for a synthetic one");
    return {};
  }

  Status prepare_real(const std::vector<std::string>& program) {
    if (!arguments_.has("--data")) {
      const std::string why = "--data does not say where the program's data lie";
      set(RunKind::kCold, {}, why);
      set(RunKind::kWarm, {}, why);
      return {};
    }
    found_.data = *arguments_.get("--data");
    data_ = FB_TRY(DataFolder::open(found_.data).context("--data"));
    if (is_below(out_, found_.data))
      return fail(ErrorCode::kInvalidArgument,
                  "--out {} lies in the data {}: results there would be read as data", out_,
                  found_.data);
    const std::vector<std::string> real = with_data(program, found_.data);
    set(RunKind::kWarm, real, "");
    if (data_->is_in_memory())
      set(RunKind::kCold, {},
          fmt::format("the data lie on {}, which is memory: there is no cold state",
                      sys::file_system_name(found_.data)));
    else
      set(RunKind::kCold, real, "");
    return {};
  }

  Status prepare_synthetic(const std::vector<std::string>& program) {
    const bool has_folder = arguments_.has("--data-synthetic");
    if (has_folder && arguments_.has("--synthetic"))
      return fail(ErrorCode::kInvalidArgument,
                  "--synthetic and --data-synthetic both say how the synthetic run goes: give one");
    const bool has_word = std::any_of(program.begin(), program.end(), [](const std::string& word) {
      return word.find(kDataWord) != std::string::npos;
    });
    if (has_folder && !has_word)
      return fail(ErrorCode::kInvalidArgument,
                  "--data-synthetic takes the place of {{data}}, which the command does not hold");
    const std::string folder = arguments_.get("--data-synthetic").value_or("");
    if (has_folder) FB_TRY(DataFolder::open(folder).context("--data-synthetic"));
    if (has_folder && data_ && is_below(folder, found_.data) && is_below(found_.data, folder))
      return fail(ErrorCode::kInvalidArgument,
                  "--data and --data-synthetic are the same folder: there is nothing to compare");
    const auto from_flag = [&](std::string_view flag) {
      const auto text = arguments_.get(flag);
      return text ? std::vector<std::string>{"/bin/sh", "-c", with_data(*text, folder)}
                  : std::vector<std::string>();
    };
    set(RunKind::kAll, has_folder ? with_data(program, folder) : from_flag("--synthetic"),
        "neither --synthetic nor --data-synthetic is given");
    set(RunKind::kOne, from_flag("--one-device"), "--one-device is not given");
    set(RunKind::kHosts, from_flag("--two-hosts"), "--two-hosts is not given");
    return {};
  }

  // Groups begin each round in turn, so that no run is always the first one after another.
  Status one_round(int repeat) {
    static constexpr std::array<RunKind, 3> kSynthetic{RunKind::kOne, RunKind::kAll,
                                                       RunKind::kHosts};
    static constexpr std::array<RunKind, 1> kColdRun{RunKind::kCold}, kWarmRun{RunKind::kWarm};
    static constexpr std::array<std::span<const RunKind>, 3> kGroups{kSynthetic, kColdRun,
                                                                     kWarmRun};
    std::array<std::optional<Measured>, trace::kRunKinds> round;
    for (size_t i = 0; i < kGroups.size(); ++i)
      for (const RunKind kind : kGroups[(i + static_cast<size_t>(repeat)) % kGroups.size()]) {
        if (command(kind).empty()) continue;
        talk(fmt::format("forebay: repeat {} of {}: {}, {}\n", repeat + 1, found_.repeats_asked,
                         run_name(kind), run_meaning(kind)));
        FB_TRY(bring_data(kind));
        if (!is_stopped()) round[static_cast<size_t>(kind)] = FB_TRY(measure(kind, repeat));
        if (code_ != kExitDone) return {};
        if (kind == RunKind::kCold) look_for_reads();
      }
    rounds_.push_back(round);
    return {};
  }

  // Ctrl-C while no program runs.
  bool is_stopped() {
    if (code_ == kExitDone && inbox_.wait(0)) code_ = kExitInterrupted;
    return code_ != kExitDone;
  }

  // A program that goes its own way makes all runs the same, and every stall 0.
  void look_for_reads() {
    const std::optional<uint64_t> cached = data_->cached();
    if (cached && cached_at_start_ && *cached <= *cached_at_start_)
      note_once(
          fmt::format("T3 left nothing of {} in the page cache: the program does not read "
                      "the data that it is told, or it reads them directly (O_DIRECT)",
                      data_->path()));
  }

  Status bring_data(RunKind kind) {
    const auto has_to_stop = [this] { return is_stopped(); };
    if (kind == RunKind::kCold) {
      FB_TRY(data_->evict(has_to_stop));
      cached_at_start_ = data_->cached();
      if (!cached_at_start_)
        note_once("that T3 began cold was not verified: the kernel does not tell this user");
      else if (*cached_at_start_ > 0)
        note_once(fmt::format("T3 is not cold: {} stayed in the page cache",
                              base::format_bytes(static_cast<double>(*cached_at_start_))));
    }
    if (kind == RunKind::kWarm) {
      FB_TRY(data_->read(has_to_stop));
      if (const auto missing = data_->missing(); missing && *missing > 0)
        note_once(fmt::format("T4 is not warm: {} of the data did not stay in the page cache",
                              base::format_bytes(static_cast<double>(*missing))));
    }
    return {};
  }

  Result<Measured> measure(RunKind kind, int repeat) {
    record::SessionOptions options;
    options.command = command(kind);
    options.folder = fmt::format("{}/{}-{}", out_, run_name(kind), repeat + 1);
    options.collectors = {"marks"};  // the least that a program can notice
    options.version = kVersion;
    options.talk = [](std::string_view line) { talk(fmt::format("forebay: {}\n", line)); };
    base::Clock& clock = base::monotonic_clock();
    const int64_t start_ns = clock.now_ns();
    const record::SessionReport ran = FB_TRY(record::run_session(options));
    Measured measured;
    measured.seconds = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
    if (!ran.failure.empty() || ran.exit_code != 0) {
      talk(fmt::format("forebay: {}: {} ended with exit code {}{}{}\n", run_name(kind),
                       shown(options.command), ran.exit_code, ran.failure.empty() ? "" : ": ",
                       ran.failure));
      code_ = ran.exit_code == 0 ? kExitFailed : ran.exit_code;
      return measured;
    }
    if (ran.was_interrupted) {
      code_ = kExitInterrupted;  // though the program made a good end of it
      return measured;
    }
    if (!ran.cut_short.empty())
      return fail(ErrorCode::kResourceExhausted, "{}: the recording was cut short: {}",
                  run_name(kind), ran.cut_short);
    const std::vector<std::string> files = FB_TRY(traces_in(ran.folder));
    const trace::Recording recording = FB_TRY(trace::Recording::load(files));
    measured.by_marks = trace::step_period(recording);
    return measured;
  }

  static Result<std::vector<std::string>> traces_in(const std::string& folder) {
    std::vector<std::string> files;
    const std::vector<std::string> names = FB_TRY(sys::names_in(sys::kCurrentFolder, folder));
    for (const std::string& name : names)
      if (name.ends_with(".fbt")) files.push_back(folder + "/" + name);
    return files;
  }

  void note_once(const std::string& note) {
    if (std::count(found_.notes.begin(), found_.notes.end(), note) == 0)
      found_.notes.push_back(note);
  }

  // Marks where every run has them, or nothing would be compared with its like.
  void finish() {
    found_.repeats = static_cast<int>(rounds_.size());
    found_.is_interrupted = found_.repeats < found_.repeats_asked;
    bool have_marks = !rounds_.empty(), some_marks = false;
    for (const auto& round : rounds_)
      for (const auto& run : round) {
        if (!run) continue;
        have_marks = have_marks && run->by_marks;
        some_marks = some_marks || run->by_marks;
      }
    found_.step_source = have_marks ? "what the program marks as one"
                         : steps_   ? fmt::format("1/{} of the program's time (--steps)", *steps_)
                                    : "the whole program (no marks, no --steps)";
    if (some_marks && !have_marks) note_once("not every run marks steps, so marks were not used");
    if (!have_marks)
      note_once(
          "the program's start and end are in the times; where they take long in one run "
          "only, its stall is wrong: mark steps (forebay.mark)");
    for (const auto& round : rounds_)
      for (size_t i = 0; i < round.size(); ++i)
        if (round[i])
          found_.times.runs[i].seconds.push_back(
              have_marks ? round[i]->by_marks->seconds
                         : round[i]->seconds / static_cast<double>(steps_.value_or(1)));
    for (trace::RunTimes& run : found_.times.runs)
      if (!run.is_measured() && run.reason.empty())
        run.reason = "stopped before a whole repeat was measured";
    note_once(
        "that T3 read from a device is not measured, only that the page cache was empty; "
        "caches of the program and of a server are not known");
    found_.stalls = trace::differential_stalls(found_.times);
  }

  const Arguments& arguments_;
  const std::string out_;
  sys::SignalInbox inbox_;  // of signals between two runs
  std::optional<uint64_t> steps_;
  std::optional<DataFolder> data_;
  std::optional<uint64_t> cached_at_start_;  // of the cold run
  std::array<std::vector<std::string>, trace::kRunKinds> commands_;
  std::vector<std::array<std::optional<Measured>, trace::kRunKinds>> rounds_;
  report::ProgramStalls found_;
  int code_ = kExitDone;
};

}  // namespace

Status refuse_stall_flags(const Arguments& arguments) {
  for (const std::string_view flag : kOwnFlags)
    if (arguments.has(flag))
      return fail(ErrorCode::kInvalidArgument, "{} belongs to --stalls", flag);
  return {};
}

Result<int> record_stalls(const Arguments& arguments) {
  for (const std::string_view flag :
       {"--pid", "--duration", "--collect", "--hertz", "--events-max"})
    if (arguments.has(flag))
      return fail(ErrorCode::kInvalidArgument,
                  "--stalls runs a program several times to its end, with marks alone: leave out "
                  "{}",
                  flag);
  const ResultFolder folder = FB_TRY(make_result_folder(
      arguments.has("-o") ? *arguments.get("-o") : arguments.get("--out").value_or(""), "stalls"));
  Result<int> code = Comparison(arguments, folder.path).run();
  discard_result_folder(folder);  // the claim; what was written to stays
  return code;
}

}  // namespace forebay::cli

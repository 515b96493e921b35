// forebay record: runs a program and writes down what it does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/wrapped_text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/record_stalls.h"
#include "cli/version.h"
#include "record/session.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "PROGRAM",
     .summary = "what to run, with its arguments",
     .repeats = true,
     .verbatim = true},
}};

constexpr std::array<Flag, 18> kFlags{{
    {.name = "--out",
     .value = "FOLDER",
     .summary = "where to write (default: ./forebay-NNNN, the next free number)"},
    {.name = "-o", .value = "FOLDER", .summary = "the same as --out"},
    {.name = "--pid",
     .value = "PID",
     .summary = "follow a process that runs already, and its children",
     .detail = "Ctrl-C ends the recording and leaves the process alone. What needs the program's "
               "environment (io by interposer, marks) is not available."},
    {.name = "--collect",
     .value = "NAMES",
     .summary = "only these, by comma: io, cpu, proc, ... (default: all that can run)",
     .detail = "A collector that has several ways to see is asked for one of them as "
               "io/interposer, or interposer alone; --list names them all."},
    {.name = "--hertz",
     .value = "N",
     .fallback = "99",
     .summary = "stack samples a second and core"},
    {.name = "--events-max",
     .value = "N",
     .fallback = "200000",
     .summary = "calls a second kept one by one; beyond it they are counted",
     .detail = "Totals stay exact: calls beyond the limit are kept as counts, bytes and a "
               "histogram of their durations. 0 keeps counts alone."},
    {.name = "--duration",
     .value = "TIME",
     .summary = "end the recording after this long; the program goes on"},
    {.name = "--stalls",
     .summary = "prep, fetch, interconnect, network stalls by comparing runs",
     .detail = "Runs the program to its end with synthetic, cold and warm data, in turn and again; "
               "the differences are the stalls (docs/concepts/stalls.md). Writes stalls.json to "
               "--out (default: results/stalls-NNNN). Times are those of the steps that the "
               "program marks, else of the whole program."},
    {.name = "--data",
     .value = "DIR",
     .summary = "with --stalls: real data, evicted for the cold run, read for the warm one",
     .detail = "The word {data} in the command becomes DIR."},
    {.name = "--data-synthetic",
     .value = "DIR",
     .summary = "with --stalls: what {data} becomes in the synthetic runs"},
    {.name = "--synthetic",
     .value = "CMD",
     .summary = "with --stalls: shell command of the synthetic run on all devices"},
    {.name = "--one-device",
     .value = "CMD",
     .summary = "with --stalls: shell command of the synthetic run on one device"},
    {.name = "--two-hosts",
     .value = "CMD",
     .summary = "with --stalls: shell command of the synthetic run on two hosts or more"},
    {.name = "--repeats",
     .value = "N",
     .fallback = "5",
     .summary = "with --stalls: of each of these runs; one repeat gives no intervals"},
    {.name = "--steps",
     .value = "N",
     .summary = "with --stalls: steps that the program takes, where it marks none"},
    {.name = "--list", .summary = "name the collectors, and which can run here"},
    {.name = "--json",
     .summary = "print the summary, or the list, as JSON",
     .detail = "The summary goes to standard error, for standard output is the program's."},
    {.name = "--quiet", .summary = "no summary"},
}};

constexpr std::array<std::string_view, 4> kExamples{
    "forebay record -- python train.py",
    "forebay record -o slow -- torchrun --nproc_per_node=2 train.py",
    "forebay record --pid 4711 --duration 60s",
    "forebay record --stalls --data /mnt/d --data-synthetic /dev/shm/d -- train.py {data}",
};

constexpr size_t kColumns = 80;

std::string list_text(const std::vector<record::Choice>& choices) {
  std::string text;
  for (const record::Choice& choice : choices) {
    const record::Backend& backend = *choice.backend;
    const record::Availability& here = choice.availability;
    const std::string head = fmt::format("{:<8} {:<11} {:<4} ", backend.collector, backend.name,
                                         here.is_available ? "yes" : "no");
    const std::string margin(head.size(), ' ');
    const auto add = [&](const std::string& first, std::string_view word, std::string_view what) {
      text += base::wrapped(std::string(word).append(what), first, margin + "  ", kColumns);
    };
    add(head, "", backend.gives);
    add(margin, "needs ", backend.needs);
    if (!here.is_available) {
      add(margin, "", here.detail);
      if (!here.remedy.empty()) add(margin, "remedy: ", here.remedy);
    }
    if (!backend.misses.empty()) add(margin, "misses ", backend.misses);
  }
  return text;
}

std::string list_json(const std::vector<record::Choice>& choices) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const record::Choice& choice : choices) {
    const record::Backend& backend = *choice.backend;
    json.push_back({{"collector", backend.collector},
                    {"backend", backend.name},
                    {"gives", backend.gives},
                    {"needs", backend.needs},
                    {"misses", backend.misses},
                    {"is_available", choice.availability.is_available},
                    {"detail", choice.availability.detail},
                    {"remedy", choice.availability.remedy}});
  }
  return json.dump(1) + "\n";
}

Result<record::SessionOptions> session_options(const Arguments& arguments) {
  record::SessionOptions options;
  if (arguments.has("PROGRAM")) options.command = arguments.all("PROGRAM");
  if (arguments.has("--pid"))
    options.pid = static_cast<int>(FB_TRY(arguments.integer("--pid", 1, 1 << 22)));
  if (!options.command.empty() && options.pid != 0)
    return fail(ErrorCode::kInvalidArgument,
                "--pid {} follows a process that runs, and '{}' is a program to start: give one",
                options.pid, options.command[0]);
  if (options.command.empty() && options.pid == 0)
    return fail(ErrorCode::kInvalidArgument,
                "name a program to run, or a process with --pid (forebay record -h)");
  if (arguments.has("--out") && arguments.has("-o"))
    return fail(ErrorCode::kInvalidArgument, "-o and --out are the same: give one");
  options.folder =
      arguments.has("-o") ? *arguments.get("-o") : arguments.get("--out").value_or(std::string());
  if (const auto names = arguments.get("--collect"))
    for (const std::string_view name : base::split(*names, ','))
      options.collectors.emplace_back(base::trim(name));
  options.collector.sample_hertz =
      static_cast<int>(FB_TRY(arguments.integer("--hertz", 1, 10'000)));
  options.collector.events_per_second_max =
      static_cast<uint64_t>(FB_TRY(arguments.integer("--events-max", 0, 1'000'000'000)));
  if (arguments.has("--duration")) {
    options.duration_ns = FB_TRY(arguments.duration_ns("--duration"));
    if (options.duration_ns == 0)
      return fail(ErrorCode::kInvalidArgument,
                  "--duration takes a time above 0, not '{}'; without it the recording lasts as "
                  "long as the program",
                  *arguments.get("--duration"));
  }
  options.version = kVersion;
  options.talk = [](std::string_view line) { talk(fmt::format("forebay: {}\n", line)); };
  return options;
}

std::string summary_json(const record::SessionReport& report) {
  nlohmann::ordered_json json{{"folder", report.folder},
                              {"exit_code", report.exit_code},
                              {"duration_ns", report.duration_ns},
                              {"events", report.events},
                              {"bytes", report.bytes},
                              {"calls", report.calls},
                              {"calls_lost", report.calls_lost},
                              {"recorder_cpu_ns", report.recorder_cpu_ns},
                              {"inside_program_ns", report.inside_program_ns}};
  for (const auto& [word, text] : report.lines) json["summary"][word] = text;
  return json.dump(1) + "\n";
}

Result<int> run(const Arguments& arguments) {
  if (arguments.has("--list")) {
    if (arguments.has("PROGRAM") || arguments.has("--pid"))
      return fail(ErrorCode::kInvalidArgument, "--list names the collectors and records nothing");
    const std::vector<record::Choice> choices = record::probe_backends();
    FB_TRY(print(arguments.has("--json") ? list_json(choices) : list_text(choices)));
    return kExitDone;
  }
  if (arguments.has("--stalls")) return record_stalls(arguments);
  FB_TRY(refuse_stall_flags(arguments));
  const record::SessionOptions options = FB_TRY(session_options(arguments));
  const record::SessionReport report = FB_TRY(record::run_session(options));
  if (!report.failure.empty()) {
    talk(fmt::format("forebay: {}\n", report.failure));
    return report.exit_code;
  }
  if (arguments.has("--json")) {
    // Standard output is the program's.
    talk(summary_json(report));
  } else if (!arguments.has("--quiet")) {
    for (const auto& [word, text] : report.lines)
      talk(base::wrapped(text, fmt::format("{:<10}", word), std::string(10, ' '), kColumns));
  }
  return report.exit_code;
}

}  // namespace

const Command kRecord{
    .name = "record",
    .group = "understand",
    .summary = "observe a real program",
    .detail =
        "Runs a program, follows all its processes and threads to their end, and writes what they "
        "did to a folder that 'forebay explain' and 'forebay report' read. The program's input, "
        "output, signals and exit code stay its own. Nothing needs root: what a collector cannot "
        "do here is named with the remedy, and the next best one is used (--list).",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli

// forebay size: how large a data set MLPerf Storage's rules ask for.
#include <array>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/workload_arguments.h"
#include "emulate/rules.h"
#include "report/rules.h"
#include "sys/host.h"

namespace forebay::cli {
namespace {

constexpr std::array<Positional, 2> kPositionals{{
    {.name = "WORKLOAD",
     .summary = "a built-in (forebay list workloads) or a YAML file",
     .required = true},
    {.name = "KEY=VALUE", .summary = "overrides, for example reader.batch_size=8", .repeats = true},
}};

constexpr std::array<Flag, 6> kFlags{{
    {.name = "--accelerators",
     .value = "N",
     .fallback = "1",
     .summary = "emulated accelerators of each host"},
    {.name = "--hosts", .value = "N", .fallback = "1", .summary = "hosts that take part"},
    {.name = "--host-memory",
     .value = "SIZE",
     .summary = "memory of one host, for example 256GiB (default: this one's)"},
    {.name = "--rules",
     .value = "NAME",
     .fallback = "mlperf-v2.0",
     .summary = "whose rules",
     .detail = "Both ask for five times the memory of all hosts and for 500 steps an epoch; they "
               "differ in the workloads that they know.",
     .choices = kRuleSets},
    kCompatFlag,
    {.name = "--json", .summary = "print as JSON"},
}};

constexpr std::array<std::string_view, 2> kExamples{
    "forebay size unet3d_h100 --accelerators 8 --hosts 4 --host-memory 256GiB",
    "forebay size retinanet_b200 --rules mlperf-v3.0 --json",
};

std::string note_on(const workload::Workload& workload, emulate::RuleSet rules) {
  const emulate::RuledWorkload* ruled = emulate::find_ruled_workload(rules, workload.name);
  if (ruled == nullptr) {
    const emulate::RuleSet other = rules == emulate::RuleSet::kMlperfV2
                                       ? emulate::RuleSet::kMlperfV3
                                       : emulate::RuleSet::kMlperfV2;
    if (emulate::find_ruled_workload(other, workload.name) != nullptr)
      return fmt::format("they do not know this workload; --rules {} does",
                         emulate::rule_set_name(other));
    return fmt::format("they do not know this workload, only {}", emulate::ruled_workloads(rules));
  }
  return ruled->is_closed ? "" : "this workload is for the open division";
}

Result<uint64_t> host_memory(const Arguments& arguments) {
  constexpr std::string_view kFlag = "--host-memory";
  if (!arguments.has(kFlag)) return sys::host().memory_bytes;
  const uint64_t bytes = FB_TRY(arguments.bytes(kFlag, 1, 1ULL << 50));
  if (bytes >= 1ULL << 30) return bytes;
  return fail(ErrorCode::kInvalidArgument,
              "{} {}: is less than 1 GiB; give the unit, for example 256GiB", kFlag,
              *arguments.get(kFlag));
}

// What makes the data of that very question, but for its size.
std::string generate_command(const Arguments& arguments) {
  static constexpr std::array<std::string_view, 5> kOthers{"--accelerators", "--hosts",
                                                           "--host-memory", "--rules", "--json"};
  const std::string asked = command_line(arguments, kOthers);
  return "forebay generate" + asked.substr(std::string_view("forebay size").size());
}

Result<int> run(const Arguments& arguments) {
  constexpr int64_t kMost = 1'000'000;
  const workload::Resolved resolved = FB_TRY(resolve_arguments(arguments));
  const workload::Workload& workload = resolved.workload;
  if (workload.workflow.is_checkpoint_only())
    return fail(ErrorCode::kInvalidArgument,
                "{} only saves and restores checkpoints, which the rules ask no data set for; "
                "`forebay run {} --dry-run` lists its sizes",
                workload.name, *arguments.get("WORKLOAD"));
  if (!workload.workflow.train)
    return fail(ErrorCode::kInvalidArgument,
                "{} only makes data; name the workload that trains on it", workload.name);
  report::SizeQuestion question;
  question.workload = workload.name;
  question.accelerators =
      static_cast<uint64_t>(FB_TRY(arguments.integer("--accelerators", 1, kMost)));
  question.hosts = static_cast<uint64_t>(FB_TRY(arguments.integer("--hosts", 1, kMost)));
  question.host_memory_bytes = FB_TRY(host_memory(arguments));
  question.generate_command = generate_command(arguments);
  question.samples_per_file = workload.dataset.num_samples_per_file;
  // One of the flag's choices.
  const emulate::RuleSet rules = *emulate::rule_set_from_name(*arguments.get("--rules"));
  question.rules = emulate::rule_set_name(rules);
  question.note = note_on(workload, rules);
  const emulate::RequiredSize size = FB_TRY(emulate::required_size(
      workload, {.accelerators = question.accelerators * question.hosts,
                 .total_memory_bytes = question.host_memory_bytes * question.hosts}));
  FB_TRY(print(arguments.has("--json") ? report::size_json(question, size)
                                       : report::size_text(question, size)));
  return kExitDone;
}

}  // namespace

const Command kSize{
    .name = "size",
    .group = "prepare",
    .summary = "how much data MLPerf's rules ask for",
    .detail =
        "Gives the least data set that MLPerf Storage's rules allow: files, bytes and "
        "subfolders, the steps of an epoch, and the bytes per second that one accelerator "
        "takes when it never waits. The number of files is rounded up, so the rule is met; "
        "where mlpstorage's own arithmetic gives another number, that is said.",
    .positionals = kPositionals,
    .flags = kFlags,
    .run = run,
    .examples = kExamples};

}  // namespace forebay::cli

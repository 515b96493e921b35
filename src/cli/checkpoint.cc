// forebay checkpoint list | verify | restore | copy | prune.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/inventory.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/workload_arguments.h"
#include "storage/place.h"
#include "sys/host.h"
#include "sys/process.h"
#include "sys/stop_signal.h"

namespace forebay::cli {
namespace {

using checkpoint::CheckpointEntry;
using checkpoint::Inventory;
using checkpoint::SaveName;
using checkpoint::Tier;
using nlohmann::ordered_json;

constexpr Positional kPlace{.name = "DIR",
                            .summary = "folder or s3://BUCKET/PREFIX that holds checkpoints",
                            .required = true};
constexpr Flag kStorage{.name = "--storage",
                        .value = "STORE",
                        .fallback = "local",
                        .summary = "driver and its options (forebay list stores)"};
constexpr Flag kStep{.name = "--step",
                     .value = "N",
                     .summary = "the newest of this step; default: the newest of all"};
constexpr Flag kJson{.name = "--json", .summary = "print as JSON"};
constexpr Flag kQuiet{.name = "--quiet", .summary = "no progress"};

std::string json_text(const ordered_json& all) {
  return all.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string bytes_text(uint64_t bytes) {
  return base::format_bytes(static_cast<double>(bytes));
}

// A place that is not there holds no checkpoints either, but was hardly meant.
Result<std::unique_ptr<Tier>> open_tier(const Arguments& arguments) {
  auto tier = FB_TRY(Tier::open({*arguments.get("DIR"), *arguments.get("--storage")}));
  const auto listed = tier->store().list("");
  if (listed.ok()) return tier;
  if (listed.error().code != ErrorCode::kNotFound || storage::is_object_place(tier->place()))
    return listed.error();
  return fail(ErrorCode::kNotFound,
              "{}: there is no such folder; name a place that a Checkpointer saves to (its tiers)",
              tier->place());
}

Result<std::optional<uint64_t>> step_of(const Arguments& arguments) {
  if (!arguments.has("--step")) return std::optional<uint64_t>();
  return std::optional<uint64_t>(
      static_cast<uint64_t>(FB_TRY(arguments.integer("--step", 0, INT64_MAX))));
}

checkpoint::Progress progress_of(const Arguments& arguments, const std::string& doing) {
  if (arguments.has("--quiet") || arguments.has("--json")) return {};
  return [doing](uint64_t done, uint64_t all) {
    show_progress(fmt::format("{} {} of {}", doing, bytes_text(done), bytes_text(all)));
  };
}

std::string age_text(int64_t unix_ns) {
  const double seconds = sys::unix_seconds() - static_cast<double>(unix_ns) * 1e-9;
  if (seconds < 0) return "in the future";
  if (seconds < 3 * 3600.0) return base::format_seconds(seconds) + " ago";
  if (seconds < 3 * 86400.0) return fmt::format("{:.0f} hours ago", seconds / 3600);
  return fmt::format("{:.0f} days ago", seconds / 86400);
}

// The newest checkpoint before a damaged one that looks whole and that --step N names.
const CheckpointEntry* find_before(const Tier& tier, const Inventory& inventory,
                                   const SaveName& damaged) {
  for (const CheckpointEntry& entry : inventory.checkpoints) {
    if (!checkpoint::is_older(entry.name, damaged) || entry.name.step == damaged.step) continue;
    const auto newest = checkpoint::find_checkpoint(inventory, entry.name.step, tier.place());
    if (newest.ok() && *newest == entry.name && tier.check(entry.name).ok()) return &entry;
  }
  return nullptr;
}

// What a command that could not use a checkpoint offers in its place: itself with the one before.
std::string offer_before(const Arguments& arguments, const Tier& tier, const Inventory& inventory,
                         const SaveName& damaged) {
  const CheckpointEntry* before = find_before(tier, inventory, damaged);
  if (before == nullptr) return "there is no other checkpoint here that looks whole\n";
  static constexpr std::array<std::string_view, 1> kReplaced{"--step"};
  return fmt::format("the checkpoint before it is of step {}, saved {}:\n  {} --step {}\n",
                     before->name.step, age_text(before->saved_unix_ns),
                     command_line(arguments, kReplaced), before->name.step);
}

// Adds that to an error which another checkpoint would not have.
Error with_offer(Error error, const Arguments& arguments, const Tier& tier,
                 const Inventory& inventory, const SaveName& name) {
  if (error.code != ErrorCode::kCorruption && error.code != ErrorCode::kNotFound) return error;
  std::string offer = offer_before(arguments, tier, inventory, name);
  offer.pop_back();
  error.message += "\n" + offer;
  return error;
}

// --- list ---

std::string metrics_text(const CheckpointEntry& entry) {
  std::string text;
  for (const auto& [name, value] : entry.metrics) text += fmt::format("  {}={:.6g}", name, value);
  return text;
}

std::string elsewhere_text(const CheckpointEntry& entry) {
  if (entry.shards_elsewhere == 0) return "";
  return fmt::format("  {} shards on other hosts", entry.shards_elsewhere);
}

// `prune`: the command that removes leftovers.
std::string as_text(const Inventory& inventory, std::string_view prune) {
  std::string out;
  if (!inventory.checkpoints.empty())
    out += fmt::format("{:>12}  {:>9}  {:>7}  {:>6}  {:>5}  {}\n", "step", "size", "tensors",
                       "shards", "ranks", "saved");
  for (const CheckpointEntry& entry : inventory.checkpoints) {
    if (!entry.problem.empty()) {
      out += fmt::format("{:>12}  damaged: {}\n", entry.name.step, entry.problem);
      continue;
    }
    out += fmt::format("{:>12}  {:>9}  {:>7}  {:>6}  {:>5}  {}{}{}\n", entry.name.step,
                       bytes_text(entry.bytes), entry.tensors, entry.shards, entry.world_size,
                       age_text(entry.saved_unix_ns), metrics_text(entry), elsewhere_text(entry));
  }
  for (const Tier::Leftover& left : inventory.leftovers)
    out += fmt::format("leftover      {}: {}, {}\n", left.folder, left.why, bytes_text(left.bytes));
  if (!inventory.leftovers.empty()) out += fmt::format("              {} removes them\n", prune);
  return out.empty() ? "no checkpoints\n" : out;
}

// Numbers; "nan", "inf" and "-inf" where JSON has none.
ordered_json metrics_json(const CheckpointEntry& entry) {
  ordered_json metrics = ordered_json::object();
  for (const auto& [name, value] : entry.metrics)
    metrics[name] =
        std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
  return metrics;
}

std::string as_json(const Inventory& inventory) {
  ordered_json list = ordered_json::array(), leftovers = ordered_json::array();
  for (const CheckpointEntry& entry : inventory.checkpoints) {
    ordered_json one{{"step", entry.name.step}, {"folder", entry.folder}};
    if (!entry.problem.empty()) {
      one["problem"] = entry.problem;
    } else {
      one["bytes"] = entry.bytes;
      one["tensors"] = entry.tensors;
      one["shards"] = entry.shards;
      one["shards_elsewhere"] = entry.shards_elsewhere;
      one["world_size"] = entry.world_size;
      one["saved_unix_ns"] = entry.saved_unix_ns;
      one["metrics"] = metrics_json(entry);
      one["metadata"] = entry.metadata;
    }
    list.push_back(std::move(one));
  }
  for (const Tier::Leftover& left : inventory.leftovers)
    leftovers.push_back(
        {{"folder", left.folder}, {"files", left.files}, {"bytes", left.bytes}, {"why", left.why}});
  const ordered_json all{{"schema_version", 1}, {"checkpoints", list}, {"leftovers", leftovers}};
  return json_text(all);
}

constexpr std::string_view kListWords = "forebay checkpoint list";

Result<int> run_list(const Arguments& arguments) {
  const auto tier = FB_TRY(open_tier(arguments));
  const Inventory inventory = FB_TRY(checkpoint::take_inventory(*tier));
  for (const std::string& note : inventory.notes) talk("note    " + note + "\n");
  const std::string here = command_line(arguments).substr(kListWords.size());
  const std::string prune = fmt::format("forebay checkpoint prune{} --leftovers", here);
  FB_TRY(print(arguments.has("--json") ? as_json(inventory) : as_text(inventory, prune)));
  return kExitDone;
}

constexpr std::array<Positional, 1> kPlaceOnly{{kPlace}};
constexpr std::array<Flag, 2> kListFlags{{kStorage, kJson}};
constexpr std::array<std::string_view, 2> kListExamples{
    "forebay checkpoint list /lustre/run7", "forebay checkpoint list s3://bucket/run7 --json"};

// --- verify ---

// By a job that lives, since it was listed.
bool is_removed(const Tier& tier, const SaveName& name) {
  const auto contents = tier.list();
  return contents.ok() &&
         std::find(contents->saves.begin(), contents->saves.end(), name) == contents->saves.end();
}

Result<int> run_verify(const Arguments& arguments) {
  sys::StopSignal signal;
  const auto tier = FB_TRY(open_tier(arguments));
  const Inventory inventory = FB_TRY(checkpoint::take_inventory(*tier));
  const auto step = FB_TRY(step_of(arguments));
  std::vector<SaveName> names;
  if (arguments.has("--all")) {
    for (const CheckpointEntry& entry : inventory.checkpoints) names.push_back(entry.name);
  } else {
    names.push_back(FB_TRY(checkpoint::find_checkpoint(inventory, step, tier->place())));
  }
  ordered_json list = ordered_json::array();
  std::string text;
  bool is_whole = true;
  for (const SaveName& name : names) {
    const auto verified = FB_TRY(checkpoint::verify_checkpoint(
        *tier, name, sys::usable_cpu_count(),
        progress_of(arguments, fmt::format("step {}:", name.step)), signal.token()));
    show_progress("");
    if (!verified.damage.empty() && is_removed(*tier, name)) {
      talk(fmt::format("note    step {} was removed meanwhile\n", name.step));
      continue;
    }
    is_whole = is_whole && verified.damage.empty();
    ordered_json damage = ordered_json::array();
    text += fmt::format("step {}: {}\n", name.step,
                        verified.damage.empty()
                            ? "whole, " + bytes_text(verified.bytes) + " read"
                            : base::format_counted(verified.damage.size(), "files") + " damaged");
    for (const checkpoint::Damage& one : verified.damage) {
      text += fmt::format("  {}\n", one.what);
      damage.push_back({{"file", one.file}, {"what", one.what}});
    }
    list.push_back({{"step", name.step},
                    {"folder", checkpoint::folder_name(name)},
                    {"bytes", verified.bytes},
                    {"damage", damage}});
  }
  const ordered_json all{{"schema_version", 1}, {"checkpoints", list}};
  FB_TRY(print(arguments.has("--json") ? json_text(all) : text));
  if (is_whole) return kExitDone;
  if (!arguments.has("--all")) talk(offer_before(arguments, *tier, inventory, names.front()));
  return kExitFailed;
}

constexpr std::array<Flag, 5> kVerifyFlags{
    {kStep, {.name = "--all", .summary = "every checkpoint there"}, kStorage, kJson, kQuiet}};
constexpr std::array<std::string_view, 1> kVerifyExamples{
    "forebay checkpoint verify /lustre/run7 --all"};

// --- restore ---

Result<int> run_restore(const Arguments& arguments) {
  sys::StopSignal signal;
  const auto tier = FB_TRY(open_tier(arguments));
  const Inventory inventory = FB_TRY(checkpoint::take_inventory(*tier));
  const auto step = FB_TRY(step_of(arguments));
  const SaveName name = FB_TRY(checkpoint::find_checkpoint(inventory, step, tier->place()));
  const std::string folder = *arguments.get("FOLDER");
  const uint64_t file_bytes_max = FB_TRY(arguments.bytes("--file-size", 1));
  const auto extracted = checkpoint::extract_checkpoint(*tier, name, folder, file_bytes_max,
                                                        sys::usable_cpu_count(), signal.token());
  if (!extracted.ok()) return with_offer(extracted.error(), arguments, *tier, inventory, name);
  const checkpoint::Extracted& done = *extracted;
  for (const std::string& note : done.notes) talk("note    " + note + "\n");
  if (arguments.has("--json")) {
    FB_TRY(print(json_text({{"schema_version", 1},
                            {"step", done.step},
                            {"folder", folder},
                            {"files", done.files},
                            {"tensors", done.tensors},
                            {"bytes", done.bytes},
                            {"notes", done.notes}})));
    return kExitDone;
  }
  FB_TRY(
      print(fmt::format("step {}: {} in {}, {}, as {} in {}\n", done.step,
                        base::format_counted(done.tensors, "tensors"), bytes_text(done.bytes),
                        "whole", base::format_counted(done.files, "safetensors files"), folder)));
  return kExitDone;
}

constexpr std::array<Positional, 2> kRestorePlaces{
    {kPlace, {.name = "FOLDER", .summary = "a new or empty folder", .required = true}}};
constexpr std::array<Flag, 4> kRestoreFlags{
    {kStep,
     {.name = "--file-size",
      .value = "BYTES",
      .fallback = "4GB",
      .summary = "most of one file, unless one tensor alone is larger"},
     kStorage,
     kJson}};
constexpr std::array<std::string_view, 1> kRestoreExamples{
    "forebay checkpoint restore /lustre/run7 exported --step 1000"};

// --- copy ---

Result<int> run_copy(const Arguments& arguments) {
  sys::StopSignal signal;
  const auto from = FB_TRY(open_tier(arguments));
  const auto to = FB_TRY(Tier::open({*arguments.get("TO"), *arguments.get("--to-storage")}));
  const Inventory inventory = FB_TRY(checkpoint::take_inventory(*from));
  const auto step = FB_TRY(step_of(arguments));
  const SaveName name = FB_TRY(checkpoint::find_checkpoint(inventory, step, from->place()));
  const auto limit = static_cast<double>(FB_TRY(arguments.bytes_per_second("--limit")));
  const auto copied = checkpoint::copy_checkpoint(*from, *to, name, limit,
                                                  progress_of(arguments, "copied"), signal.token());
  show_progress("");
  if (!copied.ok()) return with_offer(copied.error(), arguments, *from, inventory, name);
  const uint64_t bytes = *copied;
  if (arguments.has("--json")) {
    FB_TRY(print(json_text({{"schema_version", 1},
                            {"step", name.step},
                            {"folder", checkpoint::folder_name(name)},
                            {"to", to->place()},
                            {"was_there", bytes == 0},
                            {"bytes", bytes}})));
    return kExitDone;
  }
  FB_TRY(print(bytes == 0 ? fmt::format("step {} is in {} already\n", name.step, to->place())
                          : fmt::format("step {}: {} copied to {}, every chunk checked\n",
                                        name.step, bytes_text(bytes), to->place())));
  return kExitDone;
}

constexpr std::array<Positional, 2> kCopyPlaces{
    {kPlace,
     {.name = "TO", .summary = "folder or s3://BUCKET/PREFIX to copy to", .required = true}}};
constexpr std::array<Flag, 6> kCopyFlags{
    {kStep,
     {.name = "--limit", .value = "RATE", .fallback = "0", .summary = "200MB/s; 0 = none"},
     kStorage,
     {.name = "--to-storage", .value = "STORE", .fallback = "local", .summary = "of TO"},
     kJson,
     kQuiet}};
constexpr std::array<std::string_view, 1> kCopyExamples{
    "forebay checkpoint copy /nvme/run7 s3://bucket/run7 --limit 200MB/s"};

// --- prune ---

// 0 = not given.
Result<uint64_t> count_of(const Arguments& arguments, std::string_view flag) {
  if (!arguments.has(flag)) return uint64_t{0};
  return static_cast<uint64_t>(FB_TRY(arguments.integer(flag, 1, INT64_MAX)));
}

Result<checkpoint::PruneOptions> prune_options_of(const Arguments& arguments) {
  checkpoint::PruneOptions options;
  options.removes_leftovers = arguments.has("--leftovers");
  options.only_says = arguments.has("--dry-run");
  options.threads = sys::usable_cpu_count();
  options.progress = progress_of(arguments, "reading the newest checkpoint:");
  checkpoint::Retention& rules = options.rules;
  rules.keep_last = FB_TRY(count_of(arguments, "--keep"));
  rules.keep_every = FB_TRY(count_of(arguments, "--keep-every"));
  rules.keep_best = FB_TRY(count_of(arguments, "--keep-best"));
  options.metric = arguments.get("--metric").value_or("");
  if (options.metric.starts_with('-')) {
    rules.is_lower_better = false;
    options.metric.erase(0, 1);
  }
  if (options.metric.empty() != (rules.keep_best == 0))
    return fail(ErrorCode::kInvalidArgument,
                "--keep-best and --metric go together: how many to keep, and what judges them");
  const bool has_rule = rules.keep_last + rules.keep_every + rules.keep_best > 0;
  if (!has_rule && !options.removes_leftovers)
    return fail(ErrorCode::kInvalidArgument,
                "say what to keep (--keep N, --keep-every N, --keep-best N), or --leftovers for "
                "saves that did not end");
  // The newest stays whatever the rules are.
  if (has_rule && rules.keep_last == 0) rules.keep_last = 1;
  return options;
}

// A metric that no checkpoint has is a slip, after which the best would go.
Status check_metric(const Tier& tier, const std::string& metric) {
  std::set<std::string_view> known;
  const Inventory inventory = FB_TRY(checkpoint::take_inventory(tier));
  for (const CheckpointEntry& entry : inventory.checkpoints)
    for (const auto& [name, value] : entry.metrics) known.insert(name);
  if (inventory.checkpoints.empty() || known.contains(metric)) return {};
  return fail(ErrorCode::kInvalidArgument, "--metric {}: no checkpoint in {} has it; they have {}",
              metric, tier.place(),
              known.empty() ? "no metrics" : fmt::format("{}", fmt::join(known, ", ")));
}

std::string as_text(const checkpoint::Pruned& pruned, bool only_says) {
  std::string text;
  for (const SaveName& name : pruned.removed) text += fmt::format("step {}\n", name.step);
  for (const std::string& folder : pruned.leftovers) text += folder + "\n";
  text += fmt::format("{} {}, {} and {}\n", bytes_text(pruned.bytes),
                      only_says ? "would be freed" : "freed",
                      base::format_counted(pruned.removed.size(), "checkpoints"),
                      base::format_counted(pruned.leftovers.size(), "leftovers"));
  return text;
}

std::string as_json(const checkpoint::Pruned& pruned, bool only_says) {
  ordered_json removed = ordered_json::array(), in_use = removed, damaged = removed;
  ordered_json failed = removed;
  for (const SaveName& name : pruned.removed) removed.push_back(checkpoint::folder_name(name));
  for (const SaveName& name : pruned.in_use) in_use.push_back(checkpoint::folder_name(name));
  for (const checkpoint::Damage& one : pruned.damaged)
    damaged.push_back({{"folder", one.file}, {"what", one.what}});
  for (const checkpoint::Damage& one : pruned.failed)
    failed.push_back({{"folder", one.file}, {"what", one.what}});
  return json_text({{"schema_version", 1},
                    {"only_says", only_says},
                    {"removed", removed},
                    {"in_use", in_use},
                    {"damaged", damaged},
                    {"leftovers", pruned.leftovers},
                    {"kept", pruned.kept},
                    {"failed", failed},
                    {"bytes", pruned.bytes}});
}

Result<int> run_prune(const Arguments& arguments) {
  sys::StopSignal signal;
  const auto tier = FB_TRY(open_tier(arguments));
  const checkpoint::PruneOptions options = FB_TRY(prune_options_of(arguments));
  if (!options.metric.empty()) FB_TRY(check_metric(*tier, options.metric));
  const checkpoint::Pruned pruned = FB_TRY(checkpoint::prune(*tier, options, signal.token()));
  show_progress("");
  for (const checkpoint::Damage& one : pruned.damaged)
    talk(fmt::format("note    {} is damaged and counts for no rule: {}\n", one.file, one.what));
  for (const SaveName& name : pruned.in_use)
    talk(fmt::format("note    step {} is being read, and stays\n", name.step));
  for (const std::string& folder : pruned.kept)
    talk(fmt::format("note    {} may still be written, and stays\n", folder));
  for (const checkpoint::Damage& one : pruned.failed)
    talk(fmt::format("note    {} could not be removed: {}\n", one.file, one.what));
  for (const std::string& note : pruned.notes) talk("note    " + note + "\n");
  FB_TRY(print(arguments.has("--json") ? as_json(pruned, options.only_says)
                                       : as_text(pruned, options.only_says)));
  return pruned.failed.empty() ? kExitDone : kExitFailed;
}

constexpr std::array<Flag, 9> kPruneFlags{
    {{.name = "--keep", .value = "N", .summary = "the newest so many stay"},
     {.name = "--keep-every",
      .value = "N",
      .summary = "those of steps that are multiples of it stay"},
     {.name = "--keep-best", .value = "N", .summary = "the best by --metric stay"},
     {.name = "--metric",
      .value = "NAME",
      .summary = "lower is better; with a '-' in front higher (--metric=-NAME)"},
     {.name = "--leftovers", .summary = "remove saves and removals that did not end"},
     {.name = "--dry-run", .summary = "say what would be removed"},
     kStorage,
     kJson,
     kQuiet}};
constexpr std::array<std::string_view, 2> kPruneExamples{
    "forebay checkpoint prune /lustre/run7 --keep 3 --keep-every 10000",
    "forebay checkpoint prune /lustre/run7 --leftovers --dry-run"};

}  // namespace

const Command kCheckpointList{
    .name = "checkpoint list",
    .group = "checkpoints",
    .summary = "show the checkpoints at a place",
    .detail =
        "Newest first, by what their manifests say; nothing else of them is read. Saves that "
        "did not end are listed as leftovers: they are no checkpoints.",
    .positionals = kPlaceOnly,
    .flags = kListFlags,
    .run = run_list,
    .examples = kListExamples};

const Command kCheckpointVerify{
    .name = "checkpoint verify",
    .group = "checkpoints",
    .summary = "read every byte of a checkpoint and check it",
    .detail = "Exit code 1 when anything is damaged; each damaged file is named.",
    .positionals = kPlaceOnly,
    .flags = kVerifyFlags,
    .run = run_verify,
    .examples = kVerifyExamples};

const Command kCheckpointRestore{
    .name = "checkpoint restore",
    .group = "checkpoints",
    .summary = "write a checkpoint as plain safetensors files",
    .detail =
        "Tensors that were saved in parts by several ranks are put together. The rest of the "
        "state is in tree.json.",
    .positionals = kRestorePlaces,
    .flags = kRestoreFlags,
    .run = run_restore,
    .examples = kRestoreExamples};

const Command kCheckpointCopy{
    .name = "checkpoint copy",
    .group = "checkpoints",
    .summary = "copy a checkpoint to another place",
    .detail =
        "Every chunk is checked on the way; what is copied becomes a checkpoint there once "
        "it is whole.",
    .positionals = kCopyPlaces,
    .flags = kCopyFlags,
    .run = run_copy,
    .examples = kCopyExamples};

const Command kCheckpointPrune{
    .name = "checkpoint prune",
    .group = "checkpoints",
    .summary = "remove old checkpoints and leftovers",
    .detail =
        "What no rule keeps goes; one of --keep, --keep-every and --keep-best is a rule. "
        "Never the newest checkpoint that is whole: it is read before anything goes. Damaged ones "
        "count for no rule; those that somebody reads stay, where the file system has locks. "
        "Leftovers that a living process writes stay; where nobody can tell, those that were "
        "touched "
        "within an hour.",
    .positionals = kPlaceOnly,
    .flags = kPruneFlags,
    .run = run_prune,
    .examples = kPruneExamples};

}  // namespace forebay::cli

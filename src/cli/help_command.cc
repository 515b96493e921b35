// forebay help: commands, concepts and workload keys; also the generated documents.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/version.h"
#include "ops/pipeline.h"
#include "workload/workload.h"

namespace forebay::cli {
namespace {

constexpr std::array<std::string_view, 4> kDocuments{"man", "cli", "keys", "ops"};

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "TOPIC",
     .summary = "a command, or a workload key such as reader.prefetch_size",
     .repeats = true},
}};

constexpr std::array<Flag, 1> kFlags{{
    {.name = "--document",
     .value = "NAME",
     .summary = "print a generated document whole",
     .detail = "man: forebay.1; cli: docs/cli.md; keys: docs/dlio-keys.md; ops: docs/ops.md.",
     .choices = kDocuments},
}};

std::string key_text(const workload::KeyInfo& key) {
  std::string text = fmt::format("{}\n  {}\n\n", key.key, key.help);
  const auto line = [&](std::string_view label, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<9} {}\n", label, value);
  };
  line("type", key.type);
  line("unit", key.unit);
  line("range", key.range);
  line("default", key.fallback.empty() ? "(none)" : key.fallback);
  line("support", key.support.empty() ? "full" : key.support);
  line("in DLIO", key.differs);
  return text;
}

// The key as the schema spells it: without prefixes, value, or section when only one has that name.
std::string schema_key(std::string topic) {
  topic = topic.substr(0, topic.find('='));
  topic.erase(0, topic.find_first_not_of('+'));
  if (topic.starts_with("workload.")) topic.erase(0, std::string_view("workload.").size());
  std::string found;
  for (const workload::KeyInfo& key : workload::schema()) {
    if (key.key == topic) return topic;
    if (!key.key.ends_with("." + topic)) continue;
    if (!found.empty()) return topic;
    found = key.key;
  }
  return found.empty() ? topic : found;
}

// A line for each key of a section: "checkpoint".
std::string section_text(std::string_view section) {
  std::string text;
  for (const workload::KeyInfo& key : workload::schema())
    if (key.key.starts_with(fmt::format("{}.", section)))
      text += fmt::format("{:<42} {}\n", key.key, key.help);
  return text;
}

Result<std::string> topic_text(const std::string& typed) {
  for (const Command* command : commands())
    if (command->name == typed) return long_help(*command);
  if (!commands_of(commands(), typed).empty()) {
    const std::string keys = section_text(typed);
    return group_help(commands(), typed) +
           (keys.empty() ? "" : "\nkeys of a workload (forebay help KEY):\n" + keys);
  }
  const std::string topic = schema_key(typed);
  if (std::string section = section_text(topic); !section.empty()) return section;
  std::vector<std::string_view> known;
  for (const workload::KeyInfo& key : workload::schema()) {
    if (key.key == topic) return key_text(key);
    known.push_back(key.key);
  }
  for (const Command* command : commands()) known.push_back(command->name);
  const std::string nearest = base::nearest_name(topic, known);
  return fail(ErrorCode::kInvalidArgument,
              "no help on '{}'{} Topics are commands and workload keys "
              "(docs/dlio-keys.md)",
              topic, nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest));
}

Result<int> run(const Arguments& arguments) {
  std::string text;
  if (const auto document = arguments.get("--document")) {
    text = *document == "man"   ? man_page(commands(), kVersion)
           : *document == "cli" ? cli_markdown(commands())
           : *document == "ops" ? ops::ops_markdown()
                                : workload::schema_markdown();
  } else if (arguments.has("TOPIC")) {
    text = FB_TRY(topic_text(fmt::format("{}", fmt::join(arguments.all("TOPIC"), " "))));
  } else {
    text = overview(commands(), kStartHere);
  }
  FB_TRY(print(text));
  return kExitDone;
}

}  // namespace

const Command kHelp{.name = "help",
                    .group = "prepare",
                    .summary = "explain a command or a key",
                    .positionals = kPositionals,
                    .flags = kFlags,
                    .run = run};

}  // namespace forebay::cli

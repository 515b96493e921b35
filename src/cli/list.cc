// forebay list: what there is to choose from.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/console.h"
#include "formats/format.h"
#include "storage/store.h"
#include "workload/workload.h"

namespace forebay::cli {
namespace {

constexpr std::array<std::string_view, 3> kThings{"workloads", "formats", "stores"};

constexpr std::array<Positional, 1> kPositionals{{
    {.name = "WHAT",
     .summary = "workloads, formats or stores",
     .required = true,
     .choices = kThings},
}};

constexpr std::array<Flag, 1> kFlags{{{.name = "--json", .summary = "print as JSON"}}};

struct Entry {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> options;
};

std::vector<Entry> entries(std::string_view what) {
  std::vector<Entry> list;
  if (what == "workloads")
    for (const workload::Builtin& builtin : workload::builtin_workloads())
      list.push_back({std::string(builtin.name), std::string(builtin.summary), {}});
  if (what == "formats")
    for (const formats::Format* format : formats::builtin_formats())
      list.push_back({std::string(format->name), std::string(format->summary), {}});
  if (what != "stores") return list;
  for (const storage::Driver* driver : storage::builtin_drivers()) {
    Entry entry{std::string(driver->name), std::string(driver->summary), {}};
    for (const storage::StoreOption& option : driver->options)
      entry.options.emplace_back(fmt::format("{}={}", option.name, option.fallback),
                                 fmt::format("{} ({})", option.help, option.unit_and_range));
    list.push_back(std::move(entry));
  }
  return list;
}

std::string as_text(const std::vector<Entry>& list) {
  std::string text;
  size_t width = 20;
  for (const Entry& entry : list) width = std::max(width, entry.name.size());
  for (const Entry& entry : list) {
    text += fmt::format("{:<{}} {}\n", entry.name, width, entry.summary);
    for (const auto& [option, help] : entry.options)
      text += fmt::format("    {:<24} {}\n", option, help);
  }
  return text;
}

std::string as_json(const std::vector<Entry>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Entry& entry : list) {
    nlohmann::ordered_json one{{"name", entry.name}, {"summary", entry.summary}};
    for (const auto& [option, help] : entry.options) one["options"][option] = help;
    json.push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

Result<int> run(const Arguments& arguments) {
  const std::vector<Entry> list = entries(*arguments.get("WHAT"));
  FB_TRY(print(arguments.has("--json") ? as_json(list) : as_text(list)));
  return kExitDone;
}

}  // namespace

const Command kList{.name = "list",
                    .group = "prepare",
                    .summary = "name workloads, formats, stores",
                    .positionals = kPositionals,
                    .flags = kFlags,
                    .run = run};

}  // namespace forebay::cli

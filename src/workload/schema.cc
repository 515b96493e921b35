// The key table as people see it.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "base/text.h"
#include "workload/state.h"
#include "workload/workload.h"

namespace forebay::workload {

namespace {

std::string choices_without(std::string_view choices, std::string_view supported) {
  const auto good = base::split(supported, ' ');
  std::vector<std::string_view> rest;
  for (const std::string_view choice : base::split(choices, ' ')) {
    if (std::find(good.begin(), good.end(), choice) == good.end()) rest.push_back(choice);
  }
  return fmt::format("{}", fmt::join(rest, ", "));
}

std::string support_text(const Row& row) {
  if (row.support == Support::kFull) return std::string(row.reason);
  if (row.support == Support::kNoEffect) return fmt::format("warns: {}", row.reason);
  if (row.support == Support::kDlioCommand)
    return fmt::format("warns outside the DLIO command line: {}", row.reason);
  const std::string_view good = row.supported.empty() ? row.fallback : row.supported;
  const std::string values = row.type == Type::kChoice
                                 ? choices_without(row.limits.choices, good)
                                 : fmt::format("not {}", fmt::join(base::split(good, ' '), " or "));
  const std::string_view need = row.need == Need::kAlways ? ""
                                : row.need == Need::kCheckpoint
                                    ? " while workflow.checkpoint is true"
                                : row.need == Need::kProfiling ? " while workflow.profiling is true"
                                                               : " while training or evaluating";
  return fmt::format("refused when {}{}: {}", values, need, row.reason);
}

std::string type_text(const Row& row) {
  return row.type == Type::kChoice ? range_text(row.type, row.limits)
                                   : std::string(type_name(row.type));
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// "X_stdev" changes X.
bool is_spread(std::string_view key) {
  constexpr std::string_view kEnd = "_stdev";
  return key.size() > kEnd.size() && key.substr(key.size() - kEnd.size()) == kEnd;
}

void append_key(std::string& out, const KeyInfo& info, const Row& row) {
  std::string what = cell(info.help);
  if (!row.also.empty())
    what += fmt::format(" Also: {}.", fmt::join(base::split(row.also, ' '), ", "));
  if (!info.support.empty()) what += fmt::format(" *{}*", cell(info.support));
  const bool has_range = !info.range.empty() && row.type != Type::kChoice;
  std::string type = cell(info.type);
  if (has_range) type += fmt::format(", {}", info.range);
  if (!info.unit.empty() && info.type != info.unit) type += fmt::format(" ({})", info.unit);
  out += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", info.key, type, info.fallback, what,
                     cell(info.differs));
}

}  // namespace

std::span<const KeyInfo> schema() {
  // A deque never moves its strings, so views of them stay valid.
  static std::deque<std::string> texts;
  static const std::vector<KeyInfo> keys = [] {
    const auto kept = [](std::string text) -> std::string_view {
      return texts.emplace_back(std::move(text));
    };
    std::vector<KeyInfo> all;
    for (const Row* row : all_rows()) {
      all.push_back({.key = row->key,
                     .type = kept(type_text(*row)),
                     .unit = row->unit,
                     .range = kept(range_text(row->type, row->limits)),
                     .fallback = std::string(row->fallback),
                     .help = row->help,
                     .differs = row->differs,
                     .support = kept(support_text(*row)),
                     .changes_run = row->store != nullptr || is_spread(row->key)});
    }
    return all;
  }();
  return keys;
}

std::string schema_markdown() {
  std::string out =
      "# Workload keys: DLIO's, and what Forebay makes of them\n\n"
      "Every key that a workload file or an override may set. This page is made from the table "
      "that\n"
      "also reads the files. *Italics* say where a key does less here than its name promises. The "
      "last\n"
      "column says where DLIO behaves otherwise, and why Forebay does not follow it.\n\n"
      "Sizes may carry a unit (`4MiB`), times too (`20ms`). A distribution is a number of "
      "seconds,\n"
      "`{mean: M, stdev: S}`, or `{type: T, ...}` with T one of normal (mean, stdev), uniform "
      "(min,\n"
      "max), gamma (shape, scale), exponential (scale), poisson (lam); draws below 0 count as 0.\n"
      "`data_reader:` is another name of `reader:`.\n\n"
      "Three DLIOs are in use and do not agree. `--compat` names the one whose defaults and file\n"
      "layouts hold; none of their defects comes with it.\n\n"
      "| | dlio-main (default) | mlps-v2.0 | mlps-v3.0 |\n|---|---|---|---|\n"
      "| used by | direct users of DLIO | MLPerf Storage v2.0 | MLPerf Storage v3.0 |\n"
      "| hdf5 files that are made | `records_0`, newest file format | `records`, oldest file "
      "format | `records_0`, newest |\n"
      "| csv files that are made | values only | a header row and an index column | values only "
      "|\n"
      "| chunks of hdf5 files | `dataset.hdf5.chunk_dims` | also `dataset.enable_chunking`, "
      "`dataset.chunk_size` | `dataset.hdf5.chunk_dims` |\n"
      "| `--payload` when not given | decode | decode | bytes: that program reads and does not "
      "decode |\n"
      "| `--cache` when not given | as-is | as-is | cold: that program drops the page cache before "
      "each epoch |\n\n"
      "Every layout is read, whichever is chosen.\n";
  std::string_view section = "-";
  const auto keys = schema();
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t dot = keys[i].key.find('.');
    const std::string_view own = dot == std::string_view::npos ? "" : keys[i].key.substr(0, dot);
    if (own != section) {
      out += fmt::format(
          "\n## {}\n\n| key | type (unit) | default | what it does | where DLIO differs, and why "
          "|\n"
          "|---|---|---|---|---|\n",
          own.empty() ? "outside sections" : own);
      section = own;
    }
    append_key(out, keys[i], *all_rows()[i]);
  }
  return out;
}

}  // namespace forebay::workload

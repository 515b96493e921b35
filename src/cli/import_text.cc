#include "cli/import_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "base/units.h"
#include "base/wrapped_text.h"

namespace forebay::cli {
namespace {

using base::format_count;
using base::format_counted;

constexpr size_t kEachMax = 3;   // more files are summed up
constexpr size_t kNamesMax = 3;  // of many that share a reason

// A paragraph of lines that fit a terminal; those after the first are indented.
std::string paragraph(const std::string& text, const std::string& first = "") {
  constexpr size_t kColumns = 80;
  return base::wrapped(text, first, first + "  ", kColumns);
}

std::string name_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

// "a, b, c and 4 more"
std::string some_of(const std::vector<std::string>& names) {
  const size_t shown = std::min(kNamesMax, names.size());
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", format_count(names.size() - shown));
  return text;
}

// What one reason cost, over files.
struct Loss {
  uint64_t count = 0;
  std::vector<std::string> files;
};
using Losses = std::map<std::string, Loss>;

struct Account {
  Losses skipped, mended, damaged;
  std::set<std::string> negative_names;
};

Account account_of(const ingest::Imported& imported) {
  Account sums;
  const auto add = [](Losses& losses, const std::string& reason, uint64_t count,
                      const std::string& file) {
    Loss& loss = losses[reason];
    loss.count += count;
    loss.files.push_back(file);
  };
  for (const ingest::ImportedFile& file : imported.files) {
    const std::string name = name_of(file.source);
    if (file.account.damage) add(sums.damaged, *file.account.damage, 1, name);
    for (const auto& [reason, count] : file.account.skipped) add(sums.skipped, reason, count, name);
    for (const auto& [reason, count] : file.account.repaired) add(sums.mended, reason, count, name);
    sums.negative_names.insert(file.account.negative_names.begin(),
                               file.account.negative_names.end());
  }
  return sums;
}

// " (a, b)" behind the reason that is about spans of these names.
std::string negative_text(const std::string& reason, const std::set<std::string>& names) {
  if (reason.find("negative") == std::string::npos || names.empty()) return "";
  return fmt::format(" ({})", some_of({names.begin(), names.end()}));
}

std::string sums_text(const ingest::Imported& imported) {
  const Account sums = account_of(imported);
  std::string text;
  for (const auto& [reason, loss] : sums.damaged)
    text +=
        paragraph(fmt::format("not read to the end: {}: {}", some_of(loss.files), reason), "  ");
  for (const auto& [reason, loss] : sums.skipped) {
    text += paragraph(fmt::format("skipped {} in {}: {}", format_count(loss.count),
                                  format_counted(loss.files.size(), "files"), reason),
                      "  ");
  }
  for (const auto& [reason, loss] : sums.mended) {
    text += paragraph(fmt::format("mended {} in {}: {}{}", format_count(loss.count),
                                  format_counted(loss.files.size(), "files"), reason,
                                  negative_text(reason, sums.negative_names)),
                      "  ");
  }
  return text;
}

std::string one_file_text(const ingest::ImportedFile& file) {
  std::string line = fmt::format("{}: {}, {}, {} -> {}", file.source, file.format,
                                 format_counted(file.events, "events"),
                                 base::format_bytes(static_cast<double>(file.source_bytes)),
                                 base::format_bytes(static_cast<double>(file.trace_bytes)));
  if (file.rank >= 0) line += fmt::format(", rank {}", file.rank);
  std::string text = paragraph(line);
  if (file.account.damage)
    text += paragraph(fmt::format("not read to the end: {}", *file.account.damage), "  ");
  for (const auto& [reason, count] : file.account.skipped)
    text += paragraph(fmt::format("skipped {}: {}", format_count(count), reason), "  ");
  for (const auto& [reason, count] : file.account.repaired) {
    text += paragraph(fmt::format("mended {}: {}{}", format_count(count), reason,
                                  negative_text(reason, file.account.negative_names)),
                      "  ");
  }
  return text;
}

// "ranks 0 to 47", "4 ranks"; nothing where none is known.
std::string ranks_text(const std::set<int32_t>& ranks) {
  if (ranks.empty()) return "";
  if (ranks.size() == 1) return fmt::format(", rank {}", *ranks.begin());
  const bool is_whole = *ranks.rbegin() - *ranks.begin() + 1 == static_cast<int64_t>(ranks.size());
  return is_whole ? fmt::format(", ranks {} to {}", *ranks.begin(), *ranks.rbegin())
                  : fmt::format(", {} ranks", ranks.size());
}

// A line a format.
std::string formats_text(const ingest::Imported& imported) {
  struct Sum {
    uint64_t files = 0, events = 0, source_bytes = 0, trace_bytes = 0;
    std::set<int32_t> ranks;
  };
  std::map<std::string, Sum> formats;
  for (const ingest::ImportedFile& file : imported.files) {
    Sum& sum = formats[file.format];
    ++sum.files;
    sum.events += file.events;
    sum.source_bytes += file.source_bytes;
    sum.trace_bytes += file.trace_bytes;
    if (file.rank >= 0) sum.ranks.insert(file.rank);
  }
  std::string text;
  for (const auto& [format, sum] : formats) {
    text += paragraph(fmt::format(
        "{}: {}, {}, {} -> {}{}", format, format_counted(sum.files, "files"),
        format_counted(sum.events, "events"),
        base::format_bytes(static_cast<double>(sum.source_bytes)),
        base::format_bytes(static_cast<double>(sum.trace_bytes)), ranks_text(sum.ranks)));
  }
  return text;
}

// A line a reason, each begun by `first`.
std::string passed_over_text(const ingest::Imported& imported, const std::string& first = "") {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const ingest::PassedOver& each : imported.passed_over)
    reasons[each.reason].push_back(name_of(each.path));
  std::string text;
  for (const auto& [reason, names] : reasons) {
    text += paragraph(fmt::format("{}passed over {}: {} ({})", first, format_count(names.size()),
                                  some_of(names), reason));
  }
  return text;
}

}  // namespace

std::string import_text(const ingest::Imported& imported, const std::string& folder) {
  std::string text;
  uint64_t events = 0;
  const bool is_few = imported.files.size() <= kEachMax;
  for (const ingest::ImportedFile& file : imported.files) {
    events += file.events;
    if (is_few) text += one_file_text(file);
  }
  if (!is_few) text += formats_text(imported) + sums_text(imported);
  text += passed_over_text(imported);
  if (imported.folders > 1) {
    text += paragraph(
        fmt::format("traces of {} are one recording now; import those of different runs one by one",
                    format_counted(imported.folders, "folders")));
  }
  return text +
         paragraph(fmt::format("{}: {} of {}", folder, format_counted(events, "events"),
                               format_counted(imported.files.size(), "files"))) +
         fmt::format("next: forebay explain {}\n", folder);
}

std::string losses_text(const ingest::Imported& imported) {
  const Account sums = account_of(imported);
  std::string text;
  for (const auto& [reason, loss] : sums.damaged)
    text += fmt::format("forebay: {}: not read to the end: {}\n", some_of(loss.files), reason);
  for (const auto& [reason, loss] : sums.skipped) {
    text += fmt::format("forebay: {}: {} skipped: {}\n", some_of(loss.files),
                        format_count(loss.count), reason);
  }
  return text + passed_over_text(imported, "forebay: ");
}

}  // namespace forebay::cli

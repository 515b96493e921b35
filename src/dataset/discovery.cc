#include "dataset/discovery.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace forebay::dataset {
namespace {

constexpr size_t kProblemsKept = 100;
constexpr size_t kGroupsProbed = 16;  // most frequent extensions whose content is looked at
constexpr size_t kFilesProbed = 4;    // of each
constexpr size_t kHeadBytes = 64;     // enough for Format::recognises

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool has_extension(const formats::Format& format, std::string_view extension) {
  return std::find(format.extensions.begin(), format.extensions.end(), extension) !=
         format.extensions.end();
}

// Files of one extension.
struct Group {
  uint64_t count = 0;
  std::array<size_t, kFilesProbed> probes{};  // the first few of them
  const formats::Format* format = nullptr;
};
using Groups = std::map<std::string, Group, std::less<>>;

// The format of the larger part of the probed files.
const formats::Format* probe(storage::Store& store, const storage::Listing& listing,
                             const Group& group) {
  std::vector<const formats::Format*> votes;
  for (size_t i = 0; i < std::min<uint64_t>(group.count, kFilesProbed); ++i) {
    const std::string& path = listing.files[group.probes[i]].path;
    std::array<std::byte, kHeadBytes> head{};
    // A file that cannot be read is judged by its name; reading it later says what is wrong.
    const size_t bytes = store.read_at(path, 0, head).value_or(0);
    votes.push_back(formats::recognise_format(path, std::span(head).first(bytes)));
  }
  const auto votes_for = [&](const formats::Format* format) {
    return std::count(votes.begin(), votes.end(), format);
  };
  return *std::max_element(votes.begin(), votes.end(), [&](const auto* a, const auto* b) {
    return votes_for(a) < votes_for(b);
  });
}

// Which format each extension stands for when the caller names none; the most frequent one wins.
const formats::Format* recognise_groups(storage::Store& store, const storage::Listing& listing,
                                        Groups& groups) {
  std::vector<std::pair<uint64_t, Group*>> by_count;
  for (auto& entry : groups) by_count.emplace_back(entry.second.count, &entry.second);
  std::stable_sort(by_count.begin(), by_count.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < by_count.size(); ++i) {
    Group& group = *by_count[i].second;
    group.format = i < kGroupsProbed
                       ? probe(store, listing, group)
                       : formats::recognise_format(listing.files[group.probes[0]].path, {});
  }
  std::map<const formats::Format*, uint64_t> count_of;
  for (const auto& entry : groups) count_of[entry.second.format] += entry.second.count;
  const formats::Format* best = nullptr;
  for (const formats::Format* format : formats::builtin_formats())
    if (count_of[format] > (best == nullptr ? 0 : count_of[best])) best = format;
  return best;
}

std::string patterns(const formats::Format* format) {
  std::vector<std::string> all;
  for (const formats::Format* candidate : formats::builtin_formats())
    if (format == nullptr || candidate == format)
      for (const std::string_view extension : candidate->extensions)
        all.push_back(fmt::format("*.{}", extension));
  if (all.empty() && format != nullptr)
    for (const std::string_view extension : format->extensions)
      all.push_back(fmt::format("*.{}", extension));
  return fmt::format("{}", fmt::join(all, ", "));
}

// The files beside the chosen ones that say where their samples are are no strays.
void drop_side_files(const formats::Format& format, const storage::Listing& listing,
                     const std::vector<size_t>& chosen, std::vector<size_t>& strays) {
  if (format.side_paths == nullptr || strays.empty()) return;
  std::unordered_set<std::string> sides;
  for (const size_t file : chosen)
    for (std::string& side : format.side_paths(listing.files[file].path))
      sides.insert(std::move(side));
  std::erase_if(strays, [&](size_t file) { return sides.contains(listing.files[file].path); });
}

// What was there instead of samples.
std::string findings(const storage::Listing& listing, const std::vector<size_t>& strays,
                     const std::vector<size_t>& empties) {
  std::vector<std::string> parts;
  const auto say = [&](size_t count, std::string_view one, std::string_view many,
                       const std::string& example) {
    if (count == 1) parts.push_back(fmt::format("1 {}, {}", one, example));
    if (count > 1) parts.push_back(fmt::format("{} {}, e.g. {}", count, many, example));
  };
  const auto path = [&](const std::vector<size_t>& of) {
    return of.empty() ? std::string() : listing.files[of.front()].path;
  };
  say(strays.size(), "file of another kind", "files of other kinds", path(strays));
  say(empties.size(), "empty file", "empty files", path(empties));
  if (!listing.skipped.empty())
    say(listing.skipped.size(), "entry passed over", "entries passed over",
        fmt::format("{} ({})", listing.skipped[0].path, listing.skipped[0].reason));
  if (parts.empty()) return "the folder is empty";
  return fmt::format("{}", fmt::join(parts, "; "));
}

// Sorted listings are in path order already. Where each file lies exactly one folder down, DLIO
// goes by base name, so that "the first N" are the same files here and there.
void sort_as_dlio(const storage::Listing& listing, std::string_view folder,
                  std::vector<size_t>& chosen) {
  const size_t skipped = folder.empty() ? 0 : folder.size() + 1;
  const bool is_one_down = std::all_of(chosen.begin(), chosen.end(), [&](size_t file) {
    const std::string_view path = listing.files[file].path;
    return std::count(path.begin() + static_cast<std::ptrdiff_t>(skipped), path.end(), '/') == 1;
  });
  if (!is_one_down) return;
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
    return base_name(listing.files[a].path) < base_name(listing.files[b].path);
  });
}

}  // namespace

void ProblemList::add(std::string path, std::string reason) {
  ++count_;
  if (first_.size() < kProblemsKept) first_.push_back({std::move(path), std::move(reason)});
}

Result<Discovery> discover(storage::Store& store, const IndexOptions& options,
                           ProblemList& problems) {
  if (options.files_max == 0)
    return fail(ErrorCode::kInvalidArgument, "0 files asked for: must be at least 1");
  std::string_view folder = options.folder;
  while (folder.ends_with('/')) folder.remove_suffix(1);
  storage::Listing listing;
  if (options.only_file.empty())
    listing = FB_TRY(store.list(folder));
  else
    listing.files.push_back(FB_TRY(store.stat(options.only_file)));

  Groups groups;
  std::vector<const Group*> group_of(listing.files.size());
  std::vector<size_t> empties, strays, chosen;
  for (size_t i = 0; i < listing.files.size(); ++i) {
    Group& group = groups[formats::extension_of(listing.files[i].path)];
    group_of[i] = &group;
    if (listing.files[i].size == 0) continue;
    if (group.count < kFilesProbed) group.probes[group.count] = i;
    ++group.count;
  }
  Discovery found;
  found.format = options.format;
  if (options.format == nullptr) {
    std::erase_if(groups, [](const auto& entry) { return entry.second.count == 0; });
    found.format = recognise_groups(store, listing, groups);
  } else {
    for (auto& entry : groups)
      if (has_extension(*options.format, entry.first)) entry.second.format = options.format;
  }
  for (size_t i = 0; i < listing.files.size(); ++i) {
    if (listing.files[i].size == 0)
      empties.push_back(i);
    else if (found.format != nullptr && group_of[i]->format == found.format)
      chosen.push_back(i);
    else
      strays.push_back(i);
  }
  if (chosen.empty())
    return fail(ErrorCode::kNotFound, "no samples under {} (looked for {}): {}",
                folder.empty() ? store.describe() : fmt::format("{}/{}", store.describe(), folder),
                patterns(found.format), findings(listing, strays, empties));

  drop_side_files(*found.format, listing, chosen, strays);
  sort_as_dlio(listing, folder, chosen);
  if (chosen.size() > options.files_max) {
    found.files_beyond_max = chosen.size() - options.files_max;
    chosen.resize(options.files_max);
  }
  uint64_t path_bytes = 0;
  for (const size_t file : chosen) path_bytes += listing.files[file].path.size();
  found.files.reserve(chosen.size(), path_bytes);
  for (const size_t file : chosen) found.files.add(listing.files[file]);

  found.empty_count = empties.size();
  found.stray_count = strays.size();
  for (storage::Skipped& skipped : listing.skipped)
    problems.add(std::move(skipped.path), std::move(skipped.reason));
  ProblemList bad;
  for (const size_t file : empties) {
    bad.add(listing.files[file].path, "empty file");
    problems.add(std::move(listing.files[file].path), "empty file");
  }
  found.empties = bad.first();
  for (const size_t file : strays)
    problems.add(std::move(listing.files[file].path), fmt::format("not {}", found.format->name));
  return found;
}

}  // namespace forebay::dataset

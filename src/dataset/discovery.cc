#include "dataset/discovery.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "dataset/pattern_files.h"
#include "formats/builtin.h"

namespace forebay::dataset {
namespace {

constexpr size_t kProblemsKept = 100;
constexpr size_t kGroupsProbed = 16;  // most frequent extensions whose content is looked at
constexpr size_t kFilesProbed = 4;    // of each
constexpr size_t kHeadBytes = 64;     // enough for Format::recognises
constexpr uint64_t kSideKeySeed = 3;
constexpr std::string_view kSideExtension = "idx";  // no format's data
constexpr std::array<std::string_view, 12> kOtherImages{
    "avif", "bmp", "gif", "heic", "heif", "jp2", "pbm", "pgm", "ppm", "tif", "tiff", "webp"};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool has_extension(const formats::Format& format, std::string_view extension) {
  return std::find(format.extensions.begin(), format.extensions.end(), extension) !=
         format.extensions.end();
}

bool is_plain_text(std::string_view extension) {
  return extension == "txt" || extension.starts_with("txt.");
}

// What files of one group have in common: the extension. Parts of a data set
// ("train-00003-of-00010") are no READMEs.
std::string group_of_path(std::string_view path) {
  constexpr std::string_view kOf = "-of-";
  std::string extension = formats::extension_of(path);
  const std::string_view name = base_name(path);
  const bool is_part = extension.empty() && !name.empty() && name.back() >= '0' &&
                       name.back() <= '9' && name.find(kOf) != std::string_view::npos;
  return is_part ? std::string(kOf) : extension;
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

// Whether files of `a` belong to a data set of `b`.
bool are_read_together(const formats::Format* a, const formats::Format* b) {
  if (a == nullptr || b == nullptr) return false;
  return a == b || (!a->family.empty() && a->family == b->family);
}

// Whether a file of this extension would be a sample beside files of `format`.
bool belongs_with(const formats::Format& format, std::string_view extension) {
  if (has_extension(format, extension)) return true;
  for (const formats::Format* one : formats::builtin_formats())
    if (has_extension(*one, extension) && are_read_together(one, &format)) return true;
  return false;
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
  // Captions, lists and logs lie beside data of every kind: text is data where nothing else is.
  const bool has_other = std::any_of(groups.begin(), groups.end(), [](const auto& entry) {
    return entry.second.format != nullptr && !is_plain_text(entry.first);
  });
  for (auto& entry : groups)
    if (has_other && is_plain_text(entry.first)) entry.second.format = nullptr;
  // Files read together count together; of one family the format that most of them have stands.
  using Votes = std::pair<uint64_t, uint64_t>;
  const formats::Format* best = nullptr;
  Votes most{0, 0};
  for (const formats::Format* format : formats::builtin_formats()) {
    Votes votes{0, 0};
    for (const auto& entry : groups) {
      if (are_read_together(entry.second.format, format)) votes.first += entry.second.count;
      if (entry.second.format == format) votes.second += entry.second.count;
    }
    if (votes.second == 0 || votes <= most) continue;
    best = format;
    most = votes;
  }
  return best;
}

// Files of the format that is asked for: those named so, and those whose names say nothing but
// whose content does. Where none is, files that were named one by one, or by a pattern, are what
// the caller says that they are.
void take_as(const formats::Format& format, storage::Store& store, const Candidates& candidates,
             bool is_named_by_caller, Groups& groups) {
  size_t probed = 0;
  bool has_any = false;
  for (auto& [extension, group] : groups) {
    const bool is_told = group.count == 0 || formats::find_format(extension) != nullptr;
    if (has_extension(format, extension) || (!is_told && probed++ < kGroupsProbed &&
                                             probe(store, candidates.listing, group) == &format))
      group.format = &format;
    has_any = has_any || (group.format != nullptr && group.count > 0);
  }
  if (has_any || !is_named_by_caller) return;
  for (auto& entry : groups)
    if (format.side_paths == nullptr || entry.first != kSideExtension)
      entry.second.format = &format;
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

// The listing is sorted by path.
Result<storage::FileInfo> find_listed(const storage::Listing& listing, const std::string& path) {
  const auto found = std::lower_bound(
      listing.files.begin(), listing.files.end(), path,
      [](const storage::FileInfo& file, const std::string& wanted) { return file.path < wanted; });
  if (found == listing.files.end() || found->path != path)
    return fail(ErrorCode::kNotFound, "{}: not listed", path);
  return *found;
}

// What is known of side files: from the data set's own listing, or one of the folder they lie in,
// which is one question instead of one for each file.
class SideFiles {
 public:
  SideFiles(storage::Store& store, const Candidates& from)
      : store_(store),
        listing_(from.listing),
        below_(from.folder.empty() ? "" : from.folder + "/"),
        is_few_files_(!from.is_listed) {}

  Result<storage::FileInfo> find(const std::string& side) {
    if (is_few_files_) return store_.stat(side);
    if (side.starts_with(below_)) return find_listed(listing_, side);
    const std::string folder = side.substr(0, side.rfind('/') + 1);
    auto known = elsewhere_.find(folder);
    if (known == elsewhere_.end()) known = elsewhere_.emplace(folder, store_.list(folder)).first;
    if (!known->second.ok()) return known->second.error();
    return find_listed(*known->second, side);
  }

 private:
  storage::Store& store_;
  const storage::Listing& listing_;
  const std::string below_;
  const bool is_few_files_;
  std::map<std::string, Result<storage::Listing>> elsewhere_;  // by folder, with its '/'
};

// Of the side files of `path`. That one is missing is known too: some formats do without.
uint64_t side_key(const formats::Format& format, const std::string& path, SideFiles& sides) {
  if (format.side_paths == nullptr) return FileTable::kNoSides;
  uint64_t key = kSideKeySeed;
  for (const std::string& side : format.side_paths(path)) {
    const Result<storage::FileInfo> info = sides.find(side);
    const bool is_missing = !info.ok() && info.error().code == ErrorCode::kNotFound;
    if (!is_missing && (!info.ok() || info->mtime_ns == 0)) return FileTable::kSidesUnknown;
    key = is_missing ? base::mix64(key)
                     : base::derive_seed(key, info->size, static_cast<uint64_t>(info->mtime_ns));
  }
  return std::max(key, FileTable::kSidesUnknown + 1);
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

// "jpeg", or "jpeg or png" where the formats of a family are read together.
std::string names(const formats::Format* format, const formats::Format* asked_for) {
  std::vector<std::string_view> all;
  for (const formats::Format* one : formats::builtin_formats())
    if (asked_for == nullptr && are_read_together(one, format)) all.push_back(one->name);
  if (all.empty()) all.push_back(format->name);
  return fmt::format("{}", fmt::join(all, " or "));
}

// Images that others decode are more than clutter: they are named first, and as what they are.
void add_strays(storage::Listing& listing, std::vector<size_t> strays, const std::string& wanted,
                ProblemList& problems) {
  const auto is_image = [&](size_t file) {
    const std::string extension = formats::extension_of(listing.files[file].path);
    return std::find(kOtherImages.begin(), kOtherImages.end(), extension) != kOtherImages.end();
  };
  const auto others = std::stable_partition(strays.begin(), strays.end(), is_image);
  for (auto stray = strays.begin(); stray != strays.end(); ++stray) {
    std::string& path = listing.files[*stray].path;
    std::string reason = "not " + wanted;
    if (stray < others)
      reason += fmt::format("; {} images are not decoded", formats::extension_of(path));
    problems.add(std::move(path), std::move(reason));
  }
}

// Every file below the folder, the one file, or what the patterns choose.
Result<Candidates> find_candidates(storage::Store& store, const IndexOptions& options,
                                   ProblemList& problems) {
  if (!options.patterns.empty()) {
    Candidates chosen = FB_TRY(choose_by_patterns(store, options.patterns, options.skip_bad_files));
    for (const size_t file : chosen.repeated)
      problems.add(chosen.listing.files[file].path,
                   "chosen more than once; its samples count once");
    return chosen;
  }
  Candidates all;
  if (!options.only_file.empty()) {
    all.listing.files.push_back(FB_TRY(store.stat(options.only_file)));
    all.files.push_back(0);
    return all;
  }
  all.folder = options.folder;
  while (all.folder.ends_with('/')) all.folder.pop_back();
  all.listing = FB_TRY(store.list(all.folder));
  all.is_listed = true;
  all.files.resize(all.listing.files.size());
  std::iota(all.files.begin(), all.files.end(), size_t{0});
  return all;
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
  Candidates candidates = FB_TRY(find_candidates(store, options, problems));
  storage::Listing& listing = candidates.listing;
  const std::string& folder = candidates.folder;

  Groups groups;
  std::vector<const Group*> group_of(listing.files.size());
  std::vector<size_t> empties, strays, chosen;
  for (const size_t i : candidates.files) {
    Group& group = groups[group_of_path(listing.files[i].path)];
    group_of[i] = &group;
    if (listing.files[i].size == 0) continue;
    if (group.count < kFilesProbed) group.probes[group.count] = i;
    ++group.count;
  }
  Discovery found;
  // Only tokens come in windows: nothing else tells their files from raw ones.
  const formats::Format* asked_for = options.format == nullptr && options.tokens_per_sample > 0
                                         ? &formats::kTokens
                                         : options.format;
  found.format = asked_for;
  if (asked_for == nullptr) {
    std::erase_if(groups, [](const auto& entry) { return entry.second.count == 0; });
    found.format = recognise_groups(store, listing, groups);
  } else {
    const bool is_named = candidates.names_files || !options.only_file.empty();
    take_as(*asked_for, store, candidates, is_named, groups);
  }
  // Nothing is left of groups that were looked at and hold no bytes.
  const auto is_of_format = [&](size_t file) {
    const auto group = groups.find(group_of_path(listing.files[file].path));
    return group != groups.end() && are_read_together(group->second.format, found.format);
  };
  for (const size_t i : candidates.files) {
    if (listing.files[i].size == 0)
      empties.push_back(i);
    else if (are_read_together(group_of[i]->format, found.format))
      chosen.push_back(i);
    else
      strays.push_back(i);
  }
  if (chosen.empty())
    return fail(ErrorCode::kNotFound, "no samples under {} (looked for {}): {}{}",
                folder.empty() ? store.describe() : fmt::format("{}/{}", store.describe(), folder),
                patterns(found.format), findings(listing, strays, empties),
                strays.empty() || (asked_for != &formats::kRaw && asked_for != &formats::kLines)
                    ? ""
                    : fmt::format("; files of other names are {} where a pattern names them",
                                  asked_for->name));

  drop_side_files(*found.format, listing, chosen, strays);
  if (options.patterns.empty()) sort_as_dlio(listing, folder, chosen);
  if (chosen.size() > options.files_max) {
    found.files_beyond_max = chosen.size() - options.files_max;
    chosen.resize(options.files_max);
  }
  uint64_t path_bytes = 0;
  for (const size_t file : chosen) path_bytes += listing.files[file].path.size();
  found.files.reserve(chosen.size(), path_bytes);
  SideFiles sides(store, candidates);
  for (const size_t file : chosen)
    found.files.add(listing.files[file], side_key(*found.format, listing.files[file].path, sides));

  for (const std::vector<size_t>* left_out : {&empties, &strays})
    for (const size_t file : *left_out) {
      const std::string_view path = listing.files[file].path;
      const std::string_view parent = path.substr(0, path.size() - base_name(path).size());
      if (!parent.empty() && !found.other_folders.contains(parent))
        found.other_folders.emplace(parent);
    }
  found.empty_count = empties.size() + candidates.missing.size();
  found.stray_count = strays.size();
  for (storage::Skipped& skipped : listing.skipped)
    problems.add(std::move(skipped.path), std::move(skipped.reason));
  ProblemList bad;
  for (const size_t file : empties) {
    if (is_of_format(file) ||
        belongs_with(*found.format, formats::extension_of(listing.files[file].path)))
      found.damaged.add(listing.files[file].path, "empty file");
    bad.add(listing.files[file].path, "empty file");
    problems.add(std::move(listing.files[file].path), "empty file");
  }
  for (std::string& path : candidates.missing) {
    bad.add(path, "does not exist");
    found.damaged.add(path, "does not exist");
    problems.add(std::move(path), "does not exist");
  }
  found.empties = bad.first();
  add_strays(listing, std::move(strays), names(found.format, asked_for), problems);
  return found;
}

}  // namespace forebay::dataset

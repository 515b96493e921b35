#include "dataset/pattern_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "dataset/patterns.h"

namespace forebay::dataset {
namespace {

constexpr size_t kAskedOneByOne = 8;  // more than these are looked up in a listing
constexpr size_t kNamed = 5;          // in messages

std::string without_end(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// The folder that holds whatever `pattern` means; a path written out may itself be one.
std::string folder_of(const std::string& pattern) {
  return has_wildcards(pattern) ? literal_folder(pattern) : without_end(unescape_pattern(pattern));
}

// The longest path of whole folders that both lie in.
std::string shared_folder(const std::string& a, const std::string& b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const bool is_whole = (end == a.end() || *end == '/') && (other == b.end() || *other == '/');
  std::string same(a.begin(), end);
  if (is_whole) return same;
  const size_t slash = same.rfind('/');
  return slash == std::string::npos ? "" : same.substr(0, slash);
}

class Chooser {
 public:
  Chooser(storage::Store& store, bool skip_missing) : store_(store), skip_missing_(skip_missing) {}

  Result<Candidates> run(std::span<const std::string> patterns) {
    std::vector<std::string> plain;
    for (const std::string& pattern : patterns) {
      std::vector<std::string> more = FB_TRY(expand_braces(pattern));
      plain.insert(plain.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
    }
    const bool is_few = plain.size() <= kAskedOneByOne &&
                        std::none_of(plain.begin(), plain.end(), [](const std::string& one) {
                          return has_wildcards(one) || one.ends_with('/');
                        });
    if (is_few && ask_each(plain)) return std::move(out_);
    FB_TRY(list(plain));
    for (const std::string& one : plain) FB_TRY(choose(one));
    FB_TRY(refuse_missing(plain.size()));
    return std::move(out_);
  }

 private:
  // False when one of them is no file.
  bool ask_each(const std::vector<std::string>& paths) {
    std::vector<storage::FileInfo> infos;
    for (const std::string& path : paths) {
      Result<storage::FileInfo> info = store_.stat(unescape_pattern(path));
      if (!info.ok()) return false;
      infos.push_back(std::move(info).take());
    }
    out_.listing.files = infos;
    auto& files = out_.listing.files;
    const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(files.begin(), files.end(), by_path);
    const auto same = [](const auto& a, const auto& b) { return a.path == b.path; };
    files.erase(std::unique(files.begin(), files.end(), same), files.end());
    is_chosen_.assign(files.size(), false);
    for (const storage::FileInfo& info : infos) add(first_from(info.path));
    out_.names_files = true;
    return true;
  }

  Status list(const std::vector<std::string>& patterns) {
    std::string folder = folder_of(patterns.front());
    for (const std::string& pattern : patterns) folder = shared_folder(folder, folder_of(pattern));
    auto listing = store_.list(folder);
    // A file has no listing; what lies beside it has.
    if (!listing.ok() && !folder.empty()) {
      const size_t slash = folder.rfind('/');
      folder = slash == std::string::npos ? "" : folder.substr(0, slash);
      listing = store_.list(folder);
    }
    out_.listing = FB_TRY(std::move(listing));
    out_.folder = folder;
    out_.is_listed = true;
    is_chosen_.assign(out_.listing.files.size(), false);
    return {};
  }

  // The first file whose path is not below `path`.
  size_t first_from(std::string_view path) const {
    const auto& files = out_.listing.files;
    const auto found = std::lower_bound(
        files.begin(), files.end(), path,
        [](const storage::FileInfo& file, std::string_view wanted) { return file.path < wanted; });
    return static_cast<size_t>(found - files.begin());
  }

  void add(size_t file) {
    if (is_chosen_[file])
      out_.repeated.push_back(file);
    else
      out_.files.push_back(file);
    is_chosen_[file] = true;
  }

  Status choose(const std::string& pattern) {
    const bool is_wild = has_wildcards(pattern);
    const std::string path = is_wild ? literal_folder(pattern) : folder_of(pattern);
    const auto& files = out_.listing.files;
    if (!is_wild) {
      const size_t file = first_from(path);
      if (file < files.size() && files[file].path == path) {
        add(file);
        out_.names_files = true;
        return {};
      }
    }
    const std::string below = path.empty() ? "" : path + "/";
    uint64_t found = 0;
    for (size_t i = first_from(below); i < files.size() && files[i].path.starts_with(below); ++i) {
      if (is_wild && !path_matches(pattern, files[i].path)) continue;
      add(i);
      ++found;
    }
    if (is_wild && found > 0 && !pattern.ends_with("**")) out_.names_files = true;
    if (found > 0) return {};
    if (is_wild && !skip_missing_)
      return fail(ErrorCode::kNotFound, "{}: no file fits the pattern {}", store_.describe(),
                  pattern);
    out_.missing.push_back(is_wild ? pattern : path);
    return {};
  }

  Status refuse_missing(size_t asked) {
    if (out_.missing.empty() || (skip_missing_ && !out_.files.empty())) return {};
    const size_t named = std::min(out_.missing.size(), kNamed);
    return fail(ErrorCode::kNotFound, "{}: {} of {} paths do not exist: {}{}", store_.describe(),
                out_.missing.size(), asked,
                fmt::join(out_.missing.begin(),
                          out_.missing.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                named < out_.missing.size() ? ", ..." : "");
  }

  storage::Store& store_;
  const bool skip_missing_;
  Candidates out_;
  std::vector<bool> is_chosen_;
};

}  // namespace

Result<Candidates> choose_by_patterns(storage::Store& store, std::span<const std::string> patterns,
                                      bool skip_missing) {
  return Chooser(store, skip_missing).run(patterns);
}

}  // namespace forebay::dataset

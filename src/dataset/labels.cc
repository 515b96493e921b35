#include "dataset/labels.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace forebay::dataset {
namespace {

// The first folder below `folder` on the way to `path`; empty when the file lies in `folder`
// itself.
std::string_view class_of(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (!folder.empty() && path.starts_with(folder) && path.substr(folder.size()).starts_with('/'))
    path.remove_prefix(folder.size() + 1);
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace

Result<ClassLabels> ClassLabels::make(std::span<const LabelledFiles> sets) {
  struct Class {
    uint32_t number = 0;
    bool is_used = false;
  };
  std::map<std::string, Class, std::less<>> classes;
  for (const LabelledFiles& set : sets) {
    for (uint32_t file = 0; file < set.index->file_count(); ++file) {
      const std::string_view path = set.index->path(file);
      const std::string_view name = class_of(path, set.folder);
      if (name.empty())
        return fail(ErrorCode::kInvalidArgument,
                    "{}: lies in no class folder: expected {}{}CLASS/NAME", path, set.folder,
                    set.folder.empty() || set.folder.ends_with('/') ? "" : "/");
      auto found = classes.find(name);
      if (found == classes.end()) found = classes.emplace(name, Class()).first;
      found->second.is_used = true;
    }
    // Such folders are classes too: a class whose files are all bad must not shift the labels of
    // the others.
    for (const std::string& folder : set.index->summary().other_folders) {
      const std::string_view name = class_of(folder, set.folder);
      if (!name.empty()) classes.emplace(name, Class());
    }
  }
  ClassLabels labels;
  for (auto& [name, it] : classes) {
    it.number = static_cast<uint32_t>(labels.names_.size());
    labels.names_.push_back(name);
    if (!it.is_used) labels.empty_names_.push_back(name);
  }
  for (const LabelledFiles& set : sets) {
    std::vector<uint32_t>& numbers = labels.labels_.emplace_back();
    numbers.reserve(set.index->file_count());
    for (uint32_t file = 0; file < set.index->file_count(); ++file)
      numbers.push_back(classes.find(class_of(set.index->path(file), set.folder))->second.number);
  }
  return labels;
}

}  // namespace forebay::dataset

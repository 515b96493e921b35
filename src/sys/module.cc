#include "sys/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace forebay::sys {
namespace {

namespace fs = std::filesystem;

// Each once, the one that the user names first.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    const fs::path place = (folder / "").lexically_normal().parent_path();
    if (std::find(folders.begin(), folders.end(), place) == folders.end()) folders.push_back(place);
  };
  if (const char* given = std::getenv("FOREBAY_MODULE_FOLDER"); given != nullptr && *given != '\0')
    add(given);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return folders;
  add(program.parent_path() / "../lib/forebay");
  add(program.parent_path() / FOREBAY_MODULE_FROM_BIN);
  return folders;
}

}  // namespace

Result<void*> find_in_module(std::string_view name, const char* symbol) {
  const std::string file = fmt::format("forebay_{}.so", name);
  std::string searched;
  for (const fs::path& folder : module_folders()) {
    const fs::path path = folder / file;
    searched += (searched.empty() ? "" : ", ") + folder.string();
    if (::access(path.c_str(), F_OK) != 0) continue;
    // Global: Open MPI's own plug-ins look for its symbols there.
    void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      const char* why = ::dlerror();
      return fail(ErrorCode::kUnsupported, "{}: {}", path.string(), why ? why : "cannot be loaded");
    }
    void* address = ::dlsym(module, symbol);
    if (address == nullptr)
      return fail(ErrorCode::kUnsupported, "{}: of another version: it has no {}", path.string(),
                  symbol);
    return address;
  }
  return fail(ErrorCode::kNotFound, "no module {} in {}", file, searched);
}

Result<void*> find_in_library(const std::string& path, const char* symbol) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* address = library != nullptr ? ::dlsym(library, symbol) : nullptr;
  if (address != nullptr) return address;
  const char* why = ::dlerror();
  return fail(ErrorCode::kUnsupported, "{}: {}", path, why ? why : "cannot be loaded");
}

Result<std::string> find_module_file(std::string_view file) {
  std::string searched;
  for (const fs::path& folder : module_folders()) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(folder / file, error);
    if (!error && ::access(path.c_str(), R_OK) == 0) return path.string();
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  return fail(ErrorCode::kNotFound, "no {} in {}", file, searched);
}

}  // namespace forebay::sys

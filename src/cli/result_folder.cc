#include "cli/result_folder.h"

#include <fmt/core.h>

#include "base/error.h"
#include "report/dlio_files.h"
#include "report/json.h"
#include "storage/store.h"
#include "sys/directory.h"
#include "trace/chrome.h"

namespace forebay::cli {
namespace {

constexpr uint64_t kResultBytesMax = 1ull << 30;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status write_text(storage::Store& store, const std::string& name, const std::string& text) {
  return storage::write_file(store, name, bytes_of(text)).context("result folder");
}

struct FilePath {
  std::string folder, name;
};

FilePath split_path(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// `path` and the folders above it that do not exist, the innermost first.
std::vector<std::string> missing_folders(std::string path) {
  std::vector<std::string> missing;
  while (!path.empty() && !sys::path_exists(path)) {
    missing.push_back(path);
    const size_t slash = path.find_last_of('/');
    path = slash == std::string::npos ? "" : path.substr(0, slash);
  }
  return missing;
}

// The first results/<workload>-<number> that this process, and no other, has just made.
Result<ResultFolder> make_numbered(const std::string& workload) {
  ResultFolder folder;
  const bool made_results = FB_TRY(sys::make_new_folder("results"));
  for (int number = 1;; ++number) {
    folder.path = fmt::format("results/{}-{:04}", workload, number);
    const bool made = FB_TRY(sys::make_new_folder(folder.path));
    if (!made) continue;
    folder.made = {folder.path};
    if (made_results) folder.made.push_back("results");
    return folder;
  }
}

// <number>_output.json or <number>_per_epoch_stats.json with a number from `accelerators` on.
bool is_of_missing_accelerator(const std::string& name, int accelerators) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || digits > 9) return false;
  const std::string rest = name.substr(digits);
  if (rest != "_output.json" && rest != "_per_epoch_stats.json") return false;
  return std::stoi(name.substr(0, digits)) >= accelerators;
}

}  // namespace

Result<ResultFolder> make_result_folder(const std::string& asked, const std::string& workload) {
  ResultFolder folder;
  if (asked.empty())
    folder = FB_TRY(make_numbered(workload));
  else
    folder = {asked, missing_folders(asked)};
  const auto store = FB_TRY(storage::open_store("local", folder.path));
  Status proved = write_text(*store, ".running", "a run is writing here\n");
  if (proved.ok()) proved = store->remove(".running");
  if (proved.ok()) return folder;
  discard_result_folder(folder);
  return proved.error();
}

void discard_result_folder(const ResultFolder& folder) {
  for (const std::string& made : folder.made) sys::remove_empty_folder(made);
}

Status write_file_in(const std::string& folder, const std::string& name, const std::string& text) {
  const auto store = FB_TRY(storage::open_store("local", folder));
  return write_text(*store, name, text);
}

Status write_result(const std::string& folder, const emulate::RunResult& result) {
  const auto store = FB_TRY(storage::open_store("local", folder));
  if (const auto there = store->list(""); there.ok())
    for (const storage::FileInfo& file : there->files)
      if (is_of_missing_accelerator(file.path, result.options.accelerators))
        FB_TRY(store->remove(file.path));
  FB_TRY(write_text(*store, "workload.yaml", workload::to_yaml(result.resolved)));
  for (const auto& [name, text] : report::dlio_files(result))
    FB_TRY(write_text(*store, name, text));
  return write_text(*store, "result.json", report::to_json(result));
}

Result<LateFile> LateFile::open(const std::string& path) {
  const FilePath path_parts = split_path(path);
  LateFile file;
  file.store_ = FB_TRY(storage::open_store("local", path_parts.folder));
  file.writer_ = FB_TRY(file.store_->create(path_parts.name));
  return file;
}

Status LateFile::write_trace(const trace::Recorder& recorder) {
  FB_TRY(trace::write_chrome_json(recorder, [&](std::string_view text) {
    return writer_->append(std::as_bytes(std::span(text.data(), text.size())));
  }));
  return writer_->publish();
}

Result<std::string> read_result(const std::string& path) {
  const FilePath file = path.ends_with(".json") ? split_path(path) : FilePath{path, "result.json"};
  const auto store = FB_TRY(storage::open_store("local", file.folder));
  const std::vector<std::byte> bytes =
      FB_TRY(storage::read_file(*store, file.name, kResultBytesMax).context(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace forebay::cli

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

bool is_taken(const std::string& folder) {
  const auto store = storage::open_store("local", folder);
  return store.ok() && (*store)->list("").ok();
}

}  // namespace

Result<std::string> make_result_folder(const std::string& asked, const std::string& workload) {
  std::string folder = asked;
  for (int number = 1; folder.empty(); ++number) {
    const std::string name = fmt::format("results/{}-{:04}", workload, number);
    if (!is_taken(name)) folder = name;
  }
  const auto store = FB_TRY(storage::open_store("local", folder));
  FB_TRY(write_text(*store, "running", "a run is writing here\n"));
  FB_TRY(store->remove("running"));
  return folder;
}

void discard_result_folder(const std::string& folder) {
  sys::remove_empty_folder(folder);
  if (folder.starts_with("results/")) sys::remove_empty_folder("results");
}

Status write_result(const std::string& folder, const emulate::RunResult& result) {
  const auto store = FB_TRY(storage::open_store("local", folder));
  FB_TRY(write_text(*store, "workload.yaml", workload::to_yaml(result.resolved)));
  for (const auto& [name, text] : report::dlio_files(result))
    FB_TRY(write_text(*store, name, text));
  return write_text(*store, "result.json", report::to_json(result));
}

Status write_trace_file(const std::string& path, const trace::Recorder& recorder) {
  const FilePath file = split_path(path);
  const auto store = FB_TRY(storage::open_store("local", file.folder));
  const auto writer = FB_TRY(store->create(file.name));
  FB_TRY(trace::write_chrome_json(recorder, [&](std::string_view text) {
    return writer->append(std::as_bytes(std::span(text.data(), text.size())));
  }));
  return writer->publish();
}

Result<std::string> read_result(const std::string& path) {
  const FilePath file = path.ends_with(".json") ? split_path(path) : FilePath{path, "result.json"};
  const auto store = FB_TRY(storage::open_store("local", file.folder));
  const std::vector<std::byte> bytes =
      FB_TRY(storage::read_file(*store, file.name, kResultBytesMax).context(path));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace forebay::cli

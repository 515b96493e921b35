#include "fio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace forebay::bench {
namespace {

// What people try before they say how fast a disk is.
constexpr const char* kSettings[] = {
    "--bs=1M --ioengine=libaio --iodepth=8", "--bs=1M --ioengine=libaio --iodepth=32",
    "--bs=8M --ioengine=libaio --iodepth=4", "--bs=8M --ioengine=psync"};
constexpr const char* kTwoWriters = "--bs=8M --ioengine=psync --numjobs=2 --group_reporting";

void keep_faster(Best& best, const Sample& sample, const char* setting) {
  const auto rate = [](const Sample& s) { return s.amount / s.wall_seconds; };
  if (best.setting.empty() || rate(sample) > rate(best.sample)) best = {sample, setting};
}

}  // namespace

Sample run_fio(const std::string& options, const std::string& key) {
  const std::string command =
      fmt::format("fio --name=x {} --output-format=json 2>/dev/null", options);
  std::FILE* pipe = popen(command.c_str(), "re");
  std::string text;
  char buffer[4096];
  while (pipe != nullptr) {
    const size_t got = std::fread(buffer, 1, sizeof buffer, pipe);
    if (got == 0) break;
    text.append(buffer, got);
  }
  if (pipe != nullptr) pclose(pipe);
  // fio may print remarks before its JSON.
  const auto json =
      nlohmann::json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (json.is_discarded()) {
    std::fprintf(stderr, "fio failed: %s\n", command.c_str());
    std::exit(1);
  }
  const auto& job = json["jobs"][0];
  const auto& done = job[key];
  Sample sample;
  sample.amount = done["io_bytes"].get<double>();
  sample.wall_seconds = sample.amount / done["bw_bytes"].get<double>();
  sample.cpu_seconds = 1;
  return sample;
}

bool is_fio_there() {
  return std::system("command -v fio >/dev/null") == 0;
}

Best best_fio_write(const std::string& folder, uint64_t bytes) {
  namespace fs = std::filesystem;
  Best best;
  const auto attempt = [&](const char* setting, uint64_t file_bytes) {
    fs::remove_all(folder);  // new files, as a checkpoint has them
    fs::create_directories(folder);
    keep_faster(best,
                run_fio(fmt::format("--directory='{}' --rw=write --size={} --direct=1 "
                                    "--end_fsync=1 {}",
                                    folder, file_bytes, setting),
                        "write"),
                setting);
  };
  for (const char* setting : kSettings) attempt(setting, bytes);
  attempt(kTwoWriters, bytes / 2);
  fs::remove_all(folder);
  return best;
}

Best best_fio_read(const std::vector<std::string>& files) {
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "" : ":") + file;
  Best best;
  for (const char* setting : kSettings)
    keep_faster(best,
                run_fio(fmt::format("--filename='{}' --readonly --rw=read --direct=1 "
                                    "--file_service_type=sequential {}",
                                    names, setting),
                        "read"),
                setting);
  return best;
}

}  // namespace forebay::bench

// Goal: every configuration file that DLIO and MLPerf Storage ship loads, or is refused for the
// reason that the table below gives. FOREBAY_REAL_DATA names the folder that holds them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/test_folder.h"
#include "base/text.h"
#include "workload/workload.h"

namespace forebay::workload {
namespace {

namespace fs = std::filesystem;

// Part of the message of a refusal; empty = loads. Rows are matched in order by the end of the path
// ("*" stands for the rest of a name).
struct Expectation {
  std::string_view path;
  std::string_view refusal;
};

constexpr std::string_view kHydra = "it only sets up Hydra";
constexpr Expectation kExpectations[] = {
    {"workload/unet3d_*.yaml", ""},
    {"workload/default.yaml", ""},
    {"workload/cosmoflow_*.yaml", ""},
    {"workload/resnet50_*.yaml", ""},
    {"workload/bert_v100.yaml", ""},
    {"test_data/.hydra/config.yaml", ""},
    {"workload/dlrm.yaml", ""},
    {"workload/megatron_deepspeed_LLNL.yaml", ""},
    {"workload/pt_custom_checkpoint.yaml", "checkpoint.checkpoint_mechanism_classname = "},
    {"workload/llama*.yaml", ""},
    {"configs/config.yaml", kHydra},
    {"configs/dlio/config.yaml", kHydra},
    {".hydra/hydra.yaml", kHydra},
    {".hydra/overrides.yaml", "no workload: sections such as"},
    {"job_logging/custom.yaml", "unknown key 'version'"},
    {"help/dlio_benchmark_help.yaml", "unknown key 'app_name'"},
    {"mlperf-storage-configs/mlpstorage.yaml", "unknown key 'hosts'"},
    {"mlperf-storage-configs/system_configuration.yaml", "unknown key 'System'"},
};

const Expectation* expectation_for(const std::string& path) {
  for (const Expectation& row : kExpectations) {
    if (base::glob_matches("*/" + std::string(row.path), path)) return &row;
  }
  return nullptr;
}

fs::path real_data() {
  const char* folder = std::getenv("FOREBAY_REAL_DATA");
  return folder != nullptr ? fs::path(folder)
                           : fs::path(base::source_folder()) / ".." / "shared" / "real";
}

TEST(RealFiles, LoadOrAreRefusedForTheStatedReason) {
  size_t loaded = 0, refused = 0;
  for (const char* set : {"dlio-configs", "mlperf-storage-configs"}) {
    const fs::path folder = real_data() / set;
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there (set FOREBAY_REAL_DATA)";
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      const std::string path = entry.path().string();
      SCOPED_TRACE(path);
      const Expectation* expected = expectation_for(path);
      ASSERT_NE(expected, nullptr) << "no expectation for this file";
      const auto resolved = resolve(path, {});
      if (expected->refusal.empty()) {
        EXPECT_TRUE(resolved.ok()) << resolved.error().message;
        ++loaded;
      } else if (resolved.ok()) {
        ADD_FAILURE() << "loaded";
      } else {
        EXPECT_NE(resolved.error().message.find(expected->refusal), std::string::npos)
            << resolved.error().message;
        ++refused;
      }
    }
  }
  EXPECT_GE(loaded, 27u);
  EXPECT_GE(refused, 8u);
}

// The built-ins stand for the shipped files: the same numbers, key by key.
// Shipped files name a server and keys that nobody has; built-ins leave them to the environment.
Workload without_server(Workload workload) {
  workload.storage.access_key_id.clear();
  workload.storage.secret_access_key.clear();
  workload.storage.endpoint_url.clear();
  workload.storage.region.clear();
  return workload;
}

TEST(RealFiles, BuiltinsEqualTheShippedFiles) {
  const fs::path dlio = real_data() / "dlio-configs/dlio_benchmark/configs/workload";
  const fs::path mlperf = real_data() / "mlperf-storage-configs/configs/dlio/workload";
  if (!fs::exists(dlio)) GTEST_SKIP() << dlio << " is not there (set FOREBAY_REAL_DATA)";
  size_t compared = 0;
  for (const Builtin& builtin : builtin_workloads()) {
    const std::string name = std::string(builtin.name) + ".yaml";
    const fs::path file = fs::exists(dlio / name) ? dlio / name : mlperf / name;
    if (!fs::exists(file)) continue;
    auto shipped = resolve(file.string(), {});
    auto ours = resolve(builtin.name, {});
    ASSERT_TRUE(shipped.ok()) << shipped.error().message;
    ASSERT_TRUE(ours.ok()) << ours.error().message;
    // Labels that some of the shipped files leave out or spell in capitals.
    shipped->workload.model.type = ours->workload.model.type;
    EXPECT_TRUE(without_server(ours->workload) == without_server(shipped->workload))
        << builtin.name;
    ++compared;
  }
  EXPECT_GE(compared, 24u);
}

}  // namespace
}  // namespace forebay::workload

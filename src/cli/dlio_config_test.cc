// Composition of a configuration from files and overrides, with what it resolves to. The figures of
// the real files are those that Hydra 1.3.8 composes from the same files and words.
#include "cli/dlio_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/test_folder.h"
#include "cli/dlio_tree.h"
#include "cli/dlio_yaml.h"

namespace forebay::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<DlioConfig> composed(const std::vector<const char*>& words) {
  const DlioCommandLine line = FB_TRY(parse_dlio_command_line(words));
  return compose_dlio_config(line, 1'790'000'000'012'345);
}

Result<workload::Resolved> resolved(const std::vector<const char*>& words) {
  const DlioConfig config = FB_TRY(composed(words));
  return workload::resolve_layers(config.workload, config.layers);
}

std::string error_of(const std::vector<const char*>& words) {
  const auto made = resolved(words);
  return made.ok() ? "no error" : made.error().message;
}

std::string yaml_at(const DlioConfig& config, std::string_view path) {
  const workload::Node* node = find_in(config.root, path);
  return node == nullptr ? "nothing" : dlio_yaml(*node);
}

void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

constexpr const char* kSmall =
    "model:\n  name: small\nframework: pytorch\nworkflow:\n  train: True\n"
    "dataset:\n  format: npz\n  num_files_train: 4\nreader:\n  batch_size: 2\n"
    "train:\n  computation_time: 0.5\n";

class DlioConfigFiles : public testing::Test {
 protected:
  DlioConfigFiles() {
    write_file(folder_ / "workload/small.yaml", kSmall);
    option_ = "--config-dir=" + folder_.path();
  }
  base::TestFolder folder_{"dlio-config"};
  std::string option_;
};

TEST_F(DlioConfigFiles, AFileOfTheConfigDirComesBeforeABuiltInOfItsName) {
  write_file(folder_ / "workload/unet3d_h100.yaml", kSmall);
  const auto config = composed({"workload=unet3d_h100", option_.c_str()});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(yaml_at(*config, "workload.model.name"), "small\n");
  const auto builtin = composed({"workload=unet3d_h100"});
  EXPECT_EQ(yaml_at(*builtin, "workload.model.name"), "unet3d\n");
}

TEST_F(DlioConfigFiles, OnlyTheFileAndTheOverridesAreInTheConfiguration) {
  const auto config = composed({"workload=small", option_.c_str(), "workload.train.epochs=3"});
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("++workload.train.epochs=3"));

  const auto added =
      composed({"workload=small", option_.c_str(), "+workload.train.epochs=3",
                "workload.reader.batch_size=8", "~workload.dataset.format", "++hydra.run.dir=r"});
  ASSERT_TRUE(added.ok()) << added.error().message;
  EXPECT_EQ(dlio_yaml(added->root),
            "workload:\n  model:\n    name: small\n  framework: pytorch\n  workflow:\n"
            "    train: true\n  dataset:\n    num_files_train: 4\n  reader:\n    batch_size: 8\n"
            "  train:\n    computation_time: 0.5\n    epochs: 3\n");
  EXPECT_THAT(added->task_overrides,
              ElementsAre("workload=small", "+workload.train.epochs=3",
                          "workload.reader.batch_size=8", "~workload.dataset.format"));
  EXPECT_EQ(added->run_dir, "r");
  EXPECT_EQ(added->output_subdir, ".hydra");
}

TEST_F(DlioConfigFiles, ValuesRememberTheFileOrOverrideTheyCameFrom) {
  const auto made = resolved({"workload=small", option_.c_str(), "++workload.train.epochs=3"});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->workload.train.epochs, 3u);
  EXPECT_EQ(made->workload.reader.batch_size, 2u);
  std::map<std::string, std::string> origins;
  for (const workload::Setting& setting : made->settings) origins[setting.key] = setting.origin;
  EXPECT_EQ(origins["train.epochs"], "override 2");
  EXPECT_EQ(origins["reader.batch_size"], "file " + (folder_ / "workload/small.yaml") + ":10");
  EXPECT_EQ(origins["reader.read_threads"], "default");
}

TEST_F(DlioConfigFiles, PartsOfADistributionAreMergedOverFileAndOverride) {
  write_file(folder_ / "workload/drawn.yaml",
             "framework: pytorch\ntrain:\n  computation_time: {mean: 0.5}\n");
  const auto made =
      resolved({"workload=drawn", option_.c_str(), "++workload.train.computation_time.stdev=0.25"});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->workload.train.computation_time.kind, workload::Distribution::Kind::kNormal);
  EXPECT_EQ(made->workload.train.computation_time.a, 0.5);
  EXPECT_EQ(made->workload.train.computation_time.b, 0.25);
}

// A run writes all of this beside its results, where others read it.
std::string all_shown(const DlioConfig& config) {
  std::string text = dlio_yaml(config.root) + dlio_yaml(config.resolved) + dlio_yaml(config.hydra);
  for (const std::string& override : config.task_overrides) text += override + "\n";
  for (const std::string& warning : config.warnings) text += warning + "\n";
  for (const workload::Layer& layer : config.layers) text += layer.label + layer.origin + "\n";
  return text + config.run_dir;
}

TEST_F(DlioConfigFiles, SecretsReachTheRunAloneInWhateverSpelling) {
  const std::string options = "++workload.storage.storage_options";
  for (const std::string& word :
       {options + ".secret_access_key=hunter2", options + ".secret_access_key='hunter2'",
        options + ".secret_access_key=\"hunter2\"", options + "={secret_access_key: hunter2}",
        options + "={secret_access_key:hunter2}",
        std::string("++workload.storage={storage_options: {secret_access_key: 'hunter2'}}"),
        std::string("+workload.storage.storage_options.secret_access_key=hunter2"),
        std::string("++workload={storage: {storage_options.secret_access_key: hunter2}}")}) {
    SCOPED_TRACE(word);
    const auto config = composed({"workload=small", option_.c_str(), word.c_str(),
                                  "hydra.run.dir=r/${hydra.job.override_dirname}"});
    if (!config.ok()) {
      EXPECT_THAT(config.error().message, Not(HasSubstr("hunter2")));
      continue;
    }
    EXPECT_THAT(all_shown(*config), AllOf(Not(HasSubstr("hunter2")), HasSubstr("***")));
    const auto run = workload::resolve_layers(config->workload, config->layers);
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(run->workload.storage.secret_access_key, "hunter2");
  }
}

TEST_F(DlioConfigFiles, SecretsOfAFileAreNotShown) {
  write_file(folder_ / "workload/keys.yaml",
             std::string(kSmall) +
                 "storage:\n  storage_options: {access_key_id: AKHUNTER, secret_access_key: "
                 "hunter2}\n");
  const auto config = composed({"workload=keys", option_.c_str()});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_THAT(all_shown(*config), AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("AKHUNTER"))));
  const auto run = workload::resolve_layers(config->workload, config->layers);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->workload.storage.access_key_id, "AKHUNTER");
}

TEST_F(DlioConfigFiles, SecretsAreNotQuotedByErrors) {
  const std::string key = "workload.storage.storage_options.secret_access_key";
  const std::vector<std::string> words = {
      "++" + key + "=hunter2=",
      "++" + key + "=[hunter2",
      "++" + key + "=f(hunter2)",
      "++" + key + "='hunter2",
      key + "=hunter2",
      "++" + key + "=hunter2,hunter2",
      "~" + key + "=hunter2",
      "++" + key.substr(9) + "=hunter2",
      "++" + key + "s=hunter2",
      "++workload.storage.storage_options.secret_key=hunter2",
      "++workload.storage.storage_options.endpoint_url=ftp://me:hunter2@host"};
  for (const std::string& word : words) {
    SCOPED_TRACE(word);
    EXPECT_THAT(error_of({"workload=small", option_.c_str(), word.c_str()}),
                Not(HasSubstr("hunter2")));
  }
  const std::string set = "++" + key + "=hunter2", below = "++" + key + ".more=1",
                    removed = "~" + key + "=other";
  for (const std::string& second : {below, removed})
    EXPECT_THAT(error_of({"workload=small", option_.c_str(), set.c_str(), second.c_str()}),
                AllOf(Not(HasSubstr("hunter2")), HasSubstr("***")));
}

TEST_F(DlioConfigFiles, DefaultsListsBringInOtherWorkloads) {
  write_file(folder_ / "workload/more.yaml",
             "defaults:\n- small\n- _self_\nreader:\n  batch_size: 5\n");
  const auto later = composed({"workload=more", option_.c_str()});
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_EQ(yaml_at(*later, "workload.reader.batch_size"), "5\n");
  EXPECT_EQ(yaml_at(*later, "workload.defaults"), "nothing");

  write_file(folder_ / "workload/first.yaml",
             "defaults:\n- _self_\n- small\nreader:\n  batch_size: 5\n");
  EXPECT_EQ(yaml_at(*composed({"workload=first", option_.c_str()}), "workload.reader.batch_size"),
            "2\n");

  write_file(folder_ / "workload/loop.yaml", "defaults:\n- loop\nframework: pytorch\n");
  EXPECT_THAT(error_of({"workload=loop", option_.c_str()}), HasSubstr("lead back to itself"));
}

TEST_F(DlioConfigFiles, AGlobalFileSaysItsPathsFromTheRoot) {
  write_file(
      folder_ / "workload/global.yaml",
      "# @package _global_\nworkload:\n  framework: pytorch\n  reader:\n    batch_size: 6\n");
  const auto made = resolved({"workload=global", option_.c_str()});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->workload.reader.batch_size, 6u);
}

// `forebay run` took such a file; here its keys became workload.workload.*.
TEST_F(DlioConfigFiles, AWorkloadHeadingOfItsOwnIsAccepted) {
  write_file(folder_ / "workload/wrapped.yaml",
             "framework: pytorch\nworkload:\n  model: {name: m}\n  reader: {batch_size: 6}\n");
  const auto made = resolved({"workload=wrapped", option_.c_str(), "workload.reader.batch_size=7"});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->workload.reader.batch_size, 7u);
  EXPECT_EQ(made->workload.framework, "pytorch");
  const std::string path = folder_ / "workload/wrapped.yaml";
  EXPECT_EQ(workload::resolve(path, {})->workload.model.name, made->workload.model.name);
}

TEST_F(DlioConfigFiles, TimesHaveMicrosecondsAndUnknownCodesAreNamed) {
  const auto dir = [&](const std::string& format) {
    const std::string word = "hydra.run.dir=out/${now:" + format + "}";
    const auto config = composed({"workload=small", option_.c_str(), word.c_str()});
    return config.ok() ? config->run_dir : config.error().message;
  };
  EXPECT_EQ(dir("%Y.%f"), "out/2026.012345");
  EXPECT_EQ(dir("%-m%%%z%F"), "out/9%" + dir("%F").substr(4));
  EXPECT_THAT(dir("%Y-%Q"), HasSubstr("no time code '%Q'"));
  EXPECT_THAT(dir("%"), HasSubstr("no time code '%'"));
}

TEST_F(DlioConfigFiles, ThePrimaryFileSaysWorkloadAndFolder) {
  write_file(folder_ / "config.yaml",
             "defaults:\n- _self_\n- workload: small\n- override hydra/job_logging: disabled\n"
             "hydra:\n  run:\n    dir: out/${workload.model.name}/${now:%Y}\n");
  const std::string path = "--config-path=" + folder_.path();
  const auto config = composed({path.c_str()});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->workload, "small");
  EXPECT_EQ(config->run_dir, "out/small/2026");

  write_file(folder_ / "other.yaml", "defaults:\n- workload:\n");
  EXPECT_THAT(error_of({path.c_str(), "--config-name", "other"}), HasSubstr("workload=NAME"));
  EXPECT_EQ(composed({path.c_str(), "-cn", "other.yaml", "workload=small"})->workload, "small");
  EXPECT_THAT(error_of({"--config-name=other"}), HasSubstr("--config-path"));
}

TEST_F(DlioConfigFiles, InterpolationsAreReplacedInWhatRunsAndKeptInWhatIsWritten) {
  setenv("FOREBAY_TEST_FOLDER", "/data", 1);
  const auto config = composed(
      {"workload=small", option_.c_str(), "++workload.train.epochs=${workload.reader.batch_size}",
       "++workload.dataset.data_folder=${oc.env:FOREBAY_TEST_FOLDER}/${workload.model.name}",
       "++workload.checkpoint.checkpoint_folder=${oc.env:FOREBAY_UNSET,/ck}/${.name}",
       "++workload.checkpoint.name=x"});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(yaml_at(*config, "workload.train.epochs"), "${workload.reader.batch_size}\n");
  const auto value = [&](std::string_view path) {
    return python_text(*find_in(config->resolved, path));
  };
  EXPECT_EQ(value("workload.train.epochs"), "2");
  EXPECT_EQ(value("workload.dataset.data_folder"), "/data/small");
  EXPECT_EQ(value("workload.checkpoint.checkpoint_folder"), "/ck/x");
}

TEST_F(DlioConfigFiles, InterpolationsThatLeadNowhereAreErrors) {
  const auto with = [&](const char* value) {
    const std::string word = std::string("++workload.dataset.data_folder=") + value;
    return error_of({"workload=small", option_.c_str(), word.c_str()});
  };
  EXPECT_THAT(with("${workload.modl.name}"), HasSubstr("did you mean 'workload.model.name'"));
  EXPECT_THAT(with("${workload.dataset.data_folder}"), HasSubstr("depends on itself"));
  EXPECT_THAT(with("${foo:x}"), HasSubstr("no resolver 'foo'"));
  EXPECT_THAT(with("${oc.env:FOREBAY_UNSET}"), HasSubstr("FOREBAY_UNSET"));
  EXPECT_THAT(with("x${workload.reader}"), HasSubstr("several values"));
}

TEST_F(DlioConfigFiles, MistakesNameTheOverrideAndTheCure) {
  const auto with = [&](const char* word) {
    return error_of({"workload=small", option_.c_str(), word});
  };
  EXPECT_THAT(with("++workload.dataset.num_fils_train=4"), HasSubstr("num_files_train"));
  EXPECT_THAT(with("workload.reader.batch_siz=4"),
              HasSubstr("did you mean 'workload.reader.batch_size'"));
  EXPECT_THAT(with("+workload.reader.batch_size=4"), HasSubstr("++workload.reader.batch_size=4"));
  EXPECT_THAT(with("reader.batch_size=4"), HasSubstr("'workload.reader.batch_size'"));
  EXPECT_THAT(with("wrkload=small"), HasSubstr("did you mean 'workload=small'?"));
  EXPECT_THAT(with("++wrkload.reader.batch_size=4"),
              HasSubstr("did you mean 'workload.reader.batch_size'?"));
  EXPECT_THAT(with("hydr.run.dir=x"), HasSubstr("did you mean 'hydra.run.dir'?"));
  EXPECT_THAT(with("hydra.run.dir=''"), HasSubstr("needs a folder, not ''"));
  EXPECT_THAT(with("~workload.nope"), HasSubstr("no such key"));
  EXPECT_THAT(with("~workload.framework=tensorflow"), HasSubstr("its value is pytorch"));
  EXPECT_THAT(with("~workload"), HasSubstr("nothing to run"));
  EXPECT_THAT(with("++workload=small"), HasSubstr("without '+'"));
  EXPECT_THAT(with("workload=smal"), HasSubstr("workload/smal.yaml"));
  EXPECT_THAT(with("++workload.framework.x=1"), HasSubstr("has no keys of its own"));
  EXPECT_THAT(with("hydra.run.dri=x"), HasSubstr("hydra.run.dir"));
  EXPECT_THAT(with("hydra.mode=MULTIRUN"), HasSubstr("one run at a time"));
  EXPECT_THAT(with("hydra.job.chdir=True"), HasSubstr("working folder"));
  EXPECT_THAT(with("hydra/launcher=submitit"), HasSubstr("workload=NAME"));
  EXPECT_THAT(with("--multirun"), HasSubstr("sweeps"));
  EXPECT_THAT(with("--config-dri=x"), HasSubstr("--config-dir"));
  EXPECT_THAT(with("--config-dir=/nowhere/at/all"), HasSubstr("no folder '/nowhere/at/all'"));
  EXPECT_THAT(with("--config-dir=/dev/null"), HasSubstr("no folder '/dev/null'"));
}

TEST_F(DlioConfigFiles, TheOutputSubfolderMayBeNone) {
  const auto none = composed({"workload=small", option_.c_str(), "hydra.output_subdir=null"});
  EXPECT_EQ(none->output_subdir, "");
  const auto named =
      composed({"workload=small", option_.c_str(), "++hydra.output_subdir=dlio_config"});
  EXPECT_EQ(named->output_subdir, "dlio_config");
  EXPECT_EQ(named->run_dir, "./hydra_log/small/2026-09-21-14-13-20");
}

TEST(DlioConfig, EveryRealWorkloadFileIsComposed) {
  const char* set = std::getenv("FOREBAY_REAL_DATA");
  const std::filesystem::path root =
      set != nullptr ? set : base::source_folder() + "/../shared/real";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "the real files are not here";
  size_t count = 0;
  for (const char* folder :
       {"mlperf-storage-configs/configs/dlio", "dlio-configs/dlio_benchmark/configs"}) {
    const std::string option = "--config-dir=" + (root / folder).string();
    for (const auto& entry : std::filesystem::directory_iterator(root / folder / "workload")) {
      const std::string word = "workload=" + entry.path().stem().string();
      const auto config = composed({word.c_str(), option.c_str()});
      ASSERT_TRUE(config.ok()) << entry.path() << ": " << config.error().message;
      // What is written reads back as the same values.
      const std::string yaml = dlio_yaml(config->root);
      const auto again = workload::parse_document(yaml, "again");
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(dlio_yaml(*again), yaml);
      ++count;
    }
  }
  EXPECT_GT(count, 20u);
}

}  // namespace
}  // namespace forebay::cli

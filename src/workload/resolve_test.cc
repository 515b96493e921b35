#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/test_folder.h"
#include "workload/workload.h"

namespace forebay::workload {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Files : public testing::Test {
 protected:
  std::string write(std::string_view text, const std::string& name = "w.yaml") {
    std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // The error with the folder left out.
  std::string error(std::string_view text, const std::vector<std::string>& overrides = {}) {
    const auto resolved = resolve(write(text), overrides);
    if (resolved.ok()) return "";
    std::string message = resolved.error().message;
    const std::string folder = folder_.string() + "/";
    for (size_t at; (at = message.find(folder)) != std::string::npos;) {
      message.erase(at, folder.size());
    }
    return message;
  }
  Resolved good(std::string_view text, const std::vector<std::string>& overrides = {}) {
    auto resolved = resolve(write(text), overrides);
    EXPECT_TRUE(resolved.ok()) << resolved.error().message;
    return resolved.ok() ? std::move(resolved).value() : Resolved();
  }

  const base::TestFolder own_{"resolve"};
  const std::filesystem::path folder_ = own_.path();
};

std::string override_error(const std::string& text) {
  const auto resolved = resolve("demo", {text});
  return resolved.ok() ? "" : resolved.error().message;
}

const Setting& setting(const Resolved& resolved, std::string_view key) {
  for (const Setting& setting : resolved.settings) {
    if (setting.key == key) return setting;
  }
  ADD_FAILURE() << key;
  return resolved.settings.front();
}

// --- Built-ins ---

TEST(Builtins, ResolveWithoutWarnings) {
  EXPECT_GE(builtin_workloads().size(), 43u);
  for (const Builtin& builtin : builtin_workloads()) {
    const auto resolved = resolve(builtin.name, {});
    ASSERT_TRUE(resolved.ok()) << builtin.name << ": " << resolved.error().message;
    // As shipped it trains, and sets the keys of a run that does not.
    if (builtin.name != "llama_1t") {
      EXPECT_THAT(resolved->warnings, IsEmpty()) << builtin.name;
    }
    EXPECT_EQ(resolved->workload.name, builtin.name);
  }
}

TEST(Builtins, SummariesComeFromTheResolvedValues) {
  std::map<std::string_view, std::string_view> summaries;
  for (const Builtin& builtin : builtin_workloads()) summaries[builtin.name] = builtin.summary;
  EXPECT_EQ(summaries["unet3d_h100"],
            "3D U-Net on H100: 168 npz files of 147 MB, batch 7, 323 ms a step");
  EXPECT_EQ(
      summaries["llama_8b_zero3"],
      "Llama 8B checkpoints, ZeRO 3: 8.03 billion parameters, 105 GiB, 10 saves, 10 restores");
}

TEST(Builtins, HoldTheShippedNumbers) {
  const auto resolved = resolve("bert_v100", {});
  ASSERT_TRUE(resolved.ok());
  const Workload& bert = resolved->workload;
  EXPECT_EQ(bert.dataset.num_samples_per_file, 313532u);
  EXPECT_EQ(bert.dataset.file_prefix, "part");
  EXPECT_EQ(bert.reader.transfer_size, 262144u);
  EXPECT_EQ(bert.train.total_training_steps, 1000u);
  EXPECT_EQ(bert.checkpoint.steps_between_checkpoints, 250u);
  EXPECT_FALSE(bert.train.seed_change_epoch);
  EXPECT_EQ(bert.model.size_bytes, 4034713312u);
}

TEST_F(Files, EveryBuiltinSurvivesYamlRoundTrip) {
  for (const Builtin& builtin : builtin_workloads()) {
    const auto first = resolve(builtin.name, {"train.computation_time={type: gamma, shape: 2, "
                                              "scale: 0.1}",
                                              "dataset.file_prefix='a b: #\"\\'"});
    ASSERT_TRUE(first.ok()) << first.error().message;
    const std::string path = write(to_yaml(*first), "other_name.yaml");
    const auto second = resolve(path, {});
    ASSERT_TRUE(second.ok()) << second.error().message;
    Workload open = first->workload;  // secrets are not written down
    open.storage.access_key_id.clear();
    open.storage.secret_access_key.clear();
    EXPECT_TRUE(open == second->workload) << builtin.name;
    if (builtin.name != "llama_1t") {  // its warnings name the place
      EXPECT_EQ(first->warnings, second->warnings);
    }
    ASSERT_EQ(first->settings.size(), second->settings.size());
    for (size_t i = 0; i < first->settings.size(); ++i) {
      if (first->settings[i].value == "\"***\"") continue;
      EXPECT_EQ(first->settings[i].value, second->settings[i].value) << first->settings[i].key;
    }
  }
}

// --- Sources ---

TEST(Resolve, SuggestsTheNearestBuiltin) {
  const auto resolved = resolve("unet3d_h10", {});
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(resolved.error().message,
              StartsWith("no workload named 'unet3d_h10'; did you mean 'unet3d_h100'?"));
}

TEST_F(Files, NamesFilesThatCannotBeRead) {
  EXPECT_EQ(resolve("./nowhere.yaml", {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(resolve("nowhere.yml", {}).error().message, "nowhere.yml: cannot be opened");
  EXPECT_EQ(resolve(folder_.string() + "/", {}).error().code, ErrorCode::kIo);
  EXPECT_THAT(resolve("/dev/zero", {}).error().message, HasSubstr("too many for a workload"));
}

TEST_F(Files, TakesSectionsWithAndWithoutTheWorkloadLevel) {
  const Resolved plain = good("reader:\n  batch_size: 3\n");
  const Resolved nested = good("workload:\n  reader:\n    batch_size: 3\n");
  EXPECT_EQ(plain.workload.reader.batch_size, 3u);
  EXPECT_TRUE(plain.workload == nested.workload);
  EXPECT_EQ(plain.workload.name, "w");
}

TEST_F(Files, AcceptsHydraBoilerplateWithAWarning) {
  const Resolved resolved =
      good("defaults:\n - _self_\nhydra:\n  run:\n    dir: ./${now:%Y}\ntrain:\n  epochs: 2\n");
  EXPECT_EQ(resolved.workload.train.epochs, 2u);
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("w.yaml:1: 'defaults' has no effect"),
                                             HasSubstr("w.yaml:3: 'hydra' has no effect")));
  EXPECT_THAT(error("defaults:\n - workload: default\n"), HasSubstr("it only sets up Hydra"));
}

TEST_F(Files, RefusesFilesThatAreNoWorkload) {
  EXPECT_EQ(error(""), "w.yaml: no workload: the file is empty");
  EXPECT_THAT(error("- a\n- b\n"), HasSubstr("w.yaml:1: no workload"));
  EXPECT_THAT(error("just text"), HasSubstr("w.yaml:1: no workload"));
  EXPECT_THAT(error("workload: unet3d\n"), HasSubstr("'workload' must hold sections"));
}

TEST_F(Files, AcceptsOldSpellings) {
  const Resolved resolved = good(
      "model: unet3d\ndata_reader:\n  batch_size: 5\ndataset:\n  record_length: 4096\n"
      "  record_length_stdev: 12\nworkflow: {checkpoint: true}\ncheckpoint: {model_size: 77}\n");
  EXPECT_EQ(resolved.workload.model.name, "unet3d");
  EXPECT_EQ(resolved.workload.reader.batch_size, 5u);
  EXPECT_EQ(resolved.workload.dataset.record_length_bytes, 4096);
  EXPECT_EQ(resolved.workload.dataset.record_length_bytes_stdev, 12);
  EXPECT_EQ(resolved.workload.model.size_bytes, 77u);
}

TEST_F(Files, AcceptsEmptySectionsButNotValuesForSections) {
  EXPECT_EQ(good("reader:\ntrain: {}\n").workload.reader.batch_size, 1u);
  EXPECT_EQ(error("reader: 4\n"), "w.yaml:1: 'reader' is a section; set one of its keys");
  EXPECT_EQ(error("reader: [1]\n"), "w.yaml:1: 'reader' is a section; set one of its keys");
}

// --- Unknown keys ---

TEST_F(Files, NamesUnknownKeysWithTheirLineAndTheNearestKey) {
  EXPECT_EQ(error("reader:\n  read_threads: 1\n  batch_sise: 4\n"),
            "w.yaml:3: unknown key 'reader.batch_sise'; did you mean 'reader.batch_size'?");
  EXPECT_EQ(error("datset:\n  format: npz\n"),
            "w.yaml:1: unknown key 'datset'; did you mean 'dataset'?");
  EXPECT_EQ(error("train:\n  batch_size: 4\n"),
            "w.yaml:2: unknown key 'train.batch_size'; did you mean 'reader.batch_size'?");
  EXPECT_EQ(error("zzzzzzzzzzzz: 1\n"), "w.yaml:1: unknown key 'zzzzzzzzzzzz'");
  EXPECT_EQ(error("dataset:\n  hdf5:\n    chunk_dim: 1\n"),
            "w.yaml:3: unknown key 'dataset.hdf5.chunk_dim'; did you mean "
            "'dataset.hdf5.chunk_dims'?");
}

TEST(Overrides, NameUnknownKeysToo) {
  EXPECT_EQ(override_error("++workload.dataset.num_fils_train=4"),
            "override 1: unknown key 'dataset.num_fils_train'; did you mean "
            "'dataset.num_files_train'?");
  EXPECT_EQ(override_error("batch_size=4"),
            "override 1: unknown key 'batch_size'; did you mean 'reader.batch_size'?");
  EXPECT_THAT(override_error("train.computation_time.mean=1"),
              HasSubstr("'train.computation_time' is one value; set it whole"));
}

// --- Overrides ---

TEST(Overrides, WorkInEveryPrefixFormAndKeepTheirTypes) {
  for (const char* prefix : {"", "+", "++", "workload.", "+workload.", "++workload."}) {
    const std::string at = prefix;
    const auto resolved =
        resolve("demo", {at + "reader.batch_size=9", at + "train.computation_time=0.5",
                         at + "workflow.generate_data=True", at + "dataset.record_dims=[3,4]",
                         at + "reader.transfer_size=null", at + "dataset.data_folder='/a b'"});
    ASSERT_TRUE(resolved.ok()) << resolved.error().message;
    EXPECT_EQ(resolved->workload.reader.batch_size, 9u);
    EXPECT_EQ(resolved->workload.train.computation_time.a, 0.5);
    EXPECT_TRUE(resolved->workload.workflow.generate_data);
    EXPECT_THAT(resolved->workload.dataset.record_dims, ElementsAre(3, 4));
    EXPECT_EQ(resolved->workload.reader.transfer_size, std::nullopt);
    EXPECT_EQ(resolved->workload.dataset.data_folder, "/a b");
  }
}

TEST(Overrides, TakeDictionariesAsHydraWritesThem) {
  for (const char* value : {"{mean: 0.5, stdev: 0.1}", "{mean:0.5,stdev:0.1}"}) {
    const auto resolved = resolve("demo", {std::string("train.computation_time=") + value});
    ASSERT_TRUE(resolved.ok()) << resolved.error().message;
    EXPECT_EQ(resolved->workload.train.computation_time.text(), "normal(mean 0.5, stdev 0.1)");
  }
  const auto section = resolve("demo", {"++workload.reader={batch_size: 2, read_threads: 3}"});
  ASSERT_TRUE(section.ok());
  EXPECT_EQ(section->workload.reader.batch_size, 2u);
  EXPECT_EQ(section->workload.reader.read_threads, 3u);
}

TEST(Overrides, TakeAnEmptyValueAsEmptyText) {
  EXPECT_EQ(resolve("demo", {"output.folder="})->workload.output.folder, "");
  EXPECT_EQ(override_error("reader.batch_size="),
            "override 1: reader.batch_size must be a whole number (1..1000000000), not \"\"");
}

TEST(Overrides, LaterOnesWin) {
  const auto resolved = resolve("demo", {"train.epochs=3", "++train.epochs=4"});
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->workload.train.epochs, 4u);
  EXPECT_EQ(setting(*resolved, "train.epochs").origin, "override 2");
  EXPECT_THAT(resolved->warnings, IsEmpty());
}

TEST(Overrides, AreRefusedWhenMalformed) {
  EXPECT_EQ(override_error("train.epochs"), "override 1 'train.epochs': must be section.key=value");
  EXPECT_THAT(override_error("=4"), HasSubstr("the key before '=' is missing"));
  EXPECT_THAT(override_error("~train.epochs=1"), HasSubstr("removing a key is not possible"));
  EXPECT_THAT(override_error("~train.epochs"), HasSubstr("removing a key is not possible"));
  EXPECT_THAT(override_error("workload=default"), HasSubstr("named in front of its overrides"));
  EXPECT_THAT(override_error("dataset.record_dims=[1,2"), StartsWith("override 1 '"));
  EXPECT_THAT(override_error("dataset.data_folder=\xff"), HasSubstr("is not UTF-8"));
  EXPECT_THAT(override_error("train.epochs=two"),
              HasSubstr("train.epochs must be a whole number (1..1000000000), not two"));
}

TEST(Overrides, OfHydraItselfOnlyWarn) {
  const auto resolved =
      resolve("demo", {"++hydra.run.dir=/tmp/x", "hydra.output_subdir=dlio_config"});
  ASSERT_TRUE(resolved.ok());
  EXPECT_THAT(resolved->warnings, ElementsAre(HasSubstr("'hydra.run.dir' has no effect"),
                                              HasSubstr("'hydra.output_subdir' has no effect")));
}

// --- Origins ---

TEST_F(Files, KeepsTheOriginOfEachValue) {
  const Resolved resolved = good("reader:\n\n  batch_size: 3\n", {"train.epochs=2"});
  EXPECT_THAT(setting(resolved, "reader.batch_size").origin, testing::EndsWith("w.yaml:3"));
  EXPECT_THAT(setting(resolved, "reader.batch_size").origin, StartsWith("file "));
  EXPECT_EQ(setting(resolved, "train.epochs").origin, "override 1");
  EXPECT_EQ(setting(resolved, "train.seed").origin, "default");
  EXPECT_EQ(setting(resolved, "dataset.record_length_bytes").unit, "bytes");
  const auto builtin = resolve("demo", {});
  EXPECT_EQ(setting(*builtin, "reader.batch_size").origin, "built-in demo");
  EXPECT_EQ(setting(*builtin, "reader.batch_size").value, "4");
}

TEST_F(Files, NeverShowsSecrets) {
  const Resolved resolved =
      good("storage:\n  storage_options:\n    secret_access_key: hunter2\n    access_key_id: me\n");
  for (const std::string& warning : resolved.warnings)
    EXPECT_THAT(warning, Not(HasSubstr("hunter2")));
  for (const Setting& one : resolved.settings) EXPECT_THAT(one.value, Not(HasSubstr("hunter2")));
  EXPECT_THAT(to_yaml(resolved), Not(HasSubstr("hunter2")));
  EXPECT_EQ(resolved.warnings.size(), 2u);
  EXPECT_EQ(resolved.workload.storage.secret_access_key, "hunter2");
  for (const char* text : {"storage.storage_options.secret_access_key=hunter2",
                           "storage={storage_options: {secret_access_key: hunter2}}"})
    EXPECT_THAT(shown_override(text), testing::AllOf(Not(HasSubstr("hunter2")), HasSubstr("***")))
        << text;
  EXPECT_EQ(shown_override("train.epochs=2"), "train.epochs=2");
  for (const KeyInfo& key : schema()) {  // nothing else is hidden
    const std::string text = std::string(key.key) + "=a/secret_place";
    EXPECT_EQ(shown_override(text) == text, !is_secret_path(key.key)) << text;
    EXPECT_EQ(is_secret_path(key.key), key.key.find("access_key") != std::string::npos);
  }
  const auto broken = resolve("demo", {"storage.storage_options.secret_access_key=[hunter2"});
  EXPECT_THAT(broken.error().message, Not(HasSubstr("hunter2")));
  EXPECT_THAT(error("storage:\n  storage_options:\n    secret_access_key: [hunter2]\n"),
              Not(HasSubstr("hunter2")));
}

// --- What keys mean together ---

TEST_F(Files, StepIntervalOfCheckpointsWinsOverTheEpochKeys) {
  const Resolved resolved = good(
      "workflow: {checkpoint: true}\ntrain: {epochs: 3}\ncheckpoint:\n  checkpoint_after_epoch: 2\n"
      "  epochs_between_checkpoints: 2\n  steps_between_checkpoints: 4\n");
  EXPECT_EQ(resolved.workload.checkpoint.steps_between_checkpoints, 4u);
  EXPECT_THAT(
      resolved.warnings,
      ElementsAre(HasSubstr("w.yaml:4: checkpoint.checkpoint_after_epoch = 2 has no effect: "
                            "checkpoint.steps_between_checkpoints = 4 wins"),
                  HasSubstr("w.yaml:5: checkpoint.epochs_between_checkpoints = 2")));
}

TEST_F(Files, HonoursModelSizeAndSaysSo) {
  const Resolved resolved = good("model: {model_size: 499153191}\nworkflow: {checkpoint: true}\n");
  EXPECT_EQ(resolved.workload.model.size_bytes, 499153191u);
  EXPECT_THAT(
      resolved.warnings,
      ElementsAre(HasSubstr("DLIO ignores model.model_size; here each checkpoint holds those "
                            "499153191 bytes")));
}

TEST_F(Files, PrefersTheMainSpellingWhenBothAreGiven) {
  for (const char* text : {"model: {model_size: 5, model_size_bytes: 6}\n",
                           "model: {model_size_bytes: 6, model_size: 5}\n"}) {
    const Resolved resolved = good(text);
    EXPECT_EQ(resolved.workload.model.size_bytes, 6u);
    EXPECT_THAT(resolved.warnings,
                ElementsAre(HasSubstr("model.model_size has no effect: model.model_size_bytes")));
  }
  // So do the two names of the section, which the note tells apart.
  for (const char* text : {"reader: {batch_size: 6}\ndata_reader: {batch_size: 5}\n",
                           "data_reader: {batch_size: 5}\nreader: {batch_size: 6}\n"}) {
    const Resolved resolved = good(text);
    EXPECT_EQ(resolved.workload.reader.batch_size, 6u);
    EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("data_reader.batch_size has no effect: "
                                                         "reader.batch_size is set too")));
  }
  // A later layer wins whichever spelling it has.
  EXPECT_EQ(
      good("model: {model_size_bytes: 6}\n", {"model.model_size=5"}).workload.model.size_bytes, 5u);
}

TEST(Resolve, RefusesEvaluationWithoutFiles) {
  EXPECT_THAT(resolve("default", {"dataset.num_files_eval=0"}).error().message,
              HasSubstr("evaluation is on but dataset.num_files_eval is 0"));
}

const std::vector<std::string> kOnlySaves{"workflow.train=false", "workflow.checkpoint=true"};

Result<Resolved> resolve_saving(std::vector<std::string> more) {
  more.insert(more.end(), kOnlySaves.begin(), kOnlySaves.end());
  return resolve("demo", more);
}

TEST(Resolve, ARunThatOnlySavesHasToSayHowOften) {
  EXPECT_THAT(resolve_saving({}).error().message, HasSubstr("nothing is left to do: set "));
  const auto resolved = resolve_saving(
      {"checkpoint.num_checkpoints_write=2", "checkpoint.time_between_checkpoints=5"});
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  EXPECT_TRUE(resolved->workload.workflow.is_checkpoint_only());
  EXPECT_EQ(resolved->workload.checkpoint.time_between_checkpoints.mean(), 5);
}

TEST(Resolve, ARunThatOnlyMakesDataWarnsThatItSavesNoCheckpoint) {
  for (const char* text : {"model.type=transformer", "checkpoint.num_checkpoints_write=3",
                           "checkpoint.mode=subset", "train.epochs=1"}) {
    const auto made = resolve("unet3d_h100", {"workflow.train=false", "workflow.checkpoint=true",
                                              "workflow.generate_data=true", text});
    ASSERT_TRUE(made.ok()) << text << ": " << made.error().message;
    EXPECT_THAT(made->warnings, testing::Contains(HasSubstr("no checkpoint is saved"))) << text;
    EXPECT_FALSE(made->workload.workflow.is_checkpoint_only());
  }
}

TEST(Resolve, WarnsOfKeysThatDoNotChangeWhatIsSaved) {
  const auto expect_warning = [](const Result<Resolved>& resolved, const char* key) {
    ASSERT_TRUE(resolved.ok()) << resolved.error().message;
    EXPECT_THAT(resolved->warnings,
                Contains(testing::AllOf(HasSubstr(key), HasSubstr("has no effect"))));
  };
  for (const char* text :
       {"model.num_layers=4", "model.layer_parameters=[5]", "model.optimization_groups=[5]",
        "model.parallelism.tensor=2", "model.parallelism.zero_stage=1",
        "model.transformer.hidden_size=64", "model.model_datatype=bf16",
        "checkpoint.rank_sync=true", "checkpoint.num_checkpoints_write=3", "checkpoint.tiers=[/a]"})
    expect_warning(resolve("demo", {text}), std::string(text, std::strcspn(text, "=")).c_str());
  for (const char* text :
       {"model.num_layers=4", "model.transformer.hidden_size=64", "model.parallelism.data=3",
        "checkpoint.ksm.await_time=200", "checkpoint.steps_between_checkpoints=3"})
    expect_warning(resolve_saving({"checkpoint.num_checkpoints_write=1", text}),
                   std::string(text, std::strcspn(text, "=")).substr(0, 14).c_str());
  for (const char* text :
       {"checkpoint.num_checkpoints_write=3", "checkpoint.recovery_rank_shift=true"})
    expect_warning(resolve("demo", {"workflow.checkpoint=true", text}),
                   std::string(text, std::strcspn(text, "=")).c_str());
}

TEST(Resolve, RefusesStatesThatCannotBe) {
  const auto error = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), "checkpoint.num_checkpoints_write=3");
    const auto resolved = resolve_saving(std::move(overrides));
    return resolved.ok() ? std::string() : resolved.error().message;
  };
  EXPECT_THAT(error({"checkpoint.mode=subset"}), HasSubstr("needs model.parallelism.data"));
  EXPECT_THAT(error({"model.type=transformer", "model.num_layers=4",
                     "model.parallelism.zero_stage=3", "model.parallelism.pipeline=2"}),
              HasSubstr("model.parallelism.zero_stage = 3 does not go with "
                        "model.parallelism.pipeline = 2"));
  EXPECT_THAT(
      error({"checkpoint.num_checkpoints_read=1", "checkpoint.tiers=[{place: /a, keep: 2}]"}),
      HasSubstr("the last tier keeps 2 of 3 checkpoints"));
  EXPECT_THAT(error({"checkpoint.checkpoint_mechanism_classname=a.B"}),
              HasSubstr("Python classes cannot be loaded"));
}

// Each number that no model can have, and models of which nothing is left to save.
TEST(Resolve, SenselessNumbersOfModelsAndCheckpointsAreRefusedByName) {
  const std::vector<std::string> transformer{"model.type=transformer", "model.num_layers=4",
                                             "checkpoint.num_checkpoints_write=1"};
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = transformer;
    overrides.insert(overrides.end(), more.begin(), more.end());
    const auto resolved = resolve_saving(std::move(overrides));
    return resolved.ok() ? std::string() : resolved.error().message;
  };
  ASSERT_EQ(error({}), "");
  for (const char* text : {"model.num_layers=0",
                           "model.num_layers=-2",
                           "model.num_layers=1.5",
                           "model.parallelism.tensor=0",
                           "model.parallelism.pipeline=0",
                           "model.parallelism.data=0",
                           "model.parallelism.data=-3",
                           "model.parallelism.zero_stage=4",
                           "model.parallelism.pipeline=5",
                           "model.transformer.vocab_size=0",
                           "model.transformer.hidden_size=0",
                           "model.transformer.ffn_hidden_size=0",
                           "model.transformer.num_attention_heads=0",
                           "model.transformer.num_attention_heads=100000",
                           "model.transformer.num_kv_heads=0",
                           "model.transformer.num_kv_heads=64",
                           "model.layer_parameters=[0]",
                           "model.optimization_groups=[5, 0]",
                           "checkpoint.num_checkpoints_write=-2",
                           "checkpoint.num_checkpoints_read=-7",
                           "checkpoint.steps_between_checkpoints=0",
                           "checkpoint.checkpoint_after_epoch=0",
                           "checkpoint.epochs_between_checkpoints=0",
                           "checkpoint.time_between_checkpoints=-2",
                           "checkpoint.tiers=[{place: /a, keep: -1}]",
                           "checkpoint.tiers=[{place: /a, bytes_per_second_max: -1}]",
                           "checkpoint.tiers=[{place: /a, bytes_per_second_max: nan}]",
                           "checkpoint.tiers=[{place: /a, bytes_per_second_max: inf}]"}) {
    const std::string key(text, std::strcspn(text, "="));
    EXPECT_THAT(error({text}), HasSubstr(key)) << text;
  }
  EXPECT_THAT(error({"model.num_layers=-1"}), HasSubstr("model.num_layers"));
  EXPECT_THAT(error({"model.type=cnn", "model.num_layers=-1", "model.model_size_bytes=0"}),
              HasSubstr("nothing is left to save"));
}

TEST(Resolve, TiersAreFoldersOrMaps) {
  const auto resolved = resolve_saving(
      {"checkpoint.num_checkpoints_write=1",
       "checkpoint.tiers=[/fast, {place: s3://b/c, bytes_per_second_max: 163MB, keep: 2}]"});
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const std::vector<CheckpointPlace>& tiers = resolved->workload.checkpoint.tiers;
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].place, "/fast");
  EXPECT_EQ(tiers[1].bytes_per_second_max, 163e6);
  EXPECT_EQ(tiers[1].keep, 2u);
  EXPECT_EQ(setting(*resolved, "checkpoint.tiers").value,
            "[{place: /fast, storage: \"\", bytes_per_second_max: 0, keep: 0}, {place: "
            "\"s3://b/c\", storage: \"\", bytes_per_second_max: 163000000, keep: 2}]");
  const auto rate = resolve_saving({"checkpoint.num_checkpoints_write=1",
                                    "checkpoint.tiers=[/a, {place: /b, bytes_per_second_max: 163 "
                                    "MB/s}]"});
  ASSERT_TRUE(rate.ok()) << rate.error().message;
  EXPECT_EQ(rate->workload.checkpoint.tiers[1].bytes_per_second_max, 163e6);
  EXPECT_THAT(override_error("checkpoint.tiers=[{place: /a, bytes_per_second_max: fast/s}]"),
              HasSubstr("fast/s"));
  EXPECT_THAT(override_error("checkpoint.tiers=[/a, /a]"), HasSubstr("has /a twice"));
  EXPECT_THAT(override_error("checkpoint.tiers=[{plce: /a}]"), HasSubstr("did you mean 'place'?"));
}

TEST(Resolve, RefusesWhatCannotBeDoneByName) {
  for (const char* text :
       {"dataset.format=hdf5_opt", "dataset.compression=xz", "reader.data_loader=custom",
        "reader.data_loader=none", "reader.reader_classname=a.b.C",
        "reader.data_loader_classname=a.b.C", "dataset.files_pre_sharded=true",
        "dataset.parquet.partition_by=day", "dataset.parquet.read_mode=file"}) {
    const auto resolved = resolve("demo", {text});
    ASSERT_FALSE(resolved.ok()) << text;
    EXPECT_EQ(resolved.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(resolved.error().message,
                HasSubstr(std::string(text).substr(0, std::string(text).find('='))));
  }
}

TEST(Resolve, ChecksCompressionAgainstTheFormat) {
  EXPECT_TRUE(resolve("demo", {"dataset.compression=zip"}).ok());
  EXPECT_TRUE(resolve("demo", {"dataset.compression=gzip", "dataset.format=tfrecord"}).ok());
  EXPECT_EQ(resolve("demo", {"dataset.compression=lzf"}).error().code, ErrorCode::kUnsupported);
}

TEST(Resolve, SpreadsAConstantTimeByItsStdev) {
  const auto resolved = resolve("demo", {"train.computation_time_stdev=0.01"});
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->workload.train.computation_time.text(), "normal(mean 0.05, stdev 0.01)");
  const auto both = resolve(
      "demo", {"train.computation_time={mean: 1, stdev: 2}", "train.computation_time_stdev=0.01"});
  EXPECT_THAT(both.error().message, HasSubstr("both say how the time spreads"));
}

TEST(Resolve, TakesNoReadThreadsAsOne) {
  const auto resolved = resolve("demo", {"reader.read_threads=0"});
  EXPECT_EQ(resolved->workload.reader.read_threads, 1u);
  EXPECT_THAT(resolved->warnings, ElementsAre(HasSubstr("reader.read_threads = 0 is taken as 1")));
}

TEST(Resolve, RefusesImpossibleSizes) {
  EXPECT_THAT(resolve("demo", {"dataset.num_files_train=1e12", "dataset.num_samples_per_file=1e12"})
                  .error()
                  .message,
              HasSubstr("impossible data set"));
  EXPECT_THAT(
      resolve("demo", {"dataset.record_dims=[1099511627776,1099511627776]"}).error().message,
      HasSubstr("impossible data set"));
  EXPECT_FALSE(resolve("demo", {"dataset.record_length_bytes=1e19"}).ok());
  EXPECT_FALSE(resolve("demo", {"reader.batch_size=0"}).ok());
}

TEST(Resolve, RefusesShapesThatCannotBeMade) {
  EXPECT_THAT(resolve("unet3d_h100", {"dataset.record_dims=[2,2]"}).error().message,
              HasSubstr("dataset.record_length_bytes_stdev"));
  EXPECT_THAT(resolve("demo_images", {"dataset.record_dims=[2,2,3]"}).error().message,
              HasSubstr("more than two dimensions"));
}

TEST(Resolve, SaysWhenNothingWouldBeSavedOrEvaluated) {
  EXPECT_THAT(resolve("unet3d_h100", {"train.epochs=1"})->warnings,
              ElementsAre(HasSubstr("no checkpoint will be saved")));
  EXPECT_THAT(resolve("default", {"evaluation.eval_after_epoch=11"})->warnings,
              ElementsAre(HasSubstr("no evaluation will happen")));
  EXPECT_THAT(resolve("demo", {"workflow.train=false"})->warnings,
              Contains(HasSubstr("asks for nothing")));
}

TEST(Resolve, SaysEachWarningOnce) {
  const auto resolved =
      resolve("demo", {"reader.pin_memory=false", "reader.pin_memory=false", "hydra.a=1"});
  EXPECT_EQ(resolved->warnings.size(), 2u);
}

// --- Keys of single formats, and the three DLIOs ---

Resolved resolved_as(Compat compat, const std::vector<std::string>& overrides) {
  auto resolved = resolve("demo", overrides, {.compat = compat});
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  return resolved.ok() ? std::move(resolved).value() : Resolved();
}

TEST(Compat, HasANameForEachAndBack) {
  for (const Compat compat : {Compat::kDlioMain, Compat::kMlpsV2, Compat::kMlpsV3})
    EXPECT_EQ(compat_from_name(compat_name(compat)), compat);
  EXPECT_EQ(compat_from_name("mlps"), std::nullopt);
  EXPECT_THAT(to_yaml(resolved_as(Compat::kMlpsV2, {})), StartsWith("# Resolved workload (--compat "
                                                                    "mlps-v2.0)"));
}

TEST(Compat, DecidesWhatCutsHdf5DataIntoChunks) {
  const std::vector<std::string> overrides{"dataset.format=hdf5", "dataset.enable_chunking=true",
                                           "dataset.chunk_size=4096"};
  const Resolved v2 = resolved_as(Compat::kMlpsV2, overrides);
  EXPECT_TRUE(v2.workload.dataset.enable_chunking);
  EXPECT_EQ(v2.workload.dataset.chunk_size, 4096u);
  EXPECT_THAT(v2.warnings, IsEmpty());
  const Resolved v3 = resolved_as(Compat::kMlpsV3, overrides);
  EXPECT_FALSE(v3.workload.dataset.enable_chunking);
  EXPECT_THAT(v3.warnings, Contains(HasSubstr("dataset.enable_chunking = true has no effect with "
                                              "--compat mlps-v3.0: set dataset.hdf5.chunk_dims")));
  EXPECT_THAT(resolve("demo", {"dataset.format=hdf5", "dataset.enable_chunking=true"},
                      {.compat = Compat::kMlpsV2})
                  .error()
                  .message,
              HasSubstr("needs dataset.chunk_size"));
}

TEST(Resolve, WarnsAboutKeysOfOtherFormats) {
  const auto resolved =
      resolve("demo", {"dataset.hdf5.chunk_dims=[1,2,2]", "dataset.parquet.row_group_size=5"});
  ASSERT_TRUE(resolved.ok());
  EXPECT_THAT(resolved->warnings, ElementsAre(HasSubstr("only dataset.format = hdf5 uses it"),
                                              HasSubstr("only dataset.format = parquet uses it")));
}

TEST(Resolve, ChecksShapesOfHdf5Data) {
  const auto error = [](std::vector<std::string> overrides) {
    overrides.push_back("dataset.format=hdf5");
    const auto resolved = resolve("demo", overrides);
    return resolved.ok() ? "" : resolved.error().message;
  };
  EXPECT_EQ(error({"dataset.hdf5.chunk_dims=[1,64,64]"}), "");
  EXPECT_THAT(error({"dataset.hdf5.chunk_dims=[64,64]"}), HasSubstr("must have 3 numbers"));
  EXPECT_EQ(error({"dataset.hdf5.chunk_dims=[1,4]", "dataset.record_dims=[8]",
                   "dataset.hdf5.max_shape=[16]"}),
            "");
  EXPECT_THAT(error({"dataset.hdf5.max_shape=[16]"}), HasSubstr("must have 2 numbers"));
  EXPECT_THAT(error({"dataset.hdf5.num_dset_per_record=3", "dataset.record_dims=[8,2]"}),
              HasSubstr("does not divide the first of dataset.record_dims, 8"));
}

TEST(Resolve, ReadsParquetColumns) {
  const auto resolved = resolve(
      "demo",
      {"dataset.format=parquet",
       "dataset.parquet.columns=[{name: a, dtype: int8}, {name: b, size: 3, read: false}]"});
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const std::vector<ParquetColumn> expected{{"a", "int8", 1, true}, {"b", "float32", 3, false}};
  EXPECT_EQ(resolved->workload.dataset.parquet_columns, expected);
  const auto error = [](const std::string& columns) {
    const auto bad =
        resolve("demo", {"dataset.format=parquet", "dataset.parquet.columns=" + columns});
    return bad.ok() ? "" : bad.error().message;
  };
  EXPECT_THAT(error("[{name: a, read: false}]"), HasSubstr("no column has read: true"));
  EXPECT_THAT(error("[{name: a}, {name: a}]"), HasSubstr("two columns named 'a'"));
  EXPECT_THAT(error("[{name: a, dtyp: int8}]"), HasSubstr("did you mean 'dtype'"));
  EXPECT_THAT(error("[{name: a, size: 0}]"), HasSubstr("size: must be"));
  EXPECT_THAT(error("[{dtype: int8}]"), HasSubstr("a column with a name"));
  EXPECT_THAT(error("[a, b]"), HasSubstr("must be {name, dtype, size, read}"));
}

TEST(Resolve, SaysThatDocumentedSpellingsCountHere) {
  const auto resolved = resolve("demo", {"dataset.record_length=4096"});
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->workload.dataset.record_length_bytes, 4096);
  EXPECT_THAT(resolved->warnings,
              ElementsAre(HasSubstr("DLIO does not read dataset.record_length, only "
                                    "dataset.record_length_bytes")));
}

TEST(Resolve, KeepsKeysOfTheDlioCommandLineForIt) {
  const std::vector<std::string> overrides{"output.log_file=a.log",
                                           "workflow.query=dataset.format"};
  const auto here = resolve("demo", overrides);
  EXPECT_THAT(here->warnings, ElementsAre(HasSubstr("dlio_benchmark_query prints it"),
                                          HasSubstr("output.log_file = a.log has no effect")));
  const auto there = resolve("demo", overrides, {.is_dlio_command = true});
  EXPECT_THAT(there->warnings, IsEmpty());
  EXPECT_EQ(there->workload.output.log_file, "a.log");
  EXPECT_EQ(there->workload.workflow.query, "dataset.format");
}

TEST(Resolve, TakesShufflesThatYamlTurnedIntoFalse) {
  for (const char* off : {"off", "False", "false", "'off'"})
    EXPECT_EQ(
        resolve("demo", {std::string("reader.file_shuffle=") + off})->workload.reader.file_shuffle,
        Shuffle::kOff);
}

TEST(Resolve, RefusesProfilersOnlyWhereOneWouldRun) {
  EXPECT_THAT(resolve("demo", {"profiling.profiler=darshan"})->warnings,
              ElementsAre(HasSubstr("workflow.profiling is false")));
  EXPECT_THAT(
      resolve("demo", {"profiling.profiler=darshan", "workflow.profiling=true"}).error().message,
      HasSubstr("LD_PRELOAD"));
}

}  // namespace
}  // namespace forebay::workload

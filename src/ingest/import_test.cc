// Goal: files and folders become recordings, each file by its content, and what is none is named.
#include "ingest/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "base/test_folder.h"
#include "ingest/builtin.h"
#include "ingest/testing_import.h"
#include "trace/recording.h"

namespace forebay::ingest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string golden(const std::string& path) {
  return base::source_folder() + "/tests/golden/traces/" + path;
}

void write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Import, MakesOneRecordingOfAFolderOfRanks) {
  const base::TestFolder folder("import");
  const base::TestFolder ranks("ranks");
  for (const char* const name : {"sampled_rank-0.json.gz", "sampled_rank-1.json.gz"})
    fs::copy(golden(std::string("kineto/") + name), ranks / name);
  write(ranks / "notes.txt", "nothing to see");
  const std::vector<std::string> paths{ranks.path()};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  ASSERT_EQ(imported.files.size(), 2U);
  EXPECT_EQ(imported.files[0].rank, 0);
  EXPECT_EQ(imported.files[1].rank, 1);
  ASSERT_EQ(imported.passed_over.size(), 1U);
  EXPECT_EQ(imported.passed_over[0].path, ranks / "notes.txt");
  std::vector<std::string> traces;
  for (const ImportedFile& file : imported.files) traces.push_back(file.trace);
  const trace::Recording recording = trace::Recording::load(traces).take();
  EXPECT_EQ(recording.size(), imported.files[0].events + imported.files[1].events);
  // Spans of one track nest.
  const trace::Dictionary& dictionary = recording.dictionary();
  for (trace::TrackId track = 0; track < dictionary.tracks.size(); ++track) {
    std::vector<int64_t> ends;
    const auto rows = recording.rows(track);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording.name(row).kind != trace::EventKind::kSpan) continue;
      while (!ends.empty() && ends.back() <= recording.start(row)) ends.pop_back();
      ASSERT_TRUE(ends.empty() || recording.end(row) <= ends.back());
      ends.push_back(recording.end(row));
    }
  }
  // Nothing says that the ranks share a host.
  int hosts = 0;
  for (const trace::Track& track : dictionary.tracks)
    hosts += track.kind == trace::TrackKind::kHost;
  EXPECT_EQ(hosts, 2);
}

std::vector<std::string> passed_over(const Imported& imported) {
  std::vector<std::string> names;
  for (const PassedOver& each : imported.passed_over)
    names.push_back(fs::path(each.path).filename().string());
  return names;
}

TEST(Import, TakesTheTracesOfFoldersInsideAFolderAndNamesWhatItPassesOver) {
  const base::TestFolder folder("import");
  const base::TestFolder parent("parent");
  for (const char* const run : {"run-a", "run-b"}) {
    fs::create_directories(fs::path(parent.path()) / run / "deep");
    fs::copy(golden("strace/shell.txt"), fs::path(parent.path()) / run / "deep" / "shell.txt");
  }
  write(parent / "LICENSE", "all rights");
  write(parent / "run-a/README.md", "# a run");
  fs::create_directories(parent / "run-b/deep/plots");
  const std::vector<std::string> paths{parent.path()};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  ASSERT_EQ(imported.files.size(), 2U);
  EXPECT_EQ(imported.folders, 2U);
  EXPECT_THAT(passed_over(imported), testing::ElementsAre("LICENSE", "README.md", "plots"));
  EXPECT_TRUE(is_foreign_trace(parent.path()));
  fs::remove_all(parent / "run-a/deep");
  fs::remove_all(parent / "run-b/deep");
  EXPECT_FALSE(is_foreign_trace(parent.path()));
  EXPECT_EQ(import(paths, {.folder = folder.path(), .version = "1"}).error().code,
            ErrorCode::kUnsupported);
}

TEST(Import, OfSeveralPathsPassesOverWhatIsNoTrace) {
  const base::TestFolder folder("import");
  write(folder / "LICENSE", "all rights");
  const std::vector<std::string> paths{folder / "LICENSE", golden("strace/shell.txt")};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  EXPECT_EQ(imported.files.size(), 1U);
  EXPECT_THAT(passed_over(imported), testing::ElementsAre("LICENSE"));
}

TEST(Import, RefusesWhatItDoesNotKnow) {
  const base::TestFolder folder("import");
  write(folder / "text", "hello\nworld\n");
  write(folder / "empty", "");
  for (const char* const name : {"text", "empty"}) {
    const std::vector<std::string> paths{folder / name};
    const auto result = import(paths, {.folder = folder.path(), .version = "1"});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(result.error().message, HasSubstr("kineto"));
    EXPECT_FALSE(is_foreign_trace(folder / name));
  }
  const std::vector<std::string> missing{folder / "missing"};
  EXPECT_EQ(import(missing, {.folder = folder.path(), .version = "1"}).error().code,
            ErrorCode::kNotFound);
  EXPECT_TRUE(is_foreign_trace(golden("kineto/alexnet.json.gz")));
  EXPECT_TRUE(is_foreign_trace(golden("dlio")));
  EXPECT_TRUE(is_foreign_trace(golden("strace")));
}

TEST(Import, LeavesNoFileOfATraceWithoutEvents) {
  const base::TestFolder folder("import");
  write(folder / "none.json", R"({"traceEvents": []})");
  const std::vector<std::string> paths{folder / "none.json"};
  const auto result = import(paths, {.folder = folder.path(), .version = "1"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorruption);
  EXPECT_FALSE(fs::exists(folder / "none.fbt"));
}

TEST(Import, ReadsGzipUpToItsCut) {
  const base::TestFolder folder("import");
  const std::string whole = read(golden("kineto/sampled_rank-0.json.gz"));
  write(folder / "cut.json.gz", std::string_view(whole).substr(0, whole.size() / 2));
  const std::vector<std::string> paths{folder / "cut.json.gz"};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  ASSERT_EQ(imported.files.size(), 1U);
  EXPECT_GT(imported.files[0].events, 1000U);
  EXPECT_LT(imported.files[0].events, 4811U);
  EXPECT_THAT(imported.files[0].account.damage.value_or(""), HasSubstr("gzip"));
}

// The JSON is whole before the checksum comes: what was changed inside is still told.
TEST(Import, TellsOfAGzipWhoseChecksumIsWrong) {
  const base::TestFolder folder("import");
  std::string bytes = read(golden("kineto/sampled_rank-0.json.gz"));
  bytes[bytes.size() - 8] ^= 1;
  write(folder / "wrong.json.gz", bytes);
  const std::vector<std::string> paths{folder / "wrong.json.gz"};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  ASSERT_EQ(imported.files.size(), 1U);
  EXPECT_EQ(imported.files[0].events, 4811U);
  EXPECT_THAT(imported.files[0].account.damage.value_or(""), HasSubstr("checksum"));
}

TEST(Import, ReadsGzipOfSeveralMembers) {
  const std::string one = read(golden("dftracer/test.pfw.gz"));
  const auto once = import_text(kDftracer, one);
  const auto twice = import_text(kDftracer, one + one);
  EXPECT_EQ(once.events.size(), 1012U);
  EXPECT_EQ(twice.events.size(), 2 * once.events.size());
  EXPECT_FALSE(twice.account.damage.has_value());
}

TEST(Import, ReadsRanksFromNames) {
  EXPECT_EQ(rank_of_name("/a/rank_3.json"), 3);
  EXPECT_EQ(rank_of_name("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"), 34);
  EXPECT_EQ(rank_of_name("trace_7.json.gz"), 7);
  EXPECT_EQ(rank_of_name("rank0.json"), 0);
  EXPECT_EQ(rank_of_name("12_output.json"), 12);
  EXPECT_EQ(rank_of_name("benchmark_result_493459_1694039959_trace.json.gz"), -1);
  EXPECT_EQ(rank_of_name("trace.json"), -1);
  EXPECT_EQ(rank_of_name("host_1712195495.json"), -1);
}

// Every format in the table is recognised by its own files and by no other importer's.
TEST(Import, RecognisesEachFormatAlone) {
  const std::map<std::string, std::string> files{{"kineto", "kineto/backward_thread.json"},
                                                 {"dftracer", "dftracer/test.pfw.gz"},
                                                 {"strace", "strace/shell.txt"},
                                                 {"perf", "perf/python.txt"},
                                                 {"darshan", "darshan/posix.txt"},
                                                 {"darshan-dxt", "darshan/dxt.txt"},
                                                 {"nvidia-smi", "nvidia_smi/dmon.txt"},
                                                 {"sofa", "sofa/gputrace.csv"},
                                                 {"nsys", "nsys/healthy_judged_1pct.sqlite"}};
  for (const Importer* const importer : importers()) {
    if (importer->recognises == nullptr) continue;
    ASSERT_EQ(files.count(std::string(importer->name)), 1U) << importer->name;
  }
  for (const auto& [format, path] : files) {
    auto stream = open_file_stream(golden(path)).take();
    std::vector<std::byte> first(64 << 10);
    const size_t size = stream->read(first).take();
    const std::string_view text(reinterpret_cast<const char*>(first.data()), size);
    std::vector<std::string> takers;
    for (const Importer* const importer : importers()) {
      if (importer->recognises != nullptr && importer->recognises(text, path))
        takers.emplace_back(importer->name);
    }
    ASSERT_FALSE(takers.empty()) << path;
    EXPECT_EQ(takers[0], format) << path;
    // DFTracer's dialect is Chrome JSON as well; the pickier importer is asked first.
    if (format != "dftracer") {
      EXPECT_EQ(takers.size(), 1U) << path;
    }
  }
}

// Nsight's tables come and go with versions: each alone, with the fewest columns it may have.
TEST(Import, ReadsTablesOfNsightThatArePresent) {
  const base::TestFolder folder("nsys");
  const std::string path = folder / "small.sqlite";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  const char* const sql =
      "CREATE TABLE NVTX_EVENTS(start INT, \"end\" INT, eventType INT, text TEXT, globalTid INT);"
      "INSERT INTO NVTX_EVENTS VALUES(100, 900, 59, 'iteration 4', 281474993487873),"
      " (50, NULL, 34, 'here', 281474993487873), (7, 8, 33, 'category', 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT, \"end\" INT, bytes INT, copyKind INT,"
      " deviceId INT, streamId INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(10, 30, 4096, 1, 0, 7), (40, 35, 1, 99, 0, 7);"
      "CREATE TABLE SCHED_EVENTS(start INT, cpu INT, isSchedIn INT, globalTid INT);"
      "INSERT INTO SCHED_EVENTS VALUES(200, 0, 0, 281474993487873), (260, 1, 1, 281474993487873);"
      "CREATE TABLE OSRT_API(start INT, \"end\" INT, nameId INT, globalTid INT);"
      "INSERT INTO OSRT_API VALUES(300, 400, 1, 281474993487873);"
      "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
      "INSERT INTO StringIds VALUES(1, 'pthread_cond_wait');"
      "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INT);"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000);";
  ASSERT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  const std::vector<std::string> paths{path};
  const Imported imported = import(paths, {.folder = folder.path(), .version = "1"}).take();
  const std::vector<std::string> traces{imported.files.at(0).trace};
  const trace::Recording recording = trace::Recording::load(traces).take();
  std::map<std::string, std::pair<trace::Category, int64_t>> events;
  for (size_t row = 0; row < recording.size(); ++row) {
    events[recording.text(row)] = {recording.name(row).category, recording.duration(row)};
  }
  using trace::Category;
  EXPECT_EQ(events["iteration 4"], std::pair(Category::kStep, int64_t{800}));
  EXPECT_EQ(events["here"].first, Category::kAnnotation);
  EXPECT_EQ(events["memcpy host to device"], std::pair(Category::kCopy, int64_t{20}));
  EXPECT_EQ(events["memcpy"], std::pair(Category::kCopy, int64_t{0}));
  EXPECT_EQ(events["off cpu"], std::pair(Category::kOffCpu, int64_t{60}));
  EXPECT_EQ(events["pthread_cond_wait"], std::pair(Category::kLock, int64_t{100}));
  EXPECT_EQ(events.size(), 6U);
  EXPECT_EQ(recording.files()[0].clock.at(0).unix_ns, 1700000000000000000);
  const Account& account = imported.files[0].account;
  EXPECT_EQ(account.skipped.at("NVTX events that are no ranges or marks"), 1U);
  EXPECT_EQ(account.repaired.at("spans of negative duration: taken as 0"), 1U);
}

TEST(Import, RefusesDamagedDatabasesWithoutHarm) {
  const base::TestFolder folder("nsys");
  const std::string whole = read(golden("nsys/healthy_judged_1pct.sqlite"));
  for (size_t at = 100; at < whole.size(); at += 997) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write(folder / "damaged.sqlite", damaged);
    const std::vector<std::string> paths{folder / "damaged.sqlite"};
    const auto result = import(paths, {.folder = folder.path(), .version = "1"});
    if (result.ok()) {
      EXPECT_LE(result->files.at(0).events, 60U);
    }
  }
}

}  // namespace
}  // namespace forebay::ingest

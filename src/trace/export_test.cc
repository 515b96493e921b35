// Each export holds what the recording holds, read back by other readers: a JSON parser, SQLite,
// and in tests/trace Perfetto's own.
#include "trace/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/test_folder.h"
#include "trace/facts.h"
#include "trace/testing_memory.h"

namespace forebay::trace {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Recording example() {
  MemoryFile file;
  const auto writer = file.writer();
  const TrackId host = writer->add_track(TrackKind::kHost, kNoId, "alpha");
  const TrackId process = writer->add_track(TrackKind::kProcess, host, "train.py", 42);
  const TrackId thread = writer->add_track(TrackKind::kThread, process, "main", 43);
  const TrackId ring = writer->add_track(TrackKind::kStream, process, "io_uring");
  const NameId read = writer->name("re\"ad\x01\xff", Category::kRead);
  const NameId step = writer->name("step", Category::kStep);
  const NameId mark = writer->name("epoch", Category::kAnnotation, EventKind::kInstant);
  const NameId memory = writer->name("resident_bytes", Category::kUsage, EventKind::kCounter);
  const NameId sample = writer->name("sample", Category::kOnCpu, EventKind::kSample);
  const KeyId bytes = writer->key(key::kBytes), path = writer->key(key::kFile, ArgumentType::kText);
  const KeyId stack = writer->key(key::kStack, ArgumentType::kStack);
  writer->add({thread, step, 1'000, 10'500});
  writer->add({thread, read, 2'000, 1'001},
              {{bytes, 4096}, {path, writer->text("/data/a,b \"c\".npz")}});
  writer->add({thread, mark, 12'000, 0});
  writer->counter(process, memory, 3'000, 1.5e9);
  // Two requests that overlap without nesting.
  writer->add({ring, read, 100, 50});
  writer->add({ring, read, 120, 60});
  Frame frame;
  frame.symbol = writer->text("load");
  frame.module = writer->text("libload.so");
  writer->add({thread, sample, 5'000, 100}, {{stack, writer->stack(kNoId, writer->frame(frame))}});
  writer->fact(fact::kCommand, "python train.py");
  EXPECT_TRUE(writer->finish().ok());
  return file.load();
}

std::string text_of(const Exporter& exporter, const Recording& recording) {
  std::string text;
  const Status written = exporter.write(recording, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  });
  EXPECT_TRUE(written.ok());
  return text;
}

TEST(Export, ChromeJsonIsValidAndHoldsEveryEvent) {
  const json trace = json::parse(text_of(kChromeExporter, example()));
  int spans = 0, instants = 0, counters = 0;
  std::map<std::string, std::vector<double>> starts_by_row;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    spans += phase == "X";
    instants += phase == "i";
    counters += phase == "C";
    if (phase == "X" && event["name"] == "re\"ad\x01\xef\xbf\xbd" && event["args"].size() == 2) {
      EXPECT_EQ(event["ts"], 2.0);
      EXPECT_EQ(event["dur"], 1.001);
      EXPECT_EQ(event["cat"], "read");
      EXPECT_EQ(event["args"]["bytes"], 4096);
      EXPECT_EQ(event["args"]["file"], "/data/a,b \"c\".npz");
    }
    if (phase == "C") {
      EXPECT_EQ(event["args"]["value"], 1.5e9);
    }
  }
  EXPECT_EQ(spans, 4);
  EXPECT_EQ(instants, 2);  // the mark and the sample
  EXPECT_EQ(counters, 1);
  EXPECT_EQ(trace["otherData"]["command"], "python train.py");
}

TEST(Export, OverlappingSpansGetRowsOfTheirOwn) {
  const json trace = json::parse(text_of(kChromeExporter, example()));
  std::vector<std::pair<double, int>> requests;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["ts"] < 1.0) requests.emplace_back(event["ts"], event["tid"]);
  }
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_NE(requests[0].second, requests[1].second);
}

TEST(Export, CsvQuotesWhatNeedsIt) {
  const std::string text = text_of(kCsvExporter, example());
  EXPECT_THAT(text, HasSubstr("track,start_ns,duration_ns,kind,category,name,"));
  EXPECT_THAT(text, HasSubstr("\"/data/a,b \"\"c\"\".npz\""));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
}

TEST(Export, TextIsUtf8) {
  const std::string text = text_of(kCsvExporter, example());
  EXPECT_THAT(text, HasSubstr("re\"\"ad\x01\xef\xbf\xbd"));
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

// A second export failed: "table tracks already exists". A failed one blocked the next.
TEST(Export, SqliteReplacesWhatWasThereAndLeavesNothingHalfDone) {
  const base::TestFolder folder("export");
  const std::string path = folder / "t.sqlite";
  std::ofstream(path) << "no database";
  ASSERT_TRUE(kSqliteExporter.write_file(example(), path).ok());
  ASSERT_TRUE(kSqliteExporter.write_file(example(), path).ok());
  std::filesystem::create_directory(folder / "taken");
  EXPECT_FALSE(kSqliteExporter.write_file(example(), folder / "taken").ok());
  EXPECT_FALSE(kSqliteExporter.write_file(example(), folder / "none/t.sqlite").ok());
  size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left += entry.path().extension() == ".partial";
  EXPECT_EQ(left, 0u);
}

TEST(Export, SqliteAnswersQuestions) {
  const base::TestFolder folder("export");
  const std::string path = folder / "t.sqlite";
  ASSERT_TRUE(kSqliteExporter.write_file(example(), path).ok());
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  const auto answer = [&](const char* question) {
    std::string out;
    sqlite3_exec(
        database, question,
        [](void* into, int, char** values, char**) {
          *static_cast<std::string*>(into) += values[0] == nullptr ? "null" : values[0];
          return 0;
        },
        &out, nullptr);
    return out;
  };
  EXPECT_EQ(answer("SELECT count(*) FROM events"), "7");
  EXPECT_EQ(answer("SELECT sum(duration_ns) FROM events WHERE category='read'"), "1111");
  EXPECT_EQ(answer("SELECT value FROM event_arguments WHERE key='bytes'"), "4096");
  EXPECT_EQ(answer("SELECT path FROM tracks WHERE kind='thread'"), "alpha / train.py 42 / main 43");
  EXPECT_EQ(answer("SELECT value FROM arguments WHERE key='stack'"), "load");
  EXPECT_EQ(answer("SELECT DISTINCT name FROM events WHERE category='read'"),
            "re\"ad\x01\xef\xbf\xbd");
  EXPECT_EQ(answer("SELECT value FROM facts WHERE key='command'"), "python train.py");
  sqlite3_close(database);
}

TEST(Export, AFullDiskIsReported) {
  const Recording recording = example();
  for (const Exporter* exporter : exporters()) {
    if (exporter->write == nullptr) continue;
    const Status written = exporter->write(recording, [](std::string_view) -> Status {
      return Error{ErrorCode::kResourceExhausted, "disk full"};
    });
    ASSERT_FALSE(written.ok()) << exporter->name;
    EXPECT_EQ(written.error().message, "disk full");
  }
}

TEST(Export, TheSuffixNamesTheFormat) {
  EXPECT_EQ(exporter_of("a/b.pftrace"), &kPerfettoExporter);
  EXPECT_EQ(exporter_of("a/b.json"), &kChromeExporter);
  EXPECT_EQ(exporter_of("a/b.fbt"), nullptr);
  EXPECT_EQ(find_exporter("csv"), &kCsvExporter);
}

}  // namespace
}  // namespace forebay::trace

#include "trace/chrome.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace forebay::trace {
namespace {

nlohmann::json exported(const Recorder& recorder) {
  std::string text;
  const Status status = write_chrome_json(recorder, [&](std::string_view piece) {
    text += piece;
    return Status();
  });
  EXPECT_TRUE(status.ok());
  auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << text.substr(0, 2000);
  return json;
}

TEST(ChromeJson, IsValidWhenEmpty) {
  const auto json = exported(Recorder(1));
  EXPECT_TRUE(json["traceEvents"].empty());
  EXPECT_EQ(json["otherData"]["dropped_events"], "0");
}

TEST(ChromeJson, WritesSpansInMicrosecondsWithDecimals) {
  Recorder recorder(10);
  const int track = recorder.track("accelerator 0/step");
  recorder.span(track, recorder.name("wait"), 1234567, 1235067, 42);
  recorder.span(track, recorder.name("compute"), -1500, 0);
  const auto json = exported(recorder);
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["ph"], "M");
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "accelerator 0");
  EXPECT_EQ(events[1]["name"], "thread_name");
  EXPECT_EQ(events[1]["args"]["name"], "step");
  EXPECT_EQ(events[2]["ph"], "X");
  EXPECT_EQ(events[2]["name"], "wait");
  EXPECT_DOUBLE_EQ(events[2]["ts"], 1234.567);
  EXPECT_DOUBLE_EQ(events[2]["dur"], 0.5);
  EXPECT_EQ(events[2]["args"]["value"], 42);
  EXPECT_EQ(events[2]["pid"], events[0]["pid"]);
  EXPECT_EQ(events[2]["tid"], events[1]["tid"]);
  EXPECT_DOUBLE_EQ(events[3]["ts"], -1.5);
  EXPECT_FALSE(events[3].contains("args"));
}

TEST(ChromeJson, KeepsCountersOfTwoTracksApart) {
  Recorder recorder(10);
  const int name = recorder.name("ready batches");
  recorder.counter(recorder.track("a"), name, 1000, 2);
  recorder.counter(recorder.track("b"), name, 2000, 0.25);
  const auto json = exported(recorder);
  const auto& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 5u);  // one process, two tracks, two counters
  EXPECT_EQ(events[3]["ph"], "C");
  EXPECT_EQ(events[3]["name"], "a: ready batches");
  EXPECT_EQ(events[4]["name"], "b: ready batches");
  EXPECT_EQ(events[4]["args"]["value"], 0.25);
}

TEST(ChromeJson, EscapesEveryByteAndReplacesBrokenUtf8) {
  Recorder recorder(600);
  std::string hostile = "\"\\\x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 </script>";
  for (int c = 0; c < 256; ++c) {
    recorder.span(0, recorder.name(std::string(3, static_cast<char>(c))), c, c);
  }
  recorder.track("x\n\"/y\t");
  recorder.span(0, recorder.name(hostile), 1, 2);
  for (const char* broken :
       {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x9f"}) {
    recorder.span(0, recorder.name(broken), 1, 2);
  }
  const auto json = exported(recorder);
  const auto& events = json["traceEvents"];
  EXPECT_EQ(events[0]["args"]["name"], "x\n\"");
  EXPECT_EQ(events[1]["args"]["name"], "y\t");
  EXPECT_EQ(events[2]["name"], std::string(3, '\0'));
  EXPECT_EQ(events[2 + 256]["name"], hostile);
  EXPECT_EQ(events[2 + 257]["name"], "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ChromeJson, SurvivesExtremeTimesAndUnknownIds) {
  Recorder recorder(10);
  recorder.span(0, 0, INT64_MIN, INT64_MAX);
  recorder.span(99, 99, 0, 1);
  recorder.span(-1, -1, 0, 1);
  recorder.counter(5, 5, INT64_MAX, 1e308);
  const auto json = exported(recorder);
  ASSERT_EQ(json["traceEvents"].size(), 4u);
  EXPECT_EQ(json["traceEvents"][1]["name"], "(unnamed)");
}

TEST(ChromeJson, StreamsInPiecesAndStopsAtTheFirstSinkError) {
  Recorder recorder(10000);
  for (int i = 0; i < 10000; ++i) recorder.span(0, recorder.name("x"), i, i + 1);
  size_t pieces = 0, largest = 0;
  ASSERT_TRUE(write_chrome_json(recorder, [&](std::string_view piece) {
                ++pieces;
                largest = std::max(largest, piece.size());
                return Status();
              }).ok());
  EXPECT_GT(pieces, 5u);
  EXPECT_LT(largest, 66u << 10);

  size_t calls = 0;
  const Status status = write_chrome_json(recorder, [&](std::string_view) -> Status {
    ++calls;
    return fail(ErrorCode::kResourceExhausted, "disk full");
  });
  EXPECT_EQ(calls, 1u);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "disk full");
}

TEST(ChromeJson, SaysHowManyEventsWereDropped) {
  Recorder recorder(2);
  for (int i = 0; i < 5; ++i) recorder.span(0, 0, i, i);
  EXPECT_EQ(exported(recorder)["otherData"]["dropped_events"], "3");
}

}  // namespace
}  // namespace forebay::trace

// The page's data: what the columns hold, that thinning keeps what it says, that nothing in a
// recording can leave the element that holds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "report/blob.h"
#include "report/flame.h"
#include "report/page.h"
#include "report/page_assets.h"
#include "report/timeline.h"
#include "trace/testing_memory.h"
#include "trace/varint.h"

namespace forebay::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using trace::Category;
using trace::EventKind;
using trace::TrackKind;

// A recording that a test writes event by event.
class Tape {
 public:
  Tape() : writer_(file_.writer()) {
    host = writer_->add_track(TrackKind::kHost, trace::kNoId, "node");
    thread = writer_->add_track(TrackKind::kThread, host, "main", 7);
  }
  trace::TraceWriter& operator*() { return *writer_; }
  trace::TraceWriter* operator->() { return writer_.get(); }
  trace::Recording recording() {
    EXPECT_TRUE(writer_->finish().ok());
    std::vector<std::unique_ptr<trace::TraceReader>> readers;
    readers.push_back(file_.reader());
    return *trace::Recording::read(std::move(readers), {"tape.fbt"});
  }
  trace::TrackId host = 0, thread = 0;

 private:
  trace::MemoryFile file_;
  std::unique_ptr<trace::TraceWriter> writer_;
};

struct Opened {
  json header;
  std::string columns;
};

Opened open(const std::string& blob) {
  uint32_t length = 0;
  for (size_t i = 0; i < 4; ++i)
    length |= static_cast<uint32_t>(static_cast<uint8_t>(blob[i])) << (8 * i);
  return {json::parse(blob.substr(4, length)), blob.substr(4 + length)};
}

std::vector<uint64_t> varints(const std::string& bytes, size_t from, size_t length) {
  trace::VarintReader reader(std::as_bytes(std::span(bytes.data() + from, length)));
  std::vector<uint64_t> values;
  while (!reader.at_end()) values.push_back(reader.next());
  EXPECT_FALSE(reader.is_bad());
  return values;
}

std::string decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((count += 6) >= 8) bytes.push_back(static_cast<char>(bits >> (count -= 8) & 0xff));
  }
  return bytes;
}

std::string inflate_raw(const std::string& packed, size_t size) {
  std::string out(size + 1, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(Blob, PackedBytesComeBack) {
  base::Random random(1);
  for (const size_t size : {0ul, 1ul, 2ul, 3ul, 1000ul, 3'000'001ul}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random.below(7));
    const std::string packed = *pack_blob(bytes);
    EXPECT_EQ(packed.size() % 4, 0u);
    EXPECT_EQ(packed.find_first_not_of(
                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
              std::string::npos);
    EXPECT_EQ(inflate_raw(decode_base64(packed), size), bytes);
  }
  EXPECT_EQ(base64("Man"), "TWFu");
  EXPECT_EQ(base64("Ma"), "TWE=");
  EXPECT_EQ(base64("M"), "TQ==");
}

TEST(Blob, LongTextsAreCutBetweenCharacters) {
  BlobTexts texts(5);
  texts.id("abcd\u00e9f");  // the fifth byte is the first of two
  texts.id("abcde");
  EXPECT_EQ(texts.id("abcde"), 1u);
  EXPECT_THAT(texts.all(), ElementsAre("abcd\u2026", "abcde"));
}

TEST(Timeline, SpansOfOneRowDoNotOverlap) {
  Tape tape;
  const auto outer = tape->name("step", Category::kStep);
  const auto inner = tape->name("read", Category::kRead);
  const auto bytes = tape->key(trace::key::kBytes);
  tape->add({tape.thread, outer, 100, 50});
  tape->add({tape.thread, inner, 110, 10}, {{bytes, 4096}});
  tape->add({tape.thread, inner, 130, 5});
  tape->add({tape.thread, outer, 150, 20});
  const trace::Recording recording = tape.recording();
  const Timeline timeline = make_timeline(recording, {});
  EXPECT_EQ(timeline.events, 4u);
  EXPECT_EQ(timeline.kept, 4u);
  const Opened opened = open(timeline.blob);
  ASSERT_EQ(opened.header["rows"].size(), 2u);
  const json& first = opened.header["rows"][0];
  const json& second = opened.header["rows"][1];
  EXPECT_EQ(first["depth"], 0);
  EXPECT_EQ(second["depth"], 1);
  // Gaps between spans, then durations.
  size_t at = 0;
  const auto column = [&](size_t length) {
    at += length;
    return varints(opened.columns, at - length, length);
  };
  EXPECT_THAT(column(first["lengths"][0]), ElementsAre(0, 0));
  EXPECT_THAT(column(first["lengths"][1]), ElementsAre(50, 20));
  column(first["lengths"][2]);
  EXPECT_TRUE(first["arguments"].empty());
  EXPECT_THAT(column(second["lengths"][0]), ElementsAre(10, 10));
  EXPECT_THAT(column(second["lengths"][1]), ElementsAre(10, 5));
  column(second["lengths"][2]);
  EXPECT_THAT(column(second["arguments"][0][1]), ElementsAre(2 * 4096 + 1, 0));
  EXPECT_EQ(at, opened.columns.size());
}

TEST(Timeline, ThinningKeepsTheLongestAndTheExtremes) {
  Tape tape;
  const auto read = tape->name("read", Category::kRead);
  const auto busy = tape->name("busy_share", Category::kUsage, EventKind::kCounter);
  for (int64_t i = 0; i < 10'000; ++i) {
    tape->add({tape.thread, read, i * 100, i % 100 == 37 ? 90 : 10});
    tape->counter(tape.host, busy, i * 100, i == 5000 ? 1.0 : i == 7000 ? -1.0 : 0.5);
  }
  const trace::Recording recording = tape.recording();
  const Timeline timeline = make_timeline(recording, {.events_max = 400});
  EXPECT_EQ(timeline.events, 20'000u);
  EXPECT_LE(timeline.kept, 400u);
  EXPECT_GE(timeline.kept, 200u);
  const Opened opened = open(timeline.blob);
  size_t at = 0;
  for (const json& row : opened.header["rows"]) {
    EXPECT_EQ(row["all"], 10'000);
    const size_t first = row["lengths"][0], second = row["lengths"][1];
    if (row["kind"] == "span") {
      const auto durations = varints(opened.columns, at + first, second);
      EXPECT_EQ(std::count(durations.begin(), durations.end(), 90u), 100);
    } else {
      const std::string values = opened.columns.substr(at + first, second);
      double low = 9, high = -9;
      for (size_t i = 0; i < values.size(); i += 8) {
        double value = 0;
        std::memcpy(&value, values.data() + i, 8);
        low = std::min(low, value);
        high = std::max(high, value);
      }
      EXPECT_EQ(low, -1);
      EXPECT_EQ(high, 1);
    }
    at += first + second;
    if (row["kind"] == "span") at += static_cast<size_t>(row["lengths"][2]);
  }
  // Histograms are of everything all the same.
  EXPECT_EQ(opened.header["histograms"][0]["count"], 10'000);
}

TEST(Timeline, OfNothingIsEmpty) {
  Tape tape;
  const trace::Recording recording = tape.recording();
  const Timeline timeline = make_timeline(recording, {});
  EXPECT_EQ(timeline.events, 0u);
  EXPECT_TRUE(open(timeline.blob).header["rows"].empty());
  EXPECT_TRUE(make_sample_flame(recording).blob.empty());
  EXPECT_TRUE(make_span_flame(recording).blob.empty());
}

// Sums of nanoseconds by the whole path of symbols.
std::map<std::string, uint64_t> paths(const std::string& blob) {
  const Opened opened = open(blob);
  std::vector<std::vector<uint64_t>> columns;
  size_t at = 0;
  for (const size_t length : opened.header["lengths"]) {
    columns.push_back(varints(opened.columns, at, length));
    at += length;
  }
  EXPECT_EQ(at, opened.columns.size());
  const auto path = [&](uint64_t stack) {
    std::string text;
    for (;;) {
      const json& frame = opened.header["frames"][columns[1][stack]];
      text = opened.header["texts"][static_cast<size_t>(frame[0])].get<std::string>() +
             (text.empty() ? "" : "/" + text);
      if (columns[0][stack] == 0) return text;
      stack -= columns[0][stack];
    }
  };
  std::map<std::string, uint64_t> sums;
  for (size_t i = 0; i < columns[3].size(); ++i) sums[path(columns[3][i])] += columns[4][i];
  return sums;
}

TEST(Flame, SamplesAddUpByStack) {
  Tape tape;
  const auto sample = tape->name("sample", Category::kOnCpu, EventKind::kSample);
  const auto key = tape->key(trace::key::kStack, trace::ArgumentType::kStack);
  const auto frame = [&](const char* symbol, uint64_t offset) {
    return tape->frame({.kind = trace::FrameKind::kNative,
                        .symbol = tape->text(symbol),
                        .module = tape->text("/lib/libx.so"),
                        .build_id = tape->text(""),
                        .offset = offset,
                        .line = 0});
  };
  const auto main = tape->stack(trace::kNoId, frame("main", 1));
  const auto leaf = tape->stack(main, frame("", 0x1f0));
  tape->stack(main, frame("never", 3));
  tape->add({tape.thread, sample, 0, 10}, {{key, leaf}});
  tape->add({tape.thread, sample, 10, 10}, {{key, main}});
  tape->add({tape.thread, sample, 20, 10}, {{key, leaf}});
  const trace::Recording recording = tape.recording();
  const Flame flame = make_sample_flame(recording);
  EXPECT_EQ(flame.stacks, 2u);
  EXPECT_THAT(paths(flame.blob),
              ElementsAre(std::pair<const std::string, uint64_t>("main", 10),
                          std::pair<const std::string, uint64_t>("main/libx.so+0x1f0", 20)));
}

TEST(Flame, SpansHaveTheTimeTheirChildrenLeave) {
  Tape tape;
  const auto step = tape->name("step", Category::kStep);
  const auto read = tape->name("read", Category::kRead);
  tape->add({tape.thread, step, 0, 100});
  tape->add({tape.thread, read, 10, 30});
  tape->add({tape.thread, read, 60, 20});
  const trace::Recording recording = tape.recording();
  EXPECT_THAT(paths(make_span_flame(recording).blob),
              ElementsAre(std::pair<const std::string, uint64_t>("step", 50),
                          std::pair<const std::string, uint64_t>("step/read", 50)));
}

TEST(Flame, BeyondTheBoundTheRarestAreLeftOutByName) {
  Tape tape;
  for (int64_t i = 0; i < 100; ++i)
    tape->add({tape.thread, tape->name("span " + std::to_string(i), Category::kFunction), i * 1000,
               100 + i});
  const trace::Recording recording = tape.recording();
  const Flame flame = make_span_flame(recording, 99);
  EXPECT_EQ(flame.stacks, 99u);
  EXPECT_EQ(flame.left_out_ns, 100);
}

std::string page_of(const PageInput& input) {
  std::string text;
  const Status done = write_page(input, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  });
  EXPECT_TRUE(done.ok());
  return text;
}

TEST(Page, NothingOfARecordingBecomesMarkup) {
  if (!page_assets().missing.empty()) GTEST_SKIP() << page_assets().missing;
  const std::string hostile = "</script><script>alert(1)</script><!--";
  Tape tape;
  tape->add({tape.thread, tape->name(hostile, Category::kRead), 0, 10});
  tape->fact(hostile, hostile);
  const trace::Recording recording = tape.recording();
  const std::string page = page_of({.title = hostile,
                                    .explanation = json{{"headline", hostile}}.dump(),
                                    .recording = &recording});
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("<title>&lt;/script&gt;&lt;script&gt;alert(1)"));
  size_t scripts = 0, ends = 0;
  for (size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) ++scripts;
  for (size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(scripts, 5u);  // about, explanation, timeline, spans, and the page's own
  EXPECT_EQ(ends, scripts);
}

TEST(Page, TheProgramItselfIsSmall) {
  if (!page_assets().missing.empty()) GTEST_SKIP() << page_assets().missing;
  EXPECT_LT(page_of({.title = "t"}).size(), 2'000'000u);
}

TEST(Page, AnErrorOfTheSinkIsReturned) {
  if (!page_assets().missing.empty()) GTEST_SKIP() << page_assets().missing;
  int pieces = 0;
  const Status done = write_page({.title = "t"}, [&](std::string_view) -> Status {
    if (++pieces < 3) return {};
    return Error{ErrorCode::kIo, "full"};
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "full");
  EXPECT_EQ(pieces, 3);
}

}  // namespace
}  // namespace forebay::report

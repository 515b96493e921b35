// Goal: what torch.profiler and others write as Chrome JSON is understood, and what the real world
// does to such files costs only what is damaged.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ingest/builtin.h"
#include "ingest/testing_import.h"

namespace forebay::ingest {
namespace {

using trace::Category;
using trace::EventKind;

std::string event(const std::string& name, int pid, int tid, double ts, double dur,
                  const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": {}, "tid": {}, "ts": {},
           "dur": {}{}}})",
      name, pid, tid, ts, dur, more);
}

std::string file(const std::string& events, const std::string& head = "") {
  return "{\n  \"schemaVersion\": 1," + head + "\n  \"traceEvents\": [\n" + events + "\n  ]\n}\n";
}

TEST(Kineto, TakesTimesInMicrosecondsToTheNanosecond) {
  const auto import = import_text(
      kKineto, file(R"({"ph":"X","name":"a","pid":1,"tid":2,"ts":4203669604595.407,"dur":340.024},
                       {"ph":"X","name":"b","pid":1,"tid":2,"ts":4203669604000.1,"dur":1.5e1})",
                    R"("baseTimeNanoseconds": 1735632360000000000,)"));
  ASSERT_EQ(import.events.size(), 2U);
  EXPECT_EQ(import.events[0].name, "b");
  EXPECT_EQ(import.events[0].start_ns, 4203669604000100);
  EXPECT_EQ(import.events[0].duration_ns, 15000);
  EXPECT_EQ(import.events[1].start_ns, 4203669604595407);
  EXPECT_EQ(import.events[1].duration_ns, 340024);
  ASSERT_EQ(import.clock.size(), 1U);
  EXPECT_EQ(import.clock[0].unix_ns - import.clock[0].time_ns, 1735632360000000000);
}

TEST(Kineto, TakesOldAbsoluteTimesForUnixTimes) {
  const auto import =
      import_text(kKineto, file(R"({"ph":"X","name":"a","ts":1669783687384378,"dur":3})"));
  ASSERT_EQ(import.clock.size(), 1U);
  EXPECT_EQ(import.clock[0].unix_ns, import.clock[0].time_ns);
  EXPECT_EQ(import.events.at(0).start_ns, 1669783687384378000);
}

TEST(Kineto, KnowsWhatCategoriesMean) {
  struct Case {
    const char *category, *name;
    Category expected;
  };
  const Case cases[] = {
      {"kernel", "ampere_sgemm_128x64_tn", Category::kCompute},
      {"kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", Category::kCollective},
      {"gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", Category::kCopy},
      {"gpu_memset", "Memset (Device)", Category::kCopy},
      {"cuda_runtime", "cudaLaunchKernel", Category::kLaunch},
      {"cuda_driver", "cuLaunchKernelEx", Category::kLaunch},
      {"cpu_op", "aten::add", Category::kOperator},
      {"user_annotation", "ProfilerStep#12", Category::kStep},
      {"user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
       Category::kDataWait},
      {"user_annotation", "gloo:all_reduce", Category::kCollective},
      {"user_annotation", "Optimizer.step#SGD.step", Category::kAnnotation},
      {"user_annotation", "checkpoint save", Category::kCheckpoint},
      {"gpu_user_annotation", "ProfilerStep#12", Category::kAnnotation},
      {"python_function", "train.py(12): main", Category::kFunction},
      {"overhead", "CUPTI initialization", Category::kOverhead},
      {"cuda_sync", "Stream Sync", Category::kOther},
  };
  for (const Case& each : cases) {
    const auto import = import_text(
        kKineto,
        file(fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":2,"ts":1,"dur":1}})",
                         each.category, each.name)));
    ASSERT_EQ(import.events.size(), 1U) << each.name;
    EXPECT_EQ(import.events[0].category, each.expected) << each.category << " " << each.name;
  }
}

TEST(Kineto, KeepsTheArgumentsThatExplanationsUse) {
  const auto import = import_text(kKineto, file(R"(
    {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":28,"ts":5,"dur":2,
     "args":{"External id":112,"device":0,"stream":28,"correlation":77,
             "Collective name":"allreduce",
             "Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3]","Seq":41,
             "In msg nelems":1024,"dtype":"Float","Input Dims":[[1,2],[3]]}},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":9,"tid":9,"ts":1,"dur":9})"));
  ASSERT_EQ(import.events.size(), 2U);
  const auto& kernel =
      import.events[0].category == Category::kCollective ? import.events[0] : import.events[1];
  const auto& step = &kernel == &import.events.data()[0] ? import.events[1] : import.events[0];
  const std::map<std::string, std::string> expected{
      {"external_id", "112"}, {"correlation", "77"},       {"collective", "allreduce"},
      {"sequence", "41"},     {"group", "0 [0, 1, 2, 3]"}, {"bytes", "4096"}};
  EXPECT_EQ(kernel.arguments, expected);
  EXPECT_EQ(kernel.track, "host/GPU 0 0/stream 28 28");
  EXPECT_EQ(step.arguments.at("step"), "7");
}

TEST(Kineto, NamesTracksAndRanks) {
  const auto import =
      import_text(kKineto,
                  file(event("a", 10, 11, 1, 2) +
                           R"(,{"ph":"X","cat":"kernel","name":"k","pid":3,"tid":7,"ts":2,"dur":1},
      {"name":"process_name","ph":"M","ts":1,"pid":10,"tid":0,"args":{"name":"python3"}},
      {"name":"process_labels","ph":"M","ts":1,"pid":3,"tid":0,"args":{"labels":"GPU 3"}},
      {"name":"thread_name","ph":"M","ts":1,"pid":10,"tid":11,
       "args":{"name":"thread 11 (main) "}})",
                       R"("host_name": "node7",
              "distributedInfo": {"backend":"nccl","rank":5,"world_size":8},)"),
                  "trace_3.json");
  ASSERT_EQ(import.events.size(), 2U);
  EXPECT_EQ(import.events[0].track, "node7/python3 10/GPU 3 3/stream 7 7");
  EXPECT_EQ(import.events[1].track, "node7/python3 10/thread 11 (main) 11");
  for (const trace::Track& track : import.dictionary.tracks) {
    if (track.kind != trace::TrackKind::kHost) {
      EXPECT_EQ(track.rank, 5);
    }
  }
  EXPECT_EQ(import.facts.at("world_size"), "8");
  EXPECT_EQ(import.facts.at("host"), "node7");
}

TEST(Kineto, GivesOverlappingSpansLanesOfTheirOwn) {
  const auto import =
      import_text(kKineto, file(event("outer", 1, 1, 0, 100) + "," + event("inner", 1, 1, 10, 20) +
                                "," + event("crossing", 1, 1, 20, 100) + "," +
                                event("after", 1, 1, 100, 5) + "," + event("late", 1, 1, 5, 90)));
  std::map<std::string, std::string> lanes;
  for (const TestEvent& each : import.events) lanes[each.name] = each.track;
  EXPECT_EQ(lanes["outer"], "host/process 1/thread 1");
  EXPECT_EQ(lanes["late"], "host/process 1/thread 1");
  EXPECT_EQ(lanes["inner"], "host/process 1/thread 1");
  EXPECT_EQ(lanes["crossing"], "host/process 1/thread (2)");
  EXPECT_EQ(lanes["after"], "host/process 1/thread 1");
}

TEST(Kineto, PairsBeginsAndEnds) {
  const auto import = import_text(kKineto, file(R"(
    {"ph":"B","name":"outer","pid":1,"tid":1,"ts":10},
    {"ph":"B","name":"inner","pid":1,"tid":1,"ts":12},
    {"ph":"E","pid":1,"tid":1,"ts":15},
    {"ph":"E","pid":1,"tid":1,"ts":20},
    {"ph":"E","pid":1,"tid":1,"ts":21},
    {"ph":"B","name":"open","pid":1,"tid":1,"ts":30},
    {"ph":"b","cat":"io","id":7,"name":"request","pid":1,"ts":1},
    {"ph":"b","cat":"io","id":8,"name":"request","pid":1,"ts":2},
    {"ph":"e","cat":"io","id":7,"name":"request","pid":1,"ts":5},
    {"ph":"e","cat":"io","id":8,"name":"request","pid":1,"ts":9})"));
  std::map<std::string, int64_t> durations;
  for (const TestEvent& each : import.events) durations[each.name] += each.duration_ns;
  EXPECT_EQ(durations["outer"], 10000);
  EXPECT_EQ(durations["inner"], 3000);
  EXPECT_EQ(durations["open"], trace::kUnfinished);
  EXPECT_EQ(durations["request"], 4000 + 7000);
  EXPECT_EQ(import.account.skipped.at("ends without a begin"), 1U);
  EXPECT_EQ(import.account.repaired.at("begins without an end: unfinished"), 1U);
}

TEST(Kineto, TakesCountersInstantsAndMemory) {
  const auto import = import_text(kKineto, file(R"(
    {"ph":"C","name":"queue","pid":1,"ts":1,"args":{"depth":3}},
    {"ph":"C","name":"io","pid":1,"ts":1,"args":{"read":1.5,"written":"2","text":"x"}},
    {"ph":"i","name":"mark","pid":1,"tid":1,"ts":2,"s":"t"},
    {"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":3,
     "args":{"Device Type":1,"Device Id":2,"Total Allocated":4096}},
    {"ph":"s","id":1,"pid":1,"tid":1,"ts":2,"name":"ac2g","cat":"ac2g"})"));
  std::map<std::string, std::string> values;
  for (const TestEvent& each : import.events) {
    if (each.kind == EventKind::kCounter) values[each.name] = each.arguments.at("value");
  }
  const std::map<std::string, std::string> expected{
      {"queue", "3"}, {"io.read", "1.5"}, {"io.written", "2"}, {"used_bytes", "4096"}};
  EXPECT_EQ(values, expected);
  EXPECT_EQ(import.account.skipped.at("flow arrows"), 1U);
}

struct Damage {
  const char* label;
  const char* events;
  size_t taken;
  const char* reason;  // among what was skipped or repaired
};

TEST(Kineto, LosesOnlyWhatIsDamaged) {
  const std::string good = event("good", 1, 1, 1, 1);
  const Damage cases[] = {
      {"NaN", R"({"ph":"X","name":"bad","ts":NaN,"dur":1})", 2, "events without a time"},
      {"Infinity", R"({"ph":"X","name":"bad","ts":5,"dur":Infinity})", 3,
       "spans without a duration: taken as 0"},
      {"-Infinity as an argument",
       R"({"ph":"X","name":"bad","ts":5,"dur":1,"args":{"x":-Infinity}})", 3, nullptr},
      {"no duration", R"({"ph":"X","name":"bad","ts":5})", 3,
       "spans without a duration: taken as 0"},
      {"negative duration", R"({"ph":"X","name":"bad","ts":5,"dur":-1})", 3,
       "spans of negative duration: taken as 0"},
      {"no time", R"({"ph":"X","name":"bad","dur":1})", 2, "events without a time"},
      {"a time of another world", R"({"ph":"X","name":"bad","ts":8999999999999999,"dur":1})", 2,
       "time out of range"},
      {"control characters", "{\"ph\":\"X\",\"name\":\"b\tad\n\x01\",\"ts\":5,\"dur\":1}", 3,
       nullptr},
      {"bad UTF-8", "{\"ph\":\"X\",\"name\":\"b\xff\xc0\xaf\",\"ts\":5,\"dur\":1}", 3, nullptr},
      {"quotation marks", R"({"ph":"X","name":"say "hi", you","ts":5,"dur":1})", 3,
       "events with quotation marks not escaped"},
      {"quotation marks at an end", R"x({"ph":"X","ts":5,"dur":1,"name":"compile("f")"})x", 3,
       "events with quotation marks not escaped"},
      {"no phase", R"({"name":"bad","ts":5,"dur":1})", 2, "events without a phase"},
      {"no value", R"({"ph":"X","name":,"ts":5,"dur":1})", 2, "events that are no JSON"},
      {"a brace too few", R"({"ph":"X","name":"bad","args":{"x":1,"ts":5)", 2,
       "events that are no JSON"},
      {"garbage", "@@@", 2, "events that are no JSON"},
      {"a comma too many", R"({"ph":"X","name":"bad","ts":5,"dur":1,},)", 3, nullptr},
      {"strange phase", R"({"ph":"?","name":"bad","ts":5,"dur":1})", 2, "events of phase '?'"},
  };
  for (const Damage& each : cases) {
    SCOPED_TRACE(each.label);
    const auto import = import_text(kKineto, file(good + ",\n" + each.events + ",\n" + good));
    EXPECT_EQ(import.events.size(), each.taken);
    if (each.reason != nullptr) {
      EXPECT_EQ(
          import.account.skipped.count(each.reason) + import.account.repaired.count(each.reason),
          1U);
    }
  }
}

// What stands behind the events is found although the last of them is damaged.
TEST(Kineto, ReadsTheTailBehindADamagedEvent) {
  const std::string bad = R"({"ph":"X","name":,"args":{"grid":[24, 1], "block":[1]}})";
  for (const std::string& last : {bad, std::string("@@@")}) {
    const auto import =
        import_text(kKineto, "{\"traceEvents\": [" + event("a", 1, 1, 1, 1) + ",\n" + last +
                                 "\n],\n\"baseTimeNanoseconds\": 5000000000\n}\n");
    EXPECT_EQ(import.events.size(), 1U);
    EXPECT_FALSE(import.account.damage.has_value());
    ASSERT_EQ(import.clock.size(), 1U);
    EXPECT_EQ(import.clock[0].unix_ns, 5000000000);
    EXPECT_FALSE(import_text(kKineto, file(last)).account.damage.has_value());
  }
}

TEST(Kineto, SpansThatEndBeforeTheyBeginAreCountedAndNamed) {
  const auto import = import_text(
      kKineto, file(event("good", 1, 1, 1, 1) + R"(,{"ph":"X","name":"late","ts":5,"dur":-3})" +
                    R"(,{"ph":"X","name":"later","ts":6,"dur":-1})" +
                    R"(,{"ph":"B","name":"turned","ts":9},{"ph":"E","name":"turned","ts":8})"));
  EXPECT_EQ(import.account.repaired.at("spans of negative duration: taken as 0"), 3U);
  EXPECT_EQ(import.account.negative_names, (std::set<std::string>{"late", "later", "turned"}));
}

// Neither cut nor no JSON.
TEST(Kineto, DeepNestingIsCalledWhatItIs) {
  const std::string deep(100'000, '['), closed = deep + std::string(100'000, ']');
  const std::string reason = "events nested deeper than 64 levels";
  const auto inside =
      import_text(kKineto, file(R"({"ph":"X","name":"bad","ts":5,"dur":1,"args":{"x":)" + closed +
                                "}},\n" + event("good", 1, 1, 1, 1)));
  EXPECT_EQ(inside.events.size(), 1U);
  EXPECT_EQ(inside.account.skipped.at(reason), 1U);
  EXPECT_FALSE(inside.account.damage.has_value());
  for (const std::string& events : {deep, closed + "}"}) {
    const auto import = import_text(kKineto, "{\"traceEvents\": [" + events);
    EXPECT_EQ(import.account.skipped.at(reason), 1U);
    EXPECT_THAT(import.account.damage.value_or(""), testing::HasSubstr("nested deeper"));
  }
}

TEST(Kineto, CleansNames) {
  const auto import = import_text(
      kKineto,
      file("{\"ph\":\"X\",\"name\":\"a\\u00e4\\ud83d\\ude00\\n\xff<b>\",\"ts\":5,\"dur\":1}"));
  EXPECT_EQ(import.events.at(0).name, "a\xc3\xa4\xf0\x9f\x98\x80 \xef\xbf\xbd<b>");
}

TEST(Kineto, ReadsWhatStandsBeforeACut) {
  const std::string whole = file(event("a", 1, 1, 1, 1) + ",\n" + event("b", 1, 1, 3, 1) + ",\n" +
                                 event("c", 1, 1, 5, 1));
  size_t most = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto import = import_text(kKineto, whole.substr(0, size));
    EXPECT_GE(import.events.size(), most);
    most = std::max(most, import.events.size());
    if (size > 40 && size + 3 < whole.size()) {
      EXPECT_TRUE(import.account.damage.has_value()) << size;
    }
  }
  EXPECT_EQ(most, 3U);
}

TEST(Kineto, ReadsArraysAndLinesToo) {
  const std::string a = event("a", 1, 1, 1, 1), b = event("b", 1, 1, 3, 1);
  EXPECT_EQ(import_text(kKineto, "[" + a + "," + b + "]").events.size(), 2U);
  EXPECT_EQ(import_text(kKineto, "[\n" + a + ",\n" + b).events.size(), 2U);
  EXPECT_EQ(import_text(kKineto, a + "\n" + b + "\n").events.size(), 2U);
}

TEST(Kineto, ReadsEventsLargerThanItsWindow) {
  std::string dims(3 << 20, '1');
  const auto import = import_text(
      kKineto, file(event("a", 1, 1, 1, 1, ", \"args\": {\"Input Dims\": [" + dims + "]}") + "," +
                    event("b", 1, 1, 3, 1)));
  EXPECT_EQ(import.events.size(), 2U);
}

// 1.2 million events of one thread: more than what is sorted at a time.
TEST(Kineto, OrdersTracksLargerThanItSortsAtOnce) {
  std::string events;
  const int count = 1'200'000;
  for (int i = 0; i < count; ++i) {
    // Two runs that interleave in time.
    const int at = i < count / 2 ? i * 2 : (i - count / 2) * 2 + 1;
    events +=
        fmt::format("{{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":{},\"dur\":1}},", at);
  }
  events.pop_back();
  const auto import = import_text(kKineto, file(events));
  ASSERT_EQ(import.events.size(), static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) ASSERT_EQ(import.events[i].start_ns, int64_t{i} * 1000);
  EXPECT_EQ(import.dictionary.tracks.size(), 3U);  // no lane was needed
}

}  // namespace
}  // namespace forebay::ingest

// The parts of collectors that need no program: foreign bytes of logs and marks, text of
// nvidia-smi, counters that wrap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/clock.h"
#include "base/random.h"
#include "base/test_folder.h"
#include "record/call_log_reader.h"
#include "record/energy_domain.h"
#include "record/mark_reader.h"
#include "record/pace.h"
#include "record/smi_text.h"
#include "record/usage_counter.h"
#include "sys/clocks.h"
#include "sys/process.h"
#include "sys/program_file.h"
#include "trace/recording.h"

namespace forebay::record {
namespace {

// A writer into nothing.
struct Nowhere {
  trace::TraceWriter writer{[](std::span<const std::byte>) { return Status(); }};
  Tracks tracks{writer, "host"};
  Sink sink{writer, tracks};
};

void write_log(const std::string& path, CallChunk head, const std::vector<CallRecord>& records) {
  std::string bytes(sizeof head + 64 * 1024, '\0');
  head.capacity = bytes.size() - sizeof head;
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, records.data(), records.size() * sizeof(CallRecord));
  std::ofstream(path, std::ios::binary) << bytes;
}

CallChunk head_of(uint64_t used) {
  CallChunk head{};
  head.magic = kCallMagic;
  head.version = kCallVersion;
  head.pid = 1;
  head.used = used;
  return head;
}

// A reading that lost its core for a while, and one that cost as much.
TEST(Pace, GoesByTheCostOfAReadingNotByHowLongItTook) {
  Pace pace(10);
  pace.begin(sys::monotonic_ns());
  base::Clock& clock = base::monotonic_clock();
  clock.sleep_until_ns(clock.now_ns() + 5'000'000, {});
  pace.end();
  EXPECT_TRUE(pace.is_due(sys::monotonic_ns() + 100'000'000)) << "400 times 5 ms are 2 s";
  const int64_t until_ns = sys::thread_cpu_ns() + 5'000'000;
  pace.begin(sys::monotonic_ns());
  while (sys::thread_cpu_ns() < until_ns) {
  }
  pace.end();
  EXPECT_FALSE(pace.is_due(sys::monotonic_ns() + 1'000'000'000));
}

constexpr auto kNonsense = static_cast<Operation>(60'000);

CallRecord record_of(Operation operation) {
  return {.start_ns = 5,
          .duration_ns = 2,
          .result = 100,
          .offset = 0,
          .file = 0,
          .operation = static_cast<uint16_t>(operation),
          .text_bytes = 0};
}

TEST(CallLog, UsesWhatIsWholeAndGivesUpTheRest) {
  const base::TestFolder folder("calls");
  const CallRecord good = record_of(Operation::kRead), bad = record_of(kNonsense);
  write_log(folder / "1.1.calls", head_of(3 * sizeof good), {good, good, bad});
  sys::SharedFile control;
  CallLogReader reader(folder.path(), control, 1'000'000);
  Nowhere nowhere;
  ASSERT_TRUE(reader.poll(nowhere.sink).ok());
  EXPECT_EQ(reader.calls(), 2);
  EXPECT_EQ(reader.damaged_logs(), 1);
}

// It lies behind the whole ones, and may be of a program that overwrote it.
TEST(CallLog, ACallUnderWayIsToldUnlessItMakesNoSense) {
  for (const Operation operation : {Operation::kRead, kNonsense, Operation::kProgram}) {
    const base::TestFolder folder("calls");
    CallChunk head = head_of(sizeof(CallRecord));
    head.under_way_ns = 7;
    write_log(folder / "1.1.calls", head, {record_of(Operation::kRead), record_of(operation)});
    sys::SharedFile control;
    CallLogReader reader(folder.path(), control, 1'000'000);
    Nowhere nowhere;
    ASSERT_TRUE(reader.poll(nowhere.sink).ok());
    EXPECT_EQ(nowhere.writer.event_count(), 1u);
    reader.tell_under_way(nowhere.sink);
    EXPECT_EQ(nowhere.writer.event_count(), operation == Operation::kRead ? 2u : 1u);
  }
}

// As a child does that was killed: its slot is read, and then free for another.
TEST(CallLog, ReadsSlotsAndFreesThoseOfTheDead) {
  constexpr int32_t kNoProcess = 0x3fffffff;
  const base::TestFolder folder("calls");
  auto file = sys::SharedFile::create_growing(folder / "control", sizeof(CallControl),
                                              control_bytes(kSlotsMax), 0600)
                  .take();
  ASSERT_TRUE(file.grow(control_bytes(8)).ok());
  auto& control = *reinterpret_cast<CallControl*>(file.data());
  control.slot_count = 8;
  const CallRecord good = record_of(Operation::kRead), bad = record_of(kNonsense);
  const auto fill = [&](uint32_t slot, int32_t pid, const CallRecord& record) {
    CallChunk head = head_of(sizeof record);
    head.pid = pid;
    std::memcpy(file.data() + control_bytes(slot), &head, sizeof head);
    std::memcpy(file.data() + control_bytes(slot) + sizeof head, &record, sizeof record);
    control.slot_owner[slot] = pid;
  };
  fill(0, kNoProcess, good);
  fill(1, getpid(), good);             // may still write
  fill(2, getpid(), bad);              // and what writes nonsense may go on with it
  control.slot_owner[3] = kNoProcess;  // killed before it began
  control.slot_owner[4] = getpid();    // has not yet begun
  CallLogReader reader(folder.path(), file, 1'000'000);
  Nowhere nowhere;
  ASSERT_TRUE(reader.poll(nowhere.sink).ok());
  EXPECT_EQ(reader.calls(), 2);
  EXPECT_EQ(reader.damaged_logs(), 1);
  EXPECT_EQ(control.slot_owner[0], 0);
  EXPECT_EQ(control.slot_owner[1], getpid());
  EXPECT_EQ(control.slot_owner[2], getpid());
  EXPECT_EQ(control.slot_owner[3], 0);
  EXPECT_EQ(control.slot_owner[4], getpid());
  // More than half were taken: there are more now.
  EXPECT_EQ(control.slot_count, 32);
  fill(0, kNoProcess, good);
  fill(31, kNoProcess, good);
  ASSERT_TRUE(reader.poll(nowhere.sink).ok());
  EXPECT_EQ(reader.calls(), 4);
  EXPECT_EQ(control.slot_owner[31], 0);
}

TEST(CallLog, AnyBytesAreTaken) {
  base::Random random(7);
  for (int round = 0; round < 200; ++round) {
    const base::TestFolder folder("calls");
    std::vector<CallRecord> records(50);
    for (CallRecord& record : records) {
      uint64_t bytes[5];
      for (uint64_t& word : bytes) word = random.next();
      std::memcpy(&record, bytes, sizeof record);
      record.operation %= static_cast<uint16_t>(Operation::kCount) + 2;
      record.text_bytes %= 200;
    }
    CallChunk head = head_of(random.next() % 100'000);
    head.under_way_ns = static_cast<int64_t>(random.next() >> (random.next() % 64));
    write_log(folder / "1.1.calls", head, records);
    sys::SharedFile control;
    CallLogReader reader(folder.path(), control, 1'000'000);
    Nowhere nowhere;
    ASSERT_TRUE(reader.poll(nowhere.sink).ok());
    reader.tell_under_way(nowhere.sink);
  }
}

TEST(Marks, StepsAreKnownByTheirText) {
  EXPECT_EQ(meaning_of_mark("step").category, trace::Category::kStep);
  EXPECT_EQ(meaning_of_mark("step 12").number, 12);
  EXPECT_EQ(meaning_of_mark("step 12").text, "step");
  EXPECT_EQ(meaning_of_mark("ProfilerStep#7").number, 7);
  EXPECT_EQ(meaning_of_mark("Iteration: 3").number, 3);
  EXPECT_EQ(meaning_of_mark("stepwise").category, trace::Category::kAnnotation);
  EXPECT_EQ(meaning_of_mark("step back").category, trace::Category::kAnnotation);
  EXPECT_EQ(meaning_of_mark("").category, trace::Category::kAnnotation);
}

TEST(Marks, DamagedLinesAreCounted) {
  const base::TestFolder folder("marks");
  std::ofstream(folder / "12.marks") << "B 100 12 step\n"
                                        "nonsense\n"
                                        "E 200 12 step\n"
                                        "E 300 12 step\n"  // ends what never began
                                        "B -5 12 step\n"   // no time
                                        "I 400 12 epoch\n"
                                        "B 500 12 ste";  // cut
  MarkReader reader(folder.path());
  Nowhere nowhere;
  ASSERT_TRUE(reader.poll(nowhere.sink).ok());
  EXPECT_EQ(reader.damaged_lines(), 3);
  EXPECT_EQ(nowhere.writer.event_count(), 2);
  std::ofstream(folder / "12.marks", std::ios::app) << "p\nX 600 12 step\n";
  ASSERT_TRUE(reader.poll(nowhere.sink).ok());
  EXPECT_EQ(nowhere.writer.event_count(), 2);  // the begin was taken back
}

TEST(Smi, ReadsALine) {
  const auto line = parse_smi_line("0, NVIDIA H200, 37, 12, 1024, 349.21");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->name, "NVIDIA H200");
  EXPECT_DOUBLE_EQ(*line->reading.busy_share, 0.37);
  EXPECT_EQ(*line->reading.used_bytes, uint64_t{1} << 30);
  EXPECT_DOUBLE_EQ(*line->reading.power_watts, 349.21);
}

TEST(Smi, WhatIsNotAvailableIsNoValue) {
  const auto line = parse_smi_line("1, GRID A100, [N/A], [N/A], 5, [Not Supported]");
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->reading.busy_share.has_value());
  EXPECT_FALSE(line->reading.power_watts.has_value());
  EXPECT_TRUE(line->reading.used_bytes.has_value());
  EXPECT_FALSE(parse_smi_line("Failed to initialize NVML").has_value());
  EXPECT_FALSE(parse_smi_line("").has_value());
}

TEST(Energy, SurvivesTheWrapAround) {
  const base::TestFolder folder("rapl");
  const auto write = [&](std::string_view name, uint64_t value) {
    std::ofstream(folder / name) << value << "\n";
  };
  std::ofstream(folder / "name") << "package-0\n";
  write("max_energy_range_uj", 10'000'000);
  write("energy_uj", 9'000'000);
  EnergyDomain domain(folder.path());
  EXPECT_EQ(domain.name(), "package-0");
  EXPECT_DOUBLE_EQ(*domain.joules(), 0);
  std::ofstream(folder / "energy_uj", std::ios::in) << 9'500'000;
  EXPECT_DOUBLE_EQ(*domain.joules(), 0.5);
  write("energy_uj", 500'000);
  EXPECT_DOUBLE_EQ(*domain.joules(), 1.5);
}

TEST(Program, KnowsScriptsAndPrograms) {
  const auto of = [](std::string_view text) {
    return sys::program_from(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(of("#!/bin/sh -e\n").interpreter, "/bin/sh");
  EXPECT_EQ(of("#! /usr/bin/env python3\nimport x").interpreter, "python3");
  EXPECT_EQ(of("#!").interpreter, "");
  EXPECT_FALSE(of("text").is_program);
  const sys::ProgramFile own = sys::program_file("/proc/self/exe");
  EXPECT_TRUE(own.is_program);
  EXPECT_EQ(sys::not_interposable(own), "");
}

TEST(UsageCounter, WritesRatesAndLeavesOutRepeats) {
  Nowhere nowhere;
  UsageCounter counter(nowhere.writer, nowhere.tracks.host(), "x_per_second");
  counter.total(nowhere.writer, 0, 100);
  EXPECT_EQ(nowhere.writer.event_count(), 0);  // no rate yet
  counter.total(nowhere.writer, 1'000'000'000, 200);
  counter.total(nowhere.writer, 2'000'000'000, 300);  // the same rate
  EXPECT_EQ(nowhere.writer.event_count(), 1);
  counter.total(nowhere.writer, 3'000'000'000, 5);  // began anew
  EXPECT_EQ(nowhere.writer.event_count(), 1);
}

// What `counter` wrote while `feed` fed it: moments in ms, and values.
std::vector<std::pair<int64_t, double>> values_of(
    double most, const std::vector<std::pair<int64_t, uint64_t>>& readings) {
  const base::TestFolder folder("counter");
  {
    auto writer = trace::TraceWriter::create(folder / "a.fbt");
    Tracks tracks(**writer, "host");
    UsageCounter counter(**writer, tracks.host(), "x_cores", most);
    for (const auto& [at_ms, total_ms] : readings)
      counter.total(**writer, at_ms * 1'000'000, total_ms, 1e-3);
    EXPECT_TRUE((*writer)->finish().ok());
  }
  const std::vector<std::string> files{folder / "a.fbt"};
  const auto recording = trace::Recording::load(files);
  const auto key = recording->find_key(trace::key::kValue, trace::ArgumentType::kReal);
  std::vector<std::pair<int64_t, double>> values;
  for (size_t row = 0; row < recording->size(); ++row)
    values.emplace_back(recording->start(row) / 1'000'000,
                        trace::real_value(recording->column(*key, 0)[row]));
  return values;
}

// The kernel adds a wait to a thread's sum when it ends: 6.01 cores of one thread were shown.
TEST(UsageCounter, AWaitReachesBackToWhereTheSumStoodStill) {
  const auto values =
      values_of(1, {{0, 0}, {100, 50}, {200, 50}, {300, 50}, {400, 50}, {500, 330}, {600, 330}});
  const std::vector<std::pair<int64_t, double>> expected{{0, 0.5}, {100, 0}, {220, 1}, {500, 0}};
  EXPECT_EQ(values, expected);
}

// A reading that came late has seen more than its interval holds: a share of 121 % was shown.
TEST(UsageCounter, WhatExceedsTheLimitIsCountedInTheNextInterval) {
  const auto values = values_of(1, {{0, 0}, {100, 100}, {200, 221}, {300, 250}, {400, 250}});
  const std::vector<std::pair<int64_t, double>> expected{{0, 1}, {200, 0.5}, {300, 0}};
  ASSERT_EQ(values.size(), 3u);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].first, expected[i].first);
    EXPECT_NEAR(values[i].second, expected[i].second, 1e-9);
  }
}

}  // namespace
}  // namespace forebay::record

// The trace file: what is written is read, in whatever pieces; what was cut or damaged is read up
// to the last whole chunk and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <map>
#include <random>
#include <tuple>

#include "base/test_folder.h"
#include "trace/facts.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/testing_memory.h"
#include "trace/writer.h"

namespace forebay::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

template <class T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).take();
}

// One event as text-free numbers, comparable across files.
using Row = std::tuple<std::string, int64_t, int64_t, std::string, std::map<std::string, int64_t>>;

std::vector<Row> rows_of(const Recording& recording) {
  std::vector<Row> out;
  for (TrackId track = 0; track < recording.dictionary().tracks.size(); ++track) {
    for (size_t row = recording.rows(track).first; row < recording.rows(track).last; ++row) {
      std::map<std::string, int64_t> arguments;
      for (KeyId key = 0; key < recording.dictionary().keys.size(); ++key) {
        const auto column = recording.column(key, track);
        if (column.empty()) continue;
        const int64_t value = column[row - recording.rows(track).first];
        const Key& what = recording.dictionary().keys[key];
        if (value != kNoValue) arguments[recording.dictionary().texts[what.text]] = value;
      }
      out.emplace_back(recording.track_path(track), recording.start(row),
                       recording.is_unfinished(row) ? kUnfinished : recording.duration(row),
                       recording.text(row), arguments);
    }
  }
  return out;
}

TEST(TraceFile, ReadsBackWhatWasWrittenWhateverTheOrderAndChunkSize) {
  for (const size_t per_chunk : {1u, 7u, 1000u}) {
    SCOPED_TRACE(per_chunk);
    MemoryFile file;
    TraceWriter writer(file.sink(), {per_chunk, 3});
    const TrackId host = writer.add_track(TrackKind::kHost, kNoId, "alpha");
    std::vector<TrackId> threads;
    for (int tid = 10; tid < 14; ++tid) {
      threads.push_back(writer.add_track(TrackKind::kThread, host, "worker", tid));
    }
    const NameId read = writer.name("read", Category::kRead),
                 step = writer.name("step", Category::kStep);
    const KeyId size = writer.key(key::kBytes), offset = writer.key(key::kOffset);
    std::mt19937_64 random(7);
    std::vector<Row> expected;
    for (int i = 0; i < 500; ++i) {
      const size_t thread = random() % threads.size();
      // Extremes of 64 bits must survive delta coding.
      const auto start = static_cast<int64_t>(random() % 1000) * 1'000'000'007;
      const int64_t duration = i % 50 == 0 ? kUnfinished : static_cast<int64_t>(random() % 99999);
      const int64_t at = i % 17 == 0 ? INT64_MAX : static_cast<int64_t>(random());
      const Event event{threads[thread], i % 3 == 0 ? step : read, start, duration};
      std::map<std::string, int64_t> arguments;
      if (i % 3 == 0) {
        writer.add(event);
      } else {
        writer.add(event, {{size, i}, {offset, at}});
        arguments = {{"bytes", i}, {"offset", at}};
      }
      expected.emplace_back("alpha / worker " + std::to_string(10 + thread), start, duration,
                            i % 3 == 0 ? "step" : "read", arguments);
    }
    ASSERT_TRUE(writer.finish().ok());
    const Recording recording = file.load();
    EXPECT_TRUE(recording.files()[0].is_finished);
    std::vector<Row> got = rows_of(recording);
    for (size_t row = 1; row < recording.size(); ++row) {
      if (recording.track(row) == recording.track(row - 1)) {
        EXPECT_LE(recording.start(row - 1), recording.start(row));
      }
    }
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
  }
}

TEST(TraceFile, StacksFramesFactsAndClocksSurvive) {
  MemoryFile file;
  TraceWriter writer(file.sink());
  const TrackId thread = writer.add_track(TrackKind::kThread, kNoId, "main", 1);
  Frame frame;
  frame.kind = FrameKind::kPython;
  frame.symbol = writer.text("load");
  frame.module = writer.text("train.py");
  frame.line = 88;
  const FrameId load_frame = writer.frame(frame);
  frame.symbol = writer.text("main");
  const StackId outer = writer.stack(kNoId, writer.frame(frame));
  const StackId inner = writer.stack(outer, load_frame);
  EXPECT_EQ(writer.stack(outer, load_frame), inner);
  const KeyId stack = writer.key(key::kStack, ArgumentType::kStack);
  const NameId sample = writer.name("sample", Category::kOnCpu, EventKind::kSample);
  writer.add({thread, sample, 5, 10}, {{stack, inner}});
  writer.fact(fact::kCommand, "python train.py");
  writer.clock({100, 1'700'000'000'000'000'100, 3});
  writer.set_rank(thread, 3);
  ASSERT_TRUE(writer.flush().ok());
  writer.rename(thread, "loader");
  ASSERT_TRUE(writer.finish().ok());

  const Recording recording = file.load();
  EXPECT_EQ(recording.track_path(0), "loader 1");
  EXPECT_EQ(recording.dictionary().tracks[0].rank, 3);
  EXPECT_EQ(recording.fact(fact::kCommand), "python train.py");
  EXPECT_EQ(recording.files()[0].clock[0].unix_ns, 1'700'000'000'000'000'100);
  const auto key_id = recording.find_key(key::kStack, ArgumentType::kStack);
  ASSERT_TRUE(key_id.has_value());
  const auto id = static_cast<StackId>(recording.column(*key_id, 0)[0]);
  const Stack& seen = recording.dictionary().stacks[id];
  EXPECT_EQ(recording.dictionary().texts[recording.dictionary().frames[seen.frame].symbol], "load");
  EXPECT_EQ(recording.dictionary().frames[seen.frame].line, 88u);
  EXPECT_NE(seen.caller, kNoId);
}

Bytes three_chunks() {
  MemoryFile file;
  TraceWriter writer(file.sink(), {10, 3});
  const TrackId track = writer.add_track(TrackKind::kThread, kNoId, "main", 1);
  const NameId name = writer.name("read", Category::kRead);
  for (int i = 0; i < 30; ++i) writer.add({track, name, i, 1});
  EXPECT_TRUE(writer.finish().ok());
  return file.bytes;
}

TEST(TraceFile, CutAnywhereItGivesTheWholeChunksBeforeAndSaysSo) {
  const Bytes whole = three_chunks();
  size_t most = 0;
  for (size_t size = kFileMagic.size(); size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const Recording recording = MemoryFile{cut}.load();
    EXPECT_EQ(recording.size() % 10, 0u);
    EXPECT_GE(recording.size(), most);
    most = recording.size();
    EXPECT_FALSE(recording.files()[0].is_finished);
    ASSERT_TRUE(recording.files()[0].damage.has_value());
  }
  EXPECT_EQ(most, 30u);
}

TEST(TraceFile, AFlippedBitAnywhereNeverYieldsAWrongEvent) {
  const Bytes whole = three_chunks();
  for (size_t at = kFileMagic.size(); at < whole.size(); ++at) {
    Bytes broken = whole;
    broken[at] ^= std::byte{0x10};
    const Recording recording = MemoryFile{broken}.load();
    ASSERT_TRUE(recording.files()[0].damage.has_value()) << at;
    for (size_t row = 0; row < recording.size(); ++row) {
      ASSERT_EQ(recording.start(row), static_cast<int64_t>(row));
      ASSERT_EQ(recording.text(row), "read");
    }
  }
}

TEST(TraceFile, OtherFilesAreNamedNotRead) {
  const Bytes text(100, std::byte{'x'});
  const auto reader = TraceReader::open(
      [&](std::span<std::byte> out, uint64_t) {
        std::copy_n(text.begin(), out.size(), out.begin());
        return static_cast<int64_t>(out.size());
      },
      "notes.txt");
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(reader.error().message, HasSubstr("notes.txt: not a trace file"));
}

TEST(TraceFile, AFullDiskEndsTheWritingAndIsReported) {
  size_t taken = 0;
  TraceWriter writer(
      [&](std::span<const std::byte> piece) -> Status {
        if (taken > 100) return Error{ErrorCode::kResourceExhausted, "disk full"};
        taken += piece.size();
        return {};
      },
      {1, 0});
  const TrackId track = writer.add_track(TrackKind::kThread, kNoId, "main", 1);
  const NameId name = writer.name("read", Category::kRead);
  for (int i = 0; i < 100; ++i) writer.add({track, name, i, 1});
  const Status finished = writer.finish();
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().message, "disk full");
}

// The file size limit stands for the full disk: both refuse to let the file grow.
TEST(TraceFile, AFileThatCannotGrowEndsWithItsFactsAndCountsWhatItLost) {
  constexpr int kEvents = 200'000;
  const base::TestFolder folder("full");
  const std::string path = folder / "cut.fbt";
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 200 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  uint64_t kept = 0;
  {
    const auto writer = must(TraceWriter::create(path, {1000, 0}));
    const TrackId track = writer->add_track(TrackKind::kThread, kNoId, "main", 1);
    const NameId name = writer->name("read", Category::kRead);
    writer->fact("early", "before");
    for (int i = 0; i < kEvents; ++i) writer->add({track, name, int64_t{i} * 1000, 1});
    EXPECT_FALSE(writer->flush().ok());
    writer->fact("late", "after");
    EXPECT_FALSE(writer->finish().ok());
    kept = writer->event_count();
    EXPECT_EQ(kept + writer->lost_count(), kEvents);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  const Recording recording = must(Recording::load(std::vector<std::string>{path}));
  EXPECT_GT(kept, 10'000U);
  EXPECT_EQ(recording.size(), kept);
  EXPECT_TRUE(recording.files()[0].is_finished);
  EXPECT_FALSE(recording.files()[0].damage.has_value());
  EXPECT_EQ(recording.fact("early"), "before");
  EXPECT_EQ(recording.fact("late"), "after");
  EXPECT_LE(recording.files()[0].bytes, 200U << 10);
}

TEST(TraceFile, LongTextsAreCutBetweenCharacters) {
  MemoryFile file;
  TraceWriter writer(file.sink());
  std::string text = "a";
  while (text.size() < 2 * kTextBytesMax) text += "\u00e9";  // two bytes each
  const TextId id = writer.text(text);
  EXPECT_EQ(writer.text(text), id);
  EXPECT_EQ(writer.dictionary().texts[id].size(), kTextBytesMax - 1);
}

TEST(Recording, FilesOfOneHostMeetOnTheFirstClock) {
  const base::TestFolder folder("recording");
  std::vector<std::string> paths;
  for (int file = 0; file < 2; ++file) {
    paths.push_back(folder / (std::to_string(file) + ".fbt"));
    const auto writer = must(TraceWriter::create(paths.back()));
    const TrackId host = writer->add_track(TrackKind::kHost, kNoId, "alpha");
    const TrackId process = writer->add_track(TrackKind::kProcess, host, "train", 42);
    const TrackId thread = writer->add_track(TrackKind::kThread, process, "main", 42 + file);
    const NameId name = writer->name(file == 0 ? "read" : "decode", Category::kOther);
    // The second file's clock started 1,000 ns earlier.
    writer->clock({file * 1000, 5'000'000, 20});
    writer->add({thread, name, 500 + file * 1000, 10});
    ASSERT_TRUE(writer->finish().ok());
  }
  const Recording recording = must(Recording::load(paths));
  ASSERT_EQ(recording.size(), 2u);
  EXPECT_EQ(recording.start(0), 500);
  EXPECT_EQ(recording.start(1), 500);
  EXPECT_EQ(recording.dictionary().tracks.size(), 4u);  // host and process once
  EXPECT_EQ(recording.files()[1].shift_ns, -1000);
  EXPECT_EQ(recording.files()[1].shift_uncertainty_ns, 20);
  EXPECT_EQ(recording.ancestor(3, TrackKind::kHost), 0u);
}

}  // namespace
}  // namespace forebay::trace

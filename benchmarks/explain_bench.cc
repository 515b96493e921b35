// How long explaining ten million events takes, loading them included, and in how much memory.
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "command_words.h"
#include "explain/explain.h"
#include "explain/program_for_test.h"
#include "measure.h"

namespace forebay::bench {
namespace {

using explain::ProgramForTest;
using trace::Category;
constexpr int64_t kUs = 1'000;

// Four workers read and decode files, training waits for them in turn; each event has arguments as
// recorded ones do.
void play(ProgramForTest& program, uint64_t events) {
  program.sample_each(10'000 * kUs);
  ProgramForTest::Thread main = program.thread(100, 100);
  std::vector<ProgramForTest::Thread> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(program.thread(100, 101 + i, "worker"));
  std::vector<std::string> paths;
  for (int i = 0; i < 20'000; ++i) {
    paths.push_back("/data/train/" + std::to_string(i % 100) + "/" + std::to_string(i) + ".jpg");
  }
  uint64_t file = 0;
  std::mt19937_64 random(1);
  const auto about = [&](int64_t ns) {
    return ns / 2 + static_cast<int64_t>(random() % static_cast<uint64_t>(ns));
  };
  for (uint64_t step = 0; program.writer().event_count() < events; ++step) {
    ProgramForTest::Thread& worker = workers[step % workers.size()];
    worker.now_ns = std::max(worker.now_ns, main.now_ns - 40'000 * kUs);
    for (int i = 0; i < 32; ++i) {
      const std::string& path = paths[file++ * 7919 % paths.size()];
      program.open(worker, path, about(30 * kUs));
      for (int k = 0; k < 3; ++k) {
        program.call(worker, "read", Category::kRead, about(25 * kUs),
                     {program.file(path), program.number("bytes", 40'000),
                      program.number("offset", k * 40'000)});
      }
      program.call(worker, "close", Category::kMetadata, about(2 * kUs), {program.file(path)});
      program.run(worker, about(900 * kUs), "decode_jpeg", "/usr/lib/libjpeg.so");
    }
    program.lock_until(main, worker.now_ns, worker);
    for (int k = 0; k < 20; ++k) {
      program.run(main, about(500 * kUs), "gemm");
      program.call(main, "ioctl", Category::kOther, about(3 * kUs));
    }
    program.range(main, "forward", Category::kAnnotation, [&] { program.run(main, 500 * kUs); });
  }
}

int run(uint64_t events, int rounds, double target_seconds, const std::string& json) {
  ProgramForTest program;
  play(program, events);
  program.close();
  std::vector<double> seconds, cpu_seconds;
  uint64_t found = 0;
  double load_seconds = 0;
  for (int round = 0; round < rounds; ++round) {
    const Sample sample = timed([&] {
      trace::Recording recording;
      load_seconds = timed([&] {
                       recording = ProgramForTest::load({&program});
                       return 1.0;
                     }).wall_seconds;
      auto explained = explain::explain(recording, {});
      if (!explained.ok()) return 0.0;
      found = explained->explanation.iterations.count;
      return static_cast<double>(recording.size());
    });
    if (sample.amount == 0) return 1;
    seconds.push_back(sample.wall_seconds);
    cpu_seconds.push_back(sample.cpu_seconds);
  }
  Row row;
  row.name =
      "explain, seconds for " + base::format_count(program.writer().event_count()) + " events";
  row.target = "<= 5";
  row.target_value = target_seconds;
  row.higher_is_better = false;
  row.ratio = summarise(seconds);
  row.detail = base::format_bytes(static_cast<double>(program.bytes().size())) + " of trace, " +
               std::to_string(found) + " iterations found, loading took " +
               base::format_seconds(load_seconds) + " of it, CPU " +
               base::format_seconds(summarise(cpu_seconds).median);
  print_row(row);
  if (!json.empty()) append_json(json, row, events < 1'000'000);
  return row.is_met() ? 0 : 1;
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  forebay::bench::RunSettings settings{.rounds = 3};
  if (const auto ended =
          forebay::bench::read_words("forebay_explain_bench", argc, argv, settings)) {
    return *ended;
  }
  const uint64_t events = settings.is_smoke ? 20'000 : 10'000'000;
  return forebay::bench::run(events, settings.rounds, 5, settings.json);
}

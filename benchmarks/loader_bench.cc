// How near does a loader that tunes itself come to the best fixed setting?
//
// usage: forebay_loader_bench [--smoke] [--rounds N] [--json FILE]
// Four places: files on a local disk (in the page cache), a store with 50 ms of latency, images
// that have to be decoded, and the same beside another busy process. Every fixed setting is tried
// once; the best then takes turns with the tuned one, both running steadily.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/test_folder.h"
#include "command_words.h"
#include "forebay/loader.h"
#include "formats/format.h"
#include "measure.h"
#include "storage/store.h"
#include "sys/host.h"

namespace forebay::bench {
namespace {

struct Scenario {
  std::string name, format, storage;
  uint64_t files = 0, rows = 0, columns = 0;
  std::vector<int> depths;
  bool is_shared = false;
};

[[noreturn]] void stop_with(const std::string& message) {
  std::fprintf(stderr, "forebay_loader_bench: %s\n", message.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) stop_with(result.error().message);
  return std::move(result).take();
}

void make_files(const std::string& folder, const Scenario& scenario) {
  const auto store = must(storage::open_store("local", folder));
  const formats::Format* format = formats::find_format(scenario.format);
  for (uint64_t i = 0; i < scenario.files; ++i) {
    formats::FileSpec file{.path = fmt::format("{:06}.{}", i, scenario.format),
                           .rows = scenario.rows,
                           .columns = scenario.columns,
                           .seed = i};
    const auto writer = must(store->create(file.path));
    if (Status s = format->write(*writer, true, file); !s.ok()) stop_with(s.error().message);
    if (Status s = writer->publish(); !s.ok()) stop_with(s.error().message);
  }
}

std::unique_ptr<Loader> open(const std::string& folder, const Scenario& scenario, int depth,
                             int threads) {
  LoaderOptions options;
  options.data = folder;
  options.format = scenario.format;
  options.storage = scenario.storage;
  options.batch_size = 32;
  options.shuffle = Shuffle::kFull;
  options.tail = Tail::kDrop;
  // As many samples under way for fixed depths as a tuned loader may have.
  options.prefetch_batches = depth > 0 ? static_cast<uint64_t>(std::max(2, depth / 32 + 1)) : 2;
  options.fetch_depth = depth;
  options.decode_threads = threads;
  return must(Loader::open(options));
}

// Takes batches for `seconds`; the amount is samples.
Sample consume(Loader& loader, double seconds) {
  base::Clock& clock = base::monotonic_clock();
  return timed([&] {
    const int64_t end = clock.now_ns() + static_cast<int64_t>(seconds * 1e9);
    double samples = 0;
    while (clock.now_ns() < end) {
      const auto batch = must(loader.next());
      if (batch) samples += static_cast<double>(batch->samples().size());
    }
    return samples;
  });
}

double rate_of(const Sample& sample) {
  return sample.amount / sample.wall_seconds;
}

void measure(const RunSettings& settings, Scenario scenario) {
  const base::TestFolder folder("loader-bench");
  if (settings.is_smoke) scenario.files = 64;
  make_files(folder.path(), scenario);
  const double seconds = settings.is_smoke ? 0.05 : 1;
  std::atomic<bool> is_over{false};
  std::jthread busy;
  if (scenario.is_shared)
    busy = std::jthread([&] {
      while (!is_over.load(std::memory_order_relaxed)) {
      }
    });
  std::unique_ptr<Loader> best;
  double best_rate = 0;
  std::string best_name;
  const int cpus = sys::usable_cpu_count();
  for (const int depth : scenario.depths)
    for (const int threads : {1, cpus}) {
      auto fixed = open(folder.path(), scenario, depth, threads);
      consume(*fixed, seconds / 2);
      const double rate = rate_of(consume(*fixed, seconds));
      if (rate <= best_rate) continue;
      best_rate = rate;
      best_name = fmt::format("{} reads, {} threads", depth, threads);
      best = std::move(fixed);
    }
  const auto tuned = open(folder.path(), scenario, 0, 0);
  consume(*tuned, settings.is_smoke ? 0.05 : 6);
  const Pair pair = interleave(
      settings.rounds, [&] { return consume(*best, seconds); },
      [&] { return consume(*tuned, seconds); });
  is_over.store(true, std::memory_order_relaxed);
  const LoaderStats stats = tuned->stats();
  const Row row{"tuned, " + scenario.name,
                ">= 0.9",
                0.9,
                true,
                rate_ratio(pair),
                fmt::format("{:.0f} | {:.0f} samples/s ({}); tuned to {} reads, {} threads",
                            median_rate(pair.ours), median_rate(pair.floor), best_name,
                            stats.fetch_depth, stats.decode_threads)};
  print_row(row);
  if (!settings.json.empty()) append_json(settings.json, row, settings.is_smoke);
}

int run(int argc, char** argv) {
  RunSettings settings;
  if (const auto ended = read_words("forebay_loader_bench", argc, argv, settings)) return *ended;
  measure(settings, {"local npy of 150 KB", "npy", "local", 1000, 300, 500, {1, 2, 4, 16, 32}});
  measure(
      settings,
      {"npy of 1 KB at 50 ms", "npy", "slow:latency=50ms", 8000, 10, 100, {16, 64, 128, 256, 512}});
  measure(settings, {"jpeg of 400 x 400", "jpeg", "local", 400, 400, 400, {1, 2, 4, 16}});
  measure(settings,
          {"the same beside a busy thread", "jpeg", "local", 400, 400, 400, {1, 2, 4, 16}, true});
  return 0;
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  return forebay::bench::run(argc, argv);
}

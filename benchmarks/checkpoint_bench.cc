// How short is the stall of a save, and how near do writing, reading and checking a checkpoint come
// to what the machine can do?
//
// usage: forebay_checkpoint_bench FOLDER [--smoke] [--rounds N] [--json FILE]
// FOLDER stands for the fast tier: 12 GiB of it are used (--smoke: 100 MiB). The slow tier is a
// folder of it behind `slow:bandwidth=163MB`, the rate of the published burst buffer's slow side.
// fio, where it is installed, says what the disk can do: each row tries fio's settings once and
// then takes turns with the best. A state is bytes that do not pack, in tensors of 16 MiB.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "checkpoint/inventory.h"
#include "command_words.h"
#include "fio.h"
#include "forebay/checkpoint.h"
#include "measure.h"
#include "sys/memory.h"
#include "sys/page_cache.h"

namespace forebay::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = 1 << 20;
constexpr const char* kSlow = "slow:latency=0s,bandwidth=163MB,over=local";

struct Settings : RunSettings {
  std::string folder;
  uint64_t scaled(uint64_t bytes) const { return is_smoke ? bytes / 128 : bytes; }
};

[[noreturn]] void stop_with(const std::string& message) {
  std::fprintf(stderr, "forebay_checkpoint_bench: %s\n", message.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) stop_with(result.error().message);
  return std::move(result).take();
}
void must(const Status& status) {
  if (!status.ok()) stop_with(status.error().message);
}

// A state of `bytes`, and memory of the same size to copy it to.
class State {
 public:
  explicit State(uint64_t bytes) : bytes_(bytes), memory_(sys::allocate_large(bytes)) {
    const uint64_t tensor_bytes = std::min<uint64_t>(bytes, 16 * kMiB);
    base::Random(1).fill(all());
    for (uint64_t at = 0; at < bytes; at += tensor_bytes)
      state_.tensors.push_back({.name = fmt::format("layer{}.weight", at / tensor_bytes),
                                .element_type = "float32",
                                .shape = {tensor_bytes / 4},
                                .bytes = all().subspan(at, tensor_bytes)});
  }
  const CheckpointState& state() const { return state_; }
  std::span<std::byte> all() const { return {memory_.get(), bytes_}; }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  const uint64_t bytes_;
  const sys::LargeBuffer memory_;
  CheckpointState state_;
};

class Bench {
 public:
  explicit Bench(Settings settings) : settings_(std::move(settings)) {}

  int run() {
    fs::create_directories(settings_.folder);
    snapshot();
    stall();
    const std::string written = durable();
    restore(written, Cache::kWarm);
    restore(written, Cache::kCold);
    verify(written);
    fs::remove_all(folder("fast"));
    return settings_.is_smoke || !has_missed_ ? 0 : 1;
  }

 private:
  enum class Cache { kWarm, kCold };

  std::string folder(const std::string& name) const { return settings_.folder + "/" + name; }

  std::unique_ptr<Checkpointer> open(std::vector<CheckpointTier> tiers) const {
    CheckpointOptions options;
    options.tiers = std::move(tiers);
    options.keep_last = 1;
    return must(Checkpointer::open(options));
  }

  void report(const Row& row) {
    print_row(row);
    append_json(settings_.json, row, settings_.is_smoke);
    has_missed_ |= !row.is_met();
  }

  // The copy in memory against memcpy of the whole by one thread, both into pages that were used
  // before.
  void snapshot() {
    const State state(settings_.scaled(1024 * kMiB));
    auto checkpoints = open({{.place = folder("fast")}});
    const auto reused = sys::allocate_large(state.all().size());
    uint64_t step = 0;
    const Pair pair = interleave(
        settings_.rounds,
        [&] {
          return timed([&] {
            std::memcpy(reused.get(), state.all().data(), state.all().size());
            return state.bytes();
          });
        },
        [&] {
          const SaveHandle save = must(checkpoints->save(++step, state.state()));
          must(save.wait_drained());
          return Sample{save.times().stalled, 1, state.bytes()};
        });
    report({"save() of 1 GiB / memcpy into reused pages", "<= 1.25", 1.25, false,
            inverse(rate_ratio(pair)),
            fmt::format("{} | {}", base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)))});
    checkpoints.reset();  // it may still be removing old ones
    fs::remove_all(folder("fast"));
  }

  // Straight to the slow tier, until it is durable there, against a burst tier before it.
  void stall() {
    const State state(settings_.scaled(512 * kMiB));
    auto straight = open({{.place = folder("slow0"), .storage = kSlow}});
    auto burst = open(
        {{.place = folder("fast"), .keep_last = 1}, {.place = folder("slow"), .storage = kSlow}});
    uint64_t step = 0;
    std::vector<double> to_return, to_durable, slow_seconds;
    for (int round = 0; round < std::min(settings_.rounds, 5); ++round) {
      const SaveHandle slow = must(straight->save(++step, state.state()));
      must(slow.wait_durable());
      const SaveHandle fast = must(burst->save(step, state.state()));
      must(fast.wait_drained());
      slow_seconds.push_back(slow.times().durable);
      to_return.push_back(slow.times().durable / fast.times().stalled);
      to_durable.push_back(slow.times().durable / fast.times().durable);
    }
    const std::string detail =
        fmt::format("512 MiB; straight to 163 MB/s: {:.2f} s", summarise(slow_seconds).median);
    report({"stall, straight to slow / burst tier, durable", ">= 2.6", 2.6, true,
            summarise(to_durable), detail});
    report({"stall, straight to slow / burst tier, save()", ">= 20", 20, true, summarise(to_return),
            detail});
    straight.reset();
    burst.reset();
    for (const char* name : {"slow0", "slow", "fast"}) fs::remove_all(folder(name));
  }

  // Returns the folder that holds the checkpoint.
  std::string durable() {
    const State state(settings_.scaled(4096 * kMiB));
    const auto checkpoints = open({{.place = folder("fast"), .storage = "direct"}});
    uint64_t step = 0;
    std::vector<double> from_snapshot;
    const auto save = [&] {
      const SaveHandle handle = must(checkpoints->save(++step, state.state()));
      must(handle.wait_drained());
      from_snapshot.push_back(handle.times().durable - handle.times().snapshotted);
      return Sample{handle.times().durable, 1, state.bytes()};
    };
    if (!is_fio_there()) {
      save();
      std::printf("durable write of 4 GiB: skipped, fio is not installed\n");
      return folder("fast");
    }
    std::string setting;
    const auto fio = [&] {
      const Best best = best_fio_write(folder("fio"), state.all().size());
      setting = best.setting;
      return best.sample;
    };
    const Pair pair = interleave(std::min(settings_.rounds, 5), fio, save);
    report(
        {"durable write of 4 GiB / fio", ">= 0.9", 0.9, true, rate_ratio(pair),
         fmt::format("{} with the copy in memory, {} from it on | {} ({})",
                     base::format_bytes_per_second(median_rate(pair.ours)),
                     base::format_bytes_per_second(state.bytes() / summarise(from_snapshot).median),
                     base::format_bytes_per_second(median_rate(pair.floor)), setting)});
    return folder("fast");
  }

  std::vector<std::string> shards(const std::string& place) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(place))
      if (entry.path().extension() == ".safetensors") out.push_back(entry.path());
    return out;
  }

  // Warm against pread of the same files by as many threads, into memory taken for it, as a
  // restored state is; cold against fio, which reuses its own.
  void restore(const std::string& place, Cache cache) {
    const std::vector<std::string> files = shards(place);
    const bool is_cold = cache == Cache::kCold;
    uint64_t bytes = 0;
    for (const std::string& file : files) bytes += fs::file_size(file);
    const auto checkpoints = open({{.place = place}});
    if (is_cold && !is_fio_there()) {
      std::printf("restore, cold: skipped, fio is not installed\n");
      return;
    }
    std::string setting;
    const auto threads = std::max(1U, std::thread::hardware_concurrency());
    const auto floor = [&] {
      if (is_cold) {
        const Best best = best_fio_read(files);
        setting = best.setting;
        return best.sample;
      }
      sys::LargeBuffer memory;
      return timed([&] {
        memory = sys::allocate_large(bytes);
        return read_files(files, threads, memory.get());
      });
    };
    const auto ours = [&] {
      for (const std::string& file : files)
        if (is_cold) must(sys::evict_from_page_cache(file));
      Sample sample;
      std::unique_ptr<Restored> restored;  // giving the memory back is not the restore's
      sample = timed([&] {
        restored = std::make_unique<Restored>(must(checkpoints->restore()));
        return static_cast<double>(bytes);
      });
      return sample;
    };
    const Pair pair = interleave(std::min(settings_.rounds, 5), floor, ours);
    report({fmt::format("restore of 4 GiB, {} / {}", is_cold ? "cold" : "warm",
                        is_cold ? "fio" : "pread"),
            ">= 0.9", 0.9, true, rate_ratio(pair),
            fmt::format("{} | {}{}", base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)),
                        is_cold ? " (" + setting + ")" : "")});
  }

  static double read_files(const std::vector<std::string>& files, unsigned threads,
                           std::byte* memory) {
    std::vector<std::jthread> workers;
    std::vector<uint64_t> starts{0};
    for (const std::string& file : files) starts.push_back(starts.back() + fs::file_size(file));
    for (unsigned worker = 0; worker < threads; ++worker) {
      workers.emplace_back([&, worker] {
        for (size_t i = worker; i < files.size(); i += threads) {
          const int fd = ::open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
          const uint64_t size = starts[i + 1] - starts[i];
          for (uint64_t at = 0; at < size;) {
            const ssize_t got =
                ::pread(fd, memory + starts[i] + at, std::min<uint64_t>(8 * kMiB, size - at),
                        static_cast<off_t>(at));
            if (got <= 0) stop_with(files[i] + ": a short read");
            at += static_cast<uint64_t>(got);
          }
          ::close(fd);
        }
      });
    }
    workers.clear();
    return static_cast<double>(starts.back());
  }

  // By one thread, from the page cache: what a byte costs, whatever the disk.
  void verify(const std::string& place) {
    const auto tier = must(checkpoint::Tier::open({.place = place}));
    const auto inventory = must(checkpoint::take_inventory(*tier));
    std::vector<double> rates;
    for (int round = 0; round <= settings_.rounds; ++round) {
      const Sample sample = timed([&] {
        const auto verified = must(checkpoint::verify_checkpoint(
            *tier, inventory.checkpoints.front().name, 1, [](uint64_t, uint64_t) {}, {}));
        if (!verified.damage.empty()) stop_with(verified.damage.front().what);
        return static_cast<double>(verified.bytes);
      });
      // The first reads the files into the page cache.
      if (round > 0) rates.push_back(sample.amount / sample.cpu_seconds * 1e-9);
    }
    report({"verify, GB/s of one core", ">= 3", 3, true, summarise(rates), "4 GiB warm"});
  }

  static Summary inverse(Summary ratio) {
    const double median = 1 / ratio.median;
    return {median, ratio.mad * median * median, ratio.n};
  }

  const Settings settings_;
  bool has_missed_ = false;
};

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  forebay::bench::Settings settings;
  const auto ended = forebay::bench::read_words("forebay_checkpoint_bench", argc, argv, settings,
                                                &settings.folder);
  return ended ? *ended : forebay::bench::Bench(settings).run();
}

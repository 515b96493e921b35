// How near do small samples of a fixed size come to copying them?
//
// usage: forebay_windows_bench [--smoke] [--rounds N] [--json FILE]
// Windows of 2,048 tokens, 4 KiB each, in the page cache. The floor copies the same windows from
// memory into batches, in the same kind of order, on one thread: no files, no order to compute, no
// keys. Its own row says what reading them costs at least: pread of each straight into its batch.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_folder.h"
#include "command_words.h"
#include "forebay/loader.h"
#include "formats/format.h"
#include "measure.h"
#include "storage/store.h"

namespace forebay::bench {
namespace {

constexpr uint64_t kTokens = 2048, kBatch = 64, kBatches = 3;
constexpr uint64_t kWindowBytes = kTokens * 2;

struct Case {
  std::string name;
  Shuffle shuffle = Shuffle::kOff;
  bool has_tokens = true;  // else raw records
};

[[noreturn]] void stop_with(const std::string& message) {
  std::fprintf(stderr, "forebay_windows_bench: %s\n", message.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) stop_with(result.error().message);
  return std::move(result).take();
}

// A .bin of one sequence per window, with its .idx.
void make_tokens(const std::string& folder, uint64_t windows) {
  const auto store = must(storage::open_store("local", folder));
  const formats::Format* format = formats::find_format("tokens");
  const formats::FileSpec spec{.path = "tokens.bin",
                               .shape = {kTokens},
                               .type = formats::ElementType::kU16,
                               .sample_count = windows};
  const auto write = [&](const std::string& path, bool is_side) {
    const auto writer = must(store->create(path));
    const Status written =
        is_side ? format->write_side(*writer, spec, 0) : format->write(*writer, true, spec);
    if (!written.ok()) stop_with(written.error().message);
    if (const Status s = writer->publish(); !s.ok()) stop_with(s.error().message);
  };
  write(spec.path, false);
  write(format->side_paths(spec.path).front(), true);
}

std::unique_ptr<Loader> open(const std::string& folder, const Case& of) {
  DataSource source;
  source.data = folder + "/tokens.bin";
  source.format = of.has_tokens ? "tokens" : "raw";
  if (of.has_tokens) {
    source.tokens_per_sample = kTokens;
  } else {
    source.record_type = "uint16";
    source.record_shape = {kTokens};
  }
  LoaderOptions options;
  options.sources = {source};
  options.batch_size = kBatch;
  options.shuffle = of.shuffle;
  return must(Loader::open(options));
}

Sample consume(Loader& loader, double windows) {
  return timed([&] {
    double done = 0;
    while (done < windows) {
      const auto batch = must(loader.next());
      if (batch) done += static_cast<double>(batch->samples().size());
    }
    return done;
  });
}

std::vector<uint32_t> order_of(Shuffle shuffle, uint64_t windows) {
  std::vector<uint32_t> order(windows);
  std::iota(order.begin(), order.end(), 0U);
  base::Random random(1);
  for (uint64_t i = windows; shuffle == Shuffle::kFull && i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Calls copy(window, where to) for `windows` windows in turn.
template <class Copy>
Sample copy_all(const std::vector<uint32_t>& order, double windows, std::byte* batches,
                const Copy& copy) {
  return timed([&] {
    uint64_t done = 0;
    for (; static_cast<double>(done) < windows; ++done)
      copy(order[done % order.size()], batches + done % (kBatch * kBatches) * kWindowBytes);
    return static_cast<double>(done);
  });
}

void measure(const RunSettings& settings, const Case& of) {
  const base::TestFolder folder("windows-bench");
  const uint64_t windows = settings.is_smoke ? 1024 : 40'000;
  const double amount = settings.is_smoke ? 1024 : 200'000;
  make_tokens(folder.path(), windows);
  const auto order = order_of(of.shuffle, windows);
  // As the loader's: a copy to odd addresses costs the kernel twice as much.
  std::vector<std::byte> memory((kBatch * kBatches + 1) * kWindowBytes);
  void* aligned = memory.data();
  size_t room = memory.size();
  auto* const batches = static_cast<std::byte*>(
      std::align(kWindowBytes, kBatch * kBatches * kWindowBytes, aligned, room));
  std::vector<std::byte> all(windows * kWindowBytes);
  const int fd = ::open((folder.path() + "/tokens.bin").c_str(), O_RDONLY | O_CLOEXEC);
  for (size_t done = 0; done < all.size();) {
    const ssize_t got = ::pread(fd, &all[done], all.size() - done, static_cast<off_t>(done));
    if (got <= 0) stop_with("cannot read what was written");
    done += static_cast<size_t>(got);
  }
  const auto copy = [&] {
    return copy_all(order, amount, batches, [&](uint64_t window, std::byte* to) {
      std::memcpy(to, &all[window * kWindowBytes], kWindowBytes);
    });
  };
  const auto read = [&] {
    return copy_all(order, amount, batches, [&](uint64_t window, std::byte* to) {
      const auto at = static_cast<off_t>(window * kWindowBytes);
      if (::pread(fd, to, kWindowBytes, at) != static_cast<ssize_t>(kWindowBytes))
        stop_with("a short read");
    });
  };
  const auto loader = open(folder.path(), of);
  consume(*loader, amount);  // tunes itself
  const auto report = [&](const std::string& what, const char* target, const Pair& pair) {
    const Row row{what + ", " + of.name,
                  target,
                  0.9,
                  true,
                  rate_ratio(pair),
                  fmt::format("{:.0f} | {:.0f} windows/s; CPU {:.2f} | {:.2f} us a window",
                              median_rate(pair.ours), median_rate(pair.floor),
                              1e6 * median_cpu_per_amount(pair.ours),
                              1e6 * median_cpu_per_amount(pair.floor))};
    print_row(row);
    if (!settings.json.empty()) append_json(settings.json, row, settings.is_smoke);
  };
  report("loader / memcpy", ">= 0.9",
         interleave(settings.rounds, copy, [&] { return consume(*loader, amount); }));
  report("pread / memcpy", "-", interleave(settings.rounds, copy, read));
  ::close(fd);
}

int run(int argc, char** argv) {
  RunSettings settings;
  if (const auto ended = read_words("forebay_windows_bench", argc, argv, settings)) return *ended;
  measure(settings, {"tokens, shuffle full", Shuffle::kFull});
  measure(settings, {"tokens, shuffle off", Shuffle::kOff});
  measure(settings, {"raw records, shuffle full", Shuffle::kFull, false});
  return 0;
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  return forebay::bench::run(argc, argv);
}

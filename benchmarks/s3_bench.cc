// How near do reads from an object store come to what its delay, or curl, allows?
//
// usage: forebay_s3_bench [--smoke] [--rounds N] [--json FILE] [--rgw ENDPOINT BUCKET]
// Against a server of its own that answers after 50 ms; with --rgw, against a real one, whose keys
// are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, side by side with `curl --parallel`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "command_words.h"
#include "delay_server.h"
#include "measure.h"
#include "storage/store.h"
#include "sys/environment.h"
#include "sys/process.h"

namespace forebay::bench {
namespace {

constexpr int64_t kDelayNs = 50'000'000;
constexpr double kDelaySeconds = 0.05;

struct Settings : RunSettings {
  std::string endpoint, bucket;
};

using Buffers = std::vector<std::vector<std::byte>>;  // as many as reads in flight

// Reads `reads` whole objects of `bytes` from `paths` in turn, one into each buffer at a time;
// returns the bytes.
double read_all(storage::Store& store, const std::vector<std::string>& paths, size_t reads,
                size_t bytes, Buffers& buffers) {
  const auto queue =
      store.open_queue({.depth = static_cast<int>(buffers.size()), .name = "bench"}).take();
  std::vector<storage::Completion> done(64);
  const auto read_of = [&](size_t i, size_t buffer) {
    return storage::Read{.path = paths[i % paths.size()],
                         .length = bytes,
                         .destination = buffers[buffer].data(),
                         .to_end = true,
                         .tag = buffer};
  };
  size_t next = 0;
  for (; next < std::min(reads, buffers.size()); ++next) {
    const storage::Read read = read_of(next, next);
    queue->submit({&read, 1});
  }
  double total = 0;
  for (size_t ended = 0; ended < reads;) {
    const size_t count = queue->reap(done, {});
    std::vector<storage::Read> more;
    for (size_t i = 0; i < count; ++i) {
      if (!done[i].status.ok()) {
        std::fprintf(stderr, "forebay_s3_bench: %s\n", done[i].status.error().message.c_str());
        std::exit(1);
      }
      total += static_cast<double>(done[i].bytes);
      if (next < reads) more.push_back(read_of(next++, done[i].tag));
    }
    ended += count;
    queue->submit(more);
  }
  return total;
}

std::unique_ptr<storage::Store> open(const std::string& endpoint, const std::string& bucket,
                                     int connections, storage::OptionValues further) {
  further.emplace_back("endpoint", endpoint);
  further.emplace_back("connections", std::to_string(connections));
  auto store = storage::open_store("s3", "s3://" + bucket, further);
  if (!store.ok()) {
    std::fprintf(stderr, "forebay_s3_bench: %s\n", store.error().message.c_str());
    std::exit(1);
  }
  return std::move(store).take();
}

// The limit: each connection carries one answer per delay.
void report_delayed(const Settings& settings, int connections, size_t bytes, double seconds) {
  const DelayServer server(kDelayNs, bytes);
  const auto store = open(server.endpoint(), "data", connections,
                          {{"access_key_id", "AK"}, {"secret_access_key", "SK"}});
  const double limit = connections / kDelaySeconds;
  const auto reads = static_cast<size_t>(settings.is_smoke ? connections * 2 : limit * seconds);
  const std::vector<std::string> paths = {"a", "b", "c", "d"};
  Buffers buffers(static_cast<size_t>(connections), std::vector<std::byte>(bytes));
  const auto ours = [&] {
    return timed([&] {
      return read_all(*store, paths, reads, bytes, buffers) / static_cast<double>(bytes);
    });
  };
  const auto floor = [&] {
    Sample sample;
    sample.amount = static_cast<double>(reads);
    sample.wall_seconds = sample.amount / limit;
    return sample;
  };
  const Pair pair = interleave(settings.rounds, floor, ours);
  Row row;
  row.name = fmt::format("s3 reads of {} KiB at 50 ms, {} connections, over the limit", bytes >> 10,
                         connections);
  row.target = ">= 0.90";
  row.target_value = 0.9;
  row.ratio = rate_ratio(pair);
  row.detail = fmt::format(
      "{:.0f} reads/s, {:.0f} MB/s (limit {:.0f} reads/s); {:.0f} us CPU a read with the server's",
      median_rate(pair.ours), median_rate(pair.ours) * static_cast<double>(bytes) * 1e-6, limit,
      median_cpu_per_amount(pair.ours) * 1e6);
  print_row(row);
  if (!settings.json.empty()) append_json(settings.json, row, settings.is_smoke);
}

// curl's own list of work: every object once, to nowhere.
void write_curl_config(const std::string& path, const Settings& settings,
                       const std::vector<std::string>& names) {
  std::ofstream out(path);
  out << "no-progress-meter\nfail-early\nparallel-immediate\n"
      << "header = \"x-amz-content-sha256: UNSIGNED-PAYLOAD\"\n"
      << "aws-sigv4 = \"aws:amz:us-east-1:s3\"\nuser = \""
      << sys::environment("AWS_ACCESS_KEY_ID").value_or("") << ":"
      << sys::environment("AWS_SECRET_ACCESS_KEY").value_or("") << "\"\n";
  for (const std::string& name : names)
    out << "url = \"" << settings.endpoint << "/" << settings.bucket << "/" << name
        << "\"\noutput = \"/dev/null\"\n";
}

void report_real(const Settings& settings, size_t files, size_t bytes, int connections) {
  const auto store = open(settings.endpoint, settings.bucket, connections, {{"range", "1TiB"}});
  std::vector<std::string> names;
  std::vector<std::byte> content(bytes, std::byte{7});
  for (size_t i = 0; i < files; ++i) {
    names.push_back(fmt::format("bench-{}/{:05}", bytes, i));
    const auto known = store->stat(names.back());
    if (known.ok() && known->size == bytes) continue;
    const Status written = storage::write_file(*store, names.back(), content);
    if (!written.ok()) {
      std::fprintf(stderr, "forebay_s3_bench: %s\n", written.error().message.c_str());
      std::exit(1);
    }
  }
  const base::TestFolder folder("s3-bench");
  write_curl_config(folder / "curl", settings, names);
  const std::string command =
      fmt::format("curl --parallel --parallel-max {} --config {}", connections, folder / "curl");
  const double amount = static_cast<double>(files) * static_cast<double>(bytes);
  const auto floor = [&] {
    return timed([&] {
      if (std::system(command.c_str()) != 0) {
        std::fprintf(stderr, "forebay_s3_bench: curl failed\n");
        std::exit(1);
      }
      return amount;
    });
  };
  Buffers buffers(static_cast<size_t>(connections), std::vector<std::byte>(bytes));
  const auto ours = [&] {
    return timed([&] { return read_all(*store, names, files, bytes, buffers); });
  };
  const Pair pair = interleave(settings.rounds, floor, ours);
  Row row;
  row.name = fmt::format("s3 reads of {} x {} KiB, {} connections, over curl --parallel", files,
                         bytes >> 10, connections);
  row.target = ">= 0.90";
  row.target_value = 0.9;
  row.ratio = rate_ratio(pair);
  row.detail = fmt::format("{:.0f} MB/s, curl {:.0f} MB/s; {:.0f} against {:.0f} objects/s",
                           median_rate(pair.ours) * 1e-6, median_rate(pair.floor) * 1e-6,
                           median_rate(pair.ours) / static_cast<double>(bytes),
                           median_rate(pair.floor) / static_cast<double>(bytes));
  print_row(row);
  if (!settings.json.empty()) append_json(settings.json, row, settings.is_smoke);
}

constexpr char kUsage[] =
    "usage: forebay_s3_bench [--smoke] [--rounds N] [--json FILE] [--rgw ENDPOINT BUCKET]\n";

int refuse(const std::string& wrong) {
  std::fprintf(stderr, "forebay_s3_bench: %s\n%s", wrong.c_str(), kUsage);
  return 2;
}

}  // namespace

int run(int argc, char** argv) {
  Settings settings;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (asks_for_help(words)) {
    std::printf("%s", kUsage);
    return 0;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--rgw" && i + 2 < words.size()) {
      settings.endpoint = words[++i];
      settings.bucket = words[++i];
      continue;
    }
    const Word word = take_word(words, i, settings);
    if (word != Word::kTaken) return refuse(complaint(word, words[i]));
  }
  sys::raise_open_file_limit(4096);
  if (settings.endpoint.empty()) {
    report_delayed(settings, 300, 4 << 10, 2);
    report_delayed(settings, 512, 4 << 10, 2);
    report_delayed(settings, 128, 256 << 10, 2);
    return 0;
  }
  report_real(settings, settings.is_smoke ? 4 : 64, 8 << 20, 16);
  report_real(settings, settings.is_smoke ? 20 : 1000, 100 << 10, 16);
  return 0;
}

}  // namespace forebay::bench

int main(int argc, char** argv) {
  return forebay::bench::run(argc, argv);
}

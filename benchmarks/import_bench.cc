// How fast are Kineto traces read, and how much memory does that take?
//
// usage: forebay_import_bench FOLDER [--smoke] [--rounds N] [--json FILE]
// Makes a trace of 600 MB in FOLDER (--smoke: 2 MB) by repeating the events of a training step as
// torch.profiler prints them, and imports it on one core. The targets are absolute: megabytes of
// JSON a second of CPU, and the peak of the process's memory against 10 % of the file + 100 MiB.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "command_words.h"
#include "ingest/import.h"
#include "measure.h"
#include "sys/process.h"

namespace forebay::bench {
namespace {

namespace fs = std::filesystem;

struct Settings : RunSettings {
  std::string folder;
};

// Times as uneven as real ones, the same in every run.
class Jitter {
 public:
  // In [0, 1), in steps of a nanosecond's share of a millisecond.
  double next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<double>(state_ >> 44) / (1 << 20);
  }

 private:
  uint64_t state_ = 1;
};

// One operator with its launch, its kernel and the arrows between them, as libkineto prints them.
std::string events_of(int64_t index, double at_us, Jitter& jitter) {
  constexpr const char* kOperators[] = {"aten::convolution", "aten::batch_norm", "aten::relu_",
                                        "aten::addmm",
                                        "autograd::engine::evaluate_function: AddmmBackward0"};
  constexpr const char* kKernels[] = {
      "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, "
      "true>(cudnnTensorStruct, float const*)",
      "ampere_sgemm_128x64_tn",
      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
      "at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>, at::detail::Array<char*, "
      "1>)"};
  const char* const op = kOperators[index % 5];
  const char* const kernel = kKernels[index % 3];
  const int64_t correlation = index * 5 + static_cast<int64_t>(jitter.next() * 5);
  // Kernels wait for those before them.
  const double kernel_at = at_us + 40 + jitter.next() * 5;
  return fmt::format(
      "  {{\n"
      "    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 1102, \"tid\""
      ": 1102,\n"
      "    \"ts\": {:.3f}, \"dur\": {:.3f},\n"
      "    \"args\": {{\n"
      "      \"External id\": {}, \"Record function id\": 0, \"Concrete Inputs\": [\"\""
      ", \"\", \"False\"], \"Input type\": [\"float\", \"float\", \"Scalar\"], \"Input "
      "Dims\": [[32, 64, 56, 56], [64], []], \"Ev Idx\": {}\n"
      "    }}\n"
      "  }},\n"
      "  {{\n"
      "    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \""
      "pid\": 1102, \"tid\": 1102,\n"
      "    \"ts\": {:.3f}, \"dur\": {:.3f},\n"
      "    \"args\": {{\n"
      "      \"External id\": {}, \"cbid\": 211, \"correlation\": {}\n"
      "    }}\n"
      "  }},\n"
      "  {{\n"
      "    \"ph\": \"s\", \"id\": {}, \"pid\": 1102, \"tid\": 1102, \"ts\": {:.3f},\n"
      "    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n"
      "  }},\n"
      "  {{\n"
      "    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": 7"
      ",\n"
      "    \"ts\": {:.3f}, \"dur\": {:.3f},\n"
      "    \"args\": {{\n"
      "      \"External id\": {}, \"queued\": 0, \"device\": 0, \"context\": 1, \"strea"
      "m\": 7, \"correlation\": {}, \"registers per thread\": 16, \"shared memory\": 0,"
      " \"blocks per SM\": 0.3, \"warps per SM\": 1.2, \"grid\": [24, 1, 1], \"block\":"
      " [128, 1, 1], \"est. achieved occupancy %\": 2\n"
      "    }}\n"
      "  }},\n"
      "  {{\n"
      "    \"ph\": \"f\", \"id\": {}, \"pid\": 0, \"tid\": 7, \"ts\": {:.3f},\n"
      "    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n"
      "  }},\n",

      op, at_us, 40 + jitter.next() * 9, index, index, at_us + 10, 3 + jitter.next() * 20, index,
      correlation, correlation, at_us + 10, kernel, kernel_at, 5 + jitter.next() * 40, index,
      correlation, correlation, kernel_at);
}

uint64_t make_trace(const std::string& path, uint64_t bytes) {
  if (fs::exists(path) && fs::file_size(path) >= bytes) return fs::file_size(path);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
          "\"world_size\": 1},\n  \"traceEvents\": [\n";
  uint64_t written = 0;
  Jitter jitter;
  for (int64_t index = 0; written < bytes; ++index) {
    const std::string events =
        events_of(index, 1000.5 + static_cast<double>(index) * 50 + jitter.next(), jitter);
    file << events;
    written += events.size();
  }
  file
      << "  {\"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": "
         "\"\", \"ts\": 0}\n  ],\n  \"baseTimeNanoseconds\": 1727743122000000000\n}\n";
  file.close();
  return fs::file_size(path);
}

int run(const Settings& settings) {
  fs::create_directories(settings.folder);
  const std::string path =
      settings.folder + (settings.is_smoke ? "/smoke_kineto.json" : "/kineto.json");
  const uint64_t bytes = make_trace(path, settings.is_smoke ? 2'000'000 : 600'000'000);
  const std::string out = settings.folder + "/imported";
  const std::vector<std::string> paths{path};
  std::vector<double> rates;
  double trace_bytes_per_event = 0, wall_rate = 0;
  uint64_t events = 0;
  for (int round = 0; round <= settings.rounds; ++round) {
    fs::remove_all(out);
    fs::create_directories(out);
    const Sample sample = timed([&] {
      const auto imported = ingest::import(paths, {.folder = out, .version = "bench"}).take();
      events = imported.files.at(0).events;
      trace_bytes_per_event =
          static_cast<double>(imported.files[0].trace_bytes) / static_cast<double>(events);
      return static_cast<double>(bytes);
    });
    // The first reads the file into the page cache.
    if (round == 0) continue;
    rates.push_back(sample.amount / sample.cpu_seconds * 1e-6);
    wall_rate = sample.amount / sample.wall_seconds * 1e-6;
  }
  fs::remove_all(out);
  const Row rate{.name = "import kineto JSON, MB/s of one core",
                 .target = ">= 300",
                 .target_value = 300,
                 .ratio = summarise(rates),
                 .detail = fmt::format("{:.0f} MB warm, {} events, {:.1f} bytes an event written, "
                                       "{:.0f} MB/s by the wall clock",
                                       static_cast<double>(bytes) * 1e-6, events,
                                       trace_bytes_per_event, wall_rate)};
  const double allowed = 0.1 * static_cast<double>(bytes) + (100 << 20);
  const auto peak = static_cast<double>(sys::peak_resident_bytes());
  const Row memory{.name = "import kineto JSON, memory / (10 % + 100 MiB)",
                   .target = "<= 1",
                   .target_value = 1,
                   .higher_is_better = false,
                   .ratio = summarise({peak / allowed}),
                   .detail = fmt::format("peak {:.0f} MiB of the whole process", peak / (1 << 20))};
  for (const Row& row : {rate, memory}) {
    print_row(row);
    append_json(settings.json, row, settings.is_smoke);
  }
  return settings.is_smoke || (rate.is_met() && memory.is_met()) ? 0 : 1;
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  forebay::bench::Settings settings;
  settings.rounds = 5;
  const auto ended =
      forebay::bench::read_words("forebay_import_bench", argc, argv, settings, &settings.folder);
  return ended ? *ended : forebay::bench::run(settings);
}

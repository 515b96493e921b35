// Writes the pages that the browser tests open, of recordings and results made up here with figures
// that are known. usage: sample_pages FOLDER [million]
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "report/page.h"
#include "trace/facts.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/writer.h"

namespace {

using Json = nlohmann::ordered_json;
using namespace forebay;
using trace::Category;
using trace::EventKind;
using trace::TrackKind;

constexpr int64_t kMs = 1'000'000;
constexpr int kParts = 8;
constexpr const char* kPartNames[kParts] = {"compute", "fetch_stall", "prep_stall", "sync_stall",
                                            "copy",    "checkpoint",  "idle",       "other"};

// Bytes of a trace file, written and read back in memory.
class Tape {
 public:
  Tape()
      : writer_([this](std::span<const std::byte> piece) -> Status {
          bytes_.insert(bytes_.end(), piece.begin(), piece.end());
          return {};
        }) {}
  trace::TraceWriter& writer() { return writer_; }
  trace::Recording recording(const std::string& path) {
    writer_.finish().ignore("memory does not fail");
    std::vector<std::unique_ptr<trace::TraceReader>> readers;
    const auto read = [this](std::span<std::byte> out, uint64_t offset) -> int64_t {
      if (offset >= bytes_.size()) return 0;
      const size_t size = std::min(out.size(), bytes_.size() - static_cast<size_t>(offset));
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), size, out.begin());
      return static_cast<int64_t>(size);
    };
    readers.push_back(trace::TraceReader::open(read, path).take());
    return trace::Recording::read(std::move(readers), {path}).take();
  }

 private:
  std::vector<std::byte> bytes_;
  trace::TraceWriter writer_;
};

struct Step {
  int64_t begin = 0;
  int64_t parts[kParts] = {};
  bool is_epoch_start = false, has_checkpoint = false;
  int64_t length() const {
    int64_t sum = 0;
    for (const int64_t part : parts) sum += part;
    return sum;
  }
};

// 240 steps: each epoch of 60 begins slowly, every 40th step saves.
std::vector<Step> make_steps(double decode_factor) {
  base::Random random(7);
  std::vector<Step> steps;
  int64_t now = 5 * kMs;
  for (int i = 0; i < 240; ++i) {
    Step step;
    step.begin = now;
    const auto around = [&](double ms) {
      return static_cast<int64_t>(ms * (0.9 + 0.2 * random.uniform()) * kMs);
    };
    step.parts[0] = around(38);
    step.parts[1] = around(3);
    step.parts[2] = around(17 * decode_factor);
    step.parts[3] = around(1.5);
    step.parts[4] = around(1.1);
    step.is_epoch_start = i % 60 == 0;
    step.has_checkpoint = i % 40 == 39;
    if (step.is_epoch_start) step.parts[1] = around(180);
    if (step.has_checkpoint) step.parts[5] = around(95);
    step.parts[7] = around(0.6);
    now += step.length();
    steps.push_back(step);
  }
  return steps;
}

Json breakdown(const int64_t (&parts)[kParts]) {
  Json json;
  int64_t total = 0;
  for (int i = 0; i < kParts; ++i) {
    json[kPartNames[i]] = parts[i];
    total += parts[i];
  }
  json["total"] = total;
  return json;
}

// One host's training: a main thread, three workers, an accelerator, a disk, cores.
void write_host(trace::TraceWriter& writer, int rank, const std::vector<Step>& steps,
                bool is_decode_heavy) {
  const auto host = writer.add_track(TrackKind::kHost, trace::kNoId, fmt::format("node{}", rank));
  const auto process =
      writer.add_track(TrackKind::kProcess, host, "python train.py", 4700 + rank, rank);
  const auto main = writer.add_track(TrackKind::kThread, process, "python", 4700 + rank);
  const auto device =
      writer.add_track(TrackKind::kDevice, host, fmt::format("cuda:{}", rank), rank);
  const auto stream = writer.add_track(TrackKind::kStream, device, "stream 7", 7);
  const auto disk = writer.add_track(TrackKind::kBlockDevice, host, "nvme0n1", 259 << 20);
  const auto step_name = writer.name("step", Category::kStep);
  const auto wait = writer.name("next(loader)", Category::kDataWait);
  const auto copy = writer.name("Memcpy HtoD", Category::kCopy);
  const auto reduce = writer.name("ncclAllReduce", Category::kCollective);
  const auto save = writer.name("torch.save", Category::kCheckpoint);
  const auto read = writer.name("read", Category::kRead);
  const auto decode = writer.name("decode_image", Category::kPrepare);
  const auto request = writer.name("read", Category::kBlockIo);
  const auto sample = writer.name("sample", Category::kOnCpu, EventKind::kSample);
  const auto busy = writer.name("busy_share", Category::kUsage, EventKind::kCounter);
  const auto resident = writer.name("resident_bytes", Category::kUsage, EventKind::kCounter);
  const auto step_key = writer.key(trace::key::kStep);
  const auto bytes_key = writer.key(trace::key::kBytes);
  const auto offset_key = writer.key(trace::key::kOffset);
  const auto file_key = writer.key(trace::key::kFile, trace::ArgumentType::kText);
  const auto stack_key = writer.key(trace::key::kStack, trace::ArgumentType::kStack);
  std::vector<trace::NameId> kernels;
  for (const char* kernel : {"ampere_sgemm_128x64_nn", "cudnn::winograd_fprop", "batch_norm_fw",
                             "vectorized_elementwise_kernel", "sgd_momentum_step"})
    kernels.push_back(writer.name(kernel, Category::kCompute));
  const auto frame = [&](trace::FrameKind kind, const char* symbol, const char* module,
                         uint32_t line) {
    return writer.frame({.kind = kind,
                         .symbol = writer.text(symbol),
                         .module = writer.text(module),
                         .build_id = writer.text(""),
                         .offset = 0,
                         .line = line});
  };
  using Kind = trace::FrameKind;
  const auto run = writer.stack(trace::kNoId, frame(Kind::kPython, "worker_loop", "loader.py", 40));
  const auto load = writer.stack(run, frame(Kind::kPython, "load", "train.py", 88));
  const auto pil = writer.stack(load, frame(Kind::kNative, "ImagingResample", "_imaging.so", 0));
  const auto jpeg = writer.stack(load, frame(Kind::kNative, "jpeg_idct_islow", "libjpeg.so.62", 0));
  const auto kernel_read =
      writer.stack(writer.stack(load, frame(Kind::kNative, "read", "libc.so.6", 0)),
                   frame(Kind::kKernel, "filemap_read", "kernel", 0));
  const trace::StackId often = is_decode_heavy ? jpeg : kernel_read;
  const trace::StackId stacks[] = {jpeg, often, often, pil, pil, kernel_read, load};
  base::Random random(static_cast<uint64_t>(100 + rank));
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    writer.add({main, step_name, step.begin, step.length()}, {{step_key, static_cast<int64_t>(i)}});
    int64_t at = step.begin;
    const auto put = [&](trace::TrackId track, trace::NameId name, int64_t length) {
      if (length > 0) writer.add({track, name, at, length});
      at += length;
    };
    put(main, wait, step.parts[1] + step.parts[2]);
    put(stream, copy, step.parts[4]);
    for (size_t k = 0; k < 20; ++k) put(stream, kernels[(k * 7) % 5], step.parts[0] / 20);
    at = step.begin + step.parts[0] + step.parts[1] + step.parts[2] + step.parts[4];
    put(main, reduce, step.parts[3]);
    put(main, save, step.parts[5]);
    writer.counter(device, busy, step.begin, 0.1);
    writer.counter(device, busy, step.begin + step.parts[1] + step.parts[2], 0.97);
    writer.counter(process, resident, step.begin,
                   2e9 + 1e6 * static_cast<double>(i) + 5e7 * random.uniform());
  }
  const int64_t end = steps.back().begin + steps.back().length();
  for (int worker = 0; worker < 3; ++worker) {
    const auto thread =
        writer.add_track(TrackKind::kThread, process, "loader worker", 4710 + worker);
    int64_t at = worker * 3 * kMs, next_sample = at;
    for (int item = 0; at < end - 20 * kMs; ++item) {
      const auto read_ns = static_cast<int64_t>((0.4 + 2.2 * random.uniform()) * kMs);
      const auto decode_ns = static_cast<int64_t>((9 + 4 * random.uniform()) * kMs);
      const int64_t size = 90'000 + static_cast<int64_t>(40'000 * random.uniform());
      const auto file = writer.text(fmt::format("/data/train/shard-{:03}.tar", item % 97));
      writer.add({thread, read, at, read_ns},
                 {{bytes_key, size}, {offset_key, item * 131072}, {file_key, file}});
      writer.add({disk, request, at + read_ns / 4, read_ns / 2}, {{bytes_key, size}});
      writer.add({thread, decode, at + read_ns, decode_ns});
      for (; next_sample < at + read_ns + decode_ns; next_sample += 10'101'010)
        writer.add({thread, sample, next_sample, 10'101'010},
                   {{stack_key, stacks[static_cast<size_t>(random.uniform() * 7)]}});
      at += read_ns + decode_ns;
    }
  }
  for (int core = 0; core < 4; ++core) {
    const auto track = writer.add_track(TrackKind::kCore, host, "", core);
    for (int64_t at = 0; at < end; at += 100 * kMs)
      writer.counter(track, busy, at, std::min(1.0, 0.5 + 0.5 * random.uniform()));
  }
}

trace::Recording training(double decode_factor) {
  Tape tape;
  trace::TraceWriter& writer = tape.writer();
  const std::vector<Step> steps = make_steps(decode_factor);
  for (int rank = 0; rank < 2; ++rank) write_host(writer, rank, steps, decode_factor >= 1);
  writer.fact(trace::fact::kSource, "record");
  writer.fact(trace::fact::kCommand, "python train.py --epochs 4");
  writer.fact(trace::fact::kHost, "node0");
  writer.fact("collector.io", "ebpf");
  writer.fact("missing.io", "reads through mmap that hit the page cache");
  writer.fact("collector.cpu", "perf_event_open, software clock, 99 Hz");
  writer.fact("collector.gpu", "none: no NVML here");
  writer.fact(trace::fact::kDropped, "0");
  return tape.recording("forebay-0007/node0.fbt");
}

Json use(const std::string& name, uint64_t reads, uint64_t bytes, int64_t ns, double cached) {
  return Json{{"name", name},
              {"files", 1},
              {"opens", 3},
              {"reads", reads},
              {"writes", 0},
              {"metadata", 6},
              {"syncs", 0},
              {"faults", 0},
              {"errors", 0},
              {"read_bytes", bytes},
              {"written_bytes", 0},
              {"cache_bytes", static_cast<uint64_t>(static_cast<double>(bytes) * cached)},
              {"read_ns", ns},
              {"write_ns", 0},
              {"metadata_ns", ns / 20},
              {"sync_ns", 0},
              {"fault_ns", 0},
              {"total_ns", ns + ns / 20},
              {"metadata_share", 1.0 / 21},
              {"sequential_share", 0.93},
              {"read_p50_ns", 640'000},
              {"read_p99_ns", 9'800'000},
              {"read_max_ns", 31'000'000},
              {"read_bytes_p50", 110'592}};
}

Json io() {
  Json files = Json::array();
  for (uint64_t i = 0; i < 97; ++i)
    files.push_back(use(fmt::format("/data/train/shard-{:03}.tar", i), 40 + i % 7,
                        (40 + i % 7) * 110'592, static_cast<int64_t>(60 + i * 3) * kMs, 0.35));
  std::reverse(files.begin(), files.end());
  Json json{{"is_measured", true},
            {"reason", ""},
            {"total", use("all", 4120, 455'639'040, 19'776 * kMs, 0.35)},
            {"files", files},
            {"folders", Json::array({use("/data/train", 4120, 455'639'040, 19'776 * kMs, 0.35)})},
            {"formats", Json::array({use(".tar", 4120, 455'639'040, 19'776 * kMs, 0.35)})},
            {"files_left_out", 0},
            {"folders_left_out", 0},
            {"read_sizes", {{"4 KiB", 40}, {"64 KiB", 310}, {"128 KiB", 3510}, {"256 KiB", 260}}},
            {"counted_only", 0}};
  json["total"]["files"] = json["folders"][0]["files"] = json["formats"][0]["files"] = 97;
  return json;
}

Json advice(const char* id, const char* title, const char* state, int64_t per_step, double share,
            std::vector<std::string> remedies, const char* evidence) {
  return Json{{"id", id},
              {"title", title},
              {"state", state},
              {"is_warning", false},
              {"needs", "samples with stacks, spans of decoding"},
              {"evidence", evidence},
              {"threshold", "prep stall >= 10 % of the steps"},
              {"threshold_source", "DS-Analyzer"},
              {"remedies", remedies},
              {"gain_formula", "prep stall x (1 - 1 / threads)"},
              {"gain_ns_per_step", per_step},
              {"gain_ns", per_step * 240},
              {"gain_share", share}};
}

Json change(const std::string& what, double before, double after, Json p, bool significant) {
  return Json{{"what", what},
              {"id", ""},
              {"module", what.starts_with("jpeg") ? "libjpeg.so.62" : ""},
              {"path", ""},
              {"before_ns", before},
              {"after_ns", after},
              {"difference_ns", after - before},
              {"before_n", 240},
              {"after_n", 240},
              {"p", std::move(p)},
              {"is_significant", significant}};
}

Json swarm(const char* symbol, const char* module, const char* kind, double share, int64_t ns) {
  Json over = Json::array();
  for (int i = 0; i < 64; ++i) over.push_back(ns / 64 * (4 + (i * 7) % 5) / 6);
  return Json{{"id", "00f1"},
              {"kind", kind},
              {"symbol", symbol},
              {"module", module},
              {"path", "load < worker_loop"},
              {"source", "train.py:88"},
              {"samples", ns / 10101010},
              {"self_ns", ns},
              {"share", share},
              {"main_track", "node0 / loader worker 4711"},
              {"over_time_ns", over}};
}

// Sums and lists over the steps that every part of the explanation needs.
struct Known {
  std::vector<Step> steps = make_steps(1.0);
  int64_t sums[kParts] = {};
  int64_t total_ns = 0;
  int64_t duration_ns = 0;
  std::vector<int64_t> sorted;  // lengths

  explicit Known(const trace::Recording& recording)
      : duration_ns(recording.end_ns() - recording.begin_ns()) {
    for (const Step& step : steps) {
      for (int part = 0; part < kParts; ++part) sums[part] += step.parts[part];
      total_ns += step.length();
      sorted.push_back(step.length());
    }
    std::sort(sorted.begin(), sorted.end());
  }
};

Json drivers_json(const Known& known, int64_t begin_ns) {
  Json iterations = Json::array();
  for (size_t i = 0; i < known.steps.size(); ++i) {
    const Step& step = known.steps[i];
    iterations.push_back(Json{{"number", i},
                              {"begin_ns", step.begin - begin_ns},
                              {"end_ns", step.begin + step.length() - begin_ns},
                              {"parts", breakdown(step.parts)},
                              {"is_partial", false},
                              {"is_epoch_start", step.is_epoch_start},
                              {"has_checkpoint", step.has_checkpoint},
                              {"is_slow", step.length() > 220 * kMs}});
  }
  Json drivers = Json::array();
  for (int rank = 0; rank < 2; ++rank) {
    drivers.push_back(
        Json{{"track", 2},
             {"name", fmt::format("node{} / python train.py {} / python", rank, 4700 + rank)},
             {"is_device", false},
             {"rank", rank},
             {"begin_ns", 0},
             {"end_ns", known.duration_ns},
             {"whole", breakdown(known.sums)},
             {"steps", breakdown(known.sums)},
             {"causes", Json::array()},
             {"iterations", iterations}});
  }
  return drivers;
}

Json recording_json(const Known& known, const trace::Recording& recording) {
  return Json{{"paths", {"forebay-0007/node0.fbt"}},
              {"source", "record"},
              {"command", "python train.py --epochs 4"},
              {"host", "node0"},
              {"exit", "exit 0"},
              {"duration_ns", known.duration_ns},
              {"begin_unix_ns", 1'790'000'000'000'000'000},
              {"events", recording.size()},
              {"tracks", recording.dictionary().tracks.size()},
              {"dropped", 0},
              {"is_whole", true},
              {"overhead_outside_ns", 61 * kMs},
              {"overhead_inside_ns", 34 * kMs},
              {"facts", {{"cores", "4"}, {"source", "record"}}}};
}

Json iterations_json(const Known& known) {
  return Json{{"is_found", true},
              {"method", "marks 'step'"},
              {"reason", ""},
              {"confidence", 1.0},
              {"coverage", 0.99},
              {"regularity", 0.98},
              {"cv", 0.06},
              {"count", 480},
              {"partial", 0},
              {"mean_ns", known.total_ns / 240},
              {"p50_ns", known.sorted[120]},
              {"p90_ns", known.sorted[216]},
              {"p99_ns", known.sorted[237]},
              {"max_ns", known.sorted[239]},
              {"error_against_marks", 0.004},
              {"count_without_marks", 480}};
}

Json cause(const char* part, const char* what, int64_t ns) {
  return Json{{"part", part}, {"what", what}, {"ns", ns}};
}

Json slow_kind(const char* kind, uint64_t count, int64_t mean_ms, int part, int every,
               const char* explanation) {
  int64_t excess[kParts] = {};
  excess[part] = (mean_ms - 61) * kMs;
  return Json{{"kind", kind},
              {"count", count},
              {"mean_ns", mean_ms * kMs},
              {"ordinary_ns", 61 * kMs},
              {"excess_ns", static_cast<int64_t>(count) * excess[part]},
              {"excess", breakdown(excess)},
              {"explanation", explanation},
              {"every", every}};
}

// Of the first driver's iterations, whatever their lengths are.
Json stretches_json(Json json) {
  json["pace"] = Json{{"first_step", 181},     {"at_ns", 11'000 * kMs}, {"before_n", 180},
                      {"after_n", 60},         {"before_ns", 61 * kMs}, {"after_ns", 75 * kMs},
                      {"part", "fetch stall"}, {"part_ns", 13 * kMs},   {"p", 1e-9}};
  json["phases"] = Json::array({Json{{"first_step", 41},
                                     {"last_step", 60},
                                     {"begin_ns", 2'440 * kMs},
                                     {"end_ns", 3'660 * kMs},
                                     {"n", 20},
                                     {"ns", 122 * kMs},
                                     {"ordinary_ns", 61 * kMs},
                                     {"factor", 2.0},
                                     {"part", "prep stall"},
                                     {"part_ns", 60 * kMs},
                                     {"p", 1e-7}}});
  json["under_way"] = Json{{"count", 1},
                           {"calls", Json::array({Json{{"what", "read of /nfs/<b>.bin"},
                                                       {"thread", "train.py 4711"},
                                                       {"begin_ns", 16'000 * kMs},
                                                       {"ns", 340 * kMs},
                                                       {"is_of_driver", true}}})},
                           {"hang", nullptr}};
  return json;
}

Json devices_json(Json json, const Known& known) {
  const Json shares{
      {"user", 0.61}, {"system", 0.06}, {"gpu", 0.24}, {"io_wait", 0.05}, {"idle", 0.04}};
  json["concurrency"] = Json{{"is_measured", true}, {"reason", ""}, {"window_ns", 100 * kMs},
                             {"windows", 163},      {"cores", 4},   {"by_busiest", shares},
                             {"by_mean", shares}};
  json["disks"] = Json::array({Json{{"name", "nvme0n1"},
                                    {"requests", 4120},
                                    {"bytes", 455'639'040},
                                    {"read_share", 1.0},
                                    {"device_p50_ns", 410'000},
                                    {"device_p99_ns", 1'240'000},
                                    {"device_max_ns", 1'302'000},
                                    {"queue_mean_ns", 21'000},
                                    {"busy_share", 0.19},
                                    {"busy_share_in_stalls", 0.22},
                                    {"bytes_per_second", 1.6e8},
                                    {"depth", 1.4}}});
  json["read_latency"] = Json{{"is_measured", true},     {"reason", ""},
                              {"reads", 4120},           {"cpu_ns", 412 * kMs},
                              {"device_ns", 2100 * kMs}, {"queue_ns", 86 * kMs},
                              {"other_ns", 300 * kMs}};
  const auto& sums = known.sums;
  json["accelerators"] = Json::array();
  for (int rank = 0; rank < 2; ++rank) {
    json["accelerators"].push_back(Json{{"name", fmt::format("cuda:{}", rank)},
                                        {"rank", rank},
                                        {"span_ns", known.total_ns},
                                        {"compute_ns", sums[0]},
                                        {"non_compute_ns", sums[4]},
                                        {"idle_ns", known.total_ns - sums[0] - sums[4]},
                                        {"idle_host_wait_ns", sums[1] + sums[2]},
                                        {"idle_kernel_wait_ns", sums[7]},
                                        {"idle_other_ns", sums[3] + sums[5]},
                                        {"communication_ns", sums[3]},
                                        {"copy_ns", sums[4]},
                                        {"communication_overlap", nullptr},
                                        {"copy_overlap", 0.0},
                                        {"copied_bytes", 240ll * 11'059'200},
                                        {"kernels", 4800},
                                        {"launches", 4800},
                                        {"busy_share_counter", 0.61}});
  }
  return json;
}

Json alignment_json(const Known& known) {
  Json ranks = Json::array();
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(Json{{"rank", rank},
                         {"name", fmt::format("node{}", rank)},
                         {"clock_shift_ns", rank * 1'730'000},
                         {"clock_residual_ns", rank * 18'000},
                         {"mean_step_ns", known.total_ns / 240},
                         {"own_work_ns", 62 * kMs + rank * 4 * kMs},
                         {"lateness_ns", rank * 900'000},
                         {"last_share", rank == 0 ? 0.12 : 0.88},
                         {"is_straggler", rank == 1}});
  }
  return Json{{"method", "collectives"},
              {"reason", ""},
              {"matched", 240},
              {"residual_ns", 18'000},
              {"ranks", ranks}};
}

Json advice_json() {
  return Json::array(
      {advice("python-decode",
              "decode runs in Python: load() of train.py:88 holds 71 % of the workers' samples",
              "applies", 12 * kMs, 0.18,
              {"Decode in the loader: forebay.Loader(..., ops=[\"decode_image\"])",
               "or use 8 workers instead of 3: num_workers=8"},
              "prep stall 25 % of the steps; 3 workers, each busy 98 %"),
       advice("epoch-start", "each epoch starts with 180 ms without data", "applies", 3 * kMs,
              0.045, {"Keep the workers between epochs: persistent_workers=True"},
              "8 of 480 iterations, each 177 ms above the others"),
       advice("save-in-background", "training stops for each checkpoint", "applies", 2 * kMs, 0.035,
              {"Save in the background: forebay.checkpoint.Saver(...)"}, "12 saves of 95 ms"),
       advice("slow-disk", "the disk is fast enough", "not needed", 0, 0, {},
              "nvme0n1 is busy 22 % of the stalls; the threshold is 80 %"),
       advice("gpu-power", "", "no evidence", 0, 0, {}, "no power counter: NVML is not there")});
}

Json comparison_json() {
  return Json{{"against", "forebay-0006"},
              {"unit", "iteration"},
              {"notes", Json::array()},
              {"rows", Json::array({change("iteration", 53.1e6, 66.4e6, 1e-9, true),
                                    change("prep_stall", 8.4e6, 17e6, 1e-9, true),
                                    change("compute", 38.2e6, 38.0e6, 0.41, false),
                                    change("jpeg_idct_islow", 22e6, 41e6, 1e-6, true),
                                    change("filemap_read", 9.1e6, 6.2e6, 0.003, true)})}};
}

// What an explainer would say of training(1.0), with the sums taken from the same steps.
Json explanation(const trace::Recording& recording, bool is_compared) {
  const Known known(recording);
  int64_t both[kParts];
  for (int part = 0; part < kParts; ++part) both[part] = 2 * known.sums[part];
  Json json{{"schema_version", 1}, {"kind", "explanation"}};
  json["headline"] =
      "A quarter of each step waits for decoding: three Python workers cannot keep up with the "
      "accelerator.";
  json["recording"] = recording_json(known, recording);
  json["iterations"] = iterations_json(known);
  json["drivers"] = drivers_json(known, recording.begin_ns());
  json["whole"] = json["steps"] = breakdown(both);
  json["causes"] = Json::array({cause("prep_stall", "decode_image in 3 loader workers", both[2]),
                                cause("fetch_stall", "reads of /data/train", both[1]),
                                cause("checkpoint", "torch.save in the main thread", both[5])});
  json["slow"] = Json::array(
      {slow_kind("epoch start", 8, 238, 1, 60,
                 "the loader starts anew and its first batch is read cold"),
       slow_kind("checkpoint", 12, 156, 5, 40, "training stops while torch.save writes")});
  json["swarms"] =
      Json::array({swarm("jpeg_idct_islow", "/usr/lib/libjpeg.so.62", "native", 0.43, 20'300 * kMs),
                   swarm("ImagingResample", "/usr/lib/_imaging.so", "native", 0.28, 13'200 * kMs),
                   swarm("load", "train.py", "python", 0.15, 7'100 * kMs),
                   swarm("filemap_read", "kernel", "kernel", 0.14, 6'600 * kMs)});
  json["swarms_reason"] = "";
  json["comparison"] = is_compared ? comparison_json() : Json(nullptr);
  json["io"] = io();
  json = devices_json(stretches_json(std::move(json)), known);
  json["alignment"] = alignment_json(known);
  json["advice"] = advice_json();
  json["warnings"] = Json::array({"The clocks of node1 were moved by 1.73 ms; 18 us remain."});
  return json;
}

trace::Recording hostile() {
  Tape tape;
  trace::TraceWriter& writer = tape.writer();
  const std::vector<std::string> names{
      "<img src=x onerror=window.hacked=1>",
      "</script><script>window.hacked=1</script>",
      "<svg onload=window.hacked=1>",
      "javascript:window.hacked=1",
      "abc\u202etxt.exe",
      std::string("nul\x01") + "byte",
      std::string(10'000, 'x'),
      "{{constructor.constructor('window.hacked=1')()}}",
      "<!--<script>",
      "__proto__",
  };
  const auto host = writer.add_track(TrackKind::kHost, trace::kNoId, names[0]);
  const auto process = writer.add_track(TrackKind::kProcess, host, names[1], 1);
  const auto key = writer.key(names[2], trace::ArgumentType::kText);
  const auto stack_key = writer.key(trace::key::kStack, trace::ArgumentType::kStack);
  const auto sample = writer.name("sample", Category::kOnCpu, EventKind::kSample);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto thread =
        writer.add_track(TrackKind::kThread, process, names[i], static_cast<int64_t>(i));
    const auto at = static_cast<int64_t>(i) * kMs;
    writer.add({thread, writer.name(names[i], Category::kFunction), at, 3 * kMs},
               {{key, writer.text(names[(i + 1) % names.size()])}});
    const auto frame = writer.frame({.kind = trace::FrameKind::kPython,
                                     .symbol = writer.text(names[i]),
                                     .module = writer.text(names[(i + 3) % names.size()]),
                                     .build_id = writer.text(names[0]),
                                     .offset = 0,
                                     .line = 1});
    writer.add({thread, sample, at, kMs}, {{stack_key, writer.stack(trace::kNoId, frame)}});
    writer.counter(thread, writer.name(names[i] + "_bytes", Category::kUsage, EventKind::kCounter),
                   at, 1e6);
    writer.fact(names[i], names[(i + 1) % names.size()]);
    writer.fact("collector." + names[i].substr(0, 100), names[i]);
  }
  return tape.recording(names[1]);
}

Json hostile_explanation(const trace::Recording& recording) {
  Json json = explanation(recording, true);
  const std::string markup =
      "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>";
  json["headline"] = "blame " + markup;
  json["recording"]["command"] = markup;
  for (const char* table : {"files", "folders", "formats"}) json["io"][table][0]["name"] = markup;
  json["advice"][0]["title"] = markup;
  json["advice"][0]["remedies"][0] = markup;
  json["swarms"][0]["symbol"] = markup;
  json["swarms"][0]["path"] = markup;
  json["comparison"]["rows"][3]["what"] = markup;
  json["alignment"]["ranks"][0]["name"] = markup;
  json["causes"][0]["what"] = markup;
  json["warnings"].push_back(markup);
  return json;
}

// As many events as asked for: a loader's threads, with short spans inside long ones.
trace::Recording large(int64_t events) {
  Tape tape;
  trace::TraceWriter& writer = tape.writer();
  base::Random random(3);
  const auto host = writer.add_track(TrackKind::kHost, trace::kNoId, "node0");
  const auto bytes_key = writer.key(trace::key::kBytes);
  const auto offset_key = writer.key(trace::key::kOffset);
  const auto file_key = writer.key(trace::key::kFile, trace::ArgumentType::kText);
  std::vector<trace::TextId> files;
  for (int i = 0; i < 2000; ++i)
    files.push_back(writer.text(fmt::format("/data/train/{:05}.npz", i)));
  const auto read = writer.name("pread64", Category::kRead);
  const auto decode = writer.name("decode", Category::kPrepare);
  const auto batch = writer.name("batch", Category::kFunction);
  const auto off = writer.name("off cpu", Category::kOffCpu);
  const int threads = 32;
  trace::TrackId process = 0;
  for (int thread = 0; thread < threads; ++thread) {
    if (thread % 8 == 0)
      process = writer.add_track(TrackKind::kProcess, host, "python", 100 + thread, thread / 8);
    const auto track = writer.add_track(TrackKind::kThread, process, "worker", 1000 + thread);
    int64_t at = static_cast<int64_t>(random.uniform() * 1e6);
    for (int64_t i = 0; i < events / threads; i += 10) {
      const int64_t begin = at;
      for (int k = 0; k < 3; ++k) {
        const auto wait = static_cast<int64_t>(20e3 + 300e3 * random.uniform() * random.uniform());
        const auto work = static_cast<int64_t>(50e3 + 200e3 * random.uniform());
        writer.add({track, read, at, wait}, {{bytes_key, 100'000 + i % 5000},
                                             {offset_key, i * 4096},
                                             {file_key, files[static_cast<size_t>(i + k) % 2000]}});
        writer.add({track, off, at + wait / 8, wait / 2});
        writer.add({track, decode, at + wait, work});
        at += wait + work + 2000;
      }
      writer.add({track, batch, begin, at - begin});
      at += static_cast<int64_t>(30e3 * random.uniform());
    }
  }
  return tape.recording("million.fbt");
}

bool write(const std::string& path, const report::PageInput& input) {
  std::ofstream file(path, std::ios::binary);
  const Status done = report::write_page(input, [&](std::string_view text) -> Status {
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    return {};
  });
  file.close();
  if (!done.ok() || !file) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(),
                 done.ok() ? "cannot write" : done.error().message.c_str());
    return false;
  }
  return true;
}

// What the tests compare the pages with.
void write_known(const std::string& folder, const trace::Recording& recording,
                 const Json& explained) {
  int64_t reads = 0, samples = 0;
  for (size_t row = 0; row < recording.size(); ++row) {
    if (recording.text(row) == "decode_image") ++reads;
    if (recording.name(row).kind == EventKind::kSample) ++samples;
  }
  std::ofstream file(folder + "/known.json");
  file << Json{{"events", recording.size()},
               {"duration_ns", recording.end_ns() - recording.begin_ns()},
               {"decode_events", reads},
               {"samples", samples},
               {"sample_ns", samples * 10'101'010},
               {"steps", explained["steps"]},
               {"first_iteration", explained["drivers"][0]["iterations"][3]},
               {"headline", explained["headline"]}}
              .dump(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1];
  if (argc > 2 && std::string(argv[2]) == "million") {
    const trace::Recording recording = large(1'000'000);
    return write(folder + "/million.html",
                 {.title = "million.fbt", .version = "0.1.0", .recording = &recording})
               ? 0
               : 1;
  }
  const trace::Recording recording = training(1.0), before = training(0.5);
  const Json explained = explanation(recording, false);
  write_known(folder, recording, explained);
  const trace::Recording odd = hostile();
  report::PageInput input{.title = "forebay-0007",
                          .version = "0.1.0",
                          .explanation = explained.dump(),
                          .recording = &recording};
  bool ok = write(folder + "/training.html", input);
  input.timeline.events_max = 4000;
  ok = write(folder + "/thinned.html", input) && ok;
  input.timeline.events_max = 1'000'000;
  input.explanation = explanation(recording, true).dump();
  input.against = &before;
  input.against_title = "forebay-0006";
  ok = write(folder + "/compared.html", input) && ok;
  ok = write(folder + "/hostile.html", {.title = "</title><script>window.hacked=1</script>",
                                        .version = "0.1.0",
                                        .explanation = hostile_explanation(odd).dump(),
                                        .recording = &odd}) &&
       ok;
  return ok ? 0 : 1;
}

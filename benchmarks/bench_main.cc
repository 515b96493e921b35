// Prints the table of speed and memory targets, each as a ratio against its floor, measured in
// alternation in one run. `forebay_bench --help` says how it is called.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/check.h"
#include "base/units.h"
#include "command_words.h"
#include "dataset/generator.h"
#include "emulate/runner.h"
#include "fio.h"
#include "floors.h"
#include "forebay/loader.h"
#include "hdf5_files.h"
#include "loader/engine.h"
#include "measure.h"
#include "ops_loop.h"
#include "pictures.h"
#include "sys/host.h"
#include "sys/page_cache.h"
#include "workload/workload.h"

namespace forebay::bench {
namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string folder, json, rows;
  bool smoke = false;
  int rounds = 7;
  int threads = 2;
};

template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "forebay_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

// Epochs of one round: enough that starting threads and engines does not count.
constexpr int kEpochs = 8;

double repeat(const std::function<double()>& epoch) {
  double amount = 0;
  for (int i = 0; i < kEpochs; ++i) amount += epoch();
  return amount;
}

// A data set: its store, index and the paths for the floors.
class Set {
 public:
  // A generated one.
  Set(const Settings& settings, const std::string& name, std::string_view format, uint64_t files,
      double bytes, double stdev, uint64_t samples_per_file = 1)
      : folder(settings.folder + "/" + name) {
    dataset::GeneratorOptions options;
    options.format = formats::find_format(format);
    options.files_train = files;
    options.samples_per_file = samples_per_file;
    options.record_bytes = bytes;
    options.record_bytes_stdev = stdev;
    options.sync = false;
    store = must(storage::open_store("local", folder));
    must(dataset::generate(*store, options, [](const auto&) {}, {}));
    open(options.format, samples_per_file);
  }

  // One of HDF5 files of one image each.
  Set(const Settings& settings, const std::string& name, int files, Hdf5Image image)
      : folder(settings.folder + "/" + name) {
    fs::create_directories(folder + "/train");
    for (int i = 0; i < files; ++i) {
      const std::string path = fmt::format("{}/train/img_{:03}.hdf5", folder, i);
      image.seed = static_cast<uint64_t>(i);
      if (fs::exists(path)) continue;
      write_hdf5_image(path + ".new", image);
      fs::rename(path + ".new", path);
    }
    store = must(storage::open_store("local", folder));
    open(formats::find_format("hdf5"));
  }

  void open(const formats::Format* format, uint64_t samples_per_file = 1) {
    dataset::IndexOptions index_options;
    index_options.folder = "train";
    index_options.format = format;
    index_options.samples_per_file = samples_per_file;
    index = must(dataset::Index::open(*store, index_options));
    for (uint32_t i = 0; i < index->file_count(); ++i)
      paths.push_back(folder + "/" + std::string(index->path(i)));
  }

  void warm() const {
    for (const std::string& path : paths) must(sys::load_into_page_cache(path));
  }

  // `epochs` epochs through one engine in file order. Returns bytes, or files when `count_files`.
  // decode_threads 0: as many as `threads`, which read.
  double epochs(int count, storage::Store& from, int threads, loader::Payload payload,
                uint64_t batch, bool count_files, int decode_threads = 0) const {
    dataset::OrderOptions order_options;
    order_options.sample_count = index->sample_count();
    const dataset::Order order = must(dataset::Order::make(order_options));
    loader::EngineOptions options;
    options.batch_size = std::min<uint64_t>(batch, index->sample_count());
    options.tail = loader::Tail::kAll;
    options.fetch_depth = threads;
    options.decode_threads = decode_threads > 0 ? decode_threads : threads;
    options.payload = payload;
    options.format.samples_per_file = 1;
    auto engine = must(loader::Engine::open(from, *index, order, options, nullptr));
    double bytes = 0, files = 0;
    for (int epoch = 0; epoch < count; ++epoch) {
      engine->begin_epoch(static_cast<uint64_t>(epoch), 0, UINT64_MAX);
      while (auto loaded = must(engine->next({}))) {
        bytes += static_cast<double>(loaded->file_bytes());
        files += static_cast<double>(loaded->samples().size());
      }
    }
    return count_files ? files : bytes;
  }

  std::string folder;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<dataset::Index> index;
  std::vector<std::string> paths;
};

class Bench {
 public:
  explicit Bench(Settings settings) : settings_(std::move(settings)) {}

  void run() const {
    std::printf(
        "%d threads, %s, page cache warmed by reading every file before each row unless "
        "it says cold\n",
        settings_.threads, sys::host().cpu_model.c_str());
    std::printf("%-46s %-9s %6s  %7s  %-5s %-7s %s\n", "row (ours / floor)", "target", "median",
                "MAD", "n", "", "ours | floor");
    for (const Entry& entry : entries_)
      if (wants(entry.name)) entry.run();
  }

  // Whether `rows` is the beginning of some row, or goes on from one.
  bool has_rows() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [this](const Entry& entry) { return wants(entry.name); });
  }

 private:
  // What is measured together, by what the names of its rows have in common.
  struct Entry {
    std::string name;
    std::function<void()> run;
  };

  bool wants(const std::string& name) const {
    return name.starts_with(settings_.rows) || settings_.rows.starts_with(name);
  }

  void report(const Row& row) const {
    print_row(row);
    append_json(settings_.json, row, settings_.smoke);
  }

  Set big() const {
    return settings_.smoke ? Set(settings_, "smoke_big", "npz", 3, 300'000, 0)
                           : Set(settings_, "unet3d", "npz", 14, 146600628, 68341808);
  }
  Set middle() const {
    return settings_.smoke ? Set(settings_, "smoke_middle", "npz", 4, 28'000, 0)
                           : Set(settings_, "cosmo", "npz", 256, 2828486, 71311);
  }

  Set contiguous_hdf5() const {
    return settings_.smoke ? Set(settings_, "smoke_hdf5", "hdf5", 4, 28'000, 0)
                           : Set(settings_, "hdf5", "hdf5", 128, 2828486, 71311);
  }
  Set packed_hdf5() const {
    return settings_.smoke ? Set(settings_, "smoke_hdf5_image", 4, {.side = 128, .chunk_side = 64})
                           : Set(settings_, "hdf5_image", 64, {.side = 1024, .chunk_side = 256});
  }

  // The loader against threads that pread in cache-sized pieces.
  Pair against_pread(const Set& set, Check check, loader::Payload payload) const {
    constexpr uint64_t kPiece = 256 << 10;
    return interleave(
        settings_.rounds,
        [&] {
          return timed([&] {
            return repeat([&] { return pread_loop(set.paths, settings_.threads, kPiece, check); });
          });
        },
        [&] {
          return timed([&] {
            return set.epochs(kEpochs, *set.store, settings_.threads, payload, 7, false);
          });
        });
  }

  void bytes_rows(const std::string& name, const Set& set) const {
    set.warm();
    const Pair pair = against_pread(set, Check::kNone, loader::Payload::kBytes);
    const std::string rates =
        fmt::format("{} | {}", base::format_bytes_per_second(median_rate(pair.ours)),
                    base::format_bytes_per_second(median_rate(pair.floor)));
    report({name + ": rate", ">= 0.95", 0.95, true, rate_ratio(pair), rates});
    report({name + ": CPU", "<= 1.10", 1.10, false, cpu_ratio(pair),
            fmt::format("{:.1f} | {:.1f} ms/GB", 1e12 * median_cpu_per_amount(pair.ours),
                        1e12 * median_cpu_per_amount(pair.floor))});
  }

  // Shards as training reads them: by a Loader that tunes itself, the bytes of samples as they are,
  // against one reader of the same files from front to back. Several epochs follow each other while
  // a warm row is measured; a cold one reads each file once.
  void shards(bool is_cold, Shuffle shuffle) const {
    const Set set = settings_.smoke ? Set(settings_, "smoke_tar", "webdataset", 2, 4096, 0, 8)
                                    : Set(settings_, "tar", "webdataset", 16, 1e5, 2e4, 1000);
    set.warm();
    const std::string name =
        fmt::format("tar of 100 KB, {}, {}", shuffle == Shuffle::kOff ? "in order" : "windowed",
                    is_cold ? "cold" : "warm");
    shard_row(name, set, is_cold, shuffle, 0);
    // That one reads into a MiB that never leaves the cache; a loader's bytes have to stay until
    // they are used.
    if (!is_cold) shard_row(name + ", 3 batches kept", set, is_cold, shuffle, 3 * 64 * 100'000);
  }

  void shard_row(const std::string& name, const Set& set, bool is_cold, Shuffle shuffle,
                 uint64_t kept_bytes) const {
    const int epochs = is_cold ? 1 : kEpochs;
    const auto evict = [&] {
      if (!is_cold) return;
      for (const std::string& path : set.paths)
        must(Result<int>(sys::evict_from_page_cache(path).ok() ? 0 : 1));
    };
    auto loader = open_shards(set.folder + "/train", shuffle);
    const auto read = [&] {
      evict();
      return timed([&] {
        double bytes = 0;
        for (int i = 0; i < epochs; ++i)
          bytes += pread_loop(set.paths, 1, 1 << 20, Check::kNone, kept_bytes);
        return bytes;
      });
    };
    const double bytes = read().amount;
    const auto load = [&] {
      // Another one has read nothing ahead of the round yet.
      if (is_cold) loader = open_shards(set.folder + "/train", shuffle);
      evict();
      return timed([&] {
        for (int ended = 0; ended < epochs; ended += must(loader->next()) ? 0 : 1) {
        }
        return bytes;
      });
    };
    const Pair pair =
        interleave(is_cold ? std::min(settings_.rounds, 5) : settings_.rounds, read, load);
    report({name, ">= 0.95", 0.95, true, rate_ratio(pair),
            fmt::format("{} | {}, CPU {:.0f} | {:.0f} ms/GB",
                        base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)),
                        1e12 * median_cpu_per_amount(pair.ours),
                        1e12 * median_cpu_per_amount(pair.floor))});
  }

  static std::unique_ptr<Loader> open_shards(const std::string& folder, Shuffle shuffle) {
    LoaderOptions options;
    options.data = folder;
    options.format = "webdataset";
    options.samples_per_file = 0;
    options.batch_size = 64;
    options.tail = Tail::kAll;
    options.shuffle = shuffle;
    return must(Loader::open(options));
  }

  void small_files() const {
    const Set set = settings_.smoke ? Set(settings_, "smoke_small", "npz", 50, 4096, 0)
                                    : Set(settings_, "tiny", "npz", 8192, 4096, 0);
    set.warm();
    const Pair pair = interleave(
        settings_.rounds,
        [&] {
          return timed([&] {
            return repeat([&] { return open_read_close_loop(set.paths, settings_.threads); });
          });
        },
        [&] {
          return timed([&] {
            return set.epochs(kEpochs, *set.store, settings_.threads, loader::Payload::kBytes, 64,
                              true);
          });
        });
    report(
        {"bytes, npz 4.6 KB: files/s", ">= 0.80", 0.80, true, rate_ratio(pair),
         fmt::format("{:.0f} | {:.0f} files/s", median_rate(pair.ours), median_rate(pair.floor))});
  }

  void decode_npz() const {
    const Set set = big();
    set.warm();
    const Pair pair = against_pread(set, Check::kCrc32, loader::Payload::kDecode);
    report({"decode, npz 150 MB: CPU", "<= 1.25", 1.25, false, cpu_ratio(pair),
            fmt::format("{:.1f} | {:.1f} ms per 163 MB; {} | {}",
                        163e9 * median_cpu_per_amount(pair.ours),
                        163e9 * median_cpu_per_amount(pair.floor),
                        base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)))});
  }

  void decode_jpeg() const {
    // 417 x 417 grey noise at quality 75 is about 100 KB.
    const Set set = settings_.smoke ? Set(settings_, "smoke_jpeg", "jpeg", 8, 4096, 0)
                                    : Set(settings_, "jpeg", "jpeg", 600, 174'000, 0);
    set.warm();
    std::vector<std::vector<unsigned char>> images;
    for (const std::string& path : set.paths) {
      std::ifstream file(path, std::ios::binary);
      images.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    const Pair pair = interleave(
        settings_.rounds,
        [&] { return timed([&] { return jpeg_loop(images, settings_.threads); }); },
        [&] {
          return timed([&] {
            return set.epochs(1, *set.store, settings_.threads, loader::Payload::kDecode, 16, true);
          });
        });
    report({"decode, jpeg 100 KB: images/s", ">= 0.95", 0.95, true, rate_ratio(pair),
            fmt::format("{:.0f} | {:.0f} images/s, {:.0f} KB each", median_rate(pair.ours),
                        median_rate(pair.floor),
                        static_cast<double>(set.index->summary().bytes) / 1e3 /
                            static_cast<double>(set.index->file_count()))});
  }

  // What an image classifier is trained on: part of an image decoded, resized, mirrored,
  // normalised, channels first. The floor only decodes, but all of the image.
  void ops_jpeg() const {
    std::vector<std::vector<unsigned char>> images;
    for (uint64_t i = 0; i < (settings_.smoke ? 4 : 200); ++i)
      images.push_back(settings_.smoke ? make_picture(64, 48, 90, i)
                                       : make_picture(500, 375, 94, i));
    double bytes = 0;
    for (const auto& image : images) bytes += static_cast<double>(image.size());
    const Pair pair = interleave(
        settings_.rounds,
        [&] { return timed([&] { return jpeg_loop(images, settings_.threads); }); },
        [&] { return timed([&] { return ops_loop(images, settings_.threads); }); });
    report({"ops, jpeg to float: images/s", ">= 1.00", 1, true, rate_ratio(pair),
            fmt::format("{:.0f} | {:.0f} images/s, {:.0f} | {:.0f} per CPU second, {:.0f} KB each",
                        median_rate(pair.ours), median_rate(pair.floor),
                        1 / median_cpu_per_amount(pair.ours), 1 / median_cpu_per_amount(pair.floor),
                        bytes / 1e3 / static_cast<double>(images.size()))});
  }

  // The compressed chunks of all files.
  static std::vector<std::vector<unsigned char>> chunks_of(const Set& set) {
    std::vector<FilePart> parts;
    for (uint32_t file = 0; file < set.index->file_count(); ++file)
      for (const formats::Block& block : set.index->file_index(file).blocks)
        for (const formats::Extent& extent : block.extents)
          parts.push_back({set.paths[file], extent.offset, extent.length});
    return read_parts(parts);
  }

  // Chunks are inflated by threads of our own, not under the library's lock: two do the work of
  // two. What two processors give is what igzip alone makes of the same chunks.
  void decode_hdf5() const {
    const Set set = packed_hdf5();
    set.warm();
    const auto chunks = chunks_of(set);
    const size_t chunk_bytes = settings_.smoke ? 64 * 64 * 4 : 256 * 256 * 4;
    const auto ours = [&](int threads) {
      return timed([&] {
        return set.epochs(2, *set.store, 2, loader::Payload::kDecode, 8, false, threads);
      });
    };
    const auto igzip = [&](int threads) {
      return timed([&] {
        return inflate_loop(chunks, chunk_bytes, threads) +
               inflate_loop(chunks, chunk_bytes, threads);
      });
    };
    const auto rates = [](const Pair& pair) {
      return fmt::format("{} | {}", base::format_bytes_per_second(median_rate(pair.ours)),
                         base::format_bytes_per_second(median_rate(pair.floor)));
    };
    const Pair alone = interleave(
        settings_.rounds, [&] { return igzip(1); }, [&] { return igzip(2); });
    const Pair pair = interleave(
        settings_.rounds, [&] { return ours(1); }, [&] { return ours(2); });
    const Pair against = interleave(
        settings_.rounds, [&] { return igzip(2); }, [&] { return ours(2); });
    const double ratio = static_cast<double>(chunks.size() * chunk_bytes) /
                         static_cast<double>(set.index->summary().bytes);
    report({"decode, hdf5 gzip chunks: 2 threads over 1", ">= 1.60", 1.60, true, rate_ratio(pair),
            fmt::format("{} packed {:.1f} : 1; igzip alone: {:.3f}", rates(pair), ratio,
                        rate_ratio(alone).median)});
    report({"decode, hdf5 gzip chunks: rate of 2 threads", ">= 0.85", 0.85, true,
            rate_ratio(against), rates(against) + " (igzip alone, chunks in memory)"});
  }

  void generate() const {
    dataset::GeneratorOptions options;
    options.format = formats::find_format("npz");
    options.files_train = settings_.smoke ? 3 : 10;
    options.record_bytes = settings_.smoke ? 300'000 : 146600628;
    const std::string ours = settings_.folder + "/generated", floor = settings_.folder + "/written";
    const dataset::GeneratorPlan plan = must(dataset::plan_generation(options));
    std::vector<uint64_t> sizes;
    for (const formats::FileSpec& file : plan.files)
      sizes.push_back(options.format->estimate_bytes(file));
    const Pair pair = interleave(
        std::min(settings_.rounds, 5),
        [&] {
          fs::remove_all(floor);
          return timed([&] { return write_loop(floor, sizes, true); });
        },
        [&] {
          fs::remove_all(ours);
          return timed([&] {
            const auto store = must(storage::open_store("local", ours));
            return static_cast<double>(
                must(dataset::generate(*store, options, [](const auto&) {}, {})).bytes_written);
          });
        });
    fs::remove_all(floor);
    fs::remove_all(ours);
    report({"generate npz, synced: rate", ">= 0.90", 0.90, true, rate_ratio(pair),
            fmt::format("{} | {}", base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)))});
  }

  // Random 1 MiB reads of one large file that is not in the page cache, against fio.
  void cold(const std::string& driver, const std::string& fio_engine) const {
    if (!is_fio_there()) {
      std::printf("cold reads, %s: skipped, fio is not installed\n", driver.c_str());
      return;
    }
    const std::string folder = settings_.folder + "/cold";
    const uint64_t size = settings_.smoke ? 8 << 20 : 2ull << 30;
    const std::string path = folder + "/block.raw";
    fs::create_directories(folder);
    if (!fs::exists(path) || fs::file_size(path) != size) {
      write_loop(folder, {size}, true);
      fs::rename(folder + "/0", path);
    }
    const auto store = must(storage::open_store(driver, folder));
    const std::string reason = store->capabilities().fallback_reason;
    dataset::IndexOptions options;
    options.format = formats::find_format("raw");
    options.record_bytes = 1 << 20;
    options.samples_per_file = 0;
    const auto index = must(dataset::Index::open(*store, options));
    const Pair pair = interleave(
        std::min(settings_.rounds, 5), [&] { return run_fio(path, size, fio_engine); },
        [&] {
          must(Result<int>(sys::evict_from_page_cache(path).ok() ? 0 : 1));
          FB_CHECK(must(sys::cached_bytes(path)).cached_bytes == 0);
          return timed([&] { return read_blocks(*store, *index); });
        });
    report({"cold reads, " + driver + " 1 MiB depth 8: rate", ">= 0.95", 0.95, true,
            rate_ratio(pair),
            fmt::format("{} | {} (fio){}; evicted before each round",
                        base::format_bytes_per_second(median_rate(pair.ours)),
                        base::format_bytes_per_second(median_rate(pair.floor)),
                        reason.empty() ? "" : "; " + reason)});
  }

  double read_blocks(storage::Store& store, const dataset::Index& index) const {
    dataset::OrderOptions order_options;
    order_options.kind = dataset::OrderKind::kFull;
    order_options.sample_count = index.sample_count();
    const dataset::Order order = must(dataset::Order::make(order_options));
    loader::EngineOptions options;
    options.batch_size = 8;
    options.tail = loader::Tail::kAll;
    options.prefetch_batches = 4;
    options.fetch_depth = 8;
    options.payload = loader::Payload::kBytes;
    options.format.record_bytes = 1 << 20;
    auto engine = must(loader::Engine::open(store, index, order, options, nullptr));
    engine->begin_epoch(0, 0, UINT64_MAX);
    double bytes = 0;
    while (auto batch = must(engine->next({}))) bytes += static_cast<double>(batch->file_bytes());
    return bytes;
  }

  static Sample run_fio(const std::string& path, uint64_t size, const std::string& engine) {
    must(Result<int>(sys::evict_from_page_cache(path).ok() ? 0 : 1));
    const bool many = engine.find("numjobs") != std::string::npos;
    return bench::run_fio(
        fmt::format("--filename='{}' --rw=randread --bs=1M {} --size={} --offset_increment={}",
                    path, engine, many ? size / 8 : size, many ? size / 8 : 0),
        "read");
  }

  // 112 names of the 14 unet3d files, as hard links, in the page cache.
  std::string unet3d_folder() const {
    const Set set = big();
    set.warm();
    std::string folder = settings_.folder + "/unet3d_112";
    fs::create_directories(folder + "/train");
    for (int i = 0; i < 112; ++i) {
      const std::string link = fmt::format("{}/train/img_{:03}_of_112.npz", folder, i);
      if (!fs::exists(link))
        fs::create_hard_link(set.paths[static_cast<size_t>(i) % set.paths.size()], link);
    }
    return folder;
  }

  emulate::RunResult emulate_run(const std::vector<std::string>& overrides,
                                 const std::string& workload, const std::string& data,
                                 int accelerators, const std::string& payload) const {
    emulate::RunRequest request;
    request.resolved = must(workload::resolve(workload, overrides));
    request.options.data = data;
    request.options.accelerators = accelerators;
    request.options.payload = payload;
    emulate::Observer observer;
    return must(emulate::run(request, observer, {}));
  }

  void unet3d(int accelerators, const std::string& payload) const {
    const std::string folder = unet3d_folder();
    std::vector<double> utilisation, memory;
    std::string limit;
    for (int round = 0; round < std::min(settings_.rounds, 3); ++round) {
      const emulate::RunResult result = emulate_run(
          {"dataset.num_files_train=112", "train.epochs=2", "workflow.checkpoint=False",
           settings_.smoke ? "train.computation_time=0.01" : "train.computation_time=0.323"},
          "unet3d_h100", folder, accelerators, payload);
      utilisation.push_back(result.au.mean.value_or(0) / 0.90);
      // The tensor that the workload hands over is record_length_bytes_resize, not the file.
      const double batch = 7 * 2097152.0;
      const double bound = (2 + 2) * batch * accelerators + 64 * 1048576.0;
      memory.push_back(static_cast<double>(result.peak_resident_bytes) / bound);
      limit =
          fmt::format("AU {:.1f} %, {}, peak memory {}", 100 * result.au.mean.value_or(0),
                      base::format_bytes_per_second(result.file_bytes_per_second.mean.value_or(0)),
                      base::format_memory(static_cast<double>(result.peak_resident_bytes)));
    }
    report({fmt::format("unet3d_h100 x {}, {}: AU / 0.90", accelerators, payload), ">= 1.00", 1.0,
            true, summarise(utilisation), limit});
    report({fmt::format("unet3d_h100 x {}, {}: memory / bound", accelerators, payload), "<= 1.00",
            1.0, false, summarise(memory),
            "bound: (prefetch + 2) x batch of 14.7 MB x accelerators + 64 MiB"});
  }

  // Seconds beyond reading the first batch, over the 0.1 s that are allowed.
  void start() const {
    const Set set = middle();
    set.warm();
    std::vector<double> over;
    double last = 0;
    for (int round = 0; round < settings_.rounds; ++round) {
      const Sample read = timed([&] {
        return pread_loop({set.paths.begin(), set.paths.begin() + 4}, 1, 256 << 10, Check::kNone);
      });
      const emulate::RunResult result = emulate_run(
          {fmt::format("dataset.num_files_train={}", set.paths.size()), "train.epochs=1",
           "train.total_training_steps=1", "train.computation_time=0.001", "reader.batch_size=4"},
          "demo", set.folder, 1, "decode");
      last = result.start_to_first_batch_seconds - read.wall_seconds;
      over.push_back(std::max(0.0, last) / 0.1);
    }
    report({"start to first batch beyond its read / 100 ms", "<= 1.00", 1.0, false, summarise(over),
            fmt::format("{} (index, order, engines; process start excluded)",
                        base::format_seconds(last))});
  }

  const Settings settings_;
  const std::vector<Entry> entries_{
      {"bytes, npz 150 MB", [this] { bytes_rows("bytes, npz 150 MB", big()); }},
      {"bytes, npz 2.8 MB", [this] { bytes_rows("bytes, npz 2.8 MB", middle()); }},
      {"bytes, hdf5 2.8 MB", [this] { bytes_rows("bytes, hdf5 2.8 MB", contiguous_hdf5()); }},
      {"bytes, npz 4.6 KB", [this] { small_files(); }},
      {"tar of 100 KB, in order, warm", [this] { shards(false, Shuffle::kOff); }},
      {"tar of 100 KB, windowed, warm", [this] { shards(false, Shuffle::kWindowed); }},
      {"tar of 100 KB, in order, cold", [this] { shards(true, Shuffle::kOff); }},
      {"tar of 100 KB, windowed, cold", [this] { shards(true, Shuffle::kWindowed); }},
      {"decode, npz 150 MB", [this] { decode_npz(); }},
      {"decode, jpeg 100 KB", [this] { decode_jpeg(); }},
      {"ops, jpeg to float", [this] { ops_jpeg(); }},
      {"decode, hdf5 gzip chunks", [this] { decode_hdf5(); }},
      {"generate npz", [this] { generate(); }},
      {"cold reads, local",
       [this] { cold("local", "--ioengine=psync --thread --numjobs=8 --group_reporting"); }},
      {"cold reads, uring", [this] { cold("uring", "--ioengine=io_uring --iodepth=8"); }},
      {"unet3d_h100 x 2, decode", [this] { unet3d(2, "decode"); }},
      {"unet3d_h100 x 3, bytes", [this] { unet3d(3, "bytes"); }},
      {"start to first batch", [this] { start(); }},
  };
};

constexpr char kUsage[] =
    "usage: forebay_bench FOLDER [--smoke] [--rows PREFIX] [--json FILE] [--rounds N]\n"
    "  FOLDER         where data sets are made (about 8 GB; kept for the next run)\n"
    "  --smoke        tiny inputs: proves that every row runs; its ratios mean nothing\n"
    "  --rows PREFIX  only the rows whose names begin so: \"decode\", \"decode, hdf5\"\n"
    "  --json FILE    appends a line per row\n"
    "  --rounds N     measurements of each side of a row (default 7)\n";

// What is wrong with the command line, or nothing.
std::string parse(const std::vector<std::string>& words, Settings& settings) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool takes_value = word == "--rows" || word == "--json" || word == "--rounds";
    if (takes_value && i + 1 == words.size()) return word + " needs a value";
    if (word == "--smoke") {
      settings.smoke = true;
    } else if (word == "--rows") {
      settings.rows = words[++i];
    } else if (word == "--json") {
      settings.json = words[++i];
    } else if (word == "--rounds") {
      if (!parse_count(words[++i], settings.rounds)) return words[i] + " is no number of rounds";
    } else if (word.starts_with("-")) {
      return "unknown option " + word;
    } else if (!settings.folder.empty()) {
      return "two folders: " + settings.folder + " and " + word;
    } else {
      settings.folder = word;
    }
  }
  return settings.folder.empty() ? "no folder" : "";
}

}  // namespace

int run(const std::vector<std::string>& words) {
  if (asks_for_help(words)) {
    std::printf("%s", kUsage);
    return 0;
  }
  Settings settings;
  settings.threads = sys::usable_cpu_count();
  const std::string wrong = parse(words, settings);
  if (!wrong.empty()) {
    std::fprintf(stderr, "forebay_bench: %s\n%s", wrong.c_str(), kUsage);
    return 2;
  }
  const Bench bench(settings);
  if (!bench.has_rows()) {
    std::fprintf(stderr, "forebay_bench: no row's name begins with '%s'\n", settings.rows.c_str());
    return 2;
  }
  bench.run();
  return 0;
}

}  // namespace forebay::bench

int main(int argc, char** argv) {
  return forebay::bench::run({argv + 1, argv + argc});
}

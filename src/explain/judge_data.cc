#include "explain/judging.h"
#include "explain/slowdown.h"
#include "explain/unseen.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "base/units.h"

namespace forebay::explain {

using trace::TrackId;

namespace {

// What one reader gets while it reads.
double call_rate(const IoUse& use) {
  const auto ns = static_cast<double>(use.read_ns + use.fault_ns);
  return ns <= 0 ? 0 : static_cast<double>(use.read_bytes) / (ns * 1e-9);
}

double mean_file_bytes(const IoUse& use) {
  const double files = static_cast<double>(std::max<uint64_t>(1, std::max(use.opens, use.files)));
  return static_cast<double>(use.read_bytes) / files;
}

// The use that data comes from: of all formats the one most bytes were read of; a program's own
// libraries and scripts are small beside it.
const IoUse& data_use(const Findings& findings) {
  const Io& io = findings.found.io;
  const IoUse* best = &io.total;
  for (const IoUse& use : io.formats) {
    if (best == &io.total || use.read_ns + use.metadata_ns > best->read_ns + best->metadata_ns) {
      const bool is_program = use.name == "py" || use.name == "pyc" || use.name == "so" ||
                              use.name == "(number)" || use.name == kNotKept;
      if (!is_program) best = &use;
    }
  }
  return *best;
}

bool are_small_files(const IoUse& use) {
  return use.opens >= 100 && mean_file_bytes(use) < 256 * 1024 &&
         (use.metadata_share() >= 0.3 || mean_file_bytes(use) < 128 * 1024);
}

// The disk that worked most while drivers waited for bytes.
const Disk* busiest_disk(const Findings& findings) {
  const Disk* busiest = nullptr;
  for (const Disk& disk : findings.found.disks) {
    if (!disk.busy_share_in_stalls && !disk.busy_share) continue;
    const auto busy = [](const Disk& d) {
      return d.busy_share_in_stalls.value_or(d.busy_share.value_or(0));
    };
    if (busiest == nullptr || busy(disk) > busy(*busiest)) busiest = &disk;
  }
  return busiest;
}

// Share of read bytes that the page cache had, as the calls tell it; nothing when none does.
std::optional<double> told_cached_share(const Findings& findings) {
  const IoUse& total = findings.found.io.total;
  if (!total.cache_bytes || total.cache_known_bytes == 0) return std::nullopt;
  const auto known = static_cast<double>(total.cache_known_bytes);
  return std::min(1.0, static_cast<double>(*total.cache_bytes) / known);
}

// The same, else the share that no device of this host delivered, by the processes' counters.
std::optional<double> cached_share(const Findings& findings) {
  if (const std::optional<double> told = told_cached_share(findings)) return told;
  const auto bytes = static_cast<double>(findings.found.io.total.read_bytes);
  if (bytes <= 0 || !findings.device_read_bytes) return std::nullopt;
  return std::max(0.0, 1 - *findings.device_read_bytes / bytes);
}

// Share of the faults on pages of files that had been there before; nothing when faults do not say
// where they were.
std::optional<double> refault_share(const View& view) {
  std::unordered_set<uint64_t> pages;
  uint64_t faults = 0;
  for (const TrackId thread : view.threads()) {
    const auto rows = view.recording().rows(thread);
    const auto files = view.column(view.keys().file, thread);
    const auto offsets = view.column(view.keys().offset, thread);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (view.recording().name(row).category != trace::Category::kFault) continue;
      const int64_t file = at(files, row - rows.first), offset = at(offsets, row - rows.first);
      if (file == trace::kNoValue || offset == trace::kNoValue) continue;
      ++faults;
      pages.insert(static_cast<uint64_t>(file) << 40 ^ static_cast<uint64_t>(offset) / 4096);
    }
  }
  if (faults == 0) return std::nullopt;
  return 1 - static_cast<double>(pages.size()) / static_cast<double>(faults);
}

// Of the fetch stall, what waited for the network; the rest waited for files.
int64_t network_stall_ns(const Findings& f) {
  int64_t network = 0;
  for (const DriverTime& driver : f.time.drivers) {
    network += driver.own_network_ns + std::min(driver.wait_ns, driver.waited_for.network);
  }
  return std::min(network, f.shown[Part::kFetchStall] + f.shown[Part::kSyncStall]);
}
int64_t file_stall_ns(const Findings& f) {
  return std::max<int64_t>(0, f.shown[Part::kFetchStall] - network_stall_ns(f));
}

// What files of a format are called: ".npz files".
std::string files_text(const std::string& format) {
  if (format == "(none)") return "files without a suffix";
  if (format == "(number)") return "files that end in a number";
  if (format.empty() || format.front() == '(') return "files whose names were not kept";
  return fmt::format(".{} files", format);
}

}  // namespace

void judge_slow_disk(const Findings& f, Advice& advice) {
  if (!f.found.io.is_measured) return no_evidence(advice, f.found.io.reason);
  const int64_t fetch = file_stall_ns(f);
  if (share_of(fetch, f) < kWorthShare) {
    return not_needed(advice,
                      fmt::format("fetch stall is {} of the time", percent(share_of(fetch, f))));
  }
  const IoUse& use = data_use(f);
  const Disk* disk = busiest_disk(f);
  const double busy =
      disk == nullptr ? 0 : disk->busy_share_in_stalls.value_or(disk->busy_share.value_or(0));
  const double rate = disk != nullptr && busy >= 0.8 && disk->bytes_per_second
                          ? *disk->bytes_per_second
                          : call_rate(use);
  const bool is_busy = busy >= 0.8;
  const std::optional<double> cached = cached_share(f);
  const bool is_slow_in_calls = !are_small_files(use) && use.read_bytes > 0 &&
                                rate < kQuickBytesPerSecond / 4 &&
                                mean_file_bytes(use) >= 64 * 1024 && cached.value_or(0) < 0.9;
  if (!is_busy && !is_slow_in_calls) {
    return not_needed(advice,
                      disk == nullptr
                          ? fmt::format("reads come at {}", base::format_bytes_per_second(rate))
                          : fmt::format("{} was busy {} of the stalls", disk->name, percent(busy)));
  }
  double gain = static_cast<double>(fetch) * std::max(0.0, 1 - rate / kQuickBytesPerSecond);
  // Of small files the number is the illness, not the disk.
  if (are_small_files(use)) gain /= 2;
  // Of data that an earlier epoch had without waiting, its place in memory is.
  if (const std::optional<Slowdown> slower = slowdown_of(f);
      slower && slower->is_slower() && slower->grown() == Part::kFetchStall) {
    gain /= 2;
  }
  applies(advice,
          is_busy ? fmt::format("the disk {} is slow: busy {} of the fetch stalls at {}",
                                disk->name, percent(busy), base::format_bytes_per_second(rate))
                  : fmt::format("storage is slow: a reader gets {}",
                                base::format_bytes_per_second(rate)),
          fmt::format("fetch stall {} of the time; reads of {}: p50 {}, p99 {}",
                      percent(share_of(fetch, f)), files_text(use.name),
                      use.read_p50_ns ? time_text(static_cast<double>(*use.read_p50_ns)) : "?",
                      use.read_p99_ns ? time_text(static_cast<double>(*use.read_p99_ns)) : "?"),
          gain,
          {"put the data on faster or striped storage, or stage it to a local disk before training",
           "keep what fits in memory: a cache that never evicts serves its share in every epoch",
           "measure what the disk can give: forebay run demo --data FOLDER"});
}

void judge_small_files(const Findings& f, Advice& advice) {
  if (!f.found.io.is_measured) return no_evidence(advice, f.found.io.reason);
  const IoUse& use = data_use(f);
  const int64_t fetch = file_stall_ns(f);
  const std::string evidence =
      fmt::format("{} of {}, mean {} a file, metadata {} of their I/O time",
                  base::format_counted(use.opens, "opens"), files_text(use.name),
                  base::format_bytes(mean_file_bytes(use)), percent(use.metadata_share()));
  const bool is_most = use.total_ns() * 2 >= f.found.io.total.total_ns();
  const bool is_each_step = use.opens >= f.found.iterations.count;
  if (!are_small_files(use) || !is_most || !is_each_step || share_of(fetch, f) < kWorthShare) {
    return not_needed(advice, evidence);
  }
  const auto io_ns = static_cast<double>(use.read_ns + use.metadata_ns);
  const double bytes_ns = static_cast<double>(use.read_bytes) / kQuickBytesPerSecond * 1e9;
  const double gain = static_cast<double>(fetch) * std::max(0.0, 1 - bytes_ns / io_ns);
  applies(advice,
          fmt::format(
              "small files: {} opens a MB",
              fmt::format("{:.1f}", static_cast<double>(use.opens) /
                                        std::max(1e-9, static_cast<double>(use.read_bytes) / 1e6))),
          evidence, gain,
          {"pack the files into shards of 100 MB or more, read in order: tar (WebDataset), "
           "TFRecord, npz",
           "example: tar --sort=name -cf shard-000.tar FOLDER   (then shuffle shards and a window)",
           "read many files at once: more loader threads hide the time of an open"});
}

void judge_memory(const Findings& f, Advice& advice) {
  int64_t faults = 0, anonymous = 0;
  for (const DriverTime& driver : f.time.drivers) {
    faults += driver.own_fault_ns;
    anonymous += driver.anonymous_fault_ns;
  }
  int64_t helpers = 0;
  for (const HelperUse& helper : f.time.helpers) helpers += helper.in_stalls.fault;
  if (!f.pressure_memory_share && f.found.io.total.faults == 0 && faults == 0 && helpers == 0) {
    return no_evidence(advice, "neither page faults nor memory pressure were recorded");
  }
  const double pressure = f.pressure_memory_share.value_or(0);
  const std::string evidence =
      fmt::format("{}, {} of the time; memory pressure {}",
                  base::format_counted(f.found.io.total.faults, "major faults"),
                  percent(share_of(faults + helpers, f)),
                  f.pressure_memory_share ? percent(pressure) : "not recorded");
  // Pages of files that come back again and again were thrown out in between.
  const double again = refault_share(f.view).value_or(0);
  const bool by_faults = share_of(anonymous, f) >= 0.02 ||
                         (again >= 0.2 && share_of(faults + helpers, f) >= kWorthShare);
  // Pressure is the whole host's: where faults were recorded, some must be this program's.
  const auto io = f.view.recording().fact("collector.io");
  const bool sees_faults = io && io->find("ebpf") != std::string_view::npos;
  const bool by_pressure =
      pressure >= 0.1 && (!sees_faults || share_of(faults + helpers, f) >= 0.01);
  if (!by_faults && !by_pressure) return not_needed(advice, evidence);
  const double gain = std::max(
      {static_cast<double>(faults + helpers), pressure * static_cast<double>(f.total_ns())});
  applies(
      advice, "memory is too small: pages are thrown out and fetched again", evidence,
      std::min(gain, static_cast<double>(f.total_ns())),
      {"lower what is held: fewer workers or prefetched batches, smaller shuffle buffer, no copy "
       "of the data set per worker",
       "raise the limit: systemd-run -p MemoryMax=..., docker run --memory=..., or a larger node",
       "read files with O_DIRECT or drop their pages after use, so that they do not evict yours"});
}

void judge_network(const Findings& f, Advice& advice) {
  const int64_t network = network_stall_ns(f);
  uint64_t calls = 0, bytes = 0;
  int64_t call_ns = 0;
  for (const TrackId thread : f.view.threads()) {
    const auto rows = f.view.recording().rows(thread);
    const auto files = f.view.column(f.view.keys().file, thread);
    const auto sizes = f.view.column(f.view.keys().bytes, thread);
    const auto counts = f.view.column(f.view.keys().count, thread);
    const auto totals = f.view.column(f.view.keys().total_ns, thread);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (f.view.recording().name(row).category != trace::Category::kNetwork) continue;
      // Pipes and Unix sockets are between processes of one host.
      if (f.view.class_of_file(at(files, row - rows.first)) == FileClass::kPipe) continue;
      const bool is_sum = f.view.is_sum(row, thread, totals);
      calls +=
          is_sum ? static_cast<uint64_t>(std::max<int64_t>(1, at(counts, row - rows.first))) : 1;
      call_ns += is_sum ? totals[row - rows.first] : f.view.recording().duration(row);
      bytes += static_cast<uint64_t>(std::max<int64_t>(0, at(sizes, row - rows.first)));
    }
  }
  if (calls == 0) return no_evidence(advice, "no sends or receives were recorded");
  const double rate =
      call_ns > 0 ? static_cast<double>(bytes) / (static_cast<double>(call_ns) * 1e-9) : 0;
  const std::string evidence = fmt::format(
      "{} of {} in {}: {} a connection; {} of the time waits for them",
      calls == 1 ? "1 send or receive" : base::format_count(calls) + " sends and receives",
      base::format_bytes(static_cast<double>(bytes)), time_text(static_cast<double>(call_ns)),
      base::format_bytes_per_second(rate), percent(share_of(network, f)));
  if (share_of(network, f) < kWorthShare) return not_needed(advice, evidence);
  applies(
      advice,
      fmt::format("the network is slow: {} a connection", base::format_bytes_per_second(rate)),
      evidence,
      static_cast<double>(network) * std::max(0.0, 1 - rate / (1.25 * kQuickBytesPerSecond)),
      {"open more connections at once: one stream seldom fills a link",
       "keep a copy near: a local disk or memory cache that survives epochs",
       "measure the path alone (iperf3 -c SERVER -P 4) and ask for the slower of link and server"});
}

void judge_page_cache(const Findings& f, Advice& advice) {
  advice.is_warning = true;
  if (!f.found.io.is_measured) return no_evidence(advice, f.found.io.reason);
  const std::optional<double> cached = cached_share(f);
  if (!cached) {
    return no_evidence(advice, "whether memory or a device had the bytes was not recorded");
  }
  const auto bytes = static_cast<double>(f.found.io.total.read_bytes);
  const bool is_told = told_cached_share(f).has_value();
  const std::string evidence =
      is_told ? fmt::format("{} of {} read came from the page cache", percent(*cached),
                            base::format_bytes(bytes))
              : fmt::format(
                    "the processes' counters say that devices of this host delivered {} of "
                    "{} read; what had the rest (the page cache, a file system over the "
                    "network) was not recorded",
                    base::format_bytes(f.device_read_bytes.value_or(0)), base::format_bytes(bytes));
  if (*cached < 0.9 || bytes < 10e6) return not_needed(advice, evidence);
  applies(
      advice,
      is_told ? "the speed seen is the page cache's, not the storage's"
              : "the speed seen is not that of this host's storage: it delivered next to nothing",
      evidence, 0,
      {"a data set larger than memory, or another host, will be slower",
       "measure cold: sync; echo 3 > /proc/sys/vm/drop_caches (as root), or vmtouch -e FOLDER"});
}

void judge_read_ahead(const Findings& f, Advice& advice) {
  int64_t reads = 0, opens = 0;
  for (const DriverTime& driver : f.time.drivers) {
    reads += driver.own_read_ns;
    opens += driver.own_metadata_ns;
  }
  const int64_t own = std::min(reads + opens, f.shown[Part::kFetchStall]);
  reads = std::min(reads, own);
  opens = own - reads;
  std::string evidence = fmt::format("the training thread reads itself for {} of the time",
                                     percent(share_of(reads, f)));
  if (opens * 20 > own) {
    evidence +=
        fmt::format(", and opens, lists and asks about files for {}", percent(share_of(opens, f)));
  }
  if (share_of(own, f) < kWorthShare) return not_needed(advice, evidence);
  // Reading may hide behind what was seen.
  const int64_t rest =
      f.total_ns() - f.shown[Part::kFetchStall] - cause_ns(f.found, Part::kOther, kUnseenCause);
  const Workers workers = workers_of(f);
  const std::optional<uint64_t> wanted = workers_wanted(f, workers, own);
  applies(
      advice,
      opens > reads ? "the training thread opens and reads its data itself"
                    : "the training thread reads its data itself",
      evidence, static_cast<double>(std::min(own, rest)) * 0.8,
      {workers.at_a_time > 0
           ? fmt::format("let the loader read it: {} seen, but these reads are the training "
                         "thread's; move them into Dataset.__getitem__",
                         base::format_counted(workers.at_a_time, "worker processes"))
           : fmt::format("read ahead in other threads: {}forebay's loader",
                         uses_torch(f) ? fmt::format("DataLoader(..., num_workers={}, "
                                                     "prefetch_factor=4), or ",
                                                     wanted.value_or(2))
                                       : ""),
       "at least ask the kernel: posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) one batch ahead"});
}

void judge_metadata(const Findings& f, Advice& advice) {
  if (!f.found.io.is_measured) return no_evidence(advice, f.found.io.reason);
  const int64_t metadata =
      cause_ns(f.found, Part::kFetchStall, "opening, listing and asking about files itself");
  std::string evidence =
      fmt::format("the training thread opens, lists and asks about files for {} of the time",
                  percent(share_of(metadata, f)));
  const IoUse* most = nullptr;
  for (const IoUse& use : f.found.io.files) {
    if (most == nullptr || use.metadata_ns > most->metadata_ns) most = &use;
  }
  if (most != nullptr && most->metadata_ns > 0) {
    evidence += fmt::format(", longest for {}", most->name);
  }
  // Of many small files small-files says what to do.
  if (share_of(metadata, f) < kWorthShare || are_small_files(data_use(f))) {
    return not_needed(advice, evidence);
  }
  applies(advice, "opening and asking about files takes longer than it should", evidence,
          static_cast<double>(metadata) * 0.9,
          {"open files once and keep them open; list the data set once and keep the listing",
           "create and remove files outside training: on a shared file system that waits for its "
           "metadata server",
           "see which call waits: strace -f -T -e trace=%file"});
}

void judge_few_readers(const Findings& f, Advice& advice) {
  const Disk* disk = busiest_disk(f);
  if (disk == nullptr) return no_evidence(advice, "how busy disks were was not recorded");
  const double busy = disk->busy_share_in_stalls.value_or(disk->busy_share.value_or(0));
  const int64_t fetch = file_stall_ns(f);
  const std::optional<double> cached = cached_share(f);
  const std::string evidence = fmt::format("fetch stall {} of the time while {} was busy {} of it",
                                           percent(share_of(fetch, f)), disk->name, percent(busy));
  if (share_of(fetch, f) < kWorthShare || busy >= 0.5 || busy < 0.05 || cached.value_or(0) > 0.5) {
    return not_needed(advice, evidence);
  }
  applies(advice, "too few reads at a time: the disk idles while training waits", evidence,
          static_cast<double>(fetch) * 0.5,
          {"more reader threads, or io_uring with a deeper queue",
           "larger reads: 1 MiB instead of 64 KiB, read-ahead (blockdev --setra)"});
}

}  // namespace forebay::explain

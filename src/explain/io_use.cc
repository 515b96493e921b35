#include "explain/io_use.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/text.h"
#include "base/units.h"
#include "explain/device_time.h"
#include "explain/readings.h"
#include "explain/shares.h"
#include "trace/histogram.h"

namespace forebay::explain {

using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::kNoValue;
using trace::TrackId;
using trace::TrackKind;

namespace {

constexpr size_t kShown = 1000;

bool is_io(Category category) {
  return category == Category::kRead || category == Category::kWrite ||
         category == Category::kMetadata || category == Category::kSync ||
         category == Category::kFault;
}

// A use while it is being added up.
struct Sum {
  IoUse use;
  uint64_t sequential = 0, placed = 0;
  bool knows_cache = false;
  uint64_t cache_bytes = 0;
  std::unique_ptr<trace::Histogram> latency, sizes;  // of those that are shown
};

// Where the last read of a file ended; plain reads go on from there.
struct Place {
  TrackId track = kNoId;
  int64_t end = -1;
};

struct Call {
  Category category = Category::kOther;
  uint64_t what = 0;  // tells calls apart by name and category
  bool is_open = false, is_counted_only = false;
  int64_t ns = 0, bytes = kNoValue, cache_bytes = kNoValue;
  uint64_t count = 1;
  bool has_failed = false;
  bool is_sequential = false, has_place = false;
};

void add_call(Sum& sum, const Call& call) {
  IoUse& use = sum.use;
  const uint64_t bytes = call.bytes > 0 ? static_cast<uint64_t>(call.bytes) : 0;
  if (call.has_failed) ++use.errors;
  switch (call.category) {
    case Category::kRead:
      use.reads += call.count;
      use.read_ns += call.ns;
      use.read_bytes += bytes;
      if (call.has_place) {
        ++sum.placed;
        if (call.is_sequential) ++sum.sequential;
      }
      if (call.cache_bytes != kNoValue) {
        sum.knows_cache = true;
        use.cache_known_bytes += bytes;
        sum.cache_bytes += static_cast<uint64_t>(std::max<int64_t>(0, call.cache_bytes));
      }
      if (sum.latency != nullptr) {
        const uint64_t count = std::max<uint64_t>(1, call.count);
        const auto each = static_cast<uint64_t>(std::max<int64_t>(0, call.ns)) / count;
        sum.latency->record_many(each, call.count);
        sum.sizes->record_many(bytes / count, call.count);
      }
      break;
    case Category::kWrite:
      use.writes += call.count;
      use.write_ns += call.ns;
      use.written_bytes += bytes;
      break;
    case Category::kMetadata:
      if (call.is_open) use.opens += call.count;
      use.metadata += call.count;
      use.metadata_ns += call.ns;
      break;
    case Category::kSync:
      use.syncs += call.count;
      use.sync_ns += call.ns;
      break;
    default:
      use.faults += call.count;
      use.fault_ns += call.ns;
      break;
  }
}

IoUse finish(Sum&& sum) {
  IoUse use = std::move(sum.use);
  if (sum.knows_cache) use.cache_bytes = sum.cache_bytes;
  if (sum.placed > 1) {
    use.sequential_share = static_cast<double>(sum.sequential) / static_cast<double>(sum.placed);
  }
  if (sum.latency != nullptr && sum.latency->count() > 0) {
    use.read_p50_ns = static_cast<int64_t>(sum.latency->percentile(50));
    use.read_p99_ns = static_cast<int64_t>(sum.latency->percentile(99));
    use.read_max_ns = static_cast<int64_t>(sum.latency->max());
    use.read_bytes_p50 = sum.sizes->percentile(50);
  }
  return use;
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string format_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return "(none)";
  // "part.00017" and "lib.so.6" are no formats.
  const std::string_view ending = name.substr(dot + 1);
  const bool is_number = ending.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? "(number)" : base::to_lower(ending);
}

class IoReader {
 public:
  explicit IoReader(const View& view)
      : view_(view),
        places_(view.words().texts.size()),
        by_file_(view.words().texts.size(), kNone) {}

  Io read() {
    total_.latency = std::make_unique<trace::Histogram>();
    total_.sizes = std::make_unique<trace::Histogram>();
    each_call([&](int64_t file, const Call& call) { first_pass(file, call); });
    if (total_.use.total_ns() == 0 && total_.use.reads == 0 && total_.use.metadata == 0) {
      Io none;
      none.reason = "the recording holds no calls on files";
      return none;
    }
    choose_shown();
    places_.assign(places_.size(), {});
    each_call([&](int64_t file, const Call& call) { second_pass(file, call); });
    end_track();
    share_out_the_rest();
    return collect();
  }

 private:
  template <class OnCall>
  void each_call(OnCall&& on_call) {
    const trace::Recording& recording = view_.recording();
    for (TrackId track = 0; track < view_.words().tracks.size(); ++track) {
      const TrackKind kind = view_.track(track).kind;
      // Rings of a process are streams below it; device streams hold no calls.
      if (kind != TrackKind::kThread && kind != TrackKind::kStream && kind != TrackKind::kProcess &&
          kind != TrackKind::kOther) {
        continue;
      }
      const auto rows = recording.rows(track);
      if (rows.size() == 0 || !view_.is_selected(track)) continue;
      end_track();
      open_track(track);
      int64_t inside_until = INT64_MIN;
      for (size_t row = rows.first; row < rows.last; ++row) {
        const trace::Name& name = recording.name(row);
        if (!is_io(name.category)) continue;
        const size_t index = row - rows.first;
        const bool is_counted = name.kind == EventKind::kInstant && at(counts_, index) != kNoValue;
        if (name.kind != EventKind::kSpan && !is_counted) continue;
        // fread calls read: the outer call is the program's.
        if (name.kind == EventKind::kSpan) {
          if (recording.start(row) < inside_until && recording.end(row) <= inside_until) continue;
          inside_until = recording.end(row);
        }
        const int64_t file = at(files_, index);
        if (view_.class_of_file(file) != FileClass::kRegular) continue;
        // Where others have a name this is a pipe or a socket. What was counted has none, and its
        // category says that it is a file.
        const bool moves_bytes =
            name.category == Category::kRead || name.category == Category::kWrite;
        if (file == kNoValue && !is_counted && !files_.empty() && moves_bytes) continue;
        on_call(file, call_at(track, row, index, is_counted));
      }
    }
  }

  void open_track(TrackId track) {
    const Keys& keys = view_.keys();
    bytes_ = view_.column(keys.bytes, track);
    offsets_ = view_.column(keys.offset, track);
    files_ = view_.column(keys.file, track);
    errors_ = view_.column(keys.error, track);
    cached_ = view_.column(keys.cache_bytes, track);
    counts_ = view_.column(keys.count, track);
    totals_ = view_.column(keys.total_ns, track);
    // Between two reads that were kept there may be others: which follow each other is not known.
    knows_neighbours_ = true;
    const size_t first = view_.recording().rows(track).first;
    for (size_t i = 0; i < counts_.size() && knows_neighbours_; ++i) {
      const trace::Name& name = view_.recording().name(first + i);
      knows_neighbours_ = counts_[i] == kNoValue || name.kind != EventKind::kInstant ||
                          name.category != Category::kRead || at(files_, i) != kNoValue;
    }
  }

  Call call_at(TrackId track, size_t row, size_t index, bool is_counted) {
    const trace::Recording& recording = view_.recording();
    Call call;
    call.category = recording.name(row).category;
    call.what = uint64_t{recording.name(row).text} << 8 | static_cast<uint64_t>(call.category);
    call.is_open = call.category == Category::kMetadata &&
                   recording.text(row).find("open") != std::string::npos;
    call.bytes = at(bytes_, index);
    call.cache_bytes = at(cached_, index);
    const int64_t error = at(errors_, index);
    call.has_failed = error != kNoValue && error != 0;
    if (is_counted) {
      call.is_counted_only = true;
      call.count = static_cast<uint64_t>(std::max<int64_t>(1, at(counts_, index)));
      call.ns = std::max<int64_t>(0, at(totals_, index));
      return call;
    }
    call.ns = recording.duration(row);
    if (call.category == Category::kRead) find_place(track, at(files_, index), index, call);
    return call;
  }

  void find_place(TrackId track, int64_t file, size_t index, Call& call) {
    if (file == kNoValue || call.bytes == kNoValue || !knows_neighbours_) return;
    Place& place = places_[static_cast<size_t>(file)];
    const int64_t offset = at(offsets_, index);
    call.has_place = place.track != kNoId;
    // A read without an offset goes on where the thread's last one ended.
    call.is_sequential = offset == kNoValue ? place.track == track : place.end == offset;
    place.track = track;
    place.end = offset == kNoValue ? -1 : offset + call.bytes;
  }

  Sum& sum_of(int64_t file) {
    uint32_t& number = by_file_[static_cast<size_t>(file)];
    if (number == kNone) {
      number = static_cast<uint32_t>(sums_.size());
      sums_.emplace_back();
      sums_.back().use.name = view_.words().text(static_cast<uint32_t>(file));
      sums_.back().use.files = 1;
    }
    return sums_[number];
  }

  void first_pass(int64_t file, const Call& call) {
    add_call(total_, call);
    if (call.is_counted_only) counted_only_ += call.count;
    if (call.category == Category::kRead && call.bytes >= 0) {
      const auto bytes = static_cast<uint64_t>(call.bytes) / call.count;
      // Class k holds up to 2^k bytes; the first is for nothing at all.
      sizes_[bytes == 0 ? 0 : 1 + std::bit_width(bytes - 1)] += call.count;
    }
    if (file != kNoValue) {
      add_call(sum_of(file), call);
    } else if (call.is_counted_only) {
      add_call(not_kept_, call);
      has_not_kept_ = true;
    }
  }

  void choose_shown() {
    total_.use.name = "all files";
    total_.use.files = sums_.size();
    std::vector<uint32_t> order(sums_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    const size_t shown = std::min(kShown, order.size());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
        [&](uint32_t a, uint32_t b) { return sums_[a].use.total_ns() > sums_[b].use.total_ns(); });
    order.resize(shown);
    shown_ = order;
    // Tails of the busiest files only: a histogram takes 30 KiB.
    for (size_t i = 0; i < std::min<size_t>(shown, 200); ++i) with_tails(sums_[order[i]]);
    folder_of_.resize(sums_.size());
    format_of_.resize(sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i) {
      folder_of_[i] = group(folders_, folder_of(sums_[i].use.name));
      format_of_[i] = group(formats_, format_of(sums_[i].use.name));
    }
  }

  static void with_tails(Sum& sum) {
    sum.latency = std::make_unique<trace::Histogram>();
    sum.sizes = std::make_unique<trace::Histogram>();
    sum.use = {.name = sum.use.name, .files = 1};
    sum.sequential = sum.placed = sum.cache_bytes = 0;
  }

  struct Groups {
    std::unordered_map<std::string, size_t> known;
    std::vector<Sum> sums;
    Shares of_track, of_all;  // of kept calls
    std::vector<Call> rest;   // counted ones
  };
  static size_t group(Groups& groups, std::string name) {
    const auto [found, is_new] = groups.known.emplace(name, groups.sums.size());
    if (is_new) {
      groups.sums.emplace_back();
      groups.sums.back().use.name = std::move(name);
      // The first hundred have tails; more folders than that are no longer read one by one.
      if (groups.sums.size() <= 100) {
        groups.sums.back().latency = std::make_unique<trace::Histogram>();
        groups.sums.back().sizes = std::make_unique<trace::Histogram>();
      }
    }
    ++groups.sums[found->second].use.files;
    return found->second;
  }

  void second_pass(int64_t file, const Call& call) {
    if (file == kNoValue) {
      if (call.is_counted_only) nameless_.push_back(call);
      return;
    }
    const uint32_t number = by_file_[static_cast<size_t>(file)];
    if (sums_[number].latency != nullptr) add_call(sums_[number], call);
    for (Groups* groups : {&folders_, &formats_}) {
      const size_t group = (groups == &folders_ ? folder_of_ : format_of_)[number];
      add_call(groups->sums[group], call);
      if (!has_not_kept_) continue;
      const CallSum sum{call.count, static_cast<uint64_t>(std::max<int64_t>(0, call.bytes)),
                        std::max<int64_t>(0, call.ns)};
      groups->of_track.keep(call.what, group, sum);
      groups->of_all.keep(call.what, group, sum);
    }
  }

  static void share_out(Groups& groups, const Shares& shares, const Call& call) {
    const CallSum counted{call.count, static_cast<uint64_t>(std::max<int64_t>(0, call.bytes)),
                          call.ns};
    shares.share_out(call.what, counted, [&](size_t group, const CallSum& part) {
      Call share = call;
      share.count = part.count;
      share.bytes = call.bytes == kNoValue ? kNoValue : static_cast<int64_t>(part.bytes);
      share.ns = part.ns;
      add_call(groups.sums[group], share);
    });
  }

  // Which folders a thread's counted calls were about is judged by those of it that were kept.
  void end_track() {
    for (const Call& call : nameless_) {
      for (Groups* groups : {&folders_, &formats_}) {
        if (groups->of_track.knows(call.what)) {
          share_out(*groups, groups->of_track, call);
        } else {
          groups->rest.push_back(call);
        }
      }
    }
    nameless_.clear();
    folders_.of_track.clear();
    formats_.of_track.clear();
  }

  // Of which the thread had none that was kept.
  void share_out_the_rest() {
    for (Groups* groups : {&folders_, &formats_}) {
      for (const Call& call : groups->rest) {
        if (groups->of_all.knows(call.what)) {
          share_out(*groups, groups->of_all, call);
          continue;
        }
        const size_t number = group(*groups, std::string(kNotKept));
        groups->sums[number].use.files = 0;
        add_call(groups->sums[number], call);
      }
    }
  }

  static std::vector<IoUse> sorted(Groups& groups, uint64_t& left_out) {
    std::vector<IoUse> uses;
    for (Sum& sum : groups.sums) uses.push_back(finish(std::move(sum)));
    std::sort(uses.begin(), uses.end(),
              [](const IoUse& a, const IoUse& b) { return a.total_ns() > b.total_ns(); });
    left_out = uses.size() > kShown ? uses.size() - kShown : 0;
    if (uses.size() > kShown) uses.resize(kShown);
    return uses;
  }

  // The row of those whose file is not known, in its place by time.
  void add_not_kept(std::vector<IoUse>& files) {
    IoUse use = finish(std::move(not_kept_));
    use.name = kNotKept;
    const auto place = std::find_if(files.begin(), files.end(), [&](const IoUse& other) {
      return other.total_ns() < use.total_ns();
    });
    files.insert(place, std::move(use));
    if (files.size() > kShown) files.pop_back();  // it is not the one that counts for many
  }

  Io collect() {
    Io io;
    io.is_measured = true;
    io.total = finish(std::move(total_));
    for (const uint32_t i : shown_) io.files.push_back(finish(std::move(sums_[i])));
    if (has_not_kept_) add_not_kept(io.files);
    io.files_left_out =
        sums_.size() - std::count_if(io.files.begin(), io.files.end(),
                                     [](const IoUse& use) { return use.files > 0; });
    uint64_t ignored = 0;
    io.folders = sorted(folders_, io.folders_left_out);
    io.formats = sorted(formats_, ignored);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i] == 0) continue;
      const double size = i == 0 ? 0 : std::ldexp(1.0, static_cast<int>(i) - 1);
      io.read_sizes[base::format_memory(size)] += sizes_[i];
    }
    io.counted_only = counted_only_;
    return io;
  }

  const View& view_;
  std::span<const int64_t> bytes_, offsets_, files_, errors_, cached_, counts_, totals_;
  std::vector<Place> places_;      // by text id
  std::vector<uint32_t> by_file_;  // by text id
  std::vector<Sum> sums_;
  std::vector<uint32_t> shown_;
  std::vector<size_t> folder_of_, format_of_;
  Groups folders_, formats_;
  bool knows_neighbours_ = true;  // the reads of the track being read are all there
  Sum total_;
  std::vector<Call> nameless_;  // of the track being read: counted, their files not kept
  Sum not_kept_;                // all of these
  bool has_not_kept_ = false;
  std::array<uint64_t, 66> sizes_{};
  uint64_t counted_only_ = 0;
};

// Stretches in which drivers waited for bytes.
Intervals fetch_stalls(const JobTime& time) {
  Intervals stalls;
  for (const DriverTime& driver : time.drivers) {
    for (const Owned& piece : driver.pieces) {
      if (piece.part == Part::kFetchStall) stalls.push_back({piece.begin_ns, piece.end_ns});
    }
  }
  return merged(std::move(stalls));
}

class DiskReader {
 public:
  DiskReader(const View& view, TrackId track, const Intervals& stalls, int64_t span_ns)
      : view_(view), track_(track), stalls_(stalls), span_ns_(span_ns) {}

  Disk read() {
    disk_.name = view_.words().text(view_.track(track_));
    read_requests();
    if (disk_.requests > 0) {
      add_requests();
    } else {
      add_counters();
    }
    return std::move(disk_);
  }

 private:
  void read_requests() {
    const trace::Recording& recording = view_.recording();
    const auto rows = recording.rows(track_);
    const auto bytes = view_.column(view_.keys().bytes, track_);
    const auto queued = view_.column(view_.keys().queue_ns, track_);
    for (size_t row = rows.first; row < rows.last; ++row) {
      if (recording.name(row).category != Category::kBlockIo) continue;
      const size_t index = row - rows.first;
      ++disk_.requests;
      disk_.bytes += static_cast<uint64_t>(std::max<int64_t>(0, at(bytes, index)));
      if (recording.text(row).find("read") != std::string::npos) ++reads_;
      const int64_t queue = at(queued, index);
      if (queue != kNoValue) {
        queue_ns_ += queue;
        ++queued_;
      }
      const int64_t ns = recording.duration(row);
      latency_.record(static_cast<uint64_t>(std::max<int64_t>(0, ns)));
      sum_ns_ += ns;
      busy_.push_back({recording.start(row), recording.end(row)});
    }
  }

  void add_requests() {
    const Intervals busy = merged(std::move(busy_));
    const auto busy_ns = static_cast<double>(std::max<int64_t>(1, length_of(busy)));
    disk_.read_share = static_cast<double>(reads_) / static_cast<double>(disk_.requests);
    disk_.device_p50_ns = static_cast<int64_t>(latency_.percentile(50));
    disk_.device_p99_ns = static_cast<int64_t>(latency_.percentile(99));
    disk_.device_max_ns = static_cast<int64_t>(latency_.max());
    if (queued_ > 0) disk_.queue_mean_ns = queue_ns_ / queued_;
    if (span_ns_ > 0) disk_.busy_share = std::min(1.0, busy_ns / static_cast<double>(span_ns_));
    const int64_t stalled = length_of(stalls_);
    if (stalled > 0) {
      disk_.busy_share_in_stalls =
          static_cast<double>(overlap_of(busy, stalls_)) / static_cast<double>(stalled);
    }
    disk_.bytes_per_second = static_cast<double>(disk_.bytes) / (busy_ns * 1e-9);
    disk_.depth = static_cast<double>(sum_ns_) / busy_ns;
  }

  struct Means {
    ReadingSum all, in_stalls;
  };
  Means means_of(std::string_view name) const {
    Means means;
    for_each_reading(view_, track_, name, [&](int64_t begin_ns, int64_t end_ns, double value) {
      means.all.add(value, static_cast<double>(end_ns - begin_ns));
      means.in_stalls.add(value, static_cast<double>(overlap_of({{begin_ns, end_ns}}, stalls_)));
    });
    return means;
  }

  void add_counters() {
    const auto at_most_one = [](std::optional<double> share) {
      return share ? std::optional(std::min(1.0, *share)) : std::nullopt;
    };
    const Means busy = means_of("busy_share");
    disk_.busy_share = at_most_one(busy.all.mean());
    disk_.busy_share_in_stalls = at_most_one(busy.in_stalls.mean());
    const ReadingSum read = means_of("read_bytes_per_second").all;
    if (const auto read_rate = read.mean()) {
      const double rate = *read_rate + means_of("written_bytes_per_second").all.mean().value_or(0);
      disk_.bytes = static_cast<uint64_t>(rate * read.ns * 1e-9);
      if (disk_.busy_share && *disk_.busy_share > 0.001) {
        disk_.bytes_per_second = rate / *disk_.busy_share;
      }
    }
    disk_.depth = means_of("requests_in_flight").all.mean();
  }

  const View& view_;
  const TrackId track_;
  const Intervals& stalls_;
  const int64_t span_ns_;
  Disk disk_;
  trace::Histogram latency_;
  Intervals busy_;
  uint64_t reads_ = 0;
  int64_t queue_ns_ = 0, queued_ = 0, sum_ns_ = 0;
};

}  // namespace

Io io_of(const View& view) {
  return IoReader(view).read();
}

std::vector<Disk> disks_of(const View& view, const JobTime& time) {
  const Intervals stalls = fetch_stalls(time);
  const trace::Recording& recording = view.recording();
  int64_t span_ns = recording.end_ns() - recording.begin_ns();
  if (!time.drivers.empty()) {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const DriverTime& driver : time.drivers) {
      begin = std::min(begin, driver.begin_ns);
      end = std::max(end, driver.end_ns);
    }
    if (end > begin) span_ns = end - begin;
  }
  std::vector<Disk> disks;
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    if (view.track(track).kind != TrackKind::kBlockDevice) continue;
    if (recording.rows(track).size() == 0) continue;
    disks.push_back(DiskReader(view, track, stalls, span_ns).read());
  }
  return disks;
}

namespace {

// Requests by the thread that issued them, in the order of time.
struct Request {
  int64_t begin_ns, end_ns, queue_ns;
};
using Requests = std::unordered_map<int64_t, std::vector<Request>>;

Requests requests_by_thread(const View& view) {
  Requests out;
  const trace::Recording& recording = view.recording();
  for (TrackId track = 0; track < view.words().tracks.size(); ++track) {
    if (view.track(track).kind != TrackKind::kBlockDevice) continue;
    const auto rows = recording.rows(track);
    const auto tids = view.column(view.keys().tid, track);
    const auto queued = view.column(view.keys().queue_ns, track);
    for (size_t i = 0; i < tids.size(); ++i) {
      if (tids[i] == kNoValue) continue;
      const int64_t queue = at(queued, i);
      out[tids[i]].push_back({recording.start(rows.first + i), recording.end(rows.first + i),
                              queue == kNoValue ? 0 : queue});
    }
  }
  return out;
}

void split_reads(const View& view, TrackId thread, const std::vector<Request>& requests,
                 ReadLatency& out) {
  const trace::Recording& recording = view.recording();
  const auto rows = recording.rows(thread);
  size_t next = 0;
  for (size_t row = rows.first; row < rows.last; ++row) {
    if (recording.name(row).category != Category::kRead) continue;
    const int64_t begin = recording.start(row), end = recording.end(row);
    while (next < requests.size() && requests[next].end_ns < begin) ++next;
    Intervals device, queue;
    for (size_t i = next; i < requests.size() && requests[i].begin_ns < end; ++i) {
      device.push_back({std::max(begin, requests[i].begin_ns), std::min(end, requests[i].end_ns)});
      queue.push_back({std::max(begin, requests[i].begin_ns - requests[i].queue_ns),
                       std::min(end, requests[i].begin_ns)});
    }
    if (device.empty()) continue;
    Intervals off_cpu;
    for (size_t inner = row + 1; inner < rows.last && recording.start(inner) < end; ++inner) {
      if (recording.name(inner).category == Category::kOffCpu) {
        off_cpu.push_back({recording.start(inner), std::min(end, recording.end(inner))});
      }
    }
    const int64_t device_ns = length_of(merged(device));
    Intervals both = device;
    both.insert(both.end(), queue.begin(), queue.end());
    const int64_t queue_ns = length_of(merged(std::move(both))) - device_ns;
    const int64_t waited = length_of(merged(std::move(off_cpu)));
    const int64_t total = end - begin;
    const int64_t other = std::max<int64_t>(0, std::min(waited, total) - device_ns - queue_ns);
    ++out.reads;
    out.device_ns += device_ns;
    out.queue_ns += queue_ns;
    out.other_ns += other;
    out.cpu_ns += std::max<int64_t>(0, total - device_ns - queue_ns - other);
  }
}

}  // namespace

ReadLatency read_latency_of(const View& view) {
  ReadLatency out;
  const Requests requests = requests_by_thread(view);
  if (requests.empty()) {
    out.reason = "no requests at disks were recorded with the thread that made them";
    return out;
  }
  for (const TrackId thread : view.threads()) {
    const auto found = requests.find(view.track(thread).number);
    if (found == requests.end()) continue;
    std::vector<Request> mine = found->second;
    std::sort(mine.begin(), mine.end(),
              [](const Request& a, const Request& b) { return a.begin_ns < b.begin_ns; });
    split_reads(view, thread, mine, out);
  }
  out.is_measured = out.reads > 0;
  if (!out.is_measured) out.reason = "no read was under way while its thread's disk worked";
  return out;
}

}  // namespace forebay::explain

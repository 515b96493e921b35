// Text of `darshan-parser` (totals of each file and rank) and of `darshan-dxt-parser` (each read
// and write).
#include <fmt/core.h>

#include <map>
#include <optional>

#include "base/text.h"
#include "ingest/builtin.h"
#include "ingest/line_reader.h"
#include "ingest/timeline.h"
#include "trace/facts.h"

namespace forebay::ingest {
namespace {

using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

constexpr int64_t kSecondNs = 1'000'000'000;

// What both texts begin with, and the tracks of ranks.
class Job {
 public:
  Job(const Source& source, trace::TraceWriter& writer) : source_(source), writer_(writer) {}

  // "# start_time: 1699999999", "# nprocs: 4", "# exe: python train.py"
  void take_comment(std::string_view line) {
    line.remove_prefix(1);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = base::trim(line.substr(0, colon));
    const std::string_view value = base::trim(line.substr(colon + 1));
    int64_t number = 0;
    if (key == "start_time" && to_nanoseconds(value, number)) {
      // Whole seconds in most versions.
      if (!has_start_) writer_.clock({0, number, kSecondNs});
      has_start_ = true;
    } else if (key == "nprocs" && to_integer(value, number)) {
      writer_.fact(trace::fact::kWorldSize, std::to_string(number));
    } else if (key == "exe") {
      writer_.fact(trace::fact::kCommand, clean_text(value));
    }
  }

  TrackId host(std::string_view name) {
    if (name.empty()) name = source_.host;
    const auto [found, is_new] = hosts_.emplace(std::string(name), kNoId);
    if (is_new) found->second = writer_.add_track(TrackKind::kHost, kNoId, clean_text(name));
    return found->second;
  }

  // Darshan knows ranks, not process numbers; rank -1 is a file that all ranks share.
  TrackId process(int64_t rank, std::string_view host_name) {
    const auto [found, is_new] = processes_.emplace(std::pair(std::string(host_name), rank), kNoId);
    if (is_new) {
      const bool is_one = rank >= 0 && rank <= INT32_MAX;
      found->second =
          writer_.add_track(TrackKind::kProcess, host(host_name),
                            is_one ? fmt::format("rank {}", rank) : std::string("all ranks"), -1,
                            is_one ? static_cast<int32_t>(rank) : -1);
    }
    return found->second;
  }

  TrackId thread(int64_t rank, std::string_view host_name, std::string_view text) {
    const TrackId above = process(rank, host_name);
    const auto [found, is_new] = threads_.emplace(std::pair(above, std::string(text)), kNoId);
    if (is_new) {
      found->second =
          writer_.add_track(TrackKind::kThread, above, text, -1,
                            rank >= 0 && rank <= INT32_MAX ? static_cast<int32_t>(rank) : -1);
    }
    return found->second;
  }

 private:
  const Source& source_;
  trace::TraceWriter& writer_;
  bool has_start_ = false;
  std::map<std::string, TrackId> hosts_;
  std::map<std::pair<std::string, int64_t>, TrackId> processes_;
  std::map<std::pair<TrackId, std::string>, TrackId> threads_;
};

// The counters of one module, rank and file become what "calls that were counted, not kept" are.
class TotalsImport {
 public:
  TotalsImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        job_(source, writer),
        bytes_(writer.key(trace::key::kBytes)),
        count_(writer.key(trace::key::kCount)),
        total_(writer.key("total_ns")),
        file_(writer.key(trace::key::kFile, ArgumentType::kText)) {}

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) {
      if (line.starts_with('#')) {
        job_.take_comment(line);
      } else if (!base::trim(line).empty()) {
        row(line);
      }
    }
    end_record();
    return timeline_.write();
  }

 private:
  // <module> <rank> <record id> <counter> <value> <file name> <mount> <file system>
  void row(std::string_view line) {
    std::string_view rest = line;
    const std::string_view module = take_word(rest);
    int64_t rank = 0;
    if (!to_integer(take_word(rest), rank)) return account_.skip("lines that are no counter");
    const std::string_view record = take_word(rest);
    const std::string_view counter = take_word(rest);
    double value = 0;
    if (!to_number(take_word(rest), value)) return account_.skip("lines that are no counter");
    const std::string_view file = file_name(rest);
    if (module != module_ || rank != rank_ || record != record_) {
      end_record();
      module_ = module;
      rank_ = rank;
      record_ = record;
      path_ = clean_text(file);
    }
    // "POSIX_F_READ_TIME" -> "F_READ_TIME"
    if (counter.starts_with(module) && counter.size() > module.size() + 1)
      counters_[std::string(counter.substr(module.size() + 1))] = value;
  }

  // Tabs part the columns, so that a name may hold blanks; the last two are no part of it.
  static std::string_view file_name(std::string_view rest) {
    rest = base::trim(rest);
    const size_t tab = rest.find('\t');
    if (tab != std::string_view::npos) return rest.substr(0, tab);
    return take_word(rest);
  }

  double counter(const char* name) const {
    const auto found = counters_.find(name);
    return found == counters_.end() ? 0 : found->second;
  }

  static int64_t nanoseconds(double seconds) {
    return seconds > 0 && seconds < 1e9 ? static_cast<int64_t>(seconds * 1e9) : 0;
  }

  void emit(const char* name, Category category, double count, double bytes, double time,
            double start) {
    if (count <= 0 || count > 9e18 || bytes > 9e18) return;
    const TrackId track = job_.thread(rank_, {}, module_);
    const auto id = writer_.name(name, category, EventKind::kInstant);
    std::vector<trace::Argument> arguments{{count_, static_cast<int64_t>(count)},
                                           {total_, nanoseconds(time)}};
    if (bytes > 0) arguments.push_back({bytes_, static_cast<int64_t>(bytes)});
    if (!path_.empty()) arguments.push_back({file_, writer_.text(path_)});
    timeline_.add({track, id, nanoseconds(start), 0}, EventKind::kInstant, arguments);
  }

  void end_record() {
    if (counters_.empty()) return;
    const bool is_known =
        module_ == "POSIX" || module_ == "STDIO" || module_ == "MPI-IO" || module_ == "MPIIO";
    if (!is_known) {
      account_.skip(fmt::format("records of the module {}", clean_text(module_)));
    } else {
      const bool is_mpi = module_.starts_with("MPI");
      const double reads = counter("READS") + counter("INDEP_READS") + counter("COLL_READS") +
                           counter("SPLIT_READS") + counter("NB_READS");
      const double writes = counter("WRITES") + counter("INDEP_WRITES") + counter("COLL_WRITES") +
                            counter("SPLIT_WRITES") + counter("NB_WRITES");
      const double metadata = counter("OPENS") + counter("STATS") + counter("SEEKS") +
                              counter("INDEP_OPENS") + counter("COLL_OPENS");
      emit(is_mpi ? "MPI_File_read" : "read", Category::kRead, reads, counter("BYTES_READ"),
           counter("F_READ_TIME"), counter("F_READ_START_TIMESTAMP"));
      emit(is_mpi ? "MPI_File_write" : "write", Category::kWrite, writes, counter("BYTES_WRITTEN"),
           counter("F_WRITE_TIME"), counter("F_WRITE_START_TIMESTAMP"));
      emit("open, stat, seek", Category::kMetadata, metadata, 0, counter("F_META_TIME"),
           counter("F_OPEN_START_TIMESTAMP"));
      // Its time is part of the write time.
      emit("fsync", Category::kSync,
           counter("FSYNCS") + counter("FDSYNCS") + counter("FLUSHES") + counter("SYNCS"), 0, 0,
           counter("F_CLOSE_START_TIMESTAMP"));
    }
    counters_.clear();
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  Job job_;
  trace::KeyId bytes_, count_, total_, file_;
  std::string module_, record_, path_;
  int64_t rank_ = 0;
  std::map<std::string, double> counters_;
};

class DxtImport {
 public:
  DxtImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        job_(source, writer),
        bytes_(writer.key(trace::key::kBytes)),
        offset_(writer.key(trace::key::kOffset)),
        file_(writer.key(trace::key::kFile, ArgumentType::kText)) {}

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) {
      if (line.starts_with("# DXT,")) {
        section(line.substr(6));
      } else if (line.starts_with('#')) {
        if (line.find("Segment") != std::string_view::npos) {
          has_thread_ = line.find("Pthread") != std::string_view::npos;
        } else {
          job_.take_comment(line);
        }
      } else if (!base::trim(line).empty()) {
        row(line);
      }
    }
    return timeline_.write();
  }

 private:
  // " file_id: N, file_name: P", " rank: 0, hostname: node1"
  void section(std::string_view text) {
    const auto after = [&](std::string_view key) -> std::optional<std::string_view> {
      const size_t at = text.find(key);
      if (at == std::string_view::npos) return std::nullopt;
      return base::trim(text.substr(at + key.size()));
    };
    if (const auto name = after("file_name:")) path_ = clean_text(*name);
    if (const auto name = after("hostname:")) host_ = *name;
  }

  // X_POSIX 0 read 0 0 344 0.5529 0.5533 [3] 139912
  void row(std::string_view line) {
    std::string_view rest = line;
    const std::string_view module = take_word(rest);
    int64_t rank = 0, offset = 0, length = 0, start = 0, end = 0;
    const bool has_rank = to_integer(take_word(rest), rank);
    const std::string_view what = take_word(rest);
    take_word(rest);  // number of the segment
    const bool is_row =
        has_rank && (what == "read" || what == "write") && to_integer(take_word(rest), offset) &&
        to_integer(take_word(rest), length) && to_nanoseconds(take_word(rest), start) &&
        to_nanoseconds(take_word(rest), end);
    if (!is_row) return account_.skip("lines that are no segment");
    // Lustre's targets stand in brackets before the thread.
    std::string_view thread = module;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      if (has_thread_ && word.find_first_of("[]") == std::string_view::npos) thread = word;
    }
    if (end < start) {
      account_.repair_negative(what);
      end = start;
    }
    const bool is_mpi = module.find("MPI") != std::string_view::npos;
    const bool is_read = what == "read";
    const std::string name = is_mpi ? fmt::format("MPI_File_{}", what) : std::string(what);
    std::vector<trace::Argument> arguments;
    if (length >= 0) arguments.push_back({bytes_, length});
    if (offset >= 0) arguments.push_back({offset_, offset});
    if (!path_.empty()) arguments.push_back({file_, writer_.text(path_)});
    const std::string track = is_mpi ? "MPI-IO" : clean_text(thread);
    timeline_.add(
        {job_.thread(rank, host_, track),
         writer_.name(name, is_read ? Category::kRead : Category::kWrite), start, end - start},
        EventKind::kSpan, arguments);
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  Job job_;
  trace::KeyId bytes_, offset_, file_;
  std::string path_, host_;
  bool has_thread_ = false;
};

bool is_darshan(std::string_view first) {
  return first.starts_with('#') && first.find("darshan log version:") != std::string_view::npos;
}
// Headers may be longer than what is looked at; the tools' own titles stand at the beginning.
bool is_dxt(std::string_view first) {
  return first.find("# DXT,") != std::string_view::npos ||
         first.find("DXT_POSIX module data") != std::string_view::npos ||
         first.find("\n X_POSIX") != std::string_view::npos;
}

bool recognises_totals(std::string_view first, std::string_view /*name*/) {
  return is_darshan(first) && !is_dxt(first);
}
bool recognises_dxt(std::string_view first, std::string_view /*name*/) {
  return first.starts_with('#') && is_dxt(first);
}

Status read_totals(const Source& source, trace::TraceWriter& writer, Account& account) {
  return TotalsImport(source, writer, account).read(*source.bytes);
}
Status read_dxt(const Source& source, trace::TraceWriter& writer, Account& account) {
  return DxtImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kDarshan{.name = "darshan",
                        .summary = "text of darshan-parser: totals of each file and rank",
                        .recognises = recognises_totals,
                        .recognises_folder = nullptr,
                        .read = read_totals};

const Importer kDarshanDxt{.name = "darshan-dxt",
                           .summary = "text of darshan-dxt-parser: each read and write",
                           .recognises = recognises_dxt,
                           .recognises_folder = nullptr,
                           .read = read_dxt};

}  // namespace forebay::ingest

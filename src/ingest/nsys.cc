// Nsight Systems, exported to SQLite. Tables and columns differ between versions and with what was
// recorded: each is asked for before it is read.
#include <fmt/core.h>
#include <sqlite3.h>

#include <array>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "ingest/builtin.h"
#include "ingest/columns.h"
#include "ingest/meaning.h"
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

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

Result<Database> open_database(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) return fail(ErrorCode::kIo, "{}", sqlite3_errstr(code));
  // A foreign file: its schema may not run anything, and nothing of it is believed.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 64 << 20);
  return database;
}

// The rows of a SELECT over columns that may be missing: those read as NULL.
class Rows {
 public:
  Rows(sqlite3* database, const std::string& table, const std::set<std::string>& columns,
       std::span<const std::string_view> wanted) {
    std::string sql = "SELECT ";
    for (const std::string_view column : wanted) {
      if (sql.size() > 7) sql += ", ";
      sql += columns.count(std::string(column)) > 0 ? fmt::format("\"{}\"", column)
                                                    : std::string("NULL");
    }
    sql += fmt::format(" FROM \"{}\"", table);
    sqlite3_stmt* raw = nullptr;
    code_ = sqlite3_prepare_v2(database, sql.c_str(), -1, &raw, nullptr);
    statement_.reset(raw);
  }

  bool next() {
    if (statement_ == nullptr) return false;
    code_ = sqlite3_step(statement_.get());
    return code_ == SQLITE_ROW;
  }
  // Why there are no more rows, when that is no good reason.
  const char* damage() const {
    return code_ == SQLITE_DONE || code_ == SQLITE_OK ? nullptr : sqlite3_errstr(code_);
  }

  bool has(int column) const {
    return sqlite3_column_type(statement_.get(), column) != SQLITE_NULL;
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double real(int column) const { return sqlite3_column_double(statement_.get(), column); }
  bool is_text(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_TEXT;
  }
  std::string text(int column) const {
    const auto* bytes = sqlite3_column_text(statement_.get(), column);
    const int size = sqlite3_column_bytes(statement_.get(), column);
    return bytes == nullptr
               ? std::string()
               : clean_text({reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)});
  }

 private:
  Statement statement_;
  int code_ = SQLITE_OK;
};

class NsysImport {
 public:
  NsysImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : source_(source),
        writer_(writer),
        account_(account),
        timeline_(writer, account),
        host_(writer.add_track(TrackKind::kHost, kNoId, source.host)),
        bytes_(writer.key(trace::key::kBytes)),
        correlation_(writer.key(trace::key::kCorrelation)),
        step_(writer.key(trace::key::kStep)),
        value_(writer.key(trace::key::kValue, ArgumentType::kReal)),
        stack_(writer.key(trace::key::kStack, ArgumentType::kStack)) {}

  Status read() {
    database_ = FB_TRY(open_database(source_.path));
    FB_TRY(find_tables());
    read_strings();
    read_context();
    read_kernels("CUPTI_ACTIVITY_KIND_KERNEL");
    read_kernels("CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
    read_copies("CUPTI_ACTIVITY_KIND_MEMCPY", "memcpy");
    read_copies("CUPTI_ACTIVITY_KIND_MEMSET", "memset");
    read_calls("CUPTI_ACTIVITY_KIND_RUNTIME", Category::kLaunch);
    read_calls("CUPTI_ACTIVITY_KIND_DRIVER", Category::kLaunch);
    read_calls("CUDNN_EVENTS", Category::kLaunch);
    read_calls("CUBLAS_EVENTS", Category::kLaunch);
    read_calls("OSRT_API", Category::kOther);
    read_calls("PROFILER_OVERHEAD", Category::kOverhead);
    read_calls("MPI_COLLECTIVES_EVENTS", Category::kCollective);
    read_calls("MPI_P2P_EVENTS", Category::kNetwork);
    read_ranges();
    read_scheduling();
    read_samples();
    read_metrics();
    name_tracks();
    for (const auto& [table, columns] : tables_) {
      if (taken_.count(table) == 0 && table.find('_') != std::string::npos &&
          (columns.count("start") > 0 || columns.count("timestamp") > 0)) {
        account_.skip(fmt::format("table {}", clean_text(table)));
      }
    }
    return timeline_.write();
  }

 private:
  // Names of tables come from the file; those with a quotation mark are nobody's.
  Status find_tables() {
    sqlite3_stmt* raw = nullptr;
    const char* const sql =
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
        "WHERE m.type = 'table'";
    const int code = sqlite3_prepare_v2(database_.get(), sql, -1, &raw, nullptr);
    const Statement statement(raw);
    if (code != SQLITE_OK) return fail(ErrorCode::kCorruption, "{}", sqlite3_errstr(code));
    int step = SQLITE_ROW;
    while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
      const auto text = [&](int column) {
        const auto* bytes = sqlite3_column_text(raw, column);
        return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes));
      };
      std::string table = text(0);
      if (table.find('"') == std::string::npos) tables_[std::move(table)].insert(text(1));
    }
    if (step != SQLITE_DONE) return fail(ErrorCode::kCorruption, "{}", sqlite3_errstr(step));
    return {};
  }

  // Calls `take` for each row; nothing when there is no such table.
  template <size_t N, class Take>
  void each(const std::string& table, const std::array<std::string_view, N>& columns, Take take) {
    const auto found = tables_.find(table);
    if (found == tables_.end()) return;
    taken_.insert(table);
    Rows rows(database_.get(), table, found->second, columns);
    while (rows.next()) take(rows);
    if (const char* const damage = rows.damage()) {
      account_.damage = fmt::format("table {}: {}", table, damage);
    }
  }

  void read_strings() {
    each<2>("StringIds", {"id", "value"},
            [&](const Rows& row) { strings_[row.integer(0)] = writer_.text(row.text(1)); });
  }

  // A number of StringIds, or the text itself.
  std::string string(const Rows& row, int column) const {
    if (row.is_text(column)) return row.text(column);
    const auto found = strings_.find(row.integer(column));
    return found == strings_.end() ? std::string() : writer_.dictionary().texts[found->second];
  }

  void read_context() {
    int64_t start_ns = 0;
    each<2>("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs", "utcTime"}, [&](const Rows& row) {
      if (row.has(0)) start_ns = row.integer(0);
      if (!row.has(0) && row.is_text(1)) to_date(row.text(1), start_ns);
    });
    if (start_ns > 0) writer_.clock({0, start_ns, 1'000'000});
    const auto take_name = [&](const Rows& row) {
      const std::string key = row.text(0);
      if (key == "Hostname" || key == "HOSTNAME") {
        writer_.rename(host_, row.text(1));
        writer_.fact(trace::fact::kHost, row.text(1));
      }
    };
    each<2>("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, take_name);
    each<2>("TARGET_INFO_GPU", {"id", "name"},
            [&](const Rows& row) { gpu_names_[row.integer(0)] = string(row, 1); });
    each<2>("META_DATA_EXPORT", {"name", "value"}, [](const Rows&) {});
    each<2>("ThreadNames", {"globalTid", "nameId"}, [&](const Rows& row) {
      thread_names_[row.integer(0) & 0xffffffffffff] = string(row, 1);
    });
    each<2>("PROCESSES", {"globalPid", "name"}, [&](const Rows& row) {
      process_names_[row.integer(0) >> 24 & 0xffffff] = string(row, 1);
    });
  }

  TrackId device(int64_t index) {
    const auto [found, is_new] = devices_.emplace(index, kNoId);
    if (is_new) {
      const auto name = gpu_names_.find(index);
      const std::string text = name == gpu_names_.end() || name->second.empty()
                                   ? fmt::format("GPU {}", index)
                                   : name->second;
      found->second = writer_.add_track(TrackKind::kDevice, host_, text, index);
    }
    return found->second;
  }

  TrackId stream(int64_t index, int64_t number) {
    const auto [found, is_new] = streams_.emplace(std::pair(index, number), kNoId);
    if (is_new) {
      found->second = writer_.add_track(TrackKind::kStream, device(index),
                                        fmt::format("stream {}", number), number);
    }
    return found->second;
  }

  // 16 bits of hardware and machine, then 24 of the process and 24 of the thread.
  TrackId thread(int64_t global) {
    const int64_t pid = global >> 24 & 0xffffff, tid = global & 0xffffff;
    const auto [process, is_new_process] = processes_.emplace(pid, kNoId);
    if (is_new_process)
      process->second = writer_.add_track(TrackKind::kProcess, host_, "process", pid);
    const auto [found, is_new] = threads_.emplace(global & 0xffffffffffff, kNoId);
    if (is_new)
      found->second = writer_.add_track(TrackKind::kThread, process->second, "thread", tid);
    return found->second;
  }

  void name_tracks() {
    for (const auto& [global, track] : threads_) {
      const auto found = thread_names_.find(global);
      if (found != thread_names_.end() && !found->second.empty())
        writer_.rename(track, found->second);
    }
    for (const auto& [pid, track] : processes_) {
      const auto found = process_names_.find(pid);
      if (found != process_names_.end() && !found->second.empty())
        writer_.rename(track, found->second);
    }
  }

  // Start and end as columns 0 and 1.
  // `what` they are of, for people.
  bool times(const Rows& row, std::string_view what, int64_t& start, int64_t& duration) {
    if (!row.has(0)) {
      account_.skip("events without a time");
      return false;
    }
    start = row.integer(0);
    if (!row.has(1)) {
      duration = trace::kUnfinished;
      return true;
    }
    duration = 0;
    if (__builtin_sub_overflow(row.integer(1), start, &duration) || duration < 0) {
      account_.repair_negative(what);
      duration = 0;
    }
    return true;
  }

  void read_kernels(const std::string& table) {
    each<7>(table,
            {"start", "end", "deviceId", "streamId", "correlationId", "demangledName", "shortName"},
            [&](const Rows& row) {
              int64_t start = 0, duration = 0;
              if (!times(row, table, start, duration)) return;
              std::string text = string(row, 5);
              if (text.empty()) text = string(row, 6);
              if (text.empty()) text = table.ends_with("GRAPH_TRACE") ? "CUDA graph" : "kernel";
              const trace::Argument argument{correlation_, row.integer(4)};
              timeline_.add({stream(row.integer(2), row.integer(3)),
                             writer_.name(text, category_of_kernel(text)), start, duration},
                            EventKind::kSpan, {&argument, row.has(4) ? size_t{1} : size_t{0}});
            });
  }

  void read_copies(const std::string& table, std::string_view otherwise) {
    static const std::map<int64_t, std::string_view> kinds{{1, "memcpy host to device"},
                                                           {2, "memcpy device to host"},
                                                           {8, "memcpy device to device"},
                                                           {10, "memcpy peer to peer"}};
    each<7>(table, {"start", "end", "deviceId", "streamId", "correlationId", "bytes", "copyKind"},
            [&](const Rows& row) {
              int64_t start = 0, duration = 0;
              if (!times(row, otherwise, start, duration)) return;
              const auto kind = kinds.find(row.has(6) ? row.integer(6) : -1);
              const std::string_view text = kind == kinds.end() ? otherwise : kind->second;
              std::vector<trace::Argument> arguments;
              if (row.has(4)) arguments.push_back({correlation_, row.integer(4)});
              if (row.has(5)) arguments.push_back({bytes_, row.integer(5)});
              timeline_.add({stream(row.integer(2), row.integer(3)),
                             writer_.name(text, Category::kCopy), start, duration},
                            EventKind::kSpan, arguments);
            });
  }

  // `category` kOther: as the call's name has it.
  void read_calls(const std::string& table, Category category) {
    each<5>(table, {"start", "end", "globalTid", "nameId", "correlationId"}, [&](const Rows& row) {
      int64_t start = 0, duration = 0;
      if (!times(row, table, start, duration)) return;
      std::string text = string(row, 3);
      if (text.empty()) text = category == Category::kOverhead ? "profiler" : "call";
      const Category meaning = category == Category::kOther ? category_of_call(text) : category;
      const trace::Argument argument{correlation_, row.integer(4)};
      timeline_.add({thread(row.integer(2)), writer_.name(text, meaning), start, duration},
                    EventKind::kSpan, {&argument, row.has(4) ? size_t{1} : size_t{0}});
    });
  }

  void read_ranges() {
    each<6>("NVTX_EVENTS", {"start", "end", "globalTid", "text", "textId", "eventType"},
            [&](const Rows& row) {
              const int64_t type = row.has(5) ? row.integer(5) : 59;
              if (type != 34 && type != 59 && type != 60)
                return account_.skip("NVTX events that are no ranges or marks");
              std::string text = row.has(3) ? string(row, 3) : std::string();
              if (text.empty() && row.has(4)) text = string(row, 4);
              int64_t start = 0, duration = 0;
              if (!times(row, "NVTX range", start, duration)) return;
              const Meaning meaning = meaning_of_mark(text);
              const EventKind kind = type == 34 ? EventKind::kInstant : EventKind::kSpan;
              const trace::Argument argument{step_, meaning.step};
              timeline_.add({thread(row.integer(2)), writer_.name(text, meaning.category, kind),
                             start, kind == EventKind::kInstant ? 0 : duration},
                            kind, {&argument, meaning.step >= 0 ? size_t{1} : size_t{0}});
            });
  }

  // A thread that is switched out and in again was off the processor in between.
  void read_scheduling() {
    const auto name = writer_.name("off cpu", Category::kOffCpu);
    std::map<int64_t, int64_t> out_since;
    each<3>("SCHED_EVENTS", {"start", "isSchedIn", "globalTid"}, [&](const Rows& row) {
      const int64_t global = row.integer(2);
      if (row.integer(1) == 0) {
        out_since[global] = row.integer(0);
        return;
      }
      const auto found = out_since.find(global);
      if (found == out_since.end()) return;
      if (row.integer(0) < found->second) account_.repair_negative("off cpu");
      timeline_.add({thread(global), name, found->second,
                     std::max<int64_t>(row.integer(0) - found->second, 0)},
                    EventKind::kSpan);
      out_since.erase(found);
    });
  }

  void read_samples() {
    if (tables_.count("COMPOSITE_EVENTS") == 0) return;
    // Frames of a sample, the innermost first by depth.
    std::map<int64_t, std::map<int64_t, trace::FrameId>> chains;
    each<5>("SAMPLING_CALLCHAINS", {"id", "symbol", "module", "stackDepth", "unresolved"},
            [&](const Rows& row) {
              trace::Frame frame{.kind = trace::FrameKind::kNative};
              frame.symbol = writer_.text(string(row, 1));
              const std::string module = string(row, 2);
              if (module.starts_with("[kernel")) frame.kind = trace::FrameKind::kKernel;
              frame.module = writer_.text(module);
              frame.build_id = writer_.text("");
              auto& chain = chains[row.integer(0)];
              if (chain.size() < 1024) chain[row.integer(3)] = writer_.frame(frame);
            });
    const auto name = writer_.name("sample", Category::kOnCpu, EventKind::kSample);
    std::map<int64_t, int64_t> last;
    each<3>("COMPOSITE_EVENTS", {"id", "start", "globalTid"}, [&](const Rows& row) {
      constexpr int64_t kPeriodMaxNs = 20'000'000;
      const int64_t at = row.integer(1), global = row.integer(2);
      const auto [before, is_new] = last.try_emplace(global, at);
      const int64_t period =
          is_new ? kPeriodMaxNs / 2 : std::clamp<int64_t>(at - before->second, 0, kPeriodMaxNs);
      before->second = at;
      trace::StackId stack = kNoId;
      if (const auto chain = chains.find(row.integer(0)); chain != chains.end()) {
        for (auto frame = chain->second.rbegin(); frame != chain->second.rend(); ++frame)
          stack = writer_.stack(stack, frame->second);
      }
      const trace::Argument argument{stack_, stack};
      timeline_.add({thread(global), name, at, period}, EventKind::kSample,
                    {&argument, stack == kNoId ? size_t{0} : size_t{1}});
    });
  }

  void read_metrics() {
    std::map<std::pair<int64_t, int64_t>, std::string> names;
    each<3>("TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"}, [&](const Rows& row) {
      names[{row.integer(0), row.integer(1)}] = string(row, 2);
    });
    each<4>("GPU_METRICS", {"timestamp", "typeId", "metricId", "value"}, [&](const Rows& row) {
      const auto found = names.find({row.integer(1), row.integer(2)});
      if (found == names.end() || found->second.empty())
        return account_.skip("GPU metrics without a name");
      // The lowest byte of the type is the number of the GPU.
      const TrackId track = device(row.integer(1) & 0xff);
      const bool is_busy =
          found->second.starts_with("SMs Active") || found->second.starts_with("SM Active");
      const auto name = writer_.name(is_busy ? "busy_share" : found->second, Category::kUsage,
                                     EventKind::kCounter);
      const trace::Argument argument{value_, trace::real_bits(row.real(3) * (is_busy ? 0.01 : 1))};
      timeline_.add({track, name, row.integer(0), 0}, EventKind::kCounter, {&argument, 1});
    });
  }

  const Source& source_;
  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  TrackId host_;
  trace::KeyId bytes_, correlation_, step_, value_, stack_;
  Database database_;
  std::map<std::string, std::set<std::string>> tables_;  // columns by table
  std::set<std::string> taken_;
  std::map<int64_t, trace::TextId> strings_;
  std::map<int64_t, std::string> gpu_names_, thread_names_, process_names_;
  std::map<int64_t, TrackId> devices_, processes_, threads_;
  std::map<std::pair<int64_t, int64_t>, TrackId> streams_;
};

bool recognises(std::string_view first, std::string_view /*name*/) {
  return first.starts_with("SQLite format 3") &&
         (first.find("StringIds") != std::string_view::npos ||
          first.find("CUPTI_ACTIVITY") != std::string_view::npos ||
          first.find("NVTX_EVENTS") != std::string_view::npos ||
          first.find("TARGET_INFO") != std::string_view::npos);
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return NsysImport(source, writer, account).read();
}

}  // namespace

const Importer kNsys{.name = "nsys",
                     .summary = "Nsight Systems, exported to SQLite",
                     .recognises = recognises,
                     .recognises_folder = nullptr,
                     .read = read};

}  // namespace forebay::ingest

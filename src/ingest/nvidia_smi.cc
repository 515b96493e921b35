// Text of `nvidia-smi`: CSV of --query-gpu, and tables of dmon. Both may stand one behind the
// other, among other text, as captures have them.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "ingest/builtin.h"
#include "ingest/columns.h"
#include "ingest/line_reader.h"
#include "ingest/timeline.h"

namespace forebay::ingest {
namespace {

using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

constexpr int64_t kSecondNs = 1'000'000'000;
// Times are those of a zone that the text does not name.
constexpr int64_t kZoneUncertaintyNs = 14 * 3600 * kSecondNs;

// What a column becomes: a counter in base units.
struct Quantity {
  std::string_view column;  // as the header has it, without its unit
  std::string_view counter;
  double factor = 1;  // of the number in the unit that nvidia-smi uses
};
constexpr std::array<Quantity, 4> kQueried{{
    {"utilization.gpu", "busy_share", 0.01},
    {"utilization.memory", "memory_busy_share", 0.01},
    {"memory.used", "used_bytes", 1048576},
    {"power.draw", "power_watts", 1},
}};
constexpr std::array<Quantity, 6> kMonitored{{
    {"sm", "busy_share", 0.01},
    {"mem", "memory_busy_share", 0.01},
    {"fb", "used_bytes", 1048576},
    {"pwr", "power_watts", 1},
    {"rxpci", "pcie_received_bytes_per_second", 1e6},
    {"txpci", "pcie_sent_bytes_per_second", 1e6},
}};

class SmiImport {
 public:
  SmiImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        host_(writer.add_track(TrackKind::kHost, kNoId, source.host)),
        value_(writer.key(trace::key::kValue, trace::ArgumentType::kReal)) {}

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) take(line);
    if (has_date_) writer_.clock({date_ns_, date_ns_, kZoneUncertaintyNs});
    return timeline_.write();
  }

 private:
  enum class Table { kNone, kQuery, kMonitor };

  void take(std::string_view line) {
    const std::string_view text = base::trim(line);
    if (text.starts_with("# gpu") || text.starts_with("#gpu") || text.starts_with("# Date") ||
        text.starts_with("#Date") || text.starts_with("# Time") || text.starts_with("#Time")) {
      begin_monitor(text);
    } else if (text.starts_with("timestamp,") || text.starts_with("index,") ||
               text.find("utilization.gpu") != std::string_view::npos) {
      begin_query(text);
    } else if (text.empty() || text.starts_with("##")) {
      table_ = Table::kNone;
    } else if (text[0] == '#') {
      return;  // units
    } else if (table_ == Table::kQuery) {
      query_row(text);
    } else if (table_ == Table::kMonitor) {
      monitor_row(text);
    } else {
      account_.skip("lines outside of tables");
    }
  }

  // "timestamp, index, utilization.gpu [%], memory.used [MiB]"
  void begin_query(std::string_view line) {
    header_ = csv_columns(line);
    for (std::string& column : header_) column = column.substr(0, column.find(' '));
    const bool has_quantity =
        std::any_of(header_.begin(), header_.end(), [](const std::string& column) {
          return std::any_of(kQueried.begin(), kQueried.end(),
                             [&](const Quantity& each) { return each.column == column; });
        });
    const bool has_time = std::find(header_.begin(), header_.end(), "timestamp") != header_.end();
    table_ = has_quantity && has_time ? Table::kQuery : Table::kNone;
  }

  void begin_monitor(std::string_view line) {
    if (line.starts_with('#')) line.remove_prefix(1);
    std::vector<std::string> header;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line))
      header.emplace_back(word);
    // The header comes again every twenty rows.
    if (table_ != Table::kMonitor) last_gpu_ = INT64_MAX;
    header_ = std::move(header);
    table_ = Table::kMonitor;
  }

  void query_row(std::string_view line) {
    const std::vector<std::string> columns = csv_columns(line);
    if (columns.size() < header_.size()) return account_.skip("rows that are cut");
    int64_t at = 0, index = 0;
    bool has_time = false;
    std::string name;
    for (size_t i = 0; i < header_.size(); ++i) {
      if (header_[i] == "timestamp") has_time = to_date(columns[i], at);
      if (header_[i] == "index" && !to_integer(columns[i], index)) index = 0;
      if (header_[i] == "name") name = columns[i];
      if (header_[i] == "hostname" && !columns[i].empty() && !columns[i].starts_with('['))
        writer_.rename(host_, clean_text(columns[i]));
    }
    if (!has_time) return account_.skip("rows without a time");
    set_date(at);
    const TrackId track = device(index, name);
    for (size_t i = 0; i < header_.size(); ++i) {
      for (const Quantity& quantity : kQueried) {
        if (quantity.column == header_[i]) add(track, quantity, columns[i], at);
      }
    }
  }

  void monitor_row(std::string_view line) {
    std::vector<std::string_view> columns;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line))
      columns.push_back(word);
    if (columns.size() < header_.size()) return account_.skip("rows that are cut");
    int64_t index = -1;
    std::string date, time;
    for (size_t i = 0; i < header_.size(); ++i) {
      if (header_[i] == "gpu" && !to_integer(columns[i], index)) index = -1;
      if (header_[i] == "Date") date = columns[i];
      if (header_[i] == "Time") time = columns[i];
    }
    if (index < 0) return account_.skip("rows that are cut");
    set_row_time(index, date, time);
    const TrackId track = device(index, {});
    for (size_t i = 0; i < header_.size(); ++i) {
      for (const Quantity& quantity : kMonitored) {
        if (quantity.column == header_[i]) add(track, quantity, columns[i], now_ns_);
      }
    }
  }

  // dmon prints dates and times only when asked (-o DT); else a round of rows each second.
  void set_row_time(int64_t index, const std::string& date, const std::string& time) {
    int64_t at = 0;
    if (date.size() == 8 && time.size() >= 8 &&
        to_date(fmt::format("{}-{}-{} {}", date.substr(0, 4), date.substr(4, 2), date.substr(6, 2),
                            time),
                at)) {
      set_date(at);
    } else if (time.size() >= 8 && to_date("1970-01-01 " + time, at)) {
      now_ns_ = std::max(now_ns_, at);
    } else if (index <= last_gpu_) {
      now_ns_ += is_first_row_ ? 0 : kSecondNs;
      account_.repair("rounds without a time: one second apart");
    }
    is_first_row_ = false;
    last_gpu_ = index;
  }

  void set_date(int64_t at) {
    if (!has_date_) date_ns_ = at;
    has_date_ = true;
    now_ns_ = at;
    is_first_row_ = false;
  }

  TrackId device(int64_t index, const std::string& name) {
    const auto [found, is_new] = devices_.emplace(index, kNoId);
    if (is_new) {
      const std::string text = name.empty() ? fmt::format("GPU {}", index) : clean_text(name);
      found->second = writer_.add_track(TrackKind::kDevice, host_, text, index);
    }
    return found->second;
  }

  // "100 %", "32362 MiB", "630.12 W", "[N/A]", "-"
  void add(TrackId track, const Quantity& quantity, std::string_view text, int64_t at) {
    std::string_view rest = text;
    double value = 0;
    if (!to_number(take_word(rest), value)) return account_.skip("values that are not available");
    const auto name = writer_.name(quantity.counter, Category::kUsage, EventKind::kCounter);
    const trace::Argument argument{value_, trace::real_bits(value * quantity.factor)};
    timeline_.add({track, name, at, 0}, EventKind::kCounter, {&argument, 1});
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  TrackId host_;
  trace::KeyId value_;
  Table table_ = Table::kNone;
  std::vector<std::string> header_;
  std::map<int64_t, TrackId> devices_;
  int64_t now_ns_ = 0, date_ns_ = 0;
  int64_t last_gpu_ = INT64_MAX;
  bool has_date_ = false, is_first_row_ = true;
};

bool recognises(std::string_view first, std::string_view /*name*/) {
  const std::string_view line = first.substr(0, first.find('\n'));
  const bool is_query =
      line.find("utilization.gpu") != std::string_view::npos ||
      (line.starts_with("timestamp,") && (line.find("memory.used") != std::string_view::npos ||
                                          line.find("power.draw") != std::string_view::npos));
  const bool is_monitor =
      line.starts_with('#') && line.find("gpu") != std::string_view::npos &&
      (line.find(" sm") != std::string_view::npos || line.find(" pwr") != std::string_view::npos ||
       line.find(" fb") != std::string_view::npos);
  return is_query || is_monitor || first.find("# $ nvidia-smi") != std::string_view::npos;
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return SmiImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kNvidiaSmi{.name = "nvidia-smi",
                          .summary = "nvidia-smi --query-gpu CSV and dmon tables",
                          .recognises = recognises,
                          .recognises_folder = nullptr,
                          .read = read};

}  // namespace forebay::ingest

// SOFA's tables: thirteen columns of CSV, one table a source (cputrace.csv, gputrace.csv, ...).
#include <fmt/core.h>

#include <array>
#include <map>

#include "base/text.h"
#include "ingest/builtin.h"
#include "ingest/columns.h"
#include "ingest/line_reader.h"
#include "ingest/meaning.h"
#include "ingest/timeline.h"

namespace forebay::ingest {
namespace {

using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

constexpr int64_t kUnixFromNs = 1'000'000'000'000'000'000;

enum Column : size_t {
  kTimestamp,
  kEvent,
  kDuration,
  kDevice,
  kCopyKind,
  kPayload,
  kBandwidth,
  kPacketFrom,
  kPacketTo,
  kPid,
  kTid,
  kName,
  kCategoryColumn,
  kColumns,
};

constexpr std::array<std::string_view, kColumns> kHeader{
    "timestamp", "event",   "duration", "deviceId", "copyKind", "payload", "bandwidth",
    "pkt_src",   "pkt_dst", "pid",      "tid",      "name",     "category"};

enum class Table { kProcessor, kAccelerator, kCalls, kPackets, kInterface, kSmi, kCores, kOther };

Table table_of(std::string_view path) {
  const auto is = [&](std::string_view part) { return path.find(part) != std::string_view::npos; };
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (is("cputrace")) return Table::kProcessor;
  if (is("gputrace")) return Table::kAccelerator;
  if (is("strace") || is("pystacks") || is("cuda_api")) return Table::kCalls;
  if (is("nettrace")) return Table::kPackets;
  if (is("netstat")) return Table::kInterface;
  if (is("nvsmi")) return Table::kSmi;
  if (is("mpstat")) return Table::kCores;
  return Table::kOther;
}

// The tables of one folder ("sofalog-10.0.0.7") are of one host.
std::string host_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos || slash == 0) return "host";
  const std::string folder = path.substr(0, slash);
  return clean_text(folder.substr(folder.find_last_of('/') + 1));
}

class SofaImport {
 public:
  SofaImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        host_(writer.add_track(TrackKind::kHost, kNoId, host_of(source.path))),
        table_(table_of(source.path)),
        bytes_(writer.key(trace::key::kBytes)),
        value_(writer.key(trace::key::kValue, ArgumentType::kReal)),
        stack_(writer.key(trace::key::kStack, ArgumentType::kStack)) {}

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) {
      if (base::trim(line).empty() || line.starts_with("timestamp,")) continue;
      const std::vector<std::string> columns = csv_columns(line);
      if (columns.size() < kColumns) {
        account_.skip("rows that are cut");
      } else {
        row(columns);
      }
    }
    if (is_unix_) writer_.clock({kUnixFromNs, kUnixFromNs, 1'000'000});
    return timeline_.write();
  }

 private:
  void row(const std::vector<std::string>& columns) {
    int64_t at = 0, duration = 0;
    if (!to_nanoseconds(columns[kTimestamp], at)) return account_.skip("events without a time");
    if (at >= kUnixFromNs) is_unix_ = true;
    to_nanoseconds(columns[kDuration], duration);
    switch (table_) {
      case Table::kProcessor:
        return sample(columns, at, duration);
      case Table::kAccelerator:
        return kernel(columns, at, duration);
      case Table::kCalls:
        return call(columns, at, duration);
      case Table::kPackets:
        return packet(columns, at);
      case Table::kInterface:
        return interface(columns, at);
      case Table::kSmi:
        return smi(columns, at);
      case Table::kCores:
        return core(columns, at);
      case Table::kOther:
        return account_.skip("rows of a table that is not read");
    }
  }

  static int64_t integer(const std::string& text, int64_t otherwise) {
    double value = 0;
    return to_number(text, value) && value > -9e18 && value < 9e18 ? static_cast<int64_t>(value)
                                                                   : otherwise;
  }

  TrackId track(TrackKind kind, TrackId parent, const std::string& text, int64_t number) {
    const auto [found, is_new] = tracks_.emplace(
        fmt::format("{} {} {} {}", static_cast<int>(kind), parent, text, number), kNoId);
    if (is_new) found->second = writer_.add_track(kind, parent, text, number);
    return found->second;
  }

  TrackId thread(const std::vector<std::string>& columns) {
    const int64_t pid = integer(columns[kPid], -1), tid = integer(columns[kTid], -1);
    const TrackId process = track(TrackKind::kProcess, host_, "process", pid);
    return track(TrackKind::kThread, process, "thread", tid >= 0 ? tid : pid);
  }

  void sample(const std::vector<std::string>& columns, int64_t at, int64_t duration) {
    // Where the machine has no counters, SOFA writes the logarithm of an address for a time.
    if (duration <= 0 || duration > 1'000'000'000) {
      account_.repair("samples whose duration is no time: 10 ms");
      duration = 10'000'000;
    }
    // "[event:]symbol+offset(module)"
    std::string_view text = columns[kName];
    std::string_view module;
    const size_t open = text.rfind('(');
    if (text.ends_with(')') && open != std::string_view::npos) {
      module = text.substr(open + 1, text.size() - open - 2);
      text = base::trim(text.substr(0, open));
    }
    text = text.substr(0, text.rfind("+0x"));
    trace::Frame frame{.kind = trace::FrameKind::kNative};
    if (module.starts_with("[kernel")) {
      frame.kind = trace::FrameKind::kKernel;
      module = "kernel";
    }
    frame.symbol = writer_.text(clean_text(text));
    frame.module = writer_.text(clean_text(module));
    frame.build_id = writer_.text("");
    const trace::Argument argument{stack_, writer_.stack(kNoId, writer_.frame(frame))};
    const auto name = writer_.name("sample", Category::kOnCpu, EventKind::kSample);
    timeline_.add({thread(columns), name, at, duration}, EventKind::kSample, {&argument, 1});
  }

  void kernel(const std::vector<std::string>& columns, int64_t at, int64_t duration) {
    const int64_t kind = integer(columns[kCopyKind], -1);
    const bool is_copy = kind == 1 || kind == 2 || kind == 8 || kind == 10;
    const int64_t index = integer(columns[kDevice], 0), stream = integer(columns[kTid], -1);
    const TrackId device = track(TrackKind::kDevice, host_, fmt::format("GPU {}", index), index);
    const TrackId on =
        track(TrackKind::kStream, device,
              stream < 0 ? std::string("stream") : fmt::format("stream {}", stream), stream);
    const std::string text = clean_text(columns[kName]);
    const auto name = writer_.name(text, is_copy ? Category::kCopy : category_of_kernel(text));
    const trace::Argument argument{bytes_, integer(columns[kPayload], 0)};
    add_span(on, name, at, duration, {&argument, is_copy ? size_t{1} : size_t{0}});
  }

  void call(const std::vector<std::string>& columns, int64_t at, int64_t duration) {
    const std::string text = clean_text(columns[kName]);
    const std::string call = text.substr(0, text.find('('));
    const bool is_api = call.starts_with("cu");
    Category category = is_api ? Category::kLaunch : category_of_call(call);
    if (category == Category::kOther && text.find(" = ") == std::string::npos)
      category = Category::kFunction;
    add_span(thread(columns), writer_.name(call, category), at, duration, {});
  }

  // Its duration assumes a speed that nobody measured; only the moment and the bytes are known.
  void packet(const std::vector<std::string>& columns, int64_t at) {
    const trace::Argument argument{bytes_, integer(columns[kPayload], 0)};
    const auto name = writer_.name("packet", Category::kNetwork, EventKind::kInstant);
    timeline_.add({track(TrackKind::kNetwork, host_, "network", -1), name, at, 0},
                  EventKind::kInstant, {&argument, 1});
  }

  void interface(const std::vector<std::string>& columns, int64_t at) {
    const bool is_sent = integer(columns[kEvent], 0) == 0;
    counter(track(TrackKind::kNetwork, host_, "network", -1),
            is_sent ? "sent_bytes_per_second" : "received_bytes_per_second", at,
            columns[kBandwidth], 1);
  }

  void smi(const std::vector<std::string>& columns, int64_t at) {
    const int64_t what = integer(columns[kEvent], -1);
    if (what != 0 && what != 1) return account_.skip("values that are not used");
    const int64_t index = integer(columns[kDevice], 0);
    counter(track(TrackKind::kDevice, host_, fmt::format("GPU {}", index), index),
            what == 0 ? "busy_share" : "memory_busy_share", at, columns[kDuration], 0.01);
  }

  // "mpstat_core3 (usr|sys|idl|iow|irq): |12|3|80|5|0|": percentages.
  void core(const std::vector<std::string>& columns, int64_t at) {
    const std::string& text = columns[kName];
    const size_t begin = text.find("): |");
    const int64_t index = integer(columns[kDevice], -1);
    std::vector<double> shares;
    if (begin != std::string::npos) {
      for (const std::string_view part :
           base::split(std::string_view(text).substr(begin + 4), '|')) {
        double value = 0;
        if (to_number(base::trim(part), value)) shares.push_back(value);
      }
    }
    if (shares.size() < 5 || index < 0) return account_.skip("values that are not used");
    counter(track(TrackKind::kCore, host_, "core", index), "busy_share", at,
            fmt::format("{}", shares[0] + shares[1] + shares[4]), 0.01);
  }

  void counter(TrackId on, std::string_view text, int64_t at, const std::string& number,
               double factor) {
    double value = 0;
    if (!to_number(number, value)) return account_.skip("values that are not available");
    const auto name = writer_.name(text, Category::kUsage, EventKind::kCounter);
    const trace::Argument argument{value_, trace::real_bits(value * factor)};
    timeline_.add({on, name, at, 0}, EventKind::kCounter, {&argument, 1});
  }

  void add_span(TrackId on, trace::NameId name, int64_t at, int64_t duration,
                std::span<const trace::Argument> arguments) {
    if (duration < 0) {
      account_.repair_negative(writer_.dictionary().text(writer_.dictionary().names[name]));
      duration = 0;
    }
    timeline_.add({on, name, at, duration}, EventKind::kSpan, arguments);
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  TrackId host_;
  Table table_;
  trace::KeyId bytes_, value_, stack_;
  std::map<std::string, TrackId> tracks_;
  bool is_unix_ = false;
};

bool recognises(std::string_view first, std::string_view /*name*/) {
  const std::vector<std::string> columns = csv_columns(first.substr(0, first.find('\n')));
  if (columns.size() < kColumns) return false;
  for (size_t i = 0; i < kColumns; ++i) {
    if (columns[i] != kHeader[i]) return false;
  }
  return true;
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return SofaImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kSofa{.name = "sofa",
                     .summary = "SOFA's CSV tables of thirteen columns",
                     .recognises = recognises,
                     .recognises_folder = nullptr,
                     .read = read};

}  // namespace forebay::ingest

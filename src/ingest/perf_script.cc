// Text of `perf script`: samples with their stacks, and other events as instants.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "ingest/builtin.h"
#include "ingest/line_reader.h"
#include "ingest/timeline.h"

namespace forebay::ingest {
namespace {

using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::FrameKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

constexpr int64_t kPeriodMaxNs = 20'000'000;
constexpr int64_t kPeriodFirstNs = 10'000'000;
constexpr size_t kFramesMax = 1024;

// "python3  4711/4713  [001] 12345.678901:     250000 cpu-clock:u:  ip symbol (module)"
struct Head {
  std::string_view command;
  int64_t pid = -1, tid = -1;
  int64_t time_ns = 0;
  int64_t period = -1;
  std::string_view event;
  std::string_view rest;  // one frame, where no stack follows
};

bool parse_pid(std::string_view word, Head& head) {
  const size_t slash = word.find('/');
  if (slash == std::string_view::npos) {
    if (!to_integer(word, head.tid)) return false;
    head.pid = head.tid;
    return true;
  }
  return to_integer(word.substr(0, slash), head.pid) &&
         to_integer(word.substr(slash + 1), head.tid);
}

bool parse_head(std::string_view line, Head& head) {
  // The command may hold blanks: the time, which ends with a colon, is the anchor.
  std::string_view rest = line;
  std::string_view before, last;
  bool has_cpu = false;
  while (true) {
    const std::string_view word = take_word(rest);
    if (word.empty()) return false;
    const bool is_time = word.size() > 2 && word.ends_with(':') &&
                         word.find('.') != std::string_view::npos &&
                         to_nanoseconds(word.substr(0, word.size() - 1), head.time_ns);
    if (is_time) break;
    has_cpu = word.starts_with('[') && word.ends_with(']');
    if (!has_cpu) {
      before = last;
      last = word;
    }
  }
  if (last.empty() || !parse_pid(last, head)) return false;
  head.command = base::trim(line.substr(0, static_cast<size_t>(last.data() - line.data())));
  std::string_view word = take_word(rest);
  if (to_integer(word, head.period)) word = take_word(rest);
  if (!word.ends_with(':')) return false;
  head.event = word.substr(0, word.size() - 1);
  head.rest = base::trim(rest);
  return true;
}

class PerfImport {
 public:
  PerfImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        host_(writer.add_track(TrackKind::kHost, kNoId, source.host)),
        stack_(writer.key(trace::key::kStack, ArgumentType::kStack)),
        sample_(writer.name("sample", Category::kOnCpu, EventKind::kSample)) {}

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) {
      if (line.starts_with('#')) continue;
      if (base::trim(line).empty()) {
        end_sample();
      } else if (line[0] == '\t' || line.starts_with("        ")) {
        if (!add_frame(base::trim(line))) head_or_skip(line);
      } else {
        head_or_skip(line);
      }
    }
    end_sample();
    return timeline_.write();
  }

 private:
  void head_or_skip(std::string_view line) {
    end_sample();
    Head head;
    if (!parse_head(line, head)) return account_.skip("lines that are no sample");
    thread_ = thread(head);
    tid_ = head.tid;
    time_ns_ = head.time_ns;
    period_ = head.period;
    event_ = head.event;
    has_sample_ = true;
    if (!head.rest.empty() && !is_tracepoint()) add_frame(head.rest);
  }

  bool is_tracepoint() const {
    // "sched:sched_switch"; modifiers as in "cycles:ppp" hold no second word.
    const size_t colon = event_.find(':');
    return colon != std::string::npos && event_.find('_', colon) != std::string::npos;
  }

  // "7f0c1a2b3c4d PyEval_EvalFrameDefault+0x1a (/usr/lib/libpython3.11.so)"
  bool add_frame(std::string_view text) {
    if (!has_sample_ || frames_.size() >= kFramesMax) return has_sample_;
    std::string_view rest = text;
    const std::string_view address = take_word(rest);
    if (address.empty() || address.find_first_not_of("0123456789abcdef") != std::string_view::npos)
      return false;
    rest = base::trim(rest);
    std::string_view module;
    if (rest.ends_with(')')) {
      const size_t open = rest.rfind(" (");
      const size_t begin = open == std::string_view::npos ? rest.find('(') : open + 1;
      if (begin != std::string_view::npos) {
        module = rest.substr(begin + 1, rest.size() - begin - 2);
        rest = base::trim(rest.substr(0, begin));
      }
    }
    const size_t plus = rest.rfind("+0x");
    if (plus != std::string_view::npos &&
        rest.find_first_not_of("0123456789abcdef", plus + 3) == std::string_view::npos) {
      rest = rest.substr(0, plus);
    }
    frames_.push_back(frame(rest, module));
    return true;
  }

  trace::FrameId frame(std::string_view symbol, std::string_view module) {
    trace::Frame frame{.kind = FrameKind::kNative};
    if (module.starts_with("[kernel") || module.starts_with("[guest.kernel") ||
        module.ends_with(".ko") || module.ends_with(".ko.xz") || module == "[vmlinux]") {
      frame.kind = FrameKind::kKernel;
      if (module.starts_with("[kernel")) module = "kernel";
    }
    if (symbol == "[unknown]") {
      symbol = {};
      if (module == "[unknown]") frame.kind = FrameKind::kUnknown;
    }
    if (module == "[unknown]") module = {};
    // The interpreter's map of its own functions: "py::decode:/data/train.py".
    if (symbol.starts_with("py::")) {
      symbol.remove_prefix(4);
      frame.kind = FrameKind::kPython;
      const size_t colon = symbol.find(':');
      if (colon != std::string_view::npos) {
        module = symbol.substr(colon + 1);
        symbol = symbol.substr(0, colon);
      }
    }
    frame.symbol = writer_.text(clean_text(symbol));
    frame.module = writer_.text(clean_text(module));
    frame.build_id = writer_.text("");
    return writer_.frame(frame);
  }

  void end_sample() {
    if (!has_sample_) return;
    has_sample_ = false;
    trace::StackId stack = kNoId;
    // The text begins with the innermost frame.
    for (auto at = frames_.rbegin(); at != frames_.rend(); ++at) stack = writer_.stack(stack, *at);
    frames_.clear();
    const trace::Argument argument{stack_, stack};
    const std::span<const trace::Argument> arguments(&argument, stack == kNoId ? 0 : 1);
    if (is_tracepoint()) {
      const auto name = writer_.name(clean_text(event_), Category::kOther, EventKind::kInstant);
      return timeline_.add({thread_, name, time_ns_, 0}, EventKind::kInstant, arguments);
    }
    timeline_.add({thread_, sample_, time_ns_, period_ns()}, EventKind::kSample, arguments);
  }

  // What a sample stands for. Clocks count nanoseconds; of other events only the distance between
  // samples says anything about time.
  int64_t period_ns() {
    int64_t& last = last_ns_.try_emplace(tid_, INT64_MIN).first->second;
    const int64_t distance =
        last == INT64_MIN ? kPeriodFirstNs : std::clamp<int64_t>(time_ns_ - last, 0, kPeriodMaxNs);
    last = time_ns_;
    if (period_ >= 0 && event_.find("clock") != std::string::npos) {
      return std::min<int64_t>(period_, 3'600'000'000'000);
    }
    account_.repair(
        "samples whose period is no time: distance to the sample before, at most 20 ms");
    return distance;
  }

  TrackId thread(const Head& head) {
    const auto [process, is_new] = processes_.emplace(head.pid, kNoId);
    const std::string command = clean_text(head.command);
    if (is_new) {
      process->second = writer_.add_track(TrackKind::kProcess, host_, command, head.pid);
    }
    const auto [found, is_new_thread] = threads_.emplace(std::pair(head.pid, head.tid), kNoId);
    if (is_new_thread) {
      found->second = writer_.add_track(TrackKind::kThread, process->second, command, head.tid);
    }
    return found->second;
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  TrackId host_;
  trace::KeyId stack_;
  trace::NameId sample_;
  std::map<int64_t, TrackId> processes_;
  std::map<std::pair<int64_t, int64_t>, TrackId> threads_;
  std::map<int64_t, int64_t> last_ns_;  // by tid
  std::vector<trace::FrameId> frames_;  // of the sample at hand, innermost first
  bool has_sample_ = false;
  TrackId thread_ = 0;
  int64_t tid_ = 0, time_ns_ = 0, period_ = -1;
  std::string event_;
};

bool recognises(std::string_view first, std::string_view /*name*/) {
  int lines = 0;
  while (!first.empty() && lines < 40) {
    const size_t end = first.find('\n');
    const std::string_view line = first.substr(0, end);
    Head head;
    if (!line.empty() && line[0] != '#') ++lines;
    if (lines <= 3 && parse_head(line, head)) return true;
    if (end == std::string_view::npos) break;
    first.remove_prefix(end + 1);
  }
  return false;
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return PerfImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kPerfScript{.name = "perf",
                           .summary = "text of perf script",
                           .recognises = recognises,
                           .recognises_folder = nullptr,
                           .read = read};

}  // namespace forebay::ingest

// Text of `strace -f -ttt -T`: one file of all processes, or one a process (-ff -o FILE).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ingest/builtin.h"
#include "ingest/descriptors.h"
#include "ingest/line_reader.h"
#include "ingest/meaning.h"
#include "ingest/strace_text.h"
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

constexpr int64_t kDayNs = int64_t{86400} * 1'000'000'000;
constexpr size_t kHeldBytesMax = 1 << 20;
constexpr size_t kUnfinishedMax = 1 << 16;  // calls at once; more threads no trace has

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "ENOENT" -> 2; 0 when it is no error's name.
int error_number(std::string_view name) {
  for (int number = 1; number < 140; ++number) {
    const char* const known = strerrorname_np(number);
    if (known != nullptr && name == known) return number;
  }
  return 0;
}

// "12:34:56.789012" or seconds.
bool to_time(std::string_view text, int64_t& out) {
  if (text.size() < 8 || text[2] != ':' || text[5] != ':') return to_nanoseconds(text, out);
  int64_t hours = 0, minutes = 0, seconds = 0;
  if (!to_integer(text.substr(0, 2), hours) || !to_integer(text.substr(3, 2), minutes) ||
      !to_nanoseconds(text.substr(6), seconds)) {
    return false;
  }
  out = (hours * 3600 + minutes * 60) * 1'000'000'000 + seconds;
  return true;
}

// A call as its line, or two, have it.
struct Call {
  std::string name;
  std::string arguments;  // up to the closing bracket
  int64_t start_ns = 0;
  std::string file = {};  // of its descriptor when it began; another may have the number later
  bool has_born = false;  // a thread or process that this call makes has spoken
};

// Makes a thread or process that inherits descriptors.
bool is_fork(std::string_view call) {
  return call == "clone" || call == "clone3" || call == "fork" || call == "vfork";
}

// Which argument of a call is the descriptor of the file that it is about; -1 none.
int descriptor_argument(std::string_view name, Category category) {
  if (name.starts_with("mmap")) return 4;
  if (name == "sendfile" || name == "sendfile64") return 1;
  if (name == "munmap" || name == "socket" || name == "socketpair") return -1;
  if (name == "ioctl") return 0;
  switch (category) {
    case Category::kRead:
    case Category::kWrite:
    case Category::kMetadata:
    case Category::kSync:
    case Category::kNetwork:
      return 0;
    default:
      return -1;
  }
}

// Whether the result of a call is bytes that it moved.
bool moves_bytes(std::string_view name) {
  for (const std::string_view part : {"read", "write", "send", "recv"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return name == "copy_file_range" || name == "splice" || name == "tee";
}

// Calls that hand over several messages tell how many, and behind each its length.
int64_t bytes_of_messages(std::string_view arguments) {
  constexpr std::string_view kLabel = "msg_len=";
  int64_t sum = 0;
  for (size_t at = arguments.find(kLabel); at != std::string_view::npos;
       at = arguments.find(kLabel, at + 1)) {
    const std::string_view rest = arguments.substr(at + kLabel.size());
    int64_t bytes = 0;
    if (to_integer(rest.substr(0, rest.find_first_not_of("0123456789")), bytes)) {
      sum = std::min(sum, INT64_MAX / 2) + std::min(bytes, int64_t{1} << 40);
    }
  }
  return sum;
}

struct Outcome {
  std::optional<int64_t> value;
  int error = 0;
  std::string path;  // what -y writes behind a descriptor
  std::optional<int64_t> duration_ns;
};

class StraceImport {
 public:
  StraceImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : writer_(writer),
        account_(account),
        timeline_(writer, account),
        host_(writer.add_track(TrackKind::kHost, kNoId, host_of(source.host))),
        bytes_(writer.key(trace::key::kBytes)),
        offset_(writer.key(trace::key::kOffset)),
        error_(writer.key(trace::key::kError)),
        child_(writer.key("child")),
        file_(writer.key(trace::key::kFile, ArgumentType::kText)) {
    // "strace.out.4711": the process that the whole file is of.
    const size_t dot = source.path.rfind('.');
    int64_t pid = 0;
    if (dot != std::string::npos && to_integer(source.path.substr(dot + 1), pid) && pid > 0)
      file_pid_ = pid;
  }

  Status read(ByteStream& bytes) {
    LineReader lines(bytes, account_);
    std::string_view line;
    while (lines.next(line)) take(line);
    while (!held_.empty()) release(held_.begin()->first);
    for (const auto& [tid, call] : pending_) {
      timeline_.add({thread(tid), name(call), call.start_ns, trace::kUnfinished}, EventKind::kSpan);
      account_.repair("calls that never ended: unfinished");
    }
    if (is_unix_) writer_.clock({first_ns_, first_ns_, 1000});
    return timeline_.write();
  }

 private:
  // A line behind its thread and time.
  struct Line {
    int64_t at_ns = 0;
    std::string rest;
  };

  // The files of one `-ff -o NAME` are of one host.
  static std::string host_of(const std::string& host) {
    const size_t dot = host.rfind('.');
    int64_t pid = 0;
    return dot != std::string::npos && to_integer(std::string_view(host).substr(dot + 1), pid)
               ? host.substr(0, dot)
               : host;
  }

  void take(std::string_view line) {
    std::string_view rest = line;
    int64_t tid = file_pid_;
    int64_t at = 0;
    std::string_view word = take_word(rest);
    if (word == "[pid") {
      word = take_word(rest);
      if (word.ends_with(']')) word.remove_suffix(1);
      if (!to_integer(word, tid)) return account_.skip("lines that are no call");
      word = take_word(rest);
    } else if (int64_t number = 0; to_integer(word, number)) {
      tid = number;
      word = take_word(rest);
    }
    if (!to_time(word, at)) {
      if (!line.empty()) account_.skip("lines that are no call");
      return;
    }
    at = without_midnight(at, word);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (is_placed(tid)) return take_call(tid, at, rest);
    held_[tid].push_back({at, std::string(rest)});
    held_bytes_ += rest.size() + sizeof(Line);
    if (held_bytes_ > kHeldBytesMax) release(tid);
  }

  void take_call(int64_t tid, int64_t at, std::string_view rest) {
    if (rest.starts_with("+++ ") || rest.starts_with("--- ")) return note(tid, at, rest);
    if (rest.starts_with("<... ")) return resume(tid, rest.substr(5));
    begin(tid, at, rest);
  }

  int64_t without_midnight(int64_t at, std::string_view word) {
    if (is_first_) {
      first_ns_ = at;
      is_first_ = false;
      is_unix_ =
          word.find(':') == std::string_view::npos && at > int64_t{1'000'000'000} * 1'000'000'000;
    }
    if (word.find(':') != std::string_view::npos) {
      if (at + days_ns_ < last_ns_ - kDayNs / 2) days_ns_ += kDayNs;
      at += days_ns_;
      last_ns_ = at;
    }
    return at;
  }

  // Whether it is known whose thread or process this is. One that speaks before the call that makes
  // it has returned is that call's; where several are under way its lines are held until one tells.
  bool is_placed(int64_t tid) {
    if (processes_.count(tid) > 0) return true;
    if (held_.count(tid) > 0) return false;
    Call* maker = nullptr;
    int64_t parent = 0;
    for (const int64_t thread : forking_) {
      const auto found = pending_.find(thread);
      if (found == pending_.end() || found->second.has_born) continue;
      if (maker != nullptr) return false;
      maker = &found->second;
      parent = thread;
    }
    if (maker == nullptr) {
      processes_[tid] = tid;
      return true;
    }
    maker->has_born = true;
    born(parent, tid, maker->arguments);
    return true;
  }

  // Gives up waiting for the call that made it, or has seen it.
  void release(int64_t tid) {
    processes_.emplace(tid, tid);
    const auto found = held_.find(tid);
    if (found == held_.end()) return;
    const std::vector<Line> lines = std::move(found->second);
    held_.erase(found);
    for (const Line& line : lines) {
      held_bytes_ -= line.rest.size() + sizeof(Line);
      take_call(tid, line.at_ns, line.rest);
    }
  }

  // "--- SIGCHLD {...} ---", "+++ exited with 0 +++", "+++ killed by SIGKILL +++"
  void note(int64_t tid, int64_t at, std::string_view rest) {
    const bool is_end = rest.starts_with("+++");
    rest.remove_prefix(4);
    const std::string_view what = take_word(rest);
    const std::string text = is_end ? "exit" : clean_text(what);
    timeline_.add({thread(tid), writer_.name(text, Category::kProcess, EventKind::kInstant), at, 0},
                  EventKind::kInstant);
    if (!is_end) return;
    // What it was in when it ended, lasted until then.
    if (const auto found = pending_.find(tid); found != pending_.end()) {
      if (at < found->second.start_ns) account_.repair_negative(found->second.name);
      timeline_.add({thread(tid), name(found->second), found->second.start_ns,
                     std::max<int64_t>(at - found->second.start_ns, 0)},
                    EventKind::kSpan);
      pending_.erase(found);
      forking_.erase(tid);
    }
    descriptors_.ended(tid);
    ended_.insert(tid);
  }

  void begin(int64_t tid, int64_t at, std::string_view rest) {
    const size_t open = rest.find('(');
    if (open == std::string_view::npos || open == 0 || open > 64) {
      return account_.skip("lines that are no call");
    }
    Call call{.name = clean_text(rest.substr(0, open)), .arguments = {}, .start_ns = at};
    rest.remove_prefix(open + 1);
    const std::optional<WrittenDescriptor> about = descriptor_of(call.name, rest);
    if (about) call.file = file_of(tid, *about);
    if (call.name == "close" && about) descriptors_.close(tid, about->number);
    constexpr std::string_view kUnfinished = "<unfinished ...>";
    if (rest.ends_with(kUnfinished)) {
      call.arguments = rest.substr(0, rest.size() - kUnfinished.size());
      thread(tid);
      if (pending_.size() >= kUnfinishedMax) return;
      if (is_fork(call.name)) forking_.insert(tid);
      pending_[tid] = std::move(call);
      return;
    }
    finish(tid, call, rest);
  }

  void resume(int64_t tid, std::string_view rest) {
    const auto found = pending_.find(tid);
    if (found == pending_.end()) return account_.skip("ends without a begin");
    Call call = std::move(found->second);
    pending_.erase(found);
    forking_.erase(tid);
    const size_t end = rest.find(" resumed>");
    if (end == std::string_view::npos) return account_.skip("lines that are no call");
    finish(tid, call, rest.substr(end + 9));
  }

  // "..., 832) = 832 <0.000010>", "= -1 ENOENT (No such file or directory) <0.000011>", "= ?"
  static Outcome outcome(std::string_view& arguments) {
    Outcome out;
    if (arguments.ends_with('>')) {
      const size_t open = arguments.rfind('<');
      int64_t duration = 0;
      if (open != std::string_view::npos &&
          to_nanoseconds(arguments.substr(open + 1, arguments.size() - open - 2), duration) &&
          duration >= 0) {
        out.duration_ns = duration;
        arguments = arguments.substr(0, open);
      }
    }
    const size_t equals = arguments.rfind(" = ");
    if (equals == std::string_view::npos) return out;
    std::string_view result = arguments.substr(equals + 3);
    arguments = arguments.substr(0, equals);
    while (arguments.ends_with(' ')) arguments.remove_suffix(1);
    if (arguments.ends_with(')')) arguments.remove_suffix(1);
    if (const auto made = written_descriptor(result); made && made->number >= 0) {
      out.value = made->number;
      out.path = made->name;
      return out;
    }
    int64_t value = 0;
    if (to_integer(take_word(result), value)) out.value = value;
    if (out.value && *out.value < 0) out.error = error_number(take_word(result));
    return out;
  }

  void finish(int64_t tid, Call& call, std::string_view rest) {
    const std::string all = call.arguments + std::string(rest);
    std::string_view arguments = all;
    const Outcome result = outcome(arguments);
    int64_t duration = result.duration_ns.value_or(0);
    if (!result.duration_ns && call.name != "exit" && call.name != "exit_group") {
      account_.repair("calls without a duration (strace -T was not given): taken as 0");
    }
    std::vector<trace::Argument> values;
    add_values(tid, call, arguments, result, values);
    timeline_.add({thread(tid), name(call, arguments), call.start_ns, duration}, EventKind::kSpan,
                  values);
    if (result.value && *result.value > 0 && is_fork(call.name)) {
      if (!call.has_born) born(tid, *result.value, arguments);
      release(*result.value);
    }
  }

  static std::optional<WrittenDescriptor> descriptor_of(const std::string& name,
                                                        std::string_view arguments) {
    const int which = descriptor_argument(name, category_of_call(name));
    if (which < 0) return std::nullopt;
    return written_descriptor(argument(arguments, static_cast<size_t>(which)));
  }

  // What -y says; of sockets the calls that made them say more.
  std::string file_of(int64_t tid, const WrittenDescriptor& descriptor) const {
    const std::string& known = descriptors_.name(tid, descriptor.number);
    const bool is_better = descriptor.name.empty() || descriptor.name.starts_with("socket:[");
    return is_better && !known.empty() ? known : descriptor.name;
  }

  void add_values(int64_t tid, const Call& call, std::string_view arguments, const Outcome& result,
                  std::vector<trace::Argument>& values) {
    if (result.error != 0) values.push_back({error_, result.error});
    const std::string_view name = call.name;
    const std::string path = path_of(tid, call, arguments);
    if (!path.empty()) values.push_back({file_, writer_.text(path)});
    if (!result.value || *result.value < 0) return;
    if (name.starts_with("execve") && *result.value == 0) executed(tid, path);
    descriptors_.take(tid, {name, arguments, *result.value, path, result.path});
    const Category category = category_of_call(name);
    if (category == Category::kRead || category == Category::kWrite ||
        category == Category::kNetwork) {
      add_bytes(name, arguments, *result.value, values);
    }
    if (is_fork(name) && *result.value > 0) values.push_back({child_, *result.value});
  }

  // The file that a call is about: named in its text, below a folder perhaps, or by a descriptor.
  std::string path_of(int64_t tid, const Call& call, std::string_view arguments) {
    const std::string_view name = call.name;
    const bool may_name =
        category_of_call(name) == Category::kMetadata || name.starts_with("execve");
    const std::optional<WrittenDescriptor> about = descriptor_of(call.name, arguments);
    const bool is_below = name.ends_with("at") || name.ends_with("at2") || name == "statx";
    if (may_name && (!about || about->number < 0 || is_below)) {
      const std::string text = quoted(arguments).value_or("");
      const bool is_whole = text.starts_with('/') || !call.file.starts_with('/');
      if (!text.empty()) return is_whole ? text : call.file + "/" + text;
    }
    if (!about || about->number < 0 || !call.file.empty()) return call.file;
    return learnt(tid, about->number, name, arguments);
  }

  // Of a descriptor that was open before the trace began: what the calls on it show.
  std::string learnt(int64_t tid, int64_t number, std::string_view name,
                     std::string_view arguments) {
    constexpr std::array<std::string_view, 3> kStreams{"stdin", "stdout", "stderr"};
    const auto shows = [&](std::string_view what) {
      return arguments.find(what) != std::string_view::npos;
    };
    const bool is_of_socket = category_of_call(name) == Category::kNetwork;
    std::string text;
    if (is_of_socket || shows("st_mode=S_IFSOCK")) {
      text = "socket";
    } else if (shows("st_mode=S_IFIFO")) {
      text = "pipe";
    } else if (number < 3 && !shows("st_mode=S_IFREG")) {
      text = kStreams[static_cast<size_t>(number)];
    } else if (shows("st_mode=S_IFCHR")) {
      text = "/dev/(unknown)";
    } else if (shows("st_mode=S_IFREG") || moves_bytes(name)) {
      text = fmt::format("(descriptor {} of {})", number, process(tid));
      account_.repair("descriptors opened before the trace: named for their number");
    }
    if (!text.empty()) descriptors_.learn(tid, number, text);
    return text;
  }

  void add_bytes(std::string_view name, std::string_view arguments, int64_t value,
                 std::vector<trace::Argument>& values) const {
    if (!moves_bytes(name)) return;
    const bool is_many = name == "sendmmsg" || name == "recvmmsg";
    values.push_back({bytes_, is_many ? bytes_of_messages(arguments) : value});
    if (!name.starts_with("pread") && !name.starts_with("pwrite")) return;
    int64_t offset = 0;
    if (to_integer(argument(arguments, 3), offset) && offset >= 0)
      values.push_back({offset_, offset});
  }

  // A thread shares its process's files; a child begins with a copy of them.
  void born(int64_t parent, int64_t child, std::string_view arguments) {
    const bool is_thread = arguments.find("CLONE_THREAD") != std::string_view::npos;
    if (processes_.count(child) > 0) {
      if (ended_.erase(child) == 0) return;  // it is at work: another call made it
      threads_.erase(child);                 // the number is used again
      process_tracks_.erase(child);
    }
    processes_[child] = is_thread ? process(parent) : child;
    descriptors_.born(parent, child, arguments.find("CLONE_FILES") != std::string_view::npos);
  }

  void executed(int64_t tid, const std::string& path) {
    descriptors_.executed(tid);
    if (path.empty()) return;
    const std::string name = path.substr(path.rfind('/') + 1);
    thread(tid);
    const auto track = process_tracks_.find(process(tid));
    if (track != process_tracks_.end()) writer_.rename(track->second, name);
    if (!has_command_) writer_.fact(trace::fact::kCommand, path);
    has_command_ = true;
  }

  int64_t process(int64_t tid) { return processes_.emplace(tid, tid).first->second; }

  TrackId thread(int64_t tid) {
    const auto found = threads_.find(tid);
    if (found != threads_.end()) return found->second;
    const int64_t pid = process(tid);
    const auto [above, is_new] = process_tracks_.emplace(pid, kNoId);
    if (is_new) above->second = writer_.add_track(TrackKind::kProcess, host_, "process", pid);
    const TrackId track = writer_.add_track(TrackKind::kThread, above->second, "thread", tid);
    threads_.emplace(tid, track);
    return track;
  }

  trace::NameId name(const Call& call, std::string_view arguments = {}) {
    Category category = category_of_call(call.name);
    const bool is_memory =
        call.name == "munmap" || (call.name.starts_with("mmap") &&
                                  arguments.find("MAP_ANONYMOUS") != std::string_view::npos);
    if (is_memory) category = Category::kOther;
    return writer_.name(call.name, category);
  }

  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  TrackId host_;
  trace::KeyId bytes_, offset_, error_, child_, file_;
  int64_t file_pid_ = 0;
  std::map<int64_t, Call> pending_;       // by thread
  std::set<int64_t> forking_;             // threads whose pending call makes another
  std::map<int64_t, int64_t> processes_;  // of threads
  std::map<int64_t, TrackId> threads_, process_tracks_;
  Descriptors descriptors_;
  std::set<int64_t> ended_;                    // threads whose end was seen
  std::map<int64_t, std::vector<Line>> held_;  // of threads that nobody is known to have made
  size_t held_bytes_ = 0;
  bool is_first_ = true, is_unix_ = false, has_command_ = false;
  int64_t first_ns_ = 0, last_ns_ = 0, days_ns_ = 0;
};

// "4711 1795989534.743402 read(3", "[pid 4711] 12:34:56.789 openat(", "1795989534.743402 brk("
bool is_call_line(std::string_view line) {
  std::string_view word = take_word(line);
  int64_t number = 0;
  if (word == "[pid") {
    take_word(line);
    word = take_word(line);
  } else if (to_integer(word, number)) {
    word = take_word(line);
  }
  if (word.find_first_of(".:") == std::string_view::npos || !to_time(word, number)) return false;
  while (line.starts_with(' ')) line.remove_prefix(1);
  if (line.starts_with("+++ ") || line.starts_with("--- SIG") || line.starts_with("<... "))
    return true;
  const size_t open = line.find('(');
  if (open == std::string_view::npos || open == 0 || open > 40) return false;
  for (const char c : line.substr(0, open)) {
    if ((c < 'a' || c > 'z') && !is_digit(c) && c != '_') return false;
  }
  return line.find(" = ", open) != std::string_view::npos || line.ends_with("<unfinished ...>");
}

bool recognises(std::string_view first, std::string_view /*name*/) {
  int calls = 0, lines = 0;
  while (!first.empty() && lines < 40) {
    const size_t end = first.find('\n');
    const std::string_view line = first.substr(0, end);
    if (!line.empty()) ++lines;
    if (is_call_line(line)) ++calls;
    if (end == std::string_view::npos) break;
    first.remove_prefix(end + 1);
  }
  return calls > 0 && calls * 2 >= lines;
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return StraceImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kStrace{.name = "strace",
                       .summary = "text of strace -f -ttt -T",
                       .recognises = recognises,
                       .recognises_folder = nullptr,
                       .read = read};

}  // namespace forebay::ingest

#include "record/call_log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "sys/clocks.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "sys/other_process.h"

namespace forebay::record {
namespace {

using trace::Category;

struct CallKind {
  std::string_view text;
  Category category;
  CallMeaning meaning;
};
#define FB_CALL_KIND(name, text, category, meaning) \
  CallKind{text, Category::k##category, CallMeaning::k##meaning},
constexpr std::array kCallKinds{FB_CALLS(FB_CALL_KIND)};
#undef FB_CALL_KIND
static_assert(kCallKinds.size() == static_cast<size_t>(Operation::kCount));

uint64_t load(const uint64_t& number) {
  return __atomic_load_n(&number, __ATOMIC_ACQUIRE);
}

bool needs_folder(std::string_view path) {
  return !path.starts_with('/');
}

bool is_tidy(std::string_view path) {
  return path.find("//") == std::string_view::npos && path.find("/.") == std::string_view::npos;
}

}  // namespace

struct CallLogReader::Process {
  int pid = 0;
  int logs = 0;
  std::string folder;   // that relative paths start from
  std::string program;  // its name; of a forked child its parent's
  std::unordered_map<uint32_t, trace::TextId> files;
  std::vector<uint32_t> closed_now,
      closed_before;  // numbers to forget, once all logs are past them
};

struct CallLogReader::Log {
  std::string name;
  sys::SharedFile file;                // of its own, if it has one
  std::optional<uint32_t> slot;        // else
  std::span<const std::byte> bytes{};  // all of it
  Process* process = nullptr;
  int64_t begun_ns = 0;
  uint64_t defined = 0, converted = 0, limit = 0;  // bytes of records
  int tid = 0;
  trace::TrackId track = trace::kNoId;
  bool is_over = false;  // nothing will follow
  bool is_damaged = false;

  const CallChunk& head() const { return *reinterpret_cast<const CallChunk*>(bytes.data()); }
  uint64_t used() const {
    const uint64_t room = bytes.size() - sizeof(CallChunk);
    return std::min(load(head().used), room);
  }
  // Whether nothing will follow. What another namespace calls its processes says nothing here.
  bool is_closed() const { return __atomic_load_n(&head().is_closed, __ATOMIC_ACQUIRE) != 0; }
  bool has_ended() const {
    if (is_closed()) return true;
    if (head().is_elsewhere != 0) return false;
    // A slot that makes no sense may still be written to: nobody else shall have it.
    return (is_over && !(slot && is_damaged)) || !sys::is_process_alive(process->pid);
  }
  // The record at `at` and its text; nothing when the bytes there are none. Moves `at` behind it.
  bool read(uint64_t& at, uint64_t limit_bytes, CallRecord& record, std::string_view& text) const {
    if (at > limit_bytes || limit_bytes - at < sizeof(CallRecord)) return false;
    const std::byte* from = bytes.data() + sizeof(CallChunk) + at;
    std::memcpy(&record, from, sizeof record);
    const uint64_t size = record_bytes(record.text_bytes);
    if (size > limit_bytes - at || record.operation >= kCallKinds.size()) return false;
    text = {reinterpret_cast<const char*>(from) + sizeof record, record.text_bytes};
    at += size;
    return true;
  }
};

struct CallLogReader::Names {
  explicit Names(trace::TraceWriter& writer)
      : file(writer.key(trace::key::kFile, trace::ArgumentType::kText)),
        bytes(writer.key(trace::key::kBytes)),
        offset(writer.key(trace::key::kOffset)),
        error(writer.key(trace::key::kError)),
        unfinished(writer.key(trace::key::kUnfinished)),
        child(writer.key("child")),
        fork(writer.name("fork", Category::kProcess, trace::EventKind::kInstant)),
        exec(writer.name("exec", Category::kProcess, trace::EventKind::kInstant)),
        closing_write(writer.name("fclose", Category::kWrite)) {
    for (size_t i = 0; i < kCallKinds.size(); ++i) {
      const Category category = kCallKinds[i].category;
      const bool is_of_files = category == Category::kRead || category == Category::kWrite;
      not_of_files[i] = is_of_files && kCallKinds[i].meaning == CallMeaning::kMoves
                            ? writer.name(kCallKinds[i].text, Category::kNetwork)
                            : trace::kNoId;
      calls[i] = kCallKinds[i].meaning == CallMeaning::kAbout
                     ? trace::kNoId
                     : writer.name(kCallKinds[i].text, kCallKinds[i].category);
    }
  }
  trace::KeyId file, bytes, offset, error, unfinished, child;
  trace::NameId fork, exec, closing_write;
  std::array<trace::NameId, kCallKinds.size()> calls{};
  std::array<trace::NameId, kCallKinds.size()> not_of_files{};  // of pipes and sockets, for counts
};

CallLogReader::CallLogReader(std::string folder, sys::SharedFile& control,
                             uint64_t events_per_second_max)
    : folder_(std::move(folder)), control_file_(control), budget_(events_per_second_max) {}
CallLogReader::~CallLogReader() = default;

CallLogReader::Process& CallLogReader::process(int pid) {
  auto& found = processes_[pid];
  if (!found) {
    found = std::make_unique<Process>();
    found->pid = pid;
  }
  return *found;
}

void CallLogReader::find_new_logs() {
  const auto names = sys::names_in(sys::kCurrentFolder, folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(".calls") || logs_.count(name) != 0) continue;
    auto file = sys::SharedFile::open(folder_ + "/" + name);
    if (!file.ok() || file->bytes().size() <= sizeof(CallChunk)) continue;  // not yet long enough
    auto log = std::make_unique<Log>();
    log->name = name;
    log->file = std::move(*file);
    log->bytes = log->file.bytes();
    if (load(log->head().magic) != kCallMagic) continue;  // not yet begun
    add_log(std::move(log));
  }
}

void CallLogReader::add_log(std::unique_ptr<Log> log) {
  const int pid = log->head().pid;
  log->process = &process(pid);
  ++log->process->logs;
  log->begun_ns = log->head().begun_ns;
  log->tid = pid;
  seen_.insert(pid);
  logs_.emplace(log->name, std::move(log));
}

void CallLogReader::find_new_slots() {
  const std::span<const std::byte> bytes = control_file_.bytes();
  if (bytes.size() < sizeof(CallControl)) return;
  const uint64_t count = (bytes.size() - sizeof(CallControl)) / kSlotBytes;
  uint64_t taken = 0;
  for (uint32_t slot = 0; slot < count; ++slot) {
    const int32_t owner = __atomic_load_n(&control().slot_owner[slot], __ATOMIC_ACQUIRE);
    if (owner == 0) continue;
    ++taken;
    std::string name = fmt::format("slot {}", slot);
    if (logs_.count(name) != 0) continue;
    auto log = std::make_unique<Log>();
    log->name = std::move(name);
    log->slot = slot;
    log->bytes = bytes.subspan(control_bytes(slot), kSlotBytes);
    if (load(log->head().magic) == kCallMagic)
      add_log(std::move(log));
    else if (!sys::is_process_alive(owner))  // it was killed before it began
      free_slot(slot);
  }
  // Where there is no room for more, programs make files.
  const uint64_t more = std::min<uint64_t>(count * 4, kSlotsMax);
  if (2 * taken <= count || !control_file_.grow(control_bytes(more)).ok()) return;
  __atomic_store_n(&control().slot_count, static_cast<uint32_t>(more), __ATOMIC_RELEASE);
}

void CallLogReader::free_slot(uint32_t slot) {
  auto& head = *reinterpret_cast<CallChunk*>(control_file_.data() + control_bytes(slot));
  head = {};
  __atomic_store_n(&control().slot_owner[slot], 0, __ATOMIC_RELEASE);
}

trace::TextId CallLogReader::path_text(Sink& sink, const Process& process, int64_t folder,
                                       std::string_view path) const {
  if (path.empty()) return trace::kNoId;
  if (!needs_folder(path) && is_tidy(path)) return sink.writer.text(path);
  std::string from = process.folder;
  if (folder > 0) {
    const auto found = process.files.find(static_cast<uint32_t>(folder));
    if (found == process.files.end()) return sink.writer.text(path);
    from = sink.writer.dictionary().texts[found->second];
  }
  const std::filesystem::path whole = std::filesystem::path(from) / std::filesystem::path(path);
  return sink.writer.text(whole.lexically_normal().string());
}

// What later records of any thread refer to: files and working folders.
void CallLogReader::define(Sink& sink, Log& log) {
  const uint64_t limit = log.used();
  Process& process = *log.process;
  CallRecord record{};
  std::string_view text;
  while (log.read(log.defined, limit, record, text)) {
    const auto operation = static_cast<Operation>(record.operation);
    if (operation == Operation::kFolder) {
      process.folder = std::string(text);
    } else if (operation == Operation::kFile) {
      process.files[record.file] = sink.writer.text(text);
    } else if (kCallKinds[record.operation].meaning == CallMeaning::kOpens && record.file != 0) {
      const trace::TextId path = path_text(sink, process, record.offset, text);
      if (path != trace::kNoId) process.files[record.file] = path;
    } else if (operation == Operation::kExec) {
      const bool is_name = text.find('/') == std::string_view::npos;
      started_.insert(is_name || text.starts_with('/') ? std::string(text)
                                                       : process.folder + "/" + std::string(text));
    } else if (operation == Operation::kFork) {
      const auto parent = processes_.find(static_cast<int>(record.result));
      if (parent == processes_.end()) continue;
      if (process.program.empty()) process.program = parent->second->program;
      if (process.folder.empty()) process.folder = parent->second->folder;
    } else if (operation == Operation::kProgram) {
      process.program = sys::program_named_by(std::string(text));
      // A new program in this process: the threads of the one before are gone.
      for (auto& [name, other] : logs_)
        if (other->process == log.process && other->begun_ns < log.begun_ns) other->is_over = true;
    }
  }
}

// A thread may have ended before its track is made: its program's name then stands for its own.
trace::TrackId CallLogReader::thread_track(Sink& sink, const Process& process, int tid) {
  std::string name = sys::thread_name(process.pid, tid);
  if (name.empty()) name = process.program;
  if (!process.program.empty()) sink.tracks.process(process.pid, process.program);
  return sink.tracks.thread(process.pid, tid, name);
}

void CallLogReader::take_about(Sink& sink, Log& log, const CallRecord& record) {
  const int pid = log.process->pid;
  switch (static_cast<Operation>(record.operation)) {
    case Operation::kThread:
      log.tid = static_cast<int>(record.result);
      log.track = thread_track(sink, *log.process, log.tid);
      return;
    case Operation::kProgram:
      sink.tracks.rename(pid, pid, log.process->program);
      sink.writer.add({.track = log.track,
                       .name = names_->exec,
                       .start_ns = record.start_ns,
                       .duration_ns = 0});
      return;
    case Operation::kFork:
      sink.writer.add({.track = sink.tracks.process(static_cast<int>(record.result)),
                       .name = names_->fork,
                       .start_ns = record.start_ns,
                       .duration_ns = 0},
                      {{names_->child, pid}});
      return;
    default:
      return;
  }
}

void CallLogReader::take_call(Sink& sink, Log& log, const CallRecord& record,
                              std::string_view text) {
  ++calls_;
  const CallKind& kind = kCallKinds[record.operation];
  Process& process = *log.process;
  const auto duration =
      static_cast<int64_t>(std::min<uint64_t>(record.duration_ns, INT64_MAX / 2));  // foreign bytes
  trace::NameId name = names_->calls[record.operation];
  const auto operation = static_cast<Operation>(record.operation);
  const bool moved = kind.meaning == CallMeaning::kMoves && record.result >= 0;
  if (operation == Operation::kFclose && record.result > 0) name = names_->closing_write;
  const bool closes = operation == Operation::kClose || operation == Operation::kFclose ||
                      operation == Operation::kClosedir;
  if (closes && record.file != 0) process.closed_now.push_back(record.file);
  if (!budget_.has_room(record.start_ns, duration)) {
    if (const trace::NameId other = names_->not_of_files[record.operation]; other != trace::kNoId) {
      // Counts have no file: the category says whether it is one.
      const auto found = process.files.find(record.file);
      const bool is_file = found == process.files.end() ||
                           sink.writer.dictionary().texts[found->second].starts_with('/');
      if (!is_file) name = other;
    }
    budget_.count(log.track, name, record.start_ns, duration, moved ? record.result : 0);
    return;
  }
  std::array<trace::Argument, 4> arguments;
  size_t count = 0;
  trace::TextId path = trace::kNoId;
  if (record.file != 0) {
    const auto found = process.files.find(record.file);
    if (found != process.files.end()) path = found->second;
  } else if (!text.empty()) {
    path = path_text(sink, process, record.offset, text);
  }
  if (path != trace::kNoId) arguments[count++] = {names_->file, path};
  if (moved && (operation != Operation::kFclose || record.result > 0))
    arguments[count++] = {names_->bytes, record.result};
  if (record.offset >= 0 && text.empty()) arguments[count++] = {names_->offset, record.offset};
  if (record.result < 0) arguments[count++] = {names_->error, -record.result};
  sink.writer.add(
      {.track = log.track, .name = name, .start_ns = record.start_ns, .duration_ns = duration},
      std::span(arguments).first(count));
}

void CallLogReader::convert(Sink& sink, Log& log) {
  if (log.track == trace::kNoId) log.track = thread_track(sink, *log.process, log.tid);
  CallRecord record{};
  std::string_view text;
  while (log.read(log.converted, log.limit, record, text)) {
    if (kCallKinds[record.operation].meaning == CallMeaning::kAbout)
      take_about(sink, log, record);
    else
      take_call(sink, log, record, text);
  }
  if (log.converted < log.limit) {  // whole records always fill what is used
    ++damaged_logs_;
    log.converted = log.limit;
    log.is_over = log.is_damaged = true;
  }
}

// The call that a thread is in, up to now.
void CallLogReader::take_under_way(Sink& sink, const Log& log, int64_t now_ns) const {
  const auto began = [&] { return __atomic_load_n(&log.head().under_way_ns, __ATOMIC_ACQUIRE); };
  const int64_t start_ns = began();
  uint64_t behind = log.used();
  CallRecord record{};
  std::string_view text;
  if (start_ns <= 0 || start_ns > now_ns || log.is_closed() || log.is_damaged ||
      !log.read(behind, log.bytes.size() - sizeof(CallChunk), record, text))
    return;
  const std::string own_text(text);
  if (began() != start_ns) return;  // it returned meanwhile
  const CallKind& kind = kCallKinds[record.operation];
  if (kind.meaning == CallMeaning::kAbout) return;
  std::array<trace::Argument, 3> arguments;
  size_t count = 0;
  arguments[count++] = {names_->unfinished, 1};
  const auto file = log.process->files.find(record.file);
  const trace::TextId path = file != log.process->files.end()
                                 ? file->second
                                 : path_text(sink, *log.process, record.offset, own_text);
  if (path != trace::kNoId) arguments[count++] = {names_->file, path};
  if (record.offset >= 0 && own_text.empty()) arguments[count++] = {names_->offset, record.offset};
  sink.writer.add({.track = log.track,
                   .name = names_->calls[record.operation],
                   .start_ns = start_ns,
                   .duration_ns = now_ns - start_ns},
                  std::span(arguments).first(count));
}

void CallLogReader::tell_under_way(Sink& sink) {
  const int64_t now_ns = sys::monotonic_ns();
  for (const auto& [name, log] : logs_)
    if (!log->has_ended()) take_under_way(sink, *log, now_ns);
}

void CallLogReader::remove_finished(Sink& sink) {
  for (auto at = logs_.begin(); at != logs_.end();) {
    Log& log = *at->second;
    // In this order: what is written before the end must not be missed.
    if (!log.has_ended() || log.converted < log.used()) {
      ++at;
      continue;
    }
    // Killed in a call, or ended by another thread.
    if (!log.is_over) take_under_way(sink, log, sys::monotonic_ns());
    if (log.slot)
      free_slot(*log.slot);
    else
      sys::remove_file(sys::kCurrentFolder, folder_ + "/" + log.name)
          .ignore("it is only in the way");
    --log.process->logs;
    at = logs_.erase(at);
  }
  std::erase_if(processes_, [](const auto& entry) {
    return entry.second->logs == 0 && !sys::is_process_alive(entry.first);
  });
}

Status CallLogReader::poll(Sink& sink) {
  if (!names_) names_ = std::make_unique<Names>(sink.writer);
  find_new_slots();
  find_new_logs();
  // What a record refers to was written before it, perhaps by another thread into another log: all
  // limits are taken first, then all definitions, which may reach further.
  for (auto& [name, log] : logs_) log->limit = log->used();
  for (auto& [name, log] : logs_) define(sink, *log);
  for (auto& [name, log] : logs_) convert(sink, *log);
  for (auto& [pid, process] : processes_) {
    for (const uint32_t number : process->closed_before) process->files.erase(number);
    process->closed_before = std::move(process->closed_now);
    process->closed_now.clear();
  }
  budget_.write(sink.writer);
  remove_finished(sink);
  return {};
}

}  // namespace forebay::record

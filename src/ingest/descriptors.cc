#include "ingest/descriptors.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "ingest/line_reader.h"
#include "ingest/strace_text.h"

namespace forebay::ingest {
namespace {

constexpr size_t kDescriptorsMax = size_t{1} << 20;
constexpr size_t kInFlightMax = 1024;

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Of the flags of any call that makes descriptors: O_, SOCK_, EFD_, TFD_, MFD_, ... CLOEXEC.
bool closes_on_exec(std::string_view arguments) {
  return holds(arguments, "CLOEXEC");
}

// Calls whose result is a descriptor of no file. Those of the second kind always close on exec.
struct Anonymous {
  std::string_view call, name;
  bool always_closes = false;
};
constexpr std::array<Anonymous, 16> kAnonymous{{
    {"eventfd", "anon_inode:[eventfd]"},
    {"eventfd2", "anon_inode:[eventfd]"},
    {"epoll_create", "anon_inode:[eventpoll]"},
    {"epoll_create1", "anon_inode:[eventpoll]"},
    {"timerfd_create", "anon_inode:[timerfd]"},
    {"signalfd", "anon_inode:[signalfd]"},
    {"signalfd4", "anon_inode:[signalfd]"},
    {"inotify_init", "anon_inode:inotify"},
    {"inotify_init1", "anon_inode:inotify"},
    {"fanotify_init", "anon_inode:[fanotify]"},
    {"perf_event_open", "anon_inode:[perf_event]"},
    {"userfaultfd", "anon_inode:[userfaultfd]"},
    {"io_uring_setup", "anon_inode:[io_uring]", true},
    {"landlock_create_ruleset", "anon_inode:[landlock-ruleset]", true},
    {"mq_open", "anon_inode:[mqueue]", true},
    {"seccomp", "anon_inode:[seccomp]", true},
}};

std::string_view family_of(std::string_view socket_arguments) {
  if (holds(socket_arguments, "AF_UNIX") || holds(socket_arguments, "AF_LOCAL")) return "unix:";
  if (holds(socket_arguments, "AF_NETLINK")) return "netlink:";
  if (!holds(socket_arguments, "AF_INET")) return "socket:";
  return holds(socket_arguments, "SOCK_DGRAM") ? "udp:" : "tcp:";
}

// "tcp:10.0.0.1:80" -> "tcp:"
std::string kind_of(const std::string& name) {
  const size_t colon = name.find(':');
  return colon == std::string::npos ? "socket:" : name.substr(0, colon + 1);
}

bool is_socket_kind(const std::string& kind) {
  return kind == "tcp:" || kind == "udp:" || kind == "unix:" || kind == "netlink:";
}

std::string name_of(const WrittenAddress& address, const std::string& kind) {
  if (address.is_unix) return "unix:" + address.text;
  return (is_socket_kind(kind) ? kind : "socket:") + address.text;
}

}  // namespace

Descriptors::Table& Descriptors::table(int64_t tid) {
  std::shared_ptr<Table>& found = tables_[tid];
  if (!found) found = std::make_shared<Table>();
  return *found;
}

const Descriptors::Descriptor* Descriptors::find(int64_t tid, int64_t number) const {
  const auto table = tables_.find(tid);
  if (table == tables_.end()) return nullptr;
  const auto found = table->second->find(number);
  return found == table->second->end() ? nullptr : &found->second;
}

const std::string& Descriptors::name(int64_t tid, int64_t number) const {
  static const std::string unknown;
  const Descriptor* const found = find(tid, number);
  return found == nullptr ? unknown : found->name;
}

void Descriptors::learn(int64_t tid, int64_t number, std::string_view name) {
  if (find(tid, number) == nullptr) set(tid, number, {.name = std::string(name)});
}

void Descriptors::set(int64_t tid, int64_t number, Descriptor descriptor) {
  if (number < 0) return;
  Table& all = table(tid);
  const auto found = all.find(number);
  if (found != all.end()) {
    found->second = std::move(descriptor);
  } else if (count_ < kDescriptorsMax) {
    all.emplace(number, std::move(descriptor));
    ++count_;
  }
}

void Descriptors::close(int64_t tid, int64_t number) {
  count_ -= table(tid).erase(number);
}

void Descriptors::born(int64_t parent, int64_t child, bool shares) {
  ended(child);  // one of that number before it
  table(parent);
  const std::shared_ptr<Table>& from = tables_[parent];
  if (shares) {
    tables_[child] = from;
  } else if (count_ + from->size() <= kDescriptorsMax) {
    count_ += from->size();
    tables_[child] = std::make_shared<Table>(*from);
  }
}

void Descriptors::own_table(int64_t tid) {
  table(tid);
  std::shared_ptr<Table>& mine = tables_[tid];
  if (mine.use_count() == 1) return;
  const bool has_room = count_ + mine->size() <= kDescriptorsMax;
  mine = has_room ? std::make_shared<Table>(*mine) : std::make_shared<Table>();
  count_ += mine->size();
}

void Descriptors::executed(int64_t tid) {
  own_table(tid);
  count_ -= std::erase_if(table(tid), [](const auto& each) { return each.second.closes_on_exec; });
}

void Descriptors::ended(int64_t tid) {
  const auto found = tables_.find(tid);
  if (found == tables_.end()) return;
  if (found->second.use_count() == 1) count_ -= found->second->size();
  tables_.erase(found);
}

void Descriptors::take(int64_t tid, const EndedCall& call) {
  if (!made(tid, call)) changed(tid, call);
}

// Calls that give new descriptors.
bool Descriptors::made(int64_t tid, const EndedCall& call) {
  const std::string_view name = call.name;
  const auto give = [&](std::string text, bool always_closes = false, int64_t pid = -1) {
    if (!call.result.empty() && !call.result.starts_with("socket:[")) text = call.result;
    set(tid, call.value, {std::move(text), always_closes || closes_on_exec(call.arguments), pid});
    return true;
  };
  if (name == "open" || name == "openat" || name == "openat2" || name == "creat") {
    return give(std::string(call.path));
  }
  if (name == "memfd_create") return give("/memfd:" + quoted(call.arguments).value_or(""));
  if (name == "memfd_secret") return give("/memfd:secretmem");
  if (name == "open_by_handle_at" || name == "open_tree") return give(std::string(call.path));
  if (name == "socket") return give(std::string(family_of(call.arguments)));
  if (name == "accept" || name == "accept4") {
    const auto listener = written_descriptor(call.arguments);
    const std::string kind = kind_of(listener ? this->name(tid, listener->number) : "");
    const auto address = written_address(call.arguments);
    return give(address ? name_of(*address, kind) : kind);
  }
  if (name == "pipe" || name == "pipe2") return made_pair(tid, call, "pipe"), true;
  if (name == "socketpair") {
    return made_pair(tid, call, std::string(family_of(call.arguments))), true;
  }
  if (name == "pidfd_open") {
    int64_t pid = -1;
    to_integer(argument(call.arguments, 0), pid);
    return give(fmt::format("pidfd:{}", pid), true, pid);
  }
  if (name.starts_with("dup") || name == "fcntl" || name == "fcntl64" || name == "pidfd_getfd") {
    return copied(tid, call), true;
  }
  for (const Anonymous& each : kAnonymous) {
    if (each.call != name) continue;
    // seccomp gives one only when it is asked to.
    if (name == "seccomp" && !holds(call.arguments, "NEW_LISTENER")) return true;
    return give(std::string(each.name), each.always_closes);
  }
  return false;
}

// Calls that change what descriptors name, or pass them on.
bool Descriptors::changed(int64_t tid, const EndedCall& call) {
  const std::string_view name = call.name;
  if (name == "connect" || name == "bind") return connected(tid, call), true;
  if (name == "sendmsg" || name == "sendmmsg") return sent(tid, call), true;
  if (name == "recvmsg" || name == "recvmmsg") return received(tid, call), true;
  if (name == "close_range") return close_range(tid, call), true;
  if (name == "unshare" && holds(call.arguments, "CLONE_FILES")) return own_table(tid), true;
  const bool sets = holds(call.arguments, "FIOCLEX"), clears = holds(call.arguments, "FIONCLEX");
  if (name != "ioctl" || (!sets && !clears)) return false;
  const auto which = written_descriptor(call.arguments);
  if (!which || find(tid, which->number) == nullptr) return true;
  table(tid)[which->number].closes_on_exec = sets;
  return true;
}

void Descriptors::made_pair(int64_t tid, const EndedCall& call, const std::string& name) {
  const std::string_view pair = argument(call.arguments, call.name == "socketpair" ? 3 : 0);
  for (const WrittenDescriptor& each : descriptors_behind(pair, "")) {
    const bool is_told = !each.name.empty() && !each.name.starts_with("socket:[");
    set(tid, each.number, {is_told ? each.name : name, closes_on_exec(call.arguments)});
  }
}

void Descriptors::copied(int64_t tid, const EndedCall& call) {
  const auto from = written_descriptor(call.arguments);
  if (!from) return;
  const Descriptor* known = find(tid, from->number);
  const std::string_view command = argument(call.arguments, 1);
  bool closes = closes_on_exec(call.arguments);
  if (call.name.starts_with("fcntl") && command == "F_SETFD") {
    if (known != nullptr) table(tid)[from->number].closes_on_exec = closes;
    return;
  }
  if (call.name.starts_with("fcntl") && !command.starts_with("F_DUPFD")) return;
  if (call.name == "dup2" && from->number == call.value) return;
  Descriptor copy;
  if (call.name == "pidfd_getfd") {
    int64_t number = -1;
    to_integer(command, number);
    known = known == nullptr ? nullptr : find(known->pid, number);
    closes = true;
  } else {
    copy.name = from->name;
  }
  if (known != nullptr) copy = *known;
  if (!call.result.empty()) copy.name = call.result;
  copy.closes_on_exec = closes;
  // A copy of what is not known is not known either, whatever the number named before.
  if (copy.name.empty()) return close(tid, call.value);
  set(tid, call.value, std::move(copy));
}

void Descriptors::connected(int64_t tid, const EndedCall& call) {
  const auto which = written_descriptor(call.arguments);
  const auto address = written_address(call.arguments);
  if (!which || !address) return;
  const Descriptor* const known = find(tid, which->number);
  const bool closes = known != nullptr && known->closes_on_exec;
  set(tid, which->number,
      {name_of(*address, kind_of(known == nullptr ? "" : known->name)), closes});
}

// Descriptors that one process passes to another through a socket.
void Descriptors::sent(int64_t tid, const EndedCall& call) {
  if (!holds(call.arguments, "SCM_RIGHTS")) return;
  for (const WrittenDescriptor& each : descriptors_behind(call.arguments, "cmsg_data=")) {
    const std::string& known = name(tid, each.number);
    if (in_flight_.size() < kInFlightMax) in_flight_.push_back(known.empty() ? each.name : known);
  }
}

void Descriptors::received(int64_t tid, const EndedCall& call) {
  if (!holds(call.arguments, "SCM_RIGHTS")) return;
  const auto all = descriptors_behind(call.arguments, "cmsg_data=");
  // Of several on their way nobody says which ones these are.
  const bool is_sure = in_flight_.size() == all.size();
  for (const WrittenDescriptor& each : all) {
    std::string text = each.name;
    if (text.empty() && is_sure) text = in_flight_.front();
    if (!in_flight_.empty()) in_flight_.pop_front();
    if (text.empty()) {
      close(tid, each.number);
    } else {
      set(tid, each.number, {std::move(text), closes_on_exec(call.arguments)});
    }
  }
}

void Descriptors::close_range(int64_t tid, const EndedCall& call) {
  int64_t first = 0, last = INT64_MAX;
  if (!to_integer(argument(call.arguments, 0), first)) return;
  to_integer(argument(call.arguments, 1), last);
  if (holds(call.arguments, "CLOSE_RANGE_UNSHARE")) own_table(tid);
  const bool is_later = holds(call.arguments, "CLOSE_RANGE_CLOEXEC");
  Table& all = table(tid);
  for (auto at = all.lower_bound(first); at != all.end() && at->first <= last;) {
    if (is_later) {
      at->second.closes_on_exec = true;
      ++at;
    } else {
      at = all.erase(at);
      --count_;
    }
  }
}

}  // namespace forebay::ingest

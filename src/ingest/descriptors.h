// Which file each descriptor of each process names, followed through the calls of a trace of system
// calls: opened, copied, passed on, inherited, closed.
//
// One thread at a time. Memory: at most 1,048,576 descriptors over all processes; those beyond are
// not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace forebay::ingest {

// A call that ended well.
struct EndedCall {
  std::string_view name;       // "openat"
  std::string_view arguments;  // as strace writes them
  int64_t value = 0;
  std::string_view path;    // that it names, if it names one
  std::string_view result;  // what -y says of the descriptor it gives
};

class Descriptors {
 public:
  // Of a thread's descriptor; empty when it was not seen being made.
  const std::string& name(int64_t tid, int64_t number) const;
  // What a call that shows what kind of file a descriptor is says of one that is not known.
  void learn(int64_t tid, int64_t number, std::string_view name);

  void take(int64_t tid, const EndedCall& call);
  // When the call begins: the number may be another file's before it returns.
  void close(int64_t tid, int64_t number);
  // A thread or process; a thread shares its parent's table, a process begins with a copy.
  void born(int64_t parent, int64_t child, bool shares);
  void executed(int64_t tid);  // those with CLOEXEC are closed
  void ended(int64_t tid);

 private:
  struct Descriptor {
    std::string name;
    bool closes_on_exec = false;
    int64_t pid = -1;  // of a pidfd
  };
  using Table = std::map<int64_t, Descriptor>;

  Table& table(int64_t tid);
  const Descriptor* find(int64_t tid, int64_t number) const;
  void set(int64_t tid, int64_t number, Descriptor descriptor);
  void own_table(int64_t tid);  // no longer shared
  void made_pair(int64_t tid, const EndedCall& call, const std::string& name);
  void copied(int64_t tid, const EndedCall& call);
  void connected(int64_t tid, const EndedCall& call);
  void sent(int64_t tid, const EndedCall& call);
  void received(int64_t tid, const EndedCall& call);
  void close_range(int64_t tid, const EndedCall& call);
  bool made(int64_t tid, const EndedCall& call);
  bool changed(int64_t tid, const EndedCall& call);

  std::map<int64_t, std::shared_ptr<Table>> tables_;  // by thread
  std::deque<std::string> in_flight_;                 // names of what was sent and not yet received
  size_t count_ = 0;
};

}  // namespace forebay::ingest

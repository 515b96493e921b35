// The tracks of a recording on this host, shared by all collectors: one for each process, thread,
// core, disk, interface and device that something is said about.
//
// One thread at a time; the writer must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "trace/writer.h"

namespace forebay::record {

class Tracks {
 public:
  // rank: of all processes, in a job of several; -1 none.
  Tracks(trace::TraceWriter& writer, std::string_view host_name, int32_t rank = -1);

  trace::TrackId host() const { return host_; }
  // Made at the first call, named as /proc says (the program's file name and first script, or the
  // thread's comm), or by `name` where that is given.
  trace::TrackId process(int pid, std::string_view name = {});
  trace::TrackId thread(int pid, int tid, std::string_view name = {});
  // A track below a process that is no thread: "io_uring".
  trace::TrackId below(trace::TrackId parent, trace::TrackKind kind, std::string_view name,
                       int64_t number = -1);
  trace::TrackId core(int index);
  trace::TrackId block_device(uint32_t major, uint32_t minor, std::string_view name);
  trace::TrackId network(std::string_view name);
  trace::TrackId device(int index, std::string_view name);  // an accelerator

  // After an exec or prctl: the name that /proc shows now, or the one given.
  void rename(int pid, int tid, std::string_view name = {});

 private:
  trace::TraceWriter& writer_;
  trace::TrackId host_;
  const int32_t rank_;
  std::map<int, trace::TrackId> processes_;
  std::map<std::pair<int, int>, trace::TrackId> threads_;
  std::map<std::pair<trace::TrackId, std::string>, trace::TrackId> others_;
};

}  // namespace forebay::record

// Turns the interposer's call logs into events while the program still writes them.
//
// One thread at a time. Foreign bytes: the observed program may have overwritten anything. A log
// that makes no sense is given up where it stops making sense, and counted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/call_log.h"
#include "record/collector.h"
#include "record/event_budget.h"
#include "sys/shared_file.h"

namespace forebay::record {

class CallLogReader {
 public:
  // `control` is FOLDER/control, as the programs see it; it must outlive the reader.
  CallLogReader(std::string folder, sys::SharedFile& control, uint64_t events_per_second_max);
  ~CallLogReader();

  // Takes what the logs hold now.
  Status poll(Sink& sink);
  // The recording ends: tells the calls that have not returned.
  void tell_under_way(Sink& sink);

  uint64_t calls() const { return calls_; }
  uint64_t damaged_logs() const { return damaged_logs_; }
  // Whether this process ever wrote a log.
  bool has_seen(int pid) const { return seen_.count(pid) != 0; }
  // Programs that were started from observed ones, as they were named, each once over all calls.
  std::set<std::string> take_started() { return std::exchange(started_, {}); }

 private:
  struct Process;
  struct Log;

  void find_new_logs();
  void find_new_slots();
  void add_log(std::unique_ptr<Log> log);
  CallControl& control() { return *reinterpret_cast<CallControl*>(control_file_.data()); }
  void free_slot(uint32_t slot);
  void define(Sink& sink, Log& log);
  void convert(Sink& sink, Log& log);
  static trace::TrackId thread_track(Sink& sink, const Process& process, int tid);
  void take_about(Sink& sink, Log& log, const CallRecord& record);
  void take_call(Sink& sink, Log& log, const CallRecord& record, std::string_view text);
  trace::TextId path_text(Sink& sink, const Process& process, int64_t folder,
                          std::string_view path) const;
  void take_under_way(Sink& sink, const Log& log, int64_t now_ns) const;
  void remove_finished(Sink& sink);
  Process& process(int pid);

  const std::string folder_;
  sys::SharedFile& control_file_;
  EventBudget budget_;
  std::map<std::string, std::unique_ptr<Log>> logs_;  // by file name
  std::map<int, std::unique_ptr<Process>> processes_;
  std::set<int> seen_;
  std::set<std::string> started_;
  struct Names;
  std::unique_ptr<Names> names_;
  uint64_t calls_ = 0;
  uint64_t damaged_logs_ = 0;
};

}  // namespace forebay::record

// Turns the marks that a program writes (include/forebay/mark.h, python/forebay) into events:
// ranges become spans, moments instants.
//
// One thread at a time. Foreign bytes: lines that are no marks are counted and passed over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/collector.h"

namespace forebay::record {

// Step when the text says so, and its number: "step 12", "iteration", "ProfilerStep#7".
struct MarkMeaning {
  trace::Category category = trace::Category::kAnnotation;
  std::string text;     // without the number of a step
  int64_t number = -1;  // of the step; -1 none
};
MarkMeaning meaning_of_mark(std::string_view text);

class MarkReader {
 public:
  explicit MarkReader(std::string folder) : folder_(std::move(folder)) {}

  // Takes what was written since the last call.
  Status poll(Sink& sink);
  // Ranges that never ended last until now, with no end known.
  void end(Sink& sink);

  uint64_t marks() const { return marks_; }
  uint64_t damaged_lines() const { return damaged_lines_; }

 private:
  struct Range {
    std::string text;
    int64_t start_ns = 0;
  };
  struct File {
    int pid = 0;
    uint64_t at = 0;
    std::string rest;  // the beginning of a line
  };
  void take_line(Sink& sink, int pid, std::string_view line);
  void add(Sink& sink, int pid, int tid, std::string_view text, int64_t start_ns,
           int64_t duration_ns, trace::EventKind kind);
  // What another program wrote in place of numbers is no mark.
  static bool parse(std::string_view line, char& kind, int64_t& at_ns, int& tid,
                    std::string_view& text);

  std::string folder_;
  std::map<std::string, File> files_;
  std::map<std::pair<int, int>, std::vector<Range>> open_;  // by pid and tid, the outermost first
  uint64_t marks_ = 0, damaged_lines_ = 0;
};

}  // namespace forebay::record

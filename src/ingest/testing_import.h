// For tests only: one import in memory, and its events as plain values.
//
// One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/importer.h"
#include "trace/model.h"
#include "trace/reader.h"

namespace forebay::ingest {

struct TestEvent {
  std::string track;  // "host/process 4711/thread 4712"
  std::string name;
  trace::Category category = trace::Category::kOther;
  trace::EventKind kind = trace::EventKind::kSpan;
  int64_t start_ns = 0, duration_ns = 0;
  std::map<std::string, std::string> arguments;  // numbers as decimals, reals as %g
};

struct TestImport {
  std::vector<TestEvent> events;  // by track, then time
  Account account;
  trace::Facts facts;
  std::vector<trace::ClockPair> clock;
  trace::Dictionary dictionary;
};

TestImport import_text(const Importer& importer, std::string_view text,
                       const std::string& path = "trace.txt");

}  // namespace forebay::ingest

// Names and tracks of a Chrome trace: what each pair of category and name means, and which track a
// pid and tid stand for.
//
// One thread at a time; the writer must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ingest/json_reader.h"
#include "ingest/meaning.h"
#include "trace/writer.h"

namespace forebay::ingest {

struct TextHash {
  // NOLINTNEXTLINE(readability-identifier-naming): the name is the standard library's
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// Of the categories that torch.profiler writes; kGeneric is everybody else's.
enum class ChromeCategory : uint8_t {
  kGeneric,
  kOperator,
  kLaunch,
  kKernel,
  kCopy,
  kDeviceAnnotation,
  kDeviceSync,
  kDeviceEvent,  // accelerators that call everything one category
  kUserAnnotation,
  kPythonFunction,
  kOverhead,
  kMemory,
  kCollective,
};

bool is_on_device(ChromeCategory category);

struct ChromeName {
  std::string text;
  Meaning meaning;
  trace::NameId span = trace::kNoId, instant = trace::kNoId;
};

class ChromeNames {
 public:
  explicit ChromeNames(trace::TraceWriter& writer) : writer_(writer) {}

  ChromeCategory category(std::string_view text);
  // `is_copy`: arguments say that a device's event moves bytes.
  const ChromeName& name(ChromeCategory category, std::string_view category_text,
                         const JsonField& field, bool is_copy);
  trace::NameId span(const ChromeName& name);
  trace::NameId instant(const ChromeName& name);

 private:
  Meaning meaning_of(ChromeCategory category, std::string_view category_text, std::string_view text,
                     bool is_copy) const;

  trace::TraceWriter& writer_;
  std::map<std::string, ChromeCategory, std::less<>> categories_;
  // By category's text, then name as it stands in the file.
  std::map<std::string, TextMap<ChromeName>, std::less<>> names_;
  std::string last_category_;
  TextMap<ChromeName>* last_names_ = nullptr;
};

class ChromeTracks {
 public:
  ChromeTracks(trace::TraceWriter& writer, std::string_view host);

  // Where an event of this pid and tid stands; either may be text, or absent.
  trace::TrackId track(const JsonField* pid, const JsonField* tid, bool is_device);
  trace::TrackId process(const JsonField* pid);
  trace::TrackId device(int64_t index);
  // A track below a process for spans that belong to no thread.
  trace::TrackId below(trace::TrackId process, std::string_view text);

  // What metadata events say, in any order with the events themselves.
  void name_process(const JsonField* pid, std::string_view text);
  void label_process(const JsonField* pid, std::string_view text);
  void name_thread(const JsonField* pid, const JsonField* tid, std::string_view text);
  // Gives the tracks their names, and those of the program its rank.
  void finish(std::string_view host, int32_t rank);

 private:
  struct Known {
    trace::TrackId track = trace::kNoId;
    trace::TrackKind kind = trace::TrackKind::kOther;
  };
  trace::TrackId parent(std::string_view pid, const JsonField* field, bool is_device);

  trace::TraceWriter& writer_;
  trace::TrackId host_;
  trace::TrackId first_process_ = trace::kNoId;
  int process_count_ = 0;
  TextMap<Known> parents_;  // by pid, "d" in front of devices
  TextMap<Known> tracks_;   // by the parent's key, a zero byte, tid
  TextMap<std::string> process_names_, labels_, thread_names_;
  std::map<std::pair<trace::TrackId, std::string>, trace::TrackId> others_;
  std::string key_, last_key_;
  trace::TrackId last_ = trace::kNoId;
};

}  // namespace forebay::ingest

// Reads the events of a Chrome trace, whoever wrote it, into a timeline. The importers "kineto" and
// "dftracer" share it.
//
// One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ingest/importer.h"
#include "ingest/json_reader.h"
#include "ingest/kineto_names.h"
#include "ingest/timeline.h"

namespace forebay::ingest {

// An event's members that have a meaning of their own.
struct ChromeEvent {
  char phase = '\0';
  const JsonField* name = nullptr;
  const JsonField* category = nullptr;
  const JsonField* pid = nullptr;
  const JsonField* tid = nullptr;
  const JsonField* time = nullptr;
  const JsonField* duration = nullptr;
  const JsonField* id = nullptr;

  explicit ChromeEvent(const JsonObject& object);
};

class ChromeImport {
 public:
  ChromeImport(const Source& source, trace::TraceWriter& writer, Account& account);

  virtual ~ChromeImport() = default;
  ChromeImport(const ChromeImport&) = delete;
  ChromeImport& operator=(const ChromeImport&) = delete;

  Status read(ByteStream& bytes);

 protected:
  // Takes one event. Other tools' dialects override it for the events that they mean otherwise.
  virtual void take(const JsonObject& object);
  // The start of an event that has one; counts it as skipped when it has not.
  bool start_of(const ChromeEvent& event, int64_t& out);
  // The duration of a complete event, 0 where it has none that can be.
  int64_t duration_of(const ChromeEvent& event);

  const Source& source_;
  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  ChromeTracks tracks_;
  std::vector<trace::Argument> arguments_;  // of the event at hand
  // What the events themselves say, where the file's head says nothing.
  std::string host_;
  int32_t rank_ = -1;

 private:
  struct Open {
    int64_t start_ns = 0;
    trace::NameId name = 0;
    trace::TrackId track = 0;
    std::vector<trace::Argument> arguments;
  };

  void complete(const ChromeEvent& event, const JsonObject& object);
  void begin_or_end(const ChromeEvent& event, const JsonObject& object);
  void asynchronous(const ChromeEvent& event, const JsonObject& object);
  void instant(const ChromeEvent& event, const JsonObject& object);
  void memory(const ChromeEvent& event, const JsonObject& object);
  void counter(const ChromeEvent& event, const JsonObject& object);
  void metadata(const ChromeEvent& event, const JsonObject& object);

  const ChromeName& name_of(const ChromeEvent& event, const JsonObject& object, bool& is_device);
  void gather(const ChromeName& name, const JsonObject& object);
  void add_text(trace::KeyId key, const JsonField& field);
  void add_counter(trace::TrackId track, std::string_view text, int64_t at_ns, double value);
  void finish(const JsonReader& reader);
  void finish_open();

  ChromeNames names_;
  struct Keys {
    trace::KeyId bytes, correlation, external_id, step, group, sequence, collective, value;
  } keys_;
  TextMap<trace::TextId> texts_;
  TextMap<trace::NameId> counters_;
  std::unordered_map<trace::TrackId, std::vector<Open>> begun_;
  TextMap<std::vector<Open>> asynchronous_;
  bool is_absolute_ = false, has_times_ = false;
  uint64_t flows_ = 0;
};

}  // namespace forebay::ingest

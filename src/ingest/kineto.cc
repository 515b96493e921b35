#include "ingest/kineto.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ingest/builtin.h"
#include "trace/facts.h"

namespace forebay::ingest {
namespace {

using trace::Argument;
using trace::ArgumentType;
using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::NameId;
using trace::TrackId;

// Times from 2001 on in microseconds are UNIX times.
constexpr int64_t kUnixTimesFrom = 1'000'000'000'000'000'000;
constexpr int64_t kClockUncertaintyNs = 1000;  // what a microsecond clock can tell
constexpr size_t kOpenMax = 1 << 20;           // begun spans kept; more is no program

// Bytes of an element of a tensor type as torch names it; 0 = not known.
int64_t element_bytes(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 17> kTypes{{{"Float", 4},
                                                                         {"Double", 8},
                                                                         {"Half", 2},
                                                                         {"BFloat16", 2},
                                                                         {"Int", 4},
                                                                         {"Long", 8},
                                                                         {"Short", 2},
                                                                         {"Char", 1},
                                                                         {"Byte", 1},
                                                                         {"Bool", 1},
                                                                         {"float", 4},
                                                                         {"double", 8},
                                                                         {"c10::Half", 2},
                                                                         {"c10::BFloat16", 2},
                                                                         {"int", 4},
                                                                         {"long int", 8},
                                                                         {"unsigned char", 1}}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return 0;
}

const JsonField* find(const std::vector<JsonField>& fields, std::string_view key) {
  for (const JsonField& field : fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

}  // namespace

ChromeEvent::ChromeEvent(const JsonObject& object) {
  for (const JsonField& field : object.fields) {
    const std::string_view key = field.key;
    if (key.size() == 2) {
      if (key == "ph" && !field.value.empty()) phase = field.value[0];
      if (key == "ts") time = &field;
      if (key == "id") id = &field;
    } else if (key.size() == 3) {
      if (key == "cat") category = &field;
      if (key == "pid") pid = &field;
      if (key == "tid") tid = &field;
      if (key == "dur") duration = &field;
      if (key == "id2") id = &field;
    } else if (key == "name") {
      name = &field;
    }
  }
}

ChromeImport::ChromeImport(const Source& source, trace::TraceWriter& writer, Account& account)
    : source_(source),
      writer_(writer),
      account_(account),
      timeline_(writer, account),
      tracks_(writer, source.host),
      names_(writer),
      keys_{.bytes = writer.key(trace::key::kBytes),
            .correlation = writer.key(trace::key::kCorrelation),
            .external_id = writer.key("external_id"),
            .step = writer.key(trace::key::kStep),
            .group = writer.key(trace::key::kGroup, ArgumentType::kText),
            .sequence = writer.key(trace::key::kSequence),
            .collective = writer.key("collective", ArgumentType::kText),
            .value = writer.key(trace::key::kValue, ArgumentType::kReal)} {}

Status ChromeImport::read(ByteStream& bytes) {
  JsonReader reader(bytes, account_);
  JsonObject object;
  while (FB_TRY(reader.next("traceEvents", object))) take(object);
  finish(reader);
  return timeline_.write();
}

void ChromeImport::take(const JsonObject& object) {
  const ChromeEvent event(object);
  switch (event.phase) {
    case 'X':
      return complete(event, object);
    case 's':
    case 't':
    case 'f':
      ++flows_;
      return;
    case 'M':
      return metadata(event, object);
    case 'B':
    case 'E':
      return begin_or_end(event, object);
    case 'b':
    case 'e':
    case 'n':
    case 'S':
    case 'F':
      return asynchronous(event, object);
    case 'i':
    case 'I':
    case 'R':
      return instant(event, object);
    case 'C':
      return counter(event, object);
    case '\0':
      return account_.skip("events without a phase");
    default:
      return account_.skip(fmt::format("events of phase '{}'", clean_text({&event.phase, 1})));
  }
}

bool ChromeImport::start_of(const ChromeEvent& event, int64_t& out) {
  const auto time = event.time == nullptr ? std::nullopt : nanoseconds_of(*event.time);
  if (!time) {
    account_.skip("events without a time");
    return false;
  }
  out = *time;
  if (!has_times_ && out != 0) {
    has_times_ = true;
    is_absolute_ = out >= kUnixTimesFrom;
  }
  return true;
}

const ChromeName& ChromeImport::name_of(const ChromeEvent& event, const JsonObject& object,
                                        bool& is_device) {
  static const JsonField no_name{.key = "name", .value = "", .type = JsonType::kString};
  const std::string_view text =
      event.category == nullptr ? std::string_view() : event.category->value;
  const ChromeCategory category = names_.category(text);
  is_device = is_on_device(category);
  const bool is_copy =
      category == ChromeCategory::kDeviceEvent && find(object.arguments, "direction") != nullptr;
  return names_.name(category, text, event.name == nullptr ? no_name : *event.name, is_copy);
}

void ChromeImport::add_text(trace::KeyId key, const JsonField& field) {
  auto found = texts_.find(field.value);
  if (found == texts_.end()) {
    found = texts_.emplace(std::string(field.value), writer_.text(string_of(field))).first;
  }
  arguments_.push_back({key, found->second});
}

// The arguments that explanations use; shapes and launch geometry are left.
void ChromeImport::gather(const ChromeName& name, const JsonObject& object) {
  arguments_.clear();
  if (name.meaning.step >= 0) arguments_.push_back({keys_.step, name.meaning.step});
  const JsonField *group = nullptr, *ranks = nullptr, *elements = nullptr, *type = nullptr;
  bool has_bytes = false;
  const auto integer = [&](trace::KeyId key, const JsonField& field) {
    const auto value = integer_of(field);
    if (value) arguments_.push_back({key, *value});
    return value.has_value();
  };
  for (const JsonField& field : object.arguments) {
    const std::string_view key = field.key;
    switch (key.size()) {
      case 3:
        if (key == "Seq") integer(keys_.sequence, field);
        break;
      case 4:
        if (key == "size" && name.meaning.category == Category::kCopy && !has_bytes)
          has_bytes = integer(keys_.bytes, field);
        break;
      case 5:
        if (key == "bytes" && !has_bytes) has_bytes = integer(keys_.bytes, field);
        if (key == "dtype") type = &field;
        break;
      case 11:
        if (key == "External id" || key == "external id") integer(keys_.external_id, field);
        if (key == "correlation") integer(keys_.correlation, field);
        break;
      case 13:
        if (key == "In msg nelems") elements = &field;
        break;
      case 15:
        if (key == "Collective name") add_text(keys_.collective, field);
        break;
      case 18:
        if (key == "Process Group Name") group = &field;
        break;
      case 19:
        if (key == "Process Group Ranks") ranks = &field;
        break;
      default:
        break;
    }
  }
  if (ranks != nullptr || group != nullptr) {
    std::string text = group == nullptr ? std::string() : string_of(*group);
    if (ranks != nullptr && ranks->value.size() > 2) {
      text.append(text.empty() ? "" : " ").append(string_of(*ranks));
    }
    if (!text.empty()) arguments_.push_back({keys_.group, writer_.text(text)});
  }
  if (!has_bytes && elements != nullptr && type != nullptr) {
    const auto count = integer_of(*elements);
    const int64_t size = element_bytes(type->value);
    if (count && *count >= 0 && *count < INT64_MAX / 8 && size > 0)
      arguments_.push_back({keys_.bytes, *count * size});
  }
}

int64_t ChromeImport::duration_of(const ChromeEvent& event) {
  const auto duration = event.duration == nullptr ? std::nullopt : nanoseconds_of(*event.duration);
  if (!duration) {
    account_.repair("spans without a duration: taken as 0");
    return 0;
  }
  if (*duration < 0) {
    account_.repair_negative(event.name == nullptr ? std::string_view() : event.name->value);
    return 0;
  }
  return *duration;
}

void ChromeImport::complete(const ChromeEvent& event, const JsonObject& object) {
  int64_t start = 0;
  if (!start_of(event, start)) return;
  const int64_t duration = duration_of(event);
  bool is_device = false;
  const ChromeName& name = name_of(event, object, is_device);
  gather(name, object);
  timeline_.add(
      {tracks_.track(event.pid, event.tid, is_device), names_.span(name), start, duration},
      EventKind::kSpan, arguments_);
}

void ChromeImport::begin_or_end(const ChromeEvent& event, const JsonObject& object) {
  int64_t at = 0;
  if (!start_of(event, at)) return;
  bool is_device = false;
  const ChromeName& name = name_of(event, object, is_device);
  const TrackId track = tracks_.track(event.pid, event.tid, is_device);
  std::vector<Open>& open = begun_[track];
  if (event.phase == 'B') {
    if (open.size() >= kOpenMax) return account_.skip("begins nested too deeply");
    gather(name, object);
    open.push_back({at, names_.span(name), track, arguments_});
    return;
  }
  if (open.empty()) return account_.skip("ends without a begin");
  const Open begun = std::move(open.back());
  open.pop_back();
  if (at < begun.start_ns) {
    account_.repair_negative(writer_.dictionary().text(writer_.dictionary().names[begun.name]));
  }
  timeline_.add({track, begun.name, begun.start_ns, std::max<int64_t>(at - begun.start_ns, 0)},
                EventKind::kSpan, begun.arguments);
}

void ChromeImport::asynchronous(const ChromeEvent& event, const JsonObject& object) {
  int64_t at = 0;
  if (!start_of(event, at)) return;
  bool is_device = false;
  const ChromeName& name = name_of(event, object, is_device);
  const std::string category =
      event.category == nullptr ? std::string() : string_of(*event.category);
  const TrackId track =
      tracks_.below(tracks_.process(event.pid), category.empty() ? "asynchronous" : category);
  if (event.phase == 'n') {
    gather(name, object);
    timeline_.add({track, names_.instant(name), at, 0}, EventKind::kInstant, arguments_);
    return;
  }
  // Begins and ends belong together by category, id and name.
  std::string key = fmt::format("{}\n{}\n{}\n", track, category,
                                event.id == nullptr ? std::string_view() : event.id->value);
  if (event.name != nullptr) key += event.name->value;
  if (event.phase == 'b' || event.phase == 'S') {
    if (asynchronous_.size() >= kOpenMax) return account_.skip("begins that never end");
    gather(name, object);
    asynchronous_[key].push_back({at, names_.span(name), track, arguments_});
    return;
  }
  const auto found = asynchronous_.find(key);
  if (found == asynchronous_.end()) return account_.skip("ends without a begin");
  const Open begun = std::move(found->second.back());
  found->second.pop_back();
  if (found->second.empty()) asynchronous_.erase(found);
  if (at < begun.start_ns) {
    account_.repair_negative(writer_.dictionary().text(writer_.dictionary().names[begun.name]));
  }
  timeline_.add({track, begun.name, begun.start_ns, std::max<int64_t>(at - begun.start_ns, 0)},
                EventKind::kSpan, begun.arguments);
}

void ChromeImport::instant(const ChromeEvent& event, const JsonObject& object) {
  int64_t at = 0;
  if (!start_of(event, at)) return;
  if (event.name != nullptr && event.name->value == "[memory]" &&
      find(object.arguments, "Total Allocated") != nullptr) {
    return memory(event, object);
  }
  bool is_device = false;
  const ChromeName& name = name_of(event, object, is_device);
  gather(name, object);
  timeline_.add({tracks_.track(event.pid, event.tid, is_device), names_.instant(name), at, 0},
                EventKind::kInstant, arguments_);
}

// torch.profiler's memory events: what the allocator of a device holds from here on.
void ChromeImport::memory(const ChromeEvent& event, const JsonObject& object) {
  const auto at = nanoseconds_of(*event.time);
  const JsonField* type = find(object.arguments, "Device Type");
  const JsonField* index = find(object.arguments, "Device Id");
  const auto value = number_of(*find(object.arguments, "Total Allocated"));
  const int64_t device = index == nullptr ? -1 : integer_of(*index).value_or(-1);
  if (!value) return account_.skip("memory events without a value");
  const bool is_device = type != nullptr && type->value != "0" && device >= 0;
  if (is_device) {
    add_counter(tracks_.device(device), "used_bytes", *at, *value);
  } else {
    add_counter(tracks_.process(event.pid), "allocated_bytes", *at, *value);
  }
}

void ChromeImport::add_counter(TrackId track, std::string_view text, int64_t at_ns, double value) {
  auto found = counters_.find(text);
  if (found == counters_.end()) {
    const NameId name = writer_.name(clean_text(text), Category::kUsage, EventKind::kCounter);
    found = counters_.emplace(std::string(text), name).first;
  }
  const Argument argument{keys_.value, trace::real_bits(value)};
  timeline_.add({track, found->second, at_ns, 0}, EventKind::kCounter, {&argument, 1});
}

void ChromeImport::counter(const ChromeEvent& event, const JsonObject& object) {
  int64_t at = 0;
  if (!start_of(event, at)) return;
  const std::string name = event.name == nullptr ? "counter" : string_of(*event.name);
  bool has_value = false;
  for (const JsonField& field : object.arguments) {
    const auto value = number_of(field);
    if (!value) continue;
    has_value = true;
    const bool is_only = object.arguments.size() == 1;
    add_counter(tracks_.process(event.pid),
                is_only ? name : name + "." + string_of({.key = {}, .value = field.key}), at,
                *value);
  }
  if (!has_value) account_.skip("counters without a number");
}

void ChromeImport::metadata(const ChromeEvent& event, const JsonObject& object) {
  if (event.name == nullptr) return account_.skip("metadata not used");
  const std::string_view what = event.name->value;
  const JsonField* name = find(object.arguments, "name");
  const JsonField* labels = find(object.arguments, "labels");
  if (what == "process_name" && name != nullptr) {
    tracks_.name_process(event.pid, string_of(*name));
  } else if (what == "thread_name" && name != nullptr) {
    tracks_.name_thread(event.pid, event.tid, string_of(*name));
  } else if (what == "process_labels" && labels != nullptr) {
    tracks_.label_process(event.pid, string_of(*labels));
  } else {
    account_.skip("metadata not used");
  }
}

void ChromeImport::finish_open() {
  uint64_t count = 0;
  const auto add = [&](const Open& open) {
    timeline_.add({open.track, open.name, open.start_ns, trace::kUnfinished}, EventKind::kSpan,
                  open.arguments);
    ++count;
  };
  for (const auto& [track, spans] : begun_) std::for_each(spans.begin(), spans.end(), add);
  for (const auto& [key, spans] : asynchronous_) std::for_each(spans.begin(), spans.end(), add);
  if (count > 0) account_.repair("begins without an end: unfinished", count);
}

void ChromeImport::finish(const JsonReader& reader) {
  finish_open();
  if (flows_ > 0) account_.skip("flow arrows", flows_);
  int32_t rank = rank_ >= 0 ? rank_ : source_.rank;
  std::string host = host_;
  std::optional<int64_t> base_ns;
  for (const auto& [key, text] : reader.header()) {
    const bool is_string = text.size() >= 2 && text[0] == '"';
    const JsonField field{.key = key,
                          .value = is_string ? std::string_view(text).substr(1, text.size() - 2)
                                             : std::string_view(text),
                          .type = is_string ? JsonType::kString : JsonType::kNumber,
                          .is_escaped = text.find('\\') != std::string::npos};
    if (key == "baseTimeNanoseconds") base_ns = integer_of(field);
    if (key == "host_name" || key == "hostname") host = string_of(field);
    if (key != "distributedInfo") continue;
    const auto info = parse_object(text);
    if (!info) continue;
    for (const JsonField& member : info->fields) {
      const auto value = integer_of(member);
      if (member.key == "rank" && value && *value >= 0 && *value <= INT32_MAX)
        rank = static_cast<int32_t>(*value);
      if (member.key == "world_size" && value)
        writer_.fact(trace::fact::kWorldSize, std::to_string(*value));
      if (member.key == "backend") writer_.fact("backend", string_of(member));
    }
  }
  tracks_.finish(host, rank);
  if (!host.empty()) writer_.fact(trace::fact::kHost, host);
  if (rank >= 0) writer_.fact(trace::fact::kRank, std::to_string(rank));
  if (is_absolute_) {
    writer_.clock({kUnixTimesFrom, kUnixTimesFrom, kClockUncertaintyNs});
  } else if (base_ns && *base_ns > 0) {
    writer_.clock({0, *base_ns, kClockUncertaintyNs});
  }
}

namespace {

bool recognises(std::string_view first, std::string_view /*name*/) {
  const size_t begin = first.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (begin == std::string_view::npos || (first[begin] != '{' && first[begin] != '[')) return false;
  return first.find("\"traceEvents\"") != std::string_view::npos ||
         first.find("\"ph\"") != std::string_view::npos ||
         first.find("\"schemaVersion\"") != std::string_view::npos;
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return ChromeImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kKineto{.name = "kineto",
                       .summary = "torch.profiler (Kineto) and Chrome JSON, plain or gzip",
                       .recognises = recognises,
                       .recognises_folder = nullptr,
                       .read = read};

}  // namespace forebay::ingest

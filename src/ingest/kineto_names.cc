#include "ingest/kineto_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace forebay::ingest {
namespace {

using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

struct Spelling {
  std::string_view text;
  ChromeCategory category;
};
constexpr std::array<Spelling, 30> kSpellings{{
    {"cpu_op", ChromeCategory::kOperator},
    {"Operator", ChromeCategory::kOperator},
    {"cuda_runtime", ChromeCategory::kLaunch},
    {"cuda_driver", ChromeCategory::kLaunch},
    {"Runtime", ChromeCategory::kLaunch},
    {"mtia_runtime", ChromeCategory::kLaunch},
    {"glow_runtime", ChromeCategory::kLaunch},
    {"xpu_runtime", ChromeCategory::kLaunch},
    {"privateuse1_runtime", ChromeCategory::kLaunch},
    {"privateuse1_driver", ChromeCategory::kLaunch},
    {"kernel", ChromeCategory::kKernel},
    {"Kernel", ChromeCategory::kKernel},
    {"gpu_op", ChromeCategory::kKernel},
    {"gpu_memcpy", ChromeCategory::kCopy},
    {"gpu_memset", ChromeCategory::kCopy},
    {"Memcpy", ChromeCategory::kCopy},
    {"Memset", ChromeCategory::kCopy},
    {"gpu_user_annotation", ChromeCategory::kDeviceAnnotation},
    {"cuda_sync", ChromeCategory::kDeviceSync},
    {"cuda_event", ChromeCategory::kDeviceSync},
    {"mtia_ccp_events", ChromeCategory::kDeviceEvent},
    {"mtia_insight", ChromeCategory::kDeviceEvent},
    {"hpu_op", ChromeCategory::kDeviceEvent},
    {"user_annotation", ChromeCategory::kUserAnnotation},
    {"python_function", ChromeCategory::kPythonFunction},
    {"overhead", ChromeCategory::kOverhead},
    {"cpu_instant_event", ChromeCategory::kMemory},
    {"collective_comm", ChromeCategory::kCollective},
    {"FEE", ChromeCategory::kPythonFunction},  // viztracer: function entry and exit
    {"Trace", ChromeCategory::kGeneric},
}};

bool is_plain_number(const JsonField* field, int64_t& number) {
  if (field == nullptr || field->type == JsonType::kOther) return false;
  const auto value = integer_of(*field);
  if (!value || *value < 0) return false;
  number = *value;
  return true;
}

std::string text_of(const JsonField* field) {
  return field == nullptr ? std::string() : string_of(*field);
}

}  // namespace

bool is_on_device(ChromeCategory category) {
  return category == ChromeCategory::kKernel || category == ChromeCategory::kCopy ||
         category == ChromeCategory::kDeviceAnnotation || category == ChromeCategory::kDeviceSync ||
         category == ChromeCategory::kDeviceEvent;
}

ChromeCategory ChromeNames::category(std::string_view text) {
  const auto found = categories_.find(text);
  if (found != categories_.end()) return found->second;
  ChromeCategory category = ChromeCategory::kGeneric;
  for (const Spelling& spelling : kSpellings) {
    if (spelling.text == text) category = spelling.category;
  }
  if (categories_.size() < 4096) categories_.emplace(text, category);
  return category;
}

Meaning ChromeNames::meaning_of(ChromeCategory category, std::string_view category_text,
                                std::string_view text, bool is_copy) const {
  switch (category) {
    case ChromeCategory::kOperator: {
      // Waits for data are marked as operators by old versions.
      const Meaning mark = meaning_of_mark(text);
      if (text.starts_with("enumerate(DataLoader)")) return mark;
      if (text.starts_with("ProfilerStep#")) return mark;
      if (text.starts_with("gloo:") || text.starts_with("mpi:")) return mark;
      return {.category = Category::kOperator};
    }
    case ChromeCategory::kLaunch:
      return {.category = Category::kLaunch};
    case ChromeCategory::kKernel:
      return {.category = category_of_kernel(text)};
    case ChromeCategory::kCopy:
      return {.category = Category::kCopy};
    case ChromeCategory::kDeviceAnnotation:
      return {.category = Category::kAnnotation};
    case ChromeCategory::kDeviceSync:
      return {};
    case ChromeCategory::kDeviceEvent:
      if (is_copy) return {.category = Category::kCopy};
      if (text.find("wait") != std::string_view::npos) return {};
      return {.category = category_of_kernel(text)};
    case ChromeCategory::kUserAnnotation:
      return meaning_of_mark(text);
    case ChromeCategory::kPythonFunction:
      return {.category = Category::kFunction};
    case ChromeCategory::kOverhead:
      return {.category = Category::kOverhead};
    case ChromeCategory::kMemory:
      return {.category = Category::kUsage};
    case ChromeCategory::kCollective:
      return {.category = Category::kCollective};
    case ChromeCategory::kGeneric:
      break;
  }
  if (category_text == "Trace") return {};
  if (category_text == "POSIX" || category_text == "STDIO") {
    return {.category = category_of_call(text)};
  }
  // A category of the program's own: what it says, else what the name says.
  const std::string lower = base::to_lower(category_text);
  for (int i = 0; i < trace::kCategories; ++i) {
    const auto known = static_cast<Category>(i);
    if (known != Category::kOther && lower == trace::category_name(known)) {
      Meaning meaning = meaning_of_mark(text);
      meaning.category = known;
      return meaning;
    }
  }
  return meaning_of_mark(text);
}

const ChromeName& ChromeNames::name(ChromeCategory category, std::string_view category_text,
                                    const JsonField& field, bool is_copy) {
  if (last_names_ == nullptr || last_category_ != category_text) {
    auto found = names_.find(category_text);
    if (found == names_.end()) found = names_.emplace(category_text, TextMap<ChromeName>()).first;
    last_names_ = &found->second;
    last_category_ = category_text;
  }
  const auto found = last_names_->find(field.value);
  if (found != last_names_->end()) return found->second;
  ChromeName name;
  name.text = string_of(field);
  name.meaning = meaning_of(category, category_text, name.text, is_copy);
  return last_names_->emplace(std::string(field.value), std::move(name)).first->second;
}

trace::NameId ChromeNames::span(const ChromeName& name) {
  if (name.span == kNoId) {
    const_cast<ChromeName&>(name).span = writer_.name(name.text, name.meaning.category);
  }
  return name.span;
}

trace::NameId ChromeNames::instant(const ChromeName& name) {
  if (name.instant == kNoId) {
    const_cast<ChromeName&>(name).instant =
        writer_.name(name.text, name.meaning.category, EventKind::kInstant);
  }
  return name.instant;
}

ChromeTracks::ChromeTracks(trace::TraceWriter& writer, std::string_view host)
    : writer_(writer), host_(writer.add_track(TrackKind::kHost, kNoId, host)) {}

TrackId ChromeTracks::parent(std::string_view pid, const JsonField* field, bool is_device) {
  key_.assign(is_device ? "d" : "p").append(pid);
  const auto [found, is_new] = parents_.try_emplace(key_);
  if (!is_new) return found->second.track;
  Known& known = found->second;
  int64_t number = -1;
  if (!is_plain_number(field, number)) {
    known.kind = field == nullptr ? TrackKind::kProcess : TrackKind::kOther;
    known.track = writer_.add_track(known.kind, host_, text_of(field));
  } else if (is_device) {
    // Two ranks of one host may both call their accelerator 0.
    known.kind = TrackKind::kDevice;
    const TrackId above = process_count_ == 1 ? first_process_ : host_;
    known.track = writer_.add_track(known.kind, above, fmt::format("GPU {}", number), number);
  } else {
    known.kind = TrackKind::kProcess;
    known.track = writer_.add_track(known.kind, host_, "process", number);
    if (process_count_++ == 0) first_process_ = known.track;
  }
  return known.track;
}

TrackId ChromeTracks::track(const JsonField* pid, const JsonField* tid, bool is_device) {
  const std::string_view pid_text = pid == nullptr ? std::string_view() : pid->value;
  const std::string_view tid_text = tid == nullptr ? std::string_view() : tid->value;
  key_.assign(is_device ? "d" : "p").append(pid_text).append(1, '\0').append(tid_text);
  if (last_ != kNoId && key_ == last_key_) return last_;
  auto found = tracks_.find(key_);
  if (found == tracks_.end()) {
    const std::string key = key_;
    const TrackId above = parent(pid_text, pid, is_device);
    Known known;
    int64_t number = -1;
    if (!is_plain_number(tid, number)) {
      known.kind = TrackKind::kOther;
      known.track = writer_.add_track(known.kind, above, text_of(tid));
    } else if (is_device) {
      known.kind = TrackKind::kStream;
      known.track = writer_.add_track(known.kind, above, fmt::format("stream {}", number), number);
    } else {
      known.kind = TrackKind::kThread;
      known.track = writer_.add_track(known.kind, above, "thread", number);
    }
    found = tracks_.emplace(key, known).first;
    key_ = key;
  }
  last_key_ = key_;
  last_ = found->second.track;
  return last_;
}

TrackId ChromeTracks::process(const JsonField* pid) {
  return parent(pid == nullptr ? std::string_view() : pid->value, pid, false);
}

TrackId ChromeTracks::device(int64_t index) {
  const std::string text = std::to_string(index);
  const JsonField field{.key = "pid", .value = text, .type = JsonType::kNumber};
  return parent(text, &field, true);
}

TrackId ChromeTracks::below(TrackId process, std::string_view text) {
  const auto [found, is_new] = others_.emplace(std::pair(process, std::string(text)), kNoId);
  if (is_new) found->second = writer_.add_track(TrackKind::kOther, process, text);
  return found->second;
}

void ChromeTracks::name_process(const JsonField* pid, std::string_view text) {
  if (pid != nullptr) process_names_[std::string(pid->value)] = text;
}

void ChromeTracks::label_process(const JsonField* pid, std::string_view text) {
  if (pid != nullptr && text != "CPU") labels_[std::string(pid->value)] = text;
}

void ChromeTracks::name_thread(const JsonField* pid, const JsonField* tid, std::string_view text) {
  if (pid == nullptr || tid == nullptr) return;
  std::string key(pid->value);
  key.append(1, '\0').append(tid->value);
  thread_names_[std::move(key)] = base::trim(text);
}

void ChromeTracks::finish(std::string_view host, int32_t rank) {
  if (!host.empty()) writer_.rename(host_, host);
  for (const auto& [key, known] : parents_) {
    const std::string pid = key.substr(1);
    const auto& names = known.kind == TrackKind::kDevice ? labels_ : process_names_;
    const auto found = names.find(pid);
    if (found != names.end() && !found->second.empty()) {
      writer_.rename(known.track, found->second);
    }
    if (known.kind != TrackKind::kOther && rank >= 0) writer_.set_rank(known.track, rank);
  }
  for (const auto& [key, known] : tracks_) {
    const auto found = thread_names_.find(key.substr(1));
    if (found != thread_names_.end() && !found->second.empty()) {
      writer_.rename(known.track, found->second);
    }
    if (known.kind != TrackKind::kOther && rank >= 0) writer_.set_rank(known.track, rank);
  }
}

}  // namespace forebay::ingest

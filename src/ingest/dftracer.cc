// DFTracer (formerly DLIO Profiler): Chrome events, a line each, with numbers in quotation marks in
// old versions and hashes for file and host names in new ones.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "ingest/builtin.h"
#include "ingest/kineto.h"
#include "trace/facts.h"

namespace forebay::ingest {
namespace {

using trace::ArgumentType;
using trace::Category;
using trace::EventKind;

// Categories of DLIO and of programs that annotate as it does.
Category category_of_module(std::string_view module, std::string_view name) {
  const std::string lower = base::to_lower(module);
  const std::string what = base::to_lower(name);
  const auto is_in = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (lower == "compute" || what == "compute") return Category::kCompute;
  if (is_in(lower, "checkpoint")) return Category::kCheckpoint;
  if (is_in(lower, "data_loader") || is_in(lower, "dataloader")) {
    const bool is_wait = is_in(what, "yield") || is_in(what, "next") || is_in(what, "fetch") ||
                         is_in(what, "wait") || is_in(what, "iter");
    return is_wait ? Category::kDataWait : Category::kFunction;
  }
  if (is_in(lower, "reader") || is_in(what, "preprocess") || is_in(what, "decode") ||
      is_in(what, "transform")) {
    return Category::kPrepare;
  }
  if (is_in(lower, "comm") && !is_in(lower, "common")) return Category::kCollective;
  const Category call = category_of_call(name);
  return call != Category::kOther ? call : Category::kFunction;
}

class DftracerImport : public ChromeImport {
 public:
  DftracerImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : ChromeImport(source, writer, account),
        bytes_(writer.key(trace::key::kBytes)),
        offset_(writer.key(trace::key::kOffset)),
        file_(writer.key(trace::key::kFile, ArgumentType::kText)),
        error_(writer.key(trace::key::kError)),
        step_(writer.key(trace::key::kStep)),
        epoch_(writer.key(trace::key::kEpoch)) {}

 private:
  struct Fields {
    const JsonField* file = nullptr;
    const JsonField* hash = nullptr;
    const JsonField* host = nullptr;
    const JsonField* host_hash = nullptr;
    const JsonField* result = nullptr;
    const JsonField* size = nullptr;
    const JsonField* offset = nullptr;
    const JsonField* step = nullptr;
    const JsonField* epoch = nullptr;
    const JsonField* command = nullptr;
  };

  void take(const JsonObject& object) override {
    const ChromeEvent event(object);
    if (event.phase == 'M' && event.name != nullptr) return define(event, object);
    if (event.phase == 'X' && event.name != nullptr) return span(event, object);
    ChromeImport::take(object);
  }

  static Fields fields_of(const JsonObject& object) {
    Fields fields;
    for (const JsonField& field : object.arguments) {
      const std::string_view key = field.key;
      if (key == "fname") fields.file = &field;
      if (key == "fhash") fields.hash = &field;
      if (key == "hostname") fields.host = &field;
      if (key == "hhash") fields.host_hash = &field;
      if (key == "ret") fields.result = &field;
      if (key == "size") fields.size = &field;
      if (key == "offset") fields.offset = &field;
      if (key == "step") fields.step = &field;
      if (key == "epoch") fields.epoch = &field;
      if (key == "cmd_hash") fields.command = &field;
    }
    return fields;
  }

  void define(const ChromeEvent& event, const JsonObject& object) {
    const std::string_view what = event.name->value;
    const JsonField *name = nullptr, *value = nullptr;
    for (const JsonField& field : object.arguments) {
      if (field.key == "name") name = &field;
      if (field.key == "value") value = &field;
    }
    if (name == nullptr) return account_.skip("metadata not used");
    if (value != nullptr && what == "FH") {
      files_[std::string(value->value)] = writer_.text(string_of(*name));
    } else if (value != nullptr && (what == "HH" || what == "SH")) {
      strings_[std::string(value->value)] = string_of(*name);
    } else if (value != nullptr && what == "PR" && name->value == "rank") {
      const auto rank = integer_of(*value);
      if (rank && *rank >= 0 && *rank <= INT32_MAX) rank_ = static_cast<int32_t>(*rank);
    } else if (what == "process_name") {
      tracks_.name_process(event.pid, string_of(*name));
    } else if (what == "thread_name") {
      // It is the thread's number again; a name it is only where it is something else.
      if (event.tid == nullptr || name->value != event.tid->value)
        tracks_.name_thread(event.pid, event.tid, string_of(*name));
    } else {
      account_.skip("metadata not used");
    }
  }

  trace::NameId name_of(const ChromeEvent& event) {
    const std::string_view module =
        event.category == nullptr ? std::string_view() : event.category->value;
    key_.assign(module).append(1, '\n').append(event.name->value);
    const auto found = names_.find(key_);
    if (found != names_.end()) return found->second;
    const std::string text = string_of(*event.name);
    const bool is_call = module == "POSIX" || module == "STDIO";
    const Category category = is_call                ? category_of_call(text)
                              : module == "dftracer" ? Category::kProcess
                                                     : category_of_module(module, text);
    return names_.emplace(key_, writer_.name(text, category)).first->second;
  }

  void learn(const Fields& fields) {
    if (host_.empty() && fields.host != nullptr) host_ = string_of(*fields.host);
    if (host_.empty() && fields.host_hash != nullptr) {
      const auto found = strings_.find(fields.host_hash->value);
      if (found != strings_.end()) host_ = found->second;
    }
    if (fields.command != nullptr) {
      const auto found = strings_.find(fields.command->value);
      if (found != strings_.end()) writer_.fact(trace::fact::kCommand, found->second);
    }
  }

  void gather(const Fields& fields, std::string_view call, Category category) {
    arguments_.clear();
    const auto integer = [&](trace::KeyId key, const JsonField* field) {
      const auto value = field == nullptr ? std::nullopt : integer_of(*field);
      if (value) arguments_.push_back({key, *value});
    };
    if (fields.file != nullptr) {
      arguments_.push_back({file_, writer_.text(string_of(*fields.file))});
    } else if (fields.hash != nullptr) {
      const auto found = files_.find(fields.hash->value);
      if (found != files_.end()) {
        arguments_.push_back({file_, found->second});
      } else {
        account_.repair("file names that are not defined: left out");
      }
    }
    const bool moves = category == Category::kRead || category == Category::kWrite;
    const auto result = fields.result == nullptr ? std::nullopt : integer_of(*fields.result);
    if (result && *result < 0) arguments_.push_back({error_, -1});
    if (moves && result && *result >= 0) {
      // stdio counts items.
      const bool counts_items = call == "fread" || call == "fwrite";
      const auto size =
          fields.size == nullptr || !counts_items ? std::nullopt : integer_of(*fields.size);
      int64_t bytes = 0;
      if (!__builtin_mul_overflow(*result, size.value_or(1), &bytes) && bytes >= 0)
        arguments_.push_back({bytes_, bytes});
    }
    integer(offset_, fields.offset);
    integer(step_, fields.step);
    integer(epoch_, fields.epoch);
  }

  void span(const ChromeEvent& event, const JsonObject& object) {
    int64_t start = 0;
    if (!start_of(event, start)) return;
    const Fields fields = fields_of(object);
    learn(fields);
    const trace::NameId name = name_of(event);
    gather(fields, event.name->value, writer_.dictionary().names[name].category);
    timeline_.add({tracks_.track(event.pid, event.tid, false), name, start, duration_of(event)},
                  EventKind::kSpan, arguments_);
  }

  trace::KeyId bytes_, offset_, file_, error_, step_, epoch_;
  TextMap<trace::TextId> files_;
  TextMap<std::string> strings_;
  TextMap<trace::NameId> names_;
  std::string key_;
};

bool recognises(std::string_view first, std::string_view name) {
  const size_t begin = first.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || (first[begin] != '{' && first[begin] != '[')) return false;
  constexpr std::array<std::string_view, 4> kSigns{"\"cat\":\"POSIX\"", "\"cat\":\"STDIO\"",
                                                   "\"cat\":\"dftracer\"",
                                                   "\"cat\":\"dlio_profiler\""};
  return ((name.ends_with(".pfw") || name.ends_with(".pfw.gz")) &&
          first.find("\"ph\"") != std::string_view::npos) ||
         std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
           return first.find(sign) != std::string_view::npos;
         });
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return DftracerImport(source, writer, account).read(*source.bytes);
}

}  // namespace

const Importer kDftracer{.name = "dftracer",
                         .summary = "DFTracer .pfw, plain or gzip",
                         .recognises = recognises,
                         .recognises_folder = nullptr,
                         .read = read};

}  // namespace forebay::ingest

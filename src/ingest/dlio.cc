// The folder that DLIO writes: per_epoch_stats.json and RANK_output.json. Its figures are durations
// of steps, not moments: steps stand one behind the other from the start of their block on.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ingest/builtin.h"
#include "ingest/columns.h"
#include "ingest/line_reader.h"
#include "ingest/timeline.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "trace/facts.h"

namespace forebay::ingest {
namespace {

using Json = nlohmann::json;
using trace::Category;
using trace::EventKind;
using trace::kNoId;
using trace::TrackId;
using trace::TrackKind;

constexpr uint64_t kFileBytesMax = 256 << 20;
// DLIO writes local times without their zone.
constexpr int64_t kZoneUncertaintyNs = int64_t{14} * 3600 * 1'000'000'000;

Result<Json> read_json(const std::string& path) {
  auto stream = FB_TRY(open_file_stream(path));
  std::string text;
  std::vector<std::byte> piece(1 << 20);
  while (const size_t got = FB_TRY(stream->read(piece))) {
    text.append(reinterpret_cast<const char*>(piece.data()), got);
    if (text.size() > kFileBytesMax)
      return Error{ErrorCode::kResourceExhausted, path + ": more than 256 MiB of JSON"};
  }
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{ErrorCode::kCorruption, path + ": no JSON object"};
  return json;
}

int64_t nanoseconds(const Json& seconds) {
  double value = 0;
  if (seconds.is_number()) value = seconds.get<double>();
  if (seconds.is_string() && !to_number(seconds.get<std::string>(), value)) return 0;
  return std::isfinite(value) && value > 0 && value < 1e9
             ? static_cast<int64_t>(std::llround(value * 1e9))
             : 0;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? clean_text(found->get<std::string>())
                                                     : std::string();
}

const Json* member(const Json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

class DlioImport {
 public:
  DlioImport(const Source& source, trace::TraceWriter& writer, Account& account)
      : source_(source),
        writer_(writer),
        account_(account),
        timeline_(writer, account),
        epoch_(writer.key(trace::key::kEpoch)),
        step_(writer.key(trace::key::kStep)) {}

  Status read() {
    const Json epochs = FB_TRY(read_json(source_.path + "/per_epoch_stats.json"));
    const sys::ScopedFd fd =
        FB_TRY(sys::open_file(sys::kCurrentFolder, source_.path, sys::OpenMode::kFolder));
    std::vector<std::string> names = FB_TRY(sys::names_in(fd.get(), source_.path));
    std::sort(names.begin(), names.end());
    int ranks = 0;
    for (const std::string& name : names) {
      if (!name.ends_with("_output.json")) continue;
      const int32_t rank = rank_of_name(name);
      const Json output = FB_TRY(read_json(source_.path + "/" + name));
      add_rank(rank, output, epochs);
      ++ranks;
    }
    writer_.fact(trace::fact::kWorldSize, std::to_string(ranks));
    if (has_start_) writer_.clock({start_ns_, start_ns_, kZoneUncertaintyNs});
    return timeline_.write();
  }

 private:
  TrackId host(const std::string& name) {
    const std::string text = name.empty() ? source_.host : name;
    const auto [found, is_new] = hosts_.emplace(text, kNoId);
    if (is_new) found->second = writer_.add_track(TrackKind::kHost, kNoId, text);
    return found->second;
  }

  void add_rank(int32_t rank, const Json& output, const Json& epochs) {
    const TrackId process =
        writer_.add_track(TrackKind::kProcess, host(text_at(output, "hostname")),
                          fmt::format("dlio rank {}", rank), -1, rank);
    const TrackId device = writer_.add_track(TrackKind::kDevice, process,
                                             fmt::format("accelerator {}", rank), rank, rank);
    for (const auto& [key, stats] : epochs.items()) {
      int64_t epoch = 0;
      if (!to_integer(key, epoch) || !stats.is_object()) {
        account_.skip("epochs without a number");
        continue;
      }
      for (const auto& [block, times] : stats.items()) {
        if (!times.is_object()) continue;
        int64_t start = 0, end = 0;
        if (!to_date(text_at(times, "start"), start)) {
          account_.skip("blocks without a start");
          continue;
        }
        if (!has_start_) start_ns_ = start;
        has_start_ = true;
        if (to_date(text_at(times, "end"), end)) {
          if (end < start) account_.repair_negative(block);
          add_block(process, block, epoch, start, std::max<int64_t>(end - start, 0));
        }
        const Json* of_epoch = member(output, key);
        if (of_epoch != nullptr) add_steps(device, *of_epoch, block, epoch, start);
      }
    }
  }

  void add_block(TrackId process, const std::string& block, int64_t epoch, int64_t start,
                 int64_t duration) {
    const bool is_state = block.starts_with("ckpt") || block.starts_with("save") ||
                          block.starts_with("load_ckpt") || block.starts_with("checkpoint");
    const auto name =
        writer_.name(clean_text(block), is_state ? Category::kCheckpoint : Category::kAnnotation);
    const trace::Argument argument{epoch_, epoch};
    timeline_.add({process, name, start, duration}, EventKind::kSpan, {&argument, 1});
  }

  // Of a step: how long until its batch was there ("load"), how long it all took ("proc"), and how
  // long it computed, which older versions do not write.
  void add_steps(TrackId device, const Json& of_epoch, const std::string& block, int64_t epoch,
                 int64_t start) {
    const auto values = [&](const char* key) {
      const Json* group = member(of_epoch, key);
      const Json* list = group == nullptr ? nullptr : member(*group, block);
      return list != nullptr && list->is_array() ? *list : Json::array();
    };
    const Json loads = values("load"), whole = values("proc"), computes = values("compute");
    const auto step_name = writer_.name("step", Category::kStep);
    const auto wait_name = writer_.name("data wait", Category::kDataWait);
    const auto compute_name = writer_.name("compute", Category::kCompute);
    for (size_t i = 0; i < whole.size(); ++i) {
      const int64_t all = nanoseconds(whole[i]);
      const int64_t load = i < loads.size() ? std::min(nanoseconds(loads[i]), all) : 0;
      const int64_t compute =
          i < computes.size() ? std::min(nanoseconds(computes[i]), all - load) : all - load;
      const std::array<trace::Argument, 2> arguments{
          {{epoch_, epoch}, {step_, static_cast<int64_t>(i)}}};
      timeline_.add({device, step_name, start, all}, EventKind::kSpan, arguments);
      timeline_.add({device, wait_name, start, load}, EventKind::kSpan, arguments);
      timeline_.add({device, compute_name, start + load, compute}, EventKind::kSpan, arguments);
      start += all;
    }
  }

  const Source& source_;
  trace::TraceWriter& writer_;
  Account& account_;
  Timeline timeline_;
  trace::KeyId epoch_, step_;
  std::map<std::string, TrackId> hosts_;
  int64_t start_ns_ = 0;
  bool has_start_ = false;
};

bool recognises_folder(std::span<const std::string> names) {
  const bool has_epochs =
      std::find(names.begin(), names.end(), "per_epoch_stats.json") != names.end();
  return has_epochs && std::any_of(names.begin(), names.end(), [](const std::string& name) {
           return name.ends_with("_output.json");
         });
}

Status read(const Source& source, trace::TraceWriter& writer, Account& account) {
  return DlioImport(source, writer, account).read();
}

}  // namespace

const Importer kDlio{.name = "dlio",
                     .summary = "a folder that DLIO wrote its figures to",
                     .recognises = nullptr,
                     .recognises_folder = recognises_folder,
                     .read = read};

}  // namespace forebay::ingest

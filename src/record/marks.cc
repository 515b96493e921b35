// Collector marks: what the program itself says about its steps. Backend nvtx: why NVIDIA's marks
// are not read.

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "record/builtin.h"
#include "record/live_folder.h"
#include "record/mark_reader.h"

namespace forebay::record {
namespace {

// The programs' side of the agreement: include/forebay/mark.h and python/forebay/marks.py.
constexpr const char* kVariable = "FOREBAY_MARKS";

class MarksCollector : public Collector {
 public:
  Status prepare(Target& target) override {
    if (target.is_attached)
      return fail(ErrorCode::kUnsupported,
                  "a process that runs already cannot be told where to write marks");
    folder_ = FB_TRY(LiveFolder::make(target.folder, "marks"));
    target.environment.emplace_back(kVariable, folder_->path());
    return {};
  }
  Status begin(const Target& /*target*/, Sink& /*sink*/) override {
    reader_ = std::make_unique<MarkReader>(folder_->path());
    return {};
  }
  Status poll(Sink& sink) override { return reader_->poll(sink); }
  Status end(Sink& sink) override;
  CollectorTotals totals() const override {
    return {.calls = reader_ ? reader_->marks() : 0, .lost = 0, .inside_ns = 0, .unit = "marks"};
  }

 private:
  std::optional<LiveFolder> folder_;
  std::unique_ptr<MarkReader> reader_;
};

Status MarksCollector::end(Sink& sink) {
  FB_TRY(reader_->poll(sink));
  reader_->end(sink);
  if (reader_->damaged_lines() > 0)
    sink.writer.fact("warning.marks", base::format_counted(reader_->damaged_lines(), "marks") +
                                          " ended what never began, or could not be read");
  folder_->remove();
  return {};
}

Availability probe_marks() {
  return {.is_available = true, .detail = "by the program's own word", .remedy = {}};
}

Availability probe_nvtx() {
  return {.is_available = false,
          .detail = "this build has no CUPTI, which alone hands NVTX ranges on",
          .remedy = "mark with forebay/mark.h or Python's forebay.mark, or import a trace of nsys"};
}

std::unique_ptr<Collector> make_marks(const CollectorOptions& /*options*/) {
  return std::make_unique<MarksCollector>();
}

}  // namespace

const Backend kMarks{.collector = "marks",
                     .name = "forebay",
                     .gives = "steps, epochs and ranges that the program marks",
                     .needs = "a program with forebay/mark.h or Python's forebay.mark",
                     .misses = {},
                     .probe = probe_marks,
                     .make = make_marks};

const Backend kNvtx{.collector = "marks",
                    .name = "nvtx",
                    .gives = "NVTX ranges",
                    .needs = "CUPTI",
                    .misses = {},
                    .probe = probe_nvtx,
                    .make = make_marks};

}  // namespace forebay::record

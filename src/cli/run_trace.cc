#include "cli/run_trace.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "cli/version.h"
#include "sys/file.h"
#include "sys/host.h"
#include "sys/process.h"
#include "trace/facts.h"
#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/writer.h"

namespace forebay::cli {

namespace {

trace::RecorderOptions recorder_options(int rank) {
  trace::RecorderOptions options;
  options.host = sys::host().name;
  options.process = "forebay run";
  options.pid = sys::process_id();
  options.rank = rank;
  return options;
}

}  // namespace

Result<std::unique_ptr<RunTrace>> RunTrace::open(const std::string& path,
                                                 const std::string& command, int rank) {
  std::unique_ptr<RunTrace> trace(new RunTrace());
  trace->path_ = path;
  trace->exporter_ = trace::exporter_of(path);
  if (trace->exporter_ != nullptr && trace->exporter_->write == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "--trace {}: record a .fbt file, then: forebay export --to {}", path,
                trace->exporter_->name);
  }
  if (trace->exporter_ == nullptr && !path.ends_with(".fbt")) {
    return fail(ErrorCode::kInvalidArgument,
                "--trace {}: the name's end says the format: .fbt, .pftrace, .json or .csv", path);
  }
  FB_TRY(trace->exporter_ == nullptr ? trace->open_own(rank) : trace->open_foreign(rank));
  trace->recorder_->fact(trace::fact::kSource, "run");
  trace->recorder_->fact(trace::fact::kCommand, command);
  trace->recorder_->fact(trace::fact::kVersion, kVersion);
  return trace;
}

// An earlier trace of that name gives way.
Status RunTrace::open_own(int rank) {
  const std::string target = FB_TRY(output_target(path_));
  sys::FileStatus there;
  if (sys::status_at(sys::kCurrentFolder, target, there) == 0) {
    if (!there.is_file) {
      return fail(ErrorCode::kInvalidArgument, "{}: a trace is written into a file, not a device",
                  path_);
    }
    FB_TRY(sys::remove_file(sys::kCurrentFolder, target));
  }
  auto writer = FB_TRY(trace::TraceWriter::create(target));
  recorder_ = std::make_unique<trace::Recorder>(std::move(writer), recorder_options(rank));
  return {};
}

Status RunTrace::open_foreign(int rank) {
  late_ = FB_TRY(OutputFile::open(path_));
  auto writer =
      std::make_unique<trace::TraceWriter>([this](std::span<const std::byte> piece) -> Status {
        bytes_.insert(bytes_.end(), piece.begin(), piece.end());
        return {};
      });
  recorder_ = std::make_unique<trace::Recorder>(std::move(writer), recorder_options(rank));
  return {};
}

Status RunTrace::finish() {
  FB_TRY(recorder_->finish());
  return exporter_ == nullptr ? Status() : export_foreign();
}

Status RunTrace::export_foreign() {
  std::vector<std::unique_ptr<trace::TraceReader>> readers;
  readers.push_back(FB_TRY(trace::TraceReader::open(
      [this](std::span<std::byte> out, uint64_t offset) -> int64_t {
        const size_t size = std::min<size_t>(out.size(), bytes_.size() - offset);
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), size, out.begin());
        return static_cast<int64_t>(size);
      },
      path_)));
  const trace::Recording recording = FB_TRY(trace::Recording::read(std::move(readers), {path_}));
  FB_TRY(exporter_->write(recording, [this](std::string_view text) { return late_->write(text); }));
  return late_->finish();
}

}  // namespace forebay::cli

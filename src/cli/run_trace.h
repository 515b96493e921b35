// The file that `--trace FILE` names: a trace of this run, in the format that the name's end says.
//
// One thread, but for the recorder.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/output_file.h"
#include "forebay/result.h"
#include "trace/export.h"
#include "trace/recorder.h"

namespace forebay::cli {

class RunTrace {
 public:
  // Proves that the file can be written; kInvalidArgument for a suffix that is no format. A .fbt is
  // written while the run goes on; .json, .pftrace and .csv are made from it at the end.
  static Result<std::unique_ptr<RunTrace>> open(const std::string& path, const std::string& command,
                                                int rank);

  trace::Recorder& recorder() { return *recorder_; }
  const std::string& path() const { return path_; }
  // Afterwards the file is whole.
  Status finish();

 private:
  RunTrace() = default;
  Status open_own(int rank);
  Status open_foreign(int rank);
  Status export_foreign();

  std::string path_;
  const trace::Exporter* exporter_ = nullptr;  // null: a file of ours
  std::vector<std::byte> bytes_;               // of ours, until they are exported
  std::optional<OutputFile> late_;             // the exported file
  std::unique_ptr<trace::Recorder> recorder_;
};

}  // namespace forebay::cli

// The folder a run writes to.
//
// One thread.
#pragma once

#include <string>

#include "emulate/result.h"
#include "forebay/result.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::cli {

// `asked` itself, or results/<workload>-<number> with the first number not taken when it is empty.
// Creates the folder and proves that a file can be written there.
Result<std::string> make_result_folder(const std::string& asked, const std::string& workload);

// Takes a folder that nothing was written to away again, and results/ when it is empty then.
void discard_result_folder(const std::string& folder);

// result.json, workload.yaml and DLIO's files, each whole or not at all.
Status write_result(const std::string& folder, const emulate::RunResult& result);

// Chrome JSON, at `path`.
Status write_trace_file(const std::string& path, const trace::Recorder& recorder);

// The text of FOLDER/result.json, or of the file `path` itself.
Result<std::string> read_result(const std::string& path);

}  // namespace forebay::cli

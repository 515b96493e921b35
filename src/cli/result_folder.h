// The folder a run writes to.
//
// One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulate/result.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::cli {

struct ResultFolder {
  std::string path;
  std::vector<std::string> made;  // folders that did not exist before, the innermost first
};

// `asked` itself, or results/<workload>-<number> with the first number not taken when it is empty;
// runs that start together get numbers of their own. Creates the folder and proves that a file can
// be written there.
Result<ResultFolder> make_result_folder(const std::string& asked, const std::string& workload);

// Takes away again what make_result_folder made, as far as it is still empty.
void discard_result_folder(const ResultFolder& folder);

// result.json, workload.yaml and DLIO's files, each whole or not at all. Files of more accelerators
// that an earlier run left there are removed.
Status write_result(const std::string& folder, const emulate::RunResult& result);

// Writes `text` as FOLDER/`name`, whole or not at all.
Status write_file_in(const std::string& folder, const std::string& name, const std::string& text);

// A file that is written later but proved to be writable now.
class LateFile {
 public:
  static Result<LateFile> open(const std::string& path);
  // Chrome JSON, under the file's name.
  Status write_trace(const trace::Recorder& recorder);

 private:
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::Writer> writer_;
};

// The text of FOLDER/result.json, or of the file `path` itself.
Result<std::string> read_result(const std::string& path);

}  // namespace forebay::cli

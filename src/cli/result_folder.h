// The folder a run writes to.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "emulate/result.h"
#include "forebay/result.h"
#include "storage/store.h"
#include "sys/file.h"

namespace forebay::cli {

struct ResultFolder {
  std::string path;
  std::vector<std::string> made;  // folders that did not exist before, the innermost first
  // FOLDER/.running, locked while this process writes there: the kernel frees the lock of a process
  // that ends, however it ends. Closed for an object store, which has no locks: there the last
  // writer of a file wins.
  sys::ScopedFd claim;
};

// `asked` itself, or results/<workload>-<number> with the first number not taken when it is empty;
// runs that start together get numbers of their own. Creates the folder, claims it and proves that
// a file can be written there. kInvalidArgument, naming the process, while another run has it.
Result<ResultFolder> make_result_folder(const std::string& asked, const std::string& workload);

// Gives up the claim, and takes away again what make_result_folder made, as far as it is still
// empty.
void discard_result_folder(const ResultFolder& folder);

// result.json, workload.yaml and DLIO's files, each whole or not at all. Files of more accelerators
// that an earlier run left there are removed.
Status write_result(const std::string& folder, const emulate::RunResult& result);

// Whether make_result_folder or write_result makes a file of that name in the folder.
bool is_result_file(const std::string& name);

// Writes `text` as FOLDER/`name`, whole or not at all.
Status write_file_in(const std::string& folder, const std::string& name, const std::string& text);

// The text of FOLDER/result.json, or of the file `path` itself.
Result<std::string> read_result(const std::string& path);

}  // namespace forebay::cli

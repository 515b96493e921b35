// Asks the format how the samples of each file lie, on several threads, unless the cache knows. Far
// away stores get as many threads as they answer reads at once, up to 64.
//
// One thread at a time; it uses threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "dataset/file_table.h"
#include "dataset/index.h"
#include "dataset/index_cache.h"
#include "dataset/sample_table.h"
#include "forebay/result.h"
#include "formats/format.h"
#include "storage/store.h"

namespace forebay::dataset {

class LayoutSearch {
 public:
  static constexpr uint32_t kNoLayout = UINT32_MAX;

  // Everything must outlive the search.
  LayoutSearch(storage::Store& store, const IndexOptions& options, const formats::Format& format,
               const FileTable& files, const IndexCache& cache);

  // Fails with the error of the first file that cannot be indexed, unless skip_bad_files. A machine
  // that has run out of something fails it in any case.
  Status find_all();

  // After find_all().
  SampleTable& samples() { return samples_; }
  // Numbers in samples(); kNoLayout for bad files.
  const std::vector<uint32_t>& layout_of_file() const { return layout_of_file_; }
  // Sorted by file.
  const std::vector<std::pair<uint64_t, Error>>& bad_files() const { return bad_files_; }
  uint64_t files_asked() const { return files_asked_.load(); }
  // One file stood for all: no other was asked, none need be.
  bool is_uniform() const { return is_uniform_; }

 private:
  bool find_uniform();
  int choose_threads();
  Result<formats::FileIndex> ask(storage::Store& store, uint64_t file);
  void find_some();
  void keep(uint64_t file, Result<formats::FileIndex> layout);

  storage::Store& store_;
  const IndexOptions& options_;
  const formats::Format& format_;
  const FileTable& files_;
  const IndexCache& cache_;
  const bool is_far_;  // the store is not of this machine

  uint64_t chunk_files_ = 1;  // taken by a thread at once
  std::atomic<uint64_t> next_file_ = 0;
  std::atomic<uint64_t> files_asked_ = 0;  // read after the threads have ended
  std::stop_source failed_;
  base::Mutex mutex_;
  // Written under mutex_ while threads run, read when none does.
  SampleTable samples_;
  std::vector<uint32_t> layout_of_file_;
  std::vector<std::pair<uint64_t, Error>> bad_files_;
  bool is_uniform_ = false;
};

}  // namespace forebay::dataset

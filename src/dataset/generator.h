// Makes synthetic data sets with DLIO's names, layout and sizes.
//
// One generator at a time per folder; it uses threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "formats/format.h"
#include "storage/store.h"

namespace forebay::dataset {

struct GeneratorOptions {
  const formats::Format* format = nullptr;
  std::string file_prefix = "img";
  uint64_t files_train = 0, files_valid = 0;
  uint64_t subfolders_train = 0, subfolders_valid = 0;  // 0 or 1 = flat
  uint64_t samples_per_file = 1;
  double record_bytes = 65536, record_bytes_stdev = 0;  // sizes drawn as DLIO does (seed 10)
  std::vector<uint64_t> record_dims;
  // What all files have in common: type, compression, dialect, chunks, table. The plan sets the
  // rest.
  formats::FileSpec common{};
  uint64_t seed = 10;  // of contents; sizes always use DLIO's 10 unless size_seed is set
  uint32_t size_seed = 10;
  int threads = 0;   // 0 = number of CPUs available to this process
  bool sync = true;  // fsync each file before it gets its name
  // Of the processes that share the work: this one makes every world_size-th file from `rank` on.
  int rank = 0, world_size = 1;
  // Called once the space is checked and before the first byte; an error ends the generation.
  std::function<Status()> before_writing;
};

struct GeneratorPlan {
  std::vector<formats::FileSpec> files;  // train files, then valid files
  uint64_t bytes = 0;                    // estimate of what all of them take
};

struct GeneratorProgress {
  // Of this process's share.
  uint64_t files_done = 0, files_total = 0;  // kept from an earlier run count as done
  uint64_t files_kept = 0;                   // were there already and whole
  uint64_t files_replaced = 0;               // were there with another size than asked for
  // Of everybody: data files that are there beside those asked for, and the first in order of name.
  uint64_t files_strange = 0;
  std::string strange_example;
  uint64_t bytes_written = 0, bytes_total = 0;
  double seconds = 0;
};

// Names, dimensions and seeds of every file. kInvalidArgument for impossible sizes.
Result<GeneratorPlan> plan_generation(const GeneratorOptions& options);

// Checks free space (kResourceExhausted with needed and free bytes; files of a format that only
// bounds its sizes are measured by one of them), then writes what is missing. A
// run killed half-way continues; a file with its final name is whole. `progress` is called about
// ten times a second from the calling thread, and once at the end.
Result<GeneratorProgress> generate(storage::Store& store, const GeneratorOptions& options,
                                   const std::function<void(const GeneratorProgress&)>& progress,
                                   std::stop_token stop);

}  // namespace forebay::dataset

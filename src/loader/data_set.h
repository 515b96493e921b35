// What LoaderOptions say of data: the store they lie in, the samples, and the order of an epoch.
// Private to the loader.
//
// On the calling thread.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/catalog.h"
#include "dataset/sample_stream.h"
#include "forebay/loader.h"
#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::loader {

struct DataSet {
  std::unique_ptr<storage::Store> store;
  std::shared_ptr<const dataset::Catalog> catalog;
  std::unique_ptr<dataset::SampleStream> stream;
  std::string order;                   // for people: "full", "windowed, 4 shards of 100 samples"
  uint64_t window_samples = 0;         // that are mixed with each other; 0 = none
  uint64_t bad_file_count = 0;         // of no use, or cut; none with OnError::kRaise
  std::vector<std::string> bad_files;  // the first of them: file and cause
  std::vector<std::string> notes;      // what people should know: files left out, no labels
  std::string tokens_note;  // of the notes: what may be meant for tokens, but is not read so
  std::string index_cache_problem;  // of the first source that has one, and how many have
};

// kNotFound when there are no samples; kInvalidArgument for names or combinations that do not
// exist; kCancelled once `stop` is asked for. `failed`: the file that an error is about.
Result<DataSet> open_data_set(const LoaderOptions& options, const std::stop_token& stop,
                              std::optional<RecordPlace>& failed);

}  // namespace forebay::loader

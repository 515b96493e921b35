// The data set of one run: its index, the order it is visited in, and what there is to say about
// both.
//
// Immutable once open; safe to use from any thread. The store must outlive it.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index.h"
#include "dataset/order.h"
#include "emulate/result.h"
#include "forebay/result.h"
#include "loader/sample_cache.h"
#include "storage/store.h"

namespace forebay::emulate {

struct DataSource {
  std::unique_ptr<dataset::Index> index;
  std::unique_ptr<dataset::Order> order;
  DatasetFacts facts;
  std::vector<std::string> warnings;
  std::shared_ptr<loader::SampleCache> samples;  // with reader.read_type=memory
};

// `split` is "train" or "valid"; a data folder without it is used whole for training, as folders
// nobody generated are. `cache_path` "" = no index cache. `skip_bad_files` leaves out files whose
// samples cannot be found and says so; otherwise the first one is an error. Fewer files than the
// workload asks for is kNotFound with the remedy; more are left alone, as in DLIO.
Result<DataSource> open_data_source(storage::Store& store, const workload::Resolved& resolved,
                                    const std::string& root, const std::string& split,
                                    const std::string& cache_path, bool skip_bad_files,
                                    std::stop_token stop);

// What the workload's shuffle keys ask for, without a seed. A PyTorch loader with an index shuffles
// all samples; a TensorFlow pipeline shuffles files and, within a buffer, samples. Samples that
// come in units (blocks, or files that are read whole) stay near each other, or every unit would be
// read over and over: they are mixed within as many as a loader keeps.
dataset::OrderOptions choose_order(const workload::Workload& workload, const dataset::Index& index);

// What there is to say when several accelerators read the same block or file, or "".
std::string describe_repeated_reads(const DataSource& source, uint64_t accelerators,
                                    uint64_t batch_size);

// For reader.read_type=memory: samples stay in memory once they are read. kResourceExhausted,
// naming both, when the data set needs more than is available beside `bytes_taken`.
Status keep_samples_in_memory(DataSource& source, uint64_t bytes_taken);

// The seed of the orders: train.seed, or fresh entropy when a shuffle is `random`.
uint64_t order_seed(const workload::Workload& workload, uint64_t entropy);

// What the index and the engine have to know of the workload's files.
formats::FormatOptions format_options(const workload::Workload& workload);

// Samples come from no file (reader.data_loader: synthetic).
bool is_synthetic(const workload::Workload& workload);

// Where a store has to look for the samples of a workload that reads none (reader.data_loader:
// synthetic): files that exist only as a rule.
std::string synthetic_store(const workload::Workload& workload);

// The value's origin is not the built-in default: somebody asked for it.
bool is_given(const workload::Resolved& resolved, std::string_view key);

}  // namespace forebay::emulate

// Keys of reader.
#include "workload/row.h"

namespace forebay::workload {

namespace {

constexpr std::string_view kNoPlugins =
    "Python classes cannot be loaded into this engine; a format or store of your own is one file "
    "in C++ (docs/adding), and any program can be fed by the built-in formats";
void store_read_type(Workload& workload, const Value& value) {
  workload.reader.in_memory = value.text == "memory";
}

constexpr std::string_view kAsStored = "samples keep the shape and type that their files have";

constexpr Row kRows[] = {
    {.key = "reader.data_loader",
     .type = Type::kChoice,
     .limits = {.choices = "tensorflow pytorch dali native_dali synthetic custom none"},
     .fallback = "tensorflow",
     .help = "The data loader that is imitated. tensorflow shuffles samples within a buffer; the "
             "others shuffle all of them. synthetic reads nothing: every sample is ready at once.",
     .differs =
         "Every DLIO loader hands over a constant tensor; file data is read, decoded and dropped. "
         "Its TensorFlow loader reads wrong shards of all formats but tfrecord: some files twice, "
         "others never. Its native_dali loader lets every rank read shard 0. Its synthetic loader "
         "stops a step early. Here each sample is read once in an epoch with any of them.",
     .support = Support::kLater,
     .reason =
         "a custom loader cannot be loaded into this engine, and none hands over nothing to train "
         "on; pytorch and the others read with the built-in engine, synthetic reads nothing",
     .supported = "tensorflow pytorch dali native_dali synthetic",
     .need = Need::kTraining,
     .store = put<&Workload::reader, &Reader::data_loader>},
    {.key = "reader.batch_size",
     .type = Type::kCount,
     .limits = {.low = 1, .high = 1e9},
     .unit = "samples",
     .fallback = "1",
     .help = "Samples of one training step of one accelerator.",
     .store = put<&Workload::reader, &Reader::batch_size>},
    {.key = "reader.batch_size_eval",
     .type = Type::kCount,
     .limits = {.low = 1, .high = 1e9},
     .unit = "samples",
     .fallback = "1",
     .help = "Samples of one evaluation step of one accelerator.",
     .store = put<&Workload::reader, &Reader::batch_size_eval>},
    {.key = "reader.read_threads",
     .type = Type::kCount,
     .limits = {.high = 65536},
     .unit = "reads",
     .fallback = "1",
     .help = "Reads that one accelerator keeps in flight; 0 means 1.",
     .differs = "There it is the number of worker processes of PyTorch, or of parallel reads of "
                "TensorFlow.",
     .store = put<&Workload::reader, &Reader::read_threads>},
    {.key = "reader.computation_threads",
     .type = Type::kCount,
     .limits = {.low = 1, .high = 65536},
     .unit = "threads",
     .fallback = "1",
     .help = "Threads that decode for one accelerator, when more than reader.read_threads.",
     .differs = "DLIO uses it with TensorFlow only.",
     .store = put<&Workload::reader, &Reader::computation_threads>},
    {.key = "reader.prefetch_size",
     .type = Type::kCount,
     .limits = {.high = 1e6},
     .unit = "batches",
     .fallback = "2",
     .help = "Batches that are ready ahead of each accelerator.",
     .differs = "PyTorch under DLIO rounds it up to a multiple of read_threads and takes 0 as 2 "
                "for each worker; here 0 means that one batch is made at a time.",
     .store = put<&Workload::reader, &Reader::prefetch_size>},
    {.key = "reader.file_shuffle",
     .type = Type::kChoice,
     .limits = {.choices = "off seed random"},
     .fallback = "off",
     .help =
         "Whether the order of files is shuffled. seed: by train.seed; random: by a seed that is "
         "drawn for the run and recorded.",
     .differs =
         "DLIO's PyTorch loader never shuffles, whatever the key says. Its TensorFlow loader takes "
         "`off` written as text, and False, as on, and cannot tell `seed` from `random`. mlps-v3.0 "
         "deals files to ranks and uses the same order in epochs 1 and 2. Here every epoch has an "
         "order of its own (see train.seed_change_epoch), and off is off.",
     .store = put<&Workload::reader, &Reader::file_shuffle>},
    {.key = "reader.sample_shuffle",
     .type = Type::kChoice,
     .limits = {.choices = "off seed random"},
     .fallback = "off",
     .help = "Whether the order of samples is shuffled; values as for file_shuffle.",
     .differs = "As for file_shuffle.",
     .store = put<&Workload::reader, &Reader::sample_shuffle>},
    {.key = "reader.shuffle_size",
     .type = Type::kCount,
     .limits = {.low = 1, .high = 1e12},
     .unit = "samples",
     .fallback = "1024",
     .help = "Samples that a windowed order mixes with each other.",
     .differs = "DLIO uses it with TensorFlow and DALI only.",
     .store = put<&Workload::reader, &Reader::shuffle_size>},
    {.key = "reader.transfer_size",
     .type = Type::kOptionalBytes,
     .limits = {.low = 1, .high = 0x1p40},
     .unit = "bytes",
     .fallback = "null",
     .help = "Bytes that neighbouring records read at once may reach; null is 1 MiB.",
     .differs = "DLIO uses it for tfrecord only.",
     .store = put<&Workload::reader, &Reader::transfer_size>},
    {.key = "reader.preprocess_time",
     .type = Type::kDistribution,
     .limits = {.high = 1e6},
     .unit = "s",
     .fallback = "0",
     .help = "Time that preparing one sample takes on a decode thread, besides decoding it.",
     .differs =
         "DLIO folds negative draws to positive ones, which shifts the mean; here they count as 0.",
     .store = put<&Workload::reader, &Reader::preprocess_time>},
    {.key = "reader.preprocess_time_stdev",
     .type = Type::kSeconds,
     .limits = {.high = 1e6},
     .unit = "s",
     .fallback = "0",
     .help = "Makes preprocess_time a normal distribution with this spread."},
    {.key = "reader.odirect",
     .type = Type::kBool,
     .fallback = "false",
     .help = "Read past the page cache (O_DIRECT).",
     .differs = "DLIO has it for npy and npz only, and fails on files of 2 GiB.",
     .store = put<&Workload::reader, &Reader::odirect>},
    {.key = "reader.read_type",
     .type = Type::kChoice,
     .limits = {.choices = "on_demand memory"},
     .fallback = "on_demand",
     .help = "memory keeps every sample after it was first read, so that later epochs read "
             "nothing; on_demand reads a sample whenever it is needed.",
     .differs = "An explicit `on_demand` makes DLIO keep files open for ever, because it compares "
                "the text with a constant by identity.",
     .store = store_read_type},
    {.key = "reader.file_access",
     .type = Type::kChoice,
     .limits = {.choices = "multi shared collective mpio posix"},
     .fallback = "multi",
     .help = "How processes share files.",
     .differs = "Parsed there, and unused.",
     .support = Support::kNoEffect,
     .reason = "DLIO does not use it either",
     .supported = "multi"},
    {.key = "reader.pin_memory",
     .type = Type::kBool,
     .fallback = "true",
     .help = "Copy batches into memory that a device can read directly.",
     .support = Support::kNoEffect,
     .reason = "emulated accelerators do not copy batches"},
    {.key = "reader.dont_use_mmap",
     .type = Type::kBool,
     .fallback = "false",
     .help = "Keep DALI from mapping files.",
     .support = Support::kNoEffect,
     .reason = "files are read, never mapped"},
    {.key = "reader.multiprocessing_context",
     .type = Type::kChoice,
     .limits = {.choices = "fork spawn forkserver"},
     .fallback = "fork",
     .help = "How worker processes start.",
     .differs = "fork in DLIO main and mlps-v2.0, spawn in mlps-v3.0.",
     .support = Support::kNoEffect,
     .reason = "there are no worker processes"},
    {.key = "reader.write_threads",
     .type = Type::kCount,
     .limits = {.high = 65536},
     .unit = "threads",
     .fallback = "0",
     .help = "Threads that make data; 0 means one per CPU.",
     .differs = "mlps-v3.0 only. The others make data with one thread for each rank.",
     .store = put<&Workload::reader, &Reader::write_threads>},
    {.key = "reader.reader_classname",
     .fallback = "\"\"",
     .help = "A reader class of the user's own.",
     .support = Support::kLater,
     .reason = kNoPlugins},
    {.key = "reader.data_loader_classname",
     .fallback = "\"\"",
     .help = "A data loader class of the user's own.",
     .support = Support::kLater,
     .reason = kNoPlugins},
    {.key = "reader.data_loader_sampler",
     .type = Type::kChoice,
     .limits = {.choices = "none iterative index"},
     .fallback = "none",
     .help = "How a data loader class of the user's own gets its samples.",
     .support = Support::kNoEffect,
     .reason = kNoPlugins,
     .supported = "none"},
    {.key = "reader.transformed_record_dims",
     .type = Type::kCounts,
     .limits = {.low = 1, .high = 0x1p40},
     .fallback = "[]",
     .help = "Shape of a sample after transforming it.",
     .differs = "There it is the shape of the constant tensor that stands for every sample.",
     .support = Support::kNoEffect,
     .reason = kAsStored,
     .supported = "[]"},
    {.key = "reader.transformed_record_element_type",
     .fallback = "uint8",
     .help = "Element type of a sample after transforming it.",
     .differs = "There it is the type of that tensor.",
     .support = Support::kNoEffect,
     .reason = kAsStored,
     .supported = "uint8"},
};

}  // namespace

std::span<const Row> reader_rows() {
  return kRows;
}

}  // namespace forebay::workload

// One row of the key table: everything that is known about a key.
//
// Rows are constants; safe from any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "workload/value.h"
#include "workload/workload.h"

namespace forebay::workload {

enum class Support {
  kFull,      // changes what runs
  kNoEffect,  // valid, but nothing here depends on it: a warning says why
  kLater,     // values outside `supported` are refused while `need` holds, else they get a warning
  kDlioCommand,  // only the DLIO command line uses it: a warning elsewhere
};

// When a kLater row's value would matter.
enum class Need { kAlways, kCheckpoint, kTraining, kProfiling };

struct Row {
  std::string_view key;
  Type type = Type::kText;
  Limits limits = {};
  std::string_view unit = "";
  std::string_view fallback;  // as YAML
  std::string_view help;
  std::string_view differs = "";  // where DLIO does otherwise, and why
  Support support = Support::kFull;
  std::string_view reason = "";  // kNoEffect and kLater: why; kFull: what rules.cc adds
  // Values, separated by spaces, that ask for nothing that is missing here. Empty: kLater takes the
  // fallback, kNoEffect warns about every value.
  std::string_view supported = "";
  Need need = Need::kAlways;
  std::string_view also = "";    // other spellings, separated by spaces
  std::string_view format = "";  // the one dataset.format that uses it: a warning with others
  bool is_secret = false;        // never shown
  void (*store)(Workload&, const Value&) = nullptr;
};

// Stores a value in a field of a section: put<&Workload::reader, &Reader::batch_size>.
template <class T>
void assign(T& field, const Value& value) {
  if constexpr (std::is_same_v<T, bool>) {
    field = value.flag;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    field = value.count;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    field = value.integer;
  } else if constexpr (std::is_same_v<T, double>) {
    field = value.number;
  } else if constexpr (std::is_same_v<T, std::string>) {
    field = value.text;
  } else if constexpr (std::is_same_v<T, std::optional<uint64_t>>) {
    field = value.is_null ? std::nullopt : std::optional(value.count);
  } else if constexpr (std::is_same_v<T, std::vector<uint64_t>>) {
    field = value.counts;
  } else if constexpr (std::is_same_v<T, std::vector<ParquetColumn>>) {
    field = value.columns;
  } else if constexpr (std::is_same_v<T, std::vector<CheckpointPlace>>) {
    field = value.places;
  } else if constexpr (std::is_same_v<T, Shuffle>) {
    field = value.text == "off"    ? Shuffle::kOff
            : value.text == "seed" ? Shuffle::kSeed
                                   : Shuffle::kRandom;
  } else {
    static_assert(std::is_same_v<T, Distribution>);
    field = value.distribution;
  }
}

template <auto Section, auto Field>
void put(Workload& workload, const Value& value) {
  assign(workload.*Section.*Field, value);
}

template <auto Field>
void put_top(Workload& workload, const Value& value) {
  assign(workload.*Field, value);
}

// The parts of the table, in the order of the sections.
std::span<const Row> model_rows();  // name, framework, model, workflow, storage
std::span<const Row> dataset_rows();
std::span<const Row> reader_rows();
std::span<const Row> training_rows();  // train, evaluation, checkpoint, output, profiling, metric

}  // namespace forebay::workload

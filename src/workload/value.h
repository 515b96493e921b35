// One checked value of one key, and how keys of each type are read.
//
// Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "workload/document.h"
#include "workload/workload.h"

namespace forebay::workload {

enum class Type {
  kBool,
  kCount,          // whole number
  kOptionalCount,  // whole number; null and -1 mean "not set"
  kInteger,        // whole number that may be negative
  kBytes,          // number or "4MiB"; fractions are kept
  kWholeBytes,     // whole number or "4MiB"
  kOptionalBytes,  // the same, or null
  kFraction,
  kSeconds,       // number or "20ms"
  kDistribution,  // seconds, or {mean, stdev}, or {type, ...}
  kText,          // null reads as ""
  kChoice,        // one word of a list
  kCounts,        // list of whole numbers
  kColumns,       // list of {name, dtype, size, read}
  kPlaces,        // list of texts or {place, storage, bytes_per_second_max, keep}
  kTree,          // anything; only whether it was set matters
};

struct Value {
  bool is_null = true;  // kOptional*, kTree
  bool flag = false;    // kBool
  uint64_t count = 0;   // kCount, kOptionalCount, kWholeBytes, kOptionalBytes
  int64_t integer = 0;  // kInteger
  double number = 0;    // kBytes, kFraction, kSeconds
  std::string text;     // kText, kChoice; kTree: one line of YAML
  std::vector<uint64_t> counts;
  std::vector<ParquetColumn> columns;
  std::vector<CheckpointPlace> places;
  Distribution distribution;

  bool operator==(const Value&) const = default;
};

struct Limits {
  double low = 0;
  double high = 0x1p62;
  bool is_low_excluded = false;   // "> 0"
  std::string_view choices = {};  // kChoice: separated by spaces
};

// kInvalidArgument without a place: "must be 1..1000, not 0".
Result<Value> read_value(Type type, const Limits& limits, const Node& node);

// As YAML that read_value takes back to the same value.
std::string value_text(Type type, const Value& value);

// "1..1000000", "> 0", "off | seed | random", "".
std::string range_text(Type type, const Limits& limits);
std::string_view type_name(Type type);

}  // namespace forebay::workload

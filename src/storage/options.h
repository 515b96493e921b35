// The options of a driver: text from the user, checked against the driver's table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "storage/store.h"

namespace forebay::storage {

constexpr int64_t kHourNs = 3'600'000'000'000;

class OptionReader {
 public:
  // Unknown and repeated keys are kInvalidArgument. `table` and `values` must outlive the reader.
  static Result<OptionReader> open(std::string_view driver, std::span<const StoreOption> table,
                                   const OptionValues& values);

  // Each takes the value given, or the table's fallback, and names driver and key when it does not
  // fit. Bounds are inclusive.
  std::string_view text(std::string_view key) const;
  Result<uint64_t> bytes(std::string_view key, uint64_t min, uint64_t max) const;
  Result<uint64_t> bytes_per_second(std::string_view key, uint64_t max) const;  // also "9MB/s"
  Result<int64_t> integer(std::string_view key, int64_t min, int64_t max) const;
  Result<double> number(std::string_view key, double min, double max) const;
  // From 0. Beyond an hour an option that lengthens each operation is a mistake of units.
  Result<int64_t> duration_ns(std::string_view key, int64_t max = kHourNs) const;
  Result<bool> flag(std::string_view key) const;  // true or false
  // The index of the value in `choices`.
  Result<size_t> choice(std::string_view key, std::span<const std::string_view> choices) const;

 private:
  OptionReader(std::string_view driver, std::span<const StoreOption> table,
               const OptionValues& values)
      : driver_(driver), table_(table), values_(&values) {}
  Error wrong(std::string_view key, const std::string& why) const;

  std::string_view driver_;
  std::span<const StoreOption> table_;
  const OptionValues* values_;
};

// A store's name and its options, as in "slow:latency=5ms,over=memory".
//
// Options are separated by ','. The value of `over` is a store again: a bare name ends at the next
// ',' like any value; a name with options of its own ("over=slow:latency=5ms,over=memory") takes
// the whole rest of the text.
struct StoreSpec {
  std::string name;
  OptionValues options;
};
Result<StoreSpec> parse_store_spec(std::string_view text);

}  // namespace forebay::storage

// What every sample of a data set has in common: the names, kinds, types and shapes of its fields,
// as the first good sample shows them. Private to the loader.
//
// Immutable once made; safe to use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/result.h"
#include "ops/pipeline.h"

namespace forebay::loader {

struct FieldSpec {
  std::string name{};
  ops::FieldKind kind = ops::FieldKind::kArray;
  bool is_stacked = false;  // the rows of a batch are one array: all have `type` and `shape`
  formats::ElementType type = formats::ElementType::kU8;
  std::vector<uint64_t> shape{};
  uint64_t bytes = 0;  // of a stacked row; of the others: what the first sample had
};

class Schema {
 public:
  Schema() = default;
  // From the fields of the sample at `path`. `is_ragged` names those that are never stacked.
  static Result<Schema> make(std::string_view path, std::span<const ops::Field> fields,
                             const std::function<bool(std::string_view)>& is_ragged);

  std::span<const FieldSpec> fields() const { return fields_; }
  // fields().size() when there is none of that name.
  size_t find(std::string_view name) const;
  uint64_t stacked_bytes() const;   // of a row, all stacked fields
  uint64_t separate_bytes() const;  // of the first sample, all others

  // kUnsupported, naming both shapes and the remedy, when `field` cannot be a row of `spec`.
  Status check(const FieldSpec& spec, std::string_view path, const ops::Field& field) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;  // of the sample it was taken from
  std::vector<FieldSpec> fields_;
};

// "uint8 [224, 224, 3]", "text".
std::string describe_field(ops::FieldKind kind, formats::ElementType type,
                           std::span<const uint64_t> shape);

}  // namespace forebay::loader

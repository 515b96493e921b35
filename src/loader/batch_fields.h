// A batch's fields and samples as the public face shows them. Private to the loader.
//
// A value; what it shows lives as long as the engine's batch.
#pragma once

#include <span>
#include <vector>

#include "dataset/catalog.h"
#include "forebay/loader.h"
#include "loader/engine.h"

namespace forebay::loader {

class BatchFields {
 public:
  BatchFields(const Batch& batch, const dataset::Catalog& catalog);

  std::span<const Sample> samples() const { return samples_; }
  std::span<const BatchField> fields() const { return fields_; }

 private:
  void add_field(const FieldRows& rows, size_t field);

  std::vector<Sample> samples_;  // the bytes are those of the first field
  std::vector<BatchField> fields_;
  std::vector<std::vector<uint64_t>> shapes_;  // by field
  std::vector<std::vector<Sample>> each_;      // by field; empty where stacked
};

}  // namespace forebay::loader

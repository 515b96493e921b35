// Reads the first good sample of a data set by itself, before an engine exists, to learn what all
// samples have in common. Private to the loader.
//
// On the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "dataset/catalog.h"
#include "forebay/result.h"
#include "loader/schema.h"
#include "ops/allowance.h"
#include "ops/pipeline.h"
#include "storage/store.h"

namespace forebay::loader {

struct ProbeOptions {
  std::function<std::unique_ptr<ops::Runner>()> make_runner;
  std::function<bool(std::string_view)> is_ragged;
  const ops::Allowance* memory = nullptr;  // the runners'
  uint64_t seed = 0;
  uint64_t read_bytes_max = UINT64_MAX;  // larger records are passed over
  // Look at a few more samples, and refuse ops that give most of them another shape: for policies
  // that would leave them out one by one.
  bool compares_more = false;
};

struct Probe {
  Schema schema;
  uint32_t file = 0;          // that it came from
  bool has_images = false;    // among the parts of the sample
  uint64_t unit_bytes = 0;    // of the block or file it came from, decoded; 0 where it came alone
  uint64_t unit_samples = 1;  // in it
};

// The sample with the lowest number that is good, so that it is the same for every rank and order.
// The error of the first one when several in a row are bad: kInvalidArgument for an op that asks
// for what none of them has, kResourceExhausted where memory is too little for the first.
// kUnsupported when `compares_more` finds unlike shapes. `bad_sample` is the one that an error is
// about, if it is about one.
Result<Probe> probe_first_sample(storage::Store& store, const dataset::Catalog& catalog,
                                 const ProbeOptions& options, std::optional<uint64_t>& bad_sample);

}  // namespace forebay::loader

// What a loader decides before it starts: the fields of its samples, its share of memory, where
// tuning begins and ends; and the same in words. Private to the loader.
//
// On the calling thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "forebay/loader.h"
#include "loader/data_set.h"
#include "loader/memory_plan.h"
#include "loader/options.h"
#include "ops/allowance.h"
#include "ops/pipeline.h"

namespace forebay::loader {

struct EnginePlan {
  EngineOptions engine;
  MemoryPlan memory;
};

// Reads one sample; its runners have all of `memory`. kInvalidArgument when memory_bytes is too
// little for it, or for the batches asked for; kResourceExhausted when what the machine leaves is.
// `bad_sample` is the one that an error is about, if it is about one.
Result<EnginePlan> plan_loader(const LoaderOptions& options, const DataSet& data,
                               const std::shared_ptr<const ops::Pipeline>& pipeline,
                               const ops::Allowance& memory, std::optional<uint64_t>& bad_sample);

// All but the number of batches.
LoaderPlan explain_plan(const LoaderOptions& options, const DataSet& data, const EnginePlan& plan);

}  // namespace forebay::loader

// What names in foreign traces mean to the explainer.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/model.h"

namespace forebay::ingest {

struct Meaning {
  trace::Category category = trace::Category::kOther;
  int64_t step = -1;  // number of the iteration that a mark names
};

// Of a range that a user or a framework named: "ProfilerStep#7", "iteration 3", "checkpoint save",
// "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__". kAnnotation when it is none of
// those that are known.
Meaning meaning_of_mark(std::string_view text);

// Of a system call, a function of the C library, or its kin: "pread64", "__xstat", "fopen64",
// "futex". kOther when it is not known.
trace::Category category_of_call(std::string_view name);

// Of a kernel or copy by its name: collective, copy or compute.
trace::Category category_of_kernel(std::string_view name);

}  // namespace forebay::ingest

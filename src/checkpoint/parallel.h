// Work that falls into independent parts, on several threads.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "forebay/result.h"

namespace forebay::checkpoint {

// Calls work(0) to work(count - 1), each once, on the calling thread and up to threads - 1 others.
// After an error none is begun any more; the first error is returned. kCancelled on a stop.
Status for_each_parallel(size_t count, int threads, const std::stop_token& stop,
                         const std::function<Status(size_t)>& work);

}  // namespace forebay::checkpoint

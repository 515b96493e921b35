// Opens stores as a workload's storage section says: what it gives for object stores goes along,
// and nowhere into a text.
//
// Functions; safe from any thread.
#pragma once

#include <memory>
#include <string>

#include "forebay/result.h"
#include "storage/store.h"
#include "workload/workload.h"

namespace forebay::emulate {

// `place` is a folder or "s3://BUCKET/PREFIX".
Result<std::unique_ptr<storage::Store>> open_data_store(const std::string& spec,
                                                        const std::string& place,
                                                        const workload::Storage& storage);

bool is_object_place(const std::string& place);

// Where `folder`, a key of the workload, lies. With an object store's storage_type a relative
// folder is a prefix in the bucket storage_root; kInvalidArgument when that names none. In the
// plain form of storage/place.h.
Result<std::string> place_of(const std::string& folder, const workload::Storage& storage);

// The same for a place of checkpoints, which is a folder as it stands, whatever storage_root says.
Result<std::string> checkpoint_place(const std::string& place, const workload::Storage& storage);

}  // namespace forebay::emulate

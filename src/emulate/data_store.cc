#include "emulate/data_store.h"

#include "base/error.h"
#include "storage/place.h"

namespace forebay::emulate {
namespace {

constexpr std::string_view kScheme = "s3://";

bool is_no_root(const std::string& root) {
  return root.empty() || root == "./" || root == ".";
}

}  // namespace

bool is_object_place(const std::string& place) {
  return storage::is_object_place(place);
}

Result<std::unique_ptr<storage::Store>> open_data_store(const std::string& spec,
                                                        const std::string& place,
                                                        const workload::Storage& storage) {
  if (!is_object_place(place)) return storage::open_store(spec, place);
  storage::OptionValues given;
  const auto give = [&](const char* name, const std::string& value) {
    if (!value.empty()) given.emplace_back(name, value);
  };
  give("access_key_id", storage.access_key_id);
  give("secret_access_key", storage.secret_access_key);
  give("endpoint", storage.endpoint_url);
  give("region", storage.region);
  if (storage.force_path_style) give("path_style", "true");
  give("max_attempts", std::to_string(storage.max_attempts));
  return storage::open_store(spec, place, given);
}

Result<std::string> place_of(const std::string& folder, const workload::Storage& storage) {
  std::string root = storage.storage_root;
  if (is_object_place(folder)) return storage::normal_place(folder);
  if (storage.is_object_store()) {
    if (is_no_root(root))
      return fail(ErrorCode::kInvalidArgument,
                  "storage.storage_root = '{}': storage.storage_type = {} needs the name of a "
                  "bucket there",
                  root, storage.storage_type);
    return storage::normal_place((is_object_place(root) ? "" : std::string(kScheme)) + root + "/" +
                                 folder);
  }
  if (folder.empty() && is_no_root(root))
    return fail(ErrorCode::kInvalidArgument,
                "dataset.data_folder is empty: name a folder there, or with --data");
  if (folder.starts_with('/') || is_no_root(root)) return storage::normal_place(folder);
  return storage::normal_place(root + "/" + folder);
}

Result<std::string> checkpoint_place(const std::string& place, const workload::Storage& storage) {
  if (storage.is_object_store() && !place.starts_with('/')) return place_of(place, storage);
  return place;
}

}  // namespace forebay::emulate

// What works with any store: opening one by its text, and whole files at once.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "storage/changed.h"
#include "storage/options.h"
#include "storage/place.h"
#include "storage/store.h"

namespace forebay::storage {

namespace {

Status refuse_secrets(const Driver& driver, const StoreSpec& spec) {
  for (const StoreOption& option : driver.options) {
    if (!option.is_secret) continue;
    for (const auto& [key, value] : spec.options)
      if (key == option.name)
        return fail(ErrorCode::kInvalidArgument,
                    "storage {}: {} is a secret, and this text ends up in results and logs: set it "
                    "in the environment or in a credentials file",
                    driver.name, key);
  }
  return {};
}

// The driver a spec names, or the one that its root asks for.
Result<const Driver*> find_driver(std::string_view name, std::string_view root) {
  if (is_object_place(root) && name == "local") name = "s3";
  std::vector<std::string_view> names;
  for (const Driver* driver : builtin_drivers()) {
    names.push_back(driver->name);
    if (driver->name != name) continue;
    if (is_object_place(root) && (name == "direct" || name == "uring"))
      return fail(ErrorCode::kInvalidArgument,
                  "storage {} reads files, and {} is an object store: use storage s3", name, root);
    return driver;
  }
  return Error{ErrorCode::kInvalidArgument, base::unknown_name_message("storage", name, names)};
}

// The store that a wrapper stands on.
std::string_view over_of(const Driver& driver, const StoreSpec& spec) {
  for (const auto& [key, value] : spec.options)
    if (key == "over") return value;
  for (const StoreOption& option : driver.options)
    if (option.name == "over") return option.fallback;
  return "local";
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(std::string_view spec, std::string_view place,
                                          const OptionValues& hidden) {
  const std::string root = FB_TRY(normal_place(place));
  StoreSpec parsed = FB_TRY(parse_store_spec(spec));
  const Driver* driver = FB_TRY(find_driver(parsed.name, root));
  FB_TRY(refuse_secrets(*driver, parsed));
  if (driver->wrap != nullptr)
    return driver->wrap(FB_TRY(open_store(over_of(*driver, parsed), root, hidden)), parsed.options);
  const OptionValues given = parsed.options;
  for (const auto& option : hidden) {
    const bool is_given = std::any_of(given.begin(), given.end(),
                                      [&](const auto& own) { return own.first == option.first; });
    if (!is_given) parsed.options.push_back(option);
  }
  return driver->open(root, parsed.options);
}

Status Store::rename_folder(std::string_view from, std::string_view /*to*/) {
  return fail(ErrorCode::kUnsupported, "{}: {} has no folders that could be renamed", from,
              describe());
}

Status Store::link_file(std::string_view from, std::string_view /*to*/) {
  return fail(ErrorCode::kUnsupported, "{}: {} has no links to a file", from, describe());
}

Result<std::shared_ptr<const void>> Store::lock_file(std::string_view path, bool /*exclusive*/) {
  return fail(ErrorCode::kUnsupported, "{}: {} has no locks", path, describe());
}

Result<std::vector<std::string>> Store::list_folders(std::string_view prefix) {
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  return std::vector<std::string>();
}

Result<std::vector<Unpublished>> Store::list_unpublished(std::string_view prefix) {
  if (!prefix.empty() && !is_inside(prefix)) return outside_error(prefix);
  return std::vector<Unpublished>();
}

Status Store::remove_unpublished(const Unpublished& one) {
  return fail(ErrorCode::kNotFound, "{}: {} shows files once they are published", one.path,
              describe());
}

Status Store::remove_folder(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  return {};
}

namespace {

class ReaderByName final : public Reader {
 public:
  ReaderByName(Store& store, std::string_view path) : store_(store), path_(path) {}
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    return store_.read_at(path_, offset, out);
  }

 private:
  Store& store_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Reader>> Store::open_file(std::string_view path) {
  return std::unique_ptr<Reader>(std::make_unique<ReaderByName>(*this, path));
}

Status Store::make_folder(std::string_view path) {
  if (!is_inside(path)) return outside_error(path);
  return {};
}

Status Store::check_stop() const {
  if (!stop_.stop_requested()) return {};
  return fail(ErrorCode::kCancelled, "{}: stopped", describe());
}

Result<std::vector<std::byte>> read_file(Store& store, std::string_view path, uint64_t bytes_max) {
  const FileInfo info = FB_TRY(store.stat(path));
  const auto too_large = [&](uint64_t bytes) {
    return fail(ErrorCode::kResourceExhausted, "{}: is {} bytes, at most {} are allowed", path,
                bytes, bytes_max);
  };
  if (info.size > bytes_max) return too_large(info.size);
  // One byte more than there should be, to learn of growth; a file that grows is read to its end.
  std::vector<std::byte> out(info.size + 1);
  size_t have = 0;
  for (;;) {
    const size_t got = FB_TRY(store.read_at(path, have, std::span(out).subspan(have)));
    have += got;
    if (have < out.size()) break;
    if (have > bytes_max) return too_large(have);
    out.resize(out.size() * 2);
  }
  if (have > bytes_max) return too_large(have);
  out.resize(have);
  return out;
}

Status write_file(Store& store, std::string_view path, std::span<const std::byte> bytes) {
  const std::unique_ptr<Writer> writer = FB_TRY(store.create(path));
  FB_TRY(writer->append(bytes));
  if (store.capabilities().can_sync) FB_TRY(writer->sync());
  return writer->publish();
}

}  // namespace forebay::storage

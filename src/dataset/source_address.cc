#include "dataset/source_address.h"

#include <algorithm>

#include "base/error.h"
#include "dataset/patterns.h"
#include "formats/format.h"
#include "storage/place.h"

namespace forebay::dataset {
namespace {

constexpr std::string_view kS3 = "s3://";

// How much of a path is the root that cannot be cut: "/" or "s3://bucket".
size_t fixed_length(std::string_view path) {
  if (!path.starts_with(kS3)) return path.starts_with('/') ? 1 : 0;
  return std::min(path.find('/', kS3.size()), path.size());
}

std::vector<std::string_view> folders_of(std::string_view path, size_t from) {
  std::vector<std::string_view> parts;
  while (from < path.size()) {
    const size_t end = std::min(path.find('/', from), path.size());
    const std::string_view part = path.substr(from, end - from);
    if (!part.empty() && part != ".") parts.push_back(part);
    from = end + 1;
  }
  return parts;
}

std::string join(std::string_view fixed, std::span<const std::string_view> parts) {
  std::string path(fixed);
  for (const std::string_view part : parts) {
    if (!path.empty() && !path.ends_with('/')) path += '/';
    path += part;
  }
  return path;
}

}  // namespace

Result<SourceAddress> split_address(std::string_view given) {
  if (given.empty()) return fail(ErrorCode::kInvalidArgument, "no data: the address is empty");
  // "S3://" as well.
  const std::string text = storage::is_object_place(given)
                               ? std::string(kS3) + std::string(given.substr(kS3.size()))
                               : std::string(given);
  const size_t fixed = fixed_length(text);
  if (text.starts_with(kS3)) {
    const std::string_view bucket = std::string_view(text).substr(kS3.size(), fixed - kS3.size());
    if (bucket.empty())
      return fail(ErrorCode::kInvalidArgument, "{}: no bucket: expected s3://BUCKET/PATH", text);
    if (is_pattern(bucket))
      return fail(ErrorCode::kInvalidArgument, "{}: the bucket cannot be a pattern", text);
  }
  FB_TRY(expand_braces(text));
  const std::string head = text.substr(0, fixed);
  const std::string_view below = std::string_view(text).substr(fixed);
  if (!is_pattern(below)) {
    const std::string extension = formats::extension_of(below);
    const bool is_file =
        !below.ends_with('/') && !extension.empty() && formats::find_format(extension) != nullptr;
    if (!is_file) return SourceAddress{.root = text, .patterns = {}};
  }
  // The folder that is written out belongs to the root. Escapes are as long as what they stand for
  // plus their '\': the rest is found by walking the same parts.
  const std::string folder = literal_folder(below.starts_with('/') ? below.substr(1) : below);
  std::string_view rest = below.starts_with('/') ? below.substr(1) : below;
  const auto slashes = folder.empty() ? 0 : std::count(folder.begin(), folder.end(), '/') + 1;
  for (auto i = slashes; i > 0; --i) rest.remove_prefix(rest.find('/') + 1);
  SourceAddress address{.root = head, .patterns = {std::string(rest)}};
  if (!folder.empty()) {
    if (!address.root.empty() && !address.root.ends_with('/')) address.root += '/';
    address.root += folder;
  }
  if (address.root.empty()) address.root = ".";
  return address;
}

std::optional<SourceAddress> as_file(const SourceAddress& address) {
  const std::string_view root = address.root;
  const size_t fixed = fixed_length(root);
  const size_t slash = root.rfind('/');
  const size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  if (!address.patterns.empty() || name < fixed || name == root.size()) return std::nullopt;
  std::string_view folder = root.substr(0, name);
  if (folder.size() > std::max<size_t>(1, fixed)) folder.remove_suffix(1);
  return SourceAddress{.root = folder.empty() ? "." : std::string(folder),
                       .patterns = {escape_pattern(root.substr(name))}};
}

Result<SharedRoot> share_root(std::span<const SourceAddress> addresses) {
  if (addresses.empty()) return fail(ErrorCode::kInvalidArgument, "no sources");
  const std::string_view first_root = addresses.front().root;
  const std::string_view fixed = first_root.substr(0, fixed_length(first_root));
  std::vector<std::string_view> shared = folders_of(first_root, fixed.size());
  for (const SourceAddress& address : addresses) {
    const std::string_view root = address.root;
    const size_t length = fixed_length(root);
    if (root.substr(0, length) != fixed)
      return fail(ErrorCode::kUnsupported,
                  "{} and {}: sources must lie on one file system or in one bucket (and all be "
                  "written with a leading '/', or none)",
                  first_root, root);
    const auto parts = folders_of(root, length);
    const auto ends = std::mismatch(shared.begin(), shared.end(), parts.begin(), parts.end());
    shared.erase(ends.first, shared.end());
  }
  SharedRoot result{.root = join(fixed, shared), .patterns = {}, .folders = {}};
  if (result.root.empty()) result.root = ".";
  for (const SourceAddress& address : addresses) {
    auto parts = folders_of(address.root, fixed.size());
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(shared.size()));
    if (std::find(parts.begin(), parts.end(), "..") != parts.end())
      return fail(ErrorCode::kUnsupported, "{}: beside other sources, write it without '..'",
                  address.root);
    const std::string folder = join("", parts);
    result.folders.push_back(folder);
    std::vector<std::string>& patterns = result.patterns.emplace_back();
    const std::string escaped = escape_pattern(folder);
    if (address.patterns.empty() && !folder.empty()) patterns.push_back(escaped);
    for (const std::string& pattern : address.patterns)
      patterns.push_back(folder.empty() ? pattern : escaped + "/" + pattern);
  }
  return result;
}

}  // namespace forebay::dataset

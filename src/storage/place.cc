#include "storage/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "sys/directory.h"
#include "sys/file.h"

namespace forebay::storage {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::string_view kSchemeName = "s3:";

// "gs" of "gs://bucket", or "".
std::string_view scheme_of(std::string_view place) {
  const std::string_view scheme = place.substr(0, place.find("://"));
  const auto is_of_one = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  };
  return scheme != place && std::all_of(scheme.begin(), scheme.end(), is_of_one) ? scheme : "";
}

bool starts_with(std::string_view text, std::string_view lower_case) {
  return base::to_lower(text.substr(0, lower_case.size())) == lower_case;
}

// "a//b/" is "a/b"; what is nothing but '/' is "/".
std::string single_slashes(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '/' || !out.ends_with('/')) out += c;
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

// A folder by its file system and number, and the names below it that do not exist yet.
std::string folder_identity(const std::string& path) {
  sys::FileStatus status;
  std::string there = "/";
  std::vector<std::string> rest;
  for (const std::string_view part : base::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (!rest.empty()) {  // made with the folder, so no links
      if (part == "..")
        rest.pop_back();
      else
        rest.emplace_back(part);
      continue;
    }
    const std::string next = there + std::string(part) + "/";
    if (sys::status_at(sys::kCurrentFolder, next, status) == 0)
      there = next;
    else
      rest.emplace_back(part);
  }
  if (const int result = sys::status_at(sys::kCurrentFolder, there, status); result < 0)
    return path;
  std::string out = fmt::format("{}:{}", status.device, status.inode);
  for (const std::string& name : rest) out += "/" + name;
  return out;
}

}  // namespace

bool is_object_place(std::string_view place) {
  return starts_with(place, kScheme);
}

Result<std::string> normal_place(std::string_view place) {
  if (!is_object_place(place)) {
    if (place == "~" || place.starts_with("~/"))
      return fail(ErrorCode::kInvalidArgument,
                  "'{}': a shell would have written a home folder in place of the ~, and none has: "
                  "write the whole path; a folder of that name is ./{}",
                  place, place);
    if (!scheme_of(place).empty() && !starts_with(place, kSchemeName))
      return fail(ErrorCode::kInvalidArgument,
                  "'{}': nothing here reads or writes {}://; there are folders and "
                  "s3://BUCKET/PREFIX; a folder of that name is ./{}",
                  place, scheme_of(place), place);
    if (!starts_with(place, kSchemeName)) return single_slashes(place);
    std::string_view rest = place.substr(kSchemeName.size());
    while (rest.starts_with('/')) rest.remove_prefix(1);
    return fail(ErrorCode::kInvalidArgument,
                "'{}': an object store is written s3://{}, a folder of that name ./{}", place,
                rest.empty() ? "BUCKET/PREFIX" : rest, place);
  }
  const std::string_view rest = place.substr(kScheme.size());
  // No bucket: for the store to refuse.
  if (rest.empty() || rest.front() == '/') return std::string(kScheme) + std::string(rest);
  return std::string(kScheme) + single_slashes(rest);
}

Result<std::string> place_identity(std::string_view place) {
  std::string normal = FB_TRY(normal_place(place));
  if (is_object_place(normal)) return normal;
  if (!normal.starts_with('/')) normal = sys::current_folder() + "/" + normal;
  return folder_identity(normal);
}

}  // namespace forebay::storage

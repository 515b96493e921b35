#include "storage/s3_profile.h"

#include "base/error.h"
#include "base/text.h"

namespace forebay::storage {

Result<std::map<std::string, Profile, std::less<>>> parse_profiles(std::string_view path,
                                                                   std::string_view text) {
  constexpr std::string_view kProfile = "profile ";
  std::map<std::string, Profile, std::less<>> out;
  Profile* section = nullptr;
  std::string block;
  size_t number = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    ++number;
    const std::string_view content = base::trim(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') continue;
    if (content.front() == '[') {
      if (content.back() != ']')
        return fail(ErrorCode::kInvalidArgument, "{}:{}: a section's name ends with ']'", path,
                    number);
      std::string_view name = base::trim(content.substr(1, content.size() - 2));
      if (name.starts_with(kProfile)) name = base::trim(name.substr(kProfile.size()));
      section = &out[std::string(name)];
      block.clear();
      continue;
    }
    const size_t equals = content.find('=');
    if (equals == std::string_view::npos || section == nullptr)
      return fail(ErrorCode::kInvalidArgument, "{}:{}: is not 'key = value' in a [section]", path,
                  number);
    const std::string key = base::to_lower(base::trim(content.substr(0, equals)));
    const std::string_view value = base::trim(content.substr(equals + 1));
    const bool is_indented = line.front() == ' ' || line.front() == '\t';
    if (is_indented && !block.empty()) {
      (*section)[block + "." + key] = value;
      continue;
    }
    block = value.empty() ? key : "";
    (*section)[key] = value;
  }
  return out;
}

}  // namespace forebay::storage

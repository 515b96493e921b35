// The built page of web/: one script and one style sheet. The build makes page_assets.cc from them.
#pragma once

#include <string_view>

namespace forebay::report {

struct PageAssets {
  std::string_view script = {}, style = {};
  // Of the two, as a content security policy wants them: base64.
  std::string_view script_sha256 = {}, style_sha256 = {};
  std::string_view missing = {};  // why this build has no page; empty when it has one
};

const PageAssets& page_assets();

}  // namespace forebay::report

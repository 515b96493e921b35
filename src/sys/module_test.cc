#include "sys/module.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace forebay::sys {
namespace {

// Installed below /usr, the folder beside the program is the one that the build was told.
TEST(Module, AFolderThatIsGivenTwiceIsNamedOnce) {
  const std::string places = find_module_file("no_such_file.so").error().message;
  const std::string last = places.substr(places.rfind(' ') + 1);
  setenv("FOREBAY_MODULE_FOLDER", (last + "/").c_str(), 1);
  const std::string again = find_module_file("no_such_file.so").error().message;
  unsetenv("FOREBAY_MODULE_FOLDER");
  EXPECT_EQ(again.find(last), again.rfind(last)) << again;
}

}  // namespace
}  // namespace forebay::sys

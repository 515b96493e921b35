# Run by the build: SOURCE (web/), FOLDER (where to work), NPM, NODE. Writes FOLDER/page_assets.cc
# in any case; FOLDER/missing says why it holds no page.

function(leave_out reason)
  message(WARNING "`forebay report` will be missing: ${reason}")
  file(WRITE "${FOLDER}/missing" "${reason}\n")
  file(WRITE "${FOLDER}/page_assets.cc" "// The page could not be built.
#include \"report/page_assets.h\"

namespace forebay::report {

const PageAssets& page_assets() {
  static constexpr PageAssets kAssets{.missing = R\"reason(${reason})reason\"};
  return kAssets;
}

}  // namespace forebay::report
")
endfunction()

if(NOT NPM OR NOT NODE)
  leave_out("npm was not there when it was built (./dev setup installs it)")
  return()
endif()

# node_modules belong to the build folder, and are installed again only when the lock changed.
file(SHA256 "${SOURCE}/package-lock.json" lock)
set(stamp "${FOLDER}/node_modules/${lock}.stamp")
if(NOT EXISTS "${stamp}")
  foreach(file package.json package-lock.json .npmrc)
    file(COPY_FILE "${SOURCE}/${file}" "${FOLDER}/${file}")
  endforeach()
  execute_process(COMMAND "${NPM}" ci --no-audit --no-fund --ignore-scripts --fetch-retries=1
      --prefer-offline
    WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE why)
  if(NOT code EQUAL 0)
    string(REGEX MATCH "[^\n]*\n?[^\n]*" why "${why}")
    string(REPLACE "\n" "; " why "${why}")
    leave_out("npm could not install what builds it (no network?): ${why}")
    return()
  endif()
  file(TOUCH "${stamp}")
endif()

execute_process(COMMAND "${NODE}" "${SOURCE}/build.mjs" "${FOLDER}"
  WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the report page could not be built")
endif()

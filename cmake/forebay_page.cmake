# The report page of web/, bundled and made into one C++ source: FOREBAY_PAGE_ASSETS. Without npm,
# or without a network for its first installation, the build goes on and `forebay report` says so.
find_program(FOREBAY_NPM npm)
find_program(FOREBAY_NODE node)

set(FOREBAY_PAGE_FOLDER "${CMAKE_BINARY_DIR}/web")
set(FOREBAY_PAGE_ASSETS "${FOREBAY_PAGE_FOLDER}/page_assets.cc")
file(MAKE_DIRECTORY "${FOREBAY_PAGE_FOLDER}")

# A page that an earlier build had to leave out is tried again after configuring.
if(EXISTS "${FOREBAY_PAGE_FOLDER}/missing")
  file(REMOVE "${FOREBAY_PAGE_FOLDER}/missing" "${FOREBAY_PAGE_ASSETS}")
endif()

file(GLOB page_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/src/*")
add_custom_command(OUTPUT "${FOREBAY_PAGE_ASSETS}"
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}/web" "-DFOLDER=${FOREBAY_PAGE_FOLDER}"
    "-DNPM=${FOREBAY_NPM}" "-DNODE=${FOREBAY_NODE}"
    -P "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
  DEPENDS ${page_sources} "${PROJECT_SOURCE_DIR}/web/package.json"
    "${PROJECT_SOURCE_DIR}/web/package-lock.json" "${PROJECT_SOURCE_DIR}/web/build.mjs"
    "${PROJECT_SOURCE_DIR}/cmake/build_page.cmake"
  COMMENT "Building the report page" VERBATIM)

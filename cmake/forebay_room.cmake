# forebay_room(NAME
#   SOURCES a.cc ...       every .cc of the room but the tests
#   USES base sys ...      rooms above it
#   LIBRARIES fmt::fmt ... third-party targets
#   TESTS a_test.cc ...)   one test program per room, each test known to ctest
#
# Makes the target forebay_NAME and, with tests, the program NAME_test.
function(forebay_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES;LIBRARIES;TESTS;TEST_LIBRARIES" ${ARGN})
  if(ROOM_SOURCES)
    add_library(forebay_${name} STATIC ${ROOM_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(forebay_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(forebay_${name} ${scope}
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  list(TRANSFORM ROOM_USES PREPEND forebay_)
  foreach(target ${ROOM_USES})
    if(NOT TARGET ${target})  # else it is taken for a library's name, and the linker looks for it
      message(FATAL_ERROR "forebay_${name} uses ${target}, which is not among the rooms built")
    endif()
  endforeach()
  target_link_libraries(forebay_${name} ${scope} ${ROOM_USES} ${ROOM_LIBRARIES})
  if(ROOM_SOURCES)
    target_link_libraries(forebay_${name} PRIVATE forebay_settings)
  endif()
  set_property(GLOBAL APPEND PROPERTY FOREBAY_ROOMS ${name})
  set_property(GLOBAL APPEND PROPERTY FOREBAY_LIBRARIES ${ROOM_LIBRARIES})

  if(FOREBAY_BUILD_TESTS AND ROOM_TESTS)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE forebay_${name} forebay_settings
      ${ROOM_TEST_LIBRARIES} forebay_test_source_folder GTest::gmock GTest::gtest GTest::gtest_main)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 300 LABELS unit SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
    set_property(GLOBAL APPEND PROPERTY FOREBAY_TEST_PROGRAMS ${name}_test)
  endif()
endfunction()

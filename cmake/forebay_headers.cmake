# The target check_headers: one generated source per header, which includes nothing else first.
file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/include/forebay/*.h" "${PROJECT_SOURCE_DIR}/src/*/*.h"
  "${PROJECT_SOURCE_DIR}/src/*/*/*.h")
# Private headers of modules need a library that only the module has.
list(FILTER headers EXCLUDE REGEX "formats/parquet_pool\\.h$")
set(sources)
foreach(header ${headers})
  string(REGEX REPLACE "^(include|src)/" "" name "${header}")
  string(REPLACE "/" "_" stem "${name}")
  set(source "${CMAKE_BINARY_DIR}/headers/${stem}.cc")
  # Twice: the second shows a missing #pragma once.
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${name}\"\n#include \"${name}\"\n")
  list(APPEND sources "${source}")
endforeach()
if(sources)
  add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  get_property(rooms GLOBAL PROPERTY FOREBAY_ROOMS)
  list(TRANSFORM rooms PREPEND forebay_)
  target_link_libraries(check_headers PRIVATE ${rooms} forebay_settings)
  target_compile_options(check_headers PRIVATE -O0 -g0)
  set_target_properties(check_headers PROPERTIES UNITY_BUILD OFF)
endif()

# forebay_module(NAME
#   SOURCES a.cc ...       the module's own sources
#   USES base storage ...  rooms whose code it carries a copy of
#   LIBRARIES ...          third-party targets that only it needs
#   COMPONENT name)        of the installation it belongs to (program)
#
# Makes lib/forebay/forebay_NAME.so, which sys/module.h finds beside the program. A module shares
# nothing but plain interfaces with the program: no globals, no exceptions.
function(forebay_module name)
  cmake_parse_arguments(MODULE "" "COMPONENT" "SOURCES;USES;LIBRARIES" ${ARGN})
  if(NOT MODULE_COMPONENT)
    set(MODULE_COMPONENT program)
  endif()
  add_library(forebay_${name}_module MODULE ${MODULE_SOURCES})
  list(TRANSFORM MODULE_USES PREPEND forebay_)
  target_include_directories(forebay_${name}_module PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(forebay_${name}_module PRIVATE
    ${MODULE_USES} ${MODULE_LIBRARIES} forebay_settings)
  set_target_properties(forebay_${name}_module PROPERTIES
    PREFIX "" OUTPUT_NAME forebay_${name}
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/forebay")
  set_property(GLOBAL APPEND PROPERTY FOREBAY_MODULES forebay_${name}_module)
  install(TARGETS forebay_${name}_module
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/forebay" COMPONENT ${MODULE_COMPONENT})
endfunction()

# Apache Arrow's C++ library for the module forebay_parquet: an installed one, else the one that a
# pyarrow wheel carries with its headers. Sets FOREBAY_ARROW_LIBRARIES when there is one.
set(FOREBAY_ARROW_PYTHON "" CACHE FILEPATH
  "Python whose pyarrow brings Arrow (default: build/python of ./dev setup; none: do without)")
set(FOREBAY_ARROW_OLDEST 21)

# forebay_arrow_works(VARIABLE LIBRARIES): whether a program with Arrow's types links. Another ABI
# of std::string than ours does not.
function(forebay_arrow_works variable)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES ${ARGN})
  set(CMAKE_REQUIRED_FLAGS "-std=c++20")
  check_cxx_source_compiles("
    #include <arrow/status.h>
    #include <parquet/exception.h>
    #include <string>
    int main(int n, char** names) {
      try {
        PARQUET_THROW_NOT_OK(arrow::Status::Invalid(std::string(names[0])));
      } catch (const parquet::ParquetException&) { return n; }
      return arrow::Status::FromArgs(arrow::StatusCode::IOError, n).ToString().size() == 1;
    }" ${variable})
  set(${variable} "${${variable}}" PARENT_SCOPE)
endfunction()

# Library targets from the folder of the wheel that `python` has.
function(forebay_arrow_from_wheel python)
  execute_process(COMMAND "${python}" -c "import pyarrow as a
print(a.get_include(), a.get_library_dirs()[0], a.cpp_version, sep=';')"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    return()
  endif()
  list(GET answer 0 headers)
  list(GET answer 1 folder)
  list(GET answer 2 version)
  if(version VERSION_LESS FOREBAY_ARROW_OLDEST)
    message(STATUS "Arrow: pyarrow ${version} of ${python} is older than ${FOREBAY_ARROW_OLDEST}")
    return()
  endif()
  foreach(name arrow parquet)
    file(GLOB files "${folder}/lib${name}.so.*")
    if(NOT files OR NOT EXISTS "${headers}/${name}")
      message(STATUS "Arrow: the pyarrow of ${python} has no ${name} for C++")
      return()
    endif()
    list(GET files 0 file)
    add_library(forebay_wheel_${name} SHARED IMPORTED GLOBAL)
    set_target_properties(forebay_wheel_${name} PROPERTIES
      IMPORTED_LOCATION "${file}" INTERFACE_INCLUDE_DIRECTORIES "${headers}")
  endforeach()
  string(MAKE_C_IDENTIFIER "FOREBAY_ARROW_${version}_WORKS" works)
  forebay_arrow_works(${works} forebay_wheel_parquet forebay_wheel_arrow)
  if(NOT ${works})
    message(STATUS "Arrow: the pyarrow ${version} of ${python} does not link with this compiler")
    return()
  endif()
  message(STATUS "Arrow: ${version} of the pyarrow wheel in ${folder}")
  set(FOREBAY_ARROW_LIBRARIES forebay_wheel_parquet forebay_wheel_arrow PARENT_SCOPE)
  set(FOREBAY_ARROW_FOLDER "${folder}" PARENT_SCOPE)
endfunction()

set(FOREBAY_ARROW_LIBRARIES)
set(FOREBAY_ARROW_FOLDER)
if(NOT FOREBAY_ARROW_PYTHON)
  find_package(Arrow CONFIG QUIET)
  find_package(Parquet CONFIG QUIET)
endif()
if(TARGET Parquet::parquet_shared AND NOT Arrow_VERSION VERSION_LESS FOREBAY_ARROW_OLDEST)
  string(MAKE_C_IDENTIFIER "FOREBAY_ARROW_INSTALLED_${Arrow_VERSION}_WORKS" works)
  forebay_arrow_works(${works} Parquet::parquet_shared Arrow::arrow_shared)
  if(${works})
    message(STATUS "Arrow: ${Arrow_VERSION}, installed in ${Arrow_DIR}")
    set(FOREBAY_ARROW_LIBRARIES Parquet::parquet_shared Arrow::arrow_shared)
  endif()
endif()
if(NOT FOREBAY_ARROW_LIBRARIES)
  set(python "${FOREBAY_ARROW_PYTHON}")
  if(NOT python)
    set(python "${PROJECT_SOURCE_DIR}/build/python/bin/python")
  endif()
  if(EXISTS "${python}")
    forebay_arrow_from_wheel("${python}")
  endif()
endif()
if(NOT FOREBAY_ARROW_LIBRARIES)
  message(STATUS "Arrow: not found; the format parquet will be refused (./dev setup brings it)")
endif()

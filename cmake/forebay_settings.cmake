# Compiler settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(FOREBAY_CCACHE ccache)
if(FOREBAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${FOREBAY_CCACHE}")
endif()

add_library(forebay_settings INTERFACE)
target_compile_options(forebay_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms on std::string::insert in g++ 12 (gcc bug 105651).
  target_compile_options(forebay_settings INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(forebay_settings INTERFACE -Wthread-safety)
endif()
if(FOREBAY_SANITIZE)
  target_compile_options(forebay_settings INTERFACE
    -fsanitize=${FOREBAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(forebay_settings INTERFACE -fsanitize=${FOREBAY_SANITIZE})
endif()

find_program(FOREBAY_MOLD mold)
if(FOREBAY_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

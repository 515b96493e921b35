# Third-party libraries, each with its reason in docs/dependencies.md.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(BZip2 REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(CURL 7.88 REQUIRED)
find_package(EXPAT REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
pkg_check_modules(uring REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg)
# The serial build by name: plain "hdf5" is the MPI build where that is installed.
pkg_check_modules(hdf5 REQUIRED IMPORTED_TARGET hdf5-serial)
pkg_check_modules(spng REQUIRED IMPORTED_TARGET spng)

# Optional: runs over several processes and hosts.
find_package(MPI QUIET COMPONENTS C)

if(FOREBAY_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

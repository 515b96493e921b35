# cmake -DFILE=io.bpf.o -DOUTPUT=io_program.cc -P embed_object.cmake
#
# Writes the bytes of an object file, none when FILE is empty, into a source file.
set(numbers "")
if(FILE)
  file(READ "${FILE}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," numbers "${hex}")
endif()
file(WRITE "${OUTPUT}" "// Made from io.bpf.c by embed_object.cmake.
#include \"record/kernel_program.h\"

namespace forebay::record {

namespace {
alignas(8) constexpr unsigned char kBytes[] = {
${numbers}0};
}  // namespace

std::span<const std::byte> io_program_bytes() {
  return std::as_bytes(std::span(kBytes)).first(sizeof(kBytes) - 1);
}

}  // namespace forebay::record
")

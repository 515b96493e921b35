// What kind of program a file is: whether a library can be put in front of its libc.
//
// Safe to call from any thread. Foreign bytes: whatever the file holds, the answer is one of these.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forebay::sys {

struct ProgramFile {
  bool is_program = false;   // an ELF file of this machine's kind
  bool is_static = false;    // no loader: nothing can be preloaded
  bool is_elevated = false;  // runs with other rights than we have: takes no library from us
  bool is_go = false;        // makes its system calls itself, whatever it links
  std::string loader;        // "/lib64/ld-linux-x86-64.so.2"; of static ones empty
  std::string interpreter;   // of a script: the program that its first line names
};
ProgramFile program_file(const std::string& path);
// The same from the first bytes of a file (a few KiB hold what is asked); but is_elevated, which is
// no matter of bytes.
ProgramFile program_from(std::span<const std::byte> bytes);

// Why an interposer sees nothing of such a program: "is statically linked"; empty when it does.
std::string not_interposable(const ProgramFile& program);

}  // namespace forebay::sys

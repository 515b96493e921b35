#include "sys/program_file.h"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "sys/file.h"

namespace forebay::sys {
namespace {

#if defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
constexpr unsigned kMachine = EM_X86_64;
#endif

template <class T>
bool read_struct(std::span<const std::byte> bytes, uint64_t at, T& out) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(&out, bytes.data() + at, sizeof(T));
  return true;
}

std::string_view text_at(std::span<const std::byte> bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + at, size);
  return text.substr(0, text.find('\0'));
}

std::string interpreter_of(std::string_view text) {
  text = text.substr(2, text.find('\n') - 2);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::string_view program = text.substr(0, text.find_first_of(" \t\r"));
  if (!program.ends_with("/env")) return std::string(program);
  text.remove_prefix(program.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text.substr(0, text.find_first_of(" \t\r")));
}

}  // namespace

ProgramFile program_from(std::span<const std::byte> bytes) {
  ProgramFile program;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("#!")) {
    program.interpreter = interpreter_of(text);
    return program;
  }
  Elf64_Ehdr header{};
  if (!read_struct(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine)
    return program;
  program.is_program = true;
  program.is_static = true;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (header.e_phoff > bytes.size() ||
        !read_struct(bytes, header.e_phoff + i * sizeof part, part))
      break;
    if (part.p_type == PT_INTERP) {
      program.is_static = false;
      program.loader = std::string(text_at(bytes, part.p_offset, part.p_filesz));
    }
    // The linker of Go leaves a note of its own name in all its programs.
    if (part.p_type == PT_NOTE) {
      Elf64_Nhdr note{};
      if (read_struct(bytes, part.p_offset, note) &&
          text_at(bytes, part.p_offset + sizeof note, note.n_namesz) == "Go")
        program.is_go = true;
    }
  }
  return program;
}

namespace {

// As the kernel decides whether an exec is a "secure" one: set-user-id and set-group-id to another
// than ours, or capabilities of the file; none of them where they are switched off.
bool is_elevated(const std::string& path) {
  struct stat info {};
  struct statvfs system {};
  if (::stat(path.c_str(), &info) != 0 || ::statvfs(path.c_str(), &system) != 0) return false;
  if ((system.f_flag & ST_NOSUID) != 0 || ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    return false;
  const bool sets_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != ::getuid();
  // Without the group's right to run it the bit means locking, not rights.
  constexpr mode_t kSetsGroup = S_ISGID | S_IXGRP;
  const bool sets_group = (info.st_mode & kSetsGroup) == kSetsGroup && info.st_gid != ::getgid();
  const bool has_capabilities =
      ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return sets_user || sets_group || has_capabilities;
}

}  // namespace

// A set-user-id program may well be one that we may run and not read.
ProgramFile program_file(const std::string& path) {
  ProgramFile program;
  const ScopedFd fd(open_at(kCurrentFolder, path, OpenMode::kRead));
  if (fd.is_open()) {
    std::vector<std::byte> bytes(16 << 10);
    const int64_t got = read_at(fd.get(), bytes, 0);
    if (got > 0) program = program_from(std::span(bytes).first(static_cast<size_t>(got)));
  }
  program.is_elevated = program.interpreter.empty() && is_elevated(path);  // scripts never are
  program.is_program = program.is_program || program.is_elevated;
  return program;
}

std::string not_interposable(const ProgramFile& program) {
  if (!program.is_program) return "is no program of this machine's kind";
  if (program.is_elevated)
    return "is set-user-id or has rights of its own, and takes no library; what it starts may not "
           "either";
  if (program.is_static) return "is statically linked";
  if (program.is_go) return "is written in Go, which makes system calls without libc";
  if (program.loader.find("musl") != std::string::npos) return "uses another libc (musl)";
  return {};
}

}  // namespace forebay::sys

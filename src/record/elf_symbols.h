// Names for the code addresses of one ELF file: symbols, the build id, and lines where debug
// information is there (in the file, or below /usr/lib/debug by build id).
//
// One thread at a time. A file that cannot be read has no names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forebay::record {

class ElfSymbols {
 public:
  static std::unique_ptr<ElfSymbols> open(const std::string& path);
  // An image in this process: the vdso.
  static std::unique_ptr<ElfSymbols> in_memory(std::span<const std::byte> image);
  ~ElfSymbols();

  struct Found {
    std::string name;      // demangled
    uint64_t address = 0;  // where the symbol begins, as the file numbers addresses
    uint32_t line = 0;     // where the function begins, 0 = not known
  };
  std::optional<Found> find(uint64_t address);
  // The file's own number for what lies at an offset in it.
  uint64_t address_at(uint64_t file_offset) const;
  std::optional<uint64_t> address_of(std::string_view symbol) const;
  const std::string& build_id() const;  // hexadecimal, empty = none

 private:
  struct Impl;
  explicit ElfSymbols(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // hides libelf and libdw
};

std::string demangled(const char* name);

}  // namespace forebay::record

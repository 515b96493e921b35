#include "record/elf_symbols.h"

#include <cxxabi.h>
#include <elfutils/libdw.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sys/file.h"

namespace forebay::record {

namespace {

struct EndElf {
  void operator()(Elf* elf) const { elf_end(elf); }
};
struct EndDwarf {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};
using ElfFile = std::unique_ptr<Elf, EndElf>;

struct Symbol {
  uint64_t address, size;
  const char* name;  // in the file's own tables
};

void add_symbols(Elf* elf, uint32_t type, std::vector<Symbol>& out) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != type) continue;
    Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) continue;
    const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, i, &symbol) == nullptr || symbol.st_shndx == SHN_UNDEF) continue;
      const int kind = GELF_ST_TYPE(symbol.st_info);
      if (kind != STT_FUNC && kind != STT_GNU_IFUNC && kind != STT_OBJECT) continue;
      const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr && *name != 0) out.push_back({symbol.st_value, symbol.st_size, name});
    }
  }
}

std::string find_build_id(Elf* elf) {
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return {};
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr || header.p_type != PT_NOTE) {
      continue;
    }
    Elf_Data* const data =
        elf_getdata_rawchunk(elf, static_cast<int64_t>(header.p_offset), header.p_filesz,
                             header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (data == nullptr) continue;
    GElf_Nhdr note;
    size_t name = 0, value = 0;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &value)) > 0;) {
      const auto* const bytes = static_cast<const unsigned char*>(data->d_buf);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
          std::memcmp(bytes + name, "GNU", 4) != 0) {
        continue;
      }
      std::string text;
      for (size_t b = 0; b < note.n_descsz; ++b) text += fmt::format("{:02x}", bytes[value + b]);
      return text;
    }
  }
  return {};
}

}  // namespace

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string(name);
}

struct ElfSymbols::Impl {
  sys::ScopedFd fd, debug_fd;
  ElfFile elf, debug;
  std::unique_ptr<Dwarf, EndDwarf> dwarf;
  bool has_looked_for_lines = false;
  std::string build_id;
  struct Segment {
    uint64_t file_offset, size, address;
  };
  std::vector<Segment> segments;
  std::vector<Symbol> symbols;  // by address, the longest first

  bool read();
  uint32_t line_of(uint64_t address);
};

bool ElfSymbols::Impl::read() {
  size_t count = 0;
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF || elf_getphdrnum(elf.get(), &count) != 0) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf.get(), static_cast<int>(i), &header) == nullptr) continue;
    if (header.p_type == PT_LOAD) {
      segments.push_back({header.p_offset, header.p_filesz, header.p_vaddr});
    }
  }
  build_id = find_build_id(elf.get());
  add_symbols(elf.get(), SHT_SYMTAB, symbols);
  if (symbols.empty() && build_id.size() > 2) {
    const std::string path = fmt::format("/usr/lib/debug/.build-id/{}/{}.debug",
                                         build_id.substr(0, 2), build_id.substr(2));
    if (auto opened = sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead);
        opened.ok()) {
      debug_fd = std::move(opened).take();
      debug.reset(elf_begin(debug_fd.get(), ELF_C_READ_MMAP, nullptr));
      if (debug) add_symbols(debug.get(), SHT_SYMTAB, symbols);
    }
  }
  add_symbols(elf.get(), SHT_DYNSYM, symbols);
  std::sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.size > b.size;
  });
  return true;
}

uint32_t ElfSymbols::Impl::line_of(uint64_t address) {
  if (!has_looked_for_lines) {
    has_looked_for_lines = true;
    // The debugging information that stands apart is that of a distribution's library, compressed:
    // to unpack it costs more than all else, for lines that are nobody's own.
    dwarf.reset(dwarf_begin_elf(elf.get(), DWARF_C_READ, nullptr));
  }
  if (!dwarf) return 0;
  Dwarf_Die unit;
  if (dwarf_addrdie(dwarf.get(), address, &unit) == nullptr) return 0;
  Dwarf_Line* const line = dwarf_getsrc_die(&unit, address);
  int number = 0;
  if (line == nullptr || dwarf_lineno(line, &number) != 0) return 0;
  return static_cast<uint32_t>(std::max(number, 0));
}

ElfSymbols::ElfSymbols(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ElfSymbols::~ElfSymbols() = default;

std::unique_ptr<ElfSymbols> ElfSymbols::open(const std::string& path) {
  elf_version(EV_CURRENT);
  auto opened = sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead);
  if (!opened.ok()) return nullptr;
  auto impl = std::make_unique<Impl>();
  impl->fd = std::move(opened).take();
  impl->elf.reset(elf_begin(impl->fd.get(), ELF_C_READ_MMAP, nullptr));
  if (!impl->read()) return nullptr;
  return std::unique_ptr<ElfSymbols>(new ElfSymbols(std::move(impl)));
}

std::unique_ptr<ElfSymbols> ElfSymbols::in_memory(std::span<const std::byte> image) {
  elf_version(EV_CURRENT);
  auto impl = std::make_unique<Impl>();
  // libelf only reads, though its interface does not say so.
  impl->elf.reset(
      elf_memory(const_cast<char*>(reinterpret_cast<const char*>(image.data())), image.size()));
  if (!impl->read()) return nullptr;
  return std::unique_ptr<ElfSymbols>(new ElfSymbols(std::move(impl)));
}

std::optional<ElfSymbols::Found> ElfSymbols::find(uint64_t address) {
  const auto& all = impl_->symbols;
  auto next = std::upper_bound(
      all.begin(), all.end(), address,
      [](uint64_t wanted, const Symbol& symbol) { return wanted < symbol.address; });
  // Hand-written code has symbols without a size: the nearest serves, as long as it is near.
  constexpr uint64_t kNear = 4096;
  for (int tries = 0; next != all.begin() && tries < 16; ++tries) {
    const Symbol& symbol = *--next;
    const uint64_t size = symbol.size == 0 ? kNear : symbol.size;
    if (address - symbol.address >= size) continue;
    // The same function may have several names: the first of the longest, whoever asks.
    while (next != all.begin() && std::prev(next)->address == symbol.address &&
           std::prev(next)->size >= symbol.size) {
      --next;
    }
    return Found{demangled(next->name), next->address, impl_->line_of(next->address)};
  }
  return std::nullopt;
}

uint64_t ElfSymbols::address_at(uint64_t file_offset) const {
  for (const auto& segment : impl_->segments) {
    if (file_offset >= segment.file_offset && file_offset - segment.file_offset < segment.size) {
      return file_offset - segment.file_offset + segment.address;
    }
  }
  return file_offset;
}

std::optional<uint64_t> ElfSymbols::address_of(std::string_view symbol) const {
  for (const Symbol& each : impl_->symbols) {
    if (symbol == each.name) return each.address;
  }
  return std::nullopt;
}

const std::string& ElfSymbols::build_id() const {
  return impl_->build_id;
}

}  // namespace forebay::record

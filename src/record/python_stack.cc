#include "record/python_stack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "record/elf_symbols.h"
#include "sys/other_process.h"

namespace forebay::record {

namespace {

constexpr size_t kDepthMax = 256;
constexpr size_t kThreadsMax = 4096;
constexpr uint64_t kTextMax = 1024;
constexpr unsigned char kOwnedByC = 3;  // a frame of the interpreter's own

void put_utf8(uint32_t c, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  } else {
    put(0xf0 | (c >> 18 & 7));
    put(0x80 | (c >> 12 & 63));
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  }
}

bool may_be_python(const std::string& path) {
  return std::filesystem::path(path).filename().string().find("python") != std::string::npos;
}

}  // namespace

template <class T>
bool PythonStacks::get(uint64_t address, T& out) const {
  return address != 0 &&
         sys::read_memory(pid_, address, std::as_writable_bytes(std::span(&out, 1)));
}

std::unique_ptr<PythonStacks> PythonStacks::find(int pid) {
  for (const sys::Mapping& m : sys::mappings_of(pid)) {
    if (!m.is_code || !may_be_python(m.path)) continue;
    const auto elf = ElfSymbols::open(m.path);
    if (!elf) continue;
    const auto runtime = elf->address_of("_PyRuntime");
    const auto version_at = elf->address_of("Py_Version");
    if (!runtime || !version_at) continue;
    const uint64_t bias = m.begin - elf->address_at(m.file_offset);
    std::unique_ptr<PythonStacks> found(new PythonStacks(pid));
    found->runtime_ = bias + *runtime;
    unsigned long version = 0;
    if (!found->get(bias + *version_at, version) || !found->choose_layout(version)) return nullptr;
    if (const auto evaluator = elf->address_of("_PyEval_EvalFrameDefault")) {
      found->evaluator_begin_ = bias + *evaluator;
      found->evaluator_end_ = found->evaluator_begin_ + (64 << 10);
    }
    return found;
  }
  return nullptr;
}

// 3.11 and 3.12: the offsets of a 64-bit build, which no patch version may change. 3.13 has them in
// its own memory.
bool PythonStacks::choose_layout(unsigned long version) {
  switch (version >> 16) {
    case 0x030b:
      layout_ = {.threads = 16,
                 .thread_id = 160,
                 .has_c_frame = true,
                 .c_frame = 8,
                 .frame_previous = 48,
                 .frame_code = 32,
                 .frame_owner = 69,
                 .code_line = 72,
                 .text_bytes = 48,
                 .wide_text_bytes = 72};
      return true;
    case 0x030c:
      layout_ = {.threads = 72,
                 .thread_id = 144,
                 .has_c_frame = true,
                 .c_frame = 0,
                 .frame_previous = 8,
                 .frame_code = 0,
                 .frame_owner = 70,
                 .code_line = 68,
                 .text_bytes = 40,
                 .wide_text_bytes = 56};
      return true;
    case 0x030d:
      return read_layout();
    default:
      return false;
  }
}

// struct _Py_DebugOffsets of 3.13, at the beginning of the runtime's state.
bool PythonStacks::read_layout() {
  std::array<uint64_t, 72> words{};
  if (!get(runtime_, words) || std::memcmp(words.data(), "xdebugpy", 8) != 0) return false;
  if (words[1] >> 16 != 0x030d || words[2] != 0) return false;  // version; free-threaded
  const auto at = [&](size_t offset) { return words[offset / 8]; };
  layout_ = {.interpreters = at(40),
             .interpreter_next = at(64),
             .threads = at(72),
             .thread_next = at(168),
             .thread_frame = at(184),
             .thread_id = at(200),
             .has_c_frame = false,
             .c_frame = 0,
             .frame_previous = at(232),
             .frame_code = at(240),
             .frame_owner = at(264),
             .code_file = at(280),
             .code_name = at(296),
             .code_line = at(312),
             .text_bytes = at(560),
             .wide_text_bytes = at(560) + 16};
  return std::all_of(words.begin() + 3, words.end(), [](uint64_t w) { return w < (1 << 24); });
}

// The interpreter's state of a thread; 0 when it has none.
uint64_t PythonStacks::thread_state(int tid) const {
  uint64_t interpreter = 0, only = 0;
  size_t count = 0;
  if (!get(runtime_ + layout_.interpreters, interpreter)) return 0;
  while (interpreter != 0 && count < kThreadsMax) {
    uint64_t thread = 0;
    if (!get(interpreter + layout_.threads, thread)) return 0;
    while (thread != 0 && count++ < kThreadsMax) {
      uint64_t id = 0;
      if (!get(thread + layout_.thread_id, id)) return 0;
      if (id == static_cast<uint64_t>(tid)) return thread;
      only = thread;
      if (!get(thread + layout_.thread_next, thread)) return 0;
    }
    if (!get(interpreter + layout_.interpreter_next, interpreter)) return 0;
  }
  // A forked child still has its parent's number, and one thread.
  return count == 1 && tid == pid_ ? only : 0;
}

bool PythonStacks::read_text(uint64_t address, std::string& out) const {
  uint64_t length = 0;
  uint32_t state = 0;
  if (!get(address + 16, length) || !get(address + 32, state) || length > kTextMax) return false;
  const uint32_t kind = state >> 2 & 7;
  const bool is_compact = (state >> 5 & 1) != 0, is_ascii = (state >> 6 & 1) != 0;
  if (!is_compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  std::vector<std::byte> bytes(length * kind);
  const uint64_t from = address + (is_ascii ? layout_.text_bytes : layout_.wide_text_bytes);
  if (!bytes.empty() && !sys::read_memory(pid_, from, bytes)) return false;
  out.clear();
  for (size_t i = 0; i < length; ++i) {
    uint32_t c = 0;
    std::memcpy(&c, bytes.data() + i * kind, kind);  // little-endian
    if (c > 0x10ffff) return false;
    put_utf8(c, out);
  }
  return true;
}

const PythonFunction* PythonStacks::function(uint64_t code) {
  Code now;
  if (!get(code + layout_.code_file, now.file) || !get(code + layout_.code_name, now.name) ||
      !get(code + layout_.code_line, now.line)) {
    return nullptr;
  }
  Code& known = codes_[code];
  const bool is_same = known.function != nullptr && known.file == now.file &&
                       known.name == now.name && known.line == now.line;
  if (is_same) return known.function.get();
  auto function = std::make_unique<PythonFunction>();
  function->line = now.line;
  if (now.line > 10'000'000 || !read_text(now.file, function->file) ||
      !read_text(now.name, function->name) || function->name.empty()) {
    return nullptr;
  }
  now.function = std::move(function);
  known = std::move(now);
  return known.function.get();
}

bool PythonStacks::read(int tid, std::vector<const PythonFunction*>& out) {
  out.clear();
  const uint64_t thread = thread_state(tid);
  uint64_t frame = 0;
  if (thread == 0 || !get(thread + layout_.thread_frame, frame)) return false;
  if (layout_.has_c_frame && !get(frame + layout_.c_frame, frame)) return false;
  for (size_t depth = 0; frame != 0; ++depth) {
    uint64_t code = 0, previous = 0;
    unsigned char owner = 0;
    if (depth == kDepthMax || !get(frame + layout_.frame_code, code) ||
        !get(frame + layout_.frame_owner, owner) ||
        !get(frame + layout_.frame_previous, previous) || owner > kOwnedByC) {
      return false;
    }
    if (owner != kOwnedByC) {
      const PythonFunction* const found = function(code);
      if (found == nullptr) return false;
      out.push_back(found);
    }
    frame = previous;
  }
  return !out.empty();
}

}  // namespace forebay::record

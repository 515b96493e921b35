#include "record/sampled_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <span>

#include "record/kernel_names.h"
#include "sys/file.h"
#include "sys/other_process.h"
#include "sys/process.h"

namespace forebay::record {

namespace {

// The vdso of this process is that of every other.
std::unique_ptr<ElfSymbols> own_vdso() {
  for (const sys::Mapping& m : sys::mappings_of(sys::process_id())) {
    if (m.path != "[vdso]") continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): where the kernel put it
    const auto* const image = reinterpret_cast<const std::byte*>(m.begin);
    return ElfSymbols::in_memory({image, m.end - m.begin});
  }
  return nullptr;
}

std::optional<uint64_t> hexadecimal(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Up to the next space, which is taken away too.
std::string_view next_word(std::string_view& text) {
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

void CodeMap::add(uint64_t begin, const Range& range) {
  // What was there before is gone where they overlap.
  auto at = ranges_.lower_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second.end > begin) std::prev(at)->second.end = begin;
  while (at != ranges_.end() && at->first < range.end) at = ranges_.erase(at);
  ranges_[begin] = range;
}

const std::pair<const uint64_t, CodeMap::Range>* CodeMap::find(uint64_t address) const {
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return nullptr;
  --at;
  return address < at->second.end ? &*at : nullptr;
}

SampledStacks::SampledStacks() = default;

size_t SampledStacks::FrameHash::operator()(const Frame& f) const {
  const uint64_t owner = uint64_t{f.owner} << 2 | static_cast<uint64_t>(f.kind);
  return (f.address ^ owner * 0xC2B2AE3D27D4EB4FULL) * 0x9E3779B97F4A7C15ULL >> 7;
}

uint32_t SampledStacks::module(std::string_view path) {
  if (const auto found = modules_by_path_.find(path); found != modules_by_path_.end()) {
    return found->second;
  }
  const auto number = static_cast<uint32_t>(modules_.size());
  modules_.push_back({std::string(path), nullptr, false});
  modules_by_path_.emplace(path, number);
  return number;
}

uint32_t SampledStacks::frame(const Frame& frame) {
  const auto [found, is_new] = frame_numbers_.emplace(frame, static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return found->second;
}

uint32_t SampledStacks::native_frame(uint32_t module, uint64_t file_offset) {
  return frame({Kind::kNative, module, file_offset});
}
uint32_t SampledStacks::memory_frame(int pid, uint64_t address) {
  return frame({Kind::kMemory, static_cast<uint32_t>(pid), address});
}
uint32_t SampledStacks::kernel_frame(uint64_t address) {
  return frame({Kind::kKernel, 0, address});
}

uint32_t SampledStacks::python_frame(const PythonFunction& function) {
  auto& lines = python_ids_[{function.file, function.name}];
  const auto [found, is_new] = lines.emplace(function.line, static_cast<uint32_t>(python_.size()));
  if (is_new) python_.push_back(function);
  return frame({Kind::kPython, found->second, 0});
}

uint32_t SampledStacks::stack(uint32_t caller, uint32_t frame) {
  const auto [found, is_new] =
      stack_numbers_.emplace(uint64_t{caller} << 32 | frame, static_cast<uint32_t>(stacks_.size()));
  if (is_new) stacks_.emplace_back(caller, frame);
  return found->second;
}

trace::Frame SampledStacks::resolve_native(const Frame& frame, trace::TraceWriter& writer) {
  Module& module = modules_[frame.owner];
  if (!module.is_open) {
    module.is_open = true;
    module.symbols = module.path == "[vdso]" ? own_vdso() : ElfSymbols::open(module.path);
  }
  trace::Frame out;
  out.kind = trace::FrameKind::kNative;
  out.module = writer.text(module.path);
  out.symbol = out.build_id = writer.text("");
  out.offset = frame.address;
  if (!module.symbols) return out;
  out.build_id = writer.text(module.symbols->build_id());
  out.offset = module.symbols->address_at(frame.address);
  if (const auto found = module.symbols->find(out.offset)) {
    out.symbol = writer.text(found->name);
    out.offset = found->address;
    out.line = found->line;
  }
  return out;
}

// /tmp/perf-PID.map: "begin size name" lines, hexadecimal, of code that was made at run time.
const std::map<uint64_t, SampledStacks::MapEntry>& SampledStacks::perf_map(uint32_t pid) {
  const auto [found, is_new] = perf_maps_.try_emplace(pid);
  if (!is_new) return found->second;
  std::ifstream file(fmt::format("/tmp/perf-{}.map", pid));
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = line;
    const auto begin = hexadecimal(next_word(rest));
    const auto size = hexadecimal(next_word(rest));
    if (begin && size) found->second[*begin] = {*size, std::string(rest)};
  }
  return found->second;
}

trace::Frame SampledStacks::resolve_memory(const Frame& frame, trace::TraceWriter& writer) {
  trace::Frame out;
  out.symbol = out.module = out.build_id = writer.text("");
  out.kind = trace::FrameKind::kUnknown;
  out.offset = frame.address;
  const auto& map = perf_map(frame.owner);
  auto at = map.upper_bound(frame.address);
  if (at == map.begin()) return out;
  --at;
  if (frame.address - at->first >= at->second.size) return out;
  // Python's: "py::name:file".
  std::string_view name = at->second.name;
  out.offset = 0;
  if (const size_t colon = name.rfind(':'); name.starts_with("py::") && colon > 4) {
    out.kind = trace::FrameKind::kPython;
    out.symbol = writer.text(name.substr(4, colon - 4));
    out.module = writer.text(name.substr(colon + 1));
    return out;
  }
  out.kind = trace::FrameKind::kNative;
  out.symbol = writer.text(name);
  out.module = writer.text("made at run time");
  return out;
}

// One line of /proc/kallsyms: "address kind name", and "[module]" where it is in one.
void SampledStacks::take_kernel_line(std::string_view line) {
  constexpr size_t kDigits = 16;
  if (line.size() < kDigits + 3) return;
  const char kind = line[kDigits + 1];
  if (kind != 't' && kind != 'T' && kind != 'w' && kind != 'W') return;
  const auto address = hexadecimal(line.substr(0, kDigits));
  if (!address || *address == 0) return;  // hidden
  // It may name the next sampled address; whether also those after, name_kernel() sees at the end.
  const auto next =
      std::lower_bound(kernel_.begin(), kernel_.end(), *address,
                       [](const KernelName& k, uint64_t wanted) { return k.address < wanted; });
  if (next == kernel_.end() || next->begin > *address) return;
  line.remove_prefix(kDigits + 3);
  next->begin = *address;
  const size_t end = line.find('\t');  // "name\t[module]"
  next->name = line.substr(0, end);
  next->module.clear();
  if (end == line.npos) return;
  line.remove_prefix(end + 1);
  if (line.starts_with('[') && line.ends_with(']')) next->module = line.substr(1, line.size() - 2);
}

// Names the kernel's addresses among the frames from `first` on. There are far more symbols than
// samples, so only what was sampled is kept.
void SampledStacks::name_kernel(size_t first) {
  kernel_.clear();
  for (size_t i = first; i < frames_.size(); ++i) {
    if (frames_[i].kind == Kind::kKernel) kernel_.push_back({frames_[i].address, 0, {}, {}});
  }
  if (kernel_.empty()) return;
  std::sort(kernel_.begin(), kernel_.end(),
            [](const KernelName& a, const KernelName& b) { return a.address < b.address; });
  if (const auto names = KernelNames::open()) {
    for (KernelName& each : kernel_) {
      KernelNames::Name name = names->of(each.address);
      each.name = std::move(name.symbol);
      each.module = std::move(name.module);
    }
    return;
  }
  read_kernel_symbols();
}

void SampledStacks::read_kernel_symbols() {
  const sys::ScopedFd fd(sys::open_at(sys::kCurrentFolder, "/proc/kallsyms", sys::OpenMode::kRead));
  std::vector<char> piece(64 << 10);
  std::string cut;  // the line that the last piece ended in
  uint64_t offset = 0;
  while (fd.is_open()) {
    const int64_t got = sys::read_once(fd.get(), std::as_writable_bytes(std::span(piece)), offset);
    if (got <= 0) break;
    offset += static_cast<uint64_t>(got);
    std::string_view text(piece.data(), static_cast<size_t>(got));
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
      if (cut.empty()) {
        take_kernel_line(text.substr(0, end));
      } else {
        take_kernel_line(cut.append(text.substr(0, end)));
        cut.clear();
      }
      text.remove_prefix(end + 1);
    }
    cut.append(text);
  }
  for (size_t i = 1; i < kernel_.size(); ++i) {
    const KernelName& before = kernel_[i - 1];
    if (kernel_[i].begin >= before.begin) continue;
    kernel_[i] = {kernel_[i].address, before.begin, before.name, before.module};
  }
}

trace::Frame SampledStacks::resolve_kernel(const Frame& frame, trace::TraceWriter& writer) {
  trace::Frame out;
  out.kind = trace::FrameKind::kKernel;
  const auto found =
      std::lower_bound(kernel_.begin(), kernel_.end(), frame.address,
                       [](const KernelName& k, uint64_t wanted) { return k.address < wanted; });
  // Hidden: all are one frame without a name.
  out.module = writer.text(found->module.empty() ? "kernel" : found->module);
  out.symbol = writer.text(found->name);
  out.build_id = writer.text("");
  return out;
}

void SampledStacks::resolve(trace::TraceWriter& writer) {
  perf_maps_.clear();
  name_kernel(frame_ids_.size());
  for (size_t i = frame_ids_.size(); i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    trace::Frame named;
    switch (frame.kind) {
      case Kind::kNative:
        named = resolve_native(frame, writer);
        break;
      case Kind::kMemory:
        named = resolve_memory(frame, writer);
        break;
      case Kind::kKernel:
        named = resolve_kernel(frame, writer);
        break;
      case Kind::kPython: {
        const PythonFunction& function = python_[frame.owner];
        named.kind = trace::FrameKind::kPython;
        named.symbol = writer.text(function.name);
        named.module = writer.text(function.file);
        named.build_id = writer.text("");
        named.line = function.line;
        break;
      }
    }
    frame_ids_.push_back(writer.frame(named));
  }
  for (size_t i = stack_ids_.size(); i < stacks_.size(); ++i) {
    const auto& [caller, frame] = stacks_[i];
    stack_ids_.push_back(
        writer.stack(caller == kNone ? trace::kNoId : stack_ids_[caller], frame_ids_[frame]));
  }
}

}  // namespace forebay::record

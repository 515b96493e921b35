// Stacks as they are sampled, without names, and the names once the program is over: looking up a
// symbol in a large library takes longer than a recorder may pause.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/elf_symbols.h"
#include "record/python_stack.h"
#include "trace/writer.h"

namespace forebay::record {

// Code that is mapped into a process.
class CodeMap {
 public:
  struct Range {
    uint64_t end = 0, file_offset = 0;
    uint32_t module = 0;
  };
  void add(uint64_t begin, const Range& range);
  void clear() { ranges_.clear(); }
  // The range that holds an address, and where it begins.
  const std::pair<const uint64_t, Range>* find(uint64_t address) const;

 private:
  std::map<uint64_t, Range> ranges_;  // by begin; they do not overlap
};

class SampledStacks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  SampledStacks();

  uint32_t module(std::string_view path);
  // A frame: an address as its file numbers it (of memory without a file: as the process does), of
  // the kernel, or a Python function.
  uint32_t native_frame(uint32_t module, uint64_t file_offset);
  uint32_t memory_frame(int pid, uint64_t address);  // code that was made at run time
  uint32_t kernel_frame(uint64_t address);
  uint32_t python_frame(const PythonFunction& function);
  // `caller` is the stack below, kNone at the bottom.
  uint32_t stack(uint32_t caller, uint32_t frame);

  // Names everything so far.
  void resolve(trace::TraceWriter& writer);
  // Known after resolve().
  trace::StackId resolved(uint32_t stack) const { return stack_ids_[stack]; }

 private:
  enum class Kind : uint8_t { kNative, kMemory, kKernel, kPython };
  struct Frame {
    Kind kind = Kind::kNative;
    uint32_t owner = 0;  // module, process or number of the Python function
    uint64_t address = 0;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame& f) const;
  };
  struct PairHash {
    size_t operator()(uint64_t v) const { return v * 0x9E3779B97F4A7C15ULL >> 7; }
  };
  struct Module {
    std::string path;
    std::unique_ptr<ElfSymbols> symbols;
    bool is_open = false;
  };
  struct MapEntry {
    uint64_t size = 0;
    std::string name;
  };

  uint32_t frame(const Frame& frame);
  trace::Frame resolve_native(const Frame& frame, trace::TraceWriter& writer);
  trace::Frame resolve_memory(const Frame& frame, trace::TraceWriter& writer);
  trace::Frame resolve_kernel(const Frame& frame, trace::TraceWriter& writer);
  void take_kernel_line(std::string_view line);
  void name_kernel(size_t first);
  void read_kernel_symbols();
  const std::map<uint64_t, MapEntry>& perf_map(uint32_t pid);

  std::vector<Module> modules_;
  std::map<std::string, uint32_t, std::less<>> modules_by_path_;
  std::vector<PythonFunction> python_;
  std::map<std::pair<std::string, std::string>, std::map<uint32_t, uint32_t>> python_ids_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, uint32_t, FrameHash> frame_numbers_;
  std::vector<std::pair<uint32_t, uint32_t>> stacks_;  // caller, frame
  std::unordered_map<uint64_t, uint32_t, PairHash> stack_numbers_;
  std::vector<trace::FrameId> frame_ids_;
  std::vector<trace::StackId> stack_ids_;
  struct KernelName {
    uint64_t address = 0;  // sampled
    uint64_t begin = 0;    // of its symbol, 0 = none known
    std::string name, module;
  };
  std::vector<KernelName> kernel_;  // by address
  std::map<uint32_t, std::map<uint64_t, MapEntry>> perf_maps_;
};

}  // namespace forebay::record

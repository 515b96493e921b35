// The Python functions that a thread of another process is in, read from the interpreter's memory
// while it runs: CPython 3.11, 3.12 and 3.13 (not the free-threaded build).
//
// The process is neither stopped nor changed. What is read may be half changed: every value is
// checked, and a stack that does not hold together is dropped. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace forebay::record {

struct PythonFunction {
  std::string name;  // qualified: "Loader.decode"
  std::string file;
  uint32_t line = 0;  // where it begins
  bool operator==(const PythonFunction&) const = default;
};

class PythonStacks {
 public:
  // Nothing when the process runs no interpreter of a known version.
  static std::unique_ptr<PythonStacks> find(int pid);

  // The functions of a thread, innermost first; false when it is in none, or could not be read.
  bool read(int tid, std::vector<const PythonFunction*>& out);

  // Code of the function that runs Python code, in the process.
  uint64_t evaluator_begin() const { return evaluator_begin_; }
  uint64_t evaluator_end() const { return evaluator_end_; }

 private:
  // Offsets in the interpreter's structs.
  struct Layout {
    uint64_t interpreters = 40, interpreter_next = 0, threads = 0;
    uint64_t thread_next = 8, thread_frame = 56, thread_id = 0;
    bool has_c_frame = false;  // thread_frame leads to a struct that has the frame
    uint64_t c_frame = 0;
    uint64_t frame_previous = 0, frame_code = 0, frame_owner = 0;
    uint64_t code_file = 112, code_name = 128, code_line = 0;
    uint64_t text_bytes = 0, wide_text_bytes = 0;  // before the characters
  };
  struct Code {
    uint64_t file = 0, name = 0;
    uint32_t line = 0;
    std::unique_ptr<PythonFunction> function;
  };

  explicit PythonStacks(int pid) : pid_(pid) {}
  bool choose_layout(unsigned long version);
  bool read_layout();
  template <class T>
  bool get(uint64_t address, T& out) const;
  uint64_t thread_state(int tid) const;
  bool read_text(uint64_t address, std::string& out) const;
  const PythonFunction* function(uint64_t code);

  int pid_;
  uint64_t runtime_ = 0;
  uint64_t evaluator_begin_ = 0, evaluator_end_ = 0;
  Layout layout_;
  std::unordered_map<uint64_t, Code> codes_;
};

}  // namespace forebay::record

// Names of addresses in the kernel, asked of the kernel itself one by one: reading all that
// /proc/kallsyms has takes fifty milliseconds, this takes two microseconds an address.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace forebay::record {

class KernelNames {
 public:
  // nullptr where the kernel takes no programs from this caller.
  static std::unique_ptr<KernelNames> open();
  ~KernelNames();

  struct Name {
    std::string symbol;  // empty = there is none
    std::string module;  // empty = the kernel proper
  };
  Name of(uint64_t address);

 private:
  struct Impl;
  explicit KernelNames(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // hides libbpf
};

}  // namespace forebay::record

// The files of workloads/, put into the program when it is built.
#pragma once

#include <span>
#include <string_view>

namespace forebay::workload {

struct BuiltinYaml {
  std::string_view name;
  std::string_view yaml;
};

std::span<const BuiltinYaml> builtin_yaml();  // sorted by name

}  // namespace forebay::workload

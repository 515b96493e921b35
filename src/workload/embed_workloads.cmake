# cmake -DFOLDER=workloads -DOUTPUT=builtin_yaml.cc -P embed_workloads.cmake
#
# Writes every YAML file of FOLDER into one source file as a raw string.
file(GLOB files "${FOLDER}/*.yaml")
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" yaml)
  string(APPEND entries "    {\"${name}\", R\"yaml(${yaml})yaml\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made from workloads/*.yaml by embed_workloads.cmake.
#include \"workload/builtin_yaml.h\"

namespace forebay::workload {

namespace {
constexpr BuiltinYaml kFiles[] = {
${entries}};
}  // namespace

std::span<const BuiltinYaml> builtin_yaml() { return kFiles; }

}  // namespace forebay::workload
")

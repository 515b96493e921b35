#include "trace/export.h"

#include <array>

namespace forebay::trace {

std::span<const Exporter* const> exporters() {
  static constexpr std::array<const Exporter*, 4> kAll = {&kPerfettoExporter, &kChromeExporter,
                                                          &kSqliteExporter, &kCsvExporter};
  return kAll;
}

const Exporter* find_exporter(std::string_view name) {
  for (const Exporter* exporter : exporters()) {
    if (exporter->name == name) return exporter;
  }
  return nullptr;
}

const Exporter* exporter_of(std::string_view path) {
  for (const Exporter* exporter : exporters()) {
    if (path.ends_with(exporter->suffix)) return exporter;
  }
  return nullptr;
}

}  // namespace forebay::trace

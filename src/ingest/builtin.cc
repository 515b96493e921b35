#include "ingest/builtin.h"

#include <array>

namespace forebay::ingest {

std::span<const Importer* const> importers() {
  static constexpr std::array<const Importer*, 10> kImporters{
      &kNsys,       &kDlio,      &kDftracer, &kKineto, &kDarshan,
      &kDarshanDxt, &kNvidiaSmi, &kSofa,     &kStrace, &kPerfScript};
  return kImporters;
}

const Importer* find_importer(std::string_view name) {
  for (const Importer* const importer : importers()) {
    if (importer->name == name) return importer;
  }
  return nullptr;
}

}  // namespace forebay::ingest

// The foreign formats that Forebay reads. To add one: a file with its constant, a line here and one
// in builtin.cc, a fuzz target with a corpus, a row in docs/formats/imports.md.
#pragma once

#include <span>

#include "ingest/importer.h"

namespace forebay::ingest {

extern const Importer kDarshan;
extern const Importer kDarshanDxt;
extern const Importer kDftracer;
extern const Importer kDlio;
extern const Importer kKineto;
extern const Importer kNsys;
extern const Importer kNvidiaSmi;
extern const Importer kPerfScript;
extern const Importer kSofa;
extern const Importer kStrace;

// In the order in which they are asked whether they recognise a file: the pickier first.
std::span<const Importer* const> importers();
// Nothing when there is none of that name.
const Importer* find_importer(std::string_view name);

}  // namespace forebay::ingest

// A configuration tree as the YAML files that Hydra leaves beside a run, which other programs read
// back: true and false in lower case, numbers in Python's spelling, text quoted where YAML 1.1
// would take it for something else.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "workload/document.h"

namespace forebay::cli {

std::string dlio_yaml(const workload::Node& node);

// A scalar as Python's print() shows the value: "True", "None", "0.323", "npz".
std::string python_text(const workload::Node& node);

// What YAML 1.1, as PyYAML and OmegaConf read it, makes of plain text.
enum class PlainType { kText, kNull, kBool, kInteger, kFloat, kOther };
PlainType plain_type(std::string_view text);

}  // namespace forebay::cli

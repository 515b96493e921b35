// The inner loop of JsonReader: one object in memory to its fields.
//
// Pure functions. The memory must go on for kScanPadding bytes behind its end; they are read, and
// what they hold does not matter. Never looks back before `at`.
#pragma once

#include <cstddef>

namespace forebay::ingest {

struct JsonObject;

inline constexpr size_t kScanPadding = 64;

// kMore: the memory ends inside the object. kDeep: values inside it nest deeper than 64 levels.
enum class Scan { kOk, kMore, kBad, kDeep };
inline constexpr int kDepthMax = 64;

// kLenient: a quotation mark ends a string only where what follows fits JSON.
enum class ScanRules { kStrict, kLenient };

// `at` stands on the "{", and behind the "}" when all is well.
Scan scan_object(const char*& at, const char* end, JsonObject& out, ScanRules rules);

inline bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace forebay::ingest

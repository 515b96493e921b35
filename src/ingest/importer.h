// One foreign format: how it is recognised, and how it is read into a trace file.
//
// Importers are constants. What they read is hostile: whatever the bytes are, read() ends, with
// bounded memory, and counts what it could not take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "forebay/result.h"
#include "ingest/byte_stream.h"
#include "trace/writer.h"

namespace forebay::ingest {

// What an import could not take, or took in spite of a fault, by reason in words for people.
struct Account {
  using Counts = std::map<std::string, uint64_t, std::less<>>;
  Counts skipped, repaired;
  std::optional<std::string> damage;  // why the rest of the file could not be read

  void skip(std::string_view reason, uint64_t count = 1) { add(skipped, reason, count); }
  void repair(std::string_view reason, uint64_t count = 1) { add(repaired, reason, count); }
  // A span that ends before it begins. The first names are kept, for people.
  void repair_negative(std::string_view name);
  std::set<std::string> negative_names = {};

 private:
  static void add(Counts& counts, std::string_view reason, uint64_t count);
};

// What is to be read.
struct Source {
  std::string path;             // of the file or folder
  ByteStream* bytes = nullptr;  // nothing for a folder
  std::string host;             // what to call a host that the trace does not name
  int32_t rank = -1;            // as the file's name says, -1 = it does not
};

struct Importer {
  std::string_view name;     // "kineto"; the fact "source" is "import kineto"
  std::string_view summary;  // one line
  // `first` are up to 64 KiB of the file, unpacked; `name` its last part. Null for folders.
  bool (*recognises)(std::string_view first, std::string_view name) = nullptr;
  // Of a folder as a whole, by the names in it. Null for files.
  bool (*recognises_folder)(std::span<const std::string> names) = nullptr;
  Status (*read)(const Source& source, trace::TraceWriter& writer, Account& account) = nullptr;
};

// The last part of a path without the endings of packing and format: "rank_3.json.gz" -> "rank_3".
std::string stem_of(std::string_view path);
// The rank that a file's name gives: "rank_3.json", "rank-34.Jul_15.pt.trace.json",
// "trace_3.json", "3_output.json"; -1 when it gives none.
int32_t rank_of_name(std::string_view path);
// Valid UTF-8 without control characters: others become U+FFFD and spaces.
std::string clean_text(std::string_view text);

}  // namespace forebay::ingest

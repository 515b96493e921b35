// Foreign traces to trace files: recognises each file by its first bytes and reads it into one .fbt
// of a folder. The files of one call, ranks of one job for example, are one recording.
//
// Functions are safe from any thread, as long as they write to different folders.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forebay/result.h"
#include "ingest/importer.h"

namespace forebay::ingest {

struct ImportedFile {
  std::string source;  // the foreign file or folder
  std::string trace;   // the .fbt
  std::string format;  // name of the importer
  int32_t rank = -1;
  uint64_t source_bytes = 0, trace_bytes = 0;
  uint64_t events = 0;
  Account account;
};

// A file that no importer could read, or a folder that was not looked into, and why.
struct PassedOver {
  std::string path, reason;
};

struct Imported {
  std::vector<ImportedFile> files;
  std::vector<PassedOver> passed_over;
  uint64_t folders = 0;  // that held traces: more than one may be different runs
};

struct ImportOptions {
  std::string folder;   // exists; the .fbt files go there
  std::string version;  // of Forebay, for the facts
  // Called before each file, from the calling thread.
  std::function<void(const std::string& path)> progress = nullptr;
};

// `paths` are files and folders; of a folder every file that is recognised, and where it holds
// none, those of the folders inside it, eight deep and up to 10,000 files. What is no trace is
// passed over as long as something is one; else fails with kUnsupported, or with kCorruption when
// what was recognised gives not a single event. Fails as well for a path that is not there.
Result<Imported> import(std::span<const std::string> paths, const ImportOptions& options);

// Whether import() would take the file or folder.
bool is_foreign_trace(const std::string& path);

}  // namespace forebay::ingest

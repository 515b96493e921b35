// Which path each file has that the kernel program numbers.
//
// One thread at a time; the writer must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "record/io_events.h"
#include "trace/writer.h"

namespace forebay::record {

// "/a/b/c" of the names from the file up to the root, a NUL after each, as the kernel program sends
// them. Names may hold any byte but '/' and NUL.
std::string path_of_names(std::string_view names, bool is_cut);
// "socket:10.0.0.1:443" or "socket:[fe80::1]:443"; "unix:" of a Unix socket, "socket" where there
// is no peer with an address.
std::string peer_of(const IoNameEvent& event);
// `path` seen from `folder` ("" = not known), without "." and doubled slashes.
std::string path_from(std::string_view folder, std::string_view path);

class IoFiles {
 public:
  explicit IoFiles(trace::TraceWriter& writer) : writer_(writer) {}

  // The bytes of an IoNameEvent and its names.
  void take(std::span<const std::byte> event);
  // kNoId when the file's name never came.
  trace::TextId text(uint64_t file);
  // As text(); looks for the name among the files that the process has mapped.
  trace::TextId mapped_text(uint64_t file, int pid);
  // A path that a process passed to the kernel, from the folder that it starts at.
  trace::TextId path(uint64_t folder, std::string_view path);

 private:
  struct Name {
    std::string path;
    trace::TextId text = trace::kNoId;
  };
  trace::TraceWriter& writer_;
  std::unordered_map<uint64_t, Name> names_;
  std::set<std::pair<uint64_t, int>> looked_for_;  // in vain
};

}  // namespace forebay::record

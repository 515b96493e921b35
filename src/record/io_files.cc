#include "record/io_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "sys/other_process.h"

namespace forebay::record {

namespace {

constexpr unsigned kInternet4 = 2;  // AF_INET, AF_INET6
constexpr unsigned kInternet6 = 10;
constexpr unsigned kUnix = 1;  // AF_UNIX

std::string text_of_kind(const IoNameEvent& event) {
  switch (event.file_kind) {
    case kIoSocket:
      return peer_of(event);
    case kIoPipe:
      return "pipe";
    default:
      return "anonymous";
  }
}

}  // namespace

std::string path_of_names(std::string_view names, bool is_cut) {
  std::vector<std::string_view> parts;
  while (!names.empty()) {
    const size_t end = std::min(names.find('\0'), names.size());
    parts.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  std::string path = is_cut ? "..." : "";
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) path.append("/").append(*part);
  return path.empty() ? "/" : path;
}

std::string peer_of(const IoNameEvent& event) {
  const unsigned port = (event.port & 0xffU) << 8 | event.port >> 8;
  const auto& a = event.address;
  if (event.family == kInternet4 && port != 0) {
    return fmt::format("socket:{}.{}.{}.{}:{}", a[0], a[1], a[2], a[3], port);
  }
  if (event.family == kInternet6 && port != 0) {
    std::string text = "socket:[";
    for (size_t i = 0; i < 16; i += 2) {
      text += fmt::format("{}{:x}", i == 0 ? "" : ":", a[i] << 8 | a[i + 1]);
    }
    return text + fmt::format("]:{}", port);
  }
  return event.family == kUnix ? "unix:" : "socket";
}

std::string path_from(std::string_view folder, std::string_view path) {
  const std::filesystem::path joined = std::filesystem::path(folder) / std::filesystem::path(path);
  std::string text = joined.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

void IoFiles::take(std::span<const std::byte> event) {
  IoNameEvent head;
  if (event.size() < sizeof(head)) return;
  std::memcpy(&head, event.data(), sizeof(head));
  const std::span<const std::byte> rest = event.subspan(sizeof(IoEvent));
  const std::string_view names(reinterpret_cast<const char*>(rest.data()),
                               std::min<size_t>(head.bytes, rest.size()));
  const bool is_path = head.file_kind != kIoSocket && head.file_kind != kIoPipe &&
                       (!names.empty() || head.file_kind == kIoFolder);
  Name& name = names_[head.file];
  name.path = is_path ? path_of_names(names, head.is_cut != 0) : text_of_kind(head);
  name.text = trace::kNoId;
}

trace::TextId IoFiles::text(uint64_t file) {
  const auto found = names_.find(file);
  if (found == names_.end()) return trace::kNoId;
  // The text is made when an event needs it: most folders and many files never do.
  Name& name = found->second;
  if (name.text == trace::kNoId) name.text = writer_.text(name.path);
  return name.text;
}

trace::TextId IoFiles::mapped_text(uint64_t file, int pid) {
  const trace::TextId known = text(file);
  if (known != trace::kNoId || !looked_for_.emplace(file, pid).second) return known;
  for (const sys::Mapping& m : sys::mappings_of(pid)) {
    if (m.inode == 0) continue;
    Name& name = names_[io_file_id(static_cast<unsigned>(m.device), m.inode)];
    if (name.path.empty()) name.path = m.path;
  }
  return text(file);
}

trace::TextId IoFiles::path(uint64_t folder, std::string_view path) {
  if (path.starts_with('/')) return writer_.text(path);
  const auto found = names_.find(folder);
  const std::string from = found == names_.end() ? std::string() : found->second.path;
  if (path.empty()) return from.empty() ? trace::kNoId : writer_.text(from);
  return writer_.text(path_from(from, path));
}

}  // namespace forebay::record

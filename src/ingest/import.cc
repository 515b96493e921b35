#include "ingest/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "ingest/builtin.h"
#include "sys/directory.h"
#include "sys/file.h"
#include "trace/facts.h"
#include "trace/reader.h"

namespace forebay::ingest {
namespace {

constexpr size_t kFirstBytes = 64 << 10;
constexpr int kFoldersDeepMax = 8;
constexpr size_t kFilesMax = 10'000;

std::string name_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<const Importer*> recognise(const std::string& path) {
  auto stream = FB_TRY(open_file_stream(path));
  std::vector<std::byte> first(kFirstBytes);
  auto got = stream->read(first);
  if (!got.ok()) return std::move(got).context(path).error();
  const std::string_view text(reinterpret_cast<const char*>(first.data()), *got);
  for (const Importer* const importer : importers()) {
    if (importer->recognises != nullptr && importer->recognises(text, name_of(path)))
      return importer;
  }
  return nullptr;
}

Result<const Importer*> recognise_folder(int folder_fd) {
  const std::vector<std::string> names = FB_TRY(sys::names_in(folder_fd, "."));
  for (const Importer* const importer : importers()) {
    if (importer->recognises_folder != nullptr && importer->recognises_folder(names))
      return importer;
  }
  return nullptr;
}

std::string unknown_message(const std::string& path) {
  std::string known;
  for (const Importer* const importer : importers()) {
    known += known.empty() ? "" : ", ";
    known += importer->name;
  }
  return fmt::format("{}: no trace that is known here (known: {})", path, known);
}

class Importing {
 public:
  explicit Importing(const ImportOptions& options) : options_(options) {}

  Status add(const std::string& path) {
    const sys::FileStatus status = FB_TRY(sys::file_status(sys::kCurrentFolder, path));
    if (status.is_folder) return add_folder(path);
    const Importer* importer = FB_TRY(recognise(path));
    if (importer == nullptr) return Error{ErrorCode::kUnsupported, unknown_message(path)};
    return read(*importer, path, status.size);
  }

  void pass_over(const std::string& path, const Error& why) {
    const std::string start = path + ": ";
    out_.passed_over.push_back(
        {path, why.message.starts_with(start) ? why.message.substr(start.size()) : why.message});
  }

  bool has_files() const { return !out_.files.empty(); }
  Imported take() { return std::move(out_); }

 private:
  Status add_folder(const std::string& path) {
    const size_t files = out_.files.size(), passed_over = out_.passed_over.size();
    FB_TRY(look_into(path, 1));
    if (out_.files.size() > files) return {};
    if (out_.passed_over.size() == passed_over + 1) {
      return fail(ErrorCode::kUnsupported, "{}", out_.passed_over.back().reason);
    }
    if (recordings_ > 0) {
      return fail(
          ErrorCode::kUnsupported,
          "{}: holds trace files of Forebay, and none of another tool: forebay explain FOLDER",
          path);
    }
    return Error{ErrorCode::kUnsupported, unknown_message(path)};
  }

  Status look_into(const std::string& path, int depth) {
    const sys::ScopedFd fd =
        FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kFolder));
    const size_t before = out_.files.size();
    if (const Importer* whole = FB_TRY(recognise_folder(fd.get()))) {
      ++out_.folders;
      return read(*whole, path, 0);
    }
    std::vector<std::string> names = FB_TRY(sys::names_in(fd.get(), "."));
    std::sort(names.begin(), names.end());
    std::vector<std::string> folders;
    for (const std::string& name : names) {
      const std::string file = path + (path.ends_with('/') ? "" : "/") + name;
      const auto status = sys::file_status(sys::kCurrentFolder, file);
      if (status.ok() && status->is_folder) folders.push_back(file);
      if (status.ok() && status->is_file) add_file_of_folder(file, status->size);
    }
    if (out_.files.size() > before) {
      ++out_.folders;
      for (const std::string& folder : folders)
        out_.passed_over.push_back({folder, "a folder beside traces"});
      return {};
    }
    for (const std::string& folder : folders) {
      if (depth == kFoldersDeepMax) {
        out_.passed_over.push_back({folder, "too deep"});
      } else if (const Status done = look_into(folder, depth + 1); !done.ok()) {
        pass_over(folder, done.error());
      }
    }
    return {};
  }

  void add_file_of_folder(const std::string& file, uint64_t size) {
    if (file.ends_with(".fbt")) {
      ++recordings_;
      return;
    }
    if (out_.files.size() + out_.passed_over.size() >= kFilesMax) {
      return out_.passed_over.push_back({file, "more files than one import takes"});
    }
    const auto importer = recognise(file);
    if (!importer.ok()) {
      pass_over(file, importer.error());
    } else if (*importer == nullptr) {
      out_.passed_over.push_back({file, "no trace that is known here"});
    } else if (const Status done = read(**importer, file, size); !done.ok()) {
      out_.passed_over.push_back({file, done.error().message});
    }
  }

  // A name that no other file of this import has.
  std::string unused(std::set<std::string>& taken, const std::string& wanted) {
    std::string name = wanted;
    for (int number = 2; !taken.insert(name).second; ++number)
      name = fmt::format("{}-{}", wanted, number);
    return name;
  }

  Status read(const Importer& importer, const std::string& path, uint64_t size) {
    if (options_.progress) options_.progress(path);
    ImportedFile file;
    file.source = path;
    file.format = importer.name;
    file.source_bytes = size;
    const std::string stem = clean_text(stem_of(path));
    const std::string host = unused(hosts_, stem);
    std::string name;
    do {
      name = unused(names_, stem);
      file.trace = fmt::format("{}/{}.fbt", options_.folder, name);
    } while (sys::path_exists(file.trace));
    auto writer = FB_TRY(trace::TraceWriter::create(file.trace));
    auto done = read_into(importer, path, host, *writer, file);
    if (done.ok() && writer->event_count() == 0) {
      done = fail(ErrorCode::kCorruption, "{}: {} without a single event{}", path, importer.name,
                  why_nothing(file.account));
    }
    if (!done.ok()) {
      sys::remove_file(sys::kCurrentFolder, file.trace).ignore("the error that led here counts");
      return done;
    }
    file.events = writer->event_count();
    file.trace_bytes = writer->bytes_written();
    out_.files.push_back(std::move(file));
    return {};
  }

  static std::string why_nothing(const Account& account) {
    if (account.damage) return ": " + *account.damage;
    const auto most =
        std::max_element(account.skipped.begin(), account.skipped.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == account.skipped.end() ? "" : fmt::format(": {} {}", most->second, most->first);
  }

  // What the importer did not need: the checksum of what is packed stands at its end.
  static std::optional<std::string> damage_behind(ByteStream& bytes) {
    if (bytes.bytes_taken() == 0) return std::nullopt;  // it opened the file itself
    std::vector<std::byte> rest(size_t{1} << 16);
    for (;;) {
      const auto got = bytes.read(rest);
      if (!got.ok()) return got.error().message;
      if (*got == 0) return std::nullopt;
    }
  }

  Status read_into(const Importer& importer, const std::string& path, const std::string& host,
                   trace::TraceWriter& writer, ImportedFile& file) {
    namespace fact = trace::fact;
    writer.fact(fact::kSource, fmt::format("import {}", importer.name));
    writer.fact(fact::kVersion, options_.version);
    writer.fact("imported_from", path);
    std::unique_ptr<ByteStream> bytes;
    if (importer.recognises_folder == nullptr) bytes = FB_TRY(open_file_stream(path));
    const Source source{
        .path = path, .bytes = bytes.get(), .host = host, .rank = rank_of_name(path)};
    auto done = importer.read(source, writer, file.account);
    if (!done.ok()) return std::move(done).context(path);
    if (bytes && !file.account.damage) file.account.damage = damage_behind(*bytes);
    // Of one rank, or of many.
    file.rank = source.rank;
    std::set<int32_t> ranks;
    for (const trace::Track& track : writer.dictionary().tracks) {
      if (track.rank >= 0) ranks.insert(track.rank);
    }
    if (!ranks.empty()) file.rank = ranks.size() == 1 ? *ranks.begin() : -1;
    int warning = 0;
    const auto tell = [&](const std::string& text) {
      writer.fact(fmt::format("{}{}", fact::kWarningPrefix, ++warning), text);
    };
    if (file.account.damage) tell(fmt::format("{}: {}", path, *file.account.damage));
    if (!file.account.negative_names.empty()) {
      const std::string reason = "spans of negative duration: taken as 0";
      tell(fmt::format("{}: {} {} ({})", path, file.account.repaired[reason], reason,
                       fmt::join(file.account.negative_names, ", ")));
    }
    for (const auto& [reason, count] : file.account.skipped) {
      writer.fact("skipped." + reason, std::to_string(count));
    }
    for (const auto& [reason, count] : file.account.repaired) {
      writer.fact("repaired." + reason, std::to_string(count));
    }
    return writer.finish();
  }

  const ImportOptions& options_;
  Imported out_;
  std::set<std::string> names_, hosts_;
  size_t recordings_ = 0;  // trace files of Forebay that were met
};

}  // namespace

Result<Imported> import(std::span<const std::string> paths, const ImportOptions& options) {
  Importing importing(options);
  std::optional<Error> first;
  for (const std::string& path : paths) {
    const Status done = importing.add(path);
    if (done.ok()) continue;
    const ErrorCode code = done.error().code;
    if (code != ErrorCode::kUnsupported && code != ErrorCode::kCorruption) return done.error();
    if (!first) first = done.error();
    importing.pass_over(path, done.error());
  }
  if (first && !importing.has_files()) return *first;
  return importing.take();
}

namespace {

bool is_trace(const std::string& path, int depth) {
  const auto status = sys::file_status(sys::kCurrentFolder, path);
  if (!status.ok()) return false;
  if (!status->is_folder) {
    const auto importer = status->is_file ? recognise(path) : nullptr;
    return importer.ok() && *importer != nullptr;
  }
  if (depth > kFoldersDeepMax) return false;
  const auto fd = sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kFolder);
  if (!fd.ok()) return false;
  const auto whole = recognise_folder(fd->get());
  if (whole.ok() && *whole != nullptr) return true;
  const auto names = sys::names_in(fd->get(), ".");
  return names.ok() && std::any_of(names->begin(), names->end(), [&](const std::string& name) {
           return !name.ends_with(".fbt") && is_trace(path + "/" + name, depth + 1);
         });
}

}  // namespace

bool is_foreign_trace(const std::string& path) {
  return is_trace(path, 0);
}

}  // namespace forebay::ingest

#include "cli/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/console.h"
#include "sys/file.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as the kernel

}  // namespace

Result<std::string> output_target(const std::string& path, std::span<const std::string> sources) {
  if (path.empty()) return fail(ErrorCode::kInvalidArgument, "an output file needs a name, not ''");
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == kLinksMax) return fail(ErrorCode::kIo, "{}: too many links", path);
    const fs::path next = fs::read_symlink(target, error);
    if (error) return fail(ErrorCode::kIo, "{}: {}", path, error.message());
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  if (fs::is_directory(target, error)) {
    return fail(ErrorCode::kInvalidArgument, "{}: is a folder; name a file", path);
  }
  for (const std::string& source : sources) {
    if (fs::equivalent(target, source, error) && !error)
      return fail(ErrorCode::kInvalidArgument, "{}: is what is read; name another file", path);
  }
  if (target.has_parent_path())
    FB_TRY(sys::make_folders(sys::kCurrentFolder, target.parent_path().string()));
  return target.string();
}

Status told_what_next(const Status& written) {
  if (written.ok() || written.error().code != ErrorCode::kResourceExhausted) return written;
  return fail(written.error().code, "{}; free space there, or write elsewhere: --output FILE",
              written.error().message);
}

Result<OutputFile> OutputFile::open(const std::string& path, std::span<const std::string> sources) {
  OutputFile file;
  file.path_ = path;
  if (path == "-") return file;
  const fs::path target = FB_TRY(output_target(path, sources));
  std::error_code error;
  if (fs::exists(target, error) && !fs::is_regular_file(target, error)) {
    file.stream_.emplace(target, std::ios::binary);
    if (!*file.stream_) return fail(ErrorCode::kIo, "{}: {}", path, std::strerror(errno));
    return file;
  }
  file.store_ = FB_TRY(
      storage::open_store("local", target.has_parent_path() ? target.parent_path().string() : "."));
  file.writer_ = FB_TRY(file.store_->create(target.filename().string()));
  return file;
}

Status OutputFile::write(std::string_view text) {
  if (writer_) return writer_->append(std::as_bytes(std::span(text.data(), text.size())));
  if (!stream_) return print(text);
  stream_->write(text.data(), static_cast<std::streamsize>(text.size()));
  return *stream_ ? Status() : fail(ErrorCode::kIo, "{}: {}", path_, std::strerror(errno));
}

Status OutputFile::finish() {
  if (writer_) return writer_->publish();
  if (stream_ && !stream_->flush()) {
    return fail(ErrorCode::kIo, "{}: {}", path_, std::strerror(errno));
  }
  return {};
}

}  // namespace forebay::cli

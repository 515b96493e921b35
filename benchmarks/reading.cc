// A program that reads as loaders do, and tells what it cost itself: what record_bench observes.
//
//   forebay_reading make FOLDER COUNT              JPEG files of about 100 KB
//   forebay_reading files FOLDER THREADS PASSES    each file: open, fstat, read, close
//   forebay_reading decode FOLDER THREADS PASSES   and decode it
//   forebay_reading cold FOLDER THREADS PASSES     and drop it from the page cache again
//   forebay_reading make-blocks FILE MEGABYTES     one file, in the page cache
//   forebay_reading blocks FILE THREADS THOUSANDS  so many thousand reads of 4 KiB at random places
//   forebay_reading evict FOLDER                   drops its files from the page cache
// With FOREBAY_READING_COST=FILE in the environment, its own CPU and wall seconds go there as JSON.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "command_words.h"
#include "sys/clocks.h"
#include "sys/file.h"
#include "sys/page_cache.h"
#include "sys/process.h"
#include "sys/thread.h"

namespace forebay::bench {
namespace {

constexpr int kWidth = 500, kHeight = 375;  // a photograph of ImageNet
constexpr size_t kFileBytes = 100'000;
constexpr size_t kBlockBytes = 4096;

using Jpeg = std::unique_ptr<void, int (*)(tjhandle)>;

// A smooth picture with `noise` on it, as a JPEG.
std::vector<unsigned char> picture(Jpeg& encoder, base::Random& random, uint64_t noise) {
  std::vector<unsigned char> pixels(size_t{kWidth} * kHeight * 3);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t column = i / 3 % kWidth, row = i / 3 / kWidth;
    pixels[i] = static_cast<unsigned char>((column + row) / 5 + random.below(noise));
  }
  unsigned char* encoded = nullptr;
  unsigned long bytes = 0;
  tjCompress2(encoder.get(), pixels.data(), kWidth, 0, kHeight, TJPF_RGB, &encoded, &bytes,
              TJSAMP_420, 90, 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(encoded, tjFree);
  return {encoded, encoded + bytes};
}

Status make_files(const std::string& folder, int count) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  Jpeg encoder(tjInitCompress(), tjDestroy);
  base::Random random(1);
  uint64_t noise = 2;
  while (noise < 120 && picture(encoder, random, noise).size() < kFileBytes) noise += 2;
  for (int i = 0; i < count; ++i) {
    const std::vector<unsigned char> image = picture(encoder, random, noise);
    const std::string path = fmt::format("{}/{:06}.jpg", folder, i);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(image.data()),
               static_cast<std::streamsize>(image.size()));
    if (!file.flush()) return fail(ErrorCode::kIo, "{}: cannot be written", path);
  }
  return {};
}

Status make_blocks(const std::string& path, int megabytes) {
  std::ofstream file(path, std::ios::binary);
  std::vector<std::byte> piece(1 << 20);
  base::Random random(1);
  for (int i = 0; i < megabytes; ++i) {
    random.fill(piece);
    file.write(reinterpret_cast<const char*>(piece.data()), 1 << 20);
  }
  if (!file.flush()) return fail(ErrorCode::kIo, "{}: cannot be written", path);
  return {};
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Status evict(const std::string& folder) {
  for (const std::string& path : files_in(folder)) FB_TRY(sys::evict_from_page_cache(path));
  return {};
}

enum class Then { kNothing, kDecode, kDecodeAndEvict };

// One thread's buffers.
class FileReader {
 public:
  explicit FileReader(Then then) : then_(then), decoder_(tjInitDecompress(), tjDestroy) {}

  Status read(const std::string& path) {
    const sys::ScopedFd fd =
        FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead));
    sys::FileStatus status;
    if (const int code = sys::status_of(fd.get(), status); code != 0)
      return sys::error_from_errno(-code, path);
    bytes_.resize(status.size);
    const int64_t n = sys::read_at(fd.get(), bytes_, 0);
    if (n != static_cast<int64_t>(status.size)) return fail(ErrorCode::kIo, "{}: short", path);
    if (then_ == Then::kNothing) return {};
    pixels_.resize(size_t{kWidth} * kHeight * 3);
    if (tjDecompress2(decoder_.get(), reinterpret_cast<unsigned char*>(bytes_.data()),
                      bytes_.size(), pixels_.data(), kWidth, 0, kHeight, TJPF_RGB, 0) != 0)
      return fail(ErrorCode::kCorruption, "{}: no JPEG", path);
    if (then_ == Then::kDecodeAndEvict) FB_TRY(sys::evict_from_page_cache(path));
    return {};
  }

 private:
  Then then_;
  Jpeg decoder_;
  std::vector<std::byte> bytes_;
  std::vector<unsigned char> pixels_;
};

// Runs body(thread) in so many threads; the first error.
Status in_threads(int threads, const std::function<Status(int)>& body) {
  std::vector<Status> ends(static_cast<size_t>(threads));
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.push_back(FB_TRY(sys::start_thread(
          fmt::format("reader-{}", i), [&, i](auto) { ends[static_cast<size_t>(i)] = body(i); })));
    }
  }
  for (Status& end : ends) FB_TRY(std::move(end));
  return {};
}

Status read_files(const std::string& folder, int threads, int passes, Then then) {
  const std::vector<std::string> paths = files_in(folder);
  if (paths.empty()) return fail(ErrorCode::kNotFound, "{}: no files", folder);
  std::atomic<size_t> next{0};  // hands out work, orders nothing
  const size_t total = paths.size() * static_cast<size_t>(passes);
  return in_threads(threads, [&](int) -> Status {
    FileReader reader(then);
    for (size_t i = next++; i < total; i = next++) FB_TRY(reader.read(paths[i % paths.size()]));
    return {};
  });
}

Status read_blocks(const std::string& path, int threads, int thousands) {
  const sys::ScopedFd fd = FB_TRY(sys::open_file(sys::kCurrentFolder, path, sys::OpenMode::kRead));
  sys::FileStatus status;
  if (const int code = sys::status_of(fd.get(), status); code != 0)
    return sys::error_from_errno(-code, path);
  const uint64_t blocks = std::max<uint64_t>(1, status.size / kBlockBytes);
  return in_threads(threads, [&](int thread) -> Status {
    base::Random random(static_cast<uint64_t>(thread) + 1);
    std::array<std::byte, kBlockBytes> block{};
    for (int i = 0; i < thousands * 1000 / threads; ++i) {
      const int64_t n = sys::read_once(fd.get(), block, random.below(blocks) * kBlockBytes);
      if (n <= 0) return fail(ErrorCode::kIo, "{}: cannot be read", path);
    }
    return {};
  });
}

Status run(const std::vector<std::string>& words) {
  const std::string &verb = words[0], &path = words[1];
  int first = 1, second = 1;
  if (words.size() > 2 && !parse_count(words[2], first))
    return fail(ErrorCode::kInvalidArgument, "'{}' is no count", words[2]);
  if (words.size() > 3 && !parse_count(words[3], second))
    return fail(ErrorCode::kInvalidArgument, "'{}' is no count", words[3]);
  if (verb == "make") return make_files(path, first);
  if (verb == "make-blocks") return make_blocks(path, first);
  if (verb == "evict") return evict(path);
  if (verb == "files") return read_files(path, first, second, Then::kNothing);
  if (verb == "decode") return read_files(path, first, second, Then::kDecode);
  if (verb == "cold") return read_files(path, first, second, Then::kDecodeAndEvict);
  if (verb == "blocks") return read_blocks(path, first, second);
  return fail(ErrorCode::kInvalidArgument, "no word '{}'", verb);
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) {
  constexpr char kUsage[] =
      "usage: forebay_reading make|evict FOLDER [COUNT], make-blocks FILE MEGABYTES,\n"
      "       files|decode|cold FOLDER THREADS PASSES, blocks FILE THREADS THOUSANDS\n";
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (forebay::bench::asks_for_help(words)) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (words.size() < 2 || words.size() > 4) {
    fmt::print(stderr, "forebay_reading: '{}' is not enough or too much\n{}", fmt::join(words, " "),
               kUsage);
    return 2;
  }
  const int64_t begun_ns = forebay::sys::monotonic_ns();
  const forebay::Status status = forebay::bench::run(words);
  if (!status.ok()) {
    fmt::print(stderr, "forebay_reading: {}\n{}", status.error().message, kUsage);
    return status.error().code == forebay::ErrorCode::kInvalidArgument ? 2 : 1;
  }
  if (const char* const path = std::getenv("FOREBAY_READING_COST"); path != nullptr) {
    const double wall = static_cast<double>(forebay::sys::monotonic_ns() - begun_ns) * 1e-9;
    std::ofstream(path) << fmt::format("{{\"cpu_s\": {:.6f}, \"wall_s\": {:.6f}}}\n",
                                       forebay::sys::process_usage().cpu_seconds(), wall);
  }
  return 0;
}

#include "floors.h"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/crc.h"
#include "base/random.h"

namespace forebay::bench {
namespace {

template <class F>
double on_threads(int threads, F body) {
  std::vector<double> done(static_cast<size_t>(threads));
  {
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t)
      pool.emplace_back([&, t] { done[static_cast<size_t>(t)] = body(); });
  }
  double sum = 0;
  for (const double d : done) sum += d;
  return sum;
}

struct Aligned {
  explicit Aligned(size_t size) : data(static_cast<std::byte*>(std::aligned_alloc(4096, size))) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  std::byte* data;
};

}  // namespace

double pread_loop(const std::vector<std::string>& files, int threads, uint64_t piece_bytes,
                  Check check, uint64_t kept_bytes) {
  std::atomic<size_t> next = 0;
  std::atomic<uint32_t> sink = 0;  // keeps the checksums from being optimised away
  const uint64_t pieces = std::max<uint64_t>(1, kept_bytes / piece_bytes);
  return on_threads(threads, [&] {
    const Aligned buffer(pieces * piece_bytes);
    uint64_t turn = 0;
    double bytes = 0;
    for (size_t i; (i = next.fetch_add(1)) < files.size();) {
      const int fd = open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
      FB_CHECK(fd >= 0);
      uint32_t crc = 0;
      off_t at = 0;
      for (ssize_t got = 1; got > 0; at += got) {
        std::byte* const piece = buffer.data + turn++ % pieces * piece_bytes;
        got = pread(fd, piece, piece_bytes, at);
        if (got > 0 && check == Check::kCrc32)
          crc = base::crc32(crc, {piece, static_cast<size_t>(got)});
      }
      sink ^= crc;
      bytes += static_cast<double>(at);
      close(fd);
    }
    return bytes;
  });
}

double open_read_close_loop(const std::vector<std::string>& files, int threads) {
  std::atomic<size_t> next = 0;
  return on_threads(threads, [&] {
    const Aligned buffer(1 << 20);
    double count = 0;
    for (size_t i; (i = next.fetch_add(1)) < files.size(); ++count) {
      const int fd = open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
      FB_CHECK(fd >= 0 && read(fd, buffer.data, 1 << 20) > 0);
      close(fd);
    }
    return count;
  });
}

double jpeg_loop(const std::vector<std::vector<unsigned char>>& images, int threads) {
  std::atomic<size_t> next = 0;
  return on_threads(threads, [&] {
    tjhandle handle = tjInitDecompress();
    std::vector<unsigned char> pixels(16 << 20);
    double count = 0;
    for (size_t i; (i = next.fetch_add(1)) < images.size(); ++count) {
      const std::vector<unsigned char>& image = images[i];
      int width = 0, height = 0, subsampling = 0, space = 0;
      FB_CHECK(tjDecompressHeader3(handle, image.data(), image.size(), &width, &height,
                                   &subsampling, &space) == 0);
      const int format = space == TJCS_GRAY ? TJPF_GRAY : TJPF_RGB;
      FB_CHECK(tjDecompress2(handle, image.data(), image.size(), pixels.data(), width, 0, height,
                             format, TJFLAG_ACCURATEDCT) == 0);
    }
    tjDestroy(handle);
    return count;
  });
}

double inflate_loop(const std::vector<std::vector<unsigned char>>& streams, size_t bytes_max,
                    int threads) {
  std::atomic<size_t> next = 0;
  return on_threads(threads, [&] {
    const Aligned out(bytes_max);
    const auto state = std::make_unique<inflate_state>();
    double bytes = 0;
    for (size_t i; (i = next.fetch_add(1)) < streams.size();) {
      isal_inflate_init(state.get());
      state->crc_flag = ISAL_ZLIB;
      state->next_in = const_cast<uint8_t*>(streams[i].data());
      state->avail_in = static_cast<uint32_t>(streams[i].size());
      state->next_out = reinterpret_cast<uint8_t*>(out.data);
      state->avail_out = static_cast<uint32_t>(bytes_max);
      FB_CHECK(isal_inflate(state.get()) == ISAL_DECOMP_OK);
      FB_CHECK(state->block_state == ISAL_BLOCK_FINISH);
      bytes += static_cast<double>(streams[i].size());
    }
    return bytes;
  });
}

double write_loop(const std::string& folder, const std::vector<uint64_t>& sizes, bool sync) {
  constexpr size_t kBlock = 1 << 20;
  const Aligned buffer(kBlock);
  base::Random(1).fill({buffer.data, kBlock});
  double total = 0;
  mkdir(folder.c_str(), 0755);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string path = folder + "/" + std::to_string(i);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FB_CHECK(fd >= 0);
    for (uint64_t left = sizes[i]; left > 0;) {
      const size_t count = std::min<uint64_t>(left, kBlock);
      FB_CHECK(write(fd, buffer.data, count) == static_cast<ssize_t>(count));
      left -= count;
    }
    FB_CHECK(!sync || fdatasync(fd) == 0);
    close(fd);
    total += static_cast<double>(sizes[i]);
  }
  return total;
}

}  // namespace forebay::bench

#include "formats/hdf5_filters.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/little_endian.h"

namespace forebay::formats {
namespace {

constexpr size_t kChecksumBytes = 4;

bool is_compressor(Hdf5Filter filter) {
  return filter == Hdf5Filter::kDeflate || filter == Hdf5Filter::kLzf;
}

uint32_t byte_at(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

// Elements of a size known to the compiler: the inner loop becomes straight code.
template <size_t kBytes>
void join_planes(const std::byte* in, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i)
    for (size_t plane = 0; plane < kBytes; ++plane) out[i * kBytes + plane] = in[plane * count + i];
}

// Large elements: plane by plane within a stretch of elements that stays in the cache.
void join_planes_of(size_t bytes, const std::byte* in, size_t count, std::byte* out) {
  constexpr size_t kStretchBytes = 16 * 1024;
  const size_t stretch = std::max<size_t>(1, kStretchBytes / bytes);
  for (size_t first = 0; first < count; first += stretch) {
    const size_t last = std::min(count, first + stretch);
    for (size_t plane = 0; plane < bytes; ++plane)
      for (size_t i = first; i < last; ++i) out[i * bytes + plane] = in[plane * count + i];
  }
}

Result<std::span<const std::byte>> check_fletcher32(std::span<const std::byte> bytes) {
  if (bytes.size() < kChecksumBytes)
    return fail(ErrorCode::kCorruption, "{} bytes cannot hold a fletcher32 checksum", bytes.size());
  const auto data = bytes.first(bytes.size() - kChecksumBytes);
  const uint32_t stored = load_le<uint32_t>(&bytes[data.size()]);
  const uint32_t got = fletcher32(data);
  // Version 1.6.2 of the library and older swapped the bytes of each half on such machines.
  const uint32_t swapped = ((got & 0x00ff00ffu) << 8) | ((got >> 8) & 0x00ff00ffu);
  if (stored != got && stored != swapped)
    return fail(ErrorCode::kCorruption, "fletcher32 checksum {:#010x}, the file says {:#010x}", got,
                stored);
  return data;
}

}  // namespace

std::string hdf5_filter_name(uint32_t number) {
  switch (number) {
    case 4:
      return "szip";
    case 5:
      return "nbit";
    case 6:
      return "scaleoffset";
    case 307:
      return "bzip2";
    case 32001:
      return "blosc";
    case 32004:
      return "lz4";
    case 32008:
      return "bitshuffle";
    case 32013:
      return "zfp";
    case 32015:
      return "zstd";
    case 32026:
      return "blosc2";
    default:
      return "unknown";
  }
}

namespace {

constexpr size_t kLzfLiteralsMax = 32;

// Copies `n` bytes from `distance` before `to`; `room` bytes may be written, of which those behind
// the first n are spoilt.
void copy_lzf(std::byte* to, size_t distance, size_t n, size_t room) {
  constexpr size_t kStep = 16;
  const std::byte* from = to - distance;
  if (distance < kStep || room < n + kStep) {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];  // repeats itself
    return;
  }
  for (size_t i = 0; i < n; i += kStep) std::memcpy(to + i, from + i, kStep);
}

}  // namespace

Status unpack_lzf(std::span<const std::byte> in, std::span<std::byte> out) {
  size_t at = 0, made = 0;
  while (at < in.size()) {
    const uint32_t control = byte_at(in, at++);
    if (control < 32) {
      const size_t n = control + 1;
      if (n > in.size() - at) return fail(ErrorCode::kCorruption, "lzf: literals cut short");
      if (n > out.size() - made)
        return fail(ErrorCode::kCorruption, "lzf: more than {} bytes", out.size());
      // A copy of a length that the compiler knows is one instruction or two.
      if (in.size() - at >= kLzfLiteralsMax && out.size() - made >= kLzfLiteralsMax)
        std::memcpy(out.data() + made, in.data() + at, kLzfLiteralsMax);
      else
        std::memcpy(out.data() + made, in.data() + at, n);
      at += n;
      made += n;
      continue;
    }
    size_t n = control >> 5;
    if (n == 7) {
      if (at == in.size()) return fail(ErrorCode::kCorruption, "lzf: a length cut short");
      n += byte_at(in, at++);
    }
    n += 2;
    if (at == in.size()) return fail(ErrorCode::kCorruption, "lzf: a distance cut short");
    const size_t distance = ((size_t{control & 31} << 8) | byte_at(in, at++)) + 1;
    if (distance > made) return fail(ErrorCode::kCorruption, "lzf: a copy from before its start");
    if (n > out.size() - made)
      return fail(ErrorCode::kCorruption, "lzf: more than {} bytes", out.size());
    copy_lzf(out.data() + made, distance, n, out.size() - made);
    made += n;
  }
  if (made != out.size())
    return fail(ErrorCode::kCorruption, "lzf: {} bytes instead of {}", made, out.size());
  return {};
}

namespace {

constexpr size_t kLzfDistanceMax = 8192, kLzfLengthMax = 264;
constexpr size_t kLzfHashBits = 13;

// What the packer has written; stops for good once `room` is used up.
struct LzfOutput {
  std::span<std::byte> room;
  size_t made = 0;
  bool is_full = false;

  void put(uint32_t value) {
    if (made == room.size())
      is_full = true;
    else
      room[made++] = static_cast<std::byte>(value);
  }
  void literals(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !is_full) {
      const auto part = bytes.first(std::min(bytes.size(), kLzfLiteralsMax));
      put(static_cast<uint32_t>(part.size() - 1));
      for (const std::byte b : part) put(std::to_integer<uint32_t>(b));
      bytes = bytes.subspan(part.size());
    }
  }
  void copy(size_t distance, size_t length) {
    const size_t n = length - 2;
    const auto high = static_cast<uint32_t>((distance - 1) >> 8);
    put(static_cast<uint32_t>(std::min<size_t>(n, 7) << 5) | high);
    if (n >= 7) put(static_cast<uint32_t>(n - 7));
    put(static_cast<uint32_t>(distance - 1) & 255);
  }
};

}  // namespace

std::optional<size_t> pack_lzf(std::span<const std::byte> in, std::span<std::byte> out) {
  std::vector<size_t> last_seen(size_t{1} << kLzfHashBits, SIZE_MAX);
  LzfOutput output{.room = out};
  size_t at = 0, literals_from = 0;
  while (at + 3 <= in.size() && !output.is_full) {
    const uint32_t three = byte_at(in, at) | byte_at(in, at + 1) << 8 | byte_at(in, at + 2) << 16;
    size_t& entry = last_seen[(three * 2654435761u) >> (32 - kLzfHashBits)];
    const size_t earlier = entry;
    entry = at;
    if (earlier == SIZE_MAX || at - earlier > kLzfDistanceMax ||
        std::memcmp(&in[earlier], &in[at], 3) != 0) {
      ++at;
      continue;
    }
    size_t length = 3;
    const size_t longest = std::min(kLzfLengthMax, in.size() - at);
    while (length < longest && in[earlier + length] == in[at + length]) ++length;
    output.literals(in.subspan(literals_from, at - literals_from));
    output.copy(at - earlier, length);
    at += length;
    literals_from = at;
  }
  output.literals(in.subspan(literals_from));
  if (output.is_full || output.made >= out.size()) return std::nullopt;
  return output.made;
}

void unshuffle(std::span<const std::byte> in, size_t element_bytes, std::span<std::byte> out) {
  if (element_bytes <= 1) {
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
    return;
  }
  const size_t count = in.size() / element_bytes;
  switch (element_bytes) {
    case 2:
      join_planes<2>(in.data(), count, out.data());
      break;
    case 4:
      join_planes<4>(in.data(), count, out.data());
      break;
    case 8:
      join_planes<8>(in.data(), count, out.data());
      break;
    default:
      join_planes_of(element_bytes, in.data(), count, out.data());
  }
  const size_t whole = count * element_bytes;
  if (in.size() > whole) std::memcpy(out.data() + whole, in.data() + whole, in.size() - whole);
}

uint32_t fletcher32(std::span<const std::byte> bytes) {
  // Both sums stay below 2^32 for 360 words between foldings.
  constexpr size_t kWordsBetween = 360;
  uint32_t low = 0, high = 0;
  const auto fold = [](uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  size_t words = bytes.size() / 2;
  size_t at = 0;
  while (words > 0) {
    const size_t n = std::min(words, kWordsBetween);
    for (size_t i = 0; i < n; ++i, at += 2) {
      low += byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
      high += low;
    }
    words -= n;
    low = fold(low);
    high = fold(high);
  }
  if (bytes.size() % 2 != 0) {
    low += byte_at(bytes, at) << 8;
    high += low;
    low = fold(low);
    high = fold(high);
  }
  return fold(high) << 16 | fold(low);
}

Status Hdf5Unfilter::inflate(std::span<const std::byte> bytes, std::span<std::byte> out) {
  inflater_.begin(DeflateWrapper::kZlib);
  const size_t wanted = out.size();
  FB_TRY(inflater_.run(bytes, out));
  // A full output leaves the checksum behind it unread.
  std::byte beyond{};
  std::span<std::byte> room(&beyond, 1);
  if (!inflater_.is_done()) FB_TRY(inflater_.run(bytes, room));
  if (room.empty())
    return fail(ErrorCode::kCorruption, "deflate stream of more than {} bytes", wanted);
  if (!inflater_.is_done()) return fail(ErrorCode::kCorruption, "deflate stream cut short");
  if (!out.empty())
    return fail(ErrorCode::kCorruption, "deflate stream of {} bytes instead of {}",
                wanted - out.size(), wanted);
  return {};
}

Result<std::span<const std::byte>> Hdf5Unfilter::undo(const Hdf5FilterStep& step,
                                                      std::span<const std::byte> bytes,
                                                      std::span<std::byte> out) {
  switch (step.filter) {
    case Hdf5Filter::kFletcher32:
      return check_fletcher32(bytes);
    case Hdf5Filter::kShuffle:
      if (bytes.size() != out.size())
        return fail(ErrorCode::kCorruption, "{} shuffled bytes instead of {}", bytes.size(),
                    out.size());
      unshuffle(bytes, step.element_bytes, out);
      return std::span<const std::byte>(out);
    case Hdf5Filter::kDeflate:
      FB_TRY(inflate(bytes, out));
      return std::span<const std::byte>(out);
    case Hdf5Filter::kLzf:
      FB_TRY(unpack_lzf(bytes, out));
      return std::span<const std::byte>(out);
  }
  return fail(ErrorCode::kUnsupported, "filter {}", static_cast<uint32_t>(step.filter));
}

Status Hdf5Unfilter::run(std::span<const Hdf5FilterStep> steps, uint32_t skipped,
                         std::span<const std::byte> bytes, std::span<std::byte> out) {
  const auto is_skipped = [skipped](size_t i) { return i < 32 && (skipped >> i & 1) != 0; };
  size_t scratch = 0;
  for (size_t i = steps.size(); i-- > 0;) {
    if (is_skipped(i)) continue;
    // Bytes that this step was given when it was written: the chunk and the checksums so far, or
    // what a compressor made of them.
    size_t before = out.size();
    bool is_last = true, is_known = true;
    for (size_t j = 0; j < i; ++j) {
      if (is_skipped(j)) continue;
      is_last = false;
      if (steps[j].filter == Hdf5Filter::kFletcher32) before += kChecksumBytes;
      if (is_compressor(steps[j].filter)) is_known = false;
    }
    if (!is_known) {
      if (is_compressor(steps[i].filter))
        return fail(ErrorCode::kUnsupported, "a chunk that is compressed twice");
      before = bytes.size();
    }
    const bool needs_room = steps[i].filter != Hdf5Filter::kFletcher32;
    const auto room = is_last || !needs_room ? out : scratch_[scratch++ % 2].reserve(before);
    bytes = FB_TRY(undo(steps[i], bytes, room));
  }
  if (bytes.size() != out.size())
    return fail(ErrorCode::kCorruption, "{} bytes instead of {}", bytes.size(), out.size());
  if (bytes.data() != out.data() && !bytes.empty())
    std::memcpy(out.data(), bytes.data(), bytes.size());
  return {};
}

}  // namespace forebay::formats

// A safetensors file of anybody's: read as a whole into one piece of memory, its tensors are views.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/parallel.h"
#include "checkpoint/safetensors.h"
#include "forebay/checkpoint.h"
#include "storage/store.h"
#include "sys/host.h"
#include "sys/memory.h"

namespace forebay {
namespace {

constexpr uint64_t kPieceBytes = 8 << 20;
constexpr int kThreadsMax = 4;

// A file, and the store of the folder that it lies in.
struct Place {
  std::string folder, name;
};

Place place_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

Result<checkpoint::SafetensorsHeader> read_header(storage::Store& store,
                                                  const storage::FileInfo& file,
                                                  uint64_t& data_offset) {
  std::vector<std::byte> bytes(checkpoint::kLengthBytes);
  const size_t got = FB_TRY(store.read_at(file.path, 0, bytes));
  const uint64_t length =
      FB_TRY(checkpoint::read_header_length(std::span(bytes).first(got), file.size));
  bytes.resize(length);
  const size_t read = FB_TRY(store.read_at(file.path, checkpoint::kLengthBytes, bytes));
  if (read < length) return fail(ErrorCode::kCorruption, "ends inside its header");
  data_offset = checkpoint::kLengthBytes + length;
  return checkpoint::parse_safetensors({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                       file.size);
}

Status read_data(storage::Store& store, const storage::FileInfo& file, uint64_t data_offset,
                 std::span<std::byte> out, const std::stop_token& stop) {
  const size_t pieces = (out.size() + kPieceBytes - 1) / kPieceBytes;
  const int threads = std::min(kThreadsMax, sys::usable_cpu_count());
  return checkpoint::for_each_parallel(pieces, threads, stop, [&](size_t i) -> Status {
    const uint64_t at = i * kPieceBytes;
    const auto piece = out.subspan(at, std::min<uint64_t>(kPieceBytes, out.size() - at));
    const size_t got = FB_TRY(store.read_at(file.path, data_offset + at, piece));
    if (got == piece.size()) return {};
    return fail(ErrorCode::kCorruption, "ends at byte {} of {}", data_offset + at + got, file.size);
  });
}

Result<Restored> load(storage::Store& store, const storage::FileInfo& file,
                      const std::stop_token& stop) {
  uint64_t data_offset = 0;
  const checkpoint::SafetensorsHeader header = FB_TRY(read_header(store, file, data_offset));
  const uint64_t bytes = file.size - data_offset;
  if (const uint64_t limit = sys::host().memory_limit_bytes; bytes > limit)
    return fail(ErrorCode::kResourceExhausted, "{} of tensors, and this process may use {}",
                base::format_memory(static_cast<double>(bytes)),
                base::format_memory(static_cast<double>(limit)));
  constexpr size_t kAlign = 64;
  const auto memory = std::make_shared<sys::LargeBuffer>(sys::allocate_large(bytes + kAlign));
  void* front = memory->get();
  size_t room = bytes + kAlign;
  auto* const begin = static_cast<std::byte*>(std::align(kAlign, bytes, front, room));
  FB_TRY(read_data(store, file, data_offset, {begin, bytes}, stop));
  Restored out;
  out.metadata = header.metadata;
  for (const checkpoint::TensorEntry& tensor : header.tensors)
    out.tensors.push_back({tensor.name,
                           std::string(array_name_of(tensor.type)),
                           tensor.shape,
                           {begin + tensor.offset, tensor.bytes},
                           memory});
  return out;
}

}  // namespace

Result<Restored> load_safetensors(const std::string& path, std::stop_token stop) {
  const Place place = place_of(path);
  const auto store = FB_TRY(storage::open_store("local", place.folder));
  store->set_stop(stop);
  const storage::FileInfo file = FB_TRY(store->stat(place.name));
  Restored out = FB_TRY(load(*store, file, stop).context(path));
  out.place = path;
  return out;
}

}  // namespace forebay

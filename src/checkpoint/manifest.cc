#include "checkpoint/manifest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/crc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "checkpoint/pieces.h"
#include "checkpoint/safetensors.h"

namespace forebay::checkpoint {
namespace {

using nlohmann::json;

// The text begins with these; eight hexadecimal digits follow, which count as zeros.
constexpr std::string_view kFront = "{\"forebay_checkpoint\":";
constexpr std::string_view kChecksum = ",\"crc32c\":\"";
constexpr std::string_view kZeros = "00000000";
constexpr size_t kChecksumDigits = 8;
constexpr int kDepthMax = 8;

uint32_t checksum_of(std::string_view text, size_t digits_at) {
  uint32_t crc = base::crc32c(0, std::as_bytes(std::span(text.substr(0, digits_at))));
  crc = base::crc32c(crc, std::as_bytes(std::span(kZeros)));
  return base::crc32c(crc, std::as_bytes(std::span(text.substr(digits_at + kChecksumDigits))));
}

// JSON has no numbers for these. A loss that diverged must not cost the checkpoint.
constexpr std::pair<std::string_view, double> kNotFinite[] = {
    {"nan", std::numeric_limits<double>::quiet_NaN()},
    {"inf", std::numeric_limits<double>::infinity()},
    {"-inf", -std::numeric_limits<double>::infinity()}};

// --- writing ---

json metric_json(double value) {
  for (const auto& [word, number] : kNotFinite)
    if (value == number || (std::isnan(value) && std::isnan(number))) return word;
  return value;
}

json shard_json(const Shard& shard) {
  std::string crcs;
  for (const uint32_t crc : shard.chunk_crcs) crcs += fmt::format("{:08x}", crc);
  json out = {{"file", shard.file},
              {"rank", shard.rank},
              {"bytes", shard.bytes},
              {"crc32c", std::move(crcs)}};
  if (!shard.packed_bytes.empty()) out["packed_bytes"] = shard.packed_bytes;
  if (shard.is_elsewhere) out["elsewhere"] = true;
  return out;
}

json tensor_json(const SavedTensor& tensor) {
  json pieces = json::array();
  for (const Piece& piece : tensor.pieces) {
    json flat = {piece.shard, piece.offset};
    for (const uint64_t at : piece.start) flat.push_back(at);
    for (const uint64_t side : piece.shape) flat.push_back(side);
    pieces.push_back(std::move(flat));
  }
  return {
      {"dtype", file_name_of(tensor.type)}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
}

// --- reading ---

// What the text takes once it is parsed, bounded before it is: hostile nesting costs far more
// memory than its bytes.
Status check_size(std::string_view text) {
  constexpr uint64_t kContainerBytes = 72, kValueBytes = 32, kFree = 16 << 20;
  uint64_t estimate = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ',' || c == ':') estimate += kValueBytes;
    if (c == ']' || c == '}') --depth;
    if (c != '[' && c != '{') continue;
    estimate += kContainerBytes;
    if (++depth > kDepthMax) return fail(ErrorCode::kCorruption, "nested too deeply");
  }
  if (estimate > kFree + 16 * text.size())
    return fail(ErrorCode::kCorruption, "more brackets and numbers than a manifest has");
  return {};
}

// The members of one object, each of which must be asked for.
class Members {
 public:
  Members(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  Status check_is_object() const {
    if (object_.is_object()) return {};
    return fail(ErrorCode::kCorruption, "{} is no object", where_);
  }
  Result<uint64_t> number(const char* name, uint64_t most = UINT64_MAX) {
    const json* value = find(name);
    if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() > most)
      return bad(name, "whole number in range");
    return value->get<uint64_t>();
  }
  Result<int64_t> time(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_number_integer()) return bad(name, "whole number");
    return value->get<int64_t>();
  }
  Result<std::string> text(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_string()) return bad(name, "string");
    return value->get<std::string>();
  }
  Result<std::vector<uint64_t>> numbers(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_array()) return bad(name, "list of whole numbers");
    return numbers_of(*value, name);
  }
  Result<const json*> list(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_array()) return bad(name, "list");
    return value;
  }
  Result<const json*> object(const char* name) {
    const json* value = find(name);
    if (value == nullptr || !value->is_object()) return bad(name, "object");
    return value;
  }
  // Absent, or true.
  Result<bool> flag(const char* name) {
    const json* value = find(name);
    if (value != nullptr && *value != json(true)) return bad(name, "true");
    return value != nullptr;
  }
  Status check_all_known() const {
    if (known_ == object_.size()) return {};
    return fail(ErrorCode::kCorruption, "{} has members that are not known", where_);
  }

  Result<std::vector<uint64_t>> numbers_of(const json& list, const char* name) const {
    std::vector<uint64_t> out;
    out.reserve(list.size());
    for (const json& value : list) {
      if (!value.is_number_unsigned()) return bad(name, "list of whole numbers");
      out.push_back(value.get<uint64_t>());
    }
    return out;
  }

 private:
  const json* find(const char* name) {
    const auto at = object_.find(name);
    if (at == object_.end()) return nullptr;
    ++known_;
    return &*at;
  }
  Error bad(const char* name, std::string_view wanted) const {
    return fail(ErrorCode::kCorruption, "{}: '{}' is no {}", where_, name, wanted);
  }

  const json& object_;
  const std::string where_;
  size_t known_ = 0;
};

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.size() > 255) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Result<std::vector<uint32_t>> parse_crcs(std::string_view digits) {
  std::vector<uint32_t> crcs(digits.size() / kChecksumDigits);
  const char* at = digits.data();
  for (uint32_t& crc : crcs) {
    const auto [end, error] = std::from_chars(at, at + kChecksumDigits, crc, 16);
    if (error != std::errc() || end != at + kChecksumDigits)
      return fail(ErrorCode::kCorruption, "checksums that are no hexadecimal digits");
    at += kChecksumDigits;
  }
  if (digits.size() % kChecksumDigits != 0)
    return fail(ErrorCode::kCorruption, "{} digits of checksums", digits.size());
  return crcs;
}

Result<Shard> parse_shard(const json& value, size_t index, const Manifest& manifest) {
  const std::string where = fmt::format("shard {}", index);
  Members members(value, where);
  FB_TRY(members.check_is_object());
  Shard shard;
  shard.file = FB_TRY(members.text("file"));
  if (!is_plain_name(shard.file) || shard.file == kManifestName)
    return fail(ErrorCode::kCorruption, "{}: '{}' is no name of a shard", where, shard.file);
  shard.rank = static_cast<uint32_t>(FB_TRY(members.number("rank", manifest.world_size - 1)));
  shard.bytes = FB_TRY(members.number("bytes", INT64_MAX));
  const std::string digits = FB_TRY(members.text("crc32c"));
  shard.chunk_crcs = FB_TRY(parse_crcs(digits).context(where));
  const uint64_t chunks =
      shard.bytes / manifest.chunk_bytes + (shard.bytes % manifest.chunk_bytes != 0 ? 1 : 0);
  if (shard.chunk_crcs.size() != chunks)
    return fail(ErrorCode::kCorruption, "{}: {} checksums for {} bytes", where,
                shard.chunk_crcs.size(), shard.bytes);
  if (manifest.is_packed) {
    shard.packed_bytes = FB_TRY(members.numbers("packed_bytes"));
    if (shard.packed_bytes.size() != chunks)
      return fail(ErrorCode::kCorruption, "{}: {} packed chunks of {}", where,
                  shard.packed_bytes.size(), chunks);
    for (const uint64_t packed : shard.packed_bytes) {
      // zstd adds next to nothing to what it cannot pack.
      if (packed > 2 * manifest.chunk_bytes + 1024)
        return fail(ErrorCode::kCorruption, "{}: a chunk packed into {} bytes", where, packed);
    }
  }
  shard.is_elsewhere = FB_TRY(members.flag("elsewhere"));
  FB_TRY(members.check_all_known());
  return shard;
}

Status check_in_shard(const SavedTensor& tensor, const Piece& piece, const Manifest& manifest) {
  if (piece.shard >= manifest.shards.size())
    return fail(ErrorCode::kCorruption, "tensor '{}': no shard {}", tensor.name, piece.shard);
  const uint64_t bytes = FB_TRY(tensor_bytes(tensor.type, piece.shape));
  const uint64_t end = manifest.shards[piece.shard].bytes;
  if (piece.offset > end || bytes > end - piece.offset)
    return fail(ErrorCode::kCorruption, "tensor '{}': bytes {} to {} of a shard of {}", tensor.name,
                piece.offset, piece.offset + bytes, end);
  return {};
}

Result<SavedTensor> parse_tensor(const std::string& name, const json& value,
                                 const Manifest& manifest, Coverage coverage) {
  const std::string where = "tensor '" + name + "'";
  Members members(value, where);
  FB_TRY(members.check_is_object());
  SavedTensor tensor;
  tensor.name = name;
  const std::string type_name = FB_TRY(members.text("dtype"));
  const auto type = type_from_file_name(type_name);
  if (!type) return fail(ErrorCode::kUnsupported, "{}: unknown dtype '{}'", where, type_name);
  tensor.type = *type;
  tensor.shape = FB_TRY(members.numbers("shape"));
  FB_TRY(tensor_bytes(tensor.type, tensor.shape).context(where));
  const json& pieces = *FB_TRY(members.list("pieces"));
  const size_t sides = tensor.shape.size();
  for (const json& flat : pieces) {
    if (!flat.is_array() || flat.size() != 2 + 2 * sides)
      return fail(ErrorCode::kCorruption, "{}: a piece that is no list of {} numbers", where,
                  2 + 2 * sides);
    const std::vector<uint64_t> numbers = FB_TRY(members.numbers_of(flat, "pieces"));
    if (numbers[0] > UINT32_MAX)
      return fail(ErrorCode::kCorruption, "{}: no shard {}", where, numbers[0]);
    const auto start = numbers.begin() + 2;
    const auto shape = start + static_cast<std::ptrdiff_t>(sides);
    Piece piece{
        static_cast<uint32_t>(numbers[0]), numbers[1], {start, shape}, {shape, numbers.end()}};
    FB_TRY(check_in_shard(tensor, piece, manifest));
    tensor.pieces.push_back(std::move(piece));
  }
  FB_TRY(members.check_all_known());
  if (coverage == Coverage::kWhole) FB_TRY(check_pieces(tensor));
  return tensor;
}

Status check_shards_differ(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const Shard& shard : manifest.shards) {
    if (!names.insert(shard.file).second)
      return fail(ErrorCode::kCorruption, "two shards in file '{}'", shard.file);
  }
  return {};
}

// No byte of a shard belongs to two tensors.
Status check_no_overlap(const Manifest& manifest) {
  struct Range {
    uint32_t shard;
    uint64_t begin, end;
    const SavedTensor* tensor;
  };
  std::vector<Range> ranges;
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const Piece& piece : tensor.pieces) {
      const uint64_t bytes = FB_TRY(tensor_bytes(tensor.type, piece.shape));
      if (bytes > 0) ranges.push_back({piece.shard, piece.offset, piece.offset + bytes, &tensor});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.shard, a.begin) < std::tie(b.shard, b.begin);
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const Range &before = ranges[i - 1], &after = ranges[i];
    if (before.shard == after.shard && before.end > after.begin)
      return fail(ErrorCode::kCorruption, "tensors '{}' and '{}' share bytes of shard {}",
                  before.tensor->name, after.tensor->name, after.shard);
  }
  return {};
}

// The version is looked at before the checksum: a newer one may have another.
Status check_front(std::string_view text) {
  if (text.size() > kManifestBytesMax)
    return fail(ErrorCode::kCorruption, "{} bytes are no manifest", text.size());
  if (text.substr(0, kFront.size()) != kFront)
    return fail(ErrorCode::kCorruption, "it does not begin as a manifest does");
  text.remove_prefix(kFront.size());
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc()) return fail(ErrorCode::kCorruption, "a manifest without a version");
  if (version != kManifestVersion)
    return fail(ErrorCode::kUnsupported, "version {} of the manifest; this program reads {}",
                version, kManifestVersion);
  return {};
}

Status check_checksum(std::string_view text) {
  const std::string front = fmt::format("{}{}{}", kFront, kManifestVersion, kChecksum);
  uint32_t stated = 0;
  const size_t at = front.size();
  if (text.substr(0, at) != front || text.size() < at + kChecksumDigits)
    return fail(ErrorCode::kCorruption, "a manifest without a checksum");
  const auto [end, error] =
      std::from_chars(text.data() + at, text.data() + at + kChecksumDigits, stated, 16);
  if (error != std::errc() || end != text.data() + at + kChecksumDigits)
    return fail(ErrorCode::kCorruption, "a manifest without a checksum");
  if (const uint32_t found = checksum_of(text, at); found != stated)
    return fail(ErrorCode::kCorruption, "crc32c {:08x}, but it says {:08x}", found, stated);
  return {};
}

std::optional<double> metric_from(const json& value) {
  if (value.is_number()) return value.get<double>();
  for (const auto& [word, number] : kNotFinite)
    if (value == word) return number;
  return std::nullopt;
}

Status read_names(Members& members, Manifest& out) {
  for (const auto& [name, value] : FB_TRY(members.object("metadata"))->items()) {
    if (!value.is_string()) return fail(ErrorCode::kCorruption, "metadata '{}' is no text", name);
    out.metadata[name] = value.get<std::string>();
  }
  for (const auto& [name, value] : FB_TRY(members.object("metrics"))->items()) {
    const auto metric = metric_from(value);
    if (!metric) return fail(ErrorCode::kCorruption, "metric '{}' is no number", name);
    out.metrics[name] = *metric;
  }
  return {};
}

// The pieces of `more` that `tensor` has not yet.
Status add_pieces(SavedTensor& tensor, SavedTensor more) {
  if (tensor.type != more.type || tensor.shape != more.shape)
    return fail(ErrorCode::kInvalidArgument,
                "tensor '{}' is {} [{}] on one rank, {} [{}] on another", tensor.name,
                file_name_of(tensor.type), fmt::join(tensor.shape, ", "), file_name_of(more.type),
                fmt::join(more.shape, ", "));
  for (Piece& piece : more.pieces) {
    const auto is_same = [&](const Piece& known) {
      return known.start == piece.start && known.shape == piece.shape;
    };
    if (std::none_of(tensor.pieces.begin(), tensor.pieces.end(), is_same))
      tensor.pieces.push_back(std::move(piece));
  }
  return {};
}

std::vector<bool> shards_used(const Manifest& manifest) {
  std::vector<bool> used(manifest.shards.size());
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const Piece& piece : tensor.pieces) used[piece.shard] = true;
  }
  return used;
}

// Those of other hosts that hold only what is here as well.
void drop_shards_unused_elsewhere(Manifest& manifest) {
  const std::vector<bool> used = shards_used(manifest);
  std::vector<uint32_t> index(manifest.shards.size());
  std::vector<Shard> kept;
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    index[i] = static_cast<uint32_t>(kept.size());
    if (used[i] || !manifest.shards[i].is_elsewhere) kept.push_back(std::move(manifest.shards[i]));
  }
  manifest.shards = std::move(kept);
  for (SavedTensor& tensor : manifest.tensors) {
    for (Piece& piece : tensor.pieces) piece.shard = index[piece.shard];
  }
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  json shards = json::array(), metrics = json::object();
  for (const auto& [name, value] : manifest.metrics) metrics[name] = metric_json(value);
  for (const Shard& shard : manifest.shards) shards.push_back(shard_json(shard));
  json tensors = json::object();
  for (const SavedTensor& tensor : manifest.tensors) tensors[tensor.name] = tensor_json(tensor);
  const json rest = {{"step", manifest.step},
                     {"id", manifest.id},
                     {"saved_unix_ns", manifest.saved_unix_ns},
                     {"tool", manifest.tool},
                     {"world_size", manifest.world_size},
                     {"chunk_bytes", manifest.chunk_bytes},
                     {"packing", manifest.is_packed ? "zstd" : "none"},
                     {"shards", std::move(shards)},
                     {"tensors", std::move(tensors)},
                     {"tree", manifest.tree},
                     {"metadata", manifest.metadata},
                     {"metrics", std::move(metrics)}};
  std::string text = fmt::format("{}{}{}{}\",\n", kFront, kManifestVersion, kChecksum, kZeros);
  text += std::string_view(rest.dump(-1, ' ', false, json::error_handler_t::replace)).substr(1);
  text += '\n';
  seal_manifest(text);
  return text;
}

void seal_manifest(std::string& text) {
  const std::string front = fmt::format("{}{}{}", kFront, kManifestVersion, kChecksum);
  if (!text.starts_with(front) || text.size() < front.size() + kChecksumDigits) return;
  fmt::format_to(text.begin() + static_cast<std::ptrdiff_t>(front.size()), "{:08x}",
                 checksum_of(text, front.size()));
}

Result<Manifest> parse_manifest(std::string_view text, Coverage coverage) {
  FB_TRY(check_front(text));
  FB_TRY(check_checksum(text));
  FB_TRY(check_size(text));
  const json whole = json::parse(text, nullptr, false);
  if (whole.is_discarded()) return fail(ErrorCode::kCorruption, "a manifest that is no JSON");
  Members members(whole, "the manifest");
  FB_TRY(members.check_is_object());
  Manifest out;
  FB_TRY(members.number("forebay_checkpoint"));
  FB_TRY(members.text("crc32c"));
  out.step = FB_TRY(members.number("step"));
  out.id = static_cast<uint32_t>(FB_TRY(members.number("id", UINT32_MAX)));
  out.saved_unix_ns = FB_TRY(members.time("saved_unix_ns"));
  out.tool = FB_TRY(members.text("tool"));
  out.world_size = static_cast<uint32_t>(FB_TRY(members.number("world_size", UINT32_MAX)));
  out.chunk_bytes = FB_TRY(members.number("chunk_bytes", kChunkBytesMax));
  if (out.world_size == 0 || out.chunk_bytes == 0)
    return fail(ErrorCode::kCorruption, "world_size and chunk_bytes cannot be 0");
  const std::string packing = FB_TRY(members.text("packing"));
  if (packing != "none" && packing != "zstd")
    return fail(ErrorCode::kUnsupported, "packing '{}'", packing);
  out.is_packed = packing == "zstd";
  for (const json& value : *FB_TRY(members.list("shards")))
    out.shards.push_back(FB_TRY(parse_shard(value, out.shards.size(), out)));
  FB_TRY(check_shards_differ(out));
  for (const auto& [name, value] : FB_TRY(members.object("tensors"))->items())
    out.tensors.push_back(FB_TRY(parse_tensor(name, value, out, coverage)));
  FB_TRY(check_no_overlap(out));
  out.tree = FB_TRY(members.text("tree"));
  FB_TRY(read_names(members, out));
  FB_TRY(members.check_all_known());
  return out;
}

Result<Manifest> merge_manifests(std::vector<Manifest> parts, const std::vector<bool>& is_here) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!is_here.empty())
    std::stable_partition(order.begin(), order.end(), [&](size_t rank) { return is_here[rank]; });
  std::vector<Shard> shards;
  std::map<std::string, SavedTensor> tensors;
  for (const size_t rank : order) {
    const auto shards_before = static_cast<uint32_t>(shards.size());
    for (Shard& shard : parts[rank].shards) {
      shard.is_elsewhere = !is_here.empty() && !is_here[rank];
      shards.push_back(std::move(shard));
    }
    for (SavedTensor& tensor : parts[rank].tensors) {
      for (Piece& piece : tensor.pieces) piece.shard += shards_before;
      const auto [known, is_new] = tensors.emplace(tensor.name, tensor);
      if (!is_new) FB_TRY(add_pieces(known->second, std::move(tensor)));
    }
  }
  Manifest out = std::move(parts.front());
  out.shards = std::move(shards);
  out.tensors.clear();
  for (auto& [name, tensor] : tensors) {
    Status filled = check_pieces(tensor);
    if (!filled.ok()) return fail(ErrorCode::kInvalidArgument, "{}", filled.error().message);
    out.tensors.push_back(std::move(tensor));
  }
  drop_shards_unused_elsewhere(out);
  return out;
}

bool is_spread(const Manifest& manifest) {
  return std::any_of(manifest.shards.begin(), manifest.shards.end(),
                     [](const Shard& shard) { return shard.is_elsewhere; });
}

Manifest gathered(Manifest manifest) {
  for (Shard& shard : manifest.shards) shard.is_elsewhere = false;
  return manifest;
}

uint64_t stored_bytes(const Shard& shard) {
  if (shard.packed_bytes.empty()) return shard.bytes;
  return std::accumulate(shard.packed_bytes.begin(), shard.packed_bytes.end(), uint64_t{0});
}

uint64_t stored_bytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const Shard& shard : manifest.shards) bytes += shard.is_elsewhere ? 0 : stored_bytes(shard);
  return bytes;
}

std::vector<StoredChunk> stored_chunks(const Shard& shard, uint64_t chunk_bytes) {
  std::vector<StoredChunk> chunks(shard.chunk_crcs.size());
  uint64_t offset = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const uint64_t bytes = shard.packed_bytes.empty() ? std::min(chunk_bytes, shard.bytes - offset)
                                                      : shard.packed_bytes[i];
    chunks[i] = {offset, bytes};
    offset += bytes;
  }
  return chunks;
}

}  // namespace forebay::checkpoint

#include "checkpoint/shard_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/state_text.h"

namespace forebay::checkpoint {
namespace {

uint64_t rounded(uint64_t bytes) {
  return (bytes + kShardAlignBytes - 1) / kShardAlignBytes * kShardAlignBytes;
}

Status check_name(const std::string& name) {
  if (name.empty()) return fail(ErrorCode::kInvalidArgument, "a tensor without a name");
  if (!is_utf8(name)) return fail(ErrorCode::kInvalidArgument, "a tensor whose name is no UTF-8");
  if (name == "__metadata__")
    return fail(ErrorCode::kInvalidArgument, "no tensor can be named '__metadata__'");
  return {};
}

Result<LocalPart> check_part(const TensorPart& part) {
  FB_TRY(check_name(part.name));
  const auto type = type_from_array_name(part.element_type);
  if (!type)
    return fail(ErrorCode::kInvalidArgument, "tensor '{}': no file holds elements of type '{}'",
                part.name, part.element_type);
  const uint64_t bytes = FB_TRY(tensor_bytes(*type, part.shape).context(part.name));
  if (bytes != part.bytes.size())
    return fail(ErrorCode::kInvalidArgument, "tensor '{}': {} bytes, but {} [{}] takes {}",
                part.name, part.bytes.size(), part.element_type, fmt::join(part.shape, ", "),
                bytes);
  LocalPart out{part.name, *type, part.shape, part.whole_shape, part.start, part.bytes, false};
  if (out.whole_shape.empty()) out.whole_shape = part.shape;
  if (out.start.empty()) out.start.resize(part.shape.size());
  if (out.whole_shape.size() != part.shape.size() || out.start.size() != part.shape.size())
    return fail(ErrorCode::kInvalidArgument, "tensor '{}': {} dimensions in a whole of {} at {}",
                part.name, part.shape.size(), out.whole_shape.size(), out.start.size());
  FB_TRY(tensor_bytes(*type, out.whole_shape).context(part.name));
  for (size_t d = 0; d < part.shape.size(); ++d) {
    if (out.start[d] > out.whole_shape[d] || part.shape[d] > out.whole_shape[d] - out.start[d])
      return fail(ErrorCode::kInvalidArgument, "tensor '{}': a part ends at {} of {} along {}",
                  part.name, out.start[d] + part.shape[d], out.whole_shape[d], d);
  }
  return out;
}

bool is_whole(const LocalPart& part) {
  return part.shape == part.whole_shape;
}

class Planner {
 public:
  Planner(std::span<const LocalPart> parts, uint64_t shard_bytes_max)
      : parts_(parts), shard_bytes_max_(shard_bytes_max) {
    plan_.part_offsets.resize(parts.size());
  }

  Result<ShardPlan> run() {
    std::vector<size_t> order(parts_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // Large elements first: without holes each tensor then lies aligned to its own.
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      const auto key = [this](size_t i) {
        const LocalPart& part = parts_[i];
        return std::tuple(std::pair(!is_whole(part), part.is_steady), ~element_bytes(part.type),
                          std::string_view(part.name), std::span<const uint64_t>(part.start));
      };
      const auto [kind_a, size_a, name_a, start_a] = key(a);
      const auto [kind_b, size_b, name_b, start_b] = key(b);
      const auto front_a = std::tie(kind_a, size_a, name_a);
      const auto front_b = std::tie(kind_b, size_b, name_b);
      if (front_a != front_b) return front_a < front_b;
      return std::lexicographical_compare(start_a.begin(), start_a.end(), start_b.begin(),
                                          start_b.end());
    });
    for (const size_t part : order) {
      if (!fits(part)) FB_TRY(close());
      shard_.parts.push_back(part);
      shard_.data_bytes += parts_[part].bytes.size();
    }
    FB_TRY(close());
    return std::move(plan_);
  }

 private:
  bool fits(size_t part) const {
    if (shard_.parts.empty()) return true;
    const LocalPart &one = parts_[part], &other = parts_[shard_.parts.front()];
    return is_whole(one) == is_whole(other) && one.is_steady == other.is_steady &&
           shard_.data_bytes + parts_[part].bytes.size() <= shard_bytes_max_;
  }

  Status close() {
    if (shard_.parts.empty()) return {};
    SafetensorsHeader header;
    shard_.arena_offset = plan_.arena_bytes;
    uint64_t offset = 0;
    for (const size_t i : shard_.parts) {
      const LocalPart& part = parts_[i];
      header.tensors.push_back(
          {entry_name(part), part.type, part.shape, offset, part.bytes.size()});
      plan_.part_offsets[i] = shard_.arena_offset + offset;
      offset += part.bytes.size();
    }
    shard_.header = FB_TRY(make_safetensors_header(header, kShardAlignBytes));
    plan_.arena_bytes += rounded(shard_.data_bytes);
    plan_.shards.push_back(std::move(shard_));
    shard_ = {};
    return {};
  }

  const std::span<const LocalPart> parts_;
  const uint64_t shard_bytes_max_;
  ShardPlan plan_;
  PlannedShard shard_;  // being filled
};

}  // namespace

// Parts of one tensor on one rank need names of their own in a file, which says where they belong.
std::string entry_name(const LocalPart& part) {
  return is_whole(part) ? part.name : fmt::format("{}@[{}]", part.name, fmt::join(part.start, ","));
}

Result<std::vector<LocalPart>> check_parts(std::span<const TensorPart> parts) {
  std::vector<LocalPart> out;
  out.reserve(parts.size());
  std::set<std::string> names;
  for (const TensorPart& part : parts) {
    out.push_back(FB_TRY(check_part(part)));
    if (!names.insert(entry_name(out.back())).second)
      return fail(ErrorCode::kInvalidArgument, "tensor '{}' is there twice", part.name);
  }
  return out;
}

Result<ShardPlan> plan_shards(std::span<const LocalPart> parts, uint64_t shard_bytes_max) {
  return Planner(parts, shard_bytes_max).run();
}

}  // namespace forebay::checkpoint

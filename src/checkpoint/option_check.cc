#include "checkpoint/option_check.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "storage/place.h"

namespace forebay::checkpoint {
namespace {

constexpr int kThreadsMax = 1024, kPortMax = 65535;
constexpr double kSecondsMax = 30 * 86400.0;
// Beyond it lies what was a negative number once.
constexpr uint64_t kCountMax = INT64_MAX;

Status check_count(std::string_view name, uint64_t value, uint64_t least = 0) {
  if (value >= least && value <= kCountMax) return {};
  return fail(ErrorCode::kInvalidArgument, "{} = {}: must be {} to 2^63 - 1", name,
              static_cast<int64_t>(value), least);
}

Status check_seconds(std::string_view name, double value) {
  if (value > 0 && value <= kSecondsMax) return {};
  return fail(ErrorCode::kInvalidArgument, "{} = {}: must be more than 0 and at most {:.0f}", name,
              value, kSecondsMax);
}

Status check_tier(const CheckpointOptions& options, size_t index) {
  const CheckpointTier& tier = options.tiers[index];
  const std::string name = fmt::format("tiers[{}]", index);
  if (tier.place.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: its place is empty: name a folder or s3://...",
                name);
  const double rate = tier.drain_bytes_per_second_max;
  if (!(rate >= 0) || std::isinf(rate))
    return fail(ErrorCode::kInvalidArgument,
                "{} ({}): bytes_per_second_max = {}: must be a number from 0, which means no limit",
                name, tier.place, rate);
  if (index == 0 && rate > 0)
    return fail(ErrorCode::kInvalidArgument,
                "{} ({}): bytes_per_second_max = {}: nothing is copied to the first tier; give it "
                "to the tier that is copied to",
                name, tier.place, rate);
  FB_TRY(check_count(name + " keep", tier.keep_last));
  const bool is_last = index + 1 == options.tiers.size();
  if (is_last && tier.keep_last != 0 && tier.keep_last != options.keep_last)
    return fail(ErrorCode::kInvalidArgument,
                "{} ({}): keep = {}: what the last tier keeps is said for all, by keep; give it "
                "there",
                name, tier.place, tier.keep_last);
  return {};
}

// Two tiers in one place would take each other's checkpoints for copies.
Status check_places_differ(const CheckpointOptions& options) {
  for (size_t i = 0; i < options.tiers.size(); ++i) {
    const CheckpointTier& one = options.tiers[i];
    const std::string identity = FB_TRY(storage::place_identity(one.place));
    for (size_t k = 0; k < i; ++k) {
      const CheckpointTier& other = options.tiers[k];
      // The same bucket's name at another server.
      if (storage::is_object_place(one.place) && one.storage != other.storage) continue;
      if (FB_TRY(storage::place_identity(other.place)) != identity) continue;
      if (one.place == other.place)
        return fail(ErrorCode::kInvalidArgument, "{} is there twice", one.place);
      return fail(ErrorCode::kInvalidArgument, "{} and {} are the same place", other.place,
                  one.place);
    }
  }
  return {};
}

Status check_retention(const CheckpointOptions& options) {
  FB_TRY(check_count("keep_last", options.keep_last));
  FB_TRY(check_count("keep_every", options.keep_every));
  FB_TRY(check_count("keep_best", options.keep_best));
  if (options.keep_last == 0 && (options.keep_every > 0 || options.keep_best > 0))
    return fail(ErrorCode::kInvalidArgument,
                "keep_every and keep_best add to keep_last, which keeps all unless it is given");
  if (options.keep_best > 0 && options.best_metric.empty())
    return fail(ErrorCode::kInvalidArgument, "keep_best needs best_metric, which it judges by");
  if (options.keep_best == 0 && !options.best_metric.empty())
    return fail(ErrorCode::kInvalidArgument,
                "best_metric = '{}' needs keep_best, how many of the best are kept",
                options.best_metric);
  return {};
}

Status check_rank(int rank, int size) {
  if (size < 1)
    return fail(ErrorCode::kInvalidArgument, "world_size = {}: must be 1 or more", size);
  if (rank >= 0 && rank < size) return {};
  return fail(ErrorCode::kInvalidArgument, "rank = {}: must be 0 to {} with world_size = {}", rank,
              size - 1, size);
}

}  // namespace

Status check_options(const CheckpointOptions& options) {
  if (options.tiers.empty())
    return fail(ErrorCode::kInvalidArgument, "a checkpointer needs a place to save to");
  for (size_t i = 0; i < options.tiers.size(); ++i) FB_TRY(check_tier(options, i));
  FB_TRY(check_places_differ(options));
  if (options.group) FB_TRY(check_rank(options.group->rank(), options.group->size()));
  if (options.when_busy != WhenBusy::kBlock && options.when_busy != WhenBusy::kSkip &&
      options.when_busy != WhenBusy::kQueue)
    return fail(ErrorCode::kInvalidArgument, "when_busy = {}: must be block, skip or queue",
                static_cast<int>(options.when_busy));
  FB_TRY(check_retention(options));
  if (options.compress && options.share_unchanged)
    return fail(ErrorCode::kInvalidArgument,
                "share_unchanged and compress do not go together: choose one of them");
  FB_TRY(check_count("shard_bytes_max", options.shard_bytes_max, 1));
  if (options.chunk_bytes < 4096 || options.chunk_bytes > kChunkBytesMax ||
      options.chunk_bytes % 4096 != 0)
    return fail(ErrorCode::kInvalidArgument,
                "chunk_bytes = {}: must be 4 KiB to 64 MiB, a multiple of 4 KiB",
                options.chunk_bytes);
  if (options.threads < 0 || options.threads > kThreadsMax)
    return fail(ErrorCode::kInvalidArgument,
                "threads = {}: must be 1 to {}, or 0 for as many as CPUs, up to 4", options.threads,
                kThreadsMax);
  return {};
}

Status check_address(const RankAddress& address) {
  FB_TRY(check_rank(address.rank, address.size));
  if (address.host.empty())
    return fail(ErrorCode::kInvalidArgument, "host is empty: name that of rank 0");
  if (address.port < 1 || address.port > kPortMax)
    return fail(ErrorCode::kInvalidArgument, "port = {}: must be 1 to {}", address.port, kPortMax);
  if (address.ports < 1 || address.ports > kPortMax - address.port + 1)
    return fail(ErrorCode::kInvalidArgument, "ports = {}: must be 1 to {} from port {} on",
                address.ports, kPortMax - address.port + 1, address.port);
  FB_TRY(check_seconds("join_seconds", address.join_seconds));
  return check_seconds("wait_seconds", address.wait_seconds);
}

}  // namespace forebay::checkpoint

#include "checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/parallel.h"
#include "checkpoint/rank_talk.h"
#include "checkpoint/shard_io.h"
#include "checkpoint/state_text.h"
#include "sys/process.h"

namespace forebay::checkpoint {
namespace {

std::string table_name(const PlannedShard& shard) {
  uint64_t hash = shard.header.size();
  for (const char c : shard.header) hash = base::mix64(hash ^ static_cast<unsigned char>(c));
  return fmt::format("{:016x}", hash);
}

bool is_of_whole_tensors(const SaveJob& job, const PlannedShard& shard) {
  const LocalPart& part = job.parts[shard.parts.front()];
  return part.shape == part.whole_shape;
}

// Where each part of a shard lies in its file.
void add_tensors(const SaveJob& job, const PlannedShard& shard, uint32_t index,
                 std::map<std::string, SavedTensor>& tensors) {
  uint64_t offset = shard.header.size();
  for (const size_t i : shard.parts) {
    const LocalPart& part = job.parts[i];
    SavedTensor& tensor = tensors[part.name];
    tensor.name = part.name;
    tensor.type = part.type;
    tensor.shape = part.whole_shape;
    tensor.pieces.push_back({index, offset, part.start, part.shape});
    offset += part.bytes.size();
  }
}

}  // namespace

bool Saver::leads() const {
  const int rank = group_.rank();
  return places_ ? places_->leaders[static_cast<size_t>(rank)] == rank : rank == 0;
}

Status Saver::find_out_places(const SaveJob& job, const std::stop_token& stop) {
  if (places_) return {};
  const SaveName probe{.id = job.name.id};
  RankPlaces first = FB_TRY(find_places(tier_, group_, probe, stop));
  if (!first.first_apart()) {
    places_ = std::move(first);
    return {};
  }
  // The first may be each host's own when all that follow are shared.
  std::optional<int> apart = tiers_.size() == 1 ? first.first_apart() : std::nullopt;
  const Tier* tier = tiers_.front().get();
  for (size_t i = 1; i < tiers_.size() && !apart; ++i) {
    tier = tiers_[i].get();
    apart = FB_TRY(find_places(*tiers_[i], group_, probe, stop)).first_apart();
  }
  if (apart)
    return fail(ErrorCode::kInvalidArgument,
                "{}: rank {} does not see what rank 0 writes there: each host has a folder of its "
                "own. Only the first of several tiers may be like that: add one that all ranks "
                "share",
                tier->place(), *apart);
  places_ = std::move(first);
  return {};
}

Result<Manifest> Saver::save(SaveJob& job, const Snapshot& snapshot, const std::stop_token& stop) {
  FB_TRY(find_out_places(job, stop));
  if (options_.shares && !base_) find_base();
  const std::vector<size_t> chosen = FB_TRY(choose_shards(job, stop));
  auto writing = tier_.begin(job.name);
  const Result<Manifest> written =
      writing.ok() ? write_shards(job, snapshot, chosen, stop) : Result<Manifest>(writing.error());
  if (!leads() || !written.ok())
    writing = std::shared_ptr<const void>();  // before the first goes on
  const Result<std::string> mine =
      written.ok() ? Result<std::string>(write_manifest(*written)) : written.error();
  const auto texts = agree(group_, mine, stop);
  Result<Manifest> here =
      texts.ok() ? merge(*texts, group_.rank()) : Result<Manifest>(texts.error());
  // Those that do not lead have to know as well whether it is there.
  const Status published = publish(job, here, std::move(writing));
  const Result<std::string> said =
      published.ok() ? Result<std::string>(std::string()) : published.error();
  const auto all = agree(group_, said, stop);
  if (all.ok()) {
    Manifest whole = places_->first_apart() ? gathered(FB_TRY(merge(*texts, 0))) : *here;
    if (options_.shares) base_ = {job.name, std::move(here).take()};
    return whole;
  }
  const bool is_published = leads() && here.ok() && published.ok();
  job.held.reset();
  if (leads())
    (is_published ? tier_.remove(job.name) : tier_.discard(job.name))
        .ignore("prune finds what is left");
  return all.error();
}

Status Saver::publish(SaveJob& job, const Result<Manifest>& merged,
                      Result<std::shared_ptr<const void>> writing) {
  if (!merged.ok()) return merged.error();
  if (leads()) job.held = FB_TRY(tier_.publish(job.name, *merged, std::move(writing).take()));
  return {};
}

void Saver::find_base() {
  const auto contents = tier_.list();
  if (!contents.ok() || contents->saves.empty()) return;
  const SaveName newest = contents->saves.back();
  auto manifest = tier_.read_manifest(newest);
  if (manifest.ok()) base_ = {newest, std::move(manifest).take()};
}

bool Saver::link_to_same(const ShardImage& image, const std::string& folder, Shard& shard) {
  if (!base_ || base_->second.is_packed || base_->second.chunk_bytes != options_.chunk_bytes)
    return false;
  const std::string base_folder = folder_name(base_->first);
  std::vector<uint32_t> crcs = chunk_crcs_of(image, options_.chunk_bytes);
  const uint64_t bytes = image.header.size() + image.data_bytes;
  for (const Shard& known : base_->second.shards) {
    if (known.is_elsewhere || known.bytes != bytes || known.chunk_crcs != crcs) continue;
    // What the disk has made of it counts, not what was written once.
    if (!holds_image(tier_.store(), base_folder, known, options_.chunk_bytes, image)) continue;
    const std::string from = fmt::format("{}/{}", base_folder, known.file),
                      to = fmt::format("{}/{}", folder, shard.file);
    if (!tier_.store().link_file(from, to).ok()) continue;  // then it is written
    shard.bytes = bytes;
    shard.chunk_crcs = std::move(crcs);
    bytes_shared_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  return false;
}

Result<Manifest> Saver::merge(const std::vector<std::string>& texts, int rank) const {
  std::vector<Manifest> parts;
  for (const std::string& text : texts)
    parts.push_back(FB_TRY(parse_manifest(text, Coverage::kPart)));
  return merge_manifests(std::move(parts), places_->together_with(rank));
}

// What several ranks of a place have in common is written by one of them, in turn.
Result<std::vector<size_t>> Saver::choose_shards(SaveJob& job, const std::stop_token& stop) {
  const std::vector<PlannedShard>& shards = job.plan.shards;
  const std::string folder = folder_name(job.name);
  // Others may have saved here meanwhile: what is saved last is to be the newest.
  uint64_t sequence = job.name.sequence;
  if (leads()) {
    const auto there = tier_.list();
    if (there.ok()) sequence = std::max(sequence, there->sequence_next);
  }
  std::string mine = fmt::format("{} {} ", folder, sequence);
  for (const PlannedShard& shard : shards) {
    if (is_of_whole_tensors(job, shard)) mine += table_name(shard) + " ";
  }
  const Result<std::string> said = job.failure ? Result<std::string>(*job.failure) : mine;
  const std::vector<std::string> all = FB_TRY(agree(group_, said, stop));
  std::vector<std::vector<std::string_view>> words;  // by rank: folder, sequence, names of tables
  for (const std::string& text : all) {
    words.push_back(base::split(text, ' '));
    if (words.back().size() < 2)
      return fail(ErrorCode::kCorruption, "a rank says '{}' of its shards", text);
    job.name.sequence = std::max(job.name.sequence, number_of(words.back()[1]));
  }
  // By leader of the place and name of the table.
  std::map<std::pair<int, std::string_view>, std::vector<int>> holders;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (words[rank][0] != folder)
      return fail(ErrorCode::kInvalidArgument, "rank {} saves another step, {}, than rank {}: {}",
                  rank, words[rank][0], group_.rank(), folder);
    for (size_t i = 2; i < words[rank].size(); ++i) {
      if (!words[rank][i].empty())
        holders[{places_->leaders[rank], words[rank][i]}].push_back(static_cast<int>(rank));
    }
  }
  const int leader = places_->leaders[static_cast<size_t>(group_.rank())];
  std::map<std::string_view, int> owners;  // in this rank's place
  size_t turn = 0;
  for (const auto& [key, ranks] : holders) {
    if (key.first == leader) owners[key.second] = ranks[turn++ % ranks.size()];
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!is_of_whole_tensors(job, shards[i]) || owners[table_name(shards[i])] == group_.rank())
      chosen.push_back(i);
  }
  return chosen;
}

Result<Manifest> Saver::write_shards(const SaveJob& job, const Snapshot& snapshot,
                                     const std::vector<size_t>& chosen,
                                     const std::stop_token& stop) {
  Manifest part{.step = job.name.step,
                .id = job.name.id,
                .saved_unix_ns = static_cast<int64_t>(sys::unix_seconds() * 1e9),
                .tool = "forebay " FOREBAY_VERSION,
                .world_size = static_cast<uint32_t>(group_.size()),
                .chunk_bytes = options_.chunk_bytes,
                .is_packed = options_.packs,
                .tree = job.tree,
                .metadata = job.metadata,
                .metrics = job.metrics};
  std::map<std::string, SavedTensor> tensors;
  for (const size_t i : chosen) {
    add_tensors(job, job.plan.shards[i], static_cast<uint32_t>(part.shards.size()), tensors);
    part.shards.push_back({.file = fmt::format("rank-{:05}-{:03}.safetensors{}", group_.rank(),
                                               part.shards.size(), options_.packs ? ".zst" : ""),
                           .rank = static_cast<uint32_t>(group_.rank())});
  }
  for (auto& [name, tensor] : tensors) part.tensors.push_back(std::move(tensor));
  const std::string folder = tier_.working_folder(job.name);
  const ShardWriting how{options_.chunk_bytes, options_.packs};
  const Admission admit = [&](uint64_t /*bytes*/) -> Status {
    if (!stop.stop_requested()) return {};
    return fail(ErrorCode::kCancelled, "stopped while step {} was being saved", job.name.step);
  };
  FB_TRY(for_each_parallel(chosen.size(), options_.threads, stop, [&](size_t i) -> Status {
    const PlannedShard& shard = job.plan.shards[chosen[i]];
    const std::span<const std::byte> data = snapshot.data_of(shard);
    const ShardImage image{shard.header, data.size(), [data](uint64_t begin, uint64_t bytes) {
                             return data.subspan(begin, bytes);
                           }};
    if (options_.shares && link_to_same(image, folder, part.shards[i])) return {};
    return write_shard(tier_.store(), folder, image, how, admit, part.shards[i])
        .context(tier_.place());
  }));
  return part;
}

}  // namespace forebay::checkpoint

#include "checkpoint/restorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "base/units.h"
#include "checkpoint/box.h"
#include "checkpoint/parallel.h"
#include "checkpoint/shard_io.h"
#include "sys/host.h"
#include "sys/memory.h"

namespace forebay::checkpoint {
namespace {

// A piece of a file that belongs into a tensor that is wanted.
struct Wanted {
  uint64_t offset = 0, bytes = 0;  // in the shard
  const SavedTensor* tensor = nullptr;
  Box from;
  size_t output = 0;  // index in Restored::tensors
};

struct ChunkJob {
  uint32_t shard = 0;
  size_t chunk = 0;
};

class Restore {
  // They wait for the network more than they work; each has a chunk in memory.
  static constexpr int kRemoteThreads = 16;

 public:
  Restore(const SaveCopies& save, const RestoreOptions& options, int threads,
          const std::stop_token& stop)
      : save_(save), options_(options), threads_(threads), stop_(stop) {}

  Result<Restored> run() {
    FB_TRY(hold());
    FB_TRY(read_manifest());
    FB_TRY(plan());
    const bool is_local = tiers_.front()->store().capabilities().is_local;
    const int threads = is_local ? threads_ : std::max(threads_, kRemoteThreads);
    FB_TRY(for_each_parallel(jobs_.size(), threads, stop_,
                             [this](size_t i) { return take_chunk(jobs_[i]); }));
    out_.step = manifest_.step;
    out_.tree = manifest_.tree;
    out_.metadata = manifest_.metadata;
    base::MutexLock lock(mutex_);
    out_.notes.insert(out_.notes.end(), notes_.begin(), notes_.end());
    return std::move(out_);
  }

 private:
  Status hold() {
    std::optional<Error> first;
    for (const Tier* tier : save_.tiers) {
      auto held = tier->hold(save_.name);
      if (held.ok()) {
        held_.push_back(std::move(held).take());
        tiers_.push_back(tier);
      } else {
        note(held.error().message);
        if (!first) first = held.error();
      }
    }
    if (tiers_.empty()) return as_damage(*first);
    return {};
  }

  // What was there when it was listed and is gone now, or of a name that cannot be, is no wrong
  // question.
  static Error as_damage(Error error) {
    if (error.code == ErrorCode::kNotFound || error.code == ErrorCode::kInvalidArgument)
      error.code = ErrorCode::kCorruption;
    return error;
  }

  Status read_manifest() {
    std::optional<Error> first;
    for (size_t tier = 0; tier < tiers_.size(); ++tier) {
      auto manifest = tiers_[tier]->read_manifest(save_.name);
      if (manifest.ok()) {
        manifest_ = std::move(manifest).take();
        manifest_tier_ = tier;
        out_.place = tiers_[tier]->place();
        if (first) out_.notes.push_back(first->message);
        return {};
      }
      if (!first) first = manifest.error();
    }
    return as_damage(*first);
  }

  Status plan() {
    wanted_.resize(manifest_.shards.size());
    std::set<std::string_view> names;
    for (const SavedTensor& tensor : manifest_.tensors) names.insert(tensor.name);
    for (const auto& [name, box] : options_.boxes) {
      if (names.count(name) == 0)
        return fail(ErrorCode::kNotFound, "step {} has no tensor '{}'", manifest_.step, name);
    }
    for (const SavedTensor& tensor : manifest_.tensors) {
      const auto box = options_.boxes.find(tensor.name);
      if (box == options_.boxes.end() && options_.only_named) continue;
      FB_TRY(add_tensor(tensor, box == options_.boxes.end() ? nullptr : &box->second));
    }
    for (uint32_t shard = 0; shard < manifest_.shards.size(); ++shard) add_chunks(shard);
    return take_memory();
  }

  // What a manifest says is believed once its files are as large as it says: else a few bytes could
  // ask for all memory there is.
  Status take_memory() {
    first_tiers_.resize(manifest_.shards.size());
    for (uint32_t i = 0; i < manifest_.shards.size(); ++i) {
      if (!wanted_[i].empty()) FB_TRY(find_file(i));
    }
    uint64_t all = 0;
    for (const RestoredTensor& tensor : out_.tensors) all += tensor_size(tensor);
    if (const uint64_t limit = sys::host().memory_limit_bytes; all > limit)
      return fail(ErrorCode::kResourceExhausted, "step {} takes {}, and this process may use {}",
                  manifest_.step, base::format_memory(static_cast<double>(all)),
                  base::format_memory(static_cast<double>(limit)));
    for (RestoredTensor& tensor : out_.tensors) {
      constexpr size_t kAlign = 64;
      const uint64_t bytes = tensor_size(tensor);
      auto memory = std::make_shared<sys::LargeBuffer>(sys::allocate_large(bytes + kAlign));
      void* front = memory->get();
      size_t room = bytes + kAlign;
      tensor.bytes = {static_cast<std::byte*>(std::align(kAlign, bytes, front, room)), bytes};
      tensor.owner = std::move(memory);
    }
    return {};
  }

  uint64_t tensor_size(const RestoredTensor& tensor) const {
    return sizes_[static_cast<size_t>(&tensor - out_.tensors.data())];
  }

  // The fastest tier where the shard's file is what it should be.
  Status find_file(uint32_t shard) {
    std::optional<Error> first;
    const bool is_elsewhere = manifest_.shards[shard].is_elsewhere;
    for (size_t tier = 0; tier < tiers_.size(); ++tier) {
      Status file =
          is_elsewhere && tier == manifest_tier_
              ? Status(fail(ErrorCode::kNotFound,
                            "{}/{}: lies on another host, and on no tier that all share",
                            folder_name(save_.name), manifest_.shards[shard].file))
              : check_file(tiers_[tier]->store(), folder_name(save_.name), manifest_.shards[shard]);
      if (!file.ok()) {
        if (!first) first = std::move(file).context(tiers_[tier]->place()).error();
        continue;
      }
      if (first && !is_elsewhere) note(first->message + "; taken from " + tiers_[tier]->place());
      first_tiers_[shard] = tier;
      return {};
    }
    return as_damage(*first);
  }

  Status add_tensor(const SavedTensor& tensor, const TensorBox* asked) {
    Box to{std::vector<uint64_t>(tensor.shape.size()), tensor.shape};
    if (asked != nullptr) to = {asked->start, asked->shape};
    if (to.start.empty()) to.start.resize(tensor.shape.size());
    FB_TRY(check_box(tensor, to));
    const uint64_t bytes = FB_TRY(tensor_bytes(tensor.type, to.shape));
    out_.tensors.push_back(
        {tensor.name, std::string(array_name_of(tensor.type)), to.shape, {}, {}});
    sizes_.push_back(bytes);
    for (const Piece& piece : tensor.pieces) {
      Box from{piece.start, piece.shape};
      const uint64_t piece_bytes = FB_TRY(tensor_bytes(tensor.type, piece.shape));
      if (piece_bytes == 0 || bytes == 0 || !do_meet(from, to)) continue;
      wanted_[piece.shard].push_back(
          {piece.offset, piece_bytes, &tensor, std::move(from), out_.tensors.size() - 1});
    }
    boxes_.push_back(std::move(to));
    return {};
  }

  static Status check_box(const SavedTensor& tensor, const Box& box) {
    if (box.start.size() != tensor.shape.size() || box.shape.size() != tensor.shape.size())
      return fail(ErrorCode::kInvalidArgument, "tensor '{}' has {} dimensions, the box {}",
                  tensor.name, tensor.shape.size(), box.shape.size());
    for (size_t d = 0; d < box.shape.size(); ++d) {
      if (box.start[d] > tensor.shape[d] || box.shape[d] > tensor.shape[d] - box.start[d])
        return fail(ErrorCode::kInvalidArgument, "tensor '{}': a box to {} of {} along {}",
                    tensor.name, box.start[d] + box.shape[d], tensor.shape[d], d);
    }
    return {};
  }

  // The chunks that hold something wanted.
  void add_chunks(uint32_t shard) {
    std::vector<Wanted>& pieces = wanted_[shard];
    std::sort(pieces.begin(), pieces.end(),
              [](const Wanted& a, const Wanted& b) { return a.offset < b.offset; });
    places_.push_back(stored_chunks(manifest_.shards[shard], manifest_.chunk_bytes));
    size_t next = 0;
    for (const Wanted& piece : pieces) {
      const size_t first = piece.offset / manifest_.chunk_bytes;
      const size_t last = (piece.offset + piece.bytes - 1) / manifest_.chunk_bytes;
      for (size_t chunk = std::max(next, first); chunk <= last; ++chunk)
        jobs_.push_back({shard, chunk});
      next = std::max(next, last + 1);
    }
  }

  // What is damaged is overwritten by another tier's, or the restore fails.
  Status take_chunk(const ChunkJob& job) {
    const Shard& shard = manifest_.shards[job.shard];
    const StoredChunk place = places_[job.shard][job.chunk];
    const uint64_t begin = job.chunk * manifest_.chunk_bytes;
    thread_local std::vector<std::byte> buffer, unpacked;
    if (!manifest_.is_packed) {
      ToTensors target(*this, job.shard, begin, buffer);
      return from_any(job.shard, [&](storage::Store& store) {
        return stream_chunk(store, folder_name(save_.name), shard, job.chunk, place, target);
      });
    }
    buffer.resize(std::max(buffer.size(), place.bytes));
    const auto stored = std::span(buffer).first(place.bytes);
    FB_TRY(from_any(job.shard, [&](storage::Store& store) {
      return read_chunk(store, folder_name(save_.name), shard, job.chunk, place, stored);
    }));
    unpacked.resize(std::min(manifest_.chunk_bytes, shard.bytes - begin));
    FB_TRY(unpack_chunk(stored, unpacked).context(shard.file));
    scatter(job.shard, begin, unpacked);
    return {};
  }

  // The bytes of a plain chunk: long runs straight into their tensor, the rest by a buffer.
  class ToTensors final : public ChunkTarget {
   public:
    ToTensors(Restore& owner, uint32_t shard, uint64_t begin, std::vector<std::byte>& buffer)
        : owner_(owner), shard_(shard), begin_(begin), buffer_(buffer) {}
    std::span<std::byte> place(uint64_t offset, uint64_t bytes) override {
      const auto run = owner_.run_in_tensor(shard_, begin_ + offset, bytes);
      is_direct_ =
          !run.empty() && run.size() >= bytes / 4;  // below it a copy costs less than more calls
      if (is_direct_) return run;
      buffer_.resize(std::max<size_t>(buffer_.size(), bytes));
      return std::span(buffer_).first(bytes);
    }
    void arrived(uint64_t offset, std::span<const std::byte> bytes) override {
      if (!is_direct_) owner_.scatter(shard_, begin_ + offset, bytes);
    }

   private:
    Restore& owner_;
    const uint32_t shard_;
    const uint64_t begin_;
    std::vector<std::byte>& buffer_;
    bool is_direct_ = false;
  };

  // The first piece of a shard that ends behind `begin`.
  std::vector<Wanted>::const_iterator piece_behind(uint32_t shard, uint64_t begin) const {
    return std::partition_point(wanted_[shard].begin(), wanted_[shard].end(),
                                [&](const Wanted& one) { return one.offset + one.bytes <= begin; });
  }

  // Where the shard's bytes from `begin` on lie in a tensor one after the other; empty when they do
  // not.
  std::span<std::byte> run_in_tensor(uint32_t shard, uint64_t begin, uint64_t bytes) {
    const auto piece = piece_behind(shard, begin);
    if (piece == wanted_[shard].end() || piece->offset > begin) return {};
    const Box& to = boxes_[piece->output];
    if (piece->from.start != to.start || piece->from.shape != to.shape) return {};
    const uint64_t at = begin - piece->offset;
    return out_.tensors[piece->output].bytes.subspan(at, std::min(bytes, piece->bytes - at));
  }

  // Bytes of a shard from `begin` on, to where they belong.
  void scatter(uint32_t shard, uint64_t begin, std::span<const std::byte> content) {
    const uint64_t end = begin + content.size();
    const std::vector<Wanted>& pieces = wanted_[shard];
    auto piece = piece_behind(shard, begin);
    for (; piece != pieces.end() && piece->offset < end; ++piece) {
      const uint64_t first = std::max(piece->offset, begin);
      const uint64_t last = std::min(piece->offset + piece->bytes, end);
      copy_common(piece->from, first - piece->offset, content.subspan(first - begin, last - first),
                  boxes_[piece->output], out_.tensors[piece->output].bytes,
                  element_bytes(piece->tensor->type));
    }
  }

  // The tiers whose file of the shard is no good come last.
  template <class ReadFrom>
  Status from_any(uint32_t shard, const ReadFrom& read_from) {
    std::optional<Error> first;
    for (size_t i = 0; i < tiers_.size(); ++i) {
      const Tier* tier = tiers_[(first_tiers_[shard] + i) % tiers_.size()];
      Status read = read_from(tier->store()).context(tier->place());
      if (read.ok() && first) note(first->message + "; taken from " + tier->place());
      if (read.ok()) return {};
      if (read.error().code == ErrorCode::kCancelled) return read;
      if (!first) first = std::move(read).error();
    }
    return as_damage(*first);
  }

  void note(std::string text) {
    constexpr size_t kNotesMax = 100;
    base::MutexLock lock(mutex_);
    if (notes_.size() < kNotesMax) notes_.push_back(std::move(text));
  }

  const SaveCopies& save_;
  std::vector<const Tier*> tiers_;                 // of it, that have it still
  std::vector<std::shared_ptr<const void>> held_;  // on them
  const RestoreOptions& options_;
  const int threads_;
  const std::stop_token& stop_;
  Manifest manifest_;
  size_t manifest_tier_ = 0;  // that it was read from
  Restored out_;
  std::vector<Box> boxes_;                        // by tensor of out_
  std::vector<uint64_t> sizes_;                   // the same, in bytes
  std::vector<std::vector<Wanted>> wanted_;       // by shard
  std::vector<size_t> first_tiers_;               // the same: where it is read first
  std::vector<std::vector<StoredChunk>> places_;  // by shard
  std::vector<ChunkJob> jobs_;
  base::Mutex mutex_;
  std::vector<std::string> notes_ FB_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::vector<SaveCopies>> find_saves(std::span<const std::unique_ptr<Tier>> tiers,
                                           std::vector<std::string>& notes) {
  std::vector<SaveCopies> out;
  std::optional<Error> first;
  bool has_listed = false;
  for (const auto& tier : tiers) {
    const auto contents = tier->list();
    if (!contents.ok()) {
      notes.push_back(with_context(contents.error().message, tier->place()));
      if (!first) first = contents.error();
      continue;
    }
    has_listed = true;
    for (const SaveName& name : contents->saves) {
      const auto known = std::find_if(out.begin(), out.end(),
                                      [&](const SaveCopies& save) { return save.name == name; });
      if (known != out.end())
        known->tiers.push_back(tier.get());
      else
        out.push_back({name, {tier.get()}});
    }
  }
  if (!has_listed && first) return *first;
  std::sort(out.begin(), out.end(),
            [](const SaveCopies& a, const SaveCopies& b) { return is_older(b.name, a.name); });
  return out;
}

Result<Restored> restore_save(const SaveCopies& save, const RestoreOptions& options, int threads,
                              const std::stop_token& stop) {
  auto restored = Restore(save, options, threads, stop).run();
  // Where the first tier is each host's own, its files may have other names than elsewhere.
  if (restored.ok() || restored.error().code != ErrorCode::kCorruption || save.tiers.size() == 1)
    return restored;
  const SaveCopies further{save.name, {save.tiers.begin() + 1, save.tiers.end()}};
  auto again = restore_save(further, options, threads, stop);
  if (!again.ok()) return restored;
  again->notes.insert(again->notes.begin(),
                      restored.error().message + "; taken from " + again->place);
  return again;
}

}  // namespace forebay::checkpoint

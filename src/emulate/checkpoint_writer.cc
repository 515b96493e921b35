#include "emulate/checkpoint_writer.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/units.h"

namespace forebay::emulate {
namespace {

constexpr size_t kBlockBytes = 4 << 20;
constexpr uint64_t kSyncBytes = 16 * kBlockBytes;

}  // namespace

CheckpointWriter::CheckpointWriter(std::unique_ptr<storage::Store> store,
                                   const workload::Checkpoint& checkpoint, uint64_t model_bytes,
                                   uint64_t seed)
    : store_(std::move(store)),
      model_bytes_(model_bytes),
      sync_(checkpoint.fsync),
      block_(std::min<uint64_t>(kBlockBytes, std::max<uint64_t>(model_bytes, 1)), std::byte{1}) {
  if (checkpoint.randomize_tensor) base::Random(seed).fill(block_);
}

std::unique_ptr<CheckpointWriter> CheckpointWriter::open(std::unique_ptr<storage::Store> store,
                                                         const workload::Checkpoint& checkpoint,
                                                         uint64_t model_bytes, uint64_t seed) {
  return std::unique_ptr<CheckpointWriter>(
      new CheckpointWriter(std::move(store), checkpoint, model_bytes, seed));
}

Result<CheckpointRecord> CheckpointWriter::save(uint64_t epoch, uint64_t step,
                                                const std::stop_token& stop) {
  CheckpointRecord record;
  record.epoch = epoch;
  record.step = step;
  record.bytes = model_bytes_;
  record.is_synced = sync_;
  record.path = fmt::format("global_epoch{}_step{}/model_states-0.pt", epoch, step);
  const int64_t start = base::monotonic_clock().now_ns();
  std::unique_ptr<storage::Writer> writer = FB_TRY(store_->create(record.path));
  for (uint64_t done = 0; done < model_bytes_;) {
    const uint64_t count = std::min<uint64_t>(block_.size(), model_bytes_ - done);
    FB_TRY(writer->append(std::span(block_).first(count)).context("checkpoint"));
    done += count;
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped");
    // In portions, so that a stop never waits for gigabytes of dirty pages.
    if (sync_ && done % kSyncBytes == 0) FB_TRY(writer->sync().context("checkpoint"));
  }
  if (sync_) FB_TRY(writer->sync().context("checkpoint"));
  FB_TRY(writer->publish().context("checkpoint"));
  record.seconds = static_cast<double>(base::monotonic_clock().now_ns() - start) * 1e-9;
  return record;
}

}  // namespace forebay::emulate

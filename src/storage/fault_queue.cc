#include "storage/fault_queue.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "storage/delayed_queue.h"
#include "sys/thread.h"

namespace forebay::storage {
namespace {

// Shows the pieces with one byte changed.
class CorruptingVisitor final : public PieceVisitor {
 public:
  void begin(PieceVisitor* next, uint64_t victim) {
    next_ = next;
    victim_ = victim;
    seen_ = 0;
  }
  void visit(std::span<const std::byte> piece) override {
    const bool is_hit = victim_ >= seen_ && victim_ - seen_ < piece.size();
    if (is_hit) {
      copy_.assign(piece.begin(), piece.end());
      copy_[victim_ - seen_] ^= std::byte{1};
    }
    seen_ += piece.size();
    next_->visit(is_hit ? std::span<const std::byte>(copy_) : piece);
  }

 private:
  PieceVisitor* next_ = nullptr;
  uint64_t victim_ = 0;
  uint64_t seen_ = 0;
  std::vector<std::byte> copy_;
};

class FaultQueue final : public ReadQueue {
 public:
  FaultQueue(std::unique_ptr<ReadQueue> inner, FaultDice& dice, const QueueOptions& options)
      : dice_(dice), inner_(std::move(inner)) {
    if (dice.plan().kind != FaultKind::kDelay) return;
    // Without a limit every read is let in by submit(), on the thread that owns the slots.
    QueueOptions unlimited = options;
    unlimited.depth = INT_MAX;
    inner_ = std::make_unique<DelayedQueue>(
        std::move(inner_),
        [this](const Read& read, int64_t now) {
          const bool is_late = slots_[read.tag]->fault.has_value();
          return ReadSchedule{now, is_late ? now + dice_.plan().delay_ns : now};
        },
        unlimited);
  }

  void submit(std::span<const Read> reads) override {
    batch_.clear();
    for (const Read& read : reads) submit_one(read);
    inside_ += batch_.size();
    if (!batch_.empty()) inner_->submit(batch_);
  }

  size_t reap(std::span<Completion> out, std::stop_token stop) override {
    // What failed at once comes first and waits for nothing.
    size_t count = std::min(out.size(), failed_.size());
    for (size_t i = 0; i < count; ++i) out[i] = failed_.pop();
    if (count > 0 || inside_ == 0) return count;
    count = inner_->reap(out, std::move(stop));
    inside_ -= count;
    for (size_t i = 0; i < count; ++i) finish(out[i]);
    return count;
  }

  void wake() override { inner_->wake(); }
  // Delays let every read in at once (above): a limit would move that to another thread.
  int set_depth(int depth) override {
    return dice_.plan().kind == FaultKind::kDelay ? depth : inner_->set_depth(depth);
  }

 private:
  struct Slot {
    Read read;
    std::optional<Fault> fault;
    CorruptingVisitor corrupting;
  };

  void submit_one(const Read& read) {
    const std::optional<Fault> fault = dice_.roll();
    const bool fails_at_once =
        fault && (fault->kind == FaultKind::kError || fault->kind == FaultKind::kVanish ||
                  fault->kind == FaultKind::kNoSpace || fault->kind == FaultKind::kQuota ||
                  fault->kind == FaultKind::kStale ||
                  (fault->kind == FaultKind::kShort && read.length == 0));
    if (fails_at_once) {
      Completion out;
      out.tag = read.tag;
      out.status = fault_error(*fault, "read", read.path);
      out.started_ns = out.ended_ns = base::monotonic_clock().now_ns();
      failed_.push(std::move(out));
      return;
    }
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.push_back(std::make_unique<Slot>());
    }
    const size_t place = free_.back();
    free_.pop_back();
    Slot& slot = *slots_[place];
    slot.read = read;
    slot.fault = fault;
    Read inner = read;
    inner.tag = place;
    if (fault && fault->kind == FaultKind::kShort) {
      inner.length = fault->random % read.length;
      inner.to_end = false;
    }
    if (fault && fault->kind == FaultKind::kCorrupt && read.visitor != nullptr) {
      slot.corrupting.begin(read.visitor, victim(slot));
      inner.visitor = &slot.corrupting;
    }
    batch_.push_back(inner);
  }

  static uint64_t victim(const Slot& slot) {
    return slot.fault->random % std::max<uint64_t>(1, slot.read.length);
  }

  void finish(Completion& out) {
    const size_t place = out.tag;
    Slot& slot = *slots_[place];
    out.tag = slot.read.tag;
    free_.push_back(place);
    if (!slot.fault || !out.status.ok()) return;
    if (slot.fault->kind == FaultKind::kShort) {
      out.status = fail(ErrorCode::kCorruption,
                        "{}: short read of {} instead of {} bytes (injected at operation {})",
                        slot.read.path, out.bytes, slot.read.length, slot.fault->operation);
    }
    if (slot.fault->kind == FaultKind::kCorrupt && slot.read.destination != nullptr &&
        slot.read.length > 0) {
      slot.read.destination[victim(slot)] ^= std::byte{1};
    }
  }

  FaultDice& dice_;
  std::vector<std::unique_ptr<Slot>> slots_;  // visitors must not move
  std::vector<size_t> free_;
  std::vector<Read> batch_;
  Fifo<Completion> failed_;
  size_t inside_ = 0;
  std::unique_ptr<ReadQueue> inner_;  // last: its threads use the slots' visitors
};

}  // namespace

std::optional<Fault> FaultDice::roll() {
  const uint64_t operation = operations_.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t random = base::derive_seed(plan_.seed, operation, 0);
  const bool by_number =
      operation == plan_.fail_at || (plan_.every > 0 && operation % plan_.every == 0);
  const double draw =
      static_cast<double>(base::derive_seed(plan_.seed, operation, 1) >> 11) * 0x1p-53;
  if (!by_number && draw >= plan_.chance) return std::nullopt;
  faults_.fetch_add(1, std::memory_order_relaxed);
  constexpr int kKilled = 137;  // as shells say it
  if (plan_.kind == FaultKind::kKill) sys::exit_now(kKilled);
  return Fault{plan_.kind, operation, random};
}

Error fault_error(const Fault& fault, std::string_view doing, std::string_view path) {
  const auto error = [&](ErrorCode code, std::string_view cause) {
    return fail(code, "{}: {}: {} (injected at operation {})", path, doing, cause, fault.operation);
  };
  switch (fault.kind) {
    case FaultKind::kVanish:
      return error(ErrorCode::kNotFound, "No such file or directory");
    case FaultKind::kNoSpace:
      return error(ErrorCode::kResourceExhausted, "No space left on device");
    case FaultKind::kQuota:
      return error(ErrorCode::kResourceExhausted, "Disk quota exceeded");
    case FaultKind::kStale:
      return error(ErrorCode::kIo, "Stale file handle");
    default:
      return error(ErrorCode::kIo, "Input/output error");
  }
}

std::unique_ptr<ReadQueue> make_fault_queue(std::unique_ptr<ReadQueue> inner, FaultDice& dice,
                                            const QueueOptions& options) {
  return std::make_unique<FaultQueue>(std::move(inner), dice, options);
}

}  // namespace forebay::storage

// Decides which operations misbehave, and makes a queue's reads do so.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/faulty.h"
#include "storage/fifo.h"

namespace forebay::storage {

// One operation's misfortune.
struct Fault {
  FaultKind kind = FaultKind::kError;
  uint64_t operation = 0;
  uint64_t random = 0;  // where, and how much
};

// Safe from any thread.
class FaultDice {
 public:
  explicit FaultDice(const FaultPlan& plan) : plan_(plan) {}
  const FaultPlan& plan() const { return plan_; }
  // Counts one operation; nothing when it goes well.
  std::optional<Fault> roll();
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  uint64_t faults() const { return faults_.load(std::memory_order_relaxed); }

 private:
  const FaultPlan plan_;
  // Relaxed: counters that order nothing else.
  std::atomic<uint64_t> operations_ = 0;
  std::atomic<uint64_t> faults_ = 0;
};

// The error that the fault stands for; kinds that bring no error read as kIo.
Error fault_error(const Fault& fault, std::string_view doing, std::string_view path);

std::unique_ptr<ReadQueue> make_fault_queue(std::unique_ptr<ReadQueue> inner, FaultDice& dice,
                                            const QueueOptions& options);

}  // namespace forebay::storage

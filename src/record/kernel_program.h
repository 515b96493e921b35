// The kernel program io.bpf.c: loads it, attaches it, hands out its events and counts.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forebay/result.h"
#include "record/io_events.h"

namespace forebay::record {

// The program as compiled, or nothing when this build has none (no clang was there).
std::span<const std::byte> io_program_bytes();

class KernelProgram {
 public:
  // Fails with kUnsupported: no program in this build, no BTF, or the kernel's refusal. Nothing
  // runs before attach(). `ring_bytes_max` is halved until the kernel agrees.
  static Result<std::unique_ptr<KernelProgram>> load(const IoSettings& settings,
                                                     size_t ring_bytes_max);
  // Whether the caller may load such programs here, quickly.
  static Status try_load();

  ~KernelProgram();  // detaches
  KernelProgram(const KernelProgram&) = delete;
  KernelProgram& operator=(const KernelProgram&) = delete;

  Status attach();
  void detach();
  // Tracepoints that this kernel does not have, by program: "on_fault".
  const std::vector<std::string>& left_out() const;

  // From now on these processes with all their threads, and what they start, are followed.
  // `run_already`: what they wait for at this moment is told too, from now on.
  Status follow(std::span<const int> pids, bool run_already = false);
  // No more of them; their counts are lost.
  Status forget(std::span<const int> pids);
  // Puts what threads wait for into the ring, as events under way. Call when it is over (see
  // IoControl), before detach().
  Status tell_under_way();
  // Hands every event in the ring to `take`; it ends when the ring is empty.
  void consume(const std::function<void(std::span<const std::byte>)>& take);
  // Brings what the CPUs hold among what take_counts() and take_seen() hand out. Call after
  // detach(), or while no thread is followed.
  Status write_back_counts();
  // Brings what the CPUs hold into the map while programs run, for read_counts(). Where the kernel
  // refuses, or a CPU is busy counting, it comes later.
  void collect_counts();
  // What the map holds, each key once. It stays there: a count may be added to at this moment.
  std::vector<std::pair<uint64_t, IoCount>> read_counts() const;
  // Takes one out: of a thread that ended.
  IoCount take_count(uint64_t key);
  // Takes all counts out of the map: io_count_key and count. A key may come more than once. Call
  // when write_back_counts() may be called.
  std::vector<std::pair<uint64_t, IoCount>> take_counts();
  // Calls and other events since the last call, kept or counted.
  uint64_t take_seen();

  IoControl& control();  // in memory shared with the kernel
  // Calls that were not kept and found no room among the counts.
  uint64_t uncounted() const;
  uint64_t dropped() const;
  size_t ring_bytes() const;

 private:
  struct Impl;
  explicit KernelProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // hides libbpf
};

}  // namespace forebay::record

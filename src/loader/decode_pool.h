// Threads that turn fetched bytes into samples. Private to the loader.
//
// push() may be called from any thread. The pool must be destroyed before the Flow, the UnitCache
// and the BufferPool.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dataset/catalog.h"
#include "loader/fetch.h"
#include "loader/flow.h"
#include "loader/options.h"
#include "loader/unit.h"
#include "ops/decode.h"

namespace forebay::trace {
class Recorder;
}

namespace forebay::loader {

class DecodePool {
 public:
  // `done` gets each fetch back once all its targets are finished, on a decode thread.
  DecodePool(const dataset::Catalog& catalog, const EngineOptions& options, Flow& flow,
             UnitCache& units, BufferPool& buffers, trace::Recorder* recorder,
             std::function<void(std::unique_ptr<Fetch>)> done);
  ~DecodePool();

  // kResourceExhausted when the system has no threads left. Once.
  Status start();

  // Threads that decode from now on, of those that there are; the others wait.
  void set_active(int threads);

  void push(std::unique_ptr<Fetch> fetch);

  int64_t busy_ns() const { return busy_ns_.load(std::memory_order_relaxed); }
  int64_t idle_ns() const { return idle_ns_.load(std::memory_order_relaxed); }

 private:
  struct Worker;
  void run(int number, std::stop_token stop);
  std::unique_ptr<Fetch> pop(int number, const std::stop_token& stop);
  formats::Reader& reader_of(Worker& worker, uint32_t file);
  void decode(Worker& worker, Fetch& fetch, std::stop_token stop);
  void preprocess(const Target& target, const std::stop_token& stop) const;
  Result<LoadedSample> decode_target(Worker& worker, const Fetch& fetch, const Target& target);
  // Runs the ops over the worker's parts: the row of `target` becomes what comes of them. `read`
  // holds the parts of so many samples, or is null.
  Result<LoadedSample> run_ops(Worker& worker, std::string_view path, const Target& target,
                               uint32_t file, const BufferRef& read, size_t samples);
  Result<LoadedSample> load(Worker& worker, std::string_view path, const formats::Record& record,
                            const std::shared_ptr<const void>& owner);
  Result<LoadedSample> keep(Worker& worker, std::string_view path, const formats::Record& record,
                            const std::shared_ptr<const void>& owner);
  // The unit's bytes are there: decodes them once and publishes what came of it.
  void decode_unit(Worker& worker, Fetch& fetch);
  Result<std::shared_ptr<const formats::DecodedBlock>> decode_block(Worker& worker,
                                                                    const Fetch& fetch);
  // False when samples need more than their sizes.
  bool measure(Worker& worker, const Unit& unit, const formats::DecodedBlock& block,
               UnitContent& content);
  void serve(Worker& worker, Fetch& fetch, const std::stop_token& stop);
  void serve_target(Worker& worker, const Unit& unit, const Target& target);
  void share_out(Fetch& fetch);

  const dataset::Catalog& catalog_;
  const EngineOptions& options_;
  Flow& flow_;
  UnitCache& units_;
  BufferPool& buffers_;
  trace::Recorder* const recorder_;
  const std::function<void(std::unique_ptr<Fetch>)> done_;
  base::Mutex mutex_;
  base::CondVar not_empty_, activated_;
  int active_ FB_GUARDED_BY(mutex_) = 0;
  std::deque<std::unique_ptr<Fetch>> queue_ FB_GUARDED_BY(mutex_);
  // Relaxed: figures only.
  std::atomic<int64_t> busy_ns_{0}, idle_ns_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace forebay::loader

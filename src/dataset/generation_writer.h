// Writers that a generator puts between a format and the store.
//
// One thread at a time per writer; `Progress` counters are shared by all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>

#include "forebay/result.h"
#include "storage/store.h"

namespace forebay::dataset {

// Passes bytes on, counts them, and ends with kCancelled once a stop is asked for. Long files are
// made durable piece by piece, so that a stop never waits for more than `sync_bytes` of them to
// reach the disk, and the disk starts to work before the file is complete.
class GenerationWriter : public storage::Writer {
 public:
  // sync_bytes 0: never syncs by itself. `inner` and `bytes_written` must outlive it.
  GenerationWriter(storage::Writer& inner, std::atomic<uint64_t>& bytes_written,
                   uint64_t sync_bytes, std::stop_token stop);

  Status append(std::span<const std::byte> bytes) override;
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override;
  Status sync() override;
  Status publish() override;

  uint64_t bytes() const { return bytes_; }

 private:
  storage::Writer& inner_;
  std::atomic<uint64_t>& bytes_written_;
  const uint64_t sync_bytes_;
  const std::stop_token stop_;
  uint64_t bytes_ = 0, bytes_unsynced_ = 0;
};

// Counts what a format writes and keeps nothing.
class CountingWriter : public storage::Writer {
 public:
  Status append(std::span<const std::byte> bytes) override;
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override;
  Status sync() override { return {}; }
  Status publish() override { return {}; }

  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

}  // namespace forebay::dataset

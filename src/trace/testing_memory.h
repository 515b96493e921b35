// For tests: a trace file in memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "trace/reader.h"
#include "trace/recording.h"
#include "trace/writer.h"

namespace forebay::trace {

struct MemoryFile {
  std::vector<std::byte> bytes;

  ByteSink sink() {
    return [this](std::span<const std::byte> piece) -> Status {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return {};
    };
  }

  std::unique_ptr<TraceWriter> writer(WriterOptions options = {}) {
    return std::make_unique<TraceWriter>(sink(), options);
  }

  std::unique_ptr<TraceReader> reader() const {
    auto opened = TraceReader::open(
        [this](std::span<std::byte> out, uint64_t offset) -> int64_t {
          if (offset >= bytes.size()) return 0;
          const size_t size = std::min(out.size(), bytes.size() - static_cast<size_t>(offset));
          std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, out.begin());
          return static_cast<int64_t>(size);
        },
        "memory");
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return opened.ok() ? std::move(opened).take() : nullptr;
  }

  Recording load() const {
    std::vector<std::unique_ptr<TraceReader>> readers;
    readers.push_back(reader());
    auto read = Recording::read(std::move(readers), {"memory"});
    EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
    return std::move(read).take();
  }
};

}  // namespace forebay::trace

// What the tests of stores share: folders that clean up, text as bytes, visitors.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/test_folder.h"
#include "storage/store.h"

namespace forebay::storage {

using base::TestFolder;

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

inline std::string random_text(size_t size, uint64_t seed = 1) {
  std::string text(size, '\0');
  base::Random(seed).fill(writable(text));
  return text;
}

inline std::unique_ptr<Store> open_for_test(const std::string& spec, const std::string& root) {
  auto store = open_store(spec, root);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return std::move(store).take();
}

inline void put(Store& store, const std::string& path, std::string_view text) {
  const Status written = write_file(store, path, bytes_of(text));
  ASSERT_TRUE(written.ok()) << written.error().message;
}

inline std::string get(Store& store, const std::string& path) {
  const auto bytes = read_file(store, path);
  if (!bytes.ok()) return "error: " + bytes.error().message;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

inline std::vector<std::string> paths_of(const Listing& listing) {
  std::vector<std::string> out;
  for (const FileInfo& file : listing.files) out.push_back(file.path);
  return out;
}

inline Completion read_one(ReadQueue& queue, const Read& read) {
  queue.submit({&read, 1});
  Completion done;
  while (queue.reap({&done, 1}, {}) == 0) {
  }
  return done;
}

class CollectingVisitor final : public PieceVisitor {
 public:
  void visit(std::span<const std::byte> piece) override {
    text_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Holds the reading thread up until it is opened.
class BlockingVisitor final : public PieceVisitor {
 public:
  void visit(std::span<const std::byte> /*piece*/) override {
    entered_.count_down();
    opened_.wait();
  }
  void wait_until_entered() { entered_.wait(); }
  void open() { opened_.count_down(); }

 private:
  std::latch entered_{1};
  std::latch opened_{1};
};

}  // namespace forebay::storage

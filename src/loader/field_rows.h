// The fields of one batch: an array per stacked field, a row for each slot, written in place; and
// the values of the others, one by one. Private to the loader.
//
// place() and put() may be called from any thread, for one row by one thread; the rest by whoever
// owns the batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "loader/buffer_pool.h"
#include "loader/schema.h"
#include "ops/pipeline.h"

namespace forebay::loader {

// A value that is not stacked.
struct FieldValue {
  std::span<const uint64_t> shape{};  // in the batch's memory, as are the bytes
  std::span<const std::byte> bytes{};
};

// Memory for many small things and a few large ones, given back together.
class FieldMemory {
 public:
  // `taken_bytes` counts what has been taken and not released, over all that share it.
  FieldMemory(BufferPool& buffers, std::atomic<uint64_t>& taken_bytes)
      : buffers_(buffers), all_taken_bytes_(taken_bytes) {}
  ~FieldMemory() { forget(); }
  FieldMemory(const FieldMemory&) = delete;
  FieldMemory& operator=(const FieldMemory&) = delete;
  std::span<std::byte> take(size_t bytes);  // 64-byte aligned; any thread
  void hold(const BufferRef& buffer);       // as if it had been taken; any thread
  // What was taken lives as long as the result; the next take() begins anew.
  std::shared_ptr<const void> release();
  // It is the batch's no more.
  void forget();

 private:
  void count(uint64_t bytes) FB_REQUIRES(mutex_);

  BufferPool& buffers_;
  std::atomic<uint64_t>& all_taken_bytes_;  // relaxed: a bound that is a little late still holds
  base::Mutex mutex_;
  std::vector<BufferRef> chunks_ FB_GUARDED_BY(mutex_);
  size_t used_ FB_GUARDED_BY(mutex_) = 0;  // of open_
  uint64_t taken_bytes_ FB_GUARDED_BY(mutex_) = 0;
  BufferRef open_ FB_GUARDED_BY(mutex_);  // has room left
};

class FieldRows {
 public:
  // `value_bytes` counts the values of all batches that are not stacked.
  FieldRows(const Schema& schema, BufferPool& buffers, std::atomic<uint64_t>& value_bytes);

  // Empty again, for `rows` samples. Memory is taken when the first of them is written, and given
  // back here or by the last who holds an owner().
  void reset(uint64_t rows);

  // Where the row of a stacked field, or the value of an array that is not stacked, may be written
  // to. Empty when the shape is not the schema's.
  std::span<std::byte> place(uint64_t row, std::string_view field, formats::ElementType type,
                             std::span<const uint64_t> shape);
  // The sample's fields; those that do not lie in place are copied there, unless they are strings
  // of bytes that `read` holds, which the rows then keep. `samples`: how many share it. Returns
  // their bytes. kUnsupported when they are not the schema's.
  Result<uint64_t> put(uint64_t row, std::string_view path, std::span<const ops::Field> fields,
                       const BufferRef& read = nullptr, size_t samples = 1);

  // The bytes of a stacked row, for its array as the schema has it.
  std::span<std::byte> row(size_t field, uint64_t row);
  // The value of a text field.
  void put_text(uint64_t row, size_t field, std::string_view text);

  // Makes rows [0, good.size()) of the rows `good` (ascending); then, up to `copies_to`, copies of
  // those in turn; then, up to `zeros_to`, rows of zeros.
  void settle(std::span<const uint32_t> good, uint64_t copies_to, uint64_t zeros_to);

  uint64_t rows() const { return rows_; }  // after settle()
  const Schema& schema() const { return schema_; }
  std::span<std::byte> stacked(size_t field) const;  // all rows
  std::span<const FieldValue> values(size_t field) const;
  std::shared_ptr<const void> owner(size_t field) const;

 private:
  std::byte* row_data(size_t field, uint64_t row) const;
  void take_arenas();
  // Memory for a value, which knows it from now on.
  std::span<std::byte> take_value(size_t field, uint64_t row, std::span<const uint64_t> shape,
                                  size_t bytes);
  // Whether the bytes can stay where they were read to.
  bool keep_value(size_t field, uint64_t row, std::span<const std::byte> bytes,
                  const BufferRef& read, size_t samples);
  void copy_row(uint64_t from, uint64_t to);
  void clear_row(uint64_t row);

  const Schema& schema_;
  BufferPool& buffers_;
  uint64_t capacity_ = 0, rows_ = 0;
  // Acquire and release: whoever sees it set sees arenas_.
  std::atomic<bool> has_arenas_{false};
  base::Mutex mutex_;                            // for taking arenas_
  std::vector<BufferRef> arenas_;                // by field; null where not stacked
  std::vector<std::vector<FieldValue>> values_;  // by field and row; empty where stacked
  FieldMemory memory_;
  std::shared_ptr<const void> values_owner_;
};

// Gives a runner the places of one row.
class RowDestination final : public ops::Destination {
 public:
  RowDestination(FieldRows& rows, uint64_t row) : rows_(rows), row_(row) {}
  std::span<std::byte> place(std::string_view field, formats::ElementType type,
                             std::span<const uint64_t> shape) override {
    return rows_.place(row_, field, type, shape);
  }

 private:
  FieldRows& rows_;
  const uint64_t row_;
};

}  // namespace forebay::loader

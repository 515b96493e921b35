// Memory for Arrow with a ceiling, so that a hostile page header cannot claim what it likes.
//
// One thread at a time. Only sources that have Arrow's headers include this.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <algorithm>
#include <string>

namespace forebay::formats {

class ParquetPool : public arrow::MemoryPool {
 public:
  explicit ParquetPool(int64_t bytes_max) : bytes_max_(bytes_max) {}

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check(size));
    ARROW_RETURN_NOT_OK(system_->Allocate(size, alignment, out));
    add(size);
    return arrow::Status::OK();
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override {
    ARROW_RETURN_NOT_OK(check(new_size - old_size));
    ARROW_RETURN_NOT_OK(system_->Reallocate(old_size, new_size, alignment, ptr));
    add(new_size - old_size);
    return arrow::Status::OK();
  }
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    system_->Free(buffer, size, alignment);
    bytes_ -= size;
  }
  int64_t bytes_allocated() const override { return bytes_; }
  int64_t max_memory() const override { return bytes_highest_; }
  int64_t total_bytes_allocated() const override { return bytes_total_; }
  int64_t num_allocations() const override { return count_; }
  std::string backend_name() const override { return system_->backend_name(); }

 private:
  arrow::Status check(int64_t more) const {
    if (more <= bytes_max_ - bytes_) return arrow::Status::OK();
    return arrow::Status::OutOfMemory("its pages want ", bytes_ + more,
                                      " bytes of memory, at most ", bytes_max_, " are granted");
  }
  void add(int64_t bytes) {
    bytes_ += bytes;
    bytes_total_ += std::max<int64_t>(bytes, 0);
    bytes_highest_ = std::max(bytes_highest_, bytes_);
    ++count_;
  }

  arrow::MemoryPool* system_ = arrow::system_memory_pool();
  int64_t bytes_max_, bytes_ = 0, bytes_highest_ = 0, bytes_total_ = 0, count_ = 0;
};

}  // namespace forebay::formats

#include "loader/field_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace forebay::loader {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kSmallBytes = 16 << 10;  // larger values get memory of their own

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::span<std::byte> FieldMemory::take(size_t bytes) {
  const base::MutexLock lock(mutex_);
  if (bytes > kSmallBytes) {
    chunks_.push_back(buffers_.acquire(bytes));
    count(chunks_.back()->capacity);
    return chunks_.back()->span();
  }
  if (!open_ || used_ + bytes > open_->size) {
    open_ = buffers_.acquire(kChunkBytes);
    count(open_->capacity);
    chunks_.push_back(open_);
    used_ = 0;
  }
  const std::span<std::byte> taken = open_->span().subspan(used_, bytes);
  used_ += aligned(bytes);
  return taken;
}

void FieldMemory::hold(const BufferRef& buffer) {
  const base::MutexLock lock(mutex_);
  // Samples of one read come soon after each other; counting it twice would do no harm.
  constexpr ptrdiff_t kLast = 32;
  const auto from = chunks_.size() > kLast ? chunks_.end() - kLast : chunks_.begin();
  if (std::find(from, chunks_.end(), buffer) != chunks_.end()) return;
  chunks_.push_back(buffer);
  count(buffer->capacity);
}

std::shared_ptr<const void> FieldMemory::release() {
  const base::MutexLock lock(mutex_);
  open_.reset();
  return std::make_shared<const std::vector<BufferRef>>(std::exchange(chunks_, {}));
}

void FieldMemory::count(uint64_t bytes) {
  taken_bytes_ += bytes;
  all_taken_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void FieldMemory::forget() {
  const base::MutexLock lock(mutex_);
  all_taken_bytes_.fetch_sub(std::exchange(taken_bytes_, 0), std::memory_order_relaxed);
}

FieldRows::FieldRows(const Schema& schema, BufferPool& buffers, std::atomic<uint64_t>& value_bytes)
    : schema_(schema),
      buffers_(buffers),
      arenas_(schema.fields().size()),
      values_(schema.fields().size()),
      memory_(buffers, value_bytes) {}

void FieldRows::reset(uint64_t rows) {
  capacity_ = rows_ = rows;
  has_arenas_.store(false, std::memory_order_release);
  for (size_t i = 0; i < arenas_.size(); ++i) {
    arenas_[i].reset();
    values_[i].clear();
    if (!schema_.fields()[i].is_stacked) values_[i].resize(rows);
  }
  memory_.release();
  memory_.forget();
  values_owner_.reset();
}

void FieldRows::take_arenas() {
  if (has_arenas_.load(std::memory_order_acquire)) return;
  const base::MutexLock lock(mutex_);
  if (has_arenas_.load(std::memory_order_relaxed)) return;
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    if (spec.is_stacked) arenas_[i] = buffers_.acquire(spec.bytes * capacity_);
  }
  has_arenas_.store(true, std::memory_order_release);
}

std::byte* FieldRows::row_data(size_t field, uint64_t row) const {
  return arenas_[field]->data + row * schema_.fields()[field].bytes;
}

std::span<std::byte> FieldRows::place(uint64_t row, std::string_view field,
                                      formats::ElementType type, std::span<const uint64_t> shape) {
  const size_t at = schema_.find(field);
  if (at == schema_.fields().size()) return {};
  const FieldSpec& spec = schema_.fields()[at];
  if (spec.kind != ops::FieldKind::kArray || spec.type != type) return {};
  if (spec.is_stacked) {
    if (!std::equal(shape.begin(), shape.end(), spec.shape.begin(), spec.shape.end())) return {};
    take_arenas();
    return {row_data(at, row), spec.bytes};
  }
  const Result<uint64_t> bytes =
      formats::array_bytes({.type = type, .shape = {shape.begin(), shape.end()}});
  if (!bytes.ok()) return {};
  return take_value(at, row, shape, *bytes);
}

std::span<std::byte> FieldRows::row(size_t field, uint64_t row) {
  take_arenas();
  return {row_data(field, row), schema_.fields()[field].bytes};
}

std::span<std::byte> FieldRows::take_value(size_t field, uint64_t row,
                                           std::span<const uint64_t> shape, size_t bytes) {
  // The shape lies in front of the bytes; arrays begin aligned.
  const size_t front = schema_.fields()[field].kind == ops::FieldKind::kArray
                           ? aligned(shape.size_bytes())
                           : shape.size_bytes();
  const std::span<std::byte> taken = memory_.take(front + bytes);
  auto* const sides = reinterpret_cast<uint64_t*>(taken.data());
  std::copy(shape.begin(), shape.end(), sides);
  values_[field][row] = {{sides, shape.size()}, taken.subspan(front, bytes)};
  return taken.subspan(front, bytes);
}

void FieldRows::put_text(uint64_t row, size_t field, std::string_view text) {
  const uint64_t size = text.size();
  std::memcpy(take_value(field, row, {&size, 1}, size).data(), text.data(), size);
}

bool FieldRows::keep_value(size_t field, uint64_t row, std::span<const std::byte> bytes,
                           const BufferRef& read, size_t samples) {
  if (read == nullptr || schema_.fields()[field].kind != ops::FieldKind::kBytes) return false;
  if (bytes.size() <= kSmallBytes || !read->holds(bytes)) return false;
  // A buffer that is mostly something else would hold too much.
  if (bytes.size() * samples < read->capacity / 2) return false;
  memory_.hold(read);
  const uint64_t size = bytes.size();
  const std::span<std::byte> shape = memory_.take(sizeof size);
  std::memcpy(shape.data(), &size, sizeof size);
  values_[field][row] = {{reinterpret_cast<const uint64_t*>(shape.data()), 1}, bytes};
  return true;
}

Result<uint64_t> FieldRows::put(uint64_t row, std::string_view path,
                                std::span<const ops::Field> fields, const BufferRef& read,
                                size_t samples) {
  const std::span<const FieldSpec> specs = schema_.fields();
  take_arenas();
  uint64_t bytes = 0, found = 0;
  for (const ops::Field& field : fields) {
    const size_t at = schema_.find(field.name);
    if (at == specs.size())
      return fail(ErrorCode::kUnsupported,
                  "{}: has a field '{}', which {} has not: name the parts to read", path,
                  field.name, schema_.path());
    const FieldSpec& spec = specs[at];
    FB_TRY(schema_.check(spec, path, field));
    if (spec.is_stacked && field.bytes.size() != spec.bytes)
      return fail(ErrorCode::kCorruption, "{}: field '{}' has {} bytes, not {}", path, field.name,
                  field.bytes.size(), spec.bytes);
    bytes += field.bytes.size();
    ++found;
    std::byte* to = nullptr;
    if (spec.is_stacked) {
      to = row_data(at, row);
    } else {
      const FieldValue& value = values_[at][row];
      const bool is_in_place =
          value.bytes.data() == field.bytes.data() && value.bytes.size() == field.bytes.size();
      if (is_in_place || keep_value(at, row, field.bytes, read, samples)) continue;
      to = take_value(at, row, field.shape, field.bytes.size()).data();
    }
    if (to != field.bytes.data() && !field.bytes.empty())
      std::memcpy(to, field.bytes.data(), field.bytes.size());
  }
  if (found == specs.size()) return bytes;
  for (const FieldSpec& spec : specs) {
    const bool is_there = std::any_of(fields.begin(), fields.end(), [&](const ops::Field& field) {
      return field.name == spec.name;
    });
    if (!is_there)
      return fail(ErrorCode::kUnsupported,
                  "{}: has no field '{}', which {} has: name the parts to read", path, spec.name,
                  schema_.path());
  }
  return fail(ErrorCode::kUnsupported, "{}: two fields have one name", path);
}

void FieldRows::copy_row(uint64_t from, uint64_t to) {
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    if (!spec.is_stacked) {
      values_[i][to] = values_[i][from];
    } else if (spec.bytes > 0) {
      std::memcpy(row_data(i, to), row_data(i, from), spec.bytes);
    }
  }
}

void FieldRows::clear_row(uint64_t row) {
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const FieldSpec& spec = schema_.fields()[i];
    if (!spec.is_stacked) {
      const bool is_array = spec.kind == ops::FieldKind::kArray;
      const std::vector<uint64_t> zeros(is_array ? spec.shape.size() : 1);
      take_value(i, row, zeros, 0);
    } else if (spec.bytes > 0) {
      std::memset(row_data(i, row), 0, spec.bytes);
    }
  }
}

void FieldRows::settle(std::span<const uint32_t> good, uint64_t copies_to, uint64_t zeros_to) {
  take_arenas();
  uint64_t row = 0;
  for (const uint32_t from : good) {
    if (from != row) copy_row(from, row);
    ++row;
  }
  for (; row < copies_to; ++row) copy_row(row - good.size(), row);
  for (; row < zeros_to; ++row) clear_row(row);
  rows_ = row;
  for (std::vector<FieldValue>& values : values_)
    if (values.size() > rows_) values.resize(rows_);
  values_owner_ = memory_.release();
}

std::span<std::byte> FieldRows::stacked(size_t field) const {
  return {arenas_[field]->data, schema_.fields()[field].bytes * rows_};
}

std::span<const FieldValue> FieldRows::values(size_t field) const {
  return values_[field];
}

std::shared_ptr<const void> FieldRows::owner(size_t field) const {
  if (schema_.fields()[field].is_stacked) return arenas_[field];
  return values_owner_;
}

}  // namespace forebay::loader

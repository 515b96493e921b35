// One op of a pipeline at work, and what it works on: the fields of a sample as they come to be.
//
// A Step is immutable and may be used from any thread. A SampleState belongs to one run of one
// runner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "forebay/result.h"
#include "ops/arguments.h"
#include "ops/image.h"
#include "ops/pipeline.h"

namespace forebay::ops {

// A field on its way: a part as it was read, an array, text, or an image.
struct Value {
  enum class Kind { kPart, kArray, kText, kImage };
  std::string_view name;
  Kind kind = Kind::kPart;
  formats::Record record{};                               // kPart
  formats::ElementType type = formats::ElementType::kU8;  // kArray
  std::vector<uint64_t> shape{};                          // kArray
  std::span<const std::byte> bytes{};                     // kArray, kText
  Image image{};                                          // kImage
};

class SampleState {
 public:
  SampleState(Workspace& workspace, const SampleKey& key, std::span<const formats::Part> parts);

  Workspace& workspace() { return workspace_; }
  std::vector<Value>& values() { return values_; }
  // The op being run: what its random numbers depend on beside the sample.
  void enter(size_t place) { place_ = place; }
  base::Random random() const;

  Value* find(std::string_view name);
  Result<Value*> get(std::string_view name);    // kNotFound names those there are
  Result<Image*> image(std::string_view name);  // makes one of an array of two or three dimensions
  Result<Value*> array(std::string_view name);  // C order, native byte order
  // Bytes of a part or text.
  Result<std::span<const std::byte>> content(std::string_view name);

  // An array with memory of its own.
  struct NewArray {
    formats::ElementType type;
    std::vector<uint64_t> shape;
  };
  static void set_array(Value& value, const NewArray& array, std::span<const std::byte> bytes);
  Result<std::span<std::byte>> take(const NewArray& array);
  // At the end of the list; kInvalidArgument when there is one of that name.
  Result<Value*> add(std::string_view name);

 private:
  Workspace& workspace_;
  SampleKey key_;
  size_t place_ = 0;
  std::vector<Value> values_;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual Status run(SampleState& state) const = 0;
  // Of what the last op has left.
  virtual Status check_end(SampleState& /*state*/) const { return {}; }
  virtual void note_ragged(std::set<std::string, std::less<>>& /*fields*/) const {}
  virtual bool is_last_for_pixels() const { return false; }  // no colours to change after it
  virtual bool needs_pixels() const { return false; }
};

template <class T, class... Parameters>
std::unique_ptr<Step> make_step(Parameters&&... parameters) {
  return std::make_unique<T>(std::forward<Parameters>(parameters)...);
}

// An op: its row of the table and how it is made.
struct OpKind {
  OpInfo info;
  Result<std::unique_ptr<Step>> (*make)(const Arguments& arguments, const DecodeOptions& decode);
};
std::span<const OpKind* const> builtin_ops();
const OpKind* find_op(std::string_view name);

// Elements of a shape; the largest number when there are more.
uint64_t element_count(std::span<const uint64_t> shape);

}  // namespace forebay::ops

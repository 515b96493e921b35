// The ops of a data set, applied to one sample at a time: named parts in, named fields out.
//
//   parts of a sample (jpg, cls, json) --> Runner::run: op, op, op --> fields (image, label,
//   caption)
//
// A Pipeline is immutable and may be used from any thread. A Runner belongs to one thread at a
// time; it keeps codec handles and scratch between samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/op.h"
#include "forebay/result.h"
#include "formats/format.h"
#include "ops/decode.h"

namespace forebay::ops {

enum class FieldKind {
  kArray,  // type and shape
  kBytes,  // undecoded bytes; shape holds their number
  kText,   // UTF-8
};

// One field of one sample.
struct Field {
  std::string_view name;  // lives as long as the runner's pipeline or the parts
  FieldKind kind = FieldKind::kArray;
  formats::ElementType type = formats::ElementType::kU8;
  // Of this sample. Images: height, width, channels; channels first after normalize, unless its
  // `layout` or a later layout op says otherwise.
  std::vector<uint64_t> shape{};
  std::span<const std::byte> bytes{};  // C order; valid until the runner's next run()
};

// What a sample's randomness depends on: nothing else.
struct SampleKey {
  uint64_t seed = 0, epoch = 0, sample = 0;
};

// Where arrays may be written to at once, so that they need no copy into their batch.
class Destination {
 public:
  virtual ~Destination() = default;
  // Memory for the array `field` of this sample, of just its size; empty when there is none
  // (another shape than the batch has, a field that stays by itself): the runner then uses its own.
  virtual std::span<std::byte> place(std::string_view field, formats::ElementType type,
                                     std::span<const uint64_t> shape) = 0;
};

// An argument of an op, as docs/ops.md and error messages show it.
struct OpArgument {
  std::string_view name;
  std::string_view type;      // "int", "number", "text", "flag", "numbers", "texts"
  std::string_view fallback;  // value when not given; "" = must be given, "''" = empty
  std::string_view help;      // with unit and range
};

struct OpInfo {
  std::string_view name;
  std::string_view summary;
  std::span<const OpArgument> arguments;
  bool is_random = false;
};
std::span<const OpInfo> op_table();
std::string ops_markdown();  // docs/ops.md

class Runner {
 public:
  virtual ~Runner() = default;
  // Fills `out` with the fields of one sample, in the order in which they came to be; parts that no
  // op took are handed on. Errors name `path`, the op and the cause.
  virtual Status run(const SampleKey& key, std::string_view path,
                     std::span<const formats::Part> parts, Destination& to,
                     std::vector<Field>& out) = 0;
  // What the last run gave is no longer looked at: memory that others may wait for is given back.
  virtual void rest() = 0;
};

class Pipeline {
 public:
  // kInvalidArgument for an unknown op or argument (naming the nearest), a missing or wrong value,
  // or an op that cannot follow the one before it.
  static Result<Pipeline> make(std::span<const Op> ops, const DecodeOptions& decode = {});
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();

  std::unique_ptr<Runner> make_runner() const;
  // Fields that may differ in shape from sample to sample (op "ragged") and so are never stacked.
  bool is_ragged(std::string_view field) const;
  // Changes when the ops or their arguments do: part of what a resumed run must have in common.
  uint64_t fingerprint() const;

 private:
  class Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::ops

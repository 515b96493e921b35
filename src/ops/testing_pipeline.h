// For tests: runs ops on parts and copies what comes out.
//
// One thread at a time.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/pipeline.h"
#include "ops/resample.h"

namespace forebay::ops {

struct TestField {
  std::string name;
  FieldKind kind = FieldKind::kArray;
  formats::ElementType type = formats::ElementType::kU8;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
  bool operator==(const TestField&) const = default;
};

// Has room for arrays, or not.
class TestDestination : public Destination {
 public:
  explicit TestDestination(bool has_room) : has_room_(has_room) {}
  std::span<std::byte> place(std::string_view /*field*/, formats::ElementType type,
                             std::span<const uint64_t> shape) override {
    if (!has_room_) return {};
    uint64_t bytes = formats::element_bytes(type);
    for (const uint64_t n : shape) bytes *= n;
    return memory_.emplace_back(bytes);
  }

 private:
  bool has_room_;
  std::vector<std::vector<std::byte>> memory_;
};

inline formats::Part array_part(std::string_view name, std::vector<uint64_t> shape,
                                std::span<const std::byte> bytes,
                                formats::ElementType type = formats::ElementType::kU8) {
  return {name,
          {.encoding = formats::Encoding::kArray,
           .bytes = bytes,
           .array = {.type = type, .shape = std::move(shape)}}};
}

inline formats::Part raw_part(std::string_view name, std::span<const std::byte> bytes,
                              formats::Encoding encoding = formats::Encoding::kRaw) {
  return {name, {.encoding = encoding, .bytes = bytes}};
}

inline Result<std::vector<TestField>> try_ops(std::span<const Op> ops,
                                              const std::vector<formats::Part>& parts,
                                              const SampleKey& key = {}, bool has_room = true) {
  const Pipeline pipeline = FB_TRY(Pipeline::make(ops));
  const auto runner = pipeline.make_runner();
  TestDestination destination(has_room);
  std::vector<Field> fields;
  FB_TRY(runner->run(key, "f", parts, destination, fields));
  std::vector<TestField> copies;
  for (const Field& field : fields)
    copies.push_back({std::string(field.name),
                      field.kind,
                      field.type,
                      field.shape,
                      {field.bytes.begin(), field.bytes.end()}});
  return copies;
}

inline std::vector<TestField> run_ops(const std::vector<Op>& ops,
                                      const std::vector<formats::Part>& parts,
                                      const SampleKey& key = {}, bool has_room = true) {
  auto fields = try_ops(ops, parts, key, has_room);
  EXPECT_TRUE(fields.ok()) << fields.error().message;
  return fields.ok() ? std::move(*fields) : std::vector<TestField>{};
}

inline std::string error_of(const std::vector<Op>& ops, const std::vector<formats::Part>& parts) {
  const auto fields = try_ops(ops, parts);
  return fields.ok() ? std::string() : fields.error().message;
}

}  // namespace forebay::ops

// What is done to each sample between its file and its batch. An Op is a value: a name from the
// table in docs/ops.md and its arguments.
//
//   options.ops = {{"decode_image", {}},
//                  {"random_resized_crop", {{"size", 224}}},
//                  {"flip", {}},
//                  {"normalize", {{"mean", std::vector{0.485, 0.456, 0.406}},
//                                 {"std", std::vector{0.229, 0.224, 0.225}}}}};
//
// Random ops depend on (seed, epoch, sample) only. Loader::open refuses unknown names and
// arguments.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace forebay {

// Tagged so that {"size", 224} and {"field", "image"} need no casts at the caller's.
class OpValue {
 public:
  using Variant = std::variant<bool, int64_t, double, std::string, std::vector<double>,
                               std::vector<std::string>>;
  // NOLINTBEGIN(google-explicit-constructor): arguments should read as the values they are.
  OpValue(bool value) : value_(value) {}
  OpValue(int value) : value_(int64_t{value}) {}
  OpValue(int64_t value) : value_(value) {}
  OpValue(double value) : value_(value) {}
  OpValue(const char* value) : value_(std::string(value)) {}
  OpValue(std::string value) : value_(std::move(value)) {}
  OpValue(std::vector<double> value) : value_(std::move(value)) {}
  OpValue(std::vector<std::string> value) : value_(std::move(value)) {}
  // NOLINTEND(google-explicit-constructor)
  const Variant& get() const { return value_; }
  bool operator==(const OpValue&) const = default;

 private:
  Variant value_;
};

struct Op {
  std::string name;
  std::vector<std::pair<std::string, OpValue>> arguments{};
  bool operator==(const Op&) const = default;
};

}  // namespace forebay

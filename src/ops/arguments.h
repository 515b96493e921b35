// The arguments of one op, checked against its row of the table: every one has a value of its type.
//
// A value; immutable after make().
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/op.h"
#include "forebay/result.h"
#include "ops/pipeline.h"

namespace forebay::ops {

class Arguments {
 public:
  // kInvalidArgument for unknown names, missing values and wrong types.
  static Result<Arguments> make(const OpInfo& info, const Op& op);

  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  std::string canonical() const;  // the same for the same values, given or not

 private:
  std::map<std::string, OpValue, std::less<>> values_;
};

}  // namespace forebay::ops

#include "ops/arguments.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace forebay::ops {
namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

std::optional<double> number_of(const OpValue::Variant& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

// `value` as the type that the table names, or nothing.
std::optional<OpValue> as_type(std::string_view type, const OpValue::Variant& value) {
  const auto number = number_of(value);
  if (type == "int") {
    if (!number || *number != std::floor(*number) || std::abs(*number) > 0x1p53) return {};
    return OpValue(static_cast<int64_t>(*number));
  }
  if (type == "number") {
    if (!number || !std::isfinite(*number)) return {};
    return OpValue(*number);
  }
  if (type == "flag") {
    if (const auto* flag = std::get_if<bool>(&value)) return OpValue(*flag);
    return {};
  }
  if (type == "text") {
    if (const auto* text = std::get_if<std::string>(&value)) return OpValue(*text);
    return {};
  }
  if (type == "numbers") {
    if (number)
      return std::isfinite(*number) ? std::optional(OpValue(Numbers{*number})) : std::nullopt;
    if (const auto* numbers = std::get_if<Numbers>(&value)) {
      for (const double n : *numbers)
        if (!std::isfinite(n)) return {};
      return OpValue(*numbers);
    }
    return {};
  }
  if (const auto* text = std::get_if<std::string>(&value)) return OpValue(Texts{*text});
  if (const auto* texts = std::get_if<Texts>(&value)) return OpValue(*texts);
  // An empty list has no type of its own.
  if (const auto* none = std::get_if<Numbers>(&value); none != nullptr && none->empty())
    return OpValue(Texts{});
  return {};
}

OpValue parse_fallback(const OpArgument& argument) {
  const std::string text(argument.fallback == "''" ? "" : argument.fallback);
  if (argument.type == "int") return OpValue(static_cast<int64_t>(std::atoll(text.c_str())));
  if (argument.type == "number") return OpValue(std::atof(text.c_str()));
  if (argument.type == "flag") return OpValue(text == "true");
  if (argument.type == "text") return OpValue(text);
  Texts words;
  if (!text.empty())
    for (const std::string_view word : base::split(text, ',')) words.emplace_back(base::trim(word));
  if (argument.type == "texts") return OpValue(words);
  Numbers numbers;
  for (const std::string& word : words) numbers.push_back(std::atof(word.c_str()));
  return OpValue(numbers);
}

template <class T>
const T& get(const std::map<std::string, OpValue, std::less<>>& values, std::string_view name) {
  const auto found = values.find(name);
  FB_CHECK(found != values.end());
  const T* value = std::get_if<T>(&found->second.get());
  FB_CHECK(value != nullptr);
  return *value;
}

std::string text_of(const OpValue& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const {
      return fmt::format("{}:{}", text.size(), text);
    }
    std::string operator()(const Numbers& numbers) const {
      return fmt::format("[{}]", fmt::join(numbers, ","));
    }
    std::string operator()(const Texts& texts) const {
      std::string all = "[";
      for (const std::string& text : texts) all += (*this)(text);
      return all + "]";
    }
  };
  return std::visit(Writer{}, value.get());
}

}  // namespace

Result<Arguments> Arguments::make(const OpInfo& info, const Op& op) {
  Arguments result;
  for (const auto& [name, value] : op.arguments) {
    const OpArgument* known = nullptr;
    std::vector<std::string_view> names;
    for (const OpArgument& argument : info.arguments) {
      names.push_back(argument.name);
      if (argument.name == name) known = &argument;
    }
    if (known == nullptr)
      return fail(ErrorCode::kInvalidArgument, "{}",
                  base::unknown_name_message("argument", name, names));
    const auto typed = as_type(known->type, value.get());
    if (!typed)
      return fail(ErrorCode::kInvalidArgument, "argument {} is not of type {}: {}", name,
                  known->type, known->help);
    const auto* texts = std::get_if<Texts>(&typed->get());
    if (texts != nullptr && texts->empty() && known->fallback != "''")
      return fail(ErrorCode::kInvalidArgument, "argument {} names nothing: {}", name, known->help);
    if (!result.values_.emplace(name, *typed).second)
      return fail(ErrorCode::kInvalidArgument, "argument {} is given twice", name);
  }
  for (const OpArgument& argument : info.arguments) {
    if (result.values_.contains(argument.name)) continue;
    if (argument.fallback.empty())
      return fail(ErrorCode::kInvalidArgument, "argument {} is missing: {}", argument.name,
                  argument.help);
    result.values_.emplace(std::string(argument.name), parse_fallback(argument));
  }
  return result;
}

int64_t Arguments::integer(std::string_view name) const {
  return get<int64_t>(values_, name);
}
double Arguments::number(std::string_view name) const {
  return get<double>(values_, name);
}
bool Arguments::flag(std::string_view name) const {
  return get<bool>(values_, name);
}
const std::string& Arguments::text(std::string_view name) const {
  return get<std::string>(values_, name);
}
const std::vector<double>& Arguments::numbers(std::string_view name) const {
  return get<Numbers>(values_, name);
}
const std::vector<std::string>& Arguments::texts(std::string_view name) const {
  return get<Texts>(values_, name);
}

std::string Arguments::canonical() const {
  std::string all;
  for (const auto& [name, value] : values_) all += fmt::format("{}={};", name, text_of(value));
  return all;
}

}  // namespace forebay::ops

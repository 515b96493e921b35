// parse_json: values of a JSON document become fields.
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "ops/builtin_ops.h"
#include "ops/convert.h"

namespace forebay::ops {
namespace {

using formats::ElementType;
using formats::Encoding;
using Json = nlohmann::json;

constexpr size_t kAxesMax = 8;

// "a.b.c" is the key of that name, else c of b of a.
const Json* look_up(const Json& document, std::string_view key) {
  if (!document.is_object()) return nullptr;
  if (const auto found = document.find(std::string(key)); found != document.end()) return &*found;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    const auto found = document.find(std::string(key.substr(0, dot)));
    if (found == document.end()) continue;
    if (const Json* inner = look_up(*found, key.substr(dot + 1))) return inner;
  }
  return nullptr;
}

// Numbers of nested lists, all of one length on each axis.
struct Flat {
  std::vector<uint64_t> shape;
  std::vector<const Json*> numbers;
};

Status flatten(const Json& value, size_t axis, Flat& flat) {
  if (!value.is_array()) {
    if (!value.is_number() && !value.is_boolean())
      return fail(ErrorCode::kCorruption, "a list holds {}", value.type_name());
    if (axis != flat.shape.size()) return fail(ErrorCode::kCorruption, "lists of unlike depth");
    flat.numbers.push_back(&value);
    return {};
  }
  if (axis == flat.shape.size()) {
    if (!flat.numbers.empty() || axis == kAxesMax)
      return fail(ErrorCode::kCorruption, "lists of unlike depth, or deeper than {}", kAxesMax);
    flat.shape.push_back(value.size());
  }
  if (flat.shape[axis] != value.size())
    return fail(ErrorCode::kCorruption, "lists of {} and of {} values", flat.shape[axis],
                value.size());
  for (const Json& inner : value) FB_TRY(flatten(inner, axis + 1, flat));
  return {};
}

// int64 when all are whole, bool when all are truth values, else float64.
ElementType type_of(const Flat& flat) {
  bool is_whole = true, is_truth = !flat.numbers.empty();
  for (const Json* number : flat.numbers) {
    is_whole = is_whole && (number->is_number_integer() || number->is_boolean());
    is_truth = is_truth && number->is_boolean();
  }
  return is_truth ? ElementType::kBool : is_whole ? ElementType::kI64 : ElementType::kF64;
}

// Identifiers of 64 bits must not become others.
Status check_fits(const Flat& flat) {
  for (const Json* number : flat.numbers) {
    if (number->is_number_unsigned() && number->get<uint64_t>() > uint64_t{INT64_MAX})
      return fail(ErrorCode::kUnsupported,
                  "{} does not fit int64: ask for types 'uint64' or "
                  "'float64'",
                  number->get<uint64_t>());
  }
  return {};
}

void store(const Json& number, ElementType type, std::byte* out) {
  if (number.is_number_float()) {
    const double real = number.get<double>();
    store_elements(type, {&real, 1}, out);
    return;
  }
  // Through 64 bits: a double would round large identifiers.
  const bool is_unsigned = number.is_number_unsigned();
  const auto bits = number.is_boolean() ? static_cast<uint64_t>(number.get<bool>() ? 1 : 0)
                    : is_unsigned       ? number.get<uint64_t>()
                                        : static_cast<uint64_t>(number.get<int64_t>());
  convert_elements(is_unsigned ? ElementType::kU64 : ElementType::kI64,
                   reinterpret_cast<const std::byte*>(&bits), 1, type, out)
      .ignore("both are numbers");
}

Status set_text(SampleState& state, Value& value, std::string_view text) {
  const auto out = FB_TRY(state.workspace().take(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  std::copy(bytes.begin(), bytes.end(), out.begin());
  value.kind = Value::Kind::kText;
  value.bytes = out;
  return {};
}

// `type`: "" as it comes, "text", or a number's.
Status set_value(SampleState& state, Value& value, const Json& json, std::string_view type) {
  if (type == "text" || (type.empty() && json.is_string())) {
    return set_text(state, value,
                    json.is_string() ? json.get_ref<const std::string&>()
                                     : json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  if (json.is_string() || json.is_object() || json.is_null())
    return fail(ErrorCode::kCorruption, "is {}, not a number{}", json.type_name(),
                json.is_object() ? "; 'text' takes any value" : "");
  Flat flat;
  FB_TRY(flatten(json, 0, flat));
  SampleState::NewArray array{type_of(flat), flat.shape};
  if (!type.empty()) array.type = FB_TRY(number_type(type));
  if (array.type == ElementType::kI64) FB_TRY(check_fits(flat));
  const auto out = FB_TRY(state.take(array));
  const size_t item = formats::element_bytes(array.type);
  for (size_t i = 0; i < flat.numbers.size(); ++i)
    store(*flat.numbers[i], array.type, out.data() + i * item);
  SampleState::set_array(value, array, out);
  return {};
}

class ParseJson : public Step {
 public:
  explicit ParseJson(const Arguments& arguments)
      : part_(arguments.text("part")),
        keys_(arguments.texts("keys")),
        types_(arguments.texts("types")),
        keeps_(arguments.flag("keep")) {}

  Status run(SampleState& state) const override {
    const std::string part = FB_TRY(choose(state));
    const auto bytes = FB_TRY(state.content(part));
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const Json document = Json::parse(text, text + bytes.size(), nullptr, false);
    if (document.is_discarded()) return fail(ErrorCode::kCorruption, "part '{}' is no JSON", part);
    if (keys_.empty()) {
      if (document.is_object() && type_of_key(0) != "text")
        return fail(ErrorCode::kCorruption,
                    "part '{}' is an object: its values become fields by 'keys'", part);
      Value* value = FB_TRY(state.get(part));
      return set_value(state, *value, document, type_of_key(0)).context("part '" + part + "'");
    }
    if (!keeps_) {
      auto& values = state.values();
      values.erase(values.begin() + (FB_TRY(state.get(part)) - values.data()));
    }
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Json* found = look_up(document, keys_[i]);
      if (found == nullptr)
        return fail(ErrorCode::kNotFound, "part '{}' has no key '{}'", part, keys_[i]);
      Value* value = FB_TRY(state.add(keys_[i]));
      FB_TRY(set_value(state, *value, *found, type_of_key(i)).context("key '" + keys_[i] + "'"));
    }
    return {};
  }

 private:
  std::string_view type_of_key(size_t index) const {
    return types_.empty() ? std::string_view() : std::string_view(types_[index]);
  }
  Result<std::string> choose(SampleState& state) const {
    if (!part_.empty()) return part_;
    for (const Value& value : state.values())
      if (value.kind == Value::Kind::kPart && value.record.encoding == Encoding::kJson)
        return std::string(value.name);
    return fail(ErrorCode::kNotFound, "no part is JSON");
  }

  std::string part_;
  std::vector<std::string> keys_, types_;
  bool keeps_;
};

constexpr std::array kArguments{
    OpArgument{"keys", "texts", "''",
               "values that become fields of these names; a.b is b of a; a missing one is an "
               "error. Empty: the whole document (a number, a list, a text) under the part's name"},
    OpArgument{"part", "text", "''", "the part it is in; empty: the first that is JSON"},
    OpArgument{"types", "texts", "''",
               "one for each key: a number type, text (any value), or '' for as it comes: int64, "
               "float64, bool, text. A key that is 1 in one sample and 1.5 in another needs one"},
    OpArgument{"keep", "flag", "false", "the part stays a field, too"},
};

Result<std::unique_ptr<Step>> make(const Arguments& arguments, const DecodeOptions&) {
  const auto& keys = arguments.texts("keys");
  const auto& types = arguments.texts("types");
  const size_t wanted = std::max<size_t>(keys.size(), 1);
  if (!types.empty() && types.size() != wanted)
    return fail(ErrorCode::kInvalidArgument, "{} types for {} keys", types.size(), wanted);
  for (const std::string& type : types)
    if (!type.empty() && type != "text") FB_TRY(number_type(type));
  for (const std::string& key : keys)
    if (key.empty()) return fail(ErrorCode::kInvalidArgument, "keys: an empty one");
  return make_step<ParseJson>(arguments);
}

}  // namespace

const OpKind kParseJson{
    .info = {"parse_json", "Values of a JSON document become fields.", kArguments}, .make = make};

}  // namespace forebay::ops

#include "workload/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace forebay::workload {

namespace {

// The names that each kind's parameters have in YAML, in the order of Distribution::a and b.
struct Shape {
  std::string_view name;
  Distribution::Kind kind;
  std::string_view a, b;  // b is "" where there is one parameter
};

constexpr Shape kShapes[] = {
    {"normal", Distribution::Kind::kNormal, "mean", "stdev"},
    {"uniform", Distribution::Kind::kUniform, "min", "max"},
    {"gamma", Distribution::Kind::kGamma, "shape", "scale"},
    {"exponential", Distribution::Kind::kExponential, "scale", ""},
    {"poisson", Distribution::Kind::kPoisson, "lam", ""},
};

// Mean of max(0, X) for a normal X.
double clipped_normal_mean(double mean, double stdev) {
  if (stdev <= 0) return std::max(0.0, mean);
  const double z = mean / stdev;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
  return mean * std::erfc(-z / M_SQRT2) / 2 + stdev * density;
}

// Mean of max(0, X) for X uniform in [low, high].
double clipped_uniform_mean(double low, double high) {
  if (low >= 0 || high <= low) return std::max(0.0, (low + high) / 2);
  return high <= 0 ? 0 : high * high / (2 * (high - low));
}

const Node* entry(const Node& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i] == key) return &map.items[i];
  }
  return nullptr;
}

Result<double> parameter(const Limits& limits, const Node& map, const Shape& shape,
                         std::string_view name) {
  const Node* node = entry(map, name);
  if (node == nullptr)
    return fail(ErrorCode::kInvalidArgument, "{} needs '{}' in {}", shape.name, name,
                map.flow_text());
  // The lower end of a uniform distribution may be negative: such draws count as 0.
  Limits own = limits;
  if (name == "min" || name == "max") own.low = -limits.high;
  if (name == "shape") own.is_low_excluded = true;
  const auto value = read_value(Type::kSeconds, own, *node);
  if (!value.ok()) return fail(ErrorCode::kInvalidArgument, "'{}' {}", name, value.error().message);
  return value->number;
}

Status check_names(const Node& map, const Shape& shape) {
  std::vector<std::string_view> known{"type", shape.a};
  if (!shape.b.empty()) known.push_back(shape.b);
  for (const std::string& key : map.keys) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return fail(ErrorCode::kInvalidArgument, "{}",
                base::unknown_name_message(fmt::format("parameter of {}", shape.name), key, known));
  }
  return {};
}

Result<Shape> shape_of(const Node& map) {
  const Node* type = entry(map, "type");
  if (type == nullptr) return kShapes[0];  // {mean} and {mean, stdev}
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) {
    if (type->kind == Node::Kind::kScalar && type->text == shape.name) return shape;
    names.push_back(shape.name);
  }
  return fail(ErrorCode::kInvalidArgument, "{}",
              base::unknown_name_message("distribution", type->text, names));
}

}  // namespace

Result<Distribution> read_distribution(const Limits& limits, const Node& node) {
  Distribution distribution;
  if (node.kind == Node::Kind::kNull || (node.kind == Node::Kind::kMap && node.keys.empty()))
    return distribution;
  if (node.kind != Node::Kind::kMap) {
    const Value value = FB_TRY(read_value(Type::kSeconds, limits, node));
    distribution.a = value.number;
    return distribution;
  }
  const Shape shape = FB_TRY(shape_of(node));
  FB_TRY(check_names(node, shape));
  distribution.kind = shape.kind;
  distribution.a = FB_TRY(parameter(limits, node, shape, shape.a));
  const bool is_plain_mean = entry(node, "type") == nullptr && entry(node, "stdev") == nullptr;
  if (is_plain_mean) {
    distribution.kind = Distribution::Kind::kConstant;
  } else if (!shape.b.empty()) {
    distribution.b = FB_TRY(parameter(limits, node, shape, shape.b));
  }
  if (shape.kind != Distribution::Kind::kUniform) return distribution;
  if (distribution.a > distribution.b)
    return fail(ErrorCode::kInvalidArgument, "'min' {} is above 'max' {}", distribution.a,
                distribution.b);
  if (distribution.a + distribution.b < 0)
    return fail(ErrorCode::kInvalidArgument, "the mean of uniform {}..{} is negative",
                distribution.a, distribution.b);
  return distribution;
}

std::string distribution_yaml(const Distribution& distribution) {
  for (const Shape& shape : kShapes) {
    if (shape.kind != distribution.kind) continue;
    std::string out = fmt::format("{{type: {}, {}: {}", shape.name, shape.a, distribution.a);
    if (!shape.b.empty()) out += fmt::format(", {}: {}", shape.b, distribution.b);
    return out + "}";
  }
  return fmt::format("{}", distribution.a);
}

double Distribution::mean() const {
  switch (kind) {
    case Kind::kConstant:
    case Kind::kExponential:
    case Kind::kPoisson:
      return a;
    case Kind::kNormal:
      return clipped_normal_mean(a, b);
    case Kind::kUniform:
      return clipped_uniform_mean(a, b);
    case Kind::kGamma:
      return a * b;
  }
  return 0;
}

double Distribution::draw(base::Random& random) const {
  const auto value = [&]() -> double {
    switch (kind) {
      case Kind::kConstant:
        return a;
      case Kind::kNormal:
        return a + b * random.normal();
      case Kind::kUniform:
        return a + (b - a) * random.uniform();
      case Kind::kGamma:
        return b * random.gamma(a);
      case Kind::kExponential:
        return a * random.exponential();
      case Kind::kPoisson:
        return static_cast<double>(random.poisson(a));
    }
    return 0;
  };
  return std::max(0.0, value());
}

std::string Distribution::text() const {
  switch (kind) {
    case Kind::kConstant:
      return fmt::format("{}", a);
    case Kind::kNormal:
      return fmt::format("normal(mean {}, stdev {})", a, b);
    case Kind::kUniform:
      return fmt::format("uniform(min {}, max {})", a, b);
    case Kind::kGamma:
      return fmt::format("gamma(shape {}, scale {})", a, b);
    case Kind::kExponential:
      return fmt::format("exponential(scale {})", a);
    case Kind::kPoisson:
      return fmt::format("poisson(lam {})", a);
  }
  return "";
}

}  // namespace forebay::workload

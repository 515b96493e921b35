#include "workload/value.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forebay::workload {
namespace {

// The canonical text of a value, or "error <message>".
std::string read(Type type, std::string_view yaml, Limits limits = {}) {
  const auto node = parse_document(yaml, "w");
  if (!node.ok()) return "unreadable " + node.error().message;
  const auto value = read_value(type, limits, *node);
  return value.ok() ? value_text(type, *value) : "error " + value.error().message;
}

TEST(Value, ReadsBooleansAsYamlDoes) {
  for (const char* yes : {"True", "true", "yes", "on", "ON"})
    EXPECT_EQ(read(Type::kBool, yes), "true");
  for (const char* no : {"False", "no", "off"}) EXPECT_EQ(read(Type::kBool, no), "false");
  for (const char* bad : {"1", "null", "[]", "tru"}) {
    EXPECT_EQ(read(Type::kBool, bad).substr(0, 27), "error must be true or false") << bad;
  }
}

TEST(Value, ReadsWholeNumbersExactly) {
  const Limits limits{.low = 1, .high = 0x1p62};
  EXPECT_EQ(read(Type::kCount, "4611686018427387904", limits), "4611686018427387904");
  EXPECT_EQ(read(Type::kCount, "1e6", limits), "1000000");
  EXPECT_EQ(read(Type::kCount, "64.0", limits), "64");
  EXPECT_EQ(read(Type::kCount, "1_000", limits), "1000");
  EXPECT_EQ(read(Type::kCount, "+3", limits), "3");
  EXPECT_EQ(read(Type::kCount, "'4'", limits), "4");
  for (const char* bad :
       {"0", "-1", "1.5", "010", "0x10", "nan", ".inf", "1e30", "null", "[1]", "{}",
        "9223372036854775808", "99999999999999999999999", "''", "4 4", "True"}) {
    EXPECT_EQ(read(Type::kCount, bad, limits).substr(0, 21), "error must be a whole") << bad;
  }
}

TEST(Value, ReadsSizesWithUnits) {
  EXPECT_EQ(read(Type::kBytes, "114660.07"), "114660.07");
  EXPECT_EQ(read(Type::kBytes, "4MiB"), "4194304");
  EXPECT_EQ(read(Type::kOptionalBytes, "256 KiB"), "262144");
  EXPECT_EQ(read(Type::kOptionalBytes, "null"), "null");
  for (const char* bad : {"-1", "4 apples", "nan", "inf", "1e19"}) {
    EXPECT_EQ(read(Type::kBytes, bad).substr(0, 6), "error ") << bad;
  }
}

TEST(Value, TakesMinusOneAndNullAsUnsetOnlyWhereTheyMeanThat) {
  const Limits limits{.low = 1};
  EXPECT_EQ(read(Type::kOptionalCount, "-1", limits), "-1");
  EXPECT_EQ(read(Type::kOptionalCount, "null", limits), "-1");
  EXPECT_EQ(read(Type::kOptionalCount, "None", limits), "-1");
  EXPECT_EQ(read(Type::kOptionalCount, "-2", limits).substr(0, 6), "error ");
  EXPECT_EQ(read(Type::kOptionalCount, "0", limits),
            "error must be a whole number or -1 for none (>= 1), not 0");
  EXPECT_EQ(read(Type::kOptionalBytes, "-1", limits).substr(0, 6), "error ");
}

TEST(Value, ReadsChoicesAndSuggestsTheNearest) {
  const Limits shuffle{.choices = "off seed random"};
  EXPECT_EQ(read(Type::kChoice, "off", shuffle), "off");
  EXPECT_EQ(read(Type::kChoice, "False", shuffle), "off");
  EXPECT_EQ(read(Type::kChoice, "sed", shuffle),
            "error must be off | seed | random, not sed; did you mean 'seed'?");
  EXPECT_EQ(read(Type::kChoice, "True", shuffle), "error must be off | seed | random, not True");
  EXPECT_EQ(read(Type::kChoice, "on", shuffle), "error must be off | seed | random, not on");
  EXPECT_EQ(read(Type::kChoice, "null", {.choices = "none zip"}), "none");
}

TEST(Value, RefusesTextThatIsNotAPlainValue) {
  EXPECT_EQ(read(Type::kText, "null"), "\"\"");
  EXPECT_EQ(read(Type::kText, "[a]").substr(0, 6), "error ");
  EXPECT_EQ(read(Type::kText, "'./${workload.model.name}'").substr(0, 28),
            "error holds an interpolation");
  EXPECT_EQ(read(Type::kText, std::string(5000, 'x')).substr(0, 6), "error ");
  EXPECT_EQ(read(Type::kText, "\"a\\0b\"").substr(0, 6), "error ");
}

TEST(Value, ReadsListsOfCounts) {
  EXPECT_EQ(read(Type::kCounts, "[1, 2.0, 3e2]"), "[1, 2, 300]");
  EXPECT_EQ(read(Type::kCounts, "null"), "[]");
  EXPECT_EQ(read(Type::kCounts, "[1, -2]"),
            "error each item: must be a whole number (>= 0), not -2");
  EXPECT_EQ(read(Type::kCounts, "12"), "error must be a list of whole numbers, not 12");
}

TEST(Distribution, ReadsEveryForm) {
  const auto text = [](std::string_view yaml) {
    return read(Type::kDistribution, yaml, {.high = 1e6});
  };
  EXPECT_EQ(text("0.323"), "0.323");
  EXPECT_EQ(text("20ms"), "0.02");
  EXPECT_EQ(text("null"), "0");
  EXPECT_EQ(text("{}"), "0");
  EXPECT_EQ(text("{mean: 0.3}"), "0.3");
  EXPECT_EQ(text("{mean: 0.001, stdev: 0.01}"), "{type: normal, mean: 0.001, stdev: 0.01}");
  EXPECT_EQ(text("{type: uniform, min: 1, max: 2}"), "{type: uniform, min: 1, max: 2}");
  EXPECT_EQ(text("{type: gamma, shape: 1, scale: 0.01}"), "{type: gamma, shape: 1, scale: 0.01}");
  EXPECT_EQ(text("{type: exponential, scale: 0.5}"), "{type: exponential, scale: 0.5}");
  EXPECT_EQ(text("{type: poisson, lam: 3}"), "{type: poisson, lam: 3}");
}

TEST(Distribution, NamesWhatIsWrong) {
  const auto text = [](std::string_view yaml) {
    return read(Type::kDistribution, yaml, {.high = 1e6});
  };
  EXPECT_EQ(text("-0.1"), "error must be seconds (0..1000000), not -0.1");
  EXPECT_EQ(text("nan").substr(0, 6), "error ");
  EXPECT_EQ(text("{mean: -1, stdev: 2}"), "error 'mean' must be seconds (0..1000000), not -1");
  EXPECT_EQ(
      text("{mean: 1, stddev: 2}"),
      "error no parameter of normal named 'stddev'; did you mean 'stdev'? (known: mean, stdev, "
      "type)");
  EXPECT_EQ(text("{type: normal, mean: 1}"),
            "error normal needs 'stdev' in {type: normal, mean: 1}");
  EXPECT_EQ(text("{type: gama, shape: 1}").substr(0, 61),
            "error no distribution named 'gama'; did you mean 'gamma'? (kn");
  EXPECT_EQ(text("{type: uniform, min: 2, max: 1}"), "error 'min' 2 is above 'max' 1");
  EXPECT_EQ(text("{type: uniform, min: -3, max: 1}"),
            "error the mean of uniform -3..1 is negative");
  EXPECT_EQ(text("{type: gamma, shape: 0, scale: 1}").substr(0, 20), "error 'shape' must b");
  EXPECT_EQ(text("[1, 2]").substr(0, 6), "error ");
}

TEST(Distribution, DrawsHaveTheMeanThatItStatesAndAreNeverNegative) {
  using Kind = Distribution::Kind;
  const Distribution all[] = {
      {Kind::kConstant, 0.5, 0}, {Kind::kNormal, 0.3, 0.05}, {Kind::kNormal, 0.001, 0.01},
      {Kind::kNormal, 0.2, 0},   {Kind::kUniform, 1, 3},     {Kind::kUniform, -1, 2},
      {Kind::kGamma, 2, 0.5},    {Kind::kExponential, 3, 0}, {Kind::kPoisson, 4, 0},
      {Kind::kUniform, 2, 2},
  };
  for (const Distribution& distribution : all) {
    base::Random random(5);
    double sum = 0;
    constexpr int kDraws = 40000;
    for (int i = 0; i < kDraws; ++i) {
      const double value = distribution.draw(random);
      ASSERT_GE(value, 0);
      sum += value;
    }
    EXPECT_NEAR(sum / kDraws, distribution.mean(), 0.02 * distribution.mean() + 1e-6)
        << distribution.text();
  }
}

TEST(Distribution, DescribesItself) {
  EXPECT_EQ((Distribution{Distribution::Kind::kConstant, 0.323, 0}).text(), "0.323");
  EXPECT_EQ((Distribution{Distribution::Kind::kNormal, 0.3, 0.01}).text(),
            "normal(mean 0.3, stdev 0.01)");
  EXPECT_TRUE(Distribution{}.is_zero());
}

}  // namespace
}  // namespace forebay::workload

// The grammar of overrides. What the table expects is what Hydra 1.3.8 and OmegaConf 2.3 answer to
// the same words, unless a comment says otherwise.
#include "cli/dlio_override.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "base/random.h"
#include "cli/dlio_yaml.h"

namespace forebay::cli {
namespace {

using testing::HasSubstr;
using workload::Node;
using Kind = DlioOverride::Kind;

// "text x y", "plain 1", "null", or a list or map of these: type and value in one line.
std::string shown(const Node& node) {
  if (node.kind == Node::Kind::kNull) return "null";
  if (node.kind == Node::Kind::kScalar) return (node.is_quoted ? "text " : "plain ") + node.text;
  std::string out;
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (node.kind == Node::Kind::kMap) out += node.keys[i] + ": ";
    out += shown(node.items[i]);
  }
  return node.kind == Node::Kind::kMap ? "{" + out + "}" : "[" + out + "]";
}

struct Case {
  const char* typed;
  const char* expected;
};

TEST(DlioOverride, ReadsValuesAsHydraDoes) {
  constexpr std::array kCases{
      Case{"1", "plain 1"},
      Case{"1.0", "plain 1.0"},
      Case{"1e3", "plain 1e3"},
      Case{"-1", "plain -1"},
      Case{"+1", "plain 1"},
      Case{"1_000", "plain 1000"},
      Case{"1__0", "text 1__0"},
      Case{"0x10", "text 0x10"},
      Case{"007", "text 007"},
      Case{"-0", "plain -0"},
      Case{".5", "plain .5"},
      Case{"5.", "plain 5."},
      Case{"1e", "text 1e"},
      Case{"1.5.3", "text 1.5.3"},
      Case{"1-2", "text 1-2"},
      Case{"20MiB", "text 20MiB"},
      Case{"2024-01-01", "text 2024-01-01"},
      Case{"nan", "plain .nan"},
      Case{"inf", "plain .inf"},
      Case{"-inf", "plain -.inf"},
      Case{"true", "plain true"},
      Case{"tRue", "plain true"},
      Case{"False", "plain false"},
      Case{"off", "text off"},
      Case{"yes", "text yes"},
      Case{"NULL", "null"},
      Case{"", "text "},
      Case{"''", "text "},
      Case{"\"\"", "text "},
      Case{"'1'", "text 1"},
      Case{"'x y'", "text x y"},
      Case{"\"it's\"", "text it's"},
      Case{"'it\\'s'", "text it's"},
      Case{"'a\\\\'", "text a\\"},
      Case{"'x\\nb'", "text x\\nb"},
      Case{"\"a\\\"b\"", "text a\"b"},
      Case{"'a,b=c;d'", "text a,b=c;d"},
      Case{"[1, 'b', c d]", "[plain 1, text b, text c d]"},
      Case{"[]", "[]"},
      Case{"[[1],[2]]", "[[plain 1], [plain 2]]"},
      Case{"[true,null,1.5,-3]", "[plain true, null, plain 1.5, plain -3]"},
      Case{"[a:b]", "[text a:b]"},
      Case{"{}", "{}"},
      Case{"{a:1,b:{c:[x]}}", "{a: plain 1, b: {c: [text x]}}"},
      Case{"{a: 1, b : 2}", "{a: plain 1, b: plain 2}"},
      Case{"{a:b:c}", "{a: text b:c}"},
      Case{"{type: gamma, shape: 2, scale: 0.1}",
           "{type: text gamma, shape: plain 2, scale: plain 0.1}"},
      Case{"{a:1,a:2}", "{a: plain 2}"},
      Case{" a b ", "text a b"},
      Case{"\ttab", "text tab"},
      Case{"a\\,b", "text a,b"},
      Case{"a\\ b", "text a b"},
      Case{"a\\=b", "text a=b"},
      Case{"\\(x\\)", "text (x)"},
      Case{"\\\\", "text \\"},
      Case{"x\\", "text x\\"},
      Case{"C:\\x", "text C:\\x"},
      Case{"a/../b", "text a/../b"},
      Case{"/mnt/d-1/x_y.z", "text /mnt/d-1/x_y.z"},
      Case{"a@b|c*d?e%f", "text a@b|c*d?e%f"},
      Case{"$", "text $"},
      Case{"${b.c}", "text ${b.c}"},
      Case{"x${b}y", "text x${b}y"},
      Case{"${now:%Y-%m-%d}/r", "text ${now:%Y-%m-%d}/r"},
      Case{"${a.${b}}", "text ${a.${b}}"},
      Case{"'${x}'", "text ${x}"},
      Case{"-", "text -"},
      Case{"\u00e9/x", "text \u00e9/x"},  // Hydra wants quotes around letters beyond ASCII
  };
  for (const Case& c : kCases) {
    const auto read = parse_dlio_override(std::string("k=") + c.typed);
    ASSERT_TRUE(read.ok()) << c.typed << ": " << read.error().message;
    EXPECT_EQ(shown(read->value), c.expected) << c.typed;
  }
}

TEST(DlioOverride, RefusesWhatHydraRefuses) {
  for (const char* typed :
       {"k=a=b", "k=(1)",  "k=a{b",     "k=a;b",  "k=a#b",   "k=~/d", "k=[1,",  "k={a:1",
        "k={a}", "k='x",   "k=x'y",     "k='x'y", "k=${x",   "k=!x",  "k=&x",   "k=<x>",
        "k=`x`", "k=\\'",  "k={'q':1}", "k",      "++",      "++k",   "=1",     ".a=1",
        "a.=1",  "a..b=1", "a b=1",     "+ a=1",  "k=[1 2}", "k=[,]", "k=[1]]", "k={a:1,}"}) {
    const auto read = parse_dlio_override(typed);
    ASSERT_FALSE(read.ok()) << typed << " gives " << shown(read->value);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << typed;
    EXPECT_THAT(read.error().message, HasSubstr(typed));
  }
}

TEST(DlioOverride, RefusesSweepsFunctionsAndPackagesByName) {
  for (const auto& [typed, word] : {std::pair{"k=a,b", "--multirun"},
                                    {"k=choice(1,2)", "choice()"},
                                    {"k=range(1,3)", "range()"},
                                    {"k=[int('1')]", "int()"},
                                    {"k@p=1", "packages"}}) {
    const auto read = parse_dlio_override(typed);
    ASSERT_FALSE(read.ok()) << typed;
    EXPECT_EQ(read.error().code, ErrorCode::kUnsupported) << typed;
    EXPECT_THAT(read.error().message, HasSubstr(word));
  }
}

TEST(DlioOverride, KindsAreTold) {
  EXPECT_EQ(parse_dlio_override("a.b=1")->kind, Kind::kChange);
  EXPECT_EQ(parse_dlio_override("+a.b=1")->kind, Kind::kAdd);
  EXPECT_EQ(parse_dlio_override("++a.b=1")->kind, Kind::kForceAdd);
  const auto removal = parse_dlio_override("~a.b");
  EXPECT_EQ(removal->kind, Kind::kDelete);
  EXPECT_EQ(removal->key, "a.b");
  EXPECT_FALSE(removal->has_value);
  EXPECT_TRUE(parse_dlio_override("~a.b=1")->has_value);
  EXPECT_EQ(parse_dlio_override("hydra/job_logging=x")->key, "hydra/job_logging");
}

TEST(DlioOverride, DeepNestingIsRefusedAndDoesNotOverflow) {
  EXPECT_FALSE(parse_dlio_override("k=" + std::string(100'000, '[')).ok());
  EXPECT_FALSE(parse_dlio_override("k=${" + std::string(100'000, '{')).ok());
}

// Texts, numbers, lists and maps of a random shape.
Node random_value(base::Random& random, int depth) {
  constexpr std::string_view kLetters = "ab01.-+_:/\\'\"$%,=[]{}() \t@";
  constexpr std::array kPlain{"1", "-3", "0.5", "1e-7", "true", "false", ".inf", "-.inf"};
  Node node;
  const uint64_t choice = random.below(depth > 3 ? 4 : 7);
  if (choice == 0) return node;
  if (choice == 1) {
    node.kind = Node::Kind::kScalar;
    node.text = kPlain[random.below(kPlain.size())];
    return node;
  }
  if (choice < 4) {
    node.kind = Node::Kind::kScalar;
    node.is_quoted = true;
    const uint64_t length = random.below(9);
    for (uint64_t i = 0; i < length; ++i) node.text += kLetters[random.below(kLetters.size())];
    return node;
  }
  node.kind = choice == 4 ? Node::Kind::kMap : Node::Kind::kList;
  const uint64_t count = random.below(4);
  for (uint64_t i = 0; i < count; ++i) {
    if (node.kind == Node::Kind::kMap) node.keys.push_back(fmt::format("k{}:[x", i));
    node.items.push_back(random_value(random, depth + 1));
  }
  return node;
}

TEST(DlioOverride, AnyValueSurvivesBeingWrittenAndRead) {
  const char* set = std::getenv("FOREBAY_SEED");
  const uint64_t seed = set != nullptr ? std::strtoull(set, nullptr, 10) : 20'261;
  base::Random random(seed);
  for (int round = 0; round < 20'000; ++round) {
    const Node value = random_value(random, 0);
    const std::string text = dlio_value_text(value);
    const auto read = parse_dlio_override("k=" + text);
    ASSERT_TRUE(read.ok()) << "seed " << seed << ": " << text << ": " << read.error().message;
    ASSERT_EQ(shown(read->value), shown(value)) << "seed " << seed << ": " << text;
  }
}

TEST(DlioOverride, AnyBytesAreReadOrRefused) {
  constexpr std::string_view kBytes = "k=+~.[]{}'\"\\$:,() a1\t\x80\n";
  base::Random random(7);
  for (int round = 0; round < 50'000; ++round) {
    std::string text = "k=";
    const uint64_t length = random.below(12);
    for (uint64_t i = 0; i < length; ++i) text += kBytes[random.below(kBytes.size())];
    const auto read = parse_dlio_override(text);
    if (!read.ok()) continue;
    const auto again = parse_dlio_override("k=" + dlio_value_text(read->value));
    ASSERT_TRUE(again.ok()) << text;
    ASSERT_EQ(shown(again->value), shown(read->value)) << text;
  }
}

TEST(DlioYaml, WritesScalarsAsOmegaConfDoes) {
  const auto line = [](const char* typed) {
    const auto read = parse_dlio_override(std::string("k=") + typed);
    return dlio_yaml(read->value);
  };
  constexpr std::array kCases{
      Case{"off", "'off'"},
      Case{"yes", "'yes'"},
      Case{"'0x10'", "'0x10'"},
      Case{"007", "'007'"},
      Case{"1:30", "'1:30'"},
      Case{"2024-01-01", "'2024-01-01'"},
      Case{"'1e3'", "'1e3'"},
      Case{"1e3", "1000.0"},
      Case{"1e-7", "1.0e-07"},
      Case{"nan", ".nan"},
      Case{"inf", ".inf"},
      Case{"''", "''"},
      Case{"null", "null"},
      Case{"True", "true"},
      Case{"'True'", "'True'"},
      Case{"'x: y'", "'x: y'"},
      Case{"'# c'", "'# c'"},
      Case{"\"it's\"", "it's"},
      Case{"'a\"b'", "a\"b"},
      Case{"' lead'", "' lead'"},
      Case{"'-'", "'-'"},
      Case{"'- x'", "'- x'"},
      Case{"'[x]'", "'[x]'"},
      Case{"'null'", "'null'"},
      Case{"'~'", "'~'"},
      Case{"'x:'", "'x:'"},
      Case{"'x #y'", "'x #y'"},
      Case{"'x#y'", "x#y"},
      Case{"'='", "'='"},
      Case{"'<<'", "'<<'"},
      Case{"'.5'", "'.5'"},
      Case{"'5.'", "'5.'"},
      Case{"1e22", "1.0e+22"},
      Case{"123456789.123", "123456789.123"},
      Case{"C:\\x", "C:\\x"},
      Case{"'*x'", "'*x'"},
      Case{"'-1'", "'-1'"},
      Case{"'a,b'", "a,b"},
      Case{"1.5.3", "1.5.3"},
      Case{"y", "'y'"},
      Case{"'.inf'", "'.inf'"},
      Case{"1e", "1e"},
      Case{"'12e03'", "'12e03'"},
      Case{"'190:20:30'", "'190:20:30'"},
      Case{"'01'", "'01'"},
      Case{"'08'", "'08'"},
      Case{"${x}", "${x}"},
      Case{"/mnt/d", "/mnt/d"},
      Case{"0.323", "0.323"},
      Case{"1.0", "1.0"},
      Case{"100000000.0", "100000000.0"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(line(c.typed), std::string(c.expected) + "\n") << c.typed;
  }
  EXPECT_EQ(line("'tab\t'"), "\"tab\\t\"\n");
}

TEST(DlioYaml, LaysOutMapsAndListsAsPyYamlDoes) {
  const auto read =
      parse_dlio_override("k={x: [1, [2, b], {k: v, z: [3]}], y: {k: {z: 1}}, v: [], w: {}}");
  EXPECT_EQ(dlio_yaml(read->value),
            "x:\n- 1\n- - 2\n  - b\n- k: v\n  z:\n  - 3\n'y':\n  k:\n    z: 1\nv: []\nw: {}\n");
}

TEST(DlioYaml, PythonSpellingOfValues) {
  const auto text = [](const char* yaml) {
    return python_text(*workload::parse_document(yaml, "test"));
  };
  EXPECT_EQ(text("true"), "True");
  EXPECT_EQ(text("null"), "None");
  EXPECT_EQ(text("146600628"), "146600628");
  EXPECT_EQ(text("0.323"), "0.323");
  EXPECT_EQ(text("1e3"), "1000.0");
  EXPECT_EQ(text("\"1e3\""), "1e3");
  EXPECT_EQ(text("npz"), "npz");
}

}  // namespace
}  // namespace forebay::cli

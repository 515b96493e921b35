#include "workload/document.h"

#include <gtest/gtest.h>

namespace forebay::workload {
namespace {

std::string parsed(std::string_view text, DocumentLimits limits = {}) {
  const auto node = parse_document(text, "w", limits);
  return node.ok() ? node->flow_text() : "error " + node.error().message;
}

TEST(Document, KeepsWhatDlioFilesHold) {
  EXPECT_EQ(parsed("a: True \nb:   1e6\nc: [1, 2] # note\nd: {x: null}\n"),
            "{a: True, b: 1e6, c: [1, 2], d: {x: null}}");
  EXPECT_EQ(parsed("a: 1\r\nb:\r\n  c: 2\r\n"), "{a: 1, b: {c: 2}}");
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "a: 1"),
            "{a: 1}");
  EXPECT_EQ(parsed("# only a comment\n"), "null");
  EXPECT_EQ(parsed(""), "null");
  EXPECT_EQ(parsed("a: 'it''s'\nb: \"\\x41\"\nc: 'null'\n"), "{a: \"it's\", b: A, c: \"null\"}");
}

TEST(Document, RemembersLinesAndColumns) {
  const auto node = parse_document("a: 1\n\nsection:\n    key: 2\n", "w");
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->items[1].line, 3);
  EXPECT_EQ(node->items[1].items[0].line, 4);
  EXPECT_EQ(node->items[1].items[0].column, 5);
}

TEST(Document, ResolvesAnchorsAndMergeKeys) {
  EXPECT_EQ(parsed("a: &x {p: 1, q: 2}\nb: *x\n"), "{a: {p: 1, q: 2}, b: {p: 1, q: 2}}");
  EXPECT_EQ(parsed("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n"),
            "{a: {p: 1, q: 2}, b: {q: 3, p: 1}}");
}

TEST(Document, NamesThePlaceOfErrors) {
  EXPECT_EQ(parsed("a: 1\n\tb: 2\n"), "error w:2: a tab in the indentation; use spaces");
  EXPECT_EQ(parsed("a: 1\nb: 2\na: 3\n"), "error w:3:1: 'a' is set twice; first in line 1");
  EXPECT_EQ(parsed("a: [1, 2\nb: 3\n").substr(0, 8), "error w:");
  EXPECT_EQ(parsed("a: *nobody\n").substr(0, 11), "error w:1:4");
  EXPECT_EQ(parsed("a: 1\n---\nb: 2\n"), "error w:2:1: more text after the end of the document");
  EXPECT_EQ(parsed("? [1]\n: 2\n"), "error w:1:3: a key must be text");
  EXPECT_EQ(parsed("~: 2\n"), "error w:1:1: a key must be text");
  EXPECT_EQ(parsed("a: !!python/object:os.system 1\n").substr(0, 24), "error w:1:4: unknown tag");
  EXPECT_EQ(parsed("a: b\xff\n"), "error w:1: byte 0xff is not UTF-8");
  // The parser takes this byte for the end of the text.
  EXPECT_EQ(parsed("a: 1\n\x04 b: 2\n"), "error w:2: control character 0x04");
  EXPECT_EQ(parsed(std::string_view("a: \0", 4)), "error w:1: control character 0x00");
}

TEST(Document, EndsAtStrayCommas) {
  // yaml-cpp reports empty documents for ever at these.
  EXPECT_EQ(parsed(","), "error w:1:1: more text after the end of the document");
  EXPECT_EQ(parsed("[1], a"), "error w:1:4: more text after the end of the document");
  EXPECT_EQ(parsed("]"), "error w:1:1: illegal flow end");
}

TEST(Document, RefusesDirectives) {
  // The parser would pass over the line, and with it over a value.
  EXPECT_EQ(parsed("%x"),
            "error w:1: a directive ('%' at the start of a line); put text into quotes");
  EXPECT_EQ(parsed("a: 5%\nb: '%'\n"), "{a: \"5%\", b: \"%\"}");
}

TEST(Document, AllowsTabsThatDoNotIndent) {
  EXPECT_EQ(parsed("a: 1\t# note\n\t\n\t# note\nb: 2\n"), "{a: 1, b: 2}");
}

TEST(Document, BoundsDepth) {
  const std::string deep(100, '[');
  EXPECT_NE(parsed("a: " + deep + std::string(100, ']')).find("nested deeper than 32"),
            std::string::npos);
  // Deep enough to end any recursive parser without a bound.
  for (const char* piece : {"[", "{a: ", "- ", "? "}) {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += piece;
    EXPECT_EQ(parsed(text).substr(0, 6), "error ") << piece;
  }
}

TEST(Document, BoundsSize) {
  EXPECT_EQ(parsed(std::string(300 << 10, ' ')),
            "error w: 307200 bytes are too many for a workload (at most 262144)");
  EXPECT_NE(parsed("[1, 2, 3, 4, 5]", {.nodes_max = 3}).find("more than 3 values"),
            std::string::npos);
}

TEST(Document, BoundsAliasesThatMultiply) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) bomb += before + ", ";
    bomb += before + "]\n";
  }
  EXPECT_NE(parsed(bomb).find("values once aliases are replaced"), std::string::npos);
  EXPECT_EQ(parsed("a: &x [*x]\n"), "error w:1:8: an alias of the value that contains it");
}

TEST(Document, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(quoted_if_needed("data/unet3d/"), "data/unet3d/");
  EXPECT_EQ(quoted_if_needed("-1"), "-1");
  for (const char* text :
       {"",   "-",    "---",  "...", "null", "~",  "-a", "a b", "a: b", "#", "é", "\"",
        "\\", "a\nb", "\x7f", "{",   "*a",   "&a", "!a", "%",   "@",    "`", "'", ","}) {
    const std::string quoted = quoted_if_needed(text);
    EXPECT_EQ(quoted.front(), '"') << text;
    const auto node = parse_document("k: " + quoted, "w");
    ASSERT_TRUE(node.ok()) << quoted << node.error().message;
    EXPECT_EQ(node->items[0].text, text);
  }
}

}  // namespace
}  // namespace forebay::workload

// Goal: an import of many files is told in a few lines, and nothing that was lost is left out.
#include "cli/import_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace forebay::cli {
namespace {

using testing::HasSubstr;

ingest::Imported imported_of(int files) {
  ingest::Imported imported;
  for (int i = 0; i < files; ++i) {
    ingest::ImportedFile file;
    file.source = "runs/app-" + std::to_string(i) + ".pfw";
    file.format = "dftracer";
    file.rank = i;
    file.events = 10;
    file.source_bytes = 1000;
    file.account.skip("lines that are no JSON", 2);
    file.account.repair("spans of negative duration: taken as 0", 3);
    file.account.negative_names = {"read"};
    imported.files.push_back(std::move(file));
  }
  imported.folders = 1;
  return imported;
}

TEST(ImportText, SumsUpWhatManyFilesHave) {
  ingest::Imported imported = imported_of(48);
  imported.files[7].account.damage = "the file ends too early";
  for (const char* const name : {"LICENSE", "README.md", "a", "b", "c"})
    imported.passed_over.push_back({std::string("runs/") + name, "no trace that is known here"});
  const std::string text = import_text(imported, "out");
  EXPECT_THAT(text, HasSubstr("dftracer: 48 files, 480 events, 48.0 kB -> 0 B, ranks 0 to 47\n"));
  EXPECT_THAT(text, HasSubstr("skipped 96 in 48 files: lines that are no JSON\n"));
  EXPECT_THAT(text, HasSubstr("mended 144 in 48 files: spans of negative duration: taken as 0"));
  EXPECT_THAT(text, HasSubstr("not read to the end: app-7.pfw: the file ends too early\n"));
  EXPECT_THAT(text, HasSubstr("passed over 5: LICENSE, README.md, a and 2 more"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 12);
}

TEST(ImportText, SaysOneFileAsOne) {
  ingest::Imported imported = imported_of(1);
  imported.files[0].events = 1;
  const std::string text = import_text(imported, "out");
  EXPECT_THAT(text, HasSubstr("runs/app-0.pfw: dftracer, 1 event, "));
  EXPECT_THAT(text, HasSubstr("out: 1 event of 1 file\n"));
}

TEST(ImportText, WarnsThatFoldersMayBeDifferentRuns) {
  ingest::Imported imported = imported_of(2);
  EXPECT_EQ(import_text(imported, "out").find("folders"), std::string::npos);
  imported.folders = 2;
  EXPECT_THAT(import_text(imported, "out"), HasSubstr("traces of 2 folders are one recording now"));
}

TEST(ImportText, LossesAreALineAReason) {
  const std::string text = losses_text(imported_of(48));
  EXPECT_EQ(text,
            "forebay: app-0.pfw, app-1.pfw, app-2.pfw and 45 more: 96 skipped: lines that are no "
            "JSON\n");
  EXPECT_EQ(losses_text({}), "");
}

}  // namespace
}  // namespace forebay::cli

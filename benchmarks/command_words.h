// The words after a benchmark's name.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace forebay::bench {

inline bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

// A whole number of at least 1, and nothing else.
inline bool parse_count(const std::string& text, int& count) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return false;
  count = value;
  return true;
}

// What every benchmark takes.
struct RunSettings {
  bool is_smoke = false;
  int rounds = 7;
  std::string json{};
};

enum class Word { kTaken, kUnknown, kBadNumber };

// Reads words[i] where it is one of --smoke, --rounds N and --json FILE, and its value, at which i
// then stands.
inline Word take_word(const std::vector<std::string>& words, size_t& i, RunSettings& settings) {
  const bool has_value = i + 1 < words.size();
  if (words[i] == "--smoke") {
    settings.is_smoke = true;
  } else if (words[i] == "--rounds" && has_value) {
    if (!parse_count(words[++i], settings.rounds)) return Word::kBadNumber;
  } else if (words[i] == "--json" && has_value) {
    settings.json = words[++i];
  } else {
    return Word::kUnknown;
  }
  return Word::kTaken;
}

inline std::string complaint(Word word, const std::string& text) {
  return word == Word::kBadNumber ? text + " is no number of rounds" : "cannot take '" + text + "'";
}

// For programs that take a folder first and nothing else (`folder` not null), or nothing else at
// all: the code to end with at once, after --help or a word that is not understood.
inline std::optional<int> read_words(const std::string& program, int argc, char** argv,
                                     RunSettings& settings, std::string* folder = nullptr) {
  const std::string usage = "usage: " + program + (folder != nullptr ? " FOLDER" : "") +
                            " [--smoke] [--rounds N] [--json FILE]\n";
  const auto refuse = [&](const std::string& wrong) {
    std::fprintf(stderr, "%s: %s\n%s", program.c_str(), wrong.c_str(), usage.c_str());
    return 2;
  };
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (asks_for_help(words)) {
    std::fputs(usage.c_str(), stdout);
    return 0;
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const Word word = take_word(words, i, settings);
    if (word == Word::kTaken) continue;
    const bool is_folder = folder != nullptr && folder->empty() && !words[i].starts_with("-");
    if (word == Word::kBadNumber || !is_folder) return refuse(complaint(word, words[i]));
    *folder = words[i];
  }
  if (folder != nullptr && folder->empty()) return refuse("no folder");
  return std::nullopt;
}

}  // namespace forebay::bench

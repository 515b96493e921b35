// What the numbers in a recording's events stand for: texts, tracks, names, keys, frames, stacks.
// Ids count from 0 in the order of adding and never change.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/model.h"

namespace forebay::trace {

// Everything that has a number, by that number.
struct Dictionary {
  std::vector<std::string> texts;
  std::vector<Track> tracks;
  std::vector<Name> names;
  std::vector<Key> keys;
  std::vector<Frame> frames;
  std::vector<Stack> stacks;

  const std::string& text(TextId id) const { return texts[id]; }
  const std::string& text(const Name& name) const { return texts[name.text]; }
  const std::string& text(const Track& track) const { return texts[track.text]; }
};

// Longer texts are cut: traces of other tools name whole tensors.
inline constexpr size_t kTextBytesMax = 4096;

// Finds or adds. Equal things have one id; tracks are equal only when they are the same call's.
class DictionaryBuilder {
 public:
  DictionaryBuilder();

  TextId text(std::string_view text);
  TrackId add_track(const Track& track);
  NameId name(std::string_view text, Category category, EventKind kind = EventKind::kSpan);
  KeyId key(std::string_view text, ArgumentType type = ArgumentType::kInteger);
  FrameId frame(const Frame& frame);
  // `caller` is kNoId for the outermost frame.
  StackId stack(StackId caller, FrameId frame);

  // A thread's or process's name may become known later than its first event.
  void rename(TrackId track, std::string_view text);
  void set_rank(TrackId track, int32_t rank) { dictionary_.tracks[track].rank = rank; }

  const Dictionary& dictionary() const { return dictionary_; }

 private:
  struct TextHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  Dictionary dictionary_;
  std::unordered_map<std::string, TextId, TextHash, std::equal_to<>> texts_;
  std::unordered_map<uint64_t, NameId> names_;
  std::unordered_map<uint64_t, KeyId> keys_;
  std::unordered_multimap<uint64_t, FrameId> frames_;  // by hash
  std::unordered_map<uint64_t, StackId> stacks_;
};

}  // namespace forebay::trace

#include "trace/dictionary.h"

#include <utility>

namespace forebay::trace {

namespace {

// One number for two; both are below 2^32.
uint64_t pair_of(uint64_t high, uint64_t low) {
  return high << 32 | low;
}

// Cut between two characters, never inside one.
std::string_view shortened(std::string_view text) {
  if (text.size() <= kTextBytesMax) return text;
  size_t size = kTextBytesMax;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

uint64_t hash_of(const Frame& frame) {
  uint64_t hash = static_cast<uint64_t>(frame.kind);
  for (const uint64_t part : {uint64_t{frame.symbol}, uint64_t{frame.module},
                              uint64_t{frame.build_id}, frame.offset, uint64_t{frame.line}}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

DictionaryBuilder::DictionaryBuilder() {
  text("");
}

TextId DictionaryBuilder::text(std::string_view text) {
  text = shortened(text);
  if (const auto found = texts_.find(text); found != texts_.end()) return found->second;
  const auto id = static_cast<TextId>(dictionary_.texts.size());
  dictionary_.texts.emplace_back(text);
  texts_.emplace(dictionary_.texts.back(), id);
  return id;
}

TrackId DictionaryBuilder::add_track(const Track& track) {
  dictionary_.tracks.push_back(track);
  return static_cast<TrackId>(dictionary_.tracks.size() - 1);
}

void DictionaryBuilder::rename(TrackId track, std::string_view name) {
  dictionary_.tracks[track].text = text(name);
}

NameId DictionaryBuilder::name(std::string_view name, Category category, EventKind kind) {
  const TextId id = text(name);
  const uint64_t sort = static_cast<uint64_t>(category) << 8 | static_cast<uint64_t>(kind);
  const auto [found, is_new] =
      names_.emplace(pair_of(sort, id), static_cast<NameId>(dictionary_.names.size()));
  if (is_new) dictionary_.names.push_back({id, category, kind});
  return found->second;
}

KeyId DictionaryBuilder::key(std::string_view name, ArgumentType type) {
  const TextId id = text(name);
  const auto [found, is_new] = keys_.emplace(pair_of(static_cast<uint64_t>(type), id),
                                             static_cast<KeyId>(dictionary_.keys.size()));
  if (is_new) dictionary_.keys.push_back({id, type});
  return found->second;
}

FrameId DictionaryBuilder::frame(const Frame& frame) {
  const uint64_t hash = hash_of(frame);
  const auto [first, last] = frames_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (dictionary_.frames[at->second] == frame) return at->second;
  }
  const auto id = static_cast<FrameId>(dictionary_.frames.size());
  dictionary_.frames.push_back(frame);
  frames_.emplace(hash, id);
  return id;
}

StackId DictionaryBuilder::stack(StackId caller, FrameId frame) {
  const auto [found, is_new] =
      stacks_.emplace(pair_of(caller, frame), static_cast<StackId>(dictionary_.stacks.size()));
  if (is_new) dictionary_.stacks.push_back({caller, frame});
  return found->second;
}

}  // namespace forebay::trace

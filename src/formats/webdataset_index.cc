#include "formats/webdataset_index.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/tfrecord_stream.h"

namespace forebay::formats {
namespace {

constexpr size_t kNamed = 3;                               // examples in a problem
constexpr uint64_t kInputBytes = 64 * 1024;                // of a compressed file, at once
constexpr uint64_t kBehindEndBytes = 20 * kTarBlockBytes;  // what tar pads an archive to

// "__name__/...": what the library keeps to itself.
bool is_meta(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

// Counts things and names the first few.
struct Tally {
  uint64_t count = 0;
  std::vector<std::string> first;
  void add(std::string example) {
    if (count++ < kNamed) first.push_back(std::move(example));
  }
  std::string examples() const {
    std::string text;
    for (const std::string& example : first) text += (text.empty() ? "" : ", ") + example;
    return text + (count > first.size() ? ", ..." : "");
  }
};

// Puts members together into samples.
class SampleGrouper {
 public:
  void add(const TarMember& member) {
    const auto name = sample_name(member);
    if (!name) return leave_out(member);
    if (!is_open_ || name->key != key_) {
      finish_sample();
      key_ = name->key;
      is_open_ = true;
      extent_ = {member.header_offset, 0};
      if (!keys_.insert(std::hash<std::string_view>()(key_)).second) repeated_.add(key_);
    }
    if (!parts_.insert(name->part).second) doubled_.add(member.path);
    extent_.length = member.end_offset - extent_.offset;
  }

  void finish_sample() {
    if (!is_open_) return;
    const auto next = static_cast<uint32_t>(part_sets_.size());
    sets_.push_back(part_sets_.emplace(std::move(parts_), next).first->second);
    extents_.push_back(extent_);
    parts_.clear();
    is_open_ = false;
  }

  // The archive is cut or damaged behind the last member, in one of path `damaged` if that is
  // known. The sample that was under way counts when nothing of it can be missing: where the next
  // member is another's, or it has every part that the sample before it has.
  void finish_at_damage(std::string_view damaged) {
    const auto name = split_tar_path(damaged);
    const bool is_cut = name ? name->key == key_ : !is_usual_set();
    if (is_open_ && is_cut) {
      cut_ = key_;
      is_open_ = false;
    }
    finish_sample();
  }
  // That it left out.
  const std::string& cut_key() const { return cut_; }

  // `source` is asked for the names of samples that lack a part; null: they are not named.
  Result<FileIndex> take(ByteSource* source) {
    if (extents_.empty())
      return fail(ErrorCode::kCorruption, "no samples in it: members are named KEY.PART{}",
                  left_out_.count == 0 ? "" : "; left out: " + left_out_.examples());
    FileIndex index{.access = Access::kExtents, .sample_count = extents_.size()};
    FB_TRY(note_missing(source, index));
    note(index, repeated_, "keys come again behind other samples, and count as samples anew");
    note(index, doubled_, "members have the name of another part of their sample");
    note(index, left_out_, "members are no parts of samples");
    extents_.shrink_to_fit();
    index.extents = std::move(extents_);
    return index;
  }

 private:
  void leave_out(const TarMember& member) {
    if (member.kind == TarMember::Kind::kFolder || is_meta(member.path)) return;
    left_out_.add(member.kind == TarMember::Kind::kFile
                      ? member.path
                      : fmt::format("{} ({})", member.path, member.what));
  }

  static void note(FileIndex& index, const Tally& tally, std::string_view what) {
    if (tally.count > 0)
      index.problems.push_back(fmt::format("{} {}: {}", tally.count, what, tally.examples()));
  }

  bool is_usual_set() const {
    if (sets_.empty()) return false;  // nothing to compare with
    const auto known = part_sets_.find(parts_);
    return known != part_sets_.end() && known->second == sets_.back();
  }

  // Parts that most samples have, and the samples that do without.
  Status note_missing(ByteSource* source, FileIndex& index) {
    std::vector<uint64_t> samples_of(part_sets_.size());
    for (const uint32_t set : sets_) ++samples_of[set];
    std::map<std::string_view, uint64_t> samples_with;
    for (const auto& [parts, number] : part_sets_)
      for (const std::string& part : parts) samples_with[part] += samples_of[number];
    for (const auto& [part, count] : samples_with) {
      if (count == sets_.size() || count <= sets_.size() / 2) continue;
      std::vector<bool> lacks(part_sets_.size());
      for (const auto& [parts, number] : part_sets_)
        lacks[number] = !parts.contains(std::string(part));
      Tally tally;
      for (size_t i = 0; i < sets_.size(); ++i) {
        if (!lacks[sets_[i]]) continue;
        const bool is_named = source != nullptr && tally.count < kNamed;
        tally.add(is_named ? FB_TRY(key_at(*source, extents_[i].offset)) : fmt::format("#{}", i));
      }
      index.problems.push_back(fmt::format("{} of {} samples lack {}: {}", tally.count,
                                           sets_.size(), part, tally.examples()));
    }
    return {};
  }

  static Result<std::string> key_at(ByteSource& source, uint64_t offset) {
    TarWalker walker(source, {.bytes = 4 * kTarBlockBytes}, offset);
    const auto member = FB_TRY(walker.next());
    const auto name = member ? sample_name(*member) : std::nullopt;
    return name ? std::string(name->key) : fmt::format("at byte {}", offset);
  }

  bool is_open_ = false;
  std::string key_, cut_;
  Extent extent_;
  std::set<std::string> parts_;
  // What each sample has: a number for each different set.
  std::map<std::set<std::string>, uint32_t> part_sets_;
  std::vector<uint32_t> sets_;
  ExtentList extents_;
  std::unordered_set<size_t> keys_;  // hashes: enough for a warning
  Tally left_out_, repeated_, doubled_;
};

// The content of a gzip file from front to back: what lies before the last range asked for is gone.
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(ByteSource& over) : over_(over) {}
  uint64_t size() const override { return std::numeric_limits<int64_t>::max(); }

  Result<std::span<const std::byte>> at(uint64_t offset, uint64_t length) override {
    FB_TRY(skip_to(offset));
    while (held_.size() - front_ < length) FB_TRY(more());
    return std::span<const std::byte>(held_).subspan(front_, length);
  }
  // Reads on to the end, where the checksum is.
  Status finish() {
    while (input_ < over_.size()) {
      drop_all();
      FB_TRY(more());
    }
    return stream_.finish();
  }

 private:
  void drop_all() {
    begin_ += held_.size();
    held_.clear();
    front_ = 0;
  }
  Status skip_to(uint64_t offset) {
    if (offset < begin_ + front_)
      return fail(ErrorCode::kUnsupported, "byte {} is gone by", offset);
    while (offset - begin_ > held_.size()) {
      drop_all();
      FB_TRY(more());
    }
    front_ = offset - begin_;
    return {};
  }
  Status more() {
    const uint64_t bytes = std::min(kInputBytes, over_.size() - input_);
    if (bytes == 0)
      return fail(ErrorCode::kCorruption, "truncated at byte {} of what is compressed",
                  begin_ + held_.size());
    const auto piece = FB_TRY(over_.at(input_, bytes));
    input_ += bytes;
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(front_));
    begin_ += front_;
    front_ = 0;
    return stream_.append(piece, [this](std::span<const std::byte> plain) -> Status {
      held_.insert(held_.end(), plain.begin(), plain.end());
      return {};
    });
  }

  ByteSource& over_;
  InflatedStream stream_;
  uint64_t input_ = 0;  // compressed bytes taken
  uint64_t begin_ = 0;  // of held_, in what comes out
  uint64_t front_ = 0;  // of held_: what lies before it is done with
  std::vector<std::byte> held_;
};

// Archives that were put one behind the other end, for everybody, with the first of them.
Result<bool> has_more_behind(ByteSource& source, uint64_t end) {
  const uint64_t bytes = std::min(kBehindEndBytes, source.size() - end);
  const auto behind = FB_TRY(source.at(end, bytes));
  return std::any_of(behind.begin(), behind.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

std::optional<TarSampleName> split_tar_path(std::string_view path) {
  const size_t name = path.rfind('/') + 1;  // 0 without a folder
  const size_t dot = path.find('.', name);
  if (dot == std::string_view::npos || dot == name || dot + 1 == path.size()) return std::nullopt;
  if (is_meta(path)) return std::nullopt;
  return TarSampleName{path.substr(0, dot), base::to_lower(path.substr(dot + 1))};
}

std::optional<TarSampleName> sample_name(const TarMember& member) {
  if (member.kind != TarMember::Kind::kFile) return std::nullopt;
  return split_tar_path(member.path);
}

Result<FileIndex> index_tar(ByteSource& source, TarWindows windows) {
  TarWalker walker(source, windows);
  SampleGrouper grouper;
  std::optional<FileDamage> damage;
  while (!damage) {
    auto member = walker.next();
    if (!member.ok()) {
      if (member.error().code != ErrorCode::kCorruption) return member.error();
      damage = FileDamage{std::min(walker.offset(), source.size()), member.error().message};
    } else if (*member) {
      grouper.add(**member);
    } else if (!walker.has_end()) {
      damage = FileDamage{source.size(),
                          fmt::format("truncated at byte {}: the zeros that end an archive are "
                                      "missing",
                                      source.size())};
    } else {
      break;
    }
  }
  if (damage) grouper.finish_at_damage(walker.damaged_path());
  grouper.finish_sample();
  auto index = grouper.take(&source);
  if (!index.ok() && damage) return fail(ErrorCode::kCorruption, "{}", damage->what);
  if (!index.ok()) return index;
  if (damage && !grouper.cut_key().empty())
    damage->what += fmt::format(" (sample {} is cut)", grouper.cut_key());
  index->damage = std::move(damage);
  if (walker.has_end() && FB_TRY(has_more_behind(source, walker.offset())))
    index->problems.push_back(fmt::format(
        "more follows the end of the archive at byte {}, which nobody reads", walker.offset()));
  return index;
}

Result<FileIndex> index_tar_gz(ByteSource& source) {
  GzipSource plain(source);
  TarWalker walker(plain, {.bytes = kTarBlockBytes});
  SampleGrouper grouper;
  for (auto member = FB_TRY(walker.next()); member; member = FB_TRY(walker.next()))
    grouper.add(*member);
  grouper.finish_sample();
  FB_TRY(plain.finish());
  FileIndex index = FB_TRY(grouper.take(nullptr));
  index.access = Access::kTogether;
  index.extents = {};
  return index;
}

}  // namespace forebay::formats

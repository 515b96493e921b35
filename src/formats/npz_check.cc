// The directory at the end of the file is authoritative, but the bytes pass from the front. So
// members are followed by their local headers, and what was seen is compared with the directory in
// finish(). A verdict is given only when both agree on where the members lie; any other file is
// kUnsupported in passing, and reading it whole decides.
#include "formats/npz_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/crc.h"
#include "base/error.h"
#include "formats/inflate.h"
#include "formats/little_endian.h"
#include "formats/npy_check.h"
#include "formats/npz_members.h"
#include "formats/zip.h"

namespace forebay::formats {
namespace {

constexpr size_t kInflatePieceBytes = 64 * 1024;
constexpr size_t kMembersMax = 65536;              // more are not followed
constexpr uint64_t kDirectoryBytesMax = 16 << 20;  // kept for finish(); a longer one is not

// A member as it was seen to pass.
struct SeenMember {
  ZipMember local;     // as its local header says; sizes may be unknown
  uint32_t crc = 0;    // of the bytes that passed
  uint64_t bytes = 0;  // of them
  uint64_t compressed_bytes = 0;
  Status data;                              // why its deflate stream is invalid
  std::optional<Result<NpyHeader>> header;  // of array members
};

class NpzCheck : public StreamCheck {
 public:
  NpzCheck() : inflated_(kInflatePieceBytes) {}

  void begin(std::string_view path, uint64_t file_bytes) override {
    path_ = path;
    file_bytes_ = file_bytes;
    at_ = 0;
    payload_bytes_ = 0;
    state_ = State::kSignature;
    wanted_ = 4;
    held_.clear();
    tail_.clear();
    directory_.clear();
    members_.clear();
    lost_.clear();
    tail_offset_ = file_bytes - std::min<uint64_t>(file_bytes, kZipEndBytesMax);
  }

  void visit(std::span<const std::byte> piece) override {
    keep_tail(piece);
    while (!piece.empty()) {
      const size_t used = state_ == State::kStored      ? take_stored(piece)
                          : state_ == State::kDeflated  ? take_deflated(piece)
                          : state_ == State::kDirectory ? take_directory(piece)
                          : state_ == State::kLost      ? piece.size()
                                                        : take_held(piece);
      at_ += used;
      piece = piece.subspan(used);
    }
  }

  Status finish() override { return judge().context(path_); }
  uint64_t payload_bytes() const override { return payload_bytes_; }

 private:
  enum class State {
    kSignature,  // of the next member or of the directory
    kLocal,      // fixed part of a local header
    kNames,      // its name and extra fields
    kStored,
    kDeflated,
    kDescriptor,  // behind the data of a member whose header had no sizes
    kDirectory,
    kLost,  // the members cannot be followed any further
  };

  // The end of the file is copied, at most 64 KiB: it tells whether a directory exists at all.
  void keep_tail(std::span<const std::byte> piece) {
    if (at_ + piece.size() <= tail_offset_) return;
    if (tail_.size() >= kZipEndBytesMax) return;  // the file has grown; finish() says so
    const uint64_t skip = tail_offset_ > at_ ? tail_offset_ - at_ : 0;
    tail_.insert(tail_.end(), piece.begin() + static_cast<ptrdiff_t>(skip), piece.end());
  }

  // Collects a header of `wanted_` bytes, however the pieces cut it.
  size_t take_held(std::span<const std::byte> piece) {
    const size_t n = std::min(piece.size(), wanted_ - held_.size());
    held_.insert(held_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(n));
    if (held_.size() == wanted_) act_on_held(at_ + n);
    return n;
  }

  void act_on_held(uint64_t next) {
    switch (state_) {
      case State::kSignature: {
        const uint32_t signature = load_le<uint32_t>(held_.data());
        if (signature == kZipLocalSignature) {
          state_ = State::kLocal;
          wanted_ = kZipLocalBytes;
        } else if (signature == kZipCentralSignature || signature == kZipEndSignature ||
                   signature == kZip64EndSignature) {
          directory_offset_ = next - 4;
          directory_ = held_;
          state_ = State::kDirectory;
        } else {
          lose(fmt::format("no member at byte {}", next - 4));
        }
        return;
      }
      case State::kLocal:
        wanted_ = kZipLocalBytes + load_le<uint16_t>(&held_[26]) + load_le<uint16_t>(&held_[28]);
        state_ = State::kNames;
        if (held_.size() == wanted_) begin_member(next);
        return;
      case State::kDescriptor:
        return act_on_descriptor();
      default:
        begin_member(next);
    }
  }

  void begin_member(uint64_t data_offset) {
    const size_t name_bytes = load_le<uint16_t>(&held_[26]);
    SeenMember member;
    member.local =
        ZipMember{.name = std::string(reinterpret_cast<char*>(&held_[kZipLocalBytes]), name_bytes),
                  .flags = load_le<uint16_t>(&held_[6]),
                  .method = load_le<uint16_t>(&held_[8]),
                  .crc = load_le<uint32_t>(&held_[14]),
                  .compressed_bytes = load_le<uint32_t>(&held_[18]),
                  .bytes = load_le<uint32_t>(&held_[22]),
                  .header_offset = data_offset - wanted_};
    const auto extra = std::span<const std::byte>(held_).subspan(kZipLocalBytes + name_bytes);
    const bool has_descriptor = (member.local.flags & kZipFlagDescriptor) != 0;
    if (!apply_zip64(extra, member.local, false).ok())
      return lose("member " + member.local.name + ": zip64 field");
    if (members_.size() == kMembersMax) return lose("too many members");
    if ((member.local.flags & kZipFlagEncrypted) != 0 ||
        (member.local.method != kZipStored && member.local.method != kZipDeflated))
      return lose("member " + member.local.name + ": encryption or compression method");
    if (has_descriptor && member.local.method == kZipStored)
      return lose("member " + member.local.name + ": stored without its size");
    members_.push_back(std::move(member));
    left_ = has_descriptor ? UINT64_MAX : members_.back().local.compressed_bytes;
    collector_.begin();
    held_.clear();
    if (members_.back().local.method == kZipDeflated) {
      inflater_.begin(DeflateWrapper::kNone);
      state_ = State::kDeflated;
    } else {
      state_ = State::kStored;
    }
    if (left_ == 0) end_member();
  }

  size_t take_stored(std::span<const std::byte> piece) {
    const size_t n = std::min<uint64_t>(piece.size(), left_);
    see(piece.first(n));
    members_.back().compressed_bytes += n;
    left_ -= n;
    if (left_ == 0) end_member();
    return n;
  }

  size_t take_deflated(std::span<const std::byte> piece) {
    SeenMember& member = members_.back();
    std::span<const std::byte> input = piece.first(std::min<uint64_t>(piece.size(), left_));
    const size_t offered = input.size();
    while (member.data.ok() && !inflater_.is_done()) {
      std::span<std::byte> room(inflated_);
      const size_t before = input.size();
      member.data = inflater_.run(input, room);
      const size_t made = inflated_.size() - room.size();
      see(std::span<const std::byte>(inflated_).first(made));
      if (made == 0 && input.size() == before) break;
    }
    const bool has_descriptor = left_ == UINT64_MAX;
    if (has_descriptor) {
      // Without a size, only the end of the stream tells where the member ends.
      if (!member.data.ok()) {
        lose("member " + member.local.name + ": its end is not known");
        return piece.size();
      }
      member.compressed_bytes += offered - input.size();
      if (inflater_.is_done()) {
        const auto unread = inflater_.unread();
        member.compressed_bytes -= unread.size();
        end_member();
        state_ = State::kDescriptor;
        wanted_ = 16;
        held_.assign(unread.begin(), unread.end());
      }
      return offered - input.size();
    }
    // Bytes behind the end of the stream are still the member's; finish() reports them.
    if (inflater_.is_done() && member.data.ok() && (!input.empty() || !inflater_.unread().empty()))
      member.data = fail(ErrorCode::kCorruption, "bytes follow the end of its deflate stream");
    member.compressed_bytes += offered;
    left_ -= offered;
    if (left_ == 0) end_member();
    return offered;
  }

  // Signature, CRC and two sizes of 32 or 64 bits; which of them, only the values tell.
  void act_on_descriptor() {
    const SeenMember& member = members_.back();
    const bool is_wide = wanted_ == 24;
    const uint64_t compressed =
        is_wide ? load_le<uint64_t>(&held_[8]) : load_le<uint32_t>(&held_[8]);
    const uint64_t bytes = is_wide ? load_le<uint64_t>(&held_[16]) : load_le<uint32_t>(&held_[12]);
    if (load_le<uint32_t>(&held_[0]) == kZipDescriptorSignature &&
        load_le<uint32_t>(&held_[4]) == member.crc && compressed == member.compressed_bytes &&
        bytes == member.bytes) {
      expect_signature();
    } else if (is_wide) {
      lose("member " + member.local.name + ": its data descriptor does not fit");
    } else {
      wanted_ = 24;
    }
  }

  size_t take_directory(std::span<const std::byte> piece) {
    if (directory_.size() + piece.size() > kDirectoryBytesMax) {
      lose("a directory of more than 16 MiB");
      return piece.size();
    }
    directory_.insert(directory_.end(), piece.begin(), piece.end());
    return piece.size();
  }

  void see(std::span<const std::byte> bytes) {
    SeenMember& member = members_.back();
    member.crc = base::crc32(member.crc, bytes);
    member.bytes += bytes.size();
    collector_.visit(bytes);
  }

  void end_member() {
    SeenMember& member = members_.back();
    if (member.local.method == kZipDeflated && member.data.ok() && !inflater_.is_done())
      member.data = fail(ErrorCode::kCorruption, "its deflate stream has no end");
    if (is_array_member(member.local.name)) member.header = collector_.finish();
    expect_signature();
  }

  void expect_signature() {
    state_ = State::kSignature;
    wanted_ = 4;
    held_.clear();
  }

  void lose(std::string why) {
    lost_ = std::move(why);
    state_ = State::kLost;
    held_.clear();
  }

  Status judge();
  const SeenMember* find_seen(const ZipMember& member) const;
  static Status judge_member(const ZipMember& member, const SeenMember& seen);

  std::string path_;
  uint64_t file_bytes_ = 0;
  uint64_t at_ = 0;  // bytes seen
  uint64_t payload_bytes_ = 0;
  State state_ = State::kSignature;
  size_t wanted_ = 4;            // bytes that held_ must reach
  std::vector<std::byte> held_;  // a header that may come in pieces
  uint64_t left_ = 0;            // bytes of the member still to come; UINT64_MAX = not known
  std::vector<SeenMember> members_;
  NpyHeaderCollector collector_;
  Inflater inflater_;
  std::vector<std::byte> inflated_;
  uint64_t directory_offset_ = 0;
  std::vector<std::byte> directory_;  // the file from directory_offset_ on
  uint64_t tail_offset_ = 0;
  std::vector<std::byte> tail_;  // the file from tail_offset_ on
  std::string lost_;             // why the members could not be followed, or ""
};

Status NpzCheck::judge() {
  if (at_ != file_bytes_)
    return fail(ErrorCode::kCorruption, "truncated at byte {} of {}", at_, file_bytes_);
  if (at_ == 0) return fail(ErrorCode::kCorruption, "empty file");
  // Whichever reaches further back holds the other.
  const bool has_long_directory = state_ == State::kDirectory && directory_offset_ < tail_offset_;
  SpanSource source = has_long_directory ? SpanSource(directory_, directory_offset_)
                                         : SpanSource(tail_, tail_offset_);
  const ZipDirectory directory = FB_TRY(read_zip_directory(source));
  if (state_ != State::kDirectory)
    return fail(ErrorCode::kUnsupported, "cannot be checked in passing: {}",
                lost_.empty() ? "its members do not end where the directory starts" : lost_);
  if (directory.offset != directory_offset_ || directory.members.size() != members_.size())
    return fail(ErrorCode::kUnsupported,
                "cannot be checked in passing: its directory does not list what lies before it");
  const size_t sample = FB_TRY(sample_member(directory.members));
  for (const ZipMember& member : directory.members)
    if (find_seen(member) == nullptr)
      return fail(ErrorCode::kUnsupported,
                  "cannot be checked in passing: member {} has two different headers", member.name);
  for (const ZipMember& member : directory.members) {
    const SeenMember& seen = *find_seen(member);
    FB_TRY(judge_member(member, seen));
    if (!seen.header || seen.header->ok()) continue;
    const bool is_sample = &member == &directory.members[sample];
    if (!is_sample && seen.header->error().code == ErrorCode::kUnsupported) continue;
    return Status(seen.header->error()).context("member " + member.name);
  }
  payload_bytes_ = find_seen(directory.members[sample])->header->value().data_bytes;
  return {};
}

// The seen member that lies where `member` lies and claims to be the same.
const SeenMember* NpzCheck::find_seen(const ZipMember& member) const {
  const auto found = std::lower_bound(
      members_.begin(), members_.end(), member.header_offset,
      [](const SeenMember& seen, uint64_t offset) { return seen.local.header_offset < offset; });
  if (found == members_.end() || found->local.header_offset != member.header_offset ||
      found->local.name != member.name || found->local.method != member.method ||
      found->compressed_bytes != member.compressed_bytes)
    return nullptr;
  return &*found;
}

Status NpzCheck::judge_member(const ZipMember& member, const SeenMember& seen) {
  FB_TRY(check_zip_member(member));
  FB_TRY(Status(seen.data).context("member " + member.name));
  if (seen.bytes != member.bytes)
    return fail(ErrorCode::kCorruption, "member {}: inflates to {} bytes, not {}", member.name,
                seen.bytes, member.bytes);
  if (seen.crc != member.crc) return zip_crc_error(member, seen.crc);
  return {};
}

}  // namespace

std::unique_ptr<StreamCheck> make_npz_check() {
  return std::make_unique<NpzCheck>();
}

}  // namespace forebay::formats

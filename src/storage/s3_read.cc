#include "storage/s3_read.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "storage/changed.h"
#include "storage/s3_checksum.h"

namespace forebay::storage {
namespace {

constexpr int kRestartsMax = 4;  // of a read whose object is replaced again and again

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

}  // namespace

// Some of the read's bytes, by one request at a time.
class S3Read::Range final : public S3Call {
 public:
  explicit Range(S3Read& owner) : owner_(owner) {}

  // `start` counts from the read's first byte. A length of 0 asks for the object's size only.
  void reset(uint64_t start, uint64_t length, bool is_whole) {
    start_ = start;
    length_ = length;
    got_ = 0;
    is_whole_ = is_whole;
    trouble_ = Trouble::kNone;
  }
  uint64_t start() const { return start_; }
  uint64_t got() const { return got_; }
  uint64_t length() const { return length_; }
  bool is_sizing() const { return length_ == 0; }

 protected:
  S3Ask prepare() override;
  bool on_head(const HttpHead& head) override;
  bool on_body(std::span<const std::byte> piece) override;
  Verdict judge(Status& error) override;
  void finish(Status status) override;
  std::string name() const override { return std::string(owner_.read_.path); }

 private:
  enum class Trouble { kNone, kWrongRange, kIgnoredRange, kChanged, kOtherSize };
  uint64_t first_byte() const { return owner_.read_.offset + start_; }
  bool place(const HttpHead& head);

  S3Read& owner_;
  uint64_t start_ = 0;
  uint64_t length_ = 0;
  uint64_t got_ = 0;       // bytes that arrived, kept over tries
  uint64_t expected_ = 0;  // bytes that this answer brings
  uint64_t answer_got_ = 0;
  bool is_whole_ = false;  // the object from its first byte to its last
  Trouble trouble_ = Trouble::kNone;
  ContentSum sum_;
};

S3Ask S3Read::Range::prepare() {
  S3Ask ask;
  ask.key = owner_.client_.key_of(owner_.read_.path);
  trouble_ = Trouble::kNone;
  answer_got_ = 0;
  expected_ = 0;
  if (is_sizing()) {
    ask.method = "HEAD";
    return ask;
  }
  // Without an ETag nothing says that the rest would be of the same object; what a visitor has seen
  // cannot be taken back, and the object's length must do there.
  const bool is_seen = owner_.read_.visitor != nullptr && owner_.visited_ > start_;
  if (owner_.etag_.empty() && !is_seen) got_ = 0;
  if (is_whole_ && got_ == 0) {
    // Only an answer with the whole object carries its checksum.
    ask.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
    return ask;
  }
  ask.range = fmt::format("{}-{}", first_byte() + got_, first_byte() + length_ - 1);
  if (!owner_.etag_.empty()) ask.headers.emplace_back("if-match", owner_.etag_);
  return ask;
}

// Where the answer's bytes belong; false when they cannot be used.
bool S3Read::Range::place(const HttpHead& head) {
  const std::optional<ContentRange> range = content_range(head);
  const uint64_t wanted = first_byte() + got_;
  if (!range || (range->first != wanted && head.status == 206)) {
    trouble_ = Trouble::kWrongRange;
    return false;
  }
  if (range->first != wanted) {
    trouble_ = Trouble::kIgnoredRange;
    return false;
  }
  if (owner_.is_total_known_ && owner_.total_ != range->total) {
    trouble_ = Trouble::kChanged;
    return false;
  }
  owner_.total_ = range->total;
  owner_.is_total_known_ = true;
  const uint64_t end = std::min(range->total, first_byte() + length_);
  expected_ = end - std::min(end, wanted);
  if (head.status == 206 && range->count != expected_) trouble_ = Trouble::kWrongRange;
  const Read& read = owner_.read_;
  if (read.to_end && range->total != read.offset + read.length) trouble_ = Trouble::kOtherSize;
  return trouble_ == Trouble::kNone;
}

bool S3Read::Range::on_head(const HttpHead& head) {
  if (is_sizing()) {
    const std::optional<ContentRange> range = content_range(head);
    owner_.is_total_known_ = range.has_value();
    if (range) owner_.total_ = range->total;
    return true;
  }
  const std::string_view etag = head.field("etag");
  if (!owner_.etag_.empty() && etag != owner_.etag_) {
    trouble_ = Trouble::kChanged;
    return false;
  }
  if (!place(head)) return false;
  owner_.etag_ = etag;
  if (is_whole_ && got_ == 0) sum_.begin(head, owner_.client_.config().verify_md5);
  return true;
}

bool S3Read::Range::on_body(std::span<const std::byte> piece) {
  const uint64_t bytes = std::min<uint64_t>(piece.size(), expected_ - answer_got_);
  const std::span<const std::byte> mine = piece.first(bytes);
  if (is_whole_) sum_.add(mine);
  std::byte* destination = owner_.read_.destination;
  if (destination != nullptr) std::memcpy(destination + start_ + got_, mine.data(), bytes);
  got_ += bytes;
  answer_got_ += bytes;
  if (destination == nullptr) {
    owner_.visit(mine);
  } else {
    owner_.feed();
  }
  return bytes == piece.size();
}

S3Call::Verdict S3Read::Range::judge(Status& error) {
  const std::string_view path = owner_.read_.path;
  if (is_sizing()) {
    if (owner_.is_total_known_) return Verdict::kDone;
    error = fail(ErrorCode::kCorruption, "{}: the server does not say how long it is", path);
    return Verdict::kAgain;
  }
  switch (trouble_) {
    case Trouble::kOtherSize:  // S3Read::end() says how
      return Verdict::kDone;
    case Trouble::kChanged:
      error = fail(ErrorCode::kCorruption,
                   "{}: changed since it was indexed: it was replaced while it was read", path);
      return Verdict::kDone;
    case Trouble::kIgnoredRange:
      error = fail(ErrorCode::kUnsupported,
                   "{}: the server sends the whole object where bytes {} "
                   "and on were asked for: it knows no ranges",
                   path, first_byte() + got_);
      return Verdict::kDone;
    case Trouble::kWrongRange:
      error = fail(ErrorCode::kCorruption,
                   "{}: asked for bytes {} to {}, the server answered with others", path,
                   first_byte() + got_, first_byte() + length_ - 1);
      return Verdict::kAgain;
    case Trouble::kNone:
      break;
  }
  if (answer_got_ < expected_) {
    error = fail(ErrorCode::kIo, "{}: the answer was cut short: {} of {} bytes", path, answer_got_,
                 expected_);
    return Verdict::kAgain;
  }
  // Only of answers that began at the first byte: a resumed one is covered by its ETag.
  if (!is_whole_ || answer_got_ != got_ || sum_.is_right()) return Verdict::kDone;
  error = fail(ErrorCode::kCorruption, "{}: {}", path, sum_.problem());
  if (owner_.read_.visitor != nullptr) return Verdict::kDone;  // it has seen the wrong bytes
  got_ = 0;
  return Verdict::kAgain;
}

void S3Read::Range::finish(Status result) {
  if (status() == 416 && !is_sizing()) {
    owner_.is_size_wanted_ = true;
    owner_.is_total_known_ = false;  // it may have shrunk
    return owner_.range_done({}, false);
  }
  const bool is_changed = trouble_ == Trouble::kChanged || status() == 412;
  owner_.range_done(std::move(result), is_changed);
}

S3Read::S3Read(S3Client& client, std::function<void(S3Read&)> on_done)
    : client_(client), on_done_(std::move(on_done)) {}
S3Read::~S3Read() = default;

void S3Read::start(const Read& read) {
  read_ = read;
  out_ = {};
  out_.tag = read.tag;
  out_.started_ns = now_ns();
  out_.cpu_ns = -1;  // the loop's thread works for all reads at once
  restarts_ = 0;
  running_ = 0;
  range_count_ = 0;
  if (!is_inside(read.path)) {
    out_.status = outside_error(read.path);
    out_.ended_ns = now_ns();
    return on_done_(*this);
  }
  begin();
}

void S3Read::cancel() {
  for (size_t i = 0; i < range_count_; ++i) client_.cancel(*ranges_[i]);
  running_ = 0;
}

// A read without a destination is one stream: its bytes could wait nowhere for their turn.
void S3Read::plan() {
  const uint64_t step = read_.destination == nullptr ? UINT64_MAX : client_.config().range_bytes;
  range_count_ = read_.length <= step ? 1 : (read_.length + step - 1) / step;
  while (ranges_.size() < range_count_) ranges_.push_back(std::make_unique<Range>(*this));
  const bool is_whole = range_count_ == 1 && read_.offset == 0 && read_.to_end;
  for (size_t i = 0; i < range_count_; ++i) {
    const uint64_t start = i * (range_count_ == 1 ? 0 : step);
    ranges_[i]->reset(start, std::min(step, read_.length - start), is_whole);
  }
}

void S3Read::begin() {
  etag_.clear();
  is_total_known_ = false;
  is_size_wanted_ = false;
  is_changed_ = false;
  is_past_end_ = false;
  visited_ = 0;
  out_.status = {};
  plan();
  running_ = range_count_;
  for (size_t i = 0; i < range_count_; ++i) client_.start(*ranges_[i]);
}

void S3Read::visit(std::span<const std::byte> piece) {
  if (read_.visitor != nullptr && !piece.empty()) {
    const int64_t before = now_ns();
    read_.visitor->visit(piece);
    out_.visit_ns += now_ns() - before;
  }
  visited_ += piece.size();
}

// Shows the visitor what has arrived behind the last byte it saw.
void S3Read::feed() {
  if (read_.visitor == nullptr) return;
  for (size_t i = 0; i < range_count_; ++i) {
    const Range& range = *ranges_[i];
    const uint64_t have = range.start() + range.got();
    if (have > visited_ && range.start() <= visited_)
      visit({read_.destination + visited_, have - visited_});
    if (range.got() < range.length()) return;
  }
}

bool S3Read::may_restart() const {
  const bool is_seen = read_.visitor != nullptr && visited_ > 0;
  return is_changed_ && !is_seen && restarts_ < kRestartsMax;
}

void S3Read::range_done(Status status, bool is_changed) {
  --running_;
  if (!status.ok() && out_.status.ok()) {
    out_.status = std::move(status);
    is_changed_ = is_changed;
    // What the others would bring is of no use.
    for (size_t i = 0; i < range_count_; ++i) client_.cancel(*ranges_[i]);
    running_ = 0;
  }
  if (running_ > 0) return;
  for (size_t i = 0; i < range_count_; ++i) out_.retries += ranges_[i]->retries();
  if (may_restart()) {
    ++restarts_;
    ++out_.retries;
    return begin();
  }
  if (out_.status.ok() && is_size_wanted_ && !is_total_known_) {
    // Not a byte to read there; how long the object is, only a request of its own tells.
    range_count_ = 1;
    ranges_[0]->reset(0, 0, false);
    running_ = 1;
    return client_.start(*ranges_[0]);
  }
  end();
}

void S3Read::end() {
  for (size_t i = 0; i < range_count_; ++i) {
    out_.bytes += ranges_[i]->got();
    if (ranges_[i]->got() < ranges_[i]->length()) break;
  }
  const uint64_t end = read_.offset + read_.length;
  is_past_end_ = out_.status.ok() && is_total_known_ && !read_.to_end && total_ < end;
  if (is_past_end_ || (out_.status.ok() && is_total_known_ && read_.to_end && total_ != end))
    out_.status = changed_error(read_, total_);
  if (out_.status.ok() && out_.bytes != read_.length)
    out_.status =
        fail(ErrorCode::kCorruption,
             "{}: changed since it was indexed: it was replaced while it was read", read_.path);
  out_.ended_ns = now_ns();
  on_done_(*this);
}

}  // namespace forebay::storage

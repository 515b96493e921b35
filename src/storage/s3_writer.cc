#include "storage/s3_writer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "storage/s3_checksum.h"
#include "storage/s3_xml.h"

namespace forebay::storage {
namespace {

constexpr size_t kPartsMax = 10'000;
// Parts double in size after as many, so that the largest object there can be still fits.
constexpr size_t kPartsOfOneSize = 1000;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The body's checksum is what makes the server refuse bytes that were damaged on the way.
S3Ask put_of(const std::string& key, std::span<const std::byte> body) {
  S3Ask ask;
  ask.method = "PUT";
  ask.key = key;
  ask.body = body;
  ask.headers = {{"content-type", "application/octet-stream"}, {"content-md5", content_md5(body)}};
  return ask;
}

}  // namespace

class S3Writer::PartCall final : public S3Call {
 public:
  PartCall(std::string path, S3Ask ask, std::vector<std::byte> bytes, size_t number)
      : path_(std::move(path)), ask_(std::move(ask)), bytes_(std::move(bytes)), number_(number) {}

  Status wait() {
    base::MutexLock lock(mutex_);
    done_.wait(mutex_, std::stop_token(), [&]() FB_REQUIRES(mutex_) { return is_done_; });
    return std::move(status_);
  }
  const std::string& etag() const { return etag_; }
  size_t number() const { return number_; }
  std::vector<std::byte> take_bytes() { return std::move(bytes_); }

 protected:
  S3Ask prepare() override { return ask_; }
  bool on_head(const HttpHead& head) override {
    etag_ = head.field("etag");
    return true;
  }
  bool on_body(std::span<const std::byte> /*piece*/) override { return true; }
  Verdict judge(Status& error) override {
    if (!etag_.empty()) return Verdict::kDone;
    error = fail(ErrorCode::kIo, "{}: the server gave part {} no ETag", path_, number_);
    return Verdict::kAgain;
  }
  void finish(Status status) override {
    base::MutexLock lock(mutex_);
    status_ = std::move(status);
    is_done_ = true;
    done_.notify_all();  // under the lock: the waiter ends this object once it has it
  }
  std::string name() const override { return path_; }

 private:
  const std::string path_;
  const S3Ask ask_;
  std::vector<std::byte> bytes_;
  const size_t number_;
  std::string etag_;
  base::Mutex mutex_;
  base::CondVar done_;
  Status status_ FB_GUARDED_BY(mutex_);
  bool is_done_ FB_GUARDED_BY(mutex_) = false;
};

S3Writer::S3Writer(S3Client& client, std::string_view path)
    : client_(client), path_(path), key_(client.key_of(path)) {}

S3Writer::~S3Writer() {
  abort();
}

Status S3Writer::usable() const {
  if (is_published_) return fail(ErrorCode::kInvalidArgument, "{}: already published", path_);
  return failure_;
}

Status S3Writer::remember(Status status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

uint64_t S3Writer::part_bytes() const {
  return client_.config().part_bytes << (etags_.size() / kPartsOfOneSize);
}

Status S3Writer::append(std::span<const std::byte> bytes) {
  FB_TRY(usable());
  while (!bytes.empty()) {
    const uint64_t room = part_bytes() - buffer_.size();
    const auto piece = bytes.first(std::min<uint64_t>(room, bytes.size()));
    buffer_.insert(buffer_.end(), piece.begin(), piece.end());
    bytes = bytes.subspan(piece.size());
    bytes_ += piece.size();
    // A file of exactly one part is one PUT still: the part leaves when more comes.
    if (buffer_.size() == part_bytes() && !bytes.empty()) FB_TRY(remember(send_part()));
  }
  return {};
}

Status S3Writer::patch(uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) {
  return fail(ErrorCode::kUnsupported, "{}: an object store takes no changes to what was sent",
              path_);
}

Status S3Writer::sync() {
  FB_TRY(usable());
  return remember(wait_for_parts(0));
}

Status S3Writer::begin_upload() {
  S3Ask ask;
  ask.method = "POST";
  ask.key = key_;
  ask.query = {{"uploads", ""}};
  ask.headers = {{"content-type", "application/octet-stream"}};
  std::string id;
  const S3Client::Check parse = [&](const S3Answer& answer) -> Status {
    id = FB_TRY(parse_upload_id(answer.body));
    return {};
  };
  FB_TRY(client_.ask(std::move(ask), path_, parse));
  upload_id_ = id;
  return {};
}

Status S3Writer::send_part() {
  if (upload_id_.empty()) FB_TRY(begin_upload());
  if (etags_.size() == kPartsMax)
    return fail(ErrorCode::kResourceExhausted,
                "{}: more than {} parts: raise the storage option part_size", path_, kPartsMax);
  FB_TRY(wait_for_parts(static_cast<size_t>(client_.config().upload_parts) - 1));
  etags_.emplace_back();
  S3Ask ask = put_of(key_, buffer_);
  ask.query = {{"partNumber", std::to_string(etags_.size())}, {"uploadId", upload_id_}};
  // The vector's memory moves along; the span in `ask` stays right.
  parts_.push_back(
      std::make_unique<PartCall>(path_, std::move(ask), std::move(buffer_), etags_.size()));
  buffer_ = {};
  buffer_.reserve(part_bytes());
  PartCall* part = parts_.back().get();
  client_.loop().post([this, part] { client_.start(*part); });
  return {};
}

Status S3Writer::wait_for_parts(size_t count) {
  Status first;
  while (parts_.size() > count) {
    PartCall& part = *parts_.front();
    Status status = part.wait();
    client_.count_retries(part.retries());
    if (status.ok()) etags_[part.number() - 1] = part.etag();
    if (!status.ok() && first.ok()) first = std::move(status);
    parts_.erase(parts_.begin());
  }
  return first;
}

Status S3Writer::put_whole() {
  S3Ask ask = put_of(key_, buffer_);
  // Kept by servers that know it, for readers to check.
  ask.headers.emplace_back("x-amz-checksum-crc32c", content_crc32c(buffer_));
  FB_TRY(client_.ask(std::move(ask), path_));
  return {};
}

Status S3Writer::confirm(const Error& error) {
  S3Ask ask;
  ask.method = "HEAD";
  ask.key = key_;
  const Result<S3Answer> now = client_.ask(std::move(ask), path_);
  if (!now.ok()) return error;
  const auto range = content_range(now->head);
  const std::string suffix = "-" + std::to_string(etags_.size()) + "\"";
  // As long as ours and made of as many parts: the request whose answer was lost did its work.
  const bool is_ours = range && range->total == bytes_ && now->head.field("etag").ends_with(suffix);
  if (is_ours) return {};
  return error;
}

Status S3Writer::complete() {
  const std::string xml = complete_upload_xml(etags_);
  S3Ask ask;
  ask.method = "POST";
  ask.key = key_;
  ask.query = {{"uploadId", upload_id_}};
  ask.headers = {{"content-type", "application/xml"}};
  ask.body = bytes_of(xml);
  ask.is_slow = true;
  const Result<S3Answer> answer =
      client_.ask(std::move(ask), path_, [](const S3Answer& got) -> Status {
        // The status was sent before the work was done; what became of it stands in the body.
        const auto problem = parse_server_error(got.body);
        if (problem)
          return fail(ErrorCode::kIo, "the upload was not completed: {}: {}", problem->code,
                      problem->message);
        return expect_root(got.body, "CompleteMultipartUploadResult");
      });
  if (!answer.ok()) return confirm(answer.error());
  return {};
}

Status S3Writer::publish() {
  FB_TRY(usable());
  Status status;
  if (upload_id_.empty()) {
    status = put_whole();
  } else {
    if (!buffer_.empty()) status = send_part();
    const Status parts = wait_for_parts(0);
    if (status.ok()) status = parts;
    if (status.ok()) status = complete();
  }
  FB_TRY(remember(std::move(status)));
  is_published_ = true;
  buffer_ = {};
  return {};
}

void S3Writer::abort() {
  wait_for_parts(0).ignore("the upload is given up anyway");
  if (upload_id_.empty() || is_published_) return;
  S3Ask ask;
  ask.method = "DELETE";
  ask.key = key_;
  ask.query = {{"uploadId", upload_id_}};
  client_.ask(std::move(ask), path_).ignore("a rule of the bucket removes what is left behind");
}

}  // namespace forebay::storage

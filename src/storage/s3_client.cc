#include "storage/s3_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "storage/s3_xml.h"
#include "sys/process.h"

namespace forebay::storage {
namespace {

constexpr int kRedirectsMax = 5;
constexpr int kSlowFactor = 10;  // more patience for answers that take long to begin
constexpr size_t kErrorBodyMax = 64 << 10;
constexpr size_t kAnswerMax = 64 << 20;
constexpr size_t kWordsMax = 300;
constexpr int64_t kPauseMaxNs = 20'000'000'000;
constexpr int kTriesOfStrangers = 2;  // of a server that has never answered
constexpr int64_t kBriefNs = 1'000'000'000;

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// "bytes 0-99/1234".
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto first = number(text.substr(0, dash));
  const auto last = number(text.substr(dash + 1, slash - dash - 1));
  const auto total = number(text.substr(slash + 1));
  if (!first || !last || !total || *last < *first || *last >= *total) return std::nullopt;
  return ContentRange{.first = *first, .count = *last - *first + 1, .total = *total};
}

// A call whose caller waits.
class WaitingCall final : public S3Call {
 public:
  WaitingCall(S3Ask ask, std::string_view name, const S3Client::Check& check)
      : ask_(std::move(ask)), name_(name), check_(check) {}

  // kCancelled once `stop` is asked for.
  Status wait(S3Client& client, const std::stop_token& stop) {
    {
      base::MutexLock lock(mutex_);
      const auto is_done = [&]() FB_REQUIRES(mutex_) { return is_done_; };
      if (done_.wait(mutex_, stop, is_done)) return std::move(status_);
    }
    // Only the loop's thread knows whether the call is still under way.
    client.loop().post([&] {
      client.cancel(*this);
      base::MutexLock lock(mutex_);
      if (!is_done_) status_ = fail(ErrorCode::kCancelled, "{}: stopped", name_);
      is_left_ = true;
      done_.notify_all();  // under the lock, as in finish()
    });
    base::MutexLock lock(mutex_);
    done_.wait(mutex_, {}, [&]() FB_REQUIRES(mutex_) { return is_left_; });
    return std::move(status_);
  }
  S3Answer take_answer() { return std::move(answer_); }

 protected:
  S3Ask prepare() override {
    answer_ = {};
    return ask_;
  }
  bool on_head(const HttpHead& head) override {
    answer_.head = head;
    return true;
  }
  bool on_body(std::span<const std::byte> piece) override {
    is_endless_ = answer_.body.size() + piece.size() > kAnswerMax;
    if (is_endless_) return false;
    answer_.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return true;
  }
  Verdict judge(Status& error) override {
    if (is_endless_)
      error = fail(ErrorCode::kCorruption, "{}: the answer is larger than any should be", name_);
    if (is_endless_ || !check_) return Verdict::kDone;
    error = check_(answer_);
    if (!error.ok()) error = std::move(error).context(name_);
    return error.ok() ? Verdict::kDone : Verdict::kAgain;
  }
  void finish(Status status) override {
    base::MutexLock lock(mutex_);
    status_ = std::move(status);
    is_done_ = true;
    done_.notify_all();  // under the lock: the waiter ends this object once it has it
  }
  std::string name() const override { return name_; }

 private:
  const S3Ask ask_;
  const std::string name_;
  const S3Client::Check& check_;
  S3Answer answer_;
  bool is_endless_ = false;
  base::Mutex mutex_;
  base::CondVar done_;
  Status status_ FB_GUARDED_BY(mutex_);
  bool is_done_ FB_GUARDED_BY(mutex_) = false;
  bool is_left_ FB_GUARDED_BY(mutex_) = false;  // stopped, and the loop's thread knows
};

}  // namespace

std::optional<ContentRange> content_range(const HttpHead& head) {
  if (head.status == 206) return parse_content_range(head.field("content-range"));
  const auto length = number(head.field("content-length"));
  if (!length) return std::nullopt;
  return ContentRange{.first = 0, .count = *length, .total = *length};
}

// --- A call's answers ---

bool S3Call::head(const HttpHead& head) {
  head_ = head;
  client_->was_reached_ = true;
  if (head.status >= 200 && head.status < 300) return on_head(head);
  retry_after_ns_ = head.retry_after_seconds(sys::unix_seconds()) * 1'000'000'000;
  return true;
}

bool S3Call::body(std::span<const std::byte> piece) {
  if (head_.status >= 200 && head_.status < 300) return on_body(piece);
  const size_t room = kErrorBodyMax - error_body_.size();
  error_body_.append(reinterpret_cast<const char*>(piece.data()), std::min(room, piece.size()));
  return true;
}

void S3Call::end(HttpEnd how, const std::string& problem) {
  S3Client& client = *client_;
  if (how == HttpEnd::kWhole || how == HttpEnd::kRefused) return client.answered(*this);
  const Endpoint& endpoint = client.config().endpoint;
  Error error = fail(ErrorCode::kIo, "{}: {}",
                     client.names_server(*this) ? name() : name() + ": " + endpoint.text(),
                     client.without_secrets(problem));
  error.message += client.remedy_of(how);
  // Nobody has answered yet: the address is wrong, or the server is down, and waiting tells no
  // more. A connection that breaks may have met a server that was starting.
  const bool is_again =
      tries_ >= kTriesOfStrangers || now_ns() - begun_ns_ > client.config().backoff_ns + kBriefNs;
  const bool is_broken = how == HttpEnd::kNoTls || how == HttpEnd::kBroken;
  const bool is_down =
      !client.was_reached_ && (how == HttpEnd::kUnreachable || (is_broken && is_again));
  if (is_down || how == HttpEnd::kUntrusted || how == HttpEnd::kNotHttp || how == HttpEnd::kOther)
    return client.close(*this, error);
  client.retry(*this, std::move(error));
}

// --- The client ---

Result<std::unique_ptr<S3Client>> S3Client::open(const S3Config& config) {
  auto client = std::unique_ptr<S3Client>(new S3Client(config));
  HttpLoopOptions options{.connections = config.connections,
                          .connect_timeout_ns = config.connect_timeout_ns,
                          .ca_file = config.ca_file,
                          .is_proxied = !config.endpoint.is_loopback(),
                          .region = {},
                          .user = {},
                          .password = {}};
  if (!config.credentials.is_anonymous) {
    options.region = config.region;
    options.user = config.credentials.access_key_id;
    options.password = config.credentials.secret_access_key;
  }
  client->loop_ = FB_TRY(HttpLoop::open(options));
  return client;
}

S3Client::S3Client(const S3Config& config) : config_(config), random_(sys::fresh_seed()) {}

void S3Client::start(S3Call& call) {
  call.client_ = this;
  call.begun_ns_ = now_ns();
  call.tries_ = 0;
  call.retries_ = 0;
  call.redirects_ = 0;
  call.was_damaged_ = false;
  begin(call, 0);
}

void S3Client::cancel(S3Call& call) {
  loop_->cancel(call);
}

void S3Client::begin(S3Call& call, int64_t delay_ns) {
  if (call.redirect_url_.empty()) {
    call.ask_ = call.prepare();
    ++call.tries_;
    call.url_ = object_url(config_.endpoint, config_.is_path_style, config_.place.bucket,
                           call.ask_.key, call.ask_.query);
  } else {
    call.url_ = std::move(call.redirect_url_);
    call.redirect_url_.clear();
  }
  call.head_ = {};
  call.error_body_.clear();
  call.retry_after_ns_ = 0;
  HttpRequest request;
  request.method = call.ask_.method;
  request.url = call.url_;
  request.headers = call.ask_.headers;
  request.range = call.ask_.range;
  request.body = call.ask_.body;
  request.stall_timeout_ns = config_.stall_timeout_ns * (call.ask_.is_slow ? kSlowFactor : 1);
  if (!config_.credentials.is_anonymous) {
    // The body is vouched for by its Content-MD5, which is signed, not by a second hash of it.
    request.headers.emplace_back("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    if (!config_.credentials.session_token.empty())
      request.headers.emplace_back("x-amz-security-token", config_.credentials.session_token);
  }
  loop_->start(std::move(request), call, delay_ns);
}

void S3Client::close(S3Call& call, Status status) {
  if (!status.ok() && call.tries_ > 1) {
    Error error = std::move(status).error();
    const auto spent = static_cast<double>(now_ns() - call.begun_ns_) * 1e-9;
    error.message +=
        fmt::format(" (tried {} times in {})", call.tries_, base::format_seconds(spent));
    status = std::move(error);
  }
  call.finish(std::move(status));
}

int64_t S3Client::pause_ns(const S3Call& call) {
  if (call.retry_after_ns_ > 0) {
    // Not all of them in the same moment.
    return call.retry_after_ns_ +
           static_cast<int64_t>(random_.uniform() * static_cast<double>(config_.backoff_ns));
  }
  const int doublings = std::min(call.tries_ - 1, 20);
  const double longest =
      std::min(static_cast<double>(kPauseMaxNs), static_cast<double>(config_.backoff_ns) *
                                                     static_cast<double>(int64_t{1} << doublings));
  return static_cast<int64_t>(longest * (0.5 + 0.5 * random_.uniform()));
}

bool S3Client::names_server(const S3Call& call) const {
  return call.name().ends_with(" at " + config_.endpoint.text());
}

std::string S3Client::remedy_of(HttpEnd how) const {
  const Endpoint& endpoint = config_.endpoint;
  const std::string other =
      (endpoint.scheme == "http" ? "https://" : "http://") + endpoint.host + endpoint.base;
  if (how == HttpEnd::kUntrusted)
    return "; ca_file or AWS_CA_BUNDLE names further certificates to trust";
  if (how == HttpEnd::kNotHttp && endpoint.scheme == "http")
    return "; the server seems to speak TLS on this port: set endpoint=" + other;
  if (was_reached_) return "";
  if (how == HttpEnd::kNoTls)
    return "; the server does not speak TLS on this port: is it that of plain HTTP "
           "(endpoint=" +
           other + ")?";
  if (how == HttpEnd::kBroken && endpoint.scheme == "http")
    return "; if the server speaks TLS on this port, set endpoint=" + other;
  if (how == HttpEnd::kUnreachable) return "; is the server up, and is the endpoint right?";
  return "";
}

void S3Client::retry(S3Call& call, Error error) {
  const int64_t pause = pause_ns(call);
  const bool is_late = now_ns() + pause - call.begun_ns_ > config_.retry_time_ns;
  if (call.retry_after_ns_ > 0)
    error.message += fmt::format(
        "; the server asks for {} of patience (Retry-After){}",
        base::format_seconds(static_cast<double>(call.retry_after_ns_) * 1e-9),
        is_late
            ? fmt::format(", which ends after the {} of retry_time",
                          base::format_seconds(static_cast<double>(config_.retry_time_ns) * 1e-9))
            : "");
  if (is_late || call.tries_ >= config_.attempts_max) return close(call, std::move(error));
  ++call.retries_;
  call.redirects_ = 0;
  begin(call, pause);
}

bool S3Client::follow(S3Call& call) {
  const int status = call.head_.status;
  const std::string_view location = call.head_.field("location");
  const bool leads = (status == 307 || status == 302 || status == 308) && !location.empty();
  if (!leads || ++call.redirects_ > kRedirectsMax) return false;
  call.redirect_url_ = redirect_target(call.url_, location);
  if (call.redirect_url_.empty()) return false;
  begin(call, 0);
  return true;
}

void S3Client::answered(S3Call& call) {
  const int status = call.head_.status;
  if (status >= 200 && status < 300) {
    Status result;
    if (call.judge(result) == S3Call::Verdict::kDone) return close(call, std::move(result));
    return retry(call, std::move(result).error());
  }
  if (follow(call)) return;
  bool may_retry = false;
  Error error = error_of(call, may_retry);
  if (may_retry) return retry(call, std::move(error));
  close(call, std::move(error));
}

std::string S3Client::without_secrets(std::string text) const {
  const S3Credentials& keys = config_.credentials;
  for (const std::string* secret :
       {&keys.secret_access_key, &keys.session_token, &keys.access_key_id}) {
    if (secret->empty()) continue;
    for (size_t at = text.find(*secret); at != std::string::npos; at = text.find(*secret, at + 3))
      text.replace(at, secret->size(), "***");
  }
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (text.size() > kWordsMax) text.resize(kWordsMax);
  return text;
}

Error S3Client::error_of(S3Call& call, bool& may_retry) const {
  const int status = call.head_.status;
  const ServerError server = parse_server_error(call.error_body_).value_or(ServerError{});
  const std::string& code = server.code;
  // Names the bucket and the server, unless the call's own name does.
  const std::string where = names_server(call) ? ""
                                               : fmt::format(" s3://{} at {}", config_.place.bucket,
                                                             config_.endpoint.text());
  const std::string in = where.empty() ? "" : " (" + where.substr(1) + ")";
  const auto say = [&](ErrorCode kind, const std::string& text) {
    return fail(kind, "{}: {}", call.name(), text);
  };
  std::string words = fmt::format("{} {}", status, code.empty() ? "without a reason" : code);
  if (!server.message.empty()) words += ": " + server.message;
  words = without_secrets(words);

  const std::string region = without_secrets(
      std::string(server.region.empty() ? call.head_.field("x-amz-bucket-region") : server.region));
  const bool is_elsewhere = !region.empty() && region != config_.region;
  if (code == "NoSuchBucket")
    return say(ErrorCode::kNotFound, fmt::format("NoSuchBucket: there is no bucket{}",
                                                 where.empty() ? " of that name" : where));
  if (status == 404)
    return say(ErrorCode::kNotFound, where.empty() ? words : "No such object in" + where);
  // What nginx, Go's servers and others say in plain text.
  if (status == 400 && code.empty() && config_.endpoint.scheme == "http" &&
      base::to_lower(call.error_body_).find("https") != std::string::npos)
    return say(ErrorCode::kInvalidArgument,
               "the server wants TLS" + remedy_of(HttpEnd::kNotHttp) + in);
  if ((status == 301 || status == 400) && is_elsewhere)
    return say(ErrorCode::kInvalidArgument,
               fmt::format("the bucket{} lies in region {}, not {}: set region={}", where, region,
                           config_.region, region));
  if (code == "RequestTimeTooSkewed")
    return say(ErrorCode::kIo,
               fmt::format("the clock of this host is too far from the server's ({}): {}",
                           call.head_.field("date"), words));
  if (code == "SignatureDoesNotMatch")
    return say(ErrorCode::kInvalidArgument,
               fmt::format("{}: is the secret key right, and the region {}?{}", words,
                           config_.region, in));
  if (code == "InvalidAccessKeyId" || code == "ExpiredToken" || code == "InvalidToken")
    return say(ErrorCode::kInvalidArgument, words + in);
  if (status == 401 || status == 403)
    return say(ErrorCode::kIo, fmt::format("access denied: {}{}", words, in));
  if (status == 412 || status == 416)
    return say(ErrorCode::kCorruption, fmt::format("changed since it was indexed ({})", words));
  if (status >= 300 && status < 400)
    return say(ErrorCode::kIo, fmt::format("a redirect that leads nowhere: {}{}", words, in));
  may_retry = status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
              code == "RequestTimeout" || code == "SlowDown";
  // The bytes arrived other than they left; sent twice like that, something damages them for good.
  const bool is_damaged = code == "BadDigest" || code == "XAmzContentChecksumMismatch";
  if (is_damaged && call.ask_.method == "PUT" && !std::exchange(call.was_damaged_, true))
    may_retry = true;
  return say(status == 507 ? ErrorCode::kResourceExhausted : ErrorCode::kIo, words + in);
}

Result<S3Answer> S3Client::ask(S3Ask ask, std::string_view name, const Check& check,
                               const std::stop_token& stop) {
  WaitingCall call(std::move(ask), name, check);
  loop_->post([&] { start(call); });
  Status done = call.wait(*this, stop);
  count_retries(call.retries());
  FB_TRY(std::move(done));
  return call.take_answer();
}

}  // namespace forebay::storage

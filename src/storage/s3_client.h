// Requests to one bucket: signed, tried again where that may help, led to where a redirect says.
//
//   ask --prepare--> HttpLoop --head, body--> the call --judge--> done | again after a pause
//
// start() and cancel() are for the loop thread, ask() for any other thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/random.h"
#include "storage/http_loop.h"
#include "storage/s3_config.h"
#include "storage/store.h"

namespace forebay::storage {

// One request, without the server, the bucket and the signature.
struct S3Ask {
  std::string method = "GET";
  std::string key;  // whole, with the store's prefix; "" = the bucket itself
  QueryItems query;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string range;
  std::span<const std::byte> body;
  bool is_slow = false;  // the server may think long before its first byte
};

// Bytes first to last of total, from Content-Range or, of a whole answer, from Content-Length.
struct ContentRange {
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t total = 0;
};
// Nothing when the head does not say, or not in a way that makes sense.
std::optional<ContentRange> content_range(const HttpHead& head);

class S3Client;

// A request until it is over, with every try. Derive to say where the bytes go.
class S3Call : private HttpReceiver {
 public:
  ~S3Call() override = default;
  int retries() const { return retries_; }

 protected:
  // What to ask for, before every try: what came already need not come again.
  virtual S3Ask prepare() = 0;
  // Of an answer with a status of success; false ends the try, and judge() says what that means.
  virtual bool on_head(const HttpHead& /*head*/) { return true; }
  virtual bool on_body(std::span<const std::byte> piece) = 0;
  enum class Verdict { kDone, kAgain };
  // A whole answer, or one that on_head or on_body ended. kAgain asks for another try because of
  // `error`, which is the result when there is none left; else `error` is the result.
  virtual Verdict judge(Status& error) = 0;
  // The end; the client does not touch the call any more.
  virtual void finish(Status status) = 0;
  // What messages start with: the path in the store.
  virtual std::string name() const = 0;

  int status() const { return head_.status; }  // of the last answer; 0 before there is one

 private:
  friend class S3Client;
  bool head(const HttpHead& head) override;
  bool body(std::span<const std::byte> piece) override;
  void end(HttpEnd how, const std::string& problem) override;

  S3Client* client_ = nullptr;
  S3Ask ask_;
  HttpHead head_;
  std::string error_body_;
  std::string redirect_url_;
  std::string url_;
  int redirects_ = 0;
  int tries_ = 0;
  int retries_ = 0;
  bool was_damaged_ = false;  // the server has refused an upload whose checksum was wrong
  int64_t begun_ns_ = 0;
  int64_t retry_after_ns_ = 0;
};

// An answer that fits in memory.
struct S3Answer {
  HttpHead head;
  std::string body;
};

class S3Client {
 public:
  static Result<std::unique_ptr<S3Client>> open(const S3Config& config);

  const S3Config& config() const { return config_; }
  HttpLoop& loop() { return *loop_; }
  std::string key_of(std::string_view path) const {
    return config_.place.prefix + std::string(path);
  }

  void start(S3Call& call);
  void cancel(S3Call& call);

  // Waits for the answer, until `stop` is asked for. `check` looks at one with a status of success;
  // its error asks for another try.
  using Check = std::function<Status(const S3Answer&)>;
  Result<S3Answer> ask(S3Ask ask, std::string_view name, const Check& check = {},
                       const std::stop_token& stop = {});

  // New tries that no completion of a queue tells of: of ask(), and those that callers add.
  uint64_t other_retries() const { return other_retries_.load(std::memory_order_relaxed); }
  void count_retries(int retries) {
    other_retries_.fetch_add(static_cast<uint64_t>(retries), std::memory_order_relaxed);
  }

 private:
  friend class S3Call;
  explicit S3Client(const S3Config& config);
  void begin(S3Call& call, int64_t delay_ns);
  void retry(S3Call& call, Error error);
  void close(S3Call& call, Status status);
  void answered(S3Call& call);
  bool follow(S3Call& call);
  Error error_of(S3Call& call, bool& may_retry) const;
  // Whether what messages about the call start with says which server that is.
  bool names_server(const S3Call& call) const;
  // What to change, behind "; ", or "".
  std::string remedy_of(HttpEnd how) const;
  // Takes every secret out of a text that a server wrote.
  std::string without_secrets(std::string text) const;
  int64_t pause_ns(const S3Call& call);

  const S3Config config_;
  base::Random random_;
  std::atomic<uint64_t> other_retries_ = 0;  // a count; nothing else hangs on it
  bool was_reached_ = false;  // the loop thread's: an answer has come since the start
  std::unique_ptr<HttpLoop> loop_;
};

}  // namespace forebay::storage

// HTTP requests, hundreds at a time, by one thread: libcurl's multi interface on an epoll loop.
//
//   any thread --post--> loop thread: start --> waiting --> connection --> head, body, end
//
// post() is for any thread; everything else, and every call of a receiver, is on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forebay/result.h"

namespace forebay::storage {

struct HttpRequest {
  std::string method;  // "GET", "HEAD", "PUT", "POST", "DELETE"
  std::string url;     // encoded; its query is signed as it stands
  std::vector<std::pair<std::string, std::string>> headers;
  std::string range;                // "0-99"; "" = the whole
  std::span<const std::byte> body;  // must live until the end
  int64_t stall_timeout_ns = 0;     // without a byte in either direction
};

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string_view field(std::string_view name) const;      // "" when not there
  // What Retry-After asks for, in seconds or as a date; 0 without it or when that has passed. Dates
  // are taken by the server's clock, where the answer tells it, else by `unix_seconds`.
  int64_t retry_after_seconds(double unix_seconds) const;
};

enum class HttpEnd {
  kWhole,        // the answer is there, to its last byte as far as HTTP tells
  kUnreachable,  // no connection: refused, no such host, too slow to be made
  kBroken,       // the connection ended early, or the answer was cut short
  kStalled,      // no byte for too long
  kRefused,      // the receiver did not want it
  kUntrusted,    // TLS: the certificate is not to be trusted
  kNoTls,        // what was connected to does not answer as TLS asks
  kNotHttp,      // an answer that is no HTTP
  kOther,        // what another try would not mend
};

// Called from the loop. May start a new request in end(), not before.
class HttpReceiver {
 public:
  virtual ~HttpReceiver() = default;
  // The answer's head is complete; false ends the request as kRefused.
  virtual bool head(const HttpHead& head) = 0;
  virtual bool body(std::span<const std::byte> piece) = 0;
  // The last call for a request; `problem` says in words what went wrong.
  virtual void end(HttpEnd how, const std::string& problem) = 0;

 private:
  friend class HttpLoop;
  struct Transfer* transfer_ = nullptr;  // while it waits or runs
};

struct HttpLoopOptions {
  int connections = 1;  // at once; requests beyond wait
  int64_t connect_timeout_ns = 0;
  std::string ca_file;
  bool is_proxied = true;  // as http_proxy and its kin say
  // Signatures of version 4; without a region nothing is signed.
  std::string region, user, password;
};

class HttpLoop {
 public:
  static Result<std::unique_ptr<HttpLoop>> open(const HttpLoopOptions& options);
  // Ends requests under way without a call of their receivers.
  ~HttpLoop();

  void post(std::function<void()> task);

  // Starts after `delay_ns`, and once a connection is free. The receiver must live until end() or
  // cancel().
  void start(HttpRequest request, HttpReceiver& receiver, int64_t delay_ns = 0);
  // Nothing more is called for this receiver. Not from its own head() or body().
  void cancel(HttpReceiver& receiver);

 private:
  class Impl;
  explicit HttpLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::storage

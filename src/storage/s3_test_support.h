// A small S3 server for tests (tests/s3/fake_s3.py) as a process of its own.
//
// One thread. The process ends with the object, and with this process however that ends.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/test_folder.h"
#include "storage/http_loop.h"
#include "storage/store.h"
#include "storage/store_test_support.h"
#include "sys/file.h"

namespace forebay::storage {

// The server's process; fake_s3_process_test.cc starts it.
class FakeS3Process {
 public:
  explicit FakeS3Process(std::vector<std::string> arguments);
  ~FakeS3Process() { stop(); }
  FakeS3Process(const FakeS3Process&) = delete;
  FakeS3Process& operator=(const FakeS3Process&) = delete;
  void stop();
  const std::string& port() const { return port_; }

 private:
  int process_ = 0;
  sys::ScopedFd input_;  // its end is the server's end
  std::string port_;
};

class FakeS3 {
 public:
  static constexpr const char* kSecret = "secret/TEST+key";

  explicit FakeS3(std::vector<std::string> arguments = {})
      : is_tls_(!arguments.empty() && arguments[0] == "--tls"), process_(std::move(arguments)) {}

  void stop() { process_.stop(); }

  std::string endpoint() const {
    return fmt::format("{}://127.0.0.1:{}", is_tls_ ? "https" : "http", process_.port());
  }
  OptionValues hidden(OptionValues further = {}) const {
    OptionValues out = {{"endpoint", endpoint()},
                        {"access_key_id", "AKTEST"},
                        {"secret_access_key", kSecret},
                        {"region", "us-east-1"},
                        {"backoff", "5ms"}};
    for (auto& [key, value] : further) {
      std::erase_if(out, [&key = key](const auto& own) { return own.first == key; });
      out.emplace_back(key, value);
    }
    return out;
  }
  Result<std::unique_ptr<Store>> try_open(const std::string& place = "data/root",
                                          OptionValues further = {},
                                          const std::string& spec = "s3") const {
    return open_store(spec, "s3://" + place, hidden(std::move(further)));
  }
  std::unique_ptr<Store> open(const std::string& place = "data/root", OptionValues further = {},
                              const std::string& spec = "s3") const {
    auto store = try_open(place, std::move(further), spec);
    EXPECT_TRUE(store.ok()) << store.error().message;
    return std::move(store).take();
  }

  // A request without a signature; returns the answer's body.
  std::string plain(const std::string& method, const std::string& path,
                    const std::string& body) const {
    const auto loop = HttpLoop::open({.connections = 1,
                                      .connect_timeout_ns = 10'000'000'000,
                                      .ca_file = {},
                                      .is_proxied = false,
                                      .region = {},
                                      .user = {},
                                      .password = {}})
                          .take();
    Answer answer;
    loop->post([&] {
      HttpRequest request;
      request.method = method;
      request.url = endpoint() + path;
      request.body = std::as_bytes(std::span(body.data(), body.size()));
      request.stall_timeout_ns = 60'000'000'000;
      loop->start(std::move(request), answer);
    });
    answer.done.wait();
    return answer.text;
  }

  // See fake_s3.py; forgets the requests so far.
  void set_faults(const std::string& json) const { plain("PUT", "/_faults", json); }
  // "METHOD PATH?QUERY STATUS" of each request since.
  std::vector<std::string> requests() const {
    std::vector<std::string> out;
    std::string line;
    for (const char c : plain("GET", "/_log", "")) {
      if (c != '\n') {
        line += c;
      } else if (!line.empty()) {
        out.push_back(std::exchange(line, ""));
      }
    }
    return out;
  }

 private:
  class Answer final : public HttpReceiver {
   public:
    bool head(const HttpHead& /*head*/) override { return true; }
    bool body(std::span<const std::byte> piece) override {
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return true;
    }
    void end(HttpEnd how, const std::string& problem) override {
      EXPECT_EQ(how, HttpEnd::kWhole) << problem;
      done.count_down();
    }
    std::string text;
    std::latch done{1};
  };

  const bool is_tls_;
  FakeS3Process process_;
};

}  // namespace forebay::storage

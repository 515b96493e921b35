// The s3 store against a server that checks signatures and misbehaves when told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "base/clock.h"
#include "storage/s3_test_support.h"

extern char** environ;

namespace forebay::storage {

namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMiB = 1 << 20;

class S3Test : public testing::Test {
 protected:
  // Reads the whole file `path` of `size` bytes into `out`.
  Completion read(Store& store, const std::string& path, std::string& out,
                  PieceVisitor* visitor = nullptr) {
    const auto queue = store.open_queue({.depth = 2, .name = "test"}).take();
    return read_one(*queue, {.path = path,
                             .length = out.size(),
                             .destination = writable(out).data(),
                             .visitor = visitor,
                             .to_end = true});
  }

  FakeS3 server_;
};

// --- Signatures and names ---

TEST_F(S3Test, KeysWithOddLettersAreSignedListedAndRead) {
  const auto store = server_.open("data/pre fix/ü+%");
  const std::string paths[] = {"a b", "a+b", "100%", "ä/ö", "x=y&z",  "~tilde-_.", "%41",
                               "q?r", "s#t", "u;v",  "(w)", "a'b\"c", "<&>",       "tab\there"};
  for (const std::string& path : paths) {
    put(*store, path, "content of " + path);
    EXPECT_EQ(get(*store, path), "content of " + path);
    EXPECT_EQ(store->stat(path)->size, 11 + path.size());
  }
  std::vector<std::string> sorted(std::begin(paths), std::end(paths));
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(paths_of(store->list("").take()), sorted);
  for (const std::string& path : paths) EXPECT_TRUE(store->remove(path).ok()) << path;
}

TEST_F(S3Test, WrongCredentialsAreNamedAndNotRetried) {
  put(*server_.open(), "f", "x");
  server_.set_faults("[]");
  const auto wrong_secret = server_.open("data", {{"secret_access_key", "nonsense/secret"}});
  std::string out(1, '.');
  const Error refused = read(*wrong_secret, "root/f", out).status.error();
  EXPECT_EQ(refused.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("root/f"), HasSubstr("SignatureDoesNotMatch"),
                                     HasSubstr("is the secret key right"),
                                     Not(HasSubstr("nonsense")), Not(HasSubstr("tried"))));
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_THAT(wrong_secret->stat("root/f").error().message, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(wrong_secret->list("").error().message, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(write_file(*wrong_secret, "g", bytes_of("x")).error().message,
              HasSubstr("SignatureDoesNotMatch"));
  const auto wrong_key = server_.open("data", {{"access_key_id", "AKUNKNOWN"}});
  EXPECT_THAT(wrong_key->list("").error().message,
              AllOf(HasSubstr("InvalidAccessKeyId"), Not(HasSubstr("AKUNKNOWN"))));
  const auto anonymous = server_.open("data", {{"anonymous", "true"}});
  EXPECT_THAT(anonymous->list("").error().message, HasSubstr("AccessDenied"));
  EXPECT_THAT(server_.open("forbidden")->list("").error().message, HasSubstr("access denied"));
}

TEST_F(S3Test, WhatIsNotThereOrElsewhereIsSaid) {
  EXPECT_THAT(server_.open("missing")->list("").error().message,
              AllOf(HasSubstr("NoSuchBucket"), HasSubstr("s3://missing at http://127.0.0.1")));
  EXPECT_EQ(server_.open("missing")->list("").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(server_.open()->stat("none").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(server_.open("data", {{"region", "eu-west-1"}})->list("").error().message,
              HasSubstr("lies in region us-east-1, not eu-west-1: set region=us-east-1"));
  EXPECT_THAT(server_.open("elsewhere")->list("").error().message,
              HasSubstr("lies in region eu-west-3"));
}

TEST_F(S3Test, MessagesNameThePlaceAndTheServerOnce) {
  const auto count = [](const std::string& text, const std::string& what) {
    size_t times = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++times;
    return times;
  };
  const auto expect_once = [&](const Error& error, const std::string& place) {
    const std::string message = Status(error).context("s3://" + place).error().message;
    EXPECT_EQ(count(message, "s3://" + place), 1u) << message;
    EXPECT_EQ(count(message, server_.endpoint()), 1u) << message;
  };
  expect_once(server_.open("missing/p")->list("").error(), "missing/p");
  expect_once(server_.open("forbidden/p")->list("").error(), "forbidden/p");
  const auto store = server_.open("data/p", {{"max_attempts", "1"}});
  for (const char* fault : {R"([{"kind": "status", "status": 503}])", R"([{"kind": "reset"}])",
                            R"([{"kind": "cut_xml"}])"}) {
    server_.set_faults(fault);
    expect_once(store->list("").error(), "data/p");
  }
  server_.set_faults(R"([{"kind": "reset"}])");
  const std::string message = Status(store->stat("f").error()).context("f").error().message;
  EXPECT_EQ(count(message, "f: "), 1u) << message;
}

TEST_F(S3Test, AStoppedStoreAsksTheServerNothing) {
  const auto store = server_.open();
  put(*store, "f", "0123456789");
  server_.set_faults("[]");
  std::stop_source stop;
  store->set_stop(stop.get_token());
  stop.request_stop();
  std::string out(4, '-');
  EXPECT_EQ(store->read_at("f", 0, writable(out)).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(store->stat("f").error().code, ErrorCode::kCancelled);
  EXPECT_EQ(store->list("").error().code, ErrorCode::kCancelled);
  EXPECT_THAT(server_.requests(), testing::IsEmpty());
}

TEST_F(S3Test, AWrongClockIsNamed) {
  server_.set_faults(R"([{"kind": "status", "status": 403, "code": "RequestTimeTooSkewed"}])");
  EXPECT_THAT(server_.open()->list("").error().message, HasSubstr("the clock of this host"));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(S3Test, ServersThatAreDownAreSaidToBeAtOnce) {
  const auto store = server_.open();
  server_.stop();
  const int64_t start = base::monotonic_clock().now_ns();
  const Error error = store->list("").error();
  EXPECT_THAT(error.message, AllOf(HasSubstr("http://127.0.0.1"), HasSubstr("is the server up")));
  EXPECT_LT(base::monotonic_clock().now_ns() - start, 5'000'000'000);
}

TEST_F(S3Test, AServerThatDiesBetweenReadsIsTriedAgainAndThenNamed) {
  const auto store = server_.open("data", {{"max_attempts", "3"}});
  put(*store, "f", "x");
  server_.stop();
  std::string out(1, '.');
  const Completion done = read(*store, "f", out);
  EXPECT_EQ(done.status.error().code, ErrorCode::kIo);
  EXPECT_THAT(done.status.error().message, HasSubstr("tried 3 times"));
  EXPECT_EQ(done.retries, 2);
}

TEST_F(S3Test, AnonymousReadsPublicData) {
  const FakeS3 open_server({"--anonymous"});
  const auto store = open_server.open(
      "data", {{"anonymous", "true"}, {"access_key_id", ""}, {"secret_access_key", ""}});
  put(*store, "f", "public");
  EXPECT_EQ(get(*store, "f"), "public");
}

// --- Faults on the way ---

TEST_F(S3Test, BusyServersAreAskedAgainAndEveryTryIsCounted) {
  const auto store = server_.open();
  put(*store, "f", "content");
  for (const int status : {429, 500, 502, 503, 504}) {
    server_.set_faults(fmt::format(
        R"([{{"method": "GET", "kind": "status", "status": {}, "times": 2}}])", status));
    std::string out(7, '.');
    const Completion done = read(*store, "f", out);
    ASSERT_TRUE(done.status.ok()) << done.status.error().message;
    EXPECT_EQ(out, "content");
    EXPECT_EQ(done.retries, 2) << status;
    EXPECT_EQ(server_.requests().size(), 3u);
  }
  server_.set_faults(R"([{"kind": "status", "status": 503, "times": 100}])");
  std::string out(7, '.');
  const Completion done = read(*store, "f", out);
  EXPECT_THAT(done.status.error().message,
              AllOf(HasSubstr("503 SlowDown"), HasSubstr("tried 5 times")));
  EXPECT_EQ(server_.requests().size(), 5u);
  EXPECT_FALSE(store->list("").ok());
  server_.set_faults(R"([{"kind": "status", "status": 400, "code": "InvalidRequest"}])");
  EXPECT_THAT(read(*store, "f", out).status.error().message, HasSubstr("400 InvalidRequest"));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(S3Test, RetryAfterIsHonouredAndHoldsUpNobodyElse) {
  const auto store = server_.open();
  put(*store, "slow", "a");
  put(*store, "quick", "b");
  server_.set_faults(R"([{"method": "GET", "key": "data/root/slow", "kind": "status",
                          "status": 503, "retry_after": 1}])");
  const auto queue = store->open_queue({.depth = 4, .name = "test"}).take();
  const Read reads[] = {{.path = "slow", .length = 1, .tag = 1},
                        {.path = "quick", .length = 1, .tag = 2}};
  const int64_t start = base::monotonic_clock().now_ns();
  queue->submit(reads);
  Completion done;
  while (queue->reap({&done, 1}, {}) == 0) {
  }
  EXPECT_EQ(done.tag, 2u);
  EXPECT_LT(done.ended_ns - start, 1'000'000'000);
  while (queue->reap({&done, 1}, {}) == 0) {
  }
  EXPECT_EQ(done.tag, 1u);
  EXPECT_TRUE(done.status.ok());
  EXPECT_GE(done.ended_ns - start, 1'000'000'000);
}

TEST_F(S3Test, PatienceBeyondTheTimeAllowedIsNamedNotWaitedFor) {
  const auto store = server_.open();
  for (const char* asked : {R"("retry_after": 3600)", R"("retry_in": 3600)"}) {
    server_.set_faults(
        fmt::format(R"([{{"kind": "status", "status": 503, "times": 9, {}}}])", asked));
    const int64_t start = base::monotonic_clock().now_ns();
    const std::string message = store->list("").error().message;
    EXPECT_LT(base::monotonic_clock().now_ns() - start, 5'000'000'000);
    EXPECT_THAT(message, AllOf(HasSubstr("503 SlowDown"), HasSubstr("(Retry-After)"),
                               HasSubstr("retry_time")));
    EXPECT_EQ(server_.requests().size(), 1u);
  }
}

TEST_F(S3Test, RetryAfterMayBeADate) {
  const auto store = server_.open();
  put(*store, "f", "x");
  server_.set_faults(R"([{"kind": "status", "status": 503, "retry_in": 2}])");
  const int64_t start = base::monotonic_clock().now_ns();
  EXPECT_EQ(store->stat("f")->size, 1u);
  // Dates have whole seconds.
  EXPECT_GE(base::monotonic_clock().now_ns() - start, 900'000'000);
}

TEST_F(S3Test, RetriesEndWithTheTimeAllowed) {
  const auto store = server_.open("data/root", {{"max_attempts", "100"}, {"retry_time", "300ms"}});
  server_.set_faults(R"([{"kind": "status", "status": 503, "times": 1000}])");
  const int64_t start = base::monotonic_clock().now_ns();
  EXPECT_FALSE(store->list("").ok());
  EXPECT_LT(base::monotonic_clock().now_ns() - start, 3'000'000'000);
}

// Whatever breaks a body half-way, the read goes on where it was, and its visitor sees every byte
// once.
TEST_F(S3Test, BrokenBodiesAreContinuedNotTakenAsWhole) {
  const auto store = server_.open("data/root", {{"stall_timeout", "700ms"}});
  const std::string content = random_text(700'000);
  put(*store, "f", content);
  for (const char* kind : {"reset", "short", "stall", "wrong_range", "no_ranges"}) {
    for (const int bytes : {0, 1, 300'000, 699'999}) {
      server_.set_faults(fmt::format(
          R"([{{"method": "GET", "kind": "{}", "bytes": {}, "seconds": 3}}])", kind, bytes));
      std::string out(content.size(), '.');
      CollectingVisitor visitor;
      const Completion done = read(*store, "f", out, &visitor);
      ASSERT_TRUE(done.status.ok()) << kind << " " << done.status.error().message;
      EXPECT_TRUE(out == content) << kind << " " << bytes;
      EXPECT_TRUE(visitor.text() == content) << kind << " " << bytes;
      const bool is_harmless = std::string(kind).ends_with("ange") || *kind == 'n';
      EXPECT_EQ(done.retries, is_harmless ? 0 : 1) << kind;
    }
  }
  // One that never gets through.
  server_.set_faults(R"([{"method": "GET", "kind": "short", "bytes": 0, "times": 100}])");
  std::string out(content.size(), '.');
  EXPECT_FALSE(read(*store, "f", out).status.ok());
}

TEST_F(S3Test, AnswersAboutOtherBytesAreRefused) {
  const auto store = server_.open();
  put(*store, "f", random_text(100'000));
  std::string out(500, '.');
  const auto queue = store->open_queue({.depth = 1, .name = "test"}).take();
  const Read part{
      .path = "f", .offset = 100, .length = out.size(), .destination = writable(out).data()};
  server_.set_faults(R"([{"method": "GET", "kind": "wrong_range"}])");
  Completion done = read_one(*queue, part);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_EQ(done.retries, 1);
  server_.set_faults(R"([{"method": "GET", "kind": "wrong_range", "times": 100}])");
  EXPECT_THAT(read_one(*queue, part).status.error().message,
              HasSubstr("asked for bytes 100 to 599, the server answered with others"));
  server_.set_faults(R"([{"method": "GET", "kind": "no_ranges", "times": 100}])");
  EXPECT_THAT(read_one(*queue, part).status.error().message, HasSubstr("knows no ranges"));
}

TEST_F(S3Test, ContinuationsNoticeThatTheObjectWasReplaced) {
  const auto store = server_.open("data/root", {{"stall_timeout", "400ms"}, {"backoff", "1s"}});
  put(*store, "f", std::string(400'000, 'a'));
  server_.set_faults(R"([{"method": "GET", "kind": "reset", "bytes": 100000}])");
  // The break is followed by a pause of at least half a second, and meanwhile:
  std::string out(400'000, '.');
  CollectingVisitor visitor;
  std::jthread writer([&] {
    while (server_.requests().empty()) {
    }
    put(*server_.open(), "f", std::string(400'000, 'b'));
  });
  const Completion seen = read(*store, "f", out, &visitor);
  writer.join();
  EXPECT_EQ(seen.status.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(seen.status.error().message, HasSubstr("changed since it was indexed"));
}

TEST_F(S3Test, LongReadsAreRangesSideBySideInOrder) {
  const auto store = server_.open("data/root", {{"range", "64KiB"}});
  const std::string content = random_text(1'000'003);
  put(*store, "f", content);
  server_.set_faults(R"([{"method": "GET", "kind": "reset", "bytes": 10000, "times": 3}])");
  std::string out(content.size(), '.');
  CollectingVisitor visitor;
  const Completion done = read(*store, "f", out, &visitor);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_TRUE(out == content);
  EXPECT_TRUE(visitor.text() == content);
  EXPECT_EQ(done.retries, 3);
  EXPECT_EQ(server_.requests().size(), 16u + 3u);
}

TEST_F(S3Test, ChecksumsOfTheServerAreChecked) {
  const auto store = server_.open();
  put(*store, "f", "content");  // stored with its CRC32C
  server_.set_faults(R"([{"method": "GET", "kind": "flip"}])");
  std::string out(7, '.');
  Completion done = read(*store, "f", out);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_EQ(out, "content");
  EXPECT_EQ(done.retries, 1);
  server_.set_faults(R"([{"method": "GET", "kind": "flip", "times": 100}])");
  done = read(*store, "f", out);
  EXPECT_EQ(done.status.error().code, ErrorCode::kCorruption);
  EXPECT_THAT(done.status.error().message, HasSubstr("CRC32C"));
}

TEST_F(S3Test, AnEtagThatIsAnMd5IsCheckedWhenAsked) {
  const auto plain = server_.open();
  const auto store = server_.open("data/root", {{"verify", "md5"}});
  const std::string content = random_text(kMiB);
  put(*plain, "f.plain", content);
  server_.set_faults(R"([{"method": "GET", "kind": "flip", "times": 1}])");
  std::string out(content.size(), '.');
  const Completion done = read(*store, "f.plain", out);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_TRUE(out == content);
  EXPECT_EQ(done.retries, 1);
}

// --- Listing ---

TEST_F(S3Test, ListsMorePagesThanOne) {
  const auto store = server_.open();
  std::vector<std::string> expected;
  for (int i = 0; i < 250; ++i) {
    expected.push_back(fmt::format("d/{:04}", i));
    put(*store, expected.back(), "x");
  }
  server_.set_faults(R"([{"kind": "status", "status": 503}, {"kind": "cut_xml"}])");
  EXPECT_EQ(paths_of(store->list("").take()), expected);
  EXPECT_EQ(server_.requests().size(), 3u + 2u);
}

TEST_F(S3Test, FolderMarkersAreNoFiles) {
  const FakeS3 open_server({"--anonymous"});
  open_server.plain("PUT", "/data/root/", "");
  open_server.plain("PUT", "/data/root/sub/", "");
  open_server.plain("PUT", "/data/root/odd/", "bytes");
  open_server.plain("PUT", "/data/root/sub/a", "x");
  const auto store = open_server.open();
  const Listing listing = store->list("").take();
  EXPECT_THAT(paths_of(listing), ElementsAre("sub/a"));
  ASSERT_EQ(listing.skipped.size(), 1u);
  EXPECT_EQ(listing.skipped[0].path, "root/odd/");
}

// --- Writing ---

TEST_F(S3Test, LargeFilesGoUpInPartsAndWhole) {
  const auto store = server_.open("data/root", {{"part_size", "5MiB"}, {"upload_parts", "3"}});
  const std::string content = random_text(17 * kMiB + 5);
  server_.set_faults(R"([{"method": "PUT", "query": "partNumber=1", "kind": "flip", "times": 2}])");
  const auto writer = store->create("f").take();
  ASSERT_TRUE(writer->append(bytes_of(content)).ok());
  EXPECT_THAT(writer->publish().error().message, HasSubstr("BadDigest"));
  EXPECT_FALSE(writer->append(bytes_of("more")).ok());
  server_.set_faults(R"([{"method": "PUT", "kind": "status", "status": 500, "times": 2}])");
  const auto again = store->create("f").take();
  ASSERT_TRUE(again->append(bytes_of(content)).ok());
  ASSERT_TRUE(again->sync().ok());
  ASSERT_TRUE(again->publish().ok());
  EXPECT_TRUE(get(*store, "f") == content);
  const auto requests = server_.requests();
  EXPECT_THAT(requests, Contains(HasSubstr("partNumber=4")));
}

TEST_F(S3Test, UploadsThatAreNotPublishedAreTakenBack) {
  const auto store = server_.open("data/root", {{"part_size", "5MiB"}});
  server_.set_faults("[]");
  {
    const auto writer = store->create("f").take();
    ASSERT_TRUE(writer->append(bytes_of(random_text(11 * kMiB))).ok());
  }
  EXPECT_THAT(server_.requests(),
              Contains(testing::StartsWith("DELETE /data/root/f?uploadId=up%2B")));
  EXPECT_EQ(store->stat("f").error().code, ErrorCode::kNotFound);
}

TEST_F(S3Test, ACompletionThatFailsInItsBodyIsNoSuccess) {
  const auto store = server_.open("data/root", {{"part_size", "5MiB"}});
  const std::string content = random_text(6 * kMiB);
  server_.set_faults(
      R"([{"method": "POST", "query": "uploadId", "kind": "late_error", "times": 2}])");
  put(*store, "f", content);
  EXPECT_TRUE(get(*store, "f") == content);
  server_.set_faults(
      R"([{"method": "POST", "query": "uploadId", "kind": "late_error", "times": 100}])");
  const Status published = write_file(*store, "g", bytes_of(content));
  EXPECT_THAT(published.error().message, HasSubstr("InternalError"));
  EXPECT_EQ(store->stat("g").error().code, ErrorCode::kNotFound);
}

TEST_F(S3Test, PutsThatWereDamagedAreSentOnceMoreAndThenRefused) {
  const auto store = server_.open("data/root", {{"part_size", "5MiB"}, {"upload_parts", "1"}});
  server_.set_faults(R"([{"method": "PUT", "kind": "flip", "times": 100}])");
  EXPECT_THAT(write_file(*store, "f", bytes_of("x")).error().message,
              AllOf(HasSubstr("BadDigest"), HasSubstr("tried 2 times")));
  EXPECT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(store->stat("f").error().code, ErrorCode::kNotFound);
  for (const size_t bytes : {size_t{3}, size_t{6 * kMiB}}) {  // whole, and in parts
    const uint64_t before = store->other_retries();
    const std::string content = random_text(bytes);
    server_.set_faults(R"([{"method": "PUT", "kind": "flip"}])");
    put(*store, "f", content);
    EXPECT_TRUE(get(*store, "f") == content);
    EXPECT_EQ(store->other_retries(), before + 1) << bytes;
  }
}

TEST_F(S3Test, NewTriesOfListingsAndOfAllButQueuedReadsAreCounted) {
  const auto store = server_.open("data/root", {{"part_size", "5MiB"}}, "slow:latency=0s,over=s3");
  put(*store, "f", "content");
  std::string out(7, '.');
  const auto tries_of = [&](const std::string& method, const std::function<void()>& work) {
    const uint64_t before = store->other_retries();
    server_.set_faults(fmt::format(
        R"([{{"method": "{}", "kind": "status", "status": 503, "times": 2}}])", method));
    work();
    return store->other_retries() - before;
  };
  EXPECT_EQ(tries_of("GET", [&] { EXPECT_TRUE(store->list("").ok()); }), 2u);
  EXPECT_EQ(tries_of("HEAD", [&] { EXPECT_TRUE(store->stat("f").ok()); }), 2u);
  EXPECT_EQ(tries_of("GET",
                     [&] {
                       const auto into = std::as_writable_bytes(std::span(out));
                       EXPECT_TRUE(store->read_at("f", 0, into).ok());
                     }),
            2u);
  EXPECT_EQ(tries_of("PUT", [&] { put(*store, "g", random_text(6 * kMiB)); }), 2u);
  EXPECT_EQ(tries_of("GET", [&] { EXPECT_EQ(read(*store, "f", out).retries, 2); }), 0u);
}

// --- Redirects, as AIStore's proxies send them ---

TEST_F(S3Test, RedirectsAreFollowedAndSignedForTheirTarget) {
  const FakeS3 target;
  put(*target.open(), "f", "from the target");
  server_.set_faults(fmt::format(R"([{{"kind": "redirect", "location": "{}", "times": 100}}])",
                                 target.endpoint()));
  const auto store = server_.open();
  std::string out(15, '.');
  const Completion done = read(*store, "f", out);
  ASSERT_TRUE(done.status.ok()) << done.status.error().message;
  EXPECT_EQ(out, "from the target");
  EXPECT_EQ(done.retries, 0);
  EXPECT_THAT(paths_of(store->list("").take()), ElementsAre("f"));
  put(*store, "new name", "sent on");
  EXPECT_EQ(get(*target.open(), "new name"), "sent on");
  server_.set_faults(fmt::format(R"([{{"kind": "redirect", "location": "{}", "times": 100}}])",
                                 server_.endpoint()));
  EXPECT_THAT(read(*store, "f", out).status.error().message, HasSubstr("leads nowhere"));
}

// --- TLS ---

// A certificate for 127.0.0.1; false without the program that makes one.
bool make_certificate(const std::string& cert, const std::string& key) {
  const std::string command =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
      "subjectAltName=IP:127.0.0.1 -keyout " +
      key + " -out " + cert + " 2>/dev/null";
  return std::system(command.c_str()) == 0;
}

TEST_F(S3Test, CertificatesAreVerified) {
  const base::TestFolder folder("s3-tls");
  const std::string cert = folder / "cert.pem";
  const std::string key = folder / "key.pem";
  if (!make_certificate(cert, key)) GTEST_SKIP() << "no openssl program to make a certificate";
  const FakeS3 tls({"--tls", cert, key});
  const Error refused = tls.open()->list("").error();
  EXPECT_THAT(refused.message, AllOf(HasSubstr("certificate"), HasSubstr("ca_file")));
  const auto store = tls.open("data/root", {{"ca_file", cert}});
  put(*store, "f", "over TLS");
  EXPECT_EQ(get(*store, "f"), "over TLS");
}

TEST_F(S3Test, APortOfTheOtherSchemeIsNamedAtOnce) {
  const base::TestFolder folder("s3-scheme");
  const std::string cert = folder / "cert.pem";
  const std::string key = folder / "key.pem";
  if (!make_certificate(cert, key)) GTEST_SKIP() << "no openssl program to make a certificate";
  const FakeS3 tls({"--tls", cert, key});
  const auto other = [](std::string endpoint, const std::string& from, const std::string& to) {
    return endpoint.replace(0, from.size(), to);
  };
  const std::string https = other(server_.endpoint(), "http", "https");
  const std::string http = other(tls.endpoint(), "https", "http");
  for (const auto& [wrong, right] :
       {std::pair(https, server_.endpoint()), std::pair(http, tls.endpoint())}) {
    const auto store = server_.open("data/root", {{"endpoint", wrong}, {"backoff", "200ms"}});
    const std::string message = store->list("").error().message;
    EXPECT_LE(store->other_retries(), 1u) << message;
    EXPECT_THAT(message, AllOf(HasSubstr("TLS on this port"), HasSubstr("endpoint=" + right)));
  }
}

// --- Secrets ---

TEST_F(S3Test, SecretsStandInNoTextThatAUserSees) {
  const std::string token = "token+of/a==session";
  std::string all;
  const auto store = server_.open("data/root", {{"session_token", token}});
  all += store->describe();
  put(*store, "f", "x");
  for (const char* fault : {R"({"kind": "status", "status": 403, "code": "AccessDenied"})",
                            R"({"kind": "status", "status": 400, "code": "secret/TEST+key"})",
                            R"({"kind": "status", "status": 400, "code": "AKTEST"})",
                            R"({"kind": "cut_xml", "times": 100})"}) {
    server_.set_faults("[" + std::string(fault) + "]");
    all += store->list("").error().message;
  }
  const auto wrong = server_.open("data/root", {{"secret_access_key", "wrong/TEST+key"}});
  all += wrong->list("").error().message;
  all += open_store("s3:secret_access_key=secret/TEST+key", "s3://data").error().message;
  all += server_.try_open("data/root", {{"endpoint", "http://AKTEST:secret/TEST+key@host"}})
             .error()
             .message;
  all += server_.try_open("data/root", {{"access_key_id", "AKTEST\nX"}}).error().message;
  all += server_.try_open("data/root", {{"secret_access_key", ""}}).error().message;
  for (const auto* secret : {"secret/TEST+key", "wrong/TEST+key", token.c_str(), "AKTEST"})
    EXPECT_THAT(all, Not(HasSubstr(secret)));
  EXPECT_THAT(all, HasSubstr("***"));
}

}  // namespace
}  // namespace forebay::storage

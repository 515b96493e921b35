#include "storage/http_loop.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/poller.h"
#include "sys/thread.h"

namespace forebay::storage {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kTickMinNs = 5 * kNsPerMs;
constexpr int64_t kTickMaxNs = 500 * kNsPerMs;
constexpr long kReceiveBufferBytes = 256 << 10;
constexpr long kSendBufferBytes = 512 << 10;
constexpr long kNameCacheSeconds = 300;
constexpr size_t kFieldsMax = 200;

int64_t now_ns() {
  return base::monotonic_clock().now_ns();
}

// libcurl's global part, made once; it stays until the process ends.
bool is_curl_ready() {
  static const bool is_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return is_ready;
}

HttpEnd end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpEnd::kWhole;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_OPERATION_TIMEDOUT:  // only connecting has a time of its own
      return HttpEnd::kUnreachable;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_WEIRD_SERVER_REPLY:
      return HttpEnd::kBroken;
    case CURLE_WRITE_ERROR:
      return HttpEnd::kRefused;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpEnd::kUntrusted;
    case CURLE_SSL_CONNECT_ERROR:
      return HttpEnd::kNoTls;
    case CURLE_UNSUPPORTED_PROTOCOL:  // "HTTP/0.9": the schemes of the URLs are known
      return HttpEnd::kNotHttp;
    default:
      return HttpEnd::kOther;
  }
}

// Of a request that took too long to be connected: whether it hung behind the TCP connection.
bool hung_in_tls(CURL* easy) {
  curl_off_t connected_us = 0;
  const char* scheme = nullptr;
  curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_us);
  curl_easy_getinfo(easy, CURLINFO_SCHEME, &scheme);
  return connected_us > 0 && scheme != nullptr && base::to_lower(scheme) == "https";
}

// Seconds since 1970, or nothing for what is no date.
std::optional<int64_t> date_of(std::string_view text) {
  const time_t time = curl_getdate(std::string(text).c_str(), nullptr);
  if (time < 0) return std::nullopt;
  return int64_t{time};
}

}  // namespace

std::string_view HttpHead::field(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return {};
}

int64_t HttpHead::retry_after_seconds(double unix_seconds) const {
  constexpr int64_t kLongest = int64_t{100} * 365 * 86400;
  const std::string_view asked = field("retry-after");
  if (asked.empty()) return 0;
  if (asked.find_first_not_of("0123456789") == std::string_view::npos)
    return asked.size() > 10 ? kLongest
                             : std::min(kLongest, base::parse_int(asked).value_or(kLongest));
  const std::optional<int64_t> until = date_of(asked);
  if (!until) return 0;
  const int64_t now = date_of(field("date")).value_or(static_cast<int64_t>(unix_seconds));
  return std::clamp<int64_t>(*until - now, 0, kLongest);
}

// One request on its way through the loop.
struct Transfer {
  HttpReceiver* receiver = nullptr;
  HttpRequest request;
  CURL* easy = nullptr;  // while it has a connection
  curl_slist* headers = nullptr;
  HttpHead head;
  bool is_head_told = false;
  bool is_unwanted = false;  // head() said no
  int64_t due_ns = 0;        // of the start, while it is delayed
  int64_t moved_ns = 0;      // when bytes were last seen to move
  int64_t moved_bytes = 0;
  std::array<char, CURL_ERROR_SIZE> words{};
  enum class State { kDelayed, kWaiting, kActive } state = State::kWaiting;
  std::list<std::unique_ptr<Transfer>>::iterator place;
};

class HttpLoop::Impl {
 public:
  explicit Impl(const HttpLoopOptions& options) : options_(options) {}
  ~Impl();
  Status open();

  void post(std::function<void()> task);
  void start(HttpRequest request, HttpReceiver& receiver, int64_t delay_ns);
  void cancel(HttpReceiver& receiver);

 private:
  static size_t on_header(char* data, size_t size, size_t count, void* self);
  static size_t on_body(char* data, size_t size, size_t count, void* self);
  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* unused);
  static int on_timer(CURLM* multi, long timeout_ms, void* self);

  void run(const std::stop_token& stop);
  void run_posted();
  void start_due();
  void fill();
  void activate(Transfer& transfer);
  void prepare(Transfer& transfer);
  CURL* new_handle();
  void drive();
  void take_finished();
  void finish(Transfer& transfer, HttpEnd how, const std::string& problem);
  void release(Transfer& transfer);
  void find_stalled();
  int64_t time_to_sleep() const;

  const HttpLoopOptions options_;
  std::string signature_;  // for CURLOPT_AWS_SIGV4
  CURLM* multi_ = nullptr;
  std::unique_ptr<sys::Poller> poller_;
  std::vector<CURL*> idle_;  // handles ready for use
  std::list<std::unique_ptr<Transfer>> transfers_;
  std::list<std::unique_ptr<Transfer>> spare_;
  std::multimap<int64_t, Transfer*> delayed_;  // by the time they are due
  std::list<Transfer*> waiting_;
  std::vector<Transfer*> active_;
  int64_t curl_due_ns_ = std::numeric_limits<int64_t>::max();
  int64_t tick_due_ns_ = 0;

  base::Mutex mutex_;
  std::vector<std::function<void()>> posted_ FB_GUARDED_BY(mutex_);
  std::jthread thread_;
};

HttpLoop::Impl::~Impl() {
  if (thread_.joinable()) {
    thread_.request_stop();
    poller_->wake();
    thread_.join();
  }
  for (const auto& transfer : transfers_) {
    if (transfer->easy == nullptr) continue;
    curl_multi_remove_handle(multi_, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
  }
  for (CURL* easy : idle_) curl_easy_cleanup(easy);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

Status HttpLoop::Impl::open() {
  multi_ = is_curl_ready() ? curl_multi_init() : nullptr;
  if (multi_ == nullptr) return fail(ErrorCode::kResourceExhausted, "libcurl does not start");
  if (!options_.region.empty()) signature_ = "aws:amz:" + options_.region + ":s3";
  poller_ = FB_TRY(sys::Poller::open());
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Impl::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Impl::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections));
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  thread_ = FB_TRY(sys::start_thread("http", [this](std::stop_token stop) { run(stop); }));
  return {};
}

void HttpLoop::Impl::post(std::function<void()> task) {
  bool is_first = false;
  {
    base::MutexLock lock(mutex_);
    is_first = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (is_first) poller_->wake();
}

void HttpLoop::Impl::start(HttpRequest request, HttpReceiver& receiver, int64_t delay_ns) {
  FB_CHECK(receiver.transfer_ == nullptr);
  if (spare_.empty()) spare_.push_back(std::make_unique<Transfer>());
  transfers_.splice(transfers_.begin(), spare_, spare_.begin());
  Transfer& transfer = *transfers_.front();
  transfer.place = transfers_.begin();
  transfer.receiver = &receiver;
  transfer.request = std::move(request);
  receiver.transfer_ = &transfer;
  if (delay_ns > 0) {
    transfer.state = Transfer::State::kDelayed;
    transfer.due_ns = now_ns() + delay_ns;
    delayed_.emplace(transfer.due_ns, &transfer);
    return;
  }
  transfer.state = Transfer::State::kWaiting;
  waiting_.push_back(&transfer);
}

void HttpLoop::Impl::cancel(HttpReceiver& receiver) {
  if (receiver.transfer_ != nullptr) release(*receiver.transfer_);
}

void HttpLoop::Impl::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    run_posted();
    start_due();
    fill();
    drive();
    take_finished();
    if (now_ns() >= tick_due_ns_) find_stalled();
  }
}

void HttpLoop::Impl::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    base::MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) task();
}

void HttpLoop::Impl::start_due() {
  const int64_t now = delayed_.empty() ? 0 : now_ns();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    Transfer* transfer = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    transfer->state = Transfer::State::kWaiting;
    waiting_.push_back(transfer);
  }
}

void HttpLoop::Impl::fill() {
  while (!waiting_.empty() && active_.size() < static_cast<size_t>(options_.connections)) {
    Transfer* transfer = waiting_.front();
    waiting_.pop_front();
    activate(*transfer);
  }
}

CURL* HttpLoop::Impl::new_handle() {
  CURL* easy = curl_easy_init();
  if (easy == nullptr) return nullptr;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  // Keys may hold "/../" and "/./" as far as the server is concerned.
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kSendBufferBytes);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(std::max<int64_t>(1, options_.connect_timeout_ns / kNsPerMs)));
  curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, kNameCacheSeconds);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (!options_.is_proxied) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  if (!signature_.empty()) {
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, signature_.c_str());
    curl_easy_setopt(easy, CURLOPT_USERNAME, options_.user.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, options_.password.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Impl::on_header);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Impl::on_body);
  return easy;
}

void HttpLoop::Impl::prepare(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  CURL* easy = transfer.easy;
  const bool has_body = request.method == "PUT" || request.method == "POST";
  // Undoes what the request before asked for; forgetting a body makes it a POST, so that comes
  // first.
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, nullptr);
  curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, nullptr);
  if (request.method == "HEAD") curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (has_body) {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(
        easy, CURLOPT_POSTFIELDS,
        request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  }
  if (request.method == "PUT" || request.method == "DELETE")
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_RANGE, request.range.empty() ? nullptr : request.range.c_str());
  for (const auto& [name, value] : request.headers)
    transfer.headers = curl_slist_append(transfer.headers, (name + ": " + value).c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers);
  transfer.words[0] = '\0';
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.words.data());
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &transfer);
}

void HttpLoop::Impl::activate(Transfer& transfer) {
  transfer.state = Transfer::State::kActive;
  active_.push_back(&transfer);
  transfer.head = {};
  transfer.is_head_told = false;
  transfer.is_unwanted = false;
  transfer.moved_ns = now_ns();
  transfer.moved_bytes = 0;
  tick_due_ns_ =
      std::min(tick_due_ns_, transfer.moved_ns + std::clamp(transfer.request.stall_timeout_ns / 4,
                                                            kTickMinNs, kTickMaxNs));
  if (idle_.empty()) {
    transfer.easy = new_handle();
  } else {
    transfer.easy = idle_.back();
    idle_.pop_back();
  }
  if (transfer.easy == nullptr)
    return finish(transfer, HttpEnd::kOther, "no memory for another request");
  prepare(transfer);
  const CURLMcode code = curl_multi_add_handle(multi_, transfer.easy);
  if (code != CURLM_OK) finish(transfer, HttpEnd::kOther, curl_multi_strerror(code));
}

int64_t HttpLoop::Impl::time_to_sleep() const {
  int64_t due = curl_due_ns_;
  if (!delayed_.empty()) due = std::min(due, delayed_.begin()->first);
  if (!active_.empty()) due = std::min(due, tick_due_ns_);
  if (due == std::numeric_limits<int64_t>::max()) return -1;
  return std::max<int64_t>(0, due - now_ns());
}

void HttpLoop::Impl::drive() {
  std::array<sys::PollerEvent, 128> events;
  int running = 0;
  const size_t count = poller_->wait(events, time_to_sleep());
  for (size_t i = 0; i < count; ++i) {
    const int what = (events[i].is_readable ? CURL_CSELECT_IN : 0) |
                     (events[i].is_writable ? CURL_CSELECT_OUT : 0) |
                     (events[i].is_broken ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(multi_, events[i].fd, what, &running);
  }
  if (now_ns() < curl_due_ns_) return;
  curl_due_ns_ = std::numeric_limits<int64_t>::max();
  curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

void HttpLoop::Impl::take_finished() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Transfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    std::string words =
        transfer->words[0] != '\0' ? transfer->words.data() : curl_easy_strerror(code);
    HttpEnd how = end_of(code);
    if (code == CURLE_OPERATION_TIMEDOUT && hung_in_tls(message->easy_handle))
      how = HttpEnd::kNoTls;
    // An answer without a body never comes to the first byte of it.
    if (how == HttpEnd::kWhole && !transfer->is_head_told) {
      transfer->is_head_told = true;
      if (!transfer->receiver->head(transfer->head)) how = HttpEnd::kRefused;
    }
    finish(*transfer, how, words);
  }
}

void HttpLoop::Impl::finish(Transfer& transfer, HttpEnd how, const std::string& problem) {
  HttpReceiver& receiver = *transfer.receiver;
  release(transfer);
  receiver.end(how, problem);
}

void HttpLoop::Impl::release(Transfer& transfer) {
  transfer.receiver->transfer_ = nullptr;
  transfer.receiver = nullptr;
  if (transfer.state == Transfer::State::kWaiting) waiting_.remove(&transfer);
  if (transfer.state == Transfer::State::kDelayed) {
    const auto range = delayed_.equal_range(transfer.due_ns);
    for (auto at = range.first; at != range.second; ++at) {
      if (at->second != &transfer) continue;
      delayed_.erase(at);
      break;
    }
  }
  if (transfer.state == Transfer::State::kActive) {
    const auto found = std::find(active_.begin(), active_.end(), &transfer);
    *found = active_.back();
    active_.pop_back();
  }
  if (transfer.easy != nullptr) {
    curl_multi_remove_handle(multi_, transfer.easy);
    idle_.push_back(transfer.easy);
    transfer.easy = nullptr;
  }
  curl_slist_free_all(transfer.headers);
  transfer.headers = nullptr;
  spare_.splice(spare_.begin(), transfers_, transfer.place);
}

void HttpLoop::Impl::find_stalled() {
  const int64_t now = now_ns();
  int64_t next = now + kTickMaxNs;
  std::vector<Transfer*> stalled;
  for (Transfer* transfer : active_) {
    curl_off_t down = 0;
    curl_off_t up = 0;
    long head = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    curl_easy_getinfo(transfer->easy, CURLINFO_HEADER_SIZE, &head);
    const int64_t moved = down + up + head;
    if (moved != transfer->moved_bytes) {
      transfer->moved_bytes = moved;
      transfer->moved_ns = now;
    }
    const int64_t limit = transfer->request.stall_timeout_ns;
    if (now - transfer->moved_ns >= limit) stalled.push_back(transfer);
    next = std::min(next, now + std::clamp(limit / 4, kTickMinNs, kTickMaxNs));
  }
  tick_due_ns_ = next;
  for (Transfer* transfer : stalled) {
    // A receiver that ended just now may have cancelled its neighbours.
    if (std::find(active_.begin(), active_.end(), transfer) == active_.end()) continue;
    const double seconds = static_cast<double>(now - transfer->moved_ns) * 1e-9;
    finish(*transfer, HttpEnd::kStalled, fmt::format("no byte for {:.2g} s", seconds));
  }
}

size_t HttpLoop::Impl::on_header(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {
    transfer.head = {};
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view code = line.substr(space).substr(0, 4);
    for (const char c : base::trim(code))
      if (c >= '0' && c <= '9') transfer.head.status = transfer.head.status * 10 + (c - '0');
  } else {
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && transfer.head.fields.size() < kFieldsMax)
      transfer.head.fields.emplace_back(base::to_lower(base::trim(line.substr(0, colon))),
                                        std::string(base::trim(line.substr(colon + 1))));
  }
  return line.size();
}

size_t HttpLoop::Impl::on_body(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.receiver == nullptr) return 0;
  if (!transfer.is_head_told) {
    transfer.is_head_told = true;
    transfer.is_unwanted = !transfer.receiver->head(transfer.head);
  }
  if (transfer.is_unwanted) return 0;
  const size_t bytes = size * count;
  const bool is_wanted = transfer.receiver->body({reinterpret_cast<const std::byte*>(data), bytes});
  return is_wanted ? bytes : 0;
}

int HttpLoop::Impl::on_socket(CURL* /*easy*/, curl_socket_t fd, int what, void* self,
                              void* /*unused*/) {
  sys::Poller& poller = *static_cast<Impl*>(self)->poller_;
  if (what == CURL_POLL_REMOVE) {
    poller.forget(fd);
    return 0;
  }
  const bool for_reading = what == CURL_POLL_IN || what == CURL_POLL_INOUT;
  const bool for_writing = what == CURL_POLL_OUT || what == CURL_POLL_INOUT;
  return poller.watch(fd, for_reading, for_writing) == 0 ? 0 : -1;
}

int HttpLoop::Impl::on_timer(CURLM* /*multi*/, long timeout_ms, void* self) {
  auto& loop = *static_cast<Impl*>(self);
  loop.curl_due_ns_ =
      timeout_ms < 0 ? std::numeric_limits<int64_t>::max() : now_ns() + timeout_ms * kNsPerMs;
  return 0;
}

Result<std::unique_ptr<HttpLoop>> HttpLoop::open(const HttpLoopOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  FB_TRY(impl->open());
  return std::unique_ptr<HttpLoop>(new HttpLoop(std::move(impl)));
}

HttpLoop::HttpLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpLoop::~HttpLoop() = default;

void HttpLoop::post(std::function<void()> task) {
  impl_->post(std::move(task));
}
void HttpLoop::start(HttpRequest request, HttpReceiver& receiver, int64_t delay_ns) {
  impl_->start(std::move(request), receiver, delay_ns);
}
void HttpLoop::cancel(HttpReceiver& receiver) {
  impl_->cancel(receiver);
}

}  // namespace forebay::storage

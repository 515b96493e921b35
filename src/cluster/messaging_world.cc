#include "cluster/messaging_world.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/mutex.h"
#include "sys/thread.h"

namespace forebay::cluster {
namespace {

// The first byte of every message.
enum class Kind : char {
  kGather = 'g',    // to process 0, in step
  kAll = 'a',       // from process 0, in step
  kMeet = 'm',      // to process 0, in step: a moment
  kMet = 'M',       // from process 0, in step: the latest; whether clocks are measured now
  kPing = 'p',      // from process 0, answered at once
  kPong = 'P',      // in step: a moment
  kOffsets = 'o',   // from process 0, in step
  kFail = 'f',      // to all, at any time: code, cause
  kLast = 'l',      // to process 0, once
  kPost = 'n',      // to process 0, at any time
  kPatience = 'w',  // from process 0: it is waiting for somebody else
  kClose = 'c',     // to process 0, once
  kClosed = 'C',    // from process 0, once
};

// The first gather's words: a process of another version says so before anything else is read.
constexpr std::string_view kGreeting = "forebay world 1\n";
constexpr int kClockRounds = 12;
constexpr int64_t kListenNs = 50'000'000;
constexpr double kNano = 1e-9;

std::string with_kind(Kind kind, std::string_view bytes) {
  std::string message(1, static_cast<char>(kind));
  message += bytes;
  return message;
}

template <class T>
void append_number(std::string& bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

// 0 beyond the end: such a message comes from a process that is about to be refused.
template <class T>
T take_number(std::string_view& bytes) {
  T value{};
  if (bytes.size() < sizeof value) return value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    append_number<uint64_t>(bytes, text.size());
    bytes += text;
  }
  return bytes;
}

Result<std::vector<std::string>> unpack(std::string_view bytes, size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    const auto length = take_number<uint64_t>(bytes);
    if (length > bytes.size())
      return fail(ErrorCode::kCorruption, "process 0 sent an answer that ends early");
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

// Between two looks: at first yields, so that an answer within microseconds is seen at once, then
// sleeps ever longer, so that waiting costs next to nothing.
class Patience {
 public:
  Patience(base::Clock& clock, bool may_spin) : clock_(clock), looks_(may_spin ? 200 : 4) {}

  void pause(const std::stop_token& stop) {
    if (looks_ > 0) {
      --looks_;
      std::this_thread::yield();
      return;
    }
    clock_.sleep_until_ns(clock_.now_ns() + pause_ns_, stop);
    pause_ns_ = std::min<int64_t>(pause_ns_ * 3 / 2, 500'000);
  }

 private:
  base::Clock& clock_;
  int looks_;
  int64_t pause_ns_ = 20'000;
};

class MessagingWorld : public World {
 public:
  MessagingWorld(std::unique_ptr<Channel> channel, base::Clock& clock, MessagingOptions options)
      : channel_(std::move(channel)),
        clock_(clock),
        options_(std::move(options)),
        rank_(channel_->rank()),
        size_(channel_->size()),
        hosts_(static_cast<size_t>(size_), "?"),
        inbox_(static_cast<size_t>(size_)),
        last_(static_cast<size_t>(size_)),
        posted_(static_cast<size_t>(size_)),
        has_closed_(static_cast<size_t>(size_)),
        offsets_(static_cast<size_t>(size_)) {}

  ~MessagingWorld() override { end(false); }

  Status start(const std::stop_token& stop);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host_of(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }

  Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) override;
  Result<std::vector<std::string>> gather_at_first(std::string_view mine,
                                                   std::stop_token stop) override;
  Result<int64_t> meet(int64_t moment_ns, std::stop_token stop) override;
  Status measure_clocks(std::stop_token stop) override;
  ClockOffset clock_offset(int rank) const override {
    const base::MutexLock lock(mutex_);
    return offsets_[static_cast<size_t>(rank)];
  }

  void fail(const Error& cause) override;
  std::optional<Error> failure() const override {
    const base::MutexLock lock(mutex_);
    return failure_ ? std::optional<Error>(named_failure()) : std::nullopt;
  }
  std::stop_token failed() const override { return failed_.get_token(); }
  std::vector<std::optional<std::string>> last_words(std::string_view mine, double grace_seconds,
                                                     double quiet_seconds) override;
  void post(std::string_view news) override;
  std::vector<std::string> posted() const override {
    const base::MutexLock lock(mutex_);
    return posted_;
  }
  std::string waits_for(double seconds) const override;
  bool close(double grace_seconds) override;

 private:
  struct Entry {
    Kind kind;
    std::string bytes;
    int64_t came_ns;
  };

  bool is_hub() const { return rank_ == 0; }
  std::vector<int> others() const;
  Status send(int to, Kind kind, std::string_view bytes) FB_REQUIRES(mutex_) {
    return channel_->send(to, with_kind(kind, bytes));
  }
  Status send_locked(int to, Kind kind, std::string_view bytes) {
    const base::MutexLock lock(mutex_);
    return send(to, kind, bytes);
  }
  Status send_to_others(Kind kind, std::string_view bytes);
  // The error that every call in step returns from the first failure on.
  Status may_go_on() const {
    const base::MutexLock lock(mutex_);
    return failure_ ? Status(named_failure()) : Status();
  }
  Status pump() FB_REQUIRES(mutex_);
  Status take(int from, std::string_view message) FB_REQUIRES(mutex_);
  void take_failure(int from, std::string_view bytes) FB_REQUIRES(mutex_);
  void note_failure(const Error& cause) FB_REQUIRES(mutex_);
  // The same, and the others hear of it.
  void give_up(const Error& cause) FB_REQUIRES(mutex_);
  Error named_failure() const FB_REQUIRES(mutex_) {
    return {failure_->code, fmt::format("{}: {}", name_of(*this, failed_rank_), failure_->message)};
  }
  Result<std::vector<Entry>> await(const std::vector<int>& peers, Kind kind,
                                   const std::stop_token& stop);
  Status look(const std::vector<int>& peers, Kind kind, std::vector<std::optional<Entry>>& got)
      FB_REQUIRES(mutex_);
  static std::vector<int> missing_of(const std::vector<int>& peers,
                                     const std::vector<std::optional<Entry>>& got);
  std::string named(const std::vector<int>& ranks) const;
  void note_wait(int64_t since_ns, const std::vector<int>& peers,
                 const std::vector<std::optional<Entry>>& got) FB_REQUIRES(mutex_);
  bool pump_until(double seconds, const std::function<bool()>& done);
  void end(bool in_order);
  void listen(const std::stop_token& own);

  const std::unique_ptr<Channel> channel_;  // under mutex_ from start() on
  base::Clock& clock_;
  const MessagingOptions options_;
  const int rank_, size_;
  std::vector<std::string> hosts_;  // constant once open
  bool may_spin_ = false;           // constant once open
  bool is_open_ = false;            // the greetings are over; constant from then on

  mutable base::Mutex mutex_;
  // By process: what came of it and belongs to a call that every process makes.
  std::vector<std::deque<Entry>> inbox_ FB_GUARDED_BY(mutex_);
  std::vector<std::optional<std::string>> last_ FB_GUARDED_BY(mutex_);
  std::vector<std::string> posted_ FB_GUARDED_BY(mutex_);
  std::vector<bool> has_closed_ FB_GUARDED_BY(mutex_);
  bool is_closed_ FB_GUARDED_BY(mutex_) = false;  // process 0 said that all have closed
  bool has_ended_ FB_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ FB_GUARDED_BY(mutex_);
  int failed_rank_ FB_GUARDED_BY(mutex_) = 0;
  std::vector<ClockOffset> offsets_ FB_GUARDED_BY(mutex_);
  int64_t measured_ns_ FB_GUARDED_BY(mutex_) = 0;
  int64_t waits_since_ns_ FB_GUARDED_BY(mutex_) = 0;  // 0 = no call is waiting
  int64_t said_ns_ FB_GUARDED_BY(mutex_) = 0;         // when kPatience was last sent or came
  std::vector<int> missing_ FB_GUARDED_BY(mutex_);

  std::stop_source failed_;
  std::jthread listener_;
};

std::vector<int> MessagingWorld::others() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) ranks.push_back(rank);
  return ranks;
}

Status MessagingWorld::send_to_others(Kind kind, std::string_view bytes) {
  const base::MutexLock lock(mutex_);
  for (const int rank : others()) FB_TRY(send(rank, kind, bytes));
  return {};
}

// Takes what has come. Whoever waits does this; between calls the listener does.
Status MessagingWorld::pump() {
  while (!has_ended_) {
    Result<std::optional<Channel::Message>> next = channel_->receive();
    Status taken;
    if (!next.ok())
      taken = next.error();
    else if (!*next)
      return {};
    else
      taken = take((*next)->from, (*next)->bytes);
    if (taken.ok()) continue;
    // Process 0 may be the only one that sees another go.
    if (is_hub())
      give_up(taken.error());
    else if (!failure_)
      note_failure(taken.error());
    return taken;
  }
  return {};
}

Status MessagingWorld::take(int from, std::string_view message) {
  if (message.empty()) return forebay::fail(ErrorCode::kCorruption, "an empty message came");
  const Kind kind{message[0]};
  const std::string_view bytes = message.substr(1);
  const auto index = static_cast<size_t>(from);
  switch (kind) {
    case Kind::kFail:
      take_failure(from, bytes);
      return {};
    case Kind::kLast:
      last_[index] = bytes;
      return {};
    case Kind::kPost:
      posted_[index] = bytes;
      return {};
    case Kind::kPatience:
      said_ns_ = clock_.now_ns();
      return {};
    case Kind::kClose:
      has_closed_[index] = true;
      return {};
    case Kind::kClosed:
      is_closed_ = true;
      return {};
    case Kind::kPing: {
      std::string answer;
      append_number<int64_t>(answer, clock_.now_ns());
      return send(from, Kind::kPong, answer);
    }
    default:
      inbox_[index].push_back({kind, std::string(bytes), clock_.now_ns()});
      return {};
  }
}

void MessagingWorld::take_failure(int from, std::string_view bytes) {
  if (failure_) return;
  const auto code = static_cast<ErrorCode>(take_number<int32_t>(bytes));
  failure_ = Error{code, std::string(bytes)};
  failed_rank_ = from;
}

// Moves what has come of `kind` to `got`. A process elsewhere in the run is a bug or another
// version.
Status MessagingWorld::look(const std::vector<int>& peers, Kind kind,
                            std::vector<std::optional<Entry>>& got) {
  for (size_t i = 0; i < peers.size(); ++i) {
    std::deque<Entry>& inbox = inbox_[static_cast<size_t>(peers[i])];
    if (got[i] || inbox.empty()) continue;
    if (inbox.front().kind != kind)
      return forebay::fail(
          ErrorCode::kCorruption, "{} is at another place of the run ('{}', not '{}')",
          name_of(*this, peers[i]), static_cast<char>(inbox.front().kind), static_cast<char>(kind));
    got[i] = std::move(inbox.front());
    inbox.pop_front();
  }
  return {};
}

std::vector<int> MessagingWorld::missing_of(const std::vector<int>& peers,
                                            const std::vector<std::optional<Entry>>& got) {
  std::vector<int> missing;
  for (size_t i = 0; i < peers.size(); ++i)
    if (!got[i]) missing.push_back(peers[i]);
  return missing;
}

// The first few by name.
std::string MessagingWorld::named(const std::vector<int>& ranks) const {
  std::string text;
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < ranks.size() && i < kNamed; ++i)
    text += (i == 0 ? "" : ", ") + name_of(*this, ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text;
}

void MessagingWorld::note_wait(int64_t since_ns, const std::vector<int>& peers,
                               const std::vector<std::optional<Entry>>& got) {
  const int64_t now = clock_.now_ns();
  waits_since_ns_ = since_ns;
  const double waited = static_cast<double>(now - std::max(since_ns, said_ns_)) * kNano;
  if (waited < options_.patience_seconds) return;
  missing_ = missing_of(peers, got);
  if (!is_hub()) return;
  // Those that have come would otherwise take process 0 for the culprit.
  said_ns_ = now;
  for (size_t i = 0; i < peers.size(); ++i)
    if (got[i]) send(peers[i], Kind::kPatience, "").ignore("the next look reports it");
}

Result<std::vector<MessagingWorld::Entry>> MessagingWorld::await(const std::vector<int>& peers,
                                                                 Kind kind,
                                                                 const std::stop_token& stop) {
  std::vector<std::optional<Entry>> got(peers.size());
  const int64_t since = clock_.now_ns();
  Patience patience(clock_, may_spin_);
  while (true) {
    {
      const base::MutexLock lock(mutex_);
      const Status pumped = pump();
      FB_TRY(look(peers, kind, got));  // what came before somebody went counts
      const auto missing = std::count(got.begin(), got.end(), std::nullopt);
      if (missing == 0 || (is_open_ && failure_) || stop.stop_requested()) {
        waits_since_ns_ = 0;
        missing_.clear();
      }
      if (missing == 0) break;
      if (is_open_ && failure_) return named_failure();
      if (!pumped.ok()) return pumped.error();
      if (const double waited = static_cast<double>(clock_.now_ns() - since) * kNano;
          is_open_ && options_.wait_seconds_max > 0 && waited > options_.wait_seconds_max)
        return forebay::fail(ErrorCode::kIo, "waited {:.0f} seconds for {}", waited,
                             named(missing_of(peers, got)));
      if (stop.stop_requested())
        return forebay::fail(ErrorCode::kCancelled, "stopped while waiting for the others");
      note_wait(since, peers, got);
    }
    patience.pause(stop);
  }
  std::vector<Entry> entries;
  for (std::optional<Entry>& entry : got) entries.push_back(*std::move(entry));
  return entries;
}

Result<std::vector<std::string>> MessagingWorld::gather_at_first(std::string_view mine,
                                                                 std::stop_token stop) {
  if (is_open_) FB_TRY(may_go_on());
  if (!is_hub()) {
    FB_TRY(send_locked(0, Kind::kGather, mine));
    return std::vector<std::string>{};
  }
  std::vector<Entry> entries = FB_TRY(await(others(), Kind::kGather, stop));
  std::vector<std::string> texts{std::string(mine)};
  for (Entry& entry : entries) texts.push_back(std::move(entry.bytes));
  return texts;
}

Result<std::vector<std::string>> MessagingWorld::gather(std::string_view mine,
                                                        std::stop_token stop) {
  std::vector<std::string> texts = FB_TRY(gather_at_first(mine, stop));
  if (is_hub()) {
    FB_TRY(send_to_others(Kind::kAll, pack(texts)));
    return texts;
  }
  const std::vector<Entry> answer = FB_TRY(await({0}, Kind::kAll, stop));
  return unpack(answer[0].bytes, static_cast<size_t>(size_));
}

Result<int64_t> MessagingWorld::meet(int64_t moment_ns, std::stop_token stop) {
  FB_TRY(may_go_on());
  const int64_t offset = clock_offset(rank_).ns;
  int64_t latest = moment_ns - offset;
  bool measures = false;
  std::string bytes;
  if (is_hub()) {
    std::vector<Entry> entries = FB_TRY(await(others(), Kind::kMeet, stop));
    for (const Entry& entry : entries) {
      std::string_view rest = entry.bytes;
      latest = std::max(latest, take_number<int64_t>(rest));
    }
    {
      const base::MutexLock lock(mutex_);
      measures =
          static_cast<double>(clock_.now_ns() - measured_ns_) * kNano >= options_.clock_seconds;
    }
    append_number(bytes, latest);
    append_number<uint8_t>(bytes, measures ? 1 : 0);
    FB_TRY(send_to_others(Kind::kMet, bytes));
  } else {
    append_number(bytes, latest);
    FB_TRY(send_locked(0, Kind::kMeet, bytes));
    const std::vector<Entry> answer = FB_TRY(await({0}, Kind::kMet, stop));
    std::string_view rest = answer[0].bytes;
    latest = take_number<int64_t>(rest);
    measures = take_number<uint8_t>(rest) != 0;
  }
  if (measures) FB_TRY(measure_clocks(stop));
  return latest + offset;
}

// The exchange with the shortest round trip says most: its message cannot have waited long.
Status MessagingWorld::measure_clocks(std::stop_token stop) {
  FB_TRY(may_go_on());
  std::vector<ClockOffset> measured(static_cast<size_t>(size_));
  std::string bytes;
  for (int peer = 1; is_hub() && peer < size_; ++peer) {
    ClockOffset& best = measured[static_cast<size_t>(peer)];
    if (const int first = first_on_host(*this, peer); first != peer) {
      best = measured[static_cast<size_t>(first)];
      continue;
    }
    int64_t shortest = INT64_MAX;
    for (int round = 0; round < kClockRounds; ++round) {
      const int64_t asked = clock_.now_ns();
      FB_TRY(send_locked(peer, Kind::kPing, ""));
      const std::vector<Entry> answer = FB_TRY(await({peer}, Kind::kPong, stop));
      std::string_view rest = answer[0].bytes;
      const auto theirs = take_number<int64_t>(rest);
      const int64_t took = answer[0].came_ns - asked;
      if (took >= shortest) continue;
      shortest = took;
      best = {theirs - (asked + took / 2), (took + 1) / 2};
    }
  }
  if (is_hub()) {
    for (const ClockOffset& offset : measured) {
      append_number(bytes, offset.ns);
      append_number(bytes, offset.uncertainty_ns);
    }
    FB_TRY(send_to_others(Kind::kOffsets, bytes));
  } else {
    std::vector<Entry> answer = FB_TRY(await({0}, Kind::kOffsets, stop));
    std::string_view rest = answer[0].bytes;
    for (ClockOffset& offset : measured) {
      offset.ns = take_number<int64_t>(rest);
      offset.uncertainty_ns = take_number<int64_t>(rest);
    }
  }
  const base::MutexLock lock(mutex_);
  offsets_ = std::move(measured);
  measured_ns_ = clock_.now_ns();
  return {};
}

void MessagingWorld::note_failure(const Error& cause) {
  failure_ = cause;
  failed_rank_ = rank_;
}

void MessagingWorld::give_up(const Error& cause) {
  if (failure_ || has_ended_) return;
  note_failure(cause);
  std::string bytes;
  append_number<int32_t>(bytes, static_cast<int32_t>(cause.code));
  bytes += cause.message;
  for (const int rank : others()) send(rank, Kind::kFail, bytes).ignore("it may be gone itself");
}

void MessagingWorld::fail(const Error& cause) {
  const base::MutexLock lock(mutex_);
  give_up(cause);
}

// Looks until done() or the time is over; done() runs under the lock.
bool MessagingWorld::pump_until(double seconds, const std::function<bool()>& done) {
  const int64_t end = clock_.now_ns() + static_cast<int64_t>(seconds / kNano);
  Patience patience(clock_, may_spin_);
  while (true) {
    {
      const base::MutexLock lock(mutex_);
      if (has_ended_) return false;
      if (!pump().ok()) return false;
      if (done()) return true;
    }
    if (clock_.now_ns() >= end) return false;
    patience.pause({});
  }
}

std::vector<std::optional<std::string>> MessagingWorld::last_words(std::string_view mine,
                                                                   double grace_seconds,
                                                                   double quiet_seconds) {
  if (!is_hub()) {
    send_locked(0, Kind::kLast, mine).ignore("process 0 goes on without it");
    return {};
  }
  int64_t newest_ns = clock_.now_ns();
  std::ptrdiff_t missing_before = size_;
  pump_until(grace_seconds, [&]() FB_NO_THREAD_SAFETY_ANALYSIS {
    const auto missing = std::count(last_.begin() + 1, last_.end(), std::nullopt);
    const int64_t now = clock_.now_ns();
    if (missing < missing_before) newest_ns = now;
    missing_before = missing;
    return missing == 0 || static_cast<double>(now - newest_ns) * kNano >= quiet_seconds;
  });
  const base::MutexLock lock(mutex_);
  last_[0] = mine;
  return last_;
}

void MessagingWorld::post(std::string_view news) {
  const base::MutexLock lock(mutex_);
  posted_[static_cast<size_t>(rank_)] = news;
  if (!is_hub() && !has_ended_) send(0, Kind::kPost, news).ignore("the next one may arrive");
}

std::string MessagingWorld::waits_for(double seconds) const {
  const base::MutexLock lock(mutex_);
  if (waits_since_ns_ == 0 || missing_.empty()) return "";
  // What process 0 said last counts for the others; it has its own list.
  const int64_t since = is_hub() ? waits_since_ns_ : std::max(waits_since_ns_, said_ns_);
  if (static_cast<double>(clock_.now_ns() - since) * kNano < seconds) return "";
  return named(missing_);
}

bool MessagingWorld::close(double grace_seconds) {
  bool all_here = false;
  if (is_hub()) {
    all_here = pump_until(grace_seconds, [this]() FB_NO_THREAD_SAFETY_ANALYSIS {
      return std::count(has_closed_.begin() + 1, has_closed_.end(), false) == 0;
    });
    if (all_here) all_here = send_to_others(Kind::kClosed, "").ok();
  } else {
    all_here =
        send_locked(0, Kind::kClose, "").ok() &&
        pump_until(grace_seconds, [this]() FB_NO_THREAD_SAFETY_ANALYSIS { return is_closed_; });
  }
  const bool all_sent = pump_until(
      grace_seconds, [this]() FB_NO_THREAD_SAFETY_ANALYSIS { return !channel_->has_unsent(); });
  end(all_here && all_sent);
  return all_here && all_sent;
}

void MessagingWorld::end(bool in_order) {
  if (listener_.joinable()) {
    listener_.request_stop();
    listener_.join();
  }
  const base::MutexLock lock(mutex_);
  if (std::exchange(has_ended_, true)) return;
  channel_->close(in_order);
}

void MessagingWorld::listen(const std::stop_token& own) {
  while (clock_.sleep_until_ns(clock_.now_ns() + kListenNs, own)) {
    bool has_failed = false;
    {
      const base::MutexLock lock(mutex_);
      pump().ignore("it is the failure now");
      has_failed = failure_.has_value();
    }
    if (has_failed && !failed_.stop_requested()) failed_.request_stop();
  }
}

Status MessagingWorld::start(const std::stop_token& stop) {
  std::vector<std::string> greetings = FB_TRY(gather(std::string(kGreeting) + options_.host, stop));
  for (size_t i = 0; i < greetings.size(); ++i) {
    if (!std::string_view(greetings[i]).starts_with(kGreeting))
      return forebay::fail(ErrorCode::kUnsupported,
                           "rank {} runs another version of Forebay, which cannot be talked to", i);
    hosts_[i] = greetings[i].substr(kGreeting.size());
  }
  may_spin_ = std::count(hosts_.begin(), hosts_.end(), options_.host) <= options_.cpu_count;
  is_open_ = true;
  // Somebody may be here first and have failed already: that is for the next call to say.
  Status measured = measure_clocks(stop);
  if (!measured.ok() && !failure()) return measured;
  listener_ =
      FB_TRY(sys::start_thread("world", [this](const std::stop_token& own) { listen(own); }));
  return {};
}

}  // namespace

Result<std::unique_ptr<World>> open_messaging_world(std::unique_ptr<Channel> channel,
                                                    base::Clock& clock, MessagingOptions options,
                                                    std::stop_token stop) {
  auto world = std::make_unique<MessagingWorld>(std::move(channel), clock, std::move(options));
  FB_TRY(world->start(stop));
  return std::unique_ptr<World>(std::move(world));
}

}  // namespace forebay::cluster

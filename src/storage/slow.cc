#include "storage/slow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "storage/options.h"

namespace forebay::storage {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kSecondsPerHour = 3600;
// What is drawn from a long tail, and what a thin pipe adds up to, stays a time that can be told.
constexpr double kLongestDrawNs = 24 * kSecondsPerHour * kNsPerSecond;
constexpr int kDepthBelowMax = 32;  // that tuning gives the store below
constexpr int64_t kFarNs = int64_t{1} << 61;
constexpr double kNormalP99 = 2.3263478740408408;  // the 99th percentile of the normal distribution

constexpr std::string_view kShapes[] = {"constant", "uniform", "exponential", "lognormal"};
constexpr StoreOption kOptions[] = {
    {"over", "a store; with options of its own it must come last", "local",
     "the store that holds the bytes"},
    {"latency", "duration up to 1h", "5ms",
     "of each operation: exact (constant), middle (uniform), least (exponential), median "
     "(lognormal)"},
    {"distribution", "constant, uniform, exponential or lognormal", "constant", "of the latency"},
    {"jitter", "duration up to 1h", "0s",
     "uniform: most that is added or taken; exponential: mean of what is added"},
    {"p99", "duration up to 1h, above latency", "0s", "lognormal: 99 of 100 latencies are below"},
    {"bandwidth", "bytes per second; 0 = unlimited", "0", "of the whole store"},
    {"iops", "operations per second from one an hour; 0 = unlimited", "0", "of the whole store"},
    {"concurrency", "operations at once, 0..1000000; 0 = unlimited", "0", "of the whole store"},
    {"seed", "number", "1", "of the latencies"},
};

// Spends the time an operation would take on the calling thread.
class Waiter {
 public:
  explicit Waiter(SlowModel& model) : model_(model) {}
  // Until `stop` is asked for.
  void spend(uint64_t bytes, std::stop_token stop = {}) const {
    base::Clock& clock = base::monotonic_clock();
    clock.sleep_until_ns(model_.admit(clock.now_ns(), bytes).due_ns, std::move(stop));
  }

 private:
  SlowModel& model_;
};

class SlowWriter final : public Writer {
 public:
  SlowWriter(std::unique_ptr<Writer> over, Waiter waiter)
      : over_(std::move(over)), waiter_(waiter) {}
  Status append(std::span<const std::byte> bytes) override {
    waiter_.spend(bytes.size());
    return over_->append(bytes);
  }
  Status patch(uint64_t offset, std::span<const std::byte> bytes) override {
    waiter_.spend(bytes.size());
    return over_->patch(offset, bytes);
  }
  Status sync() override {
    waiter_.spend(0);
    return over_->sync();
  }
  Status publish() override {
    waiter_.spend(0);
    return over_->publish();
  }

 private:
  std::unique_ptr<Writer> over_;
  Waiter waiter_;
};

class SlowStore final : public Store {
 public:
  SlowStore(std::unique_ptr<Store> over, const SlowOptions& options)
      : over_(std::move(over)), model_(options), waiter_(model_) {}

  Capabilities capabilities() const override {
    Capabilities can = over_->capabilities();
    can.is_local = false;  // it stands for another storage: what this machine caches says nothing
    return can;
  }
  std::string describe() const override { return "slow:" + over_->describe(); }
  Result<Listing> list(std::string_view prefix) override {
    waiter_.spend(0, stop());
    FB_TRY(check_stop());
    return over_->list(prefix);
  }
  Result<FileInfo> stat(std::string_view path) override {
    waiter_.spend(0, stop());
    FB_TRY(check_stop());
    return over_->stat(path);
  }
  Result<std::unique_ptr<ReadQueue>> open_queue(QueueOptions options) override {
    // What is due is read at once: a far store's depth would only be idle threads below.
    QueueOptions below = options;
    below.depth_max = std::min(options.depth_max, kDepthBelowMax);
    std::unique_ptr<ReadQueue> inner = FB_TRY(over_->open_queue(below));
    return std::unique_ptr<ReadQueue>(std::make_unique<DelayedQueue>(
        std::move(inner),
        [this](const Read& read, int64_t now) { return model_.admit(now, read.length); }, options));
  }
  Result<size_t> read_at(std::string_view path, uint64_t offset,
                         std::span<std::byte> out) override {
    waiter_.spend(out.size(), stop());
    FB_TRY(check_stop());
    return over_->read_at(path, offset, out);
  }
  void set_stop(std::stop_token stop) override {
    over_->set_stop(stop);
    Store::set_stop(std::move(stop));
  }
  Status make_folder(std::string_view path) override {
    waiter_.spend(0);
    return over_->make_folder(path);
  }
  Status rename_folder(std::string_view from, std::string_view to) override {
    waiter_.spend(0);
    return over_->rename_folder(from, to);
  }
  Status link_file(std::string_view from, std::string_view to) override {
    waiter_.spend(0);
    return over_->link_file(from, to);
  }
  Result<std::shared_ptr<const void>> lock_file(std::string_view path, bool is_exclusive) override {
    waiter_.spend(0);
    return over_->lock_file(path, is_exclusive);
  }
  Status remove_folder(std::string_view path) override {
    waiter_.spend(0);
    return over_->remove_folder(path);
  }
  Result<std::unique_ptr<Writer>> create(std::string_view path) override {
    waiter_.spend(0);
    std::unique_ptr<Writer> writer = FB_TRY(over_->create(path));
    return std::unique_ptr<Writer>(std::make_unique<SlowWriter>(std::move(writer), waiter_));
  }
  Status remove(std::string_view path) override {
    waiter_.spend(0);
    return over_->remove(path);
  }
  Result<std::vector<std::string>> list_folders(std::string_view prefix) override {
    waiter_.spend(0);
    return over_->list_folders(prefix);
  }
  Result<std::vector<Unpublished>> list_unpublished(std::string_view prefix) override {
    waiter_.spend(0);
    return over_->list_unpublished(prefix);
  }
  Status remove_unpublished(const Unpublished& one) override {
    waiter_.spend(0);
    return over_->remove_unpublished(one);
  }
  void look_again() override { over_->look_again(); }
  Result<uint64_t> free_bytes() override { return over_->free_bytes(); }
  uint64_t other_retries() const override { return over_->other_retries(); }

 private:
  std::unique_ptr<Store> over_;
  SlowModel model_;
  Waiter waiter_;
};

Result<SlowOptions> read_options(const OptionReader& options) {
  SlowOptions out;
  out.latency_ns = FB_TRY(options.duration_ns("latency"));
  out.shape = static_cast<LatencyShape>(FB_TRY(options.choice("distribution", kShapes)));
  out.jitter_ns = FB_TRY(options.duration_ns("jitter"));
  out.p99_ns = FB_TRY(options.duration_ns("p99"));
  out.bytes_per_second =
      static_cast<double>(FB_TRY(options.bytes_per_second("bandwidth", uint64_t{1} << 60)));
  out.operations_per_second = FB_TRY(options.number("iops", 0, 1e9));
  if (out.operations_per_second > 0 && out.operations_per_second * kSecondsPerHour < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "storage 'slow': iops={}: must be 0 (unlimited) or at least one an hour (0.0003)",
                options.text("iops"));
  }
  out.concurrency = static_cast<int>(FB_TRY(options.integer("concurrency", 0, 1'000'000)));
  out.seed = static_cast<uint64_t>(FB_TRY(options.integer("seed", 0, INT64_MAX)));
  const bool uses_jitter =
      out.shape == LatencyShape::kUniform || out.shape == LatencyShape::kExponential;
  if (out.jitter_ns > 0 && !uses_jitter) {
    return fail(ErrorCode::kInvalidArgument,
                "storage 'slow': jitter has no effect with distribution={}; use uniform or "
                "exponential",
                options.text("distribution"));
  }
  if (out.shape == LatencyShape::kUniform && out.jitter_ns > out.latency_ns) {
    return fail(ErrorCode::kInvalidArgument,
                "storage 'slow': jitter={} is more than latency={}: latencies would be negative",
                options.text("jitter"), options.text("latency"));
  }
  const bool is_lognormal = out.shape == LatencyShape::kLognormal;
  if (is_lognormal ? out.p99_ns < out.latency_ns || out.latency_ns == 0 : out.p99_ns > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "storage 'slow': p99={} goes with distribution=lognormal and must not be below "
                "latency={}, which must be above 0",
                options.text("p99"), options.text("latency"));
  }
  return out;
}

Result<std::unique_ptr<Store>> wrap(std::unique_ptr<Store> over, const OptionValues& values) {
  const OptionReader options = FB_TRY(OptionReader::open("slow", kOptions, values));
  return make_slow_store(std::move(over), FB_TRY(read_options(options)));
}

}  // namespace

SlowModel::SlowModel(const SlowOptions& options) : options_(options), random_(options.seed) {
  for (int i = 0; i < options.concurrency; ++i) places_.push(0);
}

int64_t SlowModel::draw_latency() {
  const auto base = static_cast<double>(options_.latency_ns);
  const auto jitter = static_cast<double>(options_.jitter_ns);
  switch (options_.shape) {
    case LatencyShape::kConstant:
      return options_.latency_ns;
    case LatencyShape::kUniform:
      return static_cast<int64_t>(base + jitter * (2 * random_.uniform() - 1));
    case LatencyShape::kExponential:
      return static_cast<int64_t>(std::min(base + jitter * random_.exponential(), kLongestDrawNs));
    case LatencyShape::kLognormal: {
      const double sigma = std::log(static_cast<double>(options_.p99_ns) / base) / kNormalP99;
      return static_cast<int64_t>(
          std::min(base * std::exp(sigma * random_.normal()), kLongestDrawNs));
    }
  }
  return 0;
}

ReadSchedule SlowModel::admit(int64_t now_ns, uint64_t bytes) {
  base::MutexLock lock(mutex_);
  int64_t start = now_ns;
  if (options_.operations_per_second > 0) start = std::max(start, next_operation_ns_);
  if (options_.concurrency > 0) {
    start = std::max(start, places_.top());
    places_.pop();
  }
  if (options_.operations_per_second > 0) {
    next_operation_ns_ =
        start + static_cast<int64_t>(kNsPerSecond / options_.operations_per_second);
  }
  int64_t sent = start;
  if (options_.bytes_per_second > 0) {
    // The pipe first, the latency behind it: a long latency does not leave the pipe idle.
    const double ns = static_cast<double>(bytes) / options_.bytes_per_second * kNsPerSecond;
    const auto transfer = static_cast<int64_t>(std::min(ns, static_cast<double>(kFarNs)));
    sent = std::min(std::max(start, pipe_free_ns_) + transfer, kFarNs);
    pipe_free_ns_ = sent;
  }
  const int64_t due = sent + draw_latency();
  if (options_.concurrency > 0) places_.push(due);
  return {start, due};
}

std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> over, const SlowOptions& options) {
  return std::make_unique<SlowStore>(std::move(over), options);
}

extern const Driver kSlow;
const Driver kSlow{.name = "slow",
                   .summary = "another store, as slow as a filer or an object store you describe",
                   .options = kOptions,
                   .wrap = wrap};

}  // namespace forebay::storage

#include "cluster/world.h"

#include <fmt/core.h>

#include "base/mutex.h"
#include "sys/host.h"

namespace forebay::cluster {
namespace {

class Alone : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& host_of(int /*rank*/) const override { return host_; }

  Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token) override {
    return std::vector<std::string>{std::string(mine)};
  }
  Result<std::vector<std::string>> gather_at_first(std::string_view mine,
                                                   std::stop_token stop) override {
    return gather(mine, std::move(stop));
  }
  Result<int64_t> meet(int64_t moment_ns, std::stop_token) override { return moment_ns; }
  Status measure_clocks(std::stop_token) override { return {}; }
  ClockOffset clock_offset(int /*rank*/) const override { return {}; }

  // Nobody is there to be told: an error takes its usual way.
  void fail(const Error& /*cause*/) override {}
  std::optional<Error> failure() const override { return std::nullopt; }
  std::stop_token failed() const override { return {}; }
  std::vector<std::optional<std::string>> last_words(std::string_view mine,
                                                     double /*grace_seconds*/,
                                                     double /*quiet_seconds*/) override {
    return {std::string(mine)};
  }
  void post(std::string_view news) override {
    const base::MutexLock lock(mutex_);
    news_ = news;
  }
  std::vector<std::string> posted() const override {
    const base::MutexLock lock(mutex_);
    return {news_};
  }
  std::string waits_for(double /*seconds*/) const override { return ""; }
  bool close(double /*grace_seconds*/) override { return true; }

 private:
  const std::string host_ = sys::host().name;
  mutable base::Mutex mutex_;
  std::string news_ FB_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<World> make_alone() {
  return std::make_unique<Alone>();
}

std::string name_of(const World& world, int rank) {
  return fmt::format("rank {} on {}", rank, world.host_of(rank));
}

int first_on_host(const World& world, int rank) {
  int first = 0;
  while (world.host_of(first) != world.host_of(rank)) ++first;
  return first;
}

}  // namespace forebay::cluster

// How long does a barrier over processes take, when all come at once and after a sleep?
//
//   mpirun -np 2 forebay_barrier [ROUNDS]      one JSON line, from process 0
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/world.h"
#include "command_words.h"
#include "sys/host.h"
#include "sys/process.h"

namespace forebay {
namespace {

struct Times {
  double p50_us = 0, p99_us = 0, cpu_us = 0;  // CPU of this process, per barrier
};

// Rounds of a sleep of `apart_ns` and a barrier; the time from the sleep's end to the barrier's.
Result<Times> measure(cluster::World& world, int rounds, int64_t apart_ns) {
  base::Clock& clock = base::monotonic_clock();
  std::vector<int64_t> times;
  int64_t due = FB_TRY(world.meet(clock.now_ns(), {}));
  const double cpu_before = sys::process_usage().cpu_seconds();
  for (int round = 0; round < rounds; ++round) {
    due += apart_ns;
    if (apart_ns > 0) clock.sleep_until_ns(due, {});
    const int64_t start = clock.now_ns();
    due = std::max(due, FB_TRY(world.meet(start, {})));
    times.push_back(clock.now_ns() - start);
  }
  const double cpu = sys::process_usage().cpu_seconds() - cpu_before;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return static_cast<double>(times[static_cast<size_t>(share * (rounds - 1))]) * 1e-3;
  };
  return Times{at(0.5), at(0.99), cpu * 1e6 / rounds};
}

Status run(int rounds) {
  const auto world = FB_TRY(cluster::join_world({}));
  sys::set_timer_slack_ns(1);
  const Times together = FB_TRY(measure(*world, rounds, 0));
  const Times apart = FB_TRY(measure(*world, std::max(1, rounds / 20), 10'000'000));
  if (world->rank() == 0)
    fmt::print(
        "{{\"benchmark\": \"barrier\", \"processes\": {}, \"cpus\": {}, \"rounds\": {}, "
        "\"together_us_p50\": {:.1f}, \"together_us_p99\": {:.1f}, \"together_cpu_us\": {:.1f}, "
        "\"apart_us_p50\": {:.1f}, \"apart_us_p99\": {:.1f}, \"apart_cpu_us\": {:.1f}}}\n",
        world->size(), sys::host().cpu_count_online, rounds, together.p50_us, together.p99_us,
        together.cpu_us, apart.p50_us, apart.p99_us, apart.cpu_us);
  world->close(5);
  return {};
}

}  // namespace
}  // namespace forebay

int main(int argc, char** argv) {
  constexpr char kUsage[] = "usage: [mpirun -np N] forebay_barrier [ROUNDS]\n";
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (forebay::bench::asks_for_help(words)) {
    fmt::print("{}", kUsage);
    return 0;
  }
  int rounds = 2000;
  if (words.size() > 1 || (words.size() == 1 && !forebay::bench::parse_count(words[0], rounds))) {
    fmt::print(stderr, "forebay_barrier: '{}' is no number of rounds\n{}", words.back(), kUsage);
    return 2;
  }
  const forebay::Status status = forebay::run(std::max(2, rounds));
  if (status.ok()) return 0;
  fmt::print(stderr, "forebay_barrier: {}\n", status.error().message);
  return 1;
}

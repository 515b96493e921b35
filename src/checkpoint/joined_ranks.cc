// Ranks that are processes of one job, over TCP.
#include <memory>
#include <utility>

#include "base/clock.h"
#include "checkpoint/option_check.h"
#include "cluster/messaging_world.h"
#include "cluster/tcp_channel.h"
#include "forebay/checkpoint.h"
#include "sys/host.h"

namespace forebay {
namespace {

class JoinedRanks final : public RankGroup {
 public:
  explicit JoinedRanks(std::unique_ptr<cluster::World> world) : world_(std::move(world)) {}

  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  Result<std::vector<std::string>> gather(std::string_view mine, std::stop_token stop) override {
    auto all = world_->gather(mine, std::move(stop));
    // Whoever leaves a call leaves for good: the next call's answers would be those of this one.
    if (!all.ok()) world_->fail(all.error());
    return all;
  }

 private:
  const std::unique_ptr<cluster::World> world_;
};

}  // namespace

Result<std::shared_ptr<RankGroup>> join_ranks(const RankAddress& address, std::stop_token stop) {
  FB_TRY(checkpoint::check_address(address));
  base::Clock& clock = base::monotonic_clock();
  const cluster::TcpMeeting meeting{.rank = address.rank,
                                    .size = address.size,
                                    .host = address.host,
                                    .port = address.port,
                                    .ports = address.ports,
                                    .key = address.job,
                                    .join_seconds = address.join_seconds};
  auto channel = FB_TRY(cluster::open_tcp_channel(meeting, clock, stop));
  cluster::MessagingOptions options;
  options.host = sys::host().name;
  options.cpu_count = 0;  // training has better use for the CPUs than a wait that spins
  options.wait_seconds_max = address.wait_seconds;
  auto world = FB_TRY(cluster::open_messaging_world(std::move(channel), clock, std::move(options),
                                                    std::move(stop)));
  return std::shared_ptr<RankGroup>(std::make_shared<JoinedRanks>(std::move(world)));
}

}  // namespace forebay

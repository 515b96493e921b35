#include "base/clock.h"
#include "base/error.h"
#include "cluster/messaging_world.h"
#include "cluster/mpi_module.h"
#include "cluster/world.h"
#include "sys/host.h"
#include "sys/launcher.h"
#include "sys/module.h"

namespace forebay::cluster {
namespace {

Result<std::unique_ptr<Channel>> open_mpi(const sys::Launch& launch) {
  Result<void*> found = sys::find_in_module("mpi", kMpiEntry);
  if (!found.ok())
    return fail(
        ErrorCode::kUnsupported,
        "{} started {} processes, but MPI cannot be used, and without it each of them would "
        "run the whole job: {}",
        launch.launcher, launch.size > 0 ? fmt::format("{}", launch.size) : "several",
        found.error().message);
  char why[512] = {};
  const auto open = reinterpret_cast<OpenMpi>(*found);
  std::unique_ptr<Channel> channel(open(why, sizeof why));
  if (!channel) return fail(ErrorCode::kUnsupported, "{}", why);
  return channel;
}

}  // namespace

Result<std::unique_ptr<World>> join_world(std::stop_token stop) {
  const std::optional<sys::Launch> launch = sys::launched_by();
  if (!launch) return make_alone();
  std::unique_ptr<Channel> channel = FB_TRY(open_mpi(*launch));
  if (channel->size() != launch->size && launch->size > 0)
    return fail(ErrorCode::kUnsupported,
                "{} started {} processes, but Open MPI sees {}: start them with Open MPI's mpirun, "
                "or with srun --mpi=pmix",
                launch->launcher, launch->size, channel->size());
  if (channel->size() == 1) {
    channel->close(true);
    return make_alone();
  }
  MessagingOptions options;
  options.host = sys::host().name;
  options.cpu_count = sys::host().cpu_count_online;  // mpirun binds each process to one
  return open_messaging_world(std::move(channel), base::monotonic_clock(), std::move(options),
                              std::move(stop));
}

}  // namespace forebay::cluster

// Ends the process when a stop request, or the failure of another process, meets storage that does
// not answer: a listing or an fsync can hang where no stop token reaches.
//
// Its own thread waits for the request; hold() may be called from any thread. The folder must
// outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

namespace forebay::cluster {
class World;
}

namespace forebay::cli {

struct ResultFolder;

// What happens when the request is not heeded.
struct StopGrace {
  int64_t ns = 700'000'000;
  std::string loss;  // what the user is told is lost, behind "; "
};

// Of work that writes to `places`: an object store is told of each upload that is given up, and
// keeps, and charges for, those that it was not told of.
StopGrace work_grace(std::span<const std::string> places);

// Of the files that a run leaves in `folder`: one request after the run's own end is enough to give
// them up, and a run that was interrupted has some seconds to tell an object store what it
// measured.
StopGrace writing_grace(const ResultFolder& folder, bool is_interrupted);

class StopDeadline {
 public:
  // `folder` is null for commands that write no result, and while there is none to take away.
  StopDeadline(std::stop_token asked, const ResultFolder* folder,
               const cluster::World* world = nullptr, StopGrace grace = {});

  // From now on the caller ends the run itself, and nothing happens here any more. Blocks for good
  // if the process is already ending.
  void hold();

 private:
  void watch(const std::stop_token& asked, const std::stop_token& own, const ResultFolder* folder,
             const cluster::World* world);

  const StopGrace grace_;
  std::atomic<bool> is_held_{false};  // orders nothing: who sets it first ends the run
  std::stop_source wake_;
  std::jthread thread_;
};

}  // namespace forebay::cli

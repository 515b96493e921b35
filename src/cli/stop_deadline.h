// Ends the process when a stop request, or the failure of another process, meets storage that does
// not answer: a listing or an fsync can hang where no stop token reaches.
//
// Its own thread waits for the request; hold() may be called from any thread. The folder must
// outlive it.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace forebay::cluster {
class World;
}

namespace forebay::cli {

struct ResultFolder;

class StopDeadline {
 public:
  // `folder` is null for commands that write no result.
  StopDeadline(std::stop_token asked, const ResultFolder* folder,
               const cluster::World* world = nullptr);

  // From now on the caller ends the run itself, and nothing happens here any more. Blocks for good
  // if the process is already ending.
  void hold();

 private:
  void watch(const std::stop_token& asked, const std::stop_token& own, const ResultFolder* folder,
             const cluster::World* world);

  std::atomic<bool> is_held_{false};  // orders nothing: who sets it first ends the run
  std::stop_source wake_;
  std::jthread thread_;
};

}  // namespace forebay::cli

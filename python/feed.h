// A loader that Python owns: interruptible, closable from any thread, harmless in a child of fork.
//
// Any thread, with the GIL held; threads that come at the same time are served one after another.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "forebay/loader.h"
#include "fork_guard.h"
#include "gate.h"
#include "patience.h"

namespace forebay::python {

class Feed {
 public:
  // Opens on a thread of its own meanwhile: Ctrl-C ends a long listing.
  explicit Feed(const LoaderOptions& options);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // The next batch as a dict, or None at the end of an epoch.
  pybind11::object next();
  // As Loader has them; false once closed, and in a child of fork.
  bool take_back();
  bool has_failed();
  LoaderState state();
  void restore(const LoaderState& state);
  LoaderStats stats();
  LoaderPlan explain();
  std::vector<std::string> class_names();
  uint64_t sample_count();
  uint64_t batches_per_epoch();
  double order_entropy();

  // Stops its threads and gives its memory back; arrays live on. Again: nothing.
  void close();
  bool is_closed() const;

 private:
  // What a child of fork leaves alone.
  struct Inside {
    Gate gate;
    std::unique_ptr<Loader> loader;  // null once closed
    Patience patience;               // last: its thread goes first
  };
  using Taken = Result<std::optional<Batch>>;

  void check_process() const;
  Taken wait_a_turn();
  template <class Function>
  auto with_loader(const Function& function);

  const MadeHere made_here_;
  const bool pads_;
  bool is_closed_ = false;  // under the GIL
  std::unique_ptr<Inside> inside_;
};

}  // namespace forebay::python

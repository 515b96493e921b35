#include "feed.h"

#include <utility>

#include "base/error.h"
#include "batch_dict.h"
#include "failure.h"
#include "interruptible.h"
#include "released.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

struct Opened {
  Result<std::unique_ptr<Loader>> loader;
  std::optional<RecordPlace> failed;
};

Error closed() {
  return fail(ErrorCode::kCancelled, "this loader is closed");
}

}  // namespace

Feed::Feed(const LoaderOptions& options)
    : pads_(options.tail == Tail::kPad), inside_(std::make_unique<Inside>()) {
  load_numpy();
  Opened opened = run_interruptibly("fb-open", [&](std::stop_token stop) {
    std::optional<RecordPlace> failed;
    auto loader = Loader::open(options, std::move(stop), &failed);
    return Opened{std::move(loader), std::move(failed)};
  });
  if (!opened.loader.ok()) raise(std::move(opened.loader).error(), std::move(opened.failed));
  inside_->loader = std::move(opened.loader).take();
  take(inside_->patience.start());
}

Feed::~Feed() {
  if (!made_here_)
    static_cast<void>(inside_.release());  // its threads and locks are the parent's
  else
    close();
}

void Feed::check_process() const {
  if (!made_here_)
    raise(ErrorCode::kUnsupported,
          "this loader was made before the process forked, and its threads live in the parent "
          "only: make a loader of its own in the child");
}

bool Feed::is_closed() const {
  return is_closed_;
}

void Feed::close() {
  if (!made_here_ || is_closed_) return;
  is_closed_ = true;
  without_gil([this] {
    const Gate::Turn turn = inside_->gate.enter();
    inside_->loader.reset();
    inside_->patience.stop();
    return true;
  });
}

// Once inside the gate, without the GIL.
Feed::Taken Feed::wait_a_turn() {
  if (!inside_->loader) return closed();
  std::stop_source stop;
  inside_->patience.begin(stop);
  Taken taken = inside_->loader->next(stop.get_token());
  inside_->patience.end();
  return taken;
}

py::object Feed::next() {
  check_process();
  for (;;) {
    // The turn is held until the batch is gone: nobody closes the loader before.
    struct Step {
      Gate::Turn turn;
      Taken taken;
      std::optional<RecordPlace> failed;
    };
    const Step step = without_gil([this] {
      Gate::Turn turn = inside_->gate.enter();
      Taken taken = wait_a_turn();
      std::optional<RecordPlace> failed;
      if (!taken.ok() && inside_->loader) failed = inside_->loader->failed_record();
      return Step{std::move(turn), std::move(taken), std::move(failed)};
    });
    if (step.taken.ok()) {
      if (!step.taken->has_value()) return py::none();
      return to_dict(**step.taken, pads_);
    }
    if (step.taken.error().code != ErrorCode::kCancelled || is_closed_)
      raise(step.taken.error(), step.failed);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

bool Feed::take_back() {
  return made_here_ && without_gil([this] {
           const Gate::Turn turn = inside_->gate.enter();
           return inside_->loader && inside_->loader->take_back();
         });
}

bool Feed::has_failed() {
  return made_here_ && without_gil([this] {
           const Gate::Turn turn = inside_->gate.enter();
           return inside_->loader && inside_->loader->has_failed();
         });
}

template <class Function>
auto Feed::with_loader(const Function& function) {
  check_process();
  return without_gil([&]() -> Result<decltype(function(*inside_->loader))> {
    const Gate::Turn turn = inside_->gate.enter();
    if (!inside_->loader) return closed();
    return function(*inside_->loader);
  });
}

LoaderState Feed::state() {
  return take(take(with_loader([](const Loader& loader) { return loader.state(); })));
}

void Feed::restore(const LoaderState& state) {
  take(take(with_loader([&](Loader& loader) { return loader.restore(state); })));
}

LoaderStats Feed::stats() {
  return take(with_loader([](const Loader& loader) { return loader.stats(); }));
}

LoaderPlan Feed::explain() {
  return take(with_loader([](const Loader& loader) { return loader.explain(); }));
}

std::vector<std::string> Feed::class_names() {
  return take(with_loader([](const Loader& loader) { return loader.class_names(); }));
}

uint64_t Feed::sample_count() {
  return take(with_loader([](const Loader& loader) { return loader.sample_count(); }));
}

uint64_t Feed::batches_per_epoch() {
  return take(with_loader([](const Loader& loader) { return loader.batches_per_epoch(); }));
}

double Feed::order_entropy() {
  return take(with_loader([](const Loader& loader) { return loader.order_entropy(); }));
}

}  // namespace forebay::python

// forebay._native: checkpoints. What a state is made of is decided in forebay/checkpoint.py.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "batch_dict.h"
#include "bind.h"
#include "failure.h"
#include "forebay/checkpoint.h"
#include "fork_guard.h"
#include "gate.h"
#include "interruptible.h"
#include "text.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

WhenBusy when_busy_from(const std::string& word) {
  if (word == "block") return WhenBusy::kBlock;
  if (word == "skip") return WhenBusy::kSkip;
  if (word == "queue") return WhenBusy::kQueue;
  raise(ErrorCode::kInvalidArgument, "when_busy='" + word + "': it is one of block, skip, queue");
}

// Ranks whose messages a Python function carries. Called on threads of the engine.
class PythonRanks final : public RankGroup {
 public:
  PythonRanks(int rank, int size, py::function gather)
      : rank_(rank), size_(size), gather_(std::move(gather)) {}
  ~PythonRanks() override {
    // The last owner may be a thread without the GIL, or the interpreter gone.
    if (!Py_IsInitialized()) {
      gather_.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    gather_ = py::function();
  }
  PythonRanks(const PythonRanks&) = delete;
  PythonRanks& operator=(const PythonRanks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::vector<std::string>> gather(std::string_view mine,
                                          std::stop_token /*stop*/) override {
    const py::gil_scoped_acquire gil;
    try {
      const py::list all = gather_(py::bytes(mine.data(), mine.size()));
      std::vector<std::string> out;
      for (const py::handle& one : all) out.push_back(one.cast<std::string>());
      if (out.size() == static_cast<size_t>(size_)) return out;
      return fail(ErrorCode::kInvalidArgument, "gather() gave {} messages of {} ranks", out.size(),
                  size_);
    } catch (const py::error_already_set& error) {
      return fail(ErrorCode::kIo, "the ranks' gather() failed: {}", error.what());
    } catch (const py::cast_error& error) {
      return fail(ErrorCode::kInvalidArgument, "gather() gave what is no bytes: {}", error.what());
    }
  }

 private:
  const int rank_, size_;
  py::function gather_;
};

TensorPart part_of(const py::tuple& item) {
  TensorPart part;
  part.name = item[0].cast<std::string>();
  part.element_type = item[1].cast<std::string>();
  part.shape = item[2].cast<std::vector<uint64_t>>();
  const auto array = item[3].cast<py::array>();
  if ((array.flags() & py::array::c_style) == 0)
    raise(ErrorCode::kInvalidArgument, "tensor '" + part.name + "' is not contiguous");
  // As numpy says, and not pybind11: see batch_dict.cc about the structs of numpy 2.
  const auto bytes = item[3].attr("nbytes").cast<size_t>();
  part.bytes = {static_cast<const std::byte*>(array.data()), bytes};
  if (!item[4].is_none()) {
    part.whole_shape = item[4].cast<std::vector<uint64_t>>();
    part.start = item[5].cast<std::vector<uint64_t>>();
  }
  return part;
}

// What numpy has in place of types that it does not know: forebay/checkpoint.py sees to them.
std::string_view storage_type(std::string_view type) {
  if (type == "bfloat16") return "uint16";
  return type.starts_with("float8_") ? "uint8" : type;
}

py::dict tensors_dict(const std::vector<RestoredTensor>& tensors) {
  py::dict out;
  for (const RestoredTensor& tensor : tensors) {
    const auto array = array_over(storage_type(tensor.element_type), tensor.shape,
                                  tensor.bytes.data(), tensor.owner);
    out[py::str(tensor.name)] = py::make_tuple(tensor.element_type, array);
  }
  return out;
}

py::dict restored_dict(const Restored& restored) {
  py::dict out;
  out["step"] = restored.step;
  out["place"] = shown(restored.place);
  out["tree"] = shown(restored.tree);
  out["metadata"] = restored.metadata;
  py::list notes;
  for (const std::string& note : restored.notes) notes.append(shown(note));
  out["notes"] = notes;
  out["tensors"] = tensors_dict(restored.tensors);
  return out;
}

// A handle that Python owns; harmless in a child of fork.
class Save {
 public:
  explicit Save(SaveHandle handle) : handle_(std::make_unique<SaveHandle>(std::move(handle))) {}
  ~Save() {
    if (!made_here_) static_cast<void>(handle_.release());  // its locks are the parent's
  }
  Save(Save&&) = default;
  Save& operator=(Save&&) = delete;

  uint64_t step() const { return handle_->step(); }
  bool was_skipped() const { return handle().was_skipped(); }
  py::object earlier_failure() const {
    const std::optional<Error> error = handle().earlier_failure();
    return error ? py::object(shown(error->message)) : py::none();
  }
  void wait_durable() const {
    take(run_interruptibly("fb-wait", [&handle = handle()](std::stop_token stop) {
      return handle.wait_durable(std::move(stop));
    }));
  }
  void wait_drained() const {
    take(run_interruptibly("fb-wait", [&handle = handle()](std::stop_token stop) {
      return handle.wait_drained(std::move(stop));
    }));
  }
  py::dict times() const {
    const SaveTimes times = handle().times();
    py::dict out;
    const auto put = [&](const char* name, double seconds) {
      out[name] = seconds < 0 ? py::object(py::none()) : py::object(py::float_(seconds));
    };
    put("stalled", times.stalled);
    put("snapshotted", times.snapshotted);
    put("durable", times.durable);
    put("drained", times.drained);
    return out;
  }

 private:
  const SaveHandle& handle() const {
    if (made_here_) return *handle_;
    raise(ErrorCode::kUnsupported,
          "this save was begun before the process forked: only the parent knows what became of it");
  }

  MadeHere made_here_;
  std::unique_ptr<SaveHandle> handle_;
};

// A checkpointer that Python owns: interruptible, closable, harmless in a child of fork.
class Keeper {
 private:
  // What a child of fork leaves alone.
  struct Inside {
    Gate gate;
    std::unique_ptr<Checkpointer> checkpointer;  // null once closed
  };

  template <class Function>
  auto with_checkpointer(const char* thread_name, const Function& function) {
    if (!made_here_)
      raise(ErrorCode::kUnsupported,
            "this checkpointer was made before the process forked, and its threads live in the "
            "parent only: make one of its own in the child");
    using Answer = decltype(function(*inside_->checkpointer, std::stop_token()));
    return run_interruptibly(thread_name, [&](std::stop_token stop) -> Answer {
      const Gate::Turn turn = inside_->gate.enter();
      if (!inside_->checkpointer) return fail(ErrorCode::kCancelled, "this checkpointer is closed");
      return function(*inside_->checkpointer, std::move(stop));
    });
  }

 public:
  // With an address the ranks find each other there, unless the options have a group.
  Keeper(const CheckpointOptions& options, const std::optional<RankAddress>& address)
      : inside_(std::make_unique<Inside>()) {
    load_numpy();
    inside_->checkpointer = take(run_interruptibly(
        "fb-open", [&](const std::stop_token& stop) { return open(options, address, stop); }));
  }
  ~Keeper() {
    if (!made_here_)
      static_cast<void>(inside_.release());  // its threads and locks are the parent's
    else
      close();
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  static Result<std::unique_ptr<Checkpointer>> open(CheckpointOptions options,
                                                    const std::optional<RankAddress>& address,
                                                    const std::stop_token& stop) {
    if (address) options.group = FB_TRY(join_ranks(*address, stop));
    return Checkpointer::open(options);
  }

  Save save(uint64_t step, const py::list& parts, std::string tree,
            std::map<std::string, std::string> metadata, std::map<std::string, double> metrics) {
    CheckpointState state{{}, std::move(tree), std::move(metadata), std::move(metrics)};
    for (const py::handle& part : parts) state.tensors.push_back(part_of(part.cast<py::tuple>()));
    return Save(take(with_checkpointer("fb-save", [&](Checkpointer& inside, std::stop_token stop) {
      return inside.save(step, state, std::move(stop));
    })));
  }
  void wait() {
    take(with_checkpointer("fb-wait", [](Checkpointer& inside, std::stop_token stop) {
      return inside.wait(std::move(stop));
    }));
  }
  py::dict restore(const RestoreOptions& options) {
    return restored_dict(
        take(with_checkpointer("fb-restore", [&](Checkpointer& inside, std::stop_token stop) {
          return inside.restore(options, std::move(stop));
        })));
  }
  py::dict stats() {
    const CheckpointStats stats =
        take(with_checkpointer("fb-stats", [](Checkpointer& inside, const std::stop_token&) {
          return Result<CheckpointStats>(inside.stats());
        }));
    py::dict out;
    out["saves"] = stats.saves;
    out["skipped"] = stats.skipped;
    out["failed"] = stats.failed;
    out["failed_drains"] = stats.failed_drains;
    out["bytes_written"] = stats.bytes_written;
    out["bytes_drained"] = stats.bytes_drained;
    out["bytes_shared"] = stats.bytes_shared;
    out["stalled_seconds"] = stats.stalled_seconds;
    return out;
  }
  void close() {
    if (!made_here_ || is_closed_) return;
    is_closed_ = true;
    without_gil([this] {
      const Gate::Turn turn = inside_->gate.enter();
      inside_->checkpointer.reset();
      return true;
    });
  }

 private:
  const MadeHere made_here_;
  bool is_closed_ = false;  // under the GIL
  std::unique_ptr<Inside> inside_;
};

void bind_options(py::module_& module) {
  py::class_<CheckpointOptions>(module, "CheckpointOptions")
      .def(py::init<>())
      .def("add_tier",
           [](CheckpointOptions& options, const py::str& place, std::string storage,
              double bytes_per_second_max, uint64_t keep_last) {
             options.tiers.push_back(
                 {fs_encoded(place), std::move(storage), bytes_per_second_max, keep_last});
           })
      .def("set_ranks",
           [](CheckpointOptions& options, int rank, int size, py::function gather) {
             options.group = std::make_shared<PythonRanks>(rank, size, std::move(gather));
           })
      .def("set_when_busy",
           [](CheckpointOptions& options, const std::string& word) {
             options.when_busy = when_busy_from(word);
           })
      .def_readwrite("keep_last", &CheckpointOptions::keep_last)
      .def_readwrite("keep_every", &CheckpointOptions::keep_every)
      .def_readwrite("keep_best", &CheckpointOptions::keep_best)
      .def_readwrite("best_metric", &CheckpointOptions::best_metric)
      .def_readwrite("is_lower_better", &CheckpointOptions::is_lower_better)
      .def_readwrite("compress", &CheckpointOptions::compress)
      .def_readwrite("share_unchanged", &CheckpointOptions::share_unchanged)
      .def_readwrite("shard_bytes_max", &CheckpointOptions::shard_bytes_max)
      .def_readwrite("chunk_bytes", &CheckpointOptions::chunk_bytes)
      .def_readwrite("threads", &CheckpointOptions::threads);
  py::class_<RankAddress>(module, "RankAddress")
      .def(py::init<>())
      .def_readwrite("rank", &RankAddress::rank)
      .def_readwrite("size", &RankAddress::size)
      .def_readwrite("host", &RankAddress::host)
      .def_readwrite("port", &RankAddress::port)
      .def_readwrite("ports", &RankAddress::ports)
      .def_readwrite("job", &RankAddress::job)
      .def_readwrite("join_seconds", &RankAddress::join_seconds)
      .def_readwrite("wait_seconds", &RankAddress::wait_seconds);
  py::class_<RestoreOptions>(module, "RestoreOptions")
      .def(py::init<>())
      .def_readwrite("step", &RestoreOptions::step)
      .def_readwrite("only_named", &RestoreOptions::only_named)
      .def("add_box", [](RestoreOptions& options, const std::string& name,
                         std::vector<uint64_t> start, std::vector<uint64_t> shape) {
        options.boxes[name] = {std::move(start), std::move(shape)};
      });
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  bind_options(module);
  py::class_<Save>(module, "Save")
      .def_property_readonly("step", &Save::step)
      .def_property_readonly("was_skipped", &Save::was_skipped)
      .def_property_readonly("earlier_failure", &Save::earlier_failure)
      .def("wait_durable", &Save::wait_durable)
      .def("wait_drained", &Save::wait_drained)
      .def("times", &Save::times);
  py::class_<Keeper>(module, "Keeper")
      .def(py::init<const CheckpointOptions&, const std::optional<RankAddress>&>())
      .def("save", &Keeper::save)
      .def("wait", &Keeper::wait)
      .def("restore", &Keeper::restore)
      .def("stats", &Keeper::stats)
      .def("close", &Keeper::close);
  module.def("load_safetensors", [](const py::str& path) {
    const std::string file = fs_encoded(path);
    load_numpy();
    const Restored loaded = take(run_interruptibly(
        "fb-load", [&](std::stop_token stop) { return load_safetensors(file, std::move(stop)); }));
    return restored_dict(loaded);
  });
}

}  // namespace forebay::python

// forebay._native: options, state, figures and the feed itself.
#include "bind.h"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "failure.h"
#include "feed.h"
#include "text.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

template <class Enum, size_t kCount>
using Words = std::array<std::pair<std::string_view, Enum>, kCount>;

constexpr Words<Shuffle, 3> kShuffles{
    {{"off", Shuffle::kOff}, {"full", Shuffle::kFull}, {"windowed", Shuffle::kWindowed}}};
constexpr Words<OnError, 3> kPolicies{
    {{"raise", OnError::kRaise}, {"skip", OnError::kSkip}, {"replace", OnError::kReplace}}};
constexpr Words<Tail, 4> kTails{
    {{"drop", Tail::kDrop}, {"even", Tail::kEven}, {"all", Tail::kAll}, {"pad", Tail::kPad}}};

template <class Enum, size_t kCount>
Enum value_of(const Words<Enum, kCount>& words, const char* name, std::string_view word) {
  std::string known;
  for (const auto& [text, value] : words) {
    if (text == word) return value;
    known += known.empty() ? "" : ", ";
    known += text;
  }
  raise(ErrorCode::kInvalidArgument, fmt::format("{}='{}': it is one of {}", name, word, known));
}

template <class Enum, size_t kCount>
std::string word_of(const Words<Enum, kCount>& words, Enum value) {
  for (const auto& [text, known] : words)
    if (known == value) return std::string(text);
  return "";
}

// An enum as a property that takes and gives its word.
template <class Enum, size_t kCount>
void def_word(py::class_<LoaderOptions>& type, const char* name, Enum LoaderOptions::*member,
              const Words<Enum, kCount>& words) {
  type.def_property(
      name,
      [member, &words](const LoaderOptions& options) { return word_of(words, options.*member); },
      [member, &words, name](LoaderOptions& options, std::string_view word) {
        options.*member = value_of(words, name, word);
      });
}

void bind_sources(py::module_& module) {
  py::class_<DataSource>(module, "DataSource")
      .def(py::init<>())
      .def_property(
          "data", [](const DataSource& source) { return fs_decoded(source.data); },
          [](DataSource& source, const py::str& path) { source.data = fs_encoded(path); })
      .def_readwrite("format", &DataSource::format)
      .def_readwrite("weight", &DataSource::weight)
      .def_readwrite("samples_per_file", &DataSource::samples_per_file)
      .def_readwrite("record_bytes", &DataSource::record_bytes)
      .def_readwrite("record_type", &DataSource::record_type)
      .def_readwrite("record_shape", &DataSource::record_shape)
      .def_readwrite("tokens_per_sample", &DataSource::tokens_per_sample)
      .def_readwrite("parts", &DataSource::parts);
}

OpValue op_value(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  const auto items = value.cast<py::sequence>();
  if (!items.empty() && py::isinstance<py::str>(items[0]))
    return value.cast<std::vector<std::string>>();
  return value.cast<std::vector<double>>();
}

void add_op(LoaderOptions& options, std::string name, const py::dict& arguments) {
  Op op{std::move(name), {}};
  for (const auto& [key, value] : arguments)
    op.arguments.emplace_back(key.cast<std::string>(), op_value(value));
  options.ops.push_back(std::move(op));
}

void bind_options(py::module_& module) {
  py::class_<LoaderOptions> type(module, "LoaderOptions");
  type.def(py::init<>())
      .def("add_op", &add_op)
      .def("add_source", [](LoaderOptions& to, const DataSource& it) { to.sources.push_back(it); })
      .def_readwrite("data", &LoaderOptions::data)
      .def_readwrite("storage", &LoaderOptions::storage)
      .def_readwrite("format", &LoaderOptions::format)
      .def_readwrite("samples_per_file", &LoaderOptions::samples_per_file)
      .def_readwrite("record_bytes", &LoaderOptions::record_bytes)
      .def_readwrite("batch_size", &LoaderOptions::batch_size)
      .def_readwrite("window_shards", &LoaderOptions::window_shards)
      .def_readwrite("seed", &LoaderOptions::seed)
      .def_readwrite("change_each_epoch", &LoaderOptions::change_each_epoch)
      .def_readwrite("rank", &LoaderOptions::rank)
      .def_readwrite("world_size", &LoaderOptions::world_size)
      .def_readwrite("prefetch_batches", &LoaderOptions::prefetch_batches)
      .def_readwrite("fetch_depth", &LoaderOptions::fetch_depth)
      .def_readwrite("decode_threads", &LoaderOptions::decode_threads)
      .def_readwrite("memory_bytes", &LoaderOptions::memory_bytes)
      .def_readwrite("as_ready", &LoaderOptions::as_ready)
      .def_readwrite("errors_max", &LoaderOptions::errors_max)
      .def_readwrite("errors_share_max", &LoaderOptions::errors_share_max)
      .def_readwrite("read_ahead_bytes", &LoaderOptions::read_ahead_bytes)
      .def_readwrite("convert_to_rgb", &LoaderOptions::convert_to_rgb)
      .def_readwrite("apply_orientation", &LoaderOptions::apply_orientation)
      .def_property(
          "index_cache",
          [](const LoaderOptions& options) { return fs_decoded(options.index_cache); },
          [](LoaderOptions& options, const py::str& path) {
            options.index_cache = fs_encoded(path);
          });
  def_word(type, "shuffle", &LoaderOptions::shuffle, kShuffles);
  def_word(type, "tail", &LoaderOptions::tail, kTails);
  def_word(type, "on_error", &LoaderOptions::on_error, kPolicies);
}

void bind_answers(py::module_& module) {
  py::class_<LoaderState>(module, "LoaderState")
      .def(py::init<>())
      .def_readwrite("seed", &LoaderState::seed)
      .def_readwrite("epoch", &LoaderState::epoch)
      .def_readwrite("position", &LoaderState::position)
      .def_readwrite("fingerprint", &LoaderState::fingerprint)
      .def_readwrite("files", &LoaderState::files)
      .def_readwrite("samples", &LoaderState::samples)
      .def_readwrite("bytes", &LoaderState::bytes)
      .def_readwrite("ops", &LoaderState::ops)
      .def_readwrite("order", &LoaderState::order);
}

py::dict stats_dict(Feed& feed) {
  const LoaderStats stats = feed.stats();
  py::dict dict;
  dict["reads"] = stats.reads;
  dict["file_bytes"] = stats.file_bytes;
  dict["payload_bytes"] = stats.payload_bytes;
  dict["samples"] = stats.samples;
  dict["batches"] = stats.batches;
  dict["bad_records"] = stats.bad_records;
  dict["fetch_busy_seconds"] = stats.fetch_busy_seconds;
  dict["decode_busy_seconds"] = stats.decode_busy_seconds;
  dict["decode_idle_seconds"] = stats.decode_idle_seconds;
  dict["consumer_wait_seconds"] = stats.consumer_wait_seconds;
  dict["wait_fetch_seconds"] = stats.wait_fetch_seconds;
  dict["wait_decode_seconds"] = stats.wait_decode_seconds;
  dict["fetch_depth"] = stats.fetch_depth;
  dict["decode_threads"] = stats.decode_threads;
  dict["memory_bytes_bound"] = stats.memory_bytes_bound;
  dict["buffer_bytes_max"] = stats.buffer_bytes_max;
  py::list bad;
  for (const std::string& one : stats.bad) bad.append(shown(one));
  dict["bad"] = bad;
  return dict;
}

py::dict plan_dict(Feed& feed) {
  const LoaderPlan plan = feed.explain();
  py::dict dict;
  dict["files"] = plan.files;
  dict["samples"] = plan.samples;
  dict["batches"] = plan.batches;
  dict["file_bytes_per_epoch"] = plan.file_bytes_per_epoch;
  dict["read_amplification"] = plan.read_amplification;
  dict["entropy"] = plan.entropy;
  dict["memory_bytes_bound"] = plan.memory_bytes_bound;
  dict["threads"] = plan.threads;
  dict["fetch_depth_max"] = plan.fetch_depth_max;
  dict["index_cache_problem"] = shown(plan.index_cache_problem);
  dict["text"] = shown(plan.text);
  return dict;
}

}  // namespace

void bind_loader(py::module_& module) {
  bind_sources(module);
  bind_options(module);
  bind_answers(module);
  py::class_<Feed>(module, "Feed")
      .def(py::init<const LoaderOptions&>())
      .def("next", &Feed::next)
      .def("take_back", &Feed::take_back)
      .def("has_failed", &Feed::has_failed)
      .def("state", &Feed::state)
      .def("restore", &Feed::restore)
      .def("stats", &stats_dict)
      .def("explain", &plan_dict)
      .def("class_names",
           [](Feed& feed) {
             py::list names;
             for (const std::string& name : feed.class_names()) names.append(fs_decoded(name));
             return names;
           })
      .def("sample_count", &Feed::sample_count)
      .def("batches_per_epoch", &Feed::batches_per_epoch)
      .def("order_entropy", &Feed::order_entropy)
      .def("close", &Feed::close)
      .def("is_closed", &Feed::is_closed);
}

}  // namespace forebay::python

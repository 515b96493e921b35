#include "batch_dict.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fork_guard.h"
#include "text.h"

namespace py = pybind11;

namespace forebay::python {
namespace {

// numpy knows no bfloat16: the type of ml_dtypes where that is installed, else the bits as uint16
// with a word in its metadata for forebay.torch, which knows what they are.
py::dtype find_type(std::string_view name) {
  if (name != "bfloat16") return py::dtype(std::string(name));
  try {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
  } catch (py::error_already_set& missing) {
    if (!missing.matches(PyExc_ImportError)) throw;
    py::dict metadata;
    metadata["forebay"] = name;
    return py::dtype::from_args(
        py::module_::import("numpy").attr("dtype")("uint16", py::arg("metadata") = metadata));
  }
}

struct Type {
  py::dtype dtype;
  // As numpy says. The structs of numpy 2 differ from those of 1, whose pybind11 before 2.12 reads
  // of either: it would take another number for the size.
  py::ssize_t bytes = 0;
};

// Never destroyed: the interpreter is gone when statics are.
const Type& type_of(std::string_view name) {
  static auto& known = *std::make_unique<std::map<std::string, Type, std::less<>>>().release();
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  py::dtype dtype = find_type(name);
  const auto bytes = dtype.attr("itemsize").cast<py::ssize_t>();
  return known.emplace(std::string(name), Type{std::move(dtype), bytes}).first->second;
}

// What a capsule holds: memory of the engine's, which a child of fork must not give back.
struct Held {
  std::shared_ptr<const void> owner;
  MadeHere made_here;
};

py::capsule hold(const std::shared_ptr<const void>& owner) {
  auto held = std::make_unique<Held>(Held{owner, {}});
  py::capsule capsule(held.get(), [](void* pointer) {
    std::unique_ptr<Held> mine(static_cast<Held*>(pointer));
    if (!mine->made_here) static_cast<void>(mine.release());
  });
  static_cast<void>(held.release());
  return capsule;
}

py::array view(std::string_view type, std::span<const uint64_t> shape, const std::byte* bytes,
               const py::handle& owner) {
  const Type& element = type_of(type);
  std::vector<py::ssize_t> sides(shape.begin(), shape.end()), strides(sides.size());
  py::ssize_t stride = element.bytes;
  for (size_t i = sides.size(); i-- > 0; stride *= sides[i]) strides[i] = stride;
  return py::array(element.dtype, std::move(sides), std::move(strides), bytes, owner);
}

py::list views(const BatchField& field) {
  py::list list(field.each.size());
  const py::capsule owner = hold(field.owner);
  size_t at = 0;
  for (const Sample& sample : field.each) {
    list[at++] = view(sample.element_type, sample.shape, sample.bytes.data(), owner);
  }
  return list;
}

py::list strings(const BatchField& field) {
  py::list list(field.each.size());
  py::ssize_t at = 0;
  for (const Sample& sample : field.each) {
    const std::string_view text(reinterpret_cast<const char*>(sample.bytes.data()),
                                sample.bytes.size());
    py::object item = field.kind == FieldKind::kText ? py::object(fs_decoded(text))
                                                     : py::bytes(text.data(), text.size());
    PyList_SET_ITEM(list.ptr(), at++, item.release().ptr());
  }
  return list;
}

py::object value_of(const BatchField& field) {
  switch (field.kind) {
    case FieldKind::kStacked:
      return view(field.element_type, field.shape, field.bytes.data(), hold(field.owner));
    case FieldKind::kArrays:
      return views(field);
    case FieldKind::kBytes:
    case FieldKind::kText:
      break;
  }
  return strings(field);
}

// Samples in a batch, as its first field counts them.
uint64_t count_samples(const Batch& batch) {
  if (batch.fields().empty()) return batch.samples().size();
  const BatchField& first = batch.fields().front();
  if (first.kind != FieldKind::kStacked) return first.each.size();
  return first.shape.empty() ? 0 : first.shape.front();
}

py::array valid_mask(const Batch& batch) {
  const uint64_t count = count_samples(batch);
  const auto mask = std::make_shared<std::vector<std::byte>>(count);
  std::fill_n(mask->begin(), std::min(count, batch.valid()), std::byte{1});
  return view("bool", std::span(&count, 1), mask->data(), hold(mask));
}

}  // namespace

py::array array_over(std::string_view type, std::span<const uint64_t> shape, const std::byte* bytes,
                     const std::shared_ptr<const void>& owner) {
  return view(type, shape, bytes, hold(owner));
}

void load_numpy() {
  type_of("uint8");
}

py::dict to_dict(const Batch& batch, bool pads) {
  py::dict dict;
  for (const BatchField& field : batch.fields()) {
    dict[fs_decoded(field.name)] = value_of(field);
  }
  if (pads) dict["__valid__"] = valid_mask(batch);
  return dict;
}

}  // namespace forebay::python

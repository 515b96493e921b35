"""States of training as a tree of JSON and named arrays, and back: what a checkpoint can hold.

Arrays of numpy, torch and jax become tensors named by their place ("model.weight"); everything else
becomes JSON. Values that JSON has no word for are objects with one key "$": {"$": "tuple", ...}.
Nothing is ever pickled: what is no array and no plain value, or would come back as less than it
was, is refused by its place.
"""

from __future__ import annotations

import base64
import collections
import importlib
import json
import math
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy

from forebay import arguments
from forebay.errors import ConfigError, DataError, Unsupported

__all__ = ["Part", "as_numpy", "as_torch", "flatten", "unflatten"]

# What a file of tensors can hold, by the names of numpy and ml_dtypes.
_ELEMENTS = frozenset((
    "bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "uint16", "int16", "float16",
    "bfloat16", "uint32", "int32", "float32", "uint64", "int64", "float64", "complex64"))

# What numpy has in place of types that it does not know.
_STORED_AS = {"bfloat16": "int16", "float8_e5m2": "uint8", "float8_e4m3fn": "uint8"}

# By numpy's kind of type: what can be saved instead.
_INSTEAD = {"M": "its .view('int64'), and its type as text", "O": "a list",
            "S": "its .tolist()", "U": "its .tolist()", "V": "its fields, one by one",
            "c": "its .view('float64')", "f": "its .astype('float64')",
            "m": "its .view('int64'), and its type as text"}

_PLAIN = (bool, int, float, complex, str, bytes, bytearray)

# What a defaultdict may make: nothing else can be written down.
_FACTORIES = {made.__name__: made for made in (bool, int, float, str, list, dict, set, tuple)}

# Of whole numbers: any reader of JSON knows these.
_INT_BITS = 63

# Name, type of element, shape, numpy array of its bytes; of a part: shape of the whole and start.
Item = Tuple[str, str, List[int], Any, Optional[List[int]], Optional[List[int]]]


class Part:
    """What this rank holds of a larger array of `shape`: `array`, whose first element is at `start`
    of the whole. Parts of the ranks that are at the same place of their states make up one array,
    and fill it exactly."""

    def __init__(self, array: Any, shape: Sequence[int], start: Sequence[int]):
        self.array = array
        self.shape = [arguments.whole("Part's shape", side)
                      for side in arguments.list_of("Part's shape", shape)]
        self.start = [arguments.whole("Part's start", at)
                      for at in arguments.list_of("Part's start", start)]


def flatten(state: Any) -> Tuple[str, List[Item]]:
    """The tree as JSON text, and the arrays in it. Arrays are views where they can be: they must
    not change until they are saved."""
    writer = _Writer()
    tree = writer.value(state, ())
    return json.dumps(tree, ensure_ascii=False, allow_nan=False), writer.parts


def unflatten(tree: str, tensors: Dict[str, Tuple[str, Any]]) -> Tuple[Any, Dict[str, Any]]:
    """What flatten() was given, from its text and from the arrays by name; and the arrays that
    are not in it."""
    try:
        reader = _Reader(tensors)
        state = reader.value(json.loads(tree))
        return state, {name: as_numpy(*tensor) for name, tensor in tensors.items()
                       if name not in reader.used}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the checkpoint's tree makes no sense: {error!r}") from error


# --- Arrays: the type of element, the array of its bytes, and what the tree says of it besides ---

Array = Tuple[str, Any, Dict[str, Any]]


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _check_element(element: str, shown: str, where: str, instead: str) -> None:
    if element not in _ELEMENTS:
        raise ConfigError(f"{where}: an array of {shown}, which no file of tensors can hold; save "
                          f"{instead}")


def _numpy_array(value: Any, where: str) -> Array:
    if isinstance(value, numpy.ma.MaskedArray):
        raise ConfigError(f"{where}: a masked array; save its .data and numpy.ma.getmaskarray() "
                          "of it")
    # A file that is mapped comes back in memory: no value is lost.
    if not isinstance(value, numpy.generic) and type(value) not in (numpy.ndarray, numpy.memmap):
        raise ConfigError(f"{where}: a {_type_name(value)}, which would come back as a plain "
                          "array; save numpy.asarray() of it, and what makes it more")
    array = numpy.asarray(value)
    metadata = dict(array.dtype.metadata or {})
    element = metadata.pop("forebay", array.dtype.name)  # a loader's mark of bfloat16
    if metadata:
        raise ConfigError(f"{where}: an array whose type has metadata, {metadata!r}; save "
                          ".astype(array.dtype.str) of it, and the metadata")
    _check_element(element, str(array.dtype), where, _INSTEAD.get(array.dtype.kind, "another type"))
    more = {}
    if element in _STORED_AS:
        array = array.view(_STORED_AS[element])
    elif not array.dtype.isnative:
        more["order"] = array.dtype.str[0]
        array = array.astype(array.dtype.newbyteorder("="))
    return element, numpy.ascontiguousarray(array).reshape(array.shape), more


def _torch_array(tensor: Any, where: str) -> Array:
    torch = sys.modules["torch"]
    is_parameter = type(tensor) is torch.nn.Parameter
    if hasattr(tensor, "to_local"):
        raise ConfigError(f"{where}: a DTensor; save what this rank holds of it, as "
                          "forebay.checkpoint.Part(tensor.to_local(), tensor.shape, start)")
    if type(tensor) is not torch.Tensor and not is_parameter:
        raise ConfigError(f"{where}: a {_type_name(tensor)}, which would come back as a plain "
                          "tensor; save the plain tensors that it is made of")
    if tensor.is_quantized:
        raise ConfigError(f"{where}: a quantized tensor; save its .int_repr(), .q_scale() and "
                          ".q_zero_point()")
    if getattr(tensor, "is_nested", False):
        raise ConfigError(f"{where}: a nested tensor; save its .unbind()")
    if tensor.layout != torch.strided:
        raise ConfigError(f"{where}: a sparse tensor ({tensor.layout}); save its .indices() and "
                          ".values(), which are dense, and its .shape")
    if tensor.device.type == "meta":
        raise ConfigError(f"{where}: a tensor on the device meta, which holds no values")
    element = str(tensor.dtype).replace("torch.", "")
    _check_element(element, str(tensor.dtype), where,
                   "torch.view_as_real() of it" if tensor.is_complex() else "another type")
    plain = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    if element in _STORED_AS:
        plain = plain.view(getattr(torch, _STORED_AS[element]))
    more = {"parameter": True} if is_parameter else {}
    if tensor.requires_grad:
        more["requires_grad"] = True
    try:
        return element, plain.numpy(), more
    except ValueError:
        raise ConfigError(f"{where}: a tensor of {tensor.dim()} dimensions, more than numpy has; "
                          "save its .flatten(), and its .shape") from None


def _jax_array(value: Any, where: str) -> Array:
    if str(value.dtype).startswith("key<"):
        raise ConfigError(f"{where}: a typed key of jax.random; save jax.random.key_data() of it")
    try:
        array = numpy.asarray(value)
    except Exception as error:  # traced, deleted, or on devices of other processes
        raise ConfigError(f"{where}: an array of jax without values here: {error}") from error
    return _numpy_array(array, where)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


class _Writer:
    def __init__(self) -> None:
        self.parts: List[Item] = []
        self._names: Dict[str, int] = {}
        self._open: List[int] = []  # containers around the present value

    # By its very type: a subclass is more than what would come back.
    def value(self, value: Any, place: Tuple[str, ...]) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() <= _INT_BITS else {"$": "int", "value": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if kind is str:
            return self._text(value, place)
        if kind is bytes or kind is bytearray:
            return {"$": kind.__name__, "value": base64.b64encode(value).decode()}
        if kind is complex:
            return {"$": "complex", "value": [repr(value.real), repr(value.imag)]}
        if isinstance(value, (dict, list, tuple)):
            return self._container(value, place)
        return self._array(value, place)

    def _text(self, value: str, place: Tuple[str, ...]) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{_shown(place)}: a string with half a character") from None
        return value

    def _container(self, value: Any, place: Tuple[str, ...]) -> Any:
        if id(value) in self._open:
            raise ConfigError(f"{_shown(place)}: it holds itself")
        if len(place) > 90:
            raise ConfigError(f"{_shown(place)}: nested more than 90 levels deep")
        self._open.append(id(value))
        try:
            return (self._mapping if isinstance(value, dict) else self._sequence)(value, place)
        finally:
            self._open.pop()

    def _sequence(self, value: Any, place: Tuple[str, ...]) -> Any:
        kind, torch = type(value), sys.modules.get("torch")
        attributes = getattr(value, "__dict__", None)
        items = [self.value(one, (*place, str(i))) for i, one in enumerate(value)]
        if kind is list:
            return items
        if kind is tuple:
            return {"$": "tuple", "items": items}
        if torch is not None and kind is torch.Size:
            return {"$": "torch.Size", "items": items}
        if isinstance(value, tuple) and hasattr(value, "_fields") and not attributes:
            return {"$": "namedtuple", "module": kind.__module__, "name": kind.__qualname__,
                    "fields": list(value._fields), "items": items}
        return self._refuse(value, place)

    def _mapping(self, value: Any, place: Tuple[str, ...]) -> Any:
        kind = type(value)
        attributes = dict(getattr(value, "__dict__", {}))
        if kind is dict:
            return self._dict(value, place)
        if kind is collections.OrderedDict:
            node = {"$": "ordered", "value": self._dict(value, place)}
            # What modules of torch say of their versions: load_state_dict() reads it.
            versions = attributes.pop("_metadata", None)
            if versions is not None:
                node["metadata"] = self.value(versions, (*place, "_metadata"))
            if not attributes:
                return node
        if kind is collections.Counter and not attributes:
            return {"$": "counter", "value": self._dict(value, place)}
        if kind is collections.defaultdict and not attributes:
            made = value.default_factory
            name = getattr(made, "__name__", "")
            if made is None or _FACTORIES.get(name) is made:
                return {"$": "defaultdict", "factory": name, "value": self._dict(value, place)}
            raise ConfigError(f"{_shown(place)}: a defaultdict of {made!r}, which would have to be "
                              "pickled; save dict() of it")
        return self._refuse(value, place)

    def _dict(self, value: Dict[Any, Any], place: Tuple[str, ...]) -> Any:
        def below(key: Any) -> Tuple[str, ...]:
            return (*place, str(key))

        if all(type(key) is str for key in value) and "$" not in value:
            return {self._text(key, place): self.value(one, below(key))
                    for key, one in value.items()}
        for key in value:
            if not (key is None or type(key) in _PLAIN or isinstance(key, tuple)):
                raise ConfigError(f"{_shown(place)}: a key of type {type(key).__name__}")
        return {"$": "dict", "items": [[self.value(key, place), self.value(one, below(key))]
                                       for key, one in value.items()]}

    def _refuse(self, value: Any, place: Tuple[str, ...]) -> Any:
        for base in (*_PLAIN, dict, list, tuple):
            if isinstance(value, base):
                raise ConfigError(f"{_shown(place)}: a {_type_name(value)}, which would come back "
                                  f"as a plain {base.__name__}; save {base.__name__}() of it")
        raise ConfigError(
            f"{_shown(place)}: a {_type_name(value)}; checkpoints hold arrays, numbers, strings, "
            "bytes, None, and dicts, lists and tuples of them: nothing is pickled")

    def _array(self, value: Any, place: Tuple[str, ...]) -> Any:
        where = _shown(place)
        whole, start = None, None
        if isinstance(value, Part):
            value, whole, start = value.array, value.shape, value.start
        if _is_torch(value):
            kind, (element, array, more) = "torch", _torch_array(value, where)
        elif _is_jax(value):
            kind, (element, array, more) = "jax", _jax_array(value, where)
        elif isinstance(value, (numpy.ndarray, numpy.generic)):
            kind = "scalar" if isinstance(value, numpy.generic) else "numpy"
            element, array, more = _numpy_array(value, where)
        elif whole is not None:
            raise ConfigError(f"{where}: a Part of a {_type_name(value)}, which is no array")
        else:
            return self._refuse(value, place)
        name = self._name(place)
        self.parts.append((name, element, list(array.shape), array, whole, start))
        return {"$": kind, "name": name, **more}

    def _name(self, place: Tuple[str, ...]) -> str:
        name = ".".join(place) or "state"
        if name == "__metadata__":
            name += "#"
        number = self._names.get(name, 0)
        self._names[name] = number + 1
        # Keys with dots can make two places read the same.
        return self._name((*place, f"#{number}")) if number else name


def _shown(place: Tuple[str, ...]) -> str:
    return "state" + "".join(f"[{key!r}]" for key in place)


class _Reader:
    def __init__(self, tensors: Dict[str, Tuple[str, Any]]):
        self._tensors = tensors
        self.used: Set[str] = set()

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "$" not in value:
            return {key: self.value(one) for key, one in value.items()}
        read = _READERS.get(value["$"])
        if read is None:
            raise ValueError(f"a value of kind {value['$']!r}, which this version does not know")
        return read(self, value)

    def items(self, value: Dict[str, Any]) -> List[Any]:
        return [self.value(one) for one in value["items"]]

    def ordered(self, value: Dict[str, Any]) -> Any:
        made: Any = collections.OrderedDict(self.value(value["value"]))
        if "metadata" in value:
            made._metadata = self.value(value["metadata"])
        return made

    def defaultdict(self, value: Dict[str, Any]) -> Any:
        factory = _FACTORIES[value["factory"]] if value["factory"] else None
        return collections.defaultdict(factory, self.value(value["value"]))

    def namedtuple(self, value: Dict[str, Any]) -> Any:
        """Of the program's own class where it has one with these fields, else of one like it."""
        fields, items = value["fields"], self.items(value)
        own: Any = sys.modules.get(value.get("module", ""))
        for name in value["name"].split("."):
            own = getattr(own, name, None)
        if (isinstance(own, type) and issubclass(own, tuple)
                and getattr(own, "_fields", None) == tuple(fields) and len(items) == len(fields)):
            return tuple.__new__(own, items)
        make: Any = collections.namedtuple
        return make(value["name"].rpartition(".")[2], fields, rename=True)(*items)

    def numpy(self, value: Dict[str, Any]) -> Any:
        self.used.add(value["name"])
        array = as_numpy(*self._tensors[value["name"]])
        return array.astype(array.dtype.newbyteorder(value["order"])) if "order" in value else array

    def torch(self, value: Dict[str, Any]) -> Any:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            return self.numpy(value)
        self.used.add(value["name"])
        tensor = as_torch(*self._tensors[value["name"]])
        requires_grad = value.get("requires_grad", False)
        if value.get("parameter"):
            return torch.nn.Parameter(tensor, requires_grad=requires_grad)
        return tensor.requires_grad_() if requires_grad else tensor

    def torch_size(self, value: Dict[str, Any]) -> Any:
        try:
            return importlib.import_module("torch").Size(self.items(value))
        except ImportError:
            return tuple(self.items(value))

    def jax(self, value: Dict[str, Any]) -> Any:
        array = self.numpy(value)
        try:
            made = importlib.import_module("jax.numpy").asarray(array)
        except ImportError:
            return array
        # Without jax_enable_x64 it would make 32 bits of 64.
        return made if made.dtype == array.dtype else array


_READERS: Dict[Any, Callable[[_Reader, Dict[str, Any]], Any]] = {
    "int": lambda reader, value: int(value["value"], 16),
    "float": lambda reader, value: float(value["value"]),
    "bytes": lambda reader, value: base64.b64decode(value["value"], validate=True),
    "bytearray": lambda reader, value: bytearray(base64.b64decode(value["value"], validate=True)),
    "complex": lambda reader, value: complex(*(float(part) for part in value["value"])),
    "tuple": lambda reader, value: tuple(reader.items(value)),
    "torch.Size": _Reader.torch_size,
    "namedtuple": _Reader.namedtuple,
    "dict": lambda reader, value: {reader.value(key): reader.value(one)
                                   for key, one in value["items"]},
    "ordered": _Reader.ordered,
    "counter": lambda reader, value: collections.Counter(reader.value(value["value"])),
    "defaultdict": _Reader.defaultdict,
    "numpy": _Reader.numpy,
    "scalar": lambda reader, value: reader.numpy(value)[()],
    "torch": _Reader.torch,
    "jax": _Reader.jax,
}


def as_numpy(element: str, array: Any) -> Any:
    """What came as numpy can hold it, as its own type where ml_dtypes has it, else as its bits."""
    if element not in _STORED_AS:
        return array
    try:
        import ml_dtypes
    except ImportError:
        return array
    return array.view(getattr(ml_dtypes, element))


def as_torch(element: str, array: Any) -> Any:
    """A tensor over the array's memory."""
    import torch
    try:
        if element in _STORED_AS:
            return torch.from_numpy(array.view(_STORED_AS[element])).view(getattr(torch, element))
        return torch.from_numpy(array)
    except (AttributeError, TypeError):
        raise Unsupported(f"torch {torch.__version__} has no {element}") from None

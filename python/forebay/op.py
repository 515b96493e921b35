"""What is done to samples: Op, a name with arguments, and python(), a function of one's own."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

from forebay.errors import ConfigError

__all__ = ["Op", "PythonOp", "python"]

Batch = Dict[str, Any]
Value = Union[bool, int, float, str, Sequence[float], Sequence[str]]


class Op:
    """One step of a loader's `ops`. The functions of forebay.ops make them, one for each op."""

    __slots__ = ("name", "arguments")

    def __init__(self, name: str, arguments: Optional[Mapping[str, Value]] = None, /,
                 **more: Value):
        self.name = name
        self.arguments: Dict[str, Value] = {
            key: value.tolist() if hasattr(value, "tolist") else value  # numpy's numbers and arrays
            for key, value in {**(arguments or {}), **more}.items() if value is not None}

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({inside})"

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Op) and self.name == other.name
                and self.arguments == other.arguments)

    __hash__ = None  # type: ignore[assignment]


def without_defaults(name: str, *arguments: Tuple[str, Any, Any]) -> Op:
    """An op of (argument, value, default): only what differs is said, however it was written."""
    op = Op(name, {key: value for key, value, _ in arguments})
    for key, _, default in arguments:
        value = op.arguments.get(key)
        if isinstance(default, tuple) and isinstance(value, (list, tuple)):
            value = tuple(value)
        if default is not None and value == default:
            del op.arguments[key]
    return op


class PythonOp:
    """A function that gets each batch; see python()."""

    __slots__ = ("function", "name", "calls", "seconds")

    def __init__(self, function: Callable[[Batch], Optional[Batch]], name: str):
        self.function = function
        self.name = name
        self.calls = 0
        self.seconds = 0.0

    def __repr__(self) -> str:
        return f"python({self.name})"


def python(function: Callable[[Batch], Optional[Batch]], *, name: Optional[str] = None) -> PythonOp:
    """An op of one's own: `function` gets each batch, a dict, and gives back the batch to deliver,
    or None when it changed the one it got.

    It runs in the thread that asks for the batch, with the GIL, so the loop waits for it: what it
    costs is in stats()["python"]. It comes after all ops that are not Python.
    """
    if not callable(function):
        raise ConfigError(f"python({function!r}): a function is due")
    return PythonOp(function, name or str(getattr(function, "__qualname__", repr(function))))


def make_op(item: Any) -> Union[Op, PythonOp]:
    """An op from what stands in a list of ops: an Op, its name, or {name: arguments}."""
    if isinstance(item, (Op, PythonOp)):
        return item
    if isinstance(item, str):
        return Op(item)
    if isinstance(item, Mapping):
        if len(item) != 1:
            raise ConfigError(f"an op is {{name: arguments}}, not {dict(item)!r}")
        name, arguments = next(iter(item.items()))
        if arguments is None:
            return Op(name)
        if not isinstance(arguments, Mapping):
            raise ConfigError(f"op {name}: its arguments are {{name: value}}, not {arguments!r}")
        return Op(name, arguments)
    if callable(item):
        hint = getattr(item, "__name__", "")
        raise ConfigError(f"ops: {item!r} is no op; "
                          f"for a function of your own: python({hint}), for an op: {hint}(...)")
    raise ConfigError(f"ops: {item!r} is no op")

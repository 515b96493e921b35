"""What callers give, checked: a value of the wrong kind is an error that names the argument."""

from __future__ import annotations

import operator
import os
from typing import Any, List, Optional, Union

try:
    from forebay import _native
except ImportError as _error:
    raise ImportError(f"forebay's loader and checkpoints need the binary part of the package "
                      f"({_error}): pip install . in forebay's sources, or Debian's "
                      "python3-forebay") from _error
from forebay.errors import ConfigError

__all__ = ["assign", "bytes_per_second", "flag", "index", "is_flag", "list_of", "number", "path",
           "size", "text", "truth", "whole"]

WHOLE_MAX = 2 ** 63 - 1


def assign(target: Any, name: str, value: Any, shown: Optional[str] = None) -> None:
    """Sets a field of the binding's, which would cut fractions off and take whatever is not empty
    for true."""
    now = getattr(target, name)
    exact = value
    try:
        if isinstance(now, bool):
            exact = flag(value)
        elif isinstance(now, int) or (isinstance(now, float) and is_flag(value)):
            exact = index(value)
        setattr(target, name, exact)
    except (TypeError, OverflowError, RuntimeError):
        kind = {bool: "True or False", int: "a number from 0 on", float: "a number",
                str: "text"}.get(type(now), "a list")
        raise ConfigError(f"{shown or name}={value!r}: {kind} is due") from None


def is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # numpy's


def flag(value: Any) -> bool:
    """True, False, 1 or 0 of any library's; TypeError for anything else."""
    if not is_flag(value) and operator.index(value) not in (0, 1):
        raise TypeError
    return bool(value)


def index(value: Any) -> int:
    """A whole number of any library's; TypeError for anything else, as for True."""
    if is_flag(value):
        raise TypeError
    return operator.index(value)


def whole(name: str, value: Any, least: int = 0, most: int = WHOLE_MAX) -> int:
    """A whole number of any library's; True is none, nor is 2.0."""
    due = f"a whole number from {least} on is due"
    if most < WHOLE_MAX:
        due = f"a whole number from {least} to {most} is due"
    try:
        exact = index(value)
    except TypeError:
        raise ConfigError(f"{name}={_shown(value)}: {due}") from None
    if not least <= exact <= most:
        raise ConfigError(f"{name}={_shown(value)}: {due}")
    return exact


def number(name: str, value: Any) -> float:
    """A number of any library's, NaN and infinities too."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ConfigError(f"{name}={_shown(value)}: a number is due") from None


def truth(name: str, value: Any) -> bool:
    if value is not True and value is not False:
        raise ConfigError(f"{name}={_shown(value)}: True or False is due")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name}={_shown(value)}: text is due")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name}={_shown(value)}: a string with half a character") from None
    return value


def size(name: str, value: Union[int, str]) -> int:
    """Bytes, or "4 GB"."""
    if isinstance(value, str):
        try:
            return _native.parse_bytes(value)
        except (ConfigError, TypeError) as error:  # TypeError: half a character
            why = error if isinstance(error, ConfigError) else "a size is due"
            raise ConfigError(f"{name}={value!r}: {why}") from None
    return value


def bytes_per_second(name: str, value: Union[float, str]) -> float:
    """A number, or "200 MB" or "200 MB/s"; 0 = no limit."""
    if isinstance(value, str):
        try:
            return _native.parse_bytes_per_second(value)
        except ConfigError as error:
            raise ConfigError(f"{name}={value!r}: {error}") from None
    rate = number(name, value)
    if not 0 <= rate < float("inf"):
        raise ConfigError(f"{name}={value!r}: bytes a second, or 0 for no limit, are due")
    return rate


def list_of(name: str, value: Any) -> List[Any]:
    try:
        return list(value)
    except TypeError:
        raise ConfigError(f"{name}={_shown(value)}: a list is due") from None


def path(name: str, value: Any) -> str:
    try:
        name_of_file = os.fsdecode(value)
    except TypeError:
        raise ConfigError(f"{name}={_shown(value)}: a path is due") from None
    if "\0" in name_of_file:
        raise ConfigError(f"{name}={value!r}: no path has a zero byte")
    return name_of_file


def _shown(value: Any) -> str:
    """Short, whatever it is; a number of so many digits that Python writes none is only counted."""
    if type(value) is int and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."

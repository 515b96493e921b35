"""forebay batches as tensors of torch, without a copy.

    for batch in loader:
        batch = as_tensors(batch)                      # on the CPU, the batch's own memory
        images = batch["image"].to("cuda", non_blocking=True)
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy
import torch

__all__ = ["as_tensor", "as_tensors"]


def as_tensor(array: "numpy.ndarray[Any, Any]", *, is_bfloat16: bool = False) -> "torch.Tensor":
    """A tensor over the memory of `array`. numpy knows no bfloat16: with ml_dtypes it has a type of
    its own; without, it comes as uint16 with a mark. Both are seen here; `is_bfloat16` is for
    arrays that lost the mark in a computation."""
    marked = (array.dtype.metadata or {}).get("forebay")
    if is_bfloat16 or "bfloat16" in (array.dtype.name, marked):
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_tensors(batch: Mapping[str, Any]) -> Dict[str, Any]:
    """The batch with tensors for arrays, alone or in lists; text and bytes as they are."""
    return {name: _converted(value) for name, value in batch.items()}


def _converted(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return as_tensor(value)
    if isinstance(value, list) and value and isinstance(value[0], numpy.ndarray):
        return [as_tensor(array) for array in value]
    return value

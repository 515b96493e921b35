"""Forebay for Python programs: a data loader, and marks that `forebay record` writes down.

    import forebay as fb

    loader = fb.Loader("images", batch_size=64, shuffle="full",
                       ops=[fb.decode_image(), fb.random_resized_crop(224), fb.flip()])
    for epoch in range(90):
        for batch in loader:                    # {"image": array, "label": array, "__key__": [...]}
            ...

    with fb.mark("step"):                       # a range
        ...

    @fb.mark("augment")                         # every call of a function
    def augment(image): ...

    for batch in fb.mark.steps(loader):         # a step from each batch to the next
        ...

    fb.mark("epoch 3").now()                    # a moment

Ranges named "step" or "iteration", alone or with a number behind, are the iterations that
`forebay explain` works with. Without a recorder a mark does nothing. Any thread, and children of
fork. Marks need nothing but Python; the loader needs numpy and the package's binary part, which are
loaded when it is first used.
"""

from __future__ import annotations

import importlib

from forebay.marks import mark

_PLACES = {
    "forebay.errors": ("Error", "ConfigError", "NotFound", "DataError", "StorageError",
                       "Unsupported", "Closed", "ResourceExhausted"),
    "forebay.loader": ("Loader", "Source", "Plan"),
    "forebay.op": ("Op", "python"),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__version__ = "0.1.0"
__all__ = ["mark", *_PLACE_OF]


def __getattr__(name: str):
    # What is named here is loaded when it is first asked for: marks must stay cheap.
    if name.startswith("_"):
        raise AttributeError(f"module 'forebay' has no attribute '{name}'")
    if name in _PLACE_OF:
        value = getattr(importlib.import_module(_PLACE_OF[name]), name)
    else:
        ops = importlib.import_module("forebay.ops")
        if name not in ops.__all__:
            raise AttributeError(f"module 'forebay' has no attribute '{name}'")
        value = getattr(ops, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *importlib.import_module("forebay.ops").__all__})

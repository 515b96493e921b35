"""Uses of the package that a type checker must accept."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, Iterator, List, Optional

import forebay as fb


def train(folder: pathlib.Path) -> float:
    def halve(batch: Dict[str, Any]) -> Dict[str, Any]:
        return batch

    loader = fb.Loader(
        [fb.Source(folder, weight=0.5), fb.Source("s3://bucket/{000..010}.tar", weight=0.5)], 64,
        ops=[fb.decode_image(), fb.Op("flip"), {"resize": {"size": 64}}, fb.python(halve)],
        shuffle="full", memory="2 GB", drop_last=False)
    with loader, fb.mark("training"):
        loader.load_state_dict(loader.state_dict())
        batches: Iterator[Dict[str, Any]] = iter(loader)
        first: Optional[Dict[str, Any]] = next(batches, None)
        keys: List[str] = [] if first is None else first["__key__"]
        for batch in fb.mark.steps(loader):
            keys += batch["__key__"]
        plan: fb.Plan = loader.explain()
        print(len(loader), plan.entropy, keys, str(plan))
    try:
        fb.Loader.from_config("loader.yaml", batch_size=3).close()
    except fb.DataError as error:
        print(error.file, error.offset, error.record)
    return float(loader.stats()["consumer_wait_seconds"])


@fb.mark("augment")
def augment(value: int) -> int:
    return value + 1


total: int = augment(3)

"""Checkpoints that never tear and hardly stop training.

    from forebay.checkpoint import Checkpointer

    checkpoints = Checkpointer(tiers=["/nvme/ckpt", "s3://bucket/run7"], keep=3)
    try:
        restored = checkpoints.restore()
        step = restored.step
        model.load_state_dict(restored.state["model"])
    except forebay.NotFound:
        step = 0
    ...
    checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "loader": loader.state_dict()})

save() returns once the state is copied in memory: training may change it. The copy becomes durable
on the first tier and goes on to the others in the background. What goes wrong there is raised by
wait() and by the handle that save() returned; the next save() warns of it, and saves its state.

A state is dicts, lists, tuples, numbers, strings, bytes, None, and arrays of numpy, torch and jax.
What would come back as less than it was is refused by its place. Nothing is pickled. The files are
safetensors and a manifest, docs/formats/checkpoint.md.

Under torchrun all ranks save one state together: arrays that all have are written once, and what a
rank holds of a larger one goes in as a Part.
"""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from forebay import arguments  # says when there is no _native
from forebay import _native
from forebay.errors import ConfigError
from forebay.launch import rank_of_process
from forebay.marks import mark
from forebay.state import Part, as_numpy, as_torch, flatten, unflatten

__all__ = ["Checkpointer", "Part", "Tier", "Save", "Restored", "load_file"]

# torchrun's own store listens at MASTER_PORT; the ranks of a Checkpointer meet at one of these
# many ports behind it.
_PORTS = 16
_meetings = itertools.count()  # the n-th of this process meets the n-th of the others


class Tier(NamedTuple):
    """A place for checkpoints: a folder, or "s3://BUCKET/PREFIX"."""

    place: Union[str, "os.PathLike[str]"]
    storage: str = "local"  # driver and its options, as `forebay list stores` shows them
    bytes_per_second_max: Union[float, str] = 0.0  # of copying to it, also as "200 MB/s"; 0 = as
    # fast as it goes
    keep: int = 0  # checkpoints to keep here once they are further on; 0 = by the rules of all


class Restored(NamedTuple):
    """A checkpoint as it was saved."""

    step: int
    state: Any
    metadata: Dict[str, str]
    place: str  # of the tier that it came from
    notes: List[str]  # damage that was met on the way, and what became of it
    others: Dict[str, Any]  # by name, as numpy: what other ranks than the first saved at places of
    # their own


class Save:
    """One save on its way. All waits can be interrupted by Ctrl-C and raise what went wrong."""

    def __init__(self, native: _native.Save):
        self._native = native

    @property
    def step(self) -> int:
        return self._native.step

    @property
    def skipped(self) -> bool:
        """Nothing was saved: an earlier save was still on its way (when_busy="skip")."""
        return self._native.was_skipped

    def wait_durable(self) -> None:
        """Returns once the checkpoint survives power loss on the first tier."""
        with mark("checkpoint wait"):
            self._native.wait_durable()

    def wait_drained(self) -> None:
        """Returns once it is on the last tier."""
        with mark("checkpoint wait"):
            self._native.wait_drained()

    def times(self) -> Dict[str, Optional[float]]:
        """Seconds since save() was called: "stalled" (how long it took), "snapshotted", "durable",
        "drained"; None = not yet."""
        return self._native.times()

    def __repr__(self) -> str:
        times = {name: f"{value:.3f} s" for name, value in self.times().items()
                 if value is not None}
        return f"Save(step={self.step}, {'skipped' if self.skipped else times})"


Place = Union[str, "os.PathLike[str]", Tier]


class Checkpointer:
    """Saves states and restores the newest whole one.

    tiers         places from fast to slow; the first is where a save becomes durable. It may be
                  a folder of each host's own (/nvme/ckpt) when one that all ranks see follows
    keep          the newest so many are kept on the last tier; None = all
    keep_every    and those of steps that are multiples of it
    keep_best     (metric, count): and the `count` best by metrics[metric]; "-metric" = the highest
    when_busy     while an earlier save is on its way: "queue" (wait for its memory only),
                  "block" (wait until it is on the last tier), "skip" (save nothing; Save.skipped)
    compress      zstd; weights hardly shrink
    share_unchanged
                  on file systems with hard links: arrays that did not change between the last saves
                  are not written again; their files get a second name. Not with compress
    threads       that copy, check and write; None = as many as CPUs, up to 4
    memory        the copy takes as much as the state, once; it is kept for the next save
    rank, world_size
                  ranks that save one state together; taken from the launcher's environment when
                  not given. rank=0, world_size=1: each saves alone, in a place of its own.
                  All ranks make the same calls in the same order; they find each other at
                  MASTER_ADDR, at a port from MASTER_PORT + 1 on that is free, or at FOREBAY_PORT.
                  When one dies, the calls of all others raise and name it, the checkpoint before
                  stays the newest, and the job is to be started again.
    gather        another way for ranks to talk: gather(bytes) -> list of all ranks' bytes, by
                  rank. It is called on other threads than the caller's, in the same order on
                  every rank, and must end when a rank is gone.
    """

    def __init__(self, tiers: Union[Place, Sequence[Place]], *, keep: Optional[int] = None,
                 keep_every: int = 0, keep_best: Optional[Tuple[str, int]] = None,
                 when_busy: str = "queue", compress: bool = False,
                 share_unchanged: bool = False, threads: Optional[int] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None,
                 gather: Optional[Callable[[bytes], Sequence[bytes]]] = None):
        options = _native.CheckpointOptions()
        if isinstance(tiers, (str, bytes, os.PathLike, Tier)):
            tiers = [tiers]
        for tier in arguments.list_of("tiers", tiers):
            one = tier if isinstance(tier, Tier) else Tier(tier)
            options.add_tier(
                arguments.path("tiers", one.place), arguments.text("Tier.storage", one.storage),
                arguments.bytes_per_second("Tier.bytes_per_second_max", one.bytes_per_second_max),
                arguments.whole("Tier.keep", one.keep))
        options.keep_last = 0 if keep is None else arguments.whole("keep", keep, least=1)
        options.keep_every = arguments.whole("keep_every", keep_every)
        if keep_best is not None:
            metric, count = _metric_and_count(keep_best)
            options.is_lower_better = not metric.startswith("-")
            options.best_metric, options.keep_best = metric.lstrip("-"), count
        if keep is None and (options.keep_every or options.keep_best):
            raise ConfigError("keep_every and keep_best add to what keep= keeps, which is all "
                              "while it is not given: say how many of the newest stay, keep=1 or "
                              "more")
        options.set_when_busy(arguments.text("when_busy", when_busy))
        options.compress = arguments.truth("compress", compress)
        options.share_unchanged = arguments.truth("share_unchanged", share_unchanged)
        options.threads = 0 if threads is None else arguments.whole("threads", threads, 1, 1024)
        rank, world_size = rank_of_process(rank, world_size)
        self.world_size = arguments.whole("world_size", world_size, least=1)
        self.rank = arguments.whole("rank", rank, most=self.world_size - 1)
        address = None
        if gather is not None:
            if not callable(gather):
                raise ConfigError(f"gather={gather!r}: a function is due")
            options.set_ranks(self.rank, self.world_size, gather)
        elif self.world_size > 1:
            address = _address_of(os.environ, self.rank, self.world_size)
        self._native = _native.Keeper(options, address)

    def save(self, step: int, state: Any, *, metadata: Optional[Mapping[str, str]] = None,
             metrics: Optional[Mapping[str, float]] = None) -> Save:
        """Copies the state and returns; arrays on a device are copied to memory first. A
        RuntimeWarning tells what went wrong with an earlier save that nobody waited for.

        metrics   numbers by name, for keep_best and `forebay checkpoint list`; NaN is worse than
                  any number
        """
        step = arguments.whole("step", step)
        about = _by_name("metadata", metadata, arguments.text)
        numbers = _by_name("metrics", metrics, arguments.number)
        with mark("checkpoint save"):
            tree, parts = flatten(state)
            native = self._native.save(step, parts, tree, about, numbers)
        if native.earlier_failure is not None:
            warnings.warn(f"an earlier save: {native.earlier_failure}", RuntimeWarning,
                          stacklevel=2)
        return Save(native)

    def restore(self, step: Optional[int] = None, *,
                parts: Optional[Mapping[str, Tuple[Sequence[int], Sequence[int]]]] = None
                ) -> Restored:
        """The newest checkpoint that is whole, or the newest of `step`. Raises NotFound when there
        is none, DataError when there are but each is damaged.

        parts   by place in the state ("model.weight"): (start, shape) of what this rank wants of an
                array, whatever parts it was saved in; arrays that are not named come whole
        """
        options = _native.RestoreOptions()
        options.step = None if step is None else arguments.whole("step", step)
        for name, (start, shape) in _by_name("parts", parts, _start_and_shape).items():
            options.add_box(name, start, shape)
        with mark("checkpoint restore"):
            found = self._native.restore(options)
            state, others = unflatten(found["tree"], found["tensors"])
        return Restored(found["step"], state, found["metadata"], found["place"], found["notes"],
                        others)

    def wait(self) -> None:
        """Returns once everything that was saved is on the last tier; what could not be copied
        there before is tried again."""
        with mark("checkpoint wait"):
            self._native.wait()

    def stats(self) -> Dict[str, Union[int, float]]:
        """Saves, skipped and failed ones ("failed": on no tier), copies to a further tier that
        failed ("failed_drains": each is tried again), bytes written and drained, seconds
        stalled."""
        return self._native.stats()

    def close(self) -> None:
        """Waits until what was saved is durable, and ends. What is not yet on the last tier goes on
        when a Checkpointer for the same tiers is made again."""
        with mark("checkpoint wait"):
            self._native.close()

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _metric_and_count(keep_best: Any) -> Tuple[str, int]:
    if not isinstance(keep_best, (tuple, list)) or len(keep_best) != 2:
        raise ConfigError(f"keep_best={keep_best!r}: (metric, count) is due, such as (\"loss\", 3)")
    metric = arguments.text("keep_best", keep_best[0])
    if not metric.lstrip("-"):
        raise ConfigError(f"keep_best={keep_best!r}: the name of a metric is due")
    return metric, arguments.whole("keep_best", keep_best[1])


def _start_and_shape(where: str, box: Any) -> Tuple[List[int], List[int]]:
    if not isinstance(box, (tuple, list)) or len(box) != 2:
        raise ConfigError(f"{where}={box!r}: (start, shape) is due")
    start, shape = (arguments.list_of(where, sides) for sides in box)
    return ([arguments.whole(where, at) for at in start],
            [arguments.whole(where, side) for side in shape])


def _by_name(what: str, given: Optional[Mapping[str, Any]],
             check: Callable[[str, Any], Any]) -> Dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{what}={given!r}: a dict is due")
    return {arguments.text(f"a name in {what}", name): check(f"{what}[{name!r}]", value)
            for name, value in given.items()}


def _address_of(environment: Mapping[str, str], rank: int,
                world_size: int) -> _native.RankAddress:
    """Where torchrun's variables say that the ranks can meet."""
    address = _native.RankAddress()
    host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    own = environment.get("FOREBAY_PORT", "")
    if not host or not (own or port).isdigit():
        raise ConfigError(
            f"{world_size} ranks save one state together, and have to find each other: start them "
            "with torchrun, or set MASTER_ADDR (the host of rank 0) and MASTER_PORT, or give "
            "gather=, a function that gives every rank the bytes of all; rank=0, world_size=1 when "
            "each saves alone, in a place of its own")
    address.rank, address.size, address.host = rank, world_size, host
    address.port, address.ports = (int(own), 1) if own else (int(port) + 1, _PORTS)
    run = " ".join(environment.get(name, "") for name in
                   ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"))
    address.job = " ".join(f"{run} {next(_meetings)}".split())
    return address


def load_file(path: Union[str, "os.PathLike[str]"], framework: str = "numpy") -> Dict[str, Any]:
    """The tensors of a safetensors file by name, as arrays of "numpy" or "torch"."""
    if framework not in ("numpy", "torch"):
        raise ConfigError(f"framework={framework!r}: it is numpy or torch")
    convert = as_torch if framework == "torch" else as_numpy
    with mark("checkpoint load"):
        found = _native.load_safetensors(arguments.path("path", path))
    return {name: convert(*tensor) for name, tensor in found["tensors"].items()}

"""forebay.Loader: batches of a data set, read and decoded ahead by threads without Python."""

from __future__ import annotations

import atexit
import dataclasses
import difflib
import inspect
import os
import sys
import threading
import time
import warnings
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

# First: it says what is amiss when there is no _native.
from forebay.arguments import assign, flag, index, is_flag, list_of, path, size
from forebay import _native
from forebay.errors import Closed, ConfigError, Error, NotFound
from forebay.launch import rank_of_process
from forebay.op import Batch, Op, PythonOp, make_op

__all__ = ["Loader", "Plan", "Source"]

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

_STATE_FIELDS = tuple(name for name in vars(_native.LoaderState) if not name.startswith("_"))


@dataclasses.dataclass
class Source:
    """Where samples come from. Several follow each other as one; with weights they are mixed."""

    data: Path
    """A folder, a file or a pattern: {a,b}, {000..127}, *, ?, **; below a folder or s3://bucket."""
    weight: float = 0.0
    """Of a mixture: share of each epoch's samples. All sources have one, or none."""
    format: str = ""
    """"" = what most files are."""
    samples_per_file: int = 0
    """0 = ask each file."""
    record_bytes: int = 0
    """Raw files: size of one record; 0 = a file is one."""
    record_type: Any = ""
    """Raw files: a numpy type or its name, "uint16" or ">u2"; "" = bytes."""
    record_shape: Sequence[int] = ()
    """Raw files, with record_type."""
    tokens_per_sample: int = 0
    """Token files: length of a window."""
    parts: Sequence[str] = ()
    """Parts of each sample to read; empty = all."""


@dataclasses.dataclass
class Plan:
    """What an open loader is about to do. str() and print() show all of it, a line each."""

    files: int
    samples: int
    batches: int
    file_bytes_per_epoch: int
    read_amplification: float
    entropy: float
    memory_bytes_bound: int
    threads: int
    fetch_depth_max: int
    index_cache_problem: str  # why it was not used or not written
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


def _to_source(item: Any) -> Source:
    if isinstance(item, Source):
        return item
    if isinstance(item, (str, bytes, os.PathLike)):
        return Source(item)
    if isinstance(item, Mapping):
        known = [field.name for field in dataclasses.fields(Source)]
        _refuse_unknown("a source", item, known)
        if "data" not in item:
            raise ConfigError(f"a source without data: {dict(item)!r}")
        return Source(**item)
    raise ConfigError(f"data: {item!r} is no path and no Source")


def _refuse_unknown(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean '{near[0]}'?" if near else f" (known: {', '.join(known)})"
            raise ConfigError(f"{owner} has no '{name}'{hint}")


class Loader:
    """Batches of a data set. Iterating gives those of one epoch, each a dict: arrays that view the
    loader's memory (they stay valid after the batch and the loader, and may be written to), lists
    of str for text, lists of bytes for what was not decoded.

    data              a folder, file or pattern, below a folder or s3://bucket; a Source; a list
    batch_size        samples of a batch of this rank
    ops               what is done to each sample: forebay.ops; forebay.python(function) at the end
    shuffle           "off", "full" or "windowed"; True is "full"
    window_shards     windowed: so many files, or blocks of files, are mixed with each other
    seed              of the order and of random ops
    change_each_epoch shuffle anew in each epoch
    rank, world_size  by default what torchrun or Slurm say (printed once; FOREBAY_QUIET=1 does not)
    tail              "drop", "even", "all" or "pad": what becomes of samples that fill no batch
    drop_last         True is tail="drop", False is "all" for one rank and "even" for several
    on_error          "raise", "skip" or "replace" bad records; a file that is cut or cannot be
                      read counts as one
    errors_max        bad records that "skip" and "replace" allow, all epochs together
    errors_share_max  the same, as a share of the samples given so far, from the 100th on: with
                      fewer it does not hold
    memory            bound of all its buffers: bytes or "4 GB"; by default a quarter of what this
                      process may use
    prefetch_batches  ready ahead of the loop
    fetch_depth, decode_threads   reads in flight and threads; 0 = tuned while it runs
    read_ahead_bytes  read but not yet decoded
    as_ready          batches as they finish instead of in order
    storage           driver and its options, as `forebay list stores` shows them
    index_cache       file that remembers what data sets hold, up to 16 of them; one that cannot be
                      read or written is a RuntimeWarning
    format, samples_per_file, record_bytes, record_type, record_shape, tokens_per_sample, parts
                      of the data, as of a Source
    convert_to_rgb, apply_orientation   of images; the first without ops only

    One thread at a time is served; others wait. A child of fork must make a loader of its own.
    """

    def __init__(
        self,
        data: Union[Path, Source, Sequence[Union[Path, Source, Mapping[str, Any]]]],
        batch_size: int = 1,
        *,
        ops: Sequence[Union[Op, PythonOp, str, Mapping[str, Any]]] = (),
        shuffle: Union[str, bool] = "off",
        window_shards: int = 1,
        seed: int = 0,
        change_each_epoch: bool = True,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        tail: Optional[str] = None,
        drop_last: Optional[bool] = None,
        on_error: str = "raise",
        errors_max: Optional[int] = None,
        errors_share_max: float = 1.0,
        memory: Union[int, str] = 0,
        prefetch_batches: int = 2,
        fetch_depth: int = 0,
        decode_threads: int = 0,
        read_ahead_bytes: Union[int, str] = 32 << 20,
        as_ready: bool = False,
        storage: str = "local",
        index_cache: Path = "",
        format: str = "",
        samples_per_file: int = 0,
        record_bytes: int = 0,
        record_type: Any = "",
        record_shape: Sequence[int] = (),
        tokens_per_sample: int = 0,
        parts: Sequence[str] = (),
        convert_to_rgb: bool = False,
        apply_orientation: bool = True,
    ):
        self._feed: Optional[_native.Feed] = None
        options = _native.LoaderOptions()
        own = Source("", 0.0, format, samples_per_file, record_bytes, record_type, record_shape,
                     tokens_per_sample, parts)
        self._name = _add_sources(options, data, own)
        assign(options, "batch_size", batch_size)
        self._functions = _add_ops(options, ops)
        rank, world_size = rank_of_process(rank, world_size)
        assign(options, "rank", rank)
        assign(options, "world_size", world_size)
        assign(options, "tail", _choose_tail(tail, drop_last, options.world_size))
        if is_flag(shuffle):
            shuffle = "full" if shuffle else "off"
        assign(options, "memory_bytes", size("memory", memory), "memory")
        assign(options, "read_ahead_bytes", size("read_ahead_bytes", read_ahead_bytes))
        if errors_max is not None:
            assign(options, "errors_max", errors_max)
        for name, value in (
                ("shuffle", shuffle), ("window_shards", window_shards), ("seed", seed),
                ("change_each_epoch", change_each_epoch), ("on_error", on_error),
                ("errors_share_max", errors_share_max), ("prefetch_batches", prefetch_batches),
                ("fetch_depth", fetch_depth), ("decode_threads", decode_threads),
                ("as_ready", as_ready), ("storage", storage),
                ("index_cache", path("index_cache", index_cache)),
                ("convert_to_rgb", convert_to_rgb),
                ("apply_orientation", apply_orientation)):
            assign(options, name, value)

        feed = _native.Feed(options)
        self._feed = feed
        self._next = feed.next
        self._tail: str = options.tail
        self._batch_size: int = options.batch_size
        self._rank: int = options.rank
        self._world_size: int = options.world_size
        self._sample_count: int = feed.sample_count()
        self._begin: _native.LoaderState = feed.state()
        self._epoch: int = self._begin.epoch
        self._given = 0            # batches since the epoch or load_state_dict
        self._is_restored = False  # and nothing given since
        self._taken = 0            # how often a batch was taken, or given back
        self._pass = 0             # number of the loop that may go on
        self._turn = threading.RLock()  # of who changes the five above
        _open_loaders.add(self)
        problem = feed.explain()["index_cache_problem"] if options.index_cache else ""
        if problem:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)

    @classmethod
    def from_config(cls, config: Union[Mapping[str, Any], Path], **more: Any) -> "Loader":
        """From a dict of this class's arguments, or a YAML file of them; `more` goes before both.

        Ops are names or one-entry dicts: [decode_image, {random_resized_crop: {size: 224}}].
        """
        if isinstance(config, Mapping):
            place, arguments = "the configuration", dict(config)
        else:
            place = os.fsdecode(config)
            arguments = _read_yaml(place)
        arguments.update(more)
        known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
        _refuse_unknown(place, arguments, known)
        if "data" not in arguments:
            raise ConfigError(f"{place} has no 'data'")
        return cls(**arguments)

    # The loop.

    def __iter__(self) -> Iterator[Batch]:
        """The batches of an epoch: what load_state_dict left of one, else a whole one. Where a loop
        was broken off in the middle, the next one is the next epoch's."""
        with self._turn:
            if self._given and not self._is_restored:
                self.set_epoch(self._epoch + 1)
            self._pass += 1
            return _Pass(self, self._pass)

    def __next__(self) -> Batch:
        """The next batch of the running epoch; after its StopIteration, the next epoch's first.
        Threads that are to end together share an iterator instead: iter(loader)."""
        batch = self._take(None)
        if batch is None:
            raise StopIteration
        return batch

    def _take(self, loop: Optional["_Pass"]) -> Optional[Batch]:
        """The next batch, after the functions; None at the end of an epoch, or of `loop`. A batch
        that Ctrl-C keeps from the caller comes again."""
        number = None
        try:
            with self._turn:
                if loop is not None and not loop.may_go_on():
                    return None
                before = self._epoch, self._given, self._is_restored
                try:
                    batch = self._next()
                    self._is_restored = False
                    self._epoch, self._given = ((self._epoch + 1, 0) if batch is None
                                                else (self._epoch, self._given + 1))
                    if loop is not None:
                        loop.is_over = batch is None
                    self._taken = number = self._taken + 1
                except BaseException:
                    self._take_back(loop, before)
                    raise
            if batch is not None:
                for function in self._functions:
                    batch = _apply(function, batch)
            return batch
        except BaseException as error:
            # What a function raises by itself is its answer to this batch.
            if number is not None and not isinstance(error, Exception):
                with self._turn:
                    if self._taken == number:  # else another thread has taken the next one
                        self._take_back(loop, before)
            raise

    def _take_back(self, loop: Optional["_Pass"], before: Tuple[int, int, bool]) -> None:
        """In its turn: what was taken last counts as not given. If nothing was because the loader
        has failed, the loop ends: as with generators, an error is raised once."""
        feed = self._live()
        if feed.take_back():
            self._epoch, self._given, self._is_restored = before
            self._taken += 1
        if loop is not None:
            loop.is_over = feed.has_failed()

    def __len__(self) -> int:
        """Batches of a whole epoch, of this rank."""
        return self._live().batches_per_epoch()

    # State.

    @property
    def epoch(self) -> int:
        """That of the next batch."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of `epoch`, wherever it stands."""
        self._go_to(epoch, 0)

    def state_dict(self) -> Dict[str, Any]:
        """Where the loop stands, for json, torch.save or a checkpoint. The same on all ranks after
        the same number of steps. Loaders of another batch size or number of ranks go on from it.
        """
        state = self._live().state()
        values = {name: getattr(state, name) for name in _STATE_FIELDS}
        if self._is_at_end(state.position):
            values.update(epoch=state.epoch + 1, position=0)
        return {"forebay": 1, **values}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where `state` was taken: the next loop gives the rest of that epoch.
        Refuses, with what differs, a state of another data set, order or ops."""
        if not isinstance(state, Mapping) or state.get("forebay") != 1:
            raise ConfigError("this is no state of a forebay.Loader")
        missing = [name for name in _STATE_FIELDS if name not in state]
        if missing:
            raise ConfigError(f"the state lacks {', '.join(missing)}")
        target = _native.LoaderState()
        for name in _STATE_FIELDS:
            assign(target, name, state[name])
        is_within = target.position <= self._sample_count  # else it is refused
        if is_within and self._is_at_end(target.position):  # of fewer ranks, perhaps
            target.epoch, target.position = target.epoch + 1, 0
        self._restore(target)

    def _is_at_end(self, position: int) -> bool:
        """Whether no batch of the epoch comes after `position`."""
        left = self._sample_count - position
        if self._tail == "drop":
            return left < self._batch_size * self._world_size
        return left < self._world_size if self._tail == "even" else left == 0

    def _go_to(self, epoch: int, position: int) -> None:
        target = _native.LoaderState()
        for name in _STATE_FIELDS:
            setattr(target, name, getattr(self._begin, name))
        assign(target, "epoch", epoch)
        target.position = position
        self._restore(target)

    def _restore(self, target: _native.LoaderState) -> None:
        with self._turn:
            self._live().restore(target)
            self._epoch = target.epoch
            self._given = 0
            self._is_restored = True
            self._pass += 1

    # What it does.

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    @property
    def batch_size(self) -> int:
        return self._batch_size

    @property
    def sample_count(self) -> int:
        """Of the data set, all ranks together."""
        return self._sample_count

    @property
    def class_names(self) -> List[str]:
        """Of a folder of classes: label i is the i-th."""
        return self._live().class_names()

    def stats(self) -> Dict[str, Any]:
        """What was read, decoded and waited for since the loader was made; "python": what one's own
        functions cost."""
        stats = self._live().stats()
        stats["python"] = [{"name": op.name, "calls": op.calls, "seconds": op.seconds}
                           for op in self._functions]
        stats["python_seconds"] = sum(op.seconds for op in self._functions)
        return stats

    def explain(self) -> Plan:
        """The plan: files, bytes per epoch, order, memory bound, threads."""
        return Plan(**self._live().explain())

    def close(self) -> None:
        """Stops its threads and gives its memory back. Arrays of batches live on."""
        if self._feed is not None:
            self._feed.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a forebay.Loader cannot be copied or pickled, for it has threads and open "
                        "files: make it in the process that uses it; its state_dict() can be sent")

    def __repr__(self) -> str:
        if self._feed is None or self._feed.is_closed():
            return f"<forebay.Loader of {self._name}, closed>"
        return (f"<forebay.Loader of {self._name}: {self._sample_count} samples, batches of "
                f"{self._batch_size}, rank {self._rank} of {self._world_size}>")

    def _live(self) -> _native.Feed:
        if self._feed is None:
            raise Closed("this loader was never opened")
        return self._feed


class _Pass(Iterator[Batch]):
    """One epoch of a loader, or the rest of it; for any number of threads, all of which end."""

    __slots__ = ("_loader", "_number", "is_over")

    def __init__(self, loader: Loader, number: int):
        self._loader = loader
        self._number = number
        self.is_over = False

    def __iter__(self) -> "_Pass":
        return self

    def may_go_on(self) -> bool:
        """False at its end; in the loader's turn."""
        if not self.is_over and self._loader._pass != self._number:
            raise Error("another loop over this loader has begun since, or its state was set; "
                        "two loops at once need two loaders")
        return not self.is_over

    def __next__(self) -> Batch:
        batch = self._loader._take(self)
        if batch is None:
            raise StopIteration
        return batch

    def __length_hint__(self) -> int:
        return 0 if self.is_over else max(0, len(self._loader) - self._loader._given)


def _apply(op: PythonOp, batch: Batch) -> Batch:
    begin = time.perf_counter()
    try:
        result = op.function(batch)
    except StopIteration as error:  # would end the loop as if the epoch were over
        raise RuntimeError(f"{op!r} raised StopIteration") from error
    finally:
        op.calls += 1
        op.seconds += time.perf_counter() - begin
    return batch if result is None else result


def _add_sources(options: _native.LoaderOptions, data: Any, own: Source) -> str:
    """Fills in where the samples come from; `own` holds what was said beside `data`. A name."""
    is_one = isinstance(data, (str, bytes, os.PathLike, Source, Mapping))
    many = [data] if is_one else list_of("data", data)
    sources = [_to_source(item) for item in many]
    if not sources:
        raise ConfigError("data: an empty list")
    default = Source("")
    for field in dataclasses.fields(Source):
        value = getattr(own, field.name)
        if field.name in ("data", "weight") or _says_nothing(value, getattr(default, field.name)):
            continue
        for index, source in enumerate(sources):
            if _says_nothing(getattr(source, field.name), getattr(default, field.name)):
                sources[index] = source = dataclasses.replace(source, **{field.name: value})
    for source in sources:
        target = _native.DataSource()
        _fill(target, source)
        options.add_source(target)
    names = [os.fsdecode(source.data) for source in sources]
    return repr(names[0]) if len(names) == 1 else f"{len(names)} sources"


def _says_nothing(value: Any, default: Any) -> bool:
    """Whether `value` is what stands there by default; arrays give no plain answer to ==."""
    try:
        return len(value) == 0 if isinstance(default, tuple) else bool(value == default)
    except (TypeError, ValueError):
        return False


def _fill(target: _native.DataSource, source: Source) -> None:
    for field in dataclasses.fields(Source):
        value = getattr(source, field.name)
        if field.name == "data":
            value = path("data", value)
        elif field.name == "record_type":
            value = _type_name(value)
        elif field.name == "record_shape":
            value = [_side(side, value) for side in list_of("record_shape", value)]
        elif isinstance(value, (tuple, list)):
            value = list(value)
        assign(target, field.name, value)


def _side(side: Any, shape: Any) -> int:
    try:
        return index(side)
    except TypeError:
        raise ConfigError(f"record_shape={shape!r}: whole numbers are due") from None


def _type_name(value: Any) -> Any:
    """numpy's types, numpy.uint16 or numpy.dtype(">u2"), by name."""
    if isinstance(value, str):
        return value
    numpy = sys.modules.get("numpy")  # who has such a type has loaded it
    if numpy is None or not isinstance(value, (type, numpy.dtype)):
        return value
    try:
        return str(numpy.dtype(value).str)
    except TypeError:
        return value


def _add_ops(options: _native.LoaderOptions, ops: Any) -> List[PythonOp]:
    if isinstance(ops, (str, Op, PythonOp, Mapping)) or callable(ops):
        ops = [ops]
    functions: List[PythonOp] = []
    for item in list_of("ops", ops):
        op = make_op(item)
        if isinstance(op, PythonOp):
            functions.append(PythonOp(op.function, op.name))  # of this loader: it counts calls
        elif functions:
            raise ConfigError(f"op {op.name} after {functions[-1]!r}: functions get whole batches, "
                              "so they come last")
        else:
            try:
                options.add_op(op.name, dict(op.arguments))
            except (TypeError, RuntimeError, OverflowError):
                raise ConfigError(f"{op!r}: arguments are numbers, text, flags, or lists of "
                                  "numbers or of text") from None
    return functions


def _choose_tail(tail: Optional[str], drop_last: Optional[bool], world_size: int) -> str:
    if drop_last is None:
        return "drop" if tail is None else tail
    if tail is not None:
        raise ConfigError("tail and drop_last say the same: give one")
    try:
        drops = flag(drop_last)
    except TypeError:
        raise ConfigError(f"drop_last={drop_last!r}: True or False is due") from None
    if drops:
        return "drop"
    return "all" if world_size == 1 else "even"


def _read_yaml(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file") from None
    try:
        document = _native.read_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a loader's arguments are due, one 'name: value' a line")
    return document


_open_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()


def _forget_turns() -> None:
    # In a child of fork: the thread whose turn it was is the parent's.
    for loader in list(_open_loaders):
        loader._turn = threading.RLock()


os.register_at_fork(after_in_child=_forget_turns)


@atexit.register
def _close_all() -> None:
    # Before the interpreter takes its threads away: one that waits in a loader ends in order.
    for loader in list(_open_loaders):
        loader.close()

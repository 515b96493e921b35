"""forebay.checkpoint: states of all kinds come back as they were; nothing is pickled; what is torn
or damaged is never given back; files are those of safetensors."""

import collections
import enum
import glob
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

import forebay
from forebay import checkpoint
from forebay.checkpoint import Checkpointer, Part, Tier
from forebay.state import _ELEMENTS, flatten
from support import run_program

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None
try:
    import safetensors.numpy as reference
except ImportError:
    reference = None

Moments = collections.namedtuple("Moments", ["mu", "nu"])


def same(a, b):
    """Equal in type and value, bit for bit."""
    if torch is not None and isinstance(a, torch.Tensor):
        return (type(a) is type(b) and a.dtype == b.dtype and a.requires_grad == b.requires_grad
                and torch.equal(a, b))
    if isinstance(a, (numpy.ndarray, numpy.generic)):
        return (type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
                and a.tobytes() == b.tobytes())
    if isinstance(a, dict):
        return (type(a) is type(b) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
                and getattr(a, "default_factory", None) is getattr(b, "default_factory", None))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and a == b


def plain_state():
    rng = numpy.random.default_rng(1)
    return {
        "model": {"weight": rng.random((37, 53), dtype=numpy.float32),
                  "bias": rng.integers(0, 9, 53), "mask": rng.random(7) < 0.5,
                  "half": rng.random(3).astype(numpy.float16), "empty": numpy.zeros((0, 4)),
                  "scalar": numpy.array(3.5), "fortran": numpy.asfortranarray(rng.random((3, 4))),
                  "big": numpy.arange(5, dtype=">i4"),
                  "complex": numpy.ones(2, numpy.complex64)},
        "optimizer": {"state": {0: {"step": 7, "exp_avg": rng.random(4)}, 1: {}},
                      "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1]}]},
        "moments": Moments(numpy.ones(2), [numpy.zeros(1)]),
        "order": collections.OrderedDict([("z", 1), ("a", numpy.ones(1))]),
        "milestones": collections.Counter([30, 30, 80]),
        "groups": collections.defaultdict(list, {"a": [numpy.ones(2)]}),
        "numbers": [10 ** 400, -2 ** 63, 2 ** 64, bytearray(b"\x01"), -0.0],
        "plain": [None, True, -3, 2 ** 70, 0.1, math.inf, math.nan, "text \u00e9", b"\x00\xff", 1j,
                  numpy.float32(0.5), (), [], {}],
        "keys": {1: "a", (2, 3): "b", None: "c", "$": "d", True: "e"},
        "a.b": {"c": numpy.zeros(1)}, "a": {"b.c": numpy.ones(1)},
    }


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="forebay-checkpoint-")
        self.addCleanup(self._folder.cleanup)
        self.fast = os.path.join(self._folder.name, "fast")
        self.slow = os.path.join(self._folder.name, "slow")

    def test_a_state_comes_back_as_it_was(self):
        state = plain_state()
        with Checkpointer([self.fast, self.slow]) as saver:
            save = saver.save(100, state, metadata={"user": "\u00e9"}, metrics={"loss": 0.5})
            state["model"]["weight"][:] = 0  # training goes on
            save.wait_drained()
            self.assertEqual([], [name for name, at in save.times().items() if at is None])
        for place in (self.fast, self.slow):
            with Checkpointer(place) as saver:
                restored = saver.restore()
            self.assertEqual(restored.step, 100)
            self.assertEqual(restored.metadata, {"user": "\u00e9"})
            self.assertEqual(restored.notes, [])
            self.assertTrue(same(plain_state(), restored.state))
            restored.state["model"]["weight"][0, 0] = 1  # one's own memory

    @unittest.skipIf(torch is None, "no torch")
    def test_tensors_of_torch_come_back_as_such(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(5, 3)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.rand(2, 5)).sum().backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "bf16": torch.rand(3, 2).to(torch.bfloat16).t(), "rng": torch.get_rng_state(),
                 "scalar": torch.tensor(2.5), "bool": torch.tensor([True, False]),
                 "parameter": model.weight, "gradient": torch.ones(2, requires_grad=True),
                 "size": model.weight.shape}
        with Checkpointer(self.fast) as saver:
            saver.save(1, state).wait_durable()
            restored = saver.restore().state
        self.assertTrue(same(state["model"], restored["model"]))
        # By which modules know how to read older states.
        self.assertEqual(state["model"]._metadata, restored["model"]._metadata)
        self.assertTrue(same(state["optimizer"], restored["optimizer"]))
        for name in ("bf16", "rng", "scalar", "bool", "parameter", "gradient", "size"):
            self.assertTrue(same(state[name], restored[name]), name)
        torch.optim.Adam(model.parameters()).load_state_dict(restored["optimizer"])

    def test_what_would_have_to_be_pickled_is_refused_by_its_place(self):
        loop = []
        loop.append(loop)
        for value, says in ((object(), "builtins.object"), ({1, 2}, "builtins.set"),
                            (numpy.array(["x"]), "<U1"), (numpy.array([None]), "object"),
                            (loop, "holds itself"), ({frozenset(): 1}, "frozenset"),
                            ("\ud800", "half a character")):
            self.refuses(value, says)

    def refuses(self, value, says):
        with self.assertRaises(forebay.ConfigError, msg=says) as caught:
            flatten({"deep": [0, value]})
        self.assertIn("state['deep']['1']", str(caught.exception))
        self.assertIn(says, str(caught.exception))

    def test_what_would_come_back_as_less_is_refused_by_its_place(self):
        class Words(dict):
            pass

        class Level(enum.IntEnum):
            LOW = 1

        marked = numpy.dtype("i4", metadata={"unit": "m"})
        record = numpy.zeros(2, [("a", "i4"), ("b", "f4")])
        for value, says in ((numpy.ma.array([1, 2], mask=[0, 1]), "getmaskarray"),
                            (numpy.matrix([[1]]), "numpy.asarray()"),
                            (record, "fields"), (record.view(numpy.recarray), "recarray"),
                            (numpy.array(["2020-01-01"], "datetime64[D]"), ".view('int64')"),
                            (numpy.timedelta64(1, "s"), ".view('int64')"),
                            (numpy.ones(1, numpy.complex128), ".view('float64')"),
                            (numpy.array([1], marked), "metadata"),
                            (numpy.str_("x"), ".tolist()"), (Level.LOW, "plain int"),
                            (Words(a=1), "plain dict"),
                            (collections.defaultdict(lambda: 1), "defaultdict"),
                            (range(3), "builtins.range")):
            self.refuses(value, says)

    def test_every_type_that_a_file_can_hold_comes_back(self):
        names = [name for name in sorted(_ELEMENTS)
                 if name != "bfloat16" and not name.startswith("float8")]
        arrays = {name: numpy.ones((2, 3), name) for name in names}
        with Checkpointer(self.fast) as saver:
            saver.save(1, arrays).wait_durable()
            self.assertTrue(same(saver.restore().state, arrays))

    @unittest.skipIf(torch is None, "no torch")
    def test_tensors_that_are_more_than_their_values_are_refused_by_their_place(self):
        for value, says in ((torch.ones(2, device="meta"), "no values"),
                            (torch.eye(2).to_sparse(), ".indices()"),
                            (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
                             ".int_repr()"),
                            (torch.ones(2, dtype=torch.complex128), "view_as_real"),
                            (torch.nn.parameter.UninitializedParameter(), "plain tensor"),
                            (torch.ones((1,) * 65), "65 dimensions"),
                            (torch.float32, "torch.dtype")):
            self.refuses(value, says)

    @unittest.skipIf(jax is None, "no jax")
    def test_arrays_of_jax_come_back_or_are_refused_by_their_place(self):
        arrays = {"w": jax.numpy.arange(3.0), "b": jax.numpy.ones(2, jax.numpy.bfloat16)}
        with Checkpointer(self.fast) as saver:
            saver.save(1, arrays).wait_durable()
            restored = saver.restore().state
        for name, array in arrays.items():
            self.assertIsInstance(restored[name], jax.Array)
            self.assertEqual(restored[name].dtype, array.dtype)
            self.assertEqual(restored[name].tolist(), array.tolist())
        self.refuses(jax.random.key(0), "key_data")
        gone = jax.numpy.ones(2)
        gone.delete()
        self.refuses(gone, "without values here")

    # A loss that diverged is when the checkpoint is needed most.
    def test_metrics_that_are_no_numbers_are_kept_and_the_worst(self):
        with Checkpointer(self.fast, keep=1, keep_best=("loss", 2)) as saver:
            for step, loss in ((1, math.nan), (2, 0.5), (3, math.inf), (4, numpy.float32(0.25)),
                               (5, math.nan)):
                saver.save(step, {"w": numpy.ones(1)}, metrics={"loss": loss}).wait_drained()
            saver.wait()
            self.assertEqual(saver.restore().step, 5)
        steps = [int(os.path.basename(one).split("-")[1])
                 for one in sorted(glob.glob(os.path.join(self.fast, "step-*")))]
        self.assertEqual(steps, [2, 4, 5])

    def test_files_are_those_of_safetensors(self):
        with Checkpointer(self.fast) as saver:
            saver.save(5, {"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3)}).wait_durable()
        [file] = glob.glob(os.path.join(self.fast, "step-*", "*.safetensors"))
        with open(file, "rb") as opened:
            length, = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(length))
            data = opened.read()
        begin, end = header["w"]["data_offsets"]
        values = numpy.frombuffer(data[begin:end], "<f4").reshape(header["w"]["shape"])
        self.assertEqual(values.tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(checkpoint.load_file(file)["w"].tolist(), values.tolist())
        if torch is not None:
            self.assertEqual(checkpoint.load_file(file, "torch")["w"].tolist(), values.tolist())
        with open(file, "r+b") as opened:
            opened.truncate(os.path.getsize(file) - 1)
        with self.assertRaisesRegex(forebay.DataError, "the file has 23|behind the file"):
            checkpoint.load_file(file)

    @unittest.skipIf(reference is None, "no safetensors, the reference library")
    def test_the_reference_library_reads_our_files_and_we_read_its(self):
        arrays = {"w": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
                  "empty": numpy.zeros((0, 4)), "scalar": numpy.array(7),
                  "mask": numpy.array([True, False]), "half": numpy.ones(3, numpy.float16),
                  "\u00e9 \"x\"": numpy.ones(1, numpy.uint16)}
        with Checkpointer(self.fast) as saver:
            saver.save(5, arrays).wait_durable()
        [file] = glob.glob(os.path.join(self.fast, "step-*", "*.safetensors"))
        theirs = os.path.join(self._folder.name, "theirs.safetensors")
        reference.save_file(arrays, theirs, {"format": "np"})
        for found in (reference.load_file(file), checkpoint.load_file(theirs)):
            self.assertEqual(sorted(found), sorted(arrays))
            for name, array in arrays.items():
                self.assertTrue(same(array, numpy.asarray(found[name])), name)

    def test_nothing_there_and_only_damage_are_told_apart(self):
        with Checkpointer(self.fast) as saver:
            with self.assertRaises(forebay.NotFound):
                saver.restore()
            saver.save(1, {"w": numpy.ones(1000)}).wait_durable()
            saver.save(2, {"w": numpy.zeros(1000)}).wait_durable()
            files = sorted(glob.glob(os.path.join(self.fast, "step-*", "*.safetensors")))
            for file, left in zip(reversed(files), (1, None)):
                with open(file, "r+b") as opened:
                    opened.seek(5000)
                    opened.write(b"\x55")
                if left:
                    restored = saver.restore()
                    self.assertEqual(restored.step, left)
                    self.assertIn("damaged", restored.notes[0])
            with self.assertRaisesRegex(forebay.DataError, "damaged"):
                saver.restore()

    def test_what_does_not_change_is_written_once(self):
        with Checkpointer(self.fast, share_unchanged=True) as saver:
            for step in range(1, 6):
                state = {"frozen": numpy.arange(1000.0), "moving": numpy.full(1000, step)}
                saver.save(step, state).wait_durable()
            self.assertGreaterEqual(saver.stats()["bytes_shared"], 2 * 8000)
            self.assertTrue(same(saver.restore().state, state))

    def test_options_are_checked(self):
        for words in ({"keep": 0}, {"when_busy": "maybe"}, {"keep_every": 5},
                      {"keep": 1, "keep_best": ("", 1)},
                      {"compress": True, "share_unchanged": True}, {"rank": 0, "world_size": 2}):
            with self.assertRaises(forebay.ConfigError, msg=words):
                Checkpointer(self.fast, **words)
        with self.assertRaises(forebay.ConfigError):
            Checkpointer([])
        with self.assertRaises(forebay.ConfigError):
            Checkpointer([self.fast, self.fast])

    def test_values_of_the_wrong_kind_are_refused_with_the_name_of_the_argument(self):
        for words, says in (({"keep": 1.5}, "keep=1.5: a whole number from 1 on is due"),
                            ({"keep": True}, "keep=True"), ({"keep_every": "2"}, "keep_every='2'"),
                            ({"keep_best": "loss"}, '("loss", 3)'),
                            ({"keep_best": ("loss", -1)}, "keep_best=-1"),
                            ({"threads": 0}, "threads=0"), ({"compress": "no"}, "compress='no'"),
                            ({"when_busy": None}, "when_busy=None: text is due"),
                            ({"keep_every": 2}, "keep=1 or more"),
                            ({"keep": 1, "keep_best": ("-", 1)}, "the name of a metric is due"),
                            ({"rank": 2, "world_size": 2}, "rank=2: a whole number from 0 to 1"),
                            ({"rank": "0", "world_size": 1}, "rank='0'"),
                            ({"rank": 0, "world_size": 1, "gather": 3}, "a function is due")):
            with self.assertRaisesRegex(forebay.ConfigError, re.escape(says)):
                Checkpointer(self.fast, **words)
        with self.assertRaisesRegex(forebay.ConfigError, "Part's shape=7: a list is due"):
            Part(numpy.ones(1), 7, [0])
        self.refuses(Part(3, [1], [0]), "a Part of a builtins.int, which is no array")
        for tiers, says in ((7, "tiers=7"), ([None], "tiers=None: a path is due"),
                            (Tier(self.fast, keep=-1), "Tier.keep=-1"),
                            (Tier(self.fast, bytes_per_second_max="fast"), "Tier.bytes_per_second"),
                            (Tier(self.fast, bytes_per_second_max=math.nan), "bytes a second")):
            with self.assertRaisesRegex(forebay.ConfigError, re.escape(says)):
                Checkpointer(tiers)
        with Checkpointer([self.fast, Tier(self.slow, bytes_per_second_max="1 GB/s")]) as saver:
            for step in (-1, True, 1.0, "1", 10 ** 400, None):
                with self.assertRaisesRegex(forebay.ConfigError, "^step=.*a whole number from 0"):
                    saver.save(step, {})
            for words, says in (({"metrics": {"loss": "low"}}, "metrics['loss']='low'"),
                                ({"metrics": {"loss": 1j}}, "a number is due"),
                                ({"metrics": [1]}, "metrics=[1]: a dict is due"),
                                ({"metadata": {"a": 1}}, "metadata['a']=1: text is due"),
                                ({"metadata": {"a": "\ud800"}}, "half a character"),
                                ({"metrics": {"\ud800": 1}}, "half a character"),
                                ({"metadata": {1: "a"}}, "a name in metadata=1")):
                with self.assertRaisesRegex(forebay.ConfigError, re.escape(says)):
                    saver.save(1, {}, **words)
            with self.assertRaisesRegex(forebay.ConfigError, "step=-1"):
                saver.restore(-1)
            with self.assertRaisesRegex(forebay.ConfigError, "start, shape"):
                saver.restore(parts={"w": 1})
            self.assertEqual(saver.save(numpy.int64(3), {}).step, 3)

    def test_retention_and_skipping(self):
        tiers = [Tier(self.fast, keep=1), Tier(self.slow, bytes_per_second_max=2e5)]
        with Checkpointer(tiers, keep=2, keep_best=("loss", 1), when_busy="skip") as saver:
            state = {"w": numpy.ones(10_000)}
            first = saver.save(1, state, metrics={"loss": 0.1})
            self.assertTrue(saver.save(2, state, metrics={"loss": 0.2}).skipped)
            first.wait_drained()
            self.assertGreater(first.times()["drained"], 0.2)
            for step in (3, 4, 5):
                saver.save(step, state, metrics={"loss": 0.3}).wait_drained()
            saver.wait()
            self.assertEqual(saver.stats()["skipped"], 1)
        steps = [int(os.path.basename(one).split("-")[1])
                 for one in sorted(glob.glob(os.path.join(self.slow, "step-*")))]
        self.assertEqual(steps, [1, 4, 5])
        self.assertEqual(len(glob.glob(os.path.join(self.fast, "step-*"))), 1)

    def test_saves_and_restores_are_marked_for_a_recorder(self):
        script = ("import sys, numpy\nfrom forebay.checkpoint import Checkpointer\n"
                  "with Checkpointer(sys.argv[1]) as saver:\n"
                  "    saver.save(1, {'w': numpy.ones(9)}).wait_durable()\n"
                  "    saver.restore()\n    saver.wait()\n")
        marks = os.path.join(self._folder.name, "marks")
        os.mkdir(marks)
        subprocess.run([sys.executable, "-c", script, self.fast], check=True,
                       env={**os.environ, "FOREBAY_MARKS": marks})
        [file] = os.listdir(marks)
        with open(os.path.join(marks, file), encoding="utf-8") as opened:
            lines = [line.split(maxsplit=3) for line in opened]
        ranges = [(kind, text.strip()) for kind, _, _, text in lines]
        self.assertEqual(ranges, [(kind, f"checkpoint {what}")
                                  for what in ("save", "wait", "restore", "wait", "wait")
                                  for kind in "BE"])

    def test_a_restore_takes_little_more_memory_than_its_arrays(self):
        large = numpy.arange(10 << 20, dtype=numpy.float64)  # 80 MiB, and four of them
        for compress in (False, True):
            place = os.path.join(self._folder.name, f"memory{compress}")
            with Checkpointer(place, compress=compress, threads=4) as saver:
                saver.save(1, [large + i for i in range(4)])
            code, out, err = run_program("""
import re, sys
import numpy
from forebay.checkpoint import Checkpointer
def peak():
    with open("/proc/self/status") as file:
        return int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) << 10
before = peak()
with Checkpointer(sys.argv[1], threads=4) as saver:
    restored = saver.restore().state
assert all(one[-1] == (10 << 20) - 1 + i for i, one in enumerate(restored)), restored
print(peak() - before)
""", place)
            self.assertEqual(code, 0, err)
            with self.subTest(compress=compress):
                self.assertGreater(int(out), 320 << 20)
                self.assertLess(int(out), (320 + 256) << 20)

    def test_a_closed_checkpointer_says_so(self):
        saver = Checkpointer(self.fast)
        saver.close()
        saver.close()
        with self.assertRaises(forebay.Closed):
            saver.save(1, {})

    def test_a_child_of_fork_is_told_and_the_parent_goes_on(self):
        # The threads that would end the child's waits are the parent's, and so are the locks.
        answer = run_program('''
            import os, signal, sys
            import numpy
            import forebay
            from forebay.checkpoint import Checkpointer, Tier
            saver = Checkpointer([sys.argv[1], Tier(sys.argv[2], bytes_per_second_max="4MB/s")])
            save = saver.save(1, {"weight": numpy.ones(500_000)})
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs ends with a code of its own
                for use in (save.wait_durable, save.wait_drained, save.times,
                            lambda: save.skipped, lambda: saver.save(2, {}), saver.wait):
                    try:
                        use()
                        os._exit(3)
                    except forebay.Unsupported as error:
                        assert "fork" in str(error), error
                assert save.step == 1
                with Checkpointer(sys.argv[3]) as own:
                    own.save(3, {}).wait_durable()
                sys.exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            save.wait_drained()
            ''', self.fast, self.slow, os.path.join(self._folder.name, "own"))
        self.assertEqual(answer[:2], (0, "0\n"), answer[2])


if __name__ == "__main__":
    unittest.main()

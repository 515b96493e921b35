"""examples/python on a folder of red and blue pictures; skipped where torch is missing."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

import numpy
from PIL import Image

from support import DataTest, run_program

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__)))), "examples", "python")


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


def imports(module):
    """Whether it can be imported, not only found."""
    return has(module.split(".")[0]) and not subprocess.run(
        [sys.executable, "-c", f"import {module}"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode


def write_pictures(folder, count):
    """`count` pictures of each of two classes: blue, red."""
    random = numpy.random.default_rng(0)
    for channel, name in ((2, "blue"), (0, "red")):
        os.makedirs(os.path.join(folder, name))
        for index in range(count):
            pixels = random.integers(0, 120, (48, 64, 3), numpy.uint8)
            pixels[:, :, channel] += 100
            Image.fromarray(pixels).save(os.path.join(folder, name, f"{index:03}.jpg"))
    return folder


@unittest.skipUnless(has("torch"), "torch is not installed (Debian: python3-torch)")
class Examples(DataTest):
    def setUp(self):
        super().setUp()
        self.pictures = write_pictures(os.path.join(self.folder, "pictures"), 40)

    def start(self, name, *arguments, **environment):
        return subprocess.Popen(
            [sys.executable, os.path.join(EXAMPLES, name), self.pictures, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                 **environment})

    def run_example(self, name, *arguments):
        with self.start(name, *arguments) as child:
            out, err = child.communicate(timeout=240)
        self.assertEqual(child.returncode, 0, err)
        return out

    def test_the_loop_learns(self):
        out = self.run_example("torch_loop.py", "6")
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+) of 5 batches", out)]
        self.assertEqual(len(losses), 6, out)
        self.assertLess(losses[-1], 0.3)
        self.assertLess(losses[-1], losses[0])

    def test_killed_it_goes_on_with_the_next_batch(self):
        whole = self.run_example("torch_resume.py", os.path.join(self.folder, "one"), "35")
        lines = []
        path = os.path.join(self.folder, "two")
        for kills in range(4):
            child = self.start("torch_resume.py", path, "35")
            for line in child.stdout:
                lines.append(line)
                if kills < 3 and len(lines) >= 8 * (kills + 1):
                    child.send_signal(signal.SIGKILL)
                    break
            # Through the same reader: communicate() would pass over what it has read ahead.
            lines += child.stdout
            err = child.communicate(timeout=240)[1]
        self.assertEqual(child.returncode, 0, err)
        # What was printed but not yet saved is done again: the same step, the same batch.
        steps = {line.split()[0]: line for line in lines if line.endswith("\n")}
        self.assertEqual("".join(steps[str(step)] for step in range(1, 36)), whole)
        for line in lines:
            if line.endswith("\n"):
                self.assertEqual(line, steps[line.split()[0]])

    def test_two_ranks_share_the_pictures(self):
        # With torchrun's variables, not torchrun: that of Debian's torch does not start under its
        # own Python 3.11.
        log = os.path.join(self.folder, "keys")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        ranks = [self.start("torch_ranks.py", log, RANK=str(rank), WORLD_SIZE="2",
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)) for rank in range(2)]
        said = [child.communicate(timeout=240) for child in ranks]
        self.assertEqual([child.returncode for child in ranks], [0, 0], said)
        out = "".join(part for part, _ in said)
        self.assertIn("forebay: rank 1 of 2", said[1][1])
        sums = re.findall(r"rank [01]: 40 samples an epoch, parameters sum up to (\S+)", out)
        self.assertEqual(len(sums), 2, out)
        self.assertEqual(sums[0], sums[1])
        keys = []
        for rank in range(2):
            with open(f"{log}.{rank}", encoding="utf-8") as file:
                keys += file.read().split("\n")
        self.assertEqual(len(set(keys)), 80)

    @unittest.skipUnless(has("torch", "pytorch_lightning"), "Lightning is not installed")
    def test_lightning_trains_with_it(self):
        if imports("torch.distributed.fsdp"):
            self.assertIn("15 steps of 15", self.run_example("lightning_loop.py"))
            return
        # Of torch 1.13, Debian's, Python 3.11 refuses a part that Lightning imports where there may
        # be several ranks: here there is one.
        code, out, err = run_program(
            """
                import runpy, sys
                import torch.distributed
                torch.distributed.is_available = lambda: False
                sys.argv = sys.argv[1:]
                sys.path.insert(0, sys.argv[0].rpartition("/")[0])
                runpy.run_path(sys.argv[0], run_name="__main__")
            """, os.path.join(EXAMPLES, "lightning_loop.py"), self.pictures, timeout=240)
        self.assertEqual(code, 0, err)
        self.assertIn("15 steps of 15", out)

    @unittest.skipUnless(has("torch", "accelerate"), "Accelerate is not installed")
    def test_accelerate_trains_with_it(self):
        self.assertIn("15 steps of 15", self.run_example("accelerate_loop.py"))


@unittest.skipUnless(has("torch"), "torch is not installed (Debian: python3-torch)")
class Tensors(DataTest):
    def test_they_share_the_memory_of_the_batch(self):
        import torch

        from forebay.torch import as_tensors
        batch = next(iter(self.open(self.arrays())))
        name = next(iter(batch))
        for tensor in (torch.from_numpy(batch[name]), torch.from_dlpack(batch[name]),
                       as_tensors(batch)[name]):
            self.assertEqual(tensor.data_ptr(), batch[name].ctypes.data)
        tensors = as_tensors(batch)
        del batch
        self.assertEqual(tensors[name][:, 0, 0, 0].tolist(), [0, 1, 2, 3])
        self.assertEqual([type(key) for key in tensors["__key__"]], [str] * 4)

    def test_bfloat16_of_a_batch_is_seen_without_ml_dtypes(self):
        text = """
            import sys
            sys.modules["ml_dtypes"] = None  # not installed, as far as import can tell
            import torch, forebay
            from forebay.torch import as_tensors
            loader = forebay.Loader(sys.argv[1], 4, rank=0, world_size=1, ops=[
                forebay.normalize(0, 1, scale=False, field="data", type="bfloat16")])
            tensor = as_tensors(next(iter(loader)))["data"]
            print(tensor.dtype, float(tensor[3].max()))
        """
        code, out, err = run_program(text, self.arrays())
        self.assertEqual((code, out), (0, "torch.bfloat16 3.0\n"), err)

    def test_bfloat16_keeps_its_bits(self):
        import torch

        from forebay.torch import as_tensor
        bits = numpy.array([0x3F80, 0xC000], numpy.uint16)
        tensor = as_tensor(bits, is_bfloat16=True)
        self.assertEqual(tensor.dtype, torch.bfloat16)
        self.assertEqual(tensor.tolist(), [1.0, -2.0])


if __name__ == "__main__":
    unittest.main()

"""What the tests of the Python package share: small data sets, and programs as children."""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import unittest

import numpy

try:
    import h5py
except ImportError:
    h5py = None

import forebay

# What a loader of a test is opened with, unless the test says otherwise.
QUICK = dict(batch_size=4, rank=0, world_size=1)


def write_arrays(folder, count, shape=(8, 8, 3), name="img_{:05}.npy"):
    """`count` files of npy, the i-th full of i modulo 251."""
    os.makedirs(folder, exist_ok=True)
    for index in range(count):
        numpy.save(os.path.join(folder, name.format(index)),
                   numpy.full(shape, index % 251, numpy.uint8))
    return folder


def write_many_formats(folder):
    """(path, number of samples) of a data set of each format that is made without more packages."""
    made = [(write_arrays(os.path.join(folder, "npy"), 3), 3)]
    for name in ("npz", "text", "tar", "hdf5"):
        os.mkdir(os.path.join(folder, name))
    path = os.path.join(folder, "npz", "a.npz")
    numpy.savez(path, x=numpy.zeros(4), y=numpy.ones(2))
    made.append((path, 1))
    for name, text in (("a.jsonl", '{"a": 1}\n' * 7), ("a.csv", "1,2\n" * 6)):
        path = os.path.join(folder, "text", name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        made.append((path, text.count("\n")))
    path = os.path.join(folder, "tar", "a.tar")
    with tarfile.open(path, "w") as archive:
        for index in range(5):
            member = tarfile.TarInfo(f"s{index}.bin")
            member.size = 512
            archive.addfile(member, io.BytesIO(bytes(512)))
    made.append((path, 5))
    if h5py:
        path = os.path.join(folder, "hdf5", "a.hdf5")
        with h5py.File(path, "w") as file:
            file["records"] = numpy.zeros((8, 4))
        made.append((path, 8))
    return made


def run_program(text, *arguments, timeout=60, environment=None, wait=True):
    """A Python program as a child; with wait, (exit code, stdout, stderr)."""
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, **(environment or {})})
    if not wait:
        return child
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        raise AssertionError(f"hangs after {timeout} s\n{out}\n{err}")
    return child.returncode, out, err


def count_threads():
    """The package's, which have names: others, of numpy's libraries, have that of the program."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
                names.append(file.read())
        except OSError:  # it has ended meanwhile
            pass
    with open(f"/proc/self/task/{os.getpid()}/comm", encoding="utf-8") as file:
        return len(names) - names.count(file.read())


def count_files():
    return len(os.listdir("/proc/self/fd"))


def memory_bytes():
    """Resident, without what is only mapped from files."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


class DataTest(unittest.TestCase):
    """A folder that goes with the test, and loaders over it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="forebay-python-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def arrays(self, count=40, **more):
        folder = os.path.join(self.folder, f"arrays-{count}")
        return folder if os.path.exists(folder) else write_arrays(folder, count, **more)

    def open(self, data, batch_size=4, **more):
        loader = forebay.Loader(data, **{**QUICK, "batch_size": batch_size, **more})
        self.addCleanup(loader.close)
        return loader

"""Each kind of data from each store: the same batches, in each order, and after a resume.

The object store is tests/s3/fake_s3.py, which holds a copy of the folder and then dies.
"""

import os
import subprocess
import sys
import time
import unittest
import urllib.parse
import urllib.request

import numpy

import forebay as fb
from support import QUICK, DataTest, write_arrays, write_many_formats

SERVER = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "s3",
                      "fake_s3.py")
QUICK_END = "max_attempts=2,backoff=10ms,retry_time=1s,connect_timeout=2s,stall_timeout=2s"


def contents(batches):
    """Of batches, so that == compares them."""
    return [{name: value.tobytes() if isinstance(value, numpy.ndarray) else value
             for name, value in batch.items()} for batch in batches]


class Stores(DataTest):
    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen([sys.executable, SERVER, "--anonymous"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.stop)
        self.endpoint = f"http://127.0.0.1:{self.server.stdout.readline().strip()}"
        self.s3 = f"s3:endpoint={self.endpoint},anonymous=true,{QUICK_END}"

    def stop(self):
        self.server.kill()
        self.server.communicate()

    def upload(self, folder):
        for path, _, names in os.walk(folder):
            for name in names:
                full = os.path.join(path, name)
                key = urllib.parse.quote(os.path.relpath(full, self.folder))
                with open(full, "rb") as file:
                    request = urllib.request.Request(f"{self.endpoint}/data/{key}", file.read(),
                                                     method="PUT")
                urllib.request.urlopen(request, timeout=30).read()

    def in_bucket(self, path):
        return "s3://data/" + os.path.relpath(path, self.folder)

    def test_each_gives_the_same_batches_of_each_format(self):
        made = write_many_formats(self.folder)
        made.append((write_arrays(os.path.join(self.folder, "classes", "a"), 3), 3))
        made.append((write_arrays(os.path.join(self.folder, "classes", "b"), 3), 3))
        made.append((os.path.join(self.folder, "classes", "{a,b}", "*.npy"), 6))
        self.upload(self.folder)
        for path, count in made:
            for shuffle in ("off", "full"):
                more = dict(batch_size=2, shuffle=shuffle, tail="all", seed=3)
                with self.open(path, **more) as loader:
                    wanted = contents(loader) + contents(loader)
                self.assertEqual(sum(len(batch["__key__"]) for batch in wanted), 2 * count)
                for storage in ("uring", "direct", "slow:latency=1ms", self.s3):
                    data = self.in_bucket(path) if storage == self.s3 else path
                    with self.subTest(data=path, shuffle=shuffle, storage=storage):
                        with self.open(data, storage=storage, **more) as loader:
                            begun = contents([next(loader)])
                            state = loader.state_dict()
                        with self.open(data, storage=storage, **more) as loader:
                            loader.load_state_dict(state)
                            while len(begun) < len(wanted):
                                begun += contents(loader)
                            self.assertEqual(begun, wanted)

    def test_one_that_dies_ends_the_loop_with_its_error(self):
        folder = self.arrays(200)
        self.upload(folder)
        loader = self.open(self.in_bucket(folder), storage=self.s3, prefetch_batches=1,
                           fetch_depth=2)
        iterator = iter(loader)
        next(iterator)
        self.server.kill()
        self.server.wait()
        begin = time.monotonic()
        with self.assertRaisesRegex(fb.StorageError, "img_.*npy.*127.0.0.1"):
            list(iterator)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertRaises(StopIteration, next, iterator)

    def test_one_that_cannot_be_reached_is_named_when_the_loader_opens(self):
        self.server.kill()
        self.server.wait()
        with self.assertRaisesRegex(fb.StorageError, self.endpoint.replace("http://", "")):
            fb.Loader("s3://data/x", storage=self.s3, **QUICK)


if __name__ == "__main__":
    unittest.main()

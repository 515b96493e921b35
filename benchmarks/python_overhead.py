#!/usr/bin/python3
"""What does Python cost per batch of forebay.Loader? Target: at most 30 us.

Batches are ready before they are asked for, so the loop never waits: what is left is the call, the
dict, an array and the list of keys. Median and quartiles over all batches; --check exits 1 above
the target.
PYTHONPATH=build/release/python python3 benchmarks/python_overhead.py [--batches N]
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import forebay

TARGET_US = 30
RECORD_BYTES = 64


def measure(path, batch_size, batches):
    times = []
    with forebay.Loader(path, batch_size, format="raw", record_bytes=RECORD_BYTES,
                        record_type="uint8", record_shape=(RECORD_BYTES,),
                        prefetch_batches=batches, rank=0, world_size=1) as loader:
        while len(times) < 3 * batches:
            iterator = iter(loader)
            times.append(None)  # the first batch of an epoch is waited for
            next(iterator)
            wait_until_ready(loader)
            for _ in range(batches - 1):
                begin = time.perf_counter_ns()
                batch = next(iterator)
                times.append(time.perf_counter_ns() - begin)
                del batch
            for _ in iterator:
                pass
    return [value / 1000 for value in times if value is not None]


def wait_until_ready(loader):
    """Until the threads of the loader have nothing left to do."""
    before = -1.0
    while True:
        time.sleep(0.05)
        now = loader.stats()["decode_busy_seconds"]
        if now == before:
            return
        before = now


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    worst = 0
    for batch_size in (1, 32, 256):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.raw")
            with open(path, "wb") as file:
                file.write(bytes(RECORD_BYTES * batch_size * arguments.batches))
            times = measure(folder, batch_size, arguments.batches)
        low, middle, high = statistics.quantiles(times, n=4)
        worst = max(worst, middle)
        print(json.dumps({"schema_version": 1, "what": "python_overhead", "batch_size": batch_size,
                          "us_per_batch": round(middle, 2),
                          "quartiles": [round(low, 2), round(high, 2)],
                          "n": len(times), "python": sys.version.split()[0]}))
    if arguments.check and worst > TARGET_US:
        sys.exit(f"{worst:.1f} us per batch, at most {TARGET_US} are the target")


if __name__ == "__main__":
    main()

"""One loader on one case, in a process of its own: one line of JSON.

  feed.py PEER CASE FOLDER --setting JSON --batch 64 --seconds 5 [--epochs 2]

Reads epochs until the time is over, at least two; but a first one that takes longer than the time
is left where it is, and nothing is said of the way from one epoch to the next. The consumer touches
one byte of each page of every batch and does nothing else.
"""

import argparse
import importlib
import json
import resource
import sys
import time


def sizes(batch):
    """Samples of a batch, whatever a loader calls one, and a look at its pages."""
    if isinstance(batch, dict):
        batch = next(iter(batch.values()))
    if isinstance(batch, (list, tuple)) and batch and hasattr(batch[0], "shape"):
        if len(getattr(batch[0], "shape", ())) > 0 and len(batch) <= 3:
            batch = batch[0]
    if hasattr(batch, "numpy"):
        batch = batch.numpy()
    count = len(batch)
    if hasattr(batch, "reshape"):
        batch.reshape(-1)[::4096].sum()
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("case")
    parser.add_argument("folder")
    parser.add_argument("--setting", default="{}")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    words = parser.parse_args()

    started = time.perf_counter()
    peer = importlib.import_module(f"peers.{words.peer}")
    imported = time.perf_counter()
    loader = peer.CASES[words.case](words.folder, words.batch, **json.loads(words.setting))
    waits, firsts, samples, epoch, is_cut = [], [], 0, 0, False
    begun = counted_from = None
    while not is_cut and (epoch < words.epochs or time.perf_counter() - begun < words.seconds):
        before = time.perf_counter()
        for number, batch in enumerate(loader()):
            count = sizes(batch)
            now = time.perf_counter()
            begun = begun or now
            if number == 0:
                firsts.append(now - before)
            else:
                waits.append(now - before)
            if counted_from is None:  # the very first batch carries the start
                counted_from, cpu_from = now, time.process_time()
            else:
                samples += count
            before = now
            if now - begun > words.seconds and epoch != 1:
                is_cut = epoch == 0
                break
        epoch += 1
    if not samples:
        sys.exit("no batch came")
    seconds = time.perf_counter() - counted_from
    waits.sort()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({
        "peer": words.peer, "case": words.case, "version": peer.version(),
        "setting": json.loads(words.setting), "samples": samples, "seconds": seconds,
        "samples_per_second": samples / seconds, "import_s": imported - started,
        "first_batch_s": firsts[0], "second_epoch_first_batch_s": None if is_cut else firsts[1],
        "batch_p50_s": waits[len(waits) // 2], "batch_max_s": waits[-1], "epochs": epoch,
        "cpu_s": sum(use.ru_utime + use.ru_stime for use in usage),
    }))


if __name__ == "__main__":
    main()

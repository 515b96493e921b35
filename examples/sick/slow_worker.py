#!/usr/bin/python3
"""ILLNESS: one of the workers is slow.

Three worker processes make batches in turn, and batches are delivered in turn. Worker 1 was handed
the large samples: it takes twenty times as long as the others, which sit on finished batches
meanwhile. Steps are marked.
THE RIGHT DIAGNOSIS: slow-worker, by name; prep stall.
THE CURE: hand out samples one by one instead of fixed parts, or deliver batches as they are ready.
"""

import multiprocessing
import os
import time
import zlib

import training

WORKERS = 3
SLOW = 1
SAMPLE_BYTES = 64 * 1024
DECODE_SECONDS = 0.003  # of CPU, for an ordinary sample
STEP_SECONDS = 0.003


def make_samples(data):
    for worker in range(WORKERS):
        path = os.path.join(data, f"part-{worker}.bin")
        if not os.path.exists(path):
            with open(path, "wb") as out:
                out.write(os.urandom(16 * SAMPLE_BYTES))


def decode_native(sample, seconds):
    """Stands for a decoder in native code."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        zlib.crc32(sample)


def load(data, worker, pipe):
    seconds = DECODE_SECONDS * (20 if worker == SLOW else 1)
    turn = 0
    with open(os.path.join(data, f"part-{worker}.bin"), "rb", buffering=0) as part:
        while True:
            making = training.Making()
            part.seek(turn % 16 * SAMPLE_BYTES)
            sample = part.read(SAMPLE_BYTES)
            making.did("fetch")
            decode_native(sample, seconds)
            making.did("prep")
            turn += 1
            pipe.send((sample, making.all))


def main():
    options = training.arguments(__doc__)
    make_samples(options.data)
    if options.make_data:
        return
    pipes, workers = [], []
    for number in range(WORKERS):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        worker = multiprocessing.Process(target=load, args=(options.data, number, theirs),
                                         daemon=True)
        worker.start()
        pipes.append(ours)
        workers.append(worker)
    clock = training.OwnClock(options.seconds)
    while clock.next_step():
        with training.mark("step"):
            batch, making = pipes[len(clock.steps) % WORKERS].recv()
            clock.waited_for(making)
            training.train_step(batch, STEP_SECONDS)
            clock.did("compute")
    for worker in workers:
        worker.terminate()
        worker.join()
    clock.print("slow_worker")


if __name__ == "__main__":
    main()

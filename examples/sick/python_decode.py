#!/usr/bin/python3
"""ILLNESS: decoding is bound by one Python interpreter.

One worker process reads run-length coded pictures and unpacks them in a loop over bytes, in Python.
Reading takes a moment, decoding takes all of the worker's time, and training waits for it.
THE RIGHT DIAGNOSIS: python-decode, prep stall most of the time.
THE CURE: decode in native code, or in as many workers as there are cores.
"""

import multiprocessing
import os
import random

import training

FILES = 64
PIXELS = 64 * 1024
BATCH = 8
STEP_SECONDS = 0.004


def path_of(data, number):
    return os.path.join(data, f"{number:03}.rle")


def make_pictures(data):
    if os.path.exists(path_of(data, FILES - 1)):
        return
    numbers = random.Random(4)
    for number in range(FILES):
        coded = bytearray()
        left = PIXELS
        while left > 0:
            run = min(left, numbers.randint(1, 4))
            coded += bytes((run, numbers.randrange(256)))
            left -= run
        with open(path_of(data, number), "wb") as out:
            out.write(coded)


def decode_picture(coded):
    pixels = bytearray()
    for at in range(0, len(coded), 2):
        for _ in range(coded[at]):
            pixels.append(coded[at + 1])
    return pixels


def load(data, pipe):
    order = random.Random(7)
    while True:
        making = training.Making()
        batch = bytearray()
        for _ in range(BATCH):
            with open(path_of(data, order.randrange(FILES)), "rb") as picture:
                coded = picture.read()
            making.did("fetch")
            batch += decode_picture(coded)
            making.did("prep")
        pipe.send((bytes(batch[:4096]), making.all))


def main():
    options = training.arguments(__doc__)
    make_pictures(options.data)
    if options.make_data:
        return
    ours, theirs = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.Process(target=load, args=(options.data, theirs), daemon=True)
    worker.start()
    clock = training.OwnClock(options.seconds)
    while clock.next_step():
        batch, making = ours.recv()
        clock.waited_for(making)
        training.train_step(batch, STEP_SECONDS)
        clock.did("compute")
    worker.terminate()
    worker.join()
    clock.print("python_decode")


if __name__ == "__main__":
    main()

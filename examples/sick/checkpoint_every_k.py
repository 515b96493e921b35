#!/usr/bin/python3
"""ILLNESS: training stops for a checkpoint every ten steps.

The training thread itself writes 48 MB of state, layer by layer, and waits until the disk has them
(fsync). Meanwhile nothing is trained. Loading is no burden: a thread reads small batches ahead.
Steps are marked.
THE RIGHT DIAGNOSIS: checkpoint, "every 10 steps".
THE CURE: copy the state to memory and write it in the background; or save less often.
"""

import os
import queue
import threading

import training

EVERY = 10
LAYERS = 12
LAYER_BYTES = 4 << 20
BATCH_BYTES = 64 * 1024
BATCHES = 64
STEP_SECONDS = 0.008


def make_batches(path):
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(os.urandom(BATCHES * BATCH_BYTES))


def load(path, batches, ended):
    turn = 0
    with open(path, "rb", buffering=0) as data:
        while not ended.is_set():
            making = training.Making()
            data.seek(turn % BATCHES * BATCH_BYTES)
            batch = data.read(BATCH_BYTES)
            making.did("fetch")
            turn += 1
            batches.put((batch, making.all))


def save_checkpoint(state, folder, step):
    """The newest one only; whole or not there."""
    path = os.path.join(folder, "checkpoint.pt")
    with open(path + ".tmp", "wb", buffering=0) as out:
        out.write(b"step %d\n" % step)
        for layer in state:
            out.write(layer)
        os.fsync(out.fileno())
    os.rename(path + ".tmp", path)


def main():
    options = training.arguments(__doc__)
    path = os.path.join(options.data, "batches.bin")
    make_batches(path)
    if options.make_data:
        return
    folder = os.path.join(options.data, f"saved-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    state = [os.urandom(LAYER_BYTES) for _ in range(LAYERS)]
    batches, ended = queue.Queue(maxsize=8), threading.Event()
    loader = threading.Thread(target=load, args=(path, batches, ended))
    loader.start()
    clock = training.OwnClock(options.seconds)
    while clock.next_step():
        with training.mark("step"):
            batch, making = batches.get()
            clock.waited_for(making)
            training.train_step(batch, STEP_SECONDS)
            clock.did("compute")
            if len(clock.steps) % EVERY == EVERY - 1:
                save_checkpoint(state, folder, len(clock.steps))
                clock.did("checkpoint")
    ended.set()
    while loader.is_alive():
        while not batches.empty():
            batches.get()
        loader.join(0.01)
    clock.print("checkpoint_every_k")


if __name__ == "__main__":
    main()

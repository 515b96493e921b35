#!/usr/bin/python3
"""ILLNESS: one rank works longer than the other.

Two ranks train, each in a process of its own, and meet after each step: a byte to the other over a
loopback connection, a byte back. Rank 1 was given the long sequences and takes three times as long,
so rank 0 waits at each meeting. The launcher sets RANK and WORLD_SIZE, as torchrun does.
THE RIGHT DIAGNOSIS: uneven-rank, sync stall in rank 0.
THE CURE: equal work for ranks: bucket or pad by length, shard by size and not by count.
"""

import json
import os
import socket
import subprocess
import sys
import time

import training

STEP_SECONDS = (0.010, 0.030)
BATCH_BYTES = 64 * 1024
BATCHES = 64


def make_batches(path):
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(os.urandom(BATCHES * BATCH_BYTES))


def connect(rank, port):
    """Rank 0 listens, rank 1 comes as soon as it does."""
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as listener:
            return listener.accept()[0]
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)


def train(options, rank, port):
    other = connect(rank, port)
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    clock = training.OwnClock(options.seconds)
    go_on = True
    with open(os.path.join(options.data, "batches.bin"), "rb", buffering=0) as data:
        while go_on:
            has_time = clock.next_step()
            data.seek(len(clock.steps) % BATCHES * BATCH_BYTES)
            batch = data.read(BATCH_BYTES)
            clock.did("fetch")
            training.train_step(batch, STEP_SECONDS[rank])
            clock.did("compute")
            # All go on as long as rank 0 has time.
            other.sendall(b"+" if has_time else b"-")
            theirs = other.recv(1)
            clock.did("sync")
            go_on = has_time if rank == 0 else theirs == b"+"
    clock.next_step()
    print(json.dumps(clock.truth()), flush=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def launch():
    ranks = []
    port = str(free_port())
    for rank in range(2):
        about = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], stdout=subprocess.PIPE,
                                      env={**os.environ, **about}))
    truths = [json.loads(rank.communicate()[0]) for rank in ranks]
    whole = {"program": "uneven_rank", "steps": truths[0]["steps"], "ranks": truths}
    for part in (*training.PARTS, "ready"):
        whole[f"{part}_s"] = round(sum(truth[f"{part}_s"] for truth in truths), 6)
    whole["step_s"] = truths[0]["step_s"]
    print(json.dumps(whole), flush=True)


def main():
    options = training.arguments(__doc__)
    make_batches(os.path.join(options.data, "batches.bin"))
    if options.make_data:
        return
    if "RANK" in os.environ:
        train(options, int(os.environ["RANK"]), int(os.environ["MASTER_PORT"]))
    else:
        launch()


if __name__ == "__main__":
    main()

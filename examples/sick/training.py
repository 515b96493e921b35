"""The healthy parts that the sick programs in Python share: arguments, a train step that computes,
and a clock of the program's own, which says where the training thread's time went.

Standard library only. The train step is native code that leaves the interpreter's lock to others,
as a framework's would be.
"""

import argparse
import contextlib
import hashlib
import json
import os
import time

try:
    from forebay import mark
except ImportError:
    def mark(_):
        """Without the package nobody is told."""
        return contextlib.nullcontext()

PARTS = ("compute", "fetch", "prep", "sync", "checkpoint", "idle")


def arguments(description, *more):
    """--seconds, --data and --make-data, and `more`: (flag, settings) pairs."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to train")
    parser.add_argument("--data", default="sick-data", help="folder of the data, made when missing")
    parser.add_argument("--make-data", action="store_true", help="make the data and end")
    for flag, settings in more:
        parser.add_argument(flag, **settings)
    options = parser.parse_args()
    os.makedirs(options.data, exist_ok=True)
    return options


def train_step(batch, seconds):
    """Computes on the batch until this thread has used so much of a CPU: about the same share of
    a step on a fast machine and a slow or crowded one."""
    until = time.thread_time() + seconds
    state = bytes(batch[:64])
    while time.thread_time() < until:
        state = hashlib.pbkdf2_hmac("sha256", state, b"weights", 1000)
    return state


def ready_time():
    """Seconds that this thread could have run, but had no core; 0 where the kernel is silent."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except OSError:
        return 0.0


class Making:
    """What a loader did, and when, while it made one batch: [part, begin, end]."""

    def __init__(self):
        self.all = []
        self.at = time.monotonic()

    def did(self, part):
        """Since the construction, or the call before."""
        now = time.monotonic()
        self.all.append((part, self.at, now))
        self.at = now


class OwnClock:
    """The program's own truth about its training thread."""

    def __init__(self, seconds):
        self.begin = self.at = time.monotonic()
        self.ready = ready_time()
        self.end = self.begin + seconds
        self.spent = dict.fromkeys(PARTS, 0.0)
        self.steps = []
        self.step_begin = None

    def next_step(self):
        """Begins a step, unless the time is up."""
        self.did("idle")
        if self.step_begin is not None:
            self.steps.append(self.at - self.step_begin)
        self.step_begin = self.at
        return self.at < self.end

    def did(self, part):
        """What the training thread did since the call before."""
        now = time.monotonic()
        self.spent[part] += now - self.at
        self.at = now

    def waited_for(self, making):
        """It waited: for what the loader did meanwhile, in proportion."""
        now = time.monotonic()
        meanwhile = [(part, min(end, now) - max(begin, self.at)) for part, begin, end in making]
        meanwhile = [(part, length) for part, length in meanwhile if length > 0]
        total = sum(length for _, length in meanwhile)
        # Without: the batch was there, and to take it is the training thread's own work.
        for part, length in meanwhile or [("compute", 1.0)]:
            self.spent[part] += (now - self.at) * length / (total or 1.0)
        self.at = now

    def truth(self):
        found = {"steps": len(self.steps), "begin_ns": int(self.begin * 1e9),
                 "end_ns": int(self.at * 1e9), "ready_s": round(ready_time() - self.ready, 6)}
        found.update((f"{part}_s", round(spent, 6)) for part, spent in self.spent.items())
        found["step_s"] = [round(step, 6) for step in self.steps]
        return found

    def print(self, program):
        """One line of JSON."""
        print(json.dumps({"program": program, **self.truth()}), flush=True)

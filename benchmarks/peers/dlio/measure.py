"""Runs one command and tells what it cost: wall time, CPU, memory of the whole process tree."""

import os
import subprocess
import threading
import time

SAMPLE_SECONDS = 0.02


def tree(root):
    """The process ids below and including `root`."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found, pending = [], [root]
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += children.get(pid, [])
    return found


def resident_bytes(root):
    """The sum over the tree now; of a lone process the largest size it has had (VmHWM)."""
    pids, total = tree(root), 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status") as status:
                sizes = dict(line.split(":", 1) for line in status if line.startswith("Vm"))
            total += int(sizes["VmHWM" if len(pids) == 1 else "VmRSS"].split()[0]) * 1024
        except (OSError, KeyError):
            pass
    return total


def run(words, folder, log):
    """Wall and CPU seconds, largest sum of resident bytes. Raises when the command fails."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none")
    peak = 0
    start_unix, start = time.time(), time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=out,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        done = threading.Event()

        def watch():
            nonlocal peak
            while not done.wait(SAMPLE_SECONDS):
                peak = max(peak, resident_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        done.set()
        watcher.join()
    if process.returncode not in (0, 3):  # 3: measured, but the utilisation gate was not met
        with open(log, errors="replace") as text:
            tail = "".join(text.readlines()[-5:])
        raise RuntimeError(f"{words[0]} ended with {process.returncode}: {tail}")
    return {"start_unix": start_unix, "wall_s": wall, "cpu_s": usage.ru_utime + usage.ru_stime,
            "resident_bytes": peak}

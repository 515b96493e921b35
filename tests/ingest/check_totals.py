#!/usr/bin/python3
"""Compares what Forebay imports from real traces with what readers of their own kind find in them.

Goal: the number of events of each kind and name, and the sum of their durations, are exactly those
that Python's json, gzip, sqlite3 and csv give; categories agree where the format says them.
Method: each reader returns {(kind, name): [count, nanoseconds]} and {category: count}.
"""

import argparse
import collections
import datetime
import decimal
import gzip
import json
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "golden" / "traces"
SPAN, INSTANT, COUNTER, SAMPLE = range(4)


class Totals:
    def __init__(self):
        self.names = collections.defaultdict(lambda: [0, 0])
        self.categories = collections.Counter()
        self.bytes = 0

    def add(self, kind, name, ns=0, category=None):
        self.names[(kind, name)][0] += 1
        self.names[(kind, name)][1] += ns
        if category:
            self.categories[category] += 1


def text_of(path):
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return raw.decode()


def clean(name):
    """Names lose control characters; the tracer cuts them at 4096 bytes."""
    return "".join(" " if ord(c) < 32 or ord(c) == 127 else c for c in name)[:4096]


def nanoseconds(microseconds):
    return int((decimal.Decimal(microseconds) * 1000).to_integral_value(decimal.ROUND_HALF_UP))


KINETO = {"kernel": "compute", "Kernel": "compute", "gpu_memcpy": "copy", "gpu_memset": "copy",
          "cuda_runtime": "launch", "cuda_driver": "launch", "Runtime": "launch",
          "cpu_op": "operator", "gpu_user_annotation": "annotation"}


def kineto_bytes(arguments):
    """As said, or of a collective the elements times their size; MTIA's copies say "size"."""
    if "bytes" in arguments:
        return int(arguments["bytes"])
    if "direction" in arguments:
        return int(arguments.get("size", 0))
    sizes = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8, "Byte": 1}
    return int(arguments.get("In msg nelems", 0)) * sizes.get(arguments.get("dtype"), 0)


def kineto(path):
    totals = Totals()
    document = json.loads(text_of(path), parse_float=decimal.Decimal)
    for event in document["traceEvents"]:
        phase, name = event["ph"], clean(event["name"])
        if phase == "X":
            category = KINETO.get(event["cat"])
            if category == "compute" and "nccl" in name.lower():
                category = "collective"
            marks = ("ProfilerStep#", "enumerate(DataLoader)")
            if event["cat"] == "cpu_op" and name.startswith(marks):
                category = None
            totals.add(SPAN, name, nanoseconds(event["dur"]), category)
            totals.bytes += kineto_bytes(event.get("args", {}))
        elif phase == "i":
            totals.add(INSTANT, name)
    return totals


def dftracer(path):
    totals = Totals()
    for line in text_of(path).splitlines():
        line = line.strip()
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event["ph"] != "X":
            continue
        name, arguments = event["name"], event["args"]
        totals.add(SPAN, name, int(event["dur"]) * 1000,
                   {"read": "read", "write": "write", "fread": "read"}.get(name))
        if name in ("read", "write", "fread") and int(arguments["ret"]) >= 0:
            totals.bytes += int(arguments["ret"]) * int(arguments.get("size", 1))
    return totals


def nsys(path):
    totals = Totals()
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = connection.execute(
        'SELECT k.start, k."end", d.value, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k '
        "LEFT JOIN StringIds d ON d.id = k.demangledName "
        "LEFT JOIN StringIds s ON s.id = k.shortName")
    for start, end, demangled, short in rows:
        totals.add(SPAN, demangled or short, end - start, "compute")
    rows = connection.execute(
        'SELECT r.start, r."end", s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r '
        "JOIN StringIds s ON s.id = r.nameId")
    for start, end, name in rows:
        totals.add(SPAN, name, end - start, "launch")
    for start, end, size in connection.execute(
            'SELECT start, "end", bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY'):
        totals.categories["copy"] += 1
        totals.bytes += size
    return totals


def strace(path):
    """Calls that ended, on one line or two."""
    totals = Totals()
    for line in path.read_text().splitlines():
        rest = line.split(None, 2)[2]
        if rest.startswith("+++"):
            totals.add(INSTANT, "exit")
            continue
        if rest.startswith("---"):
            totals.add(INSTANT, rest.split()[1])
            continue
        if rest.endswith("<unfinished ...>"):
            continue
        name = re.match(r"(?:<\.\.\. )?(\w+)", rest).group(1)
        taken = re.search(r"<(\d+\.\d+)>$", rest)
        ns = int(decimal.Decimal(taken.group(1)) * 1000000000) if taken else 0
        category = {"read": "read", "pread64": "read", "write": "write"}.get(name)
        totals.add(SPAN, name, ns, category)
        result = re.search(r" = (-?\d+)", rest)
        if category and result and int(result.group(1)) >= 0:
            totals.bytes += int(result.group(1))
    return totals


def perf(path):
    totals = Totals()
    for line in path.read_text().splitlines():
        head = re.match(r"\S.*\s[\d.]+:\s+(\d+)\s+(\S+):\s*$", line)
        if head:
            totals.add(SAMPLE, "sample", int(head.group(1)), "on cpu")
    return totals


def dlio(folder):
    totals = Totals()
    epochs = json.loads((folder / "per_epoch_stats.json").read_text())
    for output in sorted(folder.glob("*_output.json")):
        ranks = json.loads(output.read_text())
        for epoch, stats in epochs.items():
            for block, times in stats.items():
                if not isinstance(times, dict):
                    continue
                begin, end = (datetime.datetime.fromisoformat(times[key])
                              for key in ("start", "end"))
                microseconds = (end - begin) // datetime.timedelta(microseconds=1)
                totals.add(SPAN, block, microseconds * 1000)
                for load, whole, compute in zip(*(ranks[epoch][key][block]
                                                  for key in ("load", "proc", "compute"))):
                    load, whole, compute = (round(value * 1e9) for value in (load, whole, compute))
                    totals.add(SPAN, "step", whole, "step")
                    totals.add(SPAN, "data wait", load, "data wait")
                    totals.add(SPAN, "compute", min(compute, whole - load), "compute")
    return totals


def nvidia_query(path):
    totals = Totals()
    header, *rows = [re.split(r", ?", line) for line in path.read_text().splitlines()]
    names = {"utilization.gpu": "busy_share", "utilization.memory": "memory_busy_share",
             "memory.used": "used_bytes", "power.draw": "power_watts"}
    for row in rows:
        for column, value in zip(header, row):
            name = names.get(column.split()[0])
            if name and value[0].isdigit():
                totals.add(COUNTER, name, 0, "usage")
    return totals


READERS = {
    "kineto/*": ("kineto", kineto),
    "dftracer/*": ("dftracer", dftracer),
    "nsys/*": ("nsys", nsys),
    "strace/*": ("strace", strace),
    "perf/*": ("perf", perf),
    "dlio": ("dlio", dlio),
    "nvidia_smi/query.csv": ("nvidia-smi", nvidia_query),
}


def differences(expected, found, format_name):
    """What is wrong with one file's import, as lines."""
    wrong = []
    if found["format"] != format_name:
        wrong.append(f"taken for {found['format']}")
    if not found["finished"] or found["damage"]:
        wrong.append(f"damage: {found['damage']}")
    names = collections.defaultdict(lambda: [0, 0])
    categories = collections.Counter()
    for category, kind, name, count, ns in found["events"]:
        names[(kind, name)][0] += count
        names[(kind, name)][1] += ns
        categories[category] += count
    # Copies have names of our own in nsys, as the format has none.
    for key in set(expected.names) | set(names):
        if key not in expected.names and key[1].startswith("memcpy "):
            continue
        if list(expected.names[key]) != list(names[key]):
            wrong.append(f"{key}: expected {expected.names[key]}, imported {names[key]}")
    for category, count in expected.categories.items():
        # Marks may add to a category that the format names otherwise.
        more = category in ("annotation", "compute", "operator") and categories[category] >= count
        if categories[category] != count and not more:
            wrong.append(f"{category}: expected {count}, imported {categories[category]}")
    if expected.bytes != found["bytes"]:
        wrong.append(f"bytes: expected {expected.bytes}, imported {found['bytes']}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--more", nargs="*", default=[], help="further Kineto files")
    arguments = parser.parse_args()
    jobs = []
    for pattern, (name, reader) in READERS.items():
        paths = [path for path in sorted(TRACES.glob(pattern)) if path.name != "LICENSE"]
        assert paths, f"no files for {pattern}"
        jobs += [(path, name, reader) for path in paths]
    jobs += [(pathlib.Path(path), "kineto", kineto) for path in arguments.more]
    failed = 0
    for path, name, reader in jobs:
        with tempfile.TemporaryDirectory() as folder:
            output = subprocess.run([arguments.program, folder, str(path)], check=True,
                                    stdout=subprocess.PIPE).stdout
        expected = reader(path)
        assert expected.names, f"{path}: the reader found nothing"
        wrong = differences(expected, json.loads(output)["files"][0], name)
        for line in wrong[:20]:
            print(f"{path.name}: {line}")
        failed += bool(wrong)
    print(f"{len(jobs)} traces compared, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every export of one recording says the same, as read by readers that are not ours: json, csv,
sqlite3, and Perfetto's own Python package.

usage: check_exports.py FOREBAY
"""

import collections
import csv
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def record(forebay, folder):
    data = ["dataset.num_files_train=32", "dataset.record_length_bytes=20000", "--data", "d"]
    run(forebay, "generate", "demo", *data, cwd=folder)
    run(forebay, "run", "demo", *data, "train.epochs=3",
        "train.computation_time=0.001", "metric.au=0.001", "--accelerators", "2",
        "--out", "r", "--quiet", "--trace", "t.fbt", cwd=folder)
    for name in ("perfetto", "chrome", "sqlite", "csv"):
        run(forebay, "export", "t.fbt", "--to", name, cwd=folder)


def of_csv(path):
    """Spans by (category, name): how many, and their nanoseconds; and the bytes of all events."""
    spans, total_bytes = collections.defaultdict(lambda: [0, 0]), 0
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "span":
                entry = spans[row["category"], row["name"]]
                entry[0] += 1
                entry[1] += int(row["duration_ns"])
            total_bytes += int(row["bytes"] or 0)
    return dict(spans), total_bytes


def of_chrome(path):
    spans, total_bytes = collections.defaultdict(lambda: [0, 0]), 0
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            entry = spans[event["cat"], event["name"]]
            entry[0] += 1
            entry[1] += round(event["dur"] * 1000)
        total_bytes += event.get("args", {}).get("bytes", 0)
    return dict(spans), total_bytes


def of_sqlite(path):
    database = sqlite3.connect(path)
    spans = {(category, name): [count, total] for category, name, count, total in database.execute(
        "SELECT category, name, count(*), sum(duration_ns) FROM events WHERE kind = 0 "
        "GROUP BY 1, 2")}
    total, = database.execute("SELECT sum(value) FROM arguments WHERE key = 'bytes'").fetchone()
    return spans, total


def of_perfetto(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    names, categories, keys = {}, {}, {}
    open_slices, tracks = collections.defaultdict(list), set()
    spans, total_bytes = collections.defaultdict(lambda: [0, 0]), 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks.add(packet.track_descriptor.uuid)
        for known, entries in ((names, packet.interned_data.event_names),
                               (categories, packet.interned_data.event_categories),
                               (keys, packet.interned_data.debug_annotation_names)):
            known.update({entry.iid: entry.name for entry in entries})
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks, "an event on a track that was not described"
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            what = categories[event.category_iids[0]], names[event.name_iid]
            open_slices[event.track_uuid].append((what, packet.timestamp))
        elif event.type == protos.TrackEvent.TYPE_SLICE_END:
            what, start = open_slices[event.track_uuid].pop()
            spans[what][0] += 1
            spans[what][1] += packet.timestamp - start
        total_bytes += sum(annotation.int_value for annotation in event.debug_annotations
                           if keys[annotation.name_iid] == "bytes")
    assert not any(open_slices.values()), "a slice has no end"
    return dict(spans), total_bytes


def main():
    forebay = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="forebay-exports-") as name:
        folder = pathlib.Path(name)
        record(forebay, folder)
        wanted = of_csv(folder / "t.csv")
        assert wanted[0]["step", "step"][0] > 0 and wanted[1] > 0, wanted
        readers = [("chrome", of_chrome, "t.json"), ("sqlite", of_sqlite, "t.sqlite")]
        try:
            import perfetto  # noqa: F401
            readers.append(("perfetto", of_perfetto, "t.pftrace"))
        except ImportError:
            print("perfetto's Python package is not installed: its file was not read")
        for what, read, path in readers:
            got = read(folder / path)
            if got != wanted:
                sys.exit(f"{what} differs from csv:\n{got}\n{wanted}")
            print(f"{what}: {sum(n for n, _ in got[0].values())} spans, {got[1]} bytes, as csv")


if __name__ == "__main__":
    main()

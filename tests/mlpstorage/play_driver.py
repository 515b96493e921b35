#!/usr/bin/python3
"""Plays MLPerf Storage's driver against dlio_benchmark and checks all that it reads back.

That driver (`mlpstorage training datasize | datagen | run`) executes dlio_benchmark, alone or under
mpirun, with a fixed list of arguments, and afterwards reads summary.json and the folder dlio_config
of its result folder: for the report, for the check of the rules, and for the row of a submission.
This script gives the same arguments, reads the same files with the standard library alone, and
fails at the first field that is missing, of the wrong type, or at odds with the files of the ranks.

    play_driver.py --bin build/release/bin     two runs of a small 3D U-Net and its data
    play_driver.py --self-test                 the checks notice what is wrong
"""

import argparse
import copy
import datetime
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SUBDIR = "dlio_config"
EPOCHS, FILES, BATCH, STEP = 3, 24, 2, 0.01
RECORD_BYTES = 10_000

WORKLOAD = f"""\
model:
  name: unet3d
  type: cnn
  model_size: 4096

framework: pytorch

workflow:
  generate_data: False
  train: True
  checkpoint: True

dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: {FILES}
  num_samples_per_file: 1
  record_length_bytes: {RECORD_BYTES}
  record_length_bytes_stdev: 1000
  record_length_bytes_resize: 2097

reader:
  data_loader: pytorch
  batch_size: {BATCH}
  read_threads: 4
  file_shuffle: seed
  sample_shuffle: seed

train:
  epochs: {EPOCHS}
  computation_time: {STEP}

checkpoint:
  checkpoint_folder: checkpoints/unet3d
  checkpoint_after_epoch: 2
  epochs_between_checkpoints: 2

metric:
  au: 0.10
"""


class Wrong(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Wrong(message)


# --- YAML as Hydra writes it: block maps, lists and scalars, which is all that the driver reads ---


def scalar(text):
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text[:1] == '"':
        return json.loads(text)
    if text in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_yaml(text):
    lines = [
        (len(line) - len(line.lstrip(" ")), line.strip())
        for line in text.splitlines()
        if line.strip()
    ]

    def block(at, indent):
        if lines[at][1].startswith("- "):
            items = []
            while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("- "):
                rest = lines[at][1][2:]
                if not is_map_line(rest):
                    items.append(scalar(rest))
                    at += 1
                    continue
                lines[at] = (indent + 2, rest)
                item, at = block(at, indent + 2)
                items.append(item)
            return items, at
        values = {}
        while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("- "):
            key, _, rest = lines[at][1].partition(":")
            at += 1
            if rest.strip():
                values[scalar(key)] = scalar(rest.strip())
            elif (
                at < len(lines)
                and lines[at][0] >= indent
                and (lines[at][0] > indent or lines[at][1].startswith("- "))
            ):
                values[scalar(key)], at = block(at, lines[at][0])
            else:
                values[scalar(key)] = None
        return values, at

    def is_map_line(text):
        return text[:1] not in ("'", '"') and (text.endswith(":") or ": " in text)

    value, at = block(0, 0)
    expect(
        at == len(lines),
        f"YAML line {at + 1} is not understood: {lines[at] if at < len(lines) else ''}",
    )
    try:
        import yaml  # where it is installed, it has to agree
    except ImportError:
        return value
    expect(yaml.safe_load(text) == value, "PyYAML reads the file differently")
    return value


# --- What the driver reads ---

NUMBER = (int, float)
PER_EPOCH = ("train_au_percentage", "train_throughput_samples_per_second")
FIGURES = (
    "train_au_mean_percentage",
    "train_au_stdev_percentage",
    "train_throughput_mean_samples_per_second",
    "train_throughput_stdev_samples_per_second",
    "train_io_mean_MB_per_second",
    "train_io_stdev_MB_per_second",
)
CHECKPOINT_FIGURES = (
    "save_checkpoint_io_mean_GB_per_second",
    "save_checkpoint_io_stdev_GB_per_second",
    "save_checkpoint_duration_mean_seconds",
    "save_checkpoint_duration_stdev_seconds",
    "checkpoint_size_GB",
)
TOP = {
    "start": str,
    "end": str,
    "num_accelerators": int,
    "num_hosts": int,
    "hostname": str,
    "metric": dict,
    "num_files_train": int,
    "num_files_eval": int,
    "num_samples_per_file": int,
    "host_cpu_count": list,
    "host_processor_name": str,
    "potential_caching": list,
    "host_cpuinfo": dict,
    "host_meminfo": dict,
    "host_memory_GB": list,
    "data_size_per_host_GB": NUMBER,
    "epochs": int,
}


def is_figure(value):
    return isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)


def check_head(summary):
    for field, kind in TOP.items():
        expect(field in summary, f"summary.json lacks {field}")
        value = summary[field]
        expect(
            isinstance(value, kind) and not isinstance(value, bool),
            f"summary.json: {field} is {value!r}",
        )
    start, end = (
        datetime.datetime.strptime(summary[k], "%Y-%m-%dT%H:%M:%S.%f") for k in ("start", "end")
    )
    expect(start < end, "summary.json: it ends before it starts")
    expect(
        abs((datetime.datetime.now() - end).total_seconds()) < 300,
        "summary.json: 'end' is no local time",
    )
    for field in ("host_cpu_count", "potential_caching", "host_memory_GB"):
        expect(
            len(summary[field]) == summary["num_hosts"],
            f"summary.json: {field} is not one per host",
        )
        expect(
            all(is_figure(v) for v in summary[field]),
            f"summary.json: {field} holds {summary[field]}",
        )
    expect(
        set(summary["potential_caching"]) <= {0, 1},
        "summary.json: potential_caching is not of 0 and 1",
    )
    expect("MemTotal" in summary["host_meminfo"], "summary.json: host_meminfo lacks MemTotal")


def check_summary(summary, processes):
    """What the report and the check of the rules take from summary.json."""
    check_head(summary)
    expect(summary["num_accelerators"] == processes, f"{summary['num_accelerators']} accelerators")
    expect(summary["num_files_train"] == FILES, f"num_files_train is {summary['num_files_train']}")
    expect(summary["epochs"] == EPOCHS, f"epochs is {summary['epochs']}")
    metric = summary["metric"]
    for field in PER_EPOCH:
        expect(len(metric.get(field, [])) == EPOCHS, f"metric.{field} is not one per epoch")
        expect(all(is_figure(v) for v in metric[field]), f"metric.{field} holds {metric[field]}")
    for field in FIGURES + CHECKPOINT_FIGURES:
        expect(is_figure(metric.get(field)), f"metric.{field} is {metric.get(field)!r}")
    expect(
        metric.get("train_au_meet_expectation") in ("success", "fail"), "train_au_meet_expectation"
    )
    mean = statistics.fmean(metric["train_au_percentage"])
    expect(
        abs(mean - metric["train_au_mean_percentage"]) < 1e-6,
        "the AU's mean is not that of its epochs",
    )
    expect(0 < mean <= 100.5, f"AU {mean} %")
    rates = metric["train_throughput_samples_per_second"]
    expect(
        abs(statistics.pstdev(rates) - metric["train_throughput_stdev_samples_per_second"]) < 1e-6,
        "stdev",
    )
    mib = metric["train_throughput_mean_samples_per_second"] * RECORD_BYTES / 1048576
    expect(
        abs(mib - metric["train_io_mean_MB_per_second"]) < 1e-6 * mib,
        "MB/s is not samples/s times bytes",
    )


def check_rank(folder, rank, summary):
    """<rank>_output.json and <rank>_per_epoch_stats.json; AU and rate of this rank, per epoch."""
    output = read_json(os.path.join(folder, f"{rank}_output.json"))
    stats = read_json(os.path.join(folder, f"{rank}_per_epoch_stats.json"))
    for field in (
        "hostname",
        "host_memory_GB",
        "host_cpu_count",
        "host_processor_name",
        "host_meminfo",
    ):
        expect(field in output, f"{rank}_output.json lacks {field}")
    figures = []
    steps = FILES // BATCH // summary["num_accelerators"]
    for epoch in map(str, range(1, EPOCHS + 1)):
        entry, span = output[epoch], stats[epoch]
        for part in ("load", "proc", "compute"):
            times = entry[part]["block1"]
            expect(
                len(times) == steps and all(is_figure(t) for t in times),
                f"{rank}: {part} of epoch {epoch}",
            )
        whole = sum(entry["proc"]["block1"])
        expect(whole >= 0.8 * steps * STEP, f"{steps} steps of {STEP} s took {whole} s")
        expect(
            isinstance(entry["host_meminfo"], dict) and entry["host_meminfo"],
            "host_meminfo of an epoch",
        )
        for name in (span, span["block1"]):
            expect(
                isinstance(name["duration"], str) and float(name["duration"]) >= 0,
                "duration is no text",
            )
            datetime.datetime.strptime(name["start"], "%Y-%m-%dT%H:%M:%S.%f")
            datetime.datetime.strptime(name["end"], "%Y-%m-%dT%H:%M:%S.%f")
        figures.append((entry["au"]["block1"], entry["throughput"]["block1"]))
    if rank == 0:
        save = stats["2"]["save_ckpt1"]
        expect(
            is_figure(save["duration"]) and is_figure(save["throughput"]), "save_ckpt1 of epoch 2"
        )
    return figures


def check_ranks(folder, summary):
    """The ranks' own files add up to the summary."""
    ranks = [check_rank(folder, rank, summary) for rank in range(summary["num_accelerators"])]
    expect(not os.path.exists(os.path.join(folder, f"{len(ranks)}_output.json")), "a rank too many")
    for epoch in range(EPOCHS):
        au = statistics.fmean(rank[epoch][0] for rank in ranks)
        rate = sum(rank[epoch][1] for rank in ranks)
        metric = summary["metric"]
        expect(abs(au - metric["train_au_percentage"][epoch]) < 1e-6, f"AU of epoch {epoch + 1}")
        expect(
            abs(rate - metric["train_throughput_samples_per_second"][epoch]) < 1e-6 * rate, "rate"
        )


def check_configuration(folder, workload, params, workflow):
    """What the check of the rules takes from dlio_config."""
    configs = {
        name: read_yaml(read_text(os.path.join(folder, SUBDIR, name)))
        for name in ("config.yaml", "overrides.yaml", "hydra.yaml")
    }
    overrides = configs["overrides.yaml"]
    expect(overrides[0] == f"workload={workload}", f"overrides.yaml begins with {overrides[0]!r}")
    model, accelerator = overrides[0].partition("=")[2].rsplit("_", 1)
    expect(
        (model, accelerator) == tuple(workload.rsplit("_", 1)),
        "model and accelerator of the workload",
    )
    given = {}
    for line in overrides[1:]:
        expect(line.startswith("++workload."), f"overrides.yaml holds {line!r}")
        key, _, value = line[len("++workload.") :].partition("=")
        given[key] = value
    expect(given == {k: str(v) for k, v in params.items()}, f"overrides.yaml says {given}")
    config = configs["config.yaml"]["workload"]
    expect(config["model"]["name"] == "unet3d", "config.yaml: model.name")
    for key, value in workflow.items():
        expect(config["workflow"].get(key) is value, f"config.yaml: workflow.{key}")
    for key, value in params.items():
        section, _, name = key.partition(".")
        expect(config[section][name] == value, f"config.yaml: {key} is {config[section][name]!r}")
    expect(
        isinstance(config["dataset"]["record_length_bytes"], int),
        "config.yaml: record_length_bytes",
    )
    hydra = configs["hydra.yaml"]["hydra"]
    expect(hydra["run"]["dir"] == folder, f"hydra.yaml: run.dir is {hydra['run']['dir']!r}")
    expect(hydra["output_subdir"] == SUBDIR, "hydra.yaml: output_subdir")


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_json(path):
    def refuse(word):
        raise Wrong(f"{path}: {word} is no JSON")

    return json.loads(read_text(path), parse_constant=refuse)


# --- What the driver does ---


class Driver:
    def __init__(self, programs, folder):
        self.folder = folder
        self.benchmark = os.path.join(programs, "dlio_benchmark")
        self.query = os.path.join(programs, "dlio_benchmark_query")
        self.configs = os.path.join(folder, "configs")
        self.data = os.path.join(folder, "data")
        self.mpirun = shutil.which("mpirun")
        self.processes = 2 if self.mpirun else 1
        os.makedirs(os.path.join(self.configs, "workload"))
        for name, text in (
            ("unet3d_h100", WORKLOAD),
            (
                "unet3d_datagen",
                WORKLOAD.replace("generate_data: False", "generate_data: True")
                .replace("train: True", "train: False")
                .replace("checkpoint: True", "checkpoint: False"),
            ),
        ):
            with open(
                os.path.join(self.configs, "workload", name + ".yaml"), "w", encoding="utf-8"
            ) as file:
                file.write(text)

    def execute(self, command, result, workload, params):
        words = [
            self.benchmark,
            f"workload={workload}",
            f"++hydra.run.dir={result}",
            f"++hydra.output_subdir={SUBDIR}",
        ]
        words += [f"++workload.{key}={value}" for key, value in params.items()]
        words.append(f"--config-dir={self.configs}")
        environment = dict(os.environ)
        if self.mpirun:
            words = [
                self.mpirun,
                "-n",
                str(self.processes),
                "-host",
                f"127.0.0.1:{self.processes}",
                "--bind-to",
                "none",
                "--map-by",
                "node",
                "--oversubscribe",
                "--allow-run-as-root",
            ] + words
            environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
            timeout=300,
        )
        expect(
            done.returncode == 0,
            f"{command}: exit code {done.returncode}:\n{done.stdout}{done.stderr}",
        )
        expect("[OUTPUT]" in done.stdout, f"{command}: nothing is marked [OUTPUT]:\n{done.stdout}")
        log = read_text(os.path.join(result, "dlio.log"))
        expect(log == done.stdout, f"{command}: dlio.log differs from what was printed")
        return done.stdout

    def datasize(self, memory_gib, accelerators):
        """As many files as five times the memory takes, and 500 steps an epoch (rules of v2.0)."""

        def value(key):
            words = [
                self.query,
                "workload=unet3d_h100",
                f"++workload.workflow.query={key}",
                f"--config-dir={self.configs}",
            ]
            return int(subprocess.run(words, text=True, capture_output=True, check=True).stdout)

        per_file, record = value("dataset.num_samples_per_file"), value(
            "dataset.record_length_bytes"
        )
        by_memory = 5 * memory_gib * 2**30 // (per_file * record)
        by_steps = 500 * accelerators * value("reader.batch_size") // per_file
        return max(by_memory, by_steps)

    def datagen(self):
        result = os.path.join(self.folder, "results/training/unet3d/datagen/20260101_000000")
        params = {"dataset.num_files_train": FILES, "dataset.data_folder": self.data}
        self.execute("datagen", result, "unet3d_datagen", params)
        check_configuration(
            result,
            "unet3d_datagen",
            params,
            {"generate_data": True, "train": False, "checkpoint": False},
        )
        check_head(read_json(os.path.join(result, "summary.json")))
        names = sorted(os.listdir(os.path.join(self.data, "train")))
        expect(
            len(names) == FILES and names[0] == f"img_00_of_{FILES}.npz",
            f"datagen made {names[:3]} ...",
        )

    def run(self, number):
        result = os.path.join(self.folder, f"results/training/unet3d/run/20260101_00000{number}")
        params = {
            "dataset.num_files_train": FILES,
            "dataset.data_folder": self.data,
            "reader.read_threads": 2,
            "checkpoint.checkpoint_folder": os.path.join(self.folder, "checkpoints"),
        }
        text = self.execute("run", result, "unet3d_h100", params)
        for line in (
            "[METRIC] Number of Simulated Accelerators: ",
            "[METRIC] Training Accelerator Utilization [AU] (%): ",
            "[METRIC] Training Throughput (samples/second): ",
            "[METRIC] Training I/O Throughput (MB/second): ",
            "[METRIC] train_au_meet_expectation: ",
        ):
            expect(line in text, f"run prints no '{line}'")
        check_configuration(
            result,
            "unet3d_h100",
            params,
            {"generate_data": False, "train": True, "checkpoint": True},
        )
        summary = read_json(os.path.join(result, "summary.json"))
        check_summary(summary, self.processes)
        check_ranks(result, summary)
        return summary


def play(programs):
    with tempfile.TemporaryDirectory(prefix="forebay-mlpstorage-") as folder:
        driver = Driver(os.path.realpath(programs), folder)
        files = driver.datasize(memory_gib=1, accelerators=2)
        expect(files == 5 * 2**30 // RECORD_BYTES, f"datasize says {files} files")
        driver.datagen()
        summaries = [driver.run(number) for number in (1, 2)]
        au = statistics.fmean(s["metric"]["train_au_mean_percentage"] for s in summaries)
        print(
            f"{driver.processes} processes, {len(summaries)} runs, AU {au:.1f} %: nothing is amiss"
        )


def self_test():
    """Every check of the summary notices its field's absence, and YAML comes back as it was."""
    sample = {
        "start": datetime.datetime.now().isoformat(timespec="microseconds"),
        "end": (datetime.datetime.now() + datetime.timedelta(seconds=1)).isoformat(
            timespec="microseconds"
        ),
        "num_accelerators": 1,
        "num_hosts": 1,
        "hostname": "h",
        "num_files_train": FILES,
        "num_files_eval": 0,
        "num_samples_per_file": 1,
        "host_cpu_count": [2],
        "host_processor_name": "c",
        "potential_caching": [1],
        "host_cpuinfo": {},
        "host_meminfo": {"MemTotal": "1 kB"},
        "host_memory_GB": [1.5],
        "data_size_per_host_GB": 0.1,
        "epochs": EPOCHS,
        "metric": {
            "train_au_percentage": [90.0] * EPOCHS,
            "train_throughput_samples_per_second": [5.0] * EPOCHS,
            "train_au_meet_expectation": "success",
        }
        | dict.fromkeys(FIGURES + CHECKPOINT_FIGURES, 0.0)
        | {
            "train_au_mean_percentage": 90.0,
            "train_throughput_mean_samples_per_second": 5.0,
            "train_io_mean_MB_per_second": 5.0 * RECORD_BYTES / 1048576,
        },
    }
    check_summary(sample, 1)
    spoilt = []
    for field in sample:
        spoilt.append({k: v for k, v in sample.items() if k != field})
    for field in sample["metric"]:
        for value in (None, "x", [None] * EPOCHS, math.nan):
            one = copy.deepcopy(sample)
            one["metric"][field] = value
            spoilt.append(one)
    for one in spoilt:
        try:
            check_summary(one, 1)
        except (Wrong, TypeError):
            continue
        raise SystemExit(f"not noticed: {one}")
    text = "a:\n  b: 'off'\n  c: 0.5\n  d: null\n  e:\n  - x=1\n  - k: true\n    l: []\nf: {}\n"
    read = {"a": {"b": "off", "c": 0.5, "d": None, "e": ["x=1", {"k": True, "l": []}]}, "f": {}}
    expect(read_yaml(text) == read, f"YAML is read as {read_yaml(text)}")
    print(f"{len(spoilt)} spoilt summaries noticed")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", help="the folder of dlio_benchmark and dlio_benchmark_query")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    try:
        if arguments.self_test:
            self_test()
        elif arguments.bin:
            play(arguments.bin)
        else:
            parser.error("--bin or --self-test")
    except Wrong as wrong:
        sys.exit(f"play_driver: {wrong}")


if __name__ == "__main__":
    main()
